/* One warp over its tiles of keys: copies ahead, logits, weights, sums.
 *
 *   S (16 keys x 8 columns)  = K (ldmatrix) x queries (registers)
 *   O (16 dims x 8 columns) += V (ldmatrix.trans) x P (S, through movmatrix)
 *
 * Of 16 keys' logits a column lies in the eight lanes of one t, two to a lane: the maximum takes
 * three shuffles, the sum none until the end.
 *
 * Twice: PLAIN where the item has one row, which sees an interval of keys, logits are products and
 * tiles lie in blocks; else everything that there is, asked tile by tile. */
#ifndef PKV_ATTN_DECODE_TILES_CUH
#define PKV_ATTN_DECODE_TILES_CUH

#include "kernels/cuda/attn_decode_confine.cuh"
#include "kernels/cuda/attn_decode_copies.cuh"

/* A lane's columns, 8 n + 2 t + e. */
template <class Shape> struct pkv__lane_columns {
    float factor[Shape::NT][2];
    float query_sum[Shape::NT][2]; /* read for types with zero points alone */
};
template <class Shape>
PKV_DEV void pkv__load_columns(pkv__lane_columns<Shape> &to, const unsigned char *shared)
{
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            const pkv__column &c = columns[8 * n + pkv_lane() % 4 * 2 + e];
            to.factor[n][e] = c.factor;
            to.query_sum[n][e] = c.query_sum;
        }
    }
}

/* ---------------------------------------------------------------- logits */
template <class Shape>
PKV_DEV void pkv__multiply_keys(float (&s)[Shape::NT][4], const unsigned char *shared, int32_t keys,
                                const uint32_t (&q)[Shape::NT][Shape::N_FRAGS][2])
{
    using Store = typename Shape::Store;
    keys += Shape::Tile::place(Store::k_row(pkv_lane()), Store::k_chunk(pkv_lane()));
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) s[n][i] = 0;
    }
    PKV_UNROLL
    for (int32_t step = 0; step < Shape::N_STEPS; step++) {
        uint32_t r[4], a[Store::N_FRAGS][4];
        pkv_ldm_x4(r, shared + Shape::Tile::along(keys, step));
        Store::k_frags(a, r);
        PKV_UNROLL
        for (int32_t f = 0; f < Store::N_FRAGS; f++) {
            PKV_UNROLL
            for (int32_t n = 0; n < Shape::NT; n++) {
                const uint32_t(&b)[2] = q[n][step * Store::N_FRAGS + f];
                pkv_mma16816<typename Shape::Product>(s[n], a[f], b[0], b[1]);
            }
        }
    }
}

/* Softcap and ALiBi. s[n][2 k + e]: key + 8 k of column 8 n + 2 t + e. */
template <class Shape>
PKV_DEV void pkv__adjust(float (&s)[Shape::NT][4], const struct pkv__cuda_attn &a,
                         const pkv__decode_item &item, const unsigned char *shared, int32_t key)
{
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    if (a.opts.softcap > 0) {
        PKV_UNROLL
        for (int32_t n = 0; n < Shape::NT; n++) {
            PKV_UNROLL
            for (int32_t i = 0; i < 4; i++)
                s[n][i] = pkv__capped(s[n][i], a.opts.softcap, a.cap_unit);
        }
    }
    if (!a.opts.alibi) return;
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            const pkv__column &c = columns[8 * n + pkv_lane() % 4 * 2 + i % 2];
            const int32_t j = key + i / 2 * 8;
            if (c.row < 0 || j >= item.cut.kv_len) continue;
            s[n][i] = fmaf(c.slope, (float)pkv__sight_ahead(item.sight, c.row, j), s[n][i]);
        }
    }
}

/* -inf where a column does not see a key: all columns see [keys.lo, keys.hi), or each has a word.
 */
