/* See oracle.h: the calls. */
#include "oracle_blocks.h"

#include <string.h>

/* ---------------------------------------------------------------- life, namespaces */

void or_init(oracle *o, const pkv_blockmgr_config *cfg)
{
    memset(o, 0, sizeof *o);
    o->cfg = *cfg;
    if (!o->cfg.max_nodes) o->cfg.max_nodes = cfg->n_blocks;
    if (!o->cfg.max_extras) o->cfg.max_extras = cfg->n_blocks / 4 + 64;
    o->T = cfg->block_tokens;
    for (int b = cfg->n_blocks - 1; b > 0; b--) or_make_free(o, b);
    for (int i = cfg->max_seqs - 1; i >= 0; i--) o->seq_free[o->n_seq_free++] = i;
    for (int i = 0; i < OR_SEQS; i++) o->seq[i].gen = 1;
    for (int i = 1; i < OR_NS; i++) o->ns[i].gen = 1;
    o->ns[0].opens = 1;
    memset(o->bytes, 0xee, sizeof o->bytes);
}

static uint64_t handle(uint32_t gen, int idx)
{
    return (uint64_t)gen << 32 | (uint32_t)idx;
}

static int ns_of(const oracle *o, pkv_ns ns)
{
    for (int i = 0; i < o->cfg.max_namespaces; i++)
        if (o->ns[i].opens && handle(o->ns[i].gen, i) == ns.v) return i;
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
        out->v = handle(x->gen, i);
        return PKV_OK;
    }
    int i = 0;
    while (i < o->cfg.max_namespaces && o->ns[i].opens) i++;
    if (i == o->cfg.max_namespaces) return PKV_E_LIMIT;
    fresh.gen = o->ns[i].gen;
    o->ns[i] = fresh;
    out->v = handle(fresh.gen, i);
    return PKV_OK;
}

static void drop_tree(oracle *o, int ns, int parent)
{
    or_node *nd;
    while ((nd = or_newest_child(o, ns, parent, UINT64_MAX))) {
        drop_tree(o, ns, (int)(nd - o->node));
        if (!or_unlist(o, nd->main)) BROKEN(o, "closed namespace with a used block");
        nd->live = false;
        or_make_free(o, nd->main);
        o->cover[OR_CACHED_DROPPED_BY_NS]++;
    }
}

pkv_status or_ns_close(oracle *o, pkv_ns ns)
{
    int i = ns_of(o, ns);
    if (!ns.v) return PKV_E_INVALID_ARG;
    if (i < 0) return PKV_E_STALE;
    for (int k = 0; k < o->cfg.max_seqs; k++)
        if (o->ns[i].opens == 1 && o->seq[k].open && o->seq[k].ns == i) return PKV_E_STATE;
    if (--o->ns[i].opens) return PKV_OK;
    drop_tree(o, i, -1);
    o->ns[i].gen++;
    return PKV_OK;
}

/* ---------------------------------------------------------------- sequences */

or_seq *or_seq_of(oracle *o, pkv_seq h)
{
    for (int i = 0; i < o->cfg.max_seqs; i++)
        if (o->seq[i].open && handle(o->seq[i].gen, i) == h.v) return &o->seq[i];
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
    or_seq s = { .open = true, .ns = ns_of(o, ns) };
    if (s.ns < 0) return PKV_E_STALE;
    if (!o->n_seq_free) return PKV_E_LIMIT;
    int i = new_seq(o, &s);
    out->v = handle(o->seq[i].gen, i);
    return PKV_OK;
}

typedef struct found {
    int node[OR_TOKENS], n, cached, bound, n_part, units_left;
    or_node *part;
} found;

/* Longest p such that the first p tokens and the extras starting in them are the same. */
static int common(const or_unit *a, const or_unit *b)
{
    int p = 0, k = 0;
    while (p < a->n && p < b->n && a->tok[p] == b->tok[p]) p++;
    while (k < a->n_ex && k < b->n_ex && !memcmp(&a->ex[k], &b->ex[k], sizeof a->ex[0])) k++;
    if (k < a->n_ex) p = (int)MIN(p, MAX(0, a->ex[k].off));
    if (k < b->n_ex) p = (int)MIN(p, MAX(0, b->ex[k].off));
    return p;
}

