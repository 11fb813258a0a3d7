/* One tile of attention over long rows: 64 queries x 64 keys (32 at dim 256), 16 queries to a warp.
 *
 *   S = Q K^T   queries are the A operand, keys the columns of B: a thread holds, of rows g and
 *               g + 8 of its warp, columns 8j + 2t and 8j + 2t + 1
 *   softmax     in place, maxima by two shuffles among the four threads of a row
 *   O += P V    S is laid out as the A operand already; P never leaves the registers
 *
 * The maximum is kept in units of S, before scale: then the largest weight is exactly 2^BITS and
 * lse is exactly a logit where one key has all the weight. Weights are 2^BITS times too large, so
 * that small ones are no subnormal halves; l is, too. Codes have weights of their own unit, of each
 * row and tile: weight times scale of V, divided by the largest one's power of two. */
#ifndef PKV_ATTN_PREFILL_TILE_CUH
#define PKV_ATTN_PREFILL_TILE_CUH

#include "kernels/cuda/attn_kv_types.cuh"
#include "kernels/cuda/attn_numbers.cuh"
#include "kernels/cuda/attn_prefill.h"
#include "kernels/cuda/attn_rows.cuh"
#include "kernels/cuda/attn_visible.cuh"

template <class Store_, int32_t D_> struct pkv__prefill_shape {
    using Store = Store_;
    using T = typename Store::product;
    using Rows = pkv__tile_shape<2 * D_>;                 /* of products */
    using Stored = pkv__tile_shape<Store::row_bytes(D_)>; /* as in the store */
    static constexpr int32_t D = D_, KEYS = D <= 128 ? 64 : 32;
    static constexpr int32_t WORDS = KEYS / 32, N_SUBTILES = KEYS / PKV__TILE_KEYS;
    static constexpr bool Q_STAYS = D <= 128; /* in registers */

    /* Shared memory: Q; then twice K and V as stored; codes: K and V as products. */
    static constexpr int32_t Q_BYTES = PKV__PREFILL_ROWS * Rows::PITCH;
    static constexpr int32_t STORED_BYTES = KEYS * Stored::PITCH;
    static constexpr int32_t TILE_BYTES = KEYS * Rows::PITCH;
    static constexpr int32_t PRODUCTS_AT = Q_BYTES + 4 * STORED_BYTES;
    static constexpr int32_t SHARED_BYTES = PRODUCTS_AT + (Store::IS_CODES ? 2 * TILE_BYTES : 0);
};

/* What threads tell each other of a tile and of the item's queries. */
struct pkv__prefill_marks {
    uint32_t seen[2][PKV__PREFILL_ROWS * 2]; /* bit k of word w of a query: it sees key 32 w + k */
    uint32_t any[2][PKV__PREFILL_THREADS / 32][2]; /* some query of the warp that marked */
    uint32_t wild[PKV__PREFILL_THREADS / 32];
    float scale[2][2][80], zero[2][2][80]; /* codes: [stage][K, V][key of 64]; 80: a warp that
                                              writes 16 of K and 16 of V writes to all banks */
    float factor[PKV__PREFILL_ROWS];       /* from S to logits */
    float q_sum[PKV__PREFILL_ROWS];        /* codes with zero points */
    float slope[PKV__PREFILL_ROWS];        /* ALiBi */
    int64_t at[PKV__PREFILL_ROWS];         /* position relative to key 0's */
    int32_t row[PKV__PREFILL_ROWS];        /* of the sequence; -1: there is no such query */
};

template <class S> struct pkv__prefill_state {
    float o[S::D / 8][4];
    float m[2], l[2]; /* rows g and g + 8; l: of this thread's columns alone */
    float shift[2];   /* sum of weight * scale * zero point of V, likewise */
};

template <class S> PKV_DEV void pkv__prefill_clear(pkv__prefill_state<S> &st)
{
    PKV_UNROLL
    for (int32_t j = 0; j < S::D / 8; j++) PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) st.o[j][i] = 0.f;
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        st.m[h] = -INFINITY;
        st.l[h] = st.shift[h] = 0.f;
    }
}

