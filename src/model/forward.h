/* The model: weights by slot, and one pass over a flat ragged batch.
 *
 *   tensor_file + model_config --pkv__weights_load--> pkv__weights
 *   pkv__batch --pkv__forward--> logits of the rows that are wanted
 *
 * Prefill, a chunk of it, decode and verification of drafts are the same pass with other lengths.
 * K and V go into the store through slots and are read back through block tables, by the public
 * functions pkv_kv_write and pkv_attn_run; nothing here knows the block manager. */
#ifndef PKV_MODEL_FORWARD_H
#define PKV_MODEL_FORWARD_H

#include "model/gemm.h"
#include "model/model_config.h"
#include "pagedkv/store.h"

/* ---------------------------------------------------------------- weights */

/* Of one layer. Norms and biases are float32. q and k rows are in half-split order. */
typedef struct pkv__layer_weights {
    const float *attn_norm, *ffn_norm; /* [hidden] */
    pkv__matrix q, k, v, o;            /* [heads*dim, hidden], [kv_heads*dim, hidden] x 2, [hidden,
                                          heads*dim] */
    pkv__matrix gate, up, down;        /* [ffn, hidden] x 2, [hidden, ffn] */
} pkv__layer_weights;

typedef struct pkv__weights {
    pkv__model_config config;
    pkv__matrix embedding;      /* [vocab, hidden] */
    pkv__matrix head;           /* [vocab, hidden]; the embedding where it is tied */
    const float *out_norm;      /* [hidden] */
    pkv__layer_weights *layers; /* [n_layers] */
    double *inv_freq;           /* [rotary_dim / 2] */
    double rope_amplitude;
    void *memory; /* everything above that is ours */
    size_t memory_bytes;
    pkv__tensor_file *file; /* matrices may lie in it */
    pkv_allocator alloc;
} pkv__weights;

/* Find every tensor by the names of its format, check every shape, convert what has to be: dtype
 * PKV_F32 or PKV_BF16 is how matrices are kept (rounded to nearest even); q/k rows are permuted
 * where the file is for interleaved pairs; a head in the file wins over tied_head, and where there
 * is none the embedding is taken, with a warning if the configuration says otherwise. The weights
 * take `file` over on success. Errors name the tensor: PKV_E_FORMAT, one is missing or has another
 * shape; PKV_E_UNSUPPORTED, a type that cannot be read, or a bias; PKV_E_INVALID_ARG, another
 * dtype; PKV_E_NO_MEMORY. */
PKV_NODISCARD pkv_status pkv__weights_load(const pkv__model_config *config, pkv__tensor_file *file,
                                           pkv_dtype dtype, const pkv_logger *log,
                                           const pkv_allocator *alloc, pkv__weights *out);
/* Weights of these dimensions drawn from a seed, for measurements; no file. Matrices have mean 0
 * and variance 1 / k, norms are around 1. */
PKV_NODISCARD pkv_status pkv__weights_random(const pkv__model_config *config, uint64_t seed,
                                             pkv_dtype dtype, const pkv_allocator *alloc,
                                             pkv__weights *out);
void pkv__weights_free(pkv__weights *weights);

/* inv_freq [rotary_dim / 2] and the factor on cos and sin, for every variant; `limit` is the
 * longest position that will be used. */
void pkv__rope_frequencies(const pkv__rope_config *rope, int32_t head_dim, int32_t limit,
                           double *inv_freq, double *amplitude);

/* ---------------------------------------------------------------- a pass */

typedef struct pkv__batch {
    int32_t n_tokens, n_seqs, n_logit_rows;
    const int32_t *tokens;       /* [n_tokens] */
    const int32_t *positions;    /* [n_tokens] absolute */
    const int64_t *slots;        /* [n_tokens] block id * block_tokens + offset; negative: skip */
    const int32_t *q_indptr;     /* [n_seqs + 1] prefix sum of new tokens per sequence */
    const int32_t *kv_len;       /* [n_seqs] keys of the sequence after this step */
    const int32_t *block_tables; /* [n_seqs][table_stride] */
    int64_t table_stride;
    const int32_t *logit_rows; /* [n_logit_rows] index of the token whose logits are wanted */
} pkv__batch;

typedef struct pkv__forward_config {
    const pkv__weights *weights;
    pkv_backend *backend;         /* for attention and writes */
    pkv_isa isa;                  /* of the products */
    struct pkv__threads *threads; /* of the products; NULL: the calling thread */
    int32_t max_batch_tokens;     /* activations are sized for so many */
    int32_t max_logit_rows;
    int32_t max_positions; /* rotary table */
    bool fast;             /* products and attention as fast as they go, within bounds; else exact:
                              bits do not depend on what else is in the pass */
    pkv_logger log;
    pkv_allocator alloc;
} pkv__forward_config;

typedef struct pkv__forward pkv__forward;

/* Time in attention and K/V writes, and in the products, of all passes so far. */
typedef struct pkv__forward_times {
    double attention_s, products_s;
} pkv__forward_times;
void pkv__forward_get_times(const pkv__forward *fwd, pkv__forward_times *out);
/* PKV_E_INVALID_ARG: no weights or nothing to size for; PKV_E_UNSUPPORTED: a level that is not
 * here, or heads that attention has no kernel for; PKV_E_NO_MEMORY. Weights, backend and threads
 * outlive the handle. */
PKV_NODISCARD pkv_status pkv__forward_create(const pkv__forward_config *cfg, pkv__forward **out);
void pkv__forward_destroy(pkv__forward *fwd);

/* One pass. k_views, v_views: [n_layers] of a store, or of any pool. logits: [n_logit_rows][vocab].
 * PKV_E_INVALID_ARG: a token outside the vocabulary, a position outside the table, more than was
 * sized for, or what the kernels refuse; logits are then untouched, slots of the batch may be
 * written. Nothing is allocated. One call at a time. A token's logits have the same bits whatever
 * else is in the pass, however its sequence was cut into passes, and wherever its blocks lie. */
PKV_NODISCARD pkv_status pkv__forward_run(pkv__forward *fwd, const pkv__batch *batch,
                                          pkv_kv_view *k_views, pkv_kv_view *v_views,
                                          float *logits);

#endif
