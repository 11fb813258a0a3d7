#!/usr/bin/env python3
"""Compile kernels with nvcc and look at what came out, without a GPU.

usage: kernel_gates.py [--self-test] [--targets 80,90,120] [FILE.cu ...]

Without files: all of src/kernels/cuda and the tests' kernels for tensor cores. For each kernel and
target: registers, no spills, no stack (ptxas), and from the machine code in the cubin how many
instructions of each kind that matters there are, no loads and stores of local memory, and how long
the loop around the first product of the tensor cores is. Speaks TAP, the table in comments.
--self-test compiles samples that have to be refused.

The machine code is 16 bytes an instruction on these targets, its low 12 bits the opcode. A jump's
distance, in fours from the next instruction, is in bits 34 to 81.
"""
import argparse
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
OPCODES = {"HMMA": 0x23c, "LDGSTS": 0xfae, "LDSM": 0x83b, "MOVM": 0x23a, "LDL": 0x983, "STL": 0x387}
BRA = 0x947
MAX_LOOP = 450  # instructions per 16 tokens, the longest that any type of KV may take
# What the tests' kernels must have, so that a census that reads nothing is seen. Per file.
EXPECTED = {"tensor_kernels.cu": {"HMMA": 2, "LDSM": 6, "MOVM": 2}, "copy_kernels.cu": {"LDGSTS": 1}}


def nvcc():
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(f"{home}/bin/nvcc") or shutil.which("nvcc")


def compiled(source, target, folder):
    """(path of the cubin, what ptxas said); a CalledProcessError if it does not compile."""
    out = pathlib.Path(folder) / f"{source.stem}_{target}.cubin"
    done = subprocess.run([nvcc(), "-cubin", f"-arch=sm_{target}", "-std=c++17", "-Xptxas", "-v",
                           "-Werror=all-warnings", f"-I{ROOT}/tests", f"-I{ROOT}/src",
                           "-o", out, source], check=True, capture_output=True, text=True)
    return out, done.stdout + done.stderr


def resources(text):
    """{mangled name: {registers, stack, spills}}"""
    found = {}
    for part in text.split("Compiling entry function '")[1:]:
        stack = re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", part)
        used = re.search(r"Used (\d+) registers", part)
        found[part[:part.index("'")]] = {"registers": int(used[1]), "stack": int(stack[1]),
                                         "spills": int(stack[2]) + int(stack[3])}
    return found


def code_of(cubin):
    """{mangled name: its instructions as numbers}, from the ELF sections named .text.NAME"""
    data = cubin.read_bytes()
    offset, = struct.unpack_from("<Q", data, 0x28)
    size, number, names_at = struct.unpack_from("<HHH", data, 0x3a)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(number)]
    names = headers[names_at][4]
    code = {}
    for name, _, _, _, at, length in headers:
        start = names + name
        text = data[start:data.index(b"\0", start)].decode()
        if text.startswith(".text."):
            code[text[6:]] = [int.from_bytes(data[i:i + 16], "little") for i in range(at, at + length, 16)]
    return code


def census(code):
    return {name: sum(word & 0xfff == opcode for word in code) for name, opcode in OPCODES.items()}


def loop_length(code):
    """Instructions from the first HMMA of the shortest loop with one to its jump; 0: no such loop."""
    shortest = 0
    for at, word in enumerate(code):
        if word & 0xfff != BRA:
            continue
        distance = word >> 34 & (1 << 48) - 1
        distance -= (distance >> 47) << 48
        first = at + 1 + distance * 4 // 16
        products = [i for i in range(max(first, 0), at) if code[i] & 0xfff == OPCODES["HMMA"]]
        if products and (not shortest or at - products[0] < shortest):
            shortest = at - products[0]
    return shortest


def short(mangled):
    found = re.search(r"_cu_(?:[0-9a-f]{8}|[a-z_]+)\d+([a-z][a-z0-9_]*?)(I.*E)?Ev?P", mangled)
    return (found[1] + (found[2] or "") if found else mangled)[-40:]


