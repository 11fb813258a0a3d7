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
 *     k_j = sK_j * (code - zK_j), v_j likewise (views.h)
 *     z_ij = scale * <q_i,h , k_j,g>;  softcap c > 0: z = c * tanh(z / c)
 *     z_ij += alibi_h * (n_j - p_i)
 *     A_i  = visible keys: j < kv_len, and (not causal or n_j <= p_i),
 *            and (window_left < 0 or p_i - n_j <= window_left),
 *            and (window_right < 0 or n_j - p_i <= window_right),
 *            and (no mask, or j is not among the last q_len keys, or mask bit j - (kv_len - q_len))
 *     m = max over A_i of z_ij (and sink_h);  l = sum over A_i of e^(z_ij - m) (+ e^(sink_h - m))
 *     out_i = (1/l) sum over A_i of e^(z_ij - m) v_j;  lse_i = m + ln l (sink included)
 *     no visible key: out = 0, lse = -inf exactly (with a sink: out = 0, lse = sink_h)
 * Sequences with a common prefix (cascade): one pass of all their rows, as one sequence, over the
 * shared blocks with q_pos and q_detached, causal 0; one pass of each over its own suffix with
 * kv_pos0 = length of the prefix; then pkv_states_merge. One pass alone may carry the sink.
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
#include "pagedkv/views.h"

#ifdef __cplusplus
extern "C" {
#endif

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
    uint8_t q_detached;          /* 1: the rows' own keys are not among these keys (prefix pass of a
                                    cascade): key j stands at kv_pos0 + j, always; needs q_pos */
    uint8_t reserved[3];         /* 0 */
    int32_t max_q_len;           /* no q_len is larger (0: unknown), or rows are unspecified; CUDA
                                    starts only the kernels it takes; changes no bit. CPU: unread */
} pkv_attn_batch;
#define PKV_ATTN_BATCH_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_attn_batch), 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, 0, { 0, 0, 0 }, 0        \
    }

typedef struct pkv_attn_opts {
    uint32_t struct_size;
    float scale;          /* 0: 1 / sqrt(dim of K) */
    float softcap;        /* 0: off */
    int32_t window_left;  /* keys before the row; -1: off */
    int32_t window_right; /* keys after the row; -1: off */
    const float *alibi;   /* [n_q_heads] slopes or NULL */
    const float *sink;    /* [n_q_heads] logits or NULL */
    const uint32_t *mask; /* [n_rows][mask_stride] or NULL: bit j % 32 of word j / 32 shows key j of
                             the sequence's last q_len keys to the row; for trees, causal 0 */
    int64_t mask_stride;  /* words from row to row, >= ceil(q_len / 32); with kv_len < q_len bit j
                             is still row j's key, so that the first q_len - kv_len name no key */
    uint8_t causal;       /* 0 or 1 */
    uint8_t int8_qk;      /* 0 or 1: 1 lets K of PKV_I8 be multiplied in integers, with q rounded to
                             15 bits per row and head: faster, with a bound of its own */
    uint8_t invariant;    /* 0 or 1: 1 makes the bits of a sequence independent of the rest of the
                             batch on CUDA as well; the CPU's always are */
    uint8_t reserved[1];  /* 0 */
    int32_t invariant_chunk; /* keys that CUDA computes in one go then: multiple of 64; 0: 1024.
                                Another chunk, other bits */
    uint32_t *bad;           /* 4 words, see pkv_attn_run and views.h; or NULL */
} pkv_attn_opts;
#define PKV_ATTN_OPTS_INIT                                                                         \
    {                                                                                              \
        sizeof(pkv_attn_opts), 0.f, 0.f, -1, -1, NULL, NULL, NULL, 0, 1, 0, 0, { 0 }, 0, NULL      \
    }

/* [n_rows][n_heads] float32, natural logarithm unless base2; data NULL: not wanted. */
typedef struct pkv_lse {
    float *data;
    int64_t row_stride, head_stride;
    uint8_t base2; /* 0 or 1 */
} pkv_lse;

