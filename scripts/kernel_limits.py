"""What kernels are planned with: registers, length of the loop, CTAs per SM; and what must be found in
them. Names are those of kernel_code.readable: attn_decode_kernel<__half,128,1>."""
import re

import kernel_code

# Units that only --all looks at: what CI compiles are dims 64 and 128 of f16, bf16 and e4m3.
LEFT_TO_ALL = re.compile(r"^attn_.*(?:_d?256|_(?:e5m2|i8|int8|u4|int4))(?:_|$)")
# Kernels of attention, with the words of their names that say more.
DECODE = re.compile(r"attn_decode(?:_kernel)?(?:<decode_shape<(.+),(\d+),(\d+)(?:,(\w+))?>>)?$")
BITS_16 = re.compile(r"(?:^|_)b?f16$|kv_16<")
ATTENTION = re.compile(r"attn_decode|prefill_kernel|mla_kernel")
# Kernels around attention that multiply nothing.
WITHOUT_PRODUCTS = re.compile(r"combine|scan|prefix|spans|merge|clear")
# What the tests' kernels must have, so that a census that reads nothing is seen. Per file.
EXPECTED = {"tensor_kernels.cu": {"HMMA": 2, "LDSM": 6, "MOVM": 2}, "copy_kernels.cu": {"LDGSTS": 1}}
# Registers: four CTAs of 128 threads to an SM, three where 16 columns or rows of codes of any dim need more;
# dims beyond 128: six of 64 threads, four of codes; prefill two, latent attention and all others one.
MOST_REGISTERS = ((re.compile(r"prefill_kernel"), 255, 2), (re.compile(r"mla_kernel"), 255, 1),
                  (DECODE, None, None), (re.compile(""), 128, 1))
# Instructions per 16 tokens of 128 dims and 8 columns: 1,760 issue slots of an SM are there at 4.3 TB/s for
# 16 bits a number, 880 for 8, 440 for 4.
LOOP_16_BITS, LOOP_CODES = 340, 450
# The whole loop, copies of tiles ahead among it: the same, but where rows of any dim cost compares: what was
# reached and 5 %.
BODIES_OF_CODES = ((re.compile(r",true>"), 491), (re.compile(""), LOOP_CODES))
ATTENTION_OP = "0"  # PKV_OP_ATTENTION
# 64 queries and two tiles of 32 keys of 640 numbers: latent attention is for GPUs with 227 KiB. So are long
# rows of 256 dims in 16 bits, which elsewhere the decode kernels take.
LARGE = re.compile(r"attention_mla_|attention_prefill_b?f16_256_")
# Spills that are let pass, in bytes written and read: all 255 registers are taken there. Latent attention
# keeps an address in shared memory that follows from the warp's number in local memory: written once for the
# batch, read once for each tile (sources without it spill on sm_90).
SPILLS = {("mla_kernel<mla_codes>", 100): 12}
KIB_99, KIB_227 = 99 * 1024, 227 * 1024


def runs_on(name, sm):
    """Latent attention takes more shared memory than most GPUs have: it is compiled for them, and left out
    of a backend's kernels when it is made."""
    return not re.search("mla_kernel", name) or kernel_code.SMS[sm][4] >= 186368


def spills_as_known(kernel):
    """Is what it spills in SPILLS, and no more than there?"""
    return 0 < kernel.spills <= SPILLS.get((kernel.name, kernel.target), 0) and kernel.stack <= kernel.spills


def is_attention(name):
    return bool(ATTENTION.search(name)) and not WITHOUT_PRODUCTS.search(name)


def decode_shape(name):
    """(type of K and V, dims, tiles of 8 columns) of a decode kernel, or None"""
    found = DECODE.search(name)
    return (found[1] or "f16", int(found[2] or 128), int(found[3] or 1)) if found else None


def products_per_tile(name):
    """Products of the tensor cores, with K and with V, that 16 tokens take."""
    shape = decode_shape(name)
    return 2 * shape[2] * shape[1] // 16 if shape and "<" in name else 1


def registers_of(name):
    """(most registers, CTAs that an SM of 64 Ki registers has to hold)"""
    for pattern, most, held in MOST_REGISTERS:
        if pattern.search(name):
            break
    if most is None:
        kind, dims, tiles = decode_shape(name)
        codes, ragged = not BITS_16.search(kind), DECODE.search(name)[4] == "true"
        if dims > 128:
            most, held = (255, 4) if codes else (168, 6)
        else:
            most, held = (168, 3) if tiles > 1 or (codes and ragged) else (128, 4)
    return most, held


def loop_complaints(kernel):
    shape = decode_shape(kernel.name)
    if not shape or not kernel.loop:
        return
    kind, dims, tiles = shape
    n_tiles = max(1, kernel.loop_products // products_per_tile(kernel.name)) if "<" in kernel.name else 1
    scale = max(1, dims * tiles // 128)
    most = (LOOP_16_BITS if BITS_16.search(kind) else LOOP_CODES) * scale
    if kernel.loop / n_tiles > most:
        yield f"{kernel.loop} instructions from the first product of the loop of {n_tiles} x 16 tokens, at most {most}"
    if BITS_16.search(kind):
        most = LOOP_16_BITS * scale
    else:
        most = next(limit for pattern, limit in BODIES_OF_CODES if pattern.search(kernel.name)) * scale
    if kernel.body / n_tiles > most:
        yield f"{kernel.body} instructions in the loop of {n_tiles} x 16 tokens, at most {most} each"


def complaints(kernel):
    most, least = registers_of(kernel.name)
    if kernel.registers > most:
        yield f"{kernel.registers} registers, at most {most}"
    held = kernel_code.blocks_per_sm(90, kernel.registers, kernel.n_threads, 0) if kernel.n_threads else least
    if held < least:
        yield f"{kernel.registers} registers of {kernel.n_threads} threads: {held} CTAs per SM, at least {least}"
    yield from loop_complaints(kernel)
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
        if tuple(key) not in small and not LARGE.match(name):
            wrong.append(f"{name}: {shared} bytes of shared memory, and no variant like it within 99 KiB")
        if key[0] == ATTENTION_OP and kernel_code.blocks_per_sm(90, 0, int(n_threads), int(shared)) < 2:
            wrong.append(f"{name}: {shared} bytes of shared memory leave room for less than 2 CTAs on sm_90")
        held = {sm: kernel_code.blocks_per_sm(sm, 0, int(n_threads), int(shared)) for sm in (80, 90, 120)}
        rows.append(f"{name}: {shared} bytes of shared memory, CTAs per SM by them "
                    + ", ".join(f"sm_{sm} {n}" for sm, n in held.items()))
    return rows, wrong