def look(source, target, folder):
    """(rows of the table, complaints)"""
    try:
        cubin, text = compiled(source, target, folder)
    except subprocess.CalledProcessError as error:
        return [], [f"does not compile: {error.stderr.strip().splitlines()[-1]}"]
    code, rows, complaints, total = code_of(cubin), [], [], dict.fromkeys(OPCODES, 0)
    for name, r in sorted(resources(text).items()):
        counts, loop = census(code[name]), loop_length(code[name])
        rows.append(f"{short(name):40} sm_{target:4} {r['registers']:4} regs {len(code[name]):6} instr "
                    + " ".join(f"{k} {v}" for k, v in counts.items() if v) + (f" loop {loop}" if loop else ""))
        total = {k: total[k] + v for k, v in counts.items()}
        for bad in ("stack", "spills"):
            if r[bad]:
                complaints.append(f"{short(name)}: {r[bad]} bytes of {bad}")
        if counts["LDL"] or counts["STL"]:
            complaints.append(f"{short(name)}: {counts['LDL']} loads, {counts['STL']} stores of local memory")
        if loop > MAX_LOOP:
            complaints.append(f"{short(name)}: {loop} instructions in the loop, at most {MAX_LOOP}")
    for name, least in EXPECTED.get(source.name, {}).items():
        if total[name] < least:
            complaints.append(f"{total[name]} {name} in the machine code, at least {least} expected")
    return rows, complaints


SAMPLES = {
    "spills": ("""__global__ void __launch_bounds__(1024, 2) a(float *p)
{
    float x[64];
#pragma unroll
    for (int i = 0; i < 64; i++) x[i] = p[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 64; i++) p[i * 1024 + threadIdx.x] = x[i] * x[63 - i] + x[(i * 7) % 64];
}
""", "bytes of spills"),
    "stack": ("__global__ void a(int *p)\n{\n    volatile int x[8];\n    x[p[1]] = p[0];\n    p[0] = x[p[2]];\n}\n",
              "bytes of stack"),
    "local": ("__global__ void a(int *p)\n{\n    volatile int x[8];\n    x[p[1]] = p[0];\n    p[0] = x[p[2]];\n}\n",
              "1 loads, 1 stores of local memory"),
    "long_loop": ("""__global__ void a(float *p, int n)
{
    float d[4] = {};
    float x = p[threadIdx.x];
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(i));
#pragma unroll
        for (int j = 0; j < 500; j++) x = fmaf(x, d[0], d[1]);
    }
    p[threadIdx.x] = x;
}
""", "instructions in the loop, at most 450"),
    "misspelt": ('__global__ void a(unsigned *p)\n{\n    asm volatile("movmatrix.sync.aligned.m8n8.tarns.b16 '
                 '%0, %1;" : "=r"(p[0]) : "r"(p[1]));\n}\n', "does not compile"),
    "tensor_kernels": ("__global__ void a(int *p)\n{\n    p[0] = 1;\n}\n", "0 HMMA in the machine code"),
}


def self_test(target, folder):
    for name, (text, expected) in SAMPLES.items():
        source = pathlib.Path(folder) / f"{name}.cu"
        source.write_text(text, encoding="utf-8")
        complaints = look(source, target, folder)[1]
        seen = any(expected in c for c in complaints)
        yield f"sample: {name}", [], [] if seen else [f"not refused for: {expected}; {complaints}"]


def checks(args, folder):
    targets = args.targets.split(",")
    if args.self_test:
        yield from self_test(targets[0], folder)
    files = args.files or sorted((ROOT / "src/kernels/cuda").glob("*.cu")) + [
        ROOT / "tests/simt" / name for name in sorted(EXPECTED)]
    for source in files:
        for target in targets:
            yield f"{source.name} for sm_{target}", *look(source, target, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--self-test", action="store_true")
    parser.add_argument("--targets", default="80,90,120")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    args = parser.parse_args()
    if not nvcc():
        print("1..0 # SKIP there is no nvcc in CUDA_HOME or on the path")
        return 0
    failed = number = 0
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, rows, complaints) in enumerate(checks(args, folder), 1):
            for row in rows + complaints:
                print(f"# {row}")
            print(f"{'not ok' if complaints else 'ok'} {number} - {name}", flush=True)
            failed += bool(complaints)
    print(f"1..{number}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
