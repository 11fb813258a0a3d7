/* A tile of 16 keys in the registers of a warp: logits, weights, sums.
 *
 *   S (16 keys x 8 columns)  = K (ldmatrix) x queries (registers)
 *   O (16 dims x 8 columns) += V (ldmatrix.trans) x P (S, through movmatrix)
 *
 * Of 16 keys' logits a column lies in the eight lanes of one t, two to a lane: the maximum takes
 * three shuffles, where one of the warp rises; the sum none until the end. */
#ifndef PKV_ATTN_DECODE_MATHS_CUH
#define PKV_ATTN_DECODE_MATHS_CUH

#include "kernels/cuda/attn_decode_factors.cuh"

/* ---------------------------------------------------------------- products with keys */
/* keys: the tile's, at the lane's pkv__key_place. */
template <class Shape> PKV_DEV int32_t pkv__key_place()
{
    using Store = typename Shape::Store;
    return Shape::Tile::place(Store::k_row(pkv_lane()), Store::k_chunk(pkv_lane()));
}
template <class Shape>
PKV_DEV void pkv__multiply_keys(float (&s)[Shape::NT][4], unsigned char *keys,
                                const uint32_t (&q)[Shape::NT][Shape::N_FRAGS][2])
{
    using Store = typename Shape::Store;
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) s[n][i] = 0;
    }
    PKV_UNROLL
    for (int32_t step = 0; step < Shape::N_STEPS; step++) {
        uint32_t r[4], a[Store::N_FRAGS][4];
        pkv_ldm_x4(r, Shape::Tile::along(keys, step));
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

/* ---------------------------------------------------------------- weights */
/* Does the lane have a logit above its column's maximum? */
template <class Shape>
PKV_DEV bool pkv__rises(const float (&s)[Shape::NT][4], const pkv__decode_state<Shape> &state)
{
    bool rises = false;
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) rises |= fmaxf(s[n][e], s[n][2 + e]) > state.m[n][e];
    }
    return rises;
}

/* o and l go over to the maxima with the tile's logits, o to new units, too. Where nothing in the
 * warp grows all factors would be 1: this is left out. by: e^(logit * by) are weights to base 2. */
template <class Shape>
PKV_DEV void pkv__raise(const float (&s)[Shape::NT][4], pkv__decode_state<Shape> &state,
                        const float (&by)[Shape::NT][2],
                        const pkv__units<Shape::NT, Shape::Store::IS_CODES> &units)
{
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        float back[2];
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            float m = fmaxf(s[n][e], s[n][2 + e]);
            m = fmaxf(m, pkv_shfl_xor(m, 4));
            m = fmaxf(m, pkv_shfl_xor(m, 8));
            m = fmaxf(m, pkv_shfl_xor(m, 16));
            m = fmaxf(m, state.m[n][e]);
            back[e] = pkv_exp2((state.m[n][e] - m) * by[n][e]);
            state.m[n][e] = m;
            state.l[n][e] *= back[e];
            if constexpr (Shape::Store::IS_CODES) {
                back[e] *= units.over[n][e] * pkv__unit_inverse(state.units.over[n][e]);
                state.units.over[n][e] = units.over[n][e];
            }
            if constexpr (Shape::Store::HAS_ZEROS) state.zeros.sum[n][e] *= back[e];
        }
        PKV_UNROLL
        for (int32_t f = 0; f < Shape::N_FRAGS; f++) {
            PKV_UNROLL
            for (int32_t i = 0; i < 4; i++) state.o[n][f][i] *= back[i % 2];
        }
    }
}

/* Logits become weights, times 2^P_BITS: of the maximum exactly that. */
template <class Shape>
PKV_DEV void pkv__weigh(float (&s)[Shape::NT][4], pkv__decode_state<Shape> &state,
                        const float (&by)[Shape::NT][2])
{
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++)
            s[n][i] = pkv_exp2(fmaf(s[n][i] - state.m[n][i % 2], by[n][i % 2],
                                    (float)PKV_P_BITS<typename Shape::Product>));
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) state.l[n][e] += s[n][e] + s[n][2 + e];
    }
}

/* ---------------------------------------------------------------- values */
/* values: the tile's, at the lane's pkv__value_place. */
template <class Shape> PKV_DEV int32_t pkv__value_place()
{
    using Store = typename Shape::Store;
    return Shape::Tile::place(Store::v_row(pkv_lane()), Store::v_chunk(pkv_lane()));
}
template <class Shape>
PKV_DEV void pkv__multiply_values(pkv__decode_state<Shape> &state, unsigned char *values,
                                  const float (&p)[Shape::NT][4])
{
    using Store = typename Shape::Store;
    using Product = typename Shape::Product;
    uint32_t b[Shape::NT][2];
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        b[n][0] = pkv_movmatrix_trans(pkv_pack2<Product>(p[n][0], p[n][1]));
        b[n][1] = pkv_movmatrix_trans(pkv_pack2<Product>(p[n][2], p[n][3]));
    }
    PKV_UNROLL
    for (int32_t step = 0; step < Shape::N_STEPS; step++) {
        uint32_t r[4], a[Store::N_FRAGS][4];
        pkv_ldm_x4_trans(r, Shape::Tile::along(values, step));
        Store::v_frags(a, r);
        PKV_UNROLL
        for (int32_t f = 0; f < Store::N_FRAGS; f++) {
            PKV_UNROLL
            for (int32_t n = 0; n < Shape::NT; n++)
                pkv_mma16816<Product>(state.o[n][step * Store::N_FRAGS + f], a[f], b[n][0],
                                      b[n][1]);
        }
    }
}

#endif
