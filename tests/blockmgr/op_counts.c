/* Each operation of the manager a known number of times, so that a tool can count instructions:
 *
 *     valgrind --tool=callgrind op_counts      (scripts/check_instructions.py does it and compares)
 *
 * An operation is a row of the table: a setup, which is not counted, and a function named
 * measured_<name>, whose inclusive cost divided by `units` is the figure. One line "name per units"
 * is printed for each. Every call has to succeed with the outcome the row is about. */
#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    B = 16,          /* tokens per block */
    MANY = 256,      /* sequences of a decode step */
    CALLS = 64,      /* of what is counted per call */
    SIBLINGS = 64,   /* on one tail */
    TAKEN = 128,     /* blocks of a reservation without content */
    UNITS = 2048,    /* blocks of a prompt */
    ROW = 8192,      /* blocks of a long sequence */
    EVICTED = 1000,  /* blocks of a reservation that evicts */
    ROOM = ROW + 64, /* blocks beyond what an operation names */
};

struct world {
    pkv_blockmgr *m;
    int32_t *tokens; /* [ROW * B] */
    pkv_seq seqs[MANY], seq, children[SIBLINGS];
    pkv_reserve_req reqs[MANY];
    pkv_block_work work;
    pkv_block_copy copies[SIBLINGS];
    pkv_step step;
    pkv_table_range ranges[MANY + 8];
    int32_t ids[MANY + 8];
};

static void must(bool fine, const char *what)
{
    if (fine) return;
    fprintf(stderr, "op_counts: %s\n", what);
    exit(1);
}
#define MUST(call) must((call) == PKV_OK, #call)
#define EXPECT(condition) must(condition, "not true: " #condition)

static pkv_tokens tokens(struct world *w, int32_t first, int32_t n)
{
    return (pkv_tokens){ w->tokens + first, n, NULL, 0 };
}

static pkv_seq open_one(struct world *w)
{
    const pkv_ns everyone = { 0 };
    pkv_seq seq;
    MUST(pkv_seq_open(w->m, everyone, &seq));
    return seq;
}

static void reserve(struct world *w, pkv_seq seq, int32_t n_tokens)
{
    const pkv_reserve_req req = { seq, n_tokens };
    MUST(pkv_seq_reserve(w->m, &req, 1, &w->work));
}

static void commit(struct world *w, pkv_seq seq, int32_t first, int32_t n)
{
    const pkv_tokens t = tokens(w, first, n);
    MUST(pkv_seq_commit(w->m, seq, &t, PKV_STEP_NONE));
}

/* One open sequence with content. */
static void fill(struct world *w, int32_t n_blocks)
{
    w->seq = open_one(w);
    reserve(w, w->seq, n_blocks * B);
    commit(w, w->seq, 0, n_blocks * B);
}

static void nothing(struct world *w)
{
    (void)w;
}

/* ---------------------------------------------------------------- a decode step */

/* Sequences that have room for one more token in their block, and the requests for it. */
static void decode(struct world *w)
{
    for (int32_t i = 0; i < MANY; i++) {
        w->seqs[i] = open_one(w);
        reserve(w, w->seqs[i], 1 + i % (B - 2));
        commit(w, w->seqs[i], i, 1 + i % (B - 2));
        w->reqs[i] = (pkv_reserve_req){ w->seqs[i], 1 };
    }
}
static void measured_reserve_batch(struct world *w)
{
    MUST(pkv_seq_reserve(w->m, w->reqs, MANY, &w->work));
}
static void measured_reserve_single(struct world *w)
{
    for (int32_t i = 0; i < MANY; i++) MUST(pkv_seq_reserve(w->m, &w->reqs[i], 1, &w->work));
}
static void decode_reserved(struct world *w)
{
    decode(w);
    measured_reserve_batch(w);
}
static void measured_commit_token(struct world *w)
{
    for (int32_t i = 0; i < MANY; i++) commit(w, w->seqs[i], i, 1);
}

