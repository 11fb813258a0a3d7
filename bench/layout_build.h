/* Layouts of K and V in memory, and block tables for the paged ones. */
#ifndef PKV_LAYOUT_BUILD_H
#define PKV_LAYOUT_BUILD_H

#include "bench_base.h"

enum bench_layout {
    LAYOUT_CONTIG_HND,     /* per sequence [kv_head][token][dim]; no table is read */
    LAYOUT_CONTIG_NHD,     /* per sequence [token][kv_head][dim]; no table is read */
    LAYOUT_IDENTITY_TABLE, /* the memory of contig-hnd through the paged entry: one block each */
    LAYOUT_PAGED_SEQ,      /* ascending ids per sequence: the best a pool can give */
    LAYOUT_PAGED_RANDOM,   /* a permutation of the whole pool: a server that ran for a while */
    LAYOUT_PAGED_REVERSED  /* descending ids: a LIFO list after an orderly release */
};
#define LAYOUT_COUNT 6

const char *layout_name(enum bench_layout layout); /* "paged-random" */
bool layout_is_paged(enum bench_layout layout);    /* has a pool of blocks: SEQ, RANDOM, REVERSED */

/* A dense block table. Every block of the pool is used at most once; block 0, the null block,
 * never. Entries of a row behind its last block are -1: nobody may read them. */
struct layout_table {
    int32_t *ids;   /* [n_seqs][stride] */
    int64_t stride; /* blocks of the longest sequence */
    int32_t n_seqs;
    int32_t n_blocks; /* size of the pool: null block, used blocks, spare ones */
    int64_t n_used;
};

/* A table of one of the paged layouts for sequences of kv_len[n_seqs] tokens, in a pool with
 * `n_spare` blocks that nobody uses. `rng` serves PAGED_RANDOM. */
bool layout_build(enum bench_layout layout, const int32_t *kv_len, int32_t n_seqs,
                  int32_t block_tokens, int32_t n_spare, struct bench_rng *rng,
                  struct layout_table *out, struct bench_error *err);
void layout_free(struct layout_table *table);

#endif
