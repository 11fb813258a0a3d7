/* What an engine does every step: room for one more token in every sequence, commits, prefills. */
#include "blocks_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONTEXT 1000 /* tokens of a running sequence at the start; sequence i has i % 16 more */
#define RESET_AT 512 /* tokens generated before the sequences start again */
#define EVICT 1000   /* blocks per reservation of the eviction case */

/* ---------------------------------------------------------------- decode */

static int32_t context_of(const struct blocks_case *b, int32_t i)
{
    return CONTEXT + i % b->block_tokens; /* block borders are spread over the steps */
}

/* Fresh sequences with fresh content, so that no commit ever finds its block already known. */
static void start_sequences(struct blocks_case *b)
{
    if (b->step.v) (void)blocks_ok(b, pkv_step_retire(b->mgr, b->step));
    b->step = PKV_STEP_NONE;
    for (int32_t i = 0; i < b->n_seqs; i++)
        if (b->seqs[i].v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
    blocks_forget(b);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        b->seqs[i] = blocks_open(b, context_of(b, i));
        blocks_commit(b, b->seqs[i], i, 0, context_of(b, i));
        b->reqs[i] = (pkv_reserve_req){ b->seqs[i], 1 };
    }
    b->committed = 0;
    if (b->delta) blocks_delta(b); /* the whole rows, untimed */
}

static bool prepare_decode(struct blocks_case *b, struct bench_error *err)
{
    (void)err;
    start_sequences(b);
    return true;
}

/* Steps in one call: long enough for the clock, and percentiles are over batches of 64 steps. */
static int32_t steps_per_call(int32_t n_seqs)
{
    return n_seqs > 256 ? 16 : 64;
}

static void before_decode(void *ctx)
{
    struct blocks_case *b = ctx;
    if (b->committed + steps_per_call(b->n_seqs) > RESET_AT) start_sequences(b);
}

static void commit_step(struct blocks_case *b, pkv_step step)
{
    for (int32_t i = 0; i < b->n_seqs; i++) {
        const pkv_tokens t = blocks_tokens(b, i, context_of(b, i) + b->committed, 1);
        (void)blocks_ok(b, pkv_seq_commit(b->mgr, b->seqs[i], &t, step));
    }
}

static void call_decode(void *ctx)
{
    struct blocks_case *b = ctx;
    const int32_t *rows = NULL;
    int32_t width = 0;
    for (int32_t step = steps_per_call(b->n_seqs); step > 0; step--, b->committed++) {
        if (b->single_calls)
            for (int32_t i = 0; i < b->n_seqs; i++) blocks_reserve(b, b->seqs[i], 1);
        else (void)blocks_ok(b, pkv_seq_reserve(b->mgr, b->reqs, b->n_seqs, &b->work));
        commit_step(b, PKV_STEP_NONE);
        (void)blocks_ok(b, pkv_blockmgr_rows(b->mgr, 0, &rows, &width));
        b->run->sink += (uint64_t)rows[0];
    }
}

/* For a device: the delta of the tables, then the launch. */
static void call_decode_delta(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t step = steps_per_call(b->n_seqs); step > 0; step--, b->committed++) {
        (void)blocks_ok(b, pkv_seq_reserve(b->mgr, b->reqs, b->n_seqs, &b->work));
        blocks_delta(b);
        commit_step(b, PKV_STEP_NONE);
        b->run->sink += (uint64_t)b->changed.n_ids;
    }
}

/* One step ahead: the last one is still running while the next is prepared and launched. */
static void call_decode_async(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t step = steps_per_call(b->n_seqs); step > 0; step--, b->committed++) {
        pkv_step now = PKV_STEP_NONE;
        (void)blocks_ok(b, pkv_seq_reserve(b->mgr, b->reqs, b->n_seqs, &b->work));
        blocks_delta(b);
        (void)blocks_ok(b, pkv_step_begin(b->mgr, &now));
        commit_step(b, now);
        if (b->step.v) (void)blocks_ok(b, pkv_step_retire(b->mgr, b->step));
        b->step = now;
        b->run->sink += (uint64_t)b->changed.n_ids;
    }
}

static void call_list_step(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t step = steps_per_call(b->n_seqs); step > 0; step--) {
        for (int32_t i = 0; i < b->n_seqs; i++) b->taken[i] = block_list_take(&b->list);
        for (int32_t i = b->n_seqs; i-- > 0;) block_list_release(&b->list, b->taken[i]);
    }
}

static const struct decode_kind {
    const char *id, *label;
    bool no_cache, single_calls, delta, async;
    void (*call)(void *ctx);
} decode_rows = { "", "", false, false, false, false, call_decode }, decode_kinds[] = {
    { "/delta", ", delta of the tables", false, false, true, false, call_decode_delta },
    { "/async", ", delta, a step in flight", false, false, true, true, call_decode_async },
    { "/single", ", single calls", false, true, false, false, call_decode },
    { "/no-cache", ", no prefix cache", true, false, false, false, call_decode },
};

