/* The invariants of level 3: content nodes, what is prepared, the index, lists, chains of units and
 * pending commits. What they are stands at the top of invariants.c. Holders and pins are recounted
 * by taking each one off its node and putting it back. */
#include "blockmgr_internal.h"

static bool block_id(const pkv_blockmgr *m, int32_t b)
{
    return b >= 1 && b < m->n_blocks;
}

static bool node_id(const pkv_blockmgr *m, int32_t id)
{
    return id >= 0 && id < m->node_high;
}

/* The group that a slot belongs to. */
static const struct group_rec *group_of_slot(const pkv_blockmgr *m, int32_t slot)
{
    int32_t g = m->n_groups - 1;
    while (m->groups[g].slot > slot) g--;
    return &m->groups[g];
}

static int32_t count_extras(const pkv_blockmgr *m, int32_t entry, int32_t n_tokens)
{
    int32_t n = 0;
    for (int64_t last = INT64_MIN; entry != NONE; n++, entry = extras_of(m)[entry].next) {
        if (entry < 0 || entry >= m->extra_high) return -1;
        const struct extra_entry *e = &extras_of(m)[entry];
        if (e->offset <= last || e->offset >= n_tokens || e->offset + e->n <= 0) return -1;
        last = e->offset;
    }
    return n;
}

/* What the walks over content have met. */
struct content_count {
    int32_t indexed, prepared, extras, mains, spares;
};

/* ---------------------------------------------------------------- indexed nodes */

/* Spares of a slot: linked both ways, referenced, beside a referenced main block. */
static pkv_status check_spares(const pkv_blockmgr *m, int32_t id, int32_t k,
                               struct content_count *met)
{
    const struct node_slot *at = &node_at(m, id)->at[k];
    int32_t prev = NONE;
    for (int32_t b = at->oldest_spare; b != NONE; prev = b, b = blocks_of(m)[b].next) {
        HOLDS(m, block_id(m, b) && met->spares < m->n_blocks, "I4: node %d has spare %d", id, b);
        met->spares++;
        const struct block_rec *r = &blocks_of(m)[b];
        HOLDS(m, r->spare && r->node == id && r->slot == k && r->ref > 0 && r->prev == prev,
              "I4: spare %d of node %d is not linked or not referenced", b, id);
        HOLDS(m, at->block != NONE && blocks_of(m)[at->block].ref > 0,
              "I4: node %d has spares beside a block that nobody refers to", id);
    }
    HOLDS(m, at->newest_spare == prev, "I4: node %d: newest spare is %d, the list ends at %d", id,
          at->newest_spare, prev);
    return PKV_OK;
}

/* The blocks of a node that is unit `depth` of its prompt. */
static pkv_status check_slots(const pkv_blockmgr *m, int32_t id, int32_t depth,
                              struct content_count *met)
{
    const struct node *n = node_at(m, id);
    pkv_status status = PKV_OK;
    bool lives = n->first_child != NONE || n->holders > 0;
    for (int32_t k = 0; k < m->n_slots && status == PKV_OK; k++) {
        const int32_t b = n->at[k].block;
        status = check_spares(m, id, k, met);
        if (b == NONE) continue;
        HOLDS(m, block_id(m, b), "I4: node %d has block %d", id, b);
        const struct block_rec *r = &blocks_of(m)[b];
        HOLDS(m, r->node == id && !r->spare && r->slot == k && r->state != BLOCK_FREE,
              "I4: block %d of node %d does not hold it", b, id);
        HOLDS(m, (depth + 1) % group_of_slot(m, k)->ratio == 0,
              "I4: node %d: no block of slot %d ends with unit %d", id, k, depth);
        lives = true;
        met->mains++;
    }
    if (status != PKV_OK) return status;
    HOLDS(m, lives, "I4: node %d has no block, no child and no pin", id);
    return PKV_OK;
}

