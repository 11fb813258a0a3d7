/* Preemption by swap: what moves to the host and what stays, how a transfer ends, and what a
 * suspended sequence still is. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_tables.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define NEVER PKV_DEADLINE_NEVER

typedef struct swap {
    pkv_swap_copy copy[32];
    int32_t n;
    pkv_hold hold;
} swap;

static fx *with_host(int32_t n_blocks, int32_t n_host, uint32_t flags)
{
    pkv_blockmgr_config cfg = fx_config(n_blocks, 2, flags);
    cfg.n_host_blocks = n_host;
    return fx_from(&cfg);
}

static swap suspend(fx *f, const pkv_seq *s, int32_t n, uint64_t deadline)
{
    swap w = { .n = -1, .hold = { 77 } };
    assert_ok(pkv_seqs_suspend(f->m, s, n, deadline, w.copy, 32, &w.n, &w.hold));
    return w;
}

static swap resume(fx *f, const pkv_seq *s, int32_t n, uint64_t deadline)
{
    swap w = { .n = -1, .hold = { 77 } };
    assert_ok(pkv_seqs_resume(f->m, s, n, deadline, w.copy, 32, &w.n, &w.hold));
    return w;
}

/* The one transfer that is running ends; with PKV_HOLD_EXPIRED its deadline was 5. */
static void transfer_ends(fx *f, const swap *w, pkv_hold_end end)
{
    pkv_hold_result r[2];
    int32_t n;
    if (end != PKV_HOLD_EXPIRED)
        pkv_hold_post(f->m, w->hold, end == PKV_HOLD_DONE ? PKV_OK : PKV_E_IO);
    assert_ok(pkv_blockmgr_poll(f->m, 6, r, 2, &n));
    assert_int_equal(n, 1);
    assert_int_equal(r[0].hold.v, w->hold.v);
    assert_int_equal(r[0].end, end);
    fx_check(f);
}

static void out(fx *f, const pkv_seq *s, int32_t n)
{
    swap w = suspend(f, s, n, NEVER);
    transfer_ends(f, &w, PKV_HOLD_DONE);
}

static int32_t free_host(fx *f)
{
    return fx_stats(f).free_host_blocks;
}

static void there_and_back(void **state)
{
    (void)state;
    fx *f = with_host(10, 6, CACHE);
    pkv_seq s = fx_with(f, "abcde");
    assert_int_equal(free_host(f), 5);
    fx_reserve(f, s, 6); /* the surplus is given back by the call */
    swap w = suspend(f, &s, 1, NEVER);
    assert_int_equal(w.n, 3);
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(w.copy[i].host, i + 1);
        assert_int_equal(w.copy[i].group, 0);
        for (int32_t k = 0; k < i; k++) assert_int_not_equal(w.copy[i].device, w.copy[k].device);
    }
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_SUSPENDING);
    assert_int_equal(fx_info(f, s).reserved, 5);
    assert_int_equal(fx_stats(f).active_blocks, 3);
    assert_int_equal(free_host(f), 2);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    pkv_seq_info_t i = fx_info(f, s);
    assert_int_equal(i.state, PKV_SEQ_SUSPENDED);
    assert_int_equal(i.settled, 5);
    assert_int_equal(i.committed, 5);
    assert_int_equal(i.n_blocks, 0);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    assert_int_equal(fx_stats(f).cached_blocks, 2); /* while they last */
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    fx_evict(f, 2);
    assert_int_equal(fx_probe(f, "abcdef"), 0);
    assert_int_equal(fx_stats(f).nodes, 2); /* kept for the return */
    assert_int_equal(free_host(f), 2);

    w = resume(f, &s, 1, NEVER);
    assert_int_equal(w.n, 3);
    for (int32_t k = 0; k < 3; k++) assert_int_equal(w.copy[k].host, k + 1);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RESUMING);
    assert_int_equal(fx_stats(f).active_blocks, 3);
    assert_int_equal(fx_probe(f, "abcdef"), 0); /* not before it is there */
    transfer_ends(f, &w, PKV_HOLD_DONE);
    i = fx_info(f, s);
    assert_int_equal(i.state, PKV_SEQ_RUNNING);
    assert_int_equal(i.committed, 5);
    for (int32_t k = 0; k < 3; k++) assert_int_equal(w.copy[k].device, fx_block(f, s, k));
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    assert_int_equal(free_host(f), 5);
    fx_commit(f, s, "f"); /* and on it goes */
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* Under PARTIAL_HITS the tail is published as by close. */
static void the_tail_is_published(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 4, CACHE | PKV_MGR_PARTIAL_HITS);
    cfg.n_host_blocks = 6;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "abcdef");
    swap w = suspend(f, &s, 1, NEVER);
    assert_int_equal(fx_probe(f, "abcdefg"), 4);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(fx_probe(f, "abcdefg"), 6);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    w = resume(f, &s, 1, NEVER);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    fx_commit(f, s, "gh");
    assert_int_equal(fx_probe(f, "abcdefghi"), 8);
    fx_close(f, s);
    fx_end(f);
}

