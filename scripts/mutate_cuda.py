#!/usr/bin/env python3
"""Mutation testing of the CUDA kernels: do the tests on the emulated device notice a wrong kernel?

tests/simt/mutants/*.txt hold wrong versions of single lines, with the unit that shows them and the
tests that should see them. `file`, `unit` and `run` hold for the mutants below them; `old` stands once
in the file, \\n is a line's end. `run check CASE[:TYPE] ...` are cases of check_kernels, `run test NAME
...` programs test_cuda_NAME. `why`: the mutant changes nothing that anybody may see, and has to survive.

Each is applied to a copy of src/kernels; the unit alone is compiled against it, as the build folder
compiles it but for -O1, and linked in front of the library of the other units. Then tests run until
one fails, in the plain build, then with AddressSanitizer, then with the race detector: the mutant is
killed. One that survives is a missing test, or is argued to change nothing, and then has to survive.
Those come last, for all tests see them. PKV_UNIT tells tests which unit it is, so that those of many
units need not run all.

Needs a build folder in which check_kernels_cuda_* and test_cuda_* are built. Nothing is written in
the tree or the build folder.

One that cannot be compiled or linked is told at its turn; the others run all the same.

Exit status: 0 all killed that should be, 1 not, 2 wrong usage, or tests that fail without a mutant.
"""
import argparse
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import check_common as common

LISTS = "tests/simt/mutants"
BUILDS = ("plain", "asan", "race")  # cheapest first
COUNTING = ("counts", "mla_counts", "prefill_counts")  # programs that the race build alone has
LIMIT_S = 240  # of a processor, for one test program; a mutant that never ends is killed by it


class Mutant(NamedTuple):
    name: str
    file: str
    unit: str
    runs: tuple  # ("check", case, ...) and ("test", name, ...)
    old: str
    new: str
    why: str
    place: str  # in which list


class Wrong(Exception):
    pass


def parse(path):
    """The mutants of one list."""
    mutants, at = [], {}
    for number, line in enumerate(path.read_text().splitlines() + ["file -"], 1):
        if not line.strip() or line.startswith("#"):
            continue
        key, _, value = line.partition(" ")
        if key in ("file", "mutant") and "old" in at:
            if not {"file", "unit", "run", "mutant", "new"} <= at.keys():
                raise Wrong(f"{path.name}:{number}: the mutant above lacks something")
            mutants.append(Mutant(at["mutant"], at["file"], at["unit"], tuple(at["run"]), at["old"], at["new"],
                                  at.get("why", ""), at["place"]))
        if key == "file":
            at = {"file": value, "run": []}
        elif key == "mutant":
            at = {k: at[k] for k in ("file", "unit", "run") if k in at}
            at |= {"mutant": value, "place": f"{path.name}:{number}"}
        elif key == "run":
            at["run"] = at["run"] + [tuple(value.split())]
        elif key in ("unit", "old", "new", "why"):
            at[key] = value.replace("\\n", "\n")
        else:
            raise Wrong(f"{path.name}:{number}: what is '{key}'?")
    return mutants


def apply(root, mutant):
    """The text of the file with the change, which has to be possible in exactly one place."""
    text = (root / mutant.file).read_text()
    if text.count(mutant.old) != 1:
        raise Wrong(f"{mutant.place}: '{mutant.old}' stands {text.count(mutant.old)} times in {mutant.file}")
    if mutant.new == mutant.old:
        raise Wrong(f"{mutant.place}: nothing changes")
    return text.replace(mutant.old, mutant.new)


