#!/usr/bin/env python3
"""Mutation testing of the block manager: do its tests notice when the code is wrong?

Makes small wrong versions of src/blockmgr/*.c (mutants.py says which), and runs the tests on each
until one fails: the mutant is killed. Those that no test notices survive; each is a missing test, or
equal to the original for a reason that tests/blockmgr/mutation_survivors.txt states. Out of the
count are mutants that do not compile, whose object file is that of the original or of an earlier
mutant, or that an optimizing compiler turns into the original.

Nothing is built in the tree: everything lies in a scratch folder that goes away. A mutant is one
compiled file, linked with the others into a shared library that the same test programs load. Killers
run in order of cheapness, each with a limit of processor time; running into it is a kill.

Exit status: 0 at least 95 % are killed, 1 less, 2 wrong usage or tests that fail without a mutant.
"""
import argparse
import collections
import concurrent.futures
import json
import math
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from typing import NamedTuple

import check_common as common
import mutants

SURVIVORS = "tests/blockmgr/mutation_survivors.txt"
CORE, TESTS = "src/blockmgr", "tests/blockmgr"
WANTED_PERCENT = 95
NO_KILLERS = {"test_hold_threads"}  # seconds of two threads; no mutant touches the order of accesses
ALSO = ("src/common",)  # what the library under test needs beside src/blockmgr

CFLAGS = ["-std=c11", "-D_GNU_SOURCE", "-fPIC", "-Werror=int-conversion", "-Werror=discarded-qualifiers",
          "-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration"]
# Ways of building the library. `only`: files without that word are built as in "plain".
FLAVOURS = {
    "plain": (["-O1", "-DNDEBUG"], None),
    "hash0": (["-O1", "-DNDEBUG", "-DPKV_HASH_BITS=0"], "PKV_HASH_BITS"),
    "hash4": (["-O1", "-DNDEBUG", "-DPKV_HASH_BITS=4"], "PKV_HASH_BITS"),
    "probe2": (["-O1", "-DNDEBUG", "-DPKV_HASH_BITS=0", "-DPKV_PROBE_MAX=2"], "PKV_HASH_BITS"),
    "asan": (["-O1", "-DPKV_DEBUG_LEVEL=2", "-fsanitize=address,undefined",
              "-fno-sanitize-recover=all"], None),
}


class Killer(NamedTuple):
    name: str
    flavour: str
    program: str
    args: tuple = ()


def killers(units, closures):
    """The same programs and arguments as in tests/blockmgr/meson.build, or fewer."""
    yield from (Killer(unit, "plain", unit) for unit in units)
    yield from (Killer(f"{unit} (asan)", "asan", unit) for unit in units)
    quick = ("--seeds", "50", "--ops", "1000", "--quick")
    yield Killer("random_ops of 50 seeds", "plain", "random_ops", quick)
    yield Killer("random_ops (asan)", "asan", "random_ops", quick)
    yield Killer("random_ops of 200 seeds", "plain", "random_ops", ("--seeds", "200", "--quick"))
    yield Killer("random_ops (probe bound 2)", "probe2", "random_ops",
                 ("--seeds", "100", "--quick", "--nodes", "2"))
    yield Killer("random_ops (no hash)", "hash0", "random_ops", ("--seeds", "50", "--quick"))
    yield Killer("random_ops (hash of 4 bits)", "hash4", "random_ops", ("--seeds", "50", "--quick"))
    for name, args in closures.items():
        yield Killer(f"closure {name}", "plain", "closure", (*args, "--max-states", "20000"))


def closures_of(meson):
    """{name: arguments} of the closures of the usual tests."""
    block = re.search(r"^closures = \{\n(.*?)^\}", meson, re.MULTILINE | re.DOTALL)
    pairs = re.findall(r"'(\w+)': '([^']*)'", block[1]) if block else []
    return {name: args.split() for name, args in pairs if "--verify" not in args}


class Failed(Exception):
    """The tests cannot be run as they stand."""


def run(command, **how):
    return subprocess.run([str(c) for c in command], stdin=subprocess.DEVNULL, text=True,
                          errors="replace", capture_output=True, check=False, **how)


