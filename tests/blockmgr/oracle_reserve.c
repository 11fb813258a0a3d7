/* See oracle.h: reserve, need, snapshot. */
#include "oracle_blocks.h"

#include <stdlib.h>
#include <string.h>

/* A block that is written at `off` next, or a state block. */
typedef struct tail {
    int req, g, entry, src, off;
    bool left; /* may be left out */
} tail;
typedef struct plan {
    int n_copy, n_new, n_left, n_tail, n_freed;
    tail t[OR_SEQS * OR_G * OR_STATE];
    bool second; /* those that may be are left out */
} plan;

static pkv_status refuse_reserve(oracle *o, const pkv_reserve_req *q, int n)
{
    for (int i = 0; i < n; i++) {
        if (q[i].n_tokens < 0) return PKV_E_INVALID_ARG;
        for (int j = 0; j < i; j++)
            if (q[i].seq.v == q[j].seq.v) return PKV_E_INVALID_ARG;
    }
    for (int i = 0; i < n; i++)
        if (!or_seq_of(o, q[i].seq)) return PKV_E_STALE;
    for (int i = 0; i < n; i++)
        if (or_seq_of(o, q[i].seq)->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    for (int i = 0; i < n; i++)
        if (or_seq_of(o, q[i].seq)->committed + (int64_t)q[i].n_tokens > o->cfg.max_seq_tokens)
            return PKV_E_LIMIT;
    for (int i = 0; i < n; i++) {
        const or_seq *s = or_seq_of(o, q[i].seq);
        int all = 0;
        for (int g = 0; g < o->G; g++) {
            for (int k = 0; k < s->n_row[g]; k++) all += s->row[g][k] != 0;
            if (q[i].n_tokens == 0) continue;
            all += MAX(0, or_entries(o, g, s->committed + q[i].n_tokens) - s->n_row[g]);
        }
        if (all > o->cfg.n_blocks - 1) return PKV_E_NEVER;
    }
    return PKV_OK;
}

/* B12 at `off` of an entry's block, when the copies planned so far have left theirs. */
static void plan_tail(oracle *o, plan *p, tail t)
{
    int moved = 0;
    for (int j = 0; j < p->n_tail; j++) moved += p->t[j].src == t.src;
    const int rows = or_row_refs(o, t.src) + o->late.raw[t.src] - moved;
    const int covered = or_covered(o, t.src);
    const bool seen = covered > t.off, held = or_hold_covers(o, t.src, t.off);
    if (rows == 1 && !seen && !held) {
        o->cover[OR_COPY_KEPT_BY_LAST] += moved > 0;
        return;
    }
    t.left = or_refs(o, t.src) - moved == 1 && !or_waits(o);
    p->t[p->n_tail++] = t;
    p->n_copy++;
    p->n_left += t.left;
}

/* Cached blocks of what continues `parent`, in a FULL group: children before parents, newest first.
 * They are counted, or become free. */
static int cut_continuation(oracle *o, int ns, int parent, int g, bool count)
{
    int n = 0;
    uint64_t below = UINT64_MAX;
    for (or_node *c; (c = or_newest_child(o, ns, parent, below)) != NULL;) {
        const int b = c->main[g];
        int l, at;
        below = c->born;
        n += cut_continuation(o, ns, (int)(c - o->node), g, count);
        if (!b || !or_listed(o, b, &l, &at)) continue;
        n++;
        if (count) continue;
        (void)or_unlist(o, b);
        or_unlink(o, b);
        or_make_free(o, b);
        o->stats.evicted_blocks++;
        o->cover[OR_CONTINUATION_CUT]++;
    }
    return n;
}

/* A FULL block that is written in place takes along what continues it, if its node has no other
 * block left by then: the first `j` tails have gone. */
static int take_along(oracle *o, const plan *p, int j, bool count)
{
    const tail *t = &p->t[j];
    int g, k, others = 0;
    if (!t->left || o->grp[t->g].kind != PKV_GROUP_FULL) return 0;
    const or_node *nd = or_node_of(o, t->src, &g, &k);
    if (!nd) return 0;
    others = nd->n_spare[g]; /* main and spares but this one */
    for (int i = 0; i < j; i++)
        if (p->t[i].left && p->t[i].g == g &&
            (nd->main[g] == p->t[i].src ||
             or_find_in(nd->spare[g], nd->n_spare[g], p->t[i].src) >= 0))
            others--;
    return others ? 0 : cut_continuation(o, nd->ns, (int)(nd - o->node), g, count);
}

static pkv_status make_plan(oracle *o, const pkv_reserve_req *q, int n, plan *p)
{
    memset(p, 0, sizeof *p);
    const pkv_status refused = refuse_reserve(o, q, n);
    if (refused != PKV_OK) return refused;
    for (int i = 0; i < n; i++) {
        const or_seq *s = or_seq_of(o, q[i].seq);
        for (int g = 0; g < o->G && q[i].n_tokens; g++) {
            p->n_new += MAX(0, or_entries(o, g, s->committed + q[i].n_tokens) - s->n_row[g]);
            if (or_is_state(o, g)) {
                for (int k = 0; k < s->n_row[g]; k++)
                    plan_tail(o, p, (tail){ i, g, k, s->row[g][k], 0, false });
                continue;
            }
            const int t = o->grp[g].block_tokens, at = s->committed / t, off = s->committed % t;
            if (off && !s->row[g][at]) BROKEN(o, "the block to write into was released");
            if (off) plan_tail(o, p, (tail){ i, g, at, s->row[g][at], off, false });
        }
    }
    p->second = or_verdict(o, p->n_copy + p->n_new) != PKV_OK && p->n_left;
    if (p->second) p->n_copy -= p->n_left;
    for (int j = 0; p->second && j < p->n_tail; j++) p->n_freed += take_along(o, p, j, true);
    return or_verdict(o, p->n_copy + p->n_new);
}

static void withdraw(oracle *o, int b)
{
    int g, k;
    const or_node *nd = or_node_of(o, b, &g, &k);
    if (!nd) return;
    o->cover[k >= 0           ? OR_WITHDRAWN_SPARE
             : nd->n_spare[g] ? OR_WITHDRAWN_TO_SPARE
                              : OR_WITHDRAWN_REMOVED]++;
    or_unlink(o, b);
    o->stats.withdrawn++;
}

static void cover_copy(oracle *o, const tail *t)
{
    int g, k;
    const or_node *nd = or_node_of(o, t->src, &g, &k);
    if (or_is_state(o, t->g)) o->cover[OR_STATE_COPIED]++;
    else if (nd && nd->key.n > t->off) o->cover[OR_COPY_PUBLISHED]++;
    else if (or_covered(o, t->src) > t->off) o->cover[OR_COPY_PREPARED]++;
    else if (or_hold_covers(o, t->src, t->off)) o->cover[OR_COPY_HELD]++;
    else o->cover[OR_COPY_SHARED]++;
}

/* Copies and new blocks of one request in one group; sources that were left into `src`. */
static void serve(oracle *o, const pkv_reserve_req *q, plan *p, int i, int g, pkv_block_work *w)
{
    or_seq *s = or_seq_of(o, q[i].seq);
    const int want = or_entries(o, g, s->committed + q[i].n_tokens);
    for (int j = 0; j < p->n_tail; j++) {
        tail *t = &p->t[j];
        if (t->req != i || t->g != g || !t->src) continue;
        cover_copy(o, t);
        const int dst = or_take(o, w);
        s->row[g][t->entry] = dst;
        w->copy[w->n_copy++] = (pkv_block_copy){ t->src, dst, t->off, g };
        for (int k = 0; k < OR_STEPS; k++) s->hi[k] = MIN(s->hi[k], s->committed);
    }
    while (s->n_row[g] < want) s->row[g][s->n_row[g]++] = or_take(o, w);
}

/* PKV_E_AGAIN promises that retiring the steps up to `need.step` suffices. */
static void check_promise(oracle *o, const pkv_reserve_req *q, int n)
{
    pkv_need need = PKV_NEED_INIT;
    oracle *later = malloc(sizeof *later);
    if (!later) abort();
    *later = *o;
    or_need(later, q, n, &need);
    const uint64_t last = need.step.v;
    for (uint64_t step = 1; step <= last; step++) (void)or_step_retire(later, (pkv_step){ step });
    or_need(later, q, n, &need);
    if (need.verdict != PKV_OK || !last) BROKEN(o, "AGAIN, but no step makes room");
    free(later);
}

pkv_status or_reserve(oracle *o, const pkv_reserve_req *q, int32_t n, pkv_block_work *w)
{
    plan p;
    if (n < 0) return PKV_E_INVALID_ARG;
    pkv_status st = make_plan(o, q, n, &p);
    if (st == PKV_E_AGAIN) check_promise(o, q, n);
    if (st != PKV_OK) return st;
    if (p.n_copy > w->copy_cap || or_zeros_of(o, p.n_copy + p.n_new, p.n_freed) > w->zero_cap)
        return PKV_E_LIMIT;
    w->n_zero = w->n_copy = 0;
    for (int j = 0; p.second && j < p.n_tail; j++) {
        if (!p.t[j].left) continue;
        (void)take_along(o, &p, j, false);
        withdraw(o, p.t[j].src);
        p.t[j].src = 0;
    }
    for (int i = 0; i < n; i++) {
        or_seq *s = or_seq_of(o, q[i].seq);
        for (int g = 0; g < o->G && q[i].n_tokens; g++) serve(o, q, &p, i, g, w);
        s->reserved = MAX(s->reserved, s->committed + q[i].n_tokens);
    }
    o->cover[OR_COPY_TO_FIT] += p.second;
    for (int j = 0; j < p.n_tail; j++) {
        bool again = false;
        for (int k = j + 1; k < p.n_tail; k++) again = again || p.t[k].src == p.t[j].src;
        if (p.t[j].src && !again) or_release(o, p.t[j].src);
    }
    or_run_work(o, w);
    return PKV_OK;
}

/* Retiring all steps up to the answer lets `missing` blocks leave LIMBO. */
static uint64_t step_for(const oracle *o, int missing)
{
    uint64_t best = 0;
    for (int i = 0; i < o->cfg.max_steps; i++)
        if (o->step[i].no && o->step[i].no <= o->stamp[o->limbo[missing - 1]])
            best = MAX(best, o->step[i].no);
    return best;
}

void or_need(oracle *o, const pkv_reserve_req *q, int32_t n, pkv_need *out)
{
    plan p;
    *out = (pkv_need){ .struct_size = out->struct_size, .verdict = PKV_E_INVALID_ARG };
    if (n < 0) return;
    out->verdict = make_plan(o, q, n, &p);
    if (out->verdict != PKV_OK && out->verdict != PKV_E_NO_BLOCKS && out->verdict != PKV_E_AGAIN)
        return;
    out->copies = p.n_copy;
    out->new_blocks = p.n_copy + p.n_new;
    if (out->verdict == PKV_E_AGAIN)
        out->step.v = step_for(o, out->new_blocks - o->n_free - or_n_cached(o));
    if (out->verdict != PKV_OK) return;
    out->evictions = p.n_freed + MAX(0, out->new_blocks - o->n_free - p.n_freed);
    out->zeros = or_zeros_of(o, out->new_blocks, p.n_freed);
}

/* The missing blocks of a snapshot at `nd`; those that are there have been claimed. */
static void make_snapshot(oracle *o, const or_seq *s, or_node *nd, pkv_block_work *w)
{
    int slot[OR_G * OR_STATE];
    w->n_zero = w->n_copy = 0;
    for (int g = 0; g < o->G; g++)
        for (int k = 0; or_is_state(o, g) && k < o->grp[g].state_blocks; k++)
            if (nd->snap[g][k]) or_claim(o, nd->snap[g][k]);
    for (int g = 0; g < o->G; g++)
        for (int k = 0; or_is_state(o, g) && k < o->grp[g].state_blocks; k++) {
            if (nd->snap[g][k]) continue;
            slot[w->n_copy] = k;
            w->copy[w->n_copy++] = (pkv_block_copy){ s->row[g][k], or_take(o, w), 0, g };
        }
    for (int i = 0; i < w->n_copy; i++) {
        nd->snap[w->copy[i].group][slot[i]] = w->copy[i].dst;
        or_release(o, w->copy[i].dst);
    }
}

pkv_status or_snapshot(oracle *o, pkv_seq h, pkv_block_work *w)
{
    or_seq *s = or_seq_of(o, h);
    if (!s) return PKV_E_STALE;
    bool fits = s->committed > 0 && s->committed % o->T == 0 && s->state == PKV_SEQ_RUNNING;
    for (int g = 0; g < o->G; g++)
        if (o->grp[g].kind == PKV_GROUP_FULL && s->committed % o->grp[g].block_tokens) fits = false;
    if (!fits) return PKV_E_STATE;
    if (s->n_pend) return PKV_E_AGAIN;
    const int u = s->committed / o->T;
    or_node *nd = s->n_indexed == u ? &o->node[s->unit_node[u - 1]] : NULL;
    if (nd && nd->epoch != o->epoch) nd = NULL; /* nobody would find it */
    int need = 0, there[OR_G * OR_STATE], n_there = 0, cached = 0, limbo = 0, c, at;
    for (int g = 0; nd && g < o->G; g++)
        for (int k = 0; or_is_state(o, g) && k < o->grp[g].state_blocks; k++) {
            const int b = nd->snap[g][k];
            need += !b;
            if (!b) continue;
            there[n_there++] = b;
            if (or_listed(o, b, &c, &at)) cached++;
            else limbo++;
        }
    if (!need) {
        o->cover[OR_SNAPSHOT_THERE] += n_there > 0;
        w->n_zero = w->n_copy = 0;
        return PKV_OK;
    }
    const int room = o->n_free + or_n_cached(o) - cached;
    if (need > room) return need > room + o->n_limbo - limbo ? PKV_E_NO_BLOCKS : PKV_E_AGAIN;
    if (need > w->copy_cap || or_zeros_of(o, need, 0) > w->zero_cap) return PKV_E_LIMIT;
    o->cover[OR_SNAPSHOT_MADE]++;
    make_snapshot(o, s, nd, w);
    for (int i = 0; i < n_there; i++) or_release(o, there[i]);
    or_run_work(o, w);
    return PKV_OK;
}
