/* The fragmentation simulator as a library. Experimental: may change in any release.
 *
 *   sim_input.h: requests --pkv_sim_run(policy)--> where every slot of the pool went, batch,
 *                                                  preemptions, latency; samples and events
 *
 * One slot is room for the K and V of one token in all layers; the pool has C of them. A run
 * replays requests against one allocation policy and splits the pool, integrated over time, into
 *
 *   token        slots that hold a token somebody will read; a shared one counts once
 *   reservation  slots asked for and to be filled later
 *   internal     slots asked for (or in a block) that are never or not yet filled
 *   external     the rest: rounding of chunks, and free slots
 *
 * Time is int64 nanoseconds, sums are 128-bit integers, random numbers and their logarithms are our
 * own: equal arguments give equal results on every platform and compiler. The library reads no
 * files, prints nothing and keeps no state between calls; different calls may run on different
 * threads. Reasons of refusals go to the logger named in the call. docs/simulator.md has the rules.
 */
#ifndef PAGEDKV_SIM_H
#define PAGEDKV_SIM_H

#include "pagedkv/base.h"
#include "pagedkv/sim_input.h"
#include "pagedkv/sim_result.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- policies */

typedef enum pkv_sim_kind {
    PKV_SIM_MAX = 0,    /* contiguous, max_model_len slots per request: Orca (Max) */
    PKV_SIM_POW2 = 1,   /* contiguous, prompt + output rounded up to a power of two: Orca (Pow2) */
    PKV_SIM_ORACLE = 2, /* contiguous, exactly prompt + output: Orca (Oracle) */
    PKV_SIM_PAGED = 3,  /* blocks of the real block manager */
    PKV_SIM_STATIC_BATCH = 4, /* as max, and nobody joins until the whole batch is done */
    PKV_SIM_ORCA_REAL = 5,    /* the published Orca: a counter, max_tokens per request */
    PKV_SIM_VATTN = 6         /* vAttention: physical pages on demand behind contiguous addresses */
} pkv_sim_kind;

typedef enum pkv_sim_addr {
    PKV_SIM_ADDR_BUDDY = 0,     /* power-of-two chunks, lowest address, merged with their buddy */
    PKV_SIM_ADDR_IDEAL = 1,     /* any free slots: a compactor at no cost */
    PKV_SIM_ADDR_FIRST_FIT = 2, /* lowest address whose free run is long enough */
    PKV_SIM_ADDR_BEST_FIT = 3,  /* shortest free run that suffices, lowest address among equals */
    PKV_SIM_ADDR_NEXT_FIT = 4,  /* first that suffices from the end of the last one on, wrapping */
    PKV_SIM_ADDR_COMPACT = 5    /* first fit; where it fails and enough is free, all chunks slide
                                   down, and the move takes time */
} pkv_sim_addr;

/* Several sequences per request, of paged. */
typedef enum pkv_sim_group {
    PKV_SIM_GROUP_NONE = 0,
    PKV_SIM_GROUP_FORK = 1, /* parallel sampling: n_seqs outputs of one prompt */
    PKV_SIM_GROUP_BEAM = 2  /* n_seqs beams; each step each one continues its own parent, or with
                               probability switch_ppm / 10^6 another one */
} pkv_sim_group;

typedef struct pkv_sim_policy {
    pkv_sim_kind kind;
    pkv_sim_addr addr;    /* of max, pow2, oracle; PKV_SIM_ADDR_BUDDY for the others */
    int32_t block_tokens; /* of paged, 1 .. 1024; 0 for the others */
    bool prefix;          /* of paged: content is found and shared, cached blocks are evicted LRU */
    bool swap;            /* of paged: a victim moves to the swap space; else it is recomputed */
    pkv_sim_group group;  /* of paged */
    int32_t n_seqs;       /* per request: 1 without a group, else 1 .. 64 */
    int32_t switch_ppm;   /* of beams, 0 .. 10^6 */
    int32_t max_tokens;   /* of orca-real: slots per request; 0: max_model_len */
    int64_t page_bytes;   /* of vattn: 65536, 131072, 262144 or 2097152; 0 for the others */
} pkv_sim_policy;
#define PKV_SIM_POLICY_INIT                                                                        \
    {                                                                                              \
        PKV_SIM_PAGED, PKV_SIM_ADDR_BUDDY, 16, false, false, PKV_SIM_GROUP_NONE, 1, 0, 0, 0        \
    }

/* Read NAME[:key=value,...]:
 *   max, pow2, oracle   alloc=buddy|ideal|first-fit|best-fit|next-fit|compact, or just the name
 *   static-batch; orca-real with max_tokens=N; vattn with page=2M|256K|128K|64K
 *   paged               block=N (16), and any of +prefix, +swap or +recompute, +fork with n=N (4),
 *                       +beam with width=N (4) and switch=P (0.1) behind the name
 * PKV_E_INVALID_ARG: the log says what and what would be right. *out on success only. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_policy_parse(const char *text, const pkv_logger *log,
                                                      pkv_sim_policy *out);
#define PKV_SIM_POLICY_NAME_BYTES 64
/* The canonical text: "max", "oracle:alloc=ideal", "paged+prefix+swap:block=16". */
PKV_API void pkv_sim_policy_name(const pkv_sim_policy *policy,
                                 char name[PKV_SIM_POLICY_NAME_BYTES]);

/* ---------------------------------------------------------------- a run */

/* Both give the same result to the last bit; naive steps through everything and is the definition.
 */
typedef enum pkv_sim_engine { PKV_SIM_LEAP = 0, PKV_SIM_NAIVE = 1 } pkv_sim_engine;

