/* Paged attention and the moves around it, over plain views.
 *
 * Kernels read and write KV bytes through a block table (one row of int32 block ids per sequence)
 * and lengths. They never see a manager or a sequence handle, and work on any memory described by
 * a pointer, strides and a dtype: a pkv_store, or a pool owned by the caller.
 *
 * The maths of attention. Sequence b has q_len query rows and kv_len keys; row i, query head h,
 * group = n_q_heads / n_kv_heads, kv head g = h / group:
 *     p_i  = q_pos[row] if given, else kv_pos0[b] + kv_len - q_len + i
 *     n_j  = q_pos of the row, if given, for key j among the last q_len keys, else kv_pos0[b] + j
 *     z_ij = scale * <q_i,h , k_j,g>;  softcap c > 0: z = c * tanh(z / c)
 *     z_ij += alibi_h * (n_j - p_i)
 *     A_i  = visible keys: j < kv_len, and (not causal or n_j <= p_i),
 *            and (window_left < 0 or p_i - n_j <= window_left),
 *            and (window_right < 0 or n_j - p_i <= window_right)
 *     m = max over A_i of z_ij (and sink_h);  l = sum over A_i of e^(z_ij - m) (+ e^(sink_h - m))
 *     out_i = (1/l) sum over A_i of e^(z_ij - m) v_j;  lse_i = m + ln l (sink included)
 *     no visible key: out = 0, lse = -inf exactly (with a sink: out = 0, lse = sink_h)
 * Decode is q_len 1, prefill q_len = kv_len, chunked prefill and speculative verify in between; one
 * call mixes them freely. Rows' own keys are in the store before attention runs. "A window of W
 * tokens" in most model files means window_left = W - 1. Keys that no row may see are never read.
 * A logit of -inf has weight 0; a sink of -inf is no sink. A NaN in a visible key reaches the rows
 * of its own sequence that see it, and no other; in V of a key whose logit is -inf, a NaN or
 * infinity may or may not reach them. Sources: PagedAttention arXiv 2309.06180; online softmax
 * 1805.02867; merge 2501.01005 (2.2). Error bounds: docs/numerics.md. Determinism: same call, same
 * level, same bits; renaming blocks, strides and padding change no bit; a sequence's rows have the
 * same bits alone or in any batch. */
#ifndef PAGEDKV_ATTENTION_H
#define PAGEDKV_ATTENTION_H

#include "pagedkv/backend.h"
#include "pagedkv/base.h"

#ifdef __cplusplus
extern "C" {
#endif

/* [n_rows][n_heads][dim]; dim stride 1, strides in elements, rows (each head's vector) 16-byte
 * aligned. n_heads: 1 .. 2^16, more is PKV_E_INVALID_ARG. dtype PKV_F32, PKV_F16 or PKV_BF16. */
typedef struct pkv_tensor3 {
    void *data;
    pkv_dtype dtype;
    int32_t n_heads, dim;
    int64_t n_rows, row_stride, head_stride;
} pkv_tensor3;

/* One layer's K or V over all blocks. Strides in elements; a kernel uses only these and never
 * rebuilds one from a shape. Every row [dim] is 16-byte aligned. dim: multiple of 8, 8 .. 256;
 * n_heads: 1 .. 2^16; block_tokens >= 1. `n_blocks` bounds the ids. */
typedef struct pkv_kv_view {
    void *data;
    pkv_dtype dtype;
    int32_t n_blocks, block_tokens, n_heads, dim;
    int64_t block_stride, token_stride, head_stride;
} pkv_kv_view;

typedef struct pkv_attn_batch {
    uint32_t struct_size;
    int32_t n_seqs;
    const int32_t *table;        /* dense [n_seqs][table_stride], or CSR values with table_indptr;
                                    NULL: contiguous, sequence b is block b and block_tokens its
                                    capacity; no table is read then */
    int64_t table_stride;        /* ids per dense row; with CSR: total number of ids */
    const int32_t *table_indptr; /* [n_seqs + 1] or NULL */
    const int32_t *kv_len;       /* [n_seqs] keys, the rows' own included */
    const int32_t *q_indptr;     /* [n_seqs + 1] rows of q; NULL: one row each */
    const int32_t *kv_pos0;      /* [n_seqs] position of key 0; NULL: 0 */
    const int32_t *q_pos;        /* [n_rows] or NULL; positions of the rows, same for their keys */
} pkv_attn_batch;
#define PKV_ATTN_BATCH_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_attn_batch), 0, NULL, 0, NULL, NULL, NULL, NULL, NULL                           \
    }

