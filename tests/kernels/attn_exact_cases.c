/* Attention where the result is known to the bit: planted data, empty rows, merges of splits. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static double out_at(const struct attn_problem *p, const struct attn_result *r, int32_t row,
                     int32_t head, int32_t d)
{
    return oracle_load(p->q_dtype, r->o, ((int64_t)row * p->n_q_heads + head) * p->v_dim + d);
}

static float lse_at(const struct attn_problem *p, const struct attn_result *r, int32_t row,
                    int32_t head)
{
    return r->lse[row * p->n_q_heads + head];
}

static double number_at(const struct attn_numbers *n, int32_t b, int64_t row, double absent)
{
    return n->of[b] ? (double)n->of[b][row] : absent;
}

static double v_at(const struct attn_problem *p, int32_t b, int32_t key, int32_t head, int32_t d)
{
    const int32_t g = head / (p->n_q_heads / p->n_kv_heads);
    const int64_t row = (int64_t)key * p->n_kv_heads + g;
    const double code = (double)p->v[b][row * p->v_dim + d];
    return number_at(&p->v_scale, b, row, 1) * (code - number_at(&p->v_zero, b, row, 0));
}

/* One number for all keys. */
static void set_numbers(const struct attn_problem *p, struct attn_numbers *n, float x)
{
    for (int32_t b = 0; b < p->n_seqs; b++)
        for (int32_t i = 0; i < p->kv_len[b] * p->n_kv_heads && n->of[b]; i++) n->of[b][i] = x;
}

static void run_and_keep(struct check *c, struct attn_problem *p, struct attn_result *r)
{
    const struct attn_layout layout = attn_draw_layout(c);
    attn_try(c, p, &layout, r);
}

/* One visible key: o is v, rounded to the type of out, whatever q and k are. */
static void one_key(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.q_dtype = (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16);
    p.n_q_heads = rng_int(&c->rng, 1, 9);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 32);
    p.n_seqs = 3;
    p.values = rng_chance(&c->rng, 30) ? VALUES_HUGE : VALUES_NORMAL;
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_TOKEN, SCALE_EXACT);
    const bool window = rng_chance(&c->rng, 50);
    if (window) p.opts.window_left = 0;
    for (int32_t b = 0; b < p.n_seqs; b++) p.kv_len[b] = window ? rng_int(&c->rng, 1, 50) : 1;
    attn_fill(c, &p);
    run_and_keep(c, &p, &r);
    for (int32_t b = 0; b < p.n_seqs; b++)
        for (int32_t h = 0; h < p.n_q_heads; h++)
            for (int32_t d = 0; d < p.v_dim; d++) {
                const double want = oracle_round(p.q_dtype, v_at(&p, b, p.kv_len[b] - 1, h, d));
                CHECK(c, out_at(&p, &r, b, h, d) == want,
                      "one key: sequence %d head %d dim %d: "
                      "%.9g, must be v = %.9g",
                      b, h, d, out_at(&p, &r, b, h, d), want);
            }
    attn_result_free(&r);
    attn_free(&p);
}

/* All keys equal, and all values: o is v. The number of keys is a power of two, so that 1 / l is
 * exact; with 16-bit stores the sums of equal values are exact, too. */
static void equal_keys(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.values = VALUES_EQUAL;
    p.kv_len[0] = 1 << rng_int(&c->rng, 0, 8);
    p.q_len[0] = 1;
    p.n_q_heads = rng_int(&c->rng, 1, 5);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 20);
    attn_set_scales(&p, PER_HEAD, PER_TENSOR, SCALE_EXACT);
    attn_fill(c, &p);
    for (int32_t i = 0; i < p.kv_len[0] * p.v_dim; i++) /* 8 bits: 256 sums stay exact */
        if (i >= p.v_dim) p.v[0][i] = p.v[0][i - p.v_dim];
        else if (!attn_is_codes(c->dtype)) p.v[0][i] = (float)rng_int(&c->rng, -128, 127) / 16.f;
    run_and_keep(c, &p, &r);
    for (int32_t h = 0; h < p.n_q_heads; h++)
        for (int32_t d = 0; d < p.v_dim; d++)
            CHECK(c, out_at(&p, &r, 0, h, d) == oracle_round(p.q_dtype, v_at(&p, 0, 0, h, d)),
                  "equal keys: head %d dim %d: %.9g, must be v = %.9g", h, d,
                  out_at(&p, &r, 0, h, d), v_at(&p, 0, 0, h, d));
    attn_result_free(&r);
    attn_free(&p);
}

