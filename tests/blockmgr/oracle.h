/* A block manager to compare with: written from the public headers alone, with linear scans and no
 * cleverness. A block's references are counted by looking through every row, its node is found by
 * looking through every node; nothing is cached, so nothing can disagree.
 *
 *   oracle.c        life, namespaces, sequences      oracle_blocks.c  lists, content, releases
 *   oracle_match.c  match, probe                     oracle_bytes.c   tokens, sums, simulated bytes
 *   oracle_reserve.c reserve, need, snapshot         oracle_check.c   what must always hold
 *   oracle_steps.c  steps, commit, policy            oracle_holds.c   holds, swap
 *   oracle_raw.c    raw blocks                       oracle_tables.c  shared prefixes, views
 *
 * It also simulates the bytes. Every slot holds a sum over the namespace, the tokens and the extra
 * keys up to its token, and the group. All work is queued in the order of the calls; a step writes
 * at its begin, when the tokens are not known yet: its slots get a mark that the commit turns into
 * the sum wherever copies have carried it, and that an abort turns into rubbish. or_check reads
 * every row and every content back: each slot must hold exactly the sum of the sequence (or
 * content) that names it, findable content none of an open step, and no block that a running step
 * may read is handed out. */
#ifndef PKV_TESTS_ORACLE_H
#define PKV_TESTS_ORACLE_H

#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

enum {
    OR_T = 16,       /* largest block_tokens of any group */
    OR_G = 4,        /* most groups */
    OR_STATE = 3,    /* largest state_blocks */
    OR_BLOCKS = 96,  /* largest pool */
    OR_SEQS = 12,    /* most sequences */
    OR_TOKENS = 256, /* longest sequence */
    OR_NODES = 600,  /* most content nodes ever needed */
    OR_NS = 6,       /* most namespaces */
    OR_STEPS = 6,    /* most open steps */
    OR_LISTS = 10,   /* eviction order: stale, 0 .. 2, probation, protected, 4 .. 7 */
    OR_FIELD = 8     /* longest identity field */
};
enum { OR_STALE = 0, OR_PROBATION = 4, OR_PROTECTED = 5 };

#include "oracle_late.h"

