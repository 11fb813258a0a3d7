/* Integers of vector/decode_int8_qk.inc in AVX-512 vectors; i_dot is the level's own. */
#ifndef PKV_AVX512_INTEGERS_H
#define PKV_AVX512_INTEGERS_H

#include "kernels/x86/avx512_vec.h"

typedef __m512i ivec;

PKV_TEMPLATE ivec i_zero(void)
{
    return _mm512_setzero_si512();
}

PKV_TEMPLATE ivec i_load(const void *p)
{
    return _mm512_loadu_si512(p);
}

PKV_TEMPLATE ivec i_codes(const void *p, int32_t n)
{
    if (n == 2 * LANES) return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_cvtepi8_epi16(_mm256_maskz_loadu_epi8((1u << n) - 1u, p));
}

/* As v_reduce. */
PKV_TEMPLATE ivec i_halve_512(ivec a, ivec b)
{
    return _mm512_add_epi32(_mm512_mask_blend_epi32(0xff00, a, b),
                            _mm512_shuffle_i32x4(a, b, 0x4e));
}

PKV_TEMPLATE ivec i_halve_256(ivec a, ivec b)
{
    const ivec cross = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    return _mm512_add_epi32(_mm512_mask_blend_epi32(0xf0f0, a, b),
                            _mm512_permutex2var_epi64(a, cross, b));
}

PKV_TEMPLATE ivec i_shuffle(ivec a, ivec b, int which)
{
    const vec x = _mm512_castsi512_ps(a), y = _mm512_castsi512_ps(b);
    return _mm512_castps_si512(which == 0   ? _mm512_shuffle_ps(x, y, 0x4e)
                               : which == 1 ? _mm512_shuffle_ps(x, y, 0x88)
                                            : _mm512_shuffle_ps(x, y, 0xdd));
}

PKV_TEMPLATE vec i_reduce(const ivec *acc)
{
    ivec x[8], y[4], z[2];
    PKV_UNROLL for (int i = 0; i < 8; i++) x[i] = i_halve_512(acc[i], acc[i + 8]);
    PKV_UNROLL for (int i = 0; i < 4; i++) y[i] = i_halve_256(x[i], x[i + 4]);
    PKV_UNROLL for (int i = 0; i < 2; i++)
    {
        const ivec a = y[2 * i], b = y[2 * i + 1];
        z[i] = _mm512_add_epi32(_mm512_mask_blend_epi32(0xcccc, a, b), i_shuffle(a, b, 0));
    }
    return _mm512_cvtepi32_ps(_mm512_add_epi32(i_shuffle(z[0], z[1], 1), i_shuffle(z[0], z[1], 2)));
}

PKV_TEMPLATE void i_store_rounded(void *p, vec x)
{
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtsepi32_epi16(_mm512_cvtps_epi32(x)));
}

#endif
