#!/usr/bin/env python3
"""Compile kernels and look at what came out, without a GPU.

usage: kernel_gates.py [--self-test] [--targets 80,90,120 | --all] [--build DIR] [--golden FILE [--update]]
                       [--variants PROGRAM] [--markdown FILE] [FILE.cu | FILE_sm_NN.ptx ...]

Files: .cu for nvcc, or PTX that it made, whose target stands in the name; of PTX of attention, what CI looks
at: dims 64 and 128 of f16, bf16 and e4m3. Without files:
the PTX that the build folder DIR has made of the library's kernels and of the tests' for tensor
cores; with --all, or without DIR, the sources of these, those that DIR has generated among them.
--all: all targets that the library is built for, and all types. Refused are
  spills, a stack, local memory (but what kernel_limits.SPILLS explains)
  more registers than kernels are planned with, a loop of too many instructions per 16 tokens from its
  first product to its jump (printed: loop 339 of 399, which are all of the loop's)
  attention without tensor cores, ldmatrix or cp.async; cp.async of anything but 16 bytes; divisions
  by run-time integers in loops of attention
  variants (the table that PROGRAM prints) of more shared memory than a GPU has, or of more than
  99 KiB where no other is smaller; kernels of which an SM holds fewer CTAs than planned
  other counts of instructions in the PTX than the golden file has; a loop, or the same
  from its first product on, 5 % longer than there
  (with the nvcc that the golden file is of; --update writes it anew: of all kernels at hand, which in
  the test kernel_gates are those of CI)
Speaks TAP, what was found in comments. --self-test shows that each can be refused.
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import kernel_code
import kernel_limits
import kernel_ptx
import kernel_samples

ROOT = pathlib.Path(__file__).resolve().parent.parent
ALL_TARGETS = "80,86,89,90,100,120"


def tool(name):
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(f"{home}/bin/{name}") or shutil.which(name)


class Refused(Exception):
    pass


def run(*command):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused("does not compile: " + (done.stderr.strip().splitlines() or ["?"])[-1])
    return done.stdout + done.stderr


def unit_of(source):
    return re.sub(r"_sm_\d+$", "", source.stem)


class Kernel:
    """One entry of one file, compiled for one target."""

    def __init__(self, unit, target, name, code, used, lines):
        self.unit, self.target, self.name = unit, target, name
        self.registers, self.shared = used["registers"], used["shared"]
        self.stack, self.spills = used["stack"], used["spills"]
        self.census, self.n_instructions = kernel_code.census(code), len(code)
        self.loop, self.body, self.loop_products = kernel_code.loop_of(
            code, target, kernel_limits.products_per_tile(name))
        self.n_threads = kernel_ptx.n_threads(lines)
        self.ptx, self.lines = kernel_ptx.counts(lines), lines

    def row(self):
        return (f"{self.name[:64]:64} sm_{self.target:<4} {self.registers:4} regs {self.n_instructions:6} instr "
                + " ".join(f"{k} {v}" for k, v in self.census.items() if v)
                + (f" loop {self.loop} of {self.body}" if self.loop else ""))

    def golden(self):
        return (f"{self.unit} {self.name} sm_{self.target} loop {self.loop} of {self.body} "
                + " ".join(f"{k} {v}" for k, v in self.ptx.items())).strip()

    def local_memory(self):
        for what in ("stack", "spills"):
            if getattr(self, what):
                yield f"{getattr(self, what)} bytes of {what}"
        if self.census["LDL"] or self.census["STL"]:
            yield f"{self.census['LDL']} loads, {self.census['STL']} stores of local memory"

    def complaints(self):
        if not kernel_limits.runs_on(self.name, self.target):
            return
        if not kernel_limits.spills_as_known(self):
            yield from self.local_memory()
        yield from kernel_ptx.complaints(self.lines, kernel_limits.is_attention(self.name))
        yield from kernel_limits.complaints(self)


def compiled(source, target, folder):
    """(kernels, seconds, bytes of the cubin) of a .cu or .ptx file for a target."""
    began, ptx = time.monotonic(), source
    unit = unit_of(source)
    if source.suffix == ".cu":
        ptx = pathlib.Path(folder) / f"{unit}_{target}.ptx"
        run(tool("nvcc"), "-ptx", f"-arch=sm_{target}", "-std=c++17", "-Werror=all-warnings", f"-I{ROOT}/tests",
            f"-I{ROOT}/src", f"-I{ROOT}/include", "-o", ptx, source)
    cubin = pathlib.Path(folder) / f"{unit}_{target}.cubin"
    text = run(tool("ptxas"), "-v", f"-arch=sm_{target}", "-o", cubin, ptx)
    code, used = kernel_code.code_of(cubin), kernel_code.resources(text)
    entries = kernel_ptx.entries(ptx.read_text(encoding="utf-8"))
    readable = kernel_code.demangled(used)
    kernels = [Kernel(unit, target, readable[name], code[name], used[name], entries[name]) for name in used]
    return sorted(kernels, key=lambda k: k.name), time.monotonic() - began, cubin.stat().st_size


def look(job, folder):
    """(name of the test, kernels, lines to print, complaints)"""
    source, target = job
    unit = unit_of(source)
    name = f"{unit} for sm_{target}"
    try:
        kernels, seconds, size = compiled(source, target, folder)
    except Refused as why:
        return name, [], [], [str(why)]
    complaints = [f"{kernel.name}: {what}" for kernel in kernels for what in kernel.complaints()]
    rows = [kernel.row() for kernel in kernels] + [f"{seconds:.1f} s, {size} bytes"]
    return name, kernels, rows, complaints + list(kernel_limits.missing(unit, kernels))


def files_of(args):
    if args.build and args.targets != ALL_TARGETS:
        library = {path.stem for path in [*(ROOT / "src/kernels/cuda").glob("*.cu"),
                                          *(args.build / "src/kernels").rglob("*.cu")]}
        return [path for path in sorted((args.build / "tests/simt").glob("*_sm_*.ptx"))
                if unit_of(path) in library or unit_of(path) + ".cu" in kernel_limits.EXPECTED]
    files = sorted((ROOT / "src/kernels/cuda").glob("*.cu"))
    files += [ROOT / "tests/simt" / name for name in sorted(kernel_limits.EXPECTED)]
    return files + (sorted((args.build / "src/kernels").rglob("*.cu")) if args.build else [])


def jobs_of(args):
    for source in args.files or files_of(args):
        ptx_of_ci = source.suffix == ".ptx" and args.targets != ALL_TARGETS
        if ptx_of_ci and kernel_limits.LEFT_TO_ALL.search(unit_of(source)):
            print(f"# {source.stem}: left to --all")
            continue
        made_for = re.search(r"_sm_(\d+)$", source.stem)
        targets = args.targets.split(",")
        if made_for:
            targets = [made_for[1]]
        for target in targets:
            yield source, int(target)


def compiler():
    return re.search(r"V[\d.]+", run(tool("nvcc"), "--version"))[0]


def golden_complaints(path, kernels):
    """Complaints against a golden file: of counts in the PTX, of loops that grew, of kernels without a line."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else [""]
    if lines[0] != f"nvcc {compiler()}":
        return None
    known = {}
    for line in lines[1:]:
        key, loop, body, ptx = re.fullmatch(r"(.*) loop (\d+) of (\d+) ?(.*)", line).groups()
        known[key] = int(loop), int(body), ptx
    complaints = []
    for kernel in kernels:
        key = f"{kernel.unit} {kernel.name} sm_{kernel.target}"
        loop, body, ptx = known.pop(key, (None, None, None))
        now = re.search(r" loop \d+ of \d+ ?(.*)", kernel.golden())[1]
        if loop is None:
            complaints.append(f"{key}: not in {path.name}")
        elif kernel.loop > loop * 1.05:
            complaints.append(f"{key}: {kernel.loop} instructions from the loop's first product on, "
                              f"{loop} in {path.name}")
        elif kernel.body > body * 1.05:
            complaints.append(f"{key}: {kernel.body} instructions in the loop, {body} in {path.name}")
        elif ptx != now:
            complaints.append(f"{key}: PTX has {now}; in {path.name}: {ptx}")
    return complaints + [f"{key}: in {path.name}, and no kernel" for key in known]


