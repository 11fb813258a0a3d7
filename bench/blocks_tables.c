/* Block tables for a device: what changed since the last upload, against a copy of all of it. */
#include "blocks_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 1000   /* tokens of a sequence at the start */
#define RESET_AT 64    /* blocks that each sequence grows by before all start again */
#define LONGEST 131072 /* tokens; with 256 sequences the whole table is 8 MiB */
#define MOST_PER_ID 16 /* bytes: a range of its own and the id */
#define UNCHANGED_CALLS 64

static void start(struct blocks_case *b)
{
    for (int32_t i = 0; i < b->n_seqs; i++) {
        if (b->seqs[i].v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
        b->seqs[i] = blocks_open(b, CONTEXT);
        blocks_commit(b, b->seqs[i], i, 0, CONTEXT);
        b->reqs[i] = (pkv_reserve_req){ b->seqs[i], b->block_tokens };
    }
    b->committed = 0;
    blocks_delta(b);
}

static bool prepare_tables(struct blocks_case *b, struct bench_error *err)
{
    (void)err;
    start(b);
    return true;
}

/* Every sequence gets another block. */
static void before_changed(void *ctx)
{
    struct blocks_case *b = ctx;
    if (b->committed == RESET_AT) start(b);
    b->committed++;
    (void)blocks_ok(b, pkv_seq_reserve(b->mgr, b->reqs, b->n_seqs, &b->work));
    for (int32_t i = 0; i < b->n_seqs; i++) blocks_commit(b, b->seqs[i], i, 0, b->block_tokens);
}

static void call_changed(void *ctx)
{
    struct blocks_case *b = ctx;
    blocks_delta(b);
    const size_t bytes = (size_t)b->changed.n_ranges * sizeof(*b->ranges) +
                         (size_t)b->changed.n_ids * sizeof(*b->ids);
    if (b->changed.n_ids != b->n_seqs || bytes > MOST_PER_ID * (size_t)b->changed.n_ids)
        b->surprised = true;
}

static void call_unchanged(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int i = 0; i < UNCHANGED_CALLS; i++) {
        blocks_delta(b);
        if (b->changed.n_ranges != 0 || b->changed.n_ids != 0) b->surprised = true;
    }
}

/* What an engine does that uploads the whole table in every step: here into host memory. */
static void call_copy(void *ctx)
{
    struct blocks_case *b = ctx;
    const int32_t *rows = NULL;
    int32_t width = 0;
    if (!blocks_ok(b, pkv_blockmgr_rows(b->mgr, 0, &rows, &width))) return;
    memcpy(b->ids, rows, (size_t)b->n_seqs * (size_t)width * sizeof(*rows));
    b->run->sink += (uint64_t)b->ids[0];
}

static struct blocks_case tables_case(void)
{
    struct blocks_case b;
    memset(&b, 0, sizeof(b));
    b.n_seqs = 256;
    b.block_tokens = 16;
    b.n_tokens = LONGEST;
    b.n_blocks = b.n_seqs * (CONTEXT / 16 + RESET_AT + 2);
    b.prepare = prepare_tables;
    return b;
}

bool blocks_table_cases(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err)
{
    const struct blocks_case b = tables_case();
    struct bench_case *c =
        blocks_case_add(o, list, &b, "delta/256/changed", "delta, 256 rows with a new block each",
                        "call", 1, call_changed, before_changed, err);
    if (!c) return false;
    snprintf(c->sides[0].note, sizeof(c->sides[0].note),
             "at most %d bytes per changed id, verified in every call", MOST_PER_ID);
    blocks_side_add(c, "copy", "  copy of the whole table, 8 MiB", "call", 1, call_copy);
    c = blocks_case_add(o, list, &b, "delta/256/unchanged", "delta, 256 rows, nothing new", "call",
                        UNCHANGED_CALLS, call_unchanged, NULL, err);
    if (!c) return false;
    snprintf(c->sides[0].note, sizeof(c->sides[0].note), "0 bytes, verified in every call");
    return true;
}
