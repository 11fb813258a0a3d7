/* Decode attention of the avx512 level (AVX-512 F, BW, DQ, VL): the vectors of x86_decode.inc,
 * which has the picture of the data flow.
 *
 * What was tried. AMD Zen 5 (family 26), gcc 12, one thread, 768 MiB of f16 KV, 32 query and 8 kv
 * heads, dim 128, blocks of 16 in random order; thread CPU time, runs alternating by sequence on a
 * machine shared with others, so only the ratios count. Read loop 37 .. 41 GB/s; from L2 the same
 * code reaches 42 .. 47 GB/s, two thirds of the FMA peak, so arithmetic and memory weigh the same.
 *   panels of 32 keys, 48 rows ahead, first line of the next panel's blocks fetched early:
 *     0.79 of the paged time that chunks of 128 with V one half-chunk ahead took
 *   those chunks keep 32 KiB and more in flight, which push each other out of L1
 *   chunks of 128 and 128, 64, 48, 32, 16 rows ahead: 0.93, 0.90, 0.92, 0.92, 1.1 of that time
 *   the same with the early first line: 64 ahead 0.87; two or more early lines are no better
 *   32 rows ahead for f32 loses what 48 gain; 16 are too late for any type
 *   hint T1 or T2 instead of T0: 1.06 .. 1.10; NTA equal to T0
 *   prefetching rows strictly in address order: no gain with 4 heads
 *   one head per tile, rows read 16 side by side: 1.1 times the time of 2 side by side
 * Order of reading. A head through all blocks, then the next head, makes every 8 KiB a jump: with
 * 32 query and 32 kv heads (blocks of 16 and 32) paged took 1.30 of the contiguous time, in
 * sequence or at random. All heads of a block before the next block: 1.00 .. 1.02; with 8 kv heads
 * no change beyond noise. Blocks of 64 gain little (1.27 to 1.19 with 32 kv heads): not understood.
 * Touching a line of every page, or fetching all of the next panel's first head, ahead: no gain.
 * Paged / contiguous in pkv-bench's quick cases: blocks of 16 at random 0.95 .. 1.07; a loop that
 * only loads the same pieces in the same order needs as long as contiguous decode does. */
#include "kernels/x86/x86_decode.h"

#include <immintrin.h>

enum { LANES = 16, PV_ACCUMULATORS = 16, ROWS_ONE_HEAD = 2 };
typedef __m512 vec;

#define PREFETCH(p) _mm_prefetch((p), _MM_HINT_T0)

DECODE_TEMPLATE vec v_set1(float x)
{
    return _mm512_set1_ps(x);
}
DECODE_TEMPLATE vec v_load(const float *p)
{
    return _mm512_loadu_ps(p);
}
DECODE_TEMPLATE void v_store(float *p, vec x)
{
    _mm512_storeu_ps(p, x);
}
DECODE_TEMPLATE vec v_add(vec a, vec b)
{
    return _mm512_add_ps(a, b);
}
DECODE_TEMPLATE vec v_sub(vec a, vec b)
{
    return _mm512_sub_ps(a, b);
}
DECODE_TEMPLATE vec v_mul(vec a, vec b)
{
    return _mm512_mul_ps(a, b);
}
DECODE_TEMPLATE vec v_div(vec a, vec b)
{
    return _mm512_div_ps(a, b);
}
DECODE_TEMPLATE vec v_max(vec a, vec b)
{
    return _mm512_max_ps(a, b);
}
DECODE_TEMPLATE vec v_fma(vec a, vec b, vec c)
{
    return _mm512_fmadd_ps(a, b, c);
}
DECODE_TEMPLATE bool v_differ(vec a, vec b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_OQ) != 0;
}

DECODE_TEMPLATE vec v_keep_first(vec x, int32_t n)
{
    return _mm512_mask_mov_ps(_mm512_set1_ps(-INFINITY), (__mmask16)((1u << n) - 1u), x);
}

DECODE_TEMPLATE vec v_copysign(vec mag, vec sign)
{
    const __m512 bit = _mm512_set1_ps(-0.f);
    return _mm512_or_ps(_mm512_andnot_ps(bit, mag), _mm512_and_ps(bit, sign));
}

/* 2^x = 2^n * p(x - n). The polynomial is the minimax one of degree 5 with p(0) = 1, so that 2^0 is
 * exactly 1; 1.8e-7 relative with its rounding. Below 2^-150 everything is 0; NaN stays NaN, since
 * the maximum takes its second operand then. */
