/* See op_world.h: rows, slots, what a device would be sent. */
#include "op_world.h"

#include <string.h>

void op_do_row(world *w, const op *x)
{
    int idx;
    const int32_t *ids;
    int32_t n;
    const int32_t group = op_pick_group(w, x->a[1] % 5 ? x->a[1] / 5 * 29 + 1 : 29 * (x->a[1] / 5));
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    op_tell(w, "row(%d, group %d)", idx, group);
    pkv_status so = !op_is_group(w, group)                    ? PKV_E_INVALID_ARG
                    : idx < 0                                 ? PKV_E_STALE
                    : w->o->seq[idx].state != PKV_SEQ_RUNNING ? PKV_E_STATE
                                                              : PKV_OK;
    op_agree(w, OP_row, so, OP_ASK(w, so, pkv_seq_row(w->mgr, h, group, &ids, &n)));
}

/* A range of tokens of a sequence. */
typedef struct span {
    int32_t first, n;
    bool bad, beyond; /* its numbers alone break the contract; it ends behind `reserved` */
} span;

static span pick_span(const world *w, int idx, uint32_t a, uint32_t b, uint32_t how)
{
    const or_seq *s = &w->o->seq[idx < 0 ? 0 : idx];
    const bool running = idx >= 0 && s->state == PKV_SEQ_RUNNING;
    const int32_t reserved = idx < 0 ? 0 : s->reserved;
    span r = { .first = (int32_t)(a % (uint32_t)(reserved + 1)) };
    r.n = (int32_t)(b % (uint32_t)(reserved - r.first + 1));
    if (how % 40 == 0 && running) r.n = reserved - r.first + 1, r.beyond = true;
    if (how % 40 == 1) r.n = -1, r.bad = true;
    if (how % 40 == 2) r.first = -1, r.bad = true;
    if (how % 40 == 3 && running) r.first = 1, r.n = INT32_MAX, r.beyond = true;
    return r;
}

static pkv_status span_status(const world *w, int idx, int32_t group, const span *r, bool bad)
{
    if (bad || r->bad || !op_is_group(w, group) || op_is_state(w, group)) return PKV_E_INVALID_ARG;
    if (idx < 0) return PKV_E_STALE;
    if (w->o->seq[idx].state != PKV_SEQ_RUNNING) return PKV_E_STATE;
    return r->beyond ? PKV_E_INVALID_ARG : PKV_OK;
}

void op_do_slots(world *w, const op *x)
{
    int64_t slots[OR_TOKENS + 2];
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    const int32_t g = op_pick_group(w, x->a[4]);
    const span r = pick_span(w, idx, x->a[1], x->a[2], x->a[3]);
    op_tell(w, "slots(%d, group %d, %d, %d)", idx, g, r.first, r.n);
    pkv_status so = span_status(w, idx, g, &r, false);
    if (!op_agree(w, OP_slots, so, OP_ASK(w, so, pkv_seq_slots(w->mgr, h, g, r.first, r.n, slots))))
        return;
    for (int i = 0; i < r.n; i++) {
        const int64_t t = w->group[g].block_tokens, p = r.first + i;
        const int b = w->o->seq[idx].row[g][p / t];
        if (slots[i] != (b ? b * t + p % t : -1)) op_fail(w, "slot of token %d", (int)p);
    }
}

/* ---------------------------------------------------------------- delta */

static int32_t entry_of(const world *w, int g, int idx, int i)
{
    const or_seq *s = &w->o->seq[idx];
    const bool there = s->open && s->state == PKV_SEQ_RUNNING;
    return there && i < s->n_row[g] ? s->row[g][i] : 0;
}

static bool table_differs(const world *w, int g)
{
    for (int s = 0; s < w->cfg.max_seqs; s++)
        for (int i = 0; i < OR_TOKENS; i++)
            if (w->o->late.table[g][s][i] != entry_of(w, g, s, i)) return true;
    return false;
}

static void keep_table(world *w, int g)
{
    for (int s = 0; s < w->cfg.max_seqs; s++)
        for (int i = 0; i < OR_TOKENS; i++) w->o->late.table[g][s][i] = entry_of(w, g, s, i);
}

enum { MOST_IDS = OR_SEQS * OR_TOKENS };
typedef struct delta_call {
    pkv_table_range range[OR_SEQS + 1];
    int32_t ids[MOST_IDS + 1];
    pkv_delta out;
} delta_call;

/* Write the ranges into the consumer's copy, as a device would be. */
static void apply_delta(world *w, int g, const delta_call *c)
{
    int at = 0, before = -1;
    for (int k = 0; k < c->out.n_ranges && w->ok; k++) {
        const pkv_table_range *r = &c->range[k];
        if (r->row_idx <= before || r->row_idx >= w->cfg.max_seqs || r->first < 0 || r->n < 1 ||
            r->first + r->n > OR_TOKENS || at + r->n > c->out.n_ids) {
            op_fail(w, "delta: range %d is row %d [%d + %d)", k, r->row_idx, r->first, r->n);
            return;
        }
        for (int i = 0; i < r->n; i++) w->o->late.table[g][r->row_idx][r->first + i] = c->ids[at++];
        before = r->row_idx;
    }
    if (at != c->out.n_ids) op_fail(w, "delta: %d ids, its ranges have %d", c->out.n_ids, at);
    if (table_differs(w, g)) op_fail(w, "delta: applied, the table is not equal to the rows");
}

