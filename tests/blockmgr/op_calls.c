/* See op_driver.h: each operation turned into a call on both sides. */
#include "op_world.h"

#include <string.h>

/* ---------------------------------------------------------------- choosing */

pkv_seq op_handle_of(const world *w, int idx)
{
    return (pkv_seq){ (uint64_t)w->o->seq[idx].gen << 32 | (uint32_t)idx };
}

int op_open_seqs(const world *w, int *idx, bool empty_only)
{
    int n = 0;
    for (int i = 0; i < w->cfg.max_seqs; i++)
        if (w->o->seq[i].open && (!empty_only || !w->o->seq[i].committed)) idx[n++] = i;
    return n;
}

/* Without those that are suspended, mostly. */
static int running_seqs(const world *w, uint32_t a, int *idx, bool empty_only)
{
    int n = op_open_seqs(w, idx, empty_only), k = 0;
    if (a % 7 == 0) return n;
    for (int i = 0; i < n; i++)
        if (w->o->seq[idx[i]].state == PKV_SEQ_RUNNING) idx[k++] = idx[i];
    return k;
}

pkv_seq op_pick_seq(const world *w, uint32_t a, bool empty_first, int *idx)
{
    int all[OR_SEQS], n = 0;
    *idx = -1;
    if (a % 61 == 0) return w->stale[a / 61 % N_STALE];
    if (empty_first && a % 11) n = running_seqs(w, a, all, true);
    if (!n) n = running_seqs(w, a, all, false);
    if (!n) return w->stale[a % N_STALE];
    *idx = all[a / 64 % (uint32_t)n];
    return op_handle_of(w, *idx);
}

int op_pick_seqs(world *w, uint32_t a, bool suspended, pkv_seq *out)
{
    uint64_t rng = a;
    int all[OR_SEQS], n = 0, n_open = op_open_seqs(w, all, false), k = 0;
    if (op_below(&rng, 8))
        for (int i = 0; i < n_open; i++)
            if ((w->o->seq[all[i]].state == PKV_SEQ_SUSPENDED) == suspended) all[k++] = all[i];
    if (k) n_open = k;
    int want = op_below(&rng, 3) ? 1 + op_below(&rng, 2) : 1 + op_below(&rng, OR_SEQS);
    for (; n < want && n < n_open; n++) {
        int at = n + op_below(&rng, n_open - n), idx = all[at];
        all[at] = all[n];
        all[n] = idx;
        out[n] = op_handle_of(w, idx);
    }
    if (n && !op_below(&rng, 50)) out[n++] = out[0];
    if (!op_below(&rng, n ? 50 : 3)) out[n++] = w->stale[op_below(&rng, N_STALE)];
    for (int i = 0; i < n; i++) op_tell(w, i ? " %u" : "%u", (unsigned)out[i].v);
    return n;
}

pkv_ns op_pick_ns(const world *w, uint32_t a)
{
    if (a % 37 == 0) return w->stale_ns;
    uint32_t k = a / 64 % (uint32_t)(w->n_ns + 1);
    return k ? w->ns[k - 1] : (pkv_ns){ 0 };
}

int32_t op_pick_group(const world *w, uint32_t a)
{
    if (a % 29 == 0) return a / 29 % 2 ? -1 : w->n_groups;
    return (int32_t)(a / 32 % (uint32_t)w->n_groups);
}

bool op_is_group(const world *w, int32_t g)
{
    return g >= 0 && g < w->n_groups;
}

bool op_is_state(const world *w, int32_t g)
{
    return op_is_group(w, g) && w->group[g].kind == PKV_GROUP_STATE;
}

pkv_step op_pick_step(const world *w, uint32_t a)
{
    if (!w->n_steps || a % 31 == 0) return w->stale_step;
    return w->step[a / 2 % 3 ? 0 : a / 32 % (uint32_t)w->n_steps];
}

void op_init_lists(const world *w, lists *l, uint32_t a, int copies)
{
    memset(l, 0x5a, sizeof *l);
    l->copy_cap = a % 23 ? copies : (int32_t)(a / 23 % 2);
    l->zero_cap = a % 19 ? w->cfg.n_blocks : (int32_t)(a / 19 % 3);
    if (w->cfg.zero_policy == PKV_ZERO_NEVER && a % 3) l->zero_cap = 0;
}

