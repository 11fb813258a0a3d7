/* Rows of K and V of every stored type as vectors of floats, avx2 level; included after avx2_vec.h.
 * avx512_formats.h says what each function does, and what was measured. With 8 lanes FMA weighs
 * twice as much, and what the loads cost shows less: even and odd codes apart take 0.92 of the time
 * of codes in order for e4m3, 0.83 for e5m2. */
#ifndef PKV_AVX2_FORMATS_H
#define PKV_AVX2_FORMATS_H

#include "kernels/x86/avx2_vec.h"

#include <string.h>

PKV_TEMPLATE float codes_unit(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 ? 256.f : 1.f;
}

PKV_TEMPLATE bool codes_split(pkv_dtype dtype)
{
    return dtype == PKV_BF16 || dtype == PKV_U4 || dtype == PKV_E4M3 || dtype == PKV_E5M2;
}

/* e4m3 in the upper byte of words, anything below: f16 with an exponent 8 too small. */
PKV_TEMPLATE __m128i v_e4m3_f16(__m128i high)
{
    return _mm_and_si128(_mm_srai_epi16(high, 1), _mm_set1_epi16((short)0xbf80));
}

PKV_TEMPLATE vec v_codes_part(pkv_dtype dtype, const void *p, int n)
{
    if (dtype <= PKV_BF16) return v_load_row_part(dtype, p, n);
    if (dtype == PKV_U4) {
        int32_t packed;
        memcpy(&packed, p, sizeof packed);
        const __m256i shift = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
        const __m256i code = _mm256_srlv_epi32(_mm256_set1_epi32(packed), shift);
        return _mm256_cvtepi32_ps(_mm256_and_si256(code, _mm256_set1_epi32(15)));
    }
    const __m128i code = _mm_loadl_epi64((const __m128i *)p);
    if (dtype == PKV_I8) return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(code));
    const __m128i high = _mm_unpacklo_epi8(_mm_setzero_si128(), code);
    return _mm256_cvtph_ps(dtype == PKV_E5M2 ? high : v_e4m3_f16(high));
}

PKV_TEMPLATE void v_codes_pair(pkv_dtype dtype, const void *p, vec *x)
{
    if (dtype == PKV_U4) {
        const __m256i both = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
        x[0] = _mm256_cvtepi32_ps(_mm256_and_si256(both, _mm256_set1_epi32(15)));
        x[1] = _mm256_cvtepi32_ps(_mm256_srli_epi32(both, 4));
    } else if (dtype == PKV_BF16) {
        const __m256i both = _mm256_loadu_si256((const __m256i *)p);
        x[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
        x[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xffff0000)));
    } else if (dtype == PKV_E4M3 || dtype == PKV_E5M2) {
        const __m128i odd = _mm_loadu_si128((const __m128i *)p), even = _mm_slli_epi16(odd, 8);
        const __m128i high = _mm_set1_epi16((short)0xff00);
        x[0] = _mm256_cvtph_ps(dtype == PKV_E4M3 ? v_e4m3_f16(even) : even);
        x[1] = _mm256_cvtph_ps(dtype == PKV_E4M3 ? v_e4m3_f16(odd) : _mm_and_si128(odd, high));
    } else {
        const int bytes = dtype == PKV_F32 ? 4 : dtype == PKV_F16 ? 2 : 1;
        x[0] = v_codes_part(dtype, p, LANES);
        x[1] = v_codes_part(dtype, (const char *)p + LANES * bytes, LANES);
    }
}

PKV_TEMPLATE vec v_load_codes_part(pkv_dtype dtype, const void *p, int n)
{
    const vec x = v_codes_part(dtype, p, n);
    if (dtype != PKV_E4M3) return x;
    const vec magnitude = _mm256_andnot_ps(v_set1(-0.f), x);
    const vec nan = _mm256_cmp_ps(magnitude, v_set1(480.f / 256.f), _CMP_EQ_OQ);
    return _mm256_blendv_ps(v_mul(x, v_set1(256.f)), v_set1(NAN), nan);
}

PKV_TEMPLATE vec v_load_codes(pkv_dtype dtype, const void *p)
{
    return v_load_codes_part(dtype, p, LANES);
}

PKV_TEMPLATE __m256i v_nan_codes(__m256i most, __m256i code)
{
    return _mm256_max_epu8(most, _mm256_or_si256(_mm256_set1_epi8((char)0x80), code));
}

PKV_TEMPLATE bool has_nan_code(const void *p, int32_t n)
{
    const char *code = (const char *)p;
    __m256i most[4];
    int32_t i = 0;
    PKV_UNROLL for (int r = 0; r < 4; r++) most[r] = _mm256_setzero_si256();
    for (; i + 128 <= n; i += 128)
        PKV_UNROLL for (int r = 0; r < 4; r++) most[r] =
            v_nan_codes(most[r], _mm256_loadu_si256((const __m256i *)(code + i + 32 * r)));
    for (; i + 32 <= n; i += 32)
        most[0] = v_nan_codes(most[0], _mm256_loadu_si256((const __m256i *)(code + i)));
    for (; i < n; i += 8)
        most[1] = v_nan_codes(most[1],
                              _mm256_zextsi128_si256(_mm_loadl_epi64((const __m128i *)(code + i))));
    const __m256i all =
        _mm256_max_epu8(_mm256_max_epu8(most[0], most[1]), _mm256_max_epu8(most[2], most[3]));
    return _mm256_movemask_epi8(_mm256_cmpeq_epi8(all, _mm256_set1_epi8((char)0xff))) != 0;
}

#endif
