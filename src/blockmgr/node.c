/* Content nodes: what blocks hold, as a tree per namespace.
 *
 *   root -> n41 -> n42 -> n43      children newest first; a partial node is a leaf
 *            |      `---> n50
 *            `-> main block 7, spares 12 -> 31 (same content, held by other sequences)
 *
 * Equal content is kept twice while it is in use (rows of running sequences never change under
 * them). The node stays with the block that becomes evictable last: a referenced block before a
 * cached one, ties keep the first. So a cached main block has no spares, and spares are always
 * referenced. */
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

static void push_spare(pkv_blockmgr *m, int32_t node, int32_t block)
{
    struct node *n = node_at(m, node);
    struct block_rec *blocks = blocks_of(m);
    blocks[block].node = node, blocks[block].spare = true;
    blocks[block].prev = n->newest_spare, blocks[block].next = NONE;
    if (n->newest_spare != NONE) blocks[n->newest_spare].next = block;
    else n->oldest_spare = block;
    n->newest_spare = block;
}

static void unlink_spare(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *blocks = blocks_of(m), *rec = &blocks[block];
    struct node *n = node_at(m, rec->node);
    if (rec->prev != NONE) blocks[rec->prev].next = rec->next;
    else n->oldest_spare = rec->next;
    if (rec->next != NONE) blocks[rec->next].prev = rec->prev;
    else n->newest_spare = rec->prev;
    rec->node = NONE, rec->spare = false;
}

static int32_t take_node(pkv_blockmgr *m)
{
    int32_t id = m->free_node;
    if (id != NONE) m->free_node = node_at(m, id)->older;
    else if (m->node_high < m->max_nodes) id = m->node_high++;
    else return NONE;
    m->n_nodes++;
    return id;
}

static void give_node(pkv_blockmgr *m, int32_t id)
{
    node_at(m, id)->older = m->free_node;
    m->free_node = id;
    m->n_nodes--;
}

void pkv__node_remove(pkv_blockmgr *m, int32_t id)
{
    struct node *n = node_at(m, id);
    PKV_ASSERT(n->first_child == NONE && n->oldest_spare == NONE);
    pkv__index_remove(m, id);
    unlink_child(m, id);
    pkv__extras_drop(m, &n->extras);
    blocks_of(m)[n->block].node = NONE;
    give_node(m, id);
}

void pkv__node_detach(pkv_blockmgr *m, int32_t block)
{
    struct block_rec *rec = &blocks_of(m)[block];
    const int32_t id = rec->node;
    struct node *n = node_at(m, id);
    if (rec->spare) {
        unlink_spare(m, block);
    } else if (n->oldest_spare != NONE) {
        const int32_t heir = n->oldest_spare;
        unlink_spare(m, heir);
        blocks_of(m)[heir].node = id;
        n->block = heir;
        rec->node = NONE;
    } else {
        pkv__node_remove(m, id);
    }
}

/* `block` joins a node that exists: it takes over from a cached block, which is freed, or becomes a
 * spare of a referenced one. */
static void join_node(pkv_blockmgr *m, int32_t id, int32_t block)
{
    struct block_rec *blocks = blocks_of(m);
    struct node *n = node_at(m, id);
    const int32_t old = n->block;
    if (blocks[old].state != BLOCK_CACHED) {
        push_spare(m, id, block);
        return;
    }
    pkv__evict_remove(m, old);
    blocks[old].node = NONE;
    pkv__block_free(m, old);
    blocks[block].node = id, blocks[block].spare = false;
    n->block = block;
}

static void fill_node(pkv_blockmgr *m, int32_t id, const struct unit_key *key, int32_t block,
                      int32_t extras)
{
    *node_at(m, id) = (struct node){ .hash = key->hash,
                                     .parent = key->parent,
                                     .first_child = NONE,
                                     .block = block,
                                     .oldest_spare = NONE,
                                     .newest_spare = NONE,
                                     .extras = extras,
                                     .n_tokens = key->n_tokens };
    memcpy(node_tokens(m, id), key->ids, (size_t)key->n_tokens * sizeof *key->ids);
    link_child(m, id);
    pkv__index_insert(m, id);
    blocks_of(m)[block].node = id, blocks_of(m)[block].spare = false;
}

/* Does dropping what `block` holds free a node? */
static bool sole_holder(const pkv_blockmgr *m, int32_t block)
{
    const struct block_rec *rec = &blocks_of(m)[block];
    return rec->node != NONE && !rec->spare && node_at(m, rec->node)->oldest_spare == NONE;
}

int32_t pkv__node_publish(pkv_blockmgr *m, const struct unit_key *key, int32_t block,
                          int32_t *extras)
{
    int32_t id = pkv__index_find(m, key);
    const bool found = id != NONE;
    if (!found && (!pkv__index_has_room(m, key->hash) ||
                   (m->n_nodes == m->max_nodes && !sole_holder(m, block))))
        return NONE;
    if (blocks_of(m)[block].node != NONE) pkv__node_detach(m, block); /* a shorter partial node */
    if (found) {
        join_node(m, id, block);
        pkv__extras_drop(m, extras);
        return id;
    }
    id = take_node(m);
    fill_node(m, id, key, block, *extras);
    *extras = NONE;
    return id;
}
