/* What the parts of the simulator share.
 *
 *   engine (queue, clock, steps) --> policy (a table of functions, sees requests, never the clock)
 *        |                              |--> address allocator (buddy, runs, ideal)  contiguous
 *        |                              |--> block manager, public API only          paged
 *        v                              '--> counters                                vattn
 *   account (128-bit integrals over time), watch (samples and events for the caller)
 *
 * Letters in comments: i prompt tokens, o output tokens, f = i + o, g generated so far, u = i + g
 * resident tokens of each of a request's sequences, h slots asked for, q >= h slots granted, B
 * tokens per block, C slots in the pool, M longest prompt + output, b bytes of one token in one K
 * or V tensor of one layer.
 *
 * Unit: slots, except under vattn, where a page need not hold a whole number of tokens: there every
 * part, need and free amount is in bytes of one tensor, b per slot. */
#ifndef PKV_SIM_INTERNAL_H
#define PKV_SIM_INTERNAL_H

#include "common/common.h"
#include "pagedkv/sim.h"

__extension__ typedef __int128 pkv__i128;

/* What every entry point that takes a config and requests refuses. */
pkv_status pkv__sim_check_args(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n);
/* Do the content ids of request r suit its prompt, and are they below n_distinct? */
pkv_status pkv__sim_check_ids(const pkv_sim_content *content, int64_t r, int32_t prompt_tokens,
                              const pkv_logger *log);
/* Content that does not suit the requests, an observer without an interval. */
pkv_status pkv__sim_check_extras(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n);

/* ---------------------------------------------------------------- accounting */

/* Where the units of the pool are at one moment. The first eight sum to the pool. */
typedef enum pkv__sim_part {
    PKV__PART_TOKEN,
    PKV__PART_RESERVATION,
    PKV__PART_INTERNAL,
    PKV__PART_ROUNDING,
    PKV__PART_UNUSABLE,
    PKV__PART_SHORTAGE,
    PKV__PART_LIMITED,
    PKV__PART_IDLE,
    PKV__PART_SUMMED, /* number of the above */
    PKV__PART_WATERMARK = PKV__PART_SUMMED,
    PKV__PART_TAIL,
    PKV__PART_CACHED,
    PKV__PART_DEAD,
    PKV__PART_LOGICAL,      /* resident tokens, shared ones counted every time */
    PKV__PART_SHARED_UNITS, /* paged: what all rows would take without sharing ... */
    PKV__PART_USED_UNITS,   /* ... and what they take */
    PKV__PART_BATCH,        /* running requests, integrated along with the units */
    PKV__PART_SCATTER_PPM,  /* 10^6 * (free - largest free run) / free, cut below; 0 if free is 0 */
    PKV__PART_COUNT
} pkv__sim_part;

/* While the engine leaps every part is linear in the number of steps. */
typedef struct pkv__sim_sample {
    int64_t part[PKV__PART_COUNT];
} pkv__sim_sample;

/* A run of `n` steps, the k-th of which lasts first_ns + k * slope_ns. */
typedef struct pkv__sim_stretch {
    int64_t n, first_ns, slope_ns;
    bool queued; /* somebody waits after admission */
    bool waited; /* somebody waits while the steps run */
    bool unlike; /* the first one takes longer than the law says: n is 1 */
} pkv__sim_stretch;

typedef struct pkv__sim_account {
    pkv_sim_window window;
    int64_t pool_units;
    int64_t window_end_ns;          /* of PKV_SIM_WINDOW_ARRIVALS; INT64_MAX while not known */
    bool started;                   /* the first request is admitted */
    pkv__i128 sum[PKV__PART_COUNT]; /* unit * ns */
    pkv__i128 waste_waited;         /* (pool - token) * ns while somebody waited */
    pkv__i128 window_ns, waited_ns;
    pkv__i128 free_ns; /* of the window: some units are free */
} pkv__sim_account;

