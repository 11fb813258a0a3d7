/* Moves of KV bytes: new rows into their slots, rows out of a store, blocks to blocks.
 *
 * Where things run, and what `stream` is: attention.h. Lists of blocks and copies, and shapes, lie
 * on the host whatever the backend, and are free again when the call returns; pools, slots and rows
 * are device memory on CUDA. The contiguous side of gather and scatter may also be host memory that
 * the device can reach: page-locked.
 *
 * A slot is block_id * block_tokens + offset, int64. Block 0 is the null block, which stays zero:
 * nothing is ever written to it. All functions run on the calling thread and the backend's; no
 * number of threads and no level changes one bit of what is written (but, from level to level, the
 * sign and payload of a NaN that comes out of a norm, a rotation, or a NaN scale). */
#ifndef PAGEDKV_MOVES_H
#define PAGEDKV_MOVES_H

#include "pagedkv/backend.h"
#include "pagedkv/views.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---------------------------------------------------------------- rotary tables */

/* Fill a table of rotary positions, float32 rounded from double: for position p = first_pos + i and
 * pair d < rot_dim / 2, row i holds amplitude * cos(p * inv_freq[d]) at [d] and amplitude *
 * sin(p * inv_freq[d]) at [rot_dim / 2 + d] (RoFormer, arXiv 2104.09864; scaled variants differ
 * only in inv_freq and amplitude). table: [n_pos][rot_dim]. rot_dim: even, 2 .. 256.
 * PKV_E_INVALID_ARG: null, negative, out of range. */
PKV_API PKV_NODISCARD pkv_status pkv_rope_fill(float *table, int32_t first_pos, int32_t n_pos,
                                               const double *inv_freq, int32_t rot_dim,
                                               double amplitude);

/* ---------------------------------------------------------------- kv_write */

/* Per token t < n_valid with slot >= 0 and per head:
 *   1. norm   with weights: x_d *= w_d / sqrt(mean over d of x_d^2 + norm_eps), in float32
 *             (RMSNorm, arXiv 1910.07467); of k with k_norm, of q with q_norm
 *   2. rotate with a table: pairs (a, b) of the first rot_dim dims become
 *             (a cos - b sin, a sin + b cos) at row pos[t] of the table; pairs are (d, d +
 *             rot_dim / 2), or (2d, 2d + 1) if interleaved; of k and q, not of v
 *   3. store  k and v into their slots, q into q_out; each rounded once, to nearest even
 * q is normed and rotated for every token t < n_valid, whatever its slot. Without norm and
 * rotation, equal types pass bits, NaN included.
 *
 * Quantised stores. Where the token stride of `scales` (and `zeros`) is 0, scales are inputs. Where
 * it is not 0, they are computed and written here: over one head's row if their head stride is not
 * 0, over all heads of the token if it is 0. All in float32, x finite values only for the extremes:
 *
 *   PKV_I8    s = max(amax / 127, 2^-126), amax 0: s = 1
 *             code = x / s to nearest even, in -127 .. 127
 *
 *   PKV_E4M3  s = max(amax / 448, 2^-126), amax 0: s = 1
 *             code = x / s rounded to nearest even, saturating at 448
 *
 *   PKV_E5M2  s is always an input, 1 with data NULL
 *             code = x / s rounded to nearest even, saturating at 57344
 *
 *   PKV_U4    s = max(max / 15 - min / 15, 2^-126), z = -min / s;
 *             max / 15 == min / 15: s = 1, z = -min
 *             code = x / s + z to nearest even, in 0 .. 15
 *
 * Infinities saturate. A NaN is the NaN code in e4m3 (0x7f with the sign) and e5m2 (0x7e with the
 * sign); in I8 and U4 it is code 0 and PKV_BAD_NAN_CODE, and the call succeeds. */
typedef struct pkv_kv_write_args {
    uint32_t struct_size;
    const pkv_tensor3 *k, *v; /* [n_tokens][n_kv_heads][dim]; same n_rows; NULL v: only K */
    const int64_t *slots;     /* [n_tokens] block_id * block_tokens + offset; negative: skip */
    pkv_kv_view *k_view, *v_view;
    uint32_t *bad;          /* 4 words or NULL; sticky, see views.h */
    const int32_t *n_valid; /* tokens that count, clamped to 0 .. n_tokens (padded batches); NULL:
                               all */
    const pkv_tensor3 *q;   /* [n_tokens][n_q_heads][dim of k] or NULL */
    pkv_tensor3 *q_out;     /* like q, dtype may differ; may be q itself (equal dtype, strides) */
    const float *q_norm, *k_norm; /* [dim] or NULL */
    float norm_eps;               /* >= 0 */
    const float *rope;            /* [n_rope_pos][rot_dim], see pkv_rope_fill; NULL: no rotation */
    const int32_t *pos;           /* [n_tokens] rows of the table; needed with `rope` */
    int32_t n_rope_pos, rot_dim;  /* rot_dim: even, 2 .. dim of k */
    uint8_t rope_interleaved;     /* 0 or 1 */
    uint8_t reserved[7];          /* 0 */
} pkv_kv_write_args;
#define PKV_KV_WRITE_ARGS_INIT                                                                     \
    {                                                                                              \
        sizeof(pkv_kv_write_args), NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,     \
            NULL, 0.f, NULL, NULL, 0, 0, 0,                                                        \
        {                                                                                          \
            0, 0, 0, 0, 0, 0, 0                                                                    \
        }                                                                                          \
    }

