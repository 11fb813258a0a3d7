/* See op_driver.h: each operation turned into a call on both sides. */
#include "op_world.h"

#include <string.h>

/* The oracle's status and the manager's; false: nothing more to compare. */
static bool agree(world *w, enum op_fn fn, pkv_status want, pkv_status got)
{
    op_tell(w, " -> %s\n", pkv_status_name(want));
    if (w->run->cover) w->run->cover->status[fn][want]++;
    if (!w->run->alone && want != got)
        op_fail(w, "status %s, expected %s", pkv_status_name(got), pkv_status_name(want));
    w->same_digest = want != PKV_OK || fn >= OP_row;
    return want == PKV_OK && !w->run->alone && w->ok;
}

/* ---------------------------------------------------------------- choosing */

static pkv_seq handle_of(const world *w, int idx)
{
    return (pkv_seq){ (uint64_t)w->o->seq[idx].gen << 32 | (uint32_t)idx };
}

static int open_seqs(const world *w, int *idx, bool empty_only)
{
    int n = 0;
    for (int i = 0; i < w->o->cfg.max_seqs; i++)
        if (w->o->seq[i].open && (!empty_only || !w->o->seq[i].committed)) idx[n++] = i;
    return n;
}

/* An open sequence; index -1 with a stale handle if there is none, or rarely. */
static pkv_seq pick_seq(const world *w, uint32_t a, bool empty_first, int *idx)
{
    int all[OR_SEQS], n = 0;
    *idx = -1;
    if (a % 61 == 0) return w->stale[a / 61 % N_STALE];
    if (empty_first && a % 11) n = open_seqs(w, all, true);
    if (!n) n = open_seqs(w, all, false);
    if (!n) return w->stale[a % N_STALE];
    *idx = all[a / 64 % (uint32_t)n];
    return handle_of(w, *idx);
}

static pkv_ns pick_ns(const world *w, uint32_t a)
{
    if (a % 37 == 0) return w->stale_ns;
    uint32_t k = a / 64 % (uint32_t)(w->n_ns + 1);
    return k ? w->ns[k - 1] : (pkv_ns){ 0 };
}

static void init_lists(const world *w, lists *l, uint32_t a, int copies)
{
    memset(l, 0x5a, sizeof *l);
    l->copy_cap = a % 23 ? copies : (int32_t)(a / 23 % 2);
    l->zero_cap = a % 19 ? w->o->cfg.n_blocks : (int32_t)(a / 19 % 3);
    if (w->o->cfg.zero_policy == PKV_ZERO_NEVER && a % 3) l->zero_cap = 0;
}

static pkv_block_work work_of(lists *l)
{
    return (pkv_block_work){ sizeof(pkv_block_work),
                             l->zero_cap ? l->zero : NULL,
                             l->zero_cap,
                             l->n_zero,
                             l->copy_cap ? l->copy : NULL,
                             l->copy_cap,
                             l->n_copy };
}

/* Work lists of both; a refused call has touched nothing, so then all must be as before. */
static void compare_work(world *w, const lists *lo, const pkv_block_work *wo, const lists *lm,
                         const pkv_block_work *wm, bool ok)
{
    if (w->run->alone) return;
    if (wo->n_zero != wm->n_zero || wo->n_copy != wm->n_copy) {
        op_fail(w, "work: %d zeros and %d copies, expected %d and %d", wm->n_zero, wm->n_copy,
                wo->n_zero, wo->n_copy);
        return;
    }
    size_t nz = ok ? (size_t)wo->n_zero : sizeof lo->zero / sizeof lo->zero[0];
    size_t nc = ok ? (size_t)wo->n_copy : sizeof lo->copy / sizeof lo->copy[0];
    for (size_t i = 0; i < nz; i++)
        if (lo->zero[i] != lm->zero[i])
            op_fail(w, "zero[%zu] is %d, expected %d", i, lm->zero[i], lo->zero[i]);
    for (size_t i = 0; i < nc; i++) {
        const pkv_block_copy *a = &lo->copy[i], *b = &lm->copy[i];
        if (memcmp(a, b, sizeof *a))
            op_fail(w, "copy[%zu] is %d->%d n %d group %d, expected %d->%d n %d group %d", i,
                    b->src, b->dst, b->n_tokens, b->group, a->src, a->dst, a->n_tokens, a->group);
    }
}

