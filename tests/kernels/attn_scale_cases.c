/* Attention over codes: which scale and zero point meets which row (KT17), and q in 15 bits. */
#include "attn_instance.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <string.h>

static float *element(float *rows, const struct attn_problem *p, int64_t row, int32_t d)
{
    return rows + row * p->k_dim + d;
}

/* Small whole numbers, so that sums with prime scales stay exact. */
static void whole_numbers(struct check *c, struct attn_problem *p)
{
    struct rng *r = &c->rng;
    for (int32_t i = 0; i < p->n_rows * p->n_q_heads; i++)
        for (int32_t d = 0; d < p->k_dim; d++) *element(p->q, p, i, d) = (float)rng_int(r, -2, 2);
    for (int32_t b = 0; b < p->n_seqs; b++)
        for (int32_t i = 0; i < p->kv_len[b] * p->n_kv_heads; i++)
            for (int32_t d = 0; d < p->k_dim; d++) {
                const int32_t lowest = p->kv_dtype == PKV_U4 ? 0 : -3;
                *element(p->k[b], p, i, d) = (float)rng_int(r, lowest, 3);
                *element(p->v[b], p, i, d) = (float)rng_int(r, lowest, 3);
            }
}

static double value(const struct attn_problem *p, const float *rows, const struct attn_numbers *s,
                    const struct attn_numbers *z, int32_t b, int64_t row, int32_t d)
{
    const double scale = s->of[b] ? (double)s->of[b][row] : 1;
    return scale * ((double)rows[row * p->k_dim + d] - (z->of[b] ? (double)z->of[b][row] : 0));
}

/* Each row sees its own key alone: out is that key's V and lse its logit, to the bit. */
static void judge_own_keys(struct check *c, const struct attn_problem *p,
                           const struct attn_result *r)
{
    for (int32_t b = 0; b < p->n_seqs; b++)
        for (int32_t i = 0; i < p->q_len[b]; i++)
            for (int32_t h = 0; h < p->n_q_heads; h++) {
                const int32_t key = p->kv_len[b] - p->q_len[b] + i,
                              g = h / (p->n_q_heads / p->n_kv_heads);
                const int64_t row = (int64_t)key * p->n_kv_heads + g;
                const int64_t at = (int64_t)(p->row0[b] + i) * p->n_q_heads + h;
                double z = 0;
                for (int32_t d = 0; d < p->k_dim; d++) {
                    const double want = value(p, p->v[b], &p->v_scale, &p->v_zero, b, row, d);
                    const double got = oracle_load(p->q_dtype, r->o, at * p->k_dim + d);
                    z += (double)p->q[at * p->k_dim + d] *
                         value(p, p->k[b], &p->k_scale, &p->k_zero, b, row, d);
                    CHECK(c, got == oracle_round(p->q_dtype, want),
                          "V of sequence %d key %d head %d dim %d: %.9g, must be %.9g", b, key, g,
                          d, got, want);
                }
                CHECK(c, (double)r->lse[at] == z,
                      "logit of sequence %d key %d head %d: %.9g, must be %.9g", b, key, g,
                      (double)r->lse[at], z);
            }
}

/* KT17: scales and zero points are prime numbers, no two of block, token and head alike. */
static void primes(struct check *c)
{
    static const enum attn_per per[] = { PER_TOKEN_HEAD, PER_TOKEN, PER_BLOCK, PER_HEAD,
                                         PER_TENSOR };
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.n_kv_heads = rng_int(&c->rng, 1, 3);
    p.n_q_heads = p.n_kv_heads * rng_int(&c->rng, 1, 3);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 4);
    p.block_tokens = rng_int(&c->rng, 1, 5);
    p.n_seqs = 3;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(&c->rng, 1, 12);
        p.q_len[b] = b == 0 ? 1 : p.kv_len[b];
    }
    if (c->seed % 2) p.q_len[2] = p.kv_len[2] = 34; /* long rows */
    p.opts.scale = 1.f;
    p.opts.window_left = 0;
    attn_set_scales(&p, per[c->seed % 5], per[c->seed / 5 % 5], SCALE_PRIME);
    if (rng_chance(&c->rng, 30)) p.v_scale.per = per[rng_int(&c->rng, 0, 4)];
    attn_fill(c, &p);
    whole_numbers(c, &p);
    const struct attn_layout layout = attn_draw_layout(c);
    attn_try(c, &p, &layout, &r);
    judge_own_keys(c, &p, &r);
    attn_result_free(&r);
    attn_free(&p);
}

/* Each granularity, in memory no larger than it and in full. */
static void granularity(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.q_dtype = (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(&c->rng, 1, 4);
    p.n_q_heads = p.n_kv_heads * rng_int(&c->rng, 1, 4);
    p.k_dim = 8 * rng_int(&c->rng, 1, 32);
    p.v_dim = rng_chance(&c->rng, 60) ? p.k_dim : 8 * rng_int(&c->rng, 1, 32);
    p.block_tokens = rng_int(&c->rng, 1, 20);
    p.n_seqs = 3;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(&c->rng, 1, 90);
        p.q_len[b] = b == 0 ? 1 : rng_int(&c->rng, 1, b == 1 ? 6 : 40);
    }
    attn_set_scales(&p, (enum attn_per)(c->seed % PER_N), (enum attn_per)(c->seed / PER_N % PER_N),
                    rng_chance(&c->rng, 25) ? SCALE_TINY : SCALE_USUAL);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 1));
    if (rng_chance(&c->rng, 30)) attn_draw_sharing(c, &p);
    attn_fill(c, &p);
    struct attn_layout layout = attn_draw_layout(c);
    layout.full_scales = c->seed / PER_N % 2;
    attn_try(c, &p, &layout, &r);
    attn_result_free(&r);
    attn_free(&p);
}

