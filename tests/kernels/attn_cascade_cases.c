/* Attention in parts, merged: keys of one row split, and the cascade over a common prefix. Against
 * the oracle over all keys at once. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PARTS = 8 };

/* What a merge has to meet. */
struct merged {
    const struct attn_problem *p; /* the whole */
    int32_t n;                    /* parts */
    struct attn_route route;      /* of the parts: the one with the largest bound */
    const void *o;
    const float *lse;
};

static double largest_value(const struct attn_problem *p, int32_t b)
{
    double most = 0;
    for (int32_t i = 0; i < p->kv_len[b] * p->n_kv_heads * p->v_dim; i++) {
        const int32_t row = i / p->v_dim;
        const double scale = p->v_scale.of[b] ? (double)p->v_scale.of[b][row] : 1;
        const double zero = p->v_zero.of[b] ? (double)p->v_zero.of[b][row] : 0;
        most = fmax(most, fabs(scale * ((double)p->v[b][i] - zero)));
    }
    return most;
}

/* Beyond the bound of a single pass: an error e of a part's lse turns its weight by e^e, every part
 * is rounded to the type of out, and the merge adds its own. */
static void judge_row(struct check *c, const struct merged *m, int32_t b, int32_t i, int32_t h,
                      double most, double *z)
{
    const struct attn_problem *p = m->p;
    const struct oracle_seq s = attn_oracle(p, b);
    const int64_t at = (int64_t)(p->row0[b] + i) * p->n_q_heads + h;
    struct oracle_row want;
    oracle_attention(&s, i, h, z, &want);
    struct oracle_path path = attn_path(p, &m->route, want.n_visible, p->kv_len[b]);
    path.terms += m->n;
    const double lse_bound = 2 * oracle_bound_lse(&s, &want, &path, false) + m->n * 0x1p-22;
    if (want.n_visible == 0 && !p->opts.sink) {
        CHECK(c, m->lse[at] == -INFINITY, "no key in any part: lse %.9g", (double)m->lse[at]);
        return;
    }
    CHECK(c, fabs((double)m->lse[at] - want.lse) <= lse_bound,
          "%d parts: sequence %d row %d head %d: lse %.9g, want %.9g, bound %.3g", m->n, b, i, h,
          (double)m->lse[at], want.lse, lse_bound);
    for (int32_t d = 0; d < p->v_dim; d++) {
        const double got = oracle_load(p->q_dtype, m->o, at * p->v_dim + d);
        const double bound =
            oracle_bound_o(&s, &want, &path, d) +
            most * (expm1(2 * lse_bound) + 4 * m->n * 0x1p-24 + oracle_unit_roundoff(p->q_dtype)) +
            oracle_smallest(p->q_dtype);
        CHECK(c, fabs(got - want.o[d]) <= bound,
              "%d parts: sequence %d row %d head %d dim %d: %.9g, want %.9g, bound %.3g", m->n, b,
              i, h, d, got, want.o[d], bound);
    }
}

static void judge(struct check *c, const struct merged *m)
{
    const struct attn_problem *p = m->p;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        double *z = malloc((size_t)p->kv_len[b] * sizeof(double) + 1);
        const double most = largest_value(p, b);
        for (int32_t i = 0; i < p->q_len[b]; i++)
            for (int32_t h = 0; h < p->n_q_heads; h++) judge_row(c, m, b, i, h, most, z);
        free(z);
    }
}

