/* One warp over its tiles of keys, for what decoding is mostly: an item of one row, which sees an
 * interval of keys, whose logits are products, whose tiles lie in blocks.
 *
 *   left   keys from the current tile's first to the end of the CTA's: all else follows from it
 *   ids    lane i has that of the i-th of 32 tiles of the warp, judged
 *
 * Addresses are 64-bit sums of 32-bit products: ids and tokens times strides that fit. */
#ifndef PKV_ATTN_DECODE_PLAIN_CUH
#define PKV_ATTN_DECODE_PLAIN_CUH

#include "kernels/cuda/attn_decode_maths.cuh"

/* What a lane reads by. Dims and strides of K and V are the same. */
template <class Shape> struct pkv__plain_source {
    const unsigned char *k, *v; /* block 0, the lane's row of a tile at token 0, its piece */
    int32_t block, token;       /* strides, bytes */
    int32_t skip;               /* rows in front of the lane's; 16: its piece lies beyond the dim,
                                   unless ragged: then `bytes` says so */
    int32_t bytes;              /* of the piece within the dim */
    pkv__number_rows<typename Shape::Store> number_rows;
    pkv__factors<typename Shape::Store> factors;
    int32_t id, at; /* of the lane's tile */
};
/* The key behind the CTA's last one. */
PKV_DEV int32_t pkv__end_of(const pkv__decode_item &item)
{
    return item.keys.hi / PKV__TILE_KEYS < item.tile_hi ? item.keys.hi
                                                        : item.tile_hi * PKV__TILE_KEYS;
}

/* Keys from the warp's first tile on; not above 0: it has none. */
template <class Shape> PKV_DEV int32_t pkv__left_of(const pkv__decode_item &item)
{
    const int32_t tile = pkv__warp_tile<Shape>(item);
    return tile < item.tile_hi ? pkv__end_of(item) - tile * PKV__TILE_KEYS : 0;
}

/* K and V are as wide and take the same steps, which fit 32 bits. */
template <class Store> PKV_DEV bool pkv__steps_fit(const pkv_kv_view &k, const pkv_kv_view &v)
{
    const int64_t block = pkv__stride_bytes<Store>(k.block_stride);
    const int64_t token = pkv__stride_bytes<Store>(k.token_stride);
    return k.dim == v.dim && k.block_stride == v.block_stride && k.token_stride == v.token_stride &&
           block == (int32_t)block && token == (int32_t)token;
}
template <class Shape>
PKV_DEV bool pkv__is_plain(const struct pkv__cuda_attn &a, const pkv__decode_item &item)
{
    using Store = typename Shape::Store;
    bool fit = pkv__steps_fit<Store>(a.k, a.v);
    if constexpr (Store::IS_CODES) fit = fit && pkv__number_steps_fit(a.k.scales, a.v.scales);
    if constexpr (Store::HAS_ZEROS) fit = fit && pkv__number_steps_fit(a.k.zeros, a.v.zeros);
    return fit && item.one_row && pkv__tiles_in_blocks(a) && !a.batch.q_pos && !a.opts.mask &&
           (Store::IS_CODES ? !a.opts.alibi && !(a.opts.softcap > 0)
                            : pkv__keeps_products<Shape>(a));
}

/* ---------------------------------------------------------------- ids */
/* Look up 32 tiles from `tile` on: one load for all. Each has a key that is read, and its id is
 * judged at once. */
template <class Shape>
PKV_DEV void pkv__next_ids(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                           pkv__plain_source<Shape> &s, int32_t tile)
{
    const int32_t mine = tile + pkv_lane() * Shape::WARPS;
    s.id = s.at = 0;
    if (mine >= item.tile_hi) return;
    const pkv__place place = pkv__fetch(item.lookup, mine * PKV__TILE_KEYS);
    s.id = pkv__usable_id(a, item.lookup, place.id, place.entry);
    s.at = place.at;
}

/* ---------------------------------------------------------------- copies */
template <class Shape>
PKV_DEV void pkv__plain_rows_of(const struct pkv__cuda_attn &a, int32_t head,
                                pkv__plain_source<Shape> &s)
{
    using Store = typename Shape::Store;
    using Tile = typename Shape::Tile;
    const pkv__lane_rows rows = pkv__lane_rows_of<Store, Tile>(a.k, head);
    s.k = rows.from;
    s.v = pkv__lane_rows_of<Store, Tile>(a.v, head).from;
    s.block = (int32_t)pkv__stride_bytes<Store>(a.k.block_stride);
    s.token = (int32_t)pkv__stride_bytes<Store>(a.k.token_stride);
    s.skip = Shape::RAGGED || rows.bytes > 0 ? pkv_lane() / Tile::CHUNKS : PKV__TILE_KEYS;
    s.bytes = rows.bytes;
}

