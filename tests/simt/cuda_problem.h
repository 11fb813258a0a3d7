/* Attention on an emulated device for the directed tests: a list of sequences becomes device memory
 * in some layout, is run, and its rows are compared bit by bit. Bounds are check_kernels' business;
 * here results are only held near the CPU's.
 *
 * What a sequence holds depends on its id alone: key j of sequence `id` is the same wherever it
 * lies and whoever else is in the batch. */
#ifndef CUDA_PROBLEM_H
#define CUDA_PROBLEM_H

#include "pagedkv/attention.h"
#include "simt/cuda_test.h"

struct cuda_seq {
    int32_t id, q_len, kv_len;
};

struct cuda_shape {
    pkv_dtype kv_dtype, q_dtype;
    int32_t n_q_heads, n_kv_heads, dim, block_tokens;
};

/* Where things lie; 0 is the plainest. Other numbers: other blocks, strides, tables, padding. */
typedef unsigned cuda_layout;

struct cuda_problem {
    struct cuda_shape shape;
    int32_t n_seqs, n_rows;
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts; /* causal, bad set; a test changes what it likes */
    pkv_lse lse;
    int32_t *kv_len, *q_indptr, *table, *table_indptr; /* on the device; what batch points to */
    int32_t *row0;                                     /* [n_seqs + 1], on the host */
    uint32_t *bad;
    void *workspace;
    size_t workspace_bytes; /* 0: made by the first run, as large as asked for */
    void *memory[24];
    int n_memory;
};

/* Compact: o [n_rows][n_q_heads][dim], lse [n_rows][n_q_heads]. */
struct cuda_rows {
    unsigned char *o, *lse;
    size_t o_row, lse_row;
    int32_t n_rows;
};

/* Device memory that lives as long as the problem. */
void *cuda_take(struct cuda_problem *p, size_t bytes);
void cuda_build(struct cuda_problem *p, const struct cuda_shape *shape, const struct cuda_seq *seqs,
                int32_t n, cuda_layout layout);
void cuda_free(struct cuda_problem *p);
/* Workspace of the size asked for, initialised; for opts.invariant, too. */
void cuda_make_workspace(pkv_backend *be, struct cuda_problem *p);
/* Outputs full of NaN. */
void cuda_clear(struct cuda_problem *p);
/* One call, expected to succeed; status and `bad` are asserted. */
void cuda_run(pkv_backend *be, struct cuda_problem *p);
/* Both, and the rows. */
struct cuda_rows cuda_result(pkv_backend *be, struct cuda_problem *p);
struct cuda_rows cuda_collect(const struct cuda_problem *p);
void cuda_rows_free(struct cuda_rows *r);
/* n rows from a's row `at` have the bits of those from b's row `bt`. */
void cuda_assert_same(const struct cuda_rows *a, int32_t at, const struct cuda_rows *b, int32_t bt,
                      int32_t n, const char *what);
/* Every row is near what the CPU's scalar level makes of the same memory. */
void cuda_assert_right(const struct cuda_problem *p, const struct cuda_rows *r);
/* One call, and that. */
void cuda_run_right(pkv_backend *be, struct cuda_problem *p);

#endif