static void look_up(oracle *o, int ns, const pkv_tokens *p, int bound, found *f)
{
    int parent = -1, c, at;
    or_unit u;
    memset(f, 0, sizeof *f);
    f->bound = bound;
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return;
    for (; (f->n + 1) * o->T <= bound; f->n++) {
        u = or_unit_at(p->ids, p->extras, p->n_extras, f->n * o->T, o->T);
        const or_node *nd = or_find(o, ns, parent, &u);
        if (!nd) break;
        f->node[f->n] = parent = (int)(nd - o->node);
        f->cached += or_listed(o, nd->main, &c, &at);
    }
    int len = MIN(bound - f->n * o->T, o->T);
    if (!(o->cfg.flags & PKV_MGR_PARTIAL_HITS) || len == 0) return;
    u = or_unit_at(p->ids, p->extras, p->n_extras, f->n * o->T, len);
    or_node *nd = or_newest_child(o, ns, parent, UINT64_MAX);
    for (int k = 0; nd && k < 16; k++, nd = or_newest_child(o, ns, parent, nd->born)) {
        int n = common(&nd->key, &u);
        if (n > f->n_part) f->n_part = n, f->part = nd;
    }
    o->cover[OR_MANY_CHILDREN] += nd != NULL;
    for (c = 0; f->part && c < f->n_part; c++)
        if (u.tok[c] != f->part->key.tok[c]) BROKEN(o, "partial hit of other tokens");
    o->cover[OR_PARTIAL_HIT_EXTRA_CUT] += f->part && f->n_part < MIN(len, f->part->key.n) &&
                                          u.tok[f->n_part] == f->part->key.tok[f->n_part];
}

static void fill_match(const oracle *o, const found *f, bool cut, pkv_match *m)
{
    int full = f->n * o->T;
    m->claimed = full + f->n_part;
    m->claimed_cached = f->cached;
    m->copied = f->n_part;
    m->longest[0] = full;
    bool rest = (o->cfg.flags & PKV_MGR_PARTIAL_HITS) || f->bound - full >= o->T;
    m->stop_reason[0] = !(o->cfg.flags & PKV_MGR_PREFIX_CACHE)  ? PKV_STOP_OFF
                        : full + f->n_part == f->bound || !rest ? PKV_STOP_END
                        : cut                                   ? PKV_STOP_ROOM
                                                                : PKV_STOP_MISS;
}

pkv_status or_match(oracle *o, pkv_seq h, const pkv_tokens *p, int32_t max_tokens, int32_t upto,
                    pkv_block_work *w, pkv_match *m)
{
    found f;
    or_seq *s = or_seq_of(o, h);
    if (max_tokens < 0 || upto < 0 || !or_tokens_ok(o, p)) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (s->committed) return PKV_E_STATE;
    if (upto > o->cfg.max_seq_tokens) return PKV_E_LIMIT;
    if (or_blocks_for(o, upto) > o->cfg.n_blocks - 1) return PKV_E_NEVER;
    look_up(o, s->ns, p, MIN(MIN(max_tokens, p->n), o->cfg.max_seq_tokens), &f);
    int room = o->n_free + s->n_row + or_n_cached(o) - f.cached;
    int want = or_blocks_for(o, MAX(upto, f.n * o->T + f.n_part)) - f.n, at;
    int c = 0, src = f.part ? f.part->main : 0;
    bool src_cached = src && or_listed(o, src, &c, &at), cut = src && want > room - src_cached;
    if (cut) {
        f.part = NULL, f.n_part = 0, src = 0, src_cached = false;
        want = or_blocks_for(o, MAX(upto, f.n * o->T)) - f.n;
    }
    if (want > room) return PKV_E_NO_BLOCKS;
    if (or_zeros_of(o, want, s->n_row) > w->zero_cap || (src != 0) > w->copy_cap)
        return PKV_E_LIMIT;
    fill_match(o, &f, cut, m);
    o->cover[OR_PARTIAL_HIT_CUT] += cut;
    if (src) o->cover[src_cached ? OR_PARTIAL_HIT_CACHED : OR_PARTIAL_HIT_ACTIVE]++;
    o->cover[OR_SURPLUS_REUSED] += s->n_row > 0;
    or_shorten_row(o, s, 0);
    w->n_zero = w->n_copy = 0;
    for (; s->n_row < f.n; s->n_row++) {
        s->row[s->n_row] = o->node[f.node[s->n_row]].main;
        o->cover[OR_CACHED_TO_ACTIVE] += or_unlist(o, s->row[s->n_row]);
    }
    if (src_cached) or_unlist(o, src);
    for (; s->n_row < f.n + want; s->n_row++) s->row[s->n_row] = or_take(o, w);
    if (src_cached) or_cache(o, f.part);
    if (src) w->copy[w->n_copy++] = (pkv_block_copy){ src, s->row[f.n], f.n_part, 0 };
    or_run_work(o, w);
    or_append(o, s, p, m->claimed);
    s->settled = f.n * o->T;
    s->committed = m->claimed;
    s->reserved = MAX(upto, m->claimed);
    s->claim = s->n_indexed = f.n;
    or_keep_tail(o, s, s->committed / o->T);
    o->stats.query_tokens += (uint64_t)f.bound;
    o->stats.hit_tokens += (uint64_t)m->claimed;
    return PKV_OK;
}

