/* Attention of short rows, avx512 level (AVX-512 F, BW, DQ, VL): the vectors of vector/decode.inc.
 *
 * What was tried. AMD Zen 5 (family 26), gcc 12, 768 MiB of KV, 32 query and 8 kv heads, dim 128,
 * blocks of 16 in random order, 4096 keys; thread CPU time, kernels taking turns by sequence with a
 * read loop over the same pool, two threads. Shares of the read loop (80 GB/s when the machine was
 * quiet, 47 .. 54 when it was not), first quiet, then busy:
 *   now                            f16 0.79 0.85   bf16 0.80 0.84   f32 0.86 0.93
 *   groups of 1, 2, 8, f16         0.81, -, 0.52   busy 0.87, 0.87, 0.69
 * The lines below are times, as parts of that of the next better choice at the time of the try.
 * Memory sets the limit, and of it the way in which lines are asked for; loads alone, without
 * arithmetic, are no faster. Random runs of 64 KiB read in order reach 0.77 .. 0.87 of the loop.
 *   the same line 48 rows later instead of lines in the order of addresses: f32 1.05 .. 1.10 of it
 *   asking once, 8 KiB ahead: 1.08 .. 1.11 (dropped prefetches: without arithmetic the same code
 *   was slower than with it); 8 KiB instead of 12 and twice 1.04, 16 KiB 1.04; 14 KiB the same
 *   rows of K side by side: f32 2 instead of 4 0.97; f16 2 1.09, 1 1.16
 *   unrolled loops over constant dims, 2 and 4 vectors: 16 bit 0.97, f32 1.07; 8 vectors 1.1 .. 1.3
 *   8 vectors: queries loaded once (v_in_register) 0.93; two tiles of 4 1.0 (bf16) .. 1.7 (f32)
 *   V over 32 keys at once: its passes catch up with what is fetched, f32 1.02
 *   a line of the next block early: 0.99 .. 1.00
 *   hint T1 or T2: 1.06 .. 1.10; T1 far and T0 near 0.93 .. 1.05; NTA equal to T0
 *   several panels of a head before the next head: with 8 kv heads 1.02 .. 1.10; with 32 a head at
 *   a time made every 8 KiB a jump: 1.30
 * Not solved: groups of 3, 5, 6, 7 take several tiles (f16, busy: 0.72, 0.68, 0.66, 0.58). */
#include "kernels/vector/decode.h"
#include "kernels/x86/avx512_formats.h"
#include "kernels/x86/x86_levels.h"

enum { PV_ACCUMULATORS = 16, ROWS_ONE_VECTOR = 2, ROWS_TILE = 4 };

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_dtypes.inc"

void pkv__avx512_register_decode(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_AVX512);
}
