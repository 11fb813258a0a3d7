/* Number formats by their definition. */
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <string.h>

struct fields {
    int exp_bits, man_bits;
};

static struct fields fields_of(pkv_dtype dtype)
{
    if (dtype == PKV_F16) return (struct fields){ 5, 10 };
    if (dtype == PKV_BF16) return (struct fields){ 8, 7 };
    if (dtype == PKV_E4M3) return (struct fields){ 4, 3 };
    if (dtype == PKV_E5M2) return (struct fields){ 5, 2 };
    return (struct fields){ 8, 23 };
}

static int bias_of(struct fields f)
{
    return (1 << (f.exp_bits - 1)) - 1;
}

int32_t oracle_bytes(pkv_dtype dtype)
{
    return dtype == PKV_F32 ? 4 : 2;
}

int64_t oracle_span(pkv_dtype dtype, int64_t n)
{
    if (dtype == PKV_U4) return (n + 1) / 2;
    return dtype >= PKV_E4M3 ? n : n * oracle_bytes(dtype);
}

double oracle_unit_roundoff(pkv_dtype dtype)
{
    return ldexp(1, -1 - fields_of(dtype).man_bits);
}

double oracle_smallest(pkv_dtype dtype)
{
    const struct fields f = fields_of(dtype);
    return ldexp(1, 1 - bias_of(f) - f.man_bits);
}

double oracle_largest(pkv_dtype dtype)
{
    const struct fields f = fields_of(dtype);
    return ldexp(2 - ldexp(1, -f.man_bits), bias_of(f));
}

double oracle_value16(pkv_dtype dtype, uint16_t code)
{
    const struct fields f = fields_of(dtype);
    const int top = (1 << f.exp_bits) - 1, one = 1 << f.man_bits;
    const int e = code >> f.man_bits & top, m = code & (one - 1);
    const double sign = code & 0x8000 ? -1 : 1;
    if (e == top) return m ? (double)NAN : sign * (double)INFINITY;
    if (e == 0) return sign * ldexp(m, 1 - bias_of(f) - f.man_bits);
    return sign * ldexp(m + one, e - bias_of(f) - f.man_bits);
}

/* The bits below the sign. */
static int magnitude(struct fields f, double x)
{
    int e = 0;
    frexp(x, &e); /* abs(x) in [2^(e-1), 2^e) */
    const int lowest = 1 - bias_of(f);
    const int unit = (isinf(x) || x == 0 || e - 1 < lowest ? lowest : e - 1) - f.man_bits;
    const double steps = isinf(x) ? (double)INFINITY : nearbyint(ldexp(fabs(x), -unit));
    if (steps * ldexp(1, unit) > ldexp(2 - ldexp(1, -f.man_bits), bias_of(f)))
        return ((1 << f.exp_bits) - 1) << f.man_bits;
    /* A code's distance from zero counts units; each doubling of the unit adds one exponent. */
    return ((unit + f.man_bits - lowest) << f.man_bits) + (int)steps;
}

uint16_t oracle_code16(pkv_dtype dtype, double x)
{
    const struct fields f = fields_of(dtype);
    const int top = (1 << f.exp_bits) - 1, one = 1 << f.man_bits;
    const int sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x)) return (uint16_t)(sign | top << f.man_bits | one >> 1);
    return (uint16_t)(sign | magnitude(f, x));
}

double oracle_value8(pkv_dtype dtype, uint8_t code)
{
    const struct fields f = fields_of(dtype);
    const int e = code >> f.man_bits & ((1 << f.exp_bits) - 1), m = code & ((1 << f.man_bits) - 1);
    const double sign = code & 0x80 ? -1 : 1;
    if (dtype == PKV_I8) return (double)(int8_t)code;
    if (dtype == PKV_U4) return (double)(code & 15);
    if (dtype == PKV_E4M3 && (code & 0x7f) == 0x7f) return (double)NAN;
    if (dtype == PKV_E5M2 && e == 31) return m ? (double)NAN : sign * (double)INFINITY;
    if (e == 0) return sign * ldexp(m, 1 - bias_of(f) - f.man_bits);
    return sign * ldexp(m + (1 << f.man_bits), e - bias_of(f) - f.man_bits);
}

uint8_t oracle_code8(pkv_dtype dtype, double x)
{
    const int sign = signbit(x) ? 0x80 : 0;
    if (dtype == PKV_I8) return (uint8_t)(int8_t)x;
    if (dtype == PKV_U4) return (uint8_t)x & 15;
    if (isnan(x)) return (uint8_t)(sign | (dtype == PKV_E4M3 ? 0x7f : 0x7e));
    const struct fields f = fields_of(dtype);
    if (dtype == PKV_E4M3 && fabs(x) >= 256) /* where others have infinity: 8 .. 14 times 32 */
        return (uint8_t)(sign | 0x78 | ((int)(fabs(x) / 32) - 8));
    return (uint8_t)(sign | magnitude(f, x));
}

static double load8(pkv_dtype dtype, const void *data, int64_t idx)
{
    if (dtype != PKV_U4) return oracle_value8(dtype, ((const uint8_t *)data)[idx]);
    return (double)(((const uint8_t *)data)[idx / 2] >> 4 * (idx % 2) & 15);
}

static void store8(pkv_dtype dtype, void *data, int64_t idx, double x)
{
    uint8_t *to = (uint8_t *)data + (dtype == PKV_U4 ? idx / 2 : idx);
    const uint8_t code = oracle_code8(dtype, x);
    const int shift = 4 * (int)(idx % 2);
    if (dtype == PKV_U4) *to = (uint8_t)((*to & (0xf0 >> shift)) | code << shift);
    else *to = code;
}

double oracle_load(pkv_dtype dtype, const void *data, int64_t idx)
{
    if (dtype >= PKV_E4M3) return load8(dtype, data, idx);
    if (dtype == PKV_F32) {
        float x;
        memcpy(&x, (const char *)data + idx * 4, sizeof(x));
        return (double)x;
    }
    uint16_t code;
    memcpy(&code, (const char *)data + idx * 2, sizeof(code));
    return oracle_value16(dtype, code);
}

void oracle_store(pkv_dtype dtype, void *data, int64_t idx, double x)
{
    if (dtype >= PKV_E4M3) {
        store8(dtype, data, idx, x);
        return;
    }
    if (dtype == PKV_F32) {
        const float f = (float)x;
        memcpy((char *)data + idx * 4, &f, sizeof(f));
        return;
    }
    const uint16_t code = oracle_code16(dtype, x);
    memcpy((char *)data + idx * 2, &code, sizeof(code));
}

double oracle_round(pkv_dtype dtype, double x)
{
    return dtype == PKV_F32 ? (double)(float)x : oracle_value16(dtype, oracle_code16(dtype, x));
}