typedef struct plan {
    int n_copy, n_new, n_left, src[OR_SEQS];
    bool left[OR_SEQS]; /* may be left out */
    bool second;        /* is left out */
} plan;

static pkv_status make_plan(oracle *o, const pkv_reserve_req *q, int n, plan *p)
{
    memset(p, 0, sizeof *p);
    for (int i = 0; i < n; i++) {
        if (q[i].n_tokens < 0) return PKV_E_INVALID_ARG;
        for (int j = 0; j < i; j++)
            if (q[i].seq.v == q[j].seq.v) return PKV_E_INVALID_ARG;
    }
    for (int i = 0; i < n; i++)
        if (!or_seq_of(o, q[i].seq)) return PKV_E_STALE;
    for (int i = 0; i < n; i++)
        if (or_seq_of(o, q[i].seq)->committed + (int64_t)q[i].n_tokens > o->cfg.max_seq_tokens)
            return PKV_E_LIMIT;
    for (int i = 0; i < n; i++)
        if (or_blocks_for(o, or_seq_of(o, q[i].seq)->committed + q[i].n_tokens) >
            o->cfg.n_blocks - 1)
            return PKV_E_NEVER;
    for (int i = 0; i < n; i++) {
        const or_seq *s = or_seq_of(o, q[i].seq);
        int off = s->committed % o->T, k, b = s->row[s->committed / o->T];
        if (!q[i].n_tokens) continue;
        p->n_new += MAX(0, or_blocks_for(o, s->committed + q[i].n_tokens) - s->n_row);
        if (!off) continue;
        or_node *nd = or_node_of(o, b, &k);
        int refs = or_refs(o, b);
        for (int j = 0; j < i; j++) refs -= p->src[j] == b;
        bool published = nd && nd->key.n > off;
        o->cover[OR_COPY_KEPT_BY_LAST] += !published && refs == 1 && or_refs(o, b) > 1;
        if (!published && refs == 1) continue;
        p->src[i] = b;
        p->n_copy++;
        p->left[i] = refs == 1 && !or_has_child(o, nd);
        p->n_left += p->left[i];
    }
    int room = o->n_free + or_n_cached(o);
    p->second = p->n_copy + p->n_new > room && p->n_left;
    if (p->second) p->n_copy -= p->n_left;
    return p->n_copy + p->n_new > room ? PKV_E_NO_BLOCKS : PKV_OK;
}

static void withdraw(oracle *o, int b)
{
    int k;
    const or_node *nd = or_node_of(o, b, &k);
    o->cover[k >= 0        ? OR_WITHDRAWN_SPARE
             : nd->n_spare ? OR_WITHDRAWN_TO_SPARE
                           : OR_WITHDRAWN_REMOVED]++;
    or_unlink_block(o, b);
    o->stats.withdrawn++;
}

