/* Commit: tokens become content. Tokens gather in the tail until they make a unit; a full unit is
 * published as a node, so that later prompts can claim its block. */
#include "blockmgr_internal.h"

/* The tail is one full unit, whose block is `block`: make it findable, or end indexing here. */
static void complete_unit(pkv_blockmgr *m, struct seq_rec *s, int32_t block)
{
    if (!s->ended) {
        struct unit_key key = { 0, s->last_node, tail_tokens(m, s), m->block_tokens,
                                extra_entries(s->tail_extras) };
        key.hash = pkv__unit_hash(m, &key);
        const int32_t node = pkv__node_publish(m, &key, block, &s->tail_extras);
        if (node != NONE) {
            s->last_node = node;
            s->n_units++;
            return;
        }
        s->ended = true;
        pkv__extras_drop(m, &s->tail_extras);
    }
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

static void commit_content(pkv_blockmgr *m, struct seq_rec *s, const pkv_tokens *t)
{
    const int32_t T = m->block_tokens, *row = row_of(m, s);
    int32_t pos = s->committed, cursor = 0;
    for (int32_t i = 0, n; i < t->n; i += n, pos += n) {
        const int32_t offset = block_offset(m, pos);
        n = pkv__min_i32(T - offset, t->n - i);
        if (!s->ended) extend_tail(m, s, t, i, n, offset, &cursor);
        if (offset + n == T) complete_unit(m, s, row[block_index(m, pos)]);
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
    extras.shift = block_offset(m, s->committed);
    return pkv__extras_follow(m, s->tail_extras, extras, (int32_t)extras.shift);
}

pkv_status pkv_seq_commit(pkv_blockmgr *mgr, pkv_seq seq, const pkv_tokens *tokens, pkv_step step)
{
    if (!mgr) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__tokens_valid(mgr, tokens);
    if (status != PKV_OK) return status;
    struct seq_rec *s = seq_find(mgr, seq);
    if (!s || step.v != 0) return PKV_E_STALE;
    if (!extras_continue(mgr, s, tokens))
        return pkv__refuse(
            &mgr->log, PKV_E_INVALID_ARG,
            "commit: the first extra began in tokens that were committed without it");
    if (tokens->n > s->reserved - s->committed)
        return pkv__refuse(&mgr->log, PKV_E_STATE, "commit of %d tokens, %d are reserved",
                           tokens->n, s->reserved - s->committed);
    if (tokens->n == 0) return PKV_OK;
    if (has_flag(mgr, PKV_MGR_PREFIX_CACHE)) {
        if (s->claim > 0) mark_claim(mgr, s);
        commit_content(mgr, s, tokens);
    }
    s->committed += tokens->n;
    s->settled = s->committed;
    PKV_SELF_CHECK(mgr);
    return PKV_OK;
}
