/* Conversions of f16 and bf16 by their bit fields. */
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

float number_get(const void *array, pkv_dtype dtype, int64_t i)
{
    switch (dtype) {
    case PKV_F16:
        return half_to_float(((const uint16_t *)array)[i]);
    case PKV_BF16:
        return bfloat_to_float(((const uint16_t *)array)[i]);
    default:
        return ((const float *)array)[i];
    }
}

void number_put(void *array, pkv_dtype dtype, int64_t i, float value)
{
    switch (dtype) {
    case PKV_F16:
        ((uint16_t *)array)[i] = half_from_float(value);
        break;
    case PKV_BF16:
        ((uint16_t *)array)[i] = bfloat_from_float(value);
        break;
    default:
        ((float *)array)[i] = value;
        break;
    }
}
