/* Steps: fences between what a call decides and what the engine has done.
 *
 *   steps     [ 7: open | free | 9: open | 8: open ]     numbers in order of begin
 *   per step  the set of open sequences with commits pending in it
 *
 * Open sequences are visited through the set in order of index, closing ones through their list in
 * order of close. */
#include "blockmgr_internal.h"

int32_t pkv__step_find(const pkv_blockmgr *m, pkv_step step)
{
    if (step.v != 0 && steps_of(m)[m->newest_step].number == step.v) return m->newest_step;
    for (int32_t i = 0; i < m->max_steps && step.v != 0; i++)
        if (steps_of(m)[i].number == step.v) return i;
    return NONE;
}

uint64_t pkv__oldest_open_step(const pkv_blockmgr *m)
{
    uint64_t oldest = UINT64_MAX;
    for (int32_t i = 0; i < m->max_steps; i++)
        if (steps_of(m)[i].number != 0 && steps_of(m)[i].number < oldest)
            oldest = steps_of(m)[i].number;
    return oldest;
}

pkv_status pkv_step_begin(pkv_blockmgr *mgr, pkv_step *out)
{
    if (!mgr || !out) return PKV_E_INVALID_ARG;
    int32_t i = 0;
    while (i < mgr->max_steps && steps_of(mgr)[i].number != 0) i++;
    if (i == mgr->max_steps)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "step: %d are open", mgr->max_steps);
    const uint64_t oldest = pkv__oldest_open_step(mgr);
    if (oldest != UINT64_MAX && mgr->n_steps - oldest >= INT32_MAX - 1)
        return pkv__refuse(&mgr->log, PKV_E_LIMIT, "step: one has been open for 2^31 others");
    steps_of(mgr)[i].number = ++mgr->n_steps;
    mgr->newest_step = i;
    mgr->n_open_steps++;
    out->v = mgr->n_steps;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

/* Place of the step in the sequence's list, or n_pending. */
static int32_t find_pending(const pkv_blockmgr *m, const struct seq_rec *s, int32_t step)
{
    int32_t k = 0;
    while (k < s->n_pending && pending_of(m, s)[k].step != step) k++;
    return k;
}

/* The step, entry k of the list, has retired. */
static void settle_entry(pkv_blockmgr *m, struct seq_rec *s, int32_t k)
{
    struct pending *list = pending_of(m, s);
    const int32_t upto = list[k].upto;
    for (int32_t i = k; i + 1 < s->n_pending; i++) list[i] = list[i + 1];
    s->n_pending--;
    if (k > 0) {
        list[k - 1].upto = upto;
        return;
    }
    s->settled = upto;
    if (s->n_units < s->n_full) pkv__units_settle(m, s);
}

/* Drop everything from the step's first commit on. A state that is still needed cannot go back at
 * all. */
static void abort_entry(pkv_blockmgr *m, struct seq_rec *s, int32_t k)
{
    pkv__seq_cut(m, s, m->states && s->life == SEQ_OPEN ? 0 : pending_of(m, s)[k].from);
}

/* `act` on the open sequences of a step's set, in order of index. */
static inline void each_in_set(pkv_blockmgr *m, const uint64_t *set, int32_t step,
                               void (*act)(pkv_blockmgr *, struct seq_rec *, int32_t step))
{
    for (size_t w = 0; w < m->seq_words; w++)
        for (uint64_t bits = set[w]; bits != 0; bits &= bits - 1)
            act(m, &seqs_of(m)[w * 64 + (size_t)__builtin_ctzll(bits)], step);
}

static void settle_step(pkv_blockmgr *m, struct seq_rec *s, int32_t step)
{
    settle_entry(m, s, find_pending(m, s, step));
}

static void abort_step(pkv_blockmgr *m, struct seq_rec *s, int32_t step)
{
    abort_entry(m, s, find_pending(m, s, step));
}

static void slide_windows(pkv_blockmgr *m, struct seq_rec *s, int32_t step)
{
    (void)step;
    pkv__windows_slide(m, s);
}

static void release_closing(pkv_blockmgr *m, int32_t idx, int32_t before)
{
    struct seq_rec *s = &seqs_of(m)[idx];
    if (before != NONE) seqs_of(m)[before].link = s->link;
    else m->closing_head = s->link;
    if (m->closing_tail == idx) m->closing_tail = before;
    m->n_closing--;
    namespaces_of(m)[s->ns].n_closing--;
    pkv__seq_release(m, s);
}

/* What the end of a step means for the closing sequences. */
static void visit_closing(pkv_blockmgr *m, int32_t step, bool abort)
{
    if (m->n_closing == 0) return;
    pkv__limbo_number(m, true);
    for (int32_t idx = m->closing_head, before = NONE, next; idx != NONE; idx = next) {
        struct seq_rec *s = &seqs_of(m)[idx];
        const int32_t k = find_pending(m, s, step);
        next = s->link;
        if (k < s->n_pending && abort) {
            pkv__tail_drop(m, s);
            abort_entry(m, s, k);
            pkv__tail_prepare(m, s);
        } else if (k < s->n_pending) {
            settle_entry(m, s, k);
        }
        if (s->n_pending > 0) {
            before = idx;
            continue;
        }
        pkv__tail_settle(m, s);
        release_closing(m, idx, before);
    }
    pkv__limbo_number(m, false);
}

pkv_status pkv_step_retire(pkv_blockmgr *mgr, pkv_step step)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    const int32_t at = pkv__step_find(mgr, step);
    if (at == NONE) return PKV_E_STALE;
    uint64_t *set = step_set(mgr, at);
    steps_of(mgr)[at].number = 0;
    mgr->n_open_steps--;
    each_in_set(mgr, set, at, settle_step);
    visit_closing(mgr, at, false);
    if (mgr->windows) each_in_set(mgr, set, at, slide_windows);
    memset(set, 0, mgr->seq_words * sizeof *set);
    pkv__limbo_drain(mgr);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}

pkv_status pkv_step_abort(pkv_blockmgr *mgr, pkv_step step)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    const int32_t at = pkv__step_find(mgr, step);
    if (at == NONE) return PKV_E_STALE;
    const uint64_t *set = step_set(mgr, at);
    steps_of(mgr)[at].number = 0;
    each_in_set(mgr, set, at, abort_step); /* takes them out of the set */
    visit_closing(mgr, at, true);
    mgr->n_open_steps--; /* until here what was cut off waited in limbo for the closing ones */
    pkv__limbo_drain(mgr);
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
