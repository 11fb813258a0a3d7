#!/usr/bin/env python3
"""Device code stays on the ground that the emulator covers (docs/simt.md): everything of the machine
through pkv_dev.cuh, no loads that a cast makes wider, no library functions whose bits differ between
a GPU and a host, no waiting for other blocks. A line with the comment "lint: on purpose" is let off."""
import re
import sys

import check_common as common

SUFFIXES = (".cu", ".cuh")
DOOR = re.compile(r"src/kernels/cuda/pkv_dev\w*\.cuh$")
KERNELS = "src/kernels/cuda/"
PARDON = "lint: on purpose"
VECTOR = r"(?:(?:u?(?:char|short|int|long|longlong))|float|double)[234]|__half2|__nv_bfloat162"
MATH = (r"(?:exp|exp2|exp10|expm1|log|log2|log10|log1p|pow|sin|cos|sincos|tan|tanh|erf|sqrt|rsqrt|cbrt|hypot)f?"
        r"|rsqrtf|__(?:expf|exp10f|logf|log2f|log10f|powf|sinf|cosf|tanf|fdividef|f(?:rcp|sqrt|rsqrt|div)_r[nudz])"
        r"|h(?:exp|exp2|log|log2|sqrt|rcp|rsqrt)2?|__h(?:add|sub|mul|fma|div|max|min)2?(?:_rn|_sat)?")

# (what is wrong, what to do instead, only in src/kernels/cuda?)
RULES = (
    (r"\basm\b|\b__asm__\b", "inline assembler: only pkv_dev_ptx.cuh has some", False),
    (r"<<<|<<\s<", "a launch in triple brackets: PKV_LAUNCH", False),
    (r"\b__shared__\b", "a shared array that the emulator does not know: PKV_DEV_SHARED, PKV_DEV_SHARED_DYN", False),
    (r"#\s*pragma\s+unroll", "#pragma unroll: PKV_UNROLL", False),
    (r"\b(?:threadIdx|blockIdx|blockDim|gridDim|warpSize|dim3)\b", "grids have one dimension: pkv_thread(), "
     "pkv_block(), pkv_n_threads(), pkv_n_blocks()", False),
    (r"\b__(?:global|device|host|launch_bounds|forceinline|noinline|constant|managed)__\b",
     "an attribute of nvcc: PKV_GLOBAL, PKV_DEV", False),
    (r"\b__(?:shfl|ballot|any|all|activemask|match|reduce|syncthreads|syncwarp|threadfence|ldg|ldcg|ldcs|stcg|stcs)"
     r"(?:_\w+)?\s*\(", "an intrinsic of CUDA: pkv_dev.cuh has it under another name, or has to get it", False),
    (r"\batomic[A-Z]\w*\s*\(", "an atomic of CUDA: pkv_atomic_*, integers only (sums of floats depend on the order)",
     False),
    (r"\b(?:nvcuda|wmma|cooperative_groups|cuda)\s*::|\bnamespace\s+cg\b",
     "what the emulator does not emulate: warp functions of pkv_dev.cuh", False),
    (r"\bcuda[A-Z]\w*\s*\(", "a call of the CUDA runtime: launchers launch, and nothing else", False),
    (r"#\s*include\s*[<\"](?:cuda|mma|cooperative_groups|device_|sm_)[\w/]*\.(?:h|hpp)[>\"]",
     "a header of CUDA: pkv_dev.cuh includes what kernels may use", False),
    (r"\*\s*(?:reinterpret_cast\s*<|\(\s*(?:const\s+)?(?:" + VECTOR + r")\s*\*\s*\))|"
     r"reinterpret_cast\s*<[^>]*>\s*\([^;]*?\)\s*(?:\[|->)|reinterpret_cast\s*<[^>]*\b(?:" + VECTOR + r")\s*[*&]",
     "a load or store through a cast: pkv_ldv, pkv_stv, which are checked for alignment", False),
    (r"(?<![\w.>])(?:std::)?(?:" + MATH + r")\s*\(", "a function whose bits differ from machine to "
     "machine: pkv_exp2, pkv_log2, pkv_rcp, pkv_rsqrt, in float", False),
    (r"\bwhile\s*\(.*(?:\bpkv_atomic_|\bvolatile\b)", "waits for other threads: blocks run one after another in the "
     "emulator, and maybe on a GPU", False),
    (r"\b(?:malloc|free|new|delete|printf|assert)\b\s*\(?", "device code owns no memory and prints nothing", True),
)
MASK = re.compile(r"\bpkv_(?:shfl\w*|ballot|any|all|syncwarp)\s*\(.*\b0x[0-9a-fA-F]+")


