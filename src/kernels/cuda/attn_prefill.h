/* Attention over long rows: what the host has to know of attn_prefill*.cuh. */
#ifndef PKV_ATTN_PREFILL_H
#define PKV_ATTN_PREFILL_H

#include "kernels/cuda/cuda_launch.h"

enum {
    PKV__PREFILL_THREADS = 128,
    PKV__PREFILL_ROWS = 64,   /* queries of an item: (row, head of the group) */
    PKV__PREFILL_TALK = 8096, /* bytes that threads share besides tiles */
    PKV__PREFILL_SLOTS = 240  /* states of parts of items: 8 MiB at dim 128 */
};

/* Floats of the state of one part of an item: m, l and o of each query. */
#define PKV__PREFILL_STATE(dim) (PKV__PREFILL_ROWS * ((dim) + 2))

/* Dynamic shared memory of a CTA: queries, twice K and V as stored, K and V as products where these
 * are codes, and what threads tell each other. */
#define PKV__PREFILL_KEYS(dim) ((dim) <= 128 ? 64 : 32)
#define PKV__PREFILL_SHARED(dim, bits)                                                             \
    (PKV__PREFILL_ROWS * 2 * (dim) + 4 * PKV__PREFILL_KEYS(dim) * ((dim) * (bits) / 8) +           \
     ((bits) < 16 ? 2 * PKV__PREFILL_KEYS(dim) * 2 * (dim) : 0) + PKV__PREFILL_TALK)

#ifdef __cplusplus
extern "C" {
#endif

/* attn_prefill_<type>_<dim>.cu */
#define PKV__PREFILL_UNIT(type, dim)                                                               \
    int pkv__prefill_##type##_##dim##_prepare(struct pkv__kernel_cost *cost);                      \
    int pkv__prefill_##type##_##dim##_launch(const void *params, int64_t n_ctas, void *stream)
PKV__PREFILL_UNIT(f16, 64);
PKV__PREFILL_UNIT(f16, 128);
PKV__PREFILL_UNIT(f16, 256);
PKV__PREFILL_UNIT(bf16, 64);
PKV__PREFILL_UNIT(bf16, 128);
PKV__PREFILL_UNIT(bf16, 256);
PKV__PREFILL_UNIT(e4m3, 64);
PKV__PREFILL_UNIT(e4m3, 128);
PKV__PREFILL_UNIT(e5m2, 64);
PKV__PREFILL_UNIT(e5m2, 128);
PKV__PREFILL_UNIT(int8, 64);
PKV__PREFILL_UNIT(int8, 128);
PKV__PREFILL_UNIT(int4, 64);
PKV__PREFILL_UNIT(int4, 128);

#ifdef __cplusplus
}
#endif
#endif