static pkv_status ask_delta(world *w, int g, delta_call *c, int32_t ranges_cap, int32_t ids_cap)
{
    memset(c, 0x5a, sizeof *c);
    c->out = (pkv_delta)PKV_DELTA_INIT;
    return pkv_table_delta(w->mgr, g, c->range, ranges_cap, c->ids, ids_cap, &c->out);
}

/* The first call's sizes are what the second needs, and a third has nothing to say. */
static void after_refusal(world *w, int g, delta_call *c)
{
    const pkv_delta need = c->out;
    if (need.n_ranges < 1 || need.n_ids < 1 || need.n_ranges > OR_SEQS || need.n_ids > MOST_IDS) {
        op_fail(w, "delta: sizes %d and %d", need.n_ranges, need.n_ids);
        return;
    }
    if (ask_delta(w, g, c, need.n_ranges - 1, MOST_IDS) != PKV_E_LIMIT ||
        ask_delta(w, g, c, OR_SEQS, need.n_ids - 1) != PKV_E_LIMIT)
        op_fail(w, "delta: smaller caps than needed are enough");
    if (w->ok && ask_delta(w, g, c, need.n_ranges, need.n_ids) != PKV_OK)
        op_fail(w, "delta: the sizes it asks for are not enough");
}

/* A null pointer, or a struct of another size. */
static void refuse_delta(world *w, int32_t g, bool null)
{
    delta_call c;
    memset(&c, 0x5a, sizeof c);
    pkv_status so = null ? PKV_E_INVALID_ARG : PKV_E_ABI;
    op_tell(w, "table_delta(group %d, %s)", g, null ? "null" : "bad size");
    op_agree(w, OP_table_delta, so,
             OP_ASK(w, so,
                    pkv_table_delta(w->mgr, g, c.range, OR_SEQS, c.ids, MOST_IDS,
                                    null ? NULL : &c.out)));
}

void op_do_table_delta(world *w, const op *x)
{
    delta_call c;
    const int32_t g = op_pick_group(w, x->a[0]);
    const bool small = op_is_group(w, g) && x->a[1] % 3 == 0 && table_differs(w, g);
    const bool bad = x->a[1] % 31 == 1;
    const int32_t cap = bad ? -1 : small ? 0 : OR_SEQS;
    if (x->a[1] % 31 == 2) {
        refuse_delta(w, g, x->a[1] / 31 % 2);
        return;
    }
    op_tell(w, "table_delta(group %d, caps %d)", g, cap);
    pkv_status so = bad || !op_is_group(w, g) ? PKV_E_INVALID_ARG : small ? PKV_E_LIMIT : PKV_OK;
    op_agree(w, OP_table_delta, so, OP_ASK(w, so, ask_delta(w, g, &c, cap, small ? 0 : MOST_IDS)));
    if (!w->ok || so == PKV_E_INVALID_ARG) return;
    if (w->run->alone) {
        keep_table(w, g);
        return;
    }
    if (so == PKV_E_LIMIT) after_refusal(w, g, &c);
    if (w->ok) apply_delta(w, g, &c);
    if (w->ok && (ask_delta(w, g, &c, 0, 0) != PKV_OK || c.out.n_ranges || c.out.n_ids))
        op_fail(w, "delta: an unchanged table has %d ranges", c.out.n_ranges);
    w->same_digest = false; /* something was consumed in any case */
}

void op_do_table_resync(world *w, const op *x)
{
    const int32_t g = op_pick_group(w, x->a[0]);
    op_tell(w, "table_resync(group %d)", g);
    pkv_status so = op_is_group(w, g) ? PKV_OK : PKV_E_INVALID_ARG;
    op_agree(w, OP_table_resync, so, OP_ASK(w, so, pkv_table_resync(w->mgr, g)));
    if (so == PKV_OK) memset(w->o->late.table[g], 0, sizeof w->o->late.table[g]);
}

void op_do_seqs_common(world *w, const op *x)
{
    pkv_seq h[OR_SEQS + 2];
    int32_t no = -77, nm = -77;
    const int32_t g = op_pick_group(w, x->a[0]);
    op_tell(w, "seqs_common(");
    int32_t n = op_pick_seqs(w, x->a[1], false, h);
    if (x->a[2] % 23 == 0) n = -(int32_t)(x->a[2] / 23 % 2);
    op_tell(w, "; n %d, group %d)", n, g);
    const bool bad = op_breaks(x), no_out = op_breaks_this(x, 0, 2) || n <= 0;
    if (bad) op_tell(w, " null");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_seqs_common(w->o, h, n, g, &no);
    op_agree(w, OP_seqs_common, so,
             OP_ASK(w, so,
                    pkv_seqs_common(w->mgr, bad && !no_out ? NULL : h, n, g,
                                    bad && no_out ? NULL : &nm)));
    if (!w->run->alone && no != nm) op_fail(w, "seqs_common: %d blocks, expected %d", nm, no);
}

