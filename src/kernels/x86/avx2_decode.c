/* Decode attention of the avx2 level (AVX2, FMA, F16C): the vectors of x86_decode.inc, which has
 * the picture of the data flow. What was tried for prefetching stands in avx512_decode.c.
 *
 * Same setting as there, on a busy machine: about 0.5 .. 0.6 of the read loop for f16 with 4 heads
 * in a tile, paged and contiguous. From L2 it is 23 GB/s, which is 0.7 of the FMA peak of 8-float
 * vectors: on such a machine arithmetic is the limit. Eight accumulators: four heads and two keys
 * (scores) or two vectors (values); 16 registers leave no room for more beside the queries. */
#include "kernels/x86/x86_decode.h"

#include <immintrin.h>

enum { LANES = 8, PV_ACCUMULATORS = 8, ROWS_ONE_HEAD = 2 };
typedef __m256 vec;

#define PREFETCH(p) _mm_prefetch((p), _MM_HINT_T0)

DECODE_TEMPLATE vec v_set1(float x)
{
    return _mm256_set1_ps(x);
}
DECODE_TEMPLATE vec v_load(const float *p)
{
    return _mm256_loadu_ps(p);
}
DECODE_TEMPLATE void v_store(float *p, vec x)
{
    _mm256_storeu_ps(p, x);
}
DECODE_TEMPLATE vec v_add(vec a, vec b)
{
    return _mm256_add_ps(a, b);
}
DECODE_TEMPLATE vec v_sub(vec a, vec b)
{
    return _mm256_sub_ps(a, b);
}
DECODE_TEMPLATE vec v_mul(vec a, vec b)
{
    return _mm256_mul_ps(a, b);
}
DECODE_TEMPLATE vec v_div(vec a, vec b)
{
    return _mm256_div_ps(a, b);
}
DECODE_TEMPLATE vec v_max(vec a, vec b)
{
    return _mm256_max_ps(a, b);
}
DECODE_TEMPLATE vec v_fma(vec a, vec b, vec c)
{
    return _mm256_fmadd_ps(a, b, c);
}
DECODE_TEMPLATE bool v_differ(vec a, vec b)
{
    return _mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_NEQ_OQ)) != 0;
}

DECODE_TEMPLATE vec v_keep_first(vec x, int32_t n)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    const __m256i keep = _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane);
    return _mm256_blendv_ps(_mm256_set1_ps(-INFINITY), x, _mm256_castsi256_ps(keep));
}

DECODE_TEMPLATE vec v_copysign(vec mag, vec sign)
{
    const __m256 bit = _mm256_set1_ps(-0.f);
    return _mm256_or_ps(_mm256_andnot_ps(bit, mag), _mm256_and_ps(bit, sign));
}

DECODE_TEMPLATE vec pow2(__m256i n) /* -126 <= n <= 127 */
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

/* 2^x = 2^n * p(x - n). The polynomial is the minimax one of degree 5 with p(0) = 1, so that 2^0 is
 * exactly 1; 1.8e-7 relative with its rounding. 2^n is applied in two halves, which reaches through
 * the subnormals; below 2^-150 everything is 0. NaN stays NaN, since the maximum takes its second
 * operand then. */
DECODE_TEMPLATE vec v_exp2(vec x)
{
    x = v_max(v_set1(-160.f), x);
    const vec n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const vec f = v_sub(x, n);
    vec p = v_set1(0.00133137999f);
    p = v_fma(p, f, v_set1(0.0096728811f));
    p = v_fma(p, f, v_set1(0.0555057004f));
    p = v_fma(p, f, v_set1(0.240222156f));
    p = v_fma(p, f, v_set1(0.693147063f));
    p = v_fma(p, f, v_set1(1.f));
    const __m256i i = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(i, 1);
    return v_mul(v_mul(p, pow2(half)), pow2(_mm256_sub_epi32(i, half)));
}

DECODE_TEMPLATE vec v_load_kv(pkv_dtype dtype, const char *p)
{
    const __m128i half = dtype == PKV_F32 ? _mm_setzero_si128() : _mm_loadu_si128((const void *)p);
    if (dtype == PKV_F32) return _mm256_loadu_ps((const void *)p);
    if (dtype == PKV_F16) return _mm256_cvtph_ps(half);
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(half), 16));
}

/* bf16 by hand: nearest even is an integer addition below the cut; NaN must not carry over. */
DECODE_TEMPLATE __m128i to_bf16(vec x)
{
    const __m256i u = _mm256_castps_si256(x);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
    const __m256i up = _mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
    const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x00400000));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
    const __m256i code = _mm256_srli_epi32(_mm256_blendv_epi8(up, quiet, nan), 16);
    return _mm_packus_epi32(_mm256_castsi256_si128(code), _mm256_extracti128_si256(code, 1));
}

DECODE_TEMPLATE void v_store_out(pkv_dtype dtype, char *p, vec x)
{
    if (dtype == PKV_F32) {
        _mm256_storeu_ps((void *)p, x);
        return;
    }
    _mm_storeu_si128((void *)p,
                     dtype == PKV_F16 ? _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT) : to_bf16(x));
}

DECODE_TEMPLATE vec v_rotate_max(vec x, int n_heads)
{
    if (n_heads <= 4) x = v_max(x, _mm256_permute2f128_ps(x, x, 0x01));
    if (n_heads <= 2) x = v_max(x, _mm256_permute_ps(x, 0x4e));
    if (n_heads <= 1) x = v_max(x, _mm256_permute_ps(x, 0xb1));
    return x;
}

/* Three halvings; each takes two vectors and adds the half of one that stays in place (a blend) to
 * the half that has to move (one shuffle): half the shuffles of a transposition. */
DECODE_TEMPLATE vec halve_256(vec a, vec b) /* 128-bit halves: [a, b] */
{
    return v_add(_mm256_blend_ps(a, b, 0xf0), _mm256_permute2f128_ps(a, b, 0x21));
}

DECODE_TEMPLATE vec halve_128(vec a, vec b) /* in each half: [a, a, b, b] */
{
    return v_add(_mm256_blend_ps(a, b, 0xcc), _mm256_shuffle_ps(a, b, 0x4e));
}

DECODE_TEMPLATE vec v_reduce(const vec *acc)
{
    vec x[4], y[2];
    DECODE_UNROLL for (int i = 0; i < 4; i++) x[i] = halve_256(acc[i], acc[i + 4]);
    DECODE_UNROLL for (int i = 0; i < 2; i++) y[i] = halve_128(x[2 * i], x[2 * i + 1]);
    return v_add(_mm256_shuffle_ps(y[0], y[1], 0x88), _mm256_shuffle_ps(y[0], y[1], 0xdd));
}

#include "kernels/x86/x86_decode.inc"

void pkv__init_avx2(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_AVX2);
}
