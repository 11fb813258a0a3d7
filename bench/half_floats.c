/* Conversions by bit fields. */
#include "half_floats.h"

#include <math.h>
#include <string.h>

float half_to_float(uint16_t bits)
{
    const int exponent = (bits >> 10) & 31, mantissa = bits & 1023;
    float value;
    if (exponent == 31) value = mantissa ? NAN : INFINITY;
    else if (exponent == 0) value = ldexpf((float)mantissa, -24);
    else value = ldexpf((float)(mantissa + 1024), exponent - 25);
    return bits & 0x8000 ? -value : value;
}

float bfloat_to_float(uint16_t bits)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    memcpy(&value, &wide, sizeof(value));
    return value;
}

uint16_t half_from_float(float value)
{
    const uint16_t sign = signbit(value) ? 0x8000 : 0;
    const float size = fabsf(value);
    if (isnan(value)) return (uint16_t)(sign | 0x7e00);
    if (size >= 65520.f) return (uint16_t)(sign | 0x7c00); /* rounds to infinity */
    if (size < 0x1p-14f) return (uint16_t)(sign | (int)nearbyintf(ldexpf(size, 24)));
    int exponent;
    const float mantissa = frexpf(size, &exponent);           /* [0.5, 1) */
    const int scaled = (int)nearbyintf(ldexpf(mantissa, 11)); /* 1024 .. 2048 */
    /* A mantissa that rounds up to 2048 carries into the exponent by itself. */
    return (uint16_t)(sign | (((exponent + 14) << 10) + scaled - 1024));
}

uint16_t bfloat_from_float(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof(bits));
    if (isnan(value)) return (uint16_t)((bits >> 16) | 0x40);
    bits += 0x7fff + ((bits >> 16) & 1);
    return (uint16_t)(bits >> 16);
}

/* Eight bits: sign, exponent, `n_mantissa` bits. Infinity and NaN are the callers' business. */
static float small_to_float(uint8_t code, int n_mantissa, int bias)
{
    const int exponent = (code & 0x7f) >> n_mantissa, one = 1 << n_mantissa;
    const int mantissa = code & (one - 1);
    const float value = exponent ? ldexpf((float)(one + mantissa), exponent - bias - n_mantissa)
                                 : ldexpf((float)mantissa, 1 - bias - n_mantissa);
    return code & 0x80 ? -value : value;
}

static uint8_t small_from_float(float value, int n_mantissa, int bias)
{
    const uint8_t sign = signbit(value) ? 0x80 : 0;
    int exponent;
    if (value == 0) return sign;
    frexpf(value, &exponent); /* |value| in [2^(exponent - 1), 2^exponent) */
    exponent = exponent - 1 + bias < 1 ? 1 : exponent - 1 + bias;
    const int steps = (int)nearbyintf(ldexpf(fabsf(value), bias + n_mantissa - exponent));
    /* Below the first normal number steps < 2^n_mantissa, and the exponent field is 0. */
    return (uint8_t)(sign + ((exponent - 1) << n_mantissa) + steps);
}

float e4m3_to_float(uint8_t code)
{
    return (code & 0x7f) == 0x7f ? NAN : small_to_float(code, 3, 7);
}

float e5m2_to_float(uint8_t code)
{
    if ((code & 0x7f) > 0x7c) return NAN;
    if ((code & 0x7f) == 0x7c) return code & 0x80 ? -INFINITY : INFINITY;
    return small_to_float(code, 2, 15);
}

uint8_t e4m3_from_float(float value)
{
    return small_from_float(value, 3, 7);
}

uint8_t e5m2_from_float(float value)
{
    return small_from_float(value, 2, 15);
}

float number_get(const void *array, pkv_dtype dtype, int64_t i)
{
    const uint8_t *bytes = array;
    switch (dtype) {
    case PKV_F16:
        return half_to_float(((const uint16_t *)array)[i]);
    case PKV_BF16:
        return bfloat_to_float(((const uint16_t *)array)[i]);
    case PKV_E4M3:
        return e4m3_to_float(bytes[i]);
    case PKV_E5M2:
        return e5m2_to_float(bytes[i]);
    case PKV_I8:
        return ((const int8_t *)array)[i];
    case PKV_U4:
        return (float)(i & 1 ? bytes[i / 2] >> 4 : bytes[i / 2] & 15);
    case PKV_F32:
        break;
    }
    return ((const float *)array)[i];
}

static float rounded(float value, float lo, float hi)
{
    return fminf(fmaxf(nearbyintf(value), lo), hi);
}

static void put_nibble(uint8_t *bytes, int64_t i, unsigned code)
{
    const unsigned byte = bytes[i / 2];
    bytes[i / 2] = (uint8_t)(i & 1 ? (byte & 15) | code << 4 : (byte & 0xf0) | code);
}

void number_put(void *array, pkv_dtype dtype, int64_t i, float value)
{
    uint8_t *bytes = array;
    switch (dtype) {
    case PKV_F16:
        ((uint16_t *)array)[i] = half_from_float(value);
        break;
    case PKV_BF16:
        ((uint16_t *)array)[i] = bfloat_from_float(value);
        break;
    case PKV_E4M3:
        bytes[i] = e4m3_from_float(value);
        break;
    case PKV_E5M2:
        bytes[i] = e5m2_from_float(value);
        break;
    case PKV_I8:
        ((int8_t *)array)[i] = (int8_t)rounded(value, -128, 127);
        break;
    case PKV_U4:
        put_nibble(bytes, i, (unsigned)rounded(value, 0, 15));
        break;
    case PKV_F32:
        ((float *)array)[i] = value;
        break;
    }
}
