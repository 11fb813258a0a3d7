/* See oracle.h: life, namespaces, sequences. */
#include "oracle_blocks.h"

#include <string.h>

/* ---------------------------------------------------------------- life, namespaces */

static void set_groups(oracle *o, const pkv_blockmgr_config *cfg)
{
    bool equal = true;
    o->G = cfg->n_groups ? cfg->n_groups : 1;
    o->grp[0].block_tokens = cfg->block_tokens ? cfg->block_tokens : 16;
    for (int g = 0; g < cfg->n_groups; g++) o->grp[g] = cfg->groups[g];
    o->cfg.groups = NULL;
    for (int g = 0; g < o->G; g++) {
        if (or_is_state(o, g)) continue;
        if (!o->T || o->grp[g].block_tokens < o->T) o->T = o->grp[g].block_tokens;
    }
    for (int g = 0; g < o->G; g++) equal = equal && o->grp[g].block_tokens == o->T;
    if (!equal) o->cfg.flags &= ~PKV_MGR_PARTIAL_HITS; /* no effect */
}

void or_init(oracle *o, const pkv_blockmgr_config *cfg)
{
    memset(o, 0, sizeof *o);
    o->cfg = *cfg;
    if (!o->cfg.max_extras) o->cfg.max_extras = cfg->n_blocks / 4 + 64;
    if (!o->cfg.max_steps) o->cfg.max_steps = 4;
    if (!o->cfg.max_namespaces) o->cfg.max_namespaces = OR_NS;
    set_groups(o, cfg);
    for (int b = cfg->n_blocks - 1; b > 0; b--) or_make_free(o, b);
    for (int i = cfg->max_seqs - 1; i >= 0; i--) o->seq_free[o->n_seq_free++] = i;
    for (int i = 0; i < OR_SEQS; i++) o->seq[i].gen = 1;
    for (int i = 1; i < OR_NS; i++) o->ns[i].gen = 1;
    o->ns[0].opens = 1;
    memset(o->bytes, 0xee, sizeof o->bytes);
    or_late_init(o);
}

static int ns_of(const oracle *o, pkv_ns ns)
{
    for (int i = 0; i < o->cfg.max_namespaces; i++)
        if (o->ns[i].opens && or_handle(o->ns[i].gen, i) == ns.v) return i;
    return -1;
}

pkv_status or_ns_open(oracle *o, const pkv_ns_params *p, pkv_ns *out)
{
    const char *f[3] = { p->kv_format, p->adapter, p->salt };
    size_t n[3] = { p->kv_format_bytes, p->adapter_bytes, p->salt_bytes };
    or_ns fresh = { .opens = 1 };
    memcpy(fresh.model, p->model_digest, 32);
    for (int k = 0; k < 3; k++) {
        fresh.n_field[k] = (int)n[k];
        if (n[k]) memcpy(fresh.field[k], f[k], n[k]);
    }
    for (int i = 0; i < o->cfg.max_namespaces; i++) {
        or_ns *x = &o->ns[i];
        if (!x->opens || memcmp(x->model, fresh.model, 32) ||
            memcmp(x->n_field, fresh.n_field, sizeof x->n_field) ||
            memcmp(x->field, fresh.field, sizeof x->field))
            continue;
        x->opens += i > 0;
        out->v = or_handle(x->gen, i);
        return PKV_OK;
    }
    int i = 0;
    while (i < o->cfg.max_namespaces && o->ns[i].opens) i++;
    if (i == o->cfg.max_namespaces) return PKV_E_LIMIT;
    fresh.gen = o->ns[i].gen;
    o->ns[i] = fresh;
    out->v = or_handle(fresh.gen, i);
    return PKV_OK;
}

/* The node's blocks lose their content; those on an eviction list are free. */
static void drop_blocks(oracle *o, or_node *nd)
{
    for (int g = 0; g < o->G; g++) {
        const int first = nd->main[g];
        nd->main[g] = nd->n_spare[g] = 0;
        for (int k = -1; k < OR_STATE; k++) {
            const int b = k < 0 ? first : nd->snap[g][k];
            if (k >= 0) nd->snap[g][k] = 0;
            if (!b) continue;
            const bool cached = or_unlist(o, b);
            if (cached) or_make_free(o, b);
            else if (or_row_refs(o, b)) BROKEN(o, "closed namespace with a used block");
            o->cover[cached ? OR_CACHED_DROPPED_BY_NS : OR_LIMBO_DROPPED_BY_NS]++;
        }
    }
}