pkv__i128 pkv__sim_stretch_ns(const pkv__sim_stretch *s);
/* Largest n such that n steps last at most limit_ns; 0 if not even one does. */
int64_t pkv__sim_stretch_within(const pkv__sim_stretch *s, int64_t limit_ns);
/* Every part >= 0 and the summed ones equal the pool. */
bool pkv__sim_sample_valid(const pkv__sim_sample *sample, int64_t pool_units);
/* Add a stretch that begins at now_ns with sample `first` and whose last step has sample `last`
 * (equal if n is 1). A stretch of several steps does not cross the end of the window. */
void pkv__sim_account_add(pkv__sim_account *acc, const pkv__sim_stretch *s, int64_t now_ns,
                          const pkv__sim_sample *first, const pkv__sim_sample *last);
/* Fill window_ns, waited_ns, mean_batch, split, waste_waited, sharing_saving and scatter. */
void pkv__sim_account_result(const pkv__sim_account *acc, pkv_sim_result *out);

/* ---------------------------------------------------------------- addresses */

typedef struct pkv__sim_chunk {
    int32_t addr, q; /* q 0: none held */
} pkv__sim_chunk;

typedef struct pkv__sim_addr_ops {
    const char *name;
    bool has_places; /* false: any free slots will do, so none is ever unusable, and no map */
    /* At most max_chunks are taken at a time. */
    pkv_status (*create)(int32_t n_slots, int32_t max_chunks, const pkv_allocator *alloc,
                         void **out);
    void (*destroy)(void *self);
    /* Could an empty pool serve h slots? */
    bool (*fits_empty)(const void *self, int32_t h);
    /* Grant q >= h slots; false if there is no place. */
    bool (*take)(void *self, int32_t h, int32_t *addr, int32_t *q);
    void (*give)(void *self, int32_t addr, int32_t q);
    int32_t (*n_free)(const void *self);
    int32_t (*largest_free)(const void *self); /* longest free run or chunk; O(log n) */
    int32_t (*n_free_chunks)(const void *self);
    /* Slide every chunk down, in order of address, so that one run is free behind them. chunks[0 ..
     * n) are all that are taken, in any order; their addr is updated. Returns slots moved. NULL
     * unless the allocator compacts. O(n log n). */
    int64_t (*compact)(void *self, pkv__sim_chunk **chunks, int32_t n);
} pkv__sim_addr_ops;

extern const pkv__sim_addr_ops pkv__sim_addr_buddy, pkv__sim_addr_ideal;
extern const pkv__sim_addr_ops pkv__sim_addr_first_fit, pkv__sim_addr_best_fit;
extern const pkv__sim_addr_ops pkv__sim_addr_next_fit, pkv__sim_addr_compact;
/* Words of its bitmaps that a buddy allocator has visited since its creation: what its operations
 * cost, whatever the machine. */
int64_t pkv__sim_buddy_visits(const void *self);
/* By pkv_sim_addr; NULL for an unknown value. */
const pkv__sim_addr_ops *pkv__sim_addr_find(pkv_sim_addr addr);

/* ---------------------------------------------------------------- policies */

/* What a policy did besides giving and taking room, since it was asked last. */
typedef struct pkv__sim_costs {
    int64_t ns;           /* the step takes so much longer */
    int64_t moved_tokens; /* by compaction */
} pkv__sim_costs;

/* A running request and the resident tokens of each of its sequences. */
typedef struct pkv__sim_held {
    int64_t r;
    int32_t u;
} pkv__sim_held;

/* Slots of one map cell by pkv_sim_map_state; PKV_SIM_MAP_FREE is not counted, it is the rest. */
#define PKV__MAP_STATES 6
typedef struct pkv__sim_cell {
    int64_t slots[PKV__MAP_STATES];
} pkv__sim_cell;
/* Add `state` to the cells of a pool of C slots that [from, to) covers; cell k of n begins at slot
 * floor(k * C / n). */
void pkv__sim_map_add(pkv__sim_cell *cells, int32_t n_cells, int64_t pool, int64_t from, int64_t to,
                      pkv_sim_map_state state);

