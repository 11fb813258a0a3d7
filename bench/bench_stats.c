/* Quantiles and the bootstrap of paired ratios. */
#include "bench_stats.h"

#include <stdlib.h>
#include <string.h>

#define REAL_DIFFERENCE 0.03
#define NOISE_WIDTH 0.015

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double bench_quantile(const double *sorted, int32_t n, double p)
{
    const double at = p * (n - 1);
    const int32_t i = (int32_t)at;
    if (i >= n - 1) return sorted[n - 1];
    return sorted[i] + (at - i) * (sorted[i + 1] - sorted[i]);
}

bool bench_stats_of(const double *samples, int32_t n, struct bench_stats *out)
{
    memset(out, 0, sizeof(*out));
    if (n == 0) return true;
    double *sorted = malloc((size_t)n * sizeof(*sorted));
    if (!sorted) return false;
    memcpy(sorted, samples, (size_t)n * sizeof(*sorted));
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_doubles);
    *out = (struct bench_stats){
        .n = n,
        .min = sorted[0],
        .q1 = bench_quantile(sorted, n, 0.25),
        .median = bench_quantile(sorted, n, 0.5),
        .q3 = bench_quantile(sorted, n, 0.75),
        .p90 = bench_quantile(sorted, n, 0.90),
        .p95 = bench_quantile(sorted, n, 0.95),
        .p99 = bench_quantile(sorted, n, 0.99),
        .p999 = bench_quantile(sorted, n, 0.999),
        .max = sorted[n - 1],
    };
    free(sorted);
    return true;
}

/* The resampled medians do not need sorted copies of each resample: with the ranks of all samples
 * known, a resample is a multiset of ranks, and its median comes from counting. O(n) each. */
struct ranked {
    struct keyed *keyed; /* ascending by value */
    int32_t *rank;       /* of sample i */
    int32_t *counts;     /* of each rank in the current resample */
};
struct keyed {
    double value;
    int32_t idx;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *x = a, *y = b;
    if (x->value != y->value) return x->value < y->value ? -1 : 1;
    return (x->idx > y->idx) - (x->idx < y->idx);
}

static bool ranked_init(struct ranked *r, const double *samples, int32_t n)
{
    r->keyed = malloc((size_t)n * sizeof(*r->keyed));
    r->rank = malloc((size_t)n * sizeof(*r->rank));
    r->counts = malloc((size_t)n * sizeof(*r->counts));
    if (!r->keyed || !r->rank || !r->counts) return false;
    for (int32_t i = 0; i < n; i++) r->keyed[i] = (struct keyed){ samples[i], i };
    qsort(r->keyed, (size_t)n, sizeof(*r->keyed), compare_keyed);
    for (int32_t i = 0; i < n; i++) r->rank[r->keyed[i].idx] = i;
    return true;
}

static void ranked_deinit(struct ranked *r)
{
    free(r->keyed);
    free(r->rank);
    free(r->counts);
}

static double median_of_counts(const struct ranked *r, int32_t n)
{
    const int32_t lo_pos = (n - 1) / 2, hi_pos = n / 2;
    int32_t seen = 0, lo = -1;
    for (int32_t i = 0; i < n; i++) {
        seen += r->counts[i];
        if (lo < 0 && seen > lo_pos) lo = i;
        if (seen > hi_pos) return 0.5 * (r->keyed[lo].value + r->keyed[i].value);
    }
    return r->keyed[n - 1].value;
}

static void resample(struct ranked *a, struct ranked *b, int32_t n, struct bench_rng *rng)
{
    memset(a->counts, 0, (size_t)n * sizeof(*a->counts));
    memset(b->counts, 0, (size_t)n * sizeof(*b->counts));
    for (int32_t i = 0; i < n; i++) {
        const int32_t pick = (int32_t)bench_rng_below(rng, (uint64_t)n);
        a->counts[a->rank[pick]]++;
        b->counts[b->rank[pick]]++;
    }
}

bool bench_ratio_of(const double *a, const double *b, int32_t n, uint64_t seed,
                    struct bench_ratio *out)
{
    struct bench_rng rng = { seed };
    struct bench_stats sa, sb;
    struct ranked ra = { NULL, NULL, NULL }, rb = { NULL, NULL, NULL };
    double *ratios = malloc(BENCH_RESAMPLES * sizeof(*ratios));
    bool ok = ratios && bench_stats_of(a, n, &sa) && bench_stats_of(b, n, &sb) &&
              ranked_init(&ra, a, n) && ranked_init(&rb, b, n);
    if (ok) {
        for (int i = 0; i < BENCH_RESAMPLES; i++) {
            resample(&ra, &rb, n, &rng);
            ratios[i] = median_of_counts(&ra, n) / median_of_counts(&rb, n);
        }
        qsort(ratios, BENCH_RESAMPLES, sizeof(*ratios), compare_doubles);
        *out = (struct bench_ratio){ sa.median / sb.median,
                                     bench_quantile(ratios, BENCH_RESAMPLES, 0.025),
                                     bench_quantile(ratios, BENCH_RESAMPLES, 0.975), n };
    }
    ranked_deinit(&ra);
    ranked_deinit(&rb);
    free(ratios);
    return ok;
}

enum bench_verdict bench_ratio_verdict(const struct bench_ratio *ratio)
{
    if (ratio->lo > 1 && ratio->value >= 1 + REAL_DIFFERENCE) return BENCH_SLOWER;
    if (ratio->hi < 1 && ratio->value <= 1 - REAL_DIFFERENCE) return BENCH_FASTER;
    return BENCH_SAME;
}

bool bench_ratio_noisy(const struct bench_ratio *aa)
{
    const bool excludes_one = aa->lo > 1 || aa->hi < 1;
    return excludes_one || aa->lo < 1 - NOISE_WIDTH || aa->hi > 1 + NOISE_WIDTH;
}
