/* The invariants, and the function that verifies them. Every function of this part keeps:
 *
 *  I1 free + active + cached = n_blocks - 1
 *  I2 ref(b) = entries of b in the rows of open sequences; ACTIVE exactly if ref > 0
 *  I3 the free ids are distinct, FREE, without a node; nothing else is FREE
 *  I4 node <-> block links are mutual; every node is found by look-up from its root; parents are
 *     full units; spares are referenced and exist only beside a referenced main block
 *  I5 settled <= committed <= reserved; a row has ceil(reserved / block_tokens) ids, then zeros
 *  I6 the reserved slots of a sequence lie where it may write
 *  I7 CACHED blocks are on exactly one list, children of a cached block are cached, and in eviction
 *     order no child comes after its parent
 *  I8 counts of nodes, extras, sequences and namespaces agree with what is there
 *  I9 block i of an open sequence holds the content of unit i, for every unit it has indexed
 *
 * `planned` of the block records is the scratch: zero before and after. */
#include "blockmgr_internal.h"

#define HOLDS(m, cond, ...)                                                                        \
    do {                                                                                           \
        if (PKV_UNLIKELY(!(cond)))                                                                 \
            return pkv__refuse(&(m)->log, PKV_E_CORRUPT, "block manager: " __VA_ARGS__);           \
    } while (0)

static bool block_id(const pkv_blockmgr *m, int32_t b)
{
    return b >= 1 && b < m->n_blocks;
}

static pkv_status check_counts(const pkv_blockmgr *m)
{
    const int64_t sum = (int64_t)m->n_free + m->n_active + cached_blocks(m);
    HOLDS(m, sum == m->n_blocks - 1 && m->n_free >= 0 && m->n_active >= 0,
          "I1: %d free + %d active + %d cached of %d blocks", m->n_free, m->n_active,
          cached_blocks(m), m->n_blocks);
    HOLDS(m,
          m->n_seqs >= 0 && m->n_seqs <= m->max_seqs &&
              (m->free_seq == NONE) == (m->n_seqs == m->max_seqs),
          "I8: %d sequences open of %d", m->n_seqs, m->max_seqs);
    HOLDS(m, m->n_nodes >= 0 && m->n_nodes <= m->node_high && m->node_high <= m->max_nodes,
          "I8: %d nodes, %d ever used, of %d", m->n_nodes, m->node_high, m->max_nodes);
    return PKV_OK;
}

/* Rows of one sequence; counts its references into `planned`. */
static pkv_status check_row(const pkv_blockmgr *m, int32_t idx)
{
    const struct seq_rec *s = &seqs_of(m)[idx];
    const int32_t *row = row_of(m, s), n = blocks_for(m, s->reserved);
    HOLDS(m,
          s->settled >= 0 && s->settled <= s->committed && s->committed <= s->reserved &&
              s->reserved <= m->max_seq_tokens,
          "I5: sequence %d: lengths %d, %d, %d", idx, s->settled, s->committed, s->reserved);
    for (int32_t i = 0; i < m->row_width; i++) {
        if (i >= n) {
            HOLDS(m, row[i] == 0, "I5: sequence %d: entry %d behind its row is %d", idx, i, row[i]);
            continue;
        }
        HOLDS(m, block_id(m, row[i]), "I5: sequence %d: entry %d is %d", idx, i, row[i]);
        blocks_of(m)[row[i]].planned++;
    }
    const int32_t offset = block_offset(m, s->committed);
    if (s->reserved == s->committed || offset == 0) return PKV_OK;
    const struct block_rec *tail = &blocks_of(m)[row[block_index(m, s->committed)]];
    HOLDS(m, tail->ref == 1 && (tail->node == NONE || node_at(m, tail->node)->n_tokens <= offset),
          "I6: sequence %d has room in block %d, which it must not write", idx,
          row[block_index(m, s->committed)]);
    return PKV_OK;
}

static pkv_status check_one_block(const pkv_blockmgr *m, int32_t b, int32_t count[3])
{
    const struct block_rec *r = &blocks_of(m)[b];
    HOLDS(m, r->state <= BLOCK_CACHED, "I1: block %d is in state %d", b, r->state);
    count[r->state]++;
    HOLDS(m, r->ref == r->planned, "I2: block %d has ref %d, rows name it %d times", b, r->ref,
          r->planned);
    HOLDS(m, (r->state == BLOCK_ACTIVE) == (r->ref > 0), "I2: block %d has ref %d in state %d", b,
          r->ref, r->state);
    HOLDS(m, r->state != BLOCK_FREE || r->node == NONE, "I3: free block %d holds node %d", b,
          r->node);
    HOLDS(m, r->state != BLOCK_CACHED || (r->node != NONE && !r->spare),
          "I7: cached block %d is not the main block of a node", b);
    return PKV_OK;
}