/* Its place among its family. */
static pkv_status check_links(const pkv_blockmgr *m, int32_t id, int32_t ns, int32_t parent,
                              int32_t newer)
{
    const struct node *n = node_at(m, id);
    HOLDS(m, n->indexed && n->ns == ns && n->parent == parent && n->newer == newer,
          "I4: node %d is not linked to its family", id);
    HOLDS(m, is_root(parent) || node_at(m, parent)->n_tokens == m->unit,
          "I4: partial node %d has a child", parent);
    HOLDS(m, n->epoch <= m->epoch && (is_root(parent) || n->epoch == node_at(m, parent)->epoch),
          "I4: node %d is of epoch %u, unlike its parent", id, n->epoch);
    HOLDS(m, !is_root(parent) || newer == NONE || n->epoch <= node_at(m, newer)->epoch,
          "I4: node %d of epoch %u is behind older content", id, n->epoch);
    return PKV_OK;
}

static pkv_status check_node(const pkv_blockmgr *m, int32_t id, int32_t depth,
                             struct content_count *met)
{
    const struct node *n = node_at(m, id);
    HOLDS(m, n->n_tokens >= 1 && (n->n_tokens == m->unit || (m->partial && n->n_tokens < m->unit)),
          "I4: node %d has %d tokens", id, n->n_tokens);
    HOLDS(m, n->priority <= PKV_PRIORITY_MAX && n->floor < N_CLASSES && n->decay_no <= m->n_decays,
          "I4: node %d has priority %d, floor %d, decay %u", id, n->priority, n->floor,
          n->decay_no);
    const struct unit_key key = { n->hash, n->parent, node_tokens(m, id), n->n_tokens,
                                  extra_entries(n->extras) };
    const int32_t found = pkv__index_find(m, &key);
    HOLDS(m, n->hash == pkv__unit_hash(m, &key) && (found == id) == (n->epoch == m->epoch),
          "I4: look-up of node %d of epoch %u finds %d", id, n->epoch, found);
    const int32_t extras = count_extras(m, n->extras, n->n_tokens);
    HOLDS(m, extras >= 0, "I4: extras of node %d are out of order", id);
    met->extras += extras;
    return check_slots(m, id, depth, met);
}

/* The tree of a namespace; every node is visited once. */
static pkv_status check_tree(const pkv_blockmgr *m, int32_t ns, struct content_count *met)
{
    int32_t id = namespaces_of(m)[ns].first_child, parent = root_of(ns), newer = NONE, depth = 0;
    while (id != NONE) {
        HOLDS(m, node_id(m, id) && ++met->indexed <= m->n_nodes,
              "I4: the tree of namespace %d names node %d", ns, id);
        pkv_status status = check_links(m, id, ns, parent, newer);
        if (status == PKV_OK) status = check_node(m, id, depth, met);
        if (status != PKV_OK) return status;
        if (node_at(m, id)->first_child != NONE) {
            parent = id, newer = NONE, id = node_at(m, id)->first_child;
            depth++;
            continue;
        }
        while (id != NONE && node_at(m, id)->older == NONE) {
            id = is_root(node_at(m, id)->parent) ? NONE : node_at(m, id)->parent;
            depth--;
        }
        if (id == NONE) break;
        newer = id, parent = node_at(m, id)->parent, id = node_at(m, id)->older;
    }
    return PKV_OK;
}

static pkv_status check_trees(const pkv_blockmgr *m, struct content_count *met)
{
    int32_t n_namespaces = 0;
    for (int32_t i = 0; i < m->max_namespaces; i++) {
        const struct ns_rec *ns = &namespaces_of(m)[i];
        n_namespaces += ns->n_opens > 0;
        HOLDS(m, ns->n_opens > 0 || ns->first_child == NONE || ns->generation == 0,
              "I8: closed namespace %d has content", i);
        const pkv_status status = ns->n_opens > 0 ? check_tree(m, i, met) : PKV_OK;
        if (status != PKV_OK) return status;
    }
    HOLDS(m, n_namespaces == m->n_namespaces, "I8: %d namespaces open, %d counted", n_namespaces,
          m->n_namespaces);
    return PKV_OK;
}

