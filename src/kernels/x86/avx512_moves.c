/* Moves of the avx512 level. */
#include "kernels/x86/avx512_formats.h"
#include "kernels/x86/x86_levels.h"

#define MOVES_ISA PKV_ISA_AVX512

PKV_TEMPLATE vec v_finite_or(vec x, vec other)
{
    const __mmask16 finite = _mm512_cmp_ps_mask(_mm512_abs_ps(x), v_set1(INFINITY), _CMP_LT_OQ);
    return _mm512_mask_mov_ps(other, finite, x);
}

/* Half a line at a time: rows come from 32-byte stores of 16-bit elements, which a load of 64 bytes
 * would have to wait for. The processor puts the halves of a line together. */
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
PKV_TEMPLATE __m512i v_small_float(vec mag, int man, int bias)
{
    const int drop = 23 - man, rebias = 127 - bias;
    const __m512i u = _mm512_castps_si512(mag);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(u, drop), _mm512_set1_epi32(1));
    const __m512i down = _mm512_set1_epi32((1 << (drop - 1)) - 1 - rebias * (1 << 23));
    const __m512i normal =
        _mm512_srli_epi32(_mm512_add_epi32(_mm512_add_epi32(u, down), odd), drop);
    const __m512i last_place = _mm512_set1_epi32((1 + rebias + drop) << 23);
    const __m512i subnormal = _mm512_castps_si512(v_add(mag, _mm512_castsi512_ps(last_place)));
    const __mmask16 is_small = _mm512_cmplt_epi32_mask(u, _mm512_set1_epi32((rebias + 1) << 23));
    return _mm512_mask_sub_epi32(normal, is_small, subnormal, last_place);
}

PKV_TEMPLATE __m512i v_fp8(vec y, int man, int bias, float largest, int nan_code)
{
    const __m512i sign =
        _mm512_and_si512(_mm512_srli_epi32(_mm512_castps_si512(y), 24), _mm512_set1_epi32(0x80));
    const __mmask16 nan = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);
    const __m512i code = v_small_float(v_min(_mm512_abs_ps(y), v_set1(largest)), man, bias);
    return _mm512_or_si512(_mm512_mask_mov_epi32(code, nan, _mm512_set1_epi32(nan_code)), sign);
}

PKV_TEMPLATE bool v_store_codes(pkv_dtype dtype, void *p, vec y, int n)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(y, y, _CMP_UNORD_Q);
    __m512i code;
    if (dtype == PKV_E4M3) {
        code = v_fp8(y, 3, 7, 448.f, 0x7f);
    } else if (dtype == PKV_E5M2) {
        code = v_fp8(y, 2, 15, 57344.f, 0x7e);
    } else {
        const float lo = dtype == PKV_I8 ? -127.f : 0.f, hi = dtype == PKV_I8 ? 127.f : 15.f;
        code = _mm512_maskz_cvtps_epi32((__mmask16)~nan, v_max(v_min(y, v_set1(hi)), v_set1(lo)));
    }
    const __m128i bytes = _mm512_cvtepi32_epi8(code);
    if (dtype == PKV_U4) {
        const __m128i pairs = _mm_maddubs_epi16(bytes, _mm_set1_epi16(0x1001));
        const __m128i packed = _mm_packus_epi16(pairs, pairs);
        if (n == LANES) _mm_storel_epi64((__m128i *)p, packed);
        else _mm_storeu_si32(p, packed);
    } else if (n == LANES) {
        _mm_storeu_si128((__m128i *)p, bytes);
    } else {
        _mm_storel_epi64((__m128i *)p, bytes);
    }
    return dtype >= PKV_I8 && (n == LANES ? nan : nan & 0xff) != 0;
}

#include "kernels/vector/moves.inc"

void pkv__avx512_register_moves(struct pkv__cpu_kernels *k)
{
    register_moves(k);
}
