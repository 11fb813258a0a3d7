/* Functions and draws that give the same bits everywhere. */
#include "common/detmath.h"

#include "common/common.h"

#include <math.h>
#include <string.h>

/* ln 2 in two parts; the first has 21 trailing zero bits, so k * LN2_HI is exact for |k| < 2^20. */
#define LN2_HI 0x1.62e42fee00000p-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define SQRT_HALF 0x1.6a09e667f3bcdp-1

static uint64_t bits_of(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof(u));
    return u;
}

static double double_of(uint64_t u)
{
    double x;
    memcpy(&x, &u, sizeof(x));
    return x;
}

double pkv__det_log(double x)
{
    PKV_ASSERT(x >= 0x1p-1022 && x <= 0x1.fffffffffffffp+1023);
    /* x = 2^k * m with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s) with s = (m-1)/(m+1). */
    const uint64_t u = bits_of(x);
    int k = (int)(u >> 52) - 1022;
    double m = double_of((u & 0x000fffffffffffffULL) | 0x3fe0000000000000ULL);
    if (m < SQRT_HALF) {
        m *= 2;
        k--;
    }
    const double f = m - 1;
    const double s = f / (2 + f);
    const double s2 = s * s; /* <= 0.0295: the term s2^11 / 23 is below 2^-60 */
    double sum = 0;
    for (int j = 21; j >= 3; j -= 2) sum = sum * s2 + 1.0 / j;
    /* ln m = 2s + 2s^3 * sum, written around the exact f: 2s = f - s * f. */
    const double tail = s * (2 * s2 * sum - f);
    return k * LN2_HI + (f + (tail + k * LN2_LO));
}

double pkv__det_exp(double x)
{
    PKV_ASSERT(x >= -700 && x <= 700);
    const double t = x * 0x1.71547652b82fep+0; /* 1 / ln 2 */
    const int k = (int)(t < 0 ? t - 0.5 : t + 0.5);
    const double hi = x - k * LN2_HI;
    const double r = hi - k * LN2_LO; /* |r| <= 0.3466: r^15 / 15! is below 2^-62 */
    double sum = 0;
    for (int j = 14; j >= 2; j--) sum = (sum + 1) * r / j;
    const double value = 1 + (r + r * sum);
    return value * double_of((uint64_t)(k + 1023) << 52);
}

double pkv__draw_normal(pkv__rng *rng)
{
    /* Marsaglia's polar method. The second value is thrown away: a draw then depends on nothing
     * but the position in the stream. */
    double u, v, q;
    do {
        u = 2 * pkv__rng_unit(rng) - 1;
        v = 2 * pkv__rng_unit(rng) - 1;
        q = u * u + v * v;
    } while (q >= 1 || q < 0x1p-500);
    return u * sqrt(-2 * pkv__det_log(q) / q);
}

double pkv__draw_exponential(pkv__rng *rng)
{
    return -pkv__det_log(pkv__rng_unit(rng));
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), shape >= 1. */
static double gamma_from_one(pkv__rng *rng, double shape)
{
    const double d = shape - 1.0 / 3;
    const double c = 1 / sqrt(9 * d);
    for (;;) {
        const double x = pkv__draw_normal(rng);
        const double w = 1 + c * x;
        const double u = pkv__rng_unit(rng);
        if (w <= 0) continue;
        const double v = w * w * w;
        if (pkv__det_log(u) < 0.5 * x * x + d - d * v + d * pkv__det_log(v)) return d * v;
    }
}

double pkv__draw_gamma(pkv__rng *rng, double shape)
{
    PKV_ASSERT(shape >= 1.0 / 64);
    if (shape >= 1) return gamma_from_one(rng, shape);
    const double power = pkv__det_log(pkv__rng_unit(rng)) / shape;
    const double boost = power < -700 ? 0 : pkv__det_exp(power);
    return gamma_from_one(rng, shape + 1) * boost;
}
