/* Rows kernel of the avx512bf16 level: kernels/vector/tile.inc with vdpbf16ps, for stores and
 * queries of bf16. Calls with other queries go to the float32 kernel.
 *
 * What was tried, as in avx512_tile.c. A loop of vdpbf16ps runs at 2.0 times the FMA loop with 16
 * accumulators and more, at 1.3 with 8. This kernel: 1.75 .. 1.8 times the float32 kernel, 0.74 of
 * that loop.
 *   32, 48 or 64 lanes: equal within noise
 *   without the softmax 1.08 of the speed, without packing 1.045
 *   rows of the next tile fetched: 1.25 for 33 queries of group 1 on 64 MiB of KV, 0.98 where all
 *     fits the cache
 * On Intel machines vdpbf16ps is slower than FMA, and the level is passed over. */
#include "kernels/x86/avx512_vec.h"

#include "kernels/vector/tile.h"
#include "kernels/x86/avx512_tile_shape.h"
#include "kernels/x86/x86_levels.h"

#include "kernels/x86/bf16_tile.h"

PKV_TEMPLATE vec tile_mul_add(vec a, vec b, vec sum)
{
    return _mm512_dpbf16_ps(sum, (__m512bh)b, (__m512bh)a);
}

static void tile_pack_keys(struct tile *t)
{
    bf16_pack_keys(t);
}

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

static void rows_attention(const struct pkv__attn_call *call, const struct pkv__attn_unit *unit,
                           void *scratch)
{
    if (call->q->dtype == PKV_BF16) tile_attention(call, unit, scratch);
    else pkv__avx512_rows_attention(call, unit, scratch);
}

void pkv__avx512bf16_register_rows(struct pkv__cpu_kernels *k)
{
    k->attn_rows[PKV_BF16] = (struct pkv__attn_kernel){ .fn = { rows_attention, rows_attention },
                                                        .isa = PKV_ISA_AVX512BF16,
                                                        .kind = PKV__WHOLE,
                                                        .unit_queries = TILE_QUERIES };
}