static bool add_decode(const struct bench_options *o, struct case_list *list, int32_t n_seqs,
                       const struct decode_kind *kind, struct bench_error *err)
{
    struct blocks_case b;
    char id[48], label[72];
    memset(&b, 0, sizeof(b));
    b.n_seqs = n_seqs;
    b.block_tokens = 16;
    b.n_tokens = CONTEXT + 16 + RESET_AT;
    b.n_blocks = n_seqs * (b.n_tokens / 16 + 2);
    b.prefix_cache = !kind->no_cache;
    b.single_calls = kind->single_calls;
    b.delta = kind->delta;
    b.async = kind->async;
    b.prepare = prepare_decode;
    snprintf(id, sizeof(id), "decode-step/%d%s", n_seqs, kind->id);
    snprintf(label, sizeof(label), "decode step, %d sequences%s", n_seqs, kind->label);
    struct bench_case *c = blocks_case_add(o, list, &b, id, label, "step", steps_per_call(n_seqs),
                                           kind->call, before_decode, err);
    if (!c) return false;
    if (n_seqs == 256 && !kind->single_calls && !kind->no_cache)
        bench_side_goal(&c->sides[0], GOAL_NS, 8000, "");
    if (n_seqs == 256)
        snprintf(c->sides[0].published, sizeof(c->sides[0].published),
                 "about 87 us a step, CPU-only engine loop (simllm issue 204)");
    snprintf(label, sizeof(label), "  bare LIFO list, %d take + release", n_seqs);
    struct bench_side *s =
        blocks_side_add(c, "list", label, "step", steps_per_call(n_seqs), call_list_step);
    s->baseline = true;
    return true;
}

/* ---------------------------------------------------------------- prefill and commit */

static void close_and_forget(struct blocks_case *b)
{
    if (b->seq.v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seq));
    b->seq.v = 0;
    blocks_forget(b);
}

static void before_prefill(void *ctx)
{
    close_and_forget(ctx);
}

static void call_prefill(void *ctx)
{
    struct blocks_case *b = ctx;
    const int32_t piece = b->chunks ? 512 : b->n_tokens;
    b->seq = blocks_open(b, 0);
    for (int32_t at = 0; at < b->n_tokens; at += piece) {
        blocks_reserve(b, b->seq, piece);
        blocks_commit(b, b->seq, 0, at, piece);
    }
}

static void before_commit(void *ctx)
{
    struct blocks_case *b = ctx;
    close_and_forget(b);
    b->seq = blocks_open(b, b->n_tokens);
}

static void call_commit(void *ctx)
{
    struct blocks_case *b = ctx;
    blocks_commit(b, b->seq, 0, 0, b->n_tokens);
}

static void drop_handle(struct blocks_case *b)
{
    b->seq.v = 0;
}
static bool prepare_one(struct blocks_case *b, struct bench_error *err)
{
    (void)err;
    drop_handle(b);
    return true;
}

static struct bench_case *add_fill(const struct bench_options *o, struct case_list *list,
                                   int32_t n_tokens, bool chunks, bool commit_only,
                                   struct bench_error *err)
{
    struct blocks_case b;
    char id[48], label[64];
    memset(&b, 0, sizeof(b));
    b.n_seqs = 1;
    b.block_tokens = 16;
    b.n_tokens = n_tokens;
    b.n_blocks = n_tokens / 16 + 16;
    b.prefix_cache = true;
    b.chunks = chunks;
    b.prepare = prepare_one;
    snprintf(id, sizeof(id), "%s/%d%s", commit_only ? "commit" : "prefill", n_tokens,
             chunks ? "/chunks" : "");
    snprintf(label, sizeof(label), "%s, %dk tokens%s",
             commit_only ? "commit (hash, index)" : "prefill: reserve + commit", n_tokens / 1024,
             chunks ? " in chunks of 512" : "");
    return blocks_case_add(o, list, &b, id, label, "token", n_tokens,
                           commit_only ? call_commit : call_prefill,
                           commit_only ? before_commit : before_prefill, err);
}

/* ---------------------------------------------------------------- eviction */

/* The pool is full of cached blocks; before each call the blocks just reserved get content and are
 * closed, so that it is full again. The next reservation evicts the oldest. */
static void before_evict(void *ctx)
{
    struct blocks_case *b = ctx;
    if (!b->seq.v) return;
    b->epoch++;
    blocks_commit(b, b->seq, 0, 0, EVICT * b->block_tokens);
    (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seq));
    b->seq.v = 0;
}

