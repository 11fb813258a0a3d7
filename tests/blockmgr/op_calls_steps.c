/* See op_world.h: steps, and what the engine says about content. */
#include "op_world.h"

#include <string.h>

/* ---------------------------------------------------------------- steps */

void op_do_step_begin(world *w, const op *x)
{
    pkv_step o = { 77 }, m = { 77 };
    const bool bad = op_breaks(x);
    op_tell(w, "step_begin(%s)", bad ? "null" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_step_begin(w->o, x->a[0], &o);
    op_agree(w, OP_step_begin, so, OP_ASK(w, so, pkv_step_begin(w->mgr, bad ? NULL : &m)));
    if (!w->run->alone && o.v != m.v)
        op_fail(w, "step %llu, expected %llu", (unsigned long long)m.v, (unsigned long long)o.v);
    if (so == PKV_OK) w->step[w->n_steps++] = o;
    op_tell(w, "    step %llu\n", (unsigned long long)o.v);
}

static void forget_step(world *w, pkv_step s)
{
    int i = 0;
    while (w->step[i].v != s.v) i++;
    for (w->n_steps--; i < w->n_steps; i++) w->step[i] = w->step[i + 1];
    w->stale_step = s;
}

void op_do_step_retire(world *w, const op *x)
{
    pkv_step s = op_pick_step(w, x->a[0]);
    op_tell(w, "step_retire(%llu)", (unsigned long long)s.v);
    pkv_status so = or_step_retire(w->o, s);
    op_agree(w, OP_step_retire, so, OP_ASK(w, so, pkv_step_retire(w->mgr, s)));
    if (so == PKV_OK) forget_step(w, s);
}

void op_do_step_abort(world *w, const op *x)
{
    pkv_step s = op_pick_step(w, x->a[0]);
    op_tell(w, "step_abort(%llu)", (unsigned long long)s.v);
    pkv_status so = or_step_abort(w->o, s);
    op_agree(w, OP_step_abort, so, OP_ASK(w, so, pkv_step_abort(w->mgr, s)));
    if (so == PKV_OK) forget_step(w, s);
}

/* ---------------------------------------------------------------- policy */

void op_do_retain(world *w, const op *x)
{
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    const int32_t committed = idx < 0 ? 0 : w->o->seq[idx].committed;
    int32_t first = (int32_t)(x->a[1] % (uint32_t)(committed + 1));
    int32_t n = (int32_t)(x->a[2] % (uint32_t)(committed - first + 1));
    int32_t priority = (int32_t)(x->a[3] % (PKV_PRIORITY_MAX + 1));
    if (x->a[2] / 512 % 3 == 0) n = committed - first;
    const bool running = idx >= 0 && w->o->seq[idx].state == PKV_SEQ_RUNNING;
    int how = (int)(x->a[4] % 40);
    if (how == 0) first = -1;
    if (how == 1) n = -1;
    if (how == 2) priority = x->a[4] / 40 % 2 ? -1 : PKV_PRIORITY_MAX + 1;
    if (how == 3 && running) n = committed - first + 1;
    if (how == 4 && running) first = 1, n = INT32_MAX;
    op_tell(w, "retain(%d, %d, %d, priority %d)", idx, first, n, priority);
    pkv_status so = or_retain(w->o, h, first, n, priority);
    op_agree(w, OP_retain, so, OP_ASK(w, so, pkv_seq_retain(w->mgr, h, first, n, priority)));
}

void op_do_decay(world *w, const op *x)
{
    const bool bad = x->a[0] % 9 == 0;
    op_tell(w, "decay(%s)", bad ? "null" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_decay(w->o);
    op_agree(w, OP_decay, so, OP_ASK(w, so, pkv_blockmgr_decay(bad ? NULL : w->mgr)));
}

void op_do_evict(world *w, const op *x)
{
    int32_t eo = -77, em = -77, n = (int32_t)(x->a[0] % 4);
    if (x->a[1] % 9 == 0) n = w->cfg.n_blocks;
    if (x->a[1] % 31 == 1) n = -1;
    if (x->a[1] % 31 == 2) n = INT32_MAX;
    const bool bad = op_breaks(x);
    op_tell(w, "evict(%d%s)", n, bad ? ", null" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_evict(w->o, n, &eo);
    op_agree(w, OP_evict, so, OP_ASK(w, so, pkv_blockmgr_evict(w->mgr, n, bad ? NULL : &em)));
    if (!w->run->alone && eo != em) op_fail(w, "evicted %d, expected %d", em, eo);
}

void op_do_new_epoch(world *w, const op *x)
{
    const bool bad = x->a[0] % 9 == 0;
    op_tell(w, "new_epoch(%s)", bad ? "null" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_new_epoch(w->o);
    op_agree(w, OP_new_epoch, so, OP_ASK(w, so, pkv_blockmgr_new_epoch(bad ? NULL : w->mgr)));
}

/* At such a length a snapshot can be made: taken more often than by chance. */
static bool snapshot_fits(const world *w, int idx)
{
    const int32_t n = w->o->seq[idx].committed;
    for (int g = 0; g < w->n_groups; g++)
        if (w->group[g].kind == PKV_GROUP_FULL && n % w->group[g].block_tokens) return false;
    return n > 0 && n % w->unit == 0;
}

void op_do_snapshot(world *w, const op *x)
{
    lists lo, lm;
    int idx, all[OR_SEQS], n = op_open_seqs(w, all, false);
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    for (int i = 0; i < n && x->a[1] % 4 && idx >= 0; i++) {
        const int k = all[(i + (int)(x->a[2] % OR_SEQS)) % n];
        if (snapshot_fits(w, k)) h = op_handle_of(w, idx = k);
    }
    op_init_lists(w, &lo, x->a[3], w->copies_per_seq);
    lm = lo;
    pkv_block_work wo = op_work_of(&lo), wm = op_work_of(&lm);
    const bool bad = op_breaks(x), other_size = x->a[4] % 41 == 1;
    if (other_size) wm.struct_size--;
    op_tell(w, "snapshot(%d, caps %d %d%s)", idx, lo.zero_cap, lo.copy_cap,
            bad          ? ", null"
            : other_size ? ", bad size"
                         : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : other_size ? PKV_E_ABI : or_snapshot(w->o, h, &wo);
    op_agree(w, OP_snapshot, so, OP_ASK(w, so, pkv_seq_snapshot(w->mgr, h, bad ? NULL : &wm)));
    if (w->ok) op_compare_work(w, &lo, &wo, &lm, &wm, so == PKV_OK);
}
