/* Blocks without sequences: references that a caller counts itself, on the same blocks, content and
 * orders as everything else. A raw reference is a reference like an entry of a row; raw_refs counts
 * them per block, so that nobody gives back more than was taken. */
#include "blockmgr_internal.h"

/* References of a block are an int32_t; rows and holds together stay far below the other half. */
enum { MAX_RAW_REFS = 1 << 30 };

static bool one_full_group(const pkv_blockmgr *m)
{
    return m->n_groups == 1 && m->groups[0].kind == PKV_GROUP_FULL;
}

static bool is_block(const pkv_blockmgr *m, int32_t id)
{
    return id > 0 && id < m->n_blocks;
}

/* Of an id of the pool that the caller says it refers to. */
static bool has_raw_ref(const pkv_blockmgr *m, int32_t id)
{
    return is_block(m, id) && raw_refs_of(m)[id] > 0;
}

static void add_raw_ref(pkv_blockmgr *m, int32_t block)
{
    raw_refs_of(m)[block]++;
    m->n_raw_refs++;
    m->raw_used = true;
}

static pkv_status refuse_groups(const pkv_blockmgr *m)
{
    return pkv__refuse(&m->log, PKV_E_UNSUPPORTED, "raw blocks: only with one group, of kind FULL");
}

pkv_status pkv_blocks_take(pkv_blockmgr *mgr, int32_t n, int32_t *ids, pkv_block_work *work)
{
    if (!mgr || n < 0 || (n > 0 && !ids)) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__check_work(mgr, work);
    if (status != PKV_OK) return status;
    if (!one_full_group(mgr)) return refuse_groups(mgr);
    const int64_t room = (int64_t)mgr->n_free + mgr->n_cached;
    status = n > mgr->n_blocks - 1 ? PKV_E_NEVER : pkv__judge_room(mgr, n, room, 0, 0, NULL);
    if (status == PKV_OK && (pkv__count_zeros(mgr, n, 0) > work->zero_cap ||
                             mgr->n_raw_refs + (uint64_t)n > MAX_RAW_REFS))
        status = PKV_E_LIMIT;
    if (status != PKV_OK)
        return pkv__refuse(&mgr->log, status, "raw blocks: %d to take, %d to be had", n, (int)room);
    work->n_zero = work->n_copy = 0;
    for (int32_t i = 0; i < n; i++) {
        ids[i] = pkv__take_for_work(mgr, mgr->groups[0].slot, work);
        add_raw_ref(mgr, ids[i]);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* Does a sequence have room in it that it has not committed? Then nobody knows yet what it holds.
 */
static bool being_written(const pkv_blockmgr *m, int32_t id)
{
    const struct group_rec *grp = &m->groups[0];
    if (pkv__block_covered(m, id) == INT32_MAX) return false;
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        if (s->life != SEQ_OPEN) continue;
        const int32_t *row = row_of(m, s, 0), end = blocks_for(grp, s->reserved);
        for (int32_t at = block_index(grp, s->committed); at < end && s->committed < s->reserved;
             at++)
            if (row[at] == id) return true;
    }
    return false;
}

/* Does the block hold anything? Not if it is free, or in LIMBO and cannot be found. */
static bool holds_something(const pkv_blockmgr *m, int32_t id)
{
    const struct block_rec *rec = &blocks_of(m)[id];
    return (rec->ref > 0 && !being_written(m, id)) || rec->state == BLOCK_CACHED ||
           (rec->state == BLOCK_LIMBO && rec->node != NONE);
}

pkv_status pkv_blocks_ref(pkv_blockmgr *mgr, const int32_t *ids, int32_t n)
{
    if (!mgr || n < 0 || (n > 0 && !ids)) return PKV_E_INVALID_ARG;
    if (!one_full_group(mgr)) return refuse_groups(mgr);
    for (int32_t i = 0; i < n; i++)
        if (!is_block(mgr, ids[i]) || !holds_something(mgr, ids[i]))
            return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG,
                               "raw blocks: %d (entry %d) is no block, or holds nothing", ids[i],
                               i);
    if (mgr->n_raw_refs + (uint64_t)n > MAX_RAW_REFS) return PKV_E_LIMIT;
    for (int32_t i = 0; i < n; i++) {
        pkv__block_ref(mgr, ids[i]);
        add_raw_ref(mgr, ids[i]);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_blocks_unref(pkv_blockmgr *mgr, const int32_t *ids, int32_t n)
{
    if (!mgr || n < 0 || (n > 0 && !ids)) return PKV_E_INVALID_ARG;
    if (!one_full_group(mgr)) return refuse_groups(mgr);
    struct block_rec *blocks = blocks_of(mgr);
    int32_t good = 0;
    while (good < n && has_raw_ref(mgr, ids[good]) &&
           blocks[ids[good]].planned < raw_refs_of(mgr)[ids[good]])
        blocks[ids[good++]].planned++;
    for (int32_t i = 0; i < good; i++) blocks[ids[i]].planned = 0;
    if (good < n)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG,
                           "raw blocks: entry %d gives back more than was taken of %d", good,
                           ids[good]);
    for (int32_t i = 0; i < n; i++) {
        raw_refs_of(mgr)[ids[i]]--;
        mgr->n_raw_refs--;
        pkv__block_unref(mgr, ids[i]);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* ---------------------------------------------------------------- content */

/* What a new unit goes on from: the node on block `parent`, or the root. */
static pkv_status find_parent(const pkv_blockmgr *m, int32_t ns_idx, int32_t parent, int32_t *out)
{
    *out = root_of(ns_idx);
    if (parent == 0) return PKV_OK;
    const int32_t id = has_raw_ref(m, parent) ? blocks_of(m)[parent].node : NONE;
    if (id == NONE || node_at(m, id)->n_tokens < m->unit || node_at(m, id)->ns != ns_idx)
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG,
                           "publish: parent %d has no raw reference, no complete unit, or content "
                           "of another namespace",
                           parent);
    *out = id;
    return node_at(m, id)->epoch == m->epoch ? PKV_OK : PKV_E_IDENTITY;
}

/* The content is new, or `block` joins what is there. */
static pkv_status make_findable(pkv_blockmgr *m, const struct unit_key *key, int32_t block)
{
    const int32_t there = pkv__index_find(m, key);
    int32_t extras = NONE;
    if (there != NONE) {
        pkv__node_join(m, there, block);
        return PKV_OK;
    }
    if (pkv__extras_append(m, &extras, key->extras, m->unit) &&
        pkv__node_publish(m, key, &block, &extras) != NONE)
        return PKV_OK;
    pkv__extras_drop(m, &extras);
    return pkv__refuse(&m->log, PKV_E_LIMIT, "publish: no node, extra entry or index slot is free");
}

pkv_status pkv_block_publish(pkv_blockmgr *mgr, pkv_ns ns, int32_t parent, const pkv_tokens *unit,
                             int32_t block)
{
    int32_t cursor = 0;
    if (!mgr) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__tokens_valid(mgr, unit);
    if (status != PKV_OK) return status;
    if (unit->n != mgr->unit) return PKV_E_INVALID_ARG;
    if (!one_full_group(mgr)) return refuse_groups(mgr);
    if (!has_flag(mgr, PKV_MGR_PREFIX_CACHE)) return PKV_E_UNSUPPORTED;
    const int32_t ns_idx = pkv__ns_find(mgr, ns);
    if (ns_idx == NONE) return PKV_E_STALE;
    if (!has_raw_ref(mgr, block))
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG, "publish: no raw reference on block %d",
                           block);
    struct unit_key key = { 0, NONE, unit->ids, unit->n, pkv__extras_at(unit, 0, &cursor) };
    status = find_parent(mgr, ns_idx, parent, &key.parent);
    if (status != PKV_OK) return status;
    key.hash = pkv__unit_hash(mgr, &key);
    const struct block_rec *rec = &blocks_of(mgr)[block];
    if (rec->node != NONE && pkv__node_holds(mgr, rec->node, &key)) return PKV_OK;
    if (rec->node != NONE || rec->prepared != NONE)
        return pkv__refuse(&mgr->log, PKV_E_STATE, "publish: block %d holds other content", block);
    status = make_findable(mgr, &key, block);
    PKV_SELF_CHECK(mgr);
    return status;
}

pkv_status pkv_blocks_lookup(pkv_blockmgr *mgr, pkv_ns ns, const pkv_tokens *prompt, int32_t *ids,
                             int32_t cap, int32_t *n)
{
    int32_t cursor = 0, count = 0;
    if (!mgr || !n || cap < 0 || (cap > 0 && !ids)) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__tokens_valid(mgr, prompt);
    if (status != PKV_OK) return status;
    if (!one_full_group(mgr)) return refuse_groups(mgr);
    const int32_t ns_idx = pkv__ns_find(mgr, ns);
    if (ns_idx == NONE) return PKV_E_STALE;
    const bool cache = has_flag(mgr, PKV_MGR_PREFIX_CACHE);
    const int32_t most = cache ? pkv__min_i32(cap, prompt->n / mgr->unit) : 0;
    if (mgr->n_raw_refs + (uint64_t)most > MAX_RAW_REFS) return PKV_E_LIMIT;
    for (int32_t id = root_of(ns_idx); count < most; count++) {
        id = pkv__unit_find(mgr, prompt, count, id, &cursor);
        if (id == NONE || node_at(mgr, id)->at[0].block == NONE) break;
        ids[count] = node_at(mgr, id)->at[0].block;
        node_at(mgr, id)->hit = true;
        pkv__block_ref(mgr, ids[count]);
        add_raw_ref(mgr, ids[count]);
    }
    *n = count;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
