/* What the simulator answers: samples and events on the way, one result at the end, and what the
 * lengths alone say. Part of sim.h. */
#ifndef PAGEDKV_SIM_RESULT_H
#define PAGEDKV_SIM_RESULT_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- on the way */

typedef enum pkv_sim_event_kind {
    PKV_SIM_EVENT_ARRIVE = 0,
    PKV_SIM_EVENT_REJECT = 1,  /* can never fit */
    PKV_SIM_EVENT_ADMIT = 2,   /* tokens: resident; cached: of them found. Also of a swapped one
                                  whose share of the swap space was given up */
    PKV_SIM_EVENT_GROW = 3,    /* took room for its next tokens */
    PKV_SIM_EVENT_PREEMPT = 4, /* its room is given back, its tokens are computed again */
    PKV_SIM_EVENT_SWAP_OUT = 5,
    PKV_SIM_EVENT_SWAP_IN = 6,
    PKV_SIM_EVENT_MOVE = 7, /* compaction: tokens moved; request -1 */
    PKV_SIM_EVENT_FINISH = 8
} pkv_sim_event_kind;

typedef struct pkv_sim_event {
    int64_t t_ns;
    int64_t step; /* steps done before it */
    pkv_sim_event_kind kind;
    int64_t request; /* index, or -1 */
    int64_t tokens;  /* resident per sequence, what has been generated included */
    int64_t cached;  /* of ADMIT: prompt tokens found; else 0 */
    int64_t slots;   /* held by the request afterwards (vattn: bytes of one tensor); MOVE: 0 */
} pkv_sim_event;

/* What a piece of the pool mostly holds. */
typedef enum pkv_sim_map_state {
    PKV_SIM_MAP_FREE = 0,
    PKV_SIM_MAP_TOKEN = 1,
    PKV_SIM_MAP_RESERVED = 2,
    PKV_SIM_MAP_INTERNAL = 3,
    PKV_SIM_MAP_ROUNDING = 4,
    PKV_SIM_MAP_CACHED = 5 /* free, with content that may still be found */
} pkv_sim_map_state;

/* The pool at one moment. The first eight sum to the pool: C slots, for vattn C *
 * tensor_token_bytes bytes. */
typedef struct pkv_sim_sample {
    int64_t t_ns;
    int64_t step; /* number of the step that lasts at t_ns */
    int64_t token, reservation, internal, rounding, unusable, shortage, limited, idle;
    int64_t watermark, tail, cached, dead; /* parts of the above, see pkv_sim_split */
    int64_t logical;                       /* resident tokens, shared ones counted every time */
    int64_t largest_free;              /* longest free run; free slots where places do not matter */
    int64_t running, waiting, swapped; /* requests */
    const uint8_t *map; /* [map_cells] pkv_sim_map_state; NULL: not asked for, or no addresses.
                           Valid during the call */
} pkv_sim_sample;

/* Who looks on. Called on the thread of the run, events in order of time; must not call back. */
typedef struct pkv_sim_observer {
    uint32_t struct_size;
    void *ctx;
    void (*on_event)(void *ctx, const pkv_sim_event *event);    /* NULL: not called */
    void (*on_sample)(void *ctx, const pkv_sim_sample *sample); /* NULL: not called */
    int64_t sample_interval_ns; /* from the first arrival on; >= 1 with on_sample */
    int32_t map_cells;          /* pieces of equal length that the pool is cut into; 0: no map; at
                                   most 4096 */
} pkv_sim_observer;
#define PKV_SIM_OBSERVER_INIT                                                                      \
    {                                                                                              \
        sizeof(pkv_sim_observer), NULL, NULL, NULL, 0, 0                                           \
    }

/* ---------------------------------------------------------------- at the end */

