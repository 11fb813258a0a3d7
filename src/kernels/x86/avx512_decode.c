/* Decode attention of the avx512 level (AVX-512 F, BW, DQ, VL): the vectors of vector/decode.inc,
 * which has the picture of the data flow.
 *
 * What was tried. AMD Zen 5 (family 26), gcc 12, one thread, 768 MiB of f16 KV, 32 query and 8 kv
 * heads, dim 128, blocks of 16 in random order; thread CPU time, runs alternating by sequence on a
 * machine shared with others, so only the ratios count. Read loop 37 .. 41 GB/s; from L2 the same
 * code reaches 42 .. 47 GB/s, two thirds of the FMA peak, so arithmetic and memory weigh the same.
 *   panels of 32 keys, 48 rows ahead, first line of the next panel's blocks fetched early:
 *     0.79 of the paged time that chunks of 128 with V one half-chunk ahead took
 *   those chunks keep 32 KiB and more in flight, which push each other out of L1
 *   chunks of 128 and 128, 64, 48, 32, 16 rows ahead: 0.93, 0.90, 0.92, 0.92, 1.1 of that time
 *   the same with the early first line: 64 ahead 0.87; two or more early lines are no better
 *   32 rows ahead for f32 loses what 48 gain; 16 are too late for any type
 *   hint T1 or T2 instead of T0: 1.06 .. 1.10; NTA equal to T0
 *   prefetching rows strictly in address order: no gain with 4 heads
 *   one head per tile, rows read 16 side by side: 1.1 times the time of 2 side by side
 * Order of reading. A head through all blocks, then the next head, makes every 8 KiB a jump: with
 * 32 query and 32 kv heads (blocks of 16 and 32) paged took 1.30 of the contiguous time, in
 * sequence or at random. All heads of a block before the next block: 1.00 .. 1.02; with 8 kv heads
 * no change beyond noise. Blocks of 64 gain little (1.27 to 1.19 with 32 kv heads): not understood.
 * Touching a line of every page, or fetching all of the next panel's first head, ahead: no gain.
 * Paged / contiguous in pkv-bench's quick cases: blocks of 16 at random 0.95 .. 1.07; a loop that
 * only loads the same pieces in the same order needs as long as contiguous decode does. */
#include "kernels/vector/decode.h"
#include "kernels/x86/avx512_formats.h"
#include "kernels/x86/x86_levels.h"

enum { PV_ACCUMULATORS = 16, ROWS_ONE_VECTOR = 2, ROWS_TILE = 4 };

PKV_TEMPLATE vec v_load_kv(pkv_dtype dtype, const void *p, int n)
{
    return v_codes_part(dtype, p, n);
}

PKV_TEMPLATE void v_load_kv_pair(pkv_dtype dtype, const void *p, vec *x)
{
    v_codes_pair(dtype, p, x);
}

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_dtypes.inc"

void pkv__avx512_register_decode(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_AVX512);
}
