/* Commit: tokens become content. Tokens gather in the tail until they make a unit. A complete unit
 * is published as a node at once, so that later prompts can claim its blocks, or, where a step is
 * still to write it, prepared, and published when it settles.
 *
 *   pending commits   (step 7: tokens 32 .. 48)(step 8: 48 .. 49)     settled 32, committed 49
 *
 * The steps of a list are distinct and open: an entry whose step retires before those in front of
 * it has become as good as the entry before it, and is added to that. */
#include "blockmgr_internal.h"

/* The tail is one complete unit: make it findable, now or when it settles, or end indexing here. */
static void complete_unit(pkv_blockmgr *m, struct seq_rec *s, bool now)
{
    int32_t blocks[MAX_SLOTS];
    if (s->epoch != m->epoch) s->ended = true;
    if (!s->ended && !now) {
        if (pkv__unit_prepare(m, s)) return;
    } else if (!s->ended) {
        struct unit_key key = { 0, s->last_node, tail_tokens(m, s), m->unit,
                                extra_entries(s->tail_extras) };
        key.hash = pkv__unit_hash(m, &key);
        pkv__unit_blocks(m, s, s->n_units, blocks);
        const int32_t node = pkv__node_publish(m, &key, blocks, &s->tail_extras);
        if (node != NONE) {
            pkv__last_node_set(m, s, node);
            s->n_full = ++s->n_units;
            return;
        }
    }
    s->ended = true;
    pkv__extras_drop(m, &s->tail_extras);
    m->unindexed_units++;
}

/* Copy ids[first .. first + n) and the extras that touch them into the tail, at `offset`. */
static void extend_tail(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t, int32_t first,
                        int32_t n, int32_t offset, int32_t *cursor)
{
    memcpy(tail_tokens(m, s) + offset, t->ids + first, (size_t)n * sizeof *t->ids);
    if (t->n_extras == 0) return;
    struct extra_list extras = pkv__extras_at(t, first, cursor);
    extras.shift += offset; /* relative to the unit, not to ids[first] */
    if (pkv__extras_append(m, &s->tail_extras, extras, offset + n)) return;
    s->ended = true;
    pkv__extras_drop(m, &s->tail_extras);
}

static void commit_content(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t, bool now)
{
    int32_t pos = s->committed, cursor = 0;
    for (int32_t i = 0, n; i < t->n; i += n, pos += n) {
        const int32_t offset = unit_offset(m, pos);
        n = pkv__min_i32(m->unit - offset, t->n - i);
        if (!s->ended) extend_tail(m, s, t, i, n, offset, &cursor);
        if (offset + n == m->unit) complete_unit(m, s, now);
    }
}

/* A hit counts when the sequence that claimed it goes on: what is left of the claim is marked. */
static void mark_claim(pkv_blockmgr *m, struct seq_rec *s)
{
    int32_t id = s->last_node;
    for (int32_t u = s->n_units; u > s->claim; u--) id = node_at(m, id)->parent;
    for (; s->claim > 0; s->claim--, id = node_at(m, id)->parent) node_at(m, id)->hit = true;
}

/* Extras of this call may continue, but not contradict, those of the tail. */
static bool extras_continue(const pkv_blockmgr *m, const struct seq_rec *s, const pkv_tokens *t)
{
    if (t->n_extras == 0 || s->ended || !has_flag(m, PKV_MGR_PREFIX_CACHE)) return true;
    int32_t cursor = 0;
    struct extra_list extras = pkv__extras_at(t, 0, &cursor);
    extras.shift = unit_offset(m, s->committed);
    return pkv__extras_follow(m, s->tail_extras, extras, (int32_t)extras.shift);
}

/* ---------------------------------------------------------------- pending commits */

void pkv__pending_cut(pkv_blockmgr *m, struct seq_rec *s, int32_t from)
{
    struct pending *list = pending_of(m, s);
    while (s->n_pending > 0 && list[s->n_pending - 1].from >= from)
        set_drop(step_set(m, list[--s->n_pending].step), seq_index(m, s));
    if (s->n_pending > 0)
        list[s->n_pending - 1].upto = pkv__min_i32(list[s->n_pending - 1].upto, from);
}

void pkv__pending_copy(pkv_blockmgr *m, const struct seq_rec *parent, struct seq_rec *child)
{
    const struct pending *from = pending_of(m, parent);
    child->n_pending = parent->n_pending;
    for (int32_t i = 0; i < parent->n_pending; i++) {
        pending_of(m, child)[i] = from[i];
        set_add(step_set(m, from[i].step), seq_index(m, child));
    }
}

/* Tokens [from, upto) settle when `step` (NONE: no more than those before) has retired. */
static void add_pending(pkv_blockmgr *m, struct seq_rec *s, int32_t step, int32_t from,
                        int32_t upto)
{
    struct pending *list = pending_of(m, s);
    for (int32_t i = 0; i < s->n_pending; i++) {
        if (step != NONE && list[i].step != step) continue;
        list[s->n_pending - 1].upto = upto;
        return;
    }
    list[s->n_pending++] = (struct pending){ step, from, upto };
    set_add(step_set(m, step), seq_index(m, s));
}

static pkv_status check_commit(const pkv_blockmgr *m, pkv_seq seq, const pkv_tokens *tokens,
                               pkv_step step, int32_t *step_idx, struct seq_rec **s)
{
    pkv_status status = pkv__tokens_valid(m, tokens);
    if (status != PKV_OK) return status;
    *step_idx = step.v == 0 ? NONE : pkv__step_find(m, step);
    status = pkv__seq_running(m, seq, s);
    if (status == PKV_E_STALE || (step.v != 0 && *step_idx == NONE)) return PKV_E_STALE;
    if (status != PKV_OK) return status;
    if (!extras_continue(m, *s, tokens))
        return pkv__refuse(
            &m->log, PKV_E_INVALID_ARG,
            "commit: the first extra began in tokens that were committed without it");
    if (tokens->n > (*s)->reserved - (*s)->committed)
        return pkv__refuse(&m->log, PKV_E_STATE, "commit of %d tokens, %d are reserved", tokens->n,
                           (*s)->reserved - (*s)->committed);
    return PKV_OK;
}

pkv_status pkv_seq_commit(pkv_blockmgr *mgr, pkv_seq seq, const pkv_tokens *tokens, pkv_step step)
{
    struct seq_rec *s = NULL;
    int32_t step_idx = NONE;
    if (!mgr) return PKV_E_INVALID_ARG;
    const pkv_status status = check_commit(mgr, seq, tokens, step, &step_idx, &s);
    if (status != PKV_OK || tokens->n == 0) return status;
    const bool now = step_idx == NONE && s->n_pending == 0;
    if (has_flag(mgr, PKV_MGR_PREFIX_CACHE)) {
        if (s->claim > 0) mark_claim(mgr, s);
        commit_content(mgr, s, tokens, now);
    }
    const int32_t from = s->committed;
    s->committed += tokens->n;
    if (now) {
        s->settled = s->committed;
        if (mgr->windows) pkv__windows_slide(mgr, s);
    } else {
        add_pending(mgr, s, step_idx, from, s->committed);
    }
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