/* Which time the averages cover. */
typedef enum pkv_sim_window {
    PKV_SIM_WINDOW_AUTO = 0,     /* arrivals if the arrivals differ, else queued */
    PKV_SIM_WINDOW_ALL = 1,      /* first admission to last finish */
    PKV_SIM_WINDOW_ARRIVALS = 2, /* first admission to last arrival */
    PKV_SIM_WINDOW_QUEUED = 3    /* the steps in which somebody waits after admission */
} pkv_sim_window;

/* Shares of the pool, averaged over the window. The four parts are >= 0 and sum to 1 (as integers
 * exactly, at every sample). */
typedef struct pkv_sim_split {
    double token, reservation, internal, external;
    /* external = rounding + unusable + shortage + limited + idle */
    double rounding; /* granted beyond what was asked */
    double
        unusable; /* free, and the head of the queue needs no more, but no place is long enough */
    double shortage; /* free, but the head of the queue needs more (paged: watermark included) */
    double
        limited; /* free, and the head would fit, but max_num_seqs run, or static-batch is closed */
    double idle; /* free while nobody waits: not fragmentation */
    /* parts of the above, shown apart */
    double watermark; /* free blocks up to the watermark */
    double tail;      /* C mod block_tokens slots that no block covers */
    double cached;    /* free blocks whose content may still be found */
    double dead;      /* static-batch: internal, of requests that are done */
    double logical;   /* resident tokens, shared ones counted every time; may exceed 1 */
} pkv_sim_split;
#define PKV_SIM_SPLIT_INIT                                                                         \
    {                                                                                              \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                   \
    }

/* A distribution over finished requests. n 0: no values, the others are 0 and mean nothing. */
typedef struct pkv_sim_dist {
    int64_t n;
    double mean, p50, p90, p99, max;
} pkv_sim_dist;
#define PKV_SIM_DIST_INIT                                                                          \
    {                                                                                              \
        0, 0, 0, 0, 0, 0                                                                           \
    }

/* Prompt tokens found in the cache. Each request counts once, at its first admission. */
typedef struct pkv_sim_hits {
    int64_t prompt_tokens, cached_tokens; /* hit rate = cached / prompt */
    int64_t prompt_blocks, cached_blocks; /* full blocks of the prompts, and those found */
    double mean_rate;                     /* mean over requests of cached / prompt */
    int64_t again_tokens, again_cached;   /* the same at later admissions of preempted requests */
} pkv_sim_hits;
#define PKV_SIM_HITS_INIT                                                                          \
    {                                                                                              \
        0, 0, 0, 0, 0, 0, 0                                                                        \
    }