pkv_block_work op_work_of(lists *l)
{
    return (pkv_block_work){ sizeof(pkv_block_work),
                             l->zero_cap ? l->zero : NULL,
                             l->zero_cap,
                             l->n_zero,
                             l->copy_cap ? l->copy : NULL,
                             l->copy_cap,
                             l->n_copy };
}

/* ---------------------------------------------------------------- one call each */

void op_do_ns_open(world *w, const op *x)
{
    static const char text[] = "ababab";
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns no = { 77 }, nm = { 77 };
    uint32_t k = x->a[0] % 9; /* equal bytes in different fields: different identities */
    if (k & 1) p.adapter = text, p.adapter_bytes = 1 + k / 4;
    if (k & 2) p.salt = text, p.salt_bytes = 2;
    if (k == 4) p.kv_format = text, p.kv_format_bytes = 2;
    if (k == 6) p.model_digest[31] = 1;
    bool bad = x->a[1] % 9 == 0;
    if (bad) p.adapter = NULL, p.adapter_bytes = 1;
    op_tell(w, "ns_open(identity %u%s)", k, bad ? ", bad" : "");
    pkv_status so = bad ? PKV_E_INVALID_ARG : or_ns_open(w->o, &p, &no);
    pkv_status sm = OP_ASK(w, so, pkv_ns_open(w->mgr, &p, &nm));
    op_agree(w, OP_ns_open, so, sm);
    if (!w->run->alone && no.v != nm.v) op_fail(w, "namespace %llx", (unsigned long long)nm.v);
    if (so != PKV_OK || !no.v) return;
    for (int i = 0; i < w->n_ns; i++)
        if (w->ns[i].v == no.v) return;
    w->ns[w->n_ns++] = no;
}

void op_do_ns_close(world *w, const op *x)
{
    pkv_ns ns = op_pick_ns(w, x->a[0]);
    op_tell(w, "ns_close(%llx)", (unsigned long long)ns.v);
    pkv_status so = or_ns_close(w->o, ns);
    op_agree(w, OP_ns_close, so, OP_ASK(w, so, pkv_ns_close(w->mgr, ns)));
    if (so != PKV_OK || w->o->ns[(uint32_t)ns.v].opens) return;
    int i = 0;
    while (w->ns[i].v != ns.v) i++;
    w->stale_ns = ns;
    w->ns[i] = w->ns[--w->n_ns];
}

void op_do_open(world *w, const op *x)
{
    pkv_seq so_h = { 77 }, sm_h = { 77 };
    pkv_ns ns = op_pick_ns(w, x->a[0]);
    op_tell(w, "seq_open(%llx)", (unsigned long long)ns.v);
    pkv_status so = or_open(w->o, ns, &so_h);
    op_agree(w, OP_open, so, OP_ASK(w, so, pkv_seq_open(w->mgr, ns, &sm_h)));
    if (!w->run->alone && so_h.v != sm_h.v) op_fail(w, "handle %llx", (unsigned long long)sm_h.v);
    if (so == PKV_OK) w->doc_of[(uint32_t)so_h.v] = (int)(x->a[1] % N_DOCS);
}

