/* The products with AVX2 and FMA: 16 partial sums are two registers. 3 x 2 outputs take 12 of 16,
 * with two of W and one of x: 12 multiply-adds for 10 loads. */
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 8
#define TILE_M 3
#define TILE_N 2
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

#include "model/vector/gemm_tiles.inc"

const pkv__gemm_ops pkv__gemm_avx2 = { "avx2", product_f32, product_bf16 };