typedef struct pkv_sim_result {
    uint32_t struct_size;
    pkv_sim_window window; /* the one used, never AUTO */
    int64_t window_ns;     /* 0: the window is empty, split and mean_batch are 0, not measured */
    int64_t waited_ns;     /* of the window: somebody waited while the step ran */
    int64_t end_ns;        /* last finish */
    int64_t n_requests, n_finished;
    int64_t n_finished_window; /* of them, inside the window */
    int64_t n_too_long;     /* rejected at arrival: can never fit; finished + too_long = requests */
    int64_t first_too_long; /* index of the first of them, or -1 */
    int64_t n_steps;
    int64_t
        n_events; /* times that a policy had something to do: admit, grow with new room, release */
    int64_t n_admissions, n_preemptions, n_preempted_requests;
    int64_t generated_tokens; /* of all sequences */
    int64_t recomputed_tokens;
    int64_t max_queue; /* most requests waiting at the start of a step */
    double mean_batch; /* running requests, over the window */
    int64_t max_batch; /* over the whole run */
    pkv_sim_split split;
    double waste_waited;    /* share of the pool without tokens, times time, while somebody waited:
                               waste integrated over the waited time only, over C * window */
    double sharing_saving;  /* (blocks without sharing - blocks) / blocks without sharing, in the
                               window; 0 where nothing is shared */
    double scatter;         /* 1 - largest free run / free slots, over the window's time with free
                               slots; 0 where places do not matter */
    int64_t n_failed_takes; /* allocations refused although enough slots were free */
    double frag_index;      /* Linux's fragmentation index, mean over them: 1 - (1 + free / 2^order)
                               / free chunks; towards 0 lack of memory, towards 1 fragmentation */
    pkv_sim_hits hits;
    int64_t copied_blocks;           /* copy on write */
    int64_t n_swaps, swapped_blocks; /* out; blocks both ways */
    int64_t n_compactions, compacted_tokens;
    int64_t move_ns;          /* time that steps took longer for swap and compaction */
    int64_t prefill_ns;       /* and for prefill */
    int64_t n_good;           /* finished requests that meet every limit of the config */
    pkv_sim_dist e2e_s;       /* arrival to last token, seconds */
    pkv_sim_dist norm_s;      /* the same per output token, requests with output */
    pkv_sim_dist ttft_s;      /* arrival to first token */
    pkv_sim_dist tpot_s;      /* (e2e - ttft) / (o - 1), requests with o >= 2 */
    pkv_sim_dist residence_s; /* time that the request ran */
} pkv_sim_result;
#define PKV_SIM_RESULT_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_sim_result), (pkv_sim_window)0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, \
            0, 0, PKV_SIM_SPLIT_INIT, 0, 0, 0, 0, 0, PKV_SIM_HITS_INIT, 0, 0, 0, 0, 0, 0, 0, 0,    \
            PKV_SIM_DIST_INIT, PKV_SIM_DIST_INIT, PKV_SIM_DIST_INIT, PKV_SIM_DIST_INIT,            \
            PKV_SIM_DIST_INIT                                                                      \
    }

/* ---------------------------------------------------------------- from the lengths alone */

/* A request seen at a random moment is length-biased, because it stays for o steps; means are over
 * the requests with prompt + output <= max_model_len and output >= 1. */
typedef struct pkv_sim_forms {
    uint32_t struct_size;
    int64_t n; /* requests that count; 0: everything else is 0 */
    double mean_prompt, mean_output;
    double output_bias;        /* E[o^2] / E[o] */
    double live_tokens;        /* resident tokens of a live request */
    double live_final;         /* its prompt + output */
    int64_t max_batch_buddy;   /* requests of max_model_len in the pool, buddy chunks */
    int64_t max_batch_ideal;   /* floor(C / M) */
    pkv_sim_split max_split;   /* of policy max on buddy; only the four parts are set */
    int32_t block_tokens;      /* of the next two */
    int32_t n_seqs;            /* of fork_saving */
    double oracle_ideal_batch; /* C / live_final: expected where contiguous chunks fill the pool */
    double paged_batch;        /* (C - watermark slots) / (live_tokens + (block_tokens + 1) / 2) */
    double paged_internal;     /* share of C */
    double fork_saving;        /* n_seqs outputs of one prompt: blocks shared over blocks without */
} pkv_sim_forms;
#define PKV_SIM_FORMS_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_sim_forms), 0, 0, 0, 0, 0, 0, 0, 0, PKV_SIM_SPLIT_INIT, 0, 0, 0, 0, 0, 0        \
    }

/* A cache that never evicts. */
typedef struct pkv_sim_cache_forms {
    uint32_t struct_size;
    int64_t prompt_tokens;
    int64_t ids, found_ids; /* content ids of all prompts, and those seen before */
    int64_t found_tokens;   /* tokens under them */
    int64_t
        found_block_tokens; /* of them in full blocks of block_tokens: what a block cache finds */
    int64_t below_block;    /* found_tokens - found_block_tokens: shareable but below a block */
    double mean_rate;       /* mean over requests of found / prompt, in tokens under ids */
} pkv_sim_cache_forms;
#define PKV_SIM_CACHE_FORMS_INIT                                                                   \
    {                                                                                              \
        sizeof(pkv_sim_cache_forms), 0, 0, 0, 0, 0, 0, 0                                           \
    }

#ifdef __cplusplus
}
#endif
#endif
