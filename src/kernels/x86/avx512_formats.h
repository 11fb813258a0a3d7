/* Rows of K and V of every stored type as vectors of floats, avx512 level; included after
 * avx512_vec.h. avx2_formats.h offers the same.
 *
 *   codes_unit(dtype)            what codes come as: value / codes_unit. 256 for e4m3, else 1
 *   v_codes_part(dtype, p, n)    n codes from p, n = LANES or 8; lanes behind them are 0
 *   v_load_codes_part, v_load_codes(dtype, p)
 *                                the same as values, with the NaN of e4m3
 *   line_codes(dtype)            codes in 64 bytes of a row, a line
 *   v_line(dtype, p, i)          vector i < line_codes / LANES of the line at p, in line order
 *   line_element(dtype, at)      the code of the line that stands at place at = i * LANES + lane
 *   has_nan_code(p, n)           whether a NaN of e4m3 is among n codes
 *
 * The dtype is a constant. No byte is read but those of the codes asked for. v_codes_part and
 * v_line take the NaN codes of e4m3 for 480: where sums are made of many rows, asking has_nan_code
 * once for each is cheaper.
 *
 * Line order is the order in which codes come out of a register with the fewest operations, so that
 * whoever brings the other factor into it once saves them for every row:
 *
 *   u4        dword d, nibble i   ->  vector i, lane d            (8 vectors from one load)
 *   e4m3 e5m2 word w, byte i      ->  vector i, lane w            (2 vectors from half a line)
 *
 * Cycles per 16 codes when 4 query heads share them, dot and p * V from L1, Zen 5, gcc 12 (2.0 is
 * the limit of two FMA a cycle; f16 2.36, f32 2.12; operations besides the 4 FMA in brackets):
 *   int8  sign extension, convert: 2.35 (2) natural order. Bytes put into the mantissa of 2^23 and
 *         2^15 by one ternary operation, less that: 2.36 (2.25). Unpacked with zeros, times 2^24:
 *         2.29 (2.5), not worth a unit of 2^-24
 *   u4    shift, 16 floats by vpermps: 2.40 (1.9) line order, 2.58 (3) natural. By masks and
 *         magic numbers: 2.46 (2.1). Mask, convert, powers of two left in: 2.37 (2)
 *   e5m2  to the upper byte of f16: 2.42 (2.5) line order, 2.50 from a whole line with its halves
 *         extracted, 2.75 (3) natural
 *   e4m3  to f16 with the exponent 8 too small: 2.76 (3.5) line order, 2.91 halves extracted, 3.08
 *         (4) natural. To f32 with the exponent 120 too small: 2.45 (3), but small codes are
 *         subnormal there, which other processors take 150 cycles for; and brought to scale by a
 *         product: 4.4. 256 floats by gather: 17.7 */
#ifndef PKV_AVX512_FORMATS_H
#define PKV_AVX512_FORMATS_H

#include "kernels/x86/avx512_vec.h"

PKV_TEMPLATE float codes_unit(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 ? 256.f : 1.f;
}

PKV_TEMPLATE int line_codes(pkv_dtype dtype)
{
    return dtype == PKV_F32 ? 16 : dtype <= PKV_BF16 ? 32 : dtype == PKV_U4 ? 128 : 64;
}

PKV_TEMPLATE int line_element(pkv_dtype dtype, int at)
{
    const int i = at / LANES, lane = at % LANES;
    if (dtype == PKV_U4) return lane * 8 + i;
    if (dtype == PKV_E4M3 || dtype == PKV_E5M2) return i / 2 * 32 + lane * 2 + i % 2;
    return at;
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

/* Codes in the low four bits of dwords, anything above. */
PKV_TEMPLATE vec v_u4_floats(__m512i code)
{
    const vec value = _mm512_setr_ps(0.f, 1.f, 2.f, 3.f, 4.f, 5.f, 6.f, 7.f, 8.f, 9.f, 10.f, 11.f,
                                     12.f, 13.f, 14.f, 15.f);
    return _mm512_permutexvar_ps(code, value);
}

/* Nibble i of each dword to its low end; spelt out, since the count is part of the instruction. */
PKV_TEMPLATE __m512i v_nibble(__m512i x, int i)
{
    return i == 0   ? x
           : i == 1 ? _mm512_srli_epi32(x, 4)
           : i == 2 ? _mm512_srli_epi32(x, 8)
           : i == 3 ? _mm512_srli_epi32(x, 12)
           : i == 4 ? _mm512_srli_epi32(x, 16)
           : i == 5 ? _mm512_srli_epi32(x, 20)
           : i == 6 ? _mm512_srli_epi32(x, 24)
                    : _mm512_srli_epi32(x, 28);
}

PKV_TEMPLATE vec v_u4_part(const void *p, int n)
{
    const __m512i spread = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    const __m512i shift =
        _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 0, 4, 8, 12, 16, 20, 24, 28);
    const __m128i packed = n == LANES ? _mm_loadl_epi64((const __m128i *)p) : _mm_loadu_si32(p);
    return v_u4_floats(
        _mm512_srlv_epi32(_mm512_permutexvar_epi32(spread, _mm512_zextsi128_si512(packed)), shift));
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

PKV_TEMPLATE vec v_line(pkv_dtype dtype, const void *p, int i)
{
    const char *at = (const char *)p;
    if (dtype == PKV_U4) return v_u4_floats(v_nibble(_mm512_loadu_si512(p), i));
    if (dtype == PKV_E4M3 || dtype == PKV_E5M2) {
        const __m256i two = _mm256_loadu_si256((const __m256i *)(at + i / 2 * 32));
        const __m256i high = i % 2 == 0 ? _mm256_slli_epi16(two, 8) : two;
        if (dtype == PKV_E4M3) return _mm512_cvtph_ps(v_e4m3_f16(high));
        return _mm512_cvtph_ps(_mm256_and_si256(high, _mm256_set1_epi16((short)0xff00)));
    }
    return v_codes_part(dtype, at + i * LANES * 64 / line_codes(dtype), LANES);
}

/* n a multiple of 8. */
PKV_TEMPLATE bool has_nan_code(const void *p, int32_t n)
{
    const char *code = (const char *)p;
    const __m512i sign = _mm512_set1_epi8((char)0x80);
    __m512i most = _mm512_setzero_si512();
    int32_t i = 0;
    for (; i + 64 <= n; i += 64)
        most = _mm512_max_epu8(most, _mm512_or_si512(sign, _mm512_loadu_si512(code + i)));
    for (; i < n; i += 8)
        most = _mm512_max_epu8(most, _mm512_zextsi128_si512(_mm_or_si128(
                                         _mm512_castsi512_si128(sign), v_bytes(code + i, 8))));
    return _mm512_cmpeq_epi8_mask(most, _mm512_set1_epi8((char)0xff)) != 0;
}

#endif
