/* Drawing attention problems. */
#include "attn_problem.h"
#include "check_device.h"
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
                              .q_dtype = attn_is_codes(c->dtype) ? PKV_F32 : c->dtype,
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
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_TOKEN_HEAD, SCALE_USUAL);
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
        if (!decode_only && rng_chance(r, 10)) p.q_len[b] = rng_int(r, 13, 40);
        p.pos0[b] = rng_int(r, 0, 1000);
    }
    p.with_pos0 = rng_chance(r, 30);
    p.with_q_indptr = !decode_only || rng_chance(r, 50);
    p.with_lse = rng_chance(r, 80);
    p.base2 = rng_chance(r, 30);
    p.values = (enum attn_values)rng_int(r, 0, rng_chance(r, 30) ? VALUES_N - 1 : 0);
    attn_draw_scales(c, &p);
    return p;
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

void attn_make_invariant(struct check *c, struct attn_problem *p)
{
    static const int32_t chunks[] = { 64, 128, 64, 0 };
    p->opts.invariant = 1;
    p->opts.invariant_chunk = chunks[rng_int(&c->device_rng, 0, 3)];
}

void attn_lay_rows(struct attn_problem *p)
{
    p->n_rows = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        p->row0[b] = p->n_rows;
        p->n_rows += p->q_len[b];
    }
}

enum array { OF_K, OF_V, OF_Q, OF_Q_ROPE };

static pkv_dtype dtype_of(const struct attn_problem *p, enum array what)
{
    return what == OF_K ? p->kv_dtype : what == OF_V ? attn_v_dtype(p) : p->q_dtype;
}

/* One element, before it is rounded to its type. */
static double draw_value(struct rng *r, const struct attn_problem *p, enum array what)
{
    const pkv_dtype dtype = dtype_of(p, what);
    const double x = (double)rng_normal(r);
    const double limit =
        attn_is_codes(p->kv_dtype)
            ? 1000
            : fmin(fmin(oracle_largest(p->kv_dtype), oracle_largest(p->q_dtype)), 1e30);
    const bool value = what == OF_V && !p->is_mla; /* else part of a logit */
    switch (p->values) {
    case VALUES_SPREAD:
        return value ? x : 3 * x;
    case VALUES_HUGE:
        return value ? 0.9 * limit * (double)rng_signed(r) : 24 * x;
    case VALUES_ZERO:
        return rng_chance(r, 70) ? (rng_chance(r, 50) ? 0.0 : -0.0) : x;
    case VALUES_DENORMAL:
        return (double)rng_int(r, -60, 60) * oracle_smallest(dtype);
    default:
        return x;
    }
}