/* Extra keys go with the content: to the published tail, and back with the sequence. */
static void a_tail_with_extras(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 4, CACHE | PKV_MGR_PARTIAL_HITS);
    cfg.n_host_blocks = 6;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f);
    static const int32_t ids[2] = { 'a', 'b' };
    const pkv_extra ex = { 0, 1, { 5 } };
    const pkv_tokens with = { ids, 2, &ex, 1 };
    fx_reserve(f, s, 2);
    assert_ok(pkv_seq_commit(f->m, s, &with, PKV_STEP_NONE));
    out(f, &s, 1);
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &with, &f->match));
    assert_int_equal(f->match.claimed, 2);
    assert_int_equal(fx_probe(f, "ab"), 0);
    fx_evict(f, 1);
    swap w = resume(f, &s, 1, NEVER);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    fx_commit(f, s, "cd");
    assert_int_equal(fx_info(f, s).n_indexed, 1);
    assert_int_equal(fx_probe(f, "abcd"), 0);
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &with, &f->match));
    assert_int_equal(f->match.claimed, 2);
    out(f, &s, 1);
    fx_close(f, s);
    fx_evict(f, 1);
    assert_int_equal(fx_stats(f).extras, 0);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

static void a_failed_suspend_changes_nothing(void **state)
{
    (void)state;
    fx *f = with_host(10, 6, CACHE);
    pkv_seq s = fx_with(f, "abcde");
    int32_t row[3] = { fx_block(f, s, 0), fx_block(f, s, 1), fx_block(f, s, 2) };
    swap w = suspend(f, &s, 1, NEVER);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(w.copy[i].device, row[i]);
    transfer_ends(f, &w, PKV_HOLD_FAILED);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(fx_block(f, s, i), row[i]);
    assert_int_equal(free_host(f), 5);
    fx_commit(f, s, "f");
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* A deadline that passes: the sequence runs on, and both ends stay claimed until reclaim. */
static void an_expired_suspend(void **state)
{
    (void)state;
    fx *f = with_host(10, 6, CACHE);
    pkv_seq s = fx_with(f, "abc");
    swap w = suspend(f, &s, 1, 5);
    transfer_ends(f, &w, PKV_HOLD_EXPIRED);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
    assert_int_equal(free_host(f), 3);
    assert_int_equal(fx_need(f, s, 1).copies, 1); /* the whole block may still be read */
    fx_close(f, s);
    assert_int_equal(fx_stats(f).quarantine_blocks, 2);
    assert_ok(pkv_hold_reclaim(f->m, w.hold));
    assert_int_equal(free_host(f), 5);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

static void a_failed_resume(void **state)
{
    (void)state;
    for (int expired = 0; expired <= 1; expired++) {
        fx *f = with_host(10, 6, CACHE);
        pkv_seq s = fx_with(f, "abcde");
        out(f, &s, 1);
        fx_evict(f, 2);
        swap w = resume(f, &s, 1, expired ? 5 : NEVER);
        transfer_ends(f, &w, expired ? PKV_HOLD_EXPIRED : PKV_HOLD_FAILED);
        assert_int_equal(fx_info(f, s).state, PKV_SEQ_SUSPENDED);
        assert_int_equal(fx_stats(f).active_blocks, 0);
        assert_int_equal(fx_stats(f).quarantine_blocks, expired ? 3 : 0);
        assert_int_equal(fx_stats(f).free_blocks, expired ? 6 : 9);
        assert_int_equal(free_host(f), 2);
        if (expired) assert_ok(pkv_hold_reclaim(f->m, w.hold));
        assert_int_equal(fx_stats(f).free_blocks, 9);
        w = resume(f, &s, 1, NEVER); /* once more */
        transfer_ends(f, &w, PKV_HOLD_DONE);
        assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
        assert_int_equal(fx_probe(f, "abcdef"), 4);
        fx_close(f, s);
        assert_int_equal(free_host(f), 5);
        fx_end(f);
    }
}

/* Samples of one prompt move together, the shared blocks once; alone, one moves only its own. */
static void groups_of_samples(void **state)
{
    (void)state;
    fx *f = with_host(20, 10, CACHE);
    pkv_seq s[2], other;
    s[0] = fx_with(f, "abcd");
    s[1] = fx_fork(f, s[0]);
    fx_commit(f, s[0], "ef");
    fx_commit(f, s[1], "xyz");
    swap w = suspend(f, s, 2, NEVER);
    assert_int_equal(w.n, 2 + 1 + 2);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    w = resume(f, s, 2, NEVER);
    assert_int_equal(w.n, 5);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(free_host(f), 9);
    for (int32_t i = 0; i < 2; i++) assert_int_equal(fx_block(f, s[0], i), fx_block(f, s[1], i));

    w = suspend(f, s + 1, 1, NEVER); /* the shared two stay, referenced by both */
    assert_int_equal(w.n, 2);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(fx_info(f, s[1]).state, PKV_SEQ_SUSPENDED);
    assert_int_equal(fx_info(f, s[1]).n_blocks, 2);
    fx_close(f, s[0]);
    assert_int_equal(fx_stats(f).active_blocks, 2);
    w = resume(f, s + 1, 1, NEVER);
    assert_int_equal(w.n, 2);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(fx_probe(f, "abcdxy!"), 6);

    other = fx_fork(f, s[1]); /* all is shared: nothing to move */
    w = suspend(f, &other, 1, NEVER);
    assert_int_equal(w.n, 0);
    assert_int_equal(w.hold.v, 0);
    assert_int_equal(fx_info(f, other).state, PKV_SEQ_SUSPENDED);
    assert_int_equal(fx_stats(f).open_holds, 0);
    w = resume(f, &other, 1, NEVER);
    assert_int_equal(w.n, 0);
    assert_int_equal(w.hold.v, 0);
    assert_int_equal(fx_info(f, other).state, PKV_SEQ_RUNNING);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(fx_block(f, other, i), fx_block(f, s[1], i));
    fx_close(f, other);
    fx_close(f, s[1]);
    assert_int_equal(fx_drain(f), 19);
    fx_end(f);
}

/* What is held or referred to from outside stays. */
static void what_others_refer_to_stays(void **state)
{
    (void)state;
    fx *f = with_host(20, 10, CACHE);
    pkv_seq s = fx_with(f, "abcdef");
    int32_t last = fx_block(f, s, 2);
    pkv_hold h;
    assert_ok(pkv_hold_open(f->m, s, 2, NEVER, &h));
    assert_ok(pkv_blocks_ref(f->m, &last, 1));
    int32_t middle = fx_block(f, s, 1);
    swap w = suspend(f, &s, 1, NEVER);
    assert_int_equal(w.n, 1);
    assert_int_equal(w.copy[0].device, middle);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(fx_info(f, s).n_blocks, 2);
    assert_ok(pkv_blocks_unref(f->m, &last, 1));
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(fx_probe(f, "abcdefg"), 6);
    w = resume(f, &s, 1, NEVER);
    pkv_hold_post(f->m, w.hold, PKV_OK);
    pkv_hold_result r[2];
    int32_t n;
    assert_ok(pkv_blockmgr_poll(f->m, 6, r, 2, &n));
    assert_int_equal(n, 2);
    assert_int_equal(fx_block(f, s, 2), last);
    assert_int_equal(fx_info(f, s).n_blocks, 3);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 19);
    fx_end(f);
}

/* All groups move, in order, with what their windows have left; states too. */
static void all_groups_move(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(40, 2, CACHE);
    static const pkv_group g[3] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_SLIDING, 2, 4, 0, 0 },
                                    { PKV_GROUP_STATE, 0, 0, 0, 2 } };
    cfg.groups = g, cfg.n_groups = 3, cfg.max_seq_tokens = 40, cfg.n_host_blocks = 20;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "abcdefgh");
    swap w = suspend(f, &s, 1, NEVER);
    static const int32_t group_of[8] = { 0, 0, 0, 0, 1, 1, 2, 2 };
    assert_int_equal(w.n, 8);
    for (int32_t i = 0; i < 8; i++) {
        assert_int_equal(w.copy[i].group, group_of[i]);
        assert_int_equal(w.copy[i].host, i + 1);
    }
    transfer_ends(f, &w, PKV_HOLD_DONE);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    fx_evict(f, fx_stats(f).cached_blocks);
    w = resume(f, &s, 1, NEVER);
    assert_int_equal(w.n, 8);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    for (int32_t i = 0; i < 8; i++) {
        int32_t at = i < 4 ? i : i < 6 ? i - 2 : i - 6;
        assert_int_equal(w.copy[i].device, fx_group_block(f, s, group_of[i], at));
    }
    assert_int_equal(fx_group_block(f, s, 1, 0), 0);
    assert_int_equal(fx_group_block(f, s, 1, 1), 0);
    fx_commit(f, s, "ijk"); /* the window slides on */
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_group_block(f, s, 1, 2), 0);
    fx_probe(f, "abcdefghijkl");
    assert_int_equal(f->match.longest[0], 10);
    assert_int_equal(f->match.longest[1], 10);
    fx_close(f, s);
    assert_int_equal(free_host(f), 19);
    fx_end(f);
}

