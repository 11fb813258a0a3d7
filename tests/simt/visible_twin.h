/* kernels/visible.c for tests in C++. */
#ifndef PKV_VISIBLE_TWIN_H
#define PKV_VISIBLE_TWIN_H

#include "pagedkv/attention.h"

#ifdef __cplusplus
extern "C" {
#endif

struct visible_twin {
    const pkv_attn_batch *batch;
    const pkv_attn_opts *opts;
    int32_t row0, q_len, kv_len, pos0;
};

uint64_t visible_twin_bits(const struct visible_twin *t, int32_t i, int32_t j, int32_t n);
int64_t visible_twin_ahead(const struct visible_twin *t, int32_t i, int32_t j);
void visible_twin_hull(const struct visible_twin *t, int32_t lo, int32_t hi, int32_t hull[2]);

#ifdef __cplusplus
}
#endif
#endif
