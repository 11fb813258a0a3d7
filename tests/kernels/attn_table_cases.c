/* Tables and lengths from outside that are wrong: contained, reported, and nobody else's problem.
 * Memory outside the views has no pages, so that a read through a bad id is a signal. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <limits.h>
#include <string.h>

/* What becomes of the rows of the sequence that is wrong. */
enum rows { WRITTEN, UNTOUCHED, UNSPECIFIED };

struct damage {
    int32_t seq;         /* the sequence that will be wrong */
    uint32_t bits;       /* what must be reported */
    uint32_t idx, value; /* bad[2] and bad[3] */
    enum rows rows;
    bool wrong[ATTN_MAX_SEQS]; /* set by `damage`: seq, and whom the damage touches with it */
};

/* A batch in which every sequence has keys that its last row sees. */
static struct attn_problem draw(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    p.n_seqs = rng_int(&c->rng, 2, 6);
    p.n_q_heads = rng_int(&c->rng, 1, 4);
    p.block_tokens = rng_int(&c->rng, 1, 17);
    p.k_dim = p.v_dim = 32;
    for (int32_t b = 0; b < p.n_seqs; b++) {
        p.kv_len[b] = rng_int(&c->rng, 1, 60);
        p.q_len[b] = rng_chance(&c->rng, 60) ? 1 : rng_int(&c->rng, 1, 4);
    }
    attn_draw_scales(c, &p);
    attn_fill(c, &p);
    return p;
}

static int32_t n_entries(const struct attn_problem *p, int32_t b)
{
    return (p->kv_len[b] + p->block_tokens - 1) / p->block_tokens;
}

static int32_t *row_of_table(struct attn_instance *inst, int32_t b)
{
    return inst->table +
           (inst->table_indptr ? inst->table_indptr[b] : b * inst->batch.table_stride);
}

/* An id outside the pool, or the null block, at an entry whose keys the last row sees. */
static struct damage damage_id(struct check *c, struct attn_instance *inst, int32_t id)
{
    const struct attn_problem *p = inst->problem;
    const int32_t b = rng_int(&c->rng, 0, p->n_seqs - 1);
    const int32_t e = rng_int(&c->rng, 0, n_entries(p, b) - 1);
    row_of_table(inst, b)[e] = id;
    return (struct damage){ b,           id == 0 ? PKV_BAD_NULL_BLOCK : PKV_BAD_RANGE,
                            (uint32_t)e, (uint32_t)id,
                            WRITTEN,     { false } };
}

/* KT12: too few ids. In CSR the last row loses some (or its end lies before its start); dense rows
 * all have one length, so there a sequence is made longer than that. */
static struct damage damage_row(struct check *c, struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    if (inst->table_indptr) {
        const int32_t b = p->n_seqs - 1, keep = rng_int(&c->rng, -1, n_entries(p, b) - 1);
        inst->table_indptr[b + 1] = inst->table_indptr[b] + keep;
        return (struct damage){
            b,       PKV_BAD_SHORT_ROW, (uint32_t)(keep < 0 ? 0 : keep), (uint32_t)p->kv_len[b],
            WRITTEN, { false }
        };
    }
    const int32_t b = rng_int(&c->rng, 0, p->n_seqs - 1),
                  stride = (int32_t)inst->batch.table_stride;
    inst->kv_len[b] = stride * p->block_tokens + rng_int(&c->rng, 1, 100000);
    for (int32_t e = n_entries(p, b); e < stride; e++)
        row_of_table(inst, b)[e] = row_of_table(inst, b)[0];
    return (struct damage){
        b, PKV_BAD_SHORT_ROW, (uint32_t)stride, (uint32_t)inst->kv_len[b], UNSPECIFIED, { false }
    };
}

