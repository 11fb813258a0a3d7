/* Float formats of 16 and 8 bits, by their definitions: for the emulated tensor core, whose numbers
 * should not come from the code that kernels convert with, and for an interpreter's cvt. The tests
 * compare every code with the toolkit's host functions. */
#ifndef SIMT_FORMATS_H
#define SIMT_FORMATS_H

#include <cmath>
#include <cstdint>
#include <cstring>

namespace simt
{

inline float float_of_bits(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* sign, n_exp bits of exponent, n_man of mantissa, IEEE 754's way: the largest exponent means
 * infinity or NaN. NaNs keep their sign and payload. Exact for all formats within float's range. */
inline float float_of_ieee(uint32_t code, int n_exp, int n_man)
{
    const uint32_t sign = code >> (n_exp + n_man) & 1, man = code & ((1u << n_man) - 1);
    const uint32_t exp = code >> n_man & ((1u << n_exp) - 1), max_exp = (1u << n_exp) - 1;
    const int bias = (1 << (n_exp - 1)) - 1;
    if (exp == max_exp) return float_of_bits(sign << 31 | 0x7f800000u | man << (23 - n_man));
    const float magnitude = exp == 0
                                ? std::ldexp((float)man, 1 - bias - n_man)
                                : std::ldexp((float)(man | 1u << n_man), (int)exp - bias - n_man);
    return sign ? -magnitude : magnitude;
}

inline float float_of_f16(uint16_t code)
{
    return float_of_ieee(code, 5, 10);
}
inline float float_of_bf16(uint16_t code)
{
    return float_of_bits((uint32_t)code << 16);
}
inline float float_of_e5m2(uint8_t code)
{
    return float_of_ieee(code, 5, 2);
}

/* No infinities; the one NaN of each sign is 0x7f. */
inline float float_of_e4m3(uint8_t code)
{
    if ((code & 0x7f) == 0x7f) return float_of_bits((uint32_t)(code & 0x80) << 24 | 0x7fc00000u);
    const float magnitude = code & 0x78 ? std::ldexp((float)((code & 7) + 8), (code >> 3 & 15) - 10)
                                        : std::ldexp((float)(code & 7), -9);
    return code & 0x80 ? -magnitude : magnitude;
}

} // namespace simt

#endif