static pkv_status check_free_ids(const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->n_free; i++) {
        const int32_t b = free_ids_of(m)[i];
        HOLDS(m, block_id(m, b) && blocks_of(m)[b].state == BLOCK_FREE,
              "I3: free id %d is not a free block", b);
        HOLDS(m, blocks_of(m)[b].planned == 0, "I3: block %d is free twice", b);
        blocks_of(m)[b].planned = 1;
    }
    for (int32_t i = 0; i < m->n_free; i++) blocks_of(m)[free_ids_of(m)[i]].planned = 0;
    return PKV_OK;
}

static void clear_scratch(const pkv_blockmgr *m)
{
    for (int32_t b = 0; b < m->n_blocks; b++) blocks_of(m)[b].planned = 0;
}

static pkv_status check_blocks(const pkv_blockmgr *m)
{
    pkv_status status = PKV_OK;
    int32_t count[3] = { 0, 0, 0 }, n_open = 0;
    for (int32_t i = 0; i < m->max_seqs && status == PKV_OK; i++) {
        n_open += seqs_of(m)[i].open;
        if (seqs_of(m)[i].open) status = check_row(m, i);
    }
    for (int32_t b = 1; b < m->n_blocks && status == PKV_OK; b++)
        status = check_one_block(m, b, count);
    clear_scratch(m);
    if (status != PKV_OK) return status;
    HOLDS(m, n_open == m->n_seqs, "I8: %d sequences are open, %d counted", n_open, m->n_seqs);
    HOLDS(m,
          count[BLOCK_FREE] == m->n_free && count[BLOCK_ACTIVE] == m->n_active &&
              count[BLOCK_CACHED] == cached_blocks(m),
          "I1: states %d/%d/%d, counters %d/%d/%d", count[0], count[1], count[2], m->n_free,
          m->n_active, cached_blocks(m));
    return check_free_ids(m);
}

static int32_t count_extras(const pkv_blockmgr *m, int32_t entry, int32_t n_tokens)
{
    int32_t n = 0;
    for (int64_t last = INT64_MIN; entry != NONE; n++, entry = extras_of(m)[entry].next) {
        const struct extra_entry *e = &extras_of(m)[entry];
        if (e->offset <= last || e->offset >= n_tokens || e->offset + e->n <= 0) return -1;
        last = e->offset;
    }
    return n;
}

/* What the walk over the trees has met. */
struct content_count {
    int32_t nodes, extras, spares;
};

/* Spares of a node: linked both ways, referenced, beside a referenced main block. */
static pkv_status check_spares(const pkv_blockmgr *m, int32_t id, struct content_count *met)
{
    const struct node *n = node_at(m, id);
    int32_t prev = NONE;
    for (int32_t b = n->oldest_spare; b != NONE; prev = b, b = blocks_of(m)[b].next) {
        HOLDS(m, block_id(m, b), "I4: node %d has spare %d", id, b);
        met->spares++;
        const struct block_rec *r = &blocks_of(m)[b];
        HOLDS(m, r->spare && r->node == id && r->ref > 0 && r->prev == prev,
              "I4: spare %d of node %d is not linked or not referenced", b, id);
        HOLDS(m, blocks_of(m)[n->block].ref > 0, "I4: node %d has spares and a cached block", id);
    }
    HOLDS(m, n->newest_spare == prev, "I4: node %d: newest spare is %d, the list ends at %d", id,
          n->newest_spare, prev);
    return PKV_OK;
}

static pkv_status check_node(const pkv_blockmgr *m, int32_t id, int32_t parent, int32_t newer,
                             struct content_count *met)
{
    const struct node *n = node_at(m, id);
    HOLDS(m, n->parent == parent && n->newer == newer, "I4: node %d is not linked to its family",
          id);
    HOLDS(m, is_root(parent) || node_at(m, parent)->n_tokens == m->block_tokens,
          "I4: partial node %d has a child", parent);
    HOLDS(m, n->n_tokens >= 1 && n->n_tokens <= m->block_tokens, "I4: node %d has %d tokens", id,
          n->n_tokens);
    HOLDS(m, block_id(m, n->block), "I4: node %d has block %d", id, n->block);
    const struct block_rec *r = &blocks_of(m)[n->block];
    HOLDS(m, r->node == id && !r->spare && r->state != BLOCK_FREE,
          "I4: block %d of node %d does not hold it", n->block, id);
    const struct unit_key key = { n->hash, parent, node_tokens(m, id), n->n_tokens,
                                  extra_entries(n->extras) };
    HOLDS(m, n->hash == pkv__unit_hash(m, &key) && pkv__index_find(m, &key) == id,
          "I4: node %d is not found by look-up", id);
    const int32_t extras = count_extras(m, n->extras, n->n_tokens);
    HOLDS(m, extras >= 0, "I4: extras of node %d are out of order", id);
    met->extras += extras;
    return check_spares(m, id, met);
}

