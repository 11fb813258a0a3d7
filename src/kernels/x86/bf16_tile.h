/* What tile.inc works on where the products are made of bf16: K, V and q in bf16, as stored, and
 * weights rounded to it. An element of 32 bits is two numbers that follow each other along the
 * summed dimension: two dims of q and K, two keys of V and of the weights.
 *
 *   q panel [k dim / 2][lanes]     k [TILE_KEYS][TILE_STRIDE], dims padded with 0 to 32
 *   p [TILE_KEYS / 2][lanes]       v [TILE_KEYS / 2][TILE_STRIDE], dims padded likewise
 *
 * Included by a level's file behind avx512_vec.h, tile.h and the constants of tile.inc. */
#ifndef PKV_BF16_TILE_H
#define PKV_BF16_TILE_H

#include "common/number_format.h"
#include "kernels/x86/avx512_transpose.h"

enum { TILE_PER_ELEMENT = 2 };

/* Up to 32 of the n numbers at p; the rest 0. */
static inline __m512i bf16_load(const void *p, int32_t n)
{
    const __mmask32 m = n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
    return _mm512_maskz_loadu_epi16(m, p);
}

static void tile_load_value(const struct tile *t, float *to, int32_t j)
{
    pkv__load_floats(to, tile_kv_row(t, t->call->v, j), PKV_BF16, t->call->v->dim);
}

/* Low and high halves of 32 elements: a[0] b[0] a[1] b[1] ... */
static inline void bf16_interleave(float *to, __m512i a, __m512i b)
{
    const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40,
                                         8, 39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
    const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
    _mm512_storeu_si512(to, _mm512_permutex2var_epi16(a, low, b));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(a, high, b));
}

static void bf16_pack_k_row(const struct tile *t, int32_t j)
{
    const int32_t dim = t->call->k->dim;
    float *to = t->k + j * TILE_STRIDE;
    const uint16_t *from = t->seen >> j & 1 ? tile_kv_row(t, t->call->k, j) : NULL;
    for (int32_t e = 0; e < dim; e += 32)
        _mm512_storeu_si512(to + e / 2,
                            from ? bf16_load(from + e, dim - e) : _mm512_setzero_si512());
}

/* V of keys j and j + 1. In tiles that somebody sees in part, elements that are not finite become
 * 0, and their keys wild. */
static void bf16_pack_v_pair(struct tile *t, int32_t j)
{
    const __m512i exponent = _mm512_set1_epi16(0x7f80);
    const int32_t dim = t->call->v->dim;
    const uint16_t *from[2];
    float *to = t->v + j / 2 * TILE_STRIDE;
    for (int i = 0; i < 2; i++)
        from[i] = t->seen >> (j + i) & 1 ? tile_kv_row(t, t->call->v, j + i) : NULL;
    for (int32_t e = 0; e < dim; e += 32) {
        __m512i x[2];
        for (int i = 0; i < 2; i++) {
            x[i] = from[i] ? bf16_load(from[i] + e, dim - e) : _mm512_setzero_si512();
            if (!t->partial) continue;
            const __mmask32 wild =
                _mm512_cmpeq_epi16_mask(_mm512_and_si512(x[i], exponent), exponent);
            x[i] = _mm512_maskz_mov_epi16((__mmask32)~wild, x[i]);
            if (wild) t->wild |= UINT64_C(1) << (j + i);
        }
        bf16_interleave(to + e, x[0], x[1]);
    }
}

static inline void bf16_pack_keys(struct tile *t)
{
    t->wild = 0;
    for (int32_t j = 0; j < TILE_KEYS; j++) bf16_pack_k_row(t, j);
    for (int32_t j = 0; j < TILE_KEYS; j += 2) bf16_pack_v_pair(t, j);
}

/* LANES queries to [k dim / 2][lanes]; those behind the last one, and dims, are 0. */
static void bf16_pack_lanes(const struct tile *t, int32_t i, float *to)
{
    const pkv_tensor3 *q = t->call->q;
    const int32_t n = pkv__min_i32(LANES, t->n_queries - i);
    const uint16_t *row[LANES];
    for (int32_t k = 0; k < n; k++)
        row[k] = (const uint16_t *)q->data + tile_tensor_at(t, q, i + k);
    for (int32_t e = 0; e < q->dim; e += 32) {
        vec x[LANES];
        for (int32_t k = 0; k < LANES; k++)
            x[k] = k < n ? _mm512_castsi512_ps(bf16_load(row[k] + e, q->dim - e)) : v_set1(0.f);
        v_transpose(x);
        for (int32_t d = 0; d < LANES; d++) v_store(to + (e / 2 + d) * TILE_LANES, x[d]);
    }
}

static void tile_pack_queries(const struct tile *t)
{
    const size_t panel = (size_t)(tile_pad_dim(t->call->k->dim) * TILE_LANES);
    const int32_t panels = pkv__ceil_div_i32(t->n_queries, TILE_LANES);
    PKV_ASSERT(t->call->q->dtype == PKV_BF16 && t->call->k->dtype == PKV_BF16);
    for (int32_t i = 0; i < panels * TILE_LANES; i += LANES)
        bf16_pack_lanes(t, i, t->q + (size_t)(i / TILE_LANES) * panel + i % TILE_LANES);
}

/* Pairs of weights take the place of the logits from the front: row j / 2 has been read by then. */
PKV_TEMPLATE void tile_put_weights(const struct tile *t, int32_t j, int i, vec p0, vec p1)
{
    const __m512i pairs =
        _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6,
                         21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
    const __m512i both = (__m512i)_mm512_cvtne2ps_pbh(p1, p0);
    _mm512_storeu_si512(t->s + j / 2 * TILE_LANES + i * LANES,
                        _mm512_permutexvar_epi16(pairs, both));
}

static float tile_weight(const struct tile *t, int32_t j, int32_t lane)
{
    uint16_t pair[2];
    memcpy(pair, t->s + j / 2 * TILE_LANES + lane, sizeof pair);
    return pkv__bf16_to_f32(pair[j % 2]);
}

#endif