/* ---------------------------------------------------------------- one call each */

static void do_ns_open(world *w, const op *x)
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
    pkv_status sm = w->run->alone ? so : pkv_ns_open(w->mgr, &p, &nm);
    agree(w, OP_ns_open, so, sm);
    if (!w->run->alone && no.v != nm.v) op_fail(w, "namespace %llx", (unsigned long long)nm.v);
    if (so != PKV_OK || !no.v) return;
    for (int i = 0; i < w->n_ns; i++)
        if (w->ns[i].v == no.v) return;
    w->ns[w->n_ns++] = no;
}

static void do_ns_close(world *w, const op *x)
{
    pkv_ns ns = pick_ns(w, x->a[0]);
    op_tell(w, "ns_close(%llx)", (unsigned long long)ns.v);
    pkv_status so = or_ns_close(w->o, ns);
    agree(w, OP_ns_close, so, w->run->alone ? so : pkv_ns_close(w->mgr, ns));
    if (so != PKV_OK || w->o->ns[(uint32_t)ns.v].opens) return;
    int i = 0;
    while (w->ns[i].v != ns.v) i++;
    w->stale_ns = ns;
    w->ns[i] = w->ns[--w->n_ns];
}

static void do_open(world *w, const op *x)
{
    pkv_seq so_h = { 77 }, sm_h = { 77 };
    pkv_ns ns = pick_ns(w, x->a[0]);
    op_tell(w, "seq_open(%llx)", (unsigned long long)ns.v);
    pkv_status so = or_open(w->o, ns, &so_h);
    agree(w, OP_open, so, w->run->alone ? so : pkv_seq_open(w->mgr, ns, &sm_h));
    if (!w->run->alone && so_h.v != sm_h.v) op_fail(w, "handle %llx", (unsigned long long)sm_h.v);
    if (so == PKV_OK) w->doc_of[(uint32_t)so_h.v] = (int)(x->a[1] % N_DOCS);
}

static void compare_match(world *w, const pkv_match *a, const pkv_match *b)
{
    if (w->run->alone) return;
    if (a->claimed != b->claimed || a->claimed_cached != b->claimed_cached ||
        a->copied != b->copied || a->longest[0] != b->longest[0] ||
        a->stop_reason[0] != b->stop_reason[0] || a->struct_size != b->struct_size)
        op_fail(w,
                "match: claimed %d cached %d copied %d longest %d stop %d, expected %d %d %d %d %d",
                b->claimed, b->claimed_cached, b->copied, b->longest[0], (int)b->stop_reason[0],
                a->claimed, a->claimed_cached, a->copied, a->longest[0], (int)a->stop_reason[0]);
}

static void do_match(world *w, const op *x)
{
    call_tokens c;
    lists lo, lm;
    pkv_match mo = PKV_MATCH_INIT, mm = PKV_MATCH_INIT;
    int idx, most = w->o->cfg.max_seq_tokens, n = (int)(x->a[1] % (uint32_t)(most + 1));
    pkv_seq h = pick_seq(w, x->a[0], true, &idx);
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
    if (!(w->o->cfg.flags & PKV_MGR_PREFIX_CACHE) && x->a[4] % 2) c.t.ids = NULL;
    init_lists(w, &lo, x->a[4], 1);
    lm = lo;
    pkv_block_work wo = work_of(&lo), wm = work_of(&lm);
    op_tell(w, "match(%d, ", idx);
    op_tell_tokens(w, &c.t);
    op_tell(w, ", max %d, upto %d, caps %d %d)", max_tokens, upto, lo.zero_cap, lo.copy_cap);
    pkv_status so = or_match(w->o, h, &c.t, max_tokens, upto, &wo, &mo);
    pkv_status sm = w->run->alone ? so : pkv_seq_match(w->mgr, h, &c.t, max_tokens, upto, &wm, &mm);
    agree(w, OP_match, so, sm);
    if (w->ok) compare_match(w, &mo, &mm);
    if (w->ok) compare_work(w, &lo, &wo, &lm, &wm, so == PKV_OK);
    if (so != PKV_OK) return;
    op_tell(w, "    claimed %d copied %d\n", mo.claimed, mo.copied);
    if (w->run->cover) w->run->cover->stop[mo.stop_reason[0]]++;
    memcpy(w->text[idx], w->doc[d], sizeof w->text[0]);
    w->doc_of[idx] = d;
}