/* Rows of a tile that the lane copies at once of K, and then of V. Of dims beyond 128 one: what
 * both share is too much to be kept for all rows. */
template <class Shape> constexpr int32_t PKV__AT_ONCE = Shape::D > 128 ? 1 : Shape::Tile::N_COPIES;

/* Of one tile of K, or V `behind` it, in block `id` from token `at` on: its rows [lo, n), and of
 * them the lane's from `j` on. first: of block 0. */
template <class Shape>
PKV_DEV void pkv__copy_plain(unsigned char *to, int32_t behind, const pkv__plain_source<Shape> &s,
                             const unsigned char *first, int32_t id, int32_t at, int32_t lo,
                             int32_t n, int32_t j)
{
    using Tile = typename Shape::Tile;
    const unsigned char *const from = pkv_step(pkv_step(first, id, s.block), at, s.token);
    const int32_t end = j + PKV__AT_ONCE<Shape>;
    lo -= s.skip;
    n -= s.skip;
    PKV_UNROLL
    for (; j < end; j++) {
        const int32_t row = j * Tile::STEP_ROWS;
        pkv_cp_async16(Tile::down(to, j) + behind, j == 0 ? from : pkv_step(from, row, s.token),
                       row >= lo && row < n ? Shape::RAGGED ? s.bytes : 16 : 0);
    }
}

/* Start the copies of the tile that lane `lane` has the id of, into `stage`; a group. left: keys
 * from its first one on; lo: rows of it that the item does not see. before: the stage of the last
 * one. Lanes from the last tile on have id 0, and nothing is read by it. */
template <class Shape>
PKV_DEV void pkv__issue_plain(const struct pkv__cuda_attn &a, pkv__plain_source<Shape> &s,
                              int32_t lane, int32_t left, int32_t lo, unsigned char *stage,
                              unsigned char *before)
{
    using Tile = typename Shape::Tile;
    const int32_t id = pkv_shfl(s.id, lane), at = pkv_shfl(s.at, lane);
    const int32_t n = left < PKV__TILE_KEYS ? left : PKV__TILE_KEYS;
    unsigned char *const to =
        stage + Tile::place(pkv_lane() / Tile::CHUNKS, pkv_lane() % Tile::CHUNKS);
    pkv__put_factors<Shape>(s.factors, before, pkv_lane());
    PKV_UNROLL
    for (int32_t j = 0; j < Tile::N_COPIES; j += PKV__AT_ONCE<Shape>) {
        pkv__copy_plain<Shape>(to, 0, s, s.k, id, at, lo, n, j);
        pkv__copy_plain<Shape>(to, Tile::BYTES, s, s.v, id, at, lo, n, j);
    }
    pkv__load_plain_factors(s.factors, a, s.number_rows, id, at, lo, n);
    pkv_cp_commit();
}

/* The warp's first tiles. */
template <class Shape>
PKV_DEV void pkv__begin_plain(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                              unsigned char *ring, pkv__plain_source<Shape> &s)
{
    pkv__plain_rows_of<Shape>(a, item.kv_head, s);
    pkv__number_rows_of(s.number_rows, a, item.kv_head);
    pkv__clear_factors(s.factors);
    const int32_t left = pkv__left_of<Shape>(item), n_seen = pkv__end_of(item) - item.keys.lo;
    const int32_t lo = left > n_seen ? left - n_seen : 0;
    pkv__next_ids<Shape>(a, item, s, pkv__warp_tile<Shape>(item));
    PKV_UNROLL
    for (int32_t i = 0; i < Shape::STAGES - 1; i++)
        pkv__issue_plain<Shape>(a, s, i, left - i * Shape::WARPS * PKV__TILE_KEYS, i == 0 ? lo : 0,
                                ring + i * Shape::STAGE_BYTES,
                                ring + (i > 0 ? i - 1 : 0) * Shape::STAGE_BYTES);
}

/* ---------------------------------------------------------------- a tile */
/* -inf for keys outside of [end - n, end). left: keys up to `end` from the lane's first one. */
template <class Shape>
PKV_DEV void pkv__hide_outside(float (&s)[Shape::NT][4], uint32_t n, int32_t left)
{
    PKV_UNROLL
    for (int32_t k = 0; k < 2; k++) {
        const bool sees = (uint32_t)(left - 8 * k) - 1 < n;
        PKV_UNROLL
        for (int32_t i = 0; i < 2 * Shape::NT; i++)
            if (!sees) s[i / 2][2 * k + i % 2] = PKV_NEG_INF;
    }
}

