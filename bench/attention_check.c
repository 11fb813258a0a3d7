/* Reference outputs for a sample of sequences, heads and rows. */
#include "attention_check.h"

#include "half_floats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys times query rows times heads that one check may cost: about a quarter of a second. */
#define KEY_BUDGET 500000
/* Rows of one sequence that are looked at. */
#define MAX_ROWS 24

static int32_t rows_looked_at(const struct attn_shape *s, int32_t seq)
{
    return s->q_len[seq] < MAX_ROWS ? s->q_len[seq] : MAX_ROWS;
}

static int64_t unit_cost(const struct attn_shape *s, int32_t seq)
{
    return (int64_t)s->kv_len[seq] * rows_looked_at(s, seq) * (s->h_q / s->h_kv);
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

/* All rows if they are few; else the first, the last, and one drawn from each stretch between. */
static bool choose_rows(struct attn_unit *u, const struct attn_shape *s, struct bench_error *err)
{
    const int32_t n = rows_looked_at(s, u->seq), q_len = s->q_len[u->seq];
    struct bench_rng rng = { s->seed ^ 0x726f7773u ^ (uint64_t)u->seq };
    u->rows = bench_calloc((size_t)n, sizeof(*u->rows), err);
    if (!u->rows) return false;
    u->n_rows = n;
    for (int32_t i = 0; i < n; i++) {
        const int64_t lo = (int64_t)q_len * i / n, hi = (int64_t)q_len * (i + 1) / n;
        u->rows[i] = (int32_t)(lo + (int64_t)bench_rng_below(&rng, (uint64_t)(hi - lo)));
    }
    u->rows[0] = 0;
    u->rows[n - 1] = q_len - 1;
    return true;
}

/* The keys of one unit as the reference wants them, and room for its results. */
struct scratch {
    float *q;
    double *k, *k_size, *v, *v_size;
    struct attention_row row;
};

static bool scratch_init(struct scratch *x, const struct attn_shape *s, struct bench_error *err)
{
    const size_t dim = (size_t)s->dim, n = (size_t)s->max_kv_len;
    double **arrays[] = { &x->k, &x->k_size, &x->v, &x->v_size };
    memset(x, 0, sizeof(*x));
    x->q = bench_calloc(dim, sizeof(float), err);
    x->row.scores = bench_calloc(n, sizeof(double), err);
    x->row.out = bench_calloc(dim, sizeof(double), err);
    x->row.vbar = bench_calloc(dim, sizeof(double), err);
    x->row.vmax = bench_calloc(dim, sizeof(double), err);
    bool ok = x->q && x->row.scores && x->row.out && x->row.vbar && x->row.vmax;
    for (int i = 0; ok && i < BENCH_LEN(arrays); i++) {
        *arrays[i] = bench_calloc(n * dim, sizeof(double), err);
        ok = *arrays[i] != NULL;
    }
    return ok;
}

static void scratch_deinit(struct scratch *x)
{
    free(x->q);
    free(x->k);
    free(x->k_size);
    free(x->v);
    free(x->v_size);
    free(x->row.scores);
    free(x->row.out);
    free(x->row.vbar);
    free(x->row.vmax);
}

/* Exact values; scale * (code - zero) in double. */
static void load_row(const struct attn_shape *s, const struct attn_row_place *at, double *value,
                     double *size)
{
    const void *row = attn_logical_row(s, at);
    const double scale = attn_logical_scale(s, at), zero = attn_logical_zero(s, at);
    for (int32_t d = 0; d < s->dim; d++) {
        const double code = number_get(row, s->dtype, d);
        value[d] = scale * (code - zero);
        size[d] = scale * (fabs(code) + fabs(zero));
    }
}

static void load_keys(const struct attn_shape *s, const struct attn_unit *u, struct scratch *x)
{
    for (int32_t t = 0; t < s->kv_len[u->seq]; t++) {
        struct attn_row_place at = { u->layer, u->seq, u->head, t, false };
        const int64_t i = (int64_t)t * s->dim;
        load_row(s, &at, x->k + i, x->k_size + i);
        at.is_v = true;
        load_row(s, &at, x->v + i, x->v_size + i);
    }
}

static void expect_row(const struct attn_shape *s, const struct scratch *x, int64_t n_keys,
                       struct attn_expected *expected)
{
    static const struct attention_rounding roundings[ATTN_N_PRECISIONS] = {
        [ATTN_FLOAT] = { false, 0 },
        [ATTN_WEIGHTS_BF16] = { false, 0x1p-8 },
        [ATTN_INT8_QK] = { true, 0 },
    };
    for (int32_t d = 0; d < s->dim; d++) {
        expected[d].value = x->row.out[d];
        for (int i = 0; i < ATTN_N_PRECISIONS; i++)
            expected[d].bound[i] =
                attention_bound(&x->row, d, n_keys, s->dim, s->q_dtype, &roundings[i]);
    }
}

static void expect_unit(const struct attn_shape *s, const void *q, struct attn_unit *u,
                        struct scratch *x)
{
    const int32_t group = s->h_q / s->h_kv, kv_len = s->kv_len[u->seq], q_len = s->q_len[u->seq];
    load_keys(s, u, x);
    for (int32_t i = 0; i < u->n_rows; i++)
        for (int32_t r = 0; r < group; r++) {
            const int64_t row = s->q_indptr[u->seq] + u->rows[i];
            const int64_t at = (row * s->h_q + u->head * group + r) * s->dim;
            const int64_t n_keys = kv_len - q_len + u->rows[i] + 1; /* causal */
            const struct attention_keys keys = { x->k,   x->k_size, x->v,  x->v_size,
                                                 n_keys, s->dim,    s->dim };
            for (int32_t d = 0; d < s->dim; d++) x->q[d] = number_get(q, s->q_dtype, at + d);
            attention_reference(x->q, &keys, 1 / sqrt((double)s->dim), &x->row);
            expect_row(s, x, n_keys, u->expected + ((int64_t)i * group + r) * s->dim);
        }
}

static bool expect_all(struct attn_check *check, const struct attn_shape *s, const void *q,
                       struct bench_error *err)
{
    struct scratch x;
    bool ok = scratch_init(&x, s, err);
    for (int32_t i = 0; ok && i < check->n_units; i++) {
        struct attn_unit *u = &check->units[i];
        ok = choose_rows(u, s, err);
        const size_t n = (size_t)u->n_rows * (size_t)(s->h_q / s->h_kv) * (size_t)s->dim;
        if (ok) u->expected = bench_calloc(n, sizeof(*u->expected), err);
        ok = ok && u->expected;
        if (ok) expect_unit(s, q, u, &x);
    }
    scratch_deinit(&x);
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
        free(check->units[i].rows);
        free(check->units[i].expected);
    }
    free(check->units);
    memset(check, 0, sizeof(*check));
}

