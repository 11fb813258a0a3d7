"""Samples that kernel_gates.py has to refuse: what each is refused for."""
import concurrent.futures
import os
import pathlib
import types

import kernel_limits

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
    "local_ptx": ("__global__ void a(int *p)\n{\n    volatile int x[8];\n    x[p[1]] = p[0];\n    p[0] = x[p[2]];\n}\n",
              "local memory in the PTX"),
    "long_loop": ("""__global__ void attn_decode(float *p, int n)
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
""", "16 tokens, at most 340 each"),
    "misspelt": ('__global__ void a(unsigned *p)\n{\n    asm volatile("movmatrix.sync.aligned.m8n8.tarns.b16 '
                 '%0, %1;" : "=r"(p[0]) : "r"(p[1]));\n}\n', "does not compile"),
    "many_registers": ("""__global__ void __launch_bounds__(128) a(float *p)
{
    float x[200];
#pragma unroll
    for (int i = 0; i < 200; i++) x[i] = p[i * 128 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 200; i++) p[i * 128 + threadIdx.x] = x[i] * x[199 - i] + x[(i * 7) % 200];
}
""", "registers, at most 128"),
    "few_ctas": ("__global__ void __launch_bounds__(1024) attn_decode(int *p)\n{\n    p[threadIdx.x] = 1;\n}\n",
                 "CTAs per SM, at least 4"),
    "no_products": ("__global__ void attn_decode_kernel(int *p)\n{\n    p[0] = 1;\n}\n", "0 HMMA in the machine code of"),
    "small_copy": ("""__global__ void a(int *p)
{
    __shared__ int s[4];
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(s)), "l"(p));
    asm volatile("cp.async.wait_all;");
    p[1] = s[0];
}
""", "cp.async of 4 bytes"),
    "division": ("""__global__ void attn_decode_kernel(int *p, int n)
{
    float d[4] = {};
#pragma unroll 1
    for (int i = 0; i < n; i++) {
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, "
                     "{%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(i));
        p[i] = p[i + 1] / n + (int)d[0];
    }
}
""", "1 divisions by run-time integers inside loops"),
    "tensor_kernels": ("__global__ void a(int *p)\n{\n    p[0] = 1;\n}\n", "0 HMMA in the machine code"),
}

# Tables of variants, and what is wrong with them.
VARIANTS = {
    "a\t0\tf16\t64\t64\t1\t128\t120000\n": "less than 2 CTAs",
    "a\tattention\tf16\t64\t64\t1\t128\t300000\n": "a GPU has 227 KiB",
    "a\tattention\tf16\t64\t64\t1\t128\t102400\nb\tattention\tbf16\t64\t64\t1\t128\t4096\n":
        "no variant like it within 99 KiB",
}


class Changed:
    """A kernel with another golden line."""

    def __init__(self, kernel, line, loop=0, body=0):
        self.unit, self.name, self.target, self.line = kernel.unit, kernel.name, kernel.target, line
        self.loop, self.body = kernel.loop + loop, kernel.body + body

    def golden(self):
        return self.line


def verdict(expected, complaints):
    seen = any(expected in c for c in complaints)
    return [] if seen else [f"not refused for: {expected}; {complaints}"]


def golden_tests(folder, kernels, compare, compiler):
    """A golden file that fits, and kernels that do not fit it."""
    path = pathlib.Path(folder) / "golden"
    path.write_text("\n".join([f"nvcc {compiler}", *(k.golden() for k in kernels)]) + "\n", encoding="utf-8")
    k = kernels[0]
    yield "sample: the golden file fits", [], compare(path, kernels)
    yield "sample: another count", [], verdict("PTX has", compare(path, [Changed(k, k.golden() + " mma 1")]))
    yield "sample: a longer loop", [], verdict("in the loop", compare(path, [Changed(k, k.golden(), body=900)]))
    yield "sample: longer from its first product on", [], verdict(
        "first product", compare(path, [Changed(k, k.golden(), loop=900)]))
    yield "sample: a kernel too few", [], verdict("no kernel", compare(path, []))
    path.write_text(f"nvcc {compiler}\n", encoding="utf-8")
    yield "sample: a kernel too many", [], verdict("not in golden", compare(path, kernels))
    path.write_text("nvcc V0.0\n", encoding="utf-8")
    yield "sample: another nvcc", [], [] if compare(path, kernels) is None else ["compared with another nvcc's"]


def known_spills():
    """Only as many bytes as are explained, of that kernel and target."""
    (name, target), most = next(iter(kernel_limits.SPILLS.items()))
    for other in ((name, target, most, True), (name, target, most + 4, False), (name, 80, most, False),
                  ("b", target, most, False)):
        kernel = types.SimpleNamespace(name=other[0], target=other[1], spills=other[2], stack=8)
        if kernel_limits.spills_as_known(kernel) != other[3]:
            yield f"{other[:3]}"


def tests(folder, look, compare, compiler):
    yield "sample: known spills", [], list(known_spills())
    kernels, sources = [], [pathlib.Path(folder) / f"{name}.cu" for name in SAMPLES]
    for source in sources:
        source.write_text(SAMPLES[source.stem][0], encoding="utf-8")
    jobs = [(source, 80) for source in sources]
    jobs += [(source, sm) for source in sources if source.stem == "long_loop" for sm in (90, 120)]  # jumps differ
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        looks = list(pool.map(lambda job: look(job, folder), jobs))
    for (source, sm), (_, found, _, complaints) in zip(jobs, looks):
        kernels = found if source.stem == "division" else kernels
        yield f"sample: {source.stem} for sm_{sm}", [], verdict(SAMPLES[source.stem][1], complaints)
    yield from golden_tests(folder, kernels, compare, compiler)
    for text, expected in VARIANTS.items():
        yield f"sample: variants, {expected}", [], verdict(expected, kernel_limits.variants(text, [])[1])