void op_do_match(world *w, const op *x)
{
    call_tokens c;
    lists lo, lm;
    pkv_match mo = PKV_MATCH_INIT, mm = PKV_MATCH_INIT;
    int idx, most = w->cfg.max_seq_tokens, n = (int)(x->a[1] % (uint32_t)(most + 1));
    pkv_seq h = op_pick_seq(w, x->a[0], true, &idx);
    int d = (int)(x->a[2] % N_DOCS);
    op_cut_text(&c, w->doc[d], 0, n);
    int32_t max_tokens =
        x->a[2] / 8 % 3 ? n - (n > 0) : (int32_t)(x->a[2] / 32 % (uint32_t)(n + 1));
    int32_t upto = x->a[3] % 3 == 0 ? 0 : n + (int32_t)(x->a[3] / 4 % 3);
    if (x->a[3] % 41 == 1) upto = most + (int32_t)(x->a[3] / 41 % 2);
    if (x->a[3] % 97 == 1) upto = INT32_MAX;
    if (x->a[3] % 97 == 2) upto = -1;
    if (x->a[3] % 97 == 3) max_tokens = -1;
    if (x->a[3] % 97 == 4) max_tokens = INT32_MAX;
    if (x->a[4] % 31 == 0) op_spoil_tokens(w, &c, x->a[4] / 31);
    if (!(w->cfg.flags & PKV_MGR_PREFIX_CACHE) && x->a[4] % 2) c.t.ids = NULL;
    op_init_lists(w, &lo, x->a[4], w->copies_per_seq);
    lm = lo;
    pkv_block_work wo = op_work_of(&lo), wm = op_work_of(&lm);
    op_tell(w, "match(%d, ", idx);
    op_tell_tokens(w, &c.t);
    op_tell(w, ", max %d, upto %d, caps %d %d)", max_tokens, upto, lo.zero_cap, lo.copy_cap);
    pkv_status so = or_match(w->o, h, &c.t, max_tokens, upto, &wo, &mo);
    pkv_status sm = OP_ASK(w, so, pkv_seq_match(w->mgr, h, &c.t, max_tokens, upto, &wm, &mm));
    op_agree(w, OP_match, so, sm);
    if (w->ok) op_compare_match(w, &mo, &mm);
    if (w->ok) op_compare_work(w, &lo, &wo, &lm, &wm, so == PKV_OK);
    if (so != PKV_OK) return;
    op_tell(w, "    claimed %d copied %d\n", mo.claimed, mo.copied);
    for (int g = 0; w->run->cover && g < w->n_groups; g++) w->run->cover->stop[mo.stop_reason[g]]++;
    memcpy(w->text[idx], w->doc[d], sizeof w->text[0]);
    w->doc_of[idx] = d;
}

/* 1 .. max_seqs requests on different sequences, rarely with a fault. */
static int make_reqs(world *w, const op *x, pkv_reserve_req *q)
{
    int all[OR_SEQS], n_open = running_seqs(w, x->a[2] / 8, all, false), n = 0;
    uint64_t rng = x->a[1];
    int want = x->a[0] % 4 ? 1 : 1 + (int)(x->a[0] / 4 % OR_SEQS);
    for (; n < want && n < n_open; n++) {
        int k = n + op_below(&rng, n_open - n), idx = all[k];
        all[k] = all[n];
        all[n] = idx;
        q[n].seq = op_handle_of(w, idx);
        q[n].n_tokens = op_below(&rng, w->n_steps ? 2 : 3) ? 1 : op_below(&rng, 2 * w->unit + 2);
        if (!op_below(&rng, 40)) q[n].n_tokens = w->cfg.max_seq_tokens - w->o->seq[idx].committed;
        if (!op_below(&rng, 150)) q[n].n_tokens++;
        if (!op_below(&rng, 150)) q[n].n_tokens = INT32_MAX;
        if (!op_below(&rng, 150)) q[n].n_tokens = -1;
    }
    if (n && !op_below(&rng, 60)) q[n++] = q[0];
    if (!n || !op_below(&rng, 60)) q[n++] = (pkv_reserve_req){ w->stale[x->a[2] % N_STALE], 1 };
    for (int i = 0; i < n; i++) op_tell(w, " (%u, %d)", (unsigned)q[i].seq.v, q[i].n_tokens);
    return n;
}

void op_do_reserve(world *w, const op *x)
{
    pkv_reserve_req q[OR_SEQS + 2];
    lists lo, lm;
    op_tell(w, "reserve");
    int n = make_reqs(w, x, q);
    op_init_lists(w, &lo, x->a[3], n * w->copies_per_seq);
    lm = lo;
    pkv_block_work wo = op_work_of(&lo), wm = op_work_of(&lm);
    pkv_status so = or_reserve(w->o, q, n, &wo);
    op_agree(w, OP_reserve, so, OP_ASK(w, so, pkv_seq_reserve(w->mgr, q, n, &wm)));
    if (w->ok) op_compare_work(w, &lo, &wo, &lm, &wm, so == PKV_OK);
}

