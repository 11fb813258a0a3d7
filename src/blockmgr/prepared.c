/* Content that is not findable yet: what was committed in a step that has not retired.
 *
 *   sequence   units  [ indexed: 0 .. n_units )[ prepared: n_units .. n_full )[ tail ]
 *   block 7 -> prepared node (16 tokens, 2 holders) -> prepared node (6 tokens, 1 holder)
 *
 * A prepared node hangs on every block that ends with it; several sequences hold one after a fork.
 * Contents prepared on one block are prefixes of one another, because nobody writes under one
 * (B12), so a list from the longest to the shortest says all. The holders of a unit settle it in
 * the same retire: what a fork shares was committed in the same steps. The first indexes it, the
 * others follow. Its parent is not kept: whoever settles a unit knows it. */
#include "blockmgr_internal.h"

int32_t pkv__prepared_on(const pkv_blockmgr *m, int32_t block, int32_t n_tokens)
{
    int32_t id = blocks_of(m)[block].prepared;
    while (id != NONE && node_at(m, id)->n_tokens > n_tokens) id = node_at(m, id)->older;
    return id != NONE && node_at(m, id)->n_tokens == n_tokens ? id : NONE;
}

/* Put the node on the lists of its blocks. With partial nodes about, all groups have equal blocks
 * and the lists of all these blocks are the same. */
static void hang(pkv_blockmgr *m, int32_t id, const int32_t *blocks)
{
    struct node *n = node_at(m, id);
    for (int32_t k = 0; k < m->n_slots; k++) {
        if (blocks[k] == 0) continue;
        int32_t *link = &blocks_of(m)[blocks[k]].prepared;
        while (*link != NONE && *link != id && node_at(m, *link)->n_tokens > n->n_tokens)
            link = &node_at(m, *link)->older;
        n->at[k].block = blocks[k];
        if (*link == id) continue;
        n->older = *link;
        *link = id;
    }
}

static void unhang(pkv_blockmgr *m, int32_t id)
{
    const struct node *n = node_at(m, id);
    for (int32_t k = 0; k < m->n_slots; k++) {
        if (n->at[k].block == NONE) continue;
        int32_t *link = &blocks_of(m)[n->at[k].block].prepared;
        while (*link != NONE && *link != id) link = &node_at(m, *link)->older;
        if (*link == id) *link = n->older;
    }
}

void pkv__prepared_drop(pkv_blockmgr *m, int32_t id)
{
    if (--node_at(m, id)->holders > 0) return;
    unhang(m, id);
    pkv__node_give(m, id);
}

void pkv__units_drop(pkv_blockmgr *m, struct seq_rec *s, int32_t n_units)
{
    const int32_t *row = row_of(m, s, m->unit_group);
    for (int32_t u = s->n_full - 1; u >= n_units && u >= s->n_units; u--)
        pkv__prepared_drop(m, pkv__prepared_on(m, row[u], m->unit));
    s->n_full = n_units;
}

/* The hash that the unit before this one has, which need not be indexed. */
static uint64_t hash_before(const pkv_blockmgr *m, const struct seq_rec *s)
{
    if (s->n_full == s->n_units)
        return is_root(s->last_node) ? namespaces_of(m)[ns_of_root(s->last_node)].root_hash
                                     : node_at(m, s->last_node)->hash;
    const int32_t block = row_of(m, s, m->unit_group)[s->n_full - 1];
    return node_at(m, pkv__prepared_on(m, block, m->unit))->hash;
}

/* The tail, n_tokens of it, as a prepared node on these blocks; NONE when no node is left. */
static int32_t prepare(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens, const int32_t *blocks)
{
    const int32_t id = pkv__node_take(m);
    if (id == NONE) return NONE;
    struct unit_key key = { 0, NONE, tail_tokens(m, s), n_tokens, extra_entries(s->tail_extras) };
    key.hash = pkv__unit_hash_after(m, hash_before(m, s), &key);
    pkv__node_fill(m, id, &key, &s->tail_extras);
    node_at(m, id)->holders = 1;
    hang(m, id, blocks);
    return id;
}

bool pkv__unit_prepare(pkv_blockmgr *m, struct seq_rec *s)
{
    int32_t blocks[MAX_SLOTS];
    pkv__unit_blocks(m, s, s->n_full, blocks);
    if (prepare(m, s, m->unit, blocks) == NONE) return false;
    s->n_full++;
    return true;
}

