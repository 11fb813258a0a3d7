#!/usr/bin/env python3
"""The command lines of the test programs with their own main: help, and what they refuse. Prints TAP.

usage: test_program_args.py RANDOM_OPS CLOSURE CHECK_KERNELS
"""
import os
import pathlib
import subprocess
import sys

import tap_main

RANDOM_OPS, CLOSURE, CHECK_KERNELS = (pathlib.Path(p).resolve() for p in sys.argv[1:])
HUGE = "99999999999999999999999"


def run(program, *args, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("PKV_SEED", "PKV_ISA")}
    return subprocess.run([program, *args], capture_output=True, text=True, timeout=60,
                          env={**clean, **env})


def refused(words, program, *args, **env):
    done = run(program, *args, **env)
    said = f"{program.name} {args} {env}: exit {done.returncode}, said {done.stderr!r}"
    assert done.returncode == 2 and words in done.stderr, said
    assert done.stdout == "", f"{program.name} {args}: printed {done.stdout!r}"


def test_help():
    for program, options in (
            (RANDOM_OPS, "seeds seed ops nodes alone quick trace help"),
            (CLOSURE, "blocks seqs max-blocks block-tokens vocab namespaces steps host holds groups window "
                      "partial lru in-order policy verify digests max-states help"),
            (CHECK_KERNELS, "case seed first-seed times quick bench op threads mib accuracy dump list verbose")):
        done = run(program, "--help")
        assert done.returncode == 0 and done.stderr == "", f"{program.name} --help: {done.stderr}"
        for option in options.split():
            assert f"--{option} " in done.stdout, f"{program.name} --help lacks --{option}"
    assert "best" in run(CHECK_KERNELS, "--help").stdout, "check_kernels --help lacks the level best"


def test_random_ops():
    for name in ("--seeds", "--seed", "--ops", "--nodes"):
        for value in ("abc", "", "-1", "1x", "+1", " 1", "1.5", HUGE):
            refused(name, RANDOM_OPS, name, value)
    refused("PKV_SEED", RANDOM_OPS, PKV_SEED="abc")
    refused("'stray'", RANDOM_OPS, "stray")
    refused("--help", RANDOM_OPS, "--frobnicate")
    done = run(RANDOM_OPS, "--seeds", "1", "--ops", "20")
    assert done.returncode == 0 and "not everything was reached" in done.stdout, done.stdout
    assert done.stdout.endswith("2 passed, 0 failed, 0 skipped\n"), done.stdout


def test_closure():
    for value in ("abc", "", "0", "17", HUGE):
        refused("--blocks", CLOSURE, "--blocks", value)
    for value in ("", "full+", "full+half", "full+full+full"):
        refused("--groups", CLOSURE, "--groups", value)
    refused("'stray'", CLOSURE, "stray")
    refused("--help", CLOSURE, "--frobnicate")


def test_check_kernels():
    for name in ("--seed", "--first-seed", "--times"):
        for value in ("abc", "", "-1", "1x", HUGE):
            refused("not a usable number", CHECK_KERNELS, name, value)
    for name in ("--threads", "--mib"):
        for value in ("abc", "", "0", "-1", HUGE):
            refused("not a usable number", CHECK_KERNELS, name, value)
    refused("PKV_THREADS", CHECK_KERNELS, PKV_THREADS="two")
    refused("--op is one of decode", CHECK_KERNELS, "--bench", "--op", "nope")
    for more in ((), ("--list",), ("--quick",), ("--bench",)):
        refused("no case is called 'nope'", CHECK_KERNELS, "--case", "nope", *more)
    refused("PKV_ISA=avx9 is no level", CHECK_KERNELS, PKV_ISA="avx9")
    assert run(CHECK_KERNELS, "--list", PKV_ISA="best").returncode == 0


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