typedef struct pkv_attn_opts {
    uint32_t struct_size;
    float scale;          /* 0: 1 / sqrt(dim of K) */
    float softcap;        /* 0: off */
    int32_t window_left;  /* keys before the row; -1: off */
    int32_t window_right; /* keys after the row; -1: off */
    const float *alibi;   /* [n_q_heads] slopes or NULL */
    const float *sink;    /* [n_q_heads] logits or NULL */
    uint8_t causal;       /* 0 or 1 */
    uint8_t reserved[7];  /* 0 */
    uint32_t *bad;        /* 4 words, see pkv_attn_run; or NULL */
} pkv_attn_opts;
#define PKV_ATTN_OPTS_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_attn_opts), 0.f, 0.f, -1, -1, NULL, NULL, 1, { 0, 0, 0, 0, 0, 0, 0 }, NULL      \
    }

/* [n_rows][n_heads] float32, natural logarithm unless base2; data NULL: not wanted. */
typedef struct pkv_lse {
    float *data;
    int64_t row_stride, head_stride;
    uint8_t base2; /* 0 or 1 */
} pkv_lse;

/* Bits of bad[0]; bad[1..3] hold sequence, index and value of one offender. Of kv_write: 0, token,
 * slot; a slot or token that does not fit is UINT32_MAX. */
#define PKV_BAD_RANGE 1u      /* a used block id outside [0, n_blocks): read as the null block */
#define PKV_BAD_SHORT_ROW 2u  /* the row has too few ids for kv_len: missing keys are masked */
#define PKV_BAD_LENGTH 4u     /* negative kv_len counts as 0; contiguous kv_len beyond capacity */
#define PKV_BAD_NULL_BLOCK 8u /* block 0 inside the visible range: read as it is */
#define PKV_BAD_Q_INDPTR 16u  /* decreasing, beyond n_rows, into earlier rows: counts as no rows */
#define PKV_BAD_SLOT 32u /* kv_write: a slot beyond the store, skipped (negative: silent skip) */

/* Bytes of workspace that pkv_attn_run needs for these dims, whatever the batch. Pure.
 * PKV_E_INVALID_ARG (more than 2^16 heads, too), PKV_E_UNSUPPORTED as pkv_attn_run. */
PKV_API PKV_NODISCARD pkv_status pkv_attn_workspace(const pkv_backend *be, int32_t n_q_heads,
                                                    int32_t n_kv_heads, int32_t k_dim,
                                                    int32_t v_dim, size_t *workspace_bytes);

/* Attention as defined above. Reads q, k, v and the batch arrays; writes all rows of `out` and, if
 * wanted, `lse` (NULL: not wanted) that belong to a sequence, empty rows included; other rows, and
 * what lies between rows, stay as they are. On the calling thread; no allocation.
 * `out` (dtype of q, [n_rows][n_q_heads][v dim]) must not overlap the inputs. K and V have one
 * dtype, that of q is independent of it. `workspace` is 64-byte aligned, of pkv_attn_workspace
 * bytes, one per concurrent call.
 *   PKV_E_INVALID_ARG  shapes disagree, alignment, negative size, workspace too small (nothing is
 *                      written, the log says which); or a bad table: then every row of a sequence
 *                      is written, the sequences that are wrong get unspecified rows, all others
 *                      are right, and `bad` (sticky: bits are ORed, the caller clears it) says what
 *                      was met first
 *   PKV_E_UNSUPPORTED  a dtype or dim for which no kernel exists
 *   PKV_E_ABI          struct_size of batch or opts
 * Whatever a table holds, only memory described by the views is touched. Only entries below
 * ceil(kv_len / block_tokens) that hold a position some row can see are used; the rest of a row may
 * be anything. Threads: any number at once with different workspaces. O(keys read). */
