/* What passes from the host to kernels: parameters by value, and launchers. Included by C and by
 * .cu files.
 *
 * Launchers are extern "C"; they start one kernel on the stream and return 0 or what the device
 * said. Their arguments are checked already. */
#ifndef PKV_CUDA_LAUNCH_H
#define PKV_CUDA_LAUNCH_H

#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a kernel takes of the device it was prepared for: pkv_dev.cuh, PKV_PREPARE. */
struct pkv__kernel_cost {
    int32_t registers; /* per thread; 0 in the emulator */
    int32_t blocks_per_sm;
};

/* The workspace begins with this, whatever the operation and the shape. */
enum { PKV__CUDA_MAX_CTAS = 4096 };
enum { PKV__CUDA_MAGIC_BYTE = 0x4b }; /* all bytes of the magic, which a fill writes */
#define PKV__CUDA_WORKSPACE_MAGIC 0x4b4b4b4bu
struct pkv__cuda_head {
    uint32_t magic;     /* set by pkv_workspace_init; else counters are not to be trusted, and no
                           item is shared between CTAs */
    uint32_t ticket[3]; /* each goes back to 0 by itself */
    uint32_t reserved[12];
    uint32_t arrived[PKV__CUDA_MAX_CTAS]; /* per item that several CTAs share: indexed by the first
                                             of them; go back to 0 by themselves */
};

#ifdef __CUDACC__
#define PKV__CUDA_BOTH static __host__ __device__ inline /* for the host and for kernels */
#else
#define PKV__CUDA_BOTH static inline
#endif

/* Few rows: their queries are columns of the decode kernel. Of q_len and group alone, so that a
 * sequence's bits do not depend on its company. */
PKV__CUDA_BOTH int pkv__cuda_is_short(int32_t q_len, int32_t group)
{
    return q_len <= 1 || (int64_t)q_len * (group < 16 ? group : 16) <= 16;
}

/* Which sequences of a batch a launch takes. */
enum pkv__cuda_rows {
    PKV__CUDA_SHORT, /* few rows: pkv__cuda_is_short */
    PKV__CUDA_LONG,  /* the others */
    PKV__CUDA_ALL
};

/* A call of pkv_attn_run for kernels: the views as they came. */
struct pkv__cuda_attn {
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse; /* data NULL: not wanted */
    float scale;
    int32_t group;
    enum pkv__cuda_rows rows;
    struct pkv__cuda_head *head; /* workspace */
    float *partials;             /* workspace behind the head */
    int32_t chunk;               /* invariant mode: keys of a chunk; else 0 */
    int64_t n_slots;             /* invariant mode: states of chunks that `partials` has room for */
};

#ifdef __cplusplus
}
#endif
#endif
