/* Every code of K and V, and every kind of number: each is read as what it means, to the bit. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <string.h>

/* Code `i` of the type as a number; of the wider types a random pattern. */
static float number(struct rng *r, pkv_dtype dtype, int32_t i)
{
    const uint32_t pattern = (uint32_t)rng_next(r);
    float x;
    if (dtype == PKV_U4) return (float)oracle_value8(dtype, (uint8_t)(i % 16));
    if (attn_is_codes(dtype)) return (float)oracle_value8(dtype, (uint8_t)i);
    if (dtype != PKV_F32) return (float)oracle_value16(dtype, (uint16_t)pattern);
    memcpy(&x, &pattern, sizeof(x));
    return x;
}

/* What a device of the program takes for no NaN is not planted. */
static float planted(struct check *c, pkv_dtype dtype, int32_t i)
{
    const float x = number(&c->rng, dtype, i);
    return isnan(x) && dtype == PKV_E4M3 && !check_e4m3_nan(c) ? 1.f : x;
}

/* The logit of an infinity is NaN or none at all; that has its own cases. */
static float finite_or_nan(float x)
{
    return isinf(x) ? copysignf(1.f, x) : x;
}

static bool same_number(double got, double want)
{
    return isnan(want) ? isnan(got) : got == want;
}

/* Each row sees one key, whose K is zero but for one dim, where q is 1. */
static void plant(struct check *c, struct attn_problem *p)
{
    struct rng *r = &c->rng;
    const int32_t at = rng_int(r, 0, p->k_dim - 1);
    for (int32_t i = 0; i < p->n_rows * p->k_dim; i++) p->q[i] = i % p->k_dim == at;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        float *k = p->k[b] + (p->kv_len[b] - 1) * p->k_dim;
        float *v = p->v[b] + (p->kv_len[b] - 1) * p->v_dim;
        const int32_t code = (int32_t)(c->seed / 2 * p->n_seqs) + b;
        for (int32_t d = 0; d < p->k_dim; d++) k[d] = 0.f;
        k[at] = finite_or_nan(planted(c, p->kv_dtype, code));
        for (int32_t d = 0; d < p->v_dim; d++) v[d] = planted(c, p->kv_dtype, code + d);
    }
}

static void judge(struct check *c, const struct attn_problem *p, const struct attn_result *r)
{
    for (int32_t b = 0; b < p->n_seqs; b++)
        for (int32_t i = p->row0[b]; i < p->row0[b] + p->q_len[b]; i++) {
            const int32_t key = p->kv_len[b] - 1;
            const double k_scale = p->k_scale.of[b] ? (double)p->k_scale.of[b][key] : 1;
            const double k_zero = p->k_zero.of[b] ? (double)p->k_zero.of[b][key] : 0;
            const double v_scale = p->v_scale.of[b] ? (double)p->v_scale.of[b][key] : 1;
            const double v_zero = p->v_zero.of[b] ? (double)p->v_zero.of[b][key] : 0;
            double code = 0;
            for (int32_t d = 0; d < p->k_dim; d++)
                if (p->q[i * p->k_dim + d] > 0) code = (double)p->k[b][key * p->k_dim + d];
            const double z = k_scale * (code - k_zero);
            CHECK(c, same_number((double)r->lse[i], z),
                  "K %.9g of sequence %d: lse %.9g, must be %.9g", code, b, (double)r->lse[i], z);
            for (int32_t d = 0; d < p->v_dim; d++) {
                const double v = (double)p->v[b][key * p->v_dim + d];
                const double want = isnan(z) ? z : v_scale * (v - v_zero);
                const double got = oracle_load(p->q_dtype, r->o, (int64_t)i * p->v_dim + d);
                CHECK(c, same_number(got, oracle_round(p->q_dtype, want)),
                      "V %.9g of sequence %d dim %d: %.9g, must be %.9g", v, b, d, got, want);
            }
        }
}

static void every_code(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_instance inst;
    struct attn_result r = { 0 };
    const bool is_long = c->seed % 2;
    p.q_dtype = PKV_F32;
    p.n_q_heads = 1;
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 8);
    p.n_seqs = 64;
    p.opts.scale = 1.f;
    if (is_long) p.opts.causal = 0;
    else p.opts.window_left = 0;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.q_len[b] = is_long ? 33 : 1;
        p.kv_len[b] = is_long ? 1 : rng_int(&c->rng, 1, 40);
    }
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_TOKEN_HEAD, SCALE_EXACT);
    attn_fill(c, &p);
    plant(c, &p);
    const struct attn_layout layout = attn_draw_layout(c);
    struct attn_route routes[ATTN_MAX_SEQS];
    attn_build(c, &p, &layout, &inst);
    attn_routes(c, &inst, routes);
    CHECK(c, attn_call(c, &inst, &r) == PKV_OK, "refused");
    judge(c, &p, &r);
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_free(&p);
}

const struct check_case attn_code_cases[] = {
    { "attention", "every_code", every_code, 16, 8, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
