/* The command line of pkv-bench. */
#ifndef PKV_BENCH_OPTIONS_H
#define PKV_BENCH_OPTIONS_H

#include "batch_spec.h"
#include "bench_base.h"

#include "pagedkv/backend.h"

enum bench_command {
    CMD_RUN,
    CMD_KERNEL,
    CMD_BLOCKMGR,
    CMD_CAPACITY,
    CMD_SHARE,
    CMD_SERVE,
    CMD_MODEL,
    CMD_MACHINE
};
enum bench_profile { PROFILE_QUICK, PROFILE_FULL, PROFILE_CI };

/* Sides that tests of the suite plant; see docs/benchmarking.md. */
enum bench_self_test { SELF_TEST_NONE, SELF_TEST_SLOW, SELF_TEST_WRONG };

#define OPTIONS_MAX_BLOCKS 8
#define OPTIONS_MAX_POOLS 64

/* A workload for `serve`; 0 and NULL: the default. */
struct serve_options {
    bool given; /* any of them */
    const char *model, *lengths;
    int32_t scale, requests, concurrency, prefix, samples, max_seqs, max_context, chunk;
    double rate, slo_ttft_ms, slo_tpot_ms;
    size_t kv_memory;
    char shared_lengths[512]; /* of the real trace, in the shared folder */
};

struct bench_options {
    enum bench_command command;
    enum bench_profile profile;
    const char *filter; /* NULL: everything */
    bool list, markdown, fail_noisy, huge_pages;
    int32_t repeats; /* samples per side; 0: as the profile says */
    uint64_t seed;
    size_t max_memory; /* 0: a quarter of the available memory, and what the profile allows */
    double max_time_s; /* per case; 0: as the profile says */
    const char *json, *csv, *markdown_file; /* NULL: not wanted; "-": standard output */
    int32_t n_threads;                      /* 0: see bench_threads */
    pkv_isa isa;
    const char *isa_from; /* who named it: "--isa", "PKV_ISA"; NULL: nobody */
    enum bench_self_test self_test;
    /* A kernel case given by hand. */
    bool has_batch;
    struct batch_spec batch;
    int32_t h_q, h_kv, dim;
    pkv_dtype dtype;
    int32_t n_blocks;
    int32_t block_tokens[OPTIONS_MAX_BLOCKS];
    /* A trace of prompts. */
    bool has_trace;    /* it, or an option of it, was given */
    const char *trace; /* --trace, else the one of the shared folder */
    char shared_trace[512];
    char stories[512];                             /* the trained test model */
    int32_t trace_block;                           /* tokens that one of its ids stands for */
    int32_t n_pools, pools[OPTIONS_MAX_POOLS - 1]; /* in blocks of the trace; 0: from the trace */
    struct serve_options serve;
    char text[512]; /* the command line as typed */
};

/* Parse. `isa_env` is the value of PKV_ISA or NULL; --isa goes before it, and `capacity` and
 * `share` look at neither. `shared_env` is that of PKV_SHARED, the folder of real traces, or NULL.
 * An option without effect on the command is a mistake. Prints help and exits 0 where asked for;
 * prints one line and exits 2 on a mistake. */
void bench_options_parse(int argc, char **argv, const char *isa_env, const char *shared_env,
                         struct bench_options *out);

/* "64M", "1.5G", "4096": bytes. False if it is not a size of at least one byte. */
bool bench_parse_size(const char *text, size_t *out);

/* Threads of the run on a machine where it may use `n_cpus`: as asked for; else 2 in `ci`, so that
 * threads are exercised anywhere, and in other profiles one for each CPU. */
int32_t bench_threads(const struct bench_options *o, int32_t n_cpus);

const char *bench_profile_name(enum bench_profile profile);
const char *bench_command_name(enum bench_command command);
/* A command that counts and times nothing, so that neither level nor bandwidth matter. */
bool bench_command_untimed(enum bench_command command);
/* A command that begins with the bandwidth of the machine and the A/A check of attention. */
bool bench_command_probes(enum bench_command command);

#endif
