/* The packed products of bf16 weights with dot products of pairs: x is rounded to bf16, too, so
 * they are for passes within bounds alone. An element is a pair. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define PACKED_M 8
#define PACKED_V 3
#define X_PER_ELEMENT 2

typedef __m512 vec;

static inline vec zero(void)
{
    return _mm512_setzero_ps();
}

static inline vec load_f32(const float *p)
{
    return _mm512_loadu_ps(p);
}

static inline void store(float *p, vec v)
{
    _mm512_storeu_ps(p, v);
}

static inline vec sum(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec put_product(const float *x, vec w, vec s)
{
    const __m512 pair = _mm512_set1_ps(*x);
    return _mm512_dpbf16_ps(s, (__m512bh)pair, (__m512bh)w);
}

static inline void take_x(float *to, const float *x, int32_t n)
{
    int32_t i = 0;
    for (; i + LANES <= n; i += LANES, x += 2 * LANES)
        _mm512_storeu_si512(
            to + i, (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(x + LANES), _mm512_loadu_ps(x)));
    if (i == n) return;
    const int32_t left = 2 * (n - i);
    const __mmask16 low = (__mmask16)(left < LANES ? (1u << left) - 1 : 0xffff);
    const __mmask16 high = (__mmask16)(left > LANES ? (1u << (left - LANES)) - 1 : 0);
    _mm512_mask_storeu_epi32(to + i, (__mmask16)((1u << (n - i)) - 1),
                             (__m512i)_mm512_cvtne2ps_pbh(_mm512_maskz_loadu_ps(high, x + LANES),
                                                          _mm512_maskz_loadu_ps(low, x)));
}

static inline __m128 load_quad(const void *w, int64_t at)
{
    const void *from = (const uint16_t *)w + 2 * at;
    return _mm_castsi128_ps(_mm_loadu_si128(from));
}

static inline float load_one(const void *w, int64_t at)
{
    float pair;
    memcpy(&pair, (const uint16_t *)w + 2 * at, sizeof(pair));
    return pair;
}

#include "model/vector/gemm_packed.inc"

const pkv__gemm_packed pkv__packed_bf16_avx512bf16 = { packed, PACKED_M, PACKED_N, X_PER_ELEMENT,
                                                       16 };
