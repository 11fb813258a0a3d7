/* The block manager about itself: statistics, invariants, digest. Included by blockmgr.h. */
#ifndef PAGEDKV_BLOCKMGR_STATS_H
#define PAGEDKV_BLOCKMGR_STATS_H

#include "pagedkv/blockmgr_config.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_blockmgr_stats_t {
    uint32_t struct_size;
    int32_t block_tokens;
    int32_t n_blocks;      /* null block included */
    int32_t free_blocks;   /* free + active + cached + limbo + quarantine = n_blocks - 1 */
    int32_t active_blocks; /* referenced by a row, a running hold or a raw reference */
    int32_t cached_blocks; /* unreferenced, findable, evictable */
    int32_t limbo_blocks;  /* unreferenced, but a step begun before the release has not retired */
    int32_t quarantine_blocks; /* referenced by expired holds only */
    int32_t protected_blocks;  /* of the cached: default priority, hit at least once */
    int32_t open_seqs, closing_seqs, open_namespaces; /* closing: closed with commits pending */
    int32_t open_steps, open_holds;                   /* expired ones included */
    int32_t free_host_blocks, raw_refs;
    int32_t nodes, extras; /* content nodes and extra entries in use */
    uint32_t epoch;
    uint64_t late_posts;               /* posts that met no running hold */
    uint64_t query_tokens, hit_tokens; /* of OK matches: asked for (clipped), claimed */
    uint64_t taken_blocks;             /* blocks handed out */
    uint64_t evicted_blocks;           /* cached content dropped to make room */
    uint64_t copies;                   /* planned by reserve and match */
    uint64_t withdrawn;                /* content withdrawn or moved to write in place */
    uint64_t unindexed_units;          /* full blocks that could not be made findable */
} pkv_blockmgr_stats_t;
#define PKV_BLOCKMGR_STATS_INIT                                                                    \
    {                                                                                              \
        sizeof(pkv_blockmgr_stats_t), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  \
            0, 0, 0, 0, 0, 0                                                                       \
    }
/* O(1). out->struct_size is the caller's and is kept. */
PKV_API void pkv_blockmgr_stats(const pkv_blockmgr *mgr, pkv_blockmgr_stats_t *out);

/* Verify the invariants. Level 1: counts, O(1); 2: every block, O(blocks + rows); 3: content nodes,
 * index, tables and lists as well. PKV_E_CORRUPT: the log names the invariant (docs/blockmgr.md)
 * and the object. PKV_E_INVALID_ARG for another level. */
PKV_API PKV_NODISCARD pkv_status pkv_blockmgr_check(const pkv_blockmgr *mgr, int level);

/* Digest of the logical state: handles, lengths, tables, content, orders. Equal digests mean equal
 * answers to every later call. Not of statistics. Same on every platform, compiler and
 * hash_secret; detects divergence of ranks; no protection against forgery. O(state). */
PKV_API void pkv_blockmgr_digest(const pkv_blockmgr *mgr, uint8_t out[16]);

#ifdef __cplusplus
}
#endif
#endif