/* ---------------------------------------------------------------- prepared nodes */

static bool hangs_on(const pkv_blockmgr *m, int32_t block, int32_t node)
{
    int32_t n = 0, id = blocks_of(m)[block].prepared;
    while (id != NONE && id != node && node_id(m, id) && n++ < m->node_high)
        id = node_at(m, id)->older;
    return id == node;
}

/* A prepared node met on block b, which counts it if it is the node's first one. */
static pkv_status check_prepared(const pkv_blockmgr *m, int32_t id, int32_t b,
                                 struct content_count *met)
{
    const struct node *n = node_at(m, id);
    const int32_t slot = blocks_of(m)[b].slot;
    int32_t first = NONE;
    HOLDS(m, !n->indexed && n->holders > 0 && n->first_child == NONE,
          "I4: node %d, prepared on block %d, is indexed or has no holder", id, b);
    HOLDS(m, n->at[slot].block == b, "I4: node %d is prepared on block %d and names %d", id, b,
          n->at[slot].block);
    for (int32_t k = m->n_slots - 1; k >= 0; k--) {
        const struct node_slot *at = &n->at[k];
        HOLDS(m, at->oldest_spare == NONE && at->newest_spare == NONE,
              "I4: prepared node %d has spares", id);
        if (at->block == NONE) continue;
        HOLDS(m, block_id(m, at->block) && hangs_on(m, at->block, id),
              "I4: node %d is not on the prepared list of block %d", id, at->block);
        first = k;
    }
    if (slot != first) return PKV_OK;
    const int32_t extras = count_extras(m, n->extras, n->n_tokens);
    HOLDS(m, extras >= 0, "I4: extras of prepared node %d are out of order", id);
    met->extras += extras;
    met->prepared++;
    return PKV_OK;
}

static pkv_status check_all_prepared(const pkv_blockmgr *m, struct content_count *met)
{
    for (int32_t b = 1; b < m->n_blocks; b++) {
        int32_t longer = m->unit + 1;
        for (int32_t id = blocks_of(m)[b].prepared; id != NONE; id = node_at(m, id)->older) {
            HOLDS(m, node_id(m, id), "I4: node %d is prepared on block %d", id, b);
            HOLDS(m,
                  node_at(m, id)->n_tokens < longer && node_at(m, id)->n_tokens >= 1 &&
                      (m->partial || node_at(m, id)->n_tokens == m->unit),
                  "I4: node %d of %d tokens is prepared on block %d behind a shorter one", id,
                  node_at(m, id)->n_tokens, b);
            longer = node_at(m, id)->n_tokens;
            const pkv_status status = check_prepared(m, id, b, met);
            if (status != PKV_OK) return status;
        }
    }
    return PKV_OK;
}

/* ---------------------------------------------------------------- links */

/* Every block that claims to hold content is a block or spare of that node. */
static pkv_status check_block_links(const pkv_blockmgr *m, const struct content_count *met)
{
    int32_t n_main = 0, n_spares = 0, n_indexed = 0;
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *r = &blocks_of(m)[b];
        HOLDS(m, r->slot < m->n_slots, "I4: block %d is of slot %d", b, r->slot);
        if (r->node == NONE) continue;
        HOLDS(m, node_id(m, r->node), "I4: block %d holds node %d", b, r->node);
        HOLDS(m, r->spare || node_at(m, r->node)->at[r->slot].block == b,
              "I4: block %d is neither main block nor spare of node %d", b, r->node);
        n_main += !r->spare;
        n_spares += r->spare;
    }
    if (has_flag(m, PKV_MGR_PREFIX_CACHE))
        for (uint32_t i = 0; i <= m->index_mask; i++) n_indexed += index_of(m)[i] != NONE;
    HOLDS(m, n_spares == met->spares && n_main == met->mains,
          "I4: %d blocks say they are main and %d spare, nodes list %d and %d", n_main, n_spares,
          met->mains, met->spares);
    HOLDS(m, n_indexed == met->indexed && met->indexed + met->prepared == m->n_nodes,
          "I8: %d index entries, %d nodes in the trees, %d prepared, %d counted", n_indexed,
          met->indexed, met->prepared, m->n_nodes);
    return PKV_OK;
}

