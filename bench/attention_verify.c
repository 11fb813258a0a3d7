/* Is the result of a side right? Verified before anything is timed, memory by memory: all sides
 * that look at it, then once more after its blocks have been renamed by another permutation. */
#include "attention_parts.h"

#include "half_floats.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Run the checked layers and keep their outputs in out[0], out[1]. */
static pkv_status run_checked(struct attn_side *s, void *out[2])
{
    const struct attn_problem *p = s->place->problem;
    for (int32_t i = 0; i < p->check.n_layers; i++) {
        memset(p->out.data, 0xff, p->out_bytes); /* a row that is not written stays NaN */
        const pkv_status status = attn_run_layer(s, p->check.layers[i]);
        if (status != PKV_OK) return status;
        if (s->spec->self_test == SELF_TEST_WRONG)
            number_put(p->out.data, p->shape.q_dtype, p->shape.dim / 2, 77.f);
        memcpy(out[i], p->out.data, p->out_bytes);
    }
    return PKV_OK;
}

static bool same_bits(const struct attn_problem *p, void *const x[2], void *const y[2])
{
    const size_t bytes = (size_t)p->shape.n_rows * (size_t)(p->shape.h_q * p->shape.dim) *
                         (size_t)pkv_dtype_bits(p->shape.q_dtype) / 8;
    for (int32_t i = 0; i < p->check.n_layers; i++)
        if (memcmp(x[i], y[i], bytes) != 0) return false;
    return true;
}

static void refuse(struct bench_correct *out, const char *what, pkv_status status)
{
    out->ok = false;
    snprintf(out->text, sizeof(out->text), "%s: %s", what, pkv_status_name(status));
}

/* Levels from avx512bf16 on round weights to bf16 where rows are many and K and V are bf16. */
static enum attn_precision precision_of(const struct attn_side *s)
{
    static const char *const rounding[] = { "_avx512bf16", "_amx" };
    if (s->spec->int8_qk) return ATTN_INT8_QK;
    for (int i = 0; i < BENCH_LEN(rounding); i++)
        if (strstr(s->kernel, rounding[i])) return ATTN_WEIGHTS_BF16;
    return ATTN_FLOAT;
}

static bool verify_first(struct attn_side *s, struct bench_error *err)
{
    const struct attn_problem *p = s->place->problem;
    for (int32_t i = 0; i < p->check.n_layers; i++) {
        s->checked[i] = bench_calloc(1, p->out_bytes, err);
        if (!s->checked[i]) return false;
    }
    const pkv_status status = run_checked(s, s->checked);
    if (status != PKV_OK) refuse(&s->correct, "attention", status);
    else
        attn_check_compare(&p->check, &p->shape, precision_of(s), (const void *const *)s->checked,
                           &s->correct);
    return true;
}

static void verify_renamed(struct attn_side *s, void *other[2])
{
    struct bench_correct *c = &s->correct;
    const pkv_status status = run_checked(s, other);
    c->renamed_equal = status == PKV_OK && same_bits(s->place->problem, s->checked, other);
    if (status != PKV_OK) {
        refuse(c, "attention after renaming the blocks", status);
    } else if (!c->renamed_equal && c->ok) {
        c->ok = false;
        snprintf(c->text, sizeof(c->text), "renaming the blocks changed the output");
    }
}

/* Another table for the place, and its bytes moved there; sides look at it anew. */
static bool move_blocks(struct bench_case *c, struct attn_place *p, enum bench_layout layout,
                        uint64_t seed, struct bench_error *err)
{
    if (!attn_memory_rename(&p->memory, &p->problem->shape, layout, seed, err)) return false;
    attn_memory_fill(&p->memory, &p->problem->shape);
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *s = c->sides[i].ctx;
        if (s->place == p) attn_set_batch(s);
    }
    return true;
}

static bool verify_place(struct bench_case *c, struct attn_place *p, void *other[2],
                         struct bench_error *err)
{
    const uint64_t seed = p->problem->shape.seed;
    p->verified = true;
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *s = c->sides[i].ctx;
        if (s->place != p || s->spec->kind != ATTN_RUN) continue;
        s->correct = (struct bench_correct){ .checked = true, .ok = true, .renamed_equal = -1 };
        if (!verify_first(s, err)) return false;
    }
    if (!layout_is_paged(p->spec->layout)) return true;
    if (!move_blocks(c, p, LAYOUT_PAGED_RANDOM, ~seed, err)) return false;
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct attn_side *s = c->sides[i].ctx;
        if (s->place == p && s->spec->kind == ATTN_RUN) verify_renamed(s, other);
    }
    return move_blocks(c, p, p->spec->layout, seed, err); /* the layout that will be timed */
}

static void verify_after(struct attn_side *s, void *other[2], struct bench_correct *out)
{
    if (s->status != PKV_OK) refuse(out, "a timed call", s->status);
    else if (run_checked(s, other) != PKV_OK || !same_bits(s->place->problem, s->checked, other)) {
        out->ok = false;
        snprintf(out->text, sizeof(out->text), "the output changed while timing");
    }
}

bool attn_verify(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                 struct bench_correct *out, struct bench_error *err)
{
    struct attn_side *s = c->sides[side].ctx;
    const size_t bytes = s->place->problem->out_bytes;
    (void)run;
    if (s->spec->kind != ATTN_RUN) {
        out->ok = true;
        return true;
    }
    void *other[2] = { bench_calloc(1, bytes, err), bench_calloc(1, bytes, err) };
    bool ok = other[0] && other[1];
    if (ok && timed) {
        verify_after(s, other, out);
    } else if (ok) {
        if (!s->place->verified) ok = verify_place(c, s->place, other, err);
        *out = s->correct;
    }
    free(other[0]);
    free(other[1]);
    return ok;
}
