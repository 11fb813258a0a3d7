#!/usr/bin/env python3
"""pkv-info as a user meets it: what it says about this machine, its JSON, wrong command lines, and
levels forced by PKV_ISA; which verbs a build without the reference transformer has. Prints TAP.

usage: test_info_cli.py PROGRAM with|without    the reference transformer
"""
import json
import os
import pathlib
import subprocess
import sys

import tap_main

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
WITH_MODEL = sys.argv[2] == "with"
VERBS = ["machine", "model", "tokenize", "kv-size"]
LEVELS = ["scalar", "avx2", "avx512", "avx512bf16", "amx", "neon"]
FLOATS = ["f32", "f16", "bf16"]
DTYPES = FLOATS + ["e4m3", "e5m2", "int8", "int4"]


def run(*args, isa=None, stdout=subprocess.PIPE):
    env = {k: v for k, v in os.environ.items() if k != "PKV_ISA"}
    if isa is not None:
        env["PKV_ISA"] = isa
    done = subprocess.run([PROGRAM, *args], stdout=stdout, stderr=subprocess.PIPE, text=True, env=env,
                          timeout=60)
    return done.returncode, done.stdout, done.stderr


def expect(condition, what):
    if not condition:
        raise AssertionError(what)


def refused(words, *args, isa=None):
    code, out, err = run(*args, isa=isa)
    expect(code == 2 and words in err, f"{args} {isa}: exit {code}, said {err!r}, expected {words!r}")
    expect(err.startswith("pkv-info: ") and err.count("\n") == 1, f"{args}: not one line: {err!r}")
    expect(out == "", f"{args}: printed {out!r}")


def machine(*args, isa=None):
    code, out, err = run("machine", "--json", *args, isa=isa)
    expect(code == 0 and err == "", f"{args} {isa}: exit {code}, said {err!r}")
    return json.loads(out)


def present(info):
    return [level["name"] for level in info["levels"] if level["present"]]


def test_help():
    code, out, err = run("--help")
    expect(code == 0 and err == "", "--help")
    for word in (*VERBS, "--version", "Exit status"):
        expect(word in out, f"{word} is not in the help")
    expect(run("-h")[1] == out, "-h says something else")
    expect(run("--version")[1].startswith("pkv-info "), "--version")
    code, out, err = run("machine", "--help")
    expect(code == 0 and err == "", "machine --help")
    for word in ("machine", "--isa", "--json", "PKV_ISA", *LEVELS, "best"):
        expect(word in out, f"{word} is not in the help of machine")


def test_help_of_verbs():
    for verb in VERBS[1:] if WITH_MODEL else []:
        code, out, err = run(verb, "--help")
        expect(code == 0 and err == "" and out.startswith(f"Usage: pkv-info {verb} "), f"{verb} --help")
        expect(all(len(line) <= 100 for line in out.splitlines()), f"{verb} --help: a long line")
        expect(run(verb, "--json", "-h")[1] == out, f"{verb} -h says something else")


def test_wrong_command_lines():
    refused("a verb is missing")
    refused("unknown verb 'machines'", "machines")
    refused("unknown verb '?[31m'", "\x1b[31m")
    refused("unknown option '--frobnicate'", "machine", "--frobnicate")
    refused("one argument too many: 'stray'", "machine", "stray")
    refused("--json takes no value", "machine", "--json=1")
    refused("--isa wants LEVEL behind it", "machine", "--isa")
    refused("not 'sse'", "machine", "--isa", "sse")
    refused("PKV_ISA wants scalar, avx2, avx512, avx512bf16, amx, neon or best, not 'avx9'", "machine",
            isa="avx9")


def test_full_device():
    if not os.path.exists("/dev/full"):
        return
    lines = [["machine"], ["machine", "--json"], ["--help"], ["machine", "--help"], ["--version"]]
    if WITH_MODEL:
        sizes = ["kv-size", "--layers", "2", "--kv-heads", "2", "--head-dim", "64"]
        lines += [sizes, [*sizes, "--json"]]
    for line in lines:
        with open("/dev/full", "w", encoding="ascii") as full:
            code, _, err = run(*line, stdout=full)
        expect(code == 5 and "cannot write" in err and err.count("\n") == 1,
               f"full device, {line}: exit {code}, {err!r}")