static double clip(double x, double lo, double hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* Some code near x: e4m3 and e5m2 keep 4 and 3 bits of it; int8 and int4 have a unit of 1 / 40 and
 * 1 / 4, see the usual scales. */
static double code_near(pkv_dtype dtype, double x)
{
    if (dtype == PKV_I8) return clip(nearbyint(40 * x), -128, 127);
    if (dtype == PKV_U4) return clip(nearbyint(7.5 + 4 * x), 0, 15);
    const int bits = dtype == PKV_E4M3 ? 4 : 3;
    const double largest = dtype == PKV_E4M3 ? 448 : 57344, smallest = oracle_smallest(dtype);
    int e = 0;
    frexp(x, &e);
    const double unit = fmax(ldexp(1, e - bits), smallest);
    return copysign(clip(nearbyint(fabs(x) / unit) * unit, 0, largest), x);
}

static float *draw_array(struct rng *r, const struct attn_problem *p, enum array what, int64_t rows,
                         int32_t row_elems)
{
    const pkv_dtype dtype = dtype_of(p, what);
    float *a = need((size_t)(rows * row_elems) * sizeof(float));
    for (int64_t i = 0; i < rows * row_elems; i++) {
        /* Equal keys: every row repeats the first; K only, so that V still tells keys apart. */
        const bool repeat = p->values == VALUES_EQUAL && what == OF_K && i >= row_elems;
        const double x = repeat ? 0 : draw_value(r, p, what);
        a[i] = repeat                 ? a[i - row_elems]
               : attn_is_codes(dtype) ? (float)code_near(dtype, x)
                                      : (float)oracle_round(dtype, x);
    }
    return a;
}

static void describe(struct check *c, const struct attn_problem *p)
{
    static const char *const values[] = { "normal", "spread", "equal", "huge", "zero", "denormal" };
    static const char *const per[] = { "-", "tensor", "head", "block", "token", "token-head" };
    int at = snprintf(c->shape, sizeof(c->shape),
                      "%skv %s q %s heads %d/%d dims %d/%d block %d%s%s%s%s%s%s%s%s values %s",
                      p->is_mla ? "latent " : "", pkv_dtype_name(p->kv_dtype),
                      pkv_dtype_name(p->q_dtype), p->n_q_heads, p->n_kv_heads, p->k_dim, p->v_dim,
                      p->block_tokens, p->opts.causal ? " causal" : "",
                      p->opts.softcap > 0 ? " softcap" : "", p->opts.alibi ? " alibi" : "",
                      p->opts.sink ? " sink" : "", p->q_pos ? " q_pos" : "",
                      p->q_detached ? " detached" : "", p->mask ? " mask" : "",
                      p->opts.int8_qk ? " int8_qk" : "", values[p->values]);
    if (attn_is_codes(p->kv_dtype))
        at += snprintf(c->shape + at, sizeof(c->shape) - (size_t)at, " scales %s/%s zeros %s/%s",
                       per[p->k_scale.per], per[p->v_scale.per], per[p->k_zero.per],
                       per[p->v_zero.per]);
    at += snprintf(c->shape + at, sizeof(c->shape) - (size_t)at, " window %d,%d q_len/kv_len",
                   p->opts.window_left, p->opts.window_right);
    for (int32_t b = 0; b < p->n_seqs && at < (int)sizeof(c->shape) - 24; b++)
        at += snprintf(c->shape + at, sizeof(c->shape) - (size_t)at, " %d/%d", p->q_len[b],
                       p->kv_len[b]);
}

/* Devices take queries of 16 bits: of bf16 over everything, of f16 over all but bf16. */
static void fit_queries(struct check *c, struct attn_problem *p)
{
    if (!check_on_device(c)) return;
    if (p->kv_dtype == PKV_BF16 || (p->is_mla && p->rope_dtype == PKV_BF16)) p->q_dtype = PKV_BF16;
    else if (p->q_dtype == PKV_F32 && p->kv_dtype == PKV_F16) p->q_dtype = PKV_F16;
    else if (p->q_dtype == PKV_F32)
        p->q_dtype = rng_chance(&c->device_rng, 50) ? PKV_F16 : PKV_BF16;
}

void attn_fill(struct check *c, struct attn_problem *p)
{
    fit_queries(c, p);
    const int32_t k_row = p->n_kv_heads * p->k_dim, v_row = attn_v_heads(p) * p->v_dim;
    attn_lay_rows(p);
    describe(c, p);
    p->q = draw_array(&c->rng, p, OF_Q, p->n_rows, p->n_q_heads * attn_q_dim(p));
    if (p->is_mla)
        p->q_rope = draw_array(&c->rng, p, OF_Q_ROPE, p->n_rows, p->n_q_heads * p->v_dim);
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t from = p->shared_with[b];
        const size_t shared = (size_t)(from < 0 ? 0 : p->shared_blocks[b] * p->block_tokens);
        p->k[b] = draw_array(&c->rng, p, OF_K, p->kv_len[b], k_row);
        p->v[b] = draw_array(&c->rng, p, OF_V, p->kv_len[b], v_row);
        if (from < 0) continue;
        memcpy(p->k[b], p->k[from], shared * (size_t)k_row * sizeof(float));
        memcpy(p->v[b], p->v[from], shared * (size_t)v_row * sizeof(float));
    }
    attn_fill_scales(c, p);
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
    one.k_scale.of[0] = p->k_scale.of[b];
    one.k_zero.of[0] = p->k_zero.of[b];
    one.v_scale.of[0] = p->v_scale.of[b];
    one.v_zero.of[0] = p->v_zero.of[b];
    one.q = p->q + (size_t)p->row0[b] * (size_t)(p->n_q_heads * attn_q_dim(p));
    if (p->is_mla) one.q_rope = p->q_rope + (int64_t)p->row0[b] * p->n_q_heads * p->v_dim;
    if (p->q_pos) one.q_pos = p->q_pos + p->row0[b];
    if (p->mask) one.mask = p->mask + (int64_t)p->row0[b] * p->mask_words;
    return one;
}

struct attn_problem attn_some_rows(const struct attn_problem *p, int32_t b, int32_t from,
                                   int32_t to)
{
    struct attn_problem part = attn_alone(p, b);
    part.q += (int64_t)from * p->n_q_heads * attn_q_dim(p);
    if (p->is_mla) part.q_rope += (int64_t)from * p->n_q_heads * p->v_dim;
    part.q_len[0] = part.n_rows = to - from;
    part.kv_len[0] = p->kv_len[b] - p->q_len[b] + to;
    part.with_q_indptr = true;
    return part;
}

static void free_numbers(struct attn_numbers *n, int32_t n_seqs)
{
    for (int32_t b = 0; b < n_seqs; b++) free(n->of[b]);
}

void attn_free(struct attn_problem *p)
{
    for (int32_t b = 0; b < p->n_seqs; b++) {
        free(p->k[b]);
        free(p->v[b]);
    }
    free_numbers(&p->k_scale, p->n_seqs);
    free_numbers(&p->k_zero, p->n_seqs);
    free_numbers(&p->v_scale, p->n_seqs);
    free_numbers(&p->v_zero, p->n_seqs);
    free(p->q);
    free(p->q_rope);
    free(p->q_pos);
    free(p->mask);
}