/* The trees of all namespaces; every node is visited once. */
static pkv_status check_trees(const pkv_blockmgr *m, struct content_count *met)
{
    int32_t n_namespaces = 0;
    for (int32_t i = 0; i < m->max_namespaces; i++) {
        const struct ns_rec *ns = &namespaces_of(m)[i];
        n_namespaces += ns->n_opens > 0;
        HOLDS(m, ns->n_opens > 0 || ns->first_child == NONE || ns->generation == 0,
              "I8: closed namespace %d has content", i);
        if (ns->n_opens == 0) continue;
        int32_t id = ns->first_child, parent = root_of(i), newer = NONE;
        while (id != NONE) {
            HOLDS(m, id >= 0 && id < m->node_high && ++met->nodes <= m->n_nodes,
                  "I4: the tree of namespace %d names node %d", i, id);
            const pkv_status status = check_node(m, id, parent, newer, met);
            if (status != PKV_OK) return status;
            if (node_at(m, id)->first_child != NONE) {
                parent = id, newer = NONE, id = node_at(m, id)->first_child;
                continue;
            }
            while (id != NONE && node_at(m, id)->older == NONE)
                id = is_root(node_at(m, id)->parent) ? NONE : node_at(m, id)->parent;
            if (id == NONE) break;
            newer = id, parent = node_at(m, id)->parent, id = node_at(m, id)->older;
        }
    }
    HOLDS(m, met->nodes == m->n_nodes, "I8: %d nodes in the trees, %d counted", met->nodes,
          m->n_nodes);
    HOLDS(m, n_namespaces == m->n_namespaces, "I8: %d namespaces open, %d counted", n_namespaces,
          m->n_namespaces);
    return PKV_OK;
}

/* Every block that claims to hold content is a block or spare of that node. */
static pkv_status check_block_links(const pkv_blockmgr *m, const struct content_count *met)
{
    int32_t n_main = 0, n_spares = 0, n_indexed = 0;
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *r = &blocks_of(m)[b];
        if (r->node == NONE) continue;
        HOLDS(m, r->node >= 0 && r->node < m->node_high, "I4: block %d holds node %d", b, r->node);
        HOLDS(m, r->spare || node_at(m, r->node)->block == b,
              "I4: block %d is neither main block nor spare of node %d", b, r->node);
        n_main += !r->spare;
        n_spares += r->spare;
    }
    if (has_flag(m, PKV_MGR_PREFIX_CACHE))
        for (uint32_t i = 0; i <= m->index_mask; i++) n_indexed += index_of(m)[i] != NONE;
    HOLDS(m, n_spares == met->spares, "I4: %d blocks say they are spares, nodes list %d", n_spares,
          met->spares);
    HOLDS(m, n_main == m->n_nodes && n_indexed == m->n_nodes,
          "I8: %d main blocks, %d index entries, %d nodes", n_main, n_indexed, m->n_nodes);
    return PKV_OK;
}

/* The lists of unused nodes, extra entries and sequences: as long as the counts say, and nothing on
 * them is in use. */
static pkv_status check_free_records(const pkv_blockmgr *m)
{
    int32_t n = 0;
    for (int32_t id = m->free_node; id != NONE; id = node_at(m, id)->older) {
        HOLDS(m, id >= 0 && id < m->node_high && ++n <= m->node_high - m->n_nodes,
              "I8: node %d cannot be free", id);
        const int32_t b = node_at(m, id)->block;
        HOLDS(m, !block_id(m, b) || blocks_of(m)[b].node != id || blocks_of(m)[b].spare,
              "I8: node %d is free and in use", id);
    }
    HOLDS(m, n == m->node_high - m->n_nodes, "I8: %d of %d unused nodes are listed", n,
          m->node_high - m->n_nodes);
    n = 0;
    for (int32_t e = m->free_extra; e != NONE; e = extras_of(m)[e].next)
        HOLDS(m, e >= 0 && e < m->extra_high && ++n <= m->extra_high - m->n_extras,
              "I8: extra entry %d cannot be free", e);
    HOLDS(m, n == m->extra_high - m->n_extras, "I8: %d of %d unused extra entries are listed", n,
          m->extra_high - m->n_extras);
    n = 0;
    for (int32_t i = m->free_seq; i != NONE; i = seqs_of(m)[i].next_free)
        HOLDS(m, i >= 0 && i < m->max_seqs && !seqs_of(m)[i].open && ++n <= m->max_seqs - m->n_seqs,
              "I8: sequence %d cannot be free", i);
    HOLDS(m, n == m->max_seqs - m->n_seqs, "I8: %d of %d unused sequences are listed", n,
          m->max_seqs - m->n_seqs);
    return PKV_OK;
}

