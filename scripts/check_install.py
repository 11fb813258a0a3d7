#!/usr/bin/env python3
"""Install a build into a temporary folder and use it as a stranger would: pkg-config, the example of
docs/examples in C11 and tests/api/consumer.cpp in C++17, linked shared and static, and run.

usage: check_install.py [--build DIR] [--results FILE]
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import check_common as common

WARNINGS = ("-Wall", "-Wextra", "-Wpedantic", "-Werror")
PROGRAMS = (  # compiler, standard, source, what its output has to contain
    ("gcc", "c11", "docs/examples/embed.c", "sequence 1: 32 of 37 prompt tokens were cached"),
    ("clang", "c11", "docs/examples/embed.c", "sequence 1: 32 of 37 prompt tokens were cached"),
    ("g++", "c++17", "tests/api/consumer.cpp", "all good"),
    ("clang++", "c++17", "tests/api/consumer.cpp", "all good"),
)
NEEDED = {"libc.so.6", "libm.so.6"}
CUDA_NEEDED = {"ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}  # thread-local storage of the static runtime
# What consumer.cpp says of the CUDA backend, by what the library was built with. A machine without a GPU, or
# without its driver, is told in the runtime's words.
WITHOUT_CUDA = "cuda: backend: this library was built without CUDA"
WITH_CUDA = re.compile(r"cuda: (?:a device is here|backend: CUDA device -1: .*(?:driver|no CUDA-capable device))")


class Failed(Exception):
    pass


def run(command, env=None):
    done = subprocess.run(command, cwd=common.ROOT, env=env, text=True, capture_output=True)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}".strip())
    return done.stdout


def install(build, folder):
    """Returns the environment in which pkg-config finds the installed package, and its libdir."""
    env = dict(os.environ, DESTDIR=str(folder))
    run(["meson", "install", "-C", build, "--no-rebuild", "--quiet"], env)
    pc_files = list(folder.rglob("pagedkv.pc"))
    if len(pc_files) != 1:
        raise Failed(f"{len(pc_files)} files named pagedkv.pc are installed, expected one")
    env = dict(os.environ, PKG_CONFIG_PATH=str(pc_files[0].parent), PKG_CONFIG_SYSROOT_DIR=str(folder))
    return env, pc_files[0].parent.parent


def pkg_config(env, *options):
    return run(["pkg-config", *options, "pagedkv"], env).split()


def check_headers(folder):
    installed = {p.name for p in folder.rglob("pagedkv/*.h")}
    ours = {p.name for p in (common.ROOT / "include/pagedkv").glob("*.h")}
    model = {pathlib.PurePath(name).name for name in common.MODEL_HEADERS}
    if not installed & model:  # a build without the model
        ours -= model
    if installed != ours:
        raise Failed(f"installed headers differ from include/: {sorted(installed ^ ours)}")


def check_package(env):
    version = pkg_config(env, "--modversion")[0]
    header = (common.ROOT / "include/pagedkv/base.h").read_text()
    macros = ".".join(re.findall(r"#define PKV_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))
    if version != macros:
        raise Failed(f"pagedkv.pc says version {version}, base.h says {macros}")
    if "-lm" in pkg_config(env, "--libs") or "-lm" not in pkg_config(env, "--static", "--libs"):
        raise Failed("-lm belongs to Libs.private, and only there")


def has_cuda(env):
    return "-lcudart_static" in pkg_config(env, "--static", "--libs")


def check_needed(env, libdir):
    allowed = NEEDED | (CUDA_NEEDED if has_cuda(env) else set())
    out = run(["readelf", "-d", str(libdir / "libpagedkv.so")])
    needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", out))
    if not needed <= allowed:
        raise Failed(f"libpagedkv.so needs {sorted(needed - allowed)}; allowed: {sorted(allowed)}")


def check_program(env, libdir, folder, program, static):
    compiler, standard, source, expected = program
    exe = folder / f"{compiler}-{'static' if static else 'shared'}"
    if static:
        libs = ["-static", *pkg_config(env, "--static", "--libs")]
    else:
        libs = [*pkg_config(env, "--libs"), f"-Wl,-rpath,{libdir}"]
    run([compiler, f"-std={standard}", "-O1", *WARNINGS, source, *pkg_config(env, "--cflags"),
         "-o", str(exe), *libs])
    uses_so = "libpagedkv.so" in run(["readelf", "-d", str(exe)])
    if uses_so == static:
        raise Failed(f"{exe.name} is linked with the wrong library")
    out = run([str(exe)])
    if expected not in out:
        raise Failed(f"{exe.name} does not say \"{expected}\":\n{out}")
    if source.endswith("consumer.cpp"):
        if not (WITH_CUDA.search(out) if has_cuda(env) else WITHOUT_CUDA in out):
            raise Failed(f"{exe.name}: not what a build {'with' if has_cuda(env) else 'without'} CUDA says:\n{out}")


def tests(build, folder):
    """(name, why it is skipped or None, function) in order; the first makes the others possible."""
    state = {}

    def do_install():
        state["env"], state["libdir"] = install(build, folder / "root")

    yield "meson install", None, do_install
    yield "all public headers are installed", None, lambda: check_headers(folder / "root")
    yield "pkg-config file", None, lambda: check_package(state["env"])
    yield "needs only libc and libm", None, lambda: check_needed(state["env"], state["libdir"])
    for program in PROGRAMS:
        missing = None if shutil.which(program[0]) else f"{program[0]} is not installed"
        for static in (False, True):
            name = f"{program[2]} with {program[0]}, {'static' if static else 'shared'}"
            yield name, missing, lambda p=program, s=static: check_program(
                state["env"], state["libdir"], folder, p, s)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-gcc", help="a complete build")
    parser.add_argument("--results", type=pathlib.Path, help="write results as JSON lines")
    args = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as folder:
        for name, skip, test in tests(args.build, pathlib.Path(folder)):
            result, reason = "skip", skip
            if not skip:
                try:
                    test()
                    result, reason = "pass", ""
                except (Failed, OSError, KeyError) as error:
                    result, reason = "fail", f"{error}"
            print(f"  {result}  {name}", flush=True)
            if reason:
                print("        " + reason.replace("\n", "\n        "))
            results.append({"area": "install", "name": name, "result": result, "reason": reason})
    if args.results:
        args.results.write_text("".join(json.dumps(r) + "\n" for r in results))
    return 1 if any(r["result"] == "fail" for r in results) else 0


if __name__ == "__main__":
    sys.exit(main())
