/* Preemption by swap where it meets something else: another swap, equal content computed meanwhile,
 * a part that stays, no prefix cache. The plain ways are in test_suspend.c. */
#include "mgr_fixture.h"
#include "pagedkv/blockmgr_holds.h"

enum { CAP = 16, HOST = 8 };

typedef struct swap {
    pkv_swap_copy copies[CAP];
    int32_t n;
    pkv_hold hold;
} swap;

static fx *with_host(int32_t n_blocks, uint32_t flags)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = n_blocks, cfg.block_tokens = 2, cfg.max_seqs = 4, cfg.max_seq_tokens = 64;
    cfg.n_host_blocks = HOST, cfg.max_holds = 2;
    cfg.flags = flags;
    return fx_from(&cfg);
}

static pkv_status try_suspend(fx *f, const pkv_seq *seqs, int32_t n, swap *out)
{
    return pkv_seqs_suspend(f->m, seqs, n, 10, out->copies, CAP, &out->n, &out->hold);
}

static pkv_status try_resume(fx *f, const pkv_seq *seqs, int32_t n, swap *out)
{
    return pkv_seqs_resume(f->m, seqs, n, 10, out->copies, CAP, &out->n, &out->hold);
}

/* Post, and let poll find it. */
static void end_hold(fx *f, pkv_hold h, pkv_status result, pkv_hold_end end)
{
    pkv_hold_result done[CAP];
    int32_t n;
    pkv_hold_post(f->m, h, result);
    assert_ok(pkv_blockmgr_poll(f->m, 0, done, CAP, &n));
    assert_int_equal(n, 1);
    assert_true(done[0].hold.v == h.v);
    assert_int_equal(done[0].end, end);
}

static void suspend(fx *f, pkv_seq s)
{
    swap out;
    assert_ok(try_suspend(f, &s, 1, &out));
    if (out.n > 0) end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
}

static void assert_copy(const swap *out, int at, int32_t device, int32_t host)
{
    assert_int_equal(out->copies[at].device, device);
    assert_int_equal(out->copies[at].host, host);
    assert_int_equal(out->copies[at].group, 0);
}

/* Both samples are on their way back at the same time, out of the same host blocks. */
static void two_ways_back_at_a_time(void **state)
{
    (void)state;
    swap out, first, second;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq a = fx_with(f, "abcd"), b = fx_fork(f, a), pair[2] = { a, b };
    assert_ok(try_suspend(f, pair, 2, &out));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_ok(try_resume(f, &a, 1, &first));
    assert_ok(try_resume(f, &b, 1, &second));
    assert_int_equal(first.copies[0].host, second.copies[0].host);
    end_hold(f, second.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_block(f, b, 0), second.copies[0].device);
    end_hold(f, first.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_block(f, a, 0), first.copies[0].device);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);
    fx_end(f);
}

/* Too late: both ends stay claimed, and nothing of it moves again, until they are reclaimed. */
static void overdue_transfers(void **state)
{
    (void)state;
    swap out, again;
    pkv_hold_result done[CAP];
    int32_t n;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq s = fx_with(f, "abcd");
    assert_ok(try_suspend(f, &s, 1, &out));
    assert_ok(pkv_blockmgr_poll(f->m, 10, done, CAP, &n));
    assert_int_equal(n, 0); /* the deadline is 10: it has not passed */
    assert_ok(pkv_blockmgr_poll(f->m, 11, done, CAP, &n));
    assert_int_equal(n, 1);
    assert_int_equal(done[0].end, PKV_HOLD_EXPIRED);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1 - 2);
    assert_int_equal(fx_stats(f).quarantine_blocks, 0); /* the row refers to them too */
    assert_ok(try_suspend(f, &s, 1, &again));
    assert_int_equal(again.n, 0);
    assert_true(again.hold.v == 0);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_SUSPENDED);
    assert_int_equal(fx_info(f, s).n_blocks, 2);
    assert_ok(try_resume(f, &s, 1, &again));
    assert_int_equal(again.n, 0);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).quarantine_blocks, 2);
    assert_ok(pkv_hold_reclaim(f->m, out.hold));
    fx_refused(f, PKV_E_STALE, pkv_hold_reclaim(f->m, out.hold));
    assert_int_equal(fx_stats(f).quarantine_blocks, 0);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);

    const pkv_seq t = fx_with(f, "xyzw");
    assert_ok(
        pkv_seqs_suspend(f->m, &t, 1, PKV_DEADLINE_NEVER, out.copies, CAP, &out.n, &out.hold));
    pkv_hold_post(f->m, out.hold, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 11, done, CAP, &n));
    assert_ok(try_resume(f, &t, 1, &out));
    assert_ok(pkv_blockmgr_poll(f->m, 12, done, CAP, &n));
    assert_int_equal(done[0].end, PKV_HOLD_EXPIRED);
    assert_int_equal(fx_stats(f).quarantine_blocks, 2);
    assert_int_equal(fx_info(f, t).state, PKV_SEQ_SUSPENDED);
    assert_ok(pkv_hold_reclaim(f->m, out.hold));
    assert_int_equal(fx_stats(f).quarantine_blocks, 0);
    fx_end(f);
}