/* What happened inside; the random test wants every one of them reached. */
#define OR_COVER_LIST(X)                                                                           \
    X(FREE_TO_ACTIVE)                                                                              \
    X(ACTIVE_TO_FREE)                                                                              \
    X(ACTIVE_TO_CACHED)                                                                            \
    X(ACTIVE_TO_LIMBO)                                                                             \
    X(CACHED_TO_ACTIVE)                                                                            \
    X(LIMBO_TO_ACTIVE)                                                                             \
    X(LIMBO_TO_CACHED)                                                                             \
    X(LIMBO_TO_FREE)                                                                               \
    X(LIMBO_WAITS_FOR_OLDER)                                                                       \
    X(CACHED_EVICTED)                                                                              \
    X(CACHED_EVICTED_PROTECTED)                                                                    \
    X(CACHED_EVICTED_STALE)                                                                        \
    X(CACHED_EVICTED_PRIORITY)                                                                     \
    X(CACHED_REPLACED)                                                                             \
    X(CACHED_DROPPED_BY_NS)                                                                        \
    X(LIMBO_DROPPED_BY_NS)                                                                         \
    X(BEFORE_ITS_PARENT)                                                                           \
    X(RAISED_BY_CHILD)                                                                             \
    X(SPARE_MADE)                                                                                  \
    X(SPARE_TOOK_OVER)                                                                             \
    X(SPARE_FREED)                                                                                 \
    X(LATE_REPLACED_LIMBO)                                                                         \
    X(LATE_LOST_TO_LIMBO)                                                                          \
    X(LATE_LOST_TO_ACTIVE)                                                                         \
    X(WITHDRAWN_REMOVED)                                                                           \
    X(WITHDRAWN_TO_SPARE)                                                                          \
    X(WITHDRAWN_SPARE)                                                                             \
    X(CONTINUATION_CUT)                                                                            \
    X(COPY_KEPT_BY_LAST)                                                                           \
    X(COPY_SHARED)                                                                                 \
    X(COPY_PUBLISHED)                                                                              \
    X(COPY_PREPARED)                                                                               \
    X(COPY_HELD)                                                                                   \
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
    X(PARTIAL_HIT_LIMBO)                                                                           \
    X(PARTIAL_HIT_CUT)                                                                             \
    X(PARTIAL_HIT_EXTRA_CUT)                                                                       \
    X(PARTIAL_PREPARED)                                                                            \
    X(PARTIAL_SETTLED_LATE)                                                                        \
    X(PARTIAL_REMADE)                                                                              \
    X(PREPARED_INDEXED)                                                                            \
    X(PREPARED_MERGED)                                                                             \
    X(PREPARED_DROPPED)                                                                            \
    X(PREPARED_NO_ROOM)                                                                            \
    X(PREPARED_OLD_EPOCH)                                                                          \
    X(PREPARED_SHARED)                                                                             \
    X(SETTLED_LATE)                                                                                \
    X(SETTLED_AFTER_CLOSE)                                                                         \
    X(STEP_OUT_OF_ORDER)                                                                           \
    X(ENTRY_GREW)                                                                                  \
    X(ENTRY_CLIPPED)                                                                               \
    X(ABORT_CUT_FORK)                                                                              \
    X(ABORT_CUT_CLOSED)                                                                            \
    X(ABORT_DROPPED_LATER)                                                                         \
    X(CLOSE_DROPPED_PENDING)                                                                       \
    X(WINDOW_RELEASED)                                                                             \
    X(WINDOW_RELEASED_LATE)                                                                        \
    X(SINK_KEPT)                                                                                   \
    X(ROLLBACK_KEPT)                                                                               \
    X(RANGE_WINDOW)                                                                                \
    X(RANGE_STATE)                                                                                 \
    X(RANGE_BELOW_CLAIM)                                                                           \
    X(HIT_BELOW_WINDOW)                                                                            \
    X(CLAIM_INSIDE_BLOCK)                                                                          \
    X(CONNECTOR)                                                                                   \
    X(CHAIN_PINNED)                                                                                \
    X(SNAPSHOT_MADE)                                                                               \
    X(SNAPSHOT_THERE)                                                                              \
    X(SNAPSHOT_HIT)                                                                                \
    X(SNAPSHOT_HIT_GIVEN_UP)                                                                       \
    X(SNAPSHOT_EVICTED)                                                                            \
    X(STATE_COPIED)                                                                                \
    X(RETAINED)                                                                                    \
    X(RETAINED_PREPARED)                                                                           \
    X(DECAYED_LIST)                                                                                \
    X(STALE_LISTED)                                                                                \
    X(MARKED)                                                                                      \
    X(DEMOTED)                                                                                     \
    X(UNIT_NO_NODE)                                                                                \
    X(UNIT_NO_EXTRA)                                                                               \
    X(UNIT_OLD_EPOCH)                                                                              \
    X(UNIT_AFTER_END)                                                                              \
    X(INDEX_RESUMED)                                                                               \
    X(SURPLUS_REUSED) X(FORK_SURPLUS) X(MANY_CHILDREN) X(ZERO_FRESH_ONLY) OR_LATE_COVER_LIST(X)
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
/* What a unit holds. A prepared one is not findable, has no parent yet, and its blocks (`main`) are
 * those of the sequences that hold it. */
