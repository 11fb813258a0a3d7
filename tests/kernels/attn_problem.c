/* Drawing attention problems, and judging results. */
#include "attn_problem.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *need(size_t bytes)
{
    void *p = malloc(bytes ? bytes : 1);
    if (!p) {
        fprintf(stderr, "no memory for %zu bytes\n", bytes);
        exit(2);
    }
    return p;
}

struct attn_problem attn_usual(const struct check *c)
{
    struct attn_problem p = { .kv_dtype = c->dtype,
                              .q_dtype = c->dtype,
                              .n_seqs = 1,
                              .n_q_heads = 2,
                              .n_kv_heads = 1,
                              .k_dim = 64,
                              .v_dim = 64,
                              .block_tokens = 16,
                              .with_q_indptr = true,
                              .with_lse = true,
                              .opts = PKV_ATTN_OPTS_INIT };
    for (int32_t b = 0; b < ATTN_MAX_SEQS; b++) {
        p.q_len[b] = 1;
        p.kv_len[b] = 40;
        p.shared_with[b] = -1;
    }
    return p;
}

static int32_t draw_block_tokens(struct rng *r)
{
    static const int32_t sizes[] = { 1, 2, 3, 5, 8, 16, 16, 16, 24, 32, 48, 64, 100, 256 };
    return sizes[rng_int(r, 0, (int32_t)(sizeof(sizes) / sizeof(sizes[0])) - 1)];
}

struct attn_problem attn_draw_ragged(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    static const int32_t dims[] = { 8, 16, 40, 64, 64, 128, 128, 80 };
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(r, 1, 3);
    p.n_q_heads = p.n_kv_heads * rng_int(r, 1, 6);
    p.k_dim = dims[rng_int(r, 0, 7)];
    p.v_dim = rng_chance(r, 70) ? p.k_dim : dims[rng_int(r, 0, 7)];
    p.block_tokens = draw_block_tokens(r);
    p.n_seqs = rng_int(r, 1, 6);
    const bool decode_only = rng_chance(r, 30);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_chance(r, 10) ? 0 : rng_int(r, 1, rng_chance(r, 30) ? 150 : 40);
        p.q_len[b] = decode_only || rng_chance(r, 50) ? 1 : rng_int(r, 0, 12);
        p.pos0[b] = rng_int(r, 0, 1000);
    }
    p.with_pos0 = rng_chance(r, 30);
    p.with_q_indptr = !decode_only || rng_chance(r, 50);
    p.with_lse = rng_chance(r, 80);
    p.base2 = rng_chance(r, 30);
    p.values = (enum attn_values)rng_int(r, 0, rng_chance(r, 30) ? VALUES_N - 1 : 0);
    return p;
}

void attn_draw_option(struct check *c, struct attn_problem *p, int32_t which)
{
    struct rng *r = &c->rng;
    switch (which) {
    case 0:
        p->opts.causal = 0;
        break;
    case 1:
        p->opts.window_left = rng_int(r, 0, rng_chance(r, 50) ? 4 : 60);
        break;
    case 2:
        p->opts.window_right = rng_int(r, 0, 5);
        p->opts.causal = 0;
        break;
    case 3:
        p->opts.softcap = rng_chance(r, 50) ? 5.f : 0.5f + 30.f * fabsf(rng_signed(r));
        break;
    case 4:
        for (int32_t h = 0; h < p->n_q_heads; h++) p->alibi[h] = exp2f(-(float)rng_int(r, 0, 10));
        if (rng_chance(r, 20)) p->alibi[0] = -0.125f;
        p->opts.alibi = p->alibi;
        break;
    case 5:
        for (int32_t h = 0; h < p->n_q_heads; h++)
            p->sink[h] = rng_chance(r, 85)   ? 3.f * rng_signed(r)
                         : rng_chance(r, 50) ? 60.f
                                             : -INFINITY; /* as if there were none */
        p->opts.sink = p->sink;
        break;
    case 6:
        p->opts.scale = 0.03f + fabsf(rng_signed(r));
        if (rng_chance(r, 10)) p->opts.scale = -p->opts.scale;
        break;
    default:
        p->base2 = !p->base2;
    }
}

