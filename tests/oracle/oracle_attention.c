/* Attention and merge in double precision. */
#include "oracle/oracle_attention.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

static int64_t row_position(const struct oracle_seq *s, int32_t i)
{
    return s->q_pos ? s->q_pos[i] : s->pos0 + s->kv_len - s->q_len + i;
}

static int64_t key_position(const struct oracle_seq *s, int32_t j)
{
    const bool of_a_row = j >= s->kv_len - s->q_len && !s->q_detached;
    return s->q_pos && of_a_row ? s->q_pos[j - (s->kv_len - s->q_len)] : s->pos0 + j;
}

bool oracle_sees(const struct oracle_seq *s, int32_t row, int32_t key)
{
    if (key < 0 || key >= s->kv_len) return false;
    const int64_t p = row_position(s, row), n = key_position(s, key);
    const int32_t bit = key - (s->kv_len - s->q_len);
    if (s->causal && n > p) return false;
    if (s->window_left >= 0 && p - n > s->window_left) return false;
    if (s->window_right >= 0 && n - p > s->window_right) return false;
    return !s->mask || bit < 0 || (s->mask[row * s->mask_stride + bit / 32] >> bit % 32 & 1);
}

static double scale_of(const struct oracle_seq *s)
{
    return s->scale != 0 ? s->scale : 1 / sqrt(s->k.dim);
}

/* A stored row, with what belongs to it. */
struct stored {
    const float *codes, *scale, *zero;
    int32_t scale_dim;
};

static struct stored stored_row(const struct oracle_seq *s, const struct oracle_rows *r, int32_t j,
                                int32_t head)
{
    const int64_t row = (int64_t)j * s->n_kv_heads + head / (s->n_q_heads / s->n_kv_heads);
    const int32_t scale_dim = r->scale_dim > 0 ? r->scale_dim : r->dim;
    const int64_t part = row * (r->dim / scale_dim);
    return (struct stored){ r->codes + row * r->dim, r->scale ? r->scale + part : NULL,
                            r->zero ? r->zero + part : NULL, scale_dim };
}

static double scale_at(const struct stored *r, int32_t d)
{
    return r->scale ? (double)r->scale[d / r->scale_dim] : 1;
}

static double zero_at(const struct stored *r, int32_t d)
{
    return r->zero ? (double)r->zero[d / r->scale_dim] : 0;
}

/* What one key and one row make together. */
struct dot {
    double z;      /* the logit */
    double alibi;  /* its ALiBi term */
    double terms;  /* |scale| times the sum of |sK| (|q code| + |q zero|) */
    double step;   /* |scale| amax(q) times the sum of |sK code| */
    double values; /* |scale| times the sum of |q| and |k| */
};

static struct dot logit(const struct oracle_seq *s, int32_t i, int32_t h, int32_t j)
{
    const float *q = s->q + ((int64_t)i * s->n_q_heads + h) * s->k.dim;
    const struct stored k = stored_row(s, &s->k, j, h);
    double sum = 0, terms = 0, values = 0, amax = 0, codes = 0;
    for (int32_t d = 0; d < s->k.dim; d++) {
        const double scale = scale_at(&k, d), zero = zero_at(&k, d), code = (double)k.codes[d];
        const double x = (double)q[d];
        sum += x * (scale * (code - zero));
        terms += fabs(x * scale) * (fabs(code) + fabs(zero));
        values += fabs(x) + fabs(scale * code);
        codes += fabs(scale * code);
        amax = fmax(amax, fabs(x));
    }
    const double scale = scale_of(s);
    struct dot r = { scale * sum, 0, fabs(scale) * terms, fabs(scale) * amax * codes,
                     fabs(scale) * values };
    if (s->softcap > 0) r.z = s->softcap * tanh(r.z / s->softcap);
    if (s->alibi) r.alibi = (double)s->alibi[h] * (double)(key_position(s, j) - row_position(s, i));
    r.z += r.alibi;
    return r;
}

static double largest_logit(const struct oracle_seq *s, int32_t row, int32_t head, double *z,
                            struct oracle_row *out)
{
    double m = s->sink ? (double)s->sink[head] : -(double)INFINITY;
    for (int32_t j = 0; j < s->kv_len; j++) {
        if (!oracle_sees(s, row, j)) continue;
        const struct dot dot = logit(s, row, head, j);
        z[j] = dot.z;
        m = fmax(m, z[j]);
        out->z_abs = fmax(out->z_abs, dot.terms);
        out->z_step = fmax(out->z_step, dot.step);
        out->z_flush = fmax(out->z_flush, dot.values);
        out->n_visible++;
    }
    if (!s->alibi) return m;
    for (int32_t j = 0; j < s->kv_len; j++) {
        if (!oracle_sees(s, row, j) || z[j] < m - 25) continue;
        const double n_ahead = (double)(key_position(s, j) - row_position(s, row));
        out->alibi_abs = fmax(out->alibi_abs, fabs((double)s->alibi[head] * n_ahead));
    }
    return m;
}

