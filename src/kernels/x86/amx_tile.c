/* Rows kernel of the amx level: kernels/vector/tile.inc with tiles, for stores and queries of bf16.
 * Calls with other queries go to the float32 kernel.
 *
 *   S [keys][lanes] += K [16 keys][32 dims]  q [16 pairs of dims][16 lanes]      per instruction
 *   O [dims][lanes] += V^T [16 dims][32 keys]  p [16 pairs of keys][16 lanes]
 *
 * So K is the left factor as it lies, q and p are what bf16_tile.h makes of them, and V alone is
 * turned around, once per tile of keys for all queries. Blocks of 32 x 32 keep four sums and two of
 * each factor in the eight tiles. */
#include "kernels/x86/avx512_vec.h"

#include "kernels/vector/tile.h"
#include "kernels/x86/x86_levels.h"

#ifndef PKV_AMX_OPS
#define PKV_AMX_OPS "kernels/x86/amx_ops.h"
#endif
#include PKV_AMX_OPS

enum {
    TILE_VECTORS = 2,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = TILE_QUERIES_MAX, /* the more, the less it matters what packing costs */
    TILE_STEP = 32,
    PAIRS = 16,                  /* elements along the sum, per instruction */
    LANE_BYTES = TILE_LANES * 4, /* from row to row of q, s, p and o */
    KEY_BYTES = TILE_STRIDE * 4, /* of k */
    V_ROW = TILE_KEYS / 2,
    V_BYTES = V_ROW * 4 /* of V turned around: [dims][pairs of keys] */
};

#include "kernels/x86/bf16_tile.h"

/* Parts of t->extra: V turned around, and a block of products. */
static float *amx_values(const struct tile *t)
{
    return t->extra;
}
static float *amx_block(const struct tile *t)
{
    return t->extra + PKV__MAX_DIM * V_ROW;
}

/* t->v [pairs of keys][dims] to [dims][pairs of keys]. */
static void amx_turn_values(const struct tile *t)
{
    const int32_t dim = tile_pad_dim(t->call->v->dim);
    for (int32_t pair = 0; pair < V_ROW; pair += LANES)
        for (int32_t e = 0; e < dim; e += LANES) {
            vec x[LANES];
            PKV_UNROLL for (int i = 0; i < LANES; i++) x[i] =
                v_load(t->v + (pair + i) * TILE_STRIDE + e);
            v_transpose(x);
            PKV_UNROLL for (int i = 0; i < LANES; i++)
                v_store(amx_values(t) + (e + i) * V_ROW + pair, x[i]);
        }
}

static void tile_pack_keys(struct tile *t)
{
    bf16_pack_keys(t);
    amx_turn_values(t);
}

/* Tiles 0-3: sums of (rows 0-15, 16-31) x (lanes 0-15, 16-31). 4, 5: left factor, 6, 7: right. */
PKV_TEMPLATE void amx_clear(int nv)
{
    amx_zero(0);
    amx_zero(1);
    if (nv == 1) return;
    amx_zero(2);
    amx_zero(3);
}

PKV_TEMPLATE void amx_step(int nv, const float *a, size_t a_bytes, int32_t a_half, const float *b)
{
    amx_load(4, a, a_bytes);
    amx_load(6, b, LANE_BYTES);
    amx_load(5, a + a_half, a_bytes);
    amx_dot(0, 4, 6);
    amx_dot(1, 5, 6);
    if (nv == 1) return;
    amx_load(7, b + LANES, LANE_BYTES);
    amx_dot(2, 4, 7);
    amx_dot(3, 5, 7);
}

PKV_TEMPLATE void amx_put(int nv, float *to)
{
    amx_store(0, to, LANE_BYTES);
    amx_store(1, to + 16 * TILE_LANES, LANE_BYTES);
    if (nv == 1) return;
    amx_store(2, to + LANES, LANE_BYTES);
    amx_store(3, to + 16 * TILE_LANES + LANES, LANE_BYTES);
}

PKV_TEMPLATE void tile_scores(const struct tile *t, int32_t panel, int nv,
                              const struct tile_view *w)
{
    const int32_t elements = tile_pad_dim(t->call->k->dim) / 2;
    const float *q = t->q + (size_t)panel * (size_t)(elements * 2 * TILE_LANES);
    for (int32_t j = w->lo; j < w->hi; j += 32) {
        amx_clear(nv);
        for (int32_t e = 0; e < elements; e += PAIRS)
            amx_step(nv, t->k + j * TILE_STRIDE + e, KEY_BYTES, 16 * TILE_STRIDE,
                     q + e * TILE_LANES);
        amx_put(nv, t->s + j * TILE_LANES);
    }
}

PKV_TEMPLATE void tile_values(const struct tile *t, int32_t panel, int nv,
                              const struct tile_view *w)
{
    const int32_t dim = tile_pad_dim(t->call->v->dim);
    float *o = t->o + (size_t)panel * (size_t)(dim * TILE_LANES), *block = amx_block(t);
    vec shrink[TILE_VECTORS];
    PKV_UNROLL for (int i = 0; i < nv; i++) shrink[i] =
        v_load(t->rows->shrink + w->query + i * LANES);
    for (int32_t e = 0; e < dim; e += 32, o += 32 * TILE_LANES) {
        amx_clear(nv);
        for (int32_t pair = w->lo / 2; pair < w->hi / 2; pair += PAIRS)
            amx_step(nv, amx_values(t) + e * V_ROW + pair, V_BYTES, 16 * V_ROW,
                     t->s + pair * TILE_LANES);
        amx_put(nv, block);
        for (int32_t d = 0; d < 32; d++) {
            PKV_UNROLL for (int i = 0; i < nv; i++)
            {
                float *to = o + d * TILE_LANES + i * LANES;
                v_store(to,
                        v_fma(shrink[i], v_load(to), v_load(block + d * TILE_LANES + i * LANES)));
            }
        }
    }
}

#include "kernels/vector/tile.inc"

static void rows_attention(const struct pkv__attn_call *call, const struct pkv__attn_unit *unit,
                           void *scratch)
{
    struct amx_shape shape = { .palette = 1 };
    if (call->q->dtype != PKV_BF16) {
        pkv__avx512_rows_attention(call, unit, scratch);
        return;
    }
    for (int i = 0; i < 8; i++) {
        shape.row_bytes[i] = 64;
        shape.rows[i] = 16;
    }
    amx_config(&shape);
    tile_attention(call, unit, scratch);
    amx_release();
}

void pkv__amx_register_rows(struct pkv__cpu_kernels *k)
{
    k->attn_rows[PKV_BF16] = (struct pkv__attn_kernel){ .fn = { rows_attention, rows_attention },
                                                        .isa = PKV_ISA_AMX,
                                                        .kind = PKV__WHOLE,
                                                        .unit_queries = TILE_QUERIES };
}
