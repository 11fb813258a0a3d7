/* Tiles of K and V of attention over long rows on their way from the store: a warp copies 16 keys
 * of each of the two (at dim 256: of one). Codes become products in shared memory, once for all
 * warps.
 *
 *   ids       of tile i + 2 are fetched while i is computed, and used while i + 1 is
 *   scales    (codes) are in registers on the way, one key to a lane: K in lanes 0 .. 15, V above
 */
#ifndef PKV_ATTN_PREFILL_TILES_CUH
#define PKV_ATTN_PREFILL_TILES_CUH

#include "kernels/cuda/attn_codes_scales.cuh"
#include "kernels/cuda/attn_prefill_queries.cuh"

/* What a lane has of the tile to come. */
struct pkv__prefill_source {
    pkv__place place;  /* of key lane % 16 of the warp's */
    float scale, zero; /* codes: on their way */
};

template <class S> PKV_DEV int32_t pkv__prefill_subtile()
{
    return pkv_warp() % S::N_SUBTILES;
}
/* Does the warp copy K (0), does it copy V (1)? */
template <class S> PKV_DEV bool pkv__prefill_copies(int32_t v)
{
    return S::N_SUBTILES == 4 || pkv_warp() / S::N_SUBTILES == v;
}

/* Ids of the warp's keys of the tile from key0 on; behind the last key, its. */
template <class S>
PKV_DEV void pkv__prefill_fetch(const pkv__prefill_work &w, pkv__prefill_source &src, int32_t key0)
{
    const int32_t down = pkv__prefill_subtile<S>() * PKV__TILE_KEYS + pkv_lane() % PKV__TILE_KEYS;
    const int32_t kv_len = w.sight.kv_len;
    src.place = pkv__fetch(w.lookup, down < kv_len - key0 ? key0 + down : kv_len - 1);
}

template <class S>
PKV_DEV void pkv__prefill_copy(const pkv__prefill_work &w, const pkv__prefill_source &src,
                               const pkv_kv_view &view, unsigned char *tile, int32_t id,
                               uint32_t seen)
{
    using Store = typename S::Store;
    using Shape = typename S::Stored;
    constexpr bool RAGGED = Store::IS_CODES; /* 16 bits: dims are multiples of 16 bytes */
    const pkv__lane_rows rows = pkv__lane_rows_of<Store, Shape>(view, w.kv_head);
    unsigned char *const to = tile + pkv__prefill_subtile<S>() * Shape::BYTES +
                              Shape::place(pkv_lane() / Shape::CHUNKS, pkv_lane() % Shape::CHUNKS);
    if (w.in_blocks)
        pkv__copy_tile<Store, Shape, RAGGED>(to, view, rows, id, pkv_shfl(src.place.at, 0), seen);
    else pkv__copy_rows<Store, Shape, RAGGED>(to, view, rows, id, src.place.at, seen);
}

/* Begin to copy the tile whose ids were fetched last. Bit r of seen: key r of the warp's is read.
 */
template <class S>
PKV_DEV void pkv__prefill_load(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                               pkv__prefill_source &src, unsigned char *stored, int32_t stage,
                               uint32_t seen)
{
    unsigned char *const k = stored + stage * 2 * S::STORED_BYTES;
    const bool mine = seen >> pkv_lane() % PKV__TILE_KEYS & 1u;
    const bool looked_up = w.in_blocks ? seen != 0 : mine;
    const int32_t id = looked_up ? pkv__usable_id(a, w.lookup, src.place.id, src.place.entry) : 0;
    if (pkv__prefill_copies<S>(0)) pkv__prefill_copy<S>(w, src, a.k, k, id, seen);
    if (pkv__prefill_copies<S>(1)) pkv__prefill_copy<S>(w, src, a.v, k + S::STORED_BYTES, id, seen);
    if constexpr (S::Store::IS_CODES) {
        const bool of_v = S::N_SUBTILES == 4 ? pkv_lane() >= 16 : pkv_warp() >= 2;
        const float unit = of_v ? S::Store::unit() : 1.f;
        src.scale = src.zero = 0.f;
        if (!mine) return;
        const pkv_scales &scales = of_v ? a.v.scales : a.k.scales;
        src.scale = unit * pkv__load_number(scales, w.kv_head, id, src.place.at, 1.f);
        if constexpr (S::Store::HAS_ZEROS) {
            const pkv_scales &zeros = of_v ? a.v.zeros : a.k.zeros;
            src.zero = pkv__load_number(zeros, w.kv_head, id, src.place.at, 0.f);
        }
    }
}

