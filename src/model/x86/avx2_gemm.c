/* The products with AVX2 and FMA: 16 partial sums are two registers. 3 x 2 outputs take 12 of 16,
 * with two of W and one of x: 12 multiply-adds for 10 loads. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define TILE_M 3
#define TILE_N 2
#define COPY_M 12
#define PACKED_M 6
#define PACKED_V 2
#define X_PER_ELEMENT 1
#define ALONE_N 4

typedef __m256 vec;

static inline vec zero(void)
{
    return _mm256_setzero_ps();
}

static inline vec load_f32(const float *p)
{
    return _mm256_loadu_ps(p);
}

static inline void store(float *p, vec v)
{
    _mm256_storeu_ps(p, v);
}

static inline vec widen(__m128i half)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

static inline vec load_bf16(const uint16_t *p)
{
    return widen(_mm_loadu_si128((const __m128i *)(const void *)p));
}

static inline __m256i first(int32_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

static inline vec part_f32(const float *p, int32_t n)
{
    return _mm256_maskload_ps(p, first(n));
}

static inline vec part_bf16(const uint16_t *p, int32_t n)
{
    uint16_t some[LANES] = { 0 };
    memcpy(some, p, (size_t)n * sizeof(*p));
    return load_bf16(some);
}

static inline vec fma_all(vec x, vec w, vec s)
{
    return _mm256_fmadd_ps(x, w, s);
}

static inline vec fma_part(vec x, vec w, vec s, int32_t n)
{
    return _mm256_blendv_ps(s, _mm256_fmadd_ps(x, w, s), _mm256_castsi256_ps(first(n)));
}

static inline float fold(const vec s[2])
{
    const __m256 e = _mm256_add_ps(s[0], s[1]);
    const __m128 q = _mm_add_ps(_mm256_castps256_ps128(e), _mm256_extractf128_ps(e, 1));
    const __m128 d = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}

static inline vec sum(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}

static inline vec put_product(const float *x, vec w, vec s)
{
    return _mm256_fmadd_ps(_mm256_set1_ps(*x), w, s);
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

const pkv__gemm_ops pkv__gemm_avx2 = { "avx2", product_f32, product_bf16 };

const pkv__gemm_packed pkv__packed_f32_avx2 = { packed, PACKED_M, PACKED_N, X_PER_ELEMENT, 192 };
