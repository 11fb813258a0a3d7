/* Percentiles with linear interpolation (numpy's default, type 7). */
#include "pagedkv/sim.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double at(const double *sorted, int64_t n, int64_t percent)
{
    /* The position as a fraction of integers: 99 % of 100 intervals is exactly 99. */
    const int64_t scaled = percent * (n - 1);
    const int64_t low = scaled / 100;
    const double part = (double)(scaled % 100) / 100;
    if (low + 1 >= n) return sorted[n - 1];
    return sorted[low] + part * (sorted[low + 1] - sorted[low]);
}

void pkv_sim_dist_of(double *values, int64_t n, bool nearest, pkv_sim_dist *out)
{
    (void)nearest;
    *out = (pkv_sim_dist){ .n = n };
    if (n == 0) return;
    qsort(values, (size_t)n, sizeof(*values), compare);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i];
    out->mean = sum / (double)n;
    out->p50 = at(values, n, 50);
    out->p90 = at(values, n, 90);
    out->p99 = at(values, n, 99);
    out->max = values[n - 1];
}