/* Nothing but close, resume and info while it is away; close not even that while it moves. */
static void asked_while_away(void **state)
{
    (void)state;
    fx *f = with_host(20, 10, CACHE);
    pkv_seq s = fx_with(f, "abcd"), kid;
    const int32_t *row;
    int32_t ids[8], n;
    int64_t slots[2];
    pkv_tokens t = fx_text("ab", ids);
    pkv_kernel_view view = PKV_KERNEL_VIEW_INIT;
    pkv_hold h;
    swap w = { .n = 0 };
    for (int32_t phase = 0; phase < 3; phase++) {
        if (phase != 1) w = phase ? resume(f, &s, 1, NEVER) : suspend(f, &s, 1, NEVER);
        else transfer_ends(f, &w, PKV_HOLD_DONE);
        fx_refused(f, PKV_E_STATE, fx_try_reserve(f, s, 1));
        assert_int_equal(fx_need(f, s, 1).verdict, PKV_E_STATE);
        fx_refused(f, PKV_E_STATE, fx_put(f, s, "x", PKV_STEP_NONE));
        fx_refused(f, PKV_E_STATE, pkv_seq_match(f->m, s, &t, 2, 2, &f->work, &f->match));
        fx_refused(f, PKV_E_STATE, pkv_seq_fork(f->m, s, &kid, 1));
        fx_refused(f, PKV_E_STATE, pkv_seq_truncate(f->m, s, 2));
        fx_refused(f, PKV_E_STATE, pkv_seq_row(f->m, s, 0, &row, &n));
        fx_refused(f, PKV_E_STATE, pkv_seq_slots(f->m, s, 0, 0, 1, slots));
        fx_refused(f, PKV_E_STATE, pkv_seq_view_slots(f->m, s, 0, &view, 0, 1, slots));
        fx_refused(f, PKV_E_STATE, pkv_seq_view_row(f->m, s, 0, &view, ids, 8, &n, &n));
        fx_refused(f, PKV_E_STATE, pkv_seqs_common(f->m, &s, 1, 0, &n));
        fx_refused(f, PKV_E_STATE, pkv_seq_retain(f->m, s, 0, 2, 1));
        fx_refused(f, PKV_E_STATE, pkv_seq_snapshot(f->m, s, &f->work));
        fx_refused(f, PKV_E_STATE, pkv_hold_open(f->m, s, 2, 1, &h));
        fx_refused(f, PKV_E_STATE, pkv_seqs_suspend(f->m, &s, 1, 1, w.copy, 32, &n, &h));
        if (phase == 1) continue;
        fx_refused(f, PKV_E_STATE, pkv_seqs_resume(f->m, &s, 1, 1, w.copy, 32, &n, &h));
        fx_refused(f, PKV_E_BUSY, pkv_seq_close(f->m, s));
    }
    transfer_ends(f, &w, PKV_HOLD_DONE);
    fx_refused(f, PKV_E_STATE, pkv_seqs_resume(f->m, &s, 1, 1, w.copy, 32, &n, &h));
    out(f, &s, 1);
    fx_evict(f, 2);
    assert_int_equal(fx_stats(f).nodes, 2);
    fx_close(f, s); /* gives the host blocks back, and forgets the content */
    assert_int_equal(free_host(f), 9);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

/* In a batch the first reason of all counts, not that of the first request: stale before suspended
 * before too long. */
static void a_batch_with_one_away(void **state)
{
    (void)state;
    fx *f = with_host(20, 10, CACHE);
    pkv_seq away = fx_with(f, "ab"), here = fx_with(f, "cd"), closed = fx_open(f);
    pkv_need need = PKV_NEED_INIT;
    fx_close(f, closed);
    out(f, &away, 1);
    pkv_reserve_req q[3] = { { here, 1000 }, { away, 1 }, { closed, 1 } };
    fx_refused(f, PKV_E_LIMIT, pkv_seq_reserve(f->m, q, 1, &f->work));
    fx_refused(f, PKV_E_STATE, pkv_seq_reserve(f->m, q, 2, &f->work));
    fx_refused(f, PKV_E_STALE, pkv_seq_reserve(f->m, q, 3, &f->work));
    assert_ok(pkv_blockmgr_need(f->m, q, 2, &need));
    assert_int_equal(need.verdict, PKV_E_STATE);
    q[1].n_tokens = 1000;
    fx_refused(f, PKV_E_STATE, pkv_seq_reserve(f->m, q + 1, 1, &f->work));
    fx_close(f, away);
    fx_close(f, here);
    fx_end(f);
}

static void refused_suspends(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(20, 2, CACHE);
    cfg.n_host_blocks = 4;
    cfg.max_holds = 1;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_with(f, "abcd"), b = fx_with(f, "xyz"), twice[2] = { a, a }, both[2] = { a, b };
    pkv_swap_copy copy[8];
    int32_t n = 55;
    pkv_hold h = { 77 }, held;
    pkv_step one = fx_begin(f);
    fx_commit_in(f, b, "w", one);
    fx_refused(f, PKV_E_AGAIN, pkv_seqs_suspend(f->m, both, 2, 1, copy, 8, &n, &h));
    fx_retire(f, one);
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seqs_suspend(f->m, twice, 2, 1, copy, 8, &n, &h));
    fx_refused(f, PKV_E_NO_BLOCKS,
               pkv_seqs_suspend(f->m, both, 2, 1, copy, 8, &n, &h)); /* 4 of 3 */
    fx_refused(f, PKV_E_LIMIT, pkv_seqs_suspend(f->m, &a, 1, 1, copy, 1, &n, &h));
    assert_ok(pkv_hold_open(f->m, a, 2, NEVER, &held));
    fx_refused(f, PKV_E_LIMIT, pkv_seqs_suspend(f->m, &b, 1, 1, copy, 8, &n, &h));
    pkv_hold_post(f->m, held, PKV_OK);
    pkv_hold_result r[1];
    int32_t done;
    assert_ok(pkv_blockmgr_poll(f->m, 0, r, 1, &done));
    assert_true(n == 55 && h.v == 77);
    assert_ok(pkv_seqs_suspend(f->m, &a, 1, NEVER, copy, 2, &n, &h));
    fx_refused(f, PKV_E_STATE, pkv_seqs_suspend(f->m, both, 2, 1, copy, 8, &n, &held));
    pkv_hold_post(f->m, h, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 0, r, 1, &done));
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
}

