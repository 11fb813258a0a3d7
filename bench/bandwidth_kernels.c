/* Streaming sums. This file is compiled once per level with BANDWIDTH_INIT naming its entry; the
 * 64-byte vectors below become one, two or four registers.
 *
 * Eight independent accumulators: the adds of one cache line never wait for those of the one
 * before, so what is left is the memory. */
#include "bandwidth_kernels.h"

#include <string.h>

#define VECTOR __attribute__((vector_size(64), aligned(16), may_alias))
typedef uint64_t vec VECTOR;

#define N_ACC 8
#define STEP (N_ACC * sizeof(vec))
/* Bytes ahead of the reads. 1 to 4 KiB measure alike where it helps at all. */
#define PREFETCH_AHEAD 2048

static uint64_t sum_lanes(const vec *acc)
{
    uint64_t words[N_ACC * 8], total = 0;
    memcpy(words, acc, sizeof(words));
    for (int i = 0; i < N_ACC * 8; i++) total += words[i];
    return total;
}

static uint64_t sum_tail(const char *data, size_t bytes)
{
    uint64_t total = 0;
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        memcpy(&word, data + i, 8);
        total += word;
    }
    return total;
}

static uint64_t sum_plain(const void *data, size_t bytes)
{
    const char *p = data;
    vec acc[N_ACC] = { { 0 } };
    const size_t whole = bytes - bytes % STEP;
    for (size_t i = 0; i < whole; i += STEP) {
        const vec *v = (const vec *)(const void *)(p + i);
        for (int k = 0; k < N_ACC; k++) acc[k] += v[k];
    }
    return sum_lanes(acc) + sum_tail(p + whole, bytes - whole);
}

static uint64_t sum_prefetch(const void *data, size_t bytes)
{
    const char *p = data;
    vec acc[N_ACC] = { { 0 } };
    const size_t whole = bytes - bytes % STEP;
    for (size_t i = 0; i < whole; i += STEP) {
        const vec *v = (const vec *)(const void *)(p + i);
        for (int k = 0; k < N_ACC; k++) {
            __builtin_prefetch(p + i + PREFETCH_AHEAD + (size_t)k * sizeof(vec));
            acc[k] += v[k];
        }
    }
    return sum_lanes(acc) + sum_tail(p + whole, bytes - whole);
}

/* Four quarters side by side: four pages are open at a time and four hardware prefetchers run. */
static uint64_t sum_streams(const void *data, size_t bytes)
{
    enum { N_STREAMS = 4, PER_STREAM = N_ACC / N_STREAMS };
    const char *p = data;
    vec acc[N_ACC] = { { 0 } };
    const size_t step = PER_STREAM * sizeof(vec);
    const size_t quarter = bytes / N_STREAMS / step * step;
    for (size_t i = 0; i < quarter; i += step)
        for (int s = 0; s < N_STREAMS; s++) {
            const vec *v = (const vec *)(const void *)(p + (size_t)s * quarter + i);
            for (int k = 0; k < PER_STREAM; k++) acc[s * PER_STREAM + k] += v[k];
        }
    return sum_lanes(acc) + sum_tail(p + N_STREAMS * quarter, bytes - N_STREAMS * quarter);
}

static uint64_t sum_ahead(const void *data, size_t bytes, const void *ahead)
{
    const char *p = data, *next = ahead;
    vec acc[N_ACC] = { { 0 } };
    const size_t whole = bytes - bytes % STEP;
    for (size_t i = 0; i < whole; i += STEP) {
        const vec *v = (const vec *)(const void *)(p + i);
        for (int k = 0; k < N_ACC; k++) {
            __builtin_prefetch(next + i + (size_t)k * sizeof(vec), 0, 2);
            acc[k] += v[k];
        }
    }
    return sum_lanes(acc) + sum_tail(p + whole, bytes - whole);
}

void BANDWIDTH_INIT(struct bandwidth_loops *loops)
{
    loops->sum[BANDWIDTH_PLAIN] = sum_plain;
    loops->sum[BANDWIDTH_PREFETCH] = sum_prefetch;
    loops->sum[BANDWIDTH_STREAMS] = sum_streams;
    loops->sum_ahead = sum_ahead;
}
