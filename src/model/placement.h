/* Where the K and V of the engine's sequences lie: a table of functions, so that the same
 * scheduler, layers and sampler run over the block manager or over contiguous regions, and only
 * placement differs.
 *
 *   paged       placement_paged.c: block manager, store, host store for swapping
 *   contiguous  placement_regions.c: a store whose slots are handed out as one region per sequence
 *
 * A sequence is a small number, 0 .. max_seqs - 1. All functions belong to the stepping thread and
 * allocate nothing. Copies and zeroing that the manager asks for are done inside, on the backend,
 * before the call returns. Statuses are those of the block manager: NO_BLOCKS preempt or wait,
 * NEVER can never fit; on any but OK nothing has changed. */
#ifndef PKV_MODEL_PLACEMENT_H
#define PKV_MODEL_PLACEMENT_H

#include "common/common.h"
#include "pagedkv/backend.h"
#include "pagedkv/engine.h"
#include "pagedkv/views.h"

typedef struct pkv__placement pkv__placement;

typedef struct pkv__placement_config {
    pkv_placement kind;
    pkv_backend *backend; /* outlives it */
    pkv_kv_shape shape;   /* block_tokens as the caller wants them */
    int32_t n_blocks;     /* 0: from kv_bytes */
    size_t kv_bytes, swap_bytes;
    int32_t max_seqs, max_context;
    bool prefix_cache;
    uint8_t model_digest[32]; /* part of the identity of content; 0 where the pool serves one model
                                 alone: a digest reads all of its weights */
    pkv_logger log;
    pkv_allocator alloc;
} pkv__placement_config;

typedef struct pkv__place_usage {
    int32_t n_blocks;       /* usable; regions: the slots over block_tokens */
    int32_t n_free;         /* free or evictable: what a reserve could take */
    int32_t n_cached;       /* of n_free, findable */
    int32_t n_used;         /* n_blocks - n_free */
    int64_t n_slots_used;   /* n_used * block_tokens */
    int64_t n_slots_filled; /* of them, with a committed token; a shared block counted once */
    int64_t n_copies, n_evictions; /* blocks, since creation */
    int64_t n_swapped_bytes;       /* out and in, since creation */
} pkv__place_usage;

typedef struct pkv__place_ops {
    void (*destroy)(pkv__placement *p);

    /* Can one request alone fit an empty pool and max_seqs, at its longest? OK or PKV_E_NEVER;
     * *n_blocks (may be NULL) is what it takes, in both cases. Any thread: looks at nothing that
     * changes. */
    pkv_status (*fits)(const pkv__placement *p, int32_t n_prompt, int32_t max_new,
                       int32_t n_samples, int64_t *n_blocks);

    /* Open a sequence and make room for all of ids[0 .. n), as many of which as are cached (at most
     * n - 1) are *claimed. `n_longest` is the most tokens it will ever hold, `n_seqs` how many
     * sequences its request will be after the fork: regions reserve n_seqs of n_longest, so that
     * neither fork nor reserve of a running request can fail; blocks are taken when they are
     * needed. NO_BLOCKS also where fewer than `watermark` blocks would be left free (regions: no
     * watermark, nobody would need it). PKV_E_LIMIT: max_seqs, or longer than max_context. */
    pkv_status (*admit)(pkv__placement *p, const int32_t *ids, int32_t n, int32_t n_longest,
                        int32_t n_seqs, int32_t watermark, int32_t *seq, int32_t *claimed);
    /* Room for n_tokens[i] more tokens behind the committed ones in each: all or nothing.
     * PKV_E_LIMIT: beyond max_context, or beyond the sequence's region. */
    pkv_status (*reserve)(pkv__placement *p, const int32_t *seqs, const int32_t *n_tokens,
                          int32_t n);
    /* n children with the parent's committed tokens (regions copy them). All or nothing. What was
     * reserved beyond the committed tokens is given back. PKV_E_LIMIT: max_seqs. */
    pkv_status (*fork)(pkv__placement *p, int32_t parent, int32_t *children, int32_t n);
    void (*close)(pkv__placement *p, int32_t seq);

    /* For a pass: where tokens [first, first + n) go, and the row of the block table. */
    void (*slots)(const pkv__placement *p, int32_t seq, int32_t first, int32_t n, int64_t *slots);
    const int32_t *(*row)(const pkv__placement *p, int32_t seq, int32_t *n_ids);
    int32_t (*committed)(const pkv__placement *p, int32_t seq);

    /* begin ... the pass ... commit each sequence ... retire; or abort, which takes every commit of
     * the step back, and what those sequences had reserved. */
    pkv_status (*step_begin)(pkv__placement *p);
    pkv_status (*commit)(pkv__placement *p, int32_t seq, const int32_t *ids, int32_t n);
    pkv_status (*step_retire)(pkv__placement *p);
    void (*step_abort)(pkv__placement *p);

    /* Move these sequences' bytes to the host pool and back, together, whole: shared blocks once.
     * What was reserved beyond the committed tokens is given back. suspend: PKV_E_NO_BLOCKS the
     * host pool is full; PKV_E_UNSUPPORTED there is none. resume: PKV_E_NO_BLOCKS also below the
     * watermark. A suspended sequence can be closed. */
    pkv_status (*suspend)(pkv__placement *p, const int32_t *seqs, int32_t n);
    pkv_status (*resume)(pkv__placement *p, const int32_t *seqs, int32_t n, int32_t watermark);
    /* Bytes that suspend would move; blocks that only these sequences hold. */
    size_t (*swap_bytes)(const pkv__placement *p, const int32_t *seqs, int32_t n);

    void (*usage)(const pkv__placement *p, pkv__place_usage *out);
    /* OK, or PKV_E_CORRUPT and a line in the log. */
    pkv_status (*check)(const pkv__placement *p);
} pkv__place_ops;

/* Every implementation begins with this. */
struct pkv__placement {
    const pkv__place_ops *ops;
    pkv_kv_view *k_views, *v_views; /* [n_layers], of the pool */
    int32_t block_tokens;           /* of the views: slots are id * block_tokens + offset */
    int32_t table_width;            /* most entries of a row */
    size_t block_bytes;
    size_t token_bytes; /* K and V of one token, all layers, scales included */
};

/* PKV_E_INVALID_ARG, PKV_E_NEVER (the pool has no room for two blocks, or one region),
 * PKV_E_NO_MEMORY. */
PKV_NODISCARD pkv_status pkv__placement_create(const pkv__placement_config *cfg,
                                               pkv__placement **out);
/* By kind; the two that create() chooses from. */
PKV_NODISCARD pkv_status pkv__placement_paged(const pkv__placement_config *cfg,
                                              pkv__placement **out);
PKV_NODISCARD pkv_status pkv__placement_regions(const pkv__placement_config *cfg,
                                                pkv__placement **out);

#endif
