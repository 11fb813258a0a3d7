/* Content nodes: what blocks hold, as a tree per namespace.
 *
 *   root -> n41 -> n42 -> n43      children newest first; a partial node is a leaf
 *            |      `---> n50
 *            `-> slot 0: main block 7, spares 12 -> 31 (same content, held by other sequences)
 *                slot 1: main block 9
 *
 * Equal content is kept twice while it is in use (rows of running sequences never change under
 * them). A slot stays with the block that becomes evictable last: a referenced block before one in
 * LIMBO (the later the better) before a cached one, ties keep the first. So only a referenced main
 * block has spares, and spares are always referenced. A node without blocks lives on as a connector
 * while it has children, or while it is some sequence's last unit (holders). */
#include "blockmgr_internal.h"

int32_t *pkv__children_of(const pkv_blockmgr *m, int32_t parent)
{
    return is_root(parent) ? &namespaces_of(m)[ns_of_root(parent)].first_child
                           : &node_at(m, parent)->first_child;
}

static void link_child(pkv_blockmgr *m, int32_t id)
{
    struct node *n = node_at(m, id);
    int32_t *head = pkv__children_of(m, n->parent);
    n->older = *head, n->newer = NONE;
    if (*head != NONE) node_at(m, *head)->newer = id;
    *head = id;
}

static void unlink_child(pkv_blockmgr *m, int32_t id)
{
    struct node *n = node_at(m, id);
    if (n->newer != NONE) node_at(m, n->newer)->older = n->older;
    else *pkv__children_of(m, n->parent) = n->older;
    if (n->older != NONE) node_at(m, n->older)->newer = n->newer;
}

static struct node_slot *slot_of(const pkv_blockmgr *m, int32_t block)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    return &node_at(m, rec->node)->at[rec->slot];
}

static void push_spare(pkv_blockmgr *m, int32_t node, int32_t block)
{
    struct block_rec *blocks = blocks_of(m);
    blocks[block].node = node, blocks[block].spare = true;
    struct node_slot *at = slot_of(m, block);
    blocks[block].prev = at->newest_spare, blocks[block].next = NONE;
    if (at->newest_spare != NONE) blocks[at->newest_spare].next = block;
    else at->oldest_spare = block;
    at->newest_spare = block;
}

static void unlink_spare(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *blocks = blocks_of(m), *rec = &blocks[block];
    struct node_slot *at = slot_of(m, block);
    if (rec->prev != NONE) blocks[rec->prev].next = rec->next;
    else at->oldest_spare = rec->next;
    if (rec->next != NONE) blocks[rec->next].prev = rec->prev;
    else at->newest_spare = rec->prev;
    rec->node = NONE, rec->spare = false;
}

int32_t pkv__node_take(pkv_blockmgr *m)
{
    int32_t id = m->free_node;
    if (id != NONE) m->free_node = node_at(m, id)->older;
    else if (m->node_high < m->max_nodes) id = m->node_high++;
    else return NONE;
    m->n_nodes++;
    return id;
}

void pkv__node_give(pkv_blockmgr *m, int32_t id)
{
    struct node *n = node_at(m, id);
    pkv__extras_drop(m, &n->extras);
    n->indexed = false, n->holders = 0;
    n->older = m->free_node;
    m->free_node = id;
    m->n_nodes--;
}

static int32_t ns_below(const pkv_blockmgr *m, int32_t parent)
{
    if (parent == NONE) return NONE; /* prepared: nobody asks */
    return is_root(parent) ? ns_of_root(parent) : node_at(m, parent)->ns;
}

void pkv__node_fill(pkv_blockmgr *m, int32_t id, const struct unit_key *key, int32_t *extras)
{
    struct node *n = node_at(m, id);
    *n = (struct node){ .hash = key->hash,
                        .parent = key->parent,
                        .first_child = NONE,
                        .older = NONE,
                        .newer = NONE,
                        .extras = *extras,
                        .n_tokens = key->n_tokens,
                        .ns = ns_below(m, key->parent),
                        .epoch = m->epoch,
                        .decay_no = m->n_decays,
                        .priority = PKV_PRIORITY_DEFAULT };
    *extras = NONE;
    for (int32_t k = 0; k < m->n_slots; k++) n->at[k] = (struct node_slot){ NONE, NONE, NONE };
    memcpy(node_tokens(m, id), key->ids, (size_t)key->n_tokens * sizeof *key->ids);
}

static bool has_block(const pkv_blockmgr *m, const struct node *n)
{
    for (int32_t k = 0; k < m->n_slots; k++)
        if (n->at[k].block != NONE) return true;
    return false;
}

void pkv__node_prune(pkv_blockmgr *m, int32_t id)
{
    while (!is_root(id)) {
        struct node *n = node_at(m, id);
        if (n->first_child != NONE || n->holders > 0 || has_block(m, n)) return;
        const int32_t parent = n->parent;
        pkv__index_remove(m, id);
        unlink_child(m, id);
        pkv__node_give(m, id);
        id = parent;
    }
}

