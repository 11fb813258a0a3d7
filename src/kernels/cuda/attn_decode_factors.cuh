/* Scales and zero points of codes in the decode kernel; with 16-bit types, what remains of it.
 *
 * Numbers of a tile are loaded when its copies are issued, and stay in registers until those of the
 * next one are; then they go to the tile's stage in shared memory:
 *
 *   behind V   scale of K [16] | of V [16] | zero point of K [16] | of V [16] */
#ifndef PKV_ATTN_DECODE_FACTORS_CUH
#define PKV_ATTN_DECODE_FACTORS_CUH

#include "kernels/cuda/attn_codes_scales.cuh"
#include "kernels/cuda/attn_decode_queries.cuh"

/* Of 16-bit types: nothing. */
template <class Store, bool CODES = Store::IS_CODES> struct pkv__factors {
};
template <class Store> struct pkv__factors<Store, true> {
    pkv__numbers k, v; /* under way: of key lane % 16 of the tile issued last */
};

template <class Store> PKV_DEV void pkv__clear_factors(pkv__factors<Store> &f)
{
    if constexpr (Store::IS_CODES) f.k = f.v = { 0, 0 };
}

/* Those under way arrive, in the stage of their tile. */
template <class Shape>
PKV_DEV void pkv__put_factors(const pkv__factors<typename Shape::Store> &f, unsigned char *shared,
                              int32_t stage)
{
    if constexpr (Shape::Store::IS_CODES) {
        float *const to = reinterpret_cast<float *>(shared + stage + 2 * Shape::Tile::BYTES);
        const bool of_v = pkv_lane() >= PKV__TILE_KEYS;
        to[pkv_lane()] = of_v ? f.v.scale : f.k.scale;
        if constexpr (Shape::Store::HAS_ZEROS) to[32 + pkv_lane()] = of_v ? f.v.zero : f.k.zero;
    }
}

/* Those of the tile that is issued now: token `at` of block `id` holds key lane % 16. */
template <class Store>
PKV_DEV void pkv__load_factors(pkv__factors<Store> &f, const struct pkv__cuda_attn &a, int32_t head,
                               int32_t id, int32_t at, uint32_t seen)
{
    if constexpr (Store::IS_CODES) {
        const bool is_seen = seen >> pkv_lane() % PKV__TILE_KEYS & 1u;
        f.k = pkv__load_numbers<Store>(a.k, head, id, at, is_seen);
        f.v = pkv__load_numbers<Store>(a.v, head, id, at, is_seen);
    }
}

/* Of keys g and g + 8 of the tile in `stage`; first: 0 for K, 16 for V. */
template <class Shape>
PKV_DEV pkv__row_numbers pkv__factors_of_rows(const unsigned char *shared, int32_t stage,
                                              int32_t first)
{
    const float *const from =
        reinterpret_cast<const float *>(shared + stage + 2 * Shape::Tile::BYTES) + first +
        pkv_lane() / 4;
    pkv__row_numbers rows = { { from[0], from[8] }, { 0, 0 } };
    if constexpr (Shape::Store::HAS_ZEROS) {
        rows.zero[0] = from[32];
        rows.zero[1] = from[40];
    }
    return rows;
}

/* From sums of products to logits. */
template <class Shape>
PKV_DEV void pkv__scale_logits(float (&s)[Shape::NT][4], const float (&factor)[Shape::NT][2],
                               const float (&query_sum)[Shape::NT][2], const unsigned char *shared,
                               int32_t stage)
{
    using Store = typename Shape::Store;
    pkv__row_numbers k = { { 1.f, 1.f }, { 0.f, 0.f } };
    if constexpr (Store::IS_CODES) k = pkv__factors_of_rows<Shape>(shared, stage, 0);
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            if constexpr (Store::HAS_ZEROS)
                s[n][i] = fmaf(-k.zero[i / 2], query_sum[n][i % 2], s[n][i]);
            s[n][i] *= k.scale[i / 2] * (factor[n][i % 2] * Store::unit());
        }
    }
}

/* What a tile's product with V is multiplied by, per column. 16-bit types: nobody asks. */
template <class Shape> struct pkv__give_back {
    float of[Shape::NT][2];
};

/* Weights of one column for keys g and g + 8 times the scales of V, over the unit; to the zero
 * sum, what they add. A key that the column does not see has no part in it, whatever its numbers.
 */
template <class Store>
PKV_DEV void pkv__weigh_column(float *const (&weights)[2], const bool (&sees)[2],
                               const pkv__row_numbers &v, float unit, float *zero_sum)
{
    const float over = pkv__unit_inverse(unit);
    float zeros = 0;
    PKV_UNROLL
    for (int32_t row = 0; row < 2; row++) {
        float &weight = *weights[row];
        weight = sees[row] ? weight * (v.scale[row] * over) : 0;
        if constexpr (Store::HAS_ZEROS) {
            const float rounded = pkv_to_float(pkv_from_float<__half>(weight));
            if (sees[row]) zeros = fmaf(rounded, v.zero[row], zeros);
        }
    }
    if constexpr (Store::HAS_ZEROS) *zero_sum = fmaf(zeros, unit, *zero_sum);
}

/* Weights of codes. PLAIN: all columns see the keys that are read; else word, of lane c, says which
 * keys column c sees, and each column has a unit of its own: scales of keys that it does not see
 * may be of any size. */
template <class Shape, bool PLAIN>
PKV_DEV void pkv__weigh_codes(float (&p)[Shape::NT][4], uint32_t word, const unsigned char *shared,
                              int32_t stage, pkv__decode_state<Shape> &state,
                              pkv__give_back<Shape> &back)
{
    using Store = typename Shape::Store;
    const pkv__row_numbers v = pkv__factors_of_rows<Shape>(shared, stage, 16);
    float unit = 1;
    if (PLAIN) unit = pkv__tile_unit(v.scale[0], v.scale[1]);
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            bool sees[2] = { true, true };
            if (!PLAIN) {
                const int32_t c = 8 * n + pkv_lane() % 4 * 2 + e;
                const uint32_t bits = pkv_shfl(word, c) >> pkv_lane() / 4;
                sees[0] = bits & 1u;
                sees[1] = bits & 0x100u;
                unit = pkv__tile_unit(sees[0] ? v.scale[0] : 0, sees[1] ? v.scale[1] : 0);
            }
            float *zero_sum = nullptr;
            if constexpr (Store::HAS_ZEROS) zero_sum = &state.zeros.sum[n][e];
            pkv__weigh_column<Store>({ &p[n][e], &p[n][2 + e] }, sees, v, unit, zero_sum);
            back.of[n][e] = unit * Store::unit();
        }
    }
}

template <class Store>
PKV_DEV void pkv__add_values(float (&o)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             const float (&back)[2])
{
    if constexpr (Store::IS_CODES) {
        float tile[4] = { 0, 0, 0, 0 };
        pkv_mma16816<typename Store::product>(tile, a, b0, b1);
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) o[i] = fmaf(tile[i], back[i % 2], o[i]);
    } else {
        pkv_mma16816<typename Store::product>(o, a, b0, b1);
    }
}

#endif
