/* See oracle.h: blocks, their lists and states, releases, windows. */
#include "oracle_blocks.h"

#include <string.h>

uint64_t or_handle(uint32_t gen, int idx)
{
    return (uint64_t)gen << 32 | (uint32_t)idx;
}

bool or_is_state(const oracle *o, int g)
{
    return o->grp[g].kind == PKV_GROUP_STATE;
}

int or_place_of(const oracle *o, uint64_t step)
{
    for (int i = 0; step && i < o->cfg.max_steps; i++)
        if (o->step[i].no == step) return i;
    return -1;
}

bool or_waits(const oracle *o)
{
    if (o->cfg.flags & PKV_MGR_IN_ORDER) return false;
    for (int i = 0; i < o->cfg.max_steps; i++)
        if (o->step[i].no) return true;
    return o->aborting;
}

int or_entries(const oracle *o, int g, int64_t n)
{
    if (or_is_state(o, g)) return n ? o->grp[g].state_blocks : 0;
    return (int)((n + o->grp[g].block_tokens - 1) / o->grp[g].block_tokens);
}

void or_insert(int *a, int *n, int at, int v)
{
    for (int i = (*n)++; i > at; i--) a[i] = a[i - 1];
    a[at] = v;
}

int or_remove(int *a, int *n, int at)
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

int or_row_refs(const oracle *o, int b)
{
    int n = 0;
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        for (int g = 0; s->open && g < o->G; g++)
            for (int i = 0; i < s->n_row[g]; i++) n += s->row[g][i] == b;
    return n;
}

int or_refs(const oracle *o, int b)
{
    return or_row_refs(o, b) + or_late_refs(o, b);
}

/* ---------------------------------------------------------------- the eviction order */

bool or_listed(const oracle *o, int b, int *c, int *at)
{
    for (*c = 0; *c < OR_LISTS; ++*c)
        if ((*at = or_find_in(o->list[*c], o->n_list[*c], b)) >= 0) return true;
    return false;
}

bool or_unlist(oracle *o, int b)
{
    int c, at;
    if (!or_listed(o, b, &c, &at)) return false;
    or_remove(o->list[c], &o->n_list[c], at);
    return true;
}

int or_n_cached(const oracle *o)
{
    int n = 0;
    for (int c = 0; c < OR_LISTS; c++) n += o->n_list[c];
    return n;
}

/* The node whose block in group `g` lies before that of `nd`, or NULL. */
static or_node *before_in_group(oracle *o, const or_node *nd, int g)
{
    int at = nd->parent;
    for (int i = o->grp[g].block_tokens / o->T; i > 1 && at >= 0; i--) at = o->node[at].parent;
    return at < 0 ? NULL : &o->node[at];
}

static int own_list(const or_node *nd)
{
    if (nd->prio < PKV_PRIORITY_DEFAULT) return 1 + nd->prio;
    return nd->prio > PKV_PRIORITY_DEFAULT ? nd->prio + 2 : nd->hit ? OR_PROTECTED : OR_PROBATION;
}

void or_cache(oracle *o, int b)
{
    int g, k, c = 0, at;
    const or_node *nd = or_node_of(o, b, &g, &k);
    if (!nd || k >= 0) {
        BROKEN(o, "a block without content on an eviction list");
        return;
    }
    or_node *up = o->grp[g].kind == PKV_GROUP_FULL ? before_in_group(o, nd, g) : NULL;
    if (up && up->main[g] && or_listed(o, up->main[g], &c, &at)) {
        or_insert(o->list[c], &o->n_list[c], at, b);
        o->cover[OR_BEFORE_ITS_PARENT]++;
    } else {
        c = MAX(own_list(nd), nd->floor);
        if (o->cfg.flags & PKV_MGR_PLAIN_LRU) c = OR_PROBATION;
        else o->cover[OR_RAISED_BY_CHILD] += nd->floor > own_list(nd);
        if (nd->epoch != o->epoch) c = OR_STALE, o->cover[OR_STALE_LISTED]++;
        or_insert(o->list[c], &o->n_list[c], o->n_list[c], b);
    }
    if (up) up->floor = MAX(up->floor, c);
    while (o->n_list[OR_PROTECTED] > or_n_cached(o) / 3) {
        at = or_remove(o->list[OR_PROTECTED], &o->n_list[OR_PROTECTED], 0);
        or_insert(o->list[OR_PROBATION], &o->n_list[OR_PROBATION], o->n_list[OR_PROBATION], at);
        o->cover[OR_DEMOTED]++;
    }
}

int or_victim(oracle *o)
{
    int c = 0, g, k;
    while (c < OR_LISTS && !o->n_list[c]) c++;
    if (c == OR_LISTS) {
        BROKEN(o, "nothing to evict");
        return 1;
    }
    int b = or_remove(o->list[c], &o->n_list[c], 0);
    const or_node *nd = or_node_of(o, b, &g, &k);
    o->cover[OR_SNAPSHOT_EVICTED] += nd && or_is_state(o, g);
    o->stats.evicted_blocks++;
    o->cover[c == OR_STALE       ? OR_CACHED_EVICTED_STALE
             : c < OR_PROBATION  ? OR_CACHED_EVICTED_PRIORITY
             : c == OR_PROBATION ? OR_CACHED_EVICTED
                                 : OR_CACHED_EVICTED_PROTECTED]++;
    or_unlink(o, b);
    return b;
}

/* ---------------------------------------------------------------- taking and releasing */

void or_make_free(oracle *o, int b)
{
    o->free_id[o->n_free++] = b;
}

