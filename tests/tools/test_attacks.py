#!/usr/bin/env python3
"""Every file of tests/attacks given to the programs as a user would: the exit status, one line on
stderr that says what the manifest wants and could not hurt a terminal, nothing on stdout, little
time and little memory. Prints TAP.

usage: test_attacks.py PKV_INFO PKV_GENERATE
"""
import concurrent.futures
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile

import tap_main

INFO, GENERATE = (pathlib.Path(p).resolve() for p in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/attacks"
CASES = json.loads((FOLDER / "manifest.json").read_text(encoding="ascii"))
MODEL, WEIGHTS = FOLDER / "gguf/ok-base.gguf", FOLDER / "safetensors/ok-base.safetensors"
SANITIZED = b"__asan_init" in GENERATE.read_bytes() or b"__tsan_init" in GENERATE.read_bytes()
MOST_BYTES = 512 << 20  # of address space: the pool of an engine has 256 MiB unless told otherwise
MOST_SECONDS = 2  # of CPU
EXITS = {"OK": 0, "FORMAT": 3, "UNSUPPORTED": 3, "IO": 3, "INVALID_ARG": 3}
MODELS = ("safetensors", "index", "config", "gguf", "split", "llama2c")


def limit():
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
        resource.setrlimit(resource.RLIMIT_CPU, (MOST_SECONDS, MOST_SECONDS))


def run(*args):
    env = {k: v for k, v in os.environ.items() if k != "PKV_ISA"}
    done = subprocess.run([str(a) for a in args], capture_output=True, stdin=subprocess.DEVNULL, timeout=60,
                          env=env, preexec_fn=limit)
    return done.returncode, done.stdout, done.stderr


def judge(want, says, *args):
    """What is wrong with how a program takes a file; None: nothing."""
    code, out, err = run(*args)
    shown = f"{' '.join(map(str, args))}: exit {code}, said {err[:300]!r}"
    if code != want:
        return f"{shown}, expected exit {want}"
    text = err.decode(errors="replace")
    if any(c < " " or c > "~" for line in text.splitlines() for c in line):
        return f"{shown}: odd characters"
    if code == 0:
        return None
    if text.count("\n") != 1 or not text.startswith(pathlib.Path(args[0]).name + ": "):
        return f"{shown}: not one line"
    if says not in text:
        return f"{shown}, expected {says!r}"
    return f"{shown}: printed {out[:80]!r}" if out else None


def weigh(*args):
    """As judge, where any of two ends is right: a model may be wrong and what it says of KV is not."""
    code, _, err = run(*args)
    if code not in (0, 2, 3) or (code != 0 and err.count(b"\n") != 1):
        return f"{' '.join(map(str, args))}: exit {code}, said {err[:300]!r}"
    return None


def model_commands(case, path):
    want, says = EXITS[case["status"]], case["says"]
    yield judge(want, says, INFO, "model", path)
    yield weigh(INFO, "kv-size", path)
    yield judge(want, says, GENERATE, "-m", path, "--ids", "0", "-n", 2, "--kv-memory", "1MiB")


def tokenizer_commands(case, path):
    want, says = EXITS[case["status"]], case["says"]
    more = ["--splitter", "gpt2"] if case["kind"] == "tiktoken" else []
    if case.get("vocab_size", 0) > 1 << 24:
        want, says = 2, "--vocab-size wants"
    size = ["--vocab-size", case["vocab_size"]] if case.get("vocab_size") else []
    yield judge(want, says, INFO, "tokenize", "-t", path, *more, *size, "ab a")
    if case["kind"] != "tok512" and want != 0:
        yield judge(want, says, GENERATE, "-m", MODEL, "-t", path, *more, "-p", "a", "-n", 1)


def request_commands(case, path):
    command = [GENERATE, "-m", MODEL, "--requests", path, "--kv-memory", "1MiB"]
    if case["exit"] != 4:
        yield judge(case["exit"], case["says"], *command)
        return
    code, out, err = run(*command)  # a refusal is an answer
    if code != 4 or err or case["says"] not in json.loads(out)["error"]["message"]:
        yield f"{path}: exit {code}, printed {out!r}, said {err!r}"


def commands(case):
    path = FOLDER / case["file"]
    if case["kind"] == "requests":
        return list(request_commands(case, path))
    if case["kind"] not in MODELS:
        return list(tokenizer_commands(case, path))
    if case["kind"] != "config":
        return list(model_commands(case, path))
    with tempfile.TemporaryDirectory() as folder:  # a configuration needs its name, and weights
        shutil.copy(path, pathlib.Path(folder) / "config.json")
        shutil.copy(WEIGHTS, pathlib.Path(folder) / "model.safetensors")
        return list(model_commands(case, folder))


def check_kind(kind):
    cases = [case for case in CASES if case["kind"] == kind]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = [line for lines in pool.map(commands, cases) for line in lines if line]
    if not cases or found:
        raise AssertionError("\n".join(found) or f"no case of {kind}")


def test_folder_is_what_the_script_writes():
    code, out, err = run(sys.executable, ROOT / "scripts/make_attacks.py", "--check")
    if code != 0:
        raise AssertionError((out + err).decode())


def add_kinds(names):
    for kind in sorted({case["kind"] for case in CASES}):
        def test(kind=kind):
            check_kind(kind)
        test.__name__ = "test_" + kind
        names[test.__name__] = test


if __name__ == "__main__":
    add_kinds(globals())
    sys.exit(tap_main.run_tests(globals()))