/* ---------------------------------------------------------------- S = Q K^T */
template <class S>
PKV_DEV void pkv__prefill_q(uint32_t (&a)[4], const unsigned char *q, int32_t step)
{
    const int32_t lane = pkv_lane();
    pkv_ldm_x4(a, q + S::Rows::place(pkv_warp() * 16 + lane % 16, 2 * step + lane / 16));
}

template <class S>
PKV_DEV void pkv__prefill_scores(float (&s)[S::KEYS / 8][4], const uint32_t (*in_registers)[4],
                                 const unsigned char *q, const unsigned char *k)
{
    const int32_t row = pkv_lane() % 8 + pkv_lane() / 16 * 8, chunk = pkv_lane() / 8 % 2;
    PKV_UNROLL
    for (int32_t j = 0; j < S::KEYS / 8; j++) PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) s[j][i] = 0.f;
    PKV_UNROLL
    for (int32_t step = 0; step < S::D / 16; step++) {
        uint32_t a[4];
        if constexpr (S::Q_STAYS) {
            PKV_UNROLL
            for (int32_t i = 0; i < 4; i++) a[i] = in_registers[step][i];
        } else {
            pkv__prefill_q<S>(a, q, step);
        }
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j += 2) {
            uint32_t b[4];
            pkv_ldm_x4(b, k + S::Rows::place(j * 8 + row, 2 * step + chunk));
            pkv_mma16816<typename S::T>(s[j], a, b[0], b[1]);
            pkv_mma16816<typename S::T>(s[j + 1], a, b[2], b[3]);
        }
    }
}

/* ---------------------------------------------------------------- logits */
/* Are logits more than a factor times S? Then S becomes logits, and the factor 1. */
template <class S> PKV_DEV bool pkv__prefill_is_plain(const struct pkv__cuda_attn &a)
{
    const bool usual = a.scale >= 0x1p-12f && a.scale <= 0x1p12f; /* products with it are numbers */
    return !S::Store::IS_CODES && usual && a.opts.softcap == 0.f && !a.opts.alibi;
}

template <class S>
PKV_DEV void pkv__prefill_scale_codes(float (&s)[S::KEYS / 8][4], const pkv__prefill_marks *marks,
                                      int32_t row, int32_t stage)
{
    PKV_UNROLL
    for (int32_t j = 0; j < S::KEYS / 8; j++) {
        const int32_t key = j * 8 + pkv_lane() % 4 * 2;
        const float2 scale = pkv_ldv<float2>(&marks->scale[stage][0][key]);
        float2 zero = { 0.f, 0.f };
        if constexpr (S::Store::HAS_ZEROS) zero = pkv_ldv<float2>(&marks->zero[stage][0][key]);
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++) {
            if constexpr (S::Store::HAS_ZEROS) {
                const float sum = marks->q_sum[row + 8 * h];
                s[j][2 * h] -= zero.x * sum;
                s[j][2 * h + 1] -= zero.y * sum;
            }
            s[j][2 * h] *= scale.x;
            s[j][2 * h + 1] *= scale.y;
        }
    }
}

template <class S>
PKV_DEV void pkv__prefill_add_alibi(float (&s)[S::KEYS / 8][4], const pkv__prefill_marks *marks,
                                    const pkv__sight &sight, int32_t row, int32_t key0)
{
    const bool plain = !sight.own_move || pkv__sight_plain(sight, key0, S::KEYS);
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const float slope = marks->slope[row + 8 * h];
        const int32_t i = marks->row[row + 8 * h];
        /* Sums with it are exact up to 2^24; beyond, the distance is rounded once, from 64 bits. */
        const int64_t from_row = key0 - marks->at[row + 8 * h], far = (1 << 24) - S::KEYS;
        const bool near = plain && from_row >= -far && from_row <= far;
        const float ahead = (float)from_row;
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j++) PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            const int32_t k = j * 8 + pkv_lane() % 4 * 2 + e;
            float by = ahead + (float)k;
            if (!near && i >= 0 && k < sight.kv_len - key0)
                by = (float)pkv__sight_ahead(sight, i, key0 + k);
            s[j][2 * h + e] += slope * by;
        }
    }
}

