/* See oracle.h: commits, steps, what they settle, and policy. */
#include "oracle_blocks.h"

#include <string.h>

/* ---------------------------------------------------------------- settling */

int or_n_closing(const oracle *o)
{
    int n = 0;
    for (int i = 0; i < o->cfg.max_seqs; i++) n += o->seq[i].closing;
    return n;
}

void or_give_slot_back(oracle *o, or_seq *s)
{
    s->open = s->closing = false;
    o->seq_free[o->n_seq_free++] = (int)(s - o->seq);
    or_reap(o);
}

/* Index unit `u`, which has settled; its node is prepared or (`u` not in the list) not. */
static bool index_unit(oracle *o, or_seq *s, int u, int prepared)
{
    int blocks[OR_G];
    or_unit key = or_unit_at(s->tok, s->ex, s->n_ex, u * o->T, o->T);
    or_unit_blocks(o, s, u, false, blocks);
    int nd = or_publish(o, s->ns, u ? s->unit_node[u - 1] : -1, &key, &s->sum[u * o->T], blocks,
                        prepared);
    if (nd >= 0) {
        s->unit_node[u] = nd;
        s->n_indexed = u + 1;
        s->n_prepared = MAX(s->n_prepared, u + 1);
    }
    return nd >= 0;
}

void or_settle(oracle *o, or_seq *s)
{
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return;
    for (int u = s->n_indexed; u < s->n_prepared && (u + 1) * o->T <= s->settled; u++) {
        const int p = s->unit_node[u];
        if (p == -1) continue;
        o->cover[OR_SETTLED_LATE]++;
        o->cover[OR_SETTLED_AFTER_CLOSE] += s->closing;
        if (!o->node[p].prepared) {
            s->n_indexed++; /* another who holds it has settled it */
            continue;
        }
        if (index_unit(o, s, u, p)) continue;
        for (int v = u; v < s->n_prepared; v++) {
            o->stats.unindexed_units += s->unit_node[v] >= 0;
            s->unit_node[v] = -1;
        }
        s->tail = -1; /* of a closing one */
        or_end_indexing(s, u);
    }
    or_reap(o);
}

/* ---------------------------------------------------------------- commit */

