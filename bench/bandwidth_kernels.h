/* Read kernels of the bandwidth probe, compiled once per CPU level. */
#ifndef PKV_BANDWIDTH_KERNELS_H
#define PKV_BANDWIDTH_KERNELS_H

#include <stddef.h>
#include <stdint.h>

/* Sum of the 64-bit words of [data, data + bytes), modulo 2^64. `data` is 16-byte aligned and bytes
 * a multiple of 16. The result depends on every byte read, so no compiler can leave a read out. */
typedef uint64_t (*bandwidth_sum_fn)(const void *data, size_t bytes);

/* Ways to read: one stream, with and without prefetch instructions, and four streams at a time. */
enum { BANDWIDTH_PLAIN, BANDWIDTH_PREFETCH, BANDWIDTH_STREAMS, BANDWIDTH_N_WAYS };

/* The same sum, while the `bytes` bytes at `ahead`, which will be read soon, are fetched into the
 * caches. What a kernel does that knows from its block table where it will read next. */
typedef uint64_t (*bandwidth_ahead_fn)(const void *data, size_t bytes, const void *ahead);

struct bandwidth_loops {
    bandwidth_sum_fn sum[BANDWIDTH_N_WAYS];
    bandwidth_ahead_fn sum_ahead;
};

void bandwidth_kernels_scalar(struct bandwidth_loops *loops);
void bandwidth_kernels_avx2(struct bandwidth_loops *loops);
void bandwidth_kernels_avx512(struct bandwidth_loops *loops);

#endif
