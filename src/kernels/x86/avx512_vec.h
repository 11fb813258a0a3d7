/* Vectors of the avx512 level (AVX-512 F, BW, DQ, VL). kernels/vector/ and the files of this level
 * are written in these operations; avx2_vec.h and neon_vec.h offer the same ones.
 *
 *   LANES, vec                     16, 8 or 4 floats
 *   v_set1 v_load v_store v_add v_sub v_mul v_div v_fma(a, b, c) = a * b + c, rounded once
 *   v_in_register(x)               x, loaded once: compilers repeat a load for each of its uses
 *   v_max v_min(a, b)              b if either is NaN
 *   v_round(x)                     to the nearest integer, ties to even
 *   v_scale2(x, n)                 x * 2^n, n an integer in -160 .. 127, |x| about 1
 *   v_copysign(mag, sign)
 *   v_differ(a, b)                 true if any lane differs (NaN: not)
 *   v_keep_first(x, n)             lanes >= n become -inf, 0 <= n <= LANES
 *   v_keep_bits(x, bits)           lanes whose bit is clear become -inf
 *   v_rotate_max(x, n)             maximum over all lanes with equal lane % n; n a power of two
 *   v_rotate_add(x, n)             their sum: lanes LANES / 2 apart first, then LANES / 4, ...
 *   v_spread(p, n)                 lane i = p[i / n]; reads LANES floats
 *   v_zip(a, b, x)                 x[0], x[1] = a[0], b[0], a[1], b[1], ...
 *   v_unzip(a, b, x)               the reverse: x[0] = a[0], a[2], .. b[0], b[2], ..; x[1] the odd
 *   v_reduce(acc)                  lane i = sum of all lanes of acc[i], i < LANES
 *   v_load_row(dtype, p)           LANES elements of f32, f16, bf16 as floats; dtype a constant
 *   v_store_out(dtype, p, x)       the reverse, to nearest even, NaN stays NaN
 *   v_load_bf16_pair(p, x)         of 2 LANES elements x[0] = those of even, x[1] of odd index
 *   v_load_part, v_store_part, v_load_row_part, v_store_out_part(..., n)
 *                                  the first n lanes alone, n = LANES or, of 16 lanes, 8; loaded
 *                                  lanes behind them are 0. Dims are multiples of 8.
 *   v_exp2(x), v_tanh(x)           vec_math.h
 *   PREFETCH(p)                    the hint for rows read soon
 *
 * All pointers may be unaligned. */
#ifndef PKV_AVX512_VEC_H
#define PKV_AVX512_VEC_H

#include "common/templates.h"
#include "pagedkv/base.h"

#include <immintrin.h>
#include <math.h>

enum { LANES = 16 };
typedef __m512 vec;

#define PREFETCH(p) _mm_prefetch((const char *)(p), _MM_HINT_T0)

PKV_TEMPLATE vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}
PKV_TEMPLATE vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
PKV_TEMPLATE vec v_in_register(vec x)
{
    __asm__("" : "+v"(x));
    return x;
}
PKV_TEMPLATE void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
PKV_TEMPLATE vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
PKV_TEMPLATE vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
PKV_TEMPLATE vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
PKV_TEMPLATE vec v_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}
PKV_TEMPLATE vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
PKV_TEMPLATE vec v_min(vec a, vec b)
{
    return _mm512_min_ps(a, b);
}
PKV_TEMPLATE vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
PKV_TEMPLATE vec v_round(vec x)
{
    return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
PKV_TEMPLATE vec v_scale2(vec x, vec n)
{
    return _mm512_scalef_ps(x, n);
}
PKV_TEMPLATE bool v_differ(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_OQ) != 0;
}

PKV_TEMPLATE vec v_copysign(vec mag, vec sign)
{
    const __m512 bit = _mm512_set1_ps(-0.f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, mag), _mm512_and_ps(bit, sign));
}

PKV_TEMPLATE vec v_keep_bits(vec x, uint32_t bits)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (__mmask16)bits, x);
}

PKV_TEMPLATE vec v_keep_first(vec x, int32_t n)
{
    return v_keep_bits(x, (1u << n) - 1u);
}

