/* The engine: continuous batching of many requests over one paged KV cache. Experimental: may
 * change in any release. Part of libpagedkv-model.
 *
 *   submit -> WAITING -> RUNNING -> FINISHED (stop | length | context | cancel | deadline | error)
 *                         ^   |
 *                 swap in |   v preempt: swap out, or drop and recompute
 *                        SWAPPED / WAITING
 *
 *     pkv_engine_create; pkv_engine_submit ... (any thread, any time)
 *     while (pkv_engine_step(engine, &report) == PKV_OK && report.n_unfinished > 0)
 *         if (report.n_tokens == 0) wait until report.next_arrival_ns;
 *
 * A step computes at most max_batch_tokens tokens: one per decoding sequence, chunks of prompts
 * with what is left. A request with its n samples or beams is admitted, preempted and swapped as a
 * whole. With exact arithmetic a request's tokens are the same bits whatever runs beside it.
 * Threads: one thread steps; submit, cancel and stats from any thread, so that the logger, the
 * allocator and the clock are called by several at once. Callbacks run on the stepping thread,
 * inside the step; they may submit, cancel and ask for stats, never step or destroy. */
#ifndef PAGEDKV_ENGINE_H
#define PAGEDKV_ENGINE_H

#include "pagedkv/backend.h"
#include "pagedkv/model.h"
#include "pagedkv/tokenizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_engine pkv_engine;

typedef enum pkv_preempt {
    PKV_PREEMPT_AUTO = 0,     /* swap where moving the bytes costs less than computing them again */
    PKV_PREEMPT_SWAP = 1,     /* swap; recompute where the host pool is full */
    PKV_PREEMPT_RECOMPUTE = 2 /* drop and compute again */
} pkv_preempt;

/* Where K and V of a sequence lie. All but PAGED are there to be compared with. */
typedef enum pkv_placement {
    PKV_PLACE_PAGED = 0,   /* blocks of the block manager */
    PKV_PLACE_MAX = 1,     /* one contiguous region of max_context tokens per sequence, as
                              FasterTransformer reserves */
    PKV_PLACE_REQUEST = 2, /* one contiguous region of prompt + max_new tokens, lengths known to the
                              allocator beforehand (first fit); an upper bound for reservation */
    PKV_PLACE_POW2 = 3     /* as REQUEST, rounded up to a power of two (Orca (Pow2)) */
} pkv_placement;

