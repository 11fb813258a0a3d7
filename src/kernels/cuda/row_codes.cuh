/* Rows between memory and float, eight elements at a time, in registers: the arithmetic of kv_write
 * and kv_gather, bit by bit what the CPU's scalar level does (common/number_format.h, fp8_format.h,
 * int_format.h, scalar/scalar_rows.c), NaN included. Machine conversions lose sign and payload of a
 * NaN, so those pass in integers.
 *
 *   words of eight elements, the first in the low bits:  f16, bf16 [4]   8-bit codes [2]   U4 [1]
 */
#ifndef PKV_ROW_CODES_CUH
#define PKV_ROW_CODES_CUH

#include "kernels/cuda/pkv_dev.cuh"
#include "pagedkv/base.h"

enum { PKV__CHUNK = 8 }; /* elements of a row that a thread has at a time */

PKV_DEV bool pkv__is_nan(float x)
{
    return !(x == x);
}
PKV_DEV bool pkv__any_nan(const float (&x)[PKV__CHUNK])
{
    bool nan = false;
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) nan = nan || pkv__is_nan(x[i]);
    return nan;
}

/* ---------------------------------------------------------------- f16 and bf16 */
PKV_DEV uint32_t pkv__half_of(const uint32_t *words, int32_t i)
{
    return words[i / 2] >> (i % 2 * 16) & 0xffffu;
}

PKV_DEV void pkv__unpack_f16(const uint32_t (&words)[4], float (&x)[PKV__CHUNK])
{
    PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        const float2 pair = pkv_unpack2<__half>(words[i]);
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
    }
    if (!pkv__any_nan(x)) return;
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        const uint32_t code = pkv__half_of(words, i);
        if (pkv__is_nan(x[i]))
            x[i] = pkv_float_of_bits((code & 0x8000u) << 16 | (code & 0x7fffu) << 13 | 0x7fc00000u);
    }
}
PKV_DEV void pkv__unpack_bf16(const uint32_t (&words)[4], float (&x)[PKV__CHUNK])
{
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) x[i] = pkv_float_of_bits(pkv__half_of(words, i) << 16);
}

PKV_DEV uint32_t pkv__nan_as_f16(float x)
{
    const uint32_t u = pkv_float_bits(x);
    return (u >> 16 & 0x8000u) | 0x7e00u | (u >> 13 & 0x1ffu);
}
PKV_DEV uint32_t pkv__nan_as_bf16(float x)
{
    return pkv_float_bits(x) >> 16 | 0x40u;
}

template <class T, class Nan>
PKV_DEV void pkv__pack_halves(const float (&x)[PKV__CHUNK], uint32_t (&words)[4], Nan as_nan)
{
    PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) words[i] = pkv_pack2<T>(x[2 * i], x[2 * i + 1]);
    if (!pkv__any_nan(x)) return;
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        const int32_t shift = i % 2 * 16;
        if (pkv__is_nan(x[i]))
            words[i / 2] = (words[i / 2] & ~(0xffffu << shift)) | as_nan(x[i]) << shift;
    }
}
PKV_DEV void pkv__pack_f16(const float (&x)[PKV__CHUNK], uint32_t (&words)[4])
{
    pkv__pack_halves<__half>(x, words, [](float nan) { return pkv__nan_as_f16(nan); });
}
PKV_DEV void pkv__pack_bf16(const float (&x)[PKV__CHUNK], uint32_t (&words)[4])
{
    pkv__pack_halves<__nv_bfloat16>(x, words, [](float nan) { return pkv__nan_as_bf16(nan); });
}

/* ---------------------------------------------------------------- one number to a code
 * y is x / s, for U4 x / s + z. */

/* A float format of `man` mantissa bits: codes from 2^least_exp on are normal, `top` is the code
 * of the largest finite value, `nan` that of NaN. Below, adding a number whose last place is that
 * of the smallest code rounds as the format does. */
template <int32_t man, int32_t least_exp, uint32_t top, uint32_t nan>
PKV_DEV uint32_t pkv__small_float(float y)
{
    constexpr uint32_t drop = 23 - man, rebias = (uint32_t)(126 + least_exp);
    constexpr uint32_t least = (uint32_t)(127 + least_exp) << 23;
    constexpr uint32_t largest = (top << drop) + (rebias << 23);
    constexpr uint32_t adder = (uint32_t)(127 + least_exp - man + 23) << 23;
    const uint32_t u = pkv_float_bits(y), sign = u >> 24 & 0x80u;
    const uint32_t all = u & 0x7fffffffu, mag = all < largest ? all : largest;
    const uint32_t normal =
        (mag - (rebias << 23) + ((1u << (drop - 1)) - 1) + (mag >> drop & 1u)) >> drop;
    const uint32_t small =
        pkv_float_bits(pkv_add_rn(pkv_float_of_bits(mag), pkv_float_of_bits(adder))) - adder;
    const uint32_t code = mag < least ? small : normal;
    return sign | (all > 0x7f800000u ? nan : code);
}
PKV_DEV uint32_t pkv__code_e4m3(float y)
{
    return pkv__small_float<3, -6, 0x7e, 0x7f>(y);
}
PKV_DEV uint32_t pkv__code_e5m2(float y)
{
    return pkv__small_float<2, -14, 0x7b, 0x7e>(y);
}

