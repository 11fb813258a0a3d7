/* Sequences: handles, lengths, rows.
 *
 *   0 ......... settled ... committed ......... reserved
 *   [ indexed units ][ tail: tokens kept here ][ room  ]
 *   row: ceil(reserved / block_tokens) ids, zeros behind
 *
 * The tail holds the tokens (and extra keys) after the last indexed unit, until they make a unit or
 * the sequence has ended indexing. */
#include "blockmgr_internal.h"

static pkv_seq handle_of(const pkv_blockmgr *m, const struct seq_rec *s)
{
    return (pkv_seq){ (uint64_t)s->generation << 32 | (uint32_t)seq_index(m, s) };
}

pkv_status pkv__tokens_valid(const pkv_blockmgr *m, const pkv_tokens *t)
{
    if (!t || t->n < 0)
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG, "tokens: null or a negative count");
    if (t->n > 0 && !t->ids && has_flag(m, PKV_MGR_PREFIX_CACHE))
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG, "tokens: the prefix cache needs their ids");
    if (!pkv__extras_valid(t))
        return pkv__refuse(&m->log, PKV_E_INVALID_ARG,
                           "tokens: extras must be sorted, disjoint and touch the tokens");
    return PKV_OK;
}

/* A record from the free ones, empty, in namespace `ns`. The caller has checked that there is one.
 */
static struct seq_rec *take_seq(pkv_blockmgr *m, int32_t ns)
{
    struct seq_rec *s = &seqs_of(m)[m->free_seq];
    m->free_seq = s->next_free;
    m->n_seqs++;
    namespaces_of(m)[ns].n_seqs++;
    const uint32_t generation = s->generation;
    *s = (struct seq_rec){ .generation = generation,
                           .ns = ns,
                           .last_node = root_of(ns),
                           .tail_extras = NONE,
                           .next_free = NONE,
                           .open = true };
    return s;
}

pkv_status pkv_seq_open(pkv_blockmgr *mgr, pkv_ns ns, pkv_seq *out)
{
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    const int32_t idx = pkv__ns_find(mgr, ns);
    if (idx == NONE) return PKV_E_STALE;
    if (mgr->free_seq == NONE) return PKV_E_LIMIT;
    *out = handle_of(mgr, take_seq(mgr, idx));
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

void pkv__row_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t n_blocks)
{
    enum { PREFETCH_AHEAD = 8 };
    struct block_rec *blocks = blocks_of(m);
    int32_t *row = row_of(m, s);
    for (int32_t i = blocks_for(m, s->reserved) - 1; i >= n_blocks; i--) {
        if (i >= PREFETCH_AHEAD) PKV_PREFETCH(&blocks[row[i - PREFETCH_AHEAD]]);
        pkv__block_unref(m, row[i]);
        row[i] = 0;
    }
}

/* Give back room that holds no token. */
static void drop_surplus(pkv_blockmgr *m, struct seq_rec *s)
{
    pkv__row_cut(m, s, blocks_for(m, s->committed));
    s->reserved = s->committed;
}

static void fork_into(pkv_blockmgr *m, const struct seq_rec *parent, struct seq_rec *child)
{
    const int32_t n = blocks_for(m, parent->committed), *row = row_of(m, parent);
    struct block_rec *blocks = blocks_of(m);
    child->settled = parent->settled, child->committed = parent->committed;
    child->reserved = parent->reserved;
    child->n_units = parent->n_units, child->last_node = parent->last_node;
    child->claim = parent->claim, child->ended = parent->ended;
    memcpy(row_of(m, child), row, (size_t)n * sizeof *row);
    for (int32_t i = 0; i < n; i++) blocks[row[i]].ref++;
    if (!has_flag(m, PKV_MGR_PREFIX_CACHE) || parent->ended) return;
    const int32_t n_tail = parent->committed - parent->n_units * m->block_tokens;
    memcpy(tail_tokens(m, child), tail_tokens(m, parent), (size_t)n_tail * sizeof(int32_t));
    if (!pkv__extras_append(m, &child->tail_extras, extra_entries(parent->tail_extras), n_tail)) {
        pkv__extras_drop(m, &child->tail_extras);
        child->ended = true;
    }
}