/* 1 .. max_seqs requests on different sequences, rarely with a fault. */
static int make_reqs(world *w, const op *x, pkv_reserve_req *q)
{
    int all[OR_SEQS], n_open = open_seqs(w, all, false), n = 0;
    uint64_t rng = x->a[1];
    int want = x->a[0] % 4 ? 1 : 1 + (int)(x->a[0] / 4 % OR_SEQS);
    for (; n < want && n < n_open; n++) {
        int k = n + op_below(&rng, n_open - n), idx = all[k];
        all[k] = all[n];
        all[n] = idx;
        q[n].seq = handle_of(w, idx);
        q[n].n_tokens = op_below(&rng, 3) ? 1 : op_below(&rng, 2 * w->o->T + 2);
        if (!op_below(&rng, 40))
            q[n].n_tokens = w->o->cfg.max_seq_tokens - w->o->seq[idx].committed;
        if (!op_below(&rng, 150)) q[n].n_tokens++;
        if (!op_below(&rng, 150)) q[n].n_tokens = INT32_MAX;
        if (!op_below(&rng, 150)) q[n].n_tokens = -1;
    }
    if (n && !op_below(&rng, 60)) q[n++] = q[0];
    if (!n || !op_below(&rng, 60)) q[n++] = (pkv_reserve_req){ w->stale[x->a[2] % N_STALE], 1 };
    for (int i = 0; i < n; i++) op_tell(w, " (%u, %d)", (unsigned)q[i].seq.v, q[i].n_tokens);
    return n;
}

static void do_reserve(world *w, const op *x)
{
    pkv_reserve_req q[OR_SEQS + 2];
    lists lo, lm;
    op_tell(w, "reserve");
    int n = make_reqs(w, x, q);
    init_lists(w, &lo, x->a[3], n);
    lm = lo;
    pkv_block_work wo = work_of(&lo), wm = work_of(&lm);
    pkv_status so = or_reserve(w->o, q, n, &wo);
    agree(w, OP_reserve, so, w->run->alone ? so : pkv_seq_reserve(w->mgr, q, n, &wm));
    if (w->ok) compare_work(w, &lo, &wo, &lm, &wm, so == PKV_OK);
}

static void do_need(world *w, const op *x)
{
    pkv_reserve_req q[OR_SEQS + 2];
    pkv_need no = PKV_NEED_INIT, nm = PKV_NEED_INIT;
    op_tell(w, "need");
    int n = make_reqs(w, x, q);
    or_need(w->o, q, n, &no);
    agree(w, OP_need, no.verdict, no.verdict);
    if (w->run->alone) return;
    if (pkv_blockmgr_need(w->mgr, q, n, &nm) != PKV_OK) op_fail(w, "need refused");
    if (memcmp(&no, &nm, sizeof no))
        op_fail(w, "need: new %d copies %d evictions %d zeros %d %s, expected %d %d %d %d %s",
                nm.new_blocks, nm.copies, nm.evictions, nm.zeros, pkv_status_name(nm.verdict),
                no.new_blocks, no.copies, no.evictions, no.zeros, pkv_status_name(no.verdict));
}