/* ---------------------------------------------------------------- lists */

/* The lists of what is evictable are linked both ways; positions in eviction order go into
 * `planned`. */
static pkv_status check_evict_lists(const pkv_blockmgr *m)
{
    int32_t position = 0;
    for (int c = 0; c < N_CLASSES; c++) {
        int32_t prev = NONE, n = 0;
        for (int32_t b = m->lists[c].head; b != NONE; prev = b, b = blocks_of(m)[b].next) {
            HOLDS(m, block_id(m, b) && ++n <= m->lists[c].n, "I7: list %d names block %d", c, b);
            struct block_rec *r = &blocks_of(m)[b];
            HOLDS(m, r->state == BLOCK_CACHED && r->prev == prev && r->planned == 0,
                  "I7: block %d is not linked into list %d", b, c);
            HOLDS(m, pkv__evict_list_of(m, b) == c, "I7: block %d is on list %d, its class is %d",
                  b, c, pkv__evict_list_of(m, b));
            r->planned = ++position;
        }
        HOLDS(m, n == m->lists[c].n && m->lists[c].tail == prev,
              "I7: list %d has %d blocks and ends at %d, counted %d and %d", c, n, prev,
              m->lists[c].n, m->lists[c].tail);
    }
    return PKV_OK;
}

/* A main block and the one before it on the way to the root, in a FULL group. */
static pkv_status check_before_parent(const pkv_blockmgr *m, int32_t b)
{
    const struct block_rec *r = &blocks_of(m)[b];
    const struct group_rec *grp = group_of_slot(m, r->slot);
    int32_t above = r->node;
    if (grp->kind != PKV_GROUP_FULL || m->raw_used) return PKV_OK;
    for (int32_t i = 0; i < grp->ratio && !is_root(above); i++) above = node_at(m, above)->parent;
    if (is_root(above)) return PKV_OK;
    const int32_t parent = node_at(m, above)->at[r->slot].block;
    HOLDS(m, parent != NONE, "I7: block %d has content whose parent has no block", b);
    if (blocks_of(m)[parent].state != BLOCK_CACHED) return PKV_OK;
    HOLDS(m, r->state == BLOCK_CACHED,
          "I7: block %d, which holds the parent of block %d, is cached", parent, b);
    HOLDS(m, r->planned < blocks_of(m)[parent].planned,
          "I7: block %d goes after block %d, which holds its parent", b, parent);
    return PKV_OK;
}

/* Stamps ascend, from the oldest open step to the newest begun one. */
static pkv_status check_limbo(const pkv_blockmgr *m)
{
    const uint32_t newest = (uint32_t)m->n_steps;
    int32_t prev = NONE, n = 0;
    uint32_t age = m->limbo.n > 0 ? newest - (uint32_t)pkv__oldest_open_step(m) : 0;
    for (int32_t b = m->limbo.head; b != NONE; prev = b, b = blocks_of(m)[b].next) {
        HOLDS(m, block_id(m, b) && ++n <= m->limbo.n, "I10: limbo names block %d", b);
        const struct block_rec *r = &blocks_of(m)[b];
        HOLDS(m, r->state == BLOCK_LIMBO && r->prev == prev && !r->spare,
              "I10: block %d is not linked into limbo", b);
        HOLDS(m, newest - r->stamp <= age,
              "I10: block %d in limbo has stamp %u, which is older than an open step or a block "
              "before it",
              b, r->stamp);
        age = newest - r->stamp;
    }
    HOLDS(m, n == m->limbo.n && m->limbo.tail == prev,
          "I10: limbo has %d blocks and ends at %d, counted %d and %d", n, prev, m->limbo.n,
          m->limbo.tail);
    return PKV_OK;
}

