/* From a memory budget to a pool, and the statistics.
 *
 *   blocks of one sequence that is prefilled in chunks, one FULL and one SLIDING group
 *
 *     #                     .  #  peak, at the end of the last chunk: a window slides only when
 *     #      .  #        .  #  #  the chunk has settled
 *     #   #  #  #     #  #  #  #
 *     full            sliding
 *
 * pkv__group_blocks is what reserve counts with as well, so the plan cannot promise what an empty
 * manager refuses. */
#include "blockmgr_internal.h"

/* Blocks of a sequence of which `settled` tokens are there and `reserved` have room. */
static int64_t blocks_of_seq(const struct group_rec *groups, int32_t n_groups, int32_t rollback,
                             int32_t settled, int32_t reserved)
{
    int64_t n = 0;
    for (int32_t g = 0; g < n_groups; g++)
        n += pkv__group_blocks(&groups[g], pkv__gap_end(&groups[g], settled, rollback), reserved);
    return n;
}

/* The most that one sequence holds on its way to max_seq_tokens. */
static int32_t peak_blocks(const struct group_rec *groups, const pkv_blockmgr_config *cfg,
                           int32_t chunk)
{
    const int32_t n_tokens = cfg->max_seq_tokens;
    int64_t peak = 0;
    bool windows = false;
    for (int32_t g = 0; g < cfg->n_groups; g++) windows = windows || groups[g].window_tokens > 0;
    /* Without windows nothing is given back on the way: the last chunk is the peak. */
    int32_t settled = windows ? 0 : n_tokens - pkv__min_i32(chunk, n_tokens);
    while (settled < n_tokens) {
        const int32_t reserved = settled + pkv__min_i32(chunk, n_tokens - settled);
        const int64_t n =
            blocks_of_seq(groups, cfg->n_groups, cfg->rollback_tokens, settled, reserved);
        if (n > peak) peak = n;
        settled = reserved;
    }
    return peak < INT32_MAX ? (int32_t)peak : INT32_MAX;
}

/* The pool for `bytes` in blocks of block_bytes; cfg->groups say of what. */
static pkv_status plan(size_t block_bytes, size_t bytes, int32_t chunk,
                       const pkv_blockmgr_config *cfg, pkv_plan_result *out)
{
    struct group_rec groups[PKV_MAX_GROUPS];
    const size_t n_blocks = bytes / block_bytes;
    if (n_blocks < 2)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "plan: %zu bytes hold %zu blocks of %zu; at least 2 are needed", bytes,
                           n_blocks, block_bytes);
    pkv_blockmgr_config full = *cfg;
    full.n_blocks = n_blocks < INT32_MAX ? (int32_t)n_blocks : INT32_MAX;
    const size_t mgr_bytes = pkv_blockmgr_bytes(&full);
    if (mgr_bytes == 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "plan: no manager can be made with this configuration");
    int32_t unit = INT32_MAX;
    for (int32_t g = 0; g < cfg->n_groups; g++) {
        pkv__group_init(&groups[g], &cfg->groups[g]);
        if (cfg->groups[g].block_tokens > 0) unit = pkv__min_i32(unit, cfg->groups[g].block_tokens);
    }
    const int32_t usable = full.n_blocks - 1, peak = peak_blocks(groups, cfg, chunk);
    *out = (pkv_plan_result){ .struct_size = sizeof *out,
                              .block_bytes = block_bytes,
                              .n_blocks = full.n_blocks,
                              .usable_blocks = usable,
                              .usable_tokens = (int64_t)usable * unit,
                              .peak_blocks = peak,
                              .max_full_seqs = usable / peak,
                              .mgr_bytes = mgr_bytes };
    if (out->max_full_seqs == 0)
        return pkv__refuse(&cfg->log, PKV_E_NEVER,
                           "plan: a sequence of %d tokens needs %d blocks, the pool has %d",
                           cfg->max_seq_tokens, peak, usable);
    return PKV_OK;
}

