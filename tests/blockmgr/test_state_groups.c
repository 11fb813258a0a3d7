/* Recurrent state: blocks that every reserve writes, copied while somebody else needs them, and
 * found again only where a snapshot was taken. */
#include "mgr_fixture.h"

#define CACHE PKV_MGR_PREFIX_CACHE

/* A full group of 2 tokens a block, and a state of two blocks. */
static fx *with_state(int32_t n_blocks)
{
    pkv_blockmgr_config cfg = fx_config(n_blocks, 2, CACHE);
    static const pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_STATE, 0, 0, 0, 2 } };
    cfg.groups = g;
    cfg.n_groups = 2;
    cfg.max_seq_tokens = 40;
    return fx_from(&cfg);
}

static int32_t state_row_len(fx *f, pkv_seq s)
{
    const int32_t *ids;
    int32_t n;
    assert_ok(pkv_seq_row(f->m, s, 1, &ids, &n));
    return n;
}

static void snapshot(fx *f, pkv_seq s, int32_t n_copies)
{
    assert_ok(pkv_seq_snapshot(f->m, s, &f->work));
    assert_int_equal(f->work.n_copy, n_copies);
    assert_int_equal(f->work.n_zero, 0);
}

static void taken_by_the_first_reserve(void **state)
{
    (void)state;
    fx *f = with_state(10);
    pkv_seq s = fx_open(f);
    assert_int_equal(state_row_len(f, s), 0);
    fx_reserve(f, s, 0);
    assert_int_equal(state_row_len(f, s), 0);
    fx_reserve(f, s, 1);
    assert_int_equal(state_row_len(f, s), 2);
    assert_int_equal(fx_info(f, s).n_blocks, 3);
    int32_t a = fx_group_block(f, s, 1, 0), b = fx_group_block(f, s, 1, 1);
    assert_true(a > 0 && b > 0 && a != b);
    fx_commit(f, s, "abcdef");
    assert_int_equal(fx_group_block(f, s, 1, 0), a); /* in place */
    assert_int_equal(fx_group_block(f, s, 1, 1), b);
    assert_int_equal(fx_info(f, s).n_blocks, 5);
    int64_t slot;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_slots(f->m, s, 1, 0, 1, &slot));
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks,
                     3); /* the state is worth nothing without snapshot */
    assert_int_equal(fx_stats(f).free_blocks, 6);
    assert_int_equal(fx_probe(f, "abcdefg"), 0);
    assert_int_equal(f->match.longest[0], 6);
    assert_int_equal(f->match.longest[1], 0);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_END);
    assert_int_equal(f->match.stop_reason[1], PKV_STOP_STATE);
    fx_end(f);
}

/* The whole state counts for what fits. */
static void it_counts_as_blocks(void **state)
{
    (void)state;
    fx *f = with_state(5);
    pkv_seq s = fx_open(f), t = fx_open(f);
    pkv_need n = fx_need(f, s, 4);
    assert_int_equal(n.new_blocks, 4);
    assert_int_equal(n.verdict, PKV_OK);
    fx_refused(f, PKV_E_NEVER, fx_try_reserve(f, s, 5));
    fx_reserve(f, s, 2);
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, t, 1));
    fx_close(f, s);
    fx_reserve(f, t, 1);
    fx_close(f, t);
    fx_end(f);
}

/* States of one block each, side by side. */
static void states_of_one_block(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(30, 2, CACHE);
    static const pkv_group g[2] = { { PKV_GROUP_STATE, 0, 0, 0, 1 },
                                    { PKV_GROUP_FULL, 2, 0, 0, 0 } };
    cfg.groups = g, cfg.n_groups = 2, cfg.max_seq_tokens = 40;
    fx *f = fx_from(&cfg);
    pkv_seq s[4];
    for (int i = 0; i < 4; i++) s[i] = fx_open(f);
    for (int i = 3; i >= 0; i--) {
        fx_commit(f, s[i], "ab");
        assert_int_equal(fx_info(f, s[i]).n_blocks, 2);
        for (int k = 3; k > i; k--)
            assert_int_not_equal(fx_block(f, s[i], 0), fx_block(f, s[k], 0));
    }
    for (int i = 0; i < 4; i++) {
        int32_t block = fx_block(f, s[i], 0);
        fx_commit(f, s[i], "c");
        assert_int_equal(fx_block(f, s[i], 0), block);
        assert_int_equal(fx_info(f, s[i]).n_blocks, 3);
    }
    for (int i = 0; i < 4; i++) fx_close(f, s[i]);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    fx_end(f);
}