DECODE_TEMPLATE vec v_exp2(vec x)
{
    x = v_max(v_set1(-160.f), x);
    const vec n = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    const vec f = v_sub(x, n);
    vec p = v_set1(0.00133137999f);
    p = v_fma(p, f, v_set1(0.0096728811f));
    p = v_fma(p, f, v_set1(0.0555057004f));
    p = v_fma(p, f, v_set1(0.240222156f));
    p = v_fma(p, f, v_set1(0.693147063f));
    p = v_fma(p, f, v_set1(1.f));
    return _mm512_scalef_ps(p, n);
}

DECODE_TEMPLATE vec v_load_kv(pkv_dtype dtype, const char *p)
{
    const __m256i half =
        dtype == PKV_F32 ? _mm256_setzero_si256() : _mm256_loadu_si256((const void *)p);
    if (dtype == PKV_F32) return _mm512_loadu_ps((const void *)p);
    if (dtype == PKV_F16) return _mm512_cvtph_ps(half);
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 16));
}

/* bf16 by hand: nearest even is an integer addition below the cut; NaN must not carry over. */
DECODE_TEMPLATE __m256i to_bf16(vec x)
{
    const __m512i u = _mm512_castps_si512(x);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
    const __m512i up = _mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    const __m512i quiet = _mm512_or_si512(u, _mm512_set1_epi32(0x00400000));
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    return _mm512_cvtepi32_epi16(_mm512_srli_epi32(_mm512_mask_mov_epi32(up, nan, quiet), 16));
}

DECODE_TEMPLATE void v_store_out(pkv_dtype dtype, char *p, vec x)
{
    if (dtype == PKV_F32) {
        _mm512_storeu_ps((void *)p, x);
        return;
    }
    _mm256_storeu_si256((void *)p, dtype == PKV_F16 ? _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT)
                                                    : to_bf16(x));
}

DECODE_TEMPLATE vec v_rotate_max(vec x, int n_heads)
{
    x = v_max(x, _mm512_shuffle_f32x4(x, x, 0x4e));
    if (n_heads <= 4) x = v_max(x, _mm512_shuffle_f32x4(x, x, 0xb1));
    if (n_heads <= 2) x = v_max(x, _mm512_permute_ps(x, 0x4e));
    if (n_heads <= 1) x = v_max(x, _mm512_permute_ps(x, 0xb1));
    return x;
}

/* Four halvings; each takes two vectors and adds the half of one that stays in place (a blend) to
 * the half that has to move (one shuffle): half the shuffles of a transposition. */
DECODE_TEMPLATE vec halve_512(vec a, vec b) /* 256-bit halves: [a, b] */
{
    return v_add(_mm512_mask_blend_ps(0xff00, a, b), _mm512_shuffle_f32x4(a, b, 0x4e));
}

DECODE_TEMPLATE vec halve_256(vec a, vec b) /* 128-bit quarters: [a, b, a, b] */
{
    const __m512i cross = _mm512_setr_epi64(2, 3, 8, 9, 6, 7, 12, 13);
    return v_add(
        _mm512_mask_blend_ps(0xf0f0, a, b),
        _mm512_castpd_ps(_mm512_permutex2var_pd(_mm512_castps_pd(a), cross, _mm512_castps_pd(b))));
}

DECODE_TEMPLATE vec halve_128(vec a, vec b) /* in each quarter: [a, a, b, b] */
{
    return v_add(_mm512_mask_blend_ps(0xcccc, a, b), _mm512_shuffle_ps(a, b, 0x4e));
}

DECODE_TEMPLATE vec v_reduce(const vec *acc)
{
    vec x[8], y[4], z[2];
    DECODE_UNROLL for (int i = 0; i < 8; i++) x[i] = halve_512(acc[i], acc[i + 8]);
    DECODE_UNROLL for (int i = 0; i < 4; i++) y[i] = halve_256(x[i], x[i + 4]);
    DECODE_UNROLL for (int i = 0; i < 2; i++) z[i] = halve_128(y[2 * i], y[2 * i + 1]);
    return v_add(_mm512_shuffle_ps(z[0], z[1], 0x88), _mm512_shuffle_ps(z[0], z[1], 0xdd));
}

#include "kernels/x86/x86_decode.inc"

void pkv__init_avx512(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_AVX512);
}
