/* Latent attention: rows shared by keys and values, parts with scales of their own. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <string.h>

/* A device reads rotary parts of 16 bits, of the latent's type where that has 16 bits as well, and
 * no zero points. */
static void fit_to_device(struct check *c, struct attn_problem *p)
{
    if (!check_on_device(c)) return;
    p->rope_dtype = attn_is_codes(p->kv_dtype)
                        ? (pkv_dtype)rng_int(&c->device_rng, PKV_F16, PKV_BF16)
                        : p->kv_dtype;
    p->v_scale.per = p->k_zero.per = p->v_zero.per = PER_NONE;
}

static struct attn_problem usual(struct check *c)
{
    struct rng *r = &c->rng;
    static const int32_t parts[][2] = { { 1, 512 }, { 1, 64 }, { 2, 256 }, { 4, 128 },
                                        { 1, 8 },   { 1, 8 },  { 4, 16 },  { 8, 32 } };
    struct attn_problem p = attn_usual(c);
    const int32_t kind = rng_int(r, 0, 7);
    p.is_mla = true;
    p.rope_dtype = rng_chance(r, 50) ? p.kv_dtype : (pkv_dtype)rng_int(r, PKV_F32, PKV_U4);
    p.q_dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    p.n_kv_heads = parts[kind][0];
    p.k_dim = parts[kind][1];
    p.v_dim = 8 * rng_int(r, 1, p.k_dim == 8 ? 1 : 16);
    if (p.k_dim == 8)
        p.q_dtype = PKV_F32; /* few dims, nothing rounded: shows how tight bounds are */
    p.n_q_heads = rng_chance(r, 20) ? 128 : rng_int(r, 1, 18);
    p.block_tokens = rng_int(r, 1, 70);
    p.n_seqs = rng_int(r, 1, 4);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(r, 0, rng_chance(r, 20) ? 300 : rng_chance(r, 30) ? 3 : 60);
        if (p.k_dim == 8) p.kv_len[b] = rng_int(r, 1, 3);
        p.q_len[b] = rng_chance(r, 60) ? 1 : rng_int(r, 0, 5);
        p.pos0[b] = rng_int(r, 0, 1000);
    }
    p.with_pos0 = rng_chance(r, 30);
    attn_draw_scales(c, &p);
    fit_to_device(c, &p);
    return p;
}

static void run(struct check *c, struct attn_problem *p, const struct attn_layout *layout)
{
    struct attn_result r = { 0 };
    attn_fill(c, p);
    attn_try(c, p, layout, &r);
    attn_result_free(&r);
    attn_free(p);
}

static void latent(struct check *c)
{
    struct attn_problem p = usual(c);
    const struct attn_layout layout = attn_draw_layout(c);
    p.values = rng_chance(&c->rng, 20) ? (enum attn_values)rng_int(&c->rng, 0, VALUES_N - 1)
                                       : VALUES_NORMAL;
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    p.opts.int8_qk = 0;
    run(c, &p, &layout);
}

/* The 656-byte record: 512 e4m3 codes with a scale per 128, 64 bf16, one after the other. */
static void record(struct check *c)
{
    struct attn_problem p = usual(c);
    struct attn_layout layout = attn_draw_layout(c);
    p.kv_dtype = PKV_E4M3;
    p.rope_dtype = PKV_BF16;
    p.n_kv_heads = 4;
    p.k_dim = 128;
    p.v_dim = 64;
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_NONE, SCALE_USUAL);
    layout.order = ORDER_CANONICAL;
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 1));
    p.opts.int8_qk = 0;
    run(c, &p, &layout);
    c->ratio = 0; /* a logit's bound is wide for 576 dims; other runs say how tight the rest is */
}

