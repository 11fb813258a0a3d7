/* Preemption by swap: what moves, what stays, and how the three ends of a transfer look. */
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

static void out_and_back(void **state)
{
    (void)state;
    swap out, back;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq s = fx_with(f, "abcde");
    const int32_t b0 = fx_block(f, s, 0), b1 = fx_block(f, s, 1), b2 = fx_block(f, s, 2);
    fx_reserve(f, s, 4);
    assert_ok(try_suspend(f, &s, 1, &out));
    assert_int_equal(out.n, 3); /* the room for more is given back */
    assert_copy(&out, 0, b0, 1);
    assert_copy(&out, 1, b1, 2);
    assert_copy(&out, 2, b2, 3);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_SUSPENDING);
    assert_int_equal(fx_info(f, s).reserved, 5);
    assert_int_equal(fx_stats(f).active_blocks, 3);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1 - 3);
    fx_refused(f, PKV_E_BUSY, pkv_seq_close(f->m, s));
    fx_refused(f, PKV_E_STATE, fx_try_reserve(f, s, 1));
    fx_refused(f, PKV_E_STATE, try_suspend(f, &s, 1, &back));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_SUSPENDED);
    assert_int_equal(fx_info(f, s).n_blocks, 0);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    assert_int_equal(fx_stats(f).cached_blocks, 2); /* the full units; the tail is free */
    assert_int_equal(fx_probe(f, "abcde"), 4);
    assert_int_equal(fx_drain(f), 15); /* now nothing of it is on the device */
    assert_int_equal(fx_probe(f, "abcde"), 0);

    assert_ok(try_resume(f, &s, 1, &back));
    assert_int_equal(back.n, 3);
    for (int i = 0; i < 3; i++) assert_copy(&back, i, back.copies[i].device, i + 1);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RESUMING);
    assert_int_equal(fx_probe(f, "abcde"), 0); /* not before the bytes are there */
    end_hold(f, back.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
    for (int i = 0; i < 3; i++) assert_int_equal(fx_block(f, s, i), back.copies[i].device);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);
    assert_int_equal(fx_probe(f, "abcde"), 4);
    fx_commit(f, s, "f");
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    fx_end(f);
}

/* What others refer to stays; what only the given ones share moves once. */
static void shared_blocks(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq a = fx_with(f, "abcd"), b = fx_fork(f, a);
    fx_truncate(f, a, 2);
    const int32_t both = fx_block(f, a, 0), only = fx_block(f, b, 1);
    assert_ok(try_suspend(f, &b, 1, &out));
    assert_int_equal(out.n, 1);
    assert_copy(&out, 0, only, 1);
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_info(f, b).n_blocks, 1);
    fx_close(f, a);
    assert_int_equal(fx_stats(f).active_blocks, 1); /* b's row still names it */
    assert_ok(try_resume(f, &b, 1, &out));
    assert_int_equal(out.n, 1);
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_block(f, b, 0), both);

    const pkv_seq pair[2] = { fx_fork(f, b), b };
    assert_ok(try_suspend(f, pair, 2, &out));
    assert_int_equal(out.n, 2); /* four entries, two blocks */
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1 - 2);
    assert_ok(try_resume(f, pair, 1, &out)); /* one after the other: each its own blocks */
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1 - 2);
    assert_ok(try_resume(f, pair + 1, 1, &out));
    end_hold(f, out.hold, PKV_OK, PKV_HOLD_DONE);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);
    assert_int_equal(fx_stats(f).active_blocks, 4);
    fx_end(f);
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

static void failed_transfers(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(16, PKV_MGR_PREFIX_CACHE);
    const pkv_seq s = fx_with(f, "abcd");
    const int32_t b0 = fx_block(f, s, 0);
    assert_ok(try_suspend(f, &s, 1, &out));
    end_hold(f, out.hold, PKV_E_IO, PKV_HOLD_FAILED);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_RUNNING);
    assert_int_equal(fx_block(f, s, 0), b0);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);
    suspend(f, s);
    assert_ok(try_resume(f, &s, 1, &out));
    assert_int_equal(fx_stats(f).active_blocks, 2);
    end_hold(f, out.hold, PKV_E_IO, PKV_HOLD_FAILED);
    assert_int_equal(fx_info(f, s).state, PKV_SEQ_SUSPENDED);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    fx_close(f, s);
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

static void refusals(void **state)
{
    (void)state;
    swap out;
    fx *f = with_host(9, PKV_MGR_PREFIX_CACHE);
    const pkv_seq a = fx_with(f, "abcd"), gone = fx_open(f), twice[2] = { a, a };
    fx_close(f, gone);
    fx_refused(f, PKV_E_INVALID_ARG, try_suspend(f, &a, 0, &out));
    fx_refused(f, PKV_E_INVALID_ARG, try_suspend(f, twice, 2, &out));
    fx_refused(f, PKV_E_STALE, try_suspend(f, &gone, 1, &out));
    fx_refused(f, PKV_E_STATE, try_resume(f, &a, 1, &out));
    fx_refused(f, PKV_E_LIMIT, pkv_seqs_suspend(f->m, &a, 1, 0, out.copies, 1, &out.n, &out.hold));
    const pkv_seq b = fx_with(f, "efghijklmnop"), both[2] = { a, b };
    fx_refused(f, PKV_E_NO_BLOCKS, try_suspend(f, both, 2, &out)); /* 8 of 7 */
    suspend(f, a);
    fx_commit(f, b, "q"); /* 7 blocks: one is left, a needs two */
    fx_refused(f, PKV_E_NO_BLOCKS, try_resume(f, &a, 1, &out));
    fx_close(f, a);
    assert_int_equal(fx_stats(f).free_host_blocks, HOST - 1);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(out_and_back),
        cmocka_unit_test(shared_blocks),
        cmocka_unit_test(two_ways_back_at_a_time),
        cmocka_unit_test(failed_transfers),
        cmocka_unit_test(overdue_transfers),
        cmocka_unit_test(computed_again_meanwhile),
        cmocka_unit_test(tail_goes_on_after_a_swap),
        cmocka_unit_test(without_prefix_cache),
        cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