static pkv_status check_lists(const pkv_blockmgr *m)
{
    pkv_status status = check_evict_lists(m);
    for (int32_t b = 1; b < m->n_blocks && status == PKV_OK; b++)
        if (blocks_of(m)[b].node != NONE && !blocks_of(m)[b].spare)
            status = check_before_parent(m, b);
    for (int32_t b = 0; b < m->n_blocks; b++) blocks_of(m)[b].planned = 0;
    if (status == PKV_OK) status = check_limbo(m);
    return status;
}

/* ---------------------------------------------------------------- chains of units */

/* The prepared node of a unit; NONE if its block has none. */
static int32_t prepared_unit(const pkv_blockmgr *m, const struct seq_rec *s, int32_t u)
{
    const int32_t b = row_of(m, s, m->unit_group)[u];
    return block_id(m, b) ? pkv__prepared_on(m, b, m->unit) : NONE;
}

/* The blocks in the rows that end with unit u hold the node. */
static pkv_status check_unit(const pkv_blockmgr *m, const struct seq_rec *s, int32_t u, int32_t id)
{
    int32_t blocks[MAX_SLOTS];
    if (s->life != SEQ_OPEN) return PKV_OK;
    pkv__unit_blocks(m, s, u, blocks);
    for (int32_t k = 0; k < m->n_slots; k++) {
        if (blocks[k] <= 0) continue;
        const bool held = u < s->n_units ? blocks_of(m)[blocks[k]].node == id
                                         : node_at(m, id)->at[k].block == blocks[k];
        HOLDS(m, held, "I9: sequence %d: block %d does not hold unit %d", seq_index(m, s),
              blocks[k], u);
    }
    return PKV_OK;
}

static pkv_status check_chain(const pkv_blockmgr *m, const struct seq_rec *s)
{
    const int32_t idx = seq_index(m, s);
    pkv_status status = PKV_OK;
    int32_t id = s->last_node;
    for (int32_t u = s->n_units - 1; u >= 0 && status == PKV_OK; u--) {
        HOLDS(m, node_id(m, id) && node_at(m, id)->indexed, "I9: sequence %d: unit %d has no node",
              idx, u);
        status = check_unit(m, s, u, id);
        id = node_at(m, id)->parent;
    }
    if (status != PKV_OK) return status;
    HOLDS(m, id == root_of(s->ns), "I9: sequence %d does not begin at its root", idx);
    uint64_t hash =
        s->n_units > 0 ? node_at(m, s->last_node)->hash : namespaces_of(m)[s->ns].root_hash;
    for (int32_t u = s->n_units; u < s->n_full && status == PKV_OK; u++) {
        id = prepared_unit(m, s, u);
        HOLDS(m, id != NONE, "I9: sequence %d: unit %d is not prepared", idx, u);
        const struct node *n = node_at(m, id);
        const struct unit_key key = { 0, NONE, node_tokens(m, id), m->unit,
                                      extra_entries(n->extras) };
        HOLDS(m, n->hash == pkv__unit_hash_after(m, hash, &key),
              "I9: sequence %d: unit %d is prepared behind another one", idx, u);
        hash = n->hash;
        status = check_unit(m, s, u, id);
    }
    return status;
}

/* Units, tail and claim of one sequence. */
static pkv_status check_units(const pkv_blockmgr *m, const struct seq_rec *s, int32_t *n_extras)
{
    const int32_t idx = seq_index(m, s), whole = unit_index(m, s->committed);
    const int32_t old = pkv__min_i32(s->n_full, unit_index(m, s->settled));
    HOLDS(m, s->n_units >= 0 && s->n_units <= old && s->n_full <= whole && s->claim <= s->n_units,
          "I9: sequence %d: %d units, %d indexed, claim %d, %d tokens", idx, s->n_full, s->n_units,
          s->claim, s->committed);
    if (!has_flag(m, PKV_MGR_PREFIX_CACHE)) {
        HOLDS(m, s->n_full == 0, "I9: sequence %d has units without a cache", idx);
        return PKV_OK;
    }
    HOLDS(m, s->ended || (s->n_full == whole && s->n_units == old),
          "I9: sequence %d: %d units, %d indexed, of %d tokens, %d settled", idx, s->n_full,
          s->n_units, s->committed, s->settled);
    const int32_t extras =
        s->ended ? 0 : count_extras(m, s->tail_extras, unit_offset(m, s->committed));
    HOLDS(m, extras >= 0 && (!s->ended || s->tail_extras == NONE),
          "I9: sequence %d: extras of the tail are out of order", idx);
    *n_extras += extras;
    return check_chain(m, s);
}