/* Unit `u` has become complete. */
static void complete_unit(oracle *o, or_seq *s, int u, bool now)
{
    int blocks[OR_G], g, k;
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return;
    bool done = false;
    if (s->ended) {
        o->cover[OR_UNIT_AFTER_END]++;
    } else if (s->epoch != o->epoch) {
        o->cover[OR_UNIT_OLD_EPOCH]++;
    } else {
        or_unit_blocks(o, s, u, false, blocks);
        o->cover[OR_PARTIAL_DROPPED] += blocks[0] && or_node_of(o, blocks[0], &g, &k) != NULL;
        or_unit key = or_unit_at(s->tok, s->ex, s->n_ex, u * o->T, o->T);
        if (now) done = index_unit(o, s, u, -1);
        else s->unit_node[u] = or_prepare(o, s, &key, &s->sum[u * o->T], blocks);
        if (!now) done = s->unit_node[u] >= 0, s->n_prepared = u + 1;
        if (!done && !now) o->cover[OR_UNIT_NO_NODE]++;
    }
    if (done) return;
    s->unit_node[u] = -1;
    s->n_prepared = u + 1;
    or_end_indexing(s, u);
    o->stats.unindexed_units++;
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

static void add_pending(oracle *o, or_seq *s, int n, uint64_t step)
{
    bool there = !step;
    for (int i = 0; i < s->n_pend; i++) there = there || s->pend[i].step == step;
    if (there) {
        s->pend[s->n_pend - 1].upto += n;
        o->cover[OR_ENTRY_GREW]++;
    } else {
        s->pend[s->n_pend++] = (or_pending){ step, s->committed, s->committed + n };
    }
}

pkv_status or_commit(oracle *o, pkv_seq h, const pkv_tokens *t, pkv_step step)
{
    or_seq *s = or_seq_of(o, h);
    if (!or_tokens_ok(o, t)) return PKV_E_INVALID_ARG;
    if (!s || (step.v && or_place_of(o, step.v) < 0)) return PKV_E_STALE;
    if (s->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    if (!extras_continue(o, s, t)) return PKV_E_INVALID_ARG;
    if (t->n > s->reserved - s->committed) return PKV_E_STATE;
    if (t->n == 0) return PKV_OK;
    const int end = s->committed + t->n;
    const bool now = !step.v && !s->n_pend;
    if (step.v && t->n > or_may_commit(o, h, step))
        BROKEN(o, "the caller commits what it did not launch");
    for (int u = 0; u < s->claim; u++) o->node[s->unit_node[u]].hit = true;
    o->cover[OR_MARKED] += s->claim > 0;
    s->claim = 0;
    or_append(o, s, t, t->n);
    or_write(o, s, s->committed, end, step.v);
    if (!now) add_pending(o, s, t->n, step.v);
    while (s->committed < end) {
        const int at = s->committed / o->T;
        s->committed = MIN(end, (at + 1) * o->T);
        if (now) s->settled = s->committed;
        or_keep_tail(o, s, at);
        if (s->committed == (at + 1) * o->T) complete_unit(o, s, at, now);
    }
    if (now) or_slide(o, s);
    or_reap(o);
    return PKV_OK;
}

/* ---------------------------------------------------------------- steps */

pkv_status or_step_begin(oracle *o, uint32_t how, pkv_step *out)
{
    int at = 0;
    while (at < o->cfg.max_steps && o->step[at].no) at++;
    if (at == o->cfg.max_steps) return PKV_E_LIMIT;
    o->step[at].no = out->v = ++o->n_begun;
    or_launch(o, at, how);
    return PKV_OK;
}

static int entry_of(const or_seq *s, uint64_t step)
{
    for (int i = 0; i < s->n_pend; i++)
        if (s->pend[i].step == step) return i;
    return -1;
}

static void remove_entry(or_seq *s, int i)
{
    for (s->n_pend--; i < s->n_pend; i++) s->pend[i] = s->pend[i + 1];
}

/* True: something has settled. */
static bool retire_in(oracle *o, or_seq *s, uint64_t step)
{
    const int i = entry_of(s, step);
    if (i < 0) return false;
    const int upto = s->pend[i].upto;
    remove_entry(s, i);
    if (i > 0) {
        s->pend[i - 1].upto = upto;
        o->cover[OR_STEP_OUT_OF_ORDER]++;
        return false;
    }
    s->settled = upto;
    or_settle(o, s);
    return true;
}

/* The closed sequence that was closed first after the one with number `after`. */
static or_seq *next_closed(oracle *o, uint64_t after)
{
    or_seq *best = NULL;
    for (or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        if (s->closing && s->closed > after && (!best || s->closed < best->closed)) best = s;
    return best;
}

/* All its commits have settled or were dropped. */
static void finish_closed(oracle *o, or_seq *s)
{
    const int p = s->tail, at = s->settled / o->T;
    int blocks[OR_G], longest = 0;
    s->tail = -1;
    if (p >= 0 && s->settled == s->committed) {
        or_unit_blocks(o, s, at, true, blocks);
        s->tail = p;
        const int n = o->node[p].key.n;
        for (or_node *nd = o->node; nd < o->node + o->top; nd++) {
            if (!nd->live || nd == &o->node[p]) continue;
            for (int g = 0; g < o->G; g++)
                if (blocks[g] && (nd->main[g] == blocks[g] ||
                                  or_find_in(nd->spare[g], nd->n_spare[g], blocks[g]) >= 0))
                    longest = MAX(longest, nd->key.n + (nd->key.n == n && nd->prepared ? -1 : 0));
        }
        o->cover[OR_PARTIAL_THERE] += longest >= n;
        if (longest < n && s->n_indexed == at && o->node[p].prepared) {
            o->cover[OR_PARTIAL_SETTLED_LATE]++;
            or_publish(o, s->ns, at ? s->unit_node[at - 1] : -1, &o->node[p].key,
                       &s->sum[at * o->T], blocks, p);
        }
    }
    or_give_slot_back(o, s);
}

static void clear_launches(oracle *o, int place)
{
    for (or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++) s->lo[place] = s->hi[place] = 0;
    o->step[place].no = 0;
}

pkv_status or_step_retire(oracle *o, pkv_step step)
{
    const int place = or_place_of(o, step.v);
    bool settled[OR_SEQS] = { false };
    if (place < 0) return PKV_E_STALE;
    clear_launches(o, place);
    or_land(o, step.v, true);
    for (int i = 0; i < o->cfg.max_seqs; i++)
        if (o->seq[i].open) settled[i] = retire_in(o, &o->seq[i], step.v);
    for (or_seq *s = next_closed(o, 0); s; s = next_closed(o, s->closed)) {
        retire_in(o, s, step.v);
        if (!s->n_pend) finish_closed(o, s);
    }
    for (int i = 0; i < o->cfg.max_seqs; i++)
        if (settled[i]) or_slide(o, &o->seq[i]);
    or_drain(o);
    return PKV_OK;
}

/* The settled and pending rest behind the full units of a closed sequence gets a node. */
static void prepare_tail(oracle *o, or_seq *s)
{
    const int at = s->committed / o->T, n = s->committed % o->T;
    int blocks[OR_G], longest = 0;
    s->tail = -1;
    if (!(o->cfg.flags & PKV_MGR_PARTIAL_HITS) || !n || s->ended || s->epoch != o->epoch) return;
    or_unit_blocks(o, s, at, true, blocks);
    for (int g = 0; g < o->G; g++)
        if (blocks[g]) longest = MAX(longest, or_covered(o, blocks[g]));
    if (longest >= n) {
        o->cover[OR_PARTIAL_THERE]++;
        return;
    }
    or_unit u = or_unit_at(s->tok, s->ex, s->n_ex, at * o->T, n);
    s->tail = or_prepare(o, s, &u, &s->sum[at * o->T], blocks);
    o->cover[s->tail < 0 ? OR_PARTIAL_REFUSED : OR_PARTIAL_PREPARED]++;
}

pkv_status or_step_abort(oracle *o, pkv_step step)
{
    const int place = or_place_of(o, step.v);
    if (place < 0) return PKV_E_STALE;
    bool state = false;
    for (int g = 0; g < o->G; g++) state = state || or_is_state(o, g);
    clear_launches(o, place);
    or_land(o, step.v, false);
    int cut = 0;
    o->aborting = true;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < o->cfg.max_seqs; i++) {
            or_seq *s = &o->seq[i];
            const int k = entry_of(s, step.v);
            if (!s->open || k < 0) continue;
            if (!pass) cut++;
            else or_cut(o, s, state ? 0 : s->pend[k].from);
        }
    o->cover[OR_ABORT_CUT_FORK] += cut > 1;
    for (or_seq *s = next_closed(o, 0); s; s = next_closed(o, s->closed)) {
        const int k = entry_of(s, step.v);
        if (k < 0) continue;
        o->cover[OR_ABORT_CUT_CLOSED]++;
        o->cover[OR_ABORT_DROPPED_LATER] += k < s->n_pend - 1;
        s->tail = -1;
        or_reap(o);
        or_cut(o, s, s->pend[k].from);
        prepare_tail(o, s);
        o->cover[OR_PARTIAL_REMADE] += s->tail >= 0;
        if (!s->n_pend) finish_closed(o, s);
    }
    o->aborting = false;
    or_drain(o);
    or_reap(o);
    return PKV_OK;
}

/* ---------------------------------------------------------------- close */

pkv_status or_close(oracle *o, pkv_seq h)
{
    or_seq *s = or_seq_of(o, h);
    if (!s) return PKV_E_STALE;
    if (s->state == PKV_SEQ_SUSPENDING || s->state == PKV_SEQ_RESUMING) return PKV_E_BUSY;
    if (s->state == PKV_SEQ_SUSPENDED) or_late_close(o, s);
    if (o->cfg.flags & PKV_MGR_IN_ORDER && s->n_pend) {
        o->cover[OR_CLOSE_DROPPED_PENDING]++;
        s->n_pend = 0;
        s->n_prepared = s->n_indexed;
        or_reap(o);
    }
    memcpy(s->was, s->row, sizeof s->was);
    s->tail = -1;
    if (s->n_pend) prepare_tail(o, s);
    else if (s->state == PKV_SEQ_RUNNING) or_publish_tail(o, s);
    s->closing = s->n_pend > 0;
    s->closed = ++o->n_closed;
    or_shorten(o, s, 0);
    s->open = false;
    s->gen++;
    if (!s->closing) or_give_slot_back(o, s);
    or_reap(o);
    return PKV_OK;
}

/* ---------------------------------------------------------------- policy */

pkv_status or_retain(oracle *o, pkv_seq h, int32_t first, int32_t n, int32_t priority)
{
    or_seq *s = or_seq_of(o, h);
    if (first < 0 || n < 0 || priority < 0 || priority > PKV_PRIORITY_MAX) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (s->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    if (n > s->committed - first) return PKV_E_INVALID_ARG;
    for (int u = 0; n && u < s->n_prepared; u++) {
        if ((u + 1) * o->T <= first || u * o->T >= first + n || s->unit_node[u] < 0) continue;
        or_node *nd = &o->node[s->unit_node[u]];
        nd->prio = priority;
        o->cover[nd->prepared ? OR_RETAINED_PREPARED : OR_RETAINED]++;
    }
    return PKV_OK;
}

pkv_status or_decay(oracle *o)
{
    for (int c = OR_PROTECTED + 1; c < OR_LISTS; c++)
        while (o->n_list[c]) {
            const int b = or_remove(o->list[c], &o->n_list[c], 0);
            or_insert(o->list[c - 1], &o->n_list[c - 1], o->n_list[c - 1], b);
            o->cover[OR_DECAYED_LIST]++;
        }
    for (or_node *nd = o->node; nd < o->node + o->top; nd++) {
        nd->prio -= nd->prio > PKV_PRIORITY_DEFAULT;
        nd->floor -= nd->floor > OR_PROTECTED;
    }
    return PKV_OK;
}

pkv_status or_evict(oracle *o, int32_t n, int32_t *evicted)
{
    if (n < 0) return PKV_E_INVALID_ARG;
    for (*evicted = 0; *evicted < n && or_n_cached(o); ++*evicted) or_make_free(o, or_victim(o));
    return PKV_OK;
}

pkv_status or_new_epoch(oracle *o)
{
    if (o->epoch == UINT32_MAX) return PKV_E_LIMIT;
    o->epoch++;
    for (int c = OR_STALE + 1; c < OR_LISTS; c++)
        while (o->n_list[c]) {
            const int b = or_remove(o->list[c], &o->n_list[c], 0);
            or_insert(o->list[OR_STALE], &o->n_list[OR_STALE], o->n_list[OR_STALE], b);
            o->cover[OR_STALE_LISTED]++;
        }
    return PKV_OK;
}