static struct damage damage_length(struct check *c, struct attn_instance *inst)
{
    const int32_t b = rng_int(&c->rng, 0, inst->problem->n_seqs - 1);
    const bool beyond = !inst->table && rng_chance(&c->rng, 50);
    inst->kv_len[b] = beyond                    ? inst->k.block_tokens + 1 + rng_int(&c->rng, 0, 9)
                      : rng_chance(&c->rng, 50) ? -1
                                                : INT_MIN;
    /* What lies between is hostile, but inside the view: the sequence may read it. */
    return (struct damage){ b,
                            PKV_BAD_LENGTH,
                            (uint32_t)b,
                            (uint32_t)inst->kv_len[b],
                            beyond ? UNSPECIFIED : WRITTEN,
                            { false } };
}

/* Rows of q that end before they start, or beyond the tensor: the last sequence has no rows then.
 * Or the last but one ends before its start: the last one would begin in rows of a third, and both
 * get no rows. */
static struct damage damage_rows(struct check *c, struct attn_instance *inst)
{
    const int32_t last = inst->problem->n_seqs - 1;
    int32_t b = last;
    const int32_t ends[] = { inst->q_indptr[b] - 1, (int32_t)inst->q.n_rows + 1, INT_MAX, INT_MIN };
    inst->q_indptr[b + 1] = ends[rng_int(&c->rng, 0, 3)];
    if (last >= 2 && rng_chance(&c->rng, 50)) {
        b = last - 1;
        inst->q_indptr[last + 1] = inst->q_indptr[last] + inst->problem->q_len[last];
        inst->q_indptr[last] = inst->q_indptr[b] - 1;
    }
    struct damage d = {
        b, PKV_BAD_Q_INDPTR, (uint32_t)b + 1, (uint32_t)inst->q_indptr[b + 1], UNTOUCHED, { false }
    };
    d.wrong[last] = true;
    return d;
}

static struct damage draw_damage(struct check *c, struct attn_instance *inst)
{
    static const int32_t outside[] = { -1, INT_MIN, INT_MAX, 1 << 30 };
    const int32_t kind = (int32_t)(c->seed % 5);
    if (kind == 4) return damage_rows(c, inst);
    if (kind == 3 || !inst->table) return damage_length(c, inst);
    if (kind == 2) return damage_row(c, inst);
    if (kind == 1) return damage_id(c, inst, 0);
    return damage_id(c, inst,
                     rng_chance(&c->rng, 50) ? inst->k.n_blocks : outside[rng_int(&c->rng, 0, 3)]);
}

static struct damage damage(struct check *c, struct attn_instance *inst)
{
    struct damage d = draw_damage(c, inst);
    d.wrong[d.seq] = true;
    return d;
}

static void check_report(struct check *c, const struct attn_instance *inst, pkv_status status,
                         const struct damage *d)
{
    CHECK(c, status == check_want(c, true), "bad table: status %s", pkv_status_name(status));
    CHECK(c, inst->bad[0] == d->bits, "bad table: reported %#x, must be %#x",
          (unsigned)inst->bad[0], (unsigned)d->bits);
    if (check_on_device(c)) { /* of several offenders any one */
        CHECK(c, attn_offends(inst), "bad table: nothing wrong with sequence %u index %u value %d",
              (unsigned)inst->bad[1], (unsigned)inst->bad[2], (int)inst->bad[3]);
        return;
    }
    CHECK(c, inst->bad[1] == (uint32_t)d->seq, "bad table: sequence %u reported, wrong is %d",
          (unsigned)inst->bad[1], d->seq);
    CHECK(c, inst->bad[2] == d->idx && inst->bad[3] == d->value,
          "bad table: index %u value %d reported, must be %u and %d", (unsigned)inst->bad[2],
          (int)inst->bad[3], (unsigned)d->idx, (int)d->value);
}

/* Rows of the wrong sequence hold something, unless they are nobody's now. Hostile keys that came
 * into sight make NaN, which cannot be told from what was there before. */