/* Every sequence takes itself (-1) off the nodes that it holds or pins, or puts itself back (+1).
 */
static void count_holders(const pkv_blockmgr *m, int32_t by)
{
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        if (s->life == SEQ_FREE) continue;
        if (s->n_units > 0) node_at(m, s->last_node)->holders += by;
        for (int32_t u = s->n_units; u < s->n_full; u++)
            node_at(m, prepared_unit(m, s, u))->holders += by;
        if (!s->holds_tail) continue;
        const int32_t b = row_of(m, s, m->unit_group)[unit_index(m, s->committed)];
        const int32_t id = pkv__prepared_on(m, b, unit_offset(m, s->committed));
        if (id != NONE) node_at(m, id)->holders += by;
    }
}

static pkv_status check_tail_holders(const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        if (s->life == SEQ_FREE || !s->holds_tail) continue;
        const int32_t rest = unit_offset(m, s->committed);
        const int32_t b = row_of(m, s, m->unit_group)[unit_index(m, s->committed)];
        HOLDS(m,
              s->life == SEQ_CLOSING && rest > 0 && block_id(m, b) &&
                  pkv__prepared_on(m, b, rest) != NONE,
              "I9: sequence %d has no prepared tail", i);
    }
    return PKV_OK;
}

static pkv_status check_no_holders(const pkv_blockmgr *m)
{
    for (int32_t id = 0; id < m->node_high; id++)
        HOLDS(m, node_at(m, id)->holders == 0, "I9: node %d has %d holders more than sequences", id,
              node_at(m, id)->holders);
    return PKV_OK;
}

static pkv_status check_chains(const pkv_blockmgr *m, int32_t *n_extras)
{
    pkv_status status = PKV_OK;
    for (int32_t i = 0; i < m->max_seqs && status == PKV_OK; i++)
        if (seqs_of(m)[i].life != SEQ_FREE) status = check_units(m, &seqs_of(m)[i], n_extras);
    if (status == PKV_OK) status = check_tail_holders(m);
    if (status != PKV_OK || !has_flag(m, PKV_MGR_PREFIX_CACHE)) return status;
    count_holders(m, -1);
    status = check_no_holders(m);
    count_holders(m, 1);
    return status;
}

/* ---------------------------------------------------------------- steps and pending commits */

