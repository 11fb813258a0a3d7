/* A block of the trace is one block of the manager, with two tokens that are both its id:
 *
 *   trace    [ id 46, 512 tokens ][ id 47, 512 tokens ][ id 2353, 299 tokens ]
 *   manager  [      46 46        ][      47 47        ][     2353 2353      ][ 0 . ]  <- output
 *
 * Identity is the chain of ids in both. Two tokens instead of 512, because the manager compares
 * every token and counts blocks: the outcome is the same. Two instead of one, because a request
 * computes at least one token of its own; that token opens a block which is not full and is given
 * back at close, so it is no content and only takes its place while the request runs. */
#include "share_replay.h"

#include "pagedkv/blockmgr.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PER_BLOCK 2 /* tokens of the manager for one block of the trace */

struct replay {
    const struct hash_trace *t;
    pkv_blockmgr *mgr;
    int32_t *prompt; /* [PER_BLOCK * longest + 1] */
    pkv_block_work work;
    pkv_block_copy copy;
};

int32_t share_least_pool(const struct hash_trace *t)
{
    return t->longest + 1;
}

int32_t share_endless_pool(const struct hash_trace *t)
{
    return t->n_ids + 1;
}

/* Count the first `found` blocks of request `i` as hits. */
static void count_hits(const struct hash_trace *t, int32_t i, int32_t found, struct share_hits *out)
{
    int64_t tokens = 0;
    for (int32_t k = 0; k < found; k++) tokens += hash_trace_block(t, i, k);
    out->blocks += found;
    out->tokens += tokens;
    out->request_mean += (double)tokens / t->tokens[i] / t->n_requests;
}

void share_bound(const struct hash_trace *t, bool *seen, struct share_hits *out)
{
    memset(out, 0, sizeof(*out));
    memset(seen, 0, (size_t)t->n_ids * sizeof(*seen));
    for (int32_t i = 0; i < t->n_requests; i++) {
        int32_t found = 0;
        for (int32_t at = t->first[i]; at < t->first[i + 1]; at++) {
            found += seen[t->ids[at]]; /* a chain: what was seen comes before what was not */
            seen[t->ids[at]] = true;
        }
        count_hits(t, i, found, out);
    }
    out->ok = true;
}

static pkv_status serve(struct replay *r, pkv_seq seq, int32_t n_blocks, int32_t *found)
{
    const int32_t n = PER_BLOCK * n_blocks;
    const pkv_tokens prompt = { r->prompt, n, NULL, 0 };
    pkv_match m = PKV_MATCH_INIT;
    pkv_status status = pkv_seq_match(r->mgr, seq, &prompt, n, n + 1, &r->work, &m);
    if (status != PKV_OK) return status;
    const pkv_tokens rest = { r->prompt + m.claimed, n + 1 - m.claimed, NULL, 0 };
    *found = m.claimed / PER_BLOCK;
    return pkv_seq_commit(r->mgr, seq, &rest, PKV_STEP_NONE);
}

static pkv_status serve_request(struct replay *r, int32_t i, int32_t *found)
{
    const struct hash_trace *t = r->t;
    const int32_t n_blocks = t->first[i + 1] - t->first[i];
    const pkv_ns everyone = { 0 };
    pkv_seq seq;
    for (int32_t k = 0; k < n_blocks; k++)
        for (int32_t j = 0; j < PER_BLOCK; j++)
            r->prompt[PER_BLOCK * k + j] = t->ids[t->first[i] + k];
    r->prompt[PER_BLOCK * n_blocks] = 0;
    pkv_status status = pkv_seq_open(r->mgr, everyone, &seq);
    if (status == PKV_OK) status = serve(r, seq, n_blocks, found);
    return status == PKV_OK ? pkv_seq_close(r->mgr, seq) : status;
}

/* The manager's own counters and invariants, after the last request. */
static void verify(const struct replay *r, struct share_hits *out)
{
    pkv_blockmgr_stats_t s = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(r->mgr, &s);
    const pkv_status invariants = pkv_blockmgr_check(r->mgr, 3);
    out->evicted = (int64_t)s.evicted_blocks;
    out->ok = invariants == PKV_OK && s.active_blocks == 0 &&
              s.hit_tokens == (uint64_t)out->blocks * PER_BLOCK &&
              s.query_tokens == (uint64_t)r->t->n_refs * PER_BLOCK;
    if (!out->ok)
        snprintf(out->text, sizeof(out->text),
                 "invariants %s, %d blocks active after the last request, %llu hit tokens counted "
                 "for %lld blocks",
                 pkv_status_name(invariants), s.active_blocks, (unsigned long long)s.hit_tokens,
                 (long long)out->blocks);
}

static void replay_all(struct replay *r, struct share_hits *out)
{
    for (int32_t i = 0; i < r->t->n_requests; i++) {
        int32_t found = 0;
        const pkv_status status = serve_request(r, i, &found);
        if (status != PKV_OK) {
            snprintf(out->text, sizeof(out->text), "request %d: %s", i + 1,
                     pkv_status_name(status));
            return;
        }
        count_hits(r->t, i, found, out);
    }
    verify(r, out);
}

bool share_replay(const struct hash_trace *t, int32_t pool, uint32_t flags, struct share_hits *out,
                  struct bench_error *err)
{
    struct replay r = { .t = t };
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    /* A larger pool than the endless one finds nothing more and would only cost memory. */
    cfg.n_blocks = 1 + (pool < share_endless_pool(t) ? pool : share_endless_pool(t));
    cfg.block_tokens = PER_BLOCK;
    cfg.max_seqs = 1;
    cfg.max_seq_tokens = PER_BLOCK * t->longest + 1;
    cfg.flags = flags;
    memset(out, 0, sizeof(*out));
    r.work = (pkv_block_work)PKV_BLOCK_WORK_INIT;
    r.work.copy = &r.copy;
    r.work.copy_cap = 1;
    r.prompt = bench_calloc((size_t)cfg.max_seq_tokens, sizeof(*r.prompt), err);
    if (!r.prompt) return false;
    const pkv_status status = pkv_blockmgr_create(&cfg, NULL, &r.mgr);
    if (status == PKV_OK) replay_all(&r, out);
    pkv_blockmgr_destroy(r.mgr);
    free(r.prompt);
    return status == PKV_OK || bench_fail(err, BENCH_USAGE, "no block manager of %d blocks: %s",
                                          cfg.n_blocks, pkv_status_name(status));
}