/* Other blocks, orders and strides; alone and in a batch: the same bits. */
static void latent_bits(struct check *c)
{
    struct attn_problem p = usual(c);
    struct attn_result first = { 0 }, other = { 0 };
    struct attn_layout layout = attn_draw_layout(c);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 1));
    p.opts.int8_qk = 0;
    attn_make_invariant(c, &p);
    attn_fill(c, &p);
    attn_try(c, &p, &layout, &first);
    for (int i = 0; i < TABLE_N; i++) {
        layout = attn_draw_layout(c);
        layout.table = (enum attn_table)i;
        layout.fill = i == 1 ? 0x7f : 0xff;
        attn_try(c, &p, &layout, &other);
        attn_same_bits(c, &p, &first, &other, NULL, "renaming blocks and strides");
        attn_result_free(&other);
    }
    for (int32_t b = 0; b < p.n_seqs; b++) {
        struct attn_problem one = attn_alone(&p, b);
        if (p.q_len[b] != 1) one.with_q_indptr = true;
        attn_try(c, &one, &layout, &other);
        attn_same_part(c, &p, &first, p.row0[b], &other, one.n_rows, "company");
        attn_result_free(&other);
    }
    attn_result_free(&first);
    attn_free(&p);
}

/* ---- infinities under a soft cap ------------------------------------------------------------- */
enum infinite_place { IN_LATENT, IN_SCALE, IN_ROPE, IN_Q, N_PLACES };

static bool has_infinity(pkv_dtype dtype)
{
    return !attn_is_codes(dtype) || dtype == PKV_E5M2;
}

/* Where an infinity goes: an element of sequence 0 whose factors are not 0. */
struct infinity {
    enum infinite_place place;
    int32_t key, part, dim, row, head;
    float *at;
    float huge; /* with which logits are the cap, too */
};

static struct infinity choose_infinity(struct check *c, const struct attn_problem *p)
{
    struct rng *r = &c->rng;
    struct infinity x = { .place = (enum infinite_place)(c->seed % N_PLACES),
                          .key = rng_int(r, 0, p->kv_len[0] - 1),
                          .part = rng_int(r, 0, p->n_kv_heads - 1),
                          .row = rng_int(r, 0, p->q_len[0] - 1),
                          .head = rng_int(r, 0, p->n_q_heads - 1) };
    if (x.place == IN_ROPE && !has_infinity(p->rope_dtype)) x.place = IN_LATENT;
    if (x.place == IN_LATENT && !has_infinity(p->kv_dtype)) x.place = IN_SCALE;
    if (x.place == IN_SCALE && !attn_is_codes(p->kv_dtype)) x.place = IN_LATENT;
    x.dim = rng_int(r, 0, (x.place == IN_ROPE ? p->v_dim : p->k_dim) - 1);
    const int64_t at = (int64_t)x.key * p->n_kv_heads + x.part, q_dim = attn_q_dim(p);
    const int64_t query = x.row * p->n_q_heads + x.head;
    const pkv_dtype dtype = x.place == IN_ROPE ? p->rope_dtype
                            : x.place == IN_Q  ? p->q_dtype
                                               : p->kv_dtype;
    x.at = x.place == IN_LATENT  ? &p->k[0][at * p->k_dim + x.dim]
           : x.place == IN_SCALE ? &p->k_scale.of[0][at]
           : x.place == IN_ROPE  ? &p->v[0][(int64_t)x.key * p->v_dim + x.dim]
                                 : &p->q[query * q_dim + x.part * p->k_dim + x.dim];
    x.huge = x.place == IN_SCALE
                 ? 0x1p100f
                 : (float)oracle_round(dtype, fmin(oracle_largest(dtype), 1e30) / 2);
    return x;
}

/* Nothing that an infinity is multiplied by is 0; under an infinite scale all terms of a product
 * have one sign. */
static void plant_factors(struct check *c, const struct attn_problem *p, const struct infinity *x)
{
    const int64_t n_queries = (int64_t)p->q_len[0] * p->n_q_heads;
    const int32_t lo = x->place == IN_SCALE ? 0 : x->dim;
    const int32_t hi = x->place == IN_SCALE ? p->k_dim : x->dim + 1;
    for (int64_t i = 0; i < n_queries; i++) {
        const float q = rng_chance(&c->rng, 50) ? 2.f : -1.5f;
        float *row = x->place == IN_ROPE ? p->q_rope + i * p->v_dim
                                         : p->q + i * attn_q_dim(p) + (int64_t)x->part * p->k_dim;
        for (int32_t d = lo; d < hi; d++) row[d] = q;
    }
    for (int32_t j = 0; j < p->kv_len[0] && x->place != IN_ROPE; j++)
        for (int32_t d = lo; d < hi; d++)
            p->k[0][((int64_t)j * p->n_kv_heads + x->part) * p->k_dim + d] = 1.f;
}

