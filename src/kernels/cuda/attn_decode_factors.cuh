/* Scales and zero points of codes in the decode kernel; with 16-bit types, what remains of it.
 *
 * Numbers of a tile are loaded when its copies are issued, and stay in registers until those of the
 * next one are; then they go to the tile's stage in shared memory:
 *
 *   behind V   K [16] | V [16], each scale or scale and zero point, of keys 0, 8, 1, 9 .. 7, 15:
 *              what a lane reads of keys g and g + 8 lies side by side */
#ifndef PKV_ATTN_DECODE_FACTORS_CUH
#define PKV_ATTN_DECODE_FACTORS_CUH

#include "kernels/cuda/attn_codes_scales.cuh"
#include "kernels/cuda/attn_decode_queries.cuh"

/* Of 16-bit types: nothing. */
template <class Store, bool CODES = Store::IS_CODES> struct pkv__factors {
};
template <class Store> struct pkv__factors<Store, true> {
    /* Under way: those of a key of the tile issued last, of V from lane 16 on. */
    pkv__numbers way;
};

template <class Store> PKV_DEV void pkv__clear_factors(pkv__factors<Store> &f)
{
    if constexpr (Store::IS_CODES) f.way = { 0, 0 };
}

/* Where key lane % 16 stands behind V, of V from lane 16 on. */
PKV_DEV int32_t pkv__number_place()
{
    return pkv_lane() / 16 * 16 + pkv_lane() % 8 * 2 + pkv_lane() / 8 % 2;
}
/* The key that stands at place lane % 16. */
PKV_DEV int32_t pkv__number_key()
{
    return pkv_lane() % 2 * 8 + pkv_lane() / 2 % 8;
}
/* Those under way arrive, at their place in the stage of their tile. */
template <class Shape>
PKV_DEV void pkv__put_factors(const pkv__factors<typename Shape::Store> &f, unsigned char *stage,
                              int32_t place)
{
    if constexpr (Shape::Store::IS_CODES) {
        float *const to = reinterpret_cast<float *>(stage + 2 * Shape::Tile::BYTES);
        if constexpr (Shape::Store::HAS_ZEROS)
            pkv_stv(to + 2 * place, make_float2(f.way.scale, f.way.zero));
        else to[place] = f.way.scale;
    }
}

/* Those of the tile that is issued now: token `at` of block `id` holds key lane % 16. */
template <class Store>
PKV_DEV void pkv__load_factors(pkv__factors<Store> &f, const struct pkv__cuda_attn &a, int32_t head,
                               int32_t id, int32_t at, uint32_t seen)
{
    if constexpr (Store::IS_CODES) {
        const bool is_seen = seen >> pkv_lane() % PKV__TILE_KEYS & 1u;
        if (pkv_lane() < PKV__TILE_KEYS)
            f.way = pkv__load_numbers<Store>(a.k, head, id, at, is_seen);
        else f.way = pkv__load_numbers<Store>(a.v, head, id, at, is_seen);
    }
}

/* Where a lane's key has its scale and zero point: block 0, key pkv__number_key() of a tile at
 * token 0, of K for lanes 0 .. 15, of V for the others. NULL: there are none. */
template <class Store, bool CODES = Store::IS_CODES> struct pkv__number_rows {
};
template <class Store> struct pkv__number_rows<Store, true> {
    const unsigned char *scale, *zero;
};
/* Those of K and V take the same steps, which fit 32 bits. */
PKV_DEV bool pkv__number_steps_fit(const pkv_scales &k, const pkv_scales &v)
{
    return k.block_stride == v.block_stride && k.token_stride == v.token_stride &&
           k.block_stride * 4 == (int32_t)(k.block_stride * 4) &&
           k.token_stride * 4 == (int32_t)(k.token_stride * 4);
}
PKV_DEV const unsigned char *pkv__plain_numbers_of(const pkv_scales &s, int32_t head)
{
    if (!s.data) return nullptr;
    const int64_t at = pkv__number_key() * s.token_stride + head * s.head_stride;
    return reinterpret_cast<const unsigned char *>(s.data + at);
}
template <class Store>
PKV_DEV void pkv__number_rows_of(pkv__number_rows<Store> &rows, const struct pkv__cuda_attn &a,
                                 int32_t head)
{
    if constexpr (Store::IS_CODES) {
        const bool of_v = pkv_lane() >= PKV__TILE_KEYS;
        rows.scale = of_v ? pkv__plain_numbers_of(a.v.scales, head)
                          : pkv__plain_numbers_of(a.k.scales, head);
        if constexpr (Store::HAS_ZEROS)
            rows.zero = of_v ? pkv__plain_numbers_of(a.v.zeros, head)
                             : pkv__plain_numbers_of(a.k.zeros, head);
    }
}
PKV_DEV float pkv__load_plain_number(const unsigned char *from, const pkv_scales &s, int32_t id,
                                     int32_t at, bool seen, float absent)
{
    if (!seen) return 0;
    if (!from) return absent;
    return pkv_ldv_const<float>(pkv_step(pkv_step(from, id, (int32_t)(s.block_stride * 4)), at,
                                         (int32_t)(s.token_stride * 4)));
}
/* Those of the tile that is issued now, in block `id` from token `at` on: of its keys [lo, n). */
template <class Store>
PKV_DEV void pkv__load_plain_factors(pkv__factors<Store> &f, const struct pkv__cuda_attn &a,
                                     const pkv__number_rows<Store> &rows, int32_t id, int32_t at,
                                     int32_t lo, int32_t n)
{
    if constexpr (Store::IS_CODES) {
        const int32_t key = pkv__number_key();
        const bool seen = key >= lo && key < n;
        f.way.scale = pkv__load_plain_number(rows.scale, a.k.scales, id, at, seen, 1);
        if constexpr (Store::HAS_ZEROS)
            f.way.zero = pkv__load_plain_number(rows.zero, a.k.zeros, id, at, seen, 0);
    }
}

