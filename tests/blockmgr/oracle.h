/* A block manager to compare with: written from the public header alone, with linear scans and no
 * cleverness. A block's references are counted by looking through every row, its node is found by
 * looking through every node; nothing is cached, so nothing can disagree.
 *
 * It also simulates the bytes. Every slot holds a sum over the namespace, the tokens and the extra
 * keys up to its token. Work lists are carried out in order, commits write their slots, and
 * or_check reads every row and every content node back: each slot must hold exactly the sum of the
 * sequence (or content) that names it. */
#ifndef PKV_TESTS_ORACLE_H
#define PKV_TESTS_ORACLE_H

#include "pagedkv/blockmgr.h"

enum {
    OR_T = 16,       /* largest block_tokens */
    OR_BLOCKS = 96,  /* largest pool */
    OR_SEQS = 12,    /* most sequences */
    OR_TOKENS = 256, /* longest sequence */
    OR_NS = 6,       /* most namespaces */
    OR_FIELD = 8     /* longest identity field */
};

/* What happened inside; the random test wants every one of them reached. */
#define OR_COVER_LIST(X)                                                                           \
    X(FREE_TO_ACTIVE)                                                                              \
    X(ACTIVE_TO_FREE)                                                                              \
    X(ACTIVE_TO_CACHED)                                                                            \
    X(CACHED_TO_ACTIVE)                                                                            \
    X(CACHED_EVICTED)                                                                              \
    X(CACHED_EVICTED_PROTECTED)                                                                    \
    X(CACHED_REPLACED)                                                                             \
    X(CACHED_DROPPED_BY_NS)                                                                        \
    X(SPARE_MADE)                                                                                  \
    X(SPARE_TOOK_OVER)                                                                             \
    X(SPARE_FREED)                                                                                 \
    X(WITHDRAWN_REMOVED)                                                                           \
    X(WITHDRAWN_TO_SPARE)                                                                          \
    X(WITHDRAWN_SPARE)                                                                             \
    X(COPY_KEPT_BY_LAST)                                                                           \
    X(COPY_SHARED)                                                                                 \
    X(COPY_PUBLISHED)                                                                              \
    X(COPY_TO_FIT)                                                                                 \
    X(PARTIAL_MADE)                                                                                \
    X(PARTIAL_THERE)                                                                               \
    X(PARTIAL_REPLACED)                                                                            \
    X(PARTIAL_DROPPED)                                                                             \
    X(PARTIAL_TOOK_CACHED)                                                                         \
    X(PARTIAL_SPARE)                                                                               \
    X(PARTIAL_REFUSED)                                                                             \
    X(PARTIAL_HIT_CACHED)                                                                          \
    X(PARTIAL_HIT_ACTIVE)                                                                          \
    X(PARTIAL_HIT_CUT)                                                                             \
    X(PARTIAL_HIT_EXTRA_CUT)                                                                       \
    X(MARKED)                                                                                      \
    X(DEMOTED)                                                                                     \
    X(UNIT_NO_NODE)                                                                                \
    X(UNIT_NO_EXTRA)                                                                               \
    X(UNIT_AFTER_END)                                                                              \
    X(INDEX_RESUMED) X(SURPLUS_REUSED) X(FORK_SURPLUS) X(MANY_CHILDREN) X(ZERO_FRESH_ONLY)
enum or_cover {
#define OR_COVER_ENUM(name) OR_##name,
    OR_COVER_LIST(OR_COVER_ENUM)
#undef OR_COVER_ENUM
        OR_N_COVER
};

typedef struct or_entry {
    int64_t off, n; /* relative to the unit's first token */
    uint8_t digest[32];
} or_entry;
typedef struct or_unit { /* the key of a node, without its parent */
    int n, n_ex;
    int32_t tok[OR_T];
    or_entry ex[OR_T];
} or_unit;
typedef struct or_node {
    bool live, hit;
    int ns, parent; /* parent -1: root */
    uint64_t born;
    or_unit key;
    uint64_t sum[OR_T]; /* what the slots of its blocks must hold */
    int main, spare[OR_SEQS + 1], n_spare;
} or_node;
typedef struct or_seq {
    bool open, ended; /* ended: indexing is over */
    uint32_t gen;
    int ns, settled, committed, reserved, n_row, n_indexed, claim;
    int row[OR_TOKENS];
    int32_t tok[OR_TOKENS];
    pkv_extra ex[OR_TOKENS]; /* absolute */
    int n_ex;
    uint64_t sum[OR_TOKENS];
} or_seq;
typedef struct or_ns {
    int opens, n_field[3];
    uint32_t gen;
    uint8_t model[32];
    char field[3][OR_FIELD];
} or_ns;

typedef struct oracle {
    pkv_blockmgr_config cfg; /* defaults filled in */
    int T, probe_nodes; /* probe_nodes: with one hash value for all, what the probe bound allows; 0:
                           any */
    int free_id[OR_BLOCKS], n_free, list[2][OR_BLOCKS], n_list[2]; /* list 1: protected */
    bool used[OR_BLOCKS];
    or_node node[OR_BLOCKS];
    or_seq seq[OR_SEQS];
    int seq_free[OR_SEQS], n_seq_free;
    or_ns ns[OR_NS];
    uint64_t born, bytes[OR_BLOCKS][OR_T];
    pkv_blockmgr_stats_t stats; /* the running counters only */
    uint64_t cover[OR_N_COVER];
    const char *broken; /* first thing that was wrong, or NULL */
} oracle;

void or_init(oracle *o, const pkv_blockmgr_config *cfg);
pkv_status or_ns_open(oracle *o, const pkv_ns_params *p, pkv_ns *out);
pkv_status or_ns_close(oracle *o, pkv_ns ns);
pkv_status or_open(oracle *o, pkv_ns ns, pkv_seq *out);
pkv_status or_match(oracle *o, pkv_seq h, const pkv_tokens *p, int32_t max_tokens, int32_t upto,
                    pkv_block_work *w, pkv_match *m);
pkv_status or_reserve(oracle *o, const pkv_reserve_req *q, int32_t n, pkv_block_work *w);
pkv_status or_commit(oracle *o, pkv_seq h, const pkv_tokens *t, pkv_step step);
pkv_status or_fork(oracle *o, pkv_seq h, pkv_seq *children, int32_t n);
pkv_status or_truncate(oracle *o, pkv_seq h, int32_t n);
pkv_status or_close(oracle *o, pkv_seq h);
pkv_status or_info(oracle *o, pkv_seq h, pkv_seq_info_t *out);
pkv_status or_probe(oracle *o, pkv_ns ns, const pkv_tokens *p, pkv_match *m);
void or_need(oracle *o, const pkv_reserve_req *q, int32_t n, pkv_need *out);
void or_stats(oracle *o, pkv_blockmgr_stats_t *out);

or_seq *or_seq_of(oracle *o, pkv_seq h); /* NULL: stale */
int or_refs(const oracle *o, int b);
/* Everything that must hold at any time; NULL or what does not. */
const char *or_check(oracle *o);

#endif