void op_do_need(world *w, const op *x)
{
    pkv_reserve_req q[OR_SEQS + 2];
    pkv_need no = PKV_NEED_INIT, nm = PKV_NEED_INIT;
    op_tell(w, "need");
    int n = make_reqs(w, x, q);
    or_need(w->o, q, n, &no);
    op_agree(w, OP_need, no.verdict, no.verdict);
    if (w->run->alone) return;
    if (pkv_blockmgr_need(w->mgr, q, n, &nm) != PKV_OK) op_fail(w, "need refused");
    if (memcmp(&no, &nm, sizeof no))
        op_fail(
            w,
            "need: new %d copies %d evictions %d zeros %d %s step %llu, expected %d %d %d %d %s "
            "%llu",
            nm.new_blocks, nm.copies, nm.evictions, nm.zeros, pkv_status_name(nm.verdict),
            (unsigned long long)nm.step.v, no.new_blocks, no.copies, no.evictions, no.zeros,
            pkv_status_name(no.verdict), (unsigned long long)no.step.v);
}

static bool is_open_step(const world *w, pkv_step s)
{
    for (int i = 0; i < w->n_steps; i++)
        if (w->step[i].v == s.v) return true;
    return false;
}

/* The step of a commit: mostly one that has launched something of this sequence. */
static pkv_step pick_writer(const world *w, pkv_seq h, uint32_t a)
{
    if (a % 101 == 7) return w->stale_step;
    for (int i = 0; i < w->n_steps && a % 5; i++) {
        const pkv_step s = w->step[a / 8 % 4 ? i : w->n_steps - 1 - i]; /* mostly in order */
        if (or_may_commit(w->o, h, s) > 0) return s;
    }
    return w->n_steps && a % 5 ? op_pick_step(w, a / 16) : PKV_STEP_NONE;
}

static bool launched_something(const world *w, int idx)
{
    for (int i = 0; i < w->n_steps && w->o->seq[idx].open; i++)
        if (or_may_commit(w->o, op_handle_of(w, idx), w->step[i]) > 0) return true;
    return false;
}

void op_do_commit(world *w, const op *x)
{
    call_tokens c;
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    for (int i = 0; i < w->cfg.max_seqs && idx >= 0 && x->a[0] / 2 % 2; i++) {
        const int k = (idx + i) % w->cfg.max_seqs;
        if (!launched_something(w, k)) continue;
        h = op_handle_of(w, idx = k);
        break;
    }
    const or_seq *s = &w->o->seq[idx < 0 ? 0 : idx];
    int at = idx < 0 ? 0 : s->committed, room = idx < 0 ? 1 : s->reserved - at;
    const pkv_step step = pick_writer(w, h, x->a[3] / 64);
    const bool launched = is_open_step(w, step) && x->a[1] % 47;
    if (launched) room = or_may_commit(w->o, h, step);
    int n = x->a[1] % 3 && (!launched || x->a[1] / 8192 % 2)
                ? room
                : (int)(x->a[1] / 4 % (uint32_t)(room + 1));
    if (x->a[1] % 47 == 0 && at + room < OR_TOKENS) n = room + 1; /* more than reserved */
    wide *text = w->text[idx < 0 ? 0 : idx], keep[OR_TOKENS];
    memcpy(keep, text, sizeof keep);
    uint64_t rng = x->a[2];
    for (int i = at; i < at + n; i++)
        text[i] =
            x->a[3] % w->wild ? w->doc[w->doc_of[idx < 0 ? 0 : idx]][i] : op_random_wide(&rng);
    op_cut_text(&c, text, at, n);
    /* Another extra than before is noticed only while its block is being filled. */
    if (x->a[4] % 31 == 0 && (at % w->unit || !op_spoils_a_begun_block(x->a[4] / 31)))
        op_spoil_tokens(w, &c, x->a[4] / 31);
    if (!(w->cfg.flags & PKV_MGR_PREFIX_CACHE) && x->a[4] % 2) c.t.ids = NULL;
    op_tell(w, "commit(%d at %d, ", idx, at);
    op_tell_tokens(w, &c.t);
    op_tell(w, ", step %llu)", (unsigned long long)step.v);
    pkv_status so = or_commit(w->o, h, &c.t, step);
    op_agree(w, OP_commit, so, OP_ASK(w, so, pkv_seq_commit(w->mgr, h, &c.t, step)));
    if (so != PKV_OK) memcpy(text, keep, sizeof keep);
}

