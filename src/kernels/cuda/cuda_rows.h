/* Rows into a store and out of it: what passes from cuda_rows.c to kv_write.cu and kv_gather.cu. */
#ifndef PKV_CUDA_ROWS_H
#define PKV_CUDA_ROWS_H

#include "kernels/cuda/cuda_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { PKV__CUDA_ROW_THREADS = 128 }; /* of a CTA: 4 warps, which work alone */

/* K, V or Q of a kv_write. A warp does one unit at a time: of one token as many heads as it has
 * lanes for, or all of them, one after another, where they share a scale. */
struct pkv__cuda_row_set {
    pkv_tensor3 from;
    pkv_kv_view to;    /* Q: rows are blocks of one token */
    const float *norm; /* [dim] or NULL */
    int32_t n_units;   /* of a token; 0: there is no such tensor */
    int32_t lane_bits; /* 2^lane_bits lanes to a row, 8 elements to a lane */
    uint8_t turned;    /* 0 or 1, like those below */
    uint8_t computed;  /* scales are computed */
    uint8_t per_token; /* ... over all heads of a token */
};

enum { PKV__CUDA_SET_K, PKV__CUDA_SET_V, PKV__CUDA_SET_Q, PKV__CUDA_N_SETS };

struct pkv__cuda_kv_write {
    struct pkv__cuda_row_set sets[PKV__CUDA_N_SETS];
    int64_t n_tokens;
    const int64_t *slots;
    const int32_t *n_valid, *pos;
    const float *rope;
    uint32_t *bad;
    int32_t n_rope_pos, rot_dim;
    float norm_eps;
    uint8_t interleaved;
    uint8_t with_q; /* the caller has queries, even where nothing is to be done to them */
};

struct pkv__cuda_kv_gather {
    pkv_kv_view view;
    const int64_t *slots;
    pkv_tensor3 out;
    uint32_t *bad;
    int32_t n_units, lane_bits; /* as above, of a row of `out` */
};

int pkv__kv_write_prepare(struct pkv__kernel_cost *cost);
int pkv__kv_write_launch(const void *params, int64_t n_ctas, void *stream);
int pkv__kv_gather_prepare(struct pkv__kernel_cost *cost);
int pkv__kv_gather_launch(const void *params, int64_t n_ctas, void *stream);

#ifdef __cplusplus
}
#endif
#endif
