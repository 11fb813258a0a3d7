/* The pool: which block is free, who refers to it, which one goes first.
 *
 *   free ids     stack of int32, last freed on top        [ .. 9 4 7 ]  -> 7
 *   eviction     one list per class, victims at the heads, in this order:
 *                stale | priority 0 1 2 | 3 probation | 3 protected | 4 5 6 7
 *   limbo        in order of release; stamps ascend       [ 5 (step 8) 3 (step 9) .. ]
 *
 * Why no child outlives its parent (FULL groups): a row that names a block names all its ancestors,
 * and rows are released tail first, so a block is listed before its parent is; one whose parent is
 * listed already goes directly before it; a parent's class is never below its child's (floor);
 * demotion takes the oldest first; splices keep the order.
 *
 * The class of a listed block changes without a visit: content of an older epoch is on the stale
 * list whatever the record says, and a class above the default one has come down by the decays
 * since the block was listed (stamp).
 *
 * The free ids are an array and not a list through the records: popping a list is one dependent
 * cache miss per block, popping an array lets the records be fetched ahead. Measured in
 * docs/decisions/0002-free-ids-as-an-array.md. */
#include "blockmgr_internal.h"

enum { PREFETCH_AHEAD = 8 }; /* blocks; one record miss is about eight takes long */

/* ---------------------------------------------------------------- lists */

static void push_tail(const pkv_blockmgr *m, struct block_list *l, int32_t block)
{
    struct block_rec *blocks = blocks_of(m);
    blocks[block].prev = l->tail, blocks[block].next = NONE;
    if (l->tail != NONE) blocks[l->tail].next = block;
    else l->head = block;
    l->tail = block;
    l->n++;
}

static void insert_before(const pkv_blockmgr *m, struct block_list *l, int32_t block, int32_t at)
{
    struct block_rec *blocks = blocks_of(m);
    const int32_t prev = blocks[at].prev;
    blocks[block].prev = prev, blocks[block].next = at;
    blocks[at].prev = block;
    if (prev != NONE) blocks[prev].next = block;
    else l->head = block;
    l->n++;
}

static void unlink_from(const pkv_blockmgr *m, struct block_list *l, int32_t block)
{
    struct block_rec *blocks = blocks_of(m);
    const int32_t prev = blocks[block].prev, next = blocks[block].next;
    if (prev != NONE) blocks[prev].next = next;
    else l->head = next;
    if (next != NONE) blocks[next].prev = prev;
    else l->tail = prev;
    l->n--;
}

/* All of `from` behind all of `to`. */
static void append_list(const pkv_blockmgr *m, struct block_list *to, struct block_list *from)
{
    if (from->n == 0) return;
    if (to->n == 0) {
        *to = *from;
    } else {
        blocks_of(m)[to->tail].next = from->head;
        blocks_of(m)[from->head].prev = to->tail;
        to->tail = from->tail;
        to->n += from->n;
    }
    *from = (struct block_list){ NONE, NONE, 0 };
}

int pkv__evict_list_of(const pkv_blockmgr *m, int32_t block)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    if (node_at(m, rec->node)->epoch != m->epoch) return CLASS_STALE;
    if (rec->evict_class <= CLASS_PROTECTED) return rec->evict_class;
    const uint32_t decays = m->n_decays - rec->stamp, above = rec->evict_class - CLASS_PROTECTED;
    return decays < above ? (int)(rec->evict_class - decays) : CLASS_PROTECTED;
}

void pkv__evict_all_stale(pkv_blockmgr *m)
{
    for (int c = CLASS_STALE + 1; c < N_CLASSES; c++)
        append_list(m, &m->lists[CLASS_STALE], &m->lists[c]);
}

void pkv__evict_decay(pkv_blockmgr *m)
{
    for (int c = CLASS_HIGH; c < N_CLASSES; c++) append_list(m, &m->lists[c - 1], &m->lists[c]);
    m->n_decays++;
}

/* ---------------------------------------------------------------- becoming evictable */

/* The node of the block before `block` on the way to the root, `ratio` units above. NONE at the
 * beginning of a prompt, and in groups whose blocks need no order. */
static int32_t node_before(const pkv_blockmgr *m, const struct block_rec *rec)
{
    const struct group_rec *grp = &m->groups[m->slot_group[rec->slot]];
    if (grp->kind != PKV_GROUP_FULL) return NONE;
    int32_t id = node_at(m, rec->node)->parent;
    for (int32_t i = 1; i < grp->ratio && !is_root(id); i++) id = node_at(m, id)->parent;
    return is_root(id) ? NONE : id;
}

static void list_block(pkv_blockmgr *m, int32_t block, int c)
{
    struct block_rec *rec = &blocks_of(m)[block];
    rec->evict_class = (uint8_t)c;
    rec->stamp = m->n_decays;
    push_tail(m, &m->lists[c], block);
}