/* One logit so far above the others that their weights are exactly 0: o is that key's v. The key
 * stands at any place, also in the last, short block. */
static void winner(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.kv_len[0] = rng_int(&c->rng, 1, 300);
    p.n_q_heads = rng_int(&c->rng, 1, 5);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 20);
    p.opts.scale = 1.f;
    attn_set_scales(&p, PER_TOKEN_HEAD, PER_TOKEN_HEAD, SCALE_EXACT);
    attn_fill(c, &p);
    set_numbers(&p, &p.k_scale, 4.f);
    set_numbers(&p, &p.k_zero, 0.f);
    const float most = attn_is_codes(c->dtype) ? 8.f : 32.f;
    const int32_t key = rng_int(&c->rng, 0, p.kv_len[0] - 1);
    for (int32_t h = 0; h < p.n_q_heads; h++) p.q[h * p.k_dim] = 32.f;
    for (int32_t j = 0; j < p.kv_len[0]; j++)
        for (int32_t d = 0; d < p.k_dim; d++)
            p.k[0][j * p.k_dim + d] = d == 0 && j == key ? most : 0.f;
    run_and_keep(c, &p, &r);
    for (int32_t h = 0; h < p.n_q_heads; h++)
        for (int32_t d = 0; d < p.v_dim; d++) {
            const double want = oracle_round(p.q_dtype, v_at(&p, 0, key, h, d));
            CHECK(c, out_at(&p, &r, 0, h, d) == want,
                  "winner: key %d head %d dim %d: %.9g, must be v = %.9g", key, h, d,
                  out_at(&p, &r, 0, h, d), want);
        }
    for (int32_t h = 0; h < p.n_q_heads; h++)
        CHECK(c, lse_at(&p, &r, 0, h) == 1024.f, "winner: lse %.9g, must be 1024",
              (double)lse_at(&p, &r, 0, h));
    attn_result_free(&r);
    attn_free(&p);
}

/* KT1, KT3, KT4: rows without a key are (0, -inf), or (0, sink); sequences of length 0 are written.
 */
static void empty_rows(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.n_seqs = 5;
    for (int32_t b = 0; b < p.n_seqs; b++) p.kv_len[b] = b % 2 ? 5 : 0;
    p.q_len[1] = rng_chance(&c->rng, 50) ? 1 : 9; /* more rows than keys */
    p.q_len[4] = 2;
    p.n_q_heads = 3;
    p.k_dim = p.v_dim = rng_chance(&c->rng, 50) ? 64 : 8;
    if (c->seed % 2) attn_draw_option(c, &p, OPTION_SINK);
    attn_fill(c, &p);
    run_and_keep(c, &p, &r);
    for (int32_t b = 0; b < p.n_seqs; b++)
        for (int32_t i = 0; i < p.q_len[b] && i < p.q_len[b] - p.kv_len[b]; i++)
            for (int32_t h = 0; h < p.n_q_heads; h++) {
                const float want = p.opts.sink ? p.sink[h] : -INFINITY;
                CHECK(c, lse_at(&p, &r, p.row0[b] + i, h) == want,
                      "empty row: lse %.9g, must be %.9g", (double)lse_at(&p, &r, p.row0[b] + i, h),
                      (double)want);
            }
    attn_result_free(&r);
    attn_free(&p);
}

/* NaN (or infinity) in a K or V row, or in its scale, where codes have none: then in all dims. */
static bool plant_nan(struct check *c, struct attn_problem *p, int32_t b, bool in_k, int32_t key,
                      int32_t dim, float x)
{
    const bool has_code = c->dtype <= PKV_BF16 || c->dtype == PKV_E5M2 ||
                          (c->dtype == PKV_E4M3 && isnan(x) && check_e4m3_nan(c));
    const bool by_scale = !has_code || (attn_is_codes(c->dtype) && rng_chance(&c->rng, 30));
    if (by_scale) (in_k ? &p->k_scale : &p->v_scale)->of[b][key] = x;
    else (in_k ? p->k[b] : p->v[b])[key * p->k_dim + dim] = x;
    return by_scale;
}

