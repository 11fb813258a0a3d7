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
    for (int32_t i = 0; i < b->n_seqs; i++)
        if (b->seqs[i].v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
    blocks_forget(b);
    for (int32_t i = 0; i < b->n_seqs; i++) {
        b->seqs[i] = blocks_open(b, context_of(b, i));
        blocks_commit(b, b->seqs[i], i, 0, context_of(b, i));
        b->reqs[i] = (pkv_reserve_req){ b->seqs[i], 1 };
    }
    b->committed = 0;
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

static void call_decode(void *ctx)
{
    struct blocks_case *b = ctx;
    const int32_t *rows = NULL;
    int32_t width = 0;
    for (int32_t step = steps_per_call(b->n_seqs); step > 0; step--, b->committed++) {
        if (b->single_calls)
            for (int32_t i = 0; i < b->n_seqs; i++) blocks_reserve(b, b->seqs[i], 1);
        else (void)blocks_ok(b, pkv_seq_reserve(b->mgr, b->reqs, b->n_seqs, &b->work));
        for (int32_t i = 0; i < b->n_seqs; i++)
            blocks_commit(b, b->seqs[i], i, context_of(b, i) + b->committed, 1);
        (void)blocks_ok(b, pkv_blockmgr_rows(b->mgr, 0, &rows, &width));
        b->run->sink += (uint64_t)rows[0];
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

static bool add_decode(const struct bench_options *o, struct case_list *list, int32_t n_seqs,
                       bool prefix_cache, bool single_calls, struct bench_error *err)
{
    struct blocks_case b;
    char id[48], label[64];
    memset(&b, 0, sizeof(b));
    b.n_seqs = n_seqs;
    b.block_tokens = 16;
    b.n_tokens = CONTEXT + 16 + RESET_AT;
    b.n_blocks = n_seqs * (b.n_tokens / 16 + 2);
    b.prefix_cache = prefix_cache;
    b.single_calls = single_calls;
    b.prepare = prepare_decode;
    const char *mode = single_calls ? ", single calls" : prefix_cache ? "" : ", no prefix cache";
    snprintf(id, sizeof(id), "decode-step/%d%s", n_seqs,
             single_calls   ? "/single"
             : prefix_cache ? ""
                            : "/no-cache");
    snprintf(label, sizeof(label), "decode step, %d sequences%s", n_seqs, mode);
    struct bench_case *c = blocks_case_add(o, list, &b, id, label, "step", steps_per_call(n_seqs),
                                           call_decode, before_decode, err);
    if (!c) return false;
    if (n_seqs == 256 && !single_calls && prefix_cache) c->sides[0].goal_ns = 8000;
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

static bool add_evict(const struct bench_options *o, struct case_list *list, int32_t n_blocks,
                      struct bench_error *err)
{
    struct blocks_case b;
    char id[48];
    memset(&b, 0, sizeof(b));
    b.n_seqs = 1;
    b.block_tokens = 16;
    b.n_tokens = EVICT * 16;
    b.n_blocks = n_blocks;
    b.prefix_cache = true;
    b.prepare = prepare_evict;
    snprintf(id, sizeof(id), "evict/%d", n_blocks);
    struct bench_case *c = blocks_case_add(o, list, &b, id, "reserve(1000), evicting 1000 cached",
                                           "block", EVICT, call_evict, before_evict, err);
    if (!c) return false;
    c->sides[0].goal_ns = 200; /* 1,000 evictions in 0.2 ms */
    snprintf(c->sides[0].published, sizeof(c->sides[0].published),
             "SGLang 7, later 0.5 ms per evict call");
    return true;
}

bool blocks_step_cases(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    static const int32_t n_seqs[] = { 1, 64, 256, 1024 };
    for (int i = 0; i < BENCH_LEN(n_seqs); i++)
        if (!add_decode(o, list, n_seqs[i], true, false, err)) return false;
    if (!add_decode(o, list, 256, true, true, err) || !add_decode(o, list, 256, false, false, err))
        return false;
    if (!add_fill(o, list, 2048, false, false, err) ||
        !add_fill(o, list, 32768, false, false, err) || !add_fill(o, list, 32768, true, false, err))
        return false;
    struct bench_case *c = add_fill(o, list, 32768, false, true, err);
    if (!c) return false;
    c->sides[0].goal_ns = 3;
    snprintf(c->sides[0].published, sizeof(c->sides[0].published),
             "vLLM 60-120 ns per token (vLLM issues 15297, 29261)");
    return add_evict(o, list, 100000, err);
}