/* The protected list holds at most a third of what is cached, so that new conversations have room
 * to come back in. Measured on the Mooncake trace over 71 pool sizes, points of token hits above
 * plain LRU, worst / mean: 4/5 -2.73 / -0.40, 1/2 -0.99 / +0.60, 1/3 -0.34 / +0.68, 1/5 -1.13 /
 * +0.41 (pkv-bench share). */
static void enforce_cap(pkv_blockmgr *m)
{
    struct block_list *protect = &m->lists[CLASS_PROTECTED];
    while (protect->n > m->n_cached / 3) {
        const int32_t oldest = protect->head;
        unlink_from(m, protect, oldest);
        list_block(m, oldest, CLASS_PROBATION);
    }
}

void pkv__evict_insert(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *blocks = blocks_of(m), *rec = &blocks[block];
    const struct node *node = node_at(m, rec->node);
    PKV_ASSERT(rec->ref == 0 && node->at[rec->slot].block == block);
    const int32_t before = node_before(m, rec);
    const int32_t parent = before == NONE ? NONE : node_at(m, before)->at[rec->slot].block;
    const bool stale = node->epoch != m->epoch;
    int c = stale                            ? CLASS_STALE
            : has_flag(m, PKV_MGR_PLAIN_LRU) ? CLASS_PROBATION
                                             : pkv__node_class(m, node);
    rec->state = BLOCK_CACHED;
    m->n_cached++;
    if (parent != NONE && blocks[parent].state == BLOCK_CACHED) {
        c = pkv__evict_list_of(m, parent);
        insert_before(m, &m->lists[c], block, parent);
        rec->evict_class = (uint8_t)c;
        rec->stamp = m->n_decays;
    } else {
        list_block(m, block, c);
    }
    if (before != NONE && !stale) pkv__node_raise_floor(m, node_at(m, before), c);
    enforce_cap(m);
}

void pkv__evict_remove(pkv_blockmgr *m, int32_t block)
{
    PKV_ASSERT(blocks_of(m)[block].state == BLOCK_CACHED);
    unlink_from(m, &m->lists[pkv__evict_list_of(m, block)], block);
    m->n_cached--;
}

/* The victim: first of the first list. It has no cached continuation. */
static int32_t evict_first(pkv_blockmgr *m)
{
    int c = 0;
    while (m->lists[c].head == NONE) c++;
    const int32_t block = m->lists[c].head, id = blocks_of(m)[block].node;
    unlink_from(m, &m->lists[c], block);
    m->n_cached--;
    pkv__node_detach(m, block);
    PKV_ASSERT(blocks_of(m)[block].node == NONE && id != NONE);
    m->evicted_blocks++;
    return block;
}

void pkv__evict_one(pkv_blockmgr *m)
{
    pkv__block_free(m, evict_first(m));
}

/* ---------------------------------------------------------------- states */

int32_t pkv__block_take(pkv_blockmgr *m, int32_t slot)
{
    struct block_rec *blocks = blocks_of(m);
    int32_t block;
    if (m->n_free > 0) {
        const int32_t *ids = free_ids_of(m);
        block = ids[--m->n_free];
        if (m->n_free >= PREFETCH_AHEAD) PKV_PREFETCH(&blocks[ids[m->n_free - PREFETCH_AHEAD]]);
    } else {
        block = evict_first(m);
    }
    struct block_rec *rec = &blocks[block];
    rec->state = BLOCK_ACTIVE;
    rec->ref = 1;
    rec->stamp = 0;
    rec->slot = (uint8_t)slot;
    rec->used = true;
    m->n_active++;
    m->taken_blocks++;
    return block;
}

void pkv__block_free(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    PKV_ASSERT(rec->ref == 0 && rec->node == NONE && rec->prepared == NONE);
    rec->state = BLOCK_FREE;
    free_ids_of(m)[m->n_free++] = block;
}

void pkv__block_ref(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    PKV_ASSERT(block > 0 && block < m->n_blocks);
    if (rec->state == BLOCK_QUARANTINE) {
        m->n_quarantine--, m->n_active++;
    } else if (rec->ref == 0) {
        if (rec->state == BLOCK_CACHED) pkv__evict_remove(m, block);
        else unlink_from(m, &m->limbo, block);
        rec->stamp = 0;
        m->n_active++;
    }
    rec->ref++;
    rec->state = BLOCK_ACTIVE;
}

/* The last reference is gone. */
static void leave_active(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    if (rec->node != NONE &&
        (rec->spare || node_at(m, rec->node)->at[rec->slot].oldest_spare != NONE))
        pkv__node_detach(m, block);
    if (steps_hold_back(m)) {
        rec->state = BLOCK_LIMBO;
        rec->stamp = (uint32_t)m->n_steps;
        push_tail(m, &m->limbo, block);
    } else if (rec->node == NONE) {
        pkv__block_free(m, block);
    } else {
        pkv__evict_insert(m, block);
    }
}