void attn_draw_sharing(struct check *c, struct attn_problem *p)
{
    for (int32_t b = 1; b < p->n_seqs; b++) {
        const int32_t a = rng_int(&c->rng, 0, b - 1);
        const int32_t most =
            (p->kv_len[a] < p->kv_len[b] ? p->kv_len[a] : p->kv_len[b]) / p->block_tokens;
        if (most == 0 || rng_chance(&c->rng, 40)) continue;
        p->shared_with[b] = a;
        p->shared_blocks[b] = rng_int(&c->rng, 1, most);
    }
}

static void lay_rows(struct attn_problem *p)
{
    p->n_rows = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        p->row0[b] = p->n_rows;
        p->n_rows += p->q_len[b];
    }
}

void attn_draw_q_pos(struct check *c, struct attn_problem *p)
{
    lay_rows(p);
    p->q_pos = need((size_t)p->n_rows * sizeof(int32_t));
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t base = (p->with_pos0 ? p->pos0[b] : 0) + p->kv_len[b] - p->q_len[b];
        const int32_t kind = rng_int(&c->rng, 0, 9) * 3 / 9; /* 3: seldom */
        int32_t at = base;
        for (int32_t i = 0; i < p->q_len[b]; i++) {
            if (kind == 0) at = base + i;                      /* as if not given */
            if (kind == 1) at = base + rng_int(&c->rng, 0, i); /* a tree: siblings, any order */
            if (kind == 2) at += rng_int(&c->rng, i == 0 ? 0 : 1, 3); /* gaps */
            if (kind == 3) at = rng_chance(&c->rng, 50) ? INT32_MAX - i : INT32_MIN + i;
            p->q_pos[p->row0[b] + i] = at;
        }
    }
}

/* One element of K (0), V (1) or q (2), before it is rounded to its type. */
static double draw_value(struct rng *r, const struct attn_problem *p, int what)
{
    const pkv_dtype dtype = what == 2 ? p->q_dtype : p->kv_dtype;
    const double x = (double)rng_normal(r);
    const double limit = fmin(fmin(oracle_largest(p->kv_dtype), oracle_largest(p->q_dtype)), 1e30);
    switch (p->values) {
    case VALUES_SPREAD:
        return what == 1 ? x : 3 * x;
    case VALUES_HUGE:
        return what == 1 ? 0.9 * limit * (double)rng_signed(r) : 24 * x;
    case VALUES_ZERO:
        return rng_chance(r, 70) ? (rng_chance(r, 50) ? 0.0 : -0.0) : x;
    case VALUES_DENORMAL:
        return (double)rng_int(r, -60, 60) * oracle_smallest(dtype);
    default:
        return x;
    }
}

static float *draw_array(struct rng *r, const struct attn_problem *p, int what, int64_t rows,
                         int32_t row_elems)
{
    const pkv_dtype dtype = what == 2 ? p->q_dtype : p->kv_dtype;
    float *a = need((size_t)(rows * row_elems) * sizeof(float));
    for (int64_t i = 0; i < rows * row_elems; i++) {
        /* Equal keys: every row repeats the first; K only, so that V still tells keys apart. */
        const bool repeat = p->values == VALUES_EQUAL && what == 0 && i >= row_elems;
        a[i] = repeat ? a[i - row_elems] : (float)oracle_round(dtype, draw_value(r, p, what));
    }
    return a;
}

