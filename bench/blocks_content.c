/* Finding content, and sharing it: match, fork, copy on write, truncate. */
#include "blocks_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROMPT 38016 /* tokens: 2,376 blocks of 16, 297 of 128 */
#define NEW 200      /* tokens that continue a conversation */
#define SIBLINGS 64
#define TALKS 16 /* conversations in the cache */

/* ---------------------------------------------------------------- match */

enum match_kind { MATCH_COLD, MATCH_AGAIN, MATCH_MISS };

static void close_claim(struct blocks_case *b)
{
    if (b->seq.v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seq));
    b->seq = blocks_open(b, 0);
}

static void before_hot(void *ctx)
{
    close_claim(ctx);
}
static void before_cold(void *ctx)
{
    close_claim(ctx);
    blocks_flush(ctx);
}

static void match(struct blocks_case *b, int32_t content, int32_t n, int32_t claimed)
{
    const pkv_tokens prompt = blocks_tokens(b, content, 0, n);
    pkv_match m = PKV_MATCH_INIT;
    if (blocks_ok(b, pkv_seq_match(b->mgr, b->seq, &prompt, n, 0, &b->work, &m)) &&
        m.claimed != claimed)
        b->surprised = true;
}
static void call_match(void *ctx)
{
    match(ctx, 0, PROMPT, PROMPT);
}
static void call_continued(void *ctx)
{
    match(ctx, 0, PROMPT + NEW, PROMPT);
}
static void call_miss(void *ctx)
{
    match(ctx, TALKS, PROMPT, 0);
}

/* Conversations that grew side by side, a block at a time in a random order, and were closed: the
 * records of one of them lie scattered over the memory of the manager, as after hours of service.
 */
static bool prepare_match(struct blocks_case *b, struct bench_error *err)
{
    const int32_t n_blocks = PROMPT / b->block_tokens;
    int32_t length[TALKS] = { 0 };
    (void)err;
    for (int32_t i = 0; i < TALKS; i++) b->seqs[i] = blocks_open(b, PROMPT);
    for (int32_t i = 0; i < TALKS * n_blocks; i++) {
        const int32_t talk = b->order[i] % TALKS;
        if (length[talk] == PROMPT) continue;
        blocks_commit(b, b->seqs[talk], talk, length[talk], b->block_tokens);
        length[talk] += b->block_tokens;
    }
    for (int32_t i = 0; i < TALKS; i++) {
        blocks_commit(b, b->seqs[i], i, length[i], PROMPT - length[i]);
        (void)blocks_ok(b, pkv_seq_close(b->mgr, b->seqs[i]));
    }
    b->seq.v = 0;
    return true;
}

static bool add_match(const struct bench_options *o, struct case_list *list, enum match_kind kind,
                      int32_t block_tokens, double goal_ns, struct bench_error *err)
{
    static const char *const ids[] = { "match-cold", "match-continued", "match-miss" };
    static const char *const labels[] = { "match 38k tokens, caches cold",
                                          "match 38k + 200 new, hot",
                                          "match 38k, miss at the first block" };
    static void (*const calls[])(void *) = { call_match, call_continued, call_miss };
    struct blocks_case b;
    char id[48], label[64];
    memset(&b, 0, sizeof(b));
    b.n_seqs = TALKS;
    b.block_tokens = block_tokens;
    b.n_tokens = PROMPT + NEW;
    b.n_blocks = (TALKS + 2) * PROMPT / block_tokens;
    b.prefix_cache = true;
    b.prepare = prepare_match;
    snprintf(id, sizeof(id), "%s/b%d", ids[kind], block_tokens);
    snprintf(label, sizeof(label), "%s, B=%d", labels[kind], block_tokens);
    struct bench_case *c = blocks_case_add(o, list, &b, id, label, "call", 1, calls[kind],
                                           kind == MATCH_COLD ? before_cold : before_hot, err);
    if (!c) return false;
    bench_side_goal(&c->sides[0], GOAL_NS, goal_ns, "");
    if (kind == MATCH_COLD) {
        /* Emptying the caches takes far longer than the call. */
        if (c->sampler.n_samples > 50) c->sampler.n_samples = 50;
        if (block_tokens == 128)
            snprintf(c->sides[0].published, sizeof(c->sides[0].published),
                     "TensorRT-LLM v2 0.9 ms, 297 blocks");
    }
    return true;
}

/* ---------------------------------------------------------------- fork and truncate */

static bool prepare_long(struct blocks_case *b, struct bench_error *err)
{
    (void)err;
    b->child.v = 0;
    b->seq = blocks_open(b, b->n_tokens);
    blocks_commit(b, b->seq, 0, 0, b->n_tokens);
    return true;
}

