/* What the engine may say about content: priorities and their decay, explicit eviction, epochs,
 * snapshots of recurrent states. Lists and classes are in block_pool.c. */
#include "blockmgr_internal.h"

pkv_status pkv_seq_retain(pkv_blockmgr *mgr, pkv_seq seq, int32_t first, int32_t n,
                          int32_t priority)
{
    struct seq_rec *s = NULL;
    if (!mgr || first < 0 || n < 0 || priority < 0 || priority > PKV_PRIORITY_MAX)
        return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    if ((int64_t)first + n > s->committed)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG, "retain: tokens beyond the %d committed",
                           s->committed);
    if (n == 0) return PKV_OK;
    const int32_t from = unit_index(mgr, first), upto = unit_index(mgr, first + n - 1);
    const int32_t *row = row_of(mgr, s, mgr->unit_group);
    int32_t indexed = s->last_node;
    for (int32_t u = s->n_full - 1; u >= from; u--) {
        const bool prepared = u >= s->n_units;
        const int32_t id = prepared ? pkv__prepared_on(mgr, row[u], mgr->unit) : indexed;
        struct node *node = node_at(mgr, id);
        if (!prepared) indexed = node->parent;
        if (u > upto) continue;
        pkv__node_age(mgr, node);
        node->priority = (uint8_t)priority;
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blockmgr_decay(pkv_blockmgr *mgr)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    if (mgr->n_decays == UINT32_MAX) return PKV_E_LIMIT;
    pkv__evict_decay(mgr);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blockmgr_evict(pkv_blockmgr *mgr, int32_t n_blocks, int32_t *evicted)
{
    if (!mgr || n_blocks < 0 || !evicted) return PKV_E_INVALID_ARG;
    const int32_t n = pkv__min_i32(n_blocks, mgr->n_cached);
    for (int32_t i = 0; i < n; i++) pkv__evict_one(mgr);
    *evicted = n;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blockmgr_new_epoch(pkv_blockmgr *mgr)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    if (mgr->epoch == UINT32_MAX) return PKV_E_LIMIT;
    pkv__evict_all_stale(mgr);
    mgr->epoch++;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* ---------------------------------------------------------------- snapshots */

/* Can a hit end where the sequence ends? */
static bool on_boundary(const pkv_blockmgr *m, const struct seq_rec *s)
{
    if (s->committed == 0 || unit_offset(m, s->committed) != 0) return false;
    for (int32_t g = 0; g < m->n_groups; g++)
        if (m->groups[g].kind == PKV_GROUP_FULL && block_offset(&m->groups[g], s->committed) != 0)
            return false;
    return true;
}

static bool is_state_slot(const pkv_blockmgr *m, int32_t slot)
{
    return m->groups[m->slot_group[slot]].kind == PKV_GROUP_STATE;
}

/* State blocks that the snapshot lacks; and those that it has and that might be evicted. */
static int32_t missing_blocks(const pkv_blockmgr *m, const struct node *node, int32_t *cached)
{
    int32_t n = 0;
    *cached = 0;
    for (int32_t k = 0; k < m->n_slots; k++) {
        if (!is_state_slot(m, k)) continue;
        const int32_t block = node->at[k].block;
        n += block == NONE;
        *cached += block != NONE && blocks_of(m)[block].state == BLOCK_CACHED;
    }
    return n;
}

/* Reference the blocks that are there, so that none is evicted for the others; and back. */
static void claim_present(pkv_blockmgr *m, int32_t id, bool claim, uint32_t *present)
{
    for (int32_t k = 0; k < m->n_slots; k++) {
        const int32_t block = node_at(m, id)->at[k].block;
        if (!is_state_slot(m, k) || block == NONE) continue;
        if (claim) *present |= UINT32_C(1) << k;
        if (!(*present >> k & 1)) continue;
        if (claim) pkv__block_ref(m, block);
        else pkv__block_unref(m, block);
    }
}

static void copy_state(pkv_blockmgr *m, const struct seq_rec *s, int32_t g, int32_t id,
                       pkv_block_work *work)
{
    const struct group_rec *grp = &m->groups[g];
    for (int32_t k = 0; k < grp->n_slots; k++) {
        if (node_at(m, id)->at[grp->slot + k].block != NONE) continue;
        const int32_t block = pkv__take_for_work(m, grp->slot + k, work);
        work->copy[work->n_copy++] = (pkv_block_copy){ row_of(m, s, g)[k], block, 0, g };
        pkv__node_join(m, id, block);
        m->copies++;
    }
}

pkv_status pkv_seq_snapshot(pkv_blockmgr *mgr, pkv_seq seq, pkv_block_work *work)
{
    struct seq_rec *s = NULL;
    int32_t cached, first = 0;
    uint32_t present = 0;
    if (!mgr) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__check_work(mgr, work);
    if (status == PKV_OK) status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    if (!on_boundary(mgr, s)) return PKV_E_STATE;
    if (s->settled < s->committed) return PKV_E_AGAIN;
    const bool indexed = s->n_units == unit_index(mgr, s->committed) && s->epoch == mgr->epoch;
    const int32_t need = indexed ? missing_blocks(mgr, node_at(mgr, s->last_node), &cached) : 0;
    if (need > 0) {
        status = pkv__judge_room(mgr, need, mgr->n_free + mgr->n_cached - cached, 0, 0, NULL);
        if (status != PKV_OK) return status;
        if (need > work->copy_cap || pkv__count_zeros(mgr, need, 0) > work->zero_cap)
            return pkv__refuse(&mgr->log, PKV_E_LIMIT, "snapshot: work is too small for %d blocks",
                               need);
    }
    work->n_copy = work->n_zero = 0;
    if (need == 0) return PKV_OK;
    claim_present(mgr, s->last_node, true, &present);
    for (int32_t g = 0; g < mgr->n_groups; g++)
        if (mgr->groups[g].kind == PKV_GROUP_STATE) copy_state(mgr, s, g, s->last_node, work);
    for (; first < work->n_copy; first++) pkv__block_unref(mgr, work->copy[first].dst);
    claim_present(mgr, s->last_node, false, &present);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