/* The content of a suspended sequence joins what others have computed meanwhile. */
static void computed_again_meanwhile(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq s = fx_with(f, "abcd");
    suspend(f, s);
    assert_int_equal(fx_drain(f), 15);
    const pkv_seq other = fx_with(f, "abcd");
    assert_int_equal(fx_info(f, other).n_indexed, 2);
    const int32_t nodes = fx_stats(f).nodes;
    assert_ok(try_resume(f, &s, 1, &out));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_stats(f).nodes, nodes);
    fx_close(f, other);
    assert_int_equal(fx_stats(f).cached_blocks, 0); /* s has it in use */
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_end(f);
}

/* b's own copy of "ab" moves, the shared "cd" stays: its content outlasts what comes before it. */
static void a_part_stays(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq a = fx_with(f, "ab"), b = fx_with(f, "abcd");
    pkv_seq c;
    assert_int_not_equal(fx_block(f, a, 0), fx_block(f, b, 0));
    assert_int_equal(fx_match(f, "abcd", 4, &c), 4);
    const int32_t own = fx_block(f, b, 0), shared = fx_block(f, b, 1);
    assert_int_equal(fx_block(f, c, 1), shared);
    assert_ok(try_suspend(f, &b, 1, &out));
    assert_int_equal(out.n, 1);
    assert_copy(&out, 0, own, 1);
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    fx_close(f, c);
    fx_close(f, a);
    assert_ok(pkv_blockmgr_check(f->m, 3));
    assert_int_equal(fx_drain(f), 14); /* all but the shared one, which b's row names */
    assert_ok(pkv_blockmgr_check(f->m, 3));
    assert_int_equal(fx_probe(f, "abcd"), 0);
    assert_ok(try_resume(f, &b, 1, &out));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_block(f, b, 1), shared);
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_end(f);
}

static void tail_goes_on_after_a_swap(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS);
    const pkv_seq s = fx_with(f, "abc");
    suspend(f, s);
    assert_int_equal(fx_probe(f, "abcd"), 3);
    assert_ok(try_resume(f, &s, 1, &out));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    fx_commit(f, s, "d");
    assert_int_equal(fx_info(f, s).n_indexed, 2);
    assert_int_equal(fx_probe(f, "abcd"), 4);

    const pkv_seq gone = fx_with(f, "xyz");
    suspend(f, gone);
    assert_int_equal(fx_drain(f), 13); /* its partial node is evicted, and close makes no other */
    const int32_t nodes = fx_stats(f).nodes;
    fx_close(f, gone);
    assert_int_equal(fx_stats(f).nodes, nodes - 1); /* of "xy", which it had kept */
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);
    fx_end(f);
}

static void without_prefix_cache(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(16, 0);
    const pkv_seq s = fx_with(f, "abc");
    suspend(f, s);
    assert_int_equal(fx_stats(f).free_blocks, 15);
    assert_ok(try_resume(f, &s, 1, &out));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    fx_commit(f, s, "defg");
    assert_int_equal(fx_stats(f).active_blocks, 4);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).free_blocks, 15);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_ways_back_at_a_time),   cmocka_unit_test(overdue_transfers),
        cmocka_unit_test(computed_again_meanwhile),  cmocka_unit_test(a_part_stays),
        cmocka_unit_test(tail_goes_on_after_a_swap), cmocka_unit_test(without_prefix_cache),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
