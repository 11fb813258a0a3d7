"""How the tests of pkv-generate call it; the program is the first argument of the script."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import tap_main

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SHARED = pathlib.Path(os.environ.get("PKV_SHARED") or os.environ.get("PKV_SHARED_DEFAULT") or ROOT / "../shared")
STORIES = SHARED / "models/stories260K"


def stories(name=""):
    """The trained test model, as a folder or one of its files; a test without it is skipped."""
    path = STORIES / name if name else STORIES
    if not path.exists():
        raise tap_main.Skip(f"{path} is missing")
    return path


def run(*args, stdin="", cwd=None, env=None, stdout=subprocess.PIPE):
    clean = {k: v for k, v in os.environ.items() if k != "PKV_ISA"}
    done = subprocess.run([PROGRAM, *map(str, args)], input=stdin.encode(), stdout=stdout, cwd=cwd,
                          stderr=subprocess.PIPE, timeout=120, env={**clean, **(env or {})})
    return done.returncode, done.stdout or b"", done.stderr.decode()


def good(*args, stdin="", cwd=None):
    code, out, err = run(*args, stdin=stdin, cwd=cwd)
    expect(code == 0 and err == "", f"{args}: exit {code}, {err}")
    return out


def document(*args):
    return json.loads(good(*args, "--json"))


def answers(requests, *args, code=0):
    """The lines for a list of requests."""
    got, out, err = run("-m", stories(), "--requests", "-", *args, stdin=lines(requests))
    expect(got == code and err == "", f"{args}: exit {got}, {err}")
    return [json.loads(line) for line in out.splitlines()]


def lines(requests):
    return "".join(json.dumps(r) + "\n" for r in requests)


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(code, words, *args, stdin="", cwd=None, env=None):
    got, out, err = run(*args, stdin=stdin, cwd=cwd, env=env)
    expect(got == code and words in err, f"{args}: exit {got}, said {err!r}, expected {code}, {words!r}")
    expect(err.startswith("pkv-generate: ") and err.count("\n") == 1 and out == b"",
           f"{args}: not one line: {err!r}, printed {out[:80]!r}")


def in_folder(test):
    def wrapped():
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
    wrapped.__name__ = test.__name__
    return wrapped