static void drop_tree(oracle *o, int ns, int parent)
{
    or_node *nd;
    while ((nd = or_newest_child(o, ns, parent, UINT64_MAX))) {
        drop_tree(o, ns, (int)(nd - o->node));
        drop_blocks(o, nd);
        nd->live = false;
    }
}

pkv_status or_ns_close(oracle *o, pkv_ns ns)
{
    int i = ns_of(o, ns);
    bool closing = false;
    if (!ns.v) return PKV_E_INVALID_ARG;
    if (i < 0) return PKV_E_STALE;
    for (int k = 0; k < o->cfg.max_seqs && o->ns[i].opens == 1; k++) {
        if (o->seq[k].open && o->seq[k].ns == i) return PKV_E_STATE;
        closing = closing || (o->seq[k].closing && o->seq[k].ns == i);
    }
    if (closing) return PKV_E_AGAIN;
    if (--o->ns[i].opens) return PKV_OK;
    drop_tree(o, i, -1);
    o->ns[i].gen++;
    return PKV_OK;
}

/* ---------------------------------------------------------------- sequences */

or_seq *or_seq_of(oracle *o, pkv_seq h)
{
    for (int i = 0; i < o->cfg.max_seqs; i++)
        if (o->seq[i].open && or_handle(o->seq[i].gen, i) == h.v) return &o->seq[i];
    return NULL;
}

static int new_seq(oracle *o, const or_seq *like)
{
    int i = o->seq_free[--o->n_seq_free];
    uint32_t gen = o->seq[i].gen;
    o->seq[i] = *like;
    o->seq[i].gen = gen;
    return i;
}

pkv_status or_open(oracle *o, pkv_ns ns, pkv_seq *out)
{
    or_seq s = { .open = true, .ns = ns_of(o, ns), .epoch = o->epoch, .tail = -1 };
    if (s.ns < 0) return PKV_E_STALE;
    if (!o->n_seq_free) return or_n_closing(o) ? PKV_E_AGAIN : PKV_E_LIMIT;
    int i = new_seq(o, &s);
    out->v = or_handle(o->seq[i].gen, i);
    return PKV_OK;
}

