/* A trace of prompts against the prefix cache of the real block manager, and what a cache without
 * end would find. */
#ifndef PKV_SHARE_REPLAY_H
#define PKV_SHARE_REPLAY_H

#include "hash_trace.h"

struct share_hits {
    int64_t tokens, blocks; /* found, of n_tokens and n_refs of the trace */
    double request_mean;    /* of the shares of tokens found, every request counting alike */
    int64_t evicted;        /* cached blocks dropped to make room */
    bool ok;                /* the manager agrees with the count, and its invariants hold */
    char text[160];         /* what was wrong */
};

/* Blocks that the longest request needs at once: its prompt, and one for its output. */
int32_t share_least_pool(const struct hash_trace *t);
/* Blocks with which nothing is ever evicted. */
int32_t share_endless_pool(const struct hash_trace *t);

/* What a cache finds that never forgets: every id seen in an earlier request. */
void share_bound(const struct hash_trace *t, bool *seen, struct share_hits *out);

/* Replay the requests one after another: open, match the whole prompt, reserve the rest, commit it,
 * close. `flags` are those of pkv_blockmgr_config, `pool` is at least share_least_pool. False only
 * when the replay cannot be made. */
bool share_replay(const struct hash_trace *t, int32_t pool, uint32_t flags, struct share_hits *out,
                  struct bench_error *err);

#endif