/* ---------------------------------------------------------------- steps, tables for a device */

static void begin(struct world *w)
{
    MUST(pkv_step_begin(w->m, &w->step));
}
static void decode_in_step(struct world *w)
{
    decode_reserved(w);
    begin(w);
}
static void measured_commit_in_step(struct world *w)
{
    for (int32_t i = 0; i < MANY; i++) {
        const pkv_tokens t = tokens(w, i, 1);
        MUST(pkv_seq_commit(w->m, w->seqs[i], &t, w->step));
    }
}
static void decode_launched(struct world *w)
{
    decode_in_step(w);
    measured_commit_in_step(w);
}
static void measured_retire(struct world *w)
{
    MUST(pkv_step_retire(w->m, w->step));
}
static void measured_empty_step(struct world *w)
{
    for (int32_t i = 0; i < CALLS; i++) {
        begin(w);
        MUST(pkv_step_retire(w->m, w->step));
    }
}
static pkv_delta delta(struct world *w)
{
    pkv_delta out = PKV_DELTA_INIT;
    MUST(pkv_table_delta(w->m, 0, w->ranges, MANY + 8, w->ids, MANY + 8, &out));
    return out;
}
static void measured_delta_changed(struct world *w)
{
    EXPECT(delta(w).n_ids == MANY); /* a block each */
}
static void decode_sent(struct world *w)
{
    decode(w);
    measured_delta_changed(w);
}
static void measured_delta_unchanged(struct world *w)
{
    for (int32_t i = 0; i < CALLS; i++) EXPECT(delta(w).n_ranges == 0);
}

/* ---------------------------------------------------------------- blocks without content */

static void one_open(struct world *w)
{
    w->seq = open_one(w);
}
static void measured_take(struct world *w)
{
    reserve(w, w->seq, TAKEN * B);
}
static void one_taken(struct world *w)
{
    one_open(w);
    measured_take(w);
}
static void measured_release(struct world *w)
{
    MUST(pkv_seq_close(w->m, w->seq));
}
/* Blocks released while a step is open go to limbo; its retirement frees them. */
static void one_in_limbo(struct world *w)
{
    one_taken(w);
    begin(w);
    MUST(pkv_seq_close(w->m, w->seq));
}
static void measured_retire_limbo(struct world *w)
{
    MUST(pkv_step_retire(w->m, w->step));
}

/* ---------------------------------------------------------------- content */

static void one_reserved(struct world *w)
{
    one_open(w);
    reserve(w, w->seq, UNITS * B);
}
static void measured_commit_unit(struct world *w)
{
    commit(w, w->seq, 0, UNITS * B);
}
static void one_twin(struct world *w)
{
    fill(w, UNITS);
    one_reserved(w);
}
static void measured_commit_known(struct world *w)
{
    commit(w, w->seq, 0, UNITS * B);
}
static void one_filled(struct world *w)
{
    fill(w, UNITS);
}
static void measured_close_cached(struct world *w)
{
    MUST(pkv_seq_close(w->m, w->seq));
}
static void measured_truncate(struct world *w)
{
    MUST(pkv_seq_truncate(w->m, w->seq, 0));
}
static void one_cached(struct world *w)
{
    fill(w, UNITS);
    MUST(pkv_seq_close(w->m, w->seq));
    one_open(w);
}
static void measured_match(struct world *w)
{
    const pkv_tokens prompt = tokens(w, 0, UNITS * B);
    pkv_match out = PKV_MATCH_INIT;
    MUST(pkv_seq_match(w->m, w->seq, &prompt, prompt.n, 0, &w->work, &out));
    EXPECT(out.claimed == UNITS * B);
}
static void measured_probe(struct world *w)
{
    const pkv_tokens prompt = tokens(w, 0, UNITS * B);
    pkv_match out = PKV_MATCH_INIT;
    const pkv_ns everyone = { 0 };
    MUST(pkv_blockmgr_probe(w->m, everyone, &prompt, &out));
    EXPECT(out.claimed == UNITS * B);
}
static void strangers(struct world *w)
{
    one_cached(w);
    for (int32_t i = 0; i < CALLS; i++) w->seqs[i] = open_one(w);
}
static void measured_match_miss(struct world *w)
{
    for (int32_t i = 0; i < CALLS; i++) {
        const pkv_tokens prompt = tokens(w, 1 + i, UNITS * B);
        pkv_match out = PKV_MATCH_INIT;
        MUST(pkv_seq_match(w->m, w->seqs[i], &prompt, prompt.n, 0, &w->work, &out));
        EXPECT(out.claimed == 0);
    }
}