static void add_value(const struct oracle_seq *s, const struct stored *v, double p,
                      struct oracle_row *out)
{
    for (int32_t d = 0; d < s->v.dim; d++) {
        const double scale = scale_at(v, d), zero = zero_at(v, d), code = (double)v->codes[d];
        const double code_abs = fabs(code) + fabs(zero), v_abs = fabs(scale) * code_abs;
        out->o[d] += p * (scale * (code - zero));
        out->v_bar[d] += p * v_abs;
        out->v_max[d] = fmax(out->v_max[d], v_abs);
        out->scale_max = fmax(out->scale_max, fabs(scale));
        if (v->scale) out->code_max = fmax(out->code_max, code_abs);
    }
}

void oracle_attention(const struct oracle_seq *s, int32_t row, int32_t head, double *z,
                      struct oracle_row *out)
{
    *out = (struct oracle_row){ .lse = -(double)INFINITY };
    const double m = largest_logit(s, row, head, z, out);
    if (m == -(double)INFINITY) return;
    double l = s->sink ? exp((double)s->sink[head] - m) : 0;
    for (int32_t j = 0; j < s->kv_len; j++)
        if (oracle_sees(s, row, j)) l += exp(z[j] - m);
    out->lse = m + log(l);
    for (int32_t j = 0; j < s->kv_len; j++) {
        if (!oracle_sees(s, row, j)) continue;
        const struct stored v = stored_row(s, &s->v, j, head);
        add_value(s, &v, exp(z[j] - m) / l, out);
    }
}

/* Error of a logit. */
static double bound_z(const struct oracle_seq *s, const struct oracle_row *row,
                      const struct oracle_path *path)
{
    return (2 * s->k.dim + 60) * 0x1p-24 * row->z_abs + s->softcap * 0x1p-21 +
           0x1p-23 * row->alibi_abs + path->q_step * row->z_step +
           (path->flushes ? 0x1p-126 * (row->z_flush + 2 * s->k.dim * fabs(scale_of(s))) : 0);
}

static const double bound_exp = 0x1p-21;

static double bound_sums(const struct oracle_path *path)
{
    return (16 + path->terms) * 0x1p-23;
}

/* p times the scale, the zero point's part and its difference. */
static double bound_codes(const struct oracle_row *row)
{
    return row->code_max > 0 ? 0x1p-22 : 0;
}

double oracle_bound_o_sums(const struct oracle_seq *s, const struct oracle_row *row,
                           const struct oracle_path *path, int32_t d)
{
    if (row->n_visible == 0) return 0;
    const double weights = expm1(2 * bound_z(s, row, path)) + 2 * bound_exp + path->p_roundoff +
                           bound_sums(path) + bound_codes(row);
    return row->v_bar[d] * weights;
}

/* Weights below the normal range of their type. A scale of V is part of them, over a power of two
 * that is more than half of the largest scale around. */
static double lost_p(const struct oracle_row *row, const struct oracle_path *path, int32_t d)
{
    const double codes = row->code_max > 0 ? 2 * row->scale_max * row->code_max : row->v_max[d];
    return path->p_step * codes;
}

double oracle_bound_o(const struct oracle_seq *s, const struct oracle_row *row,
                      const struct oracle_path *path, int32_t d)
{
    if (row->n_visible == 0) return 0;
    const double lost = 0x1p-149 * (1 + row->code_max) + 0x1p-126 * row->v_max[d] +
                        (path->flushes ? 0x1p-125 : 0) + lost_p(row, path, d);
    return oracle_bound_o_sums(s, row, path, d) +
           oracle_unit_roundoff(path->out) * fabs(row->o[d]) + oracle_smallest(path->out) +
           row->n_visible * lost;
}

double oracle_bound_lse(const struct oracle_seq *s, const struct oracle_row *row,
                        const struct oracle_path *path, bool base2)
{
    const double per_nat = base2 ? 1 / log(2) : 1;
    if (isinf(row->lse)) return 0;
    if (row->n_visible == 0) return 0x1p-23 * fabs(row->lse) * per_nat; /* the sink alone */
    return (bound_z(s, row, path) + bound_exp + bound_sums(path) + 0x1p-23 * fabs(row->lse)) *
           per_nat;
}

struct oracle_merged oracle_merge(const double *o, const double *lse, int32_t n, bool base2)
{
    struct oracle_merged r = { 0, -(double)INFINITY, 0, true };
    const double unit = base2 ? log(2) : 1;
    double m = -(double)INFINITY, l = 0;
    for (int32_t s = 0; s < n; s++) m = fmax(m, lse[s]);
    if (m == -(double)INFINITY) return r;
    r.empty = false;
    for (int32_t s = 0; s < n; s++) {
        if (lse[s] == -(double)INFINITY) continue;
        const double w = exp((lse[s] - m) * unit);
        l += w;
        r.o += w * o[s];
        r.o_abs = fmax(r.o_abs, fabs(o[s]));
    }
    r.o /= l;
    r.lse = m + log(l) / unit;
    return r;
}
