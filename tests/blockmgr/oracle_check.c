/* See oracle.h: what must hold at any time. */
#include "oracle_blocks.h"

static int in_limbo(const oracle *o, int b)
{
    return or_find_in(o->limbo, o->n_limbo, b) >= 0;
}

/* The sum of position `p`, in the unit that `nd` ends or before. */
static uint64_t sum_at(const oracle *o, const or_node *nd, int p, int end)
{
    for (int from = end - nd->key.n; p < from; from -= o->T) nd = &o->node[nd->parent];
    return nd->sum[(nd->key.n < o->T ? p - (end - nd->key.n) : p % o->T)];
}

static int end_of(const oracle *o, const or_node *nd)
{
    int n = nd->key.n;
    for (int at = nd->parent; at >= 0 && n <= OR_TOKENS; at = o->node[at].parent) n += o->T;
    return n;
}

/* Block `b` holds what the node says, written by no step that is still running. */
static void check_content(oracle *o, const or_node *nd, int g, int b)
{
    const int end = end_of(o, nd), t = o->grp[g].block_tokens;
    if (end > OR_TOKENS) BROKEN(o, "nodes in a circle");
    if (o->broken) return;
    if (or_is_state(o, g)) {
        for (int k = 0; k < OR_STATE; k++)
            if (nd->snap[g][k] == b &&
                (o->writer[b][0] ||
                 o->bytes[b][0] != or_state_sum(g, k, sum_at(o, nd, end - 1, end))))
                BROKEN(o, "a snapshot does not hold its state");
        return;
    }
    for (int p = (end - 1) / t * t; p < end; p++) {
        if (o->writer[b][p % t]) BROKEN(o, "findable before its step has retired");
        if (o->bytes[b][p % t] != or_slot_sum(g, sum_at(o, nd, p, end)))
            BROKEN(o, "a findable block does not hold its content");
    }
}

/* I7: in a FULL group no block is cached without the one before it, nor goes after it. */
static void check_order(oracle *o, const or_node *nd, int g)
{
    int c, at, pc, pat, up = nd->parent;
    if (o->grp[g].kind != PKV_GROUP_FULL || o->raw_used) return;
    if (!or_listed(o, nd->main[g], &c, &at)) return;
    for (int i = o->grp[g].block_tokens / o->T; i > 1 && up >= 0; i--) up = o->node[up].parent;
    if (up < 0) return;
    const int b = o->node[up].main[g];
    if (!b) BROKEN(o, "a cached block without the one before it");
    if (!b || !or_listed(o, b, &pc, &pat)) return;
    if (pc < c || (pc == c && pat < at)) BROKEN(o, "a parent goes before its child");
}

static void check_indexed(oracle *o, const or_node *nd)
{
    int c, at;
    if (nd->parent >= 0 && (!o->node[nd->parent].live || o->node[nd->parent].prepared))
        BROKEN(o, "a node without its parent");
    for (int g = 0; g < o->G; g++) {
        const int m = nd->main[g];
        for (int k = 0; k < OR_STATE; k++) {
            const int b = nd->snap[g][k];
            if (!b) continue;
            if (or_listed(o, b, &c, &at) + in_limbo(o, b) != 1) BROKEN(o, "snapshot in use");
            check_content(o, nd, g, b);
        }
        if (!m && nd->n_spare[g]) BROKEN(o, "spares without a main block");
        if (!m) continue;
        if (or_listed(o, m, &c, &at) + in_limbo(o, m) + (or_refs(o, m) > 0) != 1)
            BROKEN(o, "main block neither used, cached nor in LIMBO");
        if (nd->n_spare[g] && !or_refs(o, m)) BROKEN(o, "spare of an unused block");
        check_content(o, nd, g, m);
        for (int k = 0; k < nd->n_spare[g]; k++) {
            if (!or_refs(o, nd->spare[g][k])) BROKEN(o, "unused spare");
            check_content(o, nd, g, nd->spare[g][k]);
        }
        check_order(o, nd, g);
    }
}

static void check_prepared(oracle *o, const or_node *nd)
{
    int holders = 0;
    const int at = (int)(nd - o->node);
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++) {
        if (!s->open && !s->closing) continue;
        for (int u = s->n_indexed; u < s->n_prepared; u++) holders += s->unit_node[u] == at;
        holders += s->closing && s->tail == at;
    }
    if (!holders) BROKEN(o, "a prepared node that nobody will settle");
    for (int g = 0; g < o->G; g++) {
        const int b = nd->main[g];
        if (b && !in_limbo(o, b) && !or_refs(o, b)) BROKEN(o, "a prepared block is unused");
        /* Only the last of its units is looked at where blocks are longer. */
        for (int i = 0; b && i < nd->key.n; i++) {
            const int t = o->grp[g].block_tokens, slot = nd->key.n < o->T ? i : t - o->T + i;
            if (o->bytes[b][slot] != or_slot_sum(g, nd->sum[i]))
                BROKEN(o, "a prepared block does not hold its content");
        }
    }
}