def golden_test(args, kernels):
    if args.update:
        args.golden.write_text("\n".join([f"nvcc {compiler()}", *sorted(k.golden() for k in kernels)]) + "\n",
                               encoding="utf-8")
    complaints = golden_complaints(args.golden, kernels)
    if complaints is None:
        return "golden counts # SKIP they are of another nvcc", [], []
    advice = f"meant so? meson test -C BUILD kernel_gates --test-args='--golden {args.golden} --update'"
    return "golden counts", [advice] if complaints else [], complaints


def markdown(kernels):
    yield "| kernel | target | registers | CTAs per SM by registers | instructions | loop | HMMA | LDSM | LDGSTS |"
    yield "|---|---|---|---|---|---|---|---|---|"
    for k in sorted(kernels, key=lambda k: (k.unit, k.name, k.target)):
        held = kernel_code.blocks_per_sm(k.target, k.registers, k.n_threads, k.shared) if k.n_threads else "-"
        yield (f"| `{k.name}` | sm_{k.target} | {k.registers} | {held} | {k.n_instructions} | {k.body or '-'} | "
               + " | ".join(str(k.census[name] or "-") for name in ("HMMA", "LDSM", "LDGSTS")) + " |")


def tests(args, folder):
    """(name, lines to print, complaints) of each test"""
    if args.self_test:
        yield from kernel_samples.tests(folder, look, golden_complaints, compiler())
    kernels = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for name, found, rows, complaints in pool.map(lambda job: look(job, folder), jobs_of(args)):
            kernels += found
            yield name, rows, complaints
    if args.golden:
        yield golden_test(args, kernels)
    if args.variants:
        yield "variants", *kernel_limits.variants(run(args.variants), kernels)
    if args.markdown:
        args.markdown.write_text("\n".join(markdown(kernels)) + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--targets", default="80,90,120")
    parser.add_argument("--all", action="store_const", const=ALL_TARGETS, dest="targets")
    parser.add_argument("--build", type=pathlib.Path)
    parser.add_argument("--golden", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--variants", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if not tool("nvcc"):
        print("1..0 # SKIP there is no nvcc in CUDA_HOME or on the path")
        return 0
    failed = number = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, rows, complaints) in enumerate(tests(args, folder), 1):
            for row in rows + complaints:
                print(f"# {row}")
            print(f"{'not ok' if complaints else 'ok'} {number} - {name}", flush=True)
            failed += bool(complaints)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
