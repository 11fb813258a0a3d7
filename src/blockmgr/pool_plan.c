/* From a memory budget to a pool, and the statistics. */
#include "blockmgr_internal.h"

pkv_status pkv_plan(const pkv_kv_shape *shape, size_t bytes, const pkv_blockmgr_config *cfg,
                    pkv_plan_result *out)
{
    size_t block_bytes;
    if (!shape || !cfg || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out || cfg->struct_size != sizeof *cfg) return PKV_E_ABI;
    const pkv_status status = pkv_kv_block_bytes(shape, &block_bytes);
    if (status != PKV_OK) return status;
    const size_t n_blocks = bytes / block_bytes;
    if (n_blocks < 2)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "plan: %zu bytes hold %zu blocks of %zu; at least 2 are needed", bytes,
                           n_blocks, block_bytes);
    pkv_blockmgr_config full = *cfg;
    full.n_blocks = n_blocks < INT32_MAX ? (int32_t)n_blocks : INT32_MAX;
    full.block_tokens = shape->block_tokens;
    const size_t mgr_bytes = pkv_blockmgr_bytes(&full);
    if (mgr_bytes == 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "plan: no manager can be made with this configuration");
    const int32_t usable = full.n_blocks - 1;
    const int32_t longest = pkv__ceil_div_i32(cfg->max_seq_tokens, shape->block_tokens);
    *out = (pkv_plan_result){ .struct_size = sizeof *out,
                              .block_bytes = block_bytes,
                              .n_blocks = full.n_blocks,
                              .usable_blocks = usable,
                              .usable_tokens = (int64_t)usable * shape->block_tokens,
                              .peak_blocks = longest,
                              .max_full_seqs = usable / longest,
                              .mgr_bytes = mgr_bytes };
    if (out->max_full_seqs == 0)
        return pkv__refuse(&cfg->log, PKV_E_NEVER,
                           "plan: a sequence of %d tokens needs %d blocks, the pool has %d",
                           cfg->max_seq_tokens, longest, usable);
    return PKV_OK;
}

void pkv_blockmgr_stats(const pkv_blockmgr *mgr, pkv_blockmgr_stats_t *out)
{
    if (!mgr || !out || out->struct_size != sizeof *out) return;
    *out = (pkv_blockmgr_stats_t){ .struct_size = sizeof *out,
                                   .block_tokens = mgr->block_tokens,
                                   .n_blocks = mgr->n_blocks,
                                   .free_blocks = mgr->n_free,
                                   .active_blocks = mgr->n_active,
                                   .cached_blocks = cached_blocks(mgr),
                                   .protected_blocks = mgr->lists[CLASS_PROTECTED].n,
                                   .open_seqs = mgr->n_seqs,
                                   .open_namespaces = mgr->n_namespaces,
                                   .nodes = mgr->n_nodes,
                                   .extras = mgr->n_extras,
                                   .query_tokens = mgr->query_tokens,
                                   .hit_tokens = mgr->hit_tokens,
                                   .taken_blocks = mgr->taken_blocks,
                                   .evicted_blocks = mgr->evicted_blocks,
                                   .copies = mgr->copies,
                                   .withdrawn = mgr->withdrawn,
                                   .unindexed_units = mgr->unindexed_units };
}