/* To nearest even within [lo, hi], NaN to 0: 1.5 * 2^23 leaves no bits for a fraction, and its own
 * low byte is 0. */
PKV_DEV uint32_t pkv__code_int(float y, float lo, float hi)
{
    const float at = y < lo ? lo : y > hi ? hi : y;
    const uint32_t code = pkv_float_bits(pkv_add_rn(at, 12582912.f)) & 0xffu;
    return pkv__is_nan(y) ? 0u : code;
}

/* ---------------------------------------------------------------- eight numbers to codes */

/* What codes are made of: x / s, a NaN as it is. */
PKV_DEV void pkv__divide(float (&x)[PKV__CHUNK], float s)
{
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        const float y = pkv_div_rn(x[i], s);
        x[i] = pkv__is_nan(x[i]) ? x[i] : y;
    }
}
/* Of U4 also this. */
PKV_DEV void pkv__add_zero(float (&y)[PKV__CHUNK], float z)
{
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) y[i] = pkv_add_rn(y[i], z);
}

/* A NaN of which U4 and I8 have no code becomes 0. */
template <pkv_dtype T>
PKV_DEV void pkv__encode(const float (&y)[PKV__CHUNK], uint32_t (&words)[T == PKV_U4 ? 1 : 2])
{
    constexpr int32_t bits = T == PKV_U4 ? 4 : 8, n = 32 / bits;
    PKV_UNROLL
    for (int32_t w = 0; w < PKV__CHUNK / n; w++) words[w] = 0;
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        uint32_t code;
        if (T == PKV_E4M3) code = pkv__code_e4m3(y[i]);
        else if (T == PKV_E5M2) code = pkv__code_e5m2(y[i]);
        else if (T == PKV_I8) code = pkv__code_int(y[i], -127.f, 127.f);
        else code = pkv__code_int(y[i], 0.f, 15.f);
        words[i / n] |= code << (i % n * bits);
    }
}

/* Smallest and largest finite value, folded into lo and hi. */
PKV_DEV void pkv__extremes(const float (&x)[PKV__CHUNK], float &lo, float &hi)
{
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        if (!(fabsf(x[i]) <= 0x1.fffffep127f)) continue;
        lo = fminf(lo, x[i]);
        hi = fmaxf(hi, x[i]);
    }
}

struct pkv__scale_zero {
    float scale, zero;
};

/* Of values between the extremes; lo > hi: there is no finite value, these are 0. Adding 0 makes
 * zeros positive, so that no order of comparisons shows. */
PKV_DEV pkv__scale_zero pkv__choose_scale(pkv_dtype dtype, float lo, float hi)
{
    constexpr float least = 0x1p-126f;
    const bool none = lo > hi;
    lo = none ? 0.f : pkv_add_rn(lo, 0.f);
    hi = none ? 0.f : pkv_add_rn(hi, 0.f);
    if (dtype == PKV_U4) {
        const float top = pkv_div_rn(hi, 15.f), bottom = pkv_div_rn(lo, 15.f);
        const float scale = top == bottom ? 1.f : fmaxf(pkv_add_rn(top, -bottom), least);
        return { scale, pkv_div_rn(-lo, scale) };
    }
    const float amax = fmaxf(-lo, hi);
    const float scale = fmaxf(pkv_div_rn(amax, dtype == PKV_I8 ? 127.f : 448.f), least);
    return { amax == 0.f ? 1.f : scale, 0.f };
}

/* ---------------------------------------------------------------- codes to eight numbers */

/* Shifted into place the exponent is 120 too small, for normal and subnormal codes alike. */
PKV_DEV float pkv__value_e4m3(uint32_t code)
{
    const float mag = pkv_mul_rn(pkv_float_of_bits((code & 0x7fu) << 20), 0x1p120f);
    const uint32_t bits = (code & 0x80u) << 24 | pkv_float_bits(mag);
    return pkv_float_of_bits((code & 0x7fu) == 0x7fu ? 0x7fc00000u : bits);
}

template <pkv_dtype T>
PKV_DEV void pkv__values(const uint32_t (&words)[T == PKV_U4 ? 1 : 2], float (&x)[PKV__CHUNK])
{
    if constexpr (T == PKV_E5M2) { /* the upper half of an f16 */
        uint32_t halves[4];
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            const uint32_t two = words[i / 2] >> (i % 2 * 16) & 0xffffu;
            halves[i] = (two & 0xffu) << 8 | (two & 0xff00u) << 16;
        }
        pkv__unpack_f16(halves, x);
    } else {
        PKV_UNROLL
        for (int32_t i = 0; i < PKV__CHUNK; i++) {
            if (T == PKV_U4) {
                x[i] = (float)(words[0] >> (i * 4) & 0xfu);
                continue;
            }
            const uint32_t code = words[i / 4 % (sizeof(words) / 4)] >> (i % 4 * 8) & 0xffu;
            x[i] = T == PKV_E4M3 ? pkv__value_e4m3(code) : (float)(int8_t)code;
        }
    }
}

/* scale * (code - zero) in place; a NaN code stays as it is. */
PKV_DEV void pkv__scale_values(float (&x)[PKV__CHUNK], float s, float z)
{
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        const float y = pkv_mul_rn(s, pkv_add_rn(x[i], -z));
        x[i] = pkv__is_nan(x[i]) ? x[i] : y;
    }
}

#endif
