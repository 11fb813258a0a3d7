/* The CUDA backend on the host: its state, its table of variants, its operations.
 *
 *   public entry (attention.c, moves.c ..): checks host values
 *     -> pkv__device_ops of cuda_backend.c
 *       -> cuda_<operation>.c: which variant, how many blocks, what lies where in the workspace
 *         -> launcher of a .cu file (cuda_launch.h), which launches and nothing else
 *
 * "Block" alone means one of KV; a CUDA block is a "block of threads" or CTA. */
#ifndef PKV_CUDA_INTERNAL_H
#define PKV_CUDA_INTERNAL_H

#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/kernels_internal.h"

/* One compiled kernel with its launcher, prepared for the device at hand: cuda_variants.c. */
struct pkv__cuda_variant {
    const char *name; /* as kernel_info shows it */
    pkv_op op;
    pkv_dtype dtype;        /* of K and V, of the states; PKV_I8: bytes */
    int32_t dim_lo, dim_hi; /* dims of K and V that it takes; equal: this one alone */
    int32_t dim_step;       /* of attention: dims are multiples of it */
    int32_t head_tiles;     /* attention of short rows: tiles of 8 query columns; else 0 */
    int32_t n_threads;      /* of a CTA */
    int32_t shared_bytes;   /* dynamic, of a CTA */
    const char *covers;
    int (*prepare)(struct pkv__kernel_cost *cost); /* opts in to shared memory, asks for the cost */
    int (*launch)(const void *params, int64_t n_ctas, void *stream); /* params: its struct */
};

/* All variants of this build, best first within what they take: the one table that routes,
 * kernel_info and the gates read. */
extern const struct pkv__cuda_variant pkv__cuda_variants[];
extern const int32_t pkv__n_cuda_variants;

enum { PKV__CUDA_MAX_VARIANTS = 128 };

/* Kernels walk a batch by as many sequences at a time as a CTA has threads, and number those beyond
 * its end as well. */
enum { PKV__CUDA_MAX_SEQS = INT32_MAX - 1024 };

struct pkv__cuda;
/* The first variant of an operation for a dtype that this device has code for; -1: none. For
 * operations without dims. */
int32_t pkv__cuda_variant_of(const struct pkv__cuda *cuda, pkv_op op, pkv_dtype dtype);

/* pkv_backend.device_state. Read-only after creation. */
struct pkv__cuda {
    struct pkv__device_caps caps;
    int32_t n_sms; /* that attention is spread over: of the device, or fewer */
    struct pkv__kernel_cost cost[PKV__CUDA_MAX_VARIANTS]; /* of each variant on this device */
    bool usable[PKV__CUDA_MAX_VARIANTS];                  /* it fits this device */
};

static inline const struct pkv__cuda *pkv__cuda_of(const pkv_backend *be)
{
    return be->device_state;
}
/* CTAs of a variant that the device holds at once, as far as the workspace has counters for them:
 * the size of grids, whatever the batch. */
static inline int64_t pkv__cuda_grid(const struct pkv__cuda *cuda, int32_t variant)
{
    const int64_t n = (int64_t)cuda->n_sms * cuda->cost[variant].blocks_per_sm;
    return n < PKV__CUDA_MAX_CTAS ? n : PKV__CUDA_MAX_CTAS;
}
/* PKV_OK for code 0; else PKV_E_DEVICE, and the log says what failed. */
pkv_status pkv__cuda_status(const pkv_backend *be, int code, const char *what);

/* The operations, as pkv__device_ops has them. cuda_attn.c: */
pkv_status pkv__cuda_attn_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                                    int32_t k_dim, int32_t v_dim, int32_t max_seqs,
                                    int64_t max_keys, int32_t chunk, size_t *bytes);
pkv_status pkv__cuda_workspace_init(pkv_backend *be, void *workspace, size_t bytes, void *stream);
pkv_status pkv__cuda_attn(pkv_backend *be, const struct pkv__attn_call *c, void *workspace,
                          size_t bytes, void *stream);
/* PKV_E_UNSUPPORTED beyond PKV__CUDA_MAX_SEQS. */
pkv_status pkv__cuda_check_seqs(const pkv_backend *be, int32_t n_seqs);
/* What kernels of attention get: all rows, no slots. k and v are set by the latent kernel. */
struct pkv__cuda_attn pkv__cuda_params_of(const struct pkv__attn_call *c, void *workspace);
const char *pkv__cuda_attn_name(const pkv_backend *be, const struct pkv__attn_call *c,
                                int32_t q_len);
/* cuda_mla.c */
pkv_status pkv__cuda_mla_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                                   int32_t rope_dim, size_t *bytes);
pkv_status pkv__cuda_mla(pkv_backend *be, const struct pkv__mla_call *c, void *workspace,
                         size_t bytes, void *stream);
/* cuda_merge.c */
pkv_status pkv__cuda_states_merge(pkv_backend *be, const pkv_tensor3 *o, const pkv_lse *lse,
                                  int32_t n_states, void *stream, const pkv_tensor3 *out,
                                  const pkv_lse *out_lse);
/* cuda_table_check.c */
pkv_status pkv__cuda_table_check(pkv_backend *be, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks,
                                 int32_t block_tokens, uint32_t *bad, void *stream);
/* cuda_rows.c */
pkv_status pkv__cuda_kv_write(pkv_backend *be, const pkv_kv_write_args *args, void *stream);
pkv_status pkv__cuda_kv_gather(pkv_backend *be, const pkv_kv_view *view, const int64_t *slots,
                               const pkv_tensor3 *out, uint32_t *bad, void *stream);
/* cuda_blocks.c */
pkv_status pkv__cuda_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes,
                                 const pkv_block_copy *copies, int32_t n,
                                 const pkv_kv_shape *shapes, void *stream);
pkv_status pkv__cuda_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes,
                                 const int32_t *ids, int32_t n, void *stream);
pkv_status pkv__cuda_blocks_fill(pkv_backend *be, void *pool, size_t block_bytes, int32_t first,
                                 int32_t n, uint8_t byte, void *stream);
pkv_status pkv__cuda_blocks_gather(pkv_backend *be, const void *pool, size_t block_bytes,
                                   const int32_t *ids, int32_t n, void *dst, void *stream);
pkv_status pkv__cuda_blocks_scatter(pkv_backend *be, const void *src, const int32_t *ids, int32_t n,
                                    void *pool, size_t block_bytes, void *stream);

#endif
