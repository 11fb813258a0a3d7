/* What every file of pkv-bench uses: errors, exit codes, clock, random numbers, memory. */
#ifndef PKV_BENCH_BASE_H
#define PKV_BENCH_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_PRINTF(fmt_idx, arg_idx) __attribute__((format(printf, fmt_idx, arg_idx)))
#define BENCH_LEN(a) ((int)(sizeof(a) / sizeof((a)[0])))

/* Exit codes of the program. */
enum {
    BENCH_OK = 0,
    BENCH_WRONG = 1, /* a result is wrong, or the case of --batch could not run */
    BENCH_USAGE = 2, /* usage, input or output error, or no memory */
    BENCH_NOISY = 3, /* measured, but the machine was noisy; only with --fail-noisy */
    BENCH_SKIP = -1  /* never an exit code: this case cannot run here, the text says why */
};

/* One line of text for the user, and the exit code that goes with it. */
struct bench_error {
    int code;
    char text[400];
};

/* Fill `err` and return false, so that `return bench_fail(err, ...)` reads well. */
bool bench_fail(struct bench_error *err, int code, const char *fmt, ...) BENCH_PRINTF(3, 4);

/* A clock that tests replace. Nanoseconds, monotonic, any origin. */
struct bench_clock {
    uint64_t (*now_ns)(void *ctx);
    void *ctx;
};
/* CLOCK_MONOTONIC_RAW: not slewed by NTP. */
struct bench_clock bench_clock_raw(void);

/* splitmix64: small, seedable, the same on every machine. */
struct bench_rng {
    uint64_t state;
};
uint64_t bench_mix(uint64_t x); /* its output function: a good hash of one word */
uint64_t bench_rng_next(struct bench_rng *rng);
uint64_t bench_rng_below(struct bench_rng *rng, uint64_t n); /* 0 .. n-1; n >= 1 */
double bench_rng_unit(struct bench_rng *rng);                /* [0, 1) */
void bench_shuffle(struct bench_rng *rng, int32_t *values, int64_t n);

/* Anonymous memory, 2 MiB aligned, zero, untouched; huge pages advised if wanted. All sides of a
 * comparison get their memory here, so that none has better pages than another. */
struct bench_region {
    void *base;
    size_t bytes;
    void *map;
    size_t map_bytes;
};
bool bench_region_map(struct bench_region *region, size_t bytes, bool huge,
                      struct bench_error *err);
void bench_region_unmap(struct bench_region *region); /* a zeroed region is fine */

/* calloc that fills `err` when there is no memory. */
void *bench_calloc(size_t n, size_t size, struct bench_error *err);

#endif
