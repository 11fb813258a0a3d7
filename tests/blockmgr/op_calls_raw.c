/* See op_world.h: blocks without sequences. */
#include "op_world.h"

#include <string.h>

/* Any id, seldom none of the pool; mostly one that `usable` names. */
static int32_t pick_block(const world *w, uint64_t *rng, const bool *usable)
{
    int32_t all[OR_BLOCKS], n = 0;
    for (int32_t b = 1; b < w->cfg.n_blocks; b++)
        if (usable[b]) all[n++] = b;
    int r = op_below(rng, 60);
    if (r == 0) return 0;
    if (r == 1) return -1;
    if (r == 2) return w->cfg.n_blocks;
    return n && r > 5 ? all[op_below(rng, n)] : 1 + op_below(rng, w->cfg.n_blocks - 1);
}

static void raw_ones(const world *w, bool *out)
{
    memset(out, 0, OR_BLOCKS * sizeof *out);
    for (int b = 1; b < w->cfg.n_blocks; b++) out[b] = w->o->late.raw[b] > 0;
}

static void tell_ids(const world *w, const int32_t *ids, int n)
{
    for (int i = 0; i < n; i++) op_tell(w, i ? " %d" : "%d", ids[i]);
}

void op_do_blocks_take(world *w, const op *x)
{
    lists lo, lm;
    int32_t io[OR_BLOCKS + 2], im[OR_BLOCKS + 2];
    int32_t n = x->a[0] % 4 ? 1 : (int32_t)(x->a[0] / 4 % 4);
    if (x->a[1] % 43 == 0) n = -1;
    if (x->a[1] % 43 == 1) n = w->cfg.n_blocks - (int32_t)(x->a[1] / 43 % 2);
    op_init_lists(w, &lo, x->a[2], 0);
    lm = lo;
    pkv_block_work wo = op_work_of(&lo), wm = op_work_of(&lm);
    memset(io, 0x5a, sizeof io);
    memset(im, 0x5a, sizeof im);
    const bool bad = op_breaks(x), no_work = op_breaks_this(x, 0, 2) || n <= 0;
    const bool other_size = x->a[4] % 41 == 1 && !bad && n >= 0;
    if (other_size) wm.struct_size--;
    op_tell(w, "blocks_take(%d, zero cap %d%s)", n, lo.zero_cap,
            bad          ? ", null"
            : other_size ? ", bad size"
                         : "");
    pkv_status so = bad          ? PKV_E_INVALID_ARG
                    : other_size ? PKV_E_ABI
                                 : or_blocks_take(w->o, n, io, &wo);
    op_agree(w, OP_blocks_take, so,
             OP_ASK(w, so,
                    pkv_blocks_take(w->mgr, n, bad && !no_work ? NULL : im,
                                    bad && no_work ? NULL : &wm)));
    op_compare_ids(w, "blocks_take", io, im, OR_BLOCKS + 2);
    if (w->ok) op_compare_work(w, &lo, &wo, &lm, &wm, so == PKV_OK);
    for (int i = 0; so == PKV_OK && i < n; i++) w->fresh[io[i]] = true;
}

void op_do_blocks_ref(world *w, const op *x)
{
    int32_t ids[4], n = 1 + (int32_t)(x->a[0] % 4);
    bool usable[OR_BLOCKS] = { false };
    uint64_t rng = x->a[1];
    for (int b = 1; b < w->cfg.n_blocks; b++) usable[b] = or_refs(w->o, b) > 0 || op_below(&rng, 3);
    if (x->a[0] / 4 % 3) n = 1;
    for (int i = 0; i < n; i++) ids[i] = pick_block(w, &rng, usable);
    if (x->a[2] % 53 == 0) n = -(int32_t)(x->a[2] / 53 % 2);
    const bool bad = op_breaks(x) && n > 0;
    op_tell(w, bad ? "blocks_ref(null " : "blocks_ref(");
    tell_ids(w, ids, n);
    op_tell(w, ")");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_blocks_ref(w->o, ids, n);
    op_agree(w, OP_blocks_ref, so, OP_ASK(w, so, pkv_blocks_ref(w->mgr, bad ? NULL : ids, n)));
}

void op_do_blocks_unref(world *w, const op *x)
{
    int32_t ids[4], n = 1 + (int32_t)(x->a[0] % 4);
    bool usable[OR_BLOCKS];
    uint64_t rng = x->a[1];
    raw_ones(w, usable);
    if (x->a[0] / 4 % 3) n = 1;
    for (int i = 0; i < n; i++) ids[i] = pick_block(w, &rng, usable);
    if (x->a[2] % 53 == 0) n = -(int32_t)(x->a[2] / 53 % 2);
    const bool bad = op_breaks(x) && n > 0;
    op_tell(w, bad ? "blocks_unref(null " : "blocks_unref(");
    tell_ids(w, ids, n);
    op_tell(w, ")");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_blocks_unref(w->o, ids, n);
    op_agree(w, OP_blocks_unref, so, OP_ASK(w, so, pkv_blocks_unref(w->mgr, bad ? NULL : ids, n)));
    for (int b = 1; b < w->cfg.n_blocks; b++)
        if (!w->o->late.raw[b]) w->fresh[b] = false;
}

