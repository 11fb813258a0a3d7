/* The 8-bit float formats (OCP 8-bit floating point specification, 2023), in integer arithmetic.
 *
 *   e4m3  1 sign, 4 exponent (bias 7), 3 mantissa bits    no infinity, 0x7f NaN, largest 448
 *   e5m2  1 sign, 5 exponent (bias 15), 2 mantissa bits   the upper half of a binary16
 *
 * To float is exact for every code; the sign of the NaN of e4m3 is dropped. From float rounds to
 * nearest, ties to even, and saturates at the largest finite value, infinities too; NaN becomes
 * 0x7f or 0x7e with its sign. */
#ifndef PKV_FP8_FORMAT_H
#define PKV_FP8_FORMAT_H

#include "common/number_format.h"

static inline float pkv__e4m3_to_f32(uint8_t code)
{
    const uint32_t sign = (uint32_t)(code & 0x80u) << 24, rest = code & 0x7fu;
    if (rest == 0x7fu) return pkv__f32_from_bits(0x7fc00000u);
    if (rest < 8u) /* subnormal: multiples of 2^-9, exact */
        return pkv__f32_from_bits(sign | pkv__f32_bits((float)rest * 0x1p-9f));
    return pkv__f32_from_bits(sign | ((rest << 20) + (120u << 23)));
}

static inline float pkv__e5m2_to_f32(uint8_t code)
{
    return pkv__f16_to_f32((uint16_t)(code << 8));
}

/* The magnitude `mag` (float32 bits, no NaN) as a code of `man` mantissa bits and `bias`; one that
 * is too large comes out above the largest code. */
static inline uint32_t pkv__f32_to_small(uint32_t mag, uint32_t man, uint32_t bias)
{
    const uint32_t drop = 23u - man, rebias = 127u - bias; /* exponents differ by `rebias` */
    if (mag >= (rebias + 1u) << 23) { /* normal: a carry of the rounding moves the exponent */
        const uint32_t odd = mag >> drop & 1u, below_half = (1u << (drop - 1u)) - 1u;
        return (mag - (rebias << 23) + below_half + odd) >> drop;
    }
    if (mag <= (rebias - man) << 23) return 0; /* half of the smallest code: to even, zero */
    const uint32_t shift = drop + rebias + 1u - (mag >> 23); /* mantissa to units of that code */
    const uint32_t full = (mag & 0x007fffffu) | 0x00800000u;
    const uint32_t kept = full >> shift, lost = full & ((1u << shift) - 1u);
    const uint32_t half = 1u << (shift - 1u);
    return kept + (lost > half || (lost == half && (kept & 1u)));
}

static inline uint8_t pkv__f32_to_e4m3(float x)
{
    const uint32_t u = pkv__f32_bits(x), sign = u >> 24 & 0x80u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) return (uint8_t)(sign | 0x7fu);
    const uint32_t code = pkv__f32_to_small(mag, 3, 7);
    return (uint8_t)(sign | (code < 0x7eu ? code : 0x7eu));
}

static inline uint8_t pkv__f32_to_e5m2(float x)
{
    const uint32_t u = pkv__f32_bits(x), sign = u >> 24 & 0x80u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) return (uint8_t)(sign | 0x7eu);
    const uint32_t code = pkv__f32_to_small(mag, 2, 15);
    return (uint8_t)(sign | (code < 0x7bu ? code : 0x7bu));
}

#endif