pkv_status or_reserve(oracle *o, const pkv_reserve_req *q, int32_t n, pkv_block_work *w)
{
    plan p;
    if (n < 0) return PKV_E_INVALID_ARG;
    pkv_status st = make_plan(o, q, n, &p);
    if (st != PKV_OK) return st;
    if (p.n_copy > w->copy_cap || or_zeros_of(o, p.n_copy + p.n_new, 0) > w->zero_cap)
        return PKV_E_LIMIT;
    w->n_zero = w->n_copy = 0;
    for (int i = 0; i < n; i++) {
        or_seq *s = or_seq_of(o, q[i].seq);
        int at = s->committed / o->T, k, want = or_blocks_for(o, s->committed + q[i].n_tokens);
        if (!q[i].n_tokens) continue;
        if (p.src[i] && p.second && p.left[i]) {
            withdraw(o, p.src[i]);
            p.src[i] = 0;
        } else if (p.src[i]) {
            o->cover[or_node_of(o, p.src[i], &k) ? OR_COPY_PUBLISHED : OR_COPY_SHARED]++;
            s->row[at] = or_take(o, w);
            w->copy[w->n_copy++] = (pkv_block_copy){ p.src[i], s->row[at], s->committed % o->T, 0 };
        }
        while (s->n_row < want) s->row[s->n_row++] = or_take(o, w);
        s->reserved = MAX(s->reserved, s->committed + q[i].n_tokens);
    }
    o->cover[OR_COPY_TO_FIT] += p.second;
    for (int i = 0; i < n; i++)
        if (p.src[i] && or_find_in(p.src + i + 1, n - i - 1, p.src[i]) < 0) or_release(o, p.src[i]);
    or_run_work(o, w);
    return PKV_OK;
}

/* Block `at` of the row has become full. */
static void index_unit(oracle *o, or_seq *s, int at)
{
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return;
    or_unit u = or_unit_at(s->tok, s->ex, s->n_ex, at * o->T, o->T);
    int k, b = s->row[at];
    if (!s->ended) {
        o->cover[OR_PARTIAL_DROPPED] += or_node_of(o, b, &k) != NULL;
        s->ended = !or_attach(o, s->ns, or_node_at(o, s, at), &u, &s->sum[at * o->T], b);
        if (!s->ended) s->n_indexed++;
    } else {
        o->cover[OR_UNIT_AFTER_END]++;
    }
    o->stats.unindexed_units += s->ended;
}

/* In an unfinished unit: an extra that began before the new tokens is the last one given for it. */
static bool extras_continue(const oracle *o, const or_seq *s, const pkv_tokens *t)
{
    int off = s->committed % o->T;
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE) || s->ended || !off || !t->n_extras) return true;
    or_unit u = or_unit_at(s->tok, s->ex, s->n_ex, s->committed - off, off);
    const pkv_extra *first = t->extras;
    if (first->first >= 0) return true;
    if (!u.n_ex) return false;
    const or_entry *last = &u.ex[u.n_ex - 1];
    return (int64_t)first->first + off == last->off && first->n == last->n &&
           !memcmp(first->digest, last->digest, 32);
}

pkv_status or_commit(oracle *o, pkv_seq h, const pkv_tokens *t, pkv_step step)
{
    or_seq *s = or_seq_of(o, h);
    int k;
    if (!or_tokens_ok(o, t)) return PKV_E_INVALID_ARG;
    if (!s || step.v) return PKV_E_STALE;
    if (!extras_continue(o, s, t)) return PKV_E_INVALID_ARG;
    if (t->n > s->reserved - s->committed) return PKV_E_STATE;
    if (t->n == 0) return PKV_OK;
    for (int i = 0; i < s->claim; i++) o->node[or_node_at(o, s, i + 1)].hit = true;
    o->cover[OR_MARKED] += s->claim > 0;
    s->claim = 0;
    or_append(o, s, t, t->n);
    for (int i = s->committed; i < s->committed + t->n; i++) {
        int b = s->row[i / o->T];
        const or_node *nd = or_node_of(o, b, &k);
        if (or_refs(o, b) != 1 || (nd && nd->key.n > i % o->T)) BROKEN(o, "write to a seen slot");
        o->bytes[b][i % o->T] = s->sum[i];
    }
    for (int end = s->committed + t->n; s->committed < end;) {
        int at = s->committed / o->T;
        s->settled = s->committed = MIN(end, (at + 1) * o->T);
        or_keep_tail(o, s, at);
        if (s->committed == (at + 1) * o->T) index_unit(o, s, at);
    }
    return PKV_OK;
}