class Bench:
    """A build folder, and a copy of the kernels' sources to be changed."""

    def __init__(self, root, build, scratch):
        self.root, self.build, self.scratch = root, build, scratch
        self.sources = scratch / "src"
        shutil.copytree(root / "src/kernels", self.sources / "kernels")
        try:
            entries = json.loads((build / "compile_commands.json").read_text())
        except OSError as error:
            raise Wrong(f"--build: {error}; `./dev test simt` makes build-simt") from error
        self.commands = {entry.get("output", ""): entry for entry in entries}
        self.links = {}
        self.headers = {}

    def compile(self, mutant, how):
        """The unit of the mutant, with the changed sources in front; None if it does not compile."""
        folder = f"tests/simt/libcuda_emulated_{how}.a.p/"
        for output, entry in self.commands.items():
            name = output.rpartition("/")[2]
            if output.startswith(folder) and re.fullmatch(rf"(.*_)?{re.escape(mutant.unit)}(_unit\.cpp|\.c)\.o", name):
                break
        else:
            raise Wrong(f"{self.build} has no unit {mutant.unit} for {how}")
        source = pathlib.Path(self.build, entry["file"]).resolve()
        text = source.read_text()
        if source.is_relative_to(self.root / "src"):
            source = self.sources / source.relative_to(self.root / "src")
        else:
            include = re.search(r'#include "(.*)"', text).group(1)
            real = pathlib.Path(include).resolve()
            if real.is_relative_to(self.root / "src"):
                include = self.sources / real.relative_to(self.root / "src")
            source = self.scratch / "unit.cpp"
            source.write_text(re.sub(r'#include ".*"', lambda _: f'#include "{include}"', text, count=1))
        made = self.scratch / f"{how}.o"
        words = [w for w in shlex.split(entry["command"]) if w not in ("ccache", "-Werror")]
        words = [w for i, w in enumerate(words) if w not in ("-MD", "-MQ", "-MF") and words[i - 1] not in ("-MQ", "-MF")]
        words[1:1] = [f"-I{self.sources}"]
        words[words.index("-o") + 1] = str(made)
        words[-1:] = ["-O1", str(source)]  # compiling is what takes longest; the last level counts
        if source.suffix == ".cpp":
            words[-1:-1] = ["-include", str(self.header(words, how))]
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True, check=False)
        return (made if done.returncode == 0 else None), done.stderr

    def header(self, words, how):
        """What all units begin with, compiled once: it takes a third of the time of most of them."""
        if how not in self.headers:
            header = self.scratch / f"{how}.h"
            header.write_text('#include "kernels/cuda/pkv_dev.cuh"\n')
            words = words[:-1] + ["-x", "c++-header", str(header)]
            words[words.index("-o") + 1] = f"{header}.gch"
            subprocess.run(words, cwd=self.build, capture_output=True, check=True)
            self.headers[how] = header
        return self.headers[how]

    def link(self, made, target, how):
        if target not in self.links:
            said = subprocess.run(["ninja", "-C", self.build, "-t", "commands", "-s", target], capture_output=True,
                                  text=True, check=True).stdout.splitlines()
            self.links[target] = next(line for line in reversed(said) if " -o " in line)
        words = [w for w in shlex.split(self.links[target]) if w != "ccache"]
        library = f"tests/simt/libcuda_emulated_{how}.a"
        program = self.scratch / pathlib.Path(target).name
        words[words.index("-o") + 1] = str(program)
        words.insert(words.index(library), str(made))
        done = subprocess.run(words, cwd=self.build, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Wrong(f"{target} cannot be linked; is it built? {done.stderr[-600:]}")
        return program


def programs(mutant, how):
    """Targets and arguments, cheapest first."""
    for kind, *words in mutant.runs:
        if kind == "check":
            for case in words:
                name, _, dtype = case.partition(":")
                args = ["--brief" if how != "plain" else "--quick", "--case", name]
                yield f"tests/simt/check_kernels_cuda_{how}", args + (["--type", dtype] if dtype else [])
        else:
            for name in words:
                if how == "race" or name not in COUNTING:
                    yield f"tests/simt/test_cuda_{name}_{how}", []


def limit_processor():
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))


