/* The digest of the logical state: what later answers depend on, in an order that does not depend
 * on addresses, node numbers, step slots, secrets or platforms. Two keyed SipHash streams make 128
 * bits. Not in it: statistics, scratch, and what other threads have posted to holds and no poll has
 * collected. */
#include "blockmgr_internal.h"

struct digest {
    struct pkv__siphash a, b;
};

static void add(struct digest *d, int64_t value)
{
    pkv__siphash_u64(&d->a, (uint64_t)value);
    pkv__siphash_u64(&d->b, (uint64_t)value);
}

static void add_all(struct digest *d, const int32_t *values, size_t n)
{
    for (size_t i = 0; i < n; i++) add(d, values[i]);
}

static void add_end(struct digest *d)
{
    add(d, INT64_MIN);
}

static void add_bytes(struct digest *d, const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++) add(d, p[i]);
}

static void add_extras(struct digest *d, const pkv_blockmgr *m, int32_t entry)
{
    for (; entry != NONE; entry = extras_of(m)[entry].next) {
        const struct extra_entry *e = &extras_of(m)[entry];
        add(d, e->offset);
        add(d, e->n);
        add_bytes(d, e->digest, sizeof e->digest);
    }
    add_end(d);
}

/* What a node says about content and where it is; priority and floor as decays have left them. */
static void add_node(struct digest *d, const pkv_blockmgr *m, int32_t id)
{
    struct node now = *node_at(m, id);
    pkv__node_age(m, &now);
    add(d, now.n_tokens);
    add_all(d, node_tokens(m, id), (size_t)now.n_tokens);
    add_extras(d, m, now.extras);
    add(d, now.hit);
    add(d, now.priority);
    add(d, now.floor);
    add(d, now.epoch);
    for (int32_t k = 0; k < m->n_slots; k++) {
        const struct node_slot *at = &node_at(m, id)->at[k];
        add(d, at->block);
        for (int32_t b = at->oldest_spare; b != NONE; b = blocks_of(m)[b].next) add(d, b);
        add_end(d);
    }
}

/* ---------------------------------------------------------------- sequences */

static void add_rows(struct digest *d, const pkv_blockmgr *m, const struct seq_rec *s)
{
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        const int32_t n = row_entries(grp, s->reserved);
        add_all(d, row_of(m, s, g), (size_t)n);
        if (grp->window_tokens == 0) continue;
        add(d, pkv__max_i32(seq_group(m, s, g)->gap_end, grp->sink_blocks));
        add(d, seq_group(m, s, g)->own_from);
    }
}

/* What is committed and not settled: in which steps, and the content that it will be. */
static void add_pending(struct digest *d, const pkv_blockmgr *m, const struct seq_rec *s)
{
    add(d, s->n_pending);
    for (int32_t i = 0; i < s->n_pending; i++) {
        const struct pending *p = &pending_of(m, s)[i];
        add(d, (int64_t)steps_of(m)[p->step].number);
        add(d, p->from);
        add(d, p->upto);
    }
    const int32_t *row = row_of(m, s, m->unit_group);
    for (int32_t u = s->n_units; u < s->n_full; u++)
        add_node(d, m, pkv__prepared_on(m, row[u], m->unit));
    add(d, s->holds_tail);
    if (!s->holds_tail) return;
    const int32_t tail =
        pkv__prepared_on(m, row[unit_index(m, s->committed)], unit_offset(m, s->committed));
    if (tail != NONE) add_node(d, m, tail);
}

static void add_sequence(struct digest *d, const pkv_blockmgr *m, const struct seq_rec *s)
{
    const int32_t fields[] = { s->ns,     s->settled, s->committed, s->reserved, s->n_units,
                               s->n_full, s->claim,   s->ended,     s->swap };
    add_all(d, fields, PKV_ARRAY_LEN(fields));
    add(d, s->epoch);
    add_rows(d, m, s);
    add_pending(d, m, s);
    if (s->ended || !has_flag(m, PKV_MGR_PREFIX_CACHE)) return;
    add_all(d, tail_tokens(m, s), (size_t)(s->committed - s->n_full * m->unit));
    add_extras(d, m, s->tail_extras);
}

static void add_sequences(struct digest *d, const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        add(d, s->generation);
        add(d, s->life);
        if (s->life != SEQ_FREE) add_sequence(d, m, s);
    }
    for (int32_t i = m->free_seq; i != NONE; i = seqs_of(m)[i].link) add(d, i);
    add_end(d);
    for (int32_t i = m->closing_head; i != NONE; i = seqs_of(m)[i].link) add(d, i);
    add_end(d);
}

/* Open steps in order of their begin, wherever they are kept. */
static void add_steps(struct digest *d, const pkv_blockmgr *m)
{
    add(d, (int64_t)m->n_steps);
    for (uint64_t last = 0, next; last != UINT64_MAX; last = next) {
        next = UINT64_MAX;
        for (int32_t i = 0; i < m->max_steps; i++) {
            const uint64_t number = steps_of(m)[i].number;
            if (number > last && number < next) next = number;
        }
        add(d, (int64_t)next);
    }
}

/* What copies of the rows lack. */
static void add_changes(struct digest *d, const pkv_blockmgr *m)
{
    const size_t n = (size_t)m->n_groups * (size_t)m->max_seqs;
    for (size_t i = 0; i < n; i++) {
        const struct row_change *c = &all_changes(m)[i];
        add(d, c->sent);
        add(d, c->lo);
        add(d, c->hi);
    }
}