/* An infinity beside a number for which the logit is the cap as well: the same bits everywhere but
 * where V holds the infinity, in rows that see it. */
static void judge_infinity(struct check *c, const struct attn_problem *p, const struct infinity *x,
                           const struct attn_result *got, const struct attn_result *huge)
{
    const struct oracle_seq s = attn_oracle(p, 0);
    const int32_t dim = attn_o_dim(p), first = x->part * p->k_dim;
    const float *scale = p->k_scale.of[0];
    const bool turned = scale && scale[x->key * p->n_kv_heads + x->part] < 0;
    const double seen = turned ? -(double)*x->at : (double)*x->at;
    CHECK(c, memcmp(got->lse, huge->lse, got->lse_bytes) == 0, "an infinity changes lse");
    for (int64_t i = 0; i < (int64_t)p->n_rows * p->n_q_heads; i++) {
        const int32_t row = (int32_t)(i / p->n_q_heads);
        const bool sees = row < p->q_len[0] && x->place != IN_Q && x->place != IN_ROPE &&
                          oracle_sees(&s, row, x->key);
        for (int32_t d = 0; d < dim; d++) {
            const double o = oracle_load(p->q_dtype, got->o, i * dim + d);
            const double want = oracle_load(p->q_dtype, huge->o, i * dim + d);
            const bool of_scale = x->place == IN_SCALE && d >= first && d < first + p->k_dim;
            if (sees && (of_scale || d == first + x->dim))
                CHECK(c, of_scale ? !isfinite(o) : o == seen,
                      "row %d dim %d sees an infinity, and is %g", row, d, o);
            else
                CHECK(c, o == want, "an infinity in key %d, dim %d, changes row %d dim %d: %g, %g",
                      x->key, first + x->dim, row, d, o, want);
        }
    }
}

static void infinite(struct check *c)
{
    static const enum attn_option options[] = { OPTION_NOT_CAUSAL,   OPTION_WINDOW,
                                                OPTION_WINDOW_RIGHT, OPTION_MASK,
                                                OPTION_TREE,         OPTION_Q_POS,
                                                OPTION_SCALE,        OPTION_BASE2 };
    struct attn_problem p = usual(c);
    struct attn_result huge = { 0 }, got = { 0 };
    const struct attn_layout layout = attn_draw_layout(c);
    struct attn_instance inst;
    p.n_seqs = 2;
    p.kv_len[0] = rng_int(&c->rng, 1, 70);
    p.q_len[0] = rng_int(&c->rng, 1, 12);
    p.opts.scale = 1.f;
    p.opts.softcap = 4.f;
    p.with_lse = true;
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_NONE, SCALE_USUAL);
    fit_to_device(c, &p);
    for (int i = 0; i < 2; i++) attn_draw_option(c, &p, options[rng_int(&c->rng, 0, 7)]);
    attn_fill(c, &p);
    const struct infinity x = choose_infinity(c, &p);
    plant_factors(c, &p, &x);
    const float sign = rng_chance(&c->rng, 50) ? -1.f : 1.f;
    *x.at = sign * x.huge;
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &huge) == PKV_OK, "refused");
    attn_destroy(&inst);
    *x.at = sign * INFINITY;
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &got) == PKV_OK, "refused");
    judge_infinity(c, &p, &x, &got, &huge);
    attn_result_free(&huge);
    attn_result_free(&got);
    attn_destroy(&inst);
    attn_free(&p);
}

const struct check_case attn_mla_cases[] = {
    { "attention_mla", "latent", latent, 40, 8, TYPED_STORES },
    { "attention_mla", "record", record, 20, 4, UNTYPED },
    { "attention_mla", "bits", latent_bits, 8, 2, TYPED_STORES },
    { "attention_mla", "infinite", infinite, 24, 16, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
