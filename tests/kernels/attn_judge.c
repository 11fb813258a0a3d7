/* Judging attention: within docs/numerics.md, and bit by bit. */
#include "attn_problem.h"
#include "oracle/oracle_mla.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void attn_result_free(struct attn_result *r)
{
    free(r->o);
    free(r->lse);
    *r = (struct attn_result){ 0 };
}

static struct oracle_rows rows_of(const float *codes, const struct attn_numbers *scale,
                                  const struct attn_numbers *zero, int32_t b, int32_t dim)
{
    return (struct oracle_rows){ codes, scale->of[b], zero->of[b], dim, 0 };
}

struct oracle_seq attn_oracle(const struct attn_problem *p, int32_t b)
{
    return (struct oracle_seq){
        .q_len = p->q_len[b],
        .kv_len = p->kv_len[b],
        .n_q_heads = p->n_q_heads,
        .n_kv_heads = p->n_kv_heads,
        .q = p->q + (size_t)p->row0[b] * (size_t)(p->n_q_heads * attn_q_dim(p)),
        .k = rows_of(p->k[b], &p->k_scale, &p->k_zero, b, p->k_dim),
        .v = rows_of(p->v[b], &p->v_scale, &p->v_zero, b, p->v_dim),
        .pos0 = p->with_pos0 ? p->pos0[b] : 0,
        .q_pos = p->q_pos ? p->q_pos + p->row0[b] : NULL,
        .q_detached = p->q_detached,
        .scale = (double)p->opts.scale,
        .softcap = (double)p->opts.softcap,
        .window_left = p->opts.window_left,
        .window_right = p->opts.window_right,
        .causal = p->opts.causal,
        .mask = p->mask ? p->mask + (int64_t)p->row0[b] * p->mask_words : NULL,
        .mask_stride = p->mask_words,
        .alibi = p->opts.alibi ? p->alibi : NULL,
        .sink = p->opts.sink ? p->sink : NULL,
    };
}

static void join_latent(const struct attn_problem *p, int32_t b, struct oracle_seq *s)
{
    const struct oracle_mla mla = {
        .kv_len = p->kv_len[b],
        .n_parts = p->n_kv_heads,
        .part_dim = p->k_dim,
        .rope_dim = p->v_dim,
        .latent = p->k[b],
        .latent_scale = p->k_scale.of[b],
        .latent_zero = p->k_zero.of[b],
        .rope = p->v[b],
        .rope_scale = p->v_scale.of[b],
        .rope_zero = p->v_zero.of[b],
        .q_latent = s->q,
        .q_rope = p->q_rope + (int64_t)p->row0[b] * p->n_q_heads * p->v_dim,
    };
    oracle_mla_rows(&mla, s);
}

