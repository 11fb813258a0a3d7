/* See oracle.h: content nodes. */
#include "oracle_blocks.h"

#include <string.h>

#define EACH_NODE(o, nd) (or_node *nd = (o)->node; nd < (o)->node + (o)->top; nd++)

static bool is_indexed(const or_node *nd)
{
    return nd->live && !nd->prepared;
}

or_node *or_node_of(oracle *o, int b, int *g, int *k)
{
    for
        EACH_NODE(o, nd)
    for (*g = 0; is_indexed(nd) && *g < o->G; ++*g) {
        *k = or_find_in(nd->spare[*g], nd->n_spare[*g], b);
        if (nd->main[*g] == b || *k >= 0) return nd;
        if (or_find_in(nd->snap[*g], OR_STATE, b) >= 0) return nd;
    }
    return NULL;
}

int or_covered(const oracle *o, int b)
{
    int most = 0;
    for (const or_node *nd = o->node; nd < o->node + o->top; nd++)
        for (int g = 0; nd->live && g < o->G; g++) {
            if (nd->main[g] != b && or_find_in(nd->spare[g], nd->n_spare[g], b) < 0 &&
                or_find_in(nd->snap[g], OR_STATE, b) < 0)
                continue;
            int full = or_is_state(o, g) ? 1 : o->grp[g].block_tokens;
            most = MAX(most, nd->key.n < o->T ? nd->key.n : full);
        }
    return most;
}

or_node *or_newest_child(oracle *o, int ns, int parent, uint64_t below)
{
    or_node *best = NULL;
    for
        EACH_NODE(o, nd)
    if (is_indexed(nd) && nd->ns == ns && nd->parent == parent && nd->born < below &&
        (!best || nd->born > best->born))
        best = nd;
    return best;
}

or_node *or_find(oracle *o, int ns, int parent, const or_unit *u)
{
    for
        EACH_NODE(o, nd)
    if (is_indexed(nd) && nd->ns == ns && nd->parent == parent && nd->epoch == o->epoch &&
        !memcmp(&nd->key, u, sizeof *u))
        return nd;
    return NULL;
}

/* Somebody will continue behind it, or settle it. */
static bool is_pinned(const oracle *o, int node)
{
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++) {
        if (!s->open && !s->closing) continue;
        if (s->n_indexed && s->unit_node[s->n_indexed - 1] == node) return true;
        if (s->closing && s->tail == node) return true;
        for (int u = s->n_indexed; u < s->n_prepared; u++)
            if (s->unit_node[u] == node) return true;
    }
    return false;
}

static bool has_block(const or_node *nd)
{
    for (int g = 0; g < OR_G; g++) {
        if (nd->main[g]) return true;
        for (int k = 0; k < OR_STATE; k++)
            if (nd->snap[g][k]) return true;
    }
    return false;
}

void or_reap(oracle *o)
{
    for (bool again = true; again;) {
        again = false;
        for
            EACH_NODE(o, nd)
            {
                const int at = (int)(nd - o->node);
                if (!nd->live || (!nd->prepared && has_block(nd)) ||
                    or_newest_child(o, nd->ns, at, UINT64_MAX) || is_pinned(o, at))
                    continue;
                o->cover[OR_PREPARED_DROPPED] += nd->prepared;
                nd->live = false;
                again = true;
            }
    }
}

void or_unlink(oracle *o, int b)
{
    int g, k;
    or_node *nd = or_node_of(o, b, &g, &k);
    if (!nd) return;
    const int s = or_find_in(nd->snap[g], OR_STATE, b);
    if (s >= 0) nd->snap[g][s] = 0;
    else if (k >= 0) or_remove(nd->spare[g], &nd->n_spare[g], k);
    else if (nd->n_spare[g]) nd->main[g] = or_remove(nd->spare[g], &nd->n_spare[g], 0);
    else nd->main[g] = 0;
    o->cover[OR_CONNECTOR] +=
        !has_block(nd) && or_newest_child(o, nd->ns, (int)(nd - o->node), UINT64_MAX);
    o->cover[OR_CHAIN_PINNED] += !has_block(nd) && is_pinned(o, (int)(nd - o->node));
    or_reap(o);
}