/* A logit of -inf for a q of ones. */
static void take_weight(struct attn_problem *p, int32_t key, int32_t dim)
{
    float *k = p->k[0] + key * p->k_dim;
    if (!attn_is_codes(p->kv_dtype)) {
        k[dim] = -INFINITY;
        return;
    }
    if (p->k_zero.of[0]) p->k_zero.of[0][key] = 0.f;
    p->k_scale.of[0][key] = p->kv_dtype == PKV_E5M2 ? 1.f : -INFINITY;
    if (p->kv_dtype == PKV_E5M2) k[dim] = -INFINITY;
    else
        for (int32_t d = 0; d < p->k_dim; d++) k[d] = 1.f;
}

/* A NaN in sight is not lost: in K it makes the whole row and its lse NaN, in V its dim. Sequences
 * that do not see it are right. */
static void nan_key(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 }, clean = { 0 };
    bool wrong[ATTN_MAX_SEQS] = { false };
    p.n_seqs = 3;
    p.n_q_heads = rng_int(&c->rng, 1, 9);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 16);
    for (int32_t b = 0; b < p.n_seqs; b++) p.kv_len[b] = rng_int(&c->rng, 1, 300);
    attn_fill(c, &p);
    run_and_keep(c, &p, &clean);
    const int32_t b = rng_int(&c->rng, 0, 2), key = rng_int(&c->rng, 0, p.kv_len[b] - 1);
    const int32_t dim = rng_int(&c->rng, 0, p.k_dim - 1);
    const bool in_k = c->seed % 2;
    const bool by_scale = plant_nan(c, &p, b, in_k, key, dim, NAN);
    wrong[b] = true;

    struct attn_instance inst;
    const struct attn_layout layout = attn_draw_layout(c);
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &r) == PKV_OK, "refused");
    attn_same_bits(c, &p, &clean, &r, wrong, "another sequence's NaN");
    for (int32_t h = 0; h < p.n_q_heads; h++) {
        for (int32_t d = 0; d < p.v_dim; d++)
            CHECK(c, isnan(out_at(&p, &r, b, h, d)) || !(in_k || by_scale || d == dim),
                  "NaN in %s of key %d, dim %d: head %d dim %d is %.9g", in_k ? "K" : "V", key, dim,
                  h, d, out_at(&p, &r, b, h, d));
        CHECK(c, isnan(lse_at(&p, &r, b, h)) == in_k, "NaN in %s of key %d: lse of head %d is %.9g",
              in_k ? "K" : "V", key, h, (double)lse_at(&p, &r, b, h));
    }
    attn_result_free(&r);
    attn_result_free(&clean);
    attn_destroy(&inst);
    attn_free(&p);
}

/* Every visible key has logit -inf: as if no key were visible. A sink of -inf is no sink. */
static void no_weight(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    struct attn_instance inst;
    const struct attn_layout layout = attn_draw_layout(c);
    p.n_q_heads = rng_int(&c->rng, 1, 9);
    p.k_dim = p.v_dim = 16 * rng_int(&c->rng, 1, 8);
    p.kv_len[0] = rng_int(&c->rng, 1, 100);
    p.base2 = false;
    for (int32_t h = 0; h < p.n_q_heads; h++)
        p.sink[h] = rng_chance(&c->rng, 60) ? -INFINITY : 3.f * rng_signed(&c->rng);
    if (c->seed % 4) p.opts.sink = p.sink;
    attn_fill(c, &p);
    for (int32_t i = 0; i < p.n_q_heads * p.k_dim; i++) p.q[i] = 1.f;
    for (int32_t j = 0; j < p.kv_len[0]; j++) take_weight(&p, j, j % p.k_dim);
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &r) == PKV_OK, "refused");
    for (int32_t h = 0; h < p.n_q_heads; h++) {
        const float want = p.opts.sink ? p.sink[h] : -INFINITY;
        const bool same = isinf(want) ? lse_at(&p, &r, 0, h) == want
                                      : fabsf(lse_at(&p, &r, 0, h) - want) <= 1e-6f;
        CHECK(c, same, "no weight: lse of head %d is %.9g, must be %.9g", h,
              (double)lse_at(&p, &r, 0, h), (double)want);
        for (int32_t d = 0; d < p.v_dim; d++)
            CHECK(c, out_at(&p, &r, 0, h, d) == 0, "no weight: head %d dim %d is %.9g", h, d,
                  out_at(&p, &r, 0, h, d));
    }
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_free(&p);
}

