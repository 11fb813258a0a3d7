#!/usr/bin/env python3
"""bench/peers/run_peers.py with a peer made for the test: turns, ratio, and what it refuses. Prints TAP.

usage: test_peers.py RUN_PEERS PKV_BENCH
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import tap_main  # noqa: E402

RUN_PEERS, PKV_BENCH = (pathlib.Path(p).resolve() for p in sys.argv[1:])
SHAPE = ["--sequences", "2", "--keys", "64", "--rounds", "3", "--samples", "3", "--profile", "ci",
         "--threads", "1", "--block-tokens", "8"]
# Notes its call, then answers.
PEER = """#!{python}
import sys
open("{log}", "a").write(" ".join(sys.argv[1:]) + "\\n")
print('{answer}')
"""


def run(*args):
    env = {k: v for k, v in os.environ.items() if k != "PKV_ISA"}
    done = subprocess.run([sys.executable, RUN_PEERS, *args], capture_output=True, text=True, timeout=120, env=env)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def make_peer(folder, answer):
    peer, log = folder / "peer.py", folder / "log.txt"
    peer.write_text(PEER.format(python=sys.executable, log=log, answer=answer))
    peer.chmod(0o755)
    return peer, log


def test_nothing_to_measure():
    code, out, err = run()
    expect(code == 0 and err == "", f"exit {code}, said {err!r}")
    for word in ("C3  vLLM CPU attention: not measured", "C4  ggml flash attention: not measured", "5.7-10.5"):
        expect(word in out, f"{word!r} is missing")


def test_ratio():
    with tempfile.TemporaryDirectory() as name:
        peer, log = make_peer(pathlib.Path(name), '{"name": "slow peer", "samples_ns": [9e12, 1e12, 2e12]}')
        code, out, err = run("--program", PKV_BENCH, "--peer", str(peer), *SHAPE)
        expect(code == 0, f"exit {code}, said {err!r}")
        found = re.match(r"slow peer: 2000000\.000 ms; pagedkv ([0-9.]+) ms; time of pagedkv / time of the peer "
                         r"([0-9.]+) \[[0-9.]+, [0-9.]+\], 3 rounds\n$", out)
        expect(found and float(found[1]) > 0 and float(found[2]) < 0.01, f"said {out!r}")
        calls = log.read_text().splitlines()
        expect(len(calls) == 3, f"{len(calls)} calls in three rounds")
        expect(calls[0] == "--sequences 2 --keys 64 --heads 32 --kv-heads 8 --head-dim 128 --dtype f16 --threads 1",
               calls[0])


def test_refusals():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for answer in ("nothing", '{"name": "x"}', '{"name": "x", "samples_ns": []}', "[1]"):
            peer, _ = make_peer(folder, answer)
            code, _, err = run("--program", PKV_BENCH, "--peer", str(peer), *SHAPE)
            expect(code == 2 and "not the JSON that --help describes" in err, f"{answer}: {code} {err!r}")
        code, _, err = run("--program", folder / "missing", "--peer", "true", *SHAPE)
        expect(code == 2 and "missing" in err, f"no program: {code} {err!r}")
        code, _, err = run("--program", PKV_BENCH, "--peer", "false", *SHAPE)
        expect(code == 2 and "exit 1" in err, f"failing peer: {code} {err!r}")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
