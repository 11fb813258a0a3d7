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

/* Quotients by one number, without dividing: n / by = n * mul >> shift, exactly, for 0 <= n < 2^31:
 * with s = ceil(log2 by), shift = 31 + s, and mul = floor(2^shift / by) + 1 is too large by at most
 * 1, so that n * by * (mul's error) stays below 2^shift. */
struct pkv__divider {
    int32_t by, shift;
    uint32_t mul;
};
PKV__CUDA_BOTH struct pkv__divider pkv__divider_of(int32_t by)
{
    struct pkv__divider d = { by, 31, 0 };
    while (by > (int64_t)1 << (d.shift - 31)) d.shift++;
    d.mul = (uint32_t)(((uint64_t)1 << d.shift) / (uint32_t)by + 1);
    return d;
}
PKV__CUDA_BOTH int32_t pkv__quotient(int32_t n, struct pkv__divider d)
{
    return (int32_t)((uint64_t)(uint32_t)n * d.mul >> d.shift);
}

/* Few rows: their queries are columns of the decode kernel. Of q_len and group alone, so that a
 * sequence's bits do not depend on its company. */
PKV__CUDA_BOTH int pkv__cuda_is_short(int32_t q_len, int32_t group)
{
    return q_len <= 1 || (int64_t)q_len * (group < 16 ? group : 16) <= 16;
}

/* What z is multiplied by to be the exponent of two in c * tanh(z / c), c > 0. It stays finite: a
 * subnormal c would make NaN of z = 0. */
PKV__CUDA_BOTH float pkv__cap_unit(float softcap)
{
    const float unit = 2.f * 1.44269504088896341f / softcap;
    return unit < 0x1p127f ? unit : 0x1p127f;
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
    pkv_lse lse;           /* data NULL: not wanted */
    float scale, cap_unit; /* cap_unit: pkv__cap_unit of the softcap */
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