void op_do_fork(world *w, const op *x)
{
    pkv_seq co[OR_SEQS + 1], cm[OR_SEQS + 1];
    int idx, n = x->a[1] % 29 ? 1 + (int)(x->a[1] / 32 % 3) : (int)(x->a[1] / 29 % 3) * 5 - 1;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    memset(co, 0x5a, sizeof co);
    memset(cm, 0x5a, sizeof cm);
    op_tell(w, "fork(%d, %d)", idx, n);
    pkv_status so = or_fork(w->o, h, co, n);
    op_agree(w, OP_fork, so, OP_ASK(w, so, pkv_seq_fork(w->mgr, h, cm, n)));
    if (!w->run->alone && memcmp(co, cm, sizeof co)) op_fail(w, "fork: other children");
    for (int i = 0; so == PKV_OK && i < n; i++) {
        uint32_t k = (uint32_t)co[i].v;
        memcpy(w->text[k], w->text[idx], sizeof w->text[0]);
        w->doc_of[k] = x->a[2] % 3 ? w->doc_of[idx] : (int)(x->a[2] / 3 % N_DOCS);
    }
}

/* A length up to which a windowed group has no bytes, though the block there is the sequence's. */
static int claimed_inside(const or_seq *s)
{
    int most = 0;
    for (int g = 0; s->open && g < OR_G; g++) most = s->begins[g] > most ? s->begins[g] : most;
    return most;
}

void op_do_truncate(world *w, const op *x)
{
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    for (int i = 0; i < w->cfg.max_seqs && idx >= 0 && x->a[4] % 2; i++)
        if (claimed_inside(&w->o->seq[i]) > 1) h = op_handle_of(w, idx = i);
    const or_seq *s = &w->o->seq[idx < 0 ? 0 : idx];
    int32_t top = idx < 0 ? 0 : x->a[1] % 3 ? s->committed : s->reserved;
    int32_t back = (int32_t)(x->a[2] % (uint32_t)(x->a[1] / 3 % 3 ? w->unit + 2 : top + 1));
    int32_t n = back > top ? 0 : top - back;
    const int below = claimed_inside(s);
    if (below > 1 && x->a[3] % 3) n = 1 + (int32_t)(x->a[2] % (uint32_t)(below - 1));
    if (x->a[3] % 53 == 0) n = -1;
    if (x->a[3] % 53 == 1) n = s->reserved + 1;
    op_tell(w, "truncate(%d, %d)", idx, n);
    pkv_status so = or_truncate(w->o, h, n);
    op_agree(w, OP_truncate, so, OP_ASK(w, so, pkv_seq_truncate(w->mgr, h, n)));
}

void op_do_close(world *w, const op *x)
{
    int idx, all[OR_SEQS], n = op_open_seqs(w, all, false);
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    if (n && x->a[2] % 4 == 0) h = op_handle_of(w, idx = all[x->a[2] / 4 % (uint32_t)n]); /* any */
    op_tell(w, "close(%d)", idx);
    pkv_status so = or_close(w->o, h);
    op_agree(w, OP_close, so, OP_ASK(w, so, pkv_seq_close(w->mgr, h)));
    if (so == PKV_OK) w->stale[x->a[1] % N_STALE] = h;
}

void op_do_info(world *w, const op *x)
{
    pkv_seq_info_t io = PKV_SEQ_INFO_INIT, im = PKV_SEQ_INFO_INIT;
    int idx;
    pkv_seq h = op_pick_seq(w, x->a[0], false, &idx);
    op_tell(w, "info(%d)", idx);
    pkv_status so = or_info(w->o, h, &io);
    op_agree(w, OP_info, so, OP_ASK(w, so, pkv_seq_info(w->mgr, h, &im)));
}

