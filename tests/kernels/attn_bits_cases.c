/* What must not change one bit: where blocks lie, strides, tables, company, repetition, hints. */
#include "attn_instance.h"
#include "check_device.h"

#include <stdlib.h>
#include <string.h>

static void keep(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
                 struct attn_result *r, struct attn_route *routes)
{
    struct attn_instance inst;
    attn_build(c, p, layout, &inst);
    attn_routes(c, &inst, routes);
    const pkv_status status = attn_call(c, &inst, r);
    CHECK(c, status == PKV_OK, "status %s", pkv_status_name(status));
    attn_destroy(&inst);
}

static struct attn_problem draw(struct check *c)
{
    struct attn_problem p = attn_draw_ragged(c);
    attn_draw_options(c, &p, rng_int(&c->rng, 0, 2));
    if (rng_chance(&c->rng, 50)) attn_draw_sharing(c, &p);
    return p;
}

/* Other physical blocks, other orders of dims, dense or CSR or contiguous, NaN or infinity in what
 * nobody sees. */
static void renamed(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_result first = { 0 }, other = { 0 };
    struct attn_route routes[ATTN_MAX_SEQS];
    attn_fill(c, &p);
    struct attn_layout layout = { .table = TABLE_DENSE, .order = ORDER_CANONICAL, .fill = 0xff };
    keep(c, &p, &layout, &first, routes);
    for (int i = 0; i < TABLE_N; i++) {
        layout = attn_draw_layout(c);
        layout.table = (enum attn_table)i;
        layout.fill = i == 1 ? 0x7f : 0xff; /* 0x7f7f: NaN in f16, 3e38 in bf16 and f32 */
        keep(c, &p, &layout, &other, routes);
        attn_same_bits(c, &p, &first, &other, NULL,
                       i == TABLE_NONE ? "the contiguous entry" : "renaming blocks and strides");
        attn_result_free(&other);
    }
    attn_result_free(&first);
    attn_free(&p);
}

/* KT19: alone, and as part of a batch. */
static void alone(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_result batch = { 0 };
    struct attn_route routes[ATTN_MAX_SEQS];
    attn_make_invariant(c, &p);
    attn_fill(c, &p);
    struct attn_layout layout = attn_draw_layout(c);
    keep(c, &p, &layout, &batch, routes);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        struct attn_problem one = attn_alone(&p, b);
        struct attn_result r = { 0 };
        const size_t o_row = batch.o_bytes / (size_t)(p.n_rows ? p.n_rows : 1);
        const size_t lse_row = (size_t)p.n_q_heads, row = (size_t)p.row0[b];
        if (p.q_len[b] != 1) one.with_q_indptr = true;
        layout = attn_draw_layout(c);
        keep(c, &one, &layout, &r, routes);
        CHECK(c, memcmp((char *)batch.o + row * o_row, r.o, r.o_bytes) == 0,
              "company changes bits of out in sequence %d", b);
        CHECK(c, !r.lse || memcmp(batch.lse + row * lse_row, r.lse, r.lse_bytes) == 0,
              "company changes bits of lse in sequence %d", b);
        attn_result_free(&r);
    }
    attn_result_free(&batch);
    attn_free(&p);
}

/* The same call again; a larger workspace, full of something else (KT10, KT13, KT24); lse wanted or
 * not. */
static void again(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_result first = { 0 }, other = { 0 };
    struct attn_instance inst;
    const struct attn_layout layout = attn_draw_layout(c);
    attn_fill(c, &p);
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &first) == PKV_OK, "first call");
    CHECK(c, attn_call(c, &inst, &other) == PKV_OK, "second call");
    attn_same_bits(c, &p, &first, &other, NULL, "repetition");
    attn_result_free(&other);
    struct hostile larger = hostile_create(inst.workspace_bytes + 4096, 0x3f);
    inst.workspace = larger.data;
    inst.workspace_bytes += 4096;
    CHECK(c, attn_call(c, &inst, &other) == PKV_OK, "call with a larger workspace");
    attn_same_bits(c, &p, &first, &other, NULL, "a larger workspace");
    CHECK(c, hostile_intact(&larger), "something was written in front of the workspace");
    attn_result_free(&other);
    hostile_destroy(&larger);
    attn_destroy(&inst);
    p.with_lse = false;
    attn_build(c, &p, &layout, &inst);
    CHECK(c, attn_call(c, &inst, &other) == PKV_OK, "call without lse");
    attn_same_bits(c, &p, &first, &other, NULL, "not wanting lse");
    attn_result_free(&first);
    attn_result_free(&other);
    attn_destroy(&inst);
    attn_free(&p);
}

const struct check_case attn_bits_cases[] = {
    { "attention", "renamed", renamed, 80, 20, TYPED_STORES },
    { "attention", "alone", alone, 40, 10, TYPED_STORES },
    { "attention", "again", again, 30, 8, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
