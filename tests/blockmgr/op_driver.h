/* Runs a list of abstract operations on a manager and on the oracle at the same time and compares
 * all that can be seen after each one: status, outputs, work lists, rows, lengths, statistics; the
 * manager's own check at level 3; the digest, which a refusal and a question must leave alone.
 *
 * An operation is numbers only; what they mean (which sequence, which prompt) is worked out from
 * the state it meets. So any part of a list can be left out and the rest still runs: that is how a
 * failing list is shrunk, and how a fuzzer's bytes become operations. */
#ifndef PKV_TESTS_OP_DRIVER_H
#define PKV_TESTS_OP_DRIVER_H

#include "oracle.h"

#include <stdio.h>

typedef struct op {
    uint8_t kind;
    uint32_t a[5];
} op;

/* Name and feature of each call. New ones go to the end: seeds of the fuzz target count on the
 * order. */
#define OP_FN_LIST(X)                                                                              \
    X(ns_open, BASE)                                                                               \
    X(ns_close, BASE)                                                                              \
    X(open, BASE)                                                                                  \
    X(match, BASE)                                                                                 \
    X(reserve, BASE)                                                                               \
    X(commit, BASE)                                                                                \
    X(fork, BASE)                                                                                  \
    X(truncate, BASE)                                                                              \
    X(close, BASE)                                                                                 \
    X(row, BASE)                                                                                   \
    X(slots, BASE)                                                                                 \
    X(info, BASE)                                                                                  \
    X(probe, BASE)                                                                                 \
    X(need, BASE)                                                                                  \
    X(step_begin, STEPS)                                                                           \
    X(step_retire, STEPS)                                                                          \
    X(step_abort, STEPS)                                                                           \
    X(retain, POLICY)                                                                              \
    X(decay, POLICY)                                                                               \
    X(evict, POLICY)                                                                               \
    X(new_epoch, POLICY)                                                                           \
    X(snapshot, GROUPS)                                                                            \
    X(hold_open, HOLDS)                                                                            \
    X(hold_post, HOLDS)                                                                            \
    X(poll, HOLDS)                                                                                 \
    X(hold_reclaim, HOLDS)                                                                         \
    X(hold_blocks, HOLDS)                                                                          \
    X(suspend, HOLDS)                                                                              \
    X(resume, HOLDS)                                                                               \
    X(blocks_take, RAW)                                                                            \
    X(blocks_ref, RAW)                                                                             \
    X(blocks_unref, RAW)                                                                           \
    X(block_publish, RAW)                                                                          \
    X(blocks_lookup, RAW)                                                                          \
    X(table_delta, TABLES)                                                                         \
    X(table_resync, TABLES)                                                                        \
    X(seqs_common, TABLES)                                                                         \
    X(view_slots, TABLES)                                                                          \
    X(view_row, TABLES)
enum op_fn {
#define OP_FN_ENUM(name, feature) OP_##name,
    OP_FN_LIST(OP_FN_ENUM)
#undef OP_FN_ENUM
        OP_N_FN
};

/* What a run may use; without a feature its calls are left out and no configuration has it. */
enum op_feature {
    OP_BASE = 0,
    OP_STEPS = 1,  /* also commits in open steps */
    OP_GROUPS = 2, /* also several groups, groups with windows */
    OP_POLICY = 4,
    OP_HOLDS = 8,
    OP_RAW = 16,
    OP_TABLES = 32,
    OP_ALL = 63
};
/* The feature of a call. */
unsigned op_feature_of(int kind);
/* Of the features allowed, those that a seed uses: half of the seeds all, a quarter none, so that
 * what is seldom in a large world is met in a small one. */
unsigned op_features_of_seed(uint64_t seed, unsigned allowed);

/* Added up over many runs. */
typedef struct op_cover {
    uint64_t status[OP_N_FN][18], stop[6], inside[OR_N_COVER], ops;
} op_cover;

typedef struct op_run {
    uint64_t seed;  /* of configuration and documents */
    uint8_t secret; /* fills hash_secret; results must not depend on it */
    int most_nodes; /* what the probe bound allows in a build with one hash value; 0: any */
    bool alone;     /* the oracle only, against its simulated bytes */
    unsigned features;
    FILE *trace;      /* every call in words, or NULL */
    op_cover *cover;  /* or NULL */
    uint64_t digests; /* out: all digests seen, folded */
    int failed_at;    /* out: index of the operation, -1: none */
    char why[400];    /* out */
} op_run;

/* True: no difference. */
bool op_run_list(op_run *run, const op *ops, int n_ops);

/* The next operation of a random stream. `style` 0: mixed, 1: much truncation, 2: many forks, 3:
 * many short sequences, 4: few sequences with several steps in flight. Features that are off have
 * no calls in it. */
enum { OP_N_STYLES = 5 };
op op_random(uint64_t *rng, int style, unsigned features);
uint64_t op_next(uint64_t *rng); /* splitmix64 */

#endif