pkv_status pkv_plan(const pkv_kv_shape *shape, size_t bytes, const pkv_blockmgr_config *cfg,
                    pkv_plan_result *out)
{
    size_t block_bytes;
    if (!shape || !cfg || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out || cfg->struct_size != sizeof *cfg) return PKV_E_ABI;
    const pkv_status status = pkv_kv_block_bytes(shape, &block_bytes);
    if (status != PKV_OK) return status;
    const pkv_group one = { PKV_GROUP_FULL, shape->block_tokens, 0, 0, 0 };
    pkv_blockmgr_config full = *cfg;
    full.groups = &one, full.n_groups = 1;
    return plan(block_bytes, bytes, INT32_MAX, &full, out);
}

/* Bytes of a block, which are the same in every group that has tokens. */
static pkv_status common_block_bytes(const pkv_kv_shape *shapes, const pkv_blockmgr_config *cfg,
                                     size_t *block_bytes)
{
    *block_bytes = 0;
    for (int32_t g = 0; g < cfg->n_groups; g++) {
        size_t bytes;
        if (cfg->groups[g].kind == PKV_GROUP_STATE) continue;
        if (shapes[g].block_tokens != cfg->groups[g].block_tokens)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "plan: group %d has blocks of %d tokens, its shape of %d", g,
                               cfg->groups[g].block_tokens, shapes[g].block_tokens);
        const pkv_status status = pkv_kv_block_bytes(&shapes[g], &bytes);
        if (status != PKV_OK) return status;
        if (*block_bytes != 0 && bytes != *block_bytes)
            return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                               "plan: a block of group %d has %zu bytes, of others %zu", g, bytes,
                               *block_bytes);
        *block_bytes = bytes;
    }
    if (*block_bytes == 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "plan: no group has tokens");
    return PKV_OK;
}

pkv_status pkv_plan_groups(const pkv_kv_shape *shapes, size_t bytes, int32_t chunk_tokens,
                           const pkv_blockmgr_config *cfg, pkv_plan_result *out)
{
    size_t block_bytes;
    if (!shapes || !cfg || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out || cfg->struct_size != sizeof *cfg) return PKV_E_ABI;
    if (chunk_tokens < 1 || !cfg->groups || cfg->n_groups < 1 || cfg->n_groups > PKV_MAX_GROUPS)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "plan: %d groups, chunks of %d tokens",
                           cfg->n_groups, chunk_tokens);
    const pkv_status status = common_block_bytes(shapes, cfg, &block_bytes);
    if (status != PKV_OK) return status;
    return plan(block_bytes, bytes, chunk_tokens, cfg, out);
}

void pkv_blockmgr_stats(const pkv_blockmgr *mgr, pkv_blockmgr_stats_t *out)
{
    if (!mgr || !out || out->struct_size != sizeof *out) return;
    *out = (pkv_blockmgr_stats_t){
        .struct_size = sizeof *out,
        .block_tokens = mgr->unit,
        .n_blocks = mgr->n_blocks,
        .free_blocks = mgr->n_free,
        .active_blocks = mgr->n_active,
        .cached_blocks = mgr->n_cached,
        .limbo_blocks = mgr->limbo.n,
        .quarantine_blocks = mgr->n_quarantine,
        .protected_blocks = mgr->lists[CLASS_PROTECTED].n,
        .open_seqs = mgr->n_seqs,
        .closing_seqs = mgr->n_closing,
        .open_namespaces = mgr->n_namespaces,
        .open_steps = mgr->n_open_steps,
        .open_holds = mgr->n_holds,
        .free_host_blocks = mgr->n_free_host,
        .raw_refs = mgr->n_raw_refs < INT32_MAX ? (int32_t)mgr->n_raw_refs : INT32_MAX,
        .nodes = mgr->n_nodes,
        .extras = mgr->n_extras,
        .epoch = mgr->epoch,
        .late_posts = atomic_load_explicit(&mgr->late_posts, memory_order_relaxed),
        .query_tokens = mgr->query_tokens,
        .hit_tokens = mgr->hit_tokens,
        .taken_blocks = mgr->taken_blocks,
        .evicted_blocks = mgr->evicted_blocks,
        .copies = mgr->copies,
        .withdrawn = mgr->withdrawn,
        .unindexed_units = mgr->unindexed_units
    };
}