/* Where things run (backend.h). On the CPU: on the calling thread and the backend's; `stream` is
 * not looked at. On CUDA: put on `stream` (a cudaStream_t; NULL: the default stream) without
 * waiting, allocating or asking the device anything; data of tensors and views, arrays of the
 * batch, alibi, sink, mask, bad, lse and workspace are device memory that stays as it is until the
 * stream has passed; the call returns PKV_OK once all is enqueued, what is wrong with tables stands
 * in `bad` then (one offender, not the first), and PKV_E_DEVICE means that a launch failed: outputs
 * are undefined, the next call is not affected. Calls may be captured in a graph, which is replayed
 * after the arrays on the device have changed: same n_seqs and rows of q, any lengths. */

/* Bytes of workspace that pkv_attn_run needs for these dims, whatever the batch. Pure.
 * PKV_E_INVALID_ARG (more than 2^16 heads, too), PKV_E_UNSUPPORTED as pkv_attn_run. */
PKV_API PKV_NODISCARD pkv_status pkv_attn_workspace(const pkv_backend *be, int32_t n_q_heads,
                                                    int32_t n_kv_heads, int32_t k_dim,
                                                    int32_t v_dim, size_t *workspace_bytes);
/* The same for calls with opts->invariant, of which CUDA keeps a state per chunk of keys: of
 * up to max_seqs sequences and max_keys keys (sum of kv_len); chunk: as invariant_chunk. CPU: as
 * above. pkv_attn_run cannot refuse less, lengths being on the device: from the first sequence on
 * that finds no room, bits may be others. PKV_E_INVALID_ARG: states beyond any memory, too. */
PKV_API PKV_NODISCARD pkv_status pkv_attn_workspace_invariant(
    const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads, int32_t k_dim, int32_t v_dim,
    int32_t max_seqs, int64_t max_keys, int32_t chunk, size_t *workspace_bytes);
/* Make fresh memory a workspace, of any operation; once, and again after PKV_E_DEVICE. On CUDA the
 * results are right without (but in memory that was a workspace before and was written to since),
 * but a sequence's keys are then not shared among blocks of threads: one long sequence takes far
 * longer. On the CPU nothing happens. PKV_E_INVALID_ARG (smaller than any workspace, too),
 * PKV_E_DEVICE. */
PKV_API PKV_NODISCARD pkv_status pkv_workspace_init(pkv_backend *be, void *workspace,
                                                    size_t workspace_bytes, void *stream);

/* Attention as defined above. Reads q, k, v and the batch arrays; writes all rows of `out` and, if
 * wanted, `lse` (NULL: not wanted) that belong to a sequence, empty rows included; other rows, and
 * what lies between rows, stay as they are. On the calling thread and the backend's; no allocation.
 * `out` (dtype of q, [n_rows][n_q_heads][v dim]) must not overlap the inputs. K and V have one
 * dtype, that of q is independent of it. `workspace` is 64-byte aligned, of pkv_attn_workspace
 * bytes, one per concurrent call.
 *   PKV_E_INVALID_ARG  shapes disagree, alignment, negative size, workspace too small (nothing is
 *                      written, the log says which); or a bad table: then every row of a sequence
 *                      is written, the sequences that are wrong get unspecified rows, all others
 *                      are right, and `bad` (sticky, see views.h) says what was met
 *   PKV_E_UNSUPPORTED  a dtype or dim for which no kernel exists
 *   PKV_E_ABI          struct_size of batch or opts
 * Whatever a table holds, only memory described by the views is touched. Only entries below
 * ceil(kv_len / block_tokens) that hold a position some row can see are used; the rest of a row may
 * be anything. Threads: any number at once with different workspaces. O(keys read). */
