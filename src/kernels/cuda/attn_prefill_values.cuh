/* The values' side of a tile of attention over long rows: O += P V, and V that is not finite.
 *
 * A query that does not see a key has weight 0 for it, and 0 * inf is NaN. So in tiles that are
 * seen in part, V is looked through: elements that are not finite become 0, and are added to the
 * queries that see them by themselves. Tiles that all queries see are multiplied as they are. */
#ifndef PKV_ATTN_PREFILL_VALUES_CUH
#define PKV_ATTN_PREFILL_VALUES_CUH

#include "kernels/cuda/attn_prefill_tile.cuh"

/* What zero points of V have put into O too much. */
template <class S>
PKV_DEV void pkv__prefill_add_shift(const float (&s)[S::KEYS / 8][4], pkv__prefill_state<S> &st,
                                    const pkv__prefill_marks *marks, int32_t stage,
                                    const pkv__prefill_bits<S> &bits, bool masked)
{
    PKV_UNROLL
    for (int32_t j = 0; j < S::KEYS / 8; j++) {
        const float2 zero = pkv_ldv<float2>(&marks->zero[stage][1][j * 8 + pkv_lane() % 4 * 2]);
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++)
            if (!masked || pkv__prefill_sees<S>(bits, j, i))
                st.shift[i / 2] += s[j][i] * (i % 2 ? zero.y : zero.x);
    }
}

/* Weights times scales of V, divided by a power of two of each row, which is the result: the
 * largest lies in [2^14, 2^15). */
template <class S>
PKV_DEV void pkv__prefill_weigh_codes(float (&s)[S::KEYS / 8][4], pkv__prefill_state<S> &st,
                                      const pkv__prefill_marks *marks, int32_t stage,
                                      const pkv__prefill_bits<S> &bits, bool masked, bool zeros,
                                      float (&unit)[2])
{
    PKV_UNROLL
    for (int32_t j = 0; j < S::KEYS / 8; j++) {
        const float2 scale = pkv_ldv<float2>(&marks->scale[stage][1][j * 8 + pkv_lane() % 4 * 2]);
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++) {
            s[j][2 * h] *= scale.x;
            s[j][2 * h + 1] *= scale.y;
        }
    }
    if (masked) pkv__prefill_mask<S>(s, bits, 0.f); /* it may be 0 * NaN */
    if constexpr (S::Store::HAS_ZEROS)
        if (zeros) pkv__prefill_add_shift<S>(s, st, marks, stage, bits, masked);
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        float most = 0.f;
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j++)
            most = fmaxf(most, fmaxf(fabsf(s[j][2 * h]), fabsf(s[j][2 * h + 1])));
        most = pkv__quad_max(most);
        const int32_t up = 14 - pkv__exponent(most);
        const int32_t shift = up < -126 ? -126 : up > 126 ? 126 : up;
        const float by = pkv__pow2(shift);
        unit[h] = pkv__pow2(-shift);
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j++) {
            s[j][2 * h] *= by;
            s[j][2 * h + 1] *= by;
        }
    }
}

/* ---------------------------------------------------------------- O += P V */
template <class S>
PKV_DEV void pkv__prefill_pack(uint32_t (&p)[4], const float (&s)[S::KEYS / 8][4], int32_t step)
{
    PKV_UNROLL
    for (int32_t i = 0; i < 4; i++)
        p[i] = pkv_pack2<typename S::T>(s[2 * step + i / 2][i % 2 * 2],
                                        s[2 * step + i / 2][i % 2 * 2 + 1]);
}

/* o[16 dims from 16 pair on] += P V, of 16-bit stores: straight into the sums. */
template <class S>
PKV_DEV void pkv__prefill_products(float (&lo)[4], float (&hi)[4],
                                   const uint32_t (&p)[S::KEYS / 16][4], const unsigned char *v,
                                   int32_t pair)
{
    PKV_UNROLL
    for (int32_t step = 0; step < S::KEYS / 16; step++) {
        uint32_t b[4];
        pkv_ldm_x4_trans(
            b, v + S::Rows::place(step * 16 + pkv_lane() % 16, 2 * pair + pkv_lane() / 16));
        pkv_mma16816<typename S::T>(lo, p[step], b[0], b[1]);
        pkv_mma16816<typename S::T>(hi, p[step], b[2], b[3]);
    }
}

/* O += P V. unit: codes: of the weights of each row. */
template <class S>
PKV_DEV void pkv__prefill_add_values(pkv__prefill_state<S> &st, const float (&s)[S::KEYS / 8][4],
                                     const unsigned char *v, const float (&unit)[2])
{
    uint32_t p[S::KEYS / 16][4];
    PKV_UNROLL
    for (int32_t step = 0; step < S::KEYS / 16; step++) pkv__prefill_pack<S>(p[step], s, step);
    PKV_UNROLL
    for (int32_t pair = 0; pair < S::D / 16; pair++) {
        if constexpr (!S::Store::IS_CODES) {
            pkv__prefill_products<S>(st.o[2 * pair], st.o[2 * pair + 1], p, v, pair);
        } else {
            float sums[2][4] = {};
            pkv__prefill_products<S>(sums[0], sums[1], p, v, pair);
            PKV_UNROLL
            for (int32_t i = 0; i < 8; i++)
                st.o[2 * pair + i / 4][i % 4] += sums[i / 4][i % 4] * unit[i % 4 / 2];
        }
    }
}

