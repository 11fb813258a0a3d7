/* See oracle.h: holds and swaps (blockmgr_holds.h).
 *
 * A transfer takes place at its end: what a suspend moves is copied when it is found done, a resume
 * likewise. Until then nobody may have touched what is held, which or_late_check reads; and where a
 * transfer failed or came too late, what it was to write holds rubbish. */
#include "oracle_blocks.h"

#include <string.h>

static const uint64_t rubbish = 0xdddddddddddddddd;

void or_late_init(oracle *o)
{
    or_late *l = &o->late;
    memset(l, 0, sizeof *l);
    for (int i = MIN(o->cfg.max_holds, OR_HOLDS) - 1; i >= 0; i--)
        l->hold_free[l->n_hold_free++] = i;
    for (int i = 0; i < OR_HOLDS; i++) l->hold[i].gen = 1;
    for (int i = o->cfg.n_host_blocks - 1; i > 0; i--) l->host_free[l->n_host_free++] = i;
}

/* ---------------------------------------------------------------- references */

static int hold_refs(const oracle *o, int b)
{
    int n = 0;
    for (const or_hold *h = o->late.hold; h < o->late.hold + OR_HOLDS; h++)
        for (int i = 0; h->open && i < h->n; i++) n += h->e[i].block == b;
    return n;
}

int or_late_refs(const oracle *o, int b)
{
    return hold_refs(o, b) + o->late.raw[b];
}

bool or_quarantined(const oracle *o, int b)
{
    int n = 0;
    for (const or_hold *h = o->late.hold; h < o->late.hold + OR_HOLDS; h++)
        for (int i = 0; h->open && h->expired && i < h->n; i++) n += h->e[i].block == b;
    return n > 0 && n == or_refs(o, b);
}

bool or_hold_covers(const oracle *o, int b, int off)
{
    for (const or_hold *h = o->late.hold; h < o->late.hold + OR_HOLDS; h++)
        for (int i = 0; h->open && i < h->n; i++)
            if (h->e[i].block == b && h->e[i].covers > off) return true;
    return false;
}

static uint64_t hold_handle(const oracle *o, const or_hold *h)
{
    return or_handle(h->gen, (int)(h - o->late.hold));
}

static or_hold *hold_of(oracle *o, pkv_hold handle)
{
    for (or_hold *h = o->late.hold; h < o->late.hold + OR_HOLDS; h++)
        if (h->open && hold_handle(o, h) == handle.v) return h;
    return NULL;
}

static or_hold *new_hold(oracle *o, or_hold_kind kind, uint64_t deadline, pkv_hold *out)
{
    or_hold *h = &o->late.hold[o->late.hold_free[--o->late.n_hold_free]];
    *h = (or_hold){ .open = true, .kind = kind, .gen = h->gen, .deadline = deadline };
    out->v = hold_handle(o, h);
    return h;
}

static void hold_block(oracle *o, or_hold *h, const or_held *held)
{
    or_held *e = &h->e[h->n++];
    *e = *held;
    memcpy(e->seen, o->bytes[e->block], sizeof e->seen);
}

/* Slots of entry `i` that lie below a claim which began inside the block: nobody wrote them. */
static int never_written(const oracle *o, const or_seq *s, int g, int i)
{
    const int below = s->begins[g] - i * o->grp[g].block_tokens;
    return below > 0 && below < o->grp[g].block_tokens ? below : 0;
}

/* Drop its references, group by group, tail first. */
static void drop_refs(oracle *o, or_hold *h)
{
    for (int g = 0; g < o->G; g++)
        for (int i = h->n - 1; i >= 0; i--) {
            const int b = h->e[i].block;
            if (!b || h->e[i].group != g) continue;
            h->e[i].block = 0;
            or_release(o, b);
        }
}

static void end_hold(oracle *o, or_hold *h)
{
    drop_refs(o, h);
    h->open = false;
    h->gen++;
    o->late.hold_free[o->late.n_hold_free++] = (int)(h - o->late.hold);
}

/* ---------------------------------------------------------------- the host pool */

static int host_refs(const oracle *o, int host)
{
    int n = 0;
    for (int s = 0; s < o->cfg.max_seqs; s++)
        for (int g = 0; o->seq[s].open && g < o->G; g++)
            for (int i = 0; i < o->seq[s].n_row[g]; i++) n += o->late.host[s][g][i] == host;
    return n;
}