class Bench:
    """The scratch folder: objects of the original in each flavour, test programs, mutants."""

    def __init__(self, root, scratch, cc, sources, libraries=()):
        """Works on a copy of what it needs of the tree: that may change in the meantime."""
        self.scratch, self.cc = pathlib.Path(scratch), cc
        self.root = self.scratch / "tree"
        for folder in ("include", CORE, TESTS, *ALSO):
            if (root / folder).is_dir():
                shutil.copytree(root / folder, self.root / folder)
        self.data = os.environ.get("PKV_SHARED", str(root.parent / "shared"))
        self.sources = {p.name: (self.root / CORE / p.name).read_text(encoding="utf-8")
                        for p in sources}
        self.core = self.root / CORE
        self.others = sorted(p for folder in ALSO for p in (self.root / folder).glob("*.c"))
        self.libraries = libraries
        self.objects, self.limits = {}, {}

    def flags(self, flavour):
        return CFLAGS + FLAVOURS[flavour][0] + [f"-I{self.root / 'include'}", f"-I{self.root / 'src'}",
                                                f"-iquote{self.core}"]

    def compile(self, flavour, source, target, extra=()):
        target.parent.mkdir(parents=True, exist_ok=True)
        done = run([self.cc, *self.flags(flavour), *extra, "-c", source, "-o", target])
        return None if done.returncode == 0 else done.stderr

    def same_as_plain(self, flavour, name):
        word = FLAVOURS[flavour][1]
        return word is not None and word not in self.sources[name]

    def build_original(self, flavours, pool):
        """Objects of the unchanged tree, and libpkv.so of each flavour."""
        jobs = []
        for flavour in flavours:
            for path in [self.core / name for name in self.sources] + self.others:
                target = self.scratch / flavour / (path.stem + ".o")
                self.objects[flavour, path.name] = target
                jobs.append(pool.submit(self.compile, flavour, path, target))
        self.demand(jobs)
        for flavour in flavours:
            self.link_library(flavour, {}, self.scratch / flavour)

    def demand(self, jobs):
        for job in jobs:
            if job.result() is not None:
                raise Failed(job.result())

    def link_library(self, flavour, replaced, folder):
        files = [replaced.get(name, path) for (f, name), path in self.objects.items() if f == flavour]
        sanitize = [f for f in FLAVOURS[flavour][0] if "sanitize" in f]
        done = run([self.cc, "-shared", "-Wl,-Bsymbolic,-soname,libpkv.so", *sanitize, *files, "-lm", "-o",
                    folder / "libpkv.so"])
        if done.returncode:
            raise Failed(done.stderr)

    def build_programs(self, programs, flavours, pool):
        """Test programs against libpkv.so; everything there without main() is shared by them."""
        files = sorted((self.root / TESTS).glob("*.c"))
        helpers = [p for p in files if "int main(" not in p.read_text(encoding="utf-8")]
        files = [p for p in files if p in helpers or p.stem in programs]
        for flavour in {"asan" if f == "asan" else "plain" for f in flavours}:
            folder = self.scratch / flavour / "tests"
            extra = [f"-I{self.root / TESTS}"]
            jobs = [pool.submit(self.compile, flavour, p, folder / (p.stem + ".o"), extra)
                    for p in files]
            self.demand(jobs)
            shared = [folder / (p.stem + ".o") for p in helpers]
            archive = folder / "libshared.a"
            if run(["ar", "rcs", archive, *shared]).returncode:
                raise Failed("ar failed")
            sanitize = [f for f in FLAVOURS[flavour][0] if "sanitize" in f]
            for name in programs:
                done = run([self.cc, *sanitize, folder / (name + ".o"), archive, "-o", folder / name,
                            self.scratch / flavour / "libpkv.so", *self.libraries, "-lm",
                            "-pthread"])
                if done.returncode:
                    raise Failed(done.stderr)

    # ---- mutants

    def compile_mutant(self, index, mutant):
        """"failed", "same" or the object's bytes as a key; the object is kept."""
        folder = self.scratch / f"mutant{index}"
        folder.mkdir()
        (folder / mutant.file).write_text(mutant.apply(self.sources[mutant.file]), encoding="utf-8")
        target = folder / "plain.o"
        if self.compile("plain", folder / mutant.file, target) is not None:
            return "failed"
        code = target.read_bytes()
        return "same" if code == self.objects["plain", mutant.file].read_bytes() else code

    def optimized_away(self, index, mutant):
        """Does -O3 turn the mutant into the original?"""
        folder = self.scratch / f"mutant{index}"
        original = self.scratch / "optimized" / f"{index}.o"
        extra = ("-O3",)
        if self.compile("plain", self.core / mutant.file, original, extra) is not None:
            return False
        target = folder / "optimized.o"
        return (self.compile("plain", folder / mutant.file, target, extra) is None
                and target.read_bytes() == original.read_bytes())

    def library_of(self, index, mutant, flavour):
        folder = self.scratch / f"mutant{index}"
        if not (folder / flavour / "libpkv.so").exists():
            target = folder / "plain.o"
            if flavour != "plain" and not self.same_as_plain(flavour, mutant.file):
                target = folder / flavour / "mutant.o"
                if self.compile(flavour, folder / mutant.file, target) is not None:
                    return None
            (folder / flavour).mkdir(exist_ok=True)
            self.link_library(flavour, {mutant.file: target}, folder / flavour)
        return folder / flavour

    # ---- killers

    def command(self, killer):
        flavour = "asan" if killer.flavour == "asan" else "plain"
        return [self.scratch / flavour / "tests" / killer.program, *killer.args]

    def execute(self, command, flavour, library, cpu_s):
        """None when it passed, else how it ended."""
        env = dict(os.environ, LD_LIBRARY_PATH=str(library), CMOCKA_MESSAGE_OUTPUT="STDOUT",
                   PKV_SHARED=self.data, ASAN_OPTIONS="detect_stack_use_after_return=1")
        limit = f"ulimit -c 0; ulimit -t {cpu_s}; "
        if flavour != "asan":
            limit += f"ulimit -v {4 << 20}; "
        process = subprocess.Popen(["/bin/sh", "-c", limit + 'exec "$@"', "sh", *map(str, command)],
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, env=env, cwd=self.scratch,
                                   start_new_session=True)
        try:
            status = process.wait(timeout=30 + 20 * cpu_s)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return "time"
        if status == 0:
            return None
        return "time" if status in (-signal.SIGXCPU, -signal.SIGKILL) else f"status {status}"

    def measure(self, order):
        """The tests must pass on the original; its processor time gives limits and order."""
        cost = {}
        for killer in order:
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            how = self.execute(self.command(killer), killer.flavour, self.scratch / killer.flavour, 300)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            used = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
            if how:
                raise Failed(f"without any mutant, {killer.name} ended with {how}")
            self.limits[killer] = math.ceil(0.5 + 4 * used)
            cost[killer] = round(used, 1) + (killer.flavour == "asan")  # which is one more compilation
        return sorted(order, key=cost.get)

    def kill(self, index, mutant, order):
        """(name of the killer, how), or (None, "")"""
        for killer in order:
            library = self.library_of(index, mutant, killer.flavour)
            if library is None:
                continue
            how = self.execute(self.command(killer), killer.flavour, library, self.limits[killer])
            if how:
                return killer.name, how
        return None, ""