/* Of keys g and g + 8 of the tile in `stage`; first: 0 for K, 16 for V. */
template <class Shape>
PKV_DEV pkv__row_numbers pkv__factors_of_rows(const unsigned char *stage, int32_t first)
{
    const float *const of_tile = reinterpret_cast<const float *>(stage + 2 * Shape::Tile::BYTES);
    const int32_t place = first + pkv_lane() / 4 * 2;
    if constexpr (Shape::Store::HAS_ZEROS) {
        const float4 x = pkv_ldv<float4>(of_tile + 2 * place);
        return { { x.x, x.z }, { x.y, x.w } };
    } else {
        const float2 x = pkv_ldv<float2>(of_tile + place);
        return { { x.x, x.y }, { 0, 0 } };
    }
}

/* From sums of products to what the state has as logits. */
template <class Shape>
PKV_DEV void pkv__scale_logits(float (&s)[Shape::NT][4], const pkv__lane_columns<Shape> &columns,
                               const unsigned char *stage)
{
    using Store = typename Shape::Store;
    pkv__row_numbers k = { { 1.f, 1.f }, { 0.f, 0.f } };
    if constexpr (Store::IS_CODES) k = pkv__factors_of_rows<Shape>(stage, 0);
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            if constexpr (Store::HAS_ZEROS)
                s[n][i] = fmaf(-k.zero[i / 2], columns.query_sum[n][i % 2], s[n][i]);
            s[n][i] *= k.scale[i / 2] * columns.factor[n][i % 2];
        }
    }
}

/* Does a tile's largest scale of V, two in each lane as its rows are, want a larger unit? */
PKV_DEV bool pkv__outgrows(const float (&scale)[2], float over)
{
    return fmaxf(fabsf(scale[0]), fabsf(scale[1])) * over >= 2;
}
/* 1 over the unit with the tile's keys. All lanes come. */
PKV_DEV float pkv__over_of(float first, float second, float over)
{
    return fminf(over, pkv__unit_inverse(pkv__tile_unit(first, second)));
}

/* Which keys of g and g + 8 of a tile the lane's columns see: of column 8 n + 2 t + e. */
template <class Shape> struct pkv__seen_rows {
    bool of[Shape::NT][2][2];
};
/* By the word that lane c has of column c. */
template <class Shape> PKV_DEV void pkv__see_by_word(pkv__seen_rows<Shape> &sees, uint32_t word)
{
    PKV_UNROLL
    for (int32_t i = 0; i < 2 * Shape::NT; i++) {
        const int32_t n = i / 2, e = i % 2;
        const uint32_t bits = pkv_shfl(word, 8 * n + pkv_lane() % 4 * 2 + e) >> pkv_lane() / 4;
        sees.of[n][e][0] = bits & 1u;
        sees.of[n][e][1] = bits & 0x100u;
    }
}

/* What the zero points of a tile add to each column's sum, for weights as they are multiplied. */
template <class Shape>
PKV_DEV void pkv__add_zeros(const float (&p)[Shape::NT][4], const pkv__seen_rows<Shape> &sees,
                            const pkv__row_numbers &v, pkv__decode_state<Shape> &state)
{
    PKV_UNROLL
    for (int32_t i = 0; i < 2 * Shape::NT; i++) {
        const int32_t n = i / 2, row = i % 2;
        const float2 rounded =
            pkv_unpack2<__half>(pkv_pack2<__half>(p[n][2 * row], p[n][2 * row + 1]));
        float(&sum)[2] = state.zeros.sum[n];
        if (sees.of[n][0][row]) sum[0] = fmaf(rounded.x, v.zero[row], sum[0]);
        if (sees.of[n][1][row]) sum[1] = fmaf(rounded.y, v.zero[row], sum[1]);
    }
}

/* Weights of codes times the scales of V, over units that are large enough. A key that a column
 * does not see has no part in it, whatever its numbers. */
template <class Shape>
PKV_DEV void pkv__weigh_codes(float (&p)[Shape::NT][4], const pkv__seen_rows<Shape> &sees,
                              const pkv__row_numbers &v, pkv__decode_state<Shape> &state)
{
    PKV_UNROLL
    for (int32_t i = 0; i < 4 * Shape::NT; i++) {
        const int32_t n = i / 4, e = i % 2, row = i / 2 % 2;
        const float by = v.scale[row] * state.units.over[n][e];
        p[n][2 * row + e] = sees.of[n][e][row] ? p[n][2 * row + e] * by : 0;
    }
    if constexpr (Shape::Store::HAS_ZEROS) pkv__add_zeros<Shape>(p, sees, v, state);
}

#endif