/* A raw-referenced block that somebody else may be writing would be given content that it does not
 * have: only fresh ones are published, and those whose call is refused or changes nothing. */
static bool may_publish(const world *w, int32_t b)
{
    if (b < 1 || b >= w->cfg.n_blocks || !w->o->late.raw[b]) return true;
    return w->fresh[b] || or_has_content(w->o, b);
}

void op_do_block_publish(world *w, const op *x)
{
    call_tokens c;
    bool usable[OR_BLOCKS], raw[OR_BLOCKS];
    uint64_t rng = x->a[0];
    raw_ones(w, raw);
    for (int b = 0; b < OR_BLOCKS; b++)
        usable[b] = raw[b] && (w->fresh[b] || op_below(&rng, 8) == 0);
    int32_t block = pick_block(w, &rng, usable), parent = 0;
    if (!may_publish(w, block)) block = 0;
    for (int b = 0; b < OR_BLOCKS; b++) usable[b] = raw[b] && or_has_content(w->o, b);
    if (x->a[1] % 3) parent = pick_block(w, &rng, usable);
    const pkv_ns ns = op_pick_ns(w, x->a[2]);
    const int depth = parent > 0 && parent < w->cfg.n_blocks ? or_depth(w->o, parent) : 0;
    int n = w->unit, at = depth * n;
    if (at + n > OR_TOKENS) at = 0;
    if (x->a[4] % 31 == 1) n = n > 1 ? n - 1 : 0;
    op_cut_text(&c, w->doc[x->a[3] % N_DOCS], at, n);
    /* An extra from before the unit has another digest then. */
    if (x->a[4] % 31 == 0) op_spoil_tokens(w, &c, x->a[4] / 31);
    op_tell(w, "block_publish(%llx, parent %d, ", (unsigned long long)ns.v, parent);
    op_tell_tokens(w, &c.t);
    op_tell(w, ", block %d)", block);
    const bool bad = op_breaks(x);
    if (bad) op_tell(w, " null");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_block_publish(w->o, ns, parent, &c.t, block);
    op_agree(w, OP_block_publish, so,
             OP_ASK(w, so, pkv_block_publish(w->mgr, ns, parent, bad ? NULL : &c.t, block)));
    if (so == PKV_OK) w->fresh[block] = false;
}

void op_do_blocks_lookup(world *w, const op *x)
{
    call_tokens c;
    int32_t io[OR_TOKENS + 2], im[OR_TOKENS + 2], no = -77, nm = -77;
    int32_t cap = x->a[3] % 3 ? OR_TOKENS : (int32_t)(x->a[3] / 4 % 3);
    const pkv_ns ns = op_pick_ns(w, x->a[0]);
    op_cut_text(&c, w->doc[x->a[1] % N_DOCS], 0, (int)(x->a[2] % (OR_TOKENS / 4 + 1)));
    if (x->a[3] % 41 == 1) cap = -1;
    if (x->a[4] % 31 == 0) op_spoil_tokens(w, &c, x->a[4] / 31);
    memset(io, 0x5a, sizeof io);
    memset(im, 0x5a, sizeof im);
    op_tell(w, "blocks_lookup(%llx, ", (unsigned long long)ns.v);
    op_tell_tokens(w, &c.t);
    op_tell(w, ", cap %d)", cap);
    const bool bad = op_breaks(x), no_ids = op_breaks_this(x, 2, 3) && cap > 0;
    const bool no_n = bad && !no_ids && !op_breaks_this(x, 0, 3);
    if (bad) op_tell(w, " null");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_blocks_lookup(w->o, ns, &c.t, io, cap, &no);
    op_agree(w, OP_blocks_lookup, so,
             OP_ASK(w, so,
                    pkv_blocks_lookup(w->mgr, ns, op_breaks_this(x, 0, 3) ? NULL : &c.t,
                                      no_ids ? NULL : im, cap, no_n ? NULL : &nm)));
    if (!w->run->alone && no != nm) op_fail(w, "blocks_lookup: %d, expected %d", nm, no);
    op_compare_ids(w, "blocks_lookup", io, im, OR_TOKENS + 2);
    if (so != PKV_OK) return;
    op_tell(w, "    found ");
    tell_ids(w, io, no);
    op_tell(w, "\n");
}
