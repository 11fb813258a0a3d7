/* Norm, rotation and quantisation of one row. */
#include "oracle/oracle_kv_write.h"
#include "oracle/oracle_formats.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

void oracle_norm(struct oracle_written *row, const float *weights, double eps)
{
    double sum = 0;
    for (int32_t d = 0; d < row->dim; d++) sum += row->x[d] * row->x[d];
    const double root = sqrt(sum / row->dim + eps);
    for (int32_t d = 0; d < row->dim; d++) {
        row->x[d] *= (double)weights[d] / root;
        row->err[d] = (row->dim / 2 + 8) * 0x1p-24 * fabs(row->x[d]) + 0x1p-148;
    }
}

void oracle_rotate(struct oracle_written *row, const float *cos_sin, int32_t rot_dim,
                   bool interleaved)
{
    const int32_t half = rot_dim / 2;
    for (int32_t i = 0; i < half; i++) {
        const int32_t at_a = interleaved ? 2 * i : i, at_b = interleaved ? 2 * i + 1 : i + half;
        const double a = row->x[at_a], b = row->x[at_b];
        const double ea = row->err[at_a], eb = row->err[at_b];
        const double cosine = (double)cos_sin[i], sine = (double)cos_sin[half + i];
        const double reach = 3 * 0x1p-24 * hypot(a, b) * hypot(cosine, sine) + 2 * 0x1p-149;
        row->x[at_a] = a * cosine - b * sine;
        row->x[at_b] = a * sine + b * cosine;
        row->err[at_a] = reach + (1 + 3 * 0x1p-24) * (ea * fabs(cosine) + eb * fabs(sine));
        row->err[at_b] = reach + (1 + 3 * 0x1p-24) * (ea * fabs(sine) + eb * fabs(cosine));
    }
}

void oracle_extremes_add(struct oracle_extremes *e, const float *x, int32_t n)
{
    for (int32_t d = 0; d < n; d++) {
        if (!isfinite(x[d])) continue;
        if (!e->any || x[d] < e->lo) e->lo = x[d];
        if (!e->any || x[d] > e->hi) e->hi = x[d];
        e->any = true;
    }
}

struct oracle_scale oracle_scale_of(pkv_dtype dtype, const struct oracle_extremes *e)
{
    const float lo = e->any ? e->lo : 0.f, hi = e->any ? e->hi : 0.f;
    const float amax = fmaxf(fabsf(lo), fabsf(hi));
    struct oracle_scale s = { 1.f, 0.f };
    if (dtype == PKV_U4) {
        const float top = hi / 15.f, bottom = lo / 15.f;
        if (top == bottom) {
            s.zero = -lo;
            return s;
        }
        s.scale = fmaxf(top - bottom, 0x1p-126f);
        s.zero = -lo / s.scale;
        return s;
    }
    if (amax == 0.f) return s;
    s.scale = fmaxf(amax / (dtype == PKV_I8 ? 127.f : 448.f), 0x1p-126f);
    return s;
}

unsigned oracle_quantized(pkv_dtype dtype, float x, struct oracle_scale s)
{
    float y = x / s.scale;
    if (dtype == PKV_U4) y += s.zero;
    return oracle_code_of(dtype, (double)y);
}

double oracle_code_meaning(pkv_dtype dtype, unsigned code, struct oracle_scale s)
{
    return (double)s.scale * (oracle_value8(dtype, (uint8_t)code) - (double)s.zero);
}

double oracle_code_bound(pkv_dtype dtype, float x, struct oracle_scale s)
{
    const double size = fabs((double)x), step = fabs((double)s.scale);
    if (dtype == PKV_I8) return step / 2 + 0x1p-22 * size;
    if (dtype == PKV_U4) return step / 2 + 0x1p-21 * (size + step * fabs((double)s.zero));
    /* Half a step: relative among normal codes, absolute among subnormal ones. */
    if (dtype == PKV_E4M3) return fmax(0x1p-4 * size, step * 0x1p-10 + 0x1p-22 * size);
    return fmax(0x1p-3 * size, step * 0x1p-17 + 0x1p-22 * size);
}
