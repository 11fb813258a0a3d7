/* See op_world.h: holds, polls, preemption by swap. */
#include "op_world.h"

#include <string.h>

static pkv_hold pick_hold(const world *w, uint32_t a)
{
    if (!w->n_holds || a % 23 == 0) return w->stale_hold;
    return w->hold[a / 32 % (uint32_t)w->n_holds];
}

static void forget_hold(world *w, pkv_hold h)
{
    int i = 0;
    while (i < w->n_holds && w->hold[i].v != h.v) i++;
    if (i == w->n_holds) return;
    w->hold[i] = w->hold[--w->n_holds];
    w->stale_hold = h;
}

static uint64_t pick_deadline(const world *w, uint32_t a)
{
    if (a % 4 == 0) return PKV_DEADLINE_NEVER;
    return a % 37 == 1 ? 0 : w->now + a / 64 % 12;
}

static void compare_hold(world *w, pkv_hold o, pkv_hold m)
{
    if (!w->run->alone && o.v != m.v)
        op_fail(w, "hold %llx, expected %llx", (unsigned long long)m.v, (unsigned long long)o.v);
}

void op_do_hold_open(world *w, const op *x)
{
    int idx;
    pkv_hold ho = { 77 }, hm = { 77 };
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    for (int i = 0; i < w->cfg.max_seqs && idx >= 0 && x->a[3] / 64 % 4; i++) {
        const int k = (i + (int)(x->a[3] / 256 % OR_SEQS)) % w->cfg.max_seqs;
        if (w->o->seq[k].open && w->o->seq[k].settled) h = op_handle_of(w, idx = k);
    }
    const int32_t settled = idx < 0 ? 1 : w->o->seq[idx].settled;
    int32_t n = x->a[1] % 3 ? settled : (int32_t)(x->a[1] / 4 % (uint32_t)(settled + 1));
    const uint64_t deadline = pick_deadline(w, x->a[2]);
    const bool bad = x->a[3] % 61 == 0;
    if (n == 0 && x->a[3] % 8) n = 1;
    if (x->a[3] % 31 == 1) n = settled + 1;
    if (x->a[3] % 31 == 2) n = x->a[3] / 31 % 2 ? -1 : INT32_MAX;
    op_tell(w, "hold_open(%d, %d, deadline %lld%s)", idx, n, (long long)deadline,
            bad ? ", bad" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_hold_open(w->o, h, n, deadline, &ho);
    op_agree(w, OP_hold_open, so,
             OP_ASK(w, so, pkv_hold_open(w->mgr, h, n, deadline, bad ? NULL : &hm)));
    compare_hold(w, ho, hm);
    if (so != PKV_OK) return;
    op_tell(w, "    hold %llx\n", (unsigned long long)ho.v);
    w->hold[w->n_holds++] = ho;
}

void op_do_hold_post(world *w, const op *x)
{
    const pkv_hold h = pick_hold(w, x->a[0]);
    const pkv_status result = x->a[1] % 4 ? PKV_OK : PKV_E_IO;
    op_tell(w, "hold_post(%llx, %s)", (unsigned long long)h.v, pkv_status_name(result));
    or_hold_post(w->o, h, result);
    if (!w->run->alone) pkv_hold_post(w->mgr, h, result);
    op_agree(w, OP_hold_post, PKV_OK, PKV_OK);
}

void op_do_poll(world *w, const op *x)
{
    static const char *const end_name[] = { "done", "failed", "expired" };
    enum { MOST = OR_HOLDS + 2 };
    pkv_hold_result ro[MOST], rm[MOST];
    int32_t no = -77, nm = -77, cap = x->a[0] % 5 ? MOST : (int32_t)(x->a[0] / 5 % 3) - 1;
    uint64_t now = w->now + x->a[1] % 4;
    if (x->a[1] / 4 % 23 == 0) now = w->now - (w->now > 0);
    memset(ro, 0x5a, sizeof ro);
    memset(rm, 0x5a, sizeof rm);
    const bool bad = op_breaks(x), no_n = op_breaks_this(x, 0, 2) || cap <= 0;
    op_tell(w, "poll(now %llu, cap %d%s)", (unsigned long long)now, cap, bad ? ", null" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_poll(w->o, now, ro, cap, &no);
    op_agree(w, OP_poll, so,
             OP_ASK(w, so,
                    pkv_blockmgr_poll(w->mgr, now, bad && !no_n ? NULL : rm, cap,
                                      bad && no_n ? NULL : &nm)));
    if (!w->run->alone && (no != nm || memcmp(ro, rm, sizeof ro)))
        op_fail(w, "poll: %d results, expected %d, or another one", nm, no);
    if (so != PKV_OK) return;
    w->now = now;
    for (int i = 0; i < no; i++) {
        op_tell(w, "    hold %llx %s\n", (unsigned long long)ro[i].hold.v, end_name[ro[i].end]);
        if (ro[i].end != PKV_HOLD_EXPIRED) forget_hold(w, ro[i].hold);
    }
}

void op_do_hold_reclaim(world *w, const op *x)
{
    pkv_hold h = pick_hold(w, x->a[0]);
    for (int i = 0; i < OR_HOLDS && x->a[1] % 4; i++)
        if (w->o->late.hold[i].open && w->o->late.hold[i].expired)
            h.v = (uint64_t)w->o->late.hold[i].gen << 32 | (uint32_t)i;
    op_tell(w, "hold_reclaim(%llx)", (unsigned long long)h.v);
    pkv_status so = or_hold_reclaim(w->o, h);
    op_agree(w, OP_hold_reclaim, so, OP_ASK(w, so, pkv_hold_reclaim(w->mgr, h)));
    if (so == PKV_OK) forget_hold(w, h);
}

void op_do_hold_blocks(world *w, const op *x)
{
    int32_t io[OR_BLOCKS], im[OR_BLOCKS], no = -77, nm = -77;
    const pkv_hold h = pick_hold(w, x->a[0]);
    const int32_t g = op_pick_group(w, x->a[1]);
    int32_t cap = x->a[2] % 3 ? OR_BLOCKS : (int32_t)(x->a[2] / 4 % 3);
    if (x->a[2] % 37 == 1) cap = -1;
    memset(io, 0x5a, sizeof io);
    memset(im, 0x5a, sizeof im);
    const bool bad = op_breaks(x), no_n = op_breaks_this(x, 0, 2) || cap <= 0;
    op_tell(w, "hold_blocks(%llx, group %d, cap %d%s)", (unsigned long long)h.v, g, cap,
            bad ? ", null" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_hold_blocks(w->o, h, g, io, cap, &no);
    op_agree(w, OP_hold_blocks, so,
             OP_ASK(w, so,
                    pkv_hold_blocks(w->mgr, h, g, bad && !no_n ? NULL : im, cap,
                                    bad && no_n ? NULL : &nm)));
    if (!w->run->alone && no != nm) op_fail(w, "hold_blocks: %d, expected %d", nm, no);
    op_compare_ids(w, "hold_blocks", io, im, OR_BLOCKS);
}

/* ---------------------------------------------------------------- swap */

typedef struct swap_call {
    pkv_seq seq[OR_SEQS + 2];
    pkv_swap_copy co[OR_BLOCKS], cm[OR_BLOCKS];
    int32_t n, cap, no, nm;
    uint64_t deadline;
    pkv_hold ho, hm;
} swap_call;

static void prepare_swap(world *w, const op *x, bool back, swap_call *c)
{
    memset(c, 0x5a, sizeof *c);
    op_tell(w, back ? "resume(" : "suspend(");
    c->n = op_pick_seqs(w, x->a[0], back, c->seq);
    if (x->a[1] % 61 == 0) c->n = 0;
    c->cap = x->a[1] % 13 ? OR_BLOCKS : (int32_t)(x->a[1] / 13 % 3);
    c->deadline = pick_deadline(w, x->a[2]);
    op_tell(w, "; n %d, cap %d, deadline %lld%s)", c->n, c->cap, (long long)c->deadline,
            op_breaks(x) ? ", null" : "");
}

typedef pkv_status swap_fn(pkv_blockmgr *, const pkv_seq *, int32_t, uint64_t, pkv_swap_copy *,
                           int32_t, int32_t *, pkv_hold *);

static pkv_status swap_of_manager(world *w, const op *x, swap_fn *fn, swap_call *c)
{
    return fn(w->mgr, op_breaks_this(x, 0, 3) ? NULL : c->seq, c->n, c->deadline, c->cm, c->cap,
              op_breaks_this(x, 1, 3) ? NULL : &c->nm, op_breaks_this(x, 2, 3) ? NULL : &c->hm);
}

static void compare_swap(world *w, const swap_call *c, pkv_status status)
{
    compare_hold(w, c->ho, c->hm);
    if (!w->run->alone && (c->no != c->nm || memcmp(c->co, c->cm, sizeof c->co)))
        op_fail(w, "swap: %d copies, expected %d, or another one", c->nm, c->no);
    if (status != PKV_OK) return;
    for (int i = 0; i < c->no; i++)
        op_tell(w, "    device %d, host %d, group %d\n", c->co[i].device, c->co[i].host,
                c->co[i].group);
    op_tell(w, "    hold %llx\n", (unsigned long long)c->ho.v);
    if (c->ho.v) w->hold[w->n_holds++] = c->ho;
}

void op_do_suspend(world *w, const op *x)
{
    swap_call c;
    prepare_swap(w, x, false, &c);
    pkv_status so = PKV_E_INVALID_ARG;
    if (!op_breaks(x)) so = or_suspend(w->o, c.seq, c.n, c.deadline, c.co, c.cap, &c.no, &c.ho);
    op_agree(w, OP_suspend, so, OP_ASK(w, so, swap_of_manager(w, x, pkv_seqs_suspend, &c)));
    compare_swap(w, &c, so);
}

void op_do_resume(world *w, const op *x)
{
    swap_call c;
    prepare_swap(w, x, true, &c);
    pkv_status so = PKV_E_INVALID_ARG;
    if (!op_breaks(x)) so = or_resume(w->o, c.seq, c.n, c.deadline, c.co, c.cap, &c.no, &c.ho);
    op_agree(w, OP_resume, so, OP_ASK(w, so, swap_of_manager(w, x, pkv_seqs_resume, &c)));
    compare_swap(w, &c, so);
}
