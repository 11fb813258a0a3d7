/* See oracle.h: tokens, their sums, and the simulated bytes. */
#include "oracle_blocks.h"

#include <string.h>

#define RUBBISH 0xeeeeeeeeeeeeeeeeu

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
        uint64_t h = i ? s->sum[i - 1] : mix(mix((uint64_t)s->ns, o->ns[s->ns].gen), s->epoch);
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

uint64_t or_slot_sum(int g, uint64_t sum)
{
    return mix(sum, (uint64_t)g + 2);
}

uint64_t or_state_sum(int g, int k, uint64_t sum)
{
    return mix(mix(sum, (uint64_t)g + 2), (uint64_t)k + 1000);
}

/* The copies of one list may run in any order, after all of its zeroing. */
static void check_work(oracle *o, const pkv_block_work *w)
{
    for (int i = 0; i < w->n_copy; i++) {
        for (int k = 0; k < w->n_copy; k++) {
            if (w->copy[i].dst == w->copy[k].src) BROKEN(o, "a copy reads what another writes");
            if (k < i && w->copy[i].dst == w->copy[k].dst) BROKEN(o, "one destination twice");
        }
        for (int k = 0; k < w->n_zero; k++)
            if (w->zero[k] == w->copy[i].src) BROKEN(o, "the source of a copy is zeroed");
    }
}

void or_run_work(oracle *o, const pkv_block_work *w)
{
    check_work(o, w);
    for (int i = 0; i < w->n_zero; i++) {
        memset(o->bytes[w->zero[i]], 0, sizeof o->bytes[0]);
        memset(o->writer[w->zero[i]], 0, sizeof o->writer[0]);
    }
    for (int i = 0; i < w->n_copy; i++) {
        const pkv_block_copy *c = &w->copy[i];
        const size_t n = or_is_state(o, c->group) ? 1 : (size_t)c->n_tokens;
        memcpy(o->bytes[c->dst], o->bytes[c->src], n * sizeof(uint64_t));
        memcpy(o->writer[c->dst], o->writer[c->src], n * sizeof(uint64_t));
    }
    o->stats.copies += (uint64_t)w->n_copy;
}

/* ---------------------------------------------------------------- steps write before they tell */

static uint64_t mark_of(const oracle *o, const or_seq *s, uint64_t step, int pos, int g)
{
    return mix(mix(mix(mix(step, 9), (uint64_t)(s - o->seq)), (uint64_t)pos), (uint64_t)g + 5000);
}

/* B12, for the slots from `off` on. A raw reference may have come after the reserve; it keeps the
 * block, not the slots that its owner has not written yet. */
static bool may_write(const oracle *o, int b, int off)
{
    return or_row_refs(o, b) == 1 && or_covered(o, b) <= off && !or_hold_covers(o, b, off);
}

static void put(oracle *o, int b, int off, uint64_t value, uint64_t step)
{
    if (!may_write(o, b, off)) BROKEN(o, "write to a slot that others see");
    o->bytes[b][off] = value;
    o->writer[b][off] = step;
}

static void replace(oracle *o, uint64_t mark, uint64_t value)
{
    for (int b = 1; b < o->cfg.n_blocks; b++)
        for (int i = 0; i < OR_T; i++)
            if (o->bytes[b][i] == mark) o->bytes[b][i] = value;
}

void or_write(oracle *o, or_seq *s, int from, int to, uint64_t step)
{
    for (int g = 0; g < o->G; g++) {
        const int t = or_is_state(o, g) ? 1 : o->grp[g].block_tokens;
        for (int k = 0; or_is_state(o, g) && k < s->n_row[g]; k++)
            put(o, s->row[g][k], 0, or_state_sum(g, k, s->sum[to - 1]), step);
        for (int p = from; !or_is_state(o, g) && p < to; p++) {
            const int b = s->row[g][p / t];
            const uint64_t mark = mark_of(o, s, step, p, g), sum = or_slot_sum(g, s->sum[p]);
            if (!step) put(o, b, p % t, sum, 0);
            else if (o->bytes[b][p % t] != mark) BROKEN(o, "what was launched is not in the row");
            else replace(o, mark, sum);
        }
    }
}

void or_launch(oracle *o, int place, uint32_t how)
{
    const uint64_t step = o->step[place].no;
    memset(o->step[place].reads, 0, sizeof o->step[place].reads);
    for (or_seq *s = o->seq; s < o->seq + o->cfg.max_seqs; s++) {
        s->lo[place] = s->hi[place] = 0;
        if (!s->open || s->state != PKV_SEQ_RUNNING) continue;
        for (int g = 0; g < o->G; g++)
            for (int i = 0; i < s->n_row[g]; i++)
                if (!(o->cfg.flags & PKV_MGR_IN_ORDER)) o->step[place].reads[s->row[g][i]] = true;
        o->step[place].reads[0] = false;
        /* From `committed` on, over what earlier steps have launched there, or behind that. */
        int from = s->committed;
        const bool behind = how >> (s - o->seq) & 1;
        for (int k = 0; k < o->cfg.max_steps; k++) {
            if (k == place || !o->step[k].no) continue;
            if (behind) from = MAX(from, s->hi[k]);
            else s->hi[k] = MIN(s->hi[k], from);
        }
        s->lo[place] = from;
        s->hi[place] = MAX(from, s->reserved);
        for (int g = 0; g < o->G; g++)
            for (int p = from; !or_is_state(o, g) && p < s->reserved; p++)
                put(o, s->row[g][p / o->grp[g].block_tokens], p % o->grp[g].block_tokens,
                    mark_of(o, s, step, p, g), step);
    }
}

void or_land(oracle *o, uint64_t step, bool good)
{
    for (int b = 1; b < o->cfg.n_blocks; b++)
        for (int i = 0; i < OR_T; i++) {
            if (o->writer[b][i] != step) continue;
            o->writer[b][i] = 0;
            if (!good) o->bytes[b][i] = RUBBISH;
        }
}

int or_may_commit(oracle *o, pkv_seq h, pkv_step step)
{
    const or_seq *s = or_seq_of(o, h);
    const int at = or_place_of(o, step.v);
    if (!s || at < 0 || s->committed < s->lo[at]) return 0;
    return MAX(0, MIN(s->hi[at], s->reserved) - s->committed);
}