pkv_status or_fork(oracle *o, pkv_seq h, pkv_seq *children, int32_t n)
{
    or_seq *s = or_seq_of(o, h);
    if (n < 1) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (n > o->n_seq_free) return PKV_E_LIMIT;
    o->cover[OR_FORK_SURPLUS] += s->n_row > or_blocks_for(o, s->committed);
    or_shorten_row(o, s, or_blocks_for(o, s->committed));
    s->reserved = s->committed;
    for (int k = 0; k < n; k++) {
        int i = new_seq(o, s);
        children[k].v = handle(o->seq[i].gen, i);
        or_keep_tail(o, &o->seq[i], s->committed / o->T);
    }
    return PKV_OK;
}

pkv_status or_truncate(oracle *o, pkv_seq h, int32_t n)
{
    or_seq *s = or_seq_of(o, h);
    if (n < 0) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (n > s->reserved) return PKV_E_INVALID_ARG;
    s->reserved = n;
    s->committed = MIN(s->committed, n);
    s->settled = MIN(s->settled, n);
    s->claim = MIN(s->claim, n / o->T);
    if (s->ended && n <= s->n_indexed * o->T) s->ended = false, o->cover[OR_INDEX_RESUMED]++;
    s->n_indexed = MIN(s->n_indexed, n / o->T);
    while (s->n_ex && s->ex[s->n_ex - 1].first >= s->committed) s->n_ex--;
    or_shorten_row(o, s, or_blocks_for(o, n));
    or_keep_tail(o, s, s->committed / o->T);
    return PKV_OK;
}

static void publish_tail(oracle *o, const or_seq *s)
{
    int at = s->settled / o->T, n = s->settled % o->T, k;
    if (!(o->cfg.flags & PKV_MGR_PARTIAL_HITS) || !n || s->ended) return;
    if (s->settled != s->committed) BROKEN(o, "only full blocks settle before a commit");
    const or_node *nd = or_node_of(o, s->row[at], &k);
    if (nd && nd->key.n >= n) {
        o->cover[OR_PARTIAL_THERE]++;
        return;
    }
    o->cover[OR_PARTIAL_REPLACED] += nd != NULL;
    or_unit u = or_unit_at(s->tok, s->ex, s->n_ex, at * o->T, n);
    or_attach(o, s->ns, or_node_at(o, s, at), &u, &s->sum[at * o->T], s->row[at]);
}

pkv_status or_close(oracle *o, pkv_seq h)
{
    or_seq *s = or_seq_of(o, h);
    if (!s) return PKV_E_STALE;
    publish_tail(o, s);
    or_shorten_row(o, s, 0);
    s->open = false;
    s->gen++;
    o->seq_free[o->n_seq_free++] = (int)(s - o->seq);
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
                             .n_blocks = s->n_row,
                             .n_indexed = s->n_indexed,
                             .ns = { handle(o->ns[s->ns].gen, s->ns) } };
    for (int i = 0; i < s->n_row; i++) out->blocks_if_closed += or_refs(o, s->row[i]) == 1;
    return PKV_OK;
}

pkv_status or_probe(oracle *o, pkv_ns ns, const pkv_tokens *p, pkv_match *m)
{
    found f;
    if (!or_tokens_ok(o, p)) return PKV_E_INVALID_ARG;
    if (ns_of(o, ns) < 0) return PKV_E_STALE;
    look_up(o, ns_of(o, ns), p, MIN(p->n, o->cfg.max_seq_tokens), &f);
    fill_match(o, &f, false, m);
    return PKV_OK;
}

void or_need(oracle *o, const pkv_reserve_req *q, int32_t n, pkv_need *out)
{
    plan p;
    *out = (pkv_need){ .struct_size = out->struct_size, .verdict = PKV_E_INVALID_ARG };
    if (n < 0) return;
    out->verdict = make_plan(o, q, n, &p);
    if (out->verdict != PKV_OK && out->verdict != PKV_E_NO_BLOCKS) return;
    out->copies = p.n_copy;
    out->new_blocks = p.n_copy + p.n_new;
    if (out->verdict != PKV_OK) return;
    out->evictions = MAX(0, out->new_blocks - o->n_free);
    out->zeros = or_zeros_of(o, out->new_blocks, 0);
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
    out->protected_blocks = o->n_list[1];
    out->open_seqs = o->cfg.max_seqs - o->n_seq_free;
    for (int i = 0; i < o->cfg.max_namespaces; i++) out->open_namespaces += o->ns[i].opens > 0;
    or_count_content(o, &out->nodes, &out->extras);
    for (int b = 1; b < o->cfg.n_blocks; b++) out->active_blocks += or_refs(o, b) > 0;
}
