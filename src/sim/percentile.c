/* Percentiles: linear interpolation (numpy's default, type 7), or the nearest rank. Positions are
 * fractions of integers, so 99 % of 100 intervals is exactly 99. */
#include "pagedkv/sim.h"

#include <stdlib.h>

/* Below so many values sorting by insertion is quickest; halves of a long list are taken apart at
 * most so often, then the library's sort has to do. */
#define FEW 24
#define MOST_HALVINGS 64

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void sort_few(double *v, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        const double one = v[i];
        int64_t k = i;
        for (; k > 0 && one < v[k - 1]; k--) v[k] = v[k - 1];
        v[k] = one;
    }
}

static double middle_of(double a, double b, double c)
{
    if (a < b) return b < c ? b : a < c ? c : a;
    return a < c ? a : b < c ? c : b;
}

/* Quicksort: five sorts with qsort, which calls `compare`, were a sixth of a run. */
static void sort(double *v, int64_t n, int halvings)
{
    while (n > FEW && halvings-- > 0) {
        const double pivot = middle_of(v[0], v[n / 2], v[n - 1]);
        int64_t i = 0, j = n - 1;
        while (i <= j) {
            while (v[i] < pivot) i++;
            while (pivot < v[j]) j--;
            if (i > j) break;
            const double swapped = v[i];
            v[i++] = v[j];
            v[j--] = swapped;
        }
        sort(v, j + 1, halvings);
        v += i;
        n -= i;
    }
    if (n > FEW) qsort(v, (size_t)n, sizeof(*v), compare);
    else sort_few(v, n);
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
    sort(values, n, MOST_HALVINGS);
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += values[i];
    out->mean = sum / (double)n;
    out->p50 = at(values, n, 50);
    out->p90 = at(values, n, 90);
    out->p99 = at(values, n, 99);
    out->max = values[n - 1];
}
