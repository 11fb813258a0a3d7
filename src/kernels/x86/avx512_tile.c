/* Rows kernels of the avx512 level: kernels/vector/tile.inc in float32.
 *
 * What was tried. AMD Zen 5 (family 26), gcc 12, one thread (CPU time), a machine shared with
 * others, runs taking turns, so only ratios count; q = kv = 2048 causal, 4 query heads of one kv
 * head, dim 128, bf16. An FMA loop in the same run: 268 GFLOP/s.
 *   32, 48 or 64 lanes by 8, 8 or 4 rows of accumulators: 0.82 of the loop, equal within noise
 *   without the softmax 1.03 .. 1.05 of that speed, without packing K and V 1.06
 *   rows of the next tile fetched while a tile is worked on: 1.2 for 33 queries of group 1 on
 *     64 MiB of KV, 1.00 where all fits the cache
 *   keys as lanes instead of queries was not built: each tile of K would be transposed, and each
 *     maximum and sum reduced across lanes
 * Few queries cost whole vectors: 33 of group 1 reach 0.45 of the loop, 16 rows x 4 heads 0.6. */
#include "kernels/x86/avx512_vec.h"

#include "kernels/x86/avx512_formats.h"

#include "common/number_format.h"
#include "kernels/vector/tile.h"
#include "kernels/x86/avx512_tile_shape.h"
#include "kernels/x86/avx512_transpose.h"
#include "kernels/x86/x86_levels.h"

#include "kernels/vector/tile_rows.inc"

#include "kernels/vector/tile_f32.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__avx512_rows_attention(const struct pkv__attn_call *call,
                                const struct pkv__attn_unit *unit, void *scratch)
{
    tile_attention(call, unit, scratch);
}

void pkv__avx512_register_rows(struct pkv__cpu_kernels *k)
{
    for (int t = PKV_F32; t < PKV_DTYPE_COUNT; t++)
        k->attn_rows[t] = (struct pkv__attn_kernel){ .fn = { tile_attention, tile_attention },
                                                     .isa = PKV_ISA_AVX512,
                                                     .kind = PKV__WHOLE,
                                                     .unit_queries = TILE_QUERIES };
}
