/* What tests of placement share: a placement whose sequences are modelled by plain arrays of
 * tokens, with bytes in every slot that follow from the tokens up to there. */
#ifndef PKV_TESTS_PLACEMENT_RIG_H
#define PKV_TESTS_PLACEMENT_RIG_H

#include "common/philox.h"
#include "model/placement.h"
#include "model_test.h"

#define WORLD_SEQS 48
#define WORLD_TOKENS 96 /* max_context */
#define WORLD_BLOCKS 96 /* most blocks of a pool */

typedef struct world_options {
    pkv_placement kind;
    pkv_dtype dtype;
    int32_t block_tokens, n_blocks, n_host_blocks;
    int32_t max_seqs; /* 0: 12 */
    bool no_prefix_cache;
    uint64_t seed;
} world_options;

typedef struct world_seq {
    bool open, parked;
    int32_t n, before;            /* committed; before the open step, -1: nothing in it */
    int32_t longest;              /* as admit was told */
    int32_t tokens[WORLD_TOKENS]; /* [n], and the rest of the prompt behind them */
    int32_t n_prompt;             /* tokens that are known */
    int32_t row[WORLD_TOKENS];    /* parked: blocks that stayed, or 0 */
    uint32_t moved[WORLD_TOKENS]; /* parked: identity of what went to the host, or 0 */
} world_seq;

typedef struct world {
    world_options o;
    pkv__placement *p;
    pkv_backend *be;
    pkv_kv_shape shape;
    pkv__rng rng;
    last_log log;
    counted_memory memory, backend_memory;
    world_seq seqs[WORLD_SEQS];
    uint32_t n_suspends;
    int64_t n_swapped_bytes;
    int64_t n_status[18]; /* answers by status */
} world;

pkv__placement_config world_config(world *w, const world_options *o);
void world_make(world *w, const world_options *o);
void world_drop(world *w); /* the check of the placement passes, all memory comes back */
int32_t world_below(world *w, int32_t n);

/* Each compares what was refused with what was there, and what was done with the model. */
pkv_status world_admit(world *w, const int32_t *ids, int32_t n, int32_t n_longest, int32_t n_seqs,
                       int32_t watermark, int32_t *seq);
pkv_status world_reserve(world *w, const int32_t *seqs, const int32_t *n_tokens, int32_t n);
pkv_status world_fork(world *w, int32_t parent, int32_t *children, int32_t n);
void world_close(world *w, int32_t seq);
void world_begin(world *w);
/* Write K and V of the next n tokens, which are those of the prompt, then drawn; and commit them.
 */
void world_commit(world *w, int32_t seq, int32_t n);
void world_retire(world *w);
void world_abort(world *w);
pkv_status world_suspend(world *w, const int32_t *seqs, int32_t n);
pkv_status world_resume(world *w, const int32_t *seqs, int32_t n, int32_t watermark);

/* reserve, begin, commit, retire of one sequence. */
pkv_status world_step(world *w, int32_t seq, int32_t n);
/* Everything: bytes of every token, lengths, usage counted anew, the placement's own check. */
void world_check(world *w);
pkv__place_usage world_usage(const world *w);

/* A pool of 80 blocks of 4 tokens, f16; paged with a host pool of 60. */
world_options world_plain(pkv_placement kind);
/* Random ids, other than those of the other tests. */
void world_prompt(world *w, int32_t *ids, int32_t n);
/* Admitted and computed. */
int32_t world_prefilled(world *w, const int32_t *ids, int32_t n, int32_t n_longest, int32_t n_seqs);
/* This status, and one line that contains `says`. */
void world_expect_line(const world *w, const char *what, pkv_status status, pkv_status want,
                       const char *says);

#endif
