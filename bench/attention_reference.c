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
                         int32_t dim, double scale, struct attention_row *row)
{
    double max = -INFINITY, total = 0;
    row->z_size = 0;
    for (int64_t j = 0; j < n_keys; j++) {
        double size;
        row->scores[j] = scale * dot(q, k + j * dim, dim, &size);
        if (row->scores[j] > max) max = row->scores[j];
        if (scale * size > row->z_size) row->z_size = scale * size;
    }
    for (int32_t d = 0; d < dim; d++) row->out[d] = row->vbar[d] = row->vmax[d] = 0;
    for (int64_t j = 0; j < n_keys; j++) {
        const double p = exp(row->scores[j] - max);
        total += p;
        for (int32_t d = 0; d < dim; d++) {
            const double x = v[j * dim + d];
            row->out[d] += p * x;
            row->vbar[d] += p * fabs(x);
            row->vmax[d] = fmax(row->vmax[d], fabs(x));
        }
    }
    for (int32_t d = 0; d < dim; d++) {
        row->out[d] /= total;
        row->vbar[d] /= total;
    }
}

double attention_bound(const struct attention_row *row, int32_t d, int64_t n_keys, int32_t dim,
                       pkv_dtype out_dtype)
{
    const double n = (double)n_keys;
    const double dz = (2.0 * dim + 60) * 0x1p-24 * row->z_size;
    const double ex = 0x1p-21;
    const double acc = (16 + n) * 0x1p-23;
    double u_out = 0x1p-24, tiny = 0x1p-149;
    if (out_dtype == PKV_F16) u_out = 0x1p-11, tiny = 0x1p-24;
    if (out_dtype == PKV_BF16) u_out = 0x1p-8, tiny = 0x1p-133;
    return row->vbar[d] * (expm1(2 * dz) + 2 * ex + acc) + u_out * fabs(row->out[d]) + tiny +
           n * (0x1p-149 + 0x1p-126 * row->vmax[d]);
}
