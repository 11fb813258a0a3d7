/* Vectors of the avx2 level (AVX2, FMA, F16C): the operations that avx512_vec.h lists. */
#ifndef PKV_AVX2_VEC_H
#define PKV_AVX2_VEC_H

#include "common/templates.h"
#include "pagedkv/base.h"

#include <immintrin.h>
#include <math.h>

enum { LANES = 8 };
typedef __m256 vec;

#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

PKV_TEMPLATE vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}
PKV_TEMPLATE vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
PKV_TEMPLATE vec v_in_register(vec x)
{
    __asm__("" : "+x"(x));
    return x;
}
PKV_TEMPLATE void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
PKV_TEMPLATE vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
PKV_TEMPLATE vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
PKV_TEMPLATE vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
PKV_TEMPLATE vec v_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}
PKV_TEMPLATE vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
PKV_TEMPLATE vec v_min(vec a, vec b)
{
    return _mm256_min_ps(a, b);
}
PKV_TEMPLATE vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
PKV_TEMPLATE vec v_round(vec x)
{
    return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
PKV_TEMPLATE bool v_differ(vec a, vec b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_OQ)) != 0;
}

PKV_TEMPLATE vec v_pow2(__m256i n) /* -126 <= n <= 127 */
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* 2^n in two halves, which reach through the subnormals. */
PKV_TEMPLATE vec v_scale2(vec x, vec n)
{
    const __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1);
    return v_mul(v_mul(x, v_pow2(half)), v_pow2(_mm256_sub_epi32(i, half)));
}

PKV_TEMPLATE vec v_copysign(vec mag, vec sign)
{
    const __m256 bit = _mm256_set1_ps(-0.f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, mag), _mm256_and_ps(bit, sign));
}

PKV_TEMPLATE vec v_keep_mask(vec x, __m256i keep) /* all ones or zeros per lane */
{
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), x, _mm256_castsi256_ps(keep));
}

PKV_TEMPLATE vec v_keep_bits(vec x, uint32_t bits)
{
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)bits), bit);
    return v_keep_mask(x, _mm256_cmpeq_epi32(set, bit));
}

PKV_TEMPLATE vec v_keep_first(vec x, int32_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return v_keep_mask(x, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}

PKV_TEMPLATE vec v_rotate_max(vec x, int n)
{
    if (n <= 4) x = v_max(x, _mm256_permute2f128_ps(x, x, 0x01));
    if (n <= 2) x = v_max(x, _mm256_permute_ps(x, 0x4e));
    if (n <= 1) x = v_max(x, _mm256_permute_ps(x, 0xb1));
    return x;
}

PKV_TEMPLATE vec v_rotate_add(vec x, int n)
{
    if (n <= 4) x = v_add(x, _mm256_permute2f128_ps(x, x, 0x01));
    if (n <= 2) x = v_add(x, _mm256_permute_ps(x, 0x4e));
    if (n <= 1) x = v_add(x, _mm256_permute_ps(x, 0xb1));
    return x;
}

PKV_TEMPLATE vec v_spread(const float *p, int n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    if (n == 1) return v_load(p);
    if (n >= LANES) return v_set1(*p);
    return _mm256_permutevar8x32_ps(v_load(p), _mm256_srli_epi32(lane, n == 2 ? 1 : 2));
}

PKV_TEMPLATE void v_zip(vec a, vec b, vec *x)
{
    const vec low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    x[0] = _mm256_permute2f128_ps(low, high, 0x20);
    x[1] = _mm256_permute2f128_ps(low, high, 0x31);
}

PKV_TEMPLATE vec v_middle_swapped(vec x) /* 64-bit quarters 0 2 1 3 */
{
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(x), 0xd8));
}

PKV_TEMPLATE void v_unzip(vec a, vec b, vec *x)
{
    x[0] = v_middle_swapped(_mm256_shuffle_ps(a, b, 0x88));
    x[1] = v_middle_swapped(_mm256_shuffle_ps(a, b, 0xdd));
}

/* Three halvings; each takes two vectors and adds the half of one that stays in place (a blend) to
 * the half that has to move (one shuffle): half the shuffles of a transposition. */
PKV_TEMPLATE vec v_halve_256(vec a, vec b) /* 128-bit halves: [a, b] */
{
    return v_add(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}

PKV_TEMPLATE vec v_halve_128(vec a, vec b) /* in each half: [a, a, b, b] */
{
    return v_add(_mm256_blend_ps(a, b, 0xcc), _mm256_shuffle_ps(a, b, 0x4e));
}

PKV_TEMPLATE vec v_reduce(const vec *acc)
{
    vec x[4], y[2];
    PKV_UNROLL for (int i = 0; i < 4; i++) x[i] = v_halve_256(acc[i], acc[i + 4]);
    PKV_UNROLL for (int i = 0; i < 2; i++) y[i] = v_halve_128(x[2 * i], x[2 * i + 1]);
    return v_add(_mm256_shuffle_ps(y[0], y[1], 0x88), _mm256_shuffle_ps(y[0], y[1], 0xdd));
}

PKV_TEMPLATE vec v_from_bf16(__m128i half)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

PKV_TEMPLATE void v_load_bf16_pair(const void *p, vec *x)
{
    const __m256i both = _mm256_loadu_si256((const __m256i *)p);
    x[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    x[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000)));
}

/* bf16 by hand: nearest even is an integer addition below the cut; NaN must not carry over. */
PKV_TEMPLATE __m128i v_to_bf16(vec x)
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x00400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i code = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
}

PKV_TEMPLATE vec v_load_part(const float *p, int n)
{
    (void)n; /* dims are multiples of 8: every part is a whole vector */
    return v_load(p);
}

PKV_TEMPLATE void v_store_part(float *p, vec x, int n)
{
    (void)n;
    v_store(p, x);
}

PKV_TEMPLATE vec v_load_row(pkv_dtype dtype, const void *p)
{
    if (dtype == PKV_F32) return v_load((const float *)p);
    const __m128i half = _mm_loadu_si128((const __m128i *)p);
    return dtype == PKV_F16 ? _mm256_cvtph_ps(half) : v_from_bf16(half);
}

PKV_TEMPLATE vec v_load_row_part(pkv_dtype dtype, const void *p, int n)
{
    (void)n;
    return v_load_row(dtype, p);
}

PKV_TEMPLATE void v_store_out(pkv_dtype dtype, void *p, vec x)
{
    if (dtype == PKV_F32) {
        v_store((float *)p, x);
        return;
    }
    _mm_storeu_si128((__m128i *)p, dtype == PKV_F16 ? _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)
                                                    : v_to_bf16(x));
}

PKV_TEMPLATE void v_store_out_part(pkv_dtype dtype, void *p, vec x, int n)
{
    (void)n;
    v_store_out(dtype, p, x);
}

#include "kernels/vector/vec_math.h"

#endif