/* Units of all columns alike: they see the same keys. */
template <class Shape>
PKV_DEV void pkv__weigh_plain(float (&s)[Shape::NT][4], pkv__decode_state<Shape> &state,
                              const pkv__lane_columns<Shape> &columns, const unsigned char *stage)
{
    bool moves = pkv__rises<Shape>(s, state);
    if constexpr (Shape::Store::IS_CODES) {
        const pkv__row_numbers v = pkv__factors_of_rows<Shape>(stage, 16);
        const float over = state.units.over[0][0];
        PKV_UNROLL
        for (int32_t i = 1; i < 2 * Shape::NT; i++) state.units.over[i / 2][i % 2] = over;
        moves |= pkv__outgrows(v.scale, over);
        if (pkv_any(moves)) {
            const float now = pkv__over_of(v.scale[0], v.scale[1], over);
            pkv__units<Shape::NT, true> units;
            PKV_UNROLL
            for (int32_t i = 0; i < 2 * Shape::NT; i++) units.over[i / 2][i % 2] = now;
            pkv__raise<Shape>(s, state, columns.by, units);
        }
        pkv__weigh<Shape>(s, state, columns.by);
        pkv__seen_rows<Shape> sees;
        PKV_UNROLL
        for (int32_t i = 0; i < 4 * Shape::NT; i++) sees.of[i / 4][i % 2][i / 2 % 2] = true;
        pkv__weigh_codes<Shape>(s, sees, v, state);
    } else {
        if (pkv_any(moves)) pkv__raise<Shape>(s, state, columns.by, {});
        pkv__weigh<Shape>(s, state, columns.by);
    }
}

/* ---------------------------------------------------------------- the walk */
/* All tiles of the warp, in ascending order, after the first ones. Its ring is its own; copies are
 * STAGES - 1 groups ahead. Nothing is under way at the end. */
template <class Shape>
PKV_DEV void pkv__walk_plain(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                             unsigned char *ring, pkv__decode_state<Shape> &state,
                             pkv__plain_source<Shape> &source,
                             const pkv__lane_columns<Shape> &columns,
                             const uint32_t (&q)[Shape::NT][Shape::N_FRAGS][2])
{
    constexpr int32_t AHEAD = Shape::STAGES - 1, KEYS = Shape::WARPS * PKV__TILE_KEYS;
    constexpr int32_t END = Shape::STAGES * Shape::STAGE_BYTES;
    static_assert(Shape::STAGES == 2 || Shape::STAGES == 3, "two back is the same, or the next");
    const uint32_t n_seen = (uint32_t)(pkv__end_of(item) - item.keys.lo);
    int32_t from = 0;
    for (int32_t left = pkv__left_of<Shape>(item), lane = AHEAD; left > 0; lane = 0) {
        for (; left > 0 && lane < 32; left -= KEYS, lane++) {
            unsigned char *const stage = ring + from;
            const int32_t into = (from == 0 ? END : from) - Shape::STAGE_BYTES;
            const int32_t next = from + Shape::STAGE_BYTES == END ? 0 : from + Shape::STAGE_BYTES;
            pkv__issue_plain<Shape>(a, source, lane, left - AHEAD * KEYS, 0, ring + into,
                                    ring + (Shape::STAGES == 2 ? from : next));
            pkv_cp_wait<AHEAD>();
            pkv_syncwarp();
            float s[Shape::NT][4];
            pkv__multiply_keys<Shape>(s, stage + pkv__key_place<Shape>(), q);
            if constexpr (Shape::Store::IS_CODES) pkv__scale_logits<Shape>(s, columns, stage);
            pkv__hide_outside<Shape>(s, n_seen, left - pkv_lane() / 4);
            pkv__weigh_plain<Shape>(s, state, columns, stage);
            pkv__multiply_values<Shape>(state,
                                        stage + Shape::Tile::BYTES + pkv__value_place<Shape>(), s);
            pkv_syncwarp(); /* all lanes have read the stage that the next copies go to */
            from = next;
        }
        if (left > 0)
            pkv__next_ids<Shape>(a, item, source,
                                 (pkv__end_of(item) - left) / PKV__TILE_KEYS +
                                     AHEAD * Shape::WARPS);
    }
    pkv_cp_wait<0>();
}

#endif
