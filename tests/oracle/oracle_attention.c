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
    const bool of_a_row = j >= s->kv_len - s->q_len;
    return s->q_pos && of_a_row ? s->q_pos[j - (s->kv_len - s->q_len)] : s->pos0 + j;
}

bool oracle_sees(const struct oracle_seq *s, int32_t row, int32_t key)
{
    const int64_t p = row_position(s, row), n = key_position(s, key);
    if (key < 0 || key >= s->kv_len) return false;
    if (s->causal && n > p) return false;
    if (s->window_left >= 0 && p - n > s->window_left) return false;
    if (s->window_right >= 0 && n - p > s->window_right) return false;
    return true;
}

static double scale_of(const struct oracle_seq *s)
{
    return s->scale != 0 ? s->scale : 1 / sqrt(s->k_dim);
}

/* The logit, the sum of |q k| behind it, and its ALiBi term. */
static double logit(const struct oracle_seq *s, int32_t i, int32_t h, int32_t j, double *abs_sum,
                    double *alibi)
{
    const int32_t g = h / (s->n_q_heads / s->n_kv_heads);
    const float *q = s->q + ((int64_t)i * s->n_q_heads + h) * s->k_dim;
    const float *k = s->k + ((int64_t)j * s->n_kv_heads + g) * s->k_dim;
    double sum = 0;
    *abs_sum = 0;
    for (int32_t d = 0; d < s->k_dim; d++) {
        const double term = (double)q[d] * (double)k[d];
        sum += term;
        *abs_sum += fabs(term);
    }
    double z = scale_of(s) * sum;
    *abs_sum *= fabs(scale_of(s));
    if (s->softcap > 0) z = s->softcap * tanh(z / s->softcap);
    *alibi = 0;
    if (s->alibi) *alibi = (double)s->alibi[h] * (double)(key_position(s, j) - row_position(s, i));
    return z + *alibi;
}

static double largest_logit(const struct oracle_seq *s, int32_t row, int32_t head, double *z,
                            struct oracle_row *out)
{
    double m = s->sink ? (double)s->sink[head] : -(double)INFINITY, abs_sum, alibi;
    for (int32_t j = 0; j < s->kv_len; j++) {
        if (!oracle_sees(s, row, j)) continue;
        z[j] = logit(s, row, head, j, &abs_sum, &alibi);
        m = fmax(m, z[j]);
        out->z_abs = fmax(out->z_abs, abs_sum);
        out->n_visible++;
    }
    if (!s->alibi) return m;
    for (int32_t j = 0; j < s->kv_len; j++) {
        if (!oracle_sees(s, row, j) || z[j] < m - 25) continue;
        alibi = fabs((double)s->alibi[head] * (double)(key_position(s, j) - row_position(s, row)));
        out->alibi_abs = fmax(out->alibi_abs, alibi);
    }
    return m;
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
        const int32_t g = head / (s->n_q_heads / s->n_kv_heads);
        const float *v = s->v + ((int64_t)j * s->n_kv_heads + g) * s->v_dim;
        const double p = exp(z[j] - m) / l;
        for (int32_t d = 0; d < s->v_dim; d++) {
            out->o[d] += p * (double)v[d];
            out->v_bar[d] += p * fabs((double)v[d]);
            out->v_max[d] = fmax(out->v_max[d], fabs((double)v[d]));
        }
    }
}

/* Error of a logit. */
static double bound_z(const struct oracle_seq *s, const struct oracle_row *row)
{
    return (2 * s->k_dim + 60) * 0x1p-24 * row->z_abs + s->softcap * 0x1p-21 +
           0x1p-23 * row->alibi_abs;
}

static const double bound_exp = 0x1p-21;

static double bound_sums(const struct oracle_path *path)
{
    return (16 + path->terms) * 0x1p-23;
}

double oracle_bound_o_sums(const struct oracle_seq *s, const struct oracle_row *row,
                           const struct oracle_path *path, int32_t d)
{
    if (row->n_visible == 0) return 0;
    const double weights =
        expm1(2 * bound_z(s, row)) + 2 * bound_exp + path->p_roundoff + bound_sums(path);
    return row->v_bar[d] * weights;
}

double oracle_bound_o(const struct oracle_seq *s, const struct oracle_row *row,
                      const struct oracle_path *path, int32_t d)
{
    if (row->n_visible == 0) return 0;
    return oracle_bound_o_sums(s, row, path, d) +
           oracle_unit_roundoff(path->out) * fabs(row->o[d]) + oracle_smallest(path->out) +
           row->n_visible * (0x1p-149 + 0x1p-126 * row->v_max[d]);
}

double oracle_bound_lse(const struct oracle_seq *s, const struct oracle_row *row,
                        const struct oracle_path *path, bool base2)
{
    const double per_nat = base2 ? 1 / log(2) : 1;
    if (isinf(row->lse)) return 0;
    if (row->n_visible == 0) return 0x1p-23 * fabs(row->lse) * per_nat; /* the sink alone */
    return (bound_z(s, row) + bound_exp + bound_sums(path) + 0x1p-23 * fabs(row->lse)) * per_nat;
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
