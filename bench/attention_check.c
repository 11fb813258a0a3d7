/* Reference outputs for a sample of sequences and heads. */
#include "attention_check.h"

#include "attention_reference.h"
#include "half_floats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys times query rows times heads that one check may cost: about a quarter of a second. */
#define KEY_BUDGET 500000

static int64_t unit_cost(const struct attn_shape *s, int32_t seq)
{
    return (int64_t)s->kv_len[seq] * s->q_len[seq] * (s->h_q / s->h_kv);
}

/* Choose units in a seeded order until the budget is used up. */
static bool choose_units(struct attn_check *check, const struct attn_shape *s,
                         struct bench_error *err)
{
    const int32_t n_all = check->n_layers * s->n_seqs * s->h_kv;
    int32_t *order = bench_calloc((size_t)n_all, sizeof(*order), err);
    check->units = bench_calloc((size_t)n_all, sizeof(*check->units), err);
    if (!order || !check->units) {
        free(order);
        return false;
    }
    struct bench_rng rng = { s->seed ^ 0x756e697473u };
    bool seen[2] = { false, false };
    int64_t left = KEY_BUDGET;
    for (int32_t i = 0; i < n_all; i++) order[i] = i;
    bench_shuffle(&rng, order, n_all);
    for (int32_t i = 0; i < n_all; i++) {
        const int32_t slot = order[i] % check->n_layers;
        const int32_t seq = order[i] / check->n_layers / s->h_kv;
        if (left < unit_cost(s, seq) && seen[slot]) continue;
        left -= unit_cost(s, seq);
        seen[slot] = true;
        struct attn_unit *u = &check->units[check->n_units++];
        u->layer = check->layers[slot];
        u->seq = seq;
        u->head = order[i] / check->n_layers % s->h_kv;
    }
    free(order);
    return true;
}

static void load_row(const struct attn_shape *s, const void *row, float *out)
{
    for (int32_t d = 0; d < s->dim; d++) out[d] = number_get(row, s->dtype, d);
}

struct scratch {
    float *q, *k, *v;
    struct attention_row row;
};

static void expect_unit(const struct attn_shape *s, const void *q, struct attn_unit *u,
                        struct scratch *x)
{
    const int32_t group = s->h_q / s->h_kv, kv_len = s->kv_len[u->seq];
    const double scale = 1 / sqrt((double)s->dim);
    for (int32_t t = 0; t < kv_len; t++) {
        load_row(s, attn_logical_row(s, u->layer, u->seq, u->head, t, false), x->k + t * s->dim);
        load_row(s, attn_logical_row(s, u->layer, u->seq, u->head, t, true), x->v + t * s->dim);
    }
    for (int32_t i = 0; i < s->q_len[u->seq]; i++)
        for (int32_t r = 0; r < group; r++) {
            const int64_t row = s->q_indptr[u->seq] + i;
            const int64_t at = (row * s->h_q + u->head * group + r) * s->dim;
            const int64_t n_keys = kv_len - s->q_len[u->seq] + i + 1; /* causal */
            double *expected = u->expected + (i * group + r) * s->dim;
            double *bound = u->bound + (i * group + r) * s->dim;
            for (int32_t d = 0; d < s->dim; d++) x->q[d] = number_get(q, s->dtype, at + d);
            x->row.out = expected;
            attention_reference(x->q, x->k, x->v, n_keys, s->dim, scale, &x->row);
            for (int32_t d = 0; d < s->dim; d++)
                bound[d] = attention_bound(&x->row, d, n_keys, s->dim, s->dtype);
        }
}

static bool expect_all(struct attn_check *check, const struct attn_shape *s, const void *q,
                       struct bench_error *err)
{
    const size_t dim = (size_t)s->dim, keys = (size_t)s->max_kv_len;
    struct scratch x = { bench_calloc(dim, sizeof(float), err),
                         bench_calloc(keys * dim, sizeof(float), err),
                         bench_calloc(keys * dim, sizeof(float), err),
                         { .scores = bench_calloc(keys, sizeof(double), err),
                           .vbar = bench_calloc(dim, sizeof(double), err),
                           .vmax = bench_calloc(dim, sizeof(double), err) } };
    bool ok = x.q && x.k && x.v && x.row.scores && x.row.vbar && x.row.vmax;
    for (int32_t i = 0; ok && i < check->n_units; i++) {
        struct attn_unit *u = &check->units[i];
        const size_t n = (size_t)s->q_len[u->seq] * (size_t)(s->h_q / s->h_kv) * dim;
        u->expected = bench_calloc(n, sizeof(double), err);
        u->bound = bench_calloc(n, sizeof(double), err);
        ok = u->expected && u->bound;
        if (ok) expect_unit(s, q, u, &x);
    }
    free(x.q);
    free(x.k);
    free(x.v);
    free(x.row.scores);
    free(x.row.vbar);
    free(x.row.vmax);
    return ok;
}

bool attn_check_init(struct attn_check *check, const struct attn_shape *shape, const void *q,
                     struct bench_error *err)
{
    memset(check, 0, sizeof(*check));
    check->n_layers = shape->n_layers > 1 ? 2 : 1;
    check->layers[1] = shape->n_layers - 1;
    const bool ok = choose_units(check, shape, err) && expect_all(check, shape, q, err);
    if (!ok) attn_check_deinit(check);
    return ok;
}

void attn_check_deinit(struct attn_check *check)
{
    for (int32_t i = 0; i < check->n_units; i++) {
        free(check->units[i].expected);
        free(check->units[i].bound);
    }
    free(check->units);
    memset(check, 0, sizeof(*check));
}

static void compare_element(double got, double expected, double bound, const struct attn_unit *u,
                            int64_t row, int32_t head, int32_t d, struct bench_correct *c)
{
    const double error = fabs(got - expected);
    const double relative = error / fmax(fabs(expected), 1e-30);
    if (error > c->max_abs) c->max_abs = error;
    if (relative > c->max_rel && fabs(expected) > 1e-3) c->max_rel = relative;
    if (error / bound > c->bound_used) c->bound_used = error / bound;
    if (error <= bound || !c->ok) return; /* a NaN is not <= */
    c->ok = false;
    snprintf(c->text, sizeof(c->text),
             "layer %d sequence %d row %lld head %d dim %d is %.9g, should be %.9g +- %.2g",
             u->layer, u->seq, (long long)row, head, d, got, expected, bound);
}

void attn_check_compare(const struct attn_check *check, const struct attn_shape *shape,
                        const void *const out[2], struct bench_correct *correct)
{
    const int32_t group = shape->h_q / shape->h_kv;
    correct->has_errors = true;
    for (int32_t i = 0; i < check->n_units; i++) {
        const struct attn_unit *u = &check->units[i];
        const void *o = out[u->layer == check->layers[0] ? 0 : 1];
        for (int32_t row = 0; row < shape->q_len[u->seq]; row++)
            for (int32_t r = 0; r < group; r++)
                for (int32_t d = 0; d < shape->dim; d++) {
                    const int64_t q_row = shape->q_indptr[u->seq] + row;
                    const int32_t head = u->head * group + r;
                    const int64_t at = (q_row * shape->h_q + head) * shape->dim + d;
                    const int64_t e = (int64_t)(row * group + r) * shape->dim + d;
                    compare_element(number_get(o, shape->dtype, at), u->expected[e], u->bound[e], u,
                                    q_row, head, d, correct);
                }
    }
}