/* Scatter new K and V rows into their slots, as above. Two tokens with one slot are the caller's
 * error. A slot beyond the store, or of the null block, is skipped and reported: PKV_E_INVALID_ARG,
 * everything else is written; a position outside the table likewise skips its token (q, k and v).
 * Other errors write nothing: PKV_E_INVALID_ARG (shapes, alignment, no slots, scales that alias
 * between tokens that compute them), PKV_E_UNSUPPORTED (a dtype or dim without a kernel), PKV_E_ABI
 * (struct_size). The dtype of the rows is independent of the store's. Threads: any number at once
 * that write different slots. O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_kv_write(pkv_backend *be, const pkv_kv_write_args *args,
                                              void *stream);

/* ---------------------------------------------------------------- rows out of a store */

/* The reverse of kv_write: row i of `out` ([n_rows][n_heads][dim], f32, f16 or bf16) gets the K or
 * V of slots[i], dequantised (scale * (code - zero), in float32) and rounded once; equal types pass
 * bits. A negative slot leaves its row as it is; one beyond the store too, and is reported:
 * PKV_E_INVALID_ARG, everything else is written. Slots of the null block may be read. Other errors
 * write nothing: PKV_E_INVALID_ARG, PKV_E_UNSUPPORTED. `bad`: 4 sticky words or NULL. O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_kv_gather(pkv_backend *be, const pkv_kv_view *view,
                                               const int64_t *slots, pkv_tensor3 *out,
                                               uint32_t *bad, void *stream);

/* ---------------------------------------------------------------- whole blocks */

/* Carry out the copies of a pkv_block_work on a pool in the canonical layout: block i lies at
 * pool + i * block_bytes. With `shapes` NULL whole blocks are copied. Else shapes[group] is the
 * shape of the copy's group, and only the first n_tokens slots (and their scales) of every layer
 * and head are, the rest of dst stays as it is; n_tokens = block_tokens copies the whole block,
 * padding included. A src or dst outside [1, n_blocks), a dst named twice, a block that is both src
 * and dst, with shapes a group outside [0, n_shapes), n_tokens outside [0, block_tokens], or a
 * shape whose block is larger than block_bytes: PKV_E_INVALID_ARG, nothing is copied. O(bytes) +
 * O(n_copies^2) for n_copies <= 32, else a sorted check in memory from the backend's allocator
 * (PKV_E_NO_MEMORY). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes,
                                                 int32_t n_blocks, const pkv_block_copy *copies,
                                                 int32_t n_copies, const pkv_kv_shape *shapes,
                                                 int32_t n_shapes, void *stream);

/* Zero the blocks of a pkv_block_work. Ids in [1, n_blocks), repeats allowed; anything else:
 * PKV_E_INVALID_ARG, nothing is written. O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes,
                                                 int32_t n_blocks, const int32_t *ids, int32_t n,
                                                 void *stream);

/* Blocks [first, first + n) all of one byte, the null block too: how memory that the store cannot
 * reach gets its zero block 0, and how debugging finds reads of what was never written (0xff: NaN).
 * PKV_E_INVALID_ARG: a range outside [0, n_blocks); nothing is written. O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_fill(pkv_backend *be, void *pool, size_t block_bytes,
                                                 int32_t n_blocks, int32_t first, int32_t n,
                                                 uint8_t byte, void *stream);

/* Swap out, send, export: dst[i] = block ids[i], [n] x block_bytes, bytes as they are. Ids in
 * [0, n_blocks), repeats allowed; anything else: PKV_E_INVALID_ARG, nothing is written. dst must
 * not overlap the pool. */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_gather(pkv_backend *be, const void *pool,
                                                   size_t block_bytes, int32_t n_blocks,
                                                   const int32_t *ids, int32_t n, void *dst,
                                                   void *stream);

/* Swap in: block ids[i] = src[i]. Ids in [1, n_blocks), none twice (checked as the dst of
 * pkv_blocks_copy: PKV_E_NO_MEMORY); anything else: PKV_E_INVALID_ARG, nothing is written. */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_scatter(pkv_backend *be, const void *src,
                                                    const int32_t *ids, int32_t n, void *pool,
                                                    size_t block_bytes, int32_t n_blocks,
                                                    void *stream);

#ifdef __cplusplus
}
#endif
#endif