PKV_API PKV_NODISCARD pkv_status pkv_attn_run(pkv_backend *be, const pkv_tensor3 *q,
                                              const pkv_kv_view *k, const pkv_kv_view *v,
                                              const pkv_attn_batch *batch,
                                              const pkv_attn_opts *opts, void *workspace,
                                              size_t workspace_bytes, void *stream,
                                              pkv_tensor3 *out, pkv_lse *lse);

/* Name of the kernel that pkv_attn_run would choose for a sequence of q_len rows of such a call
 * ("attention_short_f16_avx512"); static string, NULL if the arguments are invalid. */
PKV_API const char *pkv_attn_kernel_name(const pkv_backend *be, const pkv_tensor3 *q,
                                         const pkv_kv_view *k, const pkv_kv_view *v,
                                         const pkv_attn_batch *batch, const pkv_attn_opts *opts,
                                         int32_t q_len);

/* Latent attention (MLA, DeepSeek-V2, arXiv 2405.04434) in the absorbed form: keys and values share
 * one row per token, and all query heads read it. Key j has a latent c_j and a rotary part r_j:
 *     z_ij = scale * (<q_latent_i,h , c_j> + <q_rope_i,h , r_j>),  o_i,h = sum over j of p_ij c_j
 * and everything else as above, with one kv head. c_j is the concatenation of the `n_heads` parts
 * of `latent`, each with its own scale, so that a row with several scales is readable (the 656-byte
 * fp8 record: 4 parts of 128 codes, 4 floats, 64 bf16). n_heads * dim of `latent`: multiple of 8,
 * at most 512; `rope`: one head, dim a multiple of 8, at most 128; the dtypes of the two may
 * differ; both have equal n_blocks and block_tokens. q_latent, `out`: [n_rows][n_q_heads][n_heads *
 * dim]; q_rope: [n_rows][n_q_heads][dim of rope]; one dtype. opts->scale 0: 1 / sqrt(dim of latent
 * + dim of rope), which is seldom what a model wants. int8_qk is not looked at. Statuses, rows
 * written, workspace (of pkv_attn_mla_workspace, also invariant) and threads as pkv_attn_run. */
PKV_API PKV_NODISCARD pkv_status
pkv_attn_mla_run(pkv_backend *be, const pkv_tensor3 *q_latent, const pkv_tensor3 *q_rope,
                 const pkv_kv_view *latent, const pkv_kv_view *rope, const pkv_attn_batch *batch,
                 const pkv_attn_opts *opts, void *workspace, size_t workspace_bytes, void *stream,
                 pkv_tensor3 *out, pkv_lse *lse);
PKV_API PKV_NODISCARD pkv_status pkv_attn_mla_workspace(const pkv_backend *be, int32_t n_q_heads,
                                                        int32_t latent_dim, int32_t rope_dim,
                                                        size_t *workspace_bytes);

/* Validate tables and lengths where they live: the verdict that pkv_attn_run would give on this
 * batch, on q of `n_rows` rows, on a store of n_blocks x block_tokens. Reads what attention would
 * read of the batch arrays, and no K or V. opts NULL: every key counts as visible; else only ids
 * that a row can see are judged, as attention does (windows). `bad` is needed, and sticky.
 *   PKV_OK, with `bad` as it was: nothing is wrong
 *   PKV_E_INVALID_ARG  something is, `bad` says what; or null or malformed arguments (the log says)
 *   PKV_E_ABI          struct_size of batch or opts
 * O(ids used), with opts and q_pos or a mask O(rows x keys). Any thread. */
PKV_API PKV_NODISCARD pkv_status pkv_table_check(pkv_backend *be, const pkv_attn_batch *batch,
                                                 const pkv_attn_opts *opts, int64_t n_rows,
                                                 int32_t n_blocks, int32_t block_tokens,
                                                 uint32_t *bad, void *stream);

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
                                                  void *stream, pkv_tensor3 *out, pkv_lse *out_lse);

#ifdef __cplusplus
}
#endif
#endif