pkv_status pkv_seq_fork(pkv_blockmgr *mgr, pkv_seq parent, pkv_seq *children, int32_t n)
{
    if (!mgr || !children || n < 1) return PKV_E_INVALID_ARG;
    struct seq_rec *p = seq_find(mgr, parent);
    if (!p) return PKV_E_STALE;
    if (n > mgr->max_seqs - mgr->n_seqs)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "fork: %d children, room for %d sequences", n,
                           mgr->max_seqs - mgr->n_seqs);
    drop_surplus(mgr, p);
    for (int32_t i = 0; i < n; i++) {
        struct seq_rec *child = take_seq(mgr, p->ns);
        fork_into(mgr, p, child);
        children[i] = handle_of(mgr, child);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* The chain of units is cut to what n_tokens still covers, and the tail becomes what of the next
 * unit is left: its tokens come back from the node. */
static void cut_chain(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens)
{
    const int32_t units = block_index(m, n_tokens), rest = block_offset(m, n_tokens);
    s->claim = pkv__min_i32(s->claim, units);
    if (units > s->n_units) return; /* indexing had ended before, and stays so */
    if (units == s->n_units) {
        if (rest > 0) {
            pkv__extras_clip(m, &s->tail_extras, rest);
        } else {
            pkv__extras_drop(m, &s->tail_extras);
            s->ended = false;
        }
        return;
    }
    int32_t id = s->last_node; /* becomes the node of unit `units`, which is cut into */
    for (int32_t u = s->n_units - 1; u > units; u--) id = node_at(m, id)->parent;
    const struct node *n = node_at(m, id);
    pkv__extras_drop(m, &s->tail_extras);
    memcpy(tail_tokens(m, s), node_tokens(m, id), (size_t)rest * sizeof(int32_t));
    s->ended = rest > 0 && !pkv__extras_append(m, &s->tail_extras, extra_entries(n->extras), rest);
    if (s->ended) pkv__extras_drop(m, &s->tail_extras);
    s->n_units = units;
    s->last_node = n->parent;
}

pkv_status pkv_seq_truncate(pkv_blockmgr *mgr, pkv_seq seq, int32_t n_tokens)
{
    if (!mgr || n_tokens < 0) return PKV_E_INVALID_ARG;
    struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    if (n_tokens > s->reserved)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG, "truncate to %d tokens, %d are reserved",
                           n_tokens, s->reserved);
    if (n_tokens < s->committed && has_flag(mgr, PKV_MGR_PREFIX_CACHE)) cut_chain(mgr, s, n_tokens);
    pkv__row_cut(mgr, s, blocks_for(mgr, n_tokens));
    s->reserved = n_tokens;
    s->committed = pkv__min_i32(s->committed, n_tokens);
    s->settled = pkv__min_i32(s->settled, n_tokens);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* What is settled of the last, incomplete unit becomes findable as a partial node. */
static void publish_partial(pkv_blockmgr *m, struct seq_rec *s)
{
    const int32_t rest = block_offset(m, s->committed);
    if (!has_flag(m, PKV_MGR_PARTIAL_HITS) || s->ended || s->settled < s->committed || rest == 0)
        return;
    const int32_t block = row_of(m, s)[block_index(m, s->committed)];
    const int32_t held = blocks_of(m)[block].node;
    if (held != NONE && node_at(m, held)->n_tokens >= rest) return;
    struct unit_key key = { 0, s->last_node, tail_tokens(m, s), rest,
                            extra_entries(s->tail_extras) };
    key.hash = pkv__unit_hash(m, &key);
    (void)pkv__node_publish(m, &key, block, &s->tail_extras);
}

pkv_status pkv_seq_close(pkv_blockmgr *mgr, pkv_seq seq)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    publish_partial(mgr, s);
    pkv__row_cut(mgr, s, 0);
    pkv__extras_drop(mgr, &s->tail_extras);
    namespaces_of(mgr)[s->ns].n_seqs--;
    s->open = false;
    if (++s->generation == 0) s->generation = 1; /* {0} stays "none" */
    s->next_free = mgr->free_seq;
    mgr->free_seq = seq_index(mgr, s);
    mgr->n_seqs--;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_seq_row(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group, const int32_t **ids,
                       int32_t *n_ids)
{
    if (!mgr || !ids || !n_ids || group != 0) return PKV_E_INVALID_ARG;
    const struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    *ids = row_of(mgr, s);
    *n_ids = blocks_for(mgr, s->reserved);
    return PKV_OK;
}

pkv_status pkv_blockmgr_rows(const pkv_blockmgr *mgr, int32_t group, const int32_t **rows,
                             int32_t *row_width)
{
    if (!mgr || !rows || !row_width || group != 0) return PKV_E_INVALID_ARG;
    *rows = all_rows(mgr);
    *row_width = mgr->row_width;
    return PKV_OK;
}

pkv_status pkv_seq_slots(const pkv_blockmgr *mgr, pkv_seq seq, int32_t group, int32_t first_token,
                         int32_t n_tokens, int64_t *slots)
{
    if (!mgr || !slots || group != 0 || first_token < 0 || n_tokens < 0) return PKV_E_INVALID_ARG;
    const struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    if ((int64_t)first_token + n_tokens > s->reserved)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG,
                           "slots of tokens [%d, %lld), %d are reserved", first_token,
                           (long long)first_token + n_tokens, s->reserved);
    const int32_t *row = row_of(mgr, s), T = mgr->block_tokens;
    for (int32_t i = 0; i < n_tokens; i++) {
        const int32_t pos = first_token + i;
        slots[i] = (int64_t)row[block_index(mgr, pos)] * T + block_offset(mgr, pos);
    }
    return PKV_OK;
}

pkv_status pkv_seq_info(const pkv_blockmgr *mgr, pkv_seq seq, pkv_seq_info_t *out)
{
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    const struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    const int32_t n = blocks_for(mgr, s->reserved), *row = row_of(mgr, s);
    int32_t sole = 0;
    for (int32_t i = 0; i < n; i++) sole += blocks_of(mgr)[row[i]].ref == 1;
    *out = (pkv_seq_info_t){ .struct_size = sizeof *out,
                             .settled = s->settled,
                             .committed = s->committed,
                             .reserved = s->reserved,
                             .row_idx = seq_index(mgr, s),
                             .n_blocks = n,
                             .blocks_if_closed = sole,
                             .n_indexed = s->n_units,
                             .ns = pkv__ns_handle(mgr, s->ns) };
    return PKV_OK;
}