static void describe(struct check *c, const struct attn_problem *p)
{
    static const char *const values[] = { "normal", "spread", "equal", "huge", "zero", "denormal" };
    int at = snprintf(c->shape, sizeof(c->shape),
                      "kv %s q %s heads %d/%d dims %d/%d block %d%s%s%s%s%s values %s",
                      pkv_dtype_name(p->kv_dtype), pkv_dtype_name(p->q_dtype), p->n_q_heads,
                      p->n_kv_heads, p->k_dim, p->v_dim, p->block_tokens,
                      p->opts.causal ? " causal" : "", p->opts.softcap > 0 ? " softcap" : "",
                      p->opts.alibi ? " alibi" : "", p->opts.sink ? " sink" : "",
                      p->q_pos ? " q_pos" : "", values[p->values]);
    at += snprintf(c->shape + at, sizeof(c->shape) - (size_t)at, " window %d,%d q_len/kv_len",
                   p->opts.window_left, p->opts.window_right);
    for (int32_t b = 0; b < p->n_seqs && at < (int)sizeof(c->shape) - 24; b++)
        at += snprintf(c->shape + at, sizeof(c->shape) - (size_t)at, " %d/%d", p->q_len[b],
                       p->kv_len[b]);
}

void attn_fill(struct check *c, struct attn_problem *p)
{
    const int32_t k_row = p->n_kv_heads * p->k_dim, v_row = p->n_kv_heads * p->v_dim;
    lay_rows(p);
    describe(c, p);
    p->q = draw_array(&c->rng, p, 2, p->n_rows, p->n_q_heads * p->k_dim);
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t from = p->shared_with[b];
        const size_t shared = (size_t)(from < 0 ? 0 : p->shared_blocks[b] * p->block_tokens);
        p->k[b] = draw_array(&c->rng, p, 0, p->kv_len[b], k_row);
        p->v[b] = draw_array(&c->rng, p, 1, p->kv_len[b], v_row);
        if (from < 0) continue;
        memcpy(p->k[b], p->k[from], shared * (size_t)k_row * sizeof(float));
        memcpy(p->v[b], p->v[from], shared * (size_t)v_row * sizeof(float));
    }
}

struct attn_problem attn_alone(const struct attn_problem *p, int32_t b)
{
    struct attn_problem one = *p;
    one.n_seqs = 1;
    one.q_len[0] = p->q_len[b];
    one.kv_len[0] = p->kv_len[b];
    one.pos0[0] = p->pos0[b];
    one.row0[0] = 0;
    one.shared_with[0] = -1;
    one.n_rows = p->q_len[b];
    one.k[0] = p->k[b];
    one.v[0] = p->v[b];
    one.q = p->q + (size_t)p->row0[b] * (size_t)(p->n_q_heads * p->k_dim);
    if (p->q_pos) one.q_pos = p->q_pos + p->row0[b];
    return one;
}

void attn_free(struct attn_problem *p)
{
    for (int32_t b = 0; b < p->n_seqs; b++) {
        free(p->k[b]);
        free(p->v[b]);
    }
    free(p->q);
    free(p->q_pos);
}

void attn_result_free(struct attn_result *r)
{
    free(r->o);
    free(r->lse);
    *r = (struct attn_result){ 0 };
}

struct oracle_seq attn_oracle(const struct attn_problem *p, int32_t b)
{
    return (struct oracle_seq){
        .q_len = p->q_len[b],
        .kv_len = p->kv_len[b],
        .n_q_heads = p->n_q_heads,
        .n_kv_heads = p->n_kv_heads,
        .k_dim = p->k_dim,
        .v_dim = p->v_dim,
        .q = p->q + (size_t)p->row0[b] * (size_t)(p->n_q_heads * p->k_dim),
        .k = p->k[b],
        .v = p->v[b],
        .pos0 = p->with_pos0 ? p->pos0[b] : 0,
        .q_pos = p->q_pos ? p->q_pos + p->row0[b] : NULL,
        .scale = (double)p->opts.scale,
        .softcap = (double)p->opts.softcap,
        .window_left = p->opts.window_left,
        .window_right = p->opts.window_right,
        .causal = p->opts.causal,
        .alibi = p->opts.alibi ? p->alibi : NULL,
        .sink = p->opts.sink ? p->sink : NULL,
    };
}

struct place {
    int32_t seq, row, head;
};

