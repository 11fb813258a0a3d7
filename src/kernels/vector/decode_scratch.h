/* Scratch of the short-rows kernels of every vector level, for those who hand it out. */
#ifndef PKV_DECODE_SCRATCH_H
#define PKV_DECODE_SCRATCH_H

#include "common/common.h"

enum {
    PKV__DECODE_ROWS = 32,       /* most rows of a unit: pkv__attn_is_short */
    PKV__DECODE_VECTORS = 256,   /* most query vectors (rows x heads) that walk the keys together */
    PKV__DECODE_TILE_BYTES = 576 /* of one tile; there are at most as many tiles as vectors */
};

/* Queries as floats and tiles; a multiple of 64. */
static inline size_t pkv__decode_scratch_bytes(int32_t n_q_heads, int32_t n_kv_heads, int32_t k_dim)
{
    const int64_t per_head = pkv__max_i32(n_q_heads / n_kv_heads, PKV__DECODE_ROWS);
    const int64_t asked = per_head * n_kv_heads;
    const size_t vectors = (size_t)(asked < PKV__DECODE_VECTORS ? asked : PKV__DECODE_VECTORS);
    return vectors * (PKV__DECODE_TILE_BYTES + pkv__align_up((size_t)k_dim, 16) * sizeof(float));
}

#endif