static void check_written(struct check *c, const struct attn_problem *p,
                          const struct attn_result *r, const struct damage *d)
{
    const size_t row = (size_t)(p->n_q_heads * p->v_dim * oracle_bytes(p->q_dtype));
    for (int32_t i = 0; i < p->q_len[d->seq]; i++) {
        const unsigned char *o = (unsigned char *)r->o + (size_t)(p->row0[d->seq] + i) * row;
        bool touched = false;
        for (size_t at = 0; at < row; at++) touched |= o[at] != 0xff;
        CHECK(c, d->rows == UNSPECIFIED || touched == (d->rows == WRITTEN),
              "bad table: row %d of sequence %d %s written", i, d->seq,
              touched ? "was" : "was not");
    }
}

/* Sequences that are not wrong have the bits they have with a clean table. A device promises that
 * for invariant calls alone: else keys are cut by the lengths of the whole batch, and results are
 * right within their bounds. */
static void check_others(struct check *c, const struct attn_problem *p,
                         const struct attn_result *clean, const struct attn_result *r,
                         const struct damage *d, const struct attn_route *routes, const char *what)
{
    if (!check_on_device(c) || p->opts.invariant) {
        attn_same_bits(c, p, clean, r, d->wrong, what);
        return;
    }
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const struct attn_problem one = attn_alone(p, b);
        const struct attn_result part = attn_part(p, r, p->row0[b]);
        if (!d->wrong[b]) attn_judge(c, &one, &part, &routes[b]);
    }
}

/* A wrong length is the nearest right one, to the bit. */
static void check_clamp(struct check *c, struct attn_instance *inst, const struct attn_result *r,
                        const struct damage *d)
{
    struct attn_result right = { 0 };
    if (d->bits != PKV_BAD_LENGTH) return;
    const size_t bytes = (size_t)inst->problem->n_seqs * sizeof(int32_t);
    int32_t *const kv_len = attn_take(inst, (int64_t)bytes, 0xff); /* the old ones are locked */
    memcpy(kv_len, inst->kv_len, bytes);
    kv_len[d->seq] = kv_len[d->seq] < 0 ? 0 : inst->k.block_tokens;
    inst->batch.kv_len = inst->kv_len = kv_len;
    CHECK(c, attn_call(c, inst, &right) == PKV_OK, "the nearest right length is refused");
    attn_same_bits(c, inst->problem, &right, r, NULL, "a wrong length, not the nearest right one,");
    attn_result_free(&right);
}

static void damaged(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_instance inst;
    struct attn_result clean = { 0 }, r = { 0 };
    struct attn_route routes[ATTN_MAX_SEQS];
    struct attn_layout layout = attn_draw_layout(c);
    if (rng_chance(&c->device_rng, 50)) attn_make_invariant(c, &p);
    layout.open = true;
    if (c->seed % 2) layout.fill = 0; /* keys that come in sight tell how many they are */
    attn_build(c, &p, &layout, &inst);
    attn_routes(c, &inst, routes);
    CHECK(c, attn_call(c, &inst, &clean) == PKV_OK, "clean table refused");
    attn_destroy(&inst);

    attn_build(c, &p, &layout, &inst);
    if (inst.table) attn_zero_null_block(&inst);
    const struct damage d = damage(c, &inst);
    pkv_status status = attn_call(c, &inst, &r);
    check_report(c, &inst, status, &d);
    check_written(c, &p, &r, &d);
    check_others(c, &p, &clean, &r, &d, routes, "another sequence's bad table");
    attn_result_free(&r);

    /* Sticky: an older report stays, its bits join. */
    const uint32_t old[4] = { PKV_BAD_SLOT, 77, 78, 79 };
    memcpy(inst.bad, old, sizeof(old));
    status = attn_call(c, &inst, &r);
    CHECK(c,
          status == check_want(c, true) && inst.bad[0] == (d.bits | PKV_BAD_SLOT) &&
              memcmp(inst.bad + 1, old + 1, 3 * sizeof(uint32_t)) == 0,
          "an older report was overwritten: %#x %u %u %u", (unsigned)inst.bad[0],
          (unsigned)inst.bad[1], (unsigned)inst.bad[2], (unsigned)inst.bad[3]);
    attn_result_free(&r);
    inst.opts.bad = NULL;
    status = attn_call(c, &inst, &r);
    CHECK(c, status == check_want(c, true), "without `bad`: status %s", pkv_status_name(status));
    check_others(c, &p, &clean, &r, &d, routes, "another sequence's bad table, not reported,");
    check_clamp(c, &inst, &r, &d);
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_result_free(&clean);
    attn_free(&p);
}