typedef struct pkv_engine_config {
    uint32_t struct_size;
    const pkv_model *model;         /* outlives the engine */
    const pkv_tokenizer *tokenizer; /* outlives it; NULL: requests give ids, events have no text */
    pkv_dtype kv_dtype;
    int32_t block_tokens;     /* 1 .. 2048; 0: 16 */
    int32_t n_blocks;         /* null block included; 0: as many as fit kv_bytes */
    size_t kv_bytes;          /* used with n_blocks 0; 0: 256 MiB */
    size_t swap_bytes;        /* of the host pool for swapping; 0: none */
    int32_t max_seqs;         /* sequences at a time, samples and beams counted; 0: 64 */
    int32_t max_batch_tokens; /* tokens per step; 0: 512; at least max_seqs */
    int32_t chunk_tokens;     /* most tokens of one prompt per step; 0: 128 */
    int32_t max_queue;        /* requests that are submitted and not admitted; 0: 65536 */
    int32_t max_context;      /* prompt + output; 0: the model's; never above it */
    int32_t watermark_blocks; /* admission leaves so many free; running requests may take them;
                                 -1: a hundredth of the pool; below its blocks */
    pkv_preempt preempt;
    pkv_placement placement;
    bool no_prefix_cache;
    bool fast;          /* false: exact, bits do not depend on the batch; true: whatever is fastest,
                           within bounds */
    int32_t n_threads;  /* 0: 1 */
    pkv_isa isa;        /* PKV_ISA_BEST, or a ceiling */
    double slo_ttft_ms; /* goodput counts requests within both limits; 0: no limit */
    double slo_tpot_ms;
    uint64_t (*clock_ns)(void *ctx); /* monotonic; NULL: CLOCK_MONOTONIC. Called by any thread */
    void *clock_ctx;
    /* Called by submit and cancel, on their thread, when there is something for the next step to
     * see; inside a step where one of its callbacks calls them. NULL: the stepping thread asks. */
    void (*wake)(void *ctx);
    void *wake_ctx;
    pkv_logger log;
    pkv_allocator alloc;
} pkv_engine_config;
#define PKV_ENGINE_CONFIG_INIT                                                                     \
    {                                                                                              \
        sizeof(pkv_engine_config), NULL, NULL, PKV_F32, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1,             \
            PKV_PREEMPT_AUTO, PKV_PLACE_PAGED, false, false, 0, PKV_ISA_BEST, 0, 0, NULL, NULL,    \
            NULL, NULL, { NULL, NULL },                                                            \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Everything is allocated here: activations for max_batch_tokens, the pool, the manager.
 *   PKV_E_INVALID_ARG null, a field out of range: the log names it; PKV_E_ABI
 *   PKV_E_NEVER       the pool has no room for two blocks, or for one region
 *   PKV_E_UNSUPPORTED a level that is not here, heads or a KV type without kernels
 *   PKV_E_NO_MEMORY
 * destroy(NULL) is fine; no other call may be running then. Unfinished requests get no more events.
 */
PKV_API PKV_NODISCARD pkv_status pkv_engine_create(const pkv_engine_config *cfg, pkv_engine **out);
PKV_API void pkv_engine_destroy(pkv_engine *engine);

/* ---------------------------------------------------------------- requests */

typedef struct pkv_logit_bias {
    int32_t id;
    float bias; /* finite, or -INFINITY to forbid the token */
} pkv_logit_bias;

/* How a token is chosen, in this order: bias, penalties, temperature, top-k, top-p, min-p, draw. */
typedef struct pkv_sampling {
    uint32_t struct_size;
    float temperature;       /* >= 0; 0: the most likely token, the lowest id of equal ones */
    int32_t top_k;           /* 0: all */
    float top_p;             /* (0, 1]; the smallest set that reaches it */
    float min_p;             /* [0, 1]: at least min_p times the largest probability */
    float repeat_penalty;    /* > 0; 1: none. CTRL (arXiv 1909.05858): of prompt and output,
                                positive logits divided, negative multiplied */
    float presence_penalty;  /* subtracted once for a token that the output holds */
    float frequency_penalty; /* subtracted for each time that it does */
    uint64_t seed;           /* draws are keyed by (seed, sample, position): no state. 0 is a seed
                                like any other: requests with one seed draw alike */
    int32_t n_logprobs;      /* alternatives to report, 0 .. 20; 0: the token's own alone; -1: no
                                logprobs at all */
    bool logprobs_scaled;    /* false: of the model's distribution; true: after temperature */
    bool xorshift_llama2;    /* llama2.c's generator and its top-p, for its published texts only:
                                seed >= 1, n 1, no top_k, no min_p */
    const pkv_logit_bias *bias; /* [n_bias], read during submit only */
    int32_t n_bias;             /* 0 .. 1024 */
} pkv_sampling;
#define PKV_SAMPLING_INIT                                                                          \
    {                                                                                              \
        sizeof(pkv_sampling), 0, 0, 1, 0, 1, 0, 0, 0, -1, false, false, NULL, 0                    \
    }

typedef enum pkv_finish {
    PKV_FINISH_NONE = 0,     /* goes on */
    PKV_FINISH_STOP = 1,     /* EOS, a stop id or a stop text */
    PKV_FINISH_LENGTH = 2,   /* max_new */
    PKV_FINISH_CONTEXT = 3,  /* max_context */
    PKV_FINISH_CANCEL = 4,   /* pkv_engine_cancel */
    PKV_FINISH_DEADLINE = 5, /* deadline_ns passed */
    PKV_FINISH_ERROR = 6     /* a step failed; the engine goes on */
} pkv_finish;
PKV_API const char *pkv_finish_name(pkv_finish finish); /* "stop", "length", ...; never NULL */

typedef struct pkv_logprob {
    int32_t id;
    float logprob; /* natural logarithm */
} pkv_logprob;

typedef uint64_t pkv_request_id; /* of one engine: 1, 2, ... in order of submit */

/* Counted over a whole request (all samples), given with its last event. */
typedef struct pkv_request_result {
    int32_t n_prompt, n_output; /* tokens; output over all samples that were returned */
    int32_t n_cached;           /* prompt tokens that the prefix cache had at first admission */
    int32_t n_preempted;
    uint64_t arrival_ns, admitted_ns, first_token_ns, finish_ns; /* 0: did not come to it */
    double ttft_ms; /* first token - arrival; NAN: none */
    double tpot_ms; /* (last - first) / (n_out - 1) of the longest sample; NAN: fewer than 2, or
                       beams, whose tokens all come with the end */
} pkv_request_result;

/* One token of one sample, or an end. Pointers live during the call only. */
typedef struct pkv_token_event {
    pkv_request_id request;
    int32_t sample;   /* 0 .. n-1; with beams the rank, best first */
    int32_t token;    /* -1: no token, only text that was held back or an end */
    int32_t position; /* of the token in prompt + output; -1 without one */
    const char *text; /* [n_text] bytes, UTF-8, no final zero: what is certain now. A tail that may
                         begin a stop text comes with a later event; a stop text never */
    int32_t n_text;
    float logprob;          /* of the token; NAN where none was asked for */
    const pkv_logprob *top; /* [n_top], most likely first */
    int32_t n_top;
    pkv_finish finish; /* of this sample; NONE: it goes on */
    float score;       /* beams, with the end: sum of logprobs / length^penalty; else NAN */
    const pkv_request_result *result; /* with the last event of the request, else NULL */
} pkv_token_event;

typedef struct pkv_request {
    uint32_t struct_size;
    const int32_t *ids; /* [n_ids] the prompt; BOS is the caller's to put there */
    int32_t n_ids;      /* >= 1, or 0 with text */
    const char *text;   /* [n_text] bytes, encoded with PKV_TOK_ADD_SPECIAL (and PARSE_SPECIAL where
                           parse_special says so); NULL with ids */
    size_t n_text;
    bool parse_special;
    int32_t max_new;       /* >= 1 */
    int32_t n;             /* samples; 0: 1. With beams: how many of them are returned, <= beams */
    int32_t beams;         /* 0 or 1: none; else 2 .. 16 */
    float length_penalty;  /* beams: score = sum of logprobs / (tokens of output)^penalty */
    bool early_stopping;   /* beams: end as soon as `beams` candidates are complete */
    pkv_sampling sampling; /* beams use bias and ignore the seed; what else chooses or reports is as
                              in INIT */
    const int32_t *stop_ids;       /* [n_stop_ids]; a stop id is reported and ends the sample */
    int32_t n_stop_ids;            /* 0 .. 64 */
    const char *const *stop_texts; /* [n_stop_texts] strings, not empty, at most 256 bytes; needs a
                                      tokenizer, and no beams. The text ends in front of it */
    int32_t n_stop_texts;          /* 0 .. 16 */
    bool ignore_eos;
    uint64_t arrival_ns;  /* planned arrival on the engine's clock, for open loops; 0: now. Metrics
                             count from it; a request is not admitted before it */
    uint64_t deadline_ns; /* on the same clock, not a length of time; 0: none */
    void (*on_token)(void *ctx, const pkv_token_event *event); /* NULL: nobody listens */
    void *ctx;
} pkv_request;
#define PKV_REQUEST_INIT                                                                           \
    {                                                                                              \
        sizeof(pkv_request), NULL, 0, NULL, 0, false, 0, 1, 0, 1, false, PKV_SAMPLING_INIT, NULL,  \
            0, NULL, 0, false, 0, 0, NULL, NULL                                                    \
    }

/* Hand a request in. All that it points at is copied; only ctx is handed back, until the
 * last event. Events come from later steps; where another thread steps, that may be before this
 * call returns with the number.
 *   PKV_E_INVALID_ARG null, a field out of range, not finite, an id outside the vocabulary, stop
 *                     texts or text without tokenizer: the log names it
 *   PKV_E_LIMIT       the queue is full: step, then retry
 *   PKV_E_NEVER       it can never fit: n_prompt >= max_context, more samples than max_seqs, or
 *                     more blocks than the pool has; the log says what would help
 *   PKV_E_ABI; PKV_E_NO_MEMORY
 *
 * A max_new beyond the context is no error: such a sample ends with CONTEXT. Any thread. */
PKV_API PKV_NODISCARD pkv_status pkv_engine_submit(pkv_engine *engine, const pkv_request *request,
                                                   pkv_request_id *out);
/* End it at the next step, with what it has. Unknown and finished ones are ignored. Any thread.
 * PKV_E_INVALID_ARG null. PKV_E_LIMIT: too many cancels are waiting; step first. */
PKV_API PKV_NODISCARD pkv_status pkv_engine_cancel(pkv_engine *engine, pkv_request_id request);

/* ---------------------------------------------------------------- steps */

typedef struct pkv_step_report {
    uint32_t struct_size;
    int32_t n_tokens;  /* computed in this step; 0: nothing could be done */
    int32_t n_prefill; /* of them, tokens of prompts (recomputed output included) */
    int32_t n_rows;    /* sequences in the batch */
    int32_t n_running, n_waiting, n_swapped; /* requests, after the step */
    int32_t n_unfinished;                    /* all of them, future arrivals included */
    int32_t n_preempted;                     /* requests, in this step */
    uint64_t next_arrival_ns; /* of a request that is not due yet, if nothing else is; else 0 */
} pkv_step_report;
#define PKV_STEP_REPORT_INIT                                                                       \
    {                                                                                              \
        sizeof(pkv_step_report), 0, 0, 0, 0, 0, 0, 0, 0, 0                                         \
    }
/* Do one step. PKV_OK also when there is nothing to do. Allocates nothing on the host.
 *   PKV_E_INVALID_ARG null, or called by a callback; PKV_E_ABI
 *   PKV_E_NO_MEMORY (of the device), PKV_E_DEVICE  the pass failed: the step is undone, the
 *                     requests in it have ended with ERROR, the engine can go on; *report is filled
 *   PKV_E_CORRUPT     a bug of ours: nothing but destroy is left */
PKV_API PKV_NODISCARD pkv_status pkv_engine_step(pkv_engine *engine, pkv_step_report *report);

/* ---------------------------------------------------------------- figures */

/* Percentiles come from logarithmic buckets, within 1.1 % from 1 us on; NAN where n is 0. */
typedef struct pkv_delay_stats {
    int64_t n;
    double mean_ms, p50_ms, p90_ms, p99_ms, max_ms;
} pkv_delay_stats;

typedef struct pkv_engine_stats {
    uint32_t struct_size;
    int64_t n_submitted, n_refused; /* taken in by submit; not taken in */
    int64_t n_finished[7];          /* requests, by the pkv_finish of their last sample */
    int64_t n_steps, n_prompt_tokens, n_output_tokens; /* prompt: computed or cached, once each */
    int64_t n_computed_tokens, n_recomputed_tokens;
    int64_t n_cached_tokens; /* prompt tokens found by the prefix cache */
    int64_t n_preempt_swap, n_preempt_recompute;
    int64_t n_swapped_bytes; /* out and in */
    int64_t n_copies;        /* of blocks, on write */
    int64_t n_evictions;
    int64_t n_good;                                   /* requests within both limits */
    int32_t n_blocks, n_blocks_used, n_blocks_cached; /* usable; by running requests; findable */
    int32_t peak_seqs, peak_blocks_used;
    double mean_seqs;    /* sequences per step */
    double slots_filled; /* share of the slots in used blocks that hold a token, over all steps */
    pkv_delay_stats ttft, tpot, itl, latency, queue;              /* queue: admission - arrival */
    double forward_s, attention_s, manager_s, sampling_s, step_s; /* time in them, all steps */
    double bytes_moved; /* by all steps: weights once per step, K and V read and written */
    double flop;
    double elapsed_s; /* first step to last */
    int32_t n_threads;
    int32_t block_tokens, max_seqs, max_batch_tokens, max_context, watermark_blocks; /* as they are
                                                       where the configuration said 0 or -1 */
    int64_t pool_bytes;
    char kv_dtype[8];
    char isa[16]; /* of the products */
    char mode[8]; /* "exact", "fast" */
} pkv_engine_stats;
#define PKV_ENGINE_STATS_INIT                                                                      \
    {                                                                                              \
        sizeof(pkv_engine_stats), 0, 0, { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, 0, { 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 },                \
            { 0, 0, 0, 0, 0, 0 }, { 0, 0, 0, 0, 0, 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, "", "", ""                                                                          \
    }
/* Any thread; figures of one moment between two steps. */
PKV_API PKV_NODISCARD pkv_status pkv_engine_get_stats(pkv_engine *engine, pkv_engine_stats *out);

typedef enum pkv_stats_format { PKV_STATS_JSON = 0, PKV_STATS_PROMETHEUS = 1 } pkv_stats_format;
/* The same as text, with a final zero: at most `cap` bytes into out, *n those it takes without the
 * zero. Not a number is null in JSON. The names are in docs/engine.md. Any thread.
 *   PKV_E_INVALID_ARG null (out may be, with cap 0), another format; PKV_E_ABI
 *   PKV_E_LIMIT       cap <= *n: out is untouched */
PKV_API PKV_NODISCARD pkv_status pkv_engine_stats_text(const pkv_engine_stats *stats,
                                                       pkv_stats_format format, char *out,
                                                       size_t cap, size_t *n);

/* Does what the engine holds add up? The manager's own check, and that no block is held by nobody.
 * Stepping thread, between steps: PKV_E_INVALID_ARG inside one. PKV_E_CORRUPT: no, the log says
 * what. */
PKV_API PKV_NODISCARD pkv_status pkv_engine_check(const pkv_engine *engine);

#ifdef __cplusplus
}
#endif
#endif