def kill(bench, mutant, hows):
    """Who killed it, or None."""
    env = os.environ | {"PKV_ISA": "cuda", "PKV_UNIT": mutant.unit,
                        "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
    for how in hows:
        made, said = bench.compile(mutant, how)
        if made is None:
            raise Wrong(f"{mutant.place}: {mutant.name} does not compile: {said[-600:]}")
        linked = {}
        for target, args in programs(mutant, how):
            if target not in linked:
                linked[target] = bench.link(made, target, how)
            try:
                done = subprocess.run([linked[target], *args], env=env, capture_output=True, check=False,
                                      timeout=20 * LIMIT_S, preexec_fn=limit_processor)
            except subprocess.TimeoutExpired as late:
                raise Wrong(f"{target} waits for ever, or the machine is too busy to tell") from late
            if done.returncode != 0:
                return " ".join([pathlib.Path(target).name, *args])
    return None


def title(mutant):
    return f"{mutant.file.rpartition('/')[2]}, {mutant.unit}: {mutant.name}"


def judge(mutant, by):
    """What to say of a mutant that `by` killed, or nobody, and whether that is as it should be."""
    if mutant.why:
        return (f"KILLED though argued equal, by {by}", False) if by else (f"equal: {mutant.why}", True)
    return (f"killed by {by}", True) if by else ("SURVIVED", False)


def chosen(root, args):
    """The mutants that the arguments ask for, argued ones last."""
    paths = {path.stem: path for path in sorted((root / LISTS).glob("*.txt"))}
    lists = args.lists.split(",") if args.lists else list(paths)
    for name in lists:
        if name not in paths:
            raise Wrong(f"--lists: there is no '{name}'; there are {', '.join(paths)}")
    for name in args.builds.split(","):
        if name not in BUILDS:
            raise Wrong(f"--builds: there is no '{name}'; there are {', '.join(BUILDS)}")
    mutants = [m for name in lists for m in parse(paths[name])
               if args.only in m.name or args.only in m.file or args.only in m.place]
    if args.again:
        try:
            before = pathlib.Path(args.again).read_text()
        except OSError as error:
            raise Wrong(f"--again: {error}") from error
        killed = set(re.findall(r"^ *\d+ s  (.*): killed by ", before, re.M))
        mutants = [m for m in mutants if title(m) not in killed]
    return sorted(mutants, key=lambda m: bool(m.why))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build-simt", help="build folder (build-simt)")
    parser.add_argument("--builds", default=",".join(BUILDS), help="which of plain, asan, race")
    parser.add_argument("--only", default="", help="mutants whose name, file or list contains this")
    parser.add_argument("--lists", default="", help="which lists: decode,codes (all)")
    parser.add_argument("--again", help="mutants that this output of an earlier run does not call killed")
    parser.add_argument("--check", action="store_true", help="only whether each can be applied")
    args = parser.parse_args()
    root = common.ROOT
    mutants = chosen(root, args)
    for mutant in mutants:
        apply(root, mutant)
    if args.check:
        print(f"{len(mutants)} mutants of CUDA kernels can be applied")
        return 0
    survivors = 0
    with tempfile.TemporaryDirectory(prefix="mutate-cuda-") as scratch:
        bench = Bench(root, pathlib.Path(args.build).resolve(), pathlib.Path(scratch))
        for mutant in mutants:
            begin = time.monotonic()
            target = bench.sources / pathlib.Path(mutant.file).relative_to("src")
            target.write_text(apply(root, mutant))
            try:
                by = kill(bench, mutant, args.builds.split(","))
                verdict, good = judge(mutant, by)
            except Wrong as wrong:
                verdict, good = f"BROKEN: {wrong}", False
            target.write_text((root / mutant.file).read_text())
            survivors += not good
            print(f"{time.monotonic() - begin:5.0f} s  {title(mutant)}: {verdict}", flush=True)
    print(f"{len(mutants)} mutants of CUDA kernels, {survivors} not as they should be")
    return 1 if survivors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Wrong as wrong:
        print(f"mutate_cuda.py: {wrong}", file=sys.stderr)
        sys.exit(2)
