/* Batches for the tests of attention's driver: small heads over a few blocks that all sequences
 * share, so that long sequences cost no memory. Scalar or naive kernels, float32. */
#ifndef PKV_ATTN_BATCHES_H
#define PKV_ATTN_BATCHES_H

#include "case_random.h"
#include "kernels/kernels_internal.h"

enum {
    MAX_SEQS = 300,
    MAX_ROWS = 700,
    DIM = 8,
    V_DIM = 16,
    BT = 32,
    N_BLOCKS = 40,
    MAX_IDS = 12000,
    MASK_WORDS = 2
};

struct problem {
    int32_t n_kv_heads, group, n_seqs, n_rows;
    int32_t kv_len[MAX_SEQS], q_indptr[MAX_SEQS + 1], pos0[MAX_SEQS];
    int32_t table[MAX_IDS], table_indptr[MAX_SEQS + 1], q_pos[MAX_ROWS];
    uint32_t mask[MAX_ROWS][MASK_WORDS];
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_lse lse;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    float sink[64], alibi[64];
    uint32_t bad[4];
    float *memory; /* q, k, v, out, lse */
};

/* Memory that ends with its last byte, so that tools see the one behind it. */
void *exact(size_t bytes);

void set_shape(struct problem *p, int32_t n_kv_heads, int32_t group);
/* One more sequence; false if it does not fit the arrays. */
bool add_sequence(struct problem *p, struct rng *r, int32_t q_len, int32_t kv_len);
void finish_batch(struct problem *p);
/* Fill q, k and v, in memory to be freed. */
void draw_numbers(struct problem *p, struct rng *r);
/* Decode, verify, prefill and rows without keys, in one batch, with options. */
void draw_problem(struct problem *p, struct rng *r);

/* A chunk kernel, in plain loops. */
void naive_chunk(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, void *scratch);
/* A scalar backend whose kernel for short sequences is the naive one. */
pkv_backend *naive_backend(int32_t n_tasks, pkv_parallel_for parallel_for, void *parallel_ctx);

#endif
