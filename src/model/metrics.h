/* Delays in logarithmic buckets, and the text of all figures (JSON, Prometheus). */
#ifndef PKV_MODEL_METRICS_H
#define PKV_MODEL_METRICS_H

#include "common/common.h"
#include "pagedkv/engine.h"

/* All zero at first. Buckets 2^(1/32) apart from 1 us to 2^40 us, exact count, sum and extremes
 * beside them. */
enum { PKV__DELAY_BUCKETS = 40 * 32 + 2 };
typedef struct pkv__delays {
    int64_t n;
    double sum_us, max_us;
    int64_t bucket[PKV__DELAY_BUCKETS];
} pkv__delays;

void pkv__delays_add(pkv__delays *d, uint64_t ns);
/* Percentiles by nearest rank; a bucket stands for its geometric mean (from 1 us on within 1.1 % of
 * what lies in it), never above the maximum, and the last rank is the maximum itself. NAN where n
 * is 0. Looks at all buckets, once. */
void pkv__delays_stats(const pkv__delays *d, pkv_delay_stats *out);

#endif
