/* See oracle.h: lists, content nodes, releases, work lists and bytes, and what must always hold. */
#include "oracle_blocks.h"

#include <string.h>

int or_blocks_for(const oracle *o, int64_t n)
{
    return (int)((n + o->T - 1) / o->T);
}

static void insert_at(int *a, int *n, int at, int v)
{
    for (int i = (*n)++; i > at; i--) a[i] = a[i - 1];
    a[at] = v;
}

static int remove_at(int *a, int *n, int at)
{
    int v = a[at];
    for ((*n)--; at < *n; at++) a[at] = a[at + 1];
    return v;
}

int or_find_in(const int *a, int n, int v)
{
    for (int i = 0; i < n; i++)
        if (a[i] == v) return i;
    return -1;
}

int or_refs(const oracle *o, int b)
{
    int n = 0;
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        for (int i = 0; s->open && i < s->n_row; i++) n += s->row[i] == b;
    return n;
}

or_node *or_node_of(oracle *o, int b, int *spare)
{
    for (or_node *nd = o->node; nd < o->node + o->cfg.n_blocks; nd++) {
        if (!nd->live) continue;
        *spare = or_find_in(nd->spare, nd->n_spare, b);
        if (nd->main == b || *spare >= 0) return nd;
    }
    return NULL;
}

bool or_listed(const oracle *o, int b, int *c, int *at)
{
    for (*c = 0; *c < 2; ++*c)
        if ((*at = or_find_in(o->list[*c], o->n_list[*c], b)) >= 0) return true;
    return false;
}

bool or_unlist(oracle *o, int b)
{
    int c, at;
    if (!or_listed(o, b, &c, &at)) return false;
    remove_at(o->list[c], &o->n_list[c], at);
    return true;
}

int or_n_cached(const oracle *o)
{
    return o->n_list[0] + o->n_list[1];
}

void or_cache(oracle *o, const or_node *nd)
{
    int c, at;
    if (nd->parent >= 0 && or_listed(o, o->node[nd->parent].main, &c, &at)) {
        insert_at(o->list[c], &o->n_list[c], at, nd->main);
    } else {
        c = nd->hit && !(o->cfg.flags & PKV_MGR_PLAIN_LRU);
        insert_at(o->list[c], &o->n_list[c], o->n_list[c], nd->main);
    }
    while (o->n_list[1] > 4 * or_n_cached(o) / 5) {
        insert_at(o->list[0], &o->n_list[0], o->n_list[0], remove_at(o->list[1], &o->n_list[1], 0));
        o->cover[OR_DEMOTED]++;
    }
}

void or_make_free(oracle *o, int b)
{
    o->free_id[o->n_free++] = b;
}

or_node *or_newest_child(oracle *o, int ns, int parent, uint64_t below)
{
    or_node *best = NULL;
    for (or_node *nd = o->node; nd < o->node + o->cfg.n_blocks; nd++)
        if (nd->live && nd->ns == ns && nd->parent == parent && nd->born < below &&
            (!best || nd->born > best->born))
            best = nd;
    return best;
}

bool or_has_child(oracle *o, const or_node *nd)
{
    return or_newest_child(o, nd->ns, (int)(nd - o->node), UINT64_MAX) != NULL;
}

void or_unlink_block(oracle *o, int b)
{
    int k;
    or_node *nd = or_node_of(o, b, &k);
    if (!nd) return;
    if (k >= 0) {
        remove_at(nd->spare, &nd->n_spare, k);
    } else if (nd->n_spare) {
        nd->main = remove_at(nd->spare, &nd->n_spare, 0);
    } else {
        if (or_has_child(o, nd)) BROKEN(o, "a node goes before its child");
        nd->live = false;
    }
}

void or_release(oracle *o, int b)
{
    int k;
    if (or_refs(o, b)) return;
    or_node *nd = or_node_of(o, b, &k);
    if (nd && k < 0 && !nd->n_spare) {
        o->cover[OR_ACTIVE_TO_CACHED]++;
        or_cache(o, nd);
        return;
    }
    o->cover[!nd ? OR_ACTIVE_TO_FREE : k < 0 ? OR_SPARE_TOOK_OVER : OR_SPARE_FREED]++;
    or_unlink_block(o, b);
    or_make_free(o, b);
}

void or_shorten_row(oracle *o, or_seq *s, int n)
{
    while (s->n_row > n) {
        int b = s->row[--s->n_row];
        s->row[s->n_row] = 0;
        or_release(o, b);
    }
}