/* Numbers of the null block are 0, but where it shares them with all blocks. */
static void set_zero(const pkv_scales *s, struct attn_numbers *n, int32_t b, int32_t j)
{
    if (s->data && s->block_stride > 0) n->of[b][j] = 0.f; /* one kv head here */
}

/* Id 0 in sight is read as it is: the result is that of zero keys and values there. */
static void null_block(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_instance inst;
    struct attn_result r = { 0 };
    struct attn_route routes[ATTN_MAX_SEQS];
    struct attn_layout layout = attn_draw_layout(c);
    layout.table = c->seed % 2 ? TABLE_DENSE : TABLE_CSR;
    attn_build(c, &p, &layout, &inst);
    attn_routes(c, &inst, routes);
    attn_zero_null_block(&inst);
    const struct damage d = damage_id(c, &inst, 0);
    const pkv_status status = attn_call(c, &inst, &r);
    check_report(c, &inst, status, &d);
    const int32_t first = (int32_t)d.idx * p.block_tokens;
    for (int32_t j = first; j < p.kv_len[d.seq] && j < first + p.block_tokens; j++) {
        for (int32_t e = 0; e < p.k_dim; e++)
            p.k[d.seq][j * p.k_dim + e] = p.v[d.seq][j * p.v_dim + e] = 0.f;
        set_zero(&inst.k.scales, &p.k_scale, d.seq, j);
        set_zero(&inst.v.scales, &p.v_scale, d.seq, j);
        set_zero(&inst.k.zeros, &p.k_zero, d.seq, j);
        set_zero(&inst.v.zeros, &p.v_zero, d.seq, j);
    }
    attn_judge(c, &p, &r, routes);
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_free(&p);
}

/* Whatever tables, lengths and rows hold, only memory of the views is touched and the call ends. */
static void garbage(struct check *c)
{
    struct attn_problem p = draw(c);
    struct attn_instance inst;
    struct attn_result r = { 0 };
    struct attn_layout layout = attn_draw_layout(c);
    layout.pad_rows = 0; /* they may become somebody's */
    layout.open = true;
    attn_build(c, &p, &layout, &inst);
    for (int i = 0; i < inst.n_mem; i++) {
        struct hostile *m = &inst.mem[i];
        int32_t *ints = (int32_t *)(void *)m->data;
        const bool table = m->data == (void *)inst.table;
        if (!table && ints != inst.table_indptr && ints != inst.kv_len && ints != inst.q_indptr)
            continue;
        for (size_t k = 0; k < m->bytes / sizeof(int32_t); k++) {
            if (rng_chance(&c->rng, 50)) continue;
            ints[k] =
                rng_chance(&c->rng, 70) ? rng_int(&c->rng, -5, 100) : (int32_t)rng_next(&c->rng);
        }
    }
    (void)attn_call(c, &inst, &r);
    attn_result_free(&r);
    attn_destroy(&inst);
    attn_free(&p);
}

const struct check_case attn_table_cases[] = {
    { "attention", "damaged", damaged, 60, 25, TYPED_STORES },
    { "attention", "null_block", null_block, 20, 6, TYPED_STORES },
    { "attention", "garbage", garbage, 60, 20, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
