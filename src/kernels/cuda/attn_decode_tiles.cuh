/* One warp over its tiles of keys: copies ahead, logits, weights, sums. For all that there is,
 * asked tile by tile; attn_decode_plain.cuh has what is common. */
#ifndef PKV_ATTN_DECODE_TILES_CUH
#define PKV_ATTN_DECODE_TILES_CUH

#include "kernels/cuda/attn_decode_confine.cuh"
#include "kernels/cuda/attn_decode_copies.cuh"
#include "kernels/cuda/attn_decode_maths.cuh"

/* ---------------------------------------------------------------- logits */
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

/* -inf where a column does not see a key. */
template <class Shape>
PKV_DEV void pkv__hide_others(float (&s)[Shape::NT][4], const pkv__seen_rows<Shape> &sees)
{
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++)
            if (!sees.of[n][i % 2][i / 2]) s[n][i] = PKV_NEG_INF;
    }
}

/* ---------------------------------------------------------------- weights */
/* The units that columns have with a tile's scales of V: those of keys that a column does not see
 * may be of any size. Does any of the lane's grow? */
template <class Shape>
PKV_DEV bool pkv__new_units(pkv__units<Shape::NT, true> &units, const pkv__row_numbers &v,
                            const pkv__seen_rows<Shape> &sees)
{
    bool grows = false;
    PKV_UNROLL
    for (int32_t i = 0; i < 2 * Shape::NT; i++) {
        const bool(&seen)[2] = sees.of[i / 2][i % 2];
        float &over = units.over[i / 2][i % 2];
        const float is = pkv__over_of(seen[0] ? v.scale[0] : 0, seen[1] ? v.scale[1] : 0, over);
        grows = grows || is != over;
        over = is;
    }
    return grows;
}
template <class Shape>
PKV_DEV void pkv__weigh_tile(float (&s)[Shape::NT][4], pkv__decode_state<Shape> &state,
                             const pkv__lane_columns<Shape> &columns,
                             const pkv__seen_rows<Shape> &sees, const unsigned char *stage)
{
    bool moves = pkv__rises<Shape>(s, state);
    pkv__row_numbers v = { { 1, 1 }, { 0, 0 } };
    auto units = state.units;
    if constexpr (Shape::Store::IS_CODES) {
        v = pkv__factors_of_rows<Shape>(stage, 16);
        moves = pkv__new_units<Shape>(units, v, sees) || moves;
    }
    if (pkv_any(moves)) pkv__raise<Shape>(s, state, columns.by, units);
    pkv__weigh<Shape>(s, state, columns.by);
    if constexpr (Shape::Store::IS_CODES) pkv__weigh_codes<Shape>(s, sees, v, state);
}

/* ---------------------------------------------------------------- the walk */
template <class Shape>
PKV_DEV void pkv__tile(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                       unsigned char *shared, pkv__decode_state<Shape> &state,
                       const pkv__lane_columns<Shape> &columns, int32_t tile, unsigned char *stage)
{
    unsigned char *const values = stage + Shape::Tile::BYTES;
    float s[Shape::NT][4];
    uint32_t q[Shape::NT][Shape::N_FRAGS][2]; /* their registers serve to find out who sees what */
    pkv__load_queries<Shape>(q, shared);
    pkv__multiply_keys<Shape>(s, stage + pkv__key_place<Shape>(), q);
    pkv__scale_logits<Shape>(s, columns, stage);
    pkv__adjust<Shape>(s, a, item, shared, tile * PKV__TILE_KEYS + pkv_lane() / 4);
    const uint32_t word = pkv__column_word<Shape>(item, shared, tile);
    pkv__seen_rows<Shape> sees;
    pkv__see_by_word<Shape>(sees, word);
    pkv__hide_others<Shape>(s, sees);
    pkv__weigh_tile<Shape>(s, state, columns, sees, stage);
    if constexpr (Shape::Store::SPECIAL != 0)
        pkv__confine_values<Shape>(state, values, s, word, pkv__word_of_all(word),
                                   pkv_lane() < item.n_columns);
    pkv__multiply_values<Shape>(state, values + pkv__value_place<Shape>(), s);
}

template <class Shape>
PKV_DEV void pkv__first_tiles(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                              unsigned char *shared, pkv__decode_source<Shape> &source)
{
    PKV_UNROLL
    for (int32_t i = 0; i < Shape::STAGES - 1; i++)
        pkv__issue<Shape>(a, item, shared, source, source.tile_lo + i * Shape::WARPS,
                          source.ring + i * Shape::STAGE_BYTES,
                          source.ring + (i > 0 ? i - 1 : 0) * Shape::STAGE_BYTES);
}

/* All tiles of the warp, in ascending order. Its ring is its own; copies are STAGES - 1 groups
 * ahead. Nothing is under way at the end. */
template <class Shape>
PKV_DEV void pkv__walk_tiles(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                             unsigned char *shared, pkv__decode_state<Shape> &state,
                             const pkv__lane_columns<Shape> &columns)
{
    constexpr int32_t AHEAD = Shape::STAGES - 1;
    pkv__decode_source<Shape> source;
    pkv__source_of<Shape>(source, a, item);
    pkv__first_tiles<Shape>(a, item, shared, source);
    const int32_t end = source.ring + Shape::STAGES * Shape::STAGE_BYTES;
    int32_t into = source.ring + AHEAD * Shape::STAGE_BYTES, from = source.ring;
    for (int32_t tile = source.tile_lo; tile < source.tile_hi; tile += Shape::WARPS) {
        pkv__issue<Shape>(a, item, shared, source, tile + AHEAD * Shape::WARPS, into,
                          (into == source.ring ? end : into) - Shape::STAGE_BYTES);
        pkv_cp_wait<AHEAD>();
        pkv_syncwarp();
        pkv__tile<Shape>(a, item, shared, state, columns, tile, shared + from);
        pkv_syncwarp(); /* all lanes have read the stage that the next copies go to */
        into = from;
        from += Shape::STAGE_BYTES;
        if (from == end) from = source.ring;
    }
    pkv_cp_wait<0>();
}

#endif