int or_take(oracle *o, pkv_block_work *w)
{
    int b;
    if (o->n_free) {
        b = o->free_id[--o->n_free];
        o->cover[OR_FREE_TO_ACTIVE]++;
    } else {
        int c = o->n_list[0] ? 0 : 1;
        b = remove_at(o->list[c], &o->n_list[c], 0);
        or_unlink_block(o, b);
        o->stats.evicted_blocks++;
        o->cover[c ? OR_CACHED_EVICTED_PROTECTED : OR_CACHED_EVICTED]++;
    }
    if (o->cfg.zero_policy == PKV_ZERO_ALWAYS ||
        (o->cfg.zero_policy == PKV_ZERO_ON_DOMAIN_CHANGE && !o->used[b]))
        w->zero[w->n_zero++] = b;
    else if (o->cfg.zero_policy == PKV_ZERO_ON_DOMAIN_CHANGE) o->cover[OR_ZERO_FRESH_ONLY]++;
    o->used[b] = true;
    o->stats.taken_blocks++;
    return b;
}

int or_zeros_of(const oracle *o, int n, int surplus)
{
    int z = 0;
    if (o->cfg.zero_policy == PKV_ZERO_NEVER) return 0;
    if (o->cfg.zero_policy == PKV_ZERO_ALWAYS) return n;
    for (int i = 0; i < n - surplus && i < o->n_free; i++)
        z += !o->used[o->free_id[o->n_free - 1 - i]];
    return z;
}

void or_run_work(oracle *o, const pkv_block_work *w)
{
    for (int i = 0; i < w->n_zero; i++) memset(o->bytes[w->zero[i]], 0, sizeof o->bytes[0]);
    for (int i = 0; i < w->n_copy; i++)
        memcpy(o->bytes[w->copy[i].dst], o->bytes[w->copy[i].src],
               (size_t)w->copy[i].n_tokens * sizeof(uint64_t));
    o->stats.copies += (uint64_t)w->n_copy;
}

or_unit or_unit_at(const int32_t *ids, const pkv_extra *ex, int n_ex, int at, int n)
{
    or_unit u;
    memset(&u, 0, sizeof u);
    u.n = n;
    memcpy(u.tok, ids + at, (size_t)n * sizeof *ids);
    for (int i = 0; i < n_ex; i++) {
        if (ex[i].first >= at + n || (int64_t)ex[i].first + ex[i].n <= at) continue;
        or_entry *e = &u.ex[u.n_ex++];
        e->off = (int64_t)ex[i].first - at;
        e->n = ex[i].n;
        memcpy(e->digest, ex[i].digest, 32);
    }
    return u;
}

or_node *or_find(oracle *o, int ns, int parent, const or_unit *u)
{
    for (or_node *nd = o->node; nd < o->node + o->cfg.n_blocks; nd++)
        if (nd->live && nd->ns == ns && nd->parent == parent && !memcmp(&nd->key, u, sizeof *u))
            return nd;
    return NULL;
}

