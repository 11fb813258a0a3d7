/* What the parts of the simulator share.
 *
 *   engine (queue, clock, steps) --> policy (a table of functions, sees requests, never the clock)
 *        |                              |--> address allocator (buddy, ideal)    contiguous
 *        v                              '--> block manager, public API only      paged
 *   account (128-bit integrals over time)
 *
 * Letters in comments: i prompt tokens, o output tokens, f = i + o, g generated so far, u = i + g
 * resident tokens, h slots asked for, q >= h slots granted, B tokens per block, C slots in the
 * pool, M longest prompt + output. */
#ifndef PKV_SIM_INTERNAL_H
#define PKV_SIM_INTERNAL_H

#include "common/common.h"
#include "pagedkv/sim.h"

__extension__ typedef __int128 pkv__i128;

/* What every entry point that takes a config and requests refuses. */
pkv_status pkv__sim_check_args(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n);

/* ---------------------------------------------------------------- accounting */

/* Where the slots of the pool are at one moment. The first eight sum to C. */
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
    PKV__PART_BATCH, /* running requests, integrated along with the slots */
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
} pkv__sim_stretch;

typedef struct pkv__sim_account {
    pkv_sim_window window;
    int64_t pool_tokens;
    int64_t window_end_ns;          /* of PKV_SIM_WINDOW_ARRIVALS */
    bool started;                   /* the first request is admitted */
    pkv__i128 sum[PKV__PART_COUNT]; /* slot * ns */
    pkv__i128 window_ns, waited_ns;
} pkv__sim_account;

pkv__i128 pkv__sim_stretch_ns(const pkv__sim_stretch *s);
/* Largest n such that n steps last at most limit_ns; 0 if not even one does. */
int64_t pkv__sim_stretch_within(const pkv__sim_stretch *s, int64_t limit_ns);
/* Every part >= 0 and the summed ones equal C. */
bool pkv__sim_sample_valid(const pkv__sim_sample *sample, int64_t pool_tokens);
/* Add a stretch that begins at now_ns with sample `first` and whose last step has sample `last`
 * (equal if n is 1). A stretch of several steps does not cross the end of the window. */
void pkv__sim_account_add(pkv__sim_account *acc, const pkv__sim_stretch *s, int64_t now_ns,
                          const pkv__sim_sample *first, const pkv__sim_sample *last);
/* Fill window_ns, waited_ns, mean_batch and split. */
void pkv__sim_account_result(const pkv__sim_account *acc, pkv_sim_result *out);

/* ---------------------------------------------------------------- addresses */

typedef struct pkv__sim_addr_ops {
    const char *name;
    bool has_places; /* false: any free slots will do, so none is ever unusable */
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
} pkv__sim_addr_ops;

extern const pkv__sim_addr_ops pkv__sim_addr_buddy, pkv__sim_addr_ideal;
extern const pkv__sim_addr_ops pkv__sim_addr_first_fit, pkv__sim_addr_best_fit;
/* By pkv_sim_addr; NULL for an unknown value. */
const pkv__sim_addr_ops *pkv__sim_addr_find(pkv_sim_addr addr);

/* ---------------------------------------------------------------- policies */

typedef struct pkv__sim_policy_ops {
    pkv_status (*create)(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                         void **out);
    void (*destroy)(void *self);
    /* Could this request finish if it had the pool alone? (f <= M is known.) */
    bool (*fits_empty)(const void *self, int64_t r);
    /* Take what u tokens need. PKV_E_NO_BLOCKS: not now, nothing changed. */
    pkv_status (*admit)(void *self, int64_t r, int32_t u, bool pool_is_empty);
    /* Room for token u + 1. PKV_E_NO_BLOCKS: preempt somebody, nothing changed. */
    pkv_status (*grow)(void *self, int64_t r, int32_t u);
    pkv_status (*release)(void *self, int64_t r);
    /* After grow at u: how many steps until grow has something to do again, >= 1. */
    int64_t (*leap_limit)(const void *self, int64_t r, int32_t u);
    /* Slots that must be free before r is admitted with u tokens, wherever they lie. */
    int64_t (*need)(const void *self, int64_t r, int32_t u);
    /* Can free slots lie in the wrong places? */
    bool (*has_places)(const void *self);
    /* Add what running request r with u tokens holds. The naive engine sums these ... */
    void (*usage_of)(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample);
    /* ... and they equal this: all running requests, `tokens` resident tokens together. Sets the
     * four parts that requests hold, watermark and tail, and the free slots as *n_free. */
    void (*usage)(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free);
    /* Compare with the model; PKV_E_CORRUPT. Only called with cfg.check. */
    pkv_status (*check)(void *self);
} pkv__sim_policy_ops;

extern const pkv__sim_policy_ops pkv__sim_policy_contig, pkv__sim_policy_paged;

/* What one chunk with h asked, q granted, f final and u resident tokens adds to a sample. */
void pkv__sim_chunk_usage(int32_t h, int32_t q, int32_t f, int32_t u, pkv__sim_sample *sample);

/* ---------------------------------------------------------------- the counter model */

/* Two counters and an array: what a block manager without sharing must answer. */
typedef struct pkv__sim_shadow {
    int32_t block_tokens;
    int64_t n_free, n_used;
    int32_t *blocks; /* [n] of each request; owned */
    int64_t n;
    pkv_allocator alloc;
} pkv__sim_shadow;

pkv_status pkv__sim_shadow_init(pkv__sim_shadow *shadow, int64_t usable_blocks,
                                int32_t block_tokens, int64_t n, const pkv_allocator *alloc);
void pkv__sim_shadow_deinit(pkv__sim_shadow *shadow);
/* Request r now has room for n_tokens tokens; 0: it is closed. */
void pkv__sim_shadow_set(pkv__sim_shadow *shadow, int64_t r, int32_t n_tokens);

/* ---------------------------------------------------------------- next events */

/* Binary heap of requests by (step of their next event, request), with removal of any. */
typedef struct pkv__sim_heap {
    struct pkv__sim_event {
        int64_t step, req;
    } * events;   /* [cap] */
    int32_t *pos; /* [n] place of each request in the heap, -1: not there */
    int32_t len, cap;
    int64_t n;
    pkv_allocator alloc;
} pkv__sim_heap;

pkv_status pkv__sim_heap_init(pkv__sim_heap *heap, int32_t cap, int64_t n,
                              const pkv_allocator *alloc);
void pkv__sim_heap_deinit(pkv__sim_heap *heap);
/* Insert, or move if it is there. */
void pkv__sim_heap_set(pkv__sim_heap *heap, int64_t req, int64_t step);
/* Nothing happens if it is not there. */
void pkv__sim_heap_remove(pkv__sim_heap *heap, int64_t req);

#endif