def without_comments(text):
    """The same lines, with blanks for comments and for what is in quotes (but for includes)."""
    def blank(match):
        kept = match[0]
        return kept if kept[0] == '"' and kept.endswith('.h"') else re.sub(r"[^\n]", " ", kept)

    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', blank, text, flags=re.S)


def complaints_about(name, text):
    raw = text.splitlines()
    for number, line in enumerate(without_comments(text).splitlines(), 1):
        if PARDON in raw[number - 1]:
            continue
        for pattern, remedy, kernels_only in RULES:
            if kernels_only and not name.startswith(KERNELS):
                continue
            if re.search(pattern, line):
                yield common.Complaint(name, number, remedy)
        commented = any("/*" in near or "*/" in near or "//" in near for near in raw[max(0, number - 2):number])
        if name.startswith(KERNELS) and MASK.search(line) and not commented:
            yield common.Complaint(name, number, "a mask of some lanes: a comment says why not all")


def find(root, args):
    for name in common.tree_files(root):
        if name.endswith(SUFFIXES) and not DOOR.search(name):
            yield from complaints_about(name, (root / name).read_text(encoding="utf-8"))


def samples():
    def kernel(line, name="src/kernels/cuda/a.cu"):
        return {name: f'#include "kernels/cuda/pkv_dev.cuh"\n\nPKV_GLOBAL(32) a(float *out)\n{{\n    {line}\n}}\n'}

    good = ("out[pkv_thread()] = pkv_exp2(pkv_warp_max(1.f));", "pkv_stv(out, pkv_ldv<float4>(out));",
            "/* a warp in half: the upper lanes have left */\n    x = pkv_shfl_xor(x, 1, 32, 0xffffu);",
            "/* no asm, no __shared__, no expf() here */", "x = fmaxf(x, fabsf(y)) << 2;",
            "pkv_atomic_max(reinterpret_cast<int32_t *>(p), 1);", "pkv_shfl_xor(x, 1);",
            "x = exp_sum(y) + s.log(2);",
            "const float4 v = *reinterpret_cast<float4 *>(p); /* lint: on purpose */")
    bad = ('asm volatile("bar.sync 0;");', "k<<<1, 32>>>(out);", "__shared__ float s[32];",
           "extern __shared__ float s[];", "#pragma unroll", "out[threadIdx.x] = 1;", "dim3 grid(1, 2);",
           "__syncthreads();", "x = __shfl_xor_sync(~0u, x, 1);", "atomicAdd(out, 1.f);",
           "wmma::fragment<int> f;", "cuda::pipeline p;", "namespace cg = cooperative_groups;",
           "cudaMalloc(&p, 4);", "#include <cuda_fp16.h>", "x = *reinterpret_cast<const uint4 *>(p);",
           "x = *(const float4 *)p;", "x = reinterpret_cast<const short *>(p)[3];",
           "const auto *v = reinterpret_cast<const float4 *>(p);", "x = expf(y);", "x = std::exp(y);",
           "x = __expf(y);", "x = __hfma2(a, b, c);", "while (pkv_atomic_add(p, 0) == 0) {}",
           "x = pkv_shfl_xor(x, 1, 32, 0xffffu);", "float *p = new float[4];", "x = __ldg(p);",
           "static __device__ float f(float x);")
    for line in good:
        yield f"fine: {line}", kernel(line), False
    for line in bad:
        yield line, kernel(line), True
    yield "assembler behind the door", kernel("asm volatile(\"\");", "src/kernels/cuda/pkv_dev_ptx.cuh"), False
    yield "assembler in a test's kernel", kernel("asm volatile(\"\");", "tests/simt/a.cu"), True
    yield "a mask in a test's kernel", kernel("x = pkv_ballot(x, 0xffu);", "tests/simt/a.cu"), False
    yield "assembler in C", {"src/kernels/x86/a.c": "void f(void)\n{\n    asm(\"\");\n}\n"}, False


if __name__ == "__main__":
    sys.exit(common.main(common.this_module()))