static struct attn_problem int8_problem(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.kv_dtype = PKV_I8;
    p.q_dtype = (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16);
    p.n_kv_heads = rng_int(&c->rng, 1, 3);
    p.n_q_heads = p.n_kv_heads * rng_int(&c->rng, 1, 16);
    p.k_dim = 8 * rng_int(&c->rng, 1, 32);
    p.v_dim = rng_chance(&c->rng, 70) ? p.k_dim : 8 * rng_int(&c->rng, 1, 32);
    p.block_tokens = rng_int(&c->rng, 1, 40);
    p.n_seqs = 3;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(&c->rng, 1, b == 0 ? 1500 : 100);
        p.q_len[b] = b == 2 ? rng_int(&c->rng, 1, 4) : 1;
    }
    attn_draw_scales(c, &p);
    p.opts.int8_qk = 1;
    return p;
}

static void int8_qk(struct check *c)
{
    struct attn_problem p = int8_problem(c);
    struct attn_result r = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    p.values = rng_chance(&c->rng, 30) ? (enum attn_values)rng_int(&c->rng, 0, VALUES_N - 1)
                                       : VALUES_NORMAL;
    attn_fill(c, &p);
    attn_try(c, &p, &layout, &r);
    attn_result_free(&r);
    attn_free(&p);
}

/* The largest sum that integers have to hold: every code -128, every q alike. A q of zero; a q
 * whose infinity or NaN makes its row NaN and nobody else's. */
static void int8_extremes(struct check *c)
{
    struct attn_problem p = int8_problem(c);
    struct attn_result r = { 0 }, clean = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    const int32_t kind = (int32_t)(c->seed % 3), row = rng_int(&c->rng, 0, p.n_q_heads - 1);
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_NONE, SCALE_USUAL);
    if (kind == 0) p.k_dim = 256;
    attn_fill(c, &p);
    for (int32_t i = 0; i < p.kv_len[0] * p.n_kv_heads * p.k_dim && kind == 0; i++)
        p.k[0][i] = -128.f;
    for (int32_t i = 0; i < p.n_q_heads * p.k_dim && kind == 0; i++) p.q[i] = 0.0625f;
    for (int32_t d = 0; d < p.k_dim && kind == 1; d++) p.q[row * p.k_dim + d] = 0.f;
    attn_try(c, &p, &layout, kind < 2 ? &r : &clean);
    if (kind == 2) {
        struct attn_instance inst;
        p.q[row * p.k_dim + rng_int(&c->rng, 0, p.k_dim - 1)] = c->seed / 3 % 2 ? NAN : INFINITY;
        attn_build(c, &p, &layout, &inst);
        CHECK(c, attn_call(c, &inst, &r) == PKV_OK, "refused");
        attn_destroy(&inst);
        const size_t head_bytes = (size_t)(p.v_dim * oracle_bytes(p.q_dtype));
        for (int32_t h = 0; h < p.n_rows * p.n_q_heads; h++) {
            const size_t at = (size_t)h * head_bytes;
            const bool same = memcmp((char *)r.o + at, (char *)clean.o + at, head_bytes) == 0;
            CHECK(c,
                  h == row ? isnan(r.lse[h]) && isnan(oracle_load(p.q_dtype, (char *)r.o + at, 0))
                           : same,
                  "q of head %d is not finite: head %d is wrong", row, h);
        }
    }
    attn_result_free(&r);
    attn_result_free(&clean);
    attn_free(&p);
}

/* Long rows, and stores of anything else, do not look at the wish. */
static void int8_ignored(struct check *c)
{
    struct attn_problem p = attn_draw_ragged(c);
    struct attn_result with = { 0 }, without = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    for (int32_t b = 0; b < p.n_seqs && c->dtype == PKV_I8; b++)
        p.q_len[b] = rng_int(&c->rng, 33, 36);
    p.with_q_indptr = true;
    attn_fill(c, &p);
    attn_try(c, &p, &layout, &without);
    p.opts.int8_qk = 1;
    attn_try(c, &p, &layout, &with);
    attn_same_bits(c, &p, &with, &without, NULL, "int8_qk where it does not matter");
    attn_result_free(&with);
    attn_result_free(&without);
    attn_free(&p);
}

const struct check_case attn_scale_cases[] = {
    { "attention", "primes", primes, 25, 10, TYPED_CODES },
    { "attention", "granularity", granularity, 36, 6, TYPED_CODES },
    { "attention", "int8_qk", int8_qk, 60, 10, UNTYPED },
    { "attention", "int8_extremes", int8_extremes, 18, 6, UNTYPED },
    { "attention", "int8_ignored", int8_ignored, 6, 2, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
