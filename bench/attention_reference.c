/* Double-precision attention and its error bound. */
#include "attention_reference.h"

#include <math.h>

static double dot(const float *a, const float *b, int32_t dim, double *size)
{
    double sum = 0, abs_sum = 0;
    for (int32_t d = 0; d < dim; d++) {
        const double product = (double)a[d] * b[d];
        sum += product;
        abs_sum += fabs(product);
    }
    *size = abs_sum;
    return sum;
}

void attention_reference(const float *q, const float *k, const float *v, int64_t n_keys,
                         int32_t dim, double scale, double *scores, double *out, double *vbar,
                         double *z_size)
{
    double max = -INFINITY, total = 0;
    *z_size = 0;
    for (int64_t j = 0; j < n_keys; j++) {
        double size;
        scores[j] = scale * dot(q, k + j * dim, dim, &size);
        if (scores[j] > max) max = scores[j];
        if (scale * size > *z_size) *z_size = scale * size;
    }
    for (int32_t d = 0; d < dim; d++) out[d] = vbar[d] = 0;
    for (int64_t j = 0; j < n_keys; j++) {
        const double p = exp(scores[j] - max);
        total += p;
        for (int32_t d = 0; d < dim; d++) {
            out[d] += p * v[j * dim + d];
            vbar[d] += p * fabs((double)v[j * dim + d]);
        }
    }
    for (int32_t d = 0; d < dim; d++) {
        out[d] /= total;
        vbar[d] /= total;
    }
}

double attention_bound(double vbar, double z_size, double out, int64_t n_keys, int32_t dim,
                       pkv_dtype out_dtype)
{
    const double dz = (2.0 * dim + 60) * 0x1p-24 * z_size;
    const double ex = 0x1p-21;
    const double acc = (16.0 + (double)n_keys) * 0x1p-23;
    double u_out = 0x1p-24, tiny = 0x1p-149;
    if (out_dtype == PKV_F16) u_out = 0x1p-11, tiny = 0x1p-24;
    if (out_dtype == PKV_BF16) u_out = 0x1p-8, tiny = 0x1p-133;
    return vbar * (2 * dz + 2 * ex + acc) + u_out * fabs(out) + tiny;
}
