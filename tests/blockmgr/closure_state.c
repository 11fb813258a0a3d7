/* The name of a state: everything that answers to later calls, or later checks, depend on.
 *
 * Left out, because nothing depends on it: ids of blocks, host blocks and nodes (they are renamed
 * in the order in which the description meets them, and free ones are all alike), generations,
 * numbers of steps (only their order counts, and which of the open ones a stamp is not before),
 * decays and epochs (only what they have left), scratch, statistics, row changes (the delta is
 * asked for after every call), and the order of free slots in the index (its probe bound is out of
 * reach here).
 *
 * Sequences are interchangeable where nothing is done in order of their index: that is everything
 * but the end of a step and of a swap. So without steps and a host tier their order in a
 * description is one that does not depend on their index (by what can be seen of each alone, and
 * of all orders that this leaves the one with the smallest description), and it does not matter
 * which record is the next free one. Any order is sound, since a description is complete whatever
 * the order is; this one gives equal states equal names, which --verify relies on. */
#include "closure.h"

struct naming {
    const pkv_blockmgr *m;
    const struct world *w;
    bool world; /* what the world knows besides belongs to the name */
    uint8_t block[MAX_BLOCKS + 1], host[MAX_HOST];
    uint8_t order[MAX_SEQS];
    uint8_t n_blocks, n_hosts, n_nodes;
    uint8_t *node; /* [max_nodes] */
    int n;
    uint8_t text[4096];
};

static bool interchangeable(void)
{
    return opt.steps == 0 && opt.host == 0;
}

static void add(struct naming *k, int64_t x)
{
    if (k->n == (int)sizeof k->text - 8 || x < -16 || x > 239) die("a state that has no name");
    k->text[k->n++] = (uint8_t)(x + 16);
}

static void add_block(struct naming *k, int32_t b)
{
    if (b <= 0) {
        add(k, b);
        return;
    }
    if (k->block[b] == 0) k->block[b] = ++k->n_blocks;
    add(k, k->block[b]);
}

/* An entry of a row: device block, none, or host block. */
static void add_entry(struct naming *k, int32_t id)
{
    add(k, id < 0);
    if (id >= 0) {
        add_block(k, id);
        return;
    }
    if (k->host[-id] == 0) k->host[-id] = ++k->n_hosts;
    add(k, k->host[-id]);
}

/* Open steps that a number is not before. */
static int rank_of(const struct naming *k, uint32_t number)
{
    int n = 0;
    for (int i = 0; i < MAX_STEPS; i++)
        n += k->w->step[i] != 0 && (int32_t)((uint32_t)k->w->step[i] - number) <= 0;
    return n;
}

static void add_node(struct naming *k, int32_t id)
{
    const pkv_blockmgr *m = k->m;
    struct node n = *node_at(m, id);
    pkv__node_age(m, &n);
    add(k, n.n_tokens);
    for (int32_t i = 0; i < n.n_tokens; i++) add(k, node_tokens(m, id)[i]);
    add(k, n.hit), add(k, n.holders), add(k, n.epoch == m->epoch);
    add(k, n.priority), add(k, n.floor);
    for (int32_t i = 0; i < m->n_slots; i++) {
        const struct node_slot *at = &node_at(m, id)->at[i];
        add_block(k, at->block);
        for (int32_t b = at->oldest_spare; b != NONE; b = blocks_of(m)[b].next) add_block(k, b);
        add(k, -1);
    }
}

static void add_tree(struct naming *k, int32_t first)
{
    for (int32_t id = first; id != NONE; id = node_at(k->m, id)->older) {
        k->node[id] = ++k->n_nodes;
        add_node(k, id);
        add_tree(k, node_at(k->m, id)->first_child);
    }
    add(k, -2);
}

/* Where the bytes of tokens that have not settled are, and what may be committed in a step. */
static void add_launches(struct naming *k, int s)
{
    const struct seq_rec *rec = &seqs_of(k->m)[s];
    const struct world *w = k->w;
    for (int i = 0; i < opt.steps && rec->life == SEQ_OPEN; i++)
        add(k, w->launched[i][s] > rec->committed ? w->launched[i][s] : 0);
    for (int g = 0; g < k->m->n_groups && opt.steps > 0 && !opt.in_order; g++) {
        const int T = k->m->groups[g].block_tokens;
        if (rec->life != SEQ_OPEN || rec->swap != PKV_SEQ_RUNNING) return;
        for (int pos = rec->settled; pos < rec->reserved; pos++) {
            const int cell = cell_of(row_at(k->m, g, s)[pos / T], pos % T);
            const uint32_t word = w->early[cell];
            int bits = w->late[cell] == word || pos >= rec->committed;
            for (int i = 0; i < MAX_STEPS; i++)
                bits = bits * 3 + (w->waiting[i][cell] == 0      ? 0
                                   : w->waiting[i][cell] == word ? 1
                                                                 : 2);
            add(k, bits);
        }
    }
}

