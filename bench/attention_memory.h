/* K and V in memory, in every layout, with the same logical content.
 *
 *   contiguous   [layer][K,V][1 + sequence][region]   one region in front stays unused, so that the
 *                                                     identity table can name sequence b as b + 1;
 *                then, if quantised, scales in the same order, then zero points
 *   paged        a pkv_store: [block][layer][kv_head][K,V][token][dim]
 *
 * A row of K or V is a piece of one table of random numbers, chosen by a hash of layer, sequence,
 * head and token: filling is a copy, and the reference can look any row up without any layout. */
#ifndef PKV_ATTENTION_MEMORY_H
#define PKV_ATTENTION_MEMORY_H

#include "bench_base.h"
#include "layout_build.h"

#include "pagedkv/store.h"

/* What is computed, independent of any layout. */
struct attn_shape {
    int32_t n_seqs, n_rows;  /* rows of q over all sequences */
    int32_t *q_len, *kv_len; /* [n_seqs] */
    int32_t *q_indptr;       /* [n_seqs + 1] */
    int32_t max_kv_len;
    int64_t sum_kv_len;
    int32_t h_q, h_kv, dim, n_layers;
    pkv_dtype dtype;   /* of K and V */
    pkv_dtype q_dtype; /* of queries and outputs */
    uint64_t seed;
    void *numbers; /* [ATTN_NUMBERS] of dtype; codes if quantised */
};
#define ATTN_NUMBERS 32768

/* Fill `numbers` so that values are normal, mean 0 and variance about 1: scores spread as in a
 * model. */
bool attn_numbers_init(struct attn_shape *shape, struct bench_error *err);

/* One row of K (is_v false) or V: dim numbers or codes, and what they mean: scale * (code - zero).
 */
struct attn_row_place {
    int32_t layer, seq, head, token;
    bool is_v;
};
const void *attn_logical_row(const struct attn_shape *shape, const struct attn_row_place *at);
float attn_logical_scale(const struct attn_shape *shape, const struct attn_row_place *at);
float attn_logical_zero(const struct attn_shape *shape, const struct attn_row_place *at);
bool attn_has_scales(pkv_dtype dtype); /* E4M3, I8, U4: as in a store */
bool attn_has_zeros(pkv_dtype dtype);  /* U4 */

struct attn_memory {
    struct bench_region region;
    bool borrowed;             /* the region is another memory's */
    pkv_store *store;          /* paged only */
    pkv_kv_view *k, *v;        /* [n_layers] */
    struct layout_table table; /* ids NULL: contiguous */
    int32_t block_tokens;
};

/* Bytes that K and V of one layer need: every key and value once, with their scales. */
int64_t attn_layer_bytes(const struct attn_shape *shape);
/* Bytes of memory one layer takes in a layout. */
int64_t attn_layer_footprint(const struct attn_shape *shape, enum bench_layout layout,
                             int32_t block_tokens);

/* Map and describe memory for a layout; nothing is filled. `hnd` is the contig-hnd memory that an
 * identity table looks into. */
bool attn_memory_init(struct attn_memory *m, const struct attn_shape *shape,
                      enum bench_layout layout, int32_t block_tokens, bool huge_pages,
                      const struct attn_memory *hnd, struct bench_error *err);
void attn_memory_deinit(struct attn_memory *m);

/* Another block table of the same layout kind: a permutation drawn from `seed`. */
bool attn_memory_rename(struct attn_memory *m, const struct attn_shape *shape,
                        enum bench_layout layout, uint64_t seed, struct bench_error *err);

/* Write NaN everywhere and then the logical content where the table (or region) says. */
void attn_memory_fill(const struct attn_memory *m, const struct attn_shape *shape);

#endif
