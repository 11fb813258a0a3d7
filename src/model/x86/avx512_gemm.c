/* The products with AVX-512: 16 partial sums are one register. 4 x 6 outputs take 24 of 32, with 6
 * of W and one of x. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 16
#define TILE_M 4
#define TILE_N 6
#define COPY_M 0
#define PACKED_M 8
#define PACKED_V 3
#define X_PER_ELEMENT 1
#define ALONE_N 3

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

static inline vec widen(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

static inline vec load_bf16(const uint16_t *p)
{
    return widen(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

static inline __mmask16 first(int32_t n)
{
    return (__mmask16)((1u << n) - 1);
}

static inline vec part_f32(const float *p, int32_t n)
{
    return _mm512_maskz_loadu_ps(first(n), p);
}

static inline vec part_bf16(const uint16_t *p, int32_t n)
{
    return widen(_mm256_maskz_loadu_epi16(first(n), p));
}

static inline vec fma_all(vec x, vec w, vec s)
{
    return _mm512_fmadd_ps(x, w, s);
}

static inline vec fma_part(vec x, vec w, vec s, int32_t n)
{
    return _mm512_mask3_fmadd_ps(x, w, s, first(n));
}

static inline float fold(const vec s[1])
{
    const __m256 e = _mm256_add_ps(_mm512_castps512_ps256(s[0]), _mm512_extractf32x8_ps(s[0], 1));
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

static inline vec sum(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}

static inline vec put_product(const float *x, vec w, vec s)
{
    return _mm512_fmadd_ps(_mm512_set1_ps(*x), w, s);
}

static inline void take_x(float *to, const float *x, int32_t n)
{
    memcpy(to, x, (size_t)n * sizeof(*to));
}

static inline __m128 load_quad(const void *w, int64_t at)
{
    return _mm_loadu_ps((const float *)w + at);
}

static inline float load_one(const void *w, int64_t at)
{
    return ((const float *)w)[at];
}

#include "model/vector/gemm_packed.inc"
#include "model/vector/gemm_tiles.inc"

const pkv__gemm_ops pkv__gemm_avx512 = { "avx512", product_f32, product_bf16 };

const pkv__gemm_packed pkv__packed_f32_avx512 = { packed, PACKED_M, PACKED_N, X_PER_ELEMENT, 192 };
