/* The paged policies looked at: how the pool is used, where, and whether the model agrees. */
#include "sim/paged.h"

#include <string.h>

/* ---------------------------------------------------------------- usage */

void pkv__paged_usage_of(const void *self, int64_t r, int32_t u, pkv__sim_sample *sample)
{
    const pkv__paged *p = self;
    const int64_t logical = (int64_t)p->n_seqs * u;
    sample->part[PKV__PART_LOGICAL] += logical;
    sample->part[PKV__PART_INTERNAL] += pkv__paged_run_of(p, r)->unshared - logical;
}

/* Only full blocks are shared while a step lasts, so what is not filled is the same with and
 * without sharing. A group before its first token is counted so that this holds for it too. */
void pkv__paged_usage(const void *self, int64_t tokens, pkv__sim_sample *sample, int64_t *n_free)
{
    const pkv__paged *p = self;
    const int64_t used = (int64_t)p->n_active * p->block_tokens;
    *sample = (pkv__sim_sample){ 0 };
    sample->part[PKV__PART_LOGICAL] = tokens;
    sample->part[PKV__PART_SHARED_UNITS] = p->unshared;
    sample->part[PKV__PART_USED_UNITS] = used;
    sample->part[PKV__PART_INTERNAL] = p->unshared - tokens;
    sample->part[PKV__PART_TOKEN] = used - sample->part[PKV__PART_INTERNAL];
    sample->part[PKV__PART_WATERMARK] =
        (int64_t)pkv__min_i32(pkv__paged_room(p), p->watermark) * p->block_tokens;
    sample->part[PKV__PART_TAIL] = p->cfg->pool_tokens - (int64_t)p->usable * p->block_tokens;
    sample->part[PKV__PART_CACHED] = (int64_t)p->n_cached * p->block_tokens;
    *n_free = p->cfg->pool_tokens - used;
}

/* ---------------------------------------------------------------- map */

/* Block id k covers slots [(k - 1) * B, k * B). The manager does not say which of the other blocks
 * hold content, so cached ones stay free here. */
bool pkv__paged_map(const void *self, const pkv__sim_held *running, int32_t n, pkv__sim_cell *cells,
                    int32_t n_cells)
{
    const pkv__paged *p = self;
    if (!p->seen) return false;
    memset(p->seen, 0, (size_t)p->usable + 1);
    const int64_t pool = p->cfg->pool_tokens, width = p->block_tokens;
    for (int32_t i = 0; i < n; i++) {
        const pkv__paged_run *run = pkv__paged_run_of(p, running[i].r);
        for (int32_t k = 0; k < run->n_open; k++) {
            const int32_t *ids;
            int32_t n_ids;
            if (pkv_seq_row(p->mgr, pkv__paged_seqs_of(p, run)[k].seq, 0, &ids, &n_ids) != PKV_OK)
                return false;
            for (int32_t at = 0; at < n_ids; at++) {
                if (p->seen[ids[at]]++) continue;
                p->seen[ids[at]] = 1;
                const int64_t from = (int64_t)(ids[at] - 1) * width,
                              left = running[i].u - at * width;
                const int64_t filled = from + (left < 0 ? 0 : left > width ? width : left);
                pkv__sim_map_add(cells, n_cells, pool, from, filled, PKV_SIM_MAP_TOKEN);
                pkv__sim_map_add(cells, n_cells, pool, filled, from + width, PKV_SIM_MAP_INTERNAL);
            }
        }
    }
    return true;
}

/* ---------------------------------------------------------------- check */

/* The manager's own checker looks at every block where that is quick, else at the sums. */
enum { SMALL_POOL = 256 };

static pkv_status check_rows(const pkv__paged *p, const pkv__paged_run *run)
{
    for (int32_t k = 0; k < run->n_open; k++) {
        const pkv__paged_seq *s = &pkv__paged_seqs_of(p, run)[k];
        const int32_t *ids;
        int32_t n_ids;
        const pkv_status status = pkv_seq_row(p->mgr, s->seq, 0, &ids, &n_ids);
        if (status != PKV_OK) return status;
        if (n_ids != p->shadow.seqs[s->shadow].len)
            return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT,
                               "request %lld, sequence %d: %d blocks in its row, model: %d",
                               (long long)run->r, k, n_ids, p->shadow.seqs[s->shadow].len);
    }
    return PKV_OK;
}

pkv_status pkv__paged_check(void *self)
{
    pkv__paged *p = self;
    const pkv__sim_shadow *m = &p->shadow;
    pkv_blockmgr_stats_t stats = PKV_BLOCKMGR_STATS_INIT;
    pkv_blockmgr_stats(p->mgr, &stats);
    if (stats.free_blocks != m->n_free || stats.active_blocks != m->n_used ||
        stats.cached_blocks != m->n_cached)
        return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT,
                           "block manager: %d free, %d used and %d cached blocks, model: %d, %d "
                           "and %d",
                           stats.free_blocks, stats.active_blocks, stats.cached_blocks, m->n_free,
                           m->n_used, m->n_cached);
    if (stats.unindexed_units > 0)
        return pkv__refuse(&p->cfg->log, PKV_E_CORRUPT, "%llu full blocks could not be found again",
                           (unsigned long long)stats.unindexed_units);
    for (int32_t k = 0; k < p->n_places; k++) {
        if (p->runs[k].r < 0 || p->runs[k].suspended) continue;
        const pkv_status status = check_rows(p, &p->runs[k]);
        if (status != PKV_OK) return status;
    }
    return pkv_blockmgr_check(p->mgr, p->usable <= SMALL_POOL ? 3 : 1);
}