/* A sequence drops its host blocks, group by group, tail first. */
static void drop_host(oracle *o, or_seq *s)
{
    for (int g = 0; g < o->G; g++)
        for (int i = s->n_row[g] - 1; i >= 0; i--) {
            int *entry = &o->late.host[s - o->seq][g][i], host = *entry;
            *entry = 0;
            if (host && !host_refs(o, host)) o->late.host_free[o->late.n_host_free++] = host;
        }
}

void or_late_close(oracle *o, or_seq *s)
{
    drop_host(o, s);
}

/* The copies of a suspend that came to nothing: the stack becomes what it was. */
static void free_host_of(oracle *o, or_hold *h)
{
    for (int i = h->n - 1; i >= 0; i--) {
        memset(o->late.host_bytes[h->e[i].host], 0xdd, sizeof o->late.host_bytes[0]);
        o->late.host_free[o->late.n_host_free++] = h->e[i].host;
    }
}

/* ---------------------------------------------------------------- holds */

pkv_status or_hold_open(oracle *o, pkv_seq seq, int32_t n_tokens, uint64_t deadline, pkv_hold *out)
{
    const or_seq *s = or_seq_of(o, seq);
    int n = 0;
    if (n_tokens < 1) return PKV_E_INVALID_ARG;
    if (!s) return PKV_E_STALE;
    if (s->state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    if (n_tokens > s->settled) return PKV_E_RANGE;
    for (int g = 0; g < o->G; g++) {
        const int t = o->grp[g].block_tokens;
        for (int i = 0; t && i * t < n_tokens; i++) n += s->row[g][i] != 0;
    }
    if (!n) return PKV_E_RANGE;
    if (!o->late.n_hold_free) return PKV_E_LIMIT;
    or_hold *h = new_hold(o, OR_PIN, deadline, out);
    for (int g = 0; g < o->G; g++) {
        const int t = o->grp[g].block_tokens;
        for (int i = 0; t && i * t < n_tokens; i++) {
            const int covers = MIN(t, n_tokens - i * t);
            const or_held e = { .block = s->row[g][i],
                                .group = g,
                                .covers = covers,
                                .begins = never_written(o, s, g, i),
                                .kept = covers };
            if (e.block) hold_block(o, h, &e);
        }
    }
    return PKV_OK;
}

pkv_status or_hold_blocks(oracle *o, pkv_hold hold, int32_t g, int32_t *ids, int32_t cap,
                          int32_t *n)
{
    const or_hold *h = hold_of(o, hold);
    if (g < 0 || g >= o->G || cap < 0) return PKV_E_INVALID_ARG;
    if (!h) return PKV_E_STALE;
    *n = 0;
    for (int i = 0; i < h->n; i++) *n += h->e[i].group == g;
    if (cap < *n) return PKV_E_LIMIT;
    for (int i = 0; i < h->n; i++)
        if (h->e[i].group == g) *ids++ = h->e[i].block;
    return PKV_OK;
}

void or_hold_post(oracle *o, pkv_hold hold, pkv_status result)
{
    or_hold *h = hold_of(o, hold);
    if (!h || h->expired || h->posted) {
        o->late.late_posts++;
        return;
    }
    h->posted = true;
    h->good = result == PKV_OK;
}

/* ---------------------------------------------------------------- how transfers end */

static void set_state(oracle *o, const or_hold *h, pkv_seq_state state)
{
    for (int s = 0; s < OR_SEQS; s++)
        if (h->seq[s]) o->seq[s].state = state;
}

/* Both the node and the sequence keep the extras of the tail; without room it is not published. */
static void publish_tail(oracle *o, or_seq *s)
{
    int nodes, extras, at = s->settled / o->T * o->T;
    or_count_content(o, &nodes, &extras);
    const or_unit u = or_unit_at(s->tok, s->ex, s->n_ex, at, s->settled - at);
    if (extras + u.n_ex <= o->cfg.max_extras) or_publish_tail(o, s);
}

/* The sequence leaves the device, but for what has no copy. */
static void leave_device(oracle *o, or_seq *s)
{
    publish_tail(o, s);
    s->state = PKV_SEQ_SUSPENDED;
    for (int g = 0; g < o->G; g++)
        for (int i = s->n_row[g] - 1, stays = 0; i >= 0; i--) {
            const int b = s->row[g][i];
            stays += b && !o->late.host[s - o->seq][g][i];
            if (!o->late.host[s - o->seq][g][i]) continue;
            o->raw_used = o->raw_used || stays; /* it may outlast this one, which lies before it */
            s->row[g][i] = 0;
            or_release(o, b);
        }
}

static void suspend_ends(oracle *o, or_hold *h, pkv_hold_end end)
{
    if (end == PKV_HOLD_DONE) {
        for (int i = 0; i < h->n; i++)
            memcpy(o->late.host_bytes[h->e[i].host], o->bytes[h->e[i].block],
                   sizeof o->late.host_bytes[0]);
        drop_refs(o, h);
        for (int s = 0; s < OR_SEQS; s++)
            if (h->seq[s]) leave_device(o, &o->seq[s]);
        o->cover[OR_SUSPEND_DONE]++;
        return;
    }
    set_state(o, h, PKV_SEQ_RUNNING);
    for (int s = 0; s < OR_SEQS; s++)
        if (h->seq[s]) memset(o->late.host[s], 0, sizeof o->late.host[s]);
    if (end == PKV_HOLD_FAILED) free_host_of(o, h);
    else o->raw_used = true; /* its blocks may outlast those before them */
    o->cover[end == PKV_HOLD_FAILED ? OR_SUSPEND_FAILED : OR_SUSPEND_EXPIRED]++;
}

static int device_of(const or_hold *h, int g, int host)
{
    for (int i = 0; i < h->n; i++)
        if (h->e[i].group == g && h->e[i].host == host) return h->e[i].block;
    return 0;
}

/* The blocks that came back and end unit `u` join what the sequence still knows of its content. */
static void join_unit(oracle *o, or_seq *s, int u)
{
    int blocks[OR_G], at, k;
    or_unit_blocks(o, s, u, false, blocks);
    for (int g = 0; g < o->G; g++) {
        const int t = o->grp[g].block_tokens;
        if (!blocks[g] || !o->late.host[s - o->seq][g][(u + 1) * o->T / t - 1]) continue;
        if (or_node_of(o, blocks[g], &at, &k)) continue; /* shared, and joined already */
        or_join(o, &o->node[s->unit_node[u]], g, blocks[g]);
    }
}

static void resume_ends(oracle *o, or_hold *h, pkv_hold_end end)
{
    if (end != PKV_HOLD_DONE) {
        set_state(o, h, PKV_SEQ_SUSPENDED);
        o->cover[end == PKV_HOLD_FAILED ? OR_RESUME_FAILED : OR_RESUME_EXPIRED]++;
        return;
    }
    for (int i = 0; i < h->n; i++) {
        memcpy(o->bytes[h->e[i].block], o->late.host_bytes[h->e[i].host], sizeof o->bytes[0]);
        memset(o->writer[h->e[i].block], 0, sizeof o->writer[0]);
    }
    for (int s = 0; s < OR_SEQS; s++)
        for (int g = 0; h->seq[s] && g < o->G; g++)
            for (int i = 0; i < o->seq[s].n_row[g]; i++)
                if (o->late.host[s][g][i])
                    o->seq[s].row[g][i] = device_of(h, g, o->late.host[s][g][i]);
    set_state(o, h, PKV_SEQ_RUNNING);
    for (int s = 0; s < OR_SEQS; s++) {
        if (!h->seq[s]) continue;
        for (int u = 0; u < o->seq[s].n_indexed; u++) join_unit(o, &o->seq[s], u);
        drop_host(o, &o->seq[s]);
    }
    o->cover[OR_RESUME_DONE]++;
}

/* A transfer to the device that will not come to a good end may have written anything. */
static void spoil(oracle *o, const or_hold *h)
{
    for (int i = 0; i < h->n && h->kind == OR_RESUME; i++)
        for (int k = 0; k < OR_T; k++) o->bytes[h->e[i].block][k] = rubbish;
}

static void hold_ends(oracle *o, or_hold *h, pkv_hold_end end)
{
    if (h->kind == OR_SUSPEND) suspend_ends(o, h, end);
    if (h->kind == OR_RESUME) resume_ends(o, h, end);
    if (end != PKV_HOLD_DONE) spoil(o, h);
    h->expired = end == PKV_HOLD_EXPIRED;
    if (!h->expired) end_hold(o, h);
    o->cover[OR_HOLD_EXPIRED] += h->expired;
}

pkv_status or_poll(oracle *o, uint64_t now, pkv_hold_result *done, int32_t cap, int32_t *n)
{
    if (cap < 0 || now < o->late.now) return PKV_E_INVALID_ARG;
    o->late.now = now;
    *n = 0;
    for (or_hold *h = o->late.hold; h < o->late.hold + OR_HOLDS && *n < cap; h++) {
        if (!h->open || h->expired || (!h->posted && h->deadline >= now)) continue;
        const pkv_hold_end end = !h->posted ? PKV_HOLD_EXPIRED
                                 : h->good  ? PKV_HOLD_DONE
                                            : PKV_HOLD_FAILED;
        pkv_hold_result *r = &done[(*n)++]; /* padding, if any, stays */
        r->hold.v = hold_handle(o, h);
        r->end = end;
        hold_ends(o, h, end);
    }
    return PKV_OK;
}

pkv_status or_hold_reclaim(oracle *o, pkv_hold hold)
{
    or_hold *h = hold_of(o, hold);
    if (!h) return PKV_E_STALE;
    if (!h->expired) return PKV_E_STATE;
    for (int i = 0; i < h->n; i++) o->cover[OR_QUARANTINE_LEFT] += or_quarantined(o, h->e[i].block);
    spoil(o, h);
    if (h->kind == OR_SUSPEND) free_host_of(o, h);
    end_hold(o, h);
    return PKV_OK;
}

/* ---------------------------------------------------------------- suspend, resume */

/* The given sequences, or what is wrong with them. */
static pkv_status given(oracle *o, const pkv_seq *seqs, int n, pkv_seq_state state, or_seq **out)
{
    if (n < 1) return PKV_E_INVALID_ARG;
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (seqs[i].v == seqs[j].v) return PKV_E_INVALID_ARG;
    for (int i = 0; i < n; i++)
        if (!or_seq_of(o, seqs[i])) return PKV_E_STALE;
    for (int i = 0; i < n; i++) {
        out[i] = or_seq_of(o, seqs[i]);
        if (out[i]->state != state) return PKV_E_STATE;
    }
    return PKV_OK;
}

static void drop_surplus(oracle *o, or_seq *s)
{
    or_shorten(o, s, s->committed);
    s->reserved = s->committed;
    for (int k = 0; k < OR_STEPS; k++)
        s->hi[k] = MIN(s->hi[k], s->committed); /* launches are void */
}

static bool moves(const oracle *o, or_seq *const *s, int n, int b)
{
    int rows = 0;
    for (int k = 0; k < n; k++)
        for (int g = 0; g < o->G; g++)
            for (int i = 0; i < s[k]->n_row[g]; i++) rows += s[k]->row[g][i] == b;
    return rows == or_refs(o, b);
}

typedef struct swap_plan {
    int n, device[OR_BLOCKS], host[OR_BLOCKS], group[OR_BLOCKS], begins[OR_BLOCKS], kept[OR_BLOCKS];
} swap_plan;

static int planned(const swap_plan *p, const int *ids, int g, int id)
{
    for (int i = 0; i < p->n; i++)
        if (p->group[i] == g && ids[i] == id) return i;
    return -1;
}

/* What moves, in order; a shared block once. */
static void plan_suspend(const oracle *o, or_seq *const *s, int n, swap_plan *p)
{
    memset(p, 0, sizeof *p);
    for (int k = 0; k < n; k++)
        for (int g = 0; g < o->G; g++)
            for (int i = 0; i < MIN(s[k]->n_row[g], or_entries(o, g, s[k]->committed)); i++) {
                const int b = s[k]->row[g][i], t = o->grp[g].block_tokens;
                if (!b || !moves(o, s, n, b)) continue;
                int at = planned(p, p->device, g, b);
                if (at < 0) at = p->n++, p->device[at] = b, p->group[at] = g;
                if (!t) continue; /* a state has no slots */
                p->begins[at] = MAX(p->begins[at], never_written(o, s[k], g, i));
                p->kept[at] = MAX(p->kept[at], MIN(t, s[k]->committed - i * t));
            }
}

static void hold_swapped(oracle *o, or_hold *h, const swap_plan *p, int i)
{
    const or_held e = { .block = p->device[i],
                        .group = p->group[i],
                        .covers = OR_T,
                        .begins = p->begins[i],
                        .kept = p->kept[i],
                        .host = p->host[i] };
    hold_block(o, h, &e);
}

static void tell_copies(const swap_plan *p, pkv_swap_copy *copies, int32_t *n_copies)
{
    for (int i = 0; i < p->n; i++)
        copies[i] = (pkv_swap_copy){ p->device[i], p->host[i], p->group[i] };
    *n_copies = p->n;
}

pkv_status or_suspend(oracle *o, const pkv_seq *seqs, int32_t n, uint64_t deadline,
                      pkv_swap_copy *copies, int32_t cap, int32_t *n_copies, pkv_hold *hold)
{
    or_seq *s[OR_SEQS];
    swap_plan p;
    pkv_status st = given(o, seqs, n, PKV_SEQ_RUNNING, s);
    if (st != PKV_OK) return st;
    for (int k = 0; k < n; k++)
        if (s[k]->n_pend) return PKV_E_AGAIN;
    plan_suspend(o, s, n, &p);
    if (p.n > o->late.n_host_free) return PKV_E_NO_BLOCKS;
    if (p.n && (!o->late.n_hold_free || cap < p.n)) return PKV_E_LIMIT;
    for (int k = 0; k < n; k++) drop_surplus(o, s[k]);
    hold->v = 0;
    or_hold *h = p.n ? new_hold(o, OR_SUSPEND, deadline, hold) : NULL;
    for (int i = 0; i < p.n; i++) {
        p.host[i] = o->late.host_free[--o->late.n_host_free];
        hold_swapped(o, h, &p, i);
    }
    for (int k = 0; k < n; k++) {
        const int idx = (int)(s[k] - o->seq);
        s[k]->state = PKV_SEQ_SUSPENDING;
        if (h) h->seq[idx] = true;
        for (int g = 0; g < o->G; g++)
            for (int i = 0; i < s[k]->n_row[g]; i++) {
                const int at = s[k]->row[g][i] ? planned(&p, p.device, g, s[k]->row[g][i]) : -1;
                o->late.host[idx][g][i] = at < 0 ? 0 : p.host[at];
                o->cover[OR_SWAP_STAYED] += at < 0 && s[k]->row[g][i];
            }
    }
    tell_copies(&p, copies, n_copies);
    for (int i = 0; i < OR_SEQS && !h; i++)
        for (int k = 0; k < n; k++)
            if (s[k] == &o->seq[i]) leave_device(o, s[k]);
    return PKV_OK;
}

pkv_status or_resume(oracle *o, const pkv_seq *seqs, int32_t n, uint64_t deadline,
                     pkv_swap_copy *copies, int32_t cap, int32_t *n_copies, pkv_hold *hold)
{
    or_seq *s[OR_SEQS];
    swap_plan p;
    pkv_status st = given(o, seqs, n, PKV_SEQ_SUSPENDED, s);
    if (st != PKV_OK) return st;
    memset(&p, 0, sizeof p);
    for (int k = 0; k < n; k++)
        for (int g = 0; g < o->G; g++)
            for (int i = 0; i < s[k]->n_row[g]; i++) {
                const int host = o->late.host[s[k] - o->seq][g][i];
                if (!host || planned(&p, p.host, g, host) >= 0) continue;
                p.host[p.n] = host;
                p.group[p.n++] = g;
            }
    st = or_verdict(o, p.n);
    if (st != PKV_OK) return st;
    if (p.n && (!o->late.n_hold_free || cap < p.n)) return PKV_E_LIMIT;
    hold->v = 0;
    or_hold *h = p.n ? new_hold(o, OR_RESUME, deadline, hold) : NULL;
    for (int i = 0; i < p.n; i++) {
        p.device[i] = or_take(o, NULL);
        hold_swapped(o, h, &p, i);
    }
    for (int k = 0; k < n; k++) {
        s[k]->state = h ? PKV_SEQ_RESUMING : PKV_SEQ_RUNNING;
        if (h) h->seq[s[k] - o->seq] = true;
    }
    tell_copies(&p, copies, n_copies);
    return PKV_OK;
}

/* ---------------------------------------------------------------- what can be asked */

void or_late_stats(const oracle *o, pkv_blockmgr_stats_t *out)
{
    for (int b = 1; b < o->cfg.n_blocks; b++) {
        out->quarantine_blocks += or_quarantined(o, b);
        out->raw_refs += o->late.raw[b];
    }
    for (int i = 0; i < OR_HOLDS; i++) out->open_holds += o->late.hold[i].open;
    out->free_host_blocks = o->late.n_host_free;
    out->late_posts = o->late.late_posts;
}

const char *or_late_check(const oracle *o)
{
    int claimed = 0;
    for (const or_hold *h = o->late.hold; h < o->late.hold + OR_HOLDS; h++)
        for (int i = 0; h->open && i < h->n; i++) {
            const or_held *e = &h->e[i];
            for (int k = e->begins; k < e->kept; k++)
                if (o->bytes[e->block][k] != e->seen[k]) return "a held slot was written";
            claimed += h->kind == OR_SUSPEND && h->expired;
        }
    for (int host = 1; host < o->cfg.n_host_blocks; host++) claimed += host_refs(o, host) > 0;
    if (o->cfg.n_host_blocks && claimed + o->late.n_host_free != o->cfg.n_host_blocks - 1)
        return "a host block in no state, or in two";
    return NULL;
}