void pkv__node_detach(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    const int32_t id = rec->node;
    struct node_slot *at = slot_of(m, block);
    if (rec->spare) {
        unlink_spare(m, block);
    } else if (at->oldest_spare != NONE) {
        const int32_t heir = at->oldest_spare;
        unlink_spare(m, heir);
        blocks_of(m)[heir].node = id;
        at->block = heir;
        rec->node = NONE;
    } else {
        at->block = NONE;
        rec->node = NONE;
        pkv__node_prune(m, id);
    }
}

void pkv__node_join(pkv_blockmgr *m, int32_t id, int32_t block)
{
    struct block_rec *blocks = blocks_of(m), *rec = &blocks[block];
    struct node_slot *at = &node_at(m, id)->at[rec->slot];
    const int32_t old = at->block;
    PKV_ASSERT(rec->node == NONE && rec->state != BLOCK_FREE && rec->state != BLOCK_CACHED);
    if (old != NONE) {
        if (blocks[old].ref > 0) {
            if (rec->ref > 0) push_spare(m, id, block);
            return;
        }
        if (blocks[old].state == BLOCK_LIMBO) {
            if (rec->ref == 0 && rec->planned < blocks[old].planned) return;
            blocks[old].node = NONE;
        } else {
            pkv__evict_remove(m, old);
            blocks[old].node = NONE;
            pkv__block_free(m, old);
        }
    }
    rec->node = id, rec->spare = false;
    at->block = block;
}

/* Shorter partial nodes make way for what the blocks hold now. */
static void drop_partials(pkv_blockmgr *m, const int32_t *blocks)
{
    for (int32_t k = 0; k < m->n_slots; k++)
        if (blocks[k] != 0 && blocks_of(m)[blocks[k]].node != NONE) pkv__node_detach(m, blocks[k]);
}

static void join_all(pkv_blockmgr *m, int32_t id, const int32_t *blocks)
{
    for (int32_t k = 0; k < m->n_slots; k++)
        if (blocks[k] != 0) pkv__node_join(m, id, blocks[k]);
}

static void link_node(pkv_blockmgr *m, int32_t id, const int32_t *blocks)
{
    node_at(m, id)->indexed = true;
    link_child(m, id);
    pkv__index_insert(m, id);
    join_all(m, id, blocks);
}

/* Does dropping what the blocks hold free a node? */
static bool sole_holders(const pkv_blockmgr *m, const int32_t *blocks)
{
    int32_t id = NONE;
    for (int32_t k = 0; k < m->n_slots && id == NONE; k++)
        if (blocks[k] != 0) id = blocks_of(m)[blocks[k]].node;
    if (id == NONE) return false;
    for (int32_t k = 0; k < m->n_slots; k++) {
        const struct node_slot *at = &node_at(m, id)->at[k];
        if (at->block != NONE && (at->block != blocks[k] || at->oldest_spare != NONE)) return false;
    }
    return true;
}

int32_t pkv__node_publish(pkv_blockmgr *m, const struct unit_key *key, const int32_t *blocks,
                          int32_t *extras)
{
    int32_t id = pkv__index_find(m, key);
    const bool found = id != NONE;
    if (!found && (!pkv__index_has_room(m, key->hash) ||
                   (m->n_nodes == m->max_nodes && !sole_holders(m, blocks))))
        return NONE;
    drop_partials(m, blocks);
    if (found) {
        join_all(m, id, blocks);
        pkv__extras_drop(m, extras);
        return id;
    }
    id = pkv__node_take(m);
    pkv__node_fill(m, id, key, extras);
    link_node(m, id, blocks);
    return id;
}

void pkv__node_blocks(const pkv_blockmgr *m, const struct node *n, int32_t *blocks)
{
    for (int32_t k = 0; k < m->n_slots; k++)
        blocks[k] = n->at[k].block == NONE ? 0 : n->at[k].block;
}

int32_t pkv__node_index(pkv_blockmgr *m, int32_t prepared, int32_t parent)
{
    struct node *n = node_at(m, prepared);
    int32_t blocks[MAX_SLOTS] = { 0 };
    const struct unit_key key = { n->hash, parent, node_tokens(m, prepared), n->n_tokens,
                                  extra_entries(n->extras) };
    const int32_t id = pkv__index_find(m, &key);
    if (id == NONE && !pkv__index_has_room(m, key.hash)) return NONE;
    pkv__node_blocks(m, n, blocks);
    drop_partials(m, blocks);
    if (id != NONE) {
        join_all(m, id, blocks);
        return id;
    }
    n->parent = parent;
    n->ns = ns_below(m, parent);
    n->holders = 0;
    for (int32_t k = 0; k < m->n_slots; k++) n->at[k].block = NONE;
    link_node(m, prepared, blocks);
    return prepared;
}