static void judge_lse(struct check *c, const struct attn_problem *p, const struct oracle_seq *s,
                      const struct oracle_row *want, const struct oracle_path *path, double got,
                      struct place at)
{
    const double ln2 = log(2), lse = p->base2 ? want->lse / ln2 : want->lse;
    const double bound = oracle_bound_lse(s, want, path, p->base2), err = fabs(got - lse);
    if (isinf(lse) || isinf(got)) {
        CHECK(c, got == lse, "lse of sequence %d row %d head %d: %g, must be %g", at.seq, at.row,
              at.head, got, lse);
        return;
    }
    CHECK(c, err <= bound,
          "lse of sequence %d row %d head %d: %.9g, want %.9g, off %.3g, bound %.3g", at.seq,
          at.row, at.head, got, lse, err, bound);
}

static void judge_o(struct check *c, const struct oracle_seq *s, const struct oracle_row *want,
                    const struct oracle_path *path, const void *o, int64_t first, struct place at)
{
    for (int32_t d = 0; d < s->v_dim; d++) {
        const double got = oracle_load(path->out, o, first + d);
        const double bound = oracle_bound_o(s, want, path, d), err = fabs(got - want->o[d]);
        const bool empty = want->n_visible == 0;
        CHECK(c, empty ? got == 0 : err <= bound,
              "out of sequence %d row %d head %d dim %d: %.9g, want %.9g, off %.3g, bound %.3g, "
              "%d keys visible",
              at.seq, at.row, at.head, d, got, want->o[d], err, bound, want->n_visible);
        /* How tight the bound is shows where the rounding of the output does not cover all. */
        if (empty || path->out != PKV_F32 || c->failed) continue;
        const double sums = oracle_bound_o_sums(s, want, path, d);
        if (sums > 0x1p-100) c->ratio = fmax(c->ratio, (err - 0x1p-24 * fabs(want->o[d])) / sums);
    }
}

/* Additions in a row: a scalar row adds key by key; vector decode adds runs of 32. */
static int32_t path_terms(bool decode, int32_t n)
{
    const int32_t runs = 16 + n / 32;
    return decode && runs < n ? runs : n;
}

void attn_judge(struct check *c, const struct attn_problem *p, const struct attn_result *r,
                const bool *decode)
{
    double *z = need((size_t)4096 * sizeof(double) * 16);
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const struct oracle_seq s = attn_oracle(p, b);
        for (int32_t i = 0; i < p->q_len[b]; i++)
            for (int32_t h = 0; h < p->n_q_heads; h++) {
                const int64_t at = (int64_t)(p->row0[b] + i) * p->n_q_heads + h;
                const struct place place = { b, i, h };
                struct oracle_row want;
                oracle_attention(&s, i, h, z, &want);
                const struct oracle_path path = { path_terms(decode[b], want.n_visible), 0,
                                                  p->q_dtype };
                judge_o(c, &s, &want, &path, r->o, at * p->v_dim, place);
                if (r->lse) judge_lse(c, p, &s, &want, &path, (double)r->lse[at], place);
            }
    }
    free(z);
}

void attn_same_bits(struct check *c, const struct attn_problem *p, const struct attn_result *a,
                    const struct attn_result *b, const bool *skip, const char *what)
{
    const size_t o_row = (size_t)(p->n_q_heads * p->v_dim * oracle_bytes(p->q_dtype));
    const size_t lse_row = (size_t)p->n_q_heads * sizeof(float);
    for (int32_t s = 0; s < p->n_seqs; s++) {
        const size_t row = (size_t)p->row0[s], n = (size_t)p->q_len[s];
        if (skip && skip[s]) continue;
        const bool o_same =
            memcmp((char *)a->o + row * o_row, (char *)b->o + row * o_row, n * o_row) == 0;
        const bool lse_same = !a->lse || !b->lse ||
                              memcmp((char *)a->lse + row * lse_row, (char *)b->lse + row * lse_row,
                                     n * lse_row) == 0;
        CHECK(c, o_same, "%s changes bits of out in sequence %d", what, s);
        CHECK(c, lse_same, "%s changes bits of lse in sequence %d", what, s);
    }
}
