/* The pool: which block is free, who refers to it, which cached one goes first.
 *
 *   free ids     stack of int32, last freed on top        [ .. 9 4 7 ]  -> 7
 *   eviction     probation: victim <-> ... <-> newest     never hit since they were cached
 *                protected: victim <-> ... <-> newest     hit at least once, at most 4/5 of all
 *
 * Why no child outlives its parent: a row that names a block names all its ancestors, and rows are
 * released tail first, so a block is cached before its parent is; a match refers to every ancestor,
 * so a parent's class is never below its child's; demotion takes the oldest first.
 *
 * The free ids are an array and not a list through the records: popping a list is one dependent
 * cache miss per block, popping an array lets the records be fetched ahead. Measured in
 * docs/decisions/0002-free-ids-as-an-array.md. */
#include "blockmgr_internal.h"

enum { PREFETCH_AHEAD = 8 }; /* blocks; one record miss is about eight takes long */

static void list_push_tail(pkv_blockmgr *m, int c, int32_t block)
{
    struct block_rec *blocks = blocks_of(m);
    struct evict_list *l = &m->lists[c];
    blocks[block].evict_class = (uint8_t)c;
    blocks[block].prev = l->tail, blocks[block].next = NONE;
    if (l->tail != NONE) blocks[l->tail].next = block;
    else l->head = block;
    l->tail = block;
    l->n++;
}

static void list_unlink(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *blocks = blocks_of(m);
    struct evict_list *l = &m->lists[blocks[block].evict_class];
    const int32_t prev = blocks[block].prev, next = blocks[block].next;
    if (prev != NONE) blocks[prev].next = next;
    else l->head = next;
    if (next != NONE) blocks[next].prev = prev;
    else l->tail = prev;
    l->n--;
}

void pkv__evict_insert(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *blocks = blocks_of(m), *rec = &blocks[block];
    const struct node *node = node_at(m, rec->node);
    PKV_ASSERT(rec->ref == 0 && node->block == block);
    PKV_ASSERT(is_root(node->parent) ||
               blocks[node_at(m, node->parent)->block].state == BLOCK_ACTIVE);
    rec->state = BLOCK_CACHED;
    list_push_tail(
        m, node->hit && !has_flag(m, PKV_MGR_PLAIN_LRU) ? CLASS_PROTECTED : CLASS_PROBATION, block);
    struct evict_list *protect = &m->lists[CLASS_PROTECTED];
    while (protect->n > (int64_t)cached_blocks(m) * 4 / 5) {
        const int32_t oldest = protect->head;
        list_unlink(m, oldest);
        list_push_tail(m, CLASS_PROBATION, oldest);
    }
}

void pkv__evict_remove(pkv_blockmgr *m, int32_t block)
{
    PKV_ASSERT(blocks_of(m)[block].state == BLOCK_CACHED);
    list_unlink(m, block);
}

/* The victim: first of probation, else of protected. It has no children. */
static int32_t evict_one(pkv_blockmgr *m)
{
    const struct evict_list *l = &m->lists[CLASS_PROBATION];
    if (l->head == NONE) l = &m->lists[CLASS_PROTECTED];
    const int32_t block = l->head;
    PKV_ASSERT(block != NONE);
    list_unlink(m, block);
    pkv__node_remove(m, blocks_of(m)[block].node);
    m->evicted_blocks++;
    return block;
}

int32_t pkv__block_take(pkv_blockmgr *m)
{
    struct block_rec *blocks = blocks_of(m);
    int32_t block;
    if (m->n_free > 0) {
        const int32_t *ids = free_ids_of(m);
        block = ids[--m->n_free];
        if (m->n_free >= PREFETCH_AHEAD) PKV_PREFETCH(&blocks[ids[m->n_free - PREFETCH_AHEAD]]);
    } else {
        block = evict_one(m);
    }
    struct block_rec *rec = &blocks[block];
    rec->state = BLOCK_ACTIVE;
    rec->ref = 1;
    rec->used = true;
    m->n_active++;
    m->taken_blocks++;
    return block;
}

void pkv__block_free(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    PKV_ASSERT(rec->ref == 0 && rec->node == NONE);
    rec->state = BLOCK_FREE;
    free_ids_of(m)[m->n_free++] = block;
}

void pkv__block_ref(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    if (rec->ref++ > 0) return;
    list_unlink(m, block);
    rec->state = BLOCK_ACTIVE;
    m->n_active++;
}

void pkv__block_unref(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    PKV_ASSERT(rec->state == BLOCK_ACTIVE && rec->ref > 0);
    if (--rec->ref > 0) return;
    m->n_active--;
    if (rec->node != NONE && (rec->spare || node_at(m, rec->node)->oldest_spare != NONE))
        pkv__node_detach(m, block);
    if (rec->node == NONE) pkv__block_free(m, block);
    else pkv__evict_insert(m, block);
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

int32_t pkv__take_for_work(pkv_blockmgr *m, pkv_block_work *work)
{
    const bool fresh = m->n_free > 0 && !blocks_of(m)[free_ids_of(m)[m->n_free - 1]].used;
    const int32_t block = pkv__block_take(m);
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
