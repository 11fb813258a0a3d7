/* See oracle.h: match and probe. */
#include "oracle_blocks.h"

#include <string.h>

typedef struct found {
    int node[OR_TOKENS], n_known; /* nodes along the prompt */
    int limit, full, n_part;      /* tokens: most that may be claimed, full units, partial hit */
    int longest[OR_G];
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

/* A claim of `n` tokens is possible in this group, as far as alignment goes. */
static bool aligned(const oracle *o, int g, int n)
{
    if (n == 0 || or_is_state(o, g) || n % o->grp[g].block_tokens == 0) return true;
    if (o->grp[g].kind == PKV_GROUP_FULL || o->grp[g].sink_tokens) return false;
    return or_first(o, g, n) == n;
}

static bool served(const oracle *o, const found *f, int g, int n)
{
    if (!aligned(o, g, n)) return false;
    if (n == 0) return true;
    for (int k = 0; or_is_state(o, g) && k < o->grp[g].state_blocks; k++)
        if (!o->node[f->node[n / o->T - 1]].snap[g][k]) return false;
    if (or_is_state(o, g)) return true;
    const int t = o->grp[g].block_tokens;
    for (int i = 0; i < n / t; i++)
        if (or_needed(o, g, n, i) && !o->node[f->node[(i + 1) * t / o->T - 1]].main[g])
            return false;
    return true;
}

static void find_partial(oracle *o, int ns, const pkv_tokens *p, found *f)
{
    const int len = MIN(f->limit - f->full, o->T);
    if (!(o->cfg.flags & PKV_MGR_PARTIAL_HITS) || len == 0) return;
    const int parent = f->full ? f->node[f->full / o->T - 1] : -1;
    or_unit u = or_unit_at(p->ids, p->extras, p->n_extras, f->full, len);
    int seen = 0;
    or_node *nd = or_newest_child(o, ns, parent, UINT64_MAX);
    for (; nd && seen < 16; seen++, nd = or_newest_child(o, ns, parent, nd->born)) {
        bool whole = nd->epoch == o->epoch;
        for (int g = 0; g < o->G; g++) whole = whole && nd->main[g];
        const int n = whole ? common(&nd->key, &u) : 0;
        if (n > f->n_part) f->n_part = n, f->part = nd;
    }
    o->cover[OR_MANY_CHILDREN] += nd != NULL;
    for (int c = 0; f->part && c < f->n_part; c++)
        if (u.tok[c] != f->part->key.tok[c]) BROKEN(o, "partial hit of other tokens");
    o->cover[OR_PARTIAL_HIT_EXTRA_CUT] += f->part && f->n_part < MIN(len, f->part->key.n) &&
                                          u.tok[f->n_part] == f->part->key.tok[f->n_part];
}

static void look_up(oracle *o, int ns, const pkv_tokens *p, int limit, found *f)
{
    memset(f, 0, sizeof *f);
    f->limit = limit;
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return;
    for (; (f->n_known + 1) * o->T <= limit; f->n_known++) {
        or_unit u = or_unit_at(p->ids, p->extras, p->n_extras, f->n_known * o->T, o->T);
        const or_node *nd = or_find(o, ns, f->n_known ? f->node[f->n_known - 1] : -1, &u);
        if (!nd) break;
        f->node[f->n_known] = (int)(nd - o->node);
    }
    for (int n = f->n_known * o->T; n > 0; n -= o->T) {
        bool all = true;
        for (int g = 0; g < o->G; g++) {
            const bool yes = served(o, f, g, n);
            if (yes) f->longest[g] = MAX(f->longest[g], n);
            all = all && yes;
        }
        if (all) f->full = MAX(f->full, n);
    }
    find_partial(o, ns, p, f);
}

static pkv_stop_reason stop_reason(const oracle *o, const found *f, int g, bool cut)
{
    const int claimed = f->full + f->n_part;
    const bool partial = o->cfg.flags & PKV_MGR_PARTIAL_HITS;
    bool more = partial, known = false;
    if (!(o->cfg.flags & PKV_MGR_PREFIX_CACHE)) return PKV_STOP_OFF;
    if (cut) return PKV_STOP_ROOM;
    for (int n = f->longest[g] - f->longest[g] % o->T + o->T; n <= f->limit; n += o->T) {
        if (!aligned(o, g, n)) continue;
        more = true;
        known = known || n <= f->n_known * o->T;
    }
    if (claimed == f->limit || !more) return PKV_STOP_END;
    if (known && or_is_state(o, g)) return PKV_STOP_STATE;
    return known && o->grp[g].kind != PKV_GROUP_FULL ? PKV_STOP_WINDOW : PKV_STOP_MISS;
}

static void fill_match(const oracle *o, const found *f, int cached, bool cut, pkv_match *m)
{
    m->claimed = f->full + f->n_part;
    m->claimed_cached = cached;
    m->copied = f->n_part;
    memset(m->longest, 0, sizeof m->longest);
    memset(m->stop_reason, 0, sizeof m->stop_reason);
    for (int g = 0; g < o->G; g++) {
        m->longest[g] = f->longest[g];
        m->stop_reason[g] = stop_reason(o, f, g, cut);
    }
}

/* ---------------------------------------------------------------- what a claim takes */

typedef struct claim {
    int row[OR_G][OR_TOKENS];         /* claimed blocks, 0 where nothing is needed */
    int n_entries[OR_G], n_new[OR_G]; /* entries so far; blocks behind them */
    int src[OR_G * OR_STATE], dst_g[OR_G * OR_STATE], n_src; /* copies */
    int held, fresh, cached, limbo; /* claimed blocks; new ones; of the claimed */
    int src_cached;
} claim;

static void add_source(oracle *o, claim *c, int b, int g)
{
    int l, at;
    c->src_cached += or_listed(o, b, &l, &at);
    c->src[c->n_src] = b;
    c->dst_g[c->n_src++] = g;
}

/* All that the plan of a match takes: the claim of `f`, room up to `upto` tokens. */
static void make_claim(oracle *o, const found *f, int upto, claim *c)
{
    const int all = MAX(upto, f->full + f->n_part);
    int l, at;
    memset(c, 0, sizeof *c);
    for (int g = 0; g < o->G; g++) {
        if (or_is_state(o, g)) {
            c->n_new[g] = all ? o->grp[g].state_blocks : 0;
            const or_node *nd = f->full ? &o->node[f->node[f->full / o->T - 1]] : NULL;
            for (int k = 0; nd && k < o->grp[g].state_blocks; k++)
                add_source(o, c, nd->snap[g][k], g);
        } else {
            const int t = o->grp[g].block_tokens;
            c->n_entries[g] = f->full / t;
            for (int i = 0; i < c->n_entries[g]; i++) {
                if (!or_needed(o, g, f->full, i)) continue;
                const int b = o->node[f->node[(i + 1) * t / o->T - 1]].main[g];
                c->row[g][i] = b;
                c->held++;
                c->cached += or_listed(o, b, &l, &at);
                c->limbo += or_find_in(o->limbo, o->n_limbo, b) >= 0;
            }
            c->n_new[g] = or_entries(o, g, all) - c->n_entries[g];
            if (f->part) add_source(o, c, f->part->main[g], g);
        }
        c->fresh += c->n_new[g];
    }
}

/* Blocks that are free when the sequence's surplus has been given back. */
static int surplus_of(const oracle *o, const or_seq *s)
{
    int n = 0;
    for (int g = 0; g < o->G; g++)
        for (int i = 0; i < s->n_row[g]; i++) n += s->row[g][i] && or_refs(o, s->row[g][i]) == 1;
    return n;
}

static void cover_hit(oracle *o, const found *f, const claim *c)
{
    for (int i = 0; i < c->n_src; i++) {
        const int b = c->src[i];
        if (or_is_state(o, c->dst_g[i])) o->cover[OR_SNAPSHOT_HIT]++;
        else if (or_refs(o, b)) o->cover[OR_PARTIAL_HIT_ACTIVE]++;
        else if (or_find_in(o->limbo, o->n_limbo, b) >= 0) o->cover[OR_PARTIAL_HIT_LIMBO]++;
        else o->cover[OR_PARTIAL_HIT_CACHED]++;
    }
    for (int g = 0; g < o->G; g++) {
        o->cover[OR_HIT_BELOW_WINDOW] += c->n_entries[g] > 0 && !c->row[g][c->n_entries[g] - 1];
        o->cover[OR_HIT_BELOW_WINDOW] += c->n_entries[g] > 0 && !c->row[g][0];
        o->cover[OR_CLAIM_INSIDE_BLOCK] +=
            !or_is_state(o, g) && f->full % o->grp[g].block_tokens != 0;
    }
}

/* The rows get the claim and the new blocks; sources wait beside the lists. */
static void carry_out(oracle *o, or_seq *s, const found *f, const claim *c, pkv_block_work *w)
{
    bool off[OR_G * OR_STATE] = { false };
    w->n_zero = w->n_copy = 0;
    /* Windows claim no block of most of these nodes: what is taken below may be theirs. */
    s->claim = s->n_indexed = s->n_prepared = f->full / o->T;
    memcpy(s->unit_node, f->node, sizeof s->unit_node);
    for (int g = 0; g < o->G; g++)
        for (int i = 0; i < c->n_entries[g]; i++) {
            const int b = c->row[g][i];
            if (b && !or_refs(o, b)) or_claim(o, b);
            s->row[g][i] = b;
            s->n_row[g] = i + 1;
        }
    for (int i = 0; i < c->n_src; i++) {
        off[i] = !or_refs(o, c->src[i]);
        if (off[i]) or_claim(o, c->src[i]);
    }
    for (int g = 0; g < o->G; g++) {
        const int from = s->n_row[g];
        for (int i = 0; i < c->n_new[g]; i++) s->row[g][s->n_row[g]++] = or_take(o, w);
        for (int i = 0, k = 0; i < c->n_src; i++)
            if (c->dst_g[i] == g)
                w->copy[w->n_copy++] =
                    (pkv_block_copy){ c->src[i], s->row[g][from + k++], f->n_part, g };
        s->begins[g] = !or_is_state(o, g) && f->full % o->grp[g].block_tokens != 0 ? f->full : 0;
    }
    for (int i = 0; i < c->n_src; i++)
        if (off[i]) or_release(o, c->src[i]);
    or_run_work(o, w);
}

static void settle_lengths(oracle *o, or_seq *s, const pkv_tokens *p, const found *f, int upto)
{
    s->epoch = o->epoch;
    s->committed = 0;
    or_append(o, s, p, f->full + f->n_part);
    s->settled = s->high = s->started = f->full;
    s->committed = f->full + f->n_part;
    s->reserved = MAX(upto, s->committed);
    or_keep_tail(o, s, s->committed / o->T);
    o->stats.query_tokens += (uint64_t)f->limit;
    o->stats.hit_tokens += (uint64_t)s->committed;
}

static pkv_status refuse_match(oracle *o, const or_seq *s, const pkv_tokens *p, int32_t max_tokens,
                               int32_t upto)
{
    if (max_tokens < 0 || upto < 0 || !or_tokens_ok(o, p)) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (s->committed || s->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    return upto > o->cfg.max_seq_tokens ? PKV_E_LIMIT : PKV_OK;
}

pkv_status or_match(oracle *o, pkv_seq h, const pkv_tokens *p, int32_t max_tokens, int32_t upto,
                    pkv_block_work *w, pkv_match *m)
{
    found f;
    claim c;
    or_seq *s = or_seq_of(o, h);
    const pkv_status refused = refuse_match(o, s, p, max_tokens, upto);
    if (refused != PKV_OK) return refused;
    look_up(o, s->ns, p, MIN(MIN(max_tokens, p->n), o->cfg.max_seq_tokens), &f);
    make_claim(o, &f, upto, &c);
    const int surplus = surplus_of(o, s), usable = or_waits(o) ? 0 : surplus;
    const int room = o->n_free + or_n_cached(o) + usable - c.cached;
    const bool cut = c.n_src && c.fresh > room - c.src_cached;
    if (cut) {
        o->cover[f.part ? OR_PARTIAL_HIT_CUT : OR_SNAPSHOT_HIT_GIVEN_UP]++;
        if (!f.part) f.full = 0;
        f.part = NULL, f.n_part = 0;
        make_claim(o, &f, upto, &c);
    }
    if (c.held + c.fresh > o->cfg.n_blocks - 1) return PKV_E_NEVER;
    if (c.fresh > o->n_free + or_n_cached(o) + usable - c.cached) {
        const int later = or_waits(o) ? o->n_limbo - c.limbo + surplus : 0;
        return c.fresh > o->n_free + or_n_cached(o) + usable - c.cached + later ? PKV_E_NO_BLOCKS
                                                                                : PKV_E_AGAIN;
    }
    if (or_zeros_of(o, c.fresh, usable) > w->zero_cap || c.n_src > w->copy_cap) return PKV_E_LIMIT;
    fill_match(o, &f, c.cached, cut, m);
    cover_hit(o, &f, &c);
    o->cover[OR_SURPLUS_REUSED] += usable > 0;
    or_shorten(o, s, 0);
    carry_out(o, s, &f, &c, w);
    settle_lengths(o, s, p, &f, upto);
    return PKV_OK;
}

pkv_status or_probe(oracle *o, pkv_ns ns, const pkv_tokens *p, pkv_match *m)
{
    found f;
    claim c;
    int i = 0;
    if (!or_tokens_ok(o, p)) return PKV_E_INVALID_ARG;
    while (i < o->cfg.max_namespaces && !(o->ns[i].opens && or_handle(o->ns[i].gen, i) == ns.v))
        i++;
    if (i == o->cfg.max_namespaces) return PKV_E_STALE;
    look_up(o, i, p, MIN(p->n, o->cfg.max_seq_tokens), &f);
    make_claim(o, &f, 0, &c);
    fill_match(o, &f, c.cached, false, m);
    return PKV_OK;
}
