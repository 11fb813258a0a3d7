/* Moves of the avx2 level. */
#include "kernels/x86/avx2_formats.h"
#include "kernels/x86/x86_levels.h"

#define MOVES_ISA PKV_ISA_AVX2

PKV_TEMPLATE vec v_abs(vec x)
{
    return _mm256_andnot_ps(v_set1(-0.f), x);
}

PKV_TEMPLATE vec v_finite_or(vec x, vec other)
{
    const vec finite = _mm256_cmp_ps(v_abs(x), v_set1(INFINITY), _CMP_LT_OQ);
    return _mm256_blendv_ps(other, x, finite);
}

enum { STREAM_PART = 32 };
PKV_TEMPLATE void stream_part(char *to, const char *from)
{
    const __m256i x = _mm256_loadu_si256((const __m256i *)from);
    _mm256_stream_si256((__m256i *)to, x);
}
PKV_TEMPLATE void v_stream_end(void)
{
    _mm_sfence();
}

/* Magnitudes up to the largest code, as codes of `man` mantissa bits and `bias`, nearest even. A
 * normal number drops bits of its mantissa; a subnormal one is rounded by adding a number whose
 * last place is the smallest code. */
PKV_TEMPLATE __m256i v_small_float(vec mag, int man, int bias)
{
    const int drop = 23 - man, rebias = 127 - bias;
    const __m256i u = _mm256_castps_si256(mag);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(u, drop), _mm256_set1_epi32(1));
    const __m256i down = _mm256_set1_epi32((1 << (drop - 1)) - 1 - rebias * (1 << 23));
    const __m256i normal =
        _mm256_srli_epi32(_mm256_add_epi32(_mm256_add_epi32(u, down), odd), drop);
    const __m256i last_place = _mm256_set1_epi32((1 + rebias + drop) << 23);
    const __m256i sum = _mm256_castps_si256(v_add(mag, _mm256_castsi256_ps(last_place)));
    const __m256i subnormal = _mm256_sub_epi32(sum, last_place);
    const __m256i is_small = _mm256_cmpgt_epi32(_mm256_set1_epi32((rebias + 1) << 23), u);
    return _mm256_blendv_epi8(normal, subnormal, is_small);
}

PKV_TEMPLATE __m256i v_fp8(vec y, int man, int bias, float largest, int nan_code)
{
    const __m256i sign =
        _mm256_and_si256(_mm256_srli_epi32(_mm256_castps_si256(y), 24), _mm256_set1_epi32(0x80));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(y, y, _CMP_UNORD_Q));
    const __m256i code = v_small_float(v_min(v_abs(y), v_set1(largest)), man, bias);
    return _mm256_or_si256(_mm256_blendv_epi8(code, _mm256_set1_epi32(nan_code), nan), sign);
}

PKV_TEMPLATE bool v_store_codes(pkv_dtype dtype, void *p, vec y, int n)
{
    const vec nan = _mm256_cmp_ps(y, y, _CMP_UNORD_Q);
    __m256i code;
    (void)n;
    if (dtype == PKV_E4M3) {
        code = v_fp8(y, 3, 7, 448.f, 0x7f);
    } else if (dtype == PKV_E5M2) {
        code = v_fp8(y, 2, 15, 57344.f, 0x7e);
    } else {
        const float lo = dtype == PKV_I8 ? -127.f : 0.f, hi = dtype == PKV_I8 ? 127.f : 15.f;
        const vec in = v_max(v_min(y, v_set1(hi)), v_set1(lo));
        code = _mm256_cvtps_epi32(_mm256_andnot_ps(nan, in));
    }
    /* Lowest bytes of the dwords: 4 of each half. */
    const __m256i order =
        _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
    const __m256i low = _mm256_shuffle_epi8(code, order);
    const __m128i bytes =
        _mm_unpacklo_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1));
    if (dtype == PKV_U4) {
        const __m128i pairs = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x1001));
        _mm_storeu_si32(p, _mm_packus_epi16(pairs, pairs));
    } else {
        _mm_storel_epi64((__m128i *)p, bytes);
    }
    return dtype >= PKV_I8 && _mm256_movemask_ps(nan) != 0;
}

#include "kernels/vector/moves.inc"

void pkv__avx2_register_moves(struct pkv__cpu_kernels *k)
{
    register_moves(k);
}
