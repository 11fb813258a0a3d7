/* The nearest 8- or 4-bit code. */
#include "oracle/oracle_formats.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

bool oracle_is_code(pkv_dtype dtype)
{
    return dtype >= PKV_E4M3;
}

unsigned oracle_code_at(pkv_dtype dtype, const void *row, int64_t idx)
{
    const uint8_t *bytes = row;
    if (dtype != PKV_U4) return bytes[idx];
    return idx % 2 ? bytes[idx / 2] >> 4 : bytes[idx / 2] & 15u;
}

void oracle_put_code(pkv_dtype dtype, void *row, int64_t idx, unsigned code)
{
    uint8_t *bytes = row;
    if (dtype != PKV_U4) bytes[idx] = (uint8_t)code;
    else if (idx % 2) bytes[idx / 2] = (uint8_t)((bytes[idx / 2] & 15u) | code << 4);
    else bytes[idx / 2] = (uint8_t)((bytes[idx / 2] & 0xf0u) | code);
}

/* Codes of the positive half rise with their values: the last finite one. */
static unsigned last_code(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 ? 0x7e : dtype == PKV_E5M2 ? 0x7b : dtype == PKV_I8 ? 127 : 15;
}

static double value_of(pkv_dtype dtype, unsigned code)
{
    return oracle_value8(dtype, (uint8_t)code);
}

double oracle_code_largest(pkv_dtype dtype)
{
    return value_of(dtype, last_code(dtype));
}

/* x >= 0: between two neighbours the nearer one, in the middle the even one. */
static unsigned nearest(pkv_dtype dtype, double x)
{
    unsigned lo = 0, hi = last_code(dtype);
    if (x >= value_of(dtype, hi)) return hi;
    while (hi - lo > 1) {
        const unsigned mid = (lo + hi) / 2;
        if (value_of(dtype, mid) <= x) lo = mid;
        else hi = mid;
    }
    const double below = x - value_of(dtype, lo), above = value_of(dtype, hi) - x;
    if (below == above) return lo % 2 ? hi : lo;
    return below < above ? lo : hi;
}

unsigned oracle_code_of(pkv_dtype dtype, double x)
{
    const bool negative = signbit(x);
    if (isnan(x)) {
        if (dtype == PKV_I8 || dtype == PKV_U4) return 0;
        return (dtype == PKV_E4M3 ? 0x7fu : 0x7eu) | (negative ? 0x80u : 0u);
    }
    if (dtype == PKV_U4) return negative ? 0 : nearest(dtype, x);
    const unsigned code = nearest(dtype, fabs(x));
    if (dtype == PKV_I8) return negative ? (256 - code) & 255u : code;
    return code | (negative ? 0x80u : 0u);
}