static void call_evict(void *ctx)
{
    struct blocks_case *b = ctx;
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(b->mgr, &s);
    const uint64_t evicted = s.evicted_blocks;
    b->seq = blocks_open(b, EVICT * b->block_tokens);
    pkv_blockmgr_stats(b->mgr, &s);
    if (s.evicted_blocks - evicted != EVICT) b->surprised = true;
}

static bool prepare_evict(struct blocks_case *b, struct bench_error *err)
{
    (void)err;
    b->seq.v = 0;
    for (int32_t i = 0; i < b->n_blocks / EVICT; i++) {
        b->seq = blocks_open(b, EVICT * b->block_tokens);
        before_evict(b);
    }
    return true;
}

static struct blocks_case evict_case(int32_t n_blocks)
{
    struct blocks_case b;
    memset(&b, 0, sizeof(b));
    b.n_seqs = 1;
    b.block_tokens = 16;
    b.n_tokens = EVICT * 16;
    b.n_blocks = n_blocks;
    b.prefix_cache = true;
    b.prepare = prepare_evict;
    return b;
}

static bool add_evict(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                      struct bench_error *err)
{
    const struct blocks_case b = evict_case(n_blocks);
    char id[48];
    snprintf(id, sizeof(id), "evict/%d", n_blocks);
    struct bench_case *c = blocks_case_add(o, list, &b, id, "reserve(1000), evicting 1000 cached",
                                           "block", EVICT, call_evict, before_evict, err);
    if (!c) return false;
    bench_side_goal(&c->sides[0], GOAL_NS, 200, ""); /* 1,000 evictions in 0.2 ms */
    snprintf(c->sides[0].published, sizeof(c->sides[0].published),
             "SGLang 7, later 0.5 ms per evict call");
    return true;
}

/* The call an engine makes to have free blocks at hand. */
static void before_evict_call(void *ctx)
{
    struct blocks_case *b = ctx;
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(b->mgr, &s);
    if (s.free_blocks == 0) return;
    b->seq = blocks_open(b, EVICT * b->block_tokens);
    before_evict(b);
}

static void call_evict_call(void *ctx)
{
    struct blocks_case *b = ctx;
    int32_t evicted = 0;
    if (blocks_ok(b, pkv_blockmgr_evict(b->mgr, EVICT, &evicted)) && evicted != EVICT)
        b->surprised = true;
}

/* The floors give back as many: what an eviction does beside forgetting the content. */
static void before_list_evict(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t i = 0; i < EVICT; i++) b->taken[i] = block_list_take(&b->list);
}
static void call_list_evict(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t i = 0; i < EVICT; i++) block_list_release(&b->list, b->taken[i]);
}
static void before_free(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t i = 0; i < EVICT; i++) {
        b->pointers[i] = malloc(64);
        if (b->pointers[i]) *(volatile char *)b->pointers[i] = 1;
    }
}
static void call_free(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t i = 0; i < EVICT; i++) free(b->pointers[i]);
}

static bool add_evict_call(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                           struct bench_error *err)
{
    const struct blocks_case b = evict_case(n_blocks);
    char id[48];
    snprintf(id, sizeof(id), "evict-call/%d", n_blocks);
    struct bench_case *c = blocks_case_add(o, list, &b, id, "evict(1000) of a full cache", "call",
                                           1, call_evict_call, before_evict_call, err);
    if (!c) return false;
    bench_side_goal(&c->sides[0], GOAL_NS, 200000, "");
    snprintf(c->sides[0].published, sizeof(c->sides[0].published),
             "SGLang 0.5 ms, vLLM v0 30 ms a call");
    struct bench_side *s =
        blocks_side_add(c, "list", "  bare LIFO list, 1000 releases", "call", 1, call_list_evict);
    s->before = before_list_evict;
    s->baseline = true;
    s = blocks_side_add(c, "malloc-64", "  free of 1000 x malloc(64)", "call", 1, call_free);
    s->before = before_free;
    return true;
}

bool blocks_step_cases(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    static const int32_t n_seqs[] = { 1, 64, 256, 1024 };
    for (int i = 0; i < BENCH_LEN(n_seqs); i++)
        if (!add_decode(o, list, n_seqs[i], &decode_rows, err)) return false;
    for (int i = 0; i < BENCH_LEN(decode_kinds); i++)
        if (!add_decode(o, list, 256, &decode_kinds[i], err)) return false;
    if (!add_fill(o, list, 2048, false, false, err) ||
        !add_fill(o, list, 32768, false, false, err) || !add_fill(o, list, 32768, true, false, err))
        return false;
    struct bench_case *c = add_fill(o, list, 32768, false, true, err);
    if (!c) return false;
    bench_side_goal(&c->sides[0], GOAL_NS, 3, "");
    snprintf(c->sides[0].published, sizeof(c->sides[0].published),
             "vLLM 60-120 ns per token (vLLM issues 15297, 29261)");
    return add_evict(o, list, 100000, err) && add_evict_call(o, list, 100000, err);
}
