/* The integer formats: 8-bit codes -128 .. 127, and 4-bit codes 0 .. 15, two in a byte.
 *
 *   byte i of a 4-bit row   | code 2 i + 1 | code 2 i |     high nibble, low nibble */
#ifndef PKV_INT_FORMAT_H
#define PKV_INT_FORMAT_H

#include <stdint.h>

static inline uint8_t pkv__u4_code(const uint8_t *row, int32_t d)
{
    return row[d / 2] >> (d % 2 * 4) & 0xf;
}

static inline uint8_t pkv__u4_pair(uint8_t even, uint8_t odd)
{
    return (uint8_t)(even | odd << 4);
}

/* To nearest even within [lo, hi], |lo|, |hi| <= 2^22; not for NaN. Adding 1.5 * 2^23 leaves no
 * bits for a fraction, so that the addition itself rounds. */
static inline int32_t pkv__round_code(float x, float lo, float hi)
{
    const float at = x < lo ? lo : x > hi ? hi : x;
    return (int32_t)((at + 12582912.f) - 12582912.f);
}

#endif