void pkv__block_unref(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    PKV_ASSERT(rec->ref > 0 && (rec->state == BLOCK_ACTIVE || rec->state == BLOCK_QUARANTINE));
    if (--rec->ref == 0) {
        if (rec->state == BLOCK_ACTIVE) m->n_active--;
        else m->n_quarantine--;
        leave_active(m, block);
    } else if (rec->stamp == (uint32_t)rec->ref && rec->state == BLOCK_ACTIVE) {
        rec->state = BLOCK_QUARANTINE;
        m->n_active--, m->n_quarantine++;
    }
}

void pkv__block_ref_expires(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    PKV_ASSERT(rec->state == BLOCK_ACTIVE);
    if (++rec->stamp != (uint32_t)rec->ref) return;
    rec->state = BLOCK_QUARANTINE;
    m->n_active--, m->n_quarantine++;
}

void pkv__block_unref_expired(pkv_blockmgr *m, int32_t block)
{
    PKV_ASSERT(blocks_of(m)[block].stamp > 0);
    blocks_of(m)[block].stamp--;
    pkv__block_unref(m, block);
}

void pkv__limbo_drain(pkv_blockmgr *m)
{
    const uint64_t oldest = pkv__oldest_open_step(m);
    while (m->limbo.head != NONE) {
        const int32_t block = m->limbo.head;
        struct block_rec *rec = &blocks_of(m)[block];
        /* Steps open at a time are far less than 2^31 apart: see pkv_step_begin. */
        if (oldest != UINT64_MAX && (int32_t)((uint32_t)oldest - rec->stamp) <= 0) return;
        unlink_from(m, &m->limbo, block);
        if (rec->node == NONE) pkv__block_free(m, block);
        else pkv__evict_insert(m, block);
    }
}

void pkv__limbo_number(pkv_blockmgr *m, bool numbered)
{
    int32_t n = 0;
    for (int32_t b = m->limbo.head; b != NONE; b = blocks_of(m)[b].next)
        blocks_of(m)[b].planned = numbered ? ++n : 0;
}

/* ---------------------------------------------------------------- room and work */

pkv_status pkv__judge_room(const pkv_blockmgr *m, int64_t need, int64_t room, int32_t limbo_used,
                           int32_t limbo_more, pkv_step *step)
{
    if (need <= room) return PKV_OK;
    if (need > room + m->limbo.n - limbo_used + limbo_more) return PKV_E_NO_BLOCKS;
    if (!step) return PKV_E_AGAIN;
    int64_t missing = need - room;
    uint32_t stamp = (uint32_t)m->n_steps; /* of the call's own blocks, which come last */
    for (int32_t b = m->limbo.head; b != NONE && missing > 0; b = blocks_of(m)[b].next) {
        missing--;
        if (missing == 0) stamp = blocks_of(m)[b].stamp;
    }
    step->v = 0;
    for (int32_t i = 0; i < m->max_steps; i++) {
        const uint64_t number = steps_of(m)[i].number;
        if ((int32_t)((uint32_t)number - stamp) <= 0 && number > step->v) step->v = number;
    }
    return PKV_E_AGAIN;
}

int32_t pkv__count_zeros(const pkv_blockmgr *m, int32_t n_taken, int32_t n_returned)
{
    const int32_t *ids = free_ids_of(m);
    int32_t n = 0;
    if (m->zero_policy == PKV_ZERO_NEVER) return 0;
    if (m->zero_policy == PKV_ZERO_ALWAYS) return n_taken;
    const int32_t from_free = pkv__min_i32(n_taken - n_returned, m->n_free);
    for (int32_t i = 0; i < from_free; i++) n += !blocks_of(m)[ids[m->n_free - 1 - i]].used;
    return n; /* evicted and returned blocks had an owner: there is one domain */
}

int32_t pkv__take_for_work(pkv_blockmgr *m, int32_t slot, pkv_block_work *work)
{
    const bool fresh = m->n_free > 0 && !blocks_of(m)[free_ids_of(m)[m->n_free - 1]].used;
    const int32_t block = pkv__block_take(m, slot);
    if (m->zero_policy == PKV_ZERO_ALWAYS || (m->zero_policy != PKV_ZERO_NEVER && fresh))
        work->zero[work->n_zero++] = block;
    return block;
}

pkv_status pkv__check_work(const pkv_blockmgr *m, const pkv_block_work *work)
{
    if (!work) return pkv__refuse(&m->log, PKV_E_INVALID_ARG, "work is null");
    if (work->struct_size != sizeof *work) return PKV_E_ABI;
    if (work->zero_cap < 0 || work->copy_cap < 0 || (work->zero_cap > 0 && !work->zero) ||
        (work->copy_cap > 0 && !work->copy))
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG,
                           "work: a negative capacity or a null array with a capacity");
    return PKV_OK;
}