/* Merge compact results of n parts, all of the rows of `p`. */
static void merge_and_judge(struct check *c, const struct attn_problem *p,
                            struct attn_result *parts, int32_t n, struct attn_route route)
{
    const int64_t row = (int64_t)p->n_q_heads * p->v_dim;
    pkv_tensor3 o[MAX_PARTS];
    pkv_tensor3 out = { NULL, p->q_dtype, p->n_q_heads, p->v_dim, p->n_rows, row, p->v_dim };
    pkv_lse lse[MAX_PARTS], out_lse = { NULL, p->n_q_heads, 1, 0 };
    struct hostile mem[MAX_PARTS + 1];
    for (int32_t s = 0; s < n; s++) {
        mem[s] = hostile_create(parts[s].o_bytes, 0);
        memcpy(mem[s].data, parts[s].o, parts[s].o_bytes);
        o[s] = out;
        lse[s] = out_lse;
        o[s].data = mem[s].data;
        lse[s].data = parts[s].lse;
        hostile_lend(parts[s].lse, parts[s].lse_bytes);
    }
    mem[n] = hostile_create(parts[0].o_bytes, 0xff);
    out.data = mem[n].data;
    out_lse.data = malloc(parts[0].lse_bytes + 1);
    hostile_lend(out_lse.data, parts[0].lse_bytes);
    const pkv_status status =
        check_supported(c, pkv_states_merge(c->be, o, lse, n, NULL, &out, &out_lse));
    CHECK(c, status == PKV_OK, "merge of %d parts: %s", n, pkv_status_name(status));
    const struct merged m = { p, n, route, out.data, out_lse.data };
    if (status == PKV_OK) judge(c, &m);
    hostile_unlend(out_lse.data);
    free(out_lse.data);
    for (int32_t s = 0; s < n; s++) hostile_unlend(parts[s].lse);
    for (int32_t s = 0; s <= n; s++) hostile_destroy(&mem[s]);
}

static struct attn_route run(struct check *c, const struct attn_problem *p, struct attn_result *r)
{
    struct attn_instance inst;
    struct attn_route routes[ATTN_MAX_SEQS];
    const struct attn_layout layout = attn_draw_layout(c);
    attn_build(c, p, &layout, &inst);
    attn_routes(c, &inst, routes);
    const pkv_status status = attn_call(c, &inst, r);
    CHECK(c, status == PKV_OK && inst.bad[0] == 0, "status %s, bad %#x", pkv_status_name(status),
          (unsigned)inst.bad[0]);
    attn_judge(c, p, r, routes);
    attn_destroy(&inst);
    return routes[0];
}

static void move_numbers(struct attn_numbers *n, int64_t rows)
{
    if (n->of[0]) n->of[0] += rows;
}

/* Keys [from, to) of sequence 0 as a problem of its own. */
static struct attn_problem keys_of(const struct attn_problem *p, int32_t from, int32_t to)
{
    struct attn_problem part = attn_alone(p, 0);
    const int64_t rows = (int64_t)from * p->n_kv_heads;
    part.kv_len[0] = to - from;
    part.pos0[0] = (p->with_pos0 ? p->pos0[0] : 0) + from;
    part.with_pos0 = true;
    part.k[0] = p->k[0] + rows * p->k_dim;
    part.v[0] = p->v[0] + rows * p->v_dim;
    move_numbers(&part.k_scale, rows);
    move_numbers(&part.k_zero, rows);
    move_numbers(&part.v_scale, rows);
    move_numbers(&part.v_zero, rows);
    return part;
}

/* KT15, KT18: one row over 1 .. 8 parts of its keys. Without given positions a part's row stands at
 * the end of its keys; ALiBi then shifts all its logits by one constant. The sink is carried by the
 * last part alone. */
static void splits(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result parts[MAX_PARTS] = { { 0 } };
    struct attn_route route = { PKV_ISA_SCALAR, true, false };
    const int32_t n = 1 + (int32_t)(c->seed % MAX_PARTS);
    p.q_dtype = PKV_F32;
    p.n_q_heads = 4;
    p.kv_len[0] = rng_int(&c->rng, n, 200);
    if (rng_chance(&c->rng, 50)) attn_draw_option(c, &p, OPTION_ALIBI);
    if (rng_chance(&c->rng, 30)) attn_draw_option(c, &p, OPTION_SINK);
    if (rng_chance(&c->rng, 30)) attn_draw_option(c, &p, OPTION_SOFTCAP);
    attn_fill(c, &p);
    for (int32_t s = 0; s < n; s++) {
        const int32_t from = s * p.kv_len[0] / n, to = (s + 1) * p.kv_len[0] / n;
        struct attn_problem part = keys_of(&p, from, to);
        if (s < n - 1) part.opts.sink = NULL;
        route = run(c, &part, &parts[s]);
        for (int32_t h = 0; h < p.n_q_heads && p.opts.alibi; h++)
            parts[s].lse[h] -= p.alibi[h] * (float)(p.kv_len[0] - to);
    }
    merge_and_judge(c, &p, parts, n, route);
    for (int32_t s = 0; s < n; s++) attn_result_free(&parts[s]);
    attn_free(&p);
}