static int32_t at_most(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Tensor cores: p has the type that they multiply; sums of 16 products, then one after another,
 * each step with its rescaling. */
static struct oracle_path device_path(const struct attn_problem *p, int32_t n, int32_t kv_len)
{
    const bool bf16 = p->kv_dtype == PKV_BF16;
    return (struct oracle_path){
        .terms = 3 * at_most(n, kv_len / 16 + 6),
        .p_roundoff = bf16 ? 0x1p-8 : 0x1p-11,
        .p_step = bf16 ? 0x1p-134 : 0x1p-39,
        .q_step = p->q_dtype == PKV_BF16 && !bf16 ? 0x1p-25 : 0,
        .out = p->q_dtype,
    };
}

struct oracle_path attn_path(const struct attn_problem *p, const struct attn_route *route,
                             int32_t n, int32_t kv_len)
{
    if (route->isa == PKV_ISA_CUDA) return device_path(p, n, kv_len);
    const bool bf16 = !p->is_mla && p->kv_dtype == PKV_BF16 && p->q_dtype == PKV_BF16;
    const bool rounds_p =
        bf16 && !route->is_short && (route->isa == PKV_ISA_AVX512BF16 || route->isa == PKV_ISA_AMX);
    const int32_t chunks = at_most(kv_len, 1024) / 16 + 3 * ((kv_len + 1023) / 1024);
    const int32_t vector = route->is_short ? chunks : 50 + kv_len / 64;
    return (struct oracle_path){
        .terms = route->isa == PKV_ISA_SCALAR ? n : at_most(n, vector),
        .p_roundoff = rounds_p ? 0x1p-8 : 0,
        .flushes = rounds_p,
        .q_step = route->int8_qk ? 0x1.02p-15 : 0,
        .out = p->q_dtype,
    };
}

static void judge_lse(struct check *c, const struct oracle_seq *s, const struct oracle_row *want,
                      const struct oracle_path *path, double got, bool base2, struct attn_place at)
{
    const double lse = base2 ? want->lse / log(2) : want->lse;
    const double bound = oracle_bound_lse(s, want, path, base2), err = fabs(got - lse);
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
                    const struct oracle_path *path, const void *o, struct attn_place at)
{
    for (int32_t d = 0; d < s->v.dim; d++) {
        const double got = oracle_load(path->out, o, d);
        const double bound = oracle_bound_o(s, want, path, d), err = fabs(got - want->o[d]);
        const bool empty = want->n_visible == 0;
        CHECK(c, empty ? got == 0 && !signbit(got) : err <= bound,
              "out of sequence %d row %d head %d dim %d: %.9g, want %.9g, off %.3g, bound %.3g, "
              "%d keys visible",
              at.seq, at.row, at.head, d, got, want->o[d], err, bound, want->n_visible);
        /* How tight the bound is shows where the rounding of the output does not cover all. */
        if (empty || path->out != PKV_F32 || c->failed) continue;
        const double sums = oracle_bound_o_sums(s, want, path, d);
        if (sums > 0x1p-100) c->ratio = fmax(c->ratio, (err - 0x1p-24 * fabs(want->o[d])) / sums);
    }
}

void attn_judge_row(struct check *c, const struct oracle_seq *s, const struct oracle_row *want,
                    const struct oracle_path *path, const void *o, const float *lse, bool base2,
                    struct attn_place at)
{
    judge_o(c, s, want, path, o, at);
    if (lse) judge_lse(c, s, want, path, (double)*lse, base2, at);
}

/* Rows that the oracle has time for. */
static bool looks_at(struct check *c, const struct attn_problem *p, int32_t b, int32_t i)
{
    const double row_work =
        (double)p->kv_len[b] * p->n_q_heads * (double)(attn_q_dim(p) + attn_o_dim(p));
    const double share = 3e6 / (row_work * p->q_len[b] + 1);
    if (share >= 1 || i < 2 || i >= p->q_len[b] - 2) return true;
    return rng_int(&c->rng, 0, 9999) < (int32_t)(share * 10000);
}

void attn_judge(struct check *c, const struct attn_problem *p, const struct attn_result *r,
                const struct attn_route *routes)
{
    int32_t longest = 1;
    for (int32_t b = 0; b < p->n_seqs; b++)
        if (p->kv_len[b] > longest) longest = p->kv_len[b];
    double *z = malloc((size_t)longest * sizeof(double));
    if (!z) exit(2);
    for (int32_t b = 0; b < p->n_seqs && !c->failed; b++) {
        struct oracle_seq s = attn_oracle(p, b);
        if (p->is_mla) join_latent(p, b, &s);
        for (int32_t i = 0; i < p->q_len[b]; i++) {
            if (!looks_at(c, p, b, i)) continue;
            for (int32_t h = 0; h < p->n_q_heads; h++) {
                const int64_t at = (int64_t)(p->row0[b] + i) * p->n_q_heads + h;
                struct oracle_row want;
                oracle_attention(&s, i, h, z, &want);
                const struct oracle_path path = attn_path(p, &routes[b], want.n_visible, s.kv_len);
                attn_judge_row(
                    c, &s, &want, &path, (char *)r->o + at * s.v.dim * oracle_bytes(p->q_dtype),
                    r->lse ? r->lse + at : NULL, p->base2, (struct attn_place){ b, i, h });
            }
        }
        if (p->is_mla) oracle_mla_free(&s);
    }
    free(z);
}

struct attn_result attn_part(const struct attn_problem *p, const struct attn_result *r, int32_t row)
{
    const int64_t heads = (int64_t)row * p->n_q_heads;
    const int64_t head_bytes = (int64_t)attn_o_dim(p) * oracle_bytes(p->q_dtype);
    return (struct attn_result){ .o = (char *)r->o + heads * head_bytes,
                                 .lse = r->lse ? r->lse + heads : NULL };
}

void attn_same_part(struct check *c, const struct attn_problem *p, const struct attn_result *all,
                    int32_t row, const struct attn_result *part, int32_t n, const char *what)
{
    const struct attn_result a = attn_part(p, all, row);
    const size_t heads = (size_t)n * (size_t)p->n_q_heads;
    const size_t head_bytes = (size_t)(attn_o_dim(p) * oracle_bytes(p->q_dtype));
    CHECK(c, memcmp(a.o, part->o, heads * head_bytes) == 0, "%s changes bits of out behind row %d",
          what, row);
    CHECK(c, !a.lse || !part->lse || memcmp(a.lse, part->lse, heads * sizeof(float)) == 0,
          "%s changes bits of lse behind row %d", what, row);
}

void attn_same_bits(struct check *c, const struct attn_problem *p, const struct attn_result *a,
                    const struct attn_result *b, const bool *skip, const char *what)
{
    for (int32_t s = 0; s < p->n_seqs; s++) {
        const struct attn_result part = attn_part(p, b, p->row0[s]);
        if (!skip || !skip[s]) attn_same_part(c, p, a, p->row0[s], &part, p->q_len[s], what);
    }
}