static bool in_set(const uint64_t *set, int32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

/* Entries follow one another from what is settled up to what is committed. */
static pkv_status check_pending(const pkv_blockmgr *m, const struct seq_rec *s)
{
    const struct pending *list = pending_of(m, s);
    const int32_t idx = seq_index(m, s);
    uint64_t steps = 0;
    HOLDS(m, s->n_pending <= m->max_steps, "I9: sequence %d has %d commits pending", idx,
          s->n_pending);
    const int32_t from = s->n_pending > 0 ? list[0].from : s->committed;
    HOLDS(m,
          s->settled == from || (m->partial && unit_offset(m, s->settled) == 0 &&
                                 from > s->settled && from - s->settled < m->unit),
          "I9: sequence %d: %d tokens settled, the first pending one is %d", idx, s->settled, from);
    HOLDS(m, s->life == SEQ_OPEN || s->n_pending > 0, "I9: sequence %d is closing for nothing",
          idx);
    for (int32_t i = 0; i < s->n_pending; i++) {
        const struct pending *p = &list[i];
        const int32_t end = i + 1 < s->n_pending ? list[i + 1].from : s->committed;
        HOLDS(m, p->from < p->upto && p->upto == end,
              "I9: sequence %d: tokens %d to %d pending before %d", idx, p->from, p->upto, end);
        HOLDS(m,
              p->step >= 0 && p->step < m->max_steps && steps_of(m)[p->step].number != 0 &&
                  !(steps >> p->step & 1),
              "I9: sequence %d: commits pending in step %d, not open or twice", idx, p->step);
        HOLDS(m, s->life != SEQ_OPEN || in_set(step_set(m, p->step), idx),
              "I9: step %d does not know of sequence %d", p->step, idx);
        steps |= UINT64_C(1) << p->step;
    }
    for (int32_t k = 0; k < m->max_steps; k++)
        HOLDS(m, !in_set(step_set(m, k), idx) || (s->life == SEQ_OPEN && steps >> k & 1),
              "I9: step %d names sequence %d, which has nothing pending in it", k, idx);
    return PKV_OK;
}

static pkv_status check_steps(const pkv_blockmgr *m)
{
    int32_t n_open = 0;
    for (int32_t i = 0; i < m->max_steps; i++) {
        n_open += steps_of(m)[i].number != 0;
        HOLDS(m, steps_of(m)[i].number <= m->n_steps, "I8: step %llu is open, %llu were begun",
              (unsigned long long)steps_of(m)[i].number, (unsigned long long)m->n_steps);
        for (int32_t k = 0; k < (int32_t)m->seq_words * 64; k++)
            HOLDS(m,
                  !in_set(step_set(m, i), k) || (k < m->max_seqs && seqs_of(m)[k].life == SEQ_OPEN),
                  "I9: step %d names sequence %d, which is not open", i, k);
        for (int32_t k = 0; k < i; k++)
            HOLDS(m, steps_of(m)[i].number == 0 || steps_of(m)[k].number != steps_of(m)[i].number,
                  "I8: step %llu is open twice", (unsigned long long)steps_of(m)[i].number);
    }
    HOLDS(m, n_open == m->n_open_steps, "I8: %d steps are open, %d counted", n_open,
          m->n_open_steps);
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        const pkv_status status = s->life == SEQ_FREE ? PKV_OK : check_pending(m, s);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

/* A row without its bit is as its copy. */
static pkv_status check_changes(const pkv_blockmgr *m)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const uint64_t *changed = all_changed(m) + (size_t)g * m->seq_words;
        for (int32_t i = 0; i < m->max_seqs; i++) {
            const struct row_change *c =
                &all_changes(m)[(size_t)g * (size_t)m->max_seqs + (size_t)i];
            const int32_t width = m->groups[g].row_width;
            HOLDS(m,
                  c->sent >= 0 && c->sent <= width && c->hi >= 0 && c->hi <= width &&
                      (c->hi > 0 ? c->lo >= 0 && c->lo < c->hi : c->lo == INT32_MAX),
                  "I5: row %d of group %d: %d sent, [%d, %d) changed", i, g, c->sent, c->lo, c->hi);
            HOLDS(m,
                  in_set(changed, i) ||
                      (c->hi == 0 && c->sent == pkv__row_len(m, &seqs_of(m)[i], g)),
                  "I5: row %d of group %d has changed, and no delta will say so", i, g);
        }
    }
    return PKV_OK;
}

pkv_status pkv__check_content(const pkv_blockmgr *m)
{
    struct content_count met = { 0 };
    pkv_status status = check_trees(m, &met);
    if (status == PKV_OK) status = check_all_prepared(m, &met);
    if (status == PKV_OK) status = check_block_links(m, &met);
    if (status == PKV_OK) status = check_lists(m);
    if (status == PKV_OK) status = check_chains(m, &met.extras);
    if (status == PKV_OK) status = check_steps(m);
    if (status == PKV_OK) status = check_changes(m);
    if (status != PKV_OK) return status;
    HOLDS(m, met.extras == m->n_extras, "I8: %d extra entries in use, %d counted", met.extras,
          m->n_extras);
    return PKV_OK;
}
