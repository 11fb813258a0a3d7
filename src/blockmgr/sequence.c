/* Sequences: handles and lengths.
 *
 *   0 ......... settled .............. committed ......... reserved
 *   [ indexed units ][ prepared units ][ tail: tokens kept here ][ room  ]
 *
 * The tail holds the tokens (and extra keys) after the last complete unit, until they make a unit
 * or the sequence has ended indexing. */
#include "blockmgr_internal.h"

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

/* Are there records for n more sequences? */
static pkv_status check_room(const pkv_blockmgr *m, int32_t n)
{
    const int32_t room = m->max_seqs - m->n_seqs - m->n_closing;
    if (n <= room) return PKV_OK;
    return pkv__refuse(&m->log, n <= room + m->n_closing ? PKV_E_AGAIN : PKV_E_LIMIT,
                       "%d more sequences: room for %d, and for %d more when steps retire", n, room,
                       m->n_closing);
}

/* A record from the free ones, empty, in namespace `ns`. The caller has checked that there is one.
 */
static struct seq_rec *take_seq(pkv_blockmgr *m, int32_t ns)
{
    struct seq_rec *s = &seqs_of(m)[m->free_seq];
    m->free_seq = s->link;
    m->n_seqs++;
    namespaces_of(m)[ns].n_seqs++;
    const uint32_t generation = s->generation;
    *s = (struct seq_rec){ .generation = generation,
                           .ns = ns,
                           .last_node = root_of(ns),
                           .tail_extras = NONE,
                           .link = NONE,
                           .epoch = m->epoch,
                           .life = SEQ_OPEN };
    memset(seq_group(m, s, 0), 0, (size_t)m->n_groups * sizeof(struct seq_group));
    return s;
}