/* Extra entries kept for the block being filled, unit `at` of a sequence. */
static int tail_extras(const oracle *o, const or_seq *s, int at)
{
    if (!s->open || s->ended || !(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return 0;
    if (s->committed == at * o->T) return 0;
    return or_unit_at(s->tok, s->ex, s->n_ex, at * o->T, s->committed - at * o->T).n_ex;
}

void or_count_content(const oracle *o, int *nodes, int *extras)
{
    *nodes = *extras = 0;
    for (const or_node *nd = o->node; nd < o->node + o->cfg.n_blocks; nd++)
        if (nd->live) ++*nodes, *extras += nd->key.n_ex;
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        *extras += tail_extras(o, s, s->committed / o->T);
}

void or_keep_tail(oracle *o, or_seq *s, int at)
{
    int nodes, extras;
    or_count_content(o, &nodes, &extras);
    if (s->committed == (at + 1) * o->T) extras += tail_extras(o, s, at);
    if (s->ended || extras <= o->cfg.max_extras) return;
    s->ended = true;
    o->cover[OR_UNIT_NO_EXTRA]++;
}

bool or_attach(oracle *o, int ns, int parent, const or_unit *u, const uint64_t *sum, int b)
{
    int nodes, extras, k;
    bool partial = u->n < o->T;
    or_node *nd = or_find(o, ns, parent, u), *old = or_node_of(o, b, &k);
    or_count_content(o, &nodes, &extras);
    bool full = o->probe_nodes && nodes >= o->probe_nodes; /* judged with the old key in place */
    nodes -= old && k < 0 && !old->n_spare;                /* goes to make room */
    if (!nd && (full || nodes >= o->cfg.max_nodes)) {
        o->cover[partial ? OR_PARTIAL_REFUSED : OR_UNIT_NO_NODE]++;
        return false;
    }
    or_unlink_block(o, b);
    if (nd && or_refs(o, nd->main)) {
        insert_at(nd->spare, &nd->n_spare, nd->n_spare, b);
        o->cover[partial ? OR_PARTIAL_SPARE : OR_SPARE_MADE]++;
    } else if (nd) {
        if (!or_unlist(o, nd->main)) BROKEN(o, "neither referenced nor cached");
        or_make_free(o, nd->main);
        nd->main = b;
        o->cover[partial ? OR_PARTIAL_TOOK_CACHED : OR_CACHED_REPLACED]++;
    } else {
        for (nd = o->node; nd->live;) nd++;
        *nd = (or_node){
            .live = true, .ns = ns, .parent = parent, .born = ++o->born, .key = *u, .main = b
        };
        memcpy(nd->sum, sum, (size_t)u->n * sizeof *sum);
        o->cover[OR_PARTIAL_MADE] += partial;
    }
    return true;
}

int or_node_at(oracle *o, const or_seq *s, int n)
{
    int k;
    if (n == 0) return -1;
    const or_node *nd = or_node_of(o, s->row[n - 1], &k);
    if (!nd) BROKEN(o, "an indexed unit without a node");
    return nd ? (int)(nd - o->node) : -1;
}

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

void or_append(oracle *o, or_seq *s, const pkv_tokens *t, int n)
{
    int at = s->committed;
    for (int i = 0; n > 0 && i < t->n_extras; i++) {
        pkv_extra e = t->extras[i];
        if (e.first >= n) break;
        e.first += at;
        if (!s->n_ex || s->ex[s->n_ex - 1].first < e.first) s->ex[s->n_ex++] = e;
    }
    for (int i = at; i < at + n; i++) {
        uint64_t h = i ? s->sum[i - 1] : mix((uint64_t)s->ns, o->ns[s->ns].gen);
        s->tok[i] = t->ids ? t->ids[i - at] : 0;
        h = mix(mix(h, (uint32_t)s->tok[i]), 1);
        for (int k = 0; k < s->n_ex; k++) {
            const pkv_extra *e = &s->ex[k];
            if (i < e->first || i >= (int64_t)e->first + e->n) continue;
            h = mix(mix(h, (uint64_t)(i - e->first)), (uint64_t)e->n);
            for (int d = 0; d < 32; d++) h = mix(h, e->digest[d]);
        }
        s->sum[i] = h;
    }
}

bool or_tokens_ok(const oracle *o, const pkv_tokens *t)
{
    if (t->n < 0 || t->n_extras < 0) return false;
    if (!t->ids && t->n > 0 && (o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return false;
    for (int i = 0; i < t->n_extras; i++) {
        const pkv_extra *e = &t->extras[i];
        int64_t end = (int64_t)e->first + e->n;
        if (e->n < 1 || end <= 0 || e->first >= t->n) return false;
        if (i && (int64_t)e[-1].first + e[-1].n > e->first) return false;
    }
    return true;
}

static void check_node(oracle *o, const or_node *nd)
{
    int c, at, pc, pat;
    bool on_list = or_listed(o, nd->main, &c, &at);
    if (on_list != !or_refs(o, nd->main)) BROKEN(o, "main block neither used nor cached");
    for (int k = -1; k < nd->n_spare; k++) {
        int b = k < 0 ? nd->main : nd->spare[k];
        if (k >= 0 && !or_refs(o, b)) BROKEN(o, "unused spare");
        if (memcmp(o->bytes[b], nd->sum, (size_t)nd->key.n * sizeof nd->sum[0]))
            BROKEN(o, "a findable block does not hold its content");
    }
    if (nd->parent < 0) return;
    if (!o->node[nd->parent].live) BROKEN(o, "a node without its parent");
    if (!or_listed(o, o->node[nd->parent].main, &pc, &pat)) return;
    if (!on_list || pc < c || (pc == c && pat < at)) BROKEN(o, "a parent goes before its child");
}

const char *or_check(oracle *o)
{
    int c, at, k;
    for (int b = 1; b < o->cfg.n_blocks; b++) {
        bool is_free = or_find_in(o->free_id, o->n_free, b) >= 0;
        if (is_free + or_listed(o, b, &c, &at) + (or_refs(o, b) > 0) != 1)
            BROKEN(o, "a block in no state, or in two");
        if (is_free && or_node_of(o, b, &k)) BROKEN(o, "a free block with a node");
    }
    for (const or_node *nd = o->node; nd < o->node + o->cfg.n_blocks; nd++)
        if (nd->live) check_node(o, nd);
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++) {
        for (int i = 0; s->open && i < s->committed; i++)
            if (o->bytes[s->row[i / o->T]][i % o->T] != s->sum[i])
                BROKEN(o, "a row reads other tokens than its sequence's");
        for (int i = s->committed; s->open && i < s->reserved; i++)
            if (or_refs(o, s->row[i / o->T]) != 1) BROKEN(o, "reserved slot in a shared block");
        if (s->open && s->n_row != or_blocks_for(o, s->reserved)) BROKEN(o, "row length");
    }
    return o->broken;
}