static void add_tail(struct naming *k, const struct seq_rec *s)
{
    const int32_t start = s->n_full * k->m->unit;
    for (int32_t i = start; i < s->committed && !s->ended; i++)
        add(k, tail_tokens(k->m, s)[i - start]);
}

static void add_rows(struct naming *k, const struct seq_rec *s)
{
    const pkv_blockmgr *m = k->m;
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        /* Of a closing one only the blocks of what has yet to settle. */
        const bool closing = s->life == SEQ_CLOSING;
        const int32_t n = row_entries(grp, closing ? s->committed : s->reserved);
        for (int32_t i = closing ? s->n_units / grp->ratio : 0; i < n; i++)
            add_entry(k, row_of(m, s, g)[i]);
        add(k, pkv__max_i32(seq_group(m, s, g)->gap_end, grp->sink_blocks));
        add(k, seq_group(m, s, g)->own_from);
    }
}

static void add_sequence(struct naming *k, int i)
{
    const pkv_blockmgr *m = k->m;
    const struct seq_rec *s = &seqs_of(m)[i];
    add(k, s->life);
    if (s->life == SEQ_FREE) return;
    const int32_t fields[] = { s->swap,
                               s->ns,
                               s->settled,
                               s->committed,
                               s->reserved,
                               s->n_units,
                               s->n_full,
                               s->claim,
                               s->ended,
                               s->holds_tail,
                               s->epoch == m->epoch,
                               is_root(s->last_node) ? 0 : k->node[s->last_node] };
    for (size_t f = 0; f < PKV_ARRAY_LEN(fields); f++) add(k, fields[f]);
    add_rows(k, s);
    add_tail(k, s);
    for (int p = 0; p < s->n_pending; p++) {
        const struct pending *e = &pending_of(m, s)[p];
        add(k, rank_of(k, (uint32_t)steps_of(m)[e->step].number));
        add(k, e->from), add(k, e->upto);
    }
    add(k, -1);
    if (k->world) add_launches(k, i);
}

/* Prepared content, on the blocks named so far; what is on others cannot be reached. */
static void add_prepared(struct naming *k)
{
    int32_t by_name[MAX_BLOCKS + 1] = { 0 };
    for (int32_t b = 1; b < k->m->n_blocks; b++) by_name[k->block[b]] = b;
    for (int name = 1; name <= k->n_blocks; name++) {
        int32_t id = blocks_of(k->m)[by_name[name]].prepared;
        for (; id != NONE; id = node_at(k->m, id)->older) {
            const int32_t joined = node_at(k->m, id)->first_child;
            add_node(k, id);
            add(k, joined == NONE ? 0 : k->node[joined]);
        }
        add(k, -1);
    }
}

static void add_holds(struct naming *k)
{
    const pkv_blockmgr *m = k->m;
    for (int32_t i = 0; i < m->max_holds; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        add(k, h->life);
        if (h->life == HOLD_FREE) continue;
        add(k, h->kind), add(k, k->world ? (int64_t)(h->word & 0xff) : 0), add(k, h->n_tokens);
        const int32_t *ids = pkv__hold_ids(m, h);
        for (int32_t g = 0; g < m->n_groups; g++) {
            add(k, h->first[g]), add(k, h->n_blocks[g]);
            for (int32_t b = 0; h->kind == HOLD_PREFIX && b < h->n_blocks[g]; b++)
                add_block(k, *ids++);
        }
        for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next) {
            add_block(k, b);
            add_entry(k, -swaps_of(m)[b].host);
        }
        for (int32_t s = h->first_seq; s != NONE; s = seqs_of(m)[s].link) add(k, s);
        add(k, -1);
    }
    for (int32_t i = m->free_hold; i != NONE; i = holds_of(m)[i].next_free) add(k, i);
}

static void add_pool(struct naming *k)
{
    const pkv_blockmgr *m = k->m;
    const struct block_rec *blocks = blocks_of(m);
    for (int c = 0; c < N_CLASSES; c++, add(k, -3))
        for (int32_t b = m->lists[c].head; b != NONE; b = blocks[b].next) add_block(k, b);
    uint32_t before = 0;
    for (int32_t b = m->limbo.head; b != NONE; b = blocks[b].next) {
        add_block(k, b);
        add(k, rank_of(k, blocks[b].stamp));
        add(k, blocks[b].stamp != before); /* stamps of two are compared when they hold the same */
        before = blocks[b].stamp;
    }
    add(k, m->limbo.n > 0 && before != (uint32_t)m->n_steps);
}