static void before_fork(void *ctx)
{
    struct blocks_case *b = ctx;
    if (b->child.v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->child));
    b->child.v = 0;
}
static void call_fork(void *ctx)
{
    struct blocks_case *b = ctx;
    (void)blocks_ok(b, pkv_seq_fork(b->mgr, b->seq, &b->child, 1));
}

/* The second half is given back and grown again, untimed. */
static void before_truncate(void *ctx)
{
    struct blocks_case *b = ctx;
    const int32_t half = b->n_tokens / 2;
    if (b->committed == half) {
        blocks_reserve(b, b->seq, half);
        b->epoch++;
        blocks_commit(b, b->seq, 0, half, half);
    }
    b->committed = b->n_tokens;
}
static void call_truncate(void *ctx)
{
    struct blocks_case *b = ctx;
    b->committed = b->n_tokens / 2;
    (void)blocks_ok(b, pkv_seq_truncate(b->mgr, b->seq, b->committed));
}

static bool add_long(const struct bench_options *o, struct case_list *list, int32_t n_tokens,
                     bool fork, struct bench_error *err)
{
    struct blocks_case b;
    char id[48], label[64];
    memset(&b, 0, sizeof(b));
    b.n_seqs = 1;
    b.block_tokens = 16;
    b.n_tokens = n_tokens;
    b.n_blocks = 2 * (n_tokens / 16) + 16;
    b.prefix_cache = true;
    b.prepare = prepare_long;
    snprintf(id, sizeof(id), "%s/%d", fork ? "fork" : "truncate", n_tokens);
    snprintf(label, sizeof(label), "%s, %dk tokens (%d blocks)", fork ? "fork" : "truncate to half",
             n_tokens / 1024, n_tokens / 16);
    struct bench_case *c = blocks_case_add(
        o, list, &b, id, label, fork ? "call" : "block", fork ? 1 : n_tokens / 32,
        fork ? call_fork : call_truncate, fork ? before_fork : before_truncate, err);
    if (!c) return false;
    if (fork && n_tokens == 131072) bench_side_goal(&c->sides[0], GOAL_NS, 30000, "");
    return true;
}

/* ---------------------------------------------------------------- copy on write */

/* A parent with a partial last block and 64 children that share it. */
static void before_copies(void *ctx)
{
    struct blocks_case *b = ctx;
    for (int32_t i = 0; i < SIBLINGS; i++)
        if (b->children[i].v) (void)blocks_ok(b, pkv_seq_close(b->mgr, b->children[i]));
    if (!blocks_ok(b, pkv_seq_fork(b->mgr, b->seq, b->children, SIBLINGS))) return;
    for (int32_t i = 0; i < SIBLINGS; i++) b->reqs[i] = (pkv_reserve_req){ b->children[i], 1 };
}

static void call_copies(void *ctx)
{
    struct blocks_case *b = ctx;
    if (blocks_ok(b, pkv_seq_reserve(b->mgr, b->reqs, SIBLINGS, &b->work)) &&
        b->work.n_copy != SIBLINGS)
        b->surprised = true;
}

static bool prepare_copies(struct blocks_case *b, struct bench_error *err)
{
    memset(b->children, 0, sizeof(b->children));
    return prepare_long(b, err);
}

static bool add_copies(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err)
{
    struct blocks_case b;
    memset(&b, 0, sizeof(b));
    b.n_seqs = SIBLINGS;
    b.block_tokens = 16;
    b.n_tokens = 1000; /* 62 blocks and a half */
    b.n_blocks = 256;
    b.prefix_cache = true;
    b.prepare = prepare_copies;
    return blocks_case_add(o, list, &b, "copy-on-write/64",
                           "copy on write, 64 siblings in one call", "copy", SIBLINGS, call_copies,
                           before_copies, err) != NULL;
}

bool blocks_content_cases(const struct bench_options *o, struct case_list *list,
                          struct bench_error *err)
{
    return add_match(o, list, MATCH_COLD, 16, 450000, err) &&
           add_match(o, list, MATCH_COLD, 128, 150000, err) &&
           add_match(o, list, MATCH_AGAIN, 16, 0, err) &&
           add_match(o, list, MATCH_AGAIN, 128, 20000, err) &&
           add_match(o, list, MATCH_MISS, 16, 0, err) &&
           add_match(o, list, MATCH_MISS, 128, 0, err) && add_long(o, list, 1024, true, err) &&
           add_long(o, list, 131072, true, err) && add_long(o, list, 1024, false, err) &&
           add_long(o, list, 131072, false, err) && add_copies(o, list, err);
}