/* ---------------------------------------------------------------- blocks and content */

static void add_list(struct digest *d, const pkv_blockmgr *m, const struct block_list *l)
{
    for (int32_t b = l->head; b != NONE; b = blocks_of(m)[b].next) add(d, b);
    add_end(d);
}

static void add_blocks(struct digest *d, const pkv_blockmgr *m)
{
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *r = &blocks_of(m)[b];
        add(d, (int64_t)r->ref << 24 | (int64_t)r->slot << 16 | r->state << 8 |
                   (r->prepared != NONE) << 3 | (r->node != NONE) << 2 | r->spare << 1 | r->used);
        if (r->ref > 0 || r->state == BLOCK_LIMBO) add(d, r->stamp);
        add(d, raw_refs_of(m)[b]);
    }
    add_all(d, free_ids_of(m), (size_t)m->n_free);
    add_end(d);
    for (int c = 0; c < N_CLASSES; c++) add_list(d, m, &m->lists[c]);
    add_list(d, m, &m->limbo);
}

static void add_tree(struct digest *d, const pkv_blockmgr *m, int32_t first)
{
    for (int32_t id = first; id != NONE;) {
        add_node(d, m, id);
        if (node_at(m, id)->first_child != NONE) {
            id = node_at(m, id)->first_child;
            continue;
        }
        while (id != NONE && node_at(m, id)->older == NONE) {
            add(d, INT64_MAX); /* up */
            id = is_root(node_at(m, id)->parent) ? NONE : node_at(m, id)->parent;
        }
        if (id != NONE) id = node_at(m, id)->older;
    }
}

static void add_namespaces(struct digest *d, const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->max_namespaces; i++) {
        const struct ns_rec *ns = &namespaces_of(m)[i];
        add(d, ns->generation);
        add(d, ns->n_opens);
        if (ns->n_opens == 0) continue;
        add_bytes(d, ns->identity, sizeof ns->identity);
        add_tree(d, m, ns->first_child);
    }
}

/* ---------------------------------------------------------------- holds and host blocks */

static void add_hold(struct digest *d, const pkv_blockmgr *m, const struct hold_rec *h)
{
    add(d, h->kind);
    add(d, (int64_t)h->deadline);
    if (h->kind != HOLD_PREFIX) {
        for (int32_t b = h->last_block; b != 0; b = swaps_of(m)[b].next) {
            add(d, b);
            add(d, swaps_of(m)[b].host);
        }
        add_end(d);
        if (h->life != HOLD_RUNNING) return;
        for (int32_t i = h->first_seq; i != NONE; i = seqs_of(m)[i].link) add(d, i);
        add_end(d);
        return;
    }
    size_t n = 0;
    add(d, h->n_tokens);
    for (int32_t g = 0; g < m->n_groups; g++) {
        add(d, h->first[g]);
        add(d, h->n_blocks[g]);
        n += (size_t)h->n_blocks[g];
    }
    add_all(d, pkv__hold_ids(m, h), n);
}

static void add_holds(struct digest *d, const pkv_blockmgr *m)
{
    add(d, (int64_t)m->now);
    for (int32_t i = 0; i < m->max_holds; i++) {
        const struct hold_rec *h = &holds_of(m)[i];
        add(d, h->generation);
        add(d, h->life);
        if (h->life != HOLD_FREE) add_hold(d, m, h);
    }
    for (int32_t i = m->free_hold; i != NONE; i = holds_of(m)[i].next_free) add(d, i);
    add_end(d);
    for (int32_t i = 1; i < m->n_host_blocks; i++) add(d, host_of(m)[i].ref);
    for (int32_t i = m->free_host; i != NONE; i = host_of(m)[i].next) add(d, i);
    add_end(d);
}

static void add_geometry(struct digest *d, const pkv_blockmgr *m)
{
    const int64_t fields[] = { m->n_blocks,  m->unit,        m->max_seqs,       m->max_seq_tokens,
                               m->max_nodes, m->max_extras,  m->max_namespaces, m->max_steps,
                               m->max_holds, m->n_groups,    m->n_host_blocks,  m->rollback_tokens,
                               m->flags,     m->zero_policy, m->epoch };
    for (size_t i = 0; i < PKV_ARRAY_LEN(fields); i++) add(d, fields[i]);
    for (int32_t g = 0; g < m->n_groups; g++) {
        const struct group_rec *grp = &m->groups[g];
        const int32_t shape[] = { (int32_t)grp->kind, grp->block_tokens, grp->window_tokens,
                                  grp->sink_tokens, grp->n_slots };
        add_all(d, shape, PKV_ARRAY_LEN(shape));
    }
}

void pkv_blockmgr_digest(const pkv_blockmgr *mgr, uint8_t out[16])
{
    struct digest d;
    if (!mgr || !out) return;
    pkv__siphash_init(&d.a, 0, 0);
    pkv__siphash_init(&d.b, UINT64_C(0x9e3779b97f4a7c15), 1);
    add_geometry(&d, mgr);
    add_steps(&d, mgr);
    add_sequences(&d, mgr);
    add_changes(&d, mgr);
    add_blocks(&d, mgr);
    add_namespaces(&d, mgr);
    add_holds(&d, mgr);
    const uint64_t halves[2] = { pkv__siphash_end(&d.a, 0, 0), pkv__siphash_end(&d.b, 0, 0) };
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(halves[i / 8] >> (8 * (i % 8)));
}