/* A tail that only an expired suspend kept comes back without the block before it: it goes in its
 * turn, and is found again when that has been computed again. */
static void a_tail_without_its_prefix(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(4, 4, CACHE);
    cfg.n_host_blocks = 4;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "abcdefgh"), t = fx_open(f);
    pkv_hold pin;
    pkv_hold_result r[2];
    int32_t n;
    assert_ok(pkv_hold_open(f->m, s, 4, NEVER, &pin));
    swap w = suspend(f, &s, 1, 5); /* the second block; the first is held */
    assert_int_equal(w.n, 1);
    transfer_ends(f, &w, PKV_HOLD_EXPIRED);
    fx_close(f, s);
    pkv_hold_post(f->m, pin, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 6, r, 2, &n));
    fx_evict(f, 1);
    assert_int_equal(fx_probe(f, "abcdefghi"), 0);
    assert_ok(pkv_hold_reclaim(f->m, w.hold));
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_probe(f, "abcdefghi"), 0);
    fx_commit(f, t, "abcd");
    assert_int_equal(fx_probe(f, "abcdefghi"), 8);
    fx_check(f);
    fx_close(f, t);
    fx_evict(f, 2);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

/* The room for a return is judged like any other. */
static void refused_resumes(void **state)
{
    (void)state;
    fx *f = with_host(5, 10, 0);
    pkv_seq s = fx_with(f, "abcdef"), t = fx_open(f);
    pkv_swap_copy copy[8];
    int32_t n;
    pkv_hold h;
    out(f, &s, 1);
    fx_reserve(f, t, 4);
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seqs_resume(f->m, &s, 1, 1, copy, 8, &n, &h));
    pkv_step one = fx_begin(f);
    fx_close(f, t);
    fx_refused(f, PKV_E_AGAIN, pkv_seqs_resume(f->m, &s, 1, 1, copy, 8, &n, &h));
    fx_retire(f, one);
    fx_refused(f, PKV_E_LIMIT, pkv_seqs_resume(f->m, &s, 1, 1, copy, 2, &n, &h));
    swap w = resume(f, &s, 1, NEVER);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 4);
    fx_end(f);
    f = with_host(5, 0, 0); /* no host tier at all */
    s = fx_with(f, "ab");
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seqs_suspend(f->m, &s, 1, 1, copy, 8, &n, &h));
    fx_close(f, s);
    fx_end(f);
}

