/* Double-precision attention and its error bound. */
#include "attention_reference.h"

#include <math.h>

static void score(const float *q, const struct attention_keys *keys, int64_t j, double scale,
                  struct attention_row *row)
{
    const double *k = keys->k + j * keys->k_dim, *k_size = keys->k_size + j * keys->k_dim;
    double sum = 0, sum_size = 0, k_sum = 0;
    for (int32_t d = 0; d < keys->k_dim; d++) {
        sum += (double)q[d] * k[d];
        sum_size += fabs((double)q[d]) * k_size[d];
        k_sum += k_size[d];
    }
    row->scores[j] = scale * sum;
    row->z_size = fmax(row->z_size, scale * sum_size);
    row->k_size = fmax(row->k_size, scale * k_sum);
}

void attention_reference(const float *q, const struct attention_keys *keys, double scale,
                         struct attention_row *row)
{
    double max = -INFINITY, total = 0;
    const int32_t dim = keys->v_dim;
    row->z_size = row->k_size = row->q_max = 0;
    for (int32_t d = 0; d < keys->k_dim; d++) row->q_max = fmax(row->q_max, fabs((double)q[d]));
    for (int64_t j = 0; j < keys->n_keys; j++) {
        score(q, keys, j, scale, row);
        max = fmax(max, row->scores[j]);
    }
    for (int32_t d = 0; d < dim; d++) row->out[d] = row->vbar[d] = row->vmax[d] = 0;
    for (int64_t j = 0; j < keys->n_keys; j++) {
        const double p = exp(row->scores[j] - max);
        total += p;
        for (int32_t d = 0; d < dim; d++) {
            const double size = keys->v_size[j * dim + d];
            row->out[d] += p * keys->v[j * dim + d];
            row->vbar[d] += p * size;
            row->vmax[d] = fmax(row->vmax[d], size);
        }
    }
    for (int32_t d = 0; d < dim; d++) {
        row->out[d] /= total;
        row->vbar[d] /= total;
    }
}

double attention_bound(const struct attention_row *row, int32_t d, int64_t n_keys, int32_t k_dim,
                       pkv_dtype out_dtype, const struct attention_rounding *rounding)
{
    const double n = (double)n_keys;
    double dz = (2.0 * k_dim + 60) * 0x1p-24 * row->z_size;
    if (rounding->int8_qk) dz += 0x1p-15 * row->q_max * row->k_size;
    const double ex = 0x1p-21;
    const double acc = (16 + n) * 0x1p-23;
    double u_out = 0x1p-24, tiny = 0x1p-149;
    if (out_dtype == PKV_F16) u_out = 0x1p-11, tiny = 0x1p-24;
    if (out_dtype == PKV_BF16) u_out = 0x1p-8, tiny = 0x1p-133;
    return row->vbar[d] * (expm1(2 * dz) + 2 * ex + rounding->p + acc) + u_out * fabs(row->out[d]) +
           tiny + n * (0x1p-149 + 0x1p-126 * row->vmax[d]);
}
