/* Sizes of a decode kernel, its shared memory, and what the parts of it hand to each other.
 *
 *   shared memory   ring of each warp: STAGES tiles of K and V | queries | columns
 *                   states of the warps, when they are merged, lie where the ring was
 *
 * A column is one query: row i and head h of the group stand in column i * group + h; COLUMNS of
 * them are a tile of columns, the N side of the products. */
#ifndef PKV_ATTN_DECODE_SHAPE_CUH
#define PKV_ATTN_DECODE_SHAPE_CUH

#include "kernels/cuda/attn_kv_types.cuh"
#include "kernels/cuda/attn_numbers.cuh"
#include "kernels/cuda/attn_rows.cuh"
#include "kernels/cuda/attn_spans.cuh"
#include "kernels/cuda/attn_visible.cuh"

/* What each column of an item has of its own. */
struct pkv__column {
    int32_t row;     /* of the sequence; -1: there is no such column */
    int32_t head;    /* of q */
    float factor;    /* of a product with K: scale, unit of codes, and what q was divided by */
    float slope;     /* ALiBi */
    float query_sum; /* of the query as it is multiplied: for zero points */
};

/* RAGGED: rows may end within 16 bytes. */
template <class Store_, int32_t D_, int32_t NT_, bool RAGGED_> struct pkv__decode_shape {
    using Store = Store_;
    using Product = typename Store::product;
    using Tile = pkv__tile_shape<D_ * Store::BITS / 8>;
    static constexpr int32_t D = D_, NT = NT_, COLUMNS = 8 * NT;
    static constexpr bool RAGGED = RAGGED_;
    /* Of rows of 512 bytes four warps would need more shared memory than sm_86 has. */
    static constexpr int32_t WARPS = D > 128 ? 2 : 4, THREADS = 32 * WARPS;
    static constexpr int32_t N_STEPS = D / Store::STEP_DIMS; /* of ldmatrix along a row */
    static constexpr int32_t N_FRAGS = D / 16;
    static constexpr int32_t NUMBERS_BYTES = Store::IS_CODES ? Store::HAS_ZEROS ? 256 : 128 : 0;
    static constexpr int32_t STAGE_BYTES = 2 * Tile::BYTES + NUMBERS_BYTES;
    static constexpr int32_t FIT = 64 * 1024 / (WARPS * STAGE_BYTES);
    static constexpr int32_t STAGES = FIT < 2 ? 2 : FIT < 3 ? FIT : 3;
    static constexpr int32_t RING_BYTES = WARPS * STAGES * STAGE_BYTES;
    /* States of the warps: D + 4 floats apart, the accumulators' columns fill all banks. */
    static constexpr int32_t O_PITCH = D + 4;
    static constexpr int32_t STATE_BYTES = WARPS * COLUMNS * (O_PITCH + 2) * 4;
    static constexpr int32_t QUERIES_AT = RING_BYTES > STATE_BYTES ? RING_BYTES : STATE_BYTES;
    static constexpr int32_t Q_PITCH = D + 8; /* elements: eight columns in different banks */
    static constexpr int32_t COLUMNS_AT = QUERIES_AT + COLUMNS * Q_PITCH * 2;
    static constexpr int32_t SHARED_BYTES = COLUMNS_AT + COLUMNS * (int32_t)sizeof(pkv__column);
    /* CTAs per SM to leave registers for: 128 each with 8 columns of up to 128 dims, else 168; 255
     * for more dims of codes, which spill with 168 and whose rings leave room for four. */
    static constexpr bool MORE = NT > 1 || (Store::IS_CODES && RAGGED);
    static constexpr int32_t MIN_CTAS = D > 128 ? Store::IS_CODES ? 4 : 6 : MORE ? 3 : 4;
    /* A state in the workspace: o [COLUMNS][D], m [COLUMNS], l [COLUMNS]. */
    static constexpr int32_t SLOT_FLOATS = COLUMNS * (D + 2);
};

/* Of types with zero points: sum of this lane's weights times scale and zero point, in o's unit. */
template <int32_t NT, bool HAS_ZEROS> struct pkv__zero_sums {
};
template <int32_t NT> struct pkv__zero_sums<NT, true> {
    float sum[NT][2];
};
/* Of codes: 1 / unit of o, a power of two, see attn_codes_scales.cuh. 16-bit types have none. */
template <int32_t NT, bool CODES> struct pkv__units {
};
template <int32_t NT> struct pkv__units<NT, true> {
    float over[NT][2];
};
/* Largest logit of a column that has none yet: no difference with it is NaN. */
constexpr float PKV__NO_LOGIT = -3.402823466e38f;

/* What a warp has computed of its columns, in the layout of the accumulators: g = lane / 4,
 * t = lane % 4; index e is column 8 n + 2 t + e. */
template <class Shape> struct pkv__decode_state {
    float o[Shape::NT][Shape::N_FRAGS][4]; /* unnormalised */
    float m[Shape::NT][2];                 /* largest logit; l 0: none yet */
    float l[Shape::NT][2];                 /* sum of this lane's weights */
    pkv__units<Shape::NT, Shape::Store::IS_CODES> units;
    pkv__zero_sums<Shape::NT, Shape::Store::HAS_ZEROS> zeros;
};

template <class Shape> PKV_DEV void pkv__clear_state(pkv__decode_state<Shape> &state)
{
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            state.m[n][e] = PKV__NO_LOGIT;
            state.l[n][e] = 0;
            if constexpr (Shape::Store::IS_CODES) state.units.over[n][e] = PKV__LARGEST_OVER;
            if constexpr (Shape::Store::HAS_ZEROS) state.zeros.sum[n][e] = 0;
        }
        PKV_UNROLL
        for (int32_t f = 0; f < Shape::N_FRAGS; f++) {
            PKV_UNROLL
            for (int32_t i = 0; i < 4; i++) state.o[n][f][i] = 0;
        }
    }
}

/* One item or a part of it. In shared memory, which spares each thread some 40 registers. */
struct pkv__decode_item {
    int32_t kv_head;
    pkv__cut cut;
    pkv__sight sight;
    pkv__lookup lookup;
    int64_t column0; /* its first column */
    int32_t n_columns;
    bool one_row;
    pkv__keys keys;           /* hull of what its rows see */
    int32_t tile_lo, tile_hi; /* tiles of 16 keys, from key 0 on */
    pkv__part part;           /* who else has some of it */
    int64_t slot;             /* of a chunk that is one of several; else -1 */
};
/* The first tile of this warp: it takes those whose index is its own modulo WARPS, whoever has
 * which part of the keys. */
template <class Shape> PKV_DEV int32_t pkv__warp_tile(const pkv__decode_item &item)
{
    return item.tile_lo + ((pkv_warp() - item.tile_lo) & (Shape::WARPS - 1));
}

#endif