/* A number that equal sequences share whatever their index is. */
static uint64_t signature(const pkv_blockmgr *m, const struct world *w, int i)
{
    const struct seq_rec *s = &seqs_of(m)[i];
    uint64_t h = (uint64_t)s->life;
    if (s->life == SEQ_FREE) return h;
    const int32_t fields[] = { s->ns,      s->settled, s->committed, s->reserved,
                               s->n_units, s->claim,   s->ended,     s->epoch == m->epoch };
    for (size_t f = 0; f < PKV_ARRAY_LEN(fields); f++)
        h = (h ^ (uint64_t)fields[f]) * UINT64_C(0x9e3779b97f4a7c15);
    for (int t = 0; t < w->n_tokens[i]; t++)
        h = (h ^ w->tokens[i][t]) * UINT64_C(0xff51afd7ed558ccd);
    for (int32_t g = 0; g < m->n_groups; g++) {
        for (int32_t e = 0; e < row_entries(&m->groups[g], s->reserved); e++) {
            const int32_t b = row_at(m, g, i)[e];
            uint64_t x = 0;
            if (b > 0) {
                const struct block_rec *r = &blocks_of(m)[b];
                x = (uint64_t)r->ref << 8 | (uint64_t)(r->node != NONE) << 1 | r->spare;
                for (int32_t o = r->spare ? r->prev : NONE; o != NONE; o = blocks_of(m)[o].prev)
                    x += 16; /* older spares */
                if (r->node != NONE) x += (uint64_t)node_at(m, r->node)->n_tokens << 16;
            }
            h = (h ^ (x + 1)) * UINT64_C(0xc4ceb9fe1a85ec53);
            h ^= h >> 29;
        }
    }
    return h;
}

/* By signature; equal ones by index. */
static void order_sequences(const pkv_blockmgr *m, const struct world *w, uint64_t *sig,
                            uint8_t *order)
{
    for (int i = 0; i < opt.seqs; i++) {
        int at = i;
        const uint64_t x = interchangeable() ? signature(m, w, i) : 0;
        for (; at > 0 && sig[at - 1] > x; at--) sig[at] = sig[at - 1], order[at] = order[at - 1];
        sig[at] = x, order[at] = (uint8_t)i;
    }
}

static void describe(struct naming *k)
{
    const pkv_blockmgr *m = k->m;
    memset(k->block, 0, sizeof k->block), memset(k->host, 0, sizeof k->host);
    k->n_blocks = k->n_hosts = k->n_nodes = 0;
    k->n = 0;
    for (int32_t i = 0; i < opt.namespaces; i++) /* names of nodes first: sequences refer to them */
        add_tree(k, namespaces_of(m)[pkv__ns_find(m, namespaces[i])].first_child);
    for (int i = 0; i < opt.seqs; i++) add_sequence(k, k->order[i]);
    if (!interchangeable()) {
        for (int32_t i = m->free_seq; i != NONE; i = seqs_of(m)[i].link) add(k, i);
        for (int32_t i = m->closing_head; i != NONE; i = seqs_of(m)[i].link) add(k, i);
    }
    add_pool(k);
    add_holds(k);
    add_prepared(k);
    add(k, m->n_open_steps);
}

static bool smaller(const struct naming *a, const struct naming *b)
{
    if (a->n != b->n) return a->n < b->n;
    return memcmp(a->text, b->text, (size_t)a->n) < 0;
}

/* Do these two places of the order leave a choice? Empty sequences of one signature are the same.
 */
static bool tied(const struct naming *k, const uint64_t *sig, int at, int other)
{
    return interchangeable() && sig[at] == sig[other] && seqs_of(k->m)[k->order[at]].reserved > 0;
}

/* Every order from place `at` on; the smallest description is kept in *best. */
static void try_orders(struct naming *k, struct naming *best, const uint64_t *sig, int at)
{
    if (at == opt.seqs) {
        describe(k);
        if (best->n == 0 || smaller(k, best)) memcpy(best->text, k->text, (size_t)(best->n = k->n));
        return;
    }
    for (int i = at; i < opt.seqs && (i == at || tied(k, sig, at, i)); i++) {
        const uint8_t here = k->order[at];
        k->order[at] = k->order[i], k->order[i] = here;
        try_orders(k, best, sig, at + 1);
        k->order[i] = k->order[at], k->order[at] = here;
    }
}

void name_state(const pkv_blockmgr *m, const struct world *w, bool world, uint64_t key[2])
{
    static uint8_t node_names[1024];
    static struct naming k, best;
    uint64_t sig[MAX_SEQS] = { 0 };
    if (m->node_high > (int32_t)sizeof node_names) die("too many nodes");
    k.m = m, k.w = w, k.world = world, k.node = node_names;
    best.n = 0;
    order_sequences(m, w, sig, k.order);
    try_orders(&k, &best, sig, 0);
    key[0] = pkv__siphash_bytes(1, 2, 1, 3, best.text, (size_t)best.n);
    key[1] = pkv__siphash_bytes(3, 4, 1, 3, best.text, (size_t)best.n);
}