PKV_API PKV_NODISCARD pkv_status pkv_attn_run(pkv_backend *be, const pkv_tensor3 *q,
                                              const pkv_kv_view *k, const pkv_kv_view *v,
                                              const pkv_attn_batch *batch,
                                              const pkv_attn_opts *opts, void *workspace,
                                              size_t workspace_bytes, pkv_tensor3 *out,
                                              pkv_lse *lse);

/* Name of the kernel that pkv_attn_run would choose for a sequence of q_len rows of such a call
 * ("attention_decode_f16_avx512"); static string, NULL if the arguments are invalid. */
PKV_API const char *pkv_attn_kernel_name(const pkv_backend *be, const pkv_tensor3 *q,
                                         const pkv_kv_view *k, const pkv_kv_view *v,
                                         const pkv_attn_batch *batch, const pkv_attn_opts *opts,
                                         int32_t q_len);

typedef struct pkv_kv_write_args {
    uint32_t struct_size;
    const pkv_tensor3 *k, *v; /* [n_tokens][n_kv_heads][dim]; same n_rows; NULL v: only K */
    const int64_t *slots;     /* [n_tokens] block_id * block_tokens + offset; negative: skip */
    pkv_kv_view *k_view, *v_view;
    uint32_t *bad; /* 4 words or NULL */
} pkv_kv_write_args;
#define PKV_KV_WRITE_ARGS_INIT                                                                     \
    {                                                                                              \
        sizeof(pkv_kv_write_args), NULL, NULL, NULL, NULL, NULL, NULL                              \
    }

/* Scatter new K and V rows into their slots, rounding to nearest even into the store's dtype.
 * Two tokens with one slot are the caller's error. A slot beyond the store is skipped and reported:
 * PKV_E_INVALID_ARG, everything else is written. Slot 0 .. block_tokens - 1 is the null block and
 * is refused the same way. Other errors write nothing: PKV_E_INVALID_ARG (shapes, alignment, no
 * slots), PKV_E_UNSUPPORTED (a dtype or dim without a kernel), PKV_E_ABI (struct_size). The dtype
 * of the rows is independent of the store's. `bad` is sticky, as of pkv_attn_run. Threads: any
 * number at once that write different slots. O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_kv_write(pkv_backend *be, const pkv_kv_write_args *args);

/* Carry out the copies of a pkv_block_work on a pool in the canonical layout: block i lies at
 * pool + i * block_bytes. Whole blocks are copied. A src or dst outside [1, n_blocks), a dst named
 * twice, or a block that is both src and dst: PKV_E_INVALID_ARG, nothing is copied. `group` and
 * `n_tokens` are not looked at. O(bytes) + O(n_copies^2) for n_copies <= 32, else a sorted check in
 * memory from the backend's allocator (PKV_E_NO_MEMORY). */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes,
                                                 int32_t n_blocks, const pkv_block_copy *copies,
                                                 int32_t n_copies);

/* Zero the blocks of a pkv_block_work. Ids outside [1, n_blocks): PKV_E_INVALID_ARG, nothing done.
 */
PKV_API PKV_NODISCARD pkv_status pkv_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes,
                                                 int32_t n_blocks, const int32_t *ids, int32_t n);

/* Combine partial results over disjoint key sets: states o[s], lse[s], s < n_states, all of the
 * same shape. M = max lse_s; M = -inf gives (0, -inf); else w_s = e^(lse_s - M),
 * out = sum w_s o_s / sum w_s, out_lse = M + ln sum w_s, sums in ascending s. A state with lse -inf
 * is skipped without reading o_s. The states have one dtype; `out` may have another, and is rounded
 * once. `out` may be o[0] itself, of equal dtype and strides (and out_lse lse[0]), but must overlap
 * no other state, nor o[0] in another way. lse of every state is needed; out_lse may be NULL.
 *   PKV_E_INVALID_ARG  shapes, dtypes or bases (base2) that differ, alignment, an overlap where the
 *                      arrays start at one place
 *   PKV_E_UNSUPPORTED  a dtype or dim for which no kernel exists
 * On failure nothing is written. O(bytes). */
PKV_API PKV_NODISCARD pkv_status pkv_states_merge(pkv_backend *be, const pkv_tensor3 *o,
                                                  const pkv_lse *lse, int32_t n_states,
                                                  pkv_tensor3 *out, pkv_lse *out_lse);

#ifdef __cplusplus
}
#endif
#endif