/* ---------------------------------------------------------------- sharing, eviction */

static void one_long(struct world *w)
{
    fill(w, ROW);
}
static void measured_fork(struct world *w)
{
    MUST(pkv_seq_fork(w->m, w->seq, w->children, 1));
}
static void siblings(struct world *w)
{
    w->seq = open_one(w);
    reserve(w, w->seq, B / 2);
    commit(w, w->seq, 0, B / 2);
    MUST(pkv_seq_fork(w->m, w->seq, w->children, SIBLINGS));
    for (int32_t i = 0; i < SIBLINGS; i++) w->reqs[i] = (pkv_reserve_req){ w->children[i], 1 };
}
static void measured_copy_on_write(struct world *w)
{
    MUST(pkv_seq_reserve(w->m, w->reqs, SIBLINGS, &w->work));
    EXPECT(w->work.n_copy == SIBLINGS);
}
/* Nothing is free: two sequences' worth of cached blocks and one that holds the rest. */
static void full_of_cached(struct world *w)
{
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    fill(w, 2 * EVICTED);
    MUST(pkv_seq_close(w->m, w->seq));
    pkv_blockmgr_stats(w->m, &s);
    reserve(w, open_one(w), s.free_blocks * B);
    one_open(w);
}
static void measured_evict(struct world *w)
{
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    reserve(w, w->seq, EVICTED * B);
    pkv_blockmgr_stats(w->m, &s);
    EXPECT(s.evicted_blocks == EVICTED);
}

static void measured_evict_call(struct world *w)
{
    int32_t n = 0;
    MUST(pkv_blockmgr_evict(w->m, EVICTED, &n));
    EXPECT(n == EVICTED);
}
static void measured_new_epoch(struct world *w)
{
    for (int32_t i = 0; i < CALLS; i++) MUST(pkv_blockmgr_new_epoch(w->m));
}

/* ---------------------------------------------------------------- the rest */

static void measured_open(struct world *w)
{
    for (int32_t i = 0; i < CALLS; i++) w->seqs[i] = open_one(w);
}
static void measured_row(struct world *w)
{
    const int32_t *ids;
    int32_t n;
    for (int32_t i = 0; i < MANY; i++) {
        MUST(pkv_seq_row(w->m, w->seqs[i], 0, &ids, &n));
        EXPECT(n == 1);
    }
}
static void measured_slots(struct world *w)
{
    int64_t slots[UNITS];
    MUST(pkv_seq_slots(w->m, w->seq, 0, 0, UNITS, slots));
}
static void measured_stats(struct world *w)
{
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    for (int32_t i = 0; i < CALLS; i++) pkv_blockmgr_stats(w->m, &s);
}
static void measured_check_counts(struct world *w)
{
    for (int32_t i = 0; i < CALLS; i++) MUST(pkv_blockmgr_check(w->m, 1));
}
static void measured_namespace(struct world *w)
{
    pkv_ns_params params = PKV_NS_PARAMS_INIT;
    params.salt = "tenant";
    params.salt_bytes = strlen(params.salt);
    for (int32_t i = 0; i < CALLS; i++) {
        pkv_ns ns;
        MUST(pkv_ns_open(w->m, &params, &ns));
        MUST(pkv_ns_close(w->m, ns));
    }
}