typedef struct pkv_sim_config {
    uint32_t struct_size;
    pkv_sim_policy policy;
    int32_t pool_tokens;   /* C, 1 .. 2^31-1 slots; paged uses floor(C / block_tokens) blocks */
    int32_t max_model_len; /* M, 1 .. 2^30: longest prompt + output */
    int32_t max_num_seqs;  /* running requests, 1 .. 2^20 */
    int32_t watermark_ppm; /* paged, vattn: floor(blocks * ppm / 10^6) stay free at admission; 0 ..
                              10^6 */
    /* a step lasts base + per_seq * sequences + per_token * the tokens they read, and what moves
       and prefill take; base and per_seq 0 .. 10^12, per_token 0 .. 10^9, base + per_seq >= 1 */
    int64_t step_base_ns, step_per_seq_ns, step_per_token_ns;

    /* ---- scheduling */
    bool admit_skip;              /* later requests pass a head that does not fit */
    int32_t concurrency;          /* closed loop: so many clients, each sends its next request when
                                     its last one is finished or rejected; arrival_ns is ignored.
                                     0: open, arrivals as given; at most 2^20 */
    int32_t max_batched_tokens;   /* computed in one step; 0: no limit. Without prefill_chunk
                                     >= max_model_len */
    int32_t prefill_chunk;        /* prompt tokens per request and step; 0: whole prompts */
    int64_t prefill_tokens_per_s; /* 0: prefill takes no time of its own */

    /* ---- bytes and moves; a rate of 0 is infinite */
    int64_t kv_bytes_per_token; /* all layers, K and V, >= 1 */
    int32_t tensor_token_bytes; /* vattn: one token in one K or V tensor of one layer, >= 1 */
    int32_t swap_tokens;        /* swap space in slots; 0: none */
    int64_t swap_bytes_per_s, copy_latency_ns; /* per block moved */
    int64_t compact_bytes_per_s;

    /* ---- what is measured */
    pkv_sim_engine engine;
    pkv_sim_window window;
    bool check;              /* compare the block manager with a model after every event */
    bool percentile_nearest; /* nearest rank instead of interpolation */
    int64_t slo_ttft_ns, slo_tpot_ns, slo_norm_ns; /* goodput counts who meets all; 0: no limit */
    uint64_t seed;                                 /* of beams */
    const pkv_sim_content *content;   /* of the prompts, for `prefix`; NULL: all unlike */
    const pkv_sim_observer *observer; /* NULL: nobody looks on */
    /* Called now and then on the calling thread with requests done and in all; NULL: not. */
    void (*progress)(void *ctx, int64_t n_done, int64_t n_total);
    void *progress_ctx;
    pkv_logger log;
    pkv_allocator alloc; /* for everything but the block manager's own hook, which gets it too */
} pkv_sim_config;
/* OPT-13B on 40 GB as in the PagedAttention paper: 15,728 slots of 819,200 bytes, 2,048 tokens per
 * request at most; swap over 32 GB/s, compaction at 1 TB/s. */
#define PKV_SIM_CONFIG_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_sim_config), PKV_SIM_POLICY_INIT, 15728, 2048, 256, 10000, 22000000, 300000,    \
            400, false, 0, 0, 0, 0, 819200, 10240, 0, INT64_C(32000000000), 10000,                 \
            INT64_C(1000000000000), PKV_SIM_LEAP, PKV_SIM_WINDOW_AUTO, false, false, 0, 0, 0, 0,   \
            NULL, NULL, NULL, NULL, { NULL, NULL },                                                \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Replay reqs[0 .. n) against one policy. First come, first served, head of line blocking (unless
 * admit_skip); whatever fits an empty pool finishes. *out is written on success only.
 *   PKV_E_INVALID_ARG  null, a field out of range, requests unsorted or without tokens
 *   PKV_E_ABI          an unknown struct_size
 *   PKV_E_LIMIT        the run would last beyond 2^62 ns
 *   PKV_E_NO_MEMORY
 *   PKV_E_CORRUPT      a contradiction inside: parts that do not sum to C, or with `check` a block
 *                      count that differs from the model; the log says which
 * O(events * log(max_num_seqs)) with PKV_SIM_LEAP, O(generated tokens) with PKV_SIM_NAIVE. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_run(const pkv_sim_config *cfg, const pkv_sim_request *reqs,
                                             int64_t n, pkv_sim_result *out);

/* ---------------------------------------------------------------- without a simulation */

/* Uses pool_tokens, max_model_len and watermark_ppm of cfg, and its block_tokens if the policy is
 * paged, else 16; n_seqs if it has a group, else 1. PKV_E_INVALID_ARG, PKV_E_ABI as pkv_sim_run.
 * O(n), and O(generated blocks) for fork_saving with more than one sequence. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_closed_forms(const pkv_sim_config *cfg,
                                                      const pkv_sim_request *reqs, int64_t n,
                                                      pkv_sim_forms *out);

/* What a cache that never evicts would find of each prompt among all prompts before it, in order
 * of the list; block_tokens is the cache's. The last prompt token counts as found too, although an
 * engine computes it.
 * PKV_E_INVALID_ARG null, ids that do not suit the requests; PKV_E_ABI; PKV_E_NO_MEMORY. O(ids). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_cache_bound(const pkv_sim_content *content,
                                                     const pkv_sim_request *reqs, int64_t n,
                                                     int32_t block_tokens,
                                                     const pkv_allocator *alloc,
                                                     pkv_sim_cache_forms *out);

/* Percentiles of n values, which are sorted in place: position p * (n - 1) with linear
 * interpolation (numpy's type 7), or with `nearest` the value of rank ceil(p * n). n 0 gives the
 * empty distribution. */
PKV_API void pkv_sim_dist_of(double *values, int64_t n, bool nearest, pkv_sim_dist *out);

#ifdef __cplusplus
}
#endif
#endif