/* The rows of all sequences against the prefix, as one sequence. */
static struct attn_problem prefix_of(const struct attn_problem *p, int32_t prefix)
{
    struct attn_problem all = keys_of(p, 0, prefix);
    all.q = p->q;
    all.q_len[0] = all.n_rows = p->n_rows;
    all.q_detached = true;
    all.opts.causal = 0;
    all.q_pos = malloc((size_t)p->n_rows * sizeof(int32_t) + 1);
    for (int32_t b = 0; b < p->n_seqs; b++)
        for (int32_t i = 0; i < p->q_len[b]; i++)
            all.q_pos[p->row0[b] + i] =
                (p->with_pos0 ? p->pos0[0] : 0) + p->kv_len[b] - p->q_len[b] + i;
    return all;
}

/* Each sequence behind the prefix. Not to be freed. */
static struct attn_problem suffixes_of(const struct attn_problem *p, int32_t prefix)
{
    struct attn_problem s = *p;
    s.with_pos0 = true;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const struct attn_problem one = attn_alone(p, b);
        const struct attn_problem part = keys_of(&one, prefix, p->kv_len[b]);
        s.kv_len[b] = part.kv_len[0];
        s.pos0[b] = part.pos0[0];
        s.k[b] = part.k[0];
        s.v[b] = part.v[0];
        s.k_scale.of[b] = part.k_scale.of[0];
        s.k_zero.of[b] = part.k_zero.of[0];
        s.v_scale.of[b] = part.v_scale.of[0];
        s.v_zero.of[b] = part.v_zero.of[0];
        s.shared_with[b] = -1;
    }
    return s;
}

/* One pass over a common prefix, one over the suffixes, merged; ALiBi, windows and softcap in both,
 * the sink in one. */
static void cascade(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    struct attn_result parts[2] = { { 0 } };
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(r, 1, 2);
    p.n_q_heads = p.n_kv_heads * rng_int(r, 1, 4);
    p.k_dim = p.v_dim = 8 * rng_int(r, 1, 8);
    p.block_tokens = rng_int(r, 1, 17);
    p.n_seqs = rng_int(r, 1, 6);
    const int32_t shared = rng_int(r, 1, rng_chance(r, 20) ? 70 : 8);
    const int32_t prefix = shared * p.block_tokens;
    p.with_pos0 = rng_chance(r, 50);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        const int32_t suffix = rng_int(r, 1, 50);
        p.kv_len[b] = prefix + suffix;
        p.q_len[b] = rng_chance(r, 50) ? 1 : rng_int(r, 1, suffix < 9 ? suffix : 9);
        p.pos0[b] = 1000;
        if (b == 0) continue;
        p.shared_with[b] = 0;
        p.shared_blocks[b] = shared;
    }
    if (rng_chance(r, 50)) attn_draw_option(c, &p, OPTION_ALIBI);
    if (rng_chance(r, 40)) attn_draw_option(c, &p, OPTION_SINK);
    if (rng_chance(r, 30)) attn_draw_option(c, &p, OPTION_SOFTCAP);
    if (rng_chance(r, 50)) p.opts.window_left = rng_int(r, 0, prefix + 60);
    attn_fill(c, &p);
    struct attn_problem all = prefix_of(&p, prefix), rest = suffixes_of(&p, prefix);
    if (rng_chance(r, 50)) all.opts.sink = NULL;
    else rest.opts.sink = NULL;
    (void)run(c, &rest, &parts[1]);
    const struct attn_route route = run(c, &all, &parts[0]);
    merge_and_judge(c, &p, parts, 2, route);
    attn_result_free(&parts[0]);
    attn_result_free(&parts[1]);
    free(all.q_pos);
    attn_free(&p);
}

const struct check_case attn_cascade_cases[] = {
    { "attention", "splits", splits, 24, 8, TYPED_STORES },
    { "attention", "cascade", cascade, 24, 6, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
