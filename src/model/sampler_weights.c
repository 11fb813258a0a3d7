/* The largest logit, exponentials and sums of a row. */
#include "common/detmath.h"
#include "model/sampler_internal.h"

#include <math.h>
#include <string.h>

/* As in detmath.c, whose exponential divides 13 times one after the other (3.7 ms for 128 thousand
 * on an AMD EPYC). Here 1/n! is multiplied instead, in two chains (even and odd powers), and the
 * series ends at r^11: r^12 / 12! is below 2^-47, far less than a draw can show. */
#define LN2_HI 0x1.62e42fee00000p-1
#define LN2_LO 0x1.a39ef35793c76p-33
#define INV_LN2 0x1.71547652b82fep+0
/* 1.5 * 2^52: adding it leaves the nearest integer in the low bits of the sum. */
#define ROUNDER 0x1.8p52
/* From here on k is -1023, and what would be the bits of 2^-1023 are those of 0. */
#define MAX_DISTANCE 709.0

/* 0 <= x <= MAX_DISTANCE. */
static inline double exp_minus(double x)
{
    const double shifted = ROUNDER - x * INV_LN2;
    const double k = shifted - ROUNDER;
    const double r = (x + k * LN2_HI) + k * LN2_LO; /* e^-x = 2^k * e^-r, |r| <= 0.3466 */
    const double r2 = r * r;
    double even = 1.0 / 3628800;
    even = even * r2 + 1.0 / 40320;
    even = even * r2 + 1.0 / 720;
    even = even * r2 + 1.0 / 24;
    even = even * r2 + 1.0 / 2;
    double odd = 1.0 / 39916800;
    odd = odd * r2 + 1.0 / 362880;
    odd = odd * r2 + 1.0 / 5040;
    odd = odd * r2 + 1.0 / 120;
    odd = odd * r2 + 1.0 / 6;
    const double value = 1 - (r - r2 * (even - r * odd));
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof(bits));
    bits = (bits + 1023) << 52; /* 2^k; what ROUNDER had above is shifted out */
    double power;
    memcpy(&power, &bits, sizeof(power));
    return value * power;
}

void pkv__exp_run(const double distance[SAMPLER_RUN], double out[SAMPLER_RUN])
{
    /* A loop of its own: in one with what follows gcc makes a branch of it, and no vectors. */
    double x[SAMPLER_RUN];
    for (int32_t i = 0; i < SAMPLER_RUN; i++)
        x[i] = distance[i] < MAX_DISTANCE ? distance[i] : MAX_DISTANCE;
    for (int32_t i = 0; i < SAMPLER_RUN; i++) out[i] = exp_minus(x[i]);
}

double pkv__sum_run(const double x[SAMPLER_RUN])
{
    double s[8] = { 0 };
    for (int32_t i = 0; i < SAMPLER_RUN; i += 8)
        for (int32_t j = 0; j < 8; j++) s[j] += x[i + j];
    return ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]));
}

double pkv__sampler_sum(pkv__sampler *sampler)
{
    double sum = 0;
    for (int32_t run = 0; run < sampler->padded / SAMPLER_RUN; run++) {
        sampler->run_sum[run] = pkv__sum_run(sampler->weight + (size_t)run * SAMPLER_RUN);
        sum += sampler->run_sum[run];
    }
    return sum;
}

/* Largest of a run; a NaN is never larger. */
static float max_of_run(const float *x)
{
    float m[16];
    for (int32_t j = 0; j < 16; j++) m[j] = -INFINITY;
    for (int32_t i = 0; i < SAMPLER_RUN; i += 16)
        for (int32_t j = 0; j < 16; j++) m[j] = x[i + j] > m[j] ? x[i + j] : m[j];
    for (int32_t j = 1; j < 16; j++) m[0] = m[j] > m[0] ? m[j] : m[0];
    return m[0];
}

double pkv__sampler_weigh(pkv__sampler *sampler, float largest, double inv_temperature)
{
    double distance[SAMPLER_RUN];
    PKV_ASSERT(largest > -INFINITY && largest < INFINITY);
    for (int32_t at = 0; at < sampler->padded; at += SAMPLER_RUN) {
        const float *logits = sampler->work + at;
        if (max_of_run(logits) == -INFINITY) { /* after top-k most runs are */
            memset(sampler->weight + at, 0, sizeof(distance));
            continue;
        }
        for (int32_t i = 0; i < SAMPLER_RUN; i++)
            distance[i] = ((double)largest - (double)logits[i]) * inv_temperature;
        pkv__exp_run(distance, sampler->weight + at);
    }
    return pkv__sampler_sum(sampler);
}

int32_t pkv__argmax(const float *logits, int32_t n)
{
    PKV_ASSERT(n > 0);
    float best = -INFINITY;
    int32_t at = 0, i = 0; /* `best` occurs at or behind `at` first */
    for (; i + SAMPLER_RUN <= n; i += SAMPLER_RUN) {
        const float m = max_of_run(logits + i);
        if (m > best) {
            best = m;
            at = i;
        }
    }
    for (; i < n; i++) {
        if (logits[i] > best) {
            best = logits[i];
            at = i;
        }
    }
    if (best == -INFINITY) return 0;
    while (logits[at] != best) at++;
    return at;
}

pkv__row_sum pkv__sum_row(const float *logits, int32_t n)
{
    const float largest = pkv__tame_logit(logits[pkv__argmax(logits, n)]);
    double distance[SAMPLER_RUN], weight[SAMPLER_RUN], sum = 0;
    if (largest == -INFINITY) return (pkv__row_sum){ largest, 0 };
    for (int32_t at = 0; at < n; at += SAMPLER_RUN) {
        const int32_t here = pkv__min_i32(SAMPLER_RUN, n - at);
        for (int32_t i = 0; i < here; i++)
            distance[i] = (double)largest - (double)pkv__tame_logit(logits[at + i]);
        for (int32_t i = here; i < SAMPLER_RUN; i++) distance[i] = INFINITY;
        pkv__exp_run(distance, weight);
        sum += pkv__sum_run(weight);
    }
    return (pkv__row_sum){ largest, pkv__det_log(sum) };
}

void pkv__log_softmax(const float *logits, int32_t n, float *out)
{
    const pkv__row_sum row = pkv__sum_row(logits, n);
    for (int32_t i = 0; i < n; i++) {
        const double above = (double)pkv__tame_logit(logits[i]) - (double)row.largest;
        out[i] = row.largest == -INFINITY ? -INFINITY : (float)(above - row.log_sum);
    }
}