/* The node becomes findable behind `parent`, or joins what is there already. Where it was joined it
 * stays on its blocks, naming the other node, until its last holder has come by. NONE: neither. */
static int32_t settle(pkv_blockmgr *m, int32_t id, int32_t parent)
{
    struct node *n = node_at(m, id);
    if (n->first_child != NONE) return n->first_child;
    unhang(m, id);
    const int32_t found = pkv__node_index(m, id, parent);
    if (found == id) return id;
    int32_t blocks[MAX_SLOTS] = { 0 };
    pkv__node_blocks(m, n, blocks);
    hang(m, id, blocks);
    n->first_child = found;
    return found;
}

/* Indexing ends before the first unit that is not indexed. */
static void end_here(pkv_blockmgr *m, struct seq_rec *s)
{
    m->unindexed_units += (uint64_t)(s->n_full - s->n_units);
    pkv__units_drop(m, s, s->n_units);
    pkv__tail_drop(m, s);
    pkv__extras_drop(m, &s->tail_extras);
    s->ended = true;
}

void pkv__units_settle(pkv_blockmgr *m, struct seq_rec *s)
{
    const int32_t *row = row_of(m, s, m->unit_group);
    while (s->n_units < s->n_full && (s->n_units + 1) * m->unit <= s->settled) {
        const int32_t block = row[s->n_units];
        const int32_t id = pkv__prepared_on(m, block, m->unit);
        int32_t node = blocks_of(m)[block].node; /* another holder has indexed it */
        if (id != NONE) node = s->epoch == m->epoch ? settle(m, id, s->last_node) : NONE;
        if (node == NONE) {
            end_here(m, s);
            return;
        }
        if (id != NONE && node != id) pkv__prepared_drop(m, id);
        pkv__last_node_set(m, s, node);
        s->n_units++;
    }
}

/* ---------------------------------------------------------------- partial tails of closing ones */

void pkv__tail_blocks(const pkv_blockmgr *m, const struct seq_rec *s, int32_t *blocks)
{
    for (int32_t g = 0; g < m->n_groups; g++)
        blocks[m->groups[g].slot] = row_of(m, s, g)[unit_index(m, s->committed)];
}

void pkv__tail_prepare(pkv_blockmgr *m, struct seq_rec *s)
{
    int32_t blocks[MAX_SLOTS];
    const int32_t rest = unit_offset(m, s->committed);
    if (!m->partial) pkv__extras_drop(m, &s->tail_extras); /* nobody will ask for the tail again */
    if (!m->partial || s->ended || rest == 0 || s->epoch != m->epoch) return;
    pkv__tail_blocks(m, s, blocks);
    if (pkv__block_covered(m, blocks[0]) >= rest) return; /* one per block: the longest */
    s->holds_tail = prepare(m, s, rest, blocks) != NONE;
}

void pkv__tail_drop(pkv_blockmgr *m, struct seq_rec *s)
{
    if (!s->holds_tail) return;
    const int32_t block = row_of(m, s, m->unit_group)[unit_index(m, s->committed)];
    const int32_t id = pkv__prepared_on(m, block, unit_offset(m, s->committed));
    s->holds_tail = false;
    if (id == NONE) return;
    s->tail_extras = node_at(m, id)->extras; /* an abort may cut into the tail */
    node_at(m, id)->extras = NONE;
    pkv__prepared_drop(m, id);
}

void pkv__tail_settle(pkv_blockmgr *m, struct seq_rec *s)
{
    if (!s->holds_tail) return;
    const int32_t rest = unit_offset(m, s->committed);
    const struct block_rec *rec =
        &blocks_of(m)[row_of(m, s, m->unit_group)[unit_index(m, s->committed)]];
    const int32_t id = pkv__prepared_on(m, (int32_t)(rec - blocks_of(m)), rest);
    const bool longer =
        (rec->node != NONE && node_at(m, rec->node)->n_tokens >= rest) || rec->prepared != id;
    s->holds_tail = id != NONE;
    if (id != NONE && !longer && s->settled == s->committed && s->epoch == m->epoch &&
        settle(m, id, s->last_node) == id)
        s->holds_tail = false; /* it has become the node */
    pkv__tail_drop(m, s);
}
