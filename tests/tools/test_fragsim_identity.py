#!/usr/bin/env python3
"""The simulator's outputs are the same bytes whichever compiler built it and however it optimised:
pkv-fragsim is built from its sources with gcc and clang at -O0 and -O3, and the builds run the same
command lines. Prints TAP.

usage: test_fragsim_identity.py PROGRAM

PROGRAM, the build under test, is compared with them.
"""
import concurrent.futures
import hashlib
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import tap_main
from tap_main import Skip

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCES = sorted([*ROOT.glob("src/tools/fragsim*.c"),
                  *(ROOT / f"src/tools/tool_{name}.c" for name in ("clock", "file", "values")),
                  *ROOT.glob("src/sim/*.c"), *ROOT.glob("src/common/*.c"), *ROOT.glob("src/blockmgr/*.c")])
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-ffp-contract=off", f"-I{ROOT}/include", f"-I{ROOT}/src", f"-I{ROOT}/src/tools"]
BUILDS = [(compiler, level) for compiler in ("gcc", "clang") for level in ("-O0", "-O3")]

ALLOCATORS = ("buddy", "ideal", "first-fit", "best-fit", "next-fit", "compact")
POLICIES = [f"{kind}:alloc={alloc}" for kind in ("max", "pow2", "oracle") for alloc in ALLOCATORS] + [
    "static-batch", "orca-real:max_tokens=1500", "vattn:page=64K", "vattn:page=2M", "paged:block=16",
    "paged+swap:block=8", "paged+prefix:block=16", "paged+fork:n=3", "paged+beam:width=3,switch=0.2"]
EVERY_POLICY = " ".join(f"--policy {shlex.quote(p)}" for p in POLICIES)
LAWS = ("sharegpt-like", "alpaca-like", "fixed:50,60", "uniform:1-90,1-300", "lognormal:60,1.7,90,0.3",
        "gamma:60,0.4,90,3", "zipf:1.2,900,0.7,500")
ARRIVALS = ("poisson", "constant", "artifact", "burst --burst-size 7", "gamma --burstiness 0.3")

# Files that a line names are compared too.
LINES = [
    f"run {EVERY_POLICY} --num-prompts 300 --shared-prefix 40 --swap-space 2GiB --kv-tokens 9000 --seed 5 "
    "--json a.json --csv a.csv --events a.jsonl --timeseries a.series.csv --threads 2",
    f"run {EVERY_POLICY} --num-prompts 200 --shared-prefix 40 --swap-space 1GiB --concurrency 20 --seed 6 "
    "--prefill-rate 9000 --prefill-chunk 300 --max-num-batched-tokens 700 --admit skip --window all --json b.json",
    "sweep --policy paged --policy oracle --num-prompts 200 --request-rate 1-9*3 --block-tokens 4,32 --csv c.csv "
    "--json c.json --threads 2",
    "paper --csv d.csv --threads 2",
] + [f"run --policy paged --num-prompts 400 --lengths {law} --json -" for law in LAWS] + [
    f"run --policy oracle --num-prompts 400 --arrival {arrival} --json -" for arrival in ARRIVALS]


def build(compiler, level, folder):
    """The program, compiled file by file; through ccache where that is there."""
    folder.mkdir()
    cache = [shutil.which("ccache")] if shutil.which("ccache") else []

    def compile_one(source):
        target = folder / f"{source.parent.name}_{source.stem}.o"
        done = subprocess.run([*cache, compiler, level, *FLAGS, "-c", source, "-o", target], capture_output=True,
                              text=True)
        if done.returncode != 0:
            raise AssertionError(f"{compiler} {level} {source.name}: {done.stderr[:2000]}")
        return target

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        objects = list(pool.map(compile_one, SOURCES))
    program = folder / "pkv-fragsim"
    done = subprocess.run([compiler, *objects, "-ljansson", "-lm", "-lpthread", "-o", program], capture_output=True,
                          text=True)
    if done.returncode != 0 and "jansson" in done.stderr:
        raise Skip(f"{compiler} does not find jansson")
    if done.returncode != 0:
        raise AssertionError(f"{compiler} {level}: {done.stderr[:2000]}")
    return program


def outputs(program):
    """A digest per command line, of its exit status, stdout and files."""
    found = {}
    for line in LINES:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([program, *shlex.split(line)], cwd=folder, capture_output=True, timeout=600)
            digest = hashlib.sha256(b"%d\n" % done.returncode + done.stdout)
            files = sorted(pathlib.Path(folder).iterdir())
            if done.returncode != 0:
                raise AssertionError(f"{line}: exit {done.returncode}: {done.stderr.decode()}")
            for path in files:
                digest.update(path.name.encode() + b"\0" + path.read_bytes())
            if len(files) != sum(word in line for word in ("--json a", "--json b", "--json c", "--csv", "--events",
                                                           "--timeseries")):
                raise AssertionError(f"{line}: wrote {[p.name for p in files]}")
            found[line] = digest.hexdigest()
    return found


def expect_same(name, got, want):
    different = [line for line in LINES if got[line] != want[line]]
    if different:
        raise AssertionError(f"{name}: {len(different)} of {len(LINES)} command lines give other bytes: "
                             + "; ".join(different))


def test_compilers_and_levels():
    missing = [compiler for compiler in ("gcc", "clang") if not shutil.which(compiler)]
    if missing:
        raise Skip(f"SKIPPED: {', '.join(missing)} is missing")
    want = outputs(PROGRAM)
    if len(set(want.values())) != len(LINES):
        raise AssertionError("two command lines give the same bytes: the comparison would not notice a change")
    with tempfile.TemporaryDirectory() as folder:
        for compiler, level in BUILDS:
            program = build(compiler, level, pathlib.Path(folder) / f"{compiler}{level}")
            expect_same(f"{compiler} {level}", outputs(program), want)


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
