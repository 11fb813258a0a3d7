/* The 16-bit float formats, in plain integer arithmetic.
 *
 *   f16   1 sign, 5 exponent (bias 15), 10 mantissa bits    IEEE 754 binary16
 *   bf16  1 sign, 8 exponent (bias 127), 7 mantissa bits    the upper half of a binary32
 *
 * To float is exact for every code. From float rounds to nearest, ties to even; values beyond the
 * range become infinite, NaN stays NaN (quiet, upper payload bits kept). No rounding mode and no
 * conversion instruction is involved, so all levels and machines agree. */
#ifndef PKV_NUMBER_FORMAT_H
#define PKV_NUMBER_FORMAT_H

#include "pagedkv/base.h"

#include <string.h>

static inline uint32_t pkv__f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static inline float pkv__f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

static inline float pkv__f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, rest = (uint32_t)(h & 0x7fffu) << 13;
    /* Shifted into place the exponent is 112 too small. Normal codes get 112 added; for subnormal
     * ones the subtraction of 2^-14, exact, takes the implicit one away again. */
    const uint32_t normal = rest + (112u << 23);
    const uint32_t subnormal =
        pkv__f32_bits(pkv__f32_from_bits(rest + (113u << 23)) - pkv__f32_from_bits(113u << 23));
    const uint32_t special = rest | 0x7f800000u | (rest > 0x0f800000u ? 0x00400000u : 0u);
    const uint32_t body = rest < 0x00800000u ? subnormal : rest < 0x0f800000u ? normal : special;
    return pkv__f32_from_bits(sign | body);
}

static inline uint16_t pkv__f32_to_f16(float x)
{
    const uint32_t u = pkv__f32_bits(x), sign = u >> 16 & 0x8000u, mag = u & 0x7fffffffu;
    if (mag > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (mag >> 13 & 0x1ffu));
    if (mag >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* from 65520 on: infinite */
    if (mag >= 0x38800000u) { /* normal: drop 13 bits, nearest even; a carry moves the exponent */
        const uint32_t odd = mag >> 13 & 1u;
        return (uint16_t)(sign | ((mag - (112u << 23) + 0xfffu + odd) >> 13));
    }
    if (mag <= 0x33000000u) return (uint16_t)sign; /* 2^-25 and less: zero */
    const uint32_t shift = 126u - (mag >> 23);     /* 14 .. 24: mantissa to units of 2^-24 */
    const uint32_t full = (mag & 0x007fffffu) | 0x00800000u;
    const uint32_t kept = full >> shift, lost = full & ((1u << shift) - 1u);
    const uint32_t half = 1u << (shift - 1u);
    return (uint16_t)(sign | (kept + (lost > half || (lost == half && (kept & 1u)))));
}

static inline float pkv__bf16_to_f32(uint16_t h)
{
    return pkv__f32_from_bits((uint32_t)h << 16);
}

static inline uint16_t pkv__f32_to_bf16(float x)
{
    const uint32_t u = pkv__f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x0040u);
    return (uint16_t)((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
}

/* Bytes of one element of a type that rows of q and out can have: f32, f16, bf16. */
static inline int32_t pkv__elem_bytes(pkv_dtype dtype)
{
    return dtype == PKV_F32 ? 4 : 2;
}

/* Bits of one element of any type: 4 .. 32. A row of n of them has n * bits / 8 bytes. */
static inline int32_t pkv__elem_bits(pkv_dtype dtype)
{
    return dtype == PKV_F32 ? 32 : dtype <= PKV_BF16 ? 16 : dtype == PKV_U4 ? 4 : 8;
}

/* Byte offset of element `n` of a view; `n` is a sum of strides, even for 4-bit codes. */
static inline int64_t pkv__elem_offset(pkv_dtype dtype, int64_t n)
{
    return dtype == PKV_U4 ? n / 2 : n * (pkv__elem_bits(dtype) / 8);
}

/* `n` consecutive elements to float. `src` is aligned to the element. */
static inline void pkv__load_floats(float *dst, const void *src, pkv_dtype dtype, int32_t n)
{
    if (dtype == PKV_F32) {
        memcpy(dst, src, (size_t)n * sizeof(float));
    } else if (dtype == PKV_F16) {
        const uint16_t *h = (const uint16_t *)src;
        for (int32_t d = 0; d < n; d++) dst[d] = pkv__f16_to_f32(h[d]);
    } else {
        const uint16_t *h = (const uint16_t *)src;
        for (int32_t d = 0; d < n; d++) dst[d] = pkv__bf16_to_f32(h[d]);
    }
}

/* The reverse, each rounded once. */
static inline void pkv__store_floats(void *dst, pkv_dtype dtype, const float *src, int32_t n)
{
    if (dtype == PKV_F32) {
        memcpy(dst, src, (size_t)n * sizeof(float));
    } else if (dtype == PKV_F16) {
        uint16_t *h = (uint16_t *)dst;
        for (int32_t d = 0; d < n; d++) h[d] = pkv__f32_to_f16(src[d]);
    } else {
        uint16_t *h = (uint16_t *)dst;
        for (int32_t d = 0; d < n; d++) h[d] = pkv__f32_to_bf16(src[d]);
    }
}

#endif
