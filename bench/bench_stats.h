/* Statistics of samples, and ratios with their uncertainty. */
#ifndef PKV_BENCH_STATS_H
#define PKV_BENCH_STATS_H

#include "bench_base.h"

/* Order statistics of one side. Quantiles interpolate linearly between ranks. */
struct bench_stats {
    int32_t n; /* 0: nothing measured, all fields are 0 */
    double min, q1, median, q3, p90, p95, p99, p999, max;
};

/* Quantile p in [0, 1] of ascending values[n], n >= 1. */
double bench_quantile(const double *sorted, int32_t n, double p);

/* False only without memory. */
bool bench_stats_of(const double *samples, int32_t n, struct bench_stats *out);

/* median(a) / median(b) with its 95 % percentile-bootstrap interval: resamples of the pairs
 * (a[i], b[i]), because the i-th samples of both sides met the same machine state. */
struct bench_ratio {
    double value, lo, hi;
    int32_t pairs;
};
#define BENCH_RESAMPLES 2000
/* n >= 1, values > 0; the seed decides the resamples. False only without memory. */
bool bench_ratio_of(const double *a, const double *b, int32_t n, uint64_t seed,
                    struct bench_ratio *out);

/* A difference counts as real when the interval excludes 1 and the ratio is off by 3 % or more. */
enum bench_verdict { BENCH_SAME, BENCH_SLOWER, BENCH_FASTER };
enum bench_verdict bench_ratio_verdict(const struct bench_ratio *ratio);

/* The machine is noisy when the baseline against itself is told apart from 1, or not within 1.5 %.
 */
bool bench_ratio_noisy(const struct bench_ratio *aa);

#endif
