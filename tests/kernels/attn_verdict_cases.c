/* pkv_table_check: the verdict that attention gives on the same tables, without K and V. */
#include "attn_instance.h"
#include "check_device.h"
#include "kv_fixture.h"

#include <limits.h>
#include <string.h>

static struct attn_problem draw(struct check *c)
{
    struct rng *r = &c->rng;
    struct attn_problem p = attn_usual(c);
    if (check_on_device(c)) p.kv_dtype = PKV_F16;
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

/* Of the definition: the CPU's. What a device names is any offender. */
static void judge_verdict(struct check *c, const struct attn_instance *inst, const uint32_t *bad,
                          const uint32_t *want, const char *what)
{
    if (!check_on_device(c)) {
        CHECK(c, memcmp(bad, want, 4 * sizeof(*bad)) == 0,
              "%s: bad %#x %u %u %d, of attention %#x %u %u %d", what, (unsigned)bad[0],
              (unsigned)bad[1], (unsigned)bad[2], (int)bad[3], (unsigned)want[0], (unsigned)want[1],
              (unsigned)want[2], (int)want[3]);
        return;
    }
    struct attn_instance named = *inst;
    named.bad = (uint32_t[4]){ bad[0], bad[1], bad[2], bad[3] };
    CHECK(c, bad[0] == want[0], "%s: bad %#x, must be %#x", what, (unsigned)bad[0],
          (unsigned)want[0]);
    CHECK(c, bad[0] == 0 || attn_offends(&named), "%s: bad %#x: not sequence %u index %u value %d",
          what, (unsigned)bad[0], (unsigned)bad[1], (unsigned)bad[2], (int)bad[3]);
}

static pkv_status check_table(pkv_backend *be, const struct attn_instance *inst,
                              const pkv_attn_opts *opts, uint32_t *bad)
{
    return pkv_table_check(be, &inst->batch, opts, inst->q.n_rows, inst->k.n_blocks,
                           inst->k.block_tokens, bad, NULL);
}

static void same_verdict(struct check *c, const struct attn_instance *inst, pkv_status attn,
                         const pkv_attn_opts *opts, const char *what)
{
    struct hostile mem = hostile_create(4 * sizeof(uint32_t), 0);
    uint32_t *bad = (uint32_t *)(void *)mem.data;
    const pkv_status status = check_supported(c, check_table(c->be, inst, opts, bad));
    CHECK(c, status == attn, "%s: status %s, of attention %s", what, pkv_status_name(status),
          pkv_status_name(attn));
    judge_verdict(c, inst, bad, inst->bad, what);
    hostile_destroy(&mem);
}

/* A device's verdict on the table beside the CPU's, before attention has to agree with it. */
static void same_as_cpu(struct check *c, const struct attn_instance *inst)
{
    if (!check_on_device(c)) return;
    struct hostile mem = hostile_create(4 * sizeof(uint32_t), 0);
    uint32_t *bad = (uint32_t *)(void *)mem.data, want[4] = { 0 };
    pkv_backend *cpu = kv_backend(c, PKV_ISA_SCALAR, 1);
    const pkv_status of_cpu = check_table(cpu, inst, &inst->opts, want);
    CHECK(c, (of_cpu == PKV_OK) == (want[0] == 0), "the CPU: %s", pkv_status_name(of_cpu));
    pkv_backend_destroy(cpu);
    CHECK(c, check_supported(c, check_table(c->be, inst, &inst->opts, bad)) == PKV_OK, "refused");
    judge_verdict(c, inst, bad, want, "beside the CPU");
    hostile_destroy(&mem);
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
    same_as_cpu(c, &inst);
    const pkv_status status = attn_call(c, &inst, &r);
    same_verdict(c, &inst, status, &inst.opts, "with options");
    /* Options that let every row see every key are no options, where there are rows. */
    attn_result_free(&r);
    bool rows = (inst.bad[0] & PKV_BAD_Q_INDPTR) == 0;
    for (int32_t b = 0; b < p.n_seqs; b++)
        rows = rows && (!inst.q_indptr || inst.q_indptr[b + 1] > inst.q_indptr[b]);
    memset(inst.bad, 0, 4 * sizeof(uint32_t));
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
    attn_fill(c, &p);
    attn_build(c, &p, &layout, &inst);
    uint32_t *bad = inst.bad;
    memcpy(bad, old, sizeof(old));
    const pkv_status status =
        check_supported(c, pkv_table_check(c->be, &inst.batch, &inst.opts, inst.q.n_rows,
                                           inst.k.n_blocks, inst.k.block_tokens, bad, NULL));
    CHECK(c, status == PKV_OK && memcmp(bad, old, sizeof(old)) == 0,
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
