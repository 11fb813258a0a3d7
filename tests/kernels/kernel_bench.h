/* check_kernels --bench: operations timed in sets. The runs of a set take turns, round by round, so
 * that a slow minute hits all alike; baselines are runs like any other, and a share is the median
 * over the rounds of baseline and run of the same round.
 *
 *   kernel_bench.c            options, sets, rounds, the table
 *   kernel_bench_attention.c  decode (paged, contiguous, int8_qk), prefill
 *   kernel_bench_moves.c      kv_write, kv_gather, whole blocks, merge
 *   kernel_twin.c             what they are measured with: loops that read, load and multiply */
#ifndef PKV_KERNEL_BENCH_H
#define PKV_KERNEL_BENCH_H

#include "case_random.h"
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

#include <stddef.h>
#include <time.h>

struct bench_options {
    pkv_isa isa;    /* PKV_ISA_BEST: every level */
    const char *op; /* NULL: all */
    int32_t threads;
    int64_t mib; /* of keys and values read by one call of decode */
};
/* 0 or an exit status. */
int kernel_bench(const struct bench_options *o);

enum { BENCH_MAX_RUNS = 48, BENCH_MAX_ROUNDS = 15, BENCH_MAX_LEVELS = 6 };

/* What a run's time is held against, besides the clock. */
enum bench_base { BASE_NONE, BASE_READ, BASE_COPY, BASE_PEAK };

struct bench_run {
    char name[48], how[16];
    void (*fn)(void *ctx);
    void *ctx;
    double work; /* bytes, or floating point operations */
    int base[2]; /* runs of the set, or -1 */
    double ns[BENCH_MAX_ROUNDS];
};

struct bench_set {
    struct bench_run runs[BENCH_MAX_RUNS];
    int n_runs, n_rounds;
    double seconds; /* to spend, about */
    clockid_t clock;
};

/* A backend for each level of this machine, or the one asked for. */
struct bench {
    const struct bench_options *options;
    pkv_backend *be[BENCH_MAX_LEVELS];
    pkv_isa isa[BENCH_MAX_LEVELS];
    int n_levels;
};

/* Add a run; its number. */
int bench_add(struct bench_set *set, const char *name, const char *how, double work,
              void (*fn)(void *ctx), void *ctx, int base0, int base1);
/* Measure and print: `unit` "GB/s" or "GFLOP/s", headings of the two shares. One thread is timed by
 * its CPU time, which others on the machine disturb less; several by the clock. */
void bench_measure(struct bench_set *set, int32_t threads, const char *unit, const char *share0,
                   const char *share1);
void *bench_room(size_t bytes);
/* A status other than PKV_OK ends the program. */
void bench_must(pkv_status status);
bool bench_wanted(const struct bench *b, const char *op);
/* Normal numbers between 0.5 and 2 in f32 and f16; other types take any bits but NaN codes. */
void bench_fill(struct rng *r, void *data, size_t bytes, pkv_dtype dtype);

void bench_attention(const struct bench *b);
void bench_moves(const struct bench *b);

#endif
