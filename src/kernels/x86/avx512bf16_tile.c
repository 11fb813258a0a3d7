/* Rows kernel of the avx512bf16 level: kernels/vector/tile.inc with vdpbf16ps, for stores and
 * queries of bf16. Calls with other queries go to the float32 kernel. */
#include "kernels/x86/avx512_vec.h"

#include "kernels/vector/tile.h"
#include "kernels/x86/x86_levels.h"

enum {
    TILE_VECTORS = 3,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 4 * TILE_LANES,
    TILE_REGISTER_ROWS = 8, /* times 3 vectors: 24 of 32 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

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