int32_t pkv__block_covered(const pkv_blockmgr *m, int32_t block)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    int32_t n = 0;
    if (rec->node != NONE) n = node_at(m, rec->node)->n_tokens;
    if (rec->prepared != NONE) n = pkv__max_i32(n, node_at(m, rec->prepared)->n_tokens);
    return n == m->unit ? INT32_MAX : n; /* a complete unit ends the block */
}

/* What decays have made of a value: each takes one, down to `rest`. */
static int come_down(int value, int rest, uint32_t decays)
{
    if (value <= rest) return value;
    return decays < (uint32_t)(value - rest) ? value - (int)decays : rest;
}

void pkv__node_age(const pkv_blockmgr *m, struct node *n)
{
    const uint32_t decays = m->n_decays - n->decay_no;
    n->decay_no = m->n_decays;
    n->priority = (uint8_t)come_down(n->priority, PKV_PRIORITY_DEFAULT, decays);
    n->floor = (uint8_t)come_down(n->floor, CLASS_PROTECTED, decays);
}

void pkv__node_raise_floor(const pkv_blockmgr *m, struct node *n, int c)
{
    if (n->floor >= c && n->decay_no == m->n_decays) return;
    pkv__node_age(m, n);
    if (n->floor < c) n->floor = (uint8_t)c;
}

int pkv__node_class(const pkv_blockmgr *m, const struct node *n)
{
    const uint32_t decays = m->n_decays - n->decay_no;
    const int priority = come_down(n->priority, PKV_PRIORITY_DEFAULT, decays);
    const int floor = come_down(n->floor, CLASS_PROTECTED, decays);
    const int own = priority < PKV_PRIORITY_DEFAULT   ? CLASS_LOW + priority
                    : priority > PKV_PRIORITY_DEFAULT ? CLASS_HIGH + priority - 4
                    : n->hit                          ? CLASS_PROTECTED
                                                      : CLASS_PROBATION;
    return own > floor ? own : floor;
}

void pkv__tree_each(pkv_blockmgr *m, int32_t top, void (*act)(pkv_blockmgr *, int32_t, void *),
                    void *ctx)
{
    int32_t id = *pkv__children_of(m, top);
    while (id != NONE && id != top) {
        while (node_at(m, id)->first_child != NONE) id = node_at(m, id)->first_child;
        for (;;) { /* id has no child left that was not visited */
            const int32_t older = node_at(m, id)->older, parent = node_at(m, id)->parent;
            act(m, id, ctx);
            if (!is_root(parent)) node_at(m, parent)->holders++; /* visited in its turn */
            pkv__node_prune(m, id);
            if (!is_root(parent)) node_at(m, parent)->holders--;
            if (older != NONE) {
                id = older;
                break; /* with its children first */
            }
            if (parent == top) return;
            id = parent;
        }
    }
}

/* Blocks that are CACHED in one slot. */
struct cached_below {
    int32_t slot, n;
};

static void count_cached(pkv_blockmgr *m, int32_t id, void *ctx)
{
    struct cached_below *below = ctx;
    const int32_t block = node_at(m, id)->at[below->slot].block;
    below->n += block != NONE && blocks_of(m)[block].state == BLOCK_CACHED;
}

static void free_cached(pkv_blockmgr *m, int32_t id, void *ctx)
{
    struct node_slot *at = &node_at(m, id)->at[((struct cached_below *)ctx)->slot];
    const int32_t block = at->block;
    if (block == NONE || blocks_of(m)[block].state != BLOCK_CACHED) return;
    pkv__evict_remove(m, block);
    blocks_of(m)[block].node = NONE;
    at->block = NONE;
    pkv__block_free(m, block);
    m->evicted_blocks++;
}

int32_t pkv__cached_below(const pkv_blockmgr *m, int32_t block)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    struct cached_below below = { rec->slot, 0 };
    if (rec->spare || m->groups[m->slot_group[rec->slot]].kind != PKV_GROUP_FULL) return 0;
    if (node_at(m, rec->node)->first_child == NONE) return 0;
    pkv__tree_each((pkv_blockmgr *)(uintptr_t)m, rec->node, count_cached,
                   &below); /* changes none */
    return below.n;
}

void pkv__node_withdraw(pkv_blockmgr *m, int32_t block)
{
    struct cached_below below = { blocks_of(m)[block].slot, 0 };
    const struct block_rec *rec = &blocks_of(m)[block];
    if (node_at(m, rec->node)->at[rec->slot].oldest_spare == NONE &&
        pkv__cached_below(m, block) > 0)
        pkv__tree_each(m, blocks_of(m)[block].node, free_cached, &below);
    pkv__node_detach(m, block);
    m->withdrawn++;
}