# ------------------------------------------------------------------ explained survivors

def read_survivors(path):
    """{key of a mutant: reason}. Entries are blocks of lines, # begins a comment:

        block_pool.c pkv__count_zeros         file and function
        int32_t n = 0;                        the line, blanks squeezed
        0 -> 1                                what the mutant does to it
        why: the reason, in one line
    """
    explained = {}
    if not path.exists():
        return explained
    lines = [s for s in path.read_text(encoding="utf-8").splitlines() if not s.startswith("#")]
    for block in "\n".join(lines).split("\n\n"):
        rows = [row.strip() for row in block.splitlines() if row.strip()]
        if not rows:
            continue
        if len(rows) != 4 or not rows[3].startswith("why: ") or len(rows[0].split()) != 2:
            raise Failed(f"{path.name}: four lines expected (file and function, source line, change, "
                         f"why: ...), not: {' / '.join(rows)}")
        explained[(*rows[0].split(), mutants.squeeze(rows[1]), rows[2])] = rows[3][5:]
    return explained


def stale(explained, everything):
    """Entries that name no mutant: the code has changed under them."""
    keys = {m.key for m in everything}
    return [key for key in explained if key not in keys]


# ------------------------------------------------------------------ the campaign

class Outcome(NamedTuple):
    mutant: mutants.Mutant
    result: str  # "killed", "survived", "explained" or "equivalent"
    by: str      # name of the killer, or the reason
    how: str