/* A NaN in V of a key with logit -inf: reaches its dim of its own sequence or does not, and nothing
 * else. */
static void nan_without_weight(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 }, clean = { 0 };
    const bool wrong[ATTN_MAX_SEQS] = { true };
    struct attn_instance inst;
    p.n_seqs = 2;
    p.n_q_heads = rng_int(&c->rng, 1, 9);
    p.k_dim = p.v_dim = 16 * rng_int(&c->rng, 1, 8);
    p.kv_len[0] = rng_int(&c->rng, 2, 100);
    attn_fill(c, &p);
    for (int32_t i = 0; i < p.n_q_heads * p.k_dim; i++) p.q[i] = 1.f;
    const int32_t key = rng_int(&c->rng, 0, p.kv_len[0] - 1),
                  dim = rng_int(&c->rng, 0, p.v_dim - 1);
    take_weight(&p, key, rng_int(&c->rng, 0, p.k_dim - 1));
    const struct attn_layout layout = attn_draw_layout(c);
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &clean) == PKV_OK, "refused");
    attn_destroy(&inst);
    const bool all_dims = plant_nan(c, &p, 0, false, key, dim, c->seed % 2 ? NAN : INFINITY);
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &r) == PKV_OK, "refused");
    attn_same_bits(c, &p, &clean, &r, wrong, "another sequence's NaN");
    CHECK(c, memcmp(clean.lse, r.lse, r.lse_bytes) == 0, "a NaN without weight changes lse");
    for (int32_t h = 0; h < p.n_q_heads; h++)
        for (int32_t d = 0; d < p.v_dim; d++) {
            const double got = out_at(&p, &r, 0, h, d), want = out_at(&p, &clean, 0, h, d);
            CHECK(c, got == want || ((all_dims || d == dim) && isnan(got)),
                  "NaN in V of key %d, dim %d, without weight: head %d dim %d is %.9g, not %.9g",
                  key, dim, h, d, got, want);
        }
    attn_result_free(&r);
    attn_result_free(&clean);
    attn_destroy(&inst);
    attn_free(&p);
}

/* Logits of usual size though a product of some of q, scale, softcap and log2(e) is beyond float:
 * levels that fold them into one must not lose the result. Of two kv heads one alone has a q that
 * is too large, so that a layout that has them read apart must not change bits. */
static void far_scale(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 }, again = { 0 };
    const int32_t kind = (int32_t)(c->seed % 3);
    if (check_on_device(c) && c->dtype != PKV_BF16) check_stop(c, "queries of a wide range only");
    p.q_dtype = PKV_F32;
    p.n_kv_heads = 2;
    p.n_q_heads = 2 * rng_int(&c->rng, 1, 5);
    p.k_dim = p.v_dim = 16 * rng_int(&c->rng, 1, 8);
    p.kv_len[0] = rng_int(&c->rng, 1, 100);
    p.opts.scale = kind == 0 ? 0x1p30f : kind == 1 ? 0x1.8p127f : 0x1p-3f;
    if (kind == 2) p.opts.softcap = 0x1p-140f;
    attn_fill(c, &p);
    const int32_t half = p.n_q_heads / 2 * p.k_dim; /* elements of q that belong to one kv head */
    const float tiny = c->dtype == PKV_F16 ? 0.f : 0x1p-126f;
    for (int32_t i = 0; i < 2 * half && kind != 2; i++) {
        const float by = kind == 1 ? 0x1p-122f : i < half ? 0x1p98f : 0x1p-25f;
        p.q[i] = (float)oracle_round(p.q_dtype, (double)(p.q[i] * by)); /* below the normal range */
    }
    for (int32_t i = 0; i < p.kv_len[0] * 2 * p.k_dim && kind == 0; i++)
        if (i / p.k_dim % 2 == 0) p.k[0][i] = tiny * (float)rng_int(&c->rng, -2, 2);
    run_and_keep(c, &p, &r);
    run_and_keep(c, &p, &again);
    attn_same_bits(c, &p, &r, &again, NULL, "another layout");
    attn_result_free(&r);
    attn_result_free(&again);
    attn_free(&p);
}

