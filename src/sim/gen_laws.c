/* Draws of one length by law, from + - * / and sqrt only: equal bits everywhere. */
#include "common/detmath.h"
#include "sim/gen.h"

/* Lengths above this are above every limit, whatever they are. */
#define FAR_BEYOND (INT64_C(1) << 40)

/* Nothing here is NaN in a valid law: each comparison is true or the law is refused. */
bool pkv__length_valid(const pkv_sim_length *l)
{
    const bool whole_a = l->a >= 1 && l->a <= PKV__MAX_LENGTH && l->a == (double)(int32_t)l->a;
    const bool whole_b = l->b >= 1 && l->b <= PKV__MAX_LENGTH && l->b == (double)(int32_t)l->b;
    const bool mean = l->a >= 1 && l->a <= PKV__MAX_LENGTH;
    switch (l->law) {
    case PKV_SIM_LAW_FIXED:
        return whole_a;
    case PKV_SIM_LAW_UNIFORM:
        return whole_a && whole_b && l->a <= l->b;
    case PKV_SIM_LAW_LOGNORMAL:
        return mean && l->b >= 0 && l->b <= 1000;
    case PKV_SIM_LAW_GAMMA:
        return mean && l->b >= 1.0 / 64 && l->b <= 1e6;
    case PKV_SIM_LAW_ZIPF:
        return l->a >= 0 && l->a <= 100 && whole_b;
    }
    return false;
}

/* ---------------------------------------------------------------- zipf
 *
 * P(k) ~ k^-a for k = 1 .. n. Draw X with density ~ x^-a on [1, n + 1) by inverting its integral
 * and take k = floor(X), which has probability ~ I(k), the integral over [k, k + 1). k^-a / I(k) is
 * largest at k = 1, so accept with probability (k^-a / I(k)) / (1 / I(1)). The law is then exact,
 * without a table, and at least two draws in three are accepted at any a. (The idea is that of
 * Hoermann and Derflinger's rejection-inversion, "Rejection-inversion to generate variates from
 * monotone discrete distributions", 1996, without its squeeze.)
 *
 * In the logarithm l = log x the integral from 1 is l * expm1_over((1 - a) l), also at a = 1. */

/* (e^t - 1) / t, 1 at 0. */
static double expm1_over(double t)
{
    if (t < -0.5 || t > 0.5) return ((t < -700 ? 0 : pkv__det_exp(t)) - 1) / t;
    double sum = 1; /* t^14 / 15! is below 2^-54 */
    for (int j = 14; j >= 2; j--) sum = 1 + sum * t / j;
    return sum;
}

/* log(1 + w) / w, 1 at 0; w > -1. */
static double log1p_over(double w)
{
    if (w < -0.5 || w > 1) return pkv__det_log(1 + w) / w;
    /* 2 atanh(s) / w with s = w / (2 + w), |s| <= 1/3: s^34 / 35 is below 2^-58 */
    const double s = w / (2 + w), s2 = s * s;
    double sum = 0;
    for (int j = 33; j >= 1; j -= 2) sum = sum * s2 + 1.0 / j;
    return 2 / (2 + w) * sum;
}

/* Integral of x^-a over [1, e^l]. */
static double area_to(double a, double l)
{
    return l * expm1_over((1 - a) * l);
}

/* Integral of (x / k)^-a over [k, k + 1]. */
static double area_over(double a, double k)
{
    const double l = log1p_over(1 / k) / k; /* log((k + 1) / k) */
    return k * area_to(a, l);
}

static int64_t draw_zipf(const pkv__law *d, pkv__rng *rng)
{
    const double a = d->exponent;
    for (;;) {
        const double y = pkv__rng_unit(rng) * d->area;
        double w = (1 - a) * y;
        if (w < -1 + 0x1p-53) w = -1 + 0x1p-53; /* X is near infinity there: a > 1 */
        double l = y * log1p_over(w);
        if (l > d->log_end) l = d->log_end;
        int64_t k = (int64_t)pkv__det_exp(l);
        if (k < 1) k = 1;
        if (k > d->n_values) k = d->n_values;
        const double accept = d->first_area / area_over(a, (double)k);
        if (pkv__rng_unit(rng) <= accept) return k;
    }
}

/* ---------------------------------------------------------------- all laws */

void pkv__law_init(pkv__law *d, const pkv_sim_length *l)
{
    *d = (pkv__law){ .law = l->law };
    switch (l->law) {
    case PKV_SIM_LAW_FIXED:
        d->low = (int64_t)l->a;
        break;
    case PKV_SIM_LAW_UNIFORM:
        d->low = (int64_t)l->a;
        d->span = (int64_t)l->b - d->low;
        break;
    case PKV_SIM_LAW_LOGNORMAL: {
        const double var = pkv__det_log(1 + l->b * l->b);
        d->mu = pkv__det_log(l->a) - var / 2;
        d->scale = __builtin_sqrt(var);
        break;
    }
    case PKV_SIM_LAW_GAMMA:
        d->shape = l->b;
        d->scale = l->a / l->b;
        break;
    case PKV_SIM_LAW_ZIPF:
        d->exponent = l->a;
        d->n_values = (int32_t)l->b;
        d->log_end = pkv__det_log(l->b + 1);
        d->area = area_to(l->a, d->log_end);
        d->first_area = area_over(l->a, 1);
        break;
    }
}

/* To the nearest integer, halves up; x is positive. */
static int64_t rounded(double x)
{
    return x < (double)FAR_BEYOND ? (int64_t)(x + 0.5) : FAR_BEYOND;
}

int64_t pkv__law_draw(const pkv__law *d, pkv__rng *rng)
{
    switch (d->law) {
    case PKV_SIM_LAW_FIXED:
        return d->low;
    case PKV_SIM_LAW_UNIFORM:
        return d->low + pkv__rng_below(rng, (uint32_t)d->span + 1);
    case PKV_SIM_LAW_LOGNORMAL:
        return rounded(pkv__det_exp(d->mu + d->scale * pkv__draw_normal(rng)));
    case PKV_SIM_LAW_GAMMA:
        return rounded(d->scale * pkv__draw_gamma(rng, d->shape));
    case PKV_SIM_LAW_ZIPF:
        return draw_zipf(d, rng);
    }
    return 0;
}