/* Host ids: the one that came back last is the first to go. */
static void host_ids_are_a_stack(void **state)
{
    (void)state;
    fx *f = with_host(20, 10, 0);
    pkv_seq a = fx_with(f, "abcd"), b = fx_with(f, "xy"), c = fx_with(f, "lmno");
    out(f, &a, 1); /* 1 2 */
    swap w = suspend(f, &b, 1, NEVER);
    assert_int_equal(w.copy[0].host, 3);
    transfer_ends(f, &w, PKV_HOLD_FAILED);
    w = suspend(f, &b, 1, NEVER);
    assert_int_equal(w.copy[0].host, 3);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    fx_close(f, b);
    w = suspend(f, &c, 1, NEVER);
    assert_int_equal(w.n, 2);
    assert_int_equal(w.copy[0].host, 3);
    assert_int_equal(w.copy[1].host, 4);
    transfer_ends(f, &w, PKV_HOLD_DONE);
    fx_close(f, a);
    fx_close(f, c);
    assert_int_equal(free_host(f), 9);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_and_back),
        cmocka_unit_test(the_tail_is_published),
        cmocka_unit_test(a_tail_with_extras),
        cmocka_unit_test(a_failed_suspend_changes_nothing),
        cmocka_unit_test(an_expired_suspend),
        cmocka_unit_test(a_failed_resume),
        cmocka_unit_test(groups_of_samples),
        cmocka_unit_test(what_others_refer_to_stays),
        cmocka_unit_test(all_groups_move),
        cmocka_unit_test(asked_while_away),
        cmocka_unit_test(a_batch_with_one_away),
        cmocka_unit_test(refused_suspends),
        cmocka_unit_test(a_tail_without_its_prefix),
        cmocka_unit_test(refused_resumes),
        cmocka_unit_test(host_ids_are_a_stack),
    };
    return cmocka_run_group_tests_name("suspend", tests, NULL, NULL);
}
