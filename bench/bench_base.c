/* Errors, clock, random numbers and memory of pkv-bench. */
#include "bench_base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define HUGE_PAGE ((size_t)2 << 20)

bool bench_fail(struct bench_error *err, int code, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    err->code = code;
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    return false;
}

static uint64_t raw_now_ns(void *ctx)
{
    struct timespec t;
    (void)ctx;
    clock_gettime(CLOCK_MONOTONIC_RAW, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct bench_clock bench_clock_raw(void)
{
    return (struct bench_clock){ raw_now_ns, NULL };
}

uint64_t bench_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

uint64_t bench_rng_next(struct bench_rng *rng)
{
    rng->state += 0x9e3779b97f4a7c15u;
    return bench_mix(rng->state);
}

uint64_t bench_rng_below(struct bench_rng *rng, uint64_t n)
{
    /* Rejection of the incomplete last interval: no value is favoured. */
    const uint64_t limit = UINT64_MAX - UINT64_MAX % n;
    uint64_t x;
    do x = bench_rng_next(rng);
    while (x >= limit);
    return x % n;
}

double bench_rng_unit(struct bench_rng *rng)
{
    return (double)(bench_rng_next(rng) >> 11) * 0x1p-53;
}

void bench_shuffle(struct bench_rng *rng, int32_t *values, int64_t n)
{
    for (int64_t i = n - 1; i > 0; i--) {
        const int64_t j = (int64_t)bench_rng_below(rng, (uint64_t)i + 1);
        const int32_t t = values[i];
        values[i] = values[j];
        values[j] = t;
    }
}

bool bench_region_map(struct bench_region *region, size_t bytes, bool huge, struct bench_error *err)
{
    const size_t rounded = (bytes + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1);
    const size_t map_bytes = rounded + HUGE_PAGE; /* room to align */
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return bench_fail(err, BENCH_USAGE,
                          "no memory: %zu MiB refused by the system; lower --max-memory",
                          map_bytes >> 20);
    const uintptr_t at = ((uintptr_t)map + HUGE_PAGE - 1) & ~(uintptr_t)(HUGE_PAGE - 1);
    region->map = map;
    region->map_bytes = map_bytes;
    region->base = (void *)at;
    region->bytes = rounded;
    /* Advice only: a refusal changes speed, not results, and hits all sides alike. */
    (void)madvise(region->base, rounded, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return true;
}

void bench_region_unmap(struct bench_region *region)
{
    if (region->map) munmap(region->map, region->map_bytes);
    memset(region, 0, sizeof(*region));
}

void *bench_calloc(size_t n, size_t size, struct bench_error *err)
{
    void *p = calloc(n ? n : 1, size);
    if (!p) (void)bench_fail(err, BENCH_USAGE, "no memory for %zu bytes", n * size);
    return p;
}