/* Lists are linked both ways; positions in eviction order go into `planned`. */
static pkv_status check_lists(const pkv_blockmgr *m)
{
    int32_t position = 0;
    for (int c = 0; c < N_CLASSES; c++) {
        int32_t prev = NONE, n = 0;
        for (int32_t b = m->lists[c].head; b != NONE; prev = b, b = blocks_of(m)[b].next) {
            HOLDS(m, block_id(m, b) && ++n <= m->lists[c].n, "I7: list %d names block %d", c, b);
            struct block_rec *r = &blocks_of(m)[b];
            HOLDS(m,
                  r->state == BLOCK_CACHED && r->evict_class == c && r->prev == prev &&
                      r->planned == 0,
                  "I7: block %d is not linked into list %d", b, c);
            r->planned = ++position;
        }
        HOLDS(m, n == m->lists[c].n && m->lists[c].tail == prev,
              "I7: list %d has %d blocks and ends at %d, counted %d and %d", c, n, prev,
              m->lists[c].n, m->lists[c].tail);
    }
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *r = &blocks_of(m)[b];
        if (r->node == NONE || r->spare || is_root(node_at(m, r->node)->parent)) continue;
        const int32_t parent = node_at(m, node_at(m, r->node)->parent)->block;
        if (blocks_of(m)[parent].state != BLOCK_CACHED) continue;
        HOLDS(m, r->state == BLOCK_CACHED && r->planned < blocks_of(m)[parent].planned,
              "I7: block %d goes after block %d, which holds its parent", b, parent);
    }
    return PKV_OK;
}

/* The chain of units of each open sequence, and its tail. */
static pkv_status check_chains(const pkv_blockmgr *m, int32_t *n_extras)
{
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        if (!s->open) continue;
        const int32_t tail = s->committed - s->n_units * m->block_tokens;
        HOLDS(m, s->n_units >= 0 && s->claim <= s->n_units && tail >= 0,
              "I9: sequence %d: %d units, claim %d, %d tokens", i, s->n_units, s->claim,
              s->committed);
        int32_t id = s->last_node;
        for (int32_t u = s->n_units - 1; u >= 0; u--) {
            HOLDS(m, id >= 0 && blocks_of(m)[row_of(m, s)[u]].node == id,
                  "I9: sequence %d: block %d does not hold unit %d", i, row_of(m, s)[u], u);
            id = node_at(m, id)->parent;
        }
        HOLDS(m, id == root_of(s->ns), "I9: sequence %d does not begin at its root", i);
        if (!has_flag(m, PKV_MGR_PREFIX_CACHE)) continue;
        HOLDS(m, s->ended || tail < m->block_tokens, "I9: sequence %d: a tail of %d tokens", i,
              tail);
        const int32_t extras = s->ended ? 0 : count_extras(m, s->tail_extras, tail);
        HOLDS(m, extras >= 0 && (!s->ended || s->tail_extras == NONE),
              "I9: sequence %d: extras of the tail are out of order", i);
        *n_extras += extras;
    }
    return PKV_OK;
}

static pkv_status check_content(const pkv_blockmgr *m)
{
    struct content_count met = { 0, 0, 0 };
    pkv_status status = check_trees(m, &met);
    if (status == PKV_OK) status = check_block_links(m, &met);
    if (status == PKV_OK) status = check_free_records(m);
    if (status == PKV_OK) {
        status = check_lists(m);
        clear_scratch(m);
    }
    if (status == PKV_OK) status = check_chains(m, &met.extras);
    if (status != PKV_OK) return status;
    HOLDS(m, met.extras == m->n_extras, "I8: %d extra entries in use, %d counted", met.extras,
          m->n_extras);
    return PKV_OK;
}

pkv_status pkv_blockmgr_check(const pkv_blockmgr *mgr, int level)
{
    if (!mgr || level < 1 || level > 3) return PKV_E_INVALID_ARG;
    pkv_status status = check_counts(mgr);
    if (status == PKV_OK && level >= 2) status = check_blocks(mgr);
    if (status == PKV_OK && level >= 3) status = check_content(mgr);
    return status;
}
