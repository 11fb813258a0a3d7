/* What the cases of the block manager share: a manager, sequences, tokens, and the floors beside
 * it. A case uses the parts it needs. */
#ifndef PKV_BLOCKS_CASE_H
#define PKV_BLOCKS_CASE_H

#include "bench_case.h"
#include "block_list.h"

#include "pagedkv/blockmgr.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

struct blocks_case {
    /* What to do; set when the case is defined. */
    int32_t n_blocks, block_tokens, n_seqs, n_tokens;
    bool prefix_cache, cold, single_calls, chunks, delta, async;
    int level;                                                       /* of the invariant checker */
    bool (*prepare)(struct blocks_case *b, struct bench_error *err); /* after the manager exists */

    /* Alive from setup to teardown. */
    struct bench_run *run;
    pkv_blockmgr *mgr;
    pkv_ns ns;
    pkv_seq *seqs; /* [n_seqs] */
    pkv_seq seq, child;
    pkv_seq children[64];
    pkv_reserve_req *reqs; /* [n_seqs] */
    pkv_block_work work;
    pkv_block_copy copies[64];
    int32_t *tokens; /* random ids; epoch and sequence choose one of BLOCKS_STARTS beginnings */
    uint32_t epoch;
    int32_t committed;       /* of every sequence of a decode step */
    pkv_step step;           /* in flight, if `async` */
    pkv_table_range *ranges; /* [max_seqs] what the last delta said */
    int32_t *ids;            /* [ids_cap] */
    int32_t ids_cap;
    pkv_delta changed;
    pkv_status status; /* first call that failed */
    bool surprised;    /* a call succeeded with another outcome than the case is about */
    struct block_list list;
    int32_t *taken;  /* [n_blocks] ids taken from the list */
    void **pointers; /* [n_blocks] */
    int32_t *order;  /* [n_blocks] a permutation */
    void *arena;
    size_t arena_bytes;
    struct bench_region flush; /* twice the last-level cache: reading it empties the caches */
};
#define BLOCKS_STARTS (1 << 20)
#define BLOCKS_LONGEST (160 << 10) /* tokens of the longest sequence with content */

/* Define a case at the end of the list, with a `pagedkv` side that calls `call`. */
struct bench_case *blocks_case_add(const struct bench_options *o, struct case_list *list,
                                   const struct blocks_case *what, const char *id,
                                   const char *label, const char *per, double ops,
                                   void (*call)(void *), void (*before)(void *),
                                   struct bench_error *err);
/* A floor beside it, on the same context. */
struct bench_side *blocks_side_add(struct bench_case *c, const char *id, const char *label,
                                   const char *per, double ops, void (*call)(void *));

/* Decimal exponent of a pool size: pools are powers of ten and are named 1e5. */
int blocks_log10(int32_t n_blocks);
/* Remember the first failure; true if the call was fine. */
bool blocks_ok(struct blocks_case *b, pkv_status status);
/* `n` token ids that no other (sequence, epoch) shares a prefix with. */
pkv_tokens blocks_tokens(const struct blocks_case *b, int32_t seq, int32_t first, int32_t n);
/* Close the namespace of the case, which forgets its cached content, and open a new one. */
void blocks_forget(struct blocks_case *b);
/* Open a sequence in the namespace of the case and give it room for n tokens. */
pkv_seq blocks_open(struct blocks_case *b, int32_t n_tokens);
void blocks_reserve(struct blocks_case *b, pkv_seq seq, int32_t n_tokens);
void blocks_commit(struct blocks_case *b, pkv_seq seq, int32_t index, int32_t first, int32_t n);
/* What the tables lack since the last time, into `ranges`, `ids` and `changed`. */
void blocks_delta(struct blocks_case *b);
/* Read twice the last-level cache. */
void blocks_flush(struct blocks_case *b);

/* Groups of cases. */
bool blocks_pool_cases(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err);
bool blocks_step_cases(const struct bench_options *o, struct case_list *list,
                       struct bench_error *err);
bool blocks_table_cases(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err);
bool blocks_content_cases(const struct bench_options *o, struct case_list *list,
                          struct bench_error *err);
bool blocks_whole_cases(const struct bench_options *o, struct case_list *list,
                        struct bench_error *err);

#endif