template <class Shape>
PKV_DEV void pkv__hide_others(float (&s)[Shape::NT][4], pkv__keys keys, int32_t key)
{
    PKV_UNROLL
    for (int32_t k = 0; k < 2; k++) {
        const uint32_t behind = (uint32_t)(key + 8 * k - keys.lo);
        const bool sees = behind < (uint32_t)(keys.hi - keys.lo);
        PKV_UNROLL
        for (int32_t i = 0; i < 2 * Shape::NT; i++)
            if (!sees) s[i / 2][2 * k + i % 2] = PKV_NEG_INF;
    }
}
template <class Shape> PKV_DEV void pkv__hide_by_word(float (&s)[Shape::NT][4], uint32_t word)
{
    PKV_UNROLL
    for (int32_t i = 0; i < 2 * Shape::NT; i++) {
        const int32_t n = i / 2, e = i % 2;
        const uint32_t bits = pkv_shfl(word, 8 * n + pkv_lane() % 4 * 2 + e) >> pkv_lane() / 4;
        if (!(bits & 1u)) s[n][e] = PKV_NEG_INF;
        if (!(bits & 0x100u)) s[n][2 + e] = PKV_NEG_INF;
    }
}

/* ---------------------------------------------------------------- weights */
/* Logits become weights, times 2^P_BITS; o and l go over to the new maxima. Where no maximum of
 * the warp moves, the factors are 1, or o and l are zeros. */
template <class Shape>
PKV_DEV void pkv__weigh(float (&s)[Shape::NT][4], pkv__decode_state<Shape> &state)
{
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        float back[2];
        bool moved = false;
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            float &lo = s[n][e], &hi = s[n][2 + e];
            float m = fmaxf(lo, hi);
            m = fmaxf(m, pkv_shfl_xor(m, 4));
            m = fmaxf(m, pkv_shfl_xor(m, 8));
            m = fmaxf(m, pkv_shfl_xor(m, 16));
            moved = moved || m > state.m[n][e];
            m = fmaxf(m, state.m[n][e]);
            const float finite = m == PKV_NEG_INF ? 0 : m;
            back[e] = pkv__weight(state.m[n][e] - finite, 0);
            state.m[n][e] = m;
            lo = pkv__weight(lo - finite, PKV_P_BITS<typename Shape::Product>);
            hi = pkv__weight(hi - finite, PKV_P_BITS<typename Shape::Product>);
            state.l[n][e] = state.l[n][e] * back[e] + (lo + hi);
            if constexpr (Shape::Store::HAS_ZEROS) state.zeros.sum[n][e] *= back[e];
        }
        if (!pkv_any(moved)) continue;
        PKV_UNROLL
        for (int32_t f = 0; f < Shape::N_FRAGS; f++) {
            PKV_UNROLL
            for (int32_t i = 0; i < 4; i++) state.o[n][f][i] *= back[i % 2];
        }
    }
}

/* ---------------------------------------------------------------- values */
template <class Shape>
PKV_DEV void pkv__multiply_values(pkv__decode_state<Shape> &state, const unsigned char *shared,
                                  int32_t values, const float (&p)[Shape::NT][4],
                                  const pkv__give_back<Shape> &back)
{
    using Store = typename Shape::Store;
    using Product = typename Shape::Product;
    values += Shape::Tile::place(Store::v_row(pkv_lane()), Store::v_chunk(pkv_lane()));
    uint32_t b[Shape::NT][2];
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        b[n][0] = pkv_movmatrix_trans(pkv_pack2<Product>(p[n][0], p[n][1]));
        b[n][1] = pkv_movmatrix_trans(pkv_pack2<Product>(p[n][2], p[n][3]));
    }
    PKV_UNROLL
    for (int32_t step = 0; step < Shape::N_STEPS; step++) {
        uint32_t r[4], a[Store::N_FRAGS][4];
        pkv_ldm_x4_trans(r, shared + Shape::Tile::along(values, step));
        Store::v_frags(a, r);
        PKV_UNROLL
        for (int32_t f = 0; f < Store::N_FRAGS; f++) {
            PKV_UNROLL
            for (int32_t n = 0; n < Shape::NT; n++) {
                float(&o)[4] = state.o[n][step * Store::N_FRAGS + f];
                pkv__add_values<Store>(o, a[f], b[n][0], b[n][1], back.of[n]);
            }
        }
    }
}