void or_join(oracle *o, or_node *nd, int g, int b)
{
    const int m = nd->main[g], bl = or_find_in(o->limbo, o->n_limbo, b);
    const int ml = or_find_in(o->limbo, o->n_limbo, m); /* later released, later to go */
    const bool partial = nd->key.n < o->T;
    if (!m) {
        nd->main[g] = b;
    } else if (or_refs(o, m)) {
        if (or_refs(o, b)) or_insert(nd->spare[g], &nd->n_spare[g], nd->n_spare[g], b);
        o->cover[!or_refs(o, b) ? OR_LATE_LOST_TO_ACTIVE
                 : partial      ? OR_PARTIAL_SPARE
                                : OR_SPARE_MADE]++;
    } else if (ml >= 0) {
        const bool takes = or_refs(o, b) || bl > ml;
        if (takes) nd->main[g] = b;
        o->cover[takes ? OR_LATE_REPLACED_LIMBO : OR_LATE_LOST_TO_LIMBO]++;
    } else {
        if (!or_unlist(o, m)) BROKEN(o, "neither referenced nor cached");
        or_make_free(o, m);
        nd->main[g] = b;
        o->cover[partial ? OR_PARTIAL_TOOK_CACHED : OR_CACHED_REPLACED]++;
    }
}

/* ---------------------------------------------------------------- room */

/* Extra entries kept for the block being filled, unit `at` of a sequence. A closed one may have to
 * remake its partial tail after an abort. */