static void compare_element(double got, const struct attn_expected *e, double bound,
                            struct bench_correct *c)
{
    const double error = fabs(got - e->value);
    const double relative = error / fmax(fabs(e->value), 1e-30);
    if (error > c->max_abs) c->max_abs = error;
    if (relative > c->max_rel && fabs(e->value) > 1e-3) c->max_rel = relative;
    if (error / bound > c->bound_used) c->bound_used = error / bound;
}

/* One row of one head: out[at ..] against expected[0 ..]. */
static void compare_row(const struct attn_shape *shape, const struct attn_unit *u, int32_t row,
                        int32_t head, enum attn_precision precision, const void *out,
                        const struct attn_expected *expected, struct bench_correct *c)
{
    const int64_t q_row = shape->q_indptr[u->seq] + row;
    const int64_t at = (q_row * shape->h_q + head) * shape->dim;
    for (int32_t d = 0; d < shape->dim; d++) {
        const double got = number_get(out, shape->q_dtype, at + d);
        const double bound = expected[d].bound[precision];
        compare_element(got, &expected[d], bound, c);
        if (fabs(got - expected[d].value) <= bound || !c->ok) continue; /* a NaN is not <= */
        c->ok = false;
        snprintf(c->text, sizeof(c->text),
                 "layer %d sequence %d row %lld head %d dim %d is %.9g, should be %.9g +- %.2g",
                 u->layer, u->seq, (long long)q_row, head, d, got, expected[d].value, bound);
    }
}

void attn_check_compare(const struct attn_check *check, const struct attn_shape *shape,
                        enum attn_precision precision, const void *const out[2],
                        struct bench_correct *correct)
{
    const int32_t group = shape->h_q / shape->h_kv;
    correct->has_errors = true;
    for (int32_t i = 0; i < check->n_units; i++) {
        const struct attn_unit *u = &check->units[i];
        const void *o = out[u->layer == check->layers[0] ? 0 : 1];
        for (int32_t row = 0; row < u->n_rows; row++)
            for (int32_t r = 0; r < group; r++)
                compare_row(shape, u, u->rows[row], u->head * group + r, precision, o,
                            u->expected + ((int64_t)row * group + r) * shape->dim, correct);
    }
}