def test_without_the_transformer():
    if WITH_MODEL:
        return
    for verb in VERBS[1:]:
        refused(f"{verb} needs libpagedkv-model, which this build is without", verb, "x")


def test_libraries():
    libraries = machine()["libraries"]
    expect(set(libraries) == ({"jansson", "PCRE2", "utf8proc"} if WITH_MODEL else {"jansson"}),
           f"libraries {libraries}")
    for name, entry in libraries.items():
        expect(entry["version"][0].isdigit(), f"version of {name}: {entry}")
        expect((name == "jansson") == (entry["unicode"] is None), f"Unicode of {name}: {entry}")
        expect(entry["unicode"] is None or int(entry["unicode"].split(".")[0]) >= 13,
               f"Unicode of {name}: {entry}")


def test_json():
    info = machine()
    expect([level["name"] for level in info["levels"]] == LEVELS, "levels are not all listed")
    expect("scalar" in present(info), "scalar is everywhere")
    expect(info["best_level"] in present(info) and info["used_level"] == info["best_level"],
           "the best level is used")
    expect(info["cpus"] == len(os.sched_getaffinity(0)), "number of CPUs")
    expect(all(level["reason"] for level in info["levels"]), "a level without a reason")
    here = {level["name"]: level["present"] for level in info["levels"]}
    expect((info["amx_permission"] == "granted") == here["amx"], "permission of AMX")


def test_kernels():
    """Every operation for every dtype it takes, and none above the level used."""
    rank = {name: i for i, name in enumerate(LEVELS)}
    for level in present(machine()):
        info = machine(isa=level)
        expect(info["used_level"] == level, f"PKV_ISA={level} uses {info['used_level']}")
        found = {(k["operation"], k["dtype"]) for k in info["kernels"]}
        for dtype in DTYPES:
            for operation in ("attention", "kv_write", "kv_gather"):
                expect((operation, dtype) in found, f"{level}: no {operation} of {dtype}")
        for dtype in FLOATS:
            expect(("states_merge", dtype) in found, f"{level}: no states_merge of {dtype}")
        for operation in ("blocks_copy", "attention_mla"):
            expect((operation, "any") in found, f"{level}: no {operation}")
        for kernel in info["kernels"]:
            expect(rank[kernel["level"]] <= rank[level], f"{level}: {kernel['function']}")
            expect(kernel["takes"], f"{kernel['function']} takes nothing")


def test_cuda():
    """The backend is there with kernels, or a reason stands in its place."""
    cuda = machine()["cuda"]
    if cuda["backend"] == "present":
        expect(all(k["registers"] > 0 and k["blocks_per_sm"] > 0 for k in cuda["kernels"]), f"{cuda}")
    else:
        words = ("built without CUDA", "CUDA device -1", "compute capability")
        expect(cuda["kernels"] == [] and any(w in cuda["backend"] for w in words), f"{cuda}")


def test_option_before_variable():
    expect(machine("--isa", "scalar", isa="best")["used_level"] == "scalar", "--isa goes first")
    expect(machine("--isa=scalar")["used_level"] == "scalar", "--isa=LEVEL")
    expect(machine(isa="")["used_level"] == machine()["best_level"], "an empty PKV_ISA is none")


def test_missing_level():
    here = present(machine())
    missing = next(level for level in ("neon", "avx2") if level not in here)
    refused(f"PKV_ISA asks for {missing}, which cannot be used here: not ", "machine", isa=missing)
    refused(f"--isa asks for {missing}", "machine", "--isa", missing)


def test_text():
    code, out, err = run("machine", isa="scalar")
    expect(code == 0 and err == "", f"exit {code}, said {err!r}")
    for word in ("libraries ", "cpu ", "caches ", "huge pages ", "AMX ", "CUDA ", "level ", "operation "):
        expect(any(line.startswith(word) for line in out.splitlines()), f"no line begins with {word!r}")
    expect("<- used" in next(line for line in out.splitlines() if line.startswith("scalar ")),
           "which level is used")


if __name__ == "__main__":
    sys.exit(tap_main.run_tests(globals()))