/* The engine calls with u = i + g, tokens of each of the request's sequences. Any status but PKV_OK
 * and PKV_E_NO_BLOCKS ends the run. */
typedef struct pkv__sim_policy_ops {
    pkv_status (*create)(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                         void **out);
    void (*destroy)(void *self);
    /* How to ask for the resident tokens per sequence of running request r; called once, after
     * create. NULL: the policy never asks. */
    void (*connect)(void *self, const void *engine,
                    int32_t (*resident)(const void *engine, int64_t r));
    /* Units per slot: 1, vattn: b. */
    int64_t (*units_per_slot)(const void *self);
    /* Could this request finish if it had the pool alone? (f <= M is known.) */
    bool (*fits_empty)(const void *self, int64_t r);
    /* Prompt tokens that admit would find, without changing anything. */
    int32_t (*probe)(const void *self, int64_t r, int32_t u);
    /* Take what u tokens need; *cached of them need not be computed. PKV_E_NO_BLOCKS: not now,
     * nothing changed; then it does not succeed before something was released or suspended either,
     * unless the pool becomes empty. */
    pkv_status (*admit)(void *self, int64_t r, int32_t u, bool pool_is_empty, int32_t *cached);
    /* Room for token u + 1 of every sequence, all or nothing. PKV_E_NO_BLOCKS: preempt somebody. */
    pkv_status (*grow)(void *self, int64_t r, int32_t u);
    pkv_status (*release)(void *self, int64_t r);
    /* Move a running request to the swap space, and back. PKV_E_NO_BLOCKS: no room there (suspend:
     * the engine releases it instead), nothing changed. *lost: the policy had to give its share of
     * the swap space up; it is admitted anew, with *cached as of admit. NULL: never swaps. */
    pkv_status (*suspend)(void *self, int64_t r, int32_t u);
    pkv_status (*resume)(void *self, int64_t r, int32_t u, bool pool_is_empty, bool *lost,
                         int32_t *cached);
    /* After grow at u: how many steps until grow has something to do again, >= 1. */
    int64_t (*leap_limit)(const void *self, int64_t r, int32_t u);
    /* Units that must be free before r is admitted (resumed) with u tokens, wherever they lie. */
    int64_t (*need)(const void *self, int64_t r, int32_t u);
    /* Units that running request r holds, shared ones included. */
    int64_t (*held)(const void *self, int64_t r);
    /* Can free units lie in the wrong places? */
    bool (*has_places)(const void *self);
    /* Nobody is admitted now, whatever is free (static-batch). */
    bool (*closed)(const void *self);
    /* Add what running request r with u tokens per sequence holds, as if nothing were shared: the
     * parts LOGICAL, RESERVATION, INTERNAL, ROUNDING. The naive engine sums these and adds nothing
     * for requests that do not run ... */
    void (*usage_of)(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample);
    /* ... and they equal this (but for the part DEAD of INTERNAL): all running requests, whose
     * sequences have `tokens` resident tokens together. Sets every part but UNUSABLE, SHORTAGE,
     * LIMITED, IDLE, BATCH and SCATTER_PPM, and the free units as *n_free. Linear in `tokens` while
     * no other function is called. TOKEN = LOGICAL - (SHARED_UNITS - USED_UNITS). */
    void (*usage)(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free);
    /* Longest free run; *n_free where places do not matter. */
    int64_t (*largest_free)(const void *self);
    /* Hand over the costs and forget them. */
    void (*take_costs)(void *self, pkv__sim_costs *costs);
    /* Counts and sums of the policy's own: hits, copied_blocks, swapped_blocks, n_failed_takes,
     * frag_index, n_compactions, compacted_tokens. */
    void (*result)(const void *self, pkv_sim_result *out);
    /* Fill zeroed cells from the n running requests; false: the policy has no addresses. */
    bool (*map)(const void *self, const pkv__sim_held *running, int32_t n, pkv__sim_cell *cells,
                int32_t n_cells);
    /* Compare with the model; PKV_E_CORRUPT. Only called with cfg.check. */
    pkv_status (*check)(void *self);
} pkv__sim_policy_ops;

