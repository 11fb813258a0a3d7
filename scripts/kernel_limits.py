"""What kernels are planned with: registers, length of the loop, CTAs per SM; and what must be found in
them. Names are those of kernel_code.readable: attn_decode_kernel<__half,128,1>."""
import re

import kernel_code

ATTENTION = re.compile(r"attn_(?:decode|prefill|mla)")
# Kernels around attention that multiply nothing.
WITHOUT_PRODUCTS = re.compile(r"combine|scan|prefix|spans|merge|clear")
# What the tests' kernels must have, so that a census that reads nothing is seen. Per file.
EXPECTED = {"tensor_kernels.cu": {"HMMA": 2, "LDSM": 6, "MOVM": 2}, "copy_kernels.cu": {"LDGSTS": 1}}
MAX_REGISTERS = 168  # three CTAs of 128 threads to an SM
MAX_LOOP = 450       # instructions per 16 tokens, the longest that any type of KV may take
KIB_99, KIB_227 = 99 * 1024, 227 * 1024


def is_attention(name):
    return bool(ATTENTION.search(name)) and not WITHOUT_PRODUCTS.search(name)


def complaints(kernel):
    if kernel.registers > MAX_REGISTERS:
        yield f"{kernel.registers} registers, at most {MAX_REGISTERS}"
    if kernel.loop > MAX_LOOP:
        yield f"{kernel.loop} instructions in the loop, at most {MAX_LOOP}"
    if is_attention(kernel.name):
        for name in ("HMMA", "LDSM", "LDGSTS"):
            if not kernel.census[name]:
                yield f"0 {name} in the machine code of attention"


def missing(unit, kernels):
    for name, least in EXPECTED.get(unit + ".cu", {}).items():
        total = sum(kernel.census[name] for kernel in kernels)
        if total < least:
            yield f"{total} {name} in the machine code, at least {least} expected"


def variants(text, kernels):
    """(lines to print, complaints) about the table of variants: name, operation, dtype, least and largest dim,
    head tiles, threads, shared bytes; tabs between them."""
    rows, wrong, small = [], [], set()
    table = [line.split("\t") for line in text.splitlines()]
    for name, *key, _, shared in table:
        if int(shared) <= KIB_99:
            small.add(tuple(key))
    for name, *key, n_threads, shared in table:
        if int(shared) > KIB_227:
            wrong.append(f"{name}: {shared} bytes of shared memory, a GPU has 227 KiB")
        if tuple(key) not in small:
            wrong.append(f"{name}: {shared} bytes of shared memory, and no variant like it within 99 KiB")
        held = {sm: kernel_code.blocks_per_sm(sm, 0, int(n_threads), int(shared)) for sm in (80, 90, 120)}
        rows.append(f"{name}: {shared} bytes of shared memory, CTAs per SM by them "
                    + ", ".join(f"sm_{sm} {n}" for sm, n in held.items()))
    return rows, wrong