/* ---------------------------------------------------------------- views */

/* Numbers that divide `t` one another, rarely not. */
static pkv_kernel_view pick_view(const world *w, int32_t g, uint32_t a)
{
    const int32_t t = op_is_group(w, g) && !op_is_state(w, g) ? w->group[g].block_tokens : 4;
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    uint64_t rng = a;
    do v.cp_size = 1 + op_below(&rng, t);
    while (t % v.cp_size);
    do v.cp_interleave = 1 + op_below(&rng, t);
    while (t % (v.cp_interleave * v.cp_size));
    v.cp_rank = op_below(&rng, v.cp_size);
    do v.kernel_tokens = op_below(&rng, t / v.cp_size + 1);
    while (v.kernel_tokens && t / v.cp_size % v.kernel_tokens);
    switch (op_below(&rng, 60)) {
    case 0:
        v.cp_size = op_below(&rng, 2) ? 0 : -1;
        break;
    case 1:
        v.cp_rank = op_below(&rng, 2) ? v.cp_size : -1;
        break;
    case 2:
        v.cp_interleave = op_below(&rng, 2) ? 0 : INT32_MAX;
        break;
    case 3:
        v.kernel_tokens = op_below(&rng, 2) ? t / v.cp_size + 1 : -1;
        break;
    case 4:
        v.cp_size = t + 1;
        break;
    case 5:
        v.cp_interleave = t + 1;
        break;
    case 6:
        v.struct_size += op_below(&rng, 2) ? 4 : -4u;
        break;
    default:
        break;
    }
    return v;
}

static void tell_view(const world *w, const pkv_kernel_view *v)
{
    op_tell(w, ", view kernel %d, rank %d of %d, interleave %d%s)", v->kernel_tokens, v->cp_rank,
            v->cp_size, v->cp_interleave, v->struct_size == sizeof *v ? "" : ", bad size");
}

void op_do_view_slots(world *w, const op *x)
{
    int64_t so_slots[OR_TOKENS + 2], sm_slots[OR_TOKENS + 2];
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    const int32_t g = op_pick_group(w, x->a[4] / 512);
    const span r = pick_span(w, idx, x->a[1], x->a[2], x->a[3]);
    const pkv_kernel_view v = pick_view(w, g, x->a[4]);
    memset(so_slots, 0x5a, sizeof so_slots);
    memset(sm_slots, 0x5a, sizeof sm_slots);
    op_tell(w, "view_slots(%d, group %d, %d, %d", idx, g, r.first, r.n);
    tell_view(w, &v);
    const bool bad = op_breaks(x), no_view = op_breaks_this(x, 0, 2) || r.n <= 0;
    if (bad) op_tell(w, " null");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_view_slots(w->o, h, g, &v, r.first, r.n, so_slots);
    op_agree(w, OP_view_slots, so,
             OP_ASK(w, so,
                    pkv_seq_view_slots(w->mgr, h, g, bad && no_view ? NULL : &v, r.first, r.n,
                                       bad && !no_view ? NULL : sm_slots)));
    for (int i = 0; i < OR_TOKENS + 2 && !w->run->alone && w->ok; i++)
        if (so_slots[i] != sm_slots[i])
            op_fail(w, "view slot %d is %lld, expected %lld", i, (long long)sm_slots[i],
                    (long long)so_slots[i]);
}

void op_do_view_row(world *w, const op *x)
{
    enum { MOST = OR_TOKENS + 16 };
    int32_t io[MOST], im[MOST], no = -77, nm = -77, lo = -77, lm = -77;
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    const int32_t g = op_pick_group(w, x->a[4] / 512);
    const pkv_kernel_view v = pick_view(w, g, x->a[4]);
    int32_t cap = x->a[1] % 5 ? MOST : (int32_t)(x->a[1] / 5 % 4);
    if (x->a[1] % 41 == 1) cap = -1;
    memset(io, 0x5a, sizeof io);
    memset(im, 0x5a, sizeof im);
    op_tell(w, "view_row(%d, group %d, cap %d", idx, g, cap);
    tell_view(w, &v);
    const bool bad = op_breaks(x);
    if (bad) op_tell(w, " null");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_view_row(w->o, h, g, &v, io, cap, &no, &lo);
    op_agree(w, OP_view_row, so,
             OP_ASK(w, so,
                    pkv_seq_view_row(w->mgr, h, g, op_breaks_this(x, 0, 3) ? NULL : &v, im, cap,
                                     op_breaks_this(x, 1, 3) ? NULL : &nm,
                                     op_breaks_this(x, 2, 3) ? NULL : &lm)));
    if (!w->run->alone && (no != nm || lo != lm))
        op_fail(w, "view_row: %d entries, %d local, expected %d and %d", nm, lm, no, lo);
    op_compare_ids(w, "view_row", io, im, MOST);
}