extern const pkv__sim_policy_ops pkv__sim_policy_contig, pkv__sim_policy_static;
extern const pkv__sim_policy_ops pkv__sim_policy_paged, pkv__sim_policy_vattn;

/* pkv_sim_run against this table, whatever the kind; arguments have been checked. */
pkv_status pkv__sim_run_policy(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                               const pkv__sim_policy_ops *ops, pkv_sim_result *out);

/* Sequences of each request. */
int32_t pkv__sim_n_seqs(const pkv_sim_policy *policy);

/* ---------------------------------------------------------------- what policies share */

/* For ops that do not matter to a policy: nothing found, never closed, no costs, no map. */
int32_t pkv__sim_no_probe(const void *self, int64_t r, int32_t u);
bool pkv__sim_never_closed(const void *self);
void pkv__sim_no_costs(void *self, pkv__sim_costs *costs);
void pkv__sim_no_result(const void *self, pkv_sim_result *out);
bool pkv__sim_no_map(const void *self, const pkv__sim_held *running, int32_t n,
                     pkv__sim_cell *cells, int32_t n_cells);
int64_t pkv__sim_unit_is_slot(const void *self);

/* What one chunk with h asked, q granted, f final and u resident tokens adds to a sample, and to
 * the map of a pool of C slots. */
void pkv__sim_chunk_usage(int32_t h, int32_t q, int32_t f, int32_t u, pkv__sim_sample *sample);
void pkv__sim_chunk_map(pkv__sim_chunk chunk, int32_t h, int32_t f, int32_t u, int64_t pool,
                        pkv__sim_cell *cells, int32_t n_cells);

/* Allocations that an allocator refused although enough slots were free. */
typedef struct pkv__sim_refusals {
    int64_t n;
    int64_t index_ppb; /* sum of Linux's fragmentation index, in 10^-9 */
} pkv__sim_refusals;

/* h slots were refused: count it if as many are free. */
void pkv__sim_refusals_add(pkv__sim_refusals *refusals, const pkv__sim_addr_ops *ops,
                           const void *addr, int32_t h);
/* Fill n_failed_takes and frag_index. */
void pkv__sim_refusals_result(const pkv__sim_refusals *refusals, pkv_sim_result *out);

/* ---------------------------------------------------------------- next events */

#define PKV__RING_LISTS 1024 /* steps ahead; blocks are no longer than that */

typedef struct pkv__sim_node {
    int64_t step;
    int32_t prev, next; /* in its list, -1: none */
    int32_t list;       /* -1: it has no event */
} pkv__sim_node;

/* The next event of each request, by step. Steps are >= now. */
typedef struct pkv__sim_ring {
    int64_t now;
    pkv__sim_node *nodes; /* [n] */
    int64_t n;
    uint64_t bits[PKV__RING_LISTS / 64]; /* of each list: it is not empty */
    int32_t head[PKV__RING_LISTS];
    pkv_allocator alloc;
} pkv__sim_ring;

pkv_status pkv__sim_ring_init(pkv__sim_ring *ring, int64_t n, const pkv_allocator *alloc);
void pkv__sim_ring_deinit(pkv__sim_ring *ring);
/* Insert, or move if it is there. */
void pkv__sim_ring_set(pkv__sim_ring *ring, int64_t req, int64_t step);
/* Nothing happens if it is not there. */
void pkv__sim_ring_remove(pkv__sim_ring *ring, int64_t req);
/* The next step to look at: the first event, or one before it and less than PKV__RING_LISTS steps
 * ahead. INT64_MAX if there is none. */
int64_t pkv__sim_ring_next(const pkv__sim_ring *ring);
/* Go on to `step`, at most pkv__sim_ring_next: take out the requests whose event is now, in any
 * order. Returns their number. */
int32_t pkv__sim_ring_take(pkv__sim_ring *ring, int64_t step, int64_t *reqs);

#endif
