/* Batches of check_gpu over its pool: a store of the canonical layout in it, tables in random order
 * (or sequences in one piece), rows of queries, workspace. */
#ifndef PKV_CHECK_GPU_BATCH_H
#define PKV_CHECK_GPU_BATCH_H

#include "check_gpu.h"
#include "pagedkv/store.h"

struct gpu_shape {
    int32_t n_seqs, n_q_heads, n_kv_heads, dim;
    int32_t block_tokens; /* 0: no table, each sequence in one piece; 16 bits only */
    pkv_dtype kv_dtype, q_dtype;
    int32_t q_len;
    const int32_t *kv_len; /* [n_seqs] */
    int32_t n_tables;      /* calls in a graph, each through other blocks where there are so many */
    bool invariant;
};

struct gpu_batch {
    struct gpu *g;
    struct gpu_shape shape;
    int32_t *kv_len, *ids; /* of the host: [n_seqs], [n_tables][n_seqs][row_ids] */
    int32_t row_ids, n_blocks, max_kv_len;
    size_t block_bytes;
    uint16_t *host_q;
    pkv_store *store;
    pkv_kv_view k, v;
    pkv_tensor3 q, out;
    pkv_lse lse;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    int32_t *dev_table, *dev_kv_len, *dev_indptr;
    void *workspace;
    size_t workspace_bytes, out_bytes, lse_bytes;
    int64_t n_keys;  /* of all sequences */
    double kv_bytes; /* that one call reads */
};

/* False: `r` says why not. */
bool gpu_batch_make(struct gpu *g, struct gpu_result *r, const struct gpu_shape *shape,
                    struct gpu_batch *b);
void gpu_batch_free(struct gpu_batch *b);
/* All its calls, on the stream; `ctx` is the batch. */
pkv_status gpu_batch_run(void *ctx);
/* One row and head of the results that lie there against double precision, within its bound. K and
 * V of 16 bits only. */
void gpu_batch_verify(struct gpu_batch *b, struct gpu_result *r, int32_t seq, int32_t row,
                      int32_t head);
/* No NaN in the results. */
void gpu_batch_finite(struct gpu_batch *b, struct gpu_result *r);

#endif
