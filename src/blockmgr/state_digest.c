/* The digest of the logical state: what later answers depend on, in an order that does not depend
 * on addresses, node numbers, secrets or platforms. Two keyed SipHash streams make 128 bits. */
#include "blockmgr_internal.h"

struct digest {
    struct pkv__siphash a, b;
};

static void add(struct digest *d, int64_t value)
{
    pkv__siphash_u64(&d->a, (uint64_t)value);
    pkv__siphash_u64(&d->b, (uint64_t)value);
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
    add(d, INT64_MIN); /* end of list */
}

static void add_sequences(struct digest *d, const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->max_seqs; i++) {
        const struct seq_rec *s = &seqs_of(m)[i];
        add(d, s->generation);
        add(d, s->open);
        if (!s->open) continue;
        const int32_t fields[] = { s->ns,      s->settled, s->committed, s->reserved,
                                   s->n_units, s->claim,   s->ended };
        for (size_t k = 0; k < PKV_ARRAY_LEN(fields); k++) add(d, fields[k]);
        for (int32_t k = 0; k < blocks_for(m, s->reserved); k++) add(d, row_of(m, s)[k]);
        if (s->ended || !has_flag(m, PKV_MGR_PREFIX_CACHE)) continue;
        for (int32_t k = 0; k < s->committed - s->n_units * m->block_tokens; k++)
            add(d, tail_tokens(m, s)[k]);
        add_extras(d, m, s->tail_extras);
    }
    for (int32_t i = m->free_seq; i != NONE; i = seqs_of(m)[i].next_free) add(d, i);
}

static void add_blocks(struct digest *d, const pkv_blockmgr *m)
{
    for (int32_t b = 1; b < m->n_blocks; b++) {
        const struct block_rec *r = &blocks_of(m)[b];
        add(d, (int64_t)r->ref << 8 | r->state << 4 | (r->node != NONE) << 2 | r->spare << 1 |
                   r->used);
    }
    for (int32_t i = 0; i < m->n_free; i++) add(d, free_ids_of(m)[i]);
    for (int c = 0; c < N_CLASSES; c++)
        for (int32_t b = m->lists[c].head; b != NONE; b = blocks_of(m)[b].next)
            add(d, (int64_t)b << 1 | c);
}

static void add_node(struct digest *d, const pkv_blockmgr *m, int32_t id)
{
    const struct node *n = node_at(m, id);
    add(d, n->n_tokens);
    for (int32_t i = 0; i < n->n_tokens; i++) add(d, node_tokens(m, id)[i]);
    add_extras(d, m, n->extras);
    add(d, n->hit);
    add(d, n->block);
    for (int32_t b = n->oldest_spare; b != NONE; b = blocks_of(m)[b].next) add(d, b);
    add(d, INT64_MIN);
}

static void add_trees(struct digest *d, const pkv_blockmgr *m)
{
    for (int32_t i = 0; i < m->max_namespaces; i++) {
        const struct ns_rec *ns = &namespaces_of(m)[i];
        add(d, ns->generation);
        add(d, ns->n_opens);
        if (ns->n_opens == 0) continue;
        add_bytes(d, ns->identity, sizeof ns->identity);
        for (int32_t id = ns->first_child; id != NONE;) {
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
}

void pkv_blockmgr_digest(const pkv_blockmgr *mgr, uint8_t out[16])
{
    struct digest d;
    if (!mgr || !out) return;
    pkv__siphash_init(&d.a, 0, 0);
    pkv__siphash_init(&d.b, UINT64_C(0x9e3779b97f4a7c15), 1);
    const int64_t geometry[] = { mgr->n_blocks,       mgr->block_tokens, mgr->max_seqs,
                                 mgr->max_seq_tokens, mgr->max_nodes,    mgr->max_extras,
                                 mgr->max_namespaces, mgr->flags,        mgr->zero_policy };
    for (size_t i = 0; i < PKV_ARRAY_LEN(geometry); i++) add(&d, geometry[i]);
    add_sequences(&d, mgr);
    add_blocks(&d, mgr);
    add_trees(&d, mgr);
    const uint64_t halves[2] = { pkv__siphash_end(&d.a, 0, 0), pkv__siphash_end(&d.b, 0, 0) };
    for (int i = 0; i < 16; i++) out[i] = (uint8_t)(halves[i / 8] >> (8 * (i % 8)));
}