static void check_block(oracle *o, int b)
{
    int c, at, g, k, n = or_find_in(o->free_id, o->n_free, b) >= 0;
    if (n && or_covered(o, b)) BROKEN(o, "a free block with content");
    if (in_limbo(o, b)) {
        for (int i = 0; i < o->cfg.max_steps; i++)
            n += o->step[i].no && o->step[i].no <= o->stamp[b];
        if (!n) BROKEN(o, "in LIMBO though every step of then has retired");
        n = 1;
    }
    if (or_listed(o, b, &c, &at) && !or_node_of(o, b, &g, &k)) BROKEN(o, "cached without content");
    if (n + or_listed(o, b, &c, &at) + (or_refs(o, b) > 0) != 1)
        BROKEN(o, "a block in no state, or in two");
}

/* ---------------------------------------------------------------- sequences */

/* What a query at `n` sees is there. */
static void check_seen(oracle *o, const or_seq *s, int g, int n)
{
    const int t = o->grp[g].block_tokens, below = s->begins[g] - s->begins[g] % t;
    for (int p = 0; p < n; p++) {
        if (p < or_first(o, g, n) && p >= o->grp[g].sink_tokens) continue;
        if (!s->row[g][p / t]) BROKEN(o, "a query sees a released block");
        if (p >= below && p < s->begins[g]) BROKEN(o, "a query sees what was never written");
    }
}

static bool may_truncate(const oracle *o, const or_seq *s, int n)
{
    for (int g = 0; g < o->G; g++) {
        if (or_is_state(o, g)) return false;
        const int t = o->grp[g].block_tokens;
        for (int i = 0; i < or_entries(o, g, n); i++)
            if (!s->row[g][i] && (or_needed(o, g, n, i) || (n % t && i == n / t))) return false;
        for (int p = s->begins[g] - s->begins[g] % t; p < MIN(n, s->begins[g]); p++)
            if (p >= or_first(o, g, n) || p < o->grp[g].sink_tokens) return false;
    }
    return true;
}

static void check_bytes(oracle *o, const or_seq *s, int g)
{
    const int t = o->grp[g].block_tokens, below = s->begins[g] - s->begins[g] % t;
    for (int p = 0; p < s->committed; p++) {
        const int b = s->row[g][p / t];
        if (!b || (p >= below && p < s->begins[g])) continue;
        if (o->bytes[b][p % t] != or_slot_sum(g, s->sum[p]))
            BROKEN(o, "a row reads other tokens than its sequence's");
        if (p < s->settled && o->writer[b][p % t]) BROKEN(o, "settled before its step has retired");
    }
    for (int p = s->committed; p < s->reserved; p++) {
        const int b = s->row[g][p / t];
        if (!b || or_row_refs(o, b) != 1 || or_covered(o, b) > p % t || or_hold_covers(o, b, p % t))
            BROKEN(o, "a reserved slot that must not be written");
    }
    check_seen(o, s, g, s->committed);
}

static void check_lengths(oracle *o, const or_seq *s)
{
    int last = 0;
    if (s->settled > s->committed || s->committed > s->reserved) BROKEN(o, "lengths");
    for (int i = 0; i < s->n_pend; i++) {
        if (or_place_of(o, s->pend[i].step) < 0) BROKEN(o, "pending in a step that is not open");
        if (s->pend[i].from >= s->pend[i].upto || s->pend[i].from < last) BROKEN(o, "pending list");
        last = s->pend[i].upto;
    }
    if (s->n_pend && (last != s->committed || s->pend[0].from < s->settled))
        BROKEN(o, "the pending list ends elsewhere");
    if (s->n_indexed * o->T > s->settled) BROKEN(o, "indexed before it has settled");
    if (s->closing && (!s->n_pend || s->open)) BROKEN(o, "closing without pending commits");
}

static bool has_state(const oracle *o)
{
    for (int g = 0; g < o->G; g++)
        if (or_is_state(o, g)) return true;
    return false;
}

static void check_seq(oracle *o, const or_seq *s)
{
    check_lengths(o, s);
    if (!s->open || s->state != PKV_SEQ_RUNNING) return;
    for (int g = 0; g < o->G; g++) {
        if (or_is_state(o, g)) {
            const int n = s->reserved ? o->grp[g].state_blocks : 0;
            if (s->n_row[g] != n) BROKEN(o, "state blocks");
            for (int k = 0; k < n && s->committed; k++)
                if (o->bytes[s->row[g][k]][0] != or_state_sum(g, k, s->sum[s->committed - 1]))
                    BROKEN(o, "a state of other tokens than its sequence's");
            continue;
        }
        if (s->n_row[g] != or_entries(o, g, s->reserved)) BROKEN(o, "row length");
        check_bytes(o, s, g);
        for (int n = 1; n < s->settled && o->grp[g].kind != PKV_GROUP_FULL; n++)
            if (may_truncate(o, s, n)) check_seen(o, s, g, n);
            else if (n >= s->high - o->cfg.rollback_tokens && n >= s->started && !has_state(o))
                BROKEN(o, "no way back within rollback_tokens");
    }
}

const char *or_check(oracle *o)
{
    for (int b = 1; b < o->cfg.n_blocks; b++) check_block(o, b);
    for (const or_node *nd = o->node; nd < o->node + o->top; nd++) {
        if (nd->live && nd->prepared) check_prepared(o, nd);
        else if (nd->live) check_indexed(o, nd);
    }
    for (int i = 1; i < o->n_limbo; i++)
        if (o->stamp[o->limbo[i - 1]] > o->stamp[o->limbo[i]]) BROKEN(o, "LIMBO out of order");
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        if (s->open || s->closing) check_seq(o, s);
    const char *late = or_late_check(o);
    if (late) BROKEN(o, late);
    return o->broken;
}
