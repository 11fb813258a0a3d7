/* pkv_table_check: the verdict that attention gives on the same tables, without K and V. */
#include "attn_instance.h"

#include <limits.h>
#include <string.h>

static struct attn_problem draw(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    p.n_seqs = rng_int(r, 1, 6);
    p.block_tokens = rng_int(r, 1, 9);
    p.k_dim = p.v_dim = 8;
    p.n_q_heads = rng_int(r, 1, 3);
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(r, 0, 50);
        p.q_len[b] = rng_chance(r, 60) ? 1 : rng_int(r, rng_chance(r, 30) ? 0 : 1, 5);
        p.pos0[b] = rng_int(r, 0, 100);
    }
    p.with_pos0 = rng_chance(r, 30);
    attn_draw_options(c, &p, rng_int(r, 0, 2));
    if (rng_chance(r, 40)) p.opts.window_left = rng_int(r, 0, 20);
    return p;
}

static void damage_words(struct rng *r, int32_t *words, size_t n, int32_t percent, int32_t most)
{
    static const int32_t odd[] = { -1, 0, INT_MIN, INT_MAX, 1 << 30 };
    for (size_t i = 0; i < n; i++) {
        if (!rng_chance(r, percent)) continue;
        words[i] = rng_chance(r, 40) ? odd[rng_int(r, 0, 4)] : rng_int(r, -2, most);
    }
}

/* Bytes of an array of the instance, at its address. */
static size_t words_at(const struct attn_instance *inst, const void *data)
{
    for (int i = 0; i < inst->n_mem && data; i++)
        if (inst->mem[i].data == data) return inst->mem[i].bytes / sizeof(int32_t);
    return 0;
}

static void damage(struct check *c, struct attn_instance *inst)
{
    struct rng *r = &c->rng;
    const int32_t percent = rng_int(r, 0, 3) * 12;
    if (rng_chance(r, 70))
        damage_words(r, inst->table, words_at(inst, inst->table), percent, inst->k.n_blocks + 2);
    if (rng_chance(r, 40)) damage_words(r, inst->kv_len, words_at(inst, inst->kv_len), percent, 70);
    if (rng_chance(r, 30))
        damage_words(r, inst->table_indptr, words_at(inst, inst->table_indptr), percent, 30);
    if (rng_chance(r, 30))
        damage_words(r, inst->q_indptr, words_at(inst, inst->q_indptr), percent, 12);
    if (inst->opts.mask && rng_chance(r, 30)) inst->opts.mask_stride = rng_int(r, 0, 1);
}

static void same_verdict(struct check *c, const struct attn_instance *inst, pkv_status attn,
                         const pkv_attn_opts *opts, const char *what)
{
    uint32_t bad[4] = { 0 };
    const pkv_status status = pkv_table_check(c->be, &inst->batch, opts, inst->q.n_rows,
                                              inst->k.n_blocks, inst->k.block_tokens, bad, NULL);
    CHECK(c, status == attn, "%s: status %s, of attention %s", what, pkv_status_name(status),
          pkv_status_name(attn));
    CHECK(c, memcmp(bad, inst->bad, sizeof(bad)) == 0,
          "%s: bad %#x %u %u %d, of attention %#x %u %u %d", what, (unsigned)bad[0],
          (unsigned)bad[1], (unsigned)bad[2], (int)bad[3], (unsigned)inst->bad[0],
          (unsigned)inst->bad[1], (unsigned)inst->bad[2], (int)inst->bad[3]);
}

static void verdicts(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_instance inst;
    struct attn_result r = { 0 };
    struct attn_layout layout = attn_draw_layout(c);
    layout.pad_rows = 0; /* they may become somebody's */
    layout.open = true;
    attn_fill(c, &p);
    attn_build(c, &p, &layout, &inst);
    damage(c, &inst);
    const pkv_status status = attn_call(c, &inst, &r);
    same_verdict(c, &inst, status, &inst.opts, "with options");
    /* Options that let every row see every key are no options, where there are rows. */
    attn_result_free(&r);
    bool rows = (inst.bad[0] & PKV_BAD_Q_INDPTR) == 0;
    for (int32_t b = 0; b < p.n_seqs; b++)
        rows = rows && (!inst.q_indptr || inst.q_indptr[b + 1] > inst.q_indptr[b]);
    memset(inst.bad, 0, sizeof(inst.bad));
    inst.opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    inst.opts.causal = 0;
    inst.opts.bad = inst.bad;
    const pkv_status all = attn_call(c, &inst, &r);
    if (rows) same_verdict(c, &inst, all, NULL, "without options");
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_free(&p);
}

/* Nothing is written where nothing is wrong; what was reported before stays. */
static void clean(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_instance inst;
    const struct attn_layout layout = attn_draw_layout(c);
    const uint32_t old[4] = { 0, 7, 8, 9 };
    uint32_t bad[4];
    attn_fill(c, &p);
    attn_build(c, &p, &layout, &inst);
    memcpy(bad, old, sizeof(bad));
    const pkv_status status = pkv_table_check(c->be, &inst.batch, &inst.opts, inst.q.n_rows,
                                              inst.k.n_blocks, inst.k.block_tokens, bad, NULL);
    CHECK(c, status == PKV_OK && memcmp(bad, old, sizeof(bad)) == 0,
          "a clean table: status %s, bad %#x %u %u %u", pkv_status_name(status), (unsigned)bad[0],
          (unsigned)bad[1], (unsigned)bad[2], (unsigned)bad[3]);
    attn_destroy(&inst);
    attn_free(&p);
}

const struct check_case attn_verdict_cases[] = {
    { "table_check", "verdicts", verdicts, 300, 60, UNTYPED },
    { "table_check", "clean", clean, 40, 10, UNTYPED },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