/* fork shares it; of two the first to go on copies all of it, the other keeps it. */
static void a_fork_copies(void **state)
{
    (void)state;
    fx *f = with_state(12);
    pkv_seq a = fx_with(f, "ab"), b = fx_fork(f, a);
    int32_t old[2] = { fx_group_block(f, a, 1, 0), fx_group_block(f, a, 1, 1) };
    assert_int_equal(fx_group_block(f, b, 1, 0), old[0]);
    assert_int_equal(fx_stats(f).active_blocks, 3);
    fx_reserve(f, b, 1);
    assert_int_equal(f->work.n_copy, 2);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(f->copy[i].group, 1);
        assert_int_equal(f->copy[i].src, old[i]);
        assert_int_equal(f->copy[i].dst, fx_group_block(f, b, 1, i));
    }
    fx_reserve(f, a, 1);
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_group_block(f, a, 1, 0), old[0]);
    fx_close(f, a);
    fx_close(f, b);
    assert_int_equal(fx_stats(f).free_blocks, 10);
    fx_end(f);
}

/* There is no way back but to the beginning. */
static void no_way_back(void **state)
{
    (void)state;
    fx *f = with_state(12);
    pkv_seq s = fx_with(f, "abcd");
    fx_reserve(f, s, 2);
    for (int32_t n = 1; n < 4; n++) fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, s, n));
    fx_truncate(f, s, 5); /* surplus only */
    fx_truncate(f, s, 4);
    pkv_step one = fx_begin(f);
    fx_commit_in(f, s, "e", one);
    fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, s, 4)); /* pending, but written */
    fx_retire(f, one);
    fx_truncate(f, s, 0);
    assert_int_equal(state_row_len(f, s), 0);
    assert_int_equal(fx_stats(f).active_blocks, 0);
    fx_close(f, s);
    fx_end(f);
}

/* A snapshot at 4 is found there and comes as copies into fresh blocks. */
static void a_snapshot_is_found(void **state)
{
    (void)state;
    fx *f = with_state(20);
    pkv_seq s = fx_with(f, "abcd"), t;
    int32_t old[2] = { fx_group_block(f, s, 1, 0), fx_group_block(f, s, 1, 1) };
    snapshot(f, s, 2);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    int32_t kept[2];
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(f->copy[i].src, old[i]);
        assert_int_equal(f->copy[i].group, 1);
        kept[i] = f->copy[i].dst;
    }
    snapshot(f, s, 0); /* there is one already */
    fx_commit(f, s, "efgh");
    assert_int_equal(fx_group_block(f, s, 1, 0), old[0]); /* its own go on in place */
    assert_int_equal(fx_probe(f, "abcdefghi"), 4);
    assert_int_equal(f->match.longest[0], 8);
    assert_int_equal(f->match.longest[1], 4);
    assert_int_equal(f->match.stop_reason[1], PKV_STOP_STATE);
    assert_int_equal(fx_match(f, "abcdefghi", 9, &t), 4);
    assert_int_equal(f->work.n_copy, 2);
    for (int32_t i = 0; i < 2; i++) {
        assert_int_equal(f->copy[i].src, kept[i]);
        assert_int_equal(f->copy[i].dst, fx_group_block(f, t, 1, i));
    }
    assert_int_equal(fx_info(f, t).settled, 4);
    fx_reserve(f, t, 1); /* fresh blocks: no copies again */
    assert_int_equal(f->work.n_copy, 0);
    fx_close(f, t);
    fx_close(f, s);
    snapshot(f, fx_with(f, "abcd"), 0); /* others find it too */
    fx_end(f);
}

static void where_a_snapshot_can_be(void **state)
{
    (void)state;
    fx *f = with_state(7);
    pkv_seq s = fx_open(f), t = fx_open(f);
    pkv_block_work none = PKV_BLOCK_WORK_INIT, one_copy = f->work;
    fx_refused(f, PKV_E_STATE, pkv_seq_snapshot(f->m, s, &f->work)); /* 0 tokens */
    fx_commit(f, s, "a");
    fx_refused(f, PKV_E_STATE, pkv_seq_snapshot(f->m, s, &f->work));
    pkv_step step = fx_begin(f);
    fx_commit_in(f, s, "b", step);
    fx_refused(f, PKV_E_AGAIN, pkv_seq_snapshot(f->m, s, &f->work));
    fx_retire(f, step);
    one_copy.copy_cap = 1;
    fx_refused(f, PKV_E_LIMIT, pkv_seq_snapshot(f->m, s, &none));
    fx_refused(f, PKV_E_LIMIT, pkv_seq_snapshot(f->m, s, &one_copy));
    fx_reserve(f, t, 1); /* all of the other three */
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_snapshot(f->m, s, &f->work));
    fx_close(f, t);
    snapshot(f, s, 2);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 3);
    assert_int_equal(fx_probe(f, "abc"), 2);
    fx_end(f);
}

/* No STATE group, or content that is not indexed: nothing to do, and that is fine. */
static void nothing_to_keep(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq s = fx_with(f, "ab");
    snapshot(f, s, 0);
    fx_close(f, s);
    fx_end(f);
    f = with_state(20);
    s = fx_with(f, "ab");
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    fx_commit(f, s, "cd"); /* not indexed any more */
    snapshot(f, s, 0);
    fx_close(f, s);
    fx_end(f);
}