pkv_status or_fork(oracle *o, pkv_seq h, pkv_seq *children, int32_t n)
{
    or_seq *s = or_seq_of(o, h);
    if (n < 1) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (s->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    if (n > o->n_seq_free) return n <= o->n_seq_free + or_n_closing(o) ? PKV_E_AGAIN : PKV_E_LIMIT;
    for (int g = 0; g < o->G; g++)
        o->cover[OR_FORK_SURPLUS] += s->n_row[g] > or_entries(o, g, s->committed);
    or_shorten(o, s, s->committed);
    s->reserved = s->committed;
    for (int u = s->n_indexed; u < s->n_prepared; u++)
        o->cover[OR_PREPARED_SHARED] += s->unit_node[u] >= 0;
    for (int k = 0; k < n; k++) {
        int i = new_seq(o, s);
        children[k].v = or_handle(o->seq[i].gen, i);
        or_keep_tail(o, &o->seq[i], s->committed / o->T);
    }
    return PKV_OK;
}

void or_cut(oracle *o, or_seq *s, int n)
{
    s->reserved = MIN(s->reserved, n);
    s->committed = MIN(s->committed, n);
    s->settled = MIN(s->settled, n);
    while (s->n_pend && s->pend[s->n_pend - 1].from >= n) s->n_pend--;
    if (s->n_pend && s->pend[s->n_pend - 1].upto > n) {
        s->pend[s->n_pend - 1].upto = n;
        o->cover[OR_ENTRY_CLIPPED]++;
    }
    s->claim = MIN(s->claim, n / o->T);
    if (s->ended && n <= s->ended_at * o->T) s->ended = false, o->cover[OR_INDEX_RESUMED]++;
    s->n_indexed = MIN(s->n_indexed, n / o->T);
    s->n_prepared = MIN(s->n_prepared, n / o->T);
    while (s->n_ex && s->ex[s->n_ex - 1].first >= s->committed) s->n_ex--;
    for (int g = 0; g < o->G && s->open; g++) {
        const int t = o->grp[g].block_tokens;
        if (or_is_state(o, g) || !s->begins[g]) continue;
        if (s->begins[g] / t >= or_entries(o, g, n)) s->begins[g] = 0; /* that block goes */
        else s->begins[g] = MIN(s->begins[g], n);
    }
    if (n == 0) s->high = s->started = 0;
    or_shorten(o, s, n);
    or_keep_tail(o, s, s->committed / o->T);
    or_reap(o);
}

/* PKV_E_RANGE, if a query at n needs what is not there any more. */
static bool in_range(oracle *o, const or_seq *s, int n)
{
    if (n == 0) return true;
    for (int g = 0; g < o->G; g++) {
        if (or_is_state(o, g) && n < s->committed) {
            o->cover[OR_RANGE_STATE]++;
            return false;
        }
        if (or_is_state(o, g) || n >= s->settled) continue;
        const int t = o->grp[g].block_tokens, below = s->begins[g] - s->begins[g] % t;
        for (int i = 0; i < or_entries(o, g, n); i++) {
            const bool own = n % t && i == n / t;
            if (s->row[g][i] || !(own || or_needed(o, g, n, i))) continue;
            o->cover[OR_RANGE_WINDOW]++;
            return false;
        }
        for (int p = below; p < MIN(n, s->begins[g]); p++)
            if (p >= or_first(o, g, n) || p < o->grp[g].sink_tokens) {
                o->cover[OR_RANGE_BELOW_CLAIM]++;
                return false;
            }
    }
    return true;
}

pkv_status or_truncate(oracle *o, pkv_seq h, int32_t n)
{
    or_seq *s = or_seq_of(o, h);
    if (n < 0) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (s->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    if (n > s->reserved) return PKV_E_INVALID_ARG;
    if (!in_range(o, s, n)) return PKV_E_RANGE;
    if (n == 0) s->epoch = o->epoch;
    or_cut(o, s, n);
    return PKV_OK;
}

/* ---------------------------------------------------------------- questions */

pkv_status or_info(oracle *o, pkv_seq h, pkv_seq_info_t *out)
{
    const or_seq *s = or_seq_of(o, h);
    if (!s) return PKV_E_STALE;
    *out = (pkv_seq_info_t){ .struct_size = out->struct_size,
                             .settled = s->settled,
                             .committed = s->committed,
                             .reserved = s->reserved,
                             .row_idx = (int)(s - o->seq),
                             .n_indexed = s->n_indexed,
                             .n_pending = s->n_pend,
                             .state = s->state,
                             .epoch = s->epoch,
                             .ns = { or_handle(o->ns[s->ns].gen, s->ns) } };
    for (int g = 0; g < o->G; g++)
        for (int i = 0; i < s->n_row[g]; i++) {
            out->n_blocks += s->row[g][i] != 0;
            out->blocks_if_closed += s->row[g][i] && or_refs(o, s->row[g][i]) == 1;
        }
    return PKV_OK;
}

void or_stats(oracle *o, pkv_blockmgr_stats_t *out)
{
    uint32_t size = out->struct_size;
    *out = o->stats;
    out->struct_size = size;
    out->block_tokens = o->T;
    out->n_blocks = o->cfg.n_blocks;
    out->free_blocks = o->n_free;
    out->cached_blocks = or_n_cached(o);
    out->limbo_blocks = o->n_limbo;
    out->protected_blocks = o->n_list[OR_PROTECTED];
    out->closing_seqs = or_n_closing(o);
    out->open_seqs = o->cfg.max_seqs - o->n_seq_free - out->closing_seqs;
    for (int i = 0; i < o->cfg.max_steps; i++) out->open_steps += o->step[i].no != 0;
    for (int i = 0; i < o->cfg.max_namespaces; i++) out->open_namespaces += o->ns[i].opens > 0;
    out->epoch = o->epoch;
    or_count_content(o, &out->nodes, &out->extras);
    for (int b = 1; b < o->cfg.n_blocks; b++)
        out->active_blocks += or_refs(o, b) > 0 && !or_quarantined(o, b);
    or_late_stats(o, out);
}
