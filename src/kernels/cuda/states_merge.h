/* What passes from the host to the kernels that merge states. Included by C and by .cu files. */
#ifndef PKV_STATES_MERGE_H
#define PKV_STATES_MERGE_H

#include "kernels/cuda/cuda_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
    PKV__STATES_MERGE_THREADS = 128,
    PKV__CUDA_MAX_STATES = 64 /* the parameters of a launch have to fit 4 KiB */
};

/* One state; strides in elements. */
struct pkv__cuda_state {
    const void *o;
    const float *lse;
    int64_t row_stride, head_stride, lse_row_stride, lse_head_stride;
};

struct pkv__cuda_merge {
    void *out;
    float *out_lse; /* NULL: not wanted */
    int64_t row_stride, head_stride, lse_row_stride, lse_head_stride;
    int64_t n_rows;
    int32_t n_heads, dim;
    int32_t out_dtype; /* pkv_dtype */
    int32_t n_states;
    uint8_t base2;
    struct pkv__cuda_state states[PKV__CUDA_MAX_STATES];
};

/* States of f32, f16, bf16. */
int pkv__states_merge_f32_prepare(struct pkv__kernel_cost *cost);
int pkv__states_merge_f32_launch(const void *merge, int64_t n_ctas, void *stream);
int pkv__states_merge_f16_prepare(struct pkv__kernel_cost *cost);
int pkv__states_merge_f16_launch(const void *merge, int64_t n_ctas, void *stream);
int pkv__states_merge_bf16_prepare(struct pkv__kernel_cost *cost);
int pkv__states_merge_bf16_launch(const void *merge, int64_t n_ctas, void *stream);

#ifdef __cplusplus
}
#endif
#endif
