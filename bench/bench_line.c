/* Weighted least squares. */
#include "bench_line.h"

struct bench_line bench_line_of(const double *x, const double *t, int32_t n)
{
    double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0, x_mean = 0;
    for (int32_t i = 0; i < n; i++) x_mean += x[i] / n;
    /* Around the mean: x may be 1e9, and its square would swallow the rest. */
    for (int32_t i = 0; i < n; i++) {
        const double weight = 1 / (t[i] * t[i]), dx = x[i] - x_mean;
        w += weight;
        wx += weight * dx;
        wxx += weight * dx * dx;
        wt += weight * t[i];
        wxt += weight * dx * t[i];
    }
    const double spread = w * wxx - wx * wx;
    struct bench_line line = { wt / w, 0 };
    if (spread > 1e-12 * w * wxx) {
        line.b = (w * wxt - wx * wt) / spread;
        line.a = (wt - line.b * wx) / w - line.b * x_mean;
    }
    return line;
}
