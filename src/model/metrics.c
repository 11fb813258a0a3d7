/* Delays in logarithmic buckets: 0 is below 1 us, k is [2^((k-1)/32), 2^(k/32)) us, the last one is
 * from 2^40 us (12 days) on. With 32 to a doubling a bucket's geometric mean is within 1.1 % of all
 * that lies in it, for 10 kB a law; raw samples of every token would grow without end. */
#include "model/metrics.h"

#include <math.h>

#define PER_DOUBLING 32
#define LAST (PKV__DELAY_BUCKETS - 1)

static int32_t bucket_of(double us)
{
    if (us < 1) return 0;
    const double k = floor(PER_DOUBLING * log2(us));
    return k < LAST - 1 ? 1 + (int32_t)k : LAST;
}

void pkv__delays_add(pkv__delays *d, uint64_t ns)
{
    const double us = (double)ns / 1e3;
    d->n++;
    d->sum_us += us;
    if (us > d->max_us) d->max_us = us;
    d->bucket[bucket_of(us)]++;
}

/* What bucket k stands for. Below 1 us it is the middle; the last one has no upper end. */
static double middle_us(const pkv__delays *d, int32_t k)
{
    if (k == LAST) return d->max_us;
    return fmin(d->max_us, k == 0 ? 0.5 : exp2((k - 0.5) / PER_DOUBLING));
}

void pkv__delays_stats(const pkv__delays *d, pkv_delay_stats *out)
{
    static const int32_t percent[3] = { 50, 90, 99 };
    double us[3] = { NAN, NAN, NAN };
    const double n = (double)d->n;
    *out = (pkv_delay_stats){ .n = d->n,
                              .mean_ms = d->n > 0 ? d->sum_us / n / 1e3 : NAN,
                              .max_ms = d->n > 0 ? d->max_us / 1e3 : NAN };
    int64_t n_seen = 0;
    for (int32_t k = 0, p = 0; k < PKV__DELAY_BUCKETS && p < 3; k++) {
        n_seen += d->bucket[k];
        /* The nearest rank is ceil(n * percent / 100), in parts that do not overflow. */
        for (; p < 3; p++) {
            const int64_t rank = d->n / 100 * percent[p] + (d->n % 100 * percent[p] + 99) / 100;
            if (rank > n_seen || rank == 0) break;
            us[p] = rank == d->n ? d->max_us : middle_us(d, k);
        }
    }
    out->p50_ms = us[0] / 1e3;
    out->p90_ms = us[1] / 1e3;
    out->p99_ms = us[2] / 1e3;
}
