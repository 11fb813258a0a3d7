/* Percentiles: linear interpolation (numpy's default, type 7), or the nearest rank. Positions are
 * fractions of integers, so 99 % of 100 intervals is exactly 99. */
#include "pagedkv/sim.h"

#include <stdlib.h>

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double interpolated(const double *sorted, int64_t n, int64_t percent)
{
    const int64_t scaled = percent * (n - 1);
    const int64_t low = scaled / 100;
    const double part = (double)(scaled % 100) / 100;
    if (low + 1 >= n) return sorted[n - 1];
    return sorted[low] + part * (sorted[low + 1] - sorted[low]);
}

/* Rank ceil(percent / 100 * n), counted from 1; the first for a percent of 0. */
static double nearest_rank(const double *sorted, int64_t n, int64_t percent)
{
    const int64_t rank = (percent * n + 99) / 100;
    return sorted[rank > 0 ? rank - 1 : 0];
}

void pkv_sim_dist_of(double *values, int64_t n, bool nearest, pkv_sim_dist *out)
{
    *out = (pkv_sim_dist){ .n = n > 0 ? n : 0 };
    if (n <= 0) return;
    double (*const at)(const double *, int64_t, int64_t) = nearest ? nearest_rank : interpolated;
    qsort(values, (size_t)n, sizeof(*values), compare);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i];
    out->mean = sum / (double)n;
    out->p50 = at(values, n, 50);
    out->p90 = at(values, n, 90);
    out->p99 = at(values, n, 99);
    out->max = values[n - 1];
}