/* ALiBi of a key further from its row than float counts: the distance is rounded once, and nothing
 * else is where the slope is a power of two and logits are 0. Rows see the last key alone. */
static void far_rows(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct attn_result r = { 0 };
    p.n_q_heads = rng_int(&c->rng, 1, 4);
    p.k_dim = p.v_dim = 8 * rng_int(&c->rng, 1, 16);
    p.q_len[0] = c->seed % 2 ? rng_int(&c->rng, 33, 70) : 1;
    p.kv_len[0] = rng_int(&c->rng, 1, 200);
    attn_draw_option(c, &p, OPTION_DETACHED);
    attn_draw_option(c, &p, OPTION_ALIBI);
    const int32_t last = p.kv_len[0] - 1, ahead = (1 << 25) + rng_int(&c->rng, 1, 1 << 20);
    attn_fill(c, &p);
    for (int32_t i = 0; i < p.q_len[0]; i++) p.q_pos[i] = ahead + last;
    p.pos0[0] = 0;
    p.opts.window_left = ahead;
    memset(p.q, 0, (size_t)p.n_rows * (size_t)(p.n_q_heads * p.k_dim) * sizeof(float));
    run_and_keep(c, &p, &r);
    for (int32_t i = 0; i < p.q_len[0]; i++)
        for (int32_t h = 0; h < p.n_q_heads; h++) {
            const float want = -p.alibi[h] * (float)ahead;
            CHECK(c, lse_at(&p, &r, i, h) == want,
                  "row %d of %d, %d behind: lse %.9g, must be %.9g", i, p.q_len[0], ahead,
                  (double)lse_at(&p, &r, i, h), (double)want);
        }
    attn_result_free(&r);
    attn_free(&p);
}

/* KT5: both bases say the same. */
static void bases(struct check *c)
{
    struct attn_problem p = attn_draw_ragged(c);
    struct attn_result nat = { 0 }, two = { 0 };
    p.with_lse = true;
    p.base2 = false;
    attn_fill(c, &p);
    run_and_keep(c, &p, &nat);
    p.base2 = true;
    run_and_keep(c, &p, &two);
    CHECK(c, memcmp(nat.o, two.o, nat.o_bytes) == 0, "the base of lse changes out");
    for (int32_t i = 0; i < p.n_rows * p.n_q_heads; i++) {
        const double want = (double)nat.lse[i] / log(2);
        const bool same = isinf(nat.lse[i])
                              ? (double)two.lse[i] == want
                              : fabs((double)two.lse[i] - want) <= 0x1p-22 * (fabs(want) + 4);
        CHECK(c, same, "lse %.9g in base 2, want %.9g", (double)two.lse[i], want);
    }
    attn_result_free(&nat);
    attn_result_free(&two);
    attn_free(&p);
}

const struct check_case attn_exact_cases[] = {
    { "attention", "one_key", one_key, 30, 10, TYPED_STORES },
    { "attention", "equal_keys", equal_keys, 30, 10, TYPED_STORES },
    { "attention", "winner", winner, 30, 10, TYPED_STORES },
    { "attention", "empty_rows", empty_rows, 12, 4, TYPED_STORES },
    { "attention", "nan_key", nan_key, 20, 8, TYPED_STORES },
    { "attention", "no_weight", no_weight, 24, 8, TYPED_STORES },
    { "attention", "nan_without_weight", nan_without_weight, 12, 6, TYPED_STORES },
    { "attention", "far_scale", far_scale, 24, 8, TYPED_FLOATS },
    { "attention", "far_rows", far_rows, 24, 8, TYPED_STORES },
    { "attention", "bases", bases, 20, 4, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