PKV_TEMPLATE vec v_rotate_max(vec x, int n)
{
    if (n <= 8) x = v_max(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    if (n <= 4) x = v_max(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    if (n <= 2) x = v_max(x, _mm512_permute_ps(x, 0x4e));
    if (n <= 1) x = v_max(x, _mm512_permute_ps(x, 0xb1));
    return x;
}

PKV_TEMPLATE vec v_rotate_add(vec x, int n)
{
    if (n <= 8) x = v_add(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    if (n <= 4) x = v_add(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    if (n <= 2) x = v_add(x, _mm512_permute_ps(x, 0x4e));
    if (n <= 1) x = v_add(x, _mm512_permute_ps(x, 0xb1));
    return x;
}

PKV_TEMPLATE vec v_spread(const float *p, int n)
{
    const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    if (n == 1) return v_load(p);
    if (n >= LANES) return v_set1(*p);
    return _mm512_permutexvar_ps(_mm512_srli_epi32(lane, n == 2 ? 1 : n == 4 ? 2 : 3), v_load(p));
}

PKV_TEMPLATE void v_zip(vec a, vec b, vec *x)
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    x[0] = _mm512_permutex2var_ps(a, low, b);
    x[1] = _mm512_permutex2var_ps(a, high, b);
}

PKV_TEMPLATE void v_unzip(vec a, vec b, vec *x)
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    x[0] = _mm512_permutex2var_ps(a, even, b);
    x[1] = _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(1)), b);
}

/* Four halvings; each takes two vectors and adds the half of one that stays in place (a blend) to
 * the half that has to move (one shuffle): half the shuffles of a transposition. */
PKV_TEMPLATE vec v_halve_512(vec a, vec b) /* 256-bit halves: [a, b] */
{
    return v_add(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}

PKV_TEMPLATE vec v_halve_256(vec a, vec b) /* 128-bit quarters: [a, b, a, b] */
{
    const __m512i cross = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    return v_add(
        _mm512_mask_blend_ps(0xf0f0, a, b),
        _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), cross, _mm512_castps_pd(b))));
}

PKV_TEMPLATE vec v_halve_128(vec a, vec b) /* in each quarter: [a, a, b, b] */
{
    return v_add(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
}

PKV_TEMPLATE vec v_reduce(const vec *acc)
{
    vec x[8], y[4], z[2];
    PKV_UNROLL for (int i = 0; i < 8; i++) x[i] = v_halve_512(acc[i], acc[i + 8]);
    PKV_UNROLL for (int i = 0; i < 4; i++) y[i] = v_halve_256(x[i], x[i + 4]);
    PKV_UNROLL for (int i = 0; i < 2; i++) z[i] = v_halve_128(y[2 * i], y[2 * i + 1]);
    return v_add(_mm512_shuffle_ps(z[0], z[1], 0x88), _mm512_shuffle_ps(z[0], z[1], 0xdd));
}

PKV_TEMPLATE vec v_from_bf16(__m256i half)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

PKV_TEMPLATE void v_load_bf16_pair(const void *p, vec *x)
{
    const __m512i both = _mm512_loadu_si512(p);
    x[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    x[1] = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000)));
}

/* bf16 by hand: nearest even is an integer addition below the cut; NaN must not carry over. */
PKV_TEMPLATE __m256i v_to_bf16(vec x)
{
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x00400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, nan, quiet), 16));
}

PKV_TEMPLATE vec v_load_part(const float *p, int n)
{
    return n == LANES ? v_load(p) : _mm512_zextps256_ps512(_mm256_loadu_ps(p));
}

PKV_TEMPLATE void v_store_part(float *p, vec x, int n)
{
    if (n == LANES) v_store(p, x);
    else _mm256_storeu_ps(p, _mm512_castps512_ps256(x));
}

PKV_TEMPLATE vec v_load_row_part(pkv_dtype dtype, const void *p, int n)
{
    if (dtype == PKV_F32) return v_load_part((const float *)p, n);
    const __m256i half = n == LANES ? _mm256_loadu_si256((const __m256i *)p)
                                    : _mm256_zextsi128_si256(_mm_loadu_si128((const __m128i *)p));
    return dtype == PKV_F16 ? _mm512_cvtph_ps(half) : v_from_bf16(half);
}

PKV_TEMPLATE vec v_load_row(pkv_dtype dtype, const void *p)
{
    return v_load_row_part(dtype, p, LANES);
}

PKV_TEMPLATE void v_store_out_part(pkv_dtype dtype, void *p, vec x, int n)
{
    if (dtype == PKV_F32) {
        v_store_part((float *)p, x, n);
        return;
    }
    const __m256i half =
        dtype == PKV_F16 ? _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT) : v_to_bf16(x);
    if (n == LANES) _mm256_storeu_si256((__m256i *)p, half);
    else _mm_storeu_si128((__m128i *)p, _mm256_castsi256_si128(half));
}

PKV_TEMPLATE void v_store_out(pkv_dtype dtype, void *p, vec x)
{
    v_store_out_part(dtype, p, x, LANES);
}

#include "kernels/vector/vec_math.h"

#endif
