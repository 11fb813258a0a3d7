/* What the simulator replays: requests, the content of their prompts, and where both come from.
 *
 *   trace bytes --pkv_sim_trace_read--> pkv_sim_trace: requests, content, account of every row
 *   pkv_sim_generate, pkv_sim_arrivals, pkv_sim_resample ------> requests
 *
 * Part of sim.h, which says what holds for both. docs/simulator.md has the rules of every format.
 */
#ifndef PAGEDKV_SIM_INPUT_H
#define PAGEDKV_SIM_INPUT_H

#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_sim_request {
    int64_t arrival_ns;    /* >= 0; a list is sorted by it, equal times keep their order */
    int32_t prompt_tokens; /* i >= 1 */
    int32_t output_tokens; /* o >= 0; forced: the run generates exactly as many. 0: prefill only */
} pkv_sim_request;

/* What the prompts say, as far as it is known: ids of blocks of `block_tokens` prompt tokens each.
 * Equal ids at the same place after equal ids are equal tokens; an id identifies its whole prefix
 * or its own block, both work. Block k of a request covers its tokens [k * block_tokens, (k + 1) *
 * block_tokens) as far as they are prompt; what no id covers is unlike everything else. Read only,
 * owned by whoever made it. */
typedef struct pkv_sim_content {
    int32_t block_tokens; /* tokens per id, >= 1 */
    int32_t n_distinct;   /* ids are 0 .. n_distinct-1 */
    const int64_t *first; /* [n] where the ids of each request begin */
    const int32_t *n_ids; /* [n] at most ceil(prompt_tokens / block_tokens) */
    const int32_t *ids;
} pkv_sim_content;

/* ---------------------------------------------------------------- generators */

/* A law of one length. Draws are rounded to the nearest integer. */
typedef enum pkv_sim_law {
    PKV_SIM_LAW_FIXED = 0,     /* a */
    PKV_SIM_LAW_UNIFORM = 1,   /* a .. b, both included */
    PKV_SIM_LAW_LOGNORMAL = 2, /* mean a, coefficient of variation b */
    PKV_SIM_LAW_GAMMA = 3,     /* mean a, shape b (1: exponential) */
    PKV_SIM_LAW_ZIPF = 4       /* P(k) ~ k^-a for k = 1 .. b; a >= 0 */
} pkv_sim_law;

typedef struct pkv_sim_length {
    pkv_sim_law law;
    double a, b;
} pkv_sim_length;

/* How pairs of lengths are drawn: each by its law; a pair outside the limits is redrawn as a whole.
 */
typedef struct pkv_sim_lengths {
    pkv_sim_length prompt, output;
    int32_t min_prompt, max_prompt; /* 1 <= min <= max <= 2^30 */
    int32_t min_output, max_output;
    int32_t max_total; /* of prompt + output */
} pkv_sim_lengths;

/* Read KIND: "sharegpt-like", "alpaca-like", "fixed:I,O", "uniform:I1-I2,O1-O2",
 * "lognormal:MEAN,CV,MEAN,CV", "gamma:MEAN,SHAPE,MEAN,SHAPE", "zipf:A,MAX,A,MAX" (prompt, then
 * output). sharegpt-like and alpaca-like have the means of the PagedAttention paper's two data sets
 * and the length bias its Fig. 2 implies; docs/simulator.md has their parameters.
 * PKV_E_INVALID_ARG: the log says what and what would be right. *out on success only. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_lengths_parse(const char *text, const pkv_logger *log,
                                                       pkv_sim_lengths *out);

typedef enum pkv_sim_arrival {
    PKV_SIM_ARRIVAL_POISSON = 0,
    PKV_SIM_ARRIVAL_GAMMA = 1,    /* gaps of gamma law, shape = burstiness, mean 1 / rate */
    PKV_SIM_ARRIVAL_CONSTANT = 2, /* every 1 / rate */
    PKV_SIM_ARRIVAL_BURST = 3,    /* burst_size at a time, every burst_size / rate */
    PKV_SIM_ARRIVAL_ARTIFACT = 4  /* Poisson counts per quantum of 10 ms, as the trace maker of the
                                     paper's artifact: equal times are common */
} pkv_sim_arrival;