typedef struct or_node {
    bool live, prepared, hit;
    int ns, parent, prio, floor; /* parent -1: root; floor: an eviction list */
    uint32_t epoch;
    uint64_t born;
    or_unit key;
    uint64_t sum[OR_T]; /* of its tokens */
    int main[OR_G], spare[OR_G][OR_BLOCKS], n_spare[OR_G];
    int snap[OR_G][OR_STATE]; /* STATE groups: blocks of the snapshot, 0: not there; no main */
} or_node;
typedef struct or_pending {
    uint64_t step;
    int from, upto;
} or_pending;
typedef struct or_seq {
    bool open, closing, ended; /* closing: closed with commits pending; ended: indexing is over */
    pkv_seq_state state;
    uint32_t gen, epoch;
    uint64_t closed;                                        /* order of close */
    int ns, settled, committed, reserved, n_indexed, claim; /* the last two in units */
    int ended_at;                                           /* the unit that is not indexed */
    int high, started; /* largest settled since it was empty; where its claim ended */
    int n_row[OR_G], row[OR_G][OR_TOKENS];
    int was[OR_G][OR_TOKENS]; /* the rows of a closing one */
    int begins[OR_G]; /* a claim began inside a block: what is below was never written; or 0 */
    /* Per unit: its node below n_indexed; behind, its prepared one, or -1. */
    int unit_node[OR_TOKENS], n_prepared; /* units with an entry that means something */
    int tail;                             /* prepared partial node of a closing one, or -1 */
    or_pending pend[OR_STEPS];
    int n_pend;
    int lo[OR_STEPS], hi[OR_STEPS]; /* slots that the open step (by its place) writes */
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
typedef struct or_step {
    uint64_t no; /* 0: not open */
    bool reads[OR_BLOCKS];
} or_step;

typedef struct oracle {
    pkv_blockmgr_config cfg; /* defaults filled in; groups NULL, see below */
    pkv_group grp[OR_G];
    int G, T;        /* groups; the unit */
    int probe_nodes; /* with one hash value for all, what the probe bound allows; 0: any */
    int free_id[OR_BLOCKS], n_free, list[OR_LISTS][OR_BLOCKS], n_list[OR_LISTS];
    int limbo[OR_BLOCKS], n_limbo; /* in order of release */
    uint64_t stamp[OR_BLOCKS];
    bool used[OR_BLOCKS];
    or_node node[OR_NODES];
    int top; /* nodes from here on were never live */
    or_seq seq[OR_SEQS];
    int seq_free[OR_SEQS], n_seq_free;
    or_ns ns[OR_NS];
    or_step step[OR_STEPS];
    uint64_t n_begun, n_closed;
    bool aborting; /* what is cut off waits in LIMBO until the end of the call */
    uint32_t epoch;
    or_late late;
    bool raw_used; /* so a parent may have lost its last reference before its child */
    uint64_t born;
    uint64_t bytes[OR_BLOCKS][OR_T], writer[OR_BLOCKS][OR_T]; /* writer: the open step, or 0 */
    pkv_blockmgr_stats_t stats;                               /* the running counters only */
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

/* `how`: any number; it decides which sequences the step launches and from where. */
pkv_status or_step_begin(oracle *o, uint32_t how, pkv_step *out);
pkv_status or_step_retire(oracle *o, pkv_step step);
pkv_status or_step_abort(oracle *o, pkv_step step);
/* The most tokens that may be committed in this step now: what it launched from `committed` on. A
 * caller that commits more breaks the contract of pkv_seq_commit. 0: stale. */
int or_may_commit(oracle *o, pkv_seq h, pkv_step step);
pkv_status or_retain(oracle *o, pkv_seq h, int32_t first, int32_t n, int32_t priority);
pkv_status or_decay(oracle *o);
pkv_status or_evict(oracle *o, int32_t n, int32_t *evicted);
pkv_status or_new_epoch(oracle *o);
pkv_status or_snapshot(oracle *o, pkv_seq h, pkv_block_work *w);

or_seq *or_seq_of(oracle *o, pkv_seq h); /* NULL: stale */
int or_refs(const oracle *o, int b);     /* rows, holds and raw references */
/* Everything that must hold at any time; NULL or what does not. */
const char *or_check(oracle *o);

#endif