/* A block of a snapshot goes like any other, and the snapshot is worth nothing then; taking it
 * again makes what is missing. */
static void half_a_snapshot(void **state)
{
    (void)state;
    fx *f = with_state(20);
    pkv_seq s = fx_with(f, "ab");
    snapshot(f, s, 2);
    assert_int_equal(fx_probe(f, "abc"), 2);
    fx_evict(f, 1);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_probe(f, "abc"), 0);
    assert_int_equal(f->match.stop_reason[1], PKV_STOP_STATE);
    fx_close(f, fx_with(f, "xy")); /* behind what is left of it */
    snapshot(f, s, 1);
    assert_int_equal(fx_stats(f).cached_blocks, 3);
    assert_int_equal(fx_probe(f, "abc"), 2);
    fx_evict(f, 1); /* not that: it is as new as the other half */
    assert_int_equal(fx_probe(f, "abc"), 2);
    fx_probe(f, "xyz");
    assert_int_equal(f->match.longest[0], 0);
    fx_close(f, s);
    fx_end(f);
}

/* What is left of a snapshot is no room for the rest of it. */
static void the_other_half_is_not_room(void **state)
{
    (void)state;
    fx *f = with_state(6);
    pkv_seq s = fx_with(f, "ab");
    snapshot(f, s, 2);
    fx_evict(f, 1);
    fx_reserve(f, s, 1); /* takes the free one */
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_snapshot(f->m, s, &f->work));
    fx_truncate(f, s, 2);
    snapshot(f, s, 1);
    fx_close(f, s);
    fx_end(f);
}

/* While a step is open the new blocks wait in LIMBO, findable. */
static void a_snapshot_under_a_step(void **state)
{
    (void)state;
    fx *f = with_state(20);
    pkv_seq s = fx_with(f, "ab"), t;
    pkv_step one = fx_begin(f);
    snapshot(f, s, 2);
    assert_int_equal(fx_stats(f).limbo_blocks, 2);
    assert_int_equal(fx_match(f, "abc", 3, &t), 2);
    assert_int_equal(f->work.n_copy, 2);
    fx_retire(f, one);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_close(f, t);
    fx_close(f, s);
    fx_end(f);
}

/* What a step wrote into a state cannot be taken back: an abort cuts to nothing. */
static void an_abort_cuts_to_nothing(void **state)
{
    (void)state;
    fx *f = with_state(20);
    pkv_seq s = fx_with(f, "abcd"), other = fx_with(f, "xy");
    uint32_t epoch = fx_info(f, s).epoch;
    pkv_step one = fx_begin(f);
    fx_commit_in(f, s, "ef", one);
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    fx_abort(f, one);
    pkv_seq_info_t i = fx_info(f, s);
    assert_true(i.settled == 0 && i.committed == 0 && i.reserved == 0 && i.n_pending == 0);
    assert_int_equal(i.epoch, epoch); /* not a truncate of its own */
    assert_int_equal(state_row_len(f, s), 0);
    assert_int_equal(fx_info(f, other).committed, 2);
    assert_int_equal(fx_stats(f).active_blocks, 3);
    fx_close(f, s);
    fx_close(f, other);
    fx_end(f);
}

/* Without room for the copies beside their sources there is no hit at all. */
static void a_snapshot_hit_is_given_up(void **state)
{
    (void)state;
    fx *f = with_state(6);
    pkv_seq s = fx_with(f, "ab");
    snapshot(f, s, 2);
    fx_close(f, s); /* cached: one full, two of the state; two are free */
    assert_int_equal(fx_stats(f).cached_blocks, 3);
    assert_int_equal(fx_match(f, "abc", 0, &s), 2);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_close(f, s);
    assert_int_equal(fx_match(f, "abc", 3, &s), 0); /* one more: three new, two free */
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_ROOM);
    assert_int_equal(f->match.stop_reason[1], PKV_STOP_ROOM);
    assert_int_equal(fx_info(f, s).reserved, 3);
    fx_close(f, s);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_by_the_first_reserve),
        cmocka_unit_test(it_counts_as_blocks),
        cmocka_unit_test(states_of_one_block),
        cmocka_unit_test(a_fork_copies),
        cmocka_unit_test(no_way_back),
        cmocka_unit_test(a_snapshot_is_found),
        cmocka_unit_test(where_a_snapshot_can_be),
        cmocka_unit_test(nothing_to_keep),
        cmocka_unit_test(half_a_snapshot),
        cmocka_unit_test(the_other_half_is_not_room),
        cmocka_unit_test(a_snapshot_under_a_step),
        cmocka_unit_test(an_abort_cuts_to_nothing),
        cmocka_unit_test(a_snapshot_hit_is_given_up),
    };
    return cmocka_run_group_tests_name("state_groups", tests, NULL, NULL);
}