void op_do_probe(world *w, const op *x)
{
    call_tokens c;
    pkv_match mo = PKV_MATCH_INIT, mm = PKV_MATCH_INIT;
    pkv_ns ns = op_pick_ns(w, x->a[0]);
    op_cut_text(&c, w->doc[x->a[1] % N_DOCS], 0, (int)(x->a[2] % (OR_TOKENS + 1)));
    if (x->a[3] % 31 == 0) op_spoil_tokens(w, &c, x->a[3] / 31);
    op_tell(w, "probe(%llx, ", (unsigned long long)ns.v);
    op_tell_tokens(w, &c.t);
    op_tell(w, ")");
    pkv_status so = or_probe(w->o, ns, &c.t, &mo);
    pkv_status sm = OP_ASK(w, so, pkv_blockmgr_probe(w->mgr, ns, &c.t, &mm));
    op_agree(w, OP_probe, so, sm);
    if (w->ok) op_compare_match(w, &mo, &mm);
}

static bool any_suspended(const world *w)
{
    for (int i = 0; i < w->cfg.max_seqs; i++)
        if (w->o->seq[i].open && w->o->seq[i].state == PKV_SEQ_SUSPENDED) return true;
    return false;
}

static bool has_state(const world *w)
{
    for (int g = 0; g < w->n_groups; g++)
        if (op_is_state(w, g)) return true;
    return false;
}

/* A step would have something to launch. */
static bool any_room(const world *w)
{
    for (int i = 0; i < w->cfg.max_seqs; i++)
        if (w->o->seq[i].open && w->o->seq[i].reserved > w->o->seq[i].committed) return true;
    return false;
}

/* Where a call would only be refused, another takes its place most of the time. */
static int better_kind(const world *w, int kind, uint32_t a)
{
    const bool raw = w->n_groups == 1 && w->group[0].kind == PKV_GROUP_FULL;
    int all[OR_SEQS];
    if (a % 8 == 0) return kind;
    if (kind >= OP_match && kind <= OP_close && any_suspended(w) && !running_seqs(w, 1, all, false))
        return kind == OP_close ? kind : OP_resume;
    if (op_feature_of(kind) == OP_RAW && !raw) return a / 8 % 2 ? OP_reserve : OP_commit;
    const int n_open = op_open_seqs(w, all, false);
    for (int i = 0; i < n_open && kind <= OP_close && a / 64 % 4 == 0; i++)
        if (claimed_inside(&w->o->seq[all[i]]) > 1) return OP_truncate; /* seldom, and soon over */
    switch (kind) {
    case OP_open:
    case OP_fork:
        return w->o->n_seq_free ? kind
               : a / 8 % 3      ? OP_commit
               : a / 8 % 2      ? OP_reserve
                                : OP_truncate;
    case OP_match:
    case OP_reserve:
    case OP_commit:
    case OP_truncate:
    case OP_close:
    case OP_retain:
    case OP_hold_open:
        return n_open || !w->o->n_seq_free ? kind : OP_open;
    case OP_step_begin:
        if (w->n_steps == w->cfg.max_steps) return a / 8 % 2 ? OP_step_retire : OP_commit;
        return n_open && !any_room(w) ? OP_reserve : kind;
    case OP_step_retire:
    case OP_step_abort:
        return w->n_steps ? kind : OP_step_begin;
    case OP_snapshot:
        return has_state(w) ? kind : OP_commit;
    case OP_new_epoch: /* after it little is found for long */
        return a / 8 % 4 ? OP_match : kind;
    case OP_hold_post:
    case OP_poll:
    case OP_hold_reclaim:
    case OP_hold_blocks:
        return w->n_holds ? kind : OP_hold_open;
    case OP_resume:
        return any_suspended(w) ? kind : OP_commit;
    default:
        return kind;
    }
}

void op_call(world *w, const op *x)
{
    static void (*const call[OP_N_FN])(world *, const op *) = {
#define OP_FN_CALL(name, feature) op_do_##name,
        OP_FN_LIST(OP_FN_CALL)
#undef OP_FN_CALL
    };
    const int kind = x->kind % OP_N_FN;
    if (op_feature_of(kind) & ~w->features) op_tell(w, "left out\n");
    else call[better_kind(w, kind, x->a[4] / 4096)](w, x);
}