static int tail_extras(const oracle *o, const or_seq *s, int at)
{
    if (!s->open && !(s->closing && s->tail < 0 && o->cfg.flags & PKV_MGR_PARTIAL_HITS)) return 0;
    if (s->ended || !(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return 0;
    if (s->committed == at * o->T) return 0;
    return or_unit_at(s->tok, s->ex, s->n_ex, at * o->T, s->committed - at * o->T).n_ex;
}

void or_count_content(const oracle *o, int *nodes, int *extras)
{
    *nodes = *extras = 0;
    for (const or_node *nd = o->node; nd < o->node + o->top; nd++)
        if (nd->live) ++*nodes, *extras += nd->key.n_ex;
    for (const or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++)
        *extras += tail_extras(o, s, s->committed / o->T);
}

void or_end_indexing(or_seq *s, int at)
{
    s->ended_at = s->ended ? MIN(s->ended_at, at) : at;
    s->ended = true;
}

void or_keep_tail(oracle *o, or_seq *s, int at)
{
    int nodes, extras;
    or_count_content(o, &nodes, &extras);
    if (s->committed == (at + 1) * o->T) extras += tail_extras(o, s, at);
    if (s->ended || extras <= o->cfg.max_extras) return;
    or_end_indexing(s, at);
    o->cover[OR_UNIT_NO_EXTRA]++;
}

static or_node *new_node(oracle *o, const or_unit *u, const uint64_t *sum)
{
    or_node *nd = o->node;
    while (nd->live && nd < o->node + OR_NODES - 1) nd++;
    if (nd->live) BROKEN(o, "OR_NODES is too small");
    o->top = MAX(o->top, (int)(nd - o->node) + 1);
    *nd = (or_node){ .live = true, .key = *u, .prio = PKV_PRIORITY_DEFAULT, .epoch = o->epoch };
    memcpy(nd->sum, sum, (size_t)u->n * sizeof *sum);
    return nd;
}

static int n_nodes(const oracle *o, bool indexed_only)
{
    int n = 0;
    for (const or_node *nd = o->node; nd < o->node + o->top; nd++)
        n += nd->live && !(indexed_only && nd->prepared);
    return n;
}

int or_prepare(oracle *o, const or_seq *s, const or_unit *u, const uint64_t *sum, const int *blocks)
{
    if (o->cfg.max_nodes && n_nodes(o, false) >= o->cfg.max_nodes) return -1;
    or_node *nd = new_node(o, u, sum);
    nd->prepared = true;
    nd->ns = s->ns;
    nd->parent = -2;
    memcpy(nd->main, blocks, sizeof nd->main);
    return (int)(nd - o->node);
}

/* ---------------------------------------------------------------- publishing */

/* Nodes that will be gone when these blocks carry nothing any more. */
static int nodes_going(oracle *o, const int *blocks)
{
    int going = 0;
    for
        EACH_NODE(o, nd)
        {
            bool touched = false,
                 kept = !is_indexed(nd) || is_pinned(o, (int)(nd - o->node)) ||
                        or_newest_child(o, nd->ns, (int)(nd - o->node), UINT64_MAX);
            for (int g = 0; g < o->G; g++) {
                const bool ours = blocks[g] && nd->main[g] == blocks[g];
                touched = touched || ours;
                kept = kept || nd->n_spare[g] || (nd->main[g] && !ours);
                for (int k = 0; k < OR_STATE; k++) kept = kept || nd->snap[g][k];
            }
            going += touched && !kept;
        }
    return going;
}

/* All who hold prepared node `p` hold what has become of it: `now`. */
static void forward(oracle *o, int p, int now)
{
    for (or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++) {
        if (!s->open && !s->closing) continue;
        for (int u = 0; u < s->n_prepared; u++)
            if (s->unit_node[u] == p) s->unit_node[u] = now;
        if (s->tail == p) s->tail = now;
    }
    o->node[p].live = false;
}

int or_publish(oracle *o, int ns, int parent, const or_unit *u, const uint64_t *sum,
               const int *blocks, int prepared)
{
    const bool partial = u->n < o->T,
               old_epoch = prepared >= 0 && o->node[prepared].epoch != o->epoch;
    or_node *nd = old_epoch ? NULL : or_find(o, ns, parent, u);
    const bool full = o->probe_nodes && n_nodes(o, true) >= o->probe_nodes; /* old key in place */
    const bool none = prepared < 0 && o->cfg.max_nodes &&
                      n_nodes(o, false) - nodes_going(o, blocks) >= o->cfg.max_nodes;
    if (old_epoch || (!nd && (full || none))) {
        o->cover[old_epoch       ? OR_PREPARED_OLD_EPOCH
                 : prepared >= 0 ? OR_PREPARED_NO_ROOM
                 : partial       ? OR_PARTIAL_REFUSED
                                 : OR_UNIT_NO_NODE]++;
        return -1;
    }
    const int known = nd ? (int)(nd - o->node) : -1;
    for (int g = 0; g < o->G; g++)
        if (blocks[g]) or_unlink(o, blocks[g]);
    if (known >= 0) {
        nd = &o->node[known];
        if (!nd->live) BROKEN(o, "content goes while it is joined");
        for (int g = 0; g < o->G; g++)
            if (blocks[g]) or_join(o, nd, g, blocks[g]);
        o->cover[OR_PREPARED_MERGED] += prepared >= 0;
        if (prepared >= 0) forward(o, prepared, known);
        return known;
    }
    nd = prepared >= 0 ? &o->node[prepared] : new_node(o, u, sum);
    o->cover[OR_PREPARED_INDEXED] += prepared >= 0;
    o->cover[OR_PARTIAL_MADE] += partial;
    nd->prepared = false;
    nd->ns = ns;
    nd->parent = parent;
    nd->born = ++o->born;
    memcpy(nd->main, blocks, sizeof nd->main);
    return (int)(nd - o->node);
}

void or_unit_blocks(const oracle *o, const or_seq *s, int at, bool partial, int *blocks)
{
    for (int g = 0; g < OR_G; g++) {
        blocks[g] = 0;
        if (g >= o->G || or_is_state(o, g)) continue;
        const int t = o->grp[g].block_tokens, end = (at + 1) * o->T;
        if (end % t && !partial) continue;
        const int i = (end - 1) / t;
        if (s->begins[g] > i * t && s->begins[g] < (i + 1) * t) continue;
        blocks[g] = s->open ? s->row[g][i] : s->was[g][i];
    }
}

void or_publish_tail(oracle *o, or_seq *s)
{
    const int at = s->settled / o->T, n = s->settled % o->T;
    int blocks[OR_G], longest = 0;
    if (!(o->cfg.flags & PKV_MGR_PARTIAL_HITS) || !n || s->settled != s->committed) return;
    if (s->ended || s->epoch != o->epoch || s->n_indexed != at) return;
    or_unit_blocks(o, s, at, true, blocks);
    for (int g = 0; g < o->G; g++)
        if (blocks[g]) longest = MAX(longest, or_covered(o, blocks[g]));
    if (longest >= n) {
        o->cover[OR_PARTIAL_THERE]++;
        return;
    }
    o->cover[OR_PARTIAL_REPLACED] += longest > 0;
    or_unit u = or_unit_at(s->tok, s->ex, s->n_ex, at * o->T, n);
    or_publish(o, s->ns, at ? s->unit_node[at - 1] : -1, &u, &s->sum[at * o->T], blocks, -1);
}