static void do_commit(world *w, const op *x)
{
    call_tokens c;
    int idx;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    const or_seq *s = &w->o->seq[idx < 0 ? 0 : idx];
    int at = idx < 0 ? 0 : s->committed, room = idx < 0 ? 1 : s->reserved - at;
    int n = x->a[1] % 3 ? room : (int)(x->a[1] / 4 % (uint32_t)(room + 1));
    if (x->a[1] % 47 == 0 && at + room < OR_TOKENS) n = room + 1;
    wide *text = w->text[idx < 0 ? 0 : idx], keep[OR_TOKENS];
    memcpy(keep, text, sizeof keep);
    uint64_t rng = x->a[2];
    for (int i = at; i < at + n; i++)
        text[i] =
            x->a[3] % w->wild ? w->doc[w->doc_of[idx < 0 ? 0 : idx]][i] : op_random_wide(&rng);
    op_cut_text(&c, text, at, n);
    /* Another extra than before is noticed only while its block is being filled. */
    if (x->a[4] % 31 == 0 && (at % w->o->T || !op_spoils_a_begun_block(x->a[4] / 31)))
        op_spoil_tokens(w, &c, x->a[4] / 31);
    if (!(w->o->cfg.flags & PKV_MGR_PREFIX_CACHE) && x->a[4] % 2) c.t.ids = NULL;
    pkv_step step = { x->a[4] % 101 == 7 };
    op_tell(w, "commit(%d at %d, ", idx, at);
    op_tell_tokens(w, &c.t);
    op_tell(w, ")");
    pkv_status so = or_commit(w->o, h, &c.t, step);
    agree(w, OP_commit, so, w->run->alone ? so : pkv_seq_commit(w->mgr, h, &c.t, step));
    if (so != PKV_OK) memcpy(text, keep, sizeof keep);
}

static void do_fork(world *w, const op *x)
{
    pkv_seq co[OR_SEQS + 1], cm[OR_SEQS + 1];
    int idx, n = x->a[1] % 29 ? 1 + (int)(x->a[1] / 32 % 3) : (int)(x->a[1] / 29 % 3) * 5 - 1;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    memset(co, 0x5a, sizeof co);
    memset(cm, 0x5a, sizeof cm);
    op_tell(w, "fork(%d, %d)", idx, n);
    pkv_status so = or_fork(w->o, h, co, n);
    agree(w, OP_fork, so, w->run->alone ? so : pkv_seq_fork(w->mgr, h, cm, n));
    if (!w->run->alone && memcmp(co, cm, sizeof co)) op_fail(w, "fork: other children");
    for (int i = 0; so == PKV_OK && i < n; i++) {
        uint32_t k = (uint32_t)co[i].v;
        memcpy(w->text[k], w->text[idx], sizeof w->text[0]);
        w->doc_of[k] = x->a[2] % 3 ? w->doc_of[idx] : (int)(x->a[2] / 3 % N_DOCS);
    }
}

static void do_truncate(world *w, const op *x)
{
    int idx;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    const or_seq *s = &w->o->seq[idx < 0 ? 0 : idx];
    int32_t top = idx < 0 ? 0 : x->a[1] % 3 ? s->committed : s->reserved;
    int32_t back = (int32_t)(x->a[2] % (uint32_t)(x->a[1] / 3 % 3 ? w->o->T + 2 : top + 1));
    int32_t n = back > top ? 0 : top - back;
    if (x->a[3] % 53 == 0) n = -1;
    if (x->a[3] % 53 == 1) n = s->reserved + 1;
    op_tell(w, "truncate(%d, %d)", idx, n);
    pkv_status so = or_truncate(w->o, h, n);
    agree(w, OP_truncate, so, w->run->alone ? so : pkv_seq_truncate(w->mgr, h, n));
}

