"""How the tests of pkv-fragsim call it; the program is the first argument of the script."""
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
TRACE = "arrived_at,num_prefill_tokens,num_decode_tokens\n" + "".join(
    f"{k / 5},{20 + k * 37 % 300},{1 + k * 53 % 200}\n" for k in range(150)) + "x,1,1\n"


def run(*args, cwd=None, stdin="", stdout=subprocess.PIPE, before=None, env=None):
    done = subprocess.run([PROGRAM, *map(str, args)], cwd=cwd, input=stdin.encode(), stdout=stdout,
                          stderr=subprocess.PIPE, timeout=120, preexec_fn=before, env=env)
    return done.returncode, (done.stdout or b"").decode(), done.stderr.decode()


def good(*args, cwd=None, stdin=""):
    code, out, err = run(*args, cwd=cwd, stdin=stdin)
    expect(code == 0 and err == "", f"{args}: exit {code}, {err}")
    return out


def report(*args, cwd=None):
    return json.loads(good(*args, "--json", "-", cwd=cwd))


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(words, *args, cwd=None, stdin=""):
    code, out, err = run(*args, cwd=cwd, stdin=stdin)
    expect(code == 2 and words in err and err.count("\n") == 1 and out == "",
           f"{args}: exit {code}, said {err!r}, expected {words!r}; printed {out[:80]!r}")


def close(got, want, what):
    expect(abs(got - want) <= 1e-12 * abs(want), f"{what}: {got}, expected {want}")


def in_folder(test):
    def wrapped():
        with tempfile.TemporaryDirectory() as folder:
            test(pathlib.Path(folder))
    wrapped.__name__ = test.__name__
    return wrapped


def flat(value, prefix=""):
    """{column: text} of an object of the JSON, as the manual says."""
    columns = {}
    for key, item in value.items():
        if isinstance(item, dict):
            columns.update(flat(item, "" if key in ("split", "external_split") else f"{prefix}{key}_"))
        elif not isinstance(item, list):
            columns[prefix + key] = item
    return columns


def same(text, value):
    if value is None or isinstance(value, bool):
        return text == {None: "", True: "true", False: "false"}[value]
    return text == value if isinstance(value, str) else float(text) == value


def compare_row(row, policy, config):
    want = flat(policy)
    want.update((k, v) for k, v in flat({**config, "model": None}).items()
                if k not in ("window", "model"))
    if policy["split"] is None:
        want.update((name, None) for name in "token reservation internal external rounding unusable short "
                    "limited idle of_which_watermark of_which_tail of_which_cached of_which_dead "
                    "logical".split())
        del want["split"]
    expect(set(row) == set(want), f"columns {set(row) ^ set(want)}")
    for name, text in row.items():
        expect(same(text, want[name]), f"{name}: {text!r} in CSV, {want[name]!r} in JSON")
