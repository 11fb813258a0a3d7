/* Copies of the decode kernel: which keys of a tile are read, and from where, ahead of their use.
 *
 * A warp has a ring of its own; only its lanes wait for it. */
#ifndef PKV_ATTN_DECODE_COPIES_CUH
#define PKV_ATTN_DECODE_COPIES_CUH

#include "kernels/cuda/attn_decode_factors.cuh"

/* What a lane reads K and V by. */
template <class Shape> struct pkv__decode_source {
    int32_t ring; /* of the warp, in shared memory */
    int32_t to;   /* the lane's place in a tile that it copies to */
    pkv__lane_rows k, v;
    pkv__place place; /* looked up, see attn_rows.cuh */
    pkv__factors<typename Shape::Store> factors;
    int32_t tile_lo, tile_hi; /* the warp's first tile; where the CTA's end. WARPS apart */
    pkv__keys keys;           /* outside of which none is read */
};

template <class Shape>
PKV_DEV void pkv__source_of(pkv__decode_source<Shape> &s, const struct pkv__cuda_attn &a,
                            const pkv__decode_item &item)
{
    using Store = typename Shape::Store;
    using Tile = typename Shape::Tile;
    s.ring = pkv_warp() * Shape::STAGES * Shape::STAGE_BYTES;
    s.to = Tile::place(pkv_lane() / Tile::CHUNKS, pkv_lane() % Tile::CHUNKS);
    s.k = pkv__lane_rows_of<Store, Tile>(a.k, item.kv_head);
    s.v = pkv__lane_rows_of<Store, Tile>(a.v, item.kv_head);
    pkv__clear_factors(s.factors);
    s.tile_lo = pkv__warp_tile<Shape>(item);
    s.tile_hi = item.tile_hi;
    s.keys = item.keys;
}

/* ---------------------------------------------------------------- which keys */
/* Bit r of the word of lane c < COLUMNS: does column c see key 16 tile + r? */
template <class Shape>
PKV_DEV uint32_t pkv__column_word(const pkv__decode_item &item, const unsigned char *shared,
                                  int32_t tile)
{
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    const int32_t c = pkv_lane() % Shape::COLUMNS, key = tile * PKV__TILE_KEYS;
    if (columns[c].row < 0 || key >= item.cut.kv_len) return 0;
    return pkv__sight_word(item.sight, columns[c].row, key) & 0xffffu;
}
PKV_DEV uint32_t pkv__word_of_all(uint32_t word)
{
    PKV_UNROLL
    for (int32_t bits = 16; bits > 0; bits /= 2) word |= pkv_shfl_xor(word, bits);
    return word;
}

/* ---------------------------------------------------------------- copies */
/* Of 32 tiles of the warp lane j looks up the one that is j-th modulo 32, from `tile` on. */
template <class Shape> PKV_DEV int32_t pkv__lane_of_tile(int32_t tile)
{
    return tile / Shape::WARPS % 32;
}
template <class Shape>
PKV_DEV void pkv__fetch_tiles(const pkv__decode_item &item, pkv__decode_source<Shape> &s,
                              int32_t tile)
{
    const int32_t ahead = pkv_lane() - pkv__lane_of_tile<Shape>(tile);
    const int32_t mine = tile + ahead * Shape::WARPS;
    s.place = { 0, 0, 0 };
    if (ahead >= 0 && mine < s.tile_hi) s.place = pkv__fetch(item.lookup, mine * PKV__TILE_KEYS);
}
/* Lane j looks up key j % 16 of a tile. */
template <class Shape>
PKV_DEV void pkv__fetch_keys(const pkv__decode_item &item, pkv__decode_source<Shape> &s,
                             int32_t tile)
{
    s.place = { 0, 0, 0 };
    if (tile >= s.tile_hi) return; /* its keys may lie beyond 2^31 */
    const int32_t key = tile * PKV__TILE_KEYS + pkv_lane() % PKV__TILE_KEYS;
    if (key < s.keys.hi) s.place = pkv__fetch(item.lookup, key);
}

template <class Shape>
PKV_DEV void pkv__copy_by_tile(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                               pkv__decode_source<Shape> &s, int32_t tile, uint32_t seen,
                               unsigned char *stage)
{
    using Store = typename Shape::Store;
    using Tile = typename Shape::Tile;
    const int32_t lane = pkv__lane_of_tile<Shape>(tile);
    if (lane == 0 || tile == s.tile_lo) pkv__fetch_tiles<Shape>(item, s, tile);
    int32_t id = pkv_shfl(s.place.id, lane);
    const int32_t at = pkv_shfl(s.place.at, lane);
    const int32_t entry = pkv_shfl(s.place.entry, lane);
    if (seen) id = pkv__usable_id(a, item.lookup, id, entry);
    pkv__copy_tile<Store, Tile, Shape::RAGGED>(stage + s.to, a.k, s.k, id, at, seen);
    pkv__copy_tile<Store, Tile, Shape::RAGGED>(stage + Tile::BYTES + s.to, a.v, s.v, id, at, seen);
    pkv__load_factors(s.factors, a, item.kv_head, id, at + pkv_lane() % PKV__TILE_KEYS, seen);
}
template <class Shape>
PKV_DEV void pkv__copy_by_key(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                              pkv__decode_source<Shape> &s, int32_t tile, uint32_t seen,
                              unsigned char *stage)
{
    using Store = typename Shape::Store;
    using Tile = typename Shape::Tile;
    if (tile == s.tile_lo) pkv__fetch_keys<Shape>(item, s, tile);
    int32_t id = 0;
    if (seen >> pkv_lane() % PKV__TILE_KEYS & 1u)
        id = pkv__usable_id(a, item.lookup, s.place.id, s.place.entry);
    pkv__copy_rows<Store, Tile, Shape::RAGGED>(stage + s.to, a.k, s.k, id, s.place.at, seen);
    pkv__copy_rows<Store, Tile, Shape::RAGGED>(stage + Tile::BYTES + s.to, a.v, s.v, id, s.place.at,
                                               seen);
    pkv__load_factors(s.factors, a, item.kv_head, id, s.place.at, seen);
    pkv__fetch_keys<Shape>(item, s, tile + Shape::WARPS);
}

/* Start the copies of a tile of the warp into the stage `into`; a group, whatever it holds. before:
 * the stage of the last one. */
template <class Shape>
PKV_DEV void pkv__issue(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                        unsigned char *shared, pkv__decode_source<Shape> &s, int32_t tile,
                        int32_t into, int32_t before)
{
    pkv__put_factors<Shape>(s.factors, shared + before, pkv__number_place());
    if (tile < s.tile_hi) {
        const uint32_t seen = pkv__bits_of(s.keys, tile * PKV__TILE_KEYS) &
                              pkv__word_of_all(pkv__column_word<Shape>(item, shared, tile));
        if (pkv__tiles_in_blocks(a))
            pkv__copy_by_tile<Shape>(a, item, s, tile, seen, shared + into);
        else pkv__copy_by_key<Shape>(a, item, s, tile, seen, shared + into);
    }
    pkv_cp_commit();
}

#endif