/* The name of a row is that of its measured function, so the two cannot drift apart. */
#define ROW_OF(name, per, units, setup)                                                            \
    {                                                                                              \
#name, per, units, setup, measured_##name                                                  \
    }
static const struct operation {
    const char *name, *per;
    int32_t units;
    void (*setup)(struct world *w), (*measured)(struct world *w);
} operations[] = {
    ROW_OF(open, "call", CALLS, nothing),
    ROW_OF(reserve_batch, "sequence", MANY, decode), /* one token, no new block */
    ROW_OF(reserve_single, "sequence", MANY, decode),
    ROW_OF(commit_token, "sequence", MANY, decode_reserved), /* no block becomes full */
    ROW_OF(take, "block", TAKEN, one_open),
    ROW_OF(release, "block", TAKEN, one_taken),
    ROW_OF(commit_unit, "block", UNITS, one_reserved),
    ROW_OF(commit_known, "block", UNITS, one_twin), /* becomes a duplicate */
    ROW_OF(close_cached, "block", UNITS, one_filled),
    ROW_OF(truncate, "block", UNITS, one_filled),
    ROW_OF(match, "block", UNITS, one_cached),
    ROW_OF(match_miss, "call", CALLS, strangers),
    ROW_OF(probe, "block", UNITS, one_cached),
    ROW_OF(fork, "block", ROW, one_long),
    ROW_OF(copy_on_write, "copy", SIBLINGS, siblings),
    ROW_OF(evict, "block", EVICTED, full_of_cached),
    ROW_OF(evict_call, "block", EVICTED, full_of_cached),
    ROW_OF(new_epoch, "call", CALLS, one_cached),
    ROW_OF(commit_in_step, "sequence", MANY, decode_in_step),
    ROW_OF(retire, "sequence", MANY, decode_launched),
    ROW_OF(retire_limbo, "block", TAKEN, one_in_limbo),
    ROW_OF(empty_step, "begin and retire", CALLS, nothing),
    ROW_OF(delta_changed, "row", MANY, decode),
    ROW_OF(delta_unchanged, "call", CALLS, decode_sent),
    ROW_OF(row, "call", MANY, decode),
    ROW_OF(slots, "token", UNITS, one_filled),
    ROW_OF(stats, "call", CALLS, one_filled),
    ROW_OF(check_counts, "call", CALLS, one_filled),
    ROW_OF(namespace, "open and close", CALLS, nothing),
};

static void run(const struct operation *op, int32_t *ids)
{
    struct world w = { .tokens = ids, .work = PKV_BLOCK_WORK_INIT };
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 1 + ROOM;
    cfg.block_tokens = B;
    cfg.max_seqs = MANY + 8;
    cfg.max_seq_tokens = ROOM * B;
    w.work.copy = w.copies;
    w.work.copy_cap = SIBLINGS;
    MUST(pkv_blockmgr_create(&cfg, NULL, &w.m));
    op->setup(&w);
    op->measured(&w);
    MUST(pkv_blockmgr_check(w.m, 2)); /* level 3 is for the tests; it takes long under a tool */
    pkv_blockmgr_destroy(w.m);
    printf("%s\t%s\t%d\n", op->name, op->per, op->units);
}

int main(void)
{
    int32_t *ids = malloc(sizeof(*ids) * ROW * B);
    uint32_t state = 1;
    must(ids != NULL, "no memory");
    for (int32_t i = 0; i < ROW * B; i++) {
        state = state * 1664525u + 1013904223u; /* the same ids, and hashes, everywhere */
        ids[i] = (int32_t)(state >> 8);
    }
    for (size_t i = 0; i < sizeof(operations) / sizeof(operations[0]); i++)
        run(&operations[i], ids);
    free(ids);
    return fflush(stdout) == 0 ? 0 : 1;
}
