/* The fragmentation simulator as a library. Experimental: may change in any release.
 *
 *   trace bytes --reader--> requests --run(policy)--> where every slot of the pool went, batch,
 *   generator   ---------->                           preemptions, latency
 *
 * One slot is room for the K and V of one token in all layers; the pool has C of them. A run
 * replays requests against one allocation policy and splits the pool, integrated over time, into
 *
 *   token        slots that hold a token somebody will read
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

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- requests */

typedef struct pkv_sim_request {
    int64_t arrival_ns;    /* >= 0; a list is sorted by it, equal times keep their order */
    int32_t prompt_tokens; /* i >= 1 */
    int32_t output_tokens; /* o >= 1; forced: the run generates exactly as many */
} pkv_sim_request;

/* How lengths are drawn. A pair is redrawn as a whole when a limit rejects it. */
typedef enum pkv_sim_lengths {
    PKV_SIM_SHAREGPT_LIKE = 0, /* the PagedAttention paper's ShareGPT means, 161 in, 338 out */
    PKV_SIM_ALPACA_LIKE = 1,   /* 19.3 in, 62 out */
    PKV_SIM_FIXED = 2          /* fixed_prompt, fixed_output */
} pkv_sim_lengths;

typedef struct pkv_sim_gen_config {
    uint32_t struct_size;
    pkv_sim_lengths lengths;
    int32_t fixed_prompt, fixed_output; /* for PKV_SIM_FIXED, >= 1 */
    uint64_t seed;
    int64_t rate_micro; /* Poisson arrivals, requests per 10^6 seconds; 0: all at time 0 */
    pkv_logger log;
} pkv_sim_gen_config;
#define PKV_SIM_GEN_CONFIG_INIT                                                                    \
    {                                                                                              \
        sizeof(pkv_sim_gen_config), PKV_SIM_SHAREGPT_LIKE, 0, 0, 0, 8000000,                       \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* Fill reqs[0 .. n). The first k of n requests do not depend on n.
 *   PKV_E_INVALID_ARG  null, n < 0, a field out of range; PKV_E_ABI an unknown struct_size
 *   PKV_E_LIMIT        arrivals pass 2^62 ns
 * O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_generate(const pkv_sim_gen_config *cfg,
                                                  pkv_sim_request *reqs, int64_t n);

/* Set the arrivals of n requests to those of a Poisson process (rate_micro as above, 0: all at 0);
 * the same times as pkv_sim_generate draws from this seed. Errors as there. O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_arrivals(uint64_t seed, int64_t rate_micro,
                                                  pkv_sim_request *reqs, int64_t n);

/* ---------------------------------------------------------------- traces */

/* Why a row was not used. Identity: rows_read = used + sum of dropped. */
#define PKV_SIM_DROP_LIST(X)                                                                       \
    X(ZERO_INPUT, "zero_input")                                                                    \
    X(ZERO_OUTPUT, "zero_output")                                                                  \
    X(BAD_NUMBER, "bad_number")           /* not an integer, or negative */                        \
    X(OVERFLOW, "overflow")               /* more than 2^31 - 1 tokens */                          \
    X(BAD_TIMESTAMP, "bad_timestamp")     /* negative, NaN, infinite, unparsable, out of range */  \
    X(RAGGED_ROW, "ragged_row")           /* another number of fields than the header */           \
    X(JUNK, "junk")                       /* broken quoting, or a line above 1 MiB */              \
    X(REPEATED_HEADER, "repeated_header") /* the header again */                                   \
    X(BAD_BYTES, "bad_bytes")             /* a NUL byte */                                         \
    X(FILTERED, "filtered")               /* good, but outside duration or max_requests */

typedef enum pkv_sim_drop {
#define PKV_SIM_DROP_ENUM(name, text) PKV_SIM_DROP_##name,
    PKV_SIM_DROP_LIST(PKV_SIM_DROP_ENUM)
#undef PKV_SIM_DROP_ENUM
        PKV_SIM_DROP_COUNT
} pkv_sim_drop;

/* "zero_input"; "?" for an unknown value. */
PKV_API const char *pkv_sim_drop_name(pkv_sim_drop reason);

typedef struct pkv_sim_trace_config {
    uint32_t struct_size;
    bool strict;          /* any drop (but filtered) or repair is an error naming its line */
    int64_t max_requests; /* use at most so many rows, the earliest ones; 0: all */
    int64_t duration_ns;  /* use rows that arrive before first arrival + duration; 0: all */
    pkv_logger log;       /* errors: one line with line number, what and remedy; warnings too */
    pkv_allocator alloc;  /* {NULL, NULL, NULL}: malloc family */
} pkv_sim_trace_config;
#define PKV_SIM_TRACE_CONFIG_INIT                                                                  \
    {                                                                                              \
        sizeof(pkv_sim_trace_config), false, 0, 0, { NULL, NULL },                                 \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Where bytes come from: put up to `cap` bytes into `buf`, return how many; 0 at the end, negative
 * on an error of the source. */
typedef int64_t (*pkv_sim_read_fn)(void *ctx, void *buf, size_t cap);

typedef struct pkv_sim_trace {
    uint32_t struct_size;
    const char *format;    /* "azure", "burstgpt", "vidur", "splitwise"; static string */
    pkv_sim_request *reqs; /* [n_reqs], sorted by arrival, the first at 0; owned by the trace */
    int64_t n_reqs;
    bool has_times;    /* false: the format has no times; every arrival is 0 */
    int64_t rows_read; /* header and blank lines are not rows */
    int64_t dropped[PKV_SIM_DROP_COUNT];
    int64_t first_line[PKV_SIM_DROP_COUNT]; /* of each reason, from 1; 0: none */
    int64_t n_backwards; /* rows earlier than the row before them, put right by sorting */
    int64_t first_backwards_line;
    int64_t span_ns;                               /* last arrival - first arrival */
    bool had_bom, had_crlf, last_row_unterminated; /* what was seen; no influence on the requests */
    pkv_allocator alloc;                           /* for pkv_sim_trace_free */
} pkv_sim_trace;
#define PKV_SIM_TRACE_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_sim_trace), NULL, NULL, 0, false, 0, { 0 }, { 0 }, 0, 0, 0, false, false,       \
            false,                                                                                 \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Read a CSV trace in one pass. Columns are found by exact name, in any order, quoted or not:
 *   azure      TIMESTAMP (YYYY-MM-DD HH:MM:SS.fffffff, also ISO 8601), ContextTokens,
 * GeneratedTokens burstgpt   Timestamp (s), Request tokens, Response tokens vidur
 * num_prefill_tokens, num_decode_tokens, optionally arrived_at (s) splitwise  arrival_timestamp
 * (s), prompt_size, token_size LF and CRLF, a byte order mark and a missing newline at the end make
 * no difference. A field does not extend over lines. Bad rows are dropped and counted. *out is
 * written on success only and belongs to the caller, who gives it back with pkv_sim_trace_free.
 *   PKV_E_INVALID_ARG  null, a negative limit; PKV_E_ABI an unknown struct_size
 *   PKV_E_FORMAT       empty, no known set of columns (the log lists those found), no usable row,
 *                      times with and without zone mixed, anything dropped or repaired in strict
 *   PKV_E_IO           `read` failed; PKV_E_NO_MEMORY
 * O(bytes) plus a sort if times go backwards; memory for the requests and one line. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_trace_read_csv(pkv_sim_read_fn read, void *ctx,
                                                        const pkv_sim_trace_config *cfg,
                                                        pkv_sim_trace *out);
/* Give back reqs and zero the struct. NULL is fine. */
PKV_API void pkv_sim_trace_free(pkv_sim_trace *trace);

/* ---------------------------------------------------------------- policies */

typedef enum pkv_sim_kind {
    PKV_SIM_MAX = 0,    /* contiguous, max_model_len slots per request: Orca (Max) */
    PKV_SIM_POW2 = 1,   /* contiguous, prompt + output rounded up to a power of two: Orca (Pow2) */
    PKV_SIM_ORACLE = 2, /* contiguous, exactly prompt + output: Orca (Oracle) */
    PKV_SIM_PAGED = 3   /* blocks of the real block manager, preemption by recomputation */
} pkv_sim_kind;

typedef enum pkv_sim_addr {
    PKV_SIM_ADDR_BUDDY = 0,     /* power-of-two chunks, lowest address, merged with their buddy */
    PKV_SIM_ADDR_IDEAL = 1,     /* any free slots: a compactor at no cost */
    PKV_SIM_ADDR_FIRST_FIT = 2, /* lowest address whose free run is long enough */
    PKV_SIM_ADDR_BEST_FIT = 3   /* shortest free run that suffices, lowest address among equals */
} pkv_sim_addr;

typedef struct pkv_sim_policy {
    pkv_sim_kind kind;
    pkv_sim_addr addr;    /* of the contiguous kinds; PKV_SIM_ADDR_BUDDY for paged */
    int32_t block_tokens; /* of paged, 1 .. 1024; 0 for the others */
} pkv_sim_policy;

/* Read NAME[:key=value,...]: "max", "pow2", "oracle" with alloc=buddy|ideal|first-fit|best-fit (the
 * allocator's name alone will do), "paged" with block=N (default 16). PKV_E_INVALID_ARG: the log
 * says what and what would be right. *out on success only. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_policy_parse(const char *text, const pkv_logger *log,
                                                      pkv_sim_policy *out);
#define PKV_SIM_POLICY_NAME_BYTES 32
/* The canonical text: "max", "oracle:alloc=ideal", "paged:block=16". */
PKV_API void pkv_sim_policy_name(const pkv_sim_policy *policy,
                                 char name[PKV_SIM_POLICY_NAME_BYTES]);

/* ---------------------------------------------------------------- a run */

/* Both give the same result to the last bit; naive steps through everything and is the definition.
 */
typedef enum pkv_sim_engine { PKV_SIM_LEAP = 0, PKV_SIM_NAIVE = 1 } pkv_sim_engine;

/* Which time the averages cover. */
typedef enum pkv_sim_window {
    PKV_SIM_WINDOW_AUTO = 0,     /* arrivals if the arrivals differ, else queued */
    PKV_SIM_WINDOW_ALL = 1,      /* first admission to last finish */
    PKV_SIM_WINDOW_ARRIVALS = 2, /* first admission to last arrival */
    PKV_SIM_WINDOW_QUEUED = 3    /* the steps in which somebody waits after admission */
} pkv_sim_window;

typedef struct pkv_sim_config {
    uint32_t struct_size;
    pkv_sim_policy policy;
    int32_t pool_tokens;   /* C, 1 .. 2^31-1 slots; paged uses floor(C / block_tokens) blocks */
    int32_t max_model_len; /* M, 1 .. 2^30: longest prompt + output */
    int32_t max_num_seqs;  /* 1 .. 2^20 */
    int32_t watermark_ppm; /* paged: floor(blocks * ppm / 10^6) stay free at admission; 0 .. 10^6 */
    /* a step lasts base + per_seq * running + per_token * resident tokens; base and
       per_seq 0 .. 10^12, per_token 0 .. 10^9, base + per_seq >= 1 */
    int64_t step_base_ns, step_per_seq_ns, step_per_token_ns;
    pkv_sim_engine engine;
    pkv_sim_window window;
    bool check; /* compare the block manager with a counter model after every event */
    /* Called now and then on the calling thread with requests done and in all; NULL: not. */
    void (*progress)(void *ctx, int64_t n_done, int64_t n_total);
    void *progress_ctx;
    pkv_logger log;
    pkv_allocator alloc; /* for everything but the block manager's own hook, which gets it too */
} pkv_sim_config;
/* OPT-13B on 40 GB as in the PagedAttention paper: 15,728 slots, 2,048 tokens per request at most.
 */
#define PKV_SIM_CONFIG_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_sim_config), { PKV_SIM_PAGED, PKV_SIM_ADDR_BUDDY, 16 }, 15728, 2048, 256,       \
            10000, 22000000, 300000, 400, PKV_SIM_LEAP, PKV_SIM_WINDOW_AUTO, false, NULL, NULL,    \
            { NULL, NULL },                                                                        \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Shares of the pool, averaged over the window. The four parts are >= 0 and sum to 1 (as integers
 * exactly, at every sample). */
typedef struct pkv_sim_split {
    double token, reservation, internal, external;
    /* external = rounding + unusable + shortage + limited + idle */
    double rounding; /* granted beyond what was asked */
    double
        unusable; /* free, and the head of the queue needs no more, but no place is long enough */
    double shortage; /* free, but the head of the queue needs more (paged: watermark included) */
    double limited;  /* free, and the head would fit, but max_num_seqs are running */
    double idle;     /* free while nobody waits: not fragmentation */
    /* parts of external, shown apart */
    double watermark; /* free blocks up to the watermark */
    double tail;      /* C mod block_tokens slots that no block covers */
} pkv_sim_split;
#define PKV_SIM_SPLIT_INIT                                                                         \
    {                                                                                              \
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0                                                            \
    }

/* A distribution over finished requests; percentiles interpolate linearly. n 0: no values, the
 * others are 0 and mean nothing. */
typedef struct pkv_sim_dist {
    int64_t n;
    double mean, p50, p90, p99, max;
} pkv_sim_dist;
#define PKV_SIM_DIST_INIT                                                                          \
    {                                                                                              \
        0, 0, 0, 0, 0, 0                                                                           \
    }

typedef struct pkv_sim_result {
    uint32_t struct_size;
    pkv_sim_window window; /* the one used, never AUTO */
    int64_t window_ns;     /* 0: the window is empty, split and mean_batch are 0, not measured */
    int64_t waited_ns;     /* of the window: somebody waited while the step ran */
    int64_t end_ns;        /* last finish */
    int64_t n_requests, n_finished;
    int64_t n_too_long;     /* rejected at arrival: can never fit; finished + too_long = requests */
    int64_t first_too_long; /* index of the first of them, or -1 */
    int64_t n_steps;
    int64_t n_admissions, n_preemptions, n_preempted_requests;
    int64_t generated_tokens, recomputed_tokens;
    int64_t max_queue; /* most requests waiting at the start of a step */
    double mean_batch; /* running requests, over the window */
    int64_t max_batch; /* over the whole run */
    pkv_sim_split split;
    pkv_sim_dist e2e_s;  /* arrival to last token, seconds */
    pkv_sim_dist norm_s; /* the same per output token */
    pkv_sim_dist ttft_s; /* arrival to first token */
    pkv_sim_dist tpot_s; /* (e2e - ttft) / (o - 1), requests with o >= 2 */
} pkv_sim_result;
#define PKV_SIM_RESULT_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_sim_result), PKV_SIM_WINDOW_AUTO, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, PKV_SIM_SPLIT_INIT, PKV_SIM_DIST_INIT, PKV_SIM_DIST_INIT, PKV_SIM_DIST_INIT,        \
            PKV_SIM_DIST_INIT                                                                      \
    }

/* Replay reqs[0 .. n) against one policy. First come, first served, head of line blocking; whatever
 * fits an empty pool finishes. *out is written on success only.
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

/* What the lengths alone say. A request seen at a random moment is length-biased, because it stays
 * for o steps; means are over the requests with prompt + output <= max_model_len. */
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
    double oracle_ideal_batch; /* C / live_final: expected where contiguous chunks fill the pool */
    double paged_batch;        /* (C - watermark slots) / (live_tokens + (block_tokens + 1) / 2) */
    double paged_internal;     /* share of C */
} pkv_sim_forms;
#define PKV_SIM_FORMS_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_sim_forms), 0, 0, 0, 0, 0, 0, 0, 0, PKV_SIM_SPLIT_INIT, 0, 0, 0                 \
    }

/* Uses pool_tokens, max_model_len and watermark_ppm of cfg, and its block_tokens if the policy is
 * paged, else 16. PKV_E_INVALID_ARG, PKV_E_ABI as pkv_sim_run. O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_closed_forms(const pkv_sim_config *cfg,
                                                      const pkv_sim_request *reqs, int64_t n,
                                                      pkv_sim_forms *out);

/* Percentiles of n values, which are sorted in place: position p * (n - 1) with linear
 * interpolation. n 0 gives the empty distribution. */
PKV_API void pkv_sim_dist_of(double *values, int64_t n, pkv_sim_dist *out);

#ifdef __cplusplus
}
#endif
#endif