/* Scales of the tile that is on its way arrive. */
template <class S>
PKV_DEV void pkv__prefill_put_scales(const pkv__prefill_source &src, pkv__prefill_marks *marks,
                                     int32_t stage)
{
    if constexpr (S::Store::IS_CODES) {
        const int32_t lane = pkv_lane();
        const int32_t of_v = S::N_SUBTILES == 4 ? lane / 16 : pkv_warp() / 2;
        if (S::N_SUBTILES < 4 && lane >= 16) return;
        const int32_t key = pkv__prefill_subtile<S>() * PKV__TILE_KEYS + lane % 16;
        marks->scale[stage][of_v][key] = src.scale;
        if constexpr (S::Store::HAS_ZEROS) marks->zero[stage][of_v][key] = src.zero;
    }
}

/* ---------------------------------------------------------------- codes to products */
/* Codes of 4 bits come out as i, i + 4: back into their order. */
PKV_DEV void pkv__in_order(uint32_t (&to)[4])
{
    const uint32_t even = to[0], odd = to[1], even2 = to[2], odd2 = to[3];
    to[0] = pkv_prmt(even, odd, 0x5410);
    to[1] = pkv_prmt(even2, odd2, 0x5410);
    to[2] = pkv_prmt(even, odd, 0x7632);
    to[3] = pkv_prmt(even2, odd2, 0x7632);
}

/* Piece number `i` of the products of a piece of codes, which 16 bytes of N * 4 halves make. */
template <class S> PKV_DEV uint4 pkv__products_of(uint4 codes, int32_t i)
{
    using Codes = typename S::Store::codes;
    uint32_t to[Codes::N], more[Codes::N];
    if constexpr (Codes::N == 4) {
        Codes::along(to, i == 0 ? codes.x : i == 1 ? codes.y : i == 2 ? codes.z : codes.w);
        pkv__in_order(to);
        return make_uint4(to[0], to[1], to[2], to[3]);
    } else {
        Codes::along(to, i == 0 ? codes.x : codes.z);
        Codes::along(more, i == 0 ? codes.y : codes.w);
        return make_uint4(to[0], to[1], more[0], more[1]);
    }
}

/* In which order a thread writes its pieces, so that eight threads write to all banks at once: they
 * lie N pieces apart, and eight pieces are a line of all banks. */
template <class S> PKV_DEV int32_t pkv__prefill_turn(int32_t row, int32_t chunk)
{
    constexpr int32_t N = S::Rows::CHUNKS / S::Stored::CHUNKS;
    if constexpr (S::D == 64) return 0;
    if constexpr (N == 2) return chunk / 4 % 2;
    if constexpr (S::D == 256) return chunk / 2 % 4;
    return chunk / 2 % 2 + row % 2 * 2;
}

/* A tile of codes to products. */
template <class S> PKV_DEV void pkv__prefill_convert(unsigned char *to, const unsigned char *from)
{
    constexpr int32_t CHUNKS = S::Stored::CHUNKS, N = S::Rows::CHUNKS / CHUNKS;
    PKV_UNROLL
    for (int32_t i = 0; i < S::KEYS * CHUNKS / PKV__PREFILL_THREADS; i++) {
        const int32_t at = i * PKV__PREFILL_THREADS + pkv_thread();
        const int32_t row = at / CHUNKS, chunk = at % CHUNKS;
        const int32_t turn = pkv__prefill_turn<S>(row, chunk);
        const uint4 codes = pkv_ldv<uint4>(from + S::Stored::place(row, chunk));
        PKV_UNROLL
        for (int32_t j = 0; j < N; j++)
            pkv_stv(to + S::Rows::place(row, chunk * N + (j ^ turn)),
                    pkv__products_of<S>(codes, j ^ turn));
    }
}

#endif