pkv_status pkv_seq_open(pkv_blockmgr *mgr, pkv_ns ns, pkv_seq *out)
{
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    const int32_t idx = pkv__ns_find(mgr, ns);
    if (idx == NONE) return PKV_E_STALE;
    const pkv_status status = check_room(mgr, 1);
    if (status != PKV_OK) return status;
    *out = seq_handle(mgr, take_seq(mgr, idx));
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

void pkv__drop_surplus(pkv_blockmgr *m, struct seq_rec *s)
{
    pkv__rows_cut(m, s, s->committed);
    s->reserved = s->committed;
}

/* The child names the parent's blocks. */
static void share_rows(pkv_blockmgr *m, const struct seq_rec *parent, struct seq_rec *child)
{
    struct block_rec *blocks = blocks_of(m);
    for (int32_t g = 0; g < m->n_groups; g++) {
        const int32_t n = pkv__row_len(m, parent, g), *row = row_of(m, parent, g);
        memcpy(row_of(m, child, g), row, (size_t)n * sizeof *row);
        for (int32_t i = 0; i < n; i++)
            if (row[i] != 0) blocks[row[i]].ref++;
        *seq_group(m, child, g) = *seq_group(m, parent, g);
        if (n == 0) continue;
        pkv__row_changed(m, g, seq_index(m, child), 0);
        pkv__row_changed(m, g, seq_index(m, child), n - 1);
    }
}

static void fork_into(pkv_blockmgr *m, const struct seq_rec *parent, struct seq_rec *child)
{
    child->settled = parent->settled, child->committed = parent->committed;
    child->reserved = parent->reserved;
    child->n_units = parent->n_units, child->n_full = parent->n_full;
    pkv__last_node_set(m, child, parent->last_node);
    child->claim = parent->claim, child->ended = parent->ended;
    child->epoch = parent->epoch;
    share_rows(m, parent, child);
    pkv__pending_copy(m, parent, child);
    const int32_t *row = row_of(m, parent, m->unit_group);
    for (int32_t u = parent->n_units; u < parent->n_full; u++)
        node_at(m, pkv__prepared_on(m, row[u], m->unit))->holders++;
    if (!has_flag(m, PKV_MGR_PREFIX_CACHE) || parent->ended) return;
    const int32_t n_tail = parent->committed - parent->n_full * m->unit;
    memcpy(tail_tokens(m, child), tail_tokens(m, parent), (size_t)n_tail * sizeof(int32_t));
    if (!pkv__extras_append(m, &child->tail_extras, extra_entries(parent->tail_extras), n_tail)) {
        pkv__extras_drop(m, &child->tail_extras);
        child->ended = true;
    }
}

pkv_status pkv_seq_fork(pkv_blockmgr *mgr, pkv_seq parent, pkv_seq *children, int32_t n)
{
    struct seq_rec *p = NULL;
    if (!mgr || !children || n < 1) return PKV_E_INVALID_ARG;
    pkv_status status = pkv__seq_running(mgr, parent, &p);
    if (status == PKV_OK) status = check_room(mgr, n);
    if (status != PKV_OK) return status;
    pkv__drop_surplus(mgr, p);
    for (int32_t i = 0; i < n; i++) {
        struct seq_rec *child = take_seq(mgr, p->ns);
        fork_into(mgr, p, child);
        children[i] = seq_handle(mgr, child);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

void pkv__last_node_set(pkv_blockmgr *m, struct seq_rec *s, int32_t node)
{
    const int32_t old = s->last_node;
    if (!is_root(node)) node_at(m, node)->holders++;
    s->last_node = node;
    if (is_root(old)) return;
    node_at(m, old)->holders--;
    pkv__node_prune(m, old);
}

/* The node of a complete unit, indexed or prepared. */
static int32_t node_of_unit(const pkv_blockmgr *m, const struct seq_rec *s, int32_t u)
{
    if (u >= s->n_units) return pkv__prepared_on(m, row_of(m, s, m->unit_group)[u], m->unit);
    int32_t id = s->last_node;
    for (int32_t i = s->n_units - 1; i > u; i--) id = node_at(m, id)->parent;
    return id;
}

/* The chain of units is cut to what n_tokens still covers, and the tail becomes what of the next
 * unit is left: its tokens come back from the node. */
static void cut_chain(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens)
{
    const int32_t units = unit_index(m, n_tokens), rest = unit_offset(m, n_tokens);
    s->claim = pkv__min_i32(s->claim, units);
    if (units > s->n_full) return; /* indexing had ended before, and stays so */
    if (units == s->n_full) {
        if (rest > 0) {
            pkv__extras_clip(m, &s->tail_extras, rest);
        } else {
            pkv__extras_drop(m, &s->tail_extras);
            s->ended = false;
        }
        return;
    }
    const int32_t id = node_of_unit(m, s, units); /* is cut into */
    const struct node *n = node_at(m, id);
    pkv__extras_drop(m, &s->tail_extras);
    memcpy(tail_tokens(m, s), node_tokens(m, id), (size_t)rest * sizeof(int32_t));
    s->ended = rest > 0 && !pkv__extras_append(m, &s->tail_extras, extra_entries(n->extras), rest);
    if (s->ended) pkv__extras_drop(m, &s->tail_extras);
    if (units < s->n_units) pkv__last_node_set(m, s, n->parent);
    pkv__units_drop(m, s, units);
    s->n_units = pkv__min_i32(s->n_units, units);
}

void pkv__seq_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t n_tokens)
{
    if (n_tokens < s->committed) {
        if (has_flag(m, PKV_MGR_PREFIX_CACHE)) cut_chain(m, s, n_tokens);
        pkv__pending_cut(m, s, n_tokens);
    }
    if (s->life == SEQ_OPEN) { /* a closing one has given its blocks back */
        pkv__rows_cut(m, s, n_tokens);
        s->reserved = pkv__min_i32(s->reserved, n_tokens);
    }
    s->committed = pkv__min_i32(s->committed, n_tokens);
    s->settled = pkv__min_i32(s->settled, n_tokens);
}

/* Can the sequence go back to n_tokens? */
static bool can_go_back(const pkv_blockmgr *m, const struct seq_rec *s, int32_t n_tokens)
{
    if (n_tokens == 0 || n_tokens >= s->committed) return true;
    if (m->states) return false;
    for (int32_t g = 0; g < m->n_groups && n_tokens < s->settled; g++) {
        const struct group_rec *grp = &m->groups[g];
        if (grp->window_tokens == 0) continue;
        const int32_t *row = row_of(m, s, g), first = pkv__first_seen(grp, n_tokens);
        const int32_t sinks = pkv__min_i32(grp->sink_blocks, blocks_for(grp, n_tokens));
        const int32_t own_from = seq_group(m, s, g)->own_from;
        if (n_tokens < own_from && n_tokens > own_from - block_offset(grp, own_from) &&
            first < n_tokens)
            return false; /* it would see slots that were never written */
        for (int32_t i = 0; i < sinks; i++)
            if (row[i] == 0) return false;
        for (int32_t i = block_index(grp, first); i < blocks_for(grp, n_tokens); i++)
            if (row[i] == 0) return false;
    }
    return true;
}

pkv_status pkv_seq_truncate(pkv_blockmgr *mgr, pkv_seq seq, int32_t n_tokens)
{
    struct seq_rec *s = NULL;
    if (!mgr || n_tokens < 0) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__seq_running(mgr, seq, &s);
    if (status != PKV_OK) return status;
    if (n_tokens > s->reserved)
        return pkv__refuse(&mgr->log, PKV_E_INVALID_ARG, "truncate to %d tokens, %d are reserved",
                           n_tokens, s->reserved);
    if (!can_go_back(mgr, s, n_tokens))
        return pkv__refuse(&mgr->log, PKV_E_RANGE,
                           "truncate to %d tokens: a window or a state is gone", n_tokens);
    pkv__seq_cut(mgr, s, n_tokens);
    if (n_tokens == 0) s->epoch = mgr->epoch;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

void pkv__publish_partial(pkv_blockmgr *m, struct seq_rec *s)
{
    int32_t blocks[MAX_SLOTS];
    const int32_t rest = unit_offset(m, s->committed);
    if (!m->partial || s->ended || s->settled < s->committed || rest == 0 || s->epoch != m->epoch)
        return;
    pkv__tail_blocks(m, s, blocks);
    if (pkv__block_covered(m, blocks[0]) >= rest) return;
    struct unit_key key = { 0, s->last_node, tail_tokens(m, s), rest,
                            extra_entries(s->tail_extras) };
    key.hash = pkv__unit_hash(m, &key);
    (void)pkv__node_publish(m, &key, blocks, &s->tail_extras);
}

void pkv__seq_release(pkv_blockmgr *m, struct seq_rec *s)
{
    pkv__last_node_set(m, s, root_of(s->ns));
    pkv__extras_drop(m, &s->tail_extras);
    for (int32_t g = 0; g < m->n_groups; g++) {
        int32_t *row = row_of(m, s, g);
        const int32_t n = row_entries(&m->groups[g], s->reserved);
        memset(row, 0, (size_t)n * sizeof *row);
    }
    s->life = SEQ_FREE;
    s->link = m->free_seq;
    m->free_seq = seq_index(m, s);
}

/* The handle is gone; what is pending settles later, and the record stays until then. */
static void start_closing(pkv_blockmgr *m, struct seq_rec *s)
{
    const int32_t idx = seq_index(m, s);
    for (int32_t i = 0; i < s->n_pending; i++) set_drop(step_set(m, pending_of(m, s)[i].step), idx);
    s->life = SEQ_CLOSING;
    s->link = NONE;
    if (m->closing_tail != NONE) seqs_of(m)[m->closing_tail].link = idx;
    else m->closing_head = idx;
    m->closing_tail = idx;
    m->n_closing++;
    namespaces_of(m)[s->ns].n_closing++;
    pkv__tail_prepare(m, s);
    pkv__rows_cut(m, s, 0);
}

/* What has not settled never will. */
static void drop_pending(pkv_blockmgr *m, struct seq_rec *s)
{
    pkv__units_drop(m, s, s->n_units);
    s->ended = true;
    pkv__pending_cut(m, s, 0);
}

pkv_status pkv_seq_close(pkv_blockmgr *mgr, pkv_seq seq)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    struct seq_rec *s = seq_find(mgr, seq);
    if (!s) return PKV_E_STALE;
    if (s->swap == PKV_SEQ_SUSPENDING || s->swap == PKV_SEQ_RESUMING)
        return pkv__refuse(&mgr->log, PKV_E_BUSY, "close: a swap of the sequence is running");
    const bool suspended = s->swap == PKV_SEQ_SUSPENDED;
    if (suspended) pkv__swap_forget(mgr, s);
    if (has_flag(mgr, PKV_MGR_IN_ORDER) && s->n_pending > 0) drop_pending(mgr, s);
    if (++s->generation == 0) s->generation = 1; /* {0} stays "none" */
    namespaces_of(mgr)[s->ns].n_seqs--;
    mgr->n_seqs--;
    if (s->n_pending > 0) {
        start_closing(mgr, s);
    } else {
        if (!suspended) pkv__publish_partial(mgr, s);
        pkv__rows_cut(mgr, s, 0);
        pkv__seq_release(mgr, s);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