def choose(bench, order, count, pool, progress):
    """The first `count` of `order` that compile to something new: [(index, mutant)], and how many
    were left out, by reason."""
    chosen, dropped, seen, at = [], collections.Counter(), set(), 0
    while at < len(order) and len(chosen) < count:
        batch = order[at:at + min(64, count - len(chosen))]
        codes = list(pool.map(bench.compile_mutant, range(at, at + len(batch)), batch))
        for i, (mutant, code) in enumerate(zip(batch, codes), at):
            if code == "failed":
                dropped["do not compile"] += 1
            elif code == "same":
                dropped["same object file"] += 1
            elif (mutant.file, code) in seen:
                dropped["same as another mutant"] += 1
            else:
                seen.add((mutant.file, code))
                chosen.append((i, mutant))
        at += len(batch)
        progress(f"compiled {at} mutants, {len(chosen)} of {count} to run")
    return chosen, dropped


def campaign(bench, order, chosen, explained, pool, progress):
    lock, n_done, n_alive = threading.Lock(), 0, 0

    def one(pair):
        nonlocal n_done, n_alive
        index, mutant = pair
        by, how = bench.kill(index, mutant, order)
        if by:
            outcome = Outcome(mutant, "killed", by, how)
        elif mutant.key in explained:
            outcome = Outcome(mutant, "explained", explained[mutant.key], "")
        elif bench.optimized_away(index, mutant):
            outcome = Outcome(mutant, "equivalent", "-O3 gives the same object file", "")
        else:
            outcome = Outcome(mutant, "survived", "", "")
        shutil.rmtree(bench.scratch / f"mutant{index}")
        with lock:
            n_done, n_alive = n_done + 1, n_alive + (outcome.result != "killed")
            if outcome.result == "survived":
                progress(f"survivor: {mutant.file}:{mutant.line} {mutant.function}: {mutant.change}",
                         True)
            progress(f"{n_done} of {len(chosen)} mutants run, {n_alive} not killed")
        return outcome

    return list(pool.map(one, chosen))


def difference(bench, mutant):
    """The mutant as a diff of the lines it changes."""
    source = bench.sources[mutant.file]
    begin = source.rfind("\n", 0, mutant.start) + 1
    end = (source + "\n").index("\n", mutant.end)
    new = source[begin:mutant.start] + mutant.text + source[mutant.end:end]
    return "\n".join(["  -" + s for s in source[begin:end].split("\n")]
                     + ["  +" + s for s in new.split("\n") if s.strip()])


def report(bench, outcomes, dropped, explained, everything):
    """Print it; the share killed in percent."""
    count = collections.Counter(o.result for o in outcomes)
    survivors = [o for o in outcomes if o.result == "survived"]
    for o in survivors:
        print(f"\nsurvived: {CORE}/{o.mutant.file}:{o.mutant.line} "
              f"in {o.mutant.function}: {o.mutant.change}")
        print(difference(bench, o.mutant))
    print("\nkilled by:")
    by = collections.Counter((o.by, o.how == "time") for o in outcomes if o.result == "killed")
    for (name, slow), n in sorted(by.items(), key=lambda item: -item[1]):
        print(f"  {n:5} {name}{', by running out of time' if slow else ''}")
    print("per file, killed of those that count:")
    for name in sorted({o.mutant.file for o in outcomes}):
        mine = [o.result for o in outcomes if o.mutant.file == name]
        print(f"  {mine.count('killed'):5} of {mine.count('killed') + mine.count('survived'):4} {name}")
    for why, n in sorted(dropped.items()):
        print(f"left out: {n} {why}")
    for o in outcomes:
        if o.result == "killed" and o.mutant.key in explained:
            print(f"explained, but {o.by} kills it: {' | '.join(o.mutant.key)}")
    for key in stale(explained, everything):
        print(f"explained, but no such mutant any more: {' | '.join(key)}")
    counted = count["killed"] + count["survived"]
    percent = 100 * count["killed"] / counted if counted else 100 * bool(outcomes)
    print(f"{len(outcomes)} mutants of {len(everything)} possible: {count['killed']} killed, "
          f"{count['survived']} survived, {count['explained']} explained, "
          f"{count['equivalent']} equal after optimizing")
    print(f"killed: {percent:.1f} % of {counted} (at least {WANTED_PERCENT} wanted)")
    return percent


def write_json(path, outcomes, dropped, percent):
    rows = [dict(o.mutant._asdict(), result=o.result, by=o.by, how=o.how) for o in outcomes]
    path.write_text(json.dumps({"percent": percent, "dropped": dropped, "mutants": rows}, indent=1)
                    + "\n")


