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

#define OP_FN_LIST(X)                                                                              \
    X(ns_open)                                                                                     \
    X(ns_close)                                                                                    \
    X(open)                                                                                        \
    X(match)                                                                                       \
    X(reserve) X(commit) X(fork) X(truncate) X(close) X(row) X(slots) X(info) X(probe) X(need)
enum op_fn {
#define OP_FN_ENUM(name) OP_##name,
    OP_FN_LIST(OP_FN_ENUM)
#undef OP_FN_ENUM
        OP_N_FN
};

/* Added up over many runs. */
typedef struct op_cover {
    uint64_t status[OP_N_FN][18], stop[4], inside[OR_N_COVER], ops;
} op_cover;

typedef struct op_run {
    uint64_t seed;    /* of configuration and documents */
    uint8_t secret;   /* fills hash_secret; results must not depend on it */
    int most_nodes;   /* what the probe bound allows in a build with one hash value; 0: any */
    bool alone;       /* the oracle only, against its simulated bytes */
    FILE *trace;      /* every call in words, or NULL */
    op_cover *cover;  /* or NULL */
    uint64_t digests; /* out: all digests seen, folded */
    int failed_at;    /* out: index of the operation, -1: none */
    char why[400];    /* out */
} op_run;

/* True: no difference. */
bool op_run_list(op_run *run, const op *ops, int n_ops);

/* The next operation of a random stream. `style` 0: mixed, 1: much truncation, 2: many forks, 3:
 * many short sequences. */
enum { OP_N_STYLES = 4 };
op op_random(uint64_t *rng, int style);
uint64_t op_next(uint64_t *rng); /* splitmix64 */

#endif