/* S to logits, in natural units. */
template <class S>
PKV_DEV void pkv__prefill_logits(float (&s)[S::KEYS / 8][4], const struct pkv__cuda_attn &a,
                                 const pkv__prefill_marks *marks, const pkv__sight &sight,
                                 int32_t key0, int32_t stage)
{
    const int32_t row = pkv_warp() * 16 + pkv_lane() / 4;
    if constexpr (S::Store::IS_CODES) pkv__prefill_scale_codes<S>(s, marks, row, stage);
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const float factor = marks->factor[row + 8 * h];
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j++) PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            float z = s[j][2 * h + e] * factor;
            if (a.opts.softcap > 0.f) z = pkv__capped(z, a.opts.softcap, a.cap_unit);
            s[j][2 * h + e] = z;
        }
    }
    if (a.opts.alibi) pkv__prefill_add_alibi<S>(s, marks, sight, row, key0);
}

/* The bits of the thread's columns of rows g and g + 8: bit 8 (j % 4) + i of word j / 4. */
template <class S> struct pkv__prefill_bits {
    uint32_t of[2][S::WORDS];
};
template <class S>
PKV_DEV pkv__prefill_bits<S> pkv__prefill_bits_of(const pkv__prefill_marks *marks, int32_t stage)
{
    const int32_t row = pkv_warp() * 16 + pkv_lane() / 4;
    pkv__prefill_bits<S> bits;
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) PKV_UNROLL
    for (int32_t w = 0; w < S::WORDS; w++)
        bits.of[h][w] = marks->seen[stage][(row + 8 * h) * S::WORDS + w] >> pkv_lane() % 4 * 2;
    return bits;
}
template <class S>
PKV_DEV bool pkv__prefill_sees(const pkv__prefill_bits<S> &b, int32_t j, int32_t i)
{
    return b.of[i / 2][j / 4] >> (j % 4 * 8 + i % 2) & 1u;
}
/* What is not seen becomes `instead`. */
template <class S>
PKV_DEV void pkv__prefill_mask(float (&s)[S::KEYS / 8][4], const pkv__prefill_bits<S> &bits,
                               float instead)
{
    PKV_UNROLL
    for (int32_t j = 0; j < S::KEYS / 8; j++) PKV_UNROLL
    for (int32_t i = 0; i < 4; i++)
        if (!pkv__prefill_sees<S>(bits, j, i)) s[j][i] = instead;
}

/* ---------------------------------------------------------------- softmax */
PKV_DEV float pkv__quad_max(float x)
{
    x = fmaxf(x, pkv_shfl_xor(x, 1));
    return fmaxf(x, pkv_shfl_xor(x, 2));
}
PKV_DEV float pkv__quad_sum(float x)
{
    x += pkv_shfl_xor(x, 1);
    return x + pkv_shfl_xor(x, 2);
}

/* Logits / unit become weights; what came before is rescaled where a maximum has moved (elsewhere
 * it would be by 1). unit > 0: log2(e) times a logit is unit times s. */
template <class S>
PKV_DEV void pkv__prefill_weights(float (&s)[S::KEYS / 8][4], pkv__prefill_state<S> &st,
                                  const float (&unit)[2])
{
    float before[2], base[2];
    bool moved = false;
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        float most = st.m[h];
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j++)
            most = fmaxf(most, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
        most = pkv__quad_max(most);
        before[h] = st.m[h];
        moved = moved || most > st.m[h];
        st.m[h] = most;
        base[h] = most == -INFINITY ? 0.f : most; /* -inf - -inf would be NaN */
    }
    if (pkv_any(moved)) {
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++) {
            const float by = pkv_exp2((before[h] - base[h]) * unit[h]);
            st.l[h] *= by;
            st.shift[h] *= by;
            PKV_UNROLL
            for (int32_t j = 0; j < S::D / 8; j++) {
                st.o[j][2 * h] *= by;
                st.o[j][2 * h + 1] *= by;
            }
        }
    }
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        float sum = 0.f;
        PKV_UNROLL
        for (int32_t j = 0; j < S::KEYS / 8; j++) PKV_UNROLL
        for (int32_t e = 2 * h; e < 2 * h + 2; e++) {
            s[j][e] = pkv_exp2(fmaf(s[j][e] - base[h], unit[h], (float)PKV_P_BITS<typename S::T>));
            sum += s[j][e];
        }
        st.l[h] += sum;
    }
}

#endif