/* ---------------------------------------------------------------- V that is not finite */
/* Is one of the two infinite or NaN? */
template <class T> PKV_DEV bool pkv__is_wild(uint32_t two)
{
    return pkv__is_special<pkv_kv_of<T>>(two) || pkv__is_special<pkv_kv_of<T>>(two >> 16);
}

/* Does this thread's share of V hold something that is not finite? */
template <class S> PKV_DEV bool pkv__prefill_share_is_wild(const unsigned char *v)
{
    bool wild = false;
    for (int32_t at = pkv_thread() * 16; at < S::TILE_BYTES; at += PKV__PREFILL_THREADS * 16) {
        const uint4 x = pkv_ldv<uint4>(v + at);
        wild = wild || pkv__is_wild<typename S::T>(x.x) || pkv__is_wild<typename S::T>(x.y) ||
               pkv__is_wild<typename S::T>(x.z) || pkv__is_wild<typename S::T>(x.w);
    }
    return wild;
}
template <class S> PKV_DEV void pkv__prefill_tame_share(unsigned char *v)
{
    for (int32_t at = pkv_thread() * 16; at < S::TILE_BYTES; at += PKV__PREFILL_THREADS * 16) {
        const uint4 x = pkv_ldv<uint4>(v + at);
        pkv_stv(v + at, pkv__without_specials<pkv_kv_of<typename S::T>>(x));
    }
}

/* Bits of the row's keys that have weight 0, in all four of its threads: word w, keys 32 w .. */
template <class S>
PKV_DEV void pkv__prefill_weightless(uint32_t (&bits)[2][2], const float (&s)[S::KEYS / 8][4])
{
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) PKV_UNROLL
    for (int32_t w = 0; w < S::WORDS; w++) {
        uint32_t own = 0;
        PKV_UNROLL
        for (int32_t i = 0; i < 8; i++)
            own |= s[4 * w + i / 2][2 * h + i % 2] == 0.f ? 1u << (i / 2 * 8 + i % 2) : 0u;
        own <<= pkv_lane() % 4 * 2;
        own |= pkv_shfl_xor(own, 1);
        bits[h][w] = own | pkv_shfl_xor(own, 2);
    }
}

/* x, where it is not finite, times the scale; NaN where the weight is 0. */
PKV_DEV float pkv__wild_part(float x, float scale, bool weightless)
{
    if (x - x == 0.f) return 0.f;
    return weightless ? x - x : x * scale;
}

/* Elements of V that are not finite, to the queries that see them. */
template <class S>
PKV_DEV void pkv__prefill_add_wild(pkv__prefill_state<S> &st, const float (&s)[S::KEYS / 8][4],
                                   const pkv__prefill_marks *marks, int32_t stage,
                                   const unsigned char *v)
{
    const int32_t row = pkv_warp() * 16 + pkv_lane() / 4;
    uint32_t weightless[2][2];
    pkv__prefill_weightless<S>(weightless, s);
    for (int32_t key = 0; key < S::KEYS; key++) {
        const float scale = S::Store::IS_CODES ? marks->scale[stage][1][key] : 1.f;
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++) {
            if (!(marks->seen[stage][(row + 8 * h) * S::WORDS + key / 32] >> key % 32 & 1u))
                continue;
            const bool none =
                (key < 32 ? weightless[h][0] : weightless[h][S::WORDS - 1]) >> key % 32 & 1u;
            PKV_UNROLL
            for (int32_t j = 0; j < S::D / 8; j++) {
                const float2 x = pkv_unpack2<typename S::T>(
                    pkv_ldv<uint32_t>(v + S::Rows::place(key, j) + pkv_lane() % 4 * 4));
                st.o[j][2 * h] += pkv__wild_part(x.x, scale, none);
                st.o[j][2 * h + 1] += pkv__wild_part(x.y, scale, none);
            }
        }
    }
}

/* Between S and O += P V of a tile that is seen in part; all threads come. */
template <class S>
PKV_DEV void pkv__prefill_care(pkv__prefill_state<S> &st, const float (&s)[S::KEYS / 8][4],
                               pkv__prefill_marks *marks, int32_t stage, unsigned char *v)
{
    const bool wild = pkv_any(pkv__prefill_share_is_wild<S>(v));
    if (pkv_lane() == 0) marks->wild[pkv_warp()] = wild;
    pkv_syncthreads();
    uint32_t any = 0;
    PKV_UNROLL
    for (int32_t w = 0; w < PKV__PREFILL_THREADS / 32; w++) any |= marks->wild[w];
    if (any == 0) return;
    pkv__prefill_add_wild<S>(st, s, marks, stage, v);
    pkv_syncthreads();
    pkv__prefill_tame_share<S>(v);
    pkv_syncthreads();
}

#endif