/* ---------------------------------------------------------------- the walk */
template <class Shape, bool PLAIN>
PKV_DEV void
pkv__tile(const struct pkv__cuda_attn &a, const pkv__decode_item &item, unsigned char *shared,
          pkv__decode_state<Shape> &state, pkv__keys keys, const pkv__lane_columns<Shape> &columns,
          const uint32_t (&q)[Shape::NT][Shape::N_FRAGS][2], int32_t tile, int32_t stage)
{
    const int32_t key = tile * PKV__TILE_KEYS + pkv_lane() / 4;
    float s[Shape::NT][4];
    uint32_t word = 0;
    if (PLAIN) {
        pkv__multiply_keys<Shape>(s, shared, stage, q);
    } else { /* the registers of the queries serve to find out who sees what */
        uint32_t again[Shape::NT][Shape::N_FRAGS][2];
        pkv__load_queries<Shape>(again, shared);
        pkv__multiply_keys<Shape>(s, shared, stage, again);
    }
    pkv__scale_logits<Shape>(s, columns.factor, columns.query_sum, shared, stage);
    if (PLAIN) {
        pkv__hide_others<Shape>(s, keys, key);
    } else {
        pkv__adjust<Shape>(s, a, item, shared, key);
        word = pkv__column_word<Shape>(item, shared, tile);
        pkv__hide_by_word<Shape>(s, word);
    }
    pkv__weigh<Shape>(s, state);
    pkv__give_back<Shape> back = {};
    if constexpr (Shape::Store::IS_CODES)
        pkv__weigh_codes<Shape, PLAIN>(s, word, shared, stage, state, back);
    if constexpr (!PLAIN && Shape::Store::SPECIAL != 0)
        pkv__confine_values<Shape>(state, shared, stage + Shape::Tile::BYTES, s, word,
                                   pkv__word_of_all(word), pkv_lane() < item.n_columns);
    pkv__multiply_values<Shape>(state, shared, stage + Shape::Tile::BYTES, s, back);
}

template <class Shape, bool PLAIN>
PKV_DEV void pkv__first_tiles(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                              unsigned char *shared, pkv__decode_source<Shape> &source)
{
    PKV_UNROLL
    for (int32_t i = 0; i < Shape::STAGES - 1; i++)
        pkv__issue<Shape, PLAIN>(a, item, shared, source, source.tile_lo + i * Shape::WARPS,
                                 source.ring + i * Shape::STAGE_BYTES,
                                 source.ring + (i > 0 ? i - 1 : 0) * Shape::STAGE_BYTES);
}

/* All tiles of the warp, in ascending order, after the first ones. Its ring is its own; copies are
 * STAGES - 1 groups ahead. Nothing is under way at the end. */
template <class Shape, bool PLAIN>
PKV_DEV void pkv__walk_tiles(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                             unsigned char *shared, pkv__decode_state<Shape> &state,
                             pkv__decode_source<Shape> &source,
                             const pkv__lane_columns<Shape> &columns,
                             const uint32_t (&q)[Shape::NT][Shape::N_FRAGS][2])
{
    constexpr int32_t AHEAD = Shape::STAGES - 1;
    const int32_t end = source.ring + Shape::STAGES * Shape::STAGE_BYTES;
    int32_t into = source.ring + AHEAD * Shape::STAGE_BYTES, from = source.ring;
    for (int32_t tile = source.tile_lo; tile < source.tile_hi; tile += Shape::WARPS) {
        pkv__issue<Shape, PLAIN>(a, item, shared, source, tile + AHEAD * Shape::WARPS, into,
                                 (into == source.ring ? end : into) - Shape::STAGE_BYTES);
        pkv_cp_wait<AHEAD>();
        pkv_syncwarp();
        pkv__tile<Shape, PLAIN>(a, item, shared, state, source.keys, columns, q, tile, from);
        pkv_syncwarp(); /* all lanes have read the stage that the next copies go to */
        into = from;
        from += Shape::STAGE_BYTES;
        if (from == end) from = source.ring;
    }
    pkv_cp_wait<0>();
}

#endif