static void claim_from_limbo(oracle *o, int b)
{
    int at = or_find_in(o->limbo, o->n_limbo, b);
    if (at < 0) BROKEN(o, "a claimed block is neither used, cached nor in LIMBO");
    else or_remove(o->limbo, &o->n_limbo, at);
}

void or_claim(oracle *o, int b)
{
    if (or_unlist(o, b)) {
        o->cover[OR_CACHED_TO_ACTIVE]++;
    } else {
        claim_from_limbo(o, b);
        o->cover[OR_LIMBO_TO_ACTIVE]++;
    }
}

void or_release(oracle *o, int b)
{
    int g, k;
    if (or_refs(o, b)) return;
    or_node *nd = or_node_of(o, b, &g, &k);
    const bool spare = nd && k >= 0, promoted = nd && !spare && nd->n_spare[g] > 0;
    if (spare || promoted) {
        o->cover[spare ? OR_SPARE_FREED : OR_SPARE_TOOK_OVER]++;
        or_unlink(o, b);
        nd = NULL;
    }
    if (or_waits(o)) {
        o->limbo[o->n_limbo++] = b;
        o->stamp[b] = o->n_begun;
        o->cover[OR_ACTIVE_TO_LIMBO]++;
    } else if (nd) {
        o->cover[OR_ACTIVE_TO_CACHED]++;
        or_cache(o, b);
    } else {
        o->cover[OR_ACTIVE_TO_FREE]++;
        or_make_free(o, b);
    }
}

void or_drain(oracle *o)
{
    uint64_t oldest = UINT64_MAX;
    int g, k;
    for (int i = 0; i < o->cfg.max_steps; i++)
        if (o->step[i].no) oldest = MIN(oldest, o->step[i].no);
    for (int i = 0; i < o->n_limbo;) {
        int b = o->limbo[i];
        if (o->stamp[b] >= oldest) {
            o->cover[OR_LIMBO_WAITS_FOR_OLDER]++;
            i++;
            continue;
        }
        or_remove(o->limbo, &o->n_limbo, i);
        const bool found = or_node_of(o, b, &g, &k) != NULL;
        o->cover[found ? OR_LIMBO_TO_CACHED : OR_LIMBO_TO_FREE]++;
        if (found) or_cache(o, b);
        else or_make_free(o, b);
    }
}

void or_shorten(oracle *o, or_seq *s, int n)
{
    for (int k = 0; k < OR_STEPS; k++) s->hi[k] = MIN(s->hi[k], n); /* what was launched is void */
    for (int g = 0; g < o->G; g++) {
        const int keep = or_entries(o, g, n);
        while (s->n_row[g] > keep) {
            int b = s->row[g][--s->n_row[g]];
            s->row[g][s->n_row[g]] = 0;
            if (b) or_release(o, b);
        }
    }
}

pkv_status or_verdict(const oracle *o, int n)
{
    if (n <= o->n_free + or_n_cached(o)) return PKV_OK;
    return n <= o->n_free + or_n_cached(o) + o->n_limbo ? PKV_E_AGAIN : PKV_E_NO_BLOCKS;
}

int or_take(oracle *o, pkv_block_work *w)
{
    int b;
    if (o->n_free) {
        b = o->free_id[--o->n_free];
        o->cover[OR_FREE_TO_ACTIVE]++;
    } else {
        b = or_victim(o);
    }
    for (int i = 0; i < o->cfg.max_steps; i++)
        if (o->step[i].no && o->step[i].reads[b]) BROKEN(o, "taken while an open step reads it");
    if (or_covered(o, b)) BROKEN(o, "taken with content on it");
    if (o->cfg.zero_policy == PKV_ZERO_ALWAYS ||
        (o->cfg.zero_policy == PKV_ZERO_ON_DOMAIN_CHANGE && !o->used[b])) {
        if (w) w->zero[w->n_zero++] = b;
    } else if (o->cfg.zero_policy == PKV_ZERO_ON_DOMAIN_CHANGE) {
        o->cover[OR_ZERO_FRESH_ONLY]++;
    }
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

/* ---------------------------------------------------------------- windows */

int or_first(const oracle *o, int g, int p)
{
    const int w = o->grp[g].window_tokens;
    if (o->grp[g].kind == PKV_GROUP_FULL) return 0;
    return o->grp[g].kind == PKV_GROUP_CHUNKED ? p - p % w : MAX(0, p - w + 1);
}

bool or_needed(const oracle *o, int g, int p, int i)
{
    const int t = o->grp[g].block_tokens, from = i * t, to = from + t;
    if (from < p && to > or_first(o, g, p) && or_first(o, g, p) < p) return true;
    return from < MIN(o->grp[g].sink_tokens, p);
}

void or_slide(oracle *o, or_seq *s)
{
    s->high = MAX(s->high, s->settled);
    const int p = MAX(0, s->settled - o->cfg.rollback_tokens);
    for (int g = 0; g < o->G; g++) {
        if (or_is_state(o, g)) continue;
        const int t = o->grp[g].block_tokens, sinks = or_entries(o, g, o->grp[g].sink_tokens);
        for (int i = 0; i < s->n_row[g] && (i + 1) * t <= or_first(o, g, s->settled); i++) {
            const int b = s->row[g][i];
            if (!b) continue;
            o->cover[OR_SINK_KEPT] += i < sinks;
            o->cover[OR_ROLLBACK_KEPT] += i >= sinks && (i + 1) * t > or_first(o, g, p);
            if (i < sinks || (i + 1) * t > or_first(o, g, p)) continue;
            s->row[g][i] = 0;
            o->cover[or_waits(o) ? OR_WINDOW_RELEASED_LATE : OR_WINDOW_RELEASED]++;
            or_release(o, b);
        }
    }
}
