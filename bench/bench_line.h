/* A line through times: is any size of a sweep out of line with its neighbours? */
#ifndef PKV_BENCH_LINE_H
#define PKV_BENCH_LINE_H

#include "bench_base.h"

struct bench_line {
    double a, b; /* time = a + b * x */
};

/* The line with the least sum of squared relative errors (t - a - b x) / t: over a sweep whose
 * times span three decades every point counts the same. With one point, or all x alike: b = 0. n >=
 * 1, t > 0. */
struct bench_line bench_line_of(const double *x, const double *t, int32_t n);

#endif
