/* Rows of K and V of every stored type as vectors of floats, avx512 level; included after
 * avx512_vec.h. avx2_formats.h offers the same.
 *
 *   v_load_codes(dtype, p), v_load_codes_part(dtype, p, n)
 *                             codes as floats, n = LANES or 8; lanes behind them are 0
 *   v_codes_part(dtype, p, n) the same in units of codes_unit, without the NaN of e4m3
 *   v_codes_pair(dtype, p, x) 2 LANES codes, likewise: those of even index to x[0], of odd to x[1]
 *                             for the types of codes_split, else in order
 *   codes_unit(dtype)         256 for e4m3, else 1
 *   has_nan_code(p, n)        whether a NaN of e4m3 is among n codes, n a multiple of 8
 *
 * The dtype is a constant. No byte is read but those of the codes asked for. The NaN codes of e4m3
 * come out as 480 where they are not looked for: asking has_nan_code once per row is cheaper.
 *
 * Cycles per 16 codes when 4 query heads share them, dot and p * V from L1, Zen 5, gcc 12; 2.0 is
 * the limit of two FMA a cycle, and f16 takes 2.36, bf16 as pair 2.15. Operations besides the four
 * FMA in brackets. "By dword": nibble or byte i of every dword to vector i, a whole line at once.
 *   int8  sign extension, convert: 2.35 (2). By dword, into the mantissas of 2^23 and 2^15 by one
 *         ternary operation, less that: 2.36 (2.25). Unpacked with zeros, times 2^24: 2.29 (2.5),
 *         not worth a unit of 2^24
 *   u4    bytes to dwords, mask or shift, convert, even and odd apart: 2.37 (2.5). With vpermps of
 *         16 floats: 2.44 (2). By dword, shift, vpermps: 2.39 (1.9); magic numbers: 2.46 (2.1).
 *         In order: 2.58 (3)
 *   e5m2  to the upper byte of f16, even and odd apart: 2.42 (2.5). From whole lines, halves
 *         extracted: 2.50. In order: 2.75 (3)
 *   e4m3  to f16 with an exponent 8 too small, even and odd apart: 2.76 (3.5). From whole lines:
 *         2.91. In order: 3.08 (4). To f32 with an exponent 120 too small: 2.45 (3), but small
 *         codes are subnormal there, for which other processors take 150 cycles; brought to scale
 *         by a product: 4.4. 256 floats by gather: 17.7 */
#ifndef PKV_AVX512_FORMATS_H
#define PKV_AVX512_FORMATS_H

#include "kernels/x86/avx512_vec.h"

PKV_TEMPLATE float codes_unit(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 ? 256.f : 1.f;
}

PKV_TEMPLATE bool codes_split(pkv_dtype dtype)
{
    return dtype == PKV_BF16 || dtype == PKV_U4 || dtype == PKV_E4M3 || dtype == PKV_E5M2;
}

/* 16 bytes, or 8 with zeros behind. */
PKV_TEMPLATE __m128i v_bytes(const void *p, int n)
{
    return n == 16 ? _mm_loadu_si128((const __m128i *)p) : _mm_loadl_epi64((const __m128i *)p);
}

/* e4m3 in the upper byte of words, anything below: f16 with an exponent 8 too small. */
PKV_TEMPLATE __m256i v_e4m3_f16(__m256i high)
{
    return _mm256_and_si256(_mm256_srai_epi16(high, 1), _mm256_set1_epi16((short)0xbf80));
}

PKV_TEMPLATE vec v_u4_part(const void *p, int n)
{
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512i shift =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m128i packed = n == LANES ? _mm_loadl_epi64((const __m128i *)p) : _mm_loadu_si32(p);
    const __m512i code =
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(spread, _mm512_zextsi128_si512(packed)), shift);
    return _mm512_cvtepi32_ps(_mm512_and_si512(code, _mm512_set1_epi32(15)));
}

PKV_TEMPLATE vec v_codes_part(pkv_dtype dtype, const void *p, int n)
{
    if (dtype <= PKV_BF16) return v_load_row_part(dtype, p, n);
    if (dtype == PKV_U4) return v_u4_part(p, n);
    const __m128i code = v_bytes(p, n);
    if (dtype == PKV_I8) return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(code));
    const __m256i high = _mm256_slli_epi16(_mm256_cvtepu8_epi16(code), 8);
    return _mm512_cvtph_ps(dtype == PKV_E5M2 ? high : v_e4m3_f16(high));
}

PKV_TEMPLATE void v_codes_pair(pkv_dtype dtype, const void *p, vec *x)
{
    if (dtype == PKV_U4) {
        const __m512i both = _mm512_cvtepu8_epi32(v_bytes(p, 16));
        x[0] = _mm512_cvtepi32_ps(_mm512_and_si512(both, _mm512_set1_epi32(15)));
        x[1] = _mm512_cvtepi32_ps(_mm512_srli_epi32(both, 4));
    } else if (dtype == PKV_BF16) {
        const __m512i both = _mm512_loadu_si512(p);
        x[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
        x[1] = _mm512_castsi512_ps(_mm512_and_si512(both, _mm512_set1_epi32((int)0xffff0000)));
    } else if (dtype == PKV_E4M3 || dtype == PKV_E5M2) {
        const __m256i odd = _mm256_loadu_si256((const __m256i *)p),
                      even = _mm256_slli_epi16(odd, 8);
        const __m256i high = _mm256_set1_epi16((short)0xff00);
        x[0] = _mm512_cvtph_ps(dtype == PKV_E4M3 ? v_e4m3_f16(even) : even);
        x[1] = _mm512_cvtph_ps(dtype == PKV_E4M3 ? v_e4m3_f16(odd) : _mm256_and_si256(odd, high));
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
    const __m512i magnitude =
        _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(INT32_MAX));
    const __mmask16 nan =
        _mm512_cmpeq_epi32_mask(magnitude, _mm512_castps_si512(v_set1(480.f / 256.f)));
    return _mm512_mask_mov_ps(v_mul(x, v_set1(256.f)), nan, v_set1(NAN));
}

PKV_TEMPLATE vec v_load_codes(pkv_dtype dtype, const void *p)
{
    return v_load_codes_part(dtype, p, LANES);
}

PKV_TEMPLATE __m512i v_nan_codes(__m512i most, __m512i code)
{
    return _mm512_max_epu8(most, _mm512_or_si512(_mm512_set1_epi8((char)0x80), code));
}

/* Four maxima, as each operation waits for the one before. */
PKV_TEMPLATE bool has_nan_code(const void *p, int32_t n)
{
    const char *code = (const char *)p;
    __m512i most[4];
    int32_t i = 0;
    PKV_UNROLL for (int r = 0; r < 4; r++) most[r] = _mm512_setzero_si512();
    for (; i + 256 <= n; i += 256)
        PKV_UNROLL for (int r = 0; r < 4; r++) most[r] =
            v_nan_codes(most[r], _mm512_loadu_si512(code + i + 64 * r));
    for (; i + 64 <= n; i += 64) most[0] = v_nan_codes(most[0], _mm512_loadu_si512(code + i));
    for (; i < n; i += 8)
        most[1] = v_nan_codes(most[1], _mm512_zextsi128_si512(v_bytes(code + i, 8)));
    const __m512i all =
        _mm512_max_epu8(_mm512_max_epu8(most[0], most[1]), _mm512_max_epu8(most[2], most[3]));
    return _mm512_cmpeq_epi8_mask(all, _mm512_set1_epi8((char)0xff)) != 0;
}

#endif
