/* Short rows over int8 with K multiplied in integers, avx2 level. */
#include "kernels/vector/decode.h"
#include "kernels/x86/avx2_formats.h"
#include "kernels/x86/x86_levels.h"

enum { PV_ACCUMULATORS = 8, ROWS_ONE_VECTOR = 2, ROWS_TILE = 2 };

typedef __m256i ivec;

PKV_TEMPLATE ivec i_zero(void)
{
    return _mm256_setzero_si256();
}

PKV_TEMPLATE ivec i_load(const void *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

PKV_TEMPLATE ivec i_codes(const void *p, int32_t n)
{
    return _mm256_cvtepi8_epi16(n == 2 * LANES ? _mm_loadu_si128((const __m128i *)p)
                                               : _mm_loadl_epi64((const __m128i *)p));
}

PKV_TEMPLATE ivec i_dot(ivec acc, ivec a, ivec b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}

/* Pairs are added, twice, then the halves. */
PKV_TEMPLATE vec i_reduce(const ivec *acc)
{
    ivec x[4], y[2];
    PKV_UNROLL for (int i = 0; i < 4; i++) x[i] = _mm256_hadd_epi32(acc[2 * i], acc[2 * i + 1]);
    PKV_UNROLL for (int i = 0; i < 2; i++) y[i] = _mm256_hadd_epi32(x[2 * i], x[2 * i + 1]);
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_permute2x128_si256(y[0], y[1], 0x20),
                                               _mm256_permute2x128_si256(y[0], y[1], 0x31)));
}

PKV_TEMPLATE void i_store_rounded(void *p, vec x)
{
    const __m256i i = _mm256_cvtps_epi32(x);
    _mm_storeu_si128((__m128i *)p,
                     _mm_packs_epi32(_mm256_castsi256_si128(i), _mm256_extracti128_si256(i, 1)));
}

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_int8_qk.inc"

void pkv__avx2_register_int8_qk(struct pkv__cpu_kernels *k)
{
    int8_qk_register(k, PKV_ISA_AVX2);
}