typedef struct pkv_sim_arrival_config {
    uint32_t struct_size;
    pkv_sim_arrival kind;
    int64_t rate_micro;       /* requests per 10^6 seconds; 0: all at time 0 */
    int64_t burstiness_micro; /* of GAMMA, times 10^6: 1000000 is Poisson, less is burstier */
    int32_t burst_size;       /* of BURST, >= 1 */
    uint64_t seed;
    pkv_logger log;
} pkv_sim_arrival_config;
#define PKV_SIM_ARRIVAL_CONFIG_INIT                                                                \
    {                                                                                              \
        sizeof(pkv_sim_arrival_config), PKV_SIM_ARRIVAL_POISSON, 8000000, 1000000, 1, 0,           \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* Fill the lengths of reqs[0 .. n). The first k of n do not depend on n, nor on how arrivals are
 * drawn. Arrivals are left alone.
 *   PKV_E_INVALID_ARG  null, n < 0, a field out of range, limits that reject 10^4 pairs in a row
 * O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_generate(const pkv_sim_lengths *lengths, uint64_t seed,
                                                  const pkv_logger *log, pkv_sim_request *reqs,
                                                  int64_t n);

/* Set the arrivals of n requests; their lengths are left alone. Nothing is written on failure.
 *   PKV_E_INVALID_ARG  null, n < 0, a field out of range; PKV_E_ABI an unknown struct_size
 *   PKV_E_LIMIT        arrivals pass 2^62 ns
 * O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_arrivals(const pkv_sim_arrival_config *cfg,
                                                  pkv_sim_request *reqs, int64_t n);

/* The usual case in one call: lengths by a text of pkv_sim_lengths_parse, Poisson arrivals. Errors
 * as those of the three. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_draw(const char *lengths, uint64_t seed,
                                              int64_t rate_micro, const pkv_logger *log,
                                              pkv_sim_request *reqs, int64_t n);

/* Fill the lengths of reqs[0 .. n) with those of from[0 .. n_from), drawn with replacement.
 * PKV_E_INVALID_ARG null, n < 0, n_from < 1. O(n). */
PKV_API PKV_NODISCARD pkv_status pkv_sim_resample(const pkv_sim_request *from, int64_t n_from,
                                                  uint64_t seed, pkv_sim_request *reqs, int64_t n);

/* ---------------------------------------------------------------- traces */

/* Why a row was not used. Identity: rows_read = used + sum of dropped. */
#define PKV_SIM_DROP_LIST(X)                                                                       \
    X(ZERO_INPUT, "zero_input")                                                                    \
    X(ZERO_OUTPUT, "zero_output")                                                                  \
    X(BAD_NUMBER, "bad_number")           /* not an integer, or negative */                        \
    X(OVERFLOW, "overflow")               /* more than 2^31 - 1 tokens */                          \
    X(BAD_TIMESTAMP, "bad_timestamp")     /* negative, NaN, infinite, unparsable, out of range */  \
    X(RAGGED_ROW, "ragged_row")           /* another number of fields than the header */           \
    X(JUNK, "junk")                       /* broken quoting, or a line above 1 MiB (JSON: 16) */   \
    X(REPEATED_HEADER, "repeated_header") /* the header again */                                   \
    X(BAD_BYTES, "bad_bytes")             /* a NUL byte */                                         \
    X(BAD_JSON, "bad_json")               /* cut, not an object, a key twice, a key missing */     \
    X(FILTERED, "filtered") /* good, but outside the filter, the time or max_requests */

typedef enum pkv_sim_drop {
#define PKV_SIM_DROP_ENUM(name, text) PKV_SIM_DROP_##name,
    PKV_SIM_DROP_LIST(PKV_SIM_DROP_ENUM)
#undef PKV_SIM_DROP_ENUM
        PKV_SIM_DROP_COUNT
} pkv_sim_drop;

/* "zero_input"; "?" for an unknown value. */
PKV_API const char *pkv_sim_drop_name(pkv_sim_drop reason);

/* Which requests are used, as published evaluations choose them. */
typedef enum pkv_sim_filter {
    PKV_SIM_FILTER_NONE = 0,
    PKV_SIM_FILTER_VLLM = 1,         /* i >= 4, o >= 4, i <= 1024, i + o <= 2048 */
    PKV_SIM_FILTER_ARTIFACT = 2,     /* i + o < 2048 */
    PKV_SIM_FILTER_SGLANG = 3,       /* i >= 2, o >= 2 */
    PKV_SIM_FILTER_BURSTGPT_GPT4 = 4 /* column Model is GPT-4, o >= 1 */
} pkv_sim_filter;

typedef struct pkv_sim_trace_config {
    uint32_t struct_size;
    bool strict;           /* any drop (but filtered) or repair is an error naming its line */
    bool keep_zero_output; /* rows without output are used: prefill only */
    pkv_sim_filter filter;
    const char *format;     /* a name of pkv_sim_trace_format, or NULL: by the names found */
    const char *in_column;  /* names of columns (CSV) or keys (JSON) instead of the format's: all */
    const char *out_column; /* three may be NULL; with in_column and out_column no format is */
    const char *time_column;   /* looked for, and without time_column there are no times */
    int64_t time_unit_ns;      /* ns per unit of a numeric time column; 0: as the format says */
    int32_t hash_block_tokens; /* tokens per content id; 0: as the format says */
    int64_t max_requests;      /* use at most so many rows, the earliest ones; 0: all */
    int64_t start_ns;          /* use rows that arrive at least so long after the first ... */
    int64_t duration_ns;       /* ... and within duration after that; 0: all */
    pkv_logger log;      /* errors: one line with line number, what and remedy; warnings too */
    pkv_allocator alloc; /* {NULL, NULL, NULL}: malloc family */
} pkv_sim_trace_config;
#define PKV_SIM_TRACE_CONFIG_INIT                                                                  \
    {                                                                                              \
        sizeof(pkv_sim_trace_config), false, false, PKV_SIM_FILTER_NONE, NULL, NULL, NULL, NULL,   \
            0, 0, 0, 0, 0, { NULL, NULL },                                                         \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Where bytes come from: put up to `cap` bytes into `buf`, return how many; 0 at the end, negative
 * on an error of the source. */
typedef int64_t (*pkv_sim_read_fn)(void *ctx, void *buf, size_t cap);

typedef struct pkv_sim_trace {
    uint32_t struct_size;
    const char *format;    /* a name of pkv_sim_trace_format; static string */
    pkv_sim_request *reqs; /* [n_reqs], sorted by arrival, the first at 0; owned by the trace */
    int64_t n_reqs;
    pkv_sim_content content; /* of reqs, in their order; ids NULL: the trace has none. Owned too */
    bool has_times;          /* false: the trace has no times; every arrival is 0 */
    bool has_history;     /* prompts of later turns contain the turns before, as the format says */
    int64_t time_unit_ns; /* as used; 0: dates, or no times */
    int64_t rows_read;    /* header and blank lines are not rows */
    int64_t bytes_read;
    int64_t dropped[PKV_SIM_DROP_COUNT];
    int64_t first_line[PKV_SIM_DROP_COUNT]; /* of each reason, from 1; 0: none */
    int64_t n_backwards; /* rows earlier than the row before them, put right by sorting */
    int64_t first_backwards_line;
    int64_t n_equal_times;                         /* used rows at the time of the one before */
    int64_t span_ns;                               /* last arrival - first arrival */
    bool had_bom, had_crlf, last_row_unterminated; /* what was seen; no influence on the requests */
    void *memory;                                  /* the trace's own, for pkv_sim_trace_free */
    pkv_allocator alloc;
} pkv_sim_trace;
#define PKV_SIM_TRACE_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_sim_trace), NULL, NULL, 0, { 0, 0, NULL, NULL, NULL }, false, false, 0, 0, 0,   \
            { 0 }, { 0 }, 0, 0, 0, 0, false, false, false, NULL,                                   \
        {                                                                                          \
            NULL, NULL, NULL                                                                       \
        }                                                                                          \
    }

/* Names of the formats, NULL behind the last: "azure", "burstgpt", "vidur", "splitwise", "lengths",
 * "mooncake", "qwen", "llmservingsim"; "columns" is what in_column and out_column make. */
PKV_API const char *pkv_sim_trace_format(int k);

/* Read a trace in one pass, CSV or, where the first byte that is not blank is '{', JSON lines. The
 * format is recognised by the names of columns or keys, never by their place:
 *   azure          TIMESTAMP (YYYY-MM-DD HH:MM:SS.fffffff or ISO 8601), ContextTokens,
 *                  GeneratedTokens
 *   burstgpt       Timestamp (s), Request tokens, Response tokens; all three releases
 *   vidur          num_prefill_tokens, num_decode_tokens, optionally arrived_at (s)
 *   splitwise      arrival_timestamp (s), prompt_size, token_size
 *   lengths        input, output
 *   mooncake       timestamp (ms), input_length, output_length, hash_ids (512 tokens each)
 *   qwen           as mooncake with chat_id, parent_chat_id, turn; timestamp in s, 16 tokens per id
 *   llmservingsim  input_toks, output_toks, arrival_time_ns, optionally input_tok_ids
 * LF and CRLF, a byte order mark and a missing newline at the end make no difference; neither do
 * the order of columns or keys and unknown ones. Bad rows are dropped and counted. *out is written
 * on success only and belongs to the caller, who gives it back with pkv_sim_trace_free.
 *   PKV_E_INVALID_ARG  null, a negative limit; PKV_E_ABI an unknown struct_size
 *   PKV_E_FORMAT       empty, no known set of names (the log lists those found), no usable row,
 *                      times with and without zone mixed, times in some rows only, a number of
 *                      content ids that does not suit the lengths (the log names what would),
 *                      anything dropped or repaired in strict
 *   PKV_E_IO           `read` failed; PKV_E_NO_MEMORY
 * O(bytes) plus a sort if times go backwards; memory for the requests, their ids and one line. */
PKV_API PKV_NODISCARD pkv_status pkv_sim_trace_read(pkv_sim_read_fn read, void *ctx,
                                                    const pkv_sim_trace_config *cfg,
                                                    pkv_sim_trace *out);
/* Give back what the trace owns and zero the struct. NULL is fine. */
PKV_API void pkv_sim_trace_free(pkv_sim_trace *trace);

#ifdef __cplusplus
}
#endif
#endif