def say_progress():
    start, last = time.monotonic(), 0.0

    def progress(text, always=False):
        nonlocal last
        now = time.monotonic()
        if always or now - last > 10:
            last = last if always else now
            print(f"[{now - start:5.0f} s] {text}", file=sys.stderr, flush=True)
    return progress


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=500, help="how many to run, 0: all (500)")
    parser.add_argument("--seed", type=int, default=1, help="another number is another sample (1)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="at the same time")
    parser.add_argument("--only", action="append", metavar="FILE",
                        help="of this file of src/blockmgr; may be repeated")
    parser.add_argument("--list", action="store_true", help="print the mutants, run none")
    parser.add_argument("--survivors", type=pathlib.Path, default=common.ROOT / SURVIVORS,
                        metavar="FILE", help=f"explained survivors ({SURVIVORS})")
    parser.add_argument("--again", type=pathlib.Path, metavar="FILE",
                        help="only what survived in the run that wrote this file with --json")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write every outcome")
    parser.add_argument("--cc", default="gcc", help="compiler (gcc)")
    args = parser.parse_args()
    if args.count < 0 or args.jobs < 1:
        parser.error("--count must not be negative, --jobs at least 1")
    args.survived = survived_in(args.again)
    return parser, args


def is_wanted(mutant, args):
    if args.only and mutant.file not in {pathlib.PurePath(o).name for o in args.only}:
        return False
    return args.survived is None or mutant.key in args.survived


def survived_in(path):
    """Keys of the mutants that survived in the run that wrote this file; None without a file."""
    if path is None:
        return None
    rows = json.loads(path.read_text(encoding="utf-8"))["mutants"]
    return {(r["file"], r["function"], r["source"], r["change"]) for r in rows
            if r["result"] == "survived"}


def read_mutants(paths, seed):
    """All mutants of these files, in the order in which they are drawn."""
    everything = [m for p in paths for m in mutants.mutants_of(p.name, p.read_text(encoding="utf-8"))]
    return sorted(everything, key=lambda m: m.rank(seed))


def run_all(root, paths, order, args, progress, libraries=()):
    """Everything; the share killed in percent."""
    explained = read_survivors(args.survivors)
    flavours = sorted({k.flavour for k in order} | {"plain"})
    with tempfile.TemporaryDirectory(prefix="pkv-mutate-") as scratch, \
            concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        bench = Bench(root, scratch, args.cc, paths, libraries)
        everything = read_mutants([bench.core / p.name for p in paths], args.seed)
        wanted = [m for m in everything if is_wanted(m, args)]
        bench.build_original(flavours, pool)
        bench.build_programs(sorted({k.program for k in order}), flavours, pool)
        order = bench.measure(order)
        progress(f"the tests pass on the original; {len(wanted)} mutants possible", True)
        chosen, dropped = choose(bench, wanted, args.count or len(wanted), pool, progress)
        outcomes = campaign(bench, order, chosen, explained, pool, progress)
        percent = report(bench, outcomes, dropped, explained, everything)
    if args.json:
        write_json(args.json, outcomes, dropped, percent)
    return percent


def main():
    parser, args = arguments()
    paths = sorted((common.ROOT / CORE).glob("*.c"))
    unknown = {pathlib.PurePath(o).name for o in args.only or ()} - {p.name for p in paths}
    if unknown:
        parser.error(f"no such file in src/blockmgr: {', '.join(sorted(unknown))}")
    if args.list:
        for m in sorted(read_mutants(paths, args.seed), key=lambda m: (m.file, m.start)):
            if is_wanted(m, args):
                print(f"{m.file}:{m.line} {m.function}: {m.change}")
        return 0
    units = sorted(p.stem for p in (common.ROOT / TESTS).glob("test_*.c") if p.stem not in NO_KILLERS)
    meson = (common.ROOT / TESTS / "meson.build").read_text(encoding="utf-8")
    order = list(killers(units, closures_of(meson)))
    try:
        percent = run_all(common.ROOT, paths, order, args, say_progress(),
                          ("-lcmocka",))
    except Failed as why:
        print(f"mutate: {why}", file=sys.stderr)
        return 2
    return 0 if percent >= WANTED_PERCENT else 1


if __name__ == "__main__":
    sys.exit(main())