static void do_close(world *w, const op *x)
{
    int idx;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    op_tell(w, "close(%d)", idx);
    pkv_status so = or_close(w->o, h);
    agree(w, OP_close, so, w->run->alone ? so : pkv_seq_close(w->mgr, h));
    if (so == PKV_OK) w->stale[x->a[1] % N_STALE] = h;
}

static void do_row(world *w, const op *x)
{
    int idx;
    const int32_t *ids;
    int32_t n, group = x->a[1] % 5 ? 0 : (int32_t)(x->a[1] / 5 % 2) * 2 - 1;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    op_tell(w, "row(%d, group %d)", idx, group);
    pkv_status so = group ? PKV_E_INVALID_ARG : idx < 0 ? PKV_E_STALE : PKV_OK;
    agree(w, OP_row, so, w->run->alone ? so : pkv_seq_row(w->mgr, h, group, &ids, &n));
}

static void do_slots(world *w, const op *x)
{
    int64_t slots[OR_TOKENS + 2];
    int idx;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    const or_seq *s = &w->o->seq[idx < 0 ? 0 : idx];
    int32_t first = (int32_t)(x->a[1] % (uint32_t)(s->reserved + 1));
    int32_t n = (int32_t)(x->a[2] % (uint32_t)(s->reserved - first + 1));
    int how = (int)(x->a[3] % 40);
    if (how == 0) n = s->reserved - first + 1;
    if (how == 1) n = -1;
    if (how == 2) first = -1;
    if (how == 3) first = 1, n = INT32_MAX;
    op_tell(w, "slots(%d, %d, %d)", idx, first, n);
    pkv_status so = how == 4 || how == 1 || how == 2 ? PKV_E_INVALID_ARG
                    : idx < 0                        ? PKV_E_STALE
                    : how == 0 || how == 3           ? PKV_E_INVALID_ARG
                                                     : PKV_OK;
    pkv_status sm = w->run->alone ? so : pkv_seq_slots(w->mgr, h, how == 4, first, n, slots);
    if (!agree(w, OP_slots, so, sm)) return;
    for (int i = 0; i < n; i++)
        if (slots[i] != (int64_t)s->row[(first + i) / w->o->T] * w->o->T + (first + i) % w->o->T)
            op_fail(w, "slot of token %d", first + i);
}

static void do_info(world *w, const op *x)
{
    pkv_seq_info_t io = PKV_SEQ_INFO_INIT, im = PKV_SEQ_INFO_INIT;
    int idx;
    pkv_seq h = pick_seq(w, x->a[0], false, &idx);
    op_tell(w, "info(%d)", idx);
    pkv_status so = or_info(w->o, h, &io);
    agree(w, OP_info, so, w->run->alone ? so : pkv_seq_info(w->mgr, h, &im));
}

static void do_probe(world *w, const op *x)
{
    call_tokens c;
    pkv_match mo = PKV_MATCH_INIT, mm = PKV_MATCH_INIT;
    pkv_ns ns = pick_ns(w, x->a[0]);
    op_cut_text(&c, w->doc[x->a[1] % N_DOCS], 0, (int)(x->a[2] % (OR_TOKENS + 1)));
    if (x->a[3] % 31 == 0) op_spoil_tokens(w, &c, x->a[3] / 31);
    op_tell(w, "probe(%llx, ", (unsigned long long)ns.v);
    op_tell_tokens(w, &c.t);
    op_tell(w, ")");
    pkv_status so = or_probe(w->o, ns, &c.t, &mo);
    pkv_status sm = w->run->alone ? so : pkv_blockmgr_probe(w->mgr, ns, &c.t, &mm);
    agree(w, OP_probe, so, sm);
    if (w->ok) compare_match(w, &mo, &mm);
}

void op_call(world *w, const op *x)
{
    static void (*const call[OP_N_FN])(world *, const op *) = {
#define OP_FN_CALL(name) do_##name,
        OP_FN_LIST(OP_FN_CALL)
#undef OP_FN_CALL
    };
    call[x->kind % OP_N_FN](w, x);
}
