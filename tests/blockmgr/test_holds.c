/* Holds: what they cover, how they end, deadlines and quarantine, posts that come late or twice. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define NEVER PKV_DEADLINE_NEVER

static pkv_hold hold(fx *f, pkv_seq s, int32_t n, uint64_t deadline)
{
    pkv_hold h = { 0 };
    assert_ok(pkv_hold_open(f->m, s, n, deadline, &h));
    assert_int_not_equal(h.v, 0);
    return h;
}

static pkv_hold_result results[8];

static int32_t poll_at(fx *f, uint64_t now)
{
    int32_t n = -1;
    assert_ok(pkv_blockmgr_poll(f->m, now, results, 8, &n));
    fx_check(f);
    return n;
}

static void ended(fx *f, uint64_t now, pkv_hold h, pkv_hold_end end)
{
    assert_int_equal(poll_at(f, now), 1);
    assert_int_equal(results[0].hold.v, h.v);
    assert_int_equal(results[0].end, end);
}

static void states(fx *f, int32_t active, int32_t cached, int32_t quarantine)
{
    pkv_blockmgr_stats_t s = fx_stats(f);
    assert_int_equal(s.active_blocks, active);
    assert_int_equal(s.cached_blocks, cached);
    assert_int_equal(s.quarantine_blocks, quarantine);
}

static void posted(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq s = fx_with(f, "abcde");
    int32_t ids[4] = { 9, 9, 9, 9 }, n = 9;
    for (int32_t failed = 0; failed <= 1; failed++) {
        pkv_hold h = hold(f, s, 5, NEVER);
        assert_int_equal(fx_stats(f).open_holds, 1);
        assert_ok(pkv_hold_blocks(f->m, h, 0, ids, 4, &n));
        assert_int_equal(n, 3);
        for (int32_t i = 0; i < 3; i++) assert_int_equal(ids[i], fx_block(f, s, i));
        assert_int_equal(poll_at(f, 1), 0);
        pkv_hold_post(f->m, h, failed ? PKV_E_IO : PKV_OK);
        assert_int_equal(fx_stats(f).open_holds, 1); /* until it is collected */
        ended(f, 1, h, failed ? PKV_HOLD_FAILED : PKV_HOLD_DONE);
        assert_int_equal(fx_stats(f).open_holds, 0);
        fx_refused(f, PKV_E_STALE, pkv_hold_blocks(f->m, h, 0, ids, 4, &n));
        fx_refused(f, PKV_E_STALE, pkv_hold_reclaim(f->m, h));
        assert_int_equal(poll_at(f, 1), 0);
    }
    assert_int_equal(fx_stats(f).late_posts, 0);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

static void its_blocks_outlive_the_sequence(void **state)
{
    (void)state;
    fx *f = fx_new(6, 2, CACHE);
    pkv_seq s = fx_with(f, "abcdef"), t = fx_open(f);
    int32_t ids[2], n = 0, row[2] = { fx_block(f, s, 0), fx_block(f, s, 1) };
    pkv_hold h = hold(f, s, 3, NEVER);
    fx_close(f, s);
    states(f, 2, 1, 0);
    assert_ok(pkv_hold_blocks(f->m, h, 0, ids, 2, &n));
    assert_memory_equal(ids, row, sizeof row);
    n = 0;
    fx_refused(f, PKV_E_LIMIT, pkv_hold_blocks(f->m, h, 0, ids, 1, &n));
    assert_int_equal(n, 2);
    n = 0;
    fx_refused(f, PKV_E_LIMIT, pkv_hold_blocks(f->m, h, 0, NULL, 0, &n)); /* how many? */
    assert_int_equal(n, 2);
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, t, 8)); /* what it holds does not come back */
    fx_reserve(f, t, 6);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    states(f, 3, 2, 0);
    fx_evict(f, 1); /* released tail first */
    assert_int_equal(fx_probe(f, "abcdef"), 2);
    fx_close(f, t);
    assert_int_equal(fx_drain(f), 5);
    fx_end(f);
}

/* A deadline has passed when it is smaller than now; a post that is there counts first. */
static void deadlines(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq s = fx_with(f, "ab");
    pkv_hold h = hold(f, s, 2, 5), posted_one = hold(f, s, 2, 5), never = hold(f, s, 2, NEVER);
    int32_t n;
    assert_int_equal(poll_at(f, 5), 0);
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blockmgr_poll(f->m, 4, results, 8, &n));
    fx_refused(f, PKV_E_STATE, pkv_hold_reclaim(f->m, h));
    pkv_hold_post(f->m, posted_one, PKV_OK);
    assert_int_equal(poll_at(f, 6), 2);
    for (int32_t i = 0; i < 2; i++) {
        bool expired = results[i].hold.v == h.v;
        assert_true(expired || results[i].hold.v == posted_one.v);
        assert_int_equal(results[i].end, expired ? PKV_HOLD_EXPIRED : PKV_HOLD_DONE);
    }
    assert_int_not_equal(results[0].hold.v, results[1].hold.v);
    assert_int_equal(poll_at(f, UINT64_MAX), 0); /* reported once; never is never */
    assert_int_equal(fx_stats(f).open_holds, 2);
    assert_ok(pkv_hold_reclaim(f->m, h));
    fx_refused(f, PKV_E_STALE, pkv_hold_reclaim(f->m, h));
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blockmgr_poll(f->m, 6, results, 8, &n));
    pkv_hold late = hold(f, s, 2, 7); /* its deadline is over already */
    ended(f, UINT64_MAX, late, PKV_HOLD_EXPIRED);
    assert_ok(pkv_hold_reclaim(f->m, late));
    pkv_hold_post(f->m, never, PKV_OK);
    ended(f, UINT64_MAX, never, PKV_HOLD_DONE);
    fx_close(f, s);
    fx_end(f);
}

/* By index, whatever the order of the posts, and what `cap` leaves comes next time. */
static void collected_in_order_of_index(void **state)
{
    (void)state;
    uint64_t order[4];
    for (int round = 0; round < 3; round++) {
        fx *f = fx_new(10, 2, CACHE);
        pkv_seq s = fx_with(f, "ab");
        pkv_hold h[4];
        int32_t n;
        for (int i = 0; i < 4; i++) h[i] = hold(f, s, 2, 5);
        for (int i = 0; i < 4; i++) {
            int which = round == 0 ? i : 3 - i;
            if (which != 2) pkv_hold_post(f->m, h[which], PKV_OK);
        }
        if (round < 2) {
            assert_int_equal(poll_at(f, 6), 4);
        } else {
            assert_ok(pkv_blockmgr_poll(f->m, 6, results, 0, &n));
            assert_int_equal(n, 0);
            for (int i = 0; i < 4; i++) {
                assert_ok(pkv_blockmgr_poll(f->m, 6, results + i, 1, &n));
                assert_int_equal(n, 1);
            }
        }
        for (int i = 0; i < 4; i++) {
            if (round == 0) order[i] = results[i].hold.v;
            assert_int_equal(results[i].hold.v, order[i]);
            assert_int_equal(results[i].end, order[i] == h[2].v ? PKV_HOLD_EXPIRED : PKV_HOLD_DONE);
        }
        assert_ok(pkv_hold_reclaim(f->m, h[2]));
        fx_close(f, s);
        fx_end(f);
    }
}

/* The first post counts. Later, foreign and invented ones are counted, and that is all. */
static void posts_that_meet_nothing(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq s = fx_with(f, "ab");
    pkv_hold h = hold(f, s, 2, 5);
    pkv_hold_post(NULL, h, PKV_OK);
    assert_int_equal(fx_stats(f).late_posts, 0);
    pkv_hold_post(f->m, h, PKV_OK);
    pkv_hold_post(f->m, h, PKV_E_IO);
    assert_int_equal(fx_stats(f).late_posts, 1);
    ended(f, 9, h, PKV_HOLD_DONE);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(fx_stats(f).late_posts, 2);
    pkv_hold e = hold(f, s, 2, 3);
    ended(f, 9, e, PKV_HOLD_EXPIRED);
    pkv_hold_post(f->m, e, PKV_OK); /* too late: the blocks wait for reclaim */
    assert_int_equal(fx_stats(f).late_posts, 3);
    assert_int_equal(poll_at(f, 9), 0);
    assert_ok(pkv_hold_reclaim(f->m, e));
    pkv_hold r = hold(f, s, 2, NEVER); /* perhaps the same place: old handles do not reach it */
    const uint64_t foreign[] = {
        0, UINT64_MAX, h.v, e.v, r.v + 1, r.v + ((uint64_t)1 << 32), (uint64_t)1 << 32 | 64
    }; /* max_holds */
    for (int i = 0; i < 7; i++) {
        pkv_hold_post(f->m, (pkv_hold){ foreign[i] }, PKV_OK);
        assert_int_equal(fx_stats(f).late_posts, 4 + i);
    }
    assert_int_equal(poll_at(f, 9), 0);
    pkv_hold_post(f->m, r, PKV_OK);
    ended(f, 9, r, PKV_HOLD_DONE);
    fx_close(f, s);
    fx_end(f);
}

/* Only blocks that nobody but expired holds refers to; findable, not evictable. */
static void quarantine(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, CACHE);
    pkv_seq s = fx_with(f, "abcd"), t;
    int32_t second = fx_block(f, s, 1), n;
    pkv_hold a = hold(f, s, 4, 5), b = hold(f, s, 2, 7);
    ended(f, 6, a, PKV_HOLD_EXPIRED);
    states(f, 2, 0, 0);
    assert_ok(pkv_blocks_ref(f->m, &second, 1));
    fx_close(f, s);
    states(f, 2, 0, 0); /* one running hold, one raw reference */
    assert_ok(pkv_blocks_unref(f->m, &second, 1));
    states(f, 1, 0, 1);
    ended(f, 8, b, PKV_HOLD_EXPIRED);
    states(f, 0, 0, 2);
    assert_ok(pkv_blockmgr_evict(f->m, 9, &n));
    assert_int_equal(n, 0);
    assert_int_equal(fx_match(f, "abcdx", 5, &t), 4);
    assert_int_equal(f->match.claimed_cached, 0);
    states(f, 3, 0, 0);
    fx_close(f, t);
    states(f, 0, 0, 2);
    assert_ok(pkv_hold_reclaim(f->m, b));
    states(f, 0, 0, 2);
    assert_ok(pkv_hold_reclaim(f->m, a));
    states(f, 0, 2, 0);
    fx_evict(f, 1);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    assert_int_equal(fx_drain(f), 3);
    fx_end(f);
}

/* What it covers is not written; what lies behind it in the same block is. */
static void a_writer_gets_a_copy(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, CACHE);
    pkv_seq s = fx_with(f, "abc");
    int32_t block = fx_block(f, s, 0);
    pkv_hold h = hold(f, s, 3, 5);
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 0); /* behind it */
    fx_truncate(f, s, 2);
    assert_int_equal(fx_need(f, s, 1).copies, 1);
    ended(f, 6, h, PKV_HOLD_EXPIRED); /* expired or not */
    assert_int_equal(fx_need(f, s, 1).copies, 1);
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].src, block);
    assert_int_equal(f->copy[0].n_tokens, 2);
    states(f, 1, 0, 1);
    assert_ok(pkv_hold_reclaim(f->m, h));
    states(f, 1, 0, 0);
    h = hold(f, s, 2, NEVER);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 6), 1);
    fx_truncate(f, s, 1);
    fx_reserve(f, s, 1); /* gone: in place */
    assert_int_equal(f->work.n_copy, 0);
    fx_close(f, s);
    fx_end(f);
}

/* Full blocks are covered to their end: with two holds the longer one counts. */
static void the_longest_hold_counts(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, 0);
    pkv_seq s = fx_with(f, "abcdefg");
    pkv_hold shorter = hold(f, s, 5, NEVER), longer = hold(f, s, 7, NEVER);
    fx_truncate(f, s, 6);
    assert_int_equal(fx_need(f, s, 1).copies, 1);
    pkv_hold_post(f->m, longer, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    assert_int_equal(fx_need(f, s, 1).copies, 0);
    fx_truncate(f, s, 5);
    assert_int_equal(fx_need(f, s, 1).copies, 0);
    fx_truncate(f, s, 3);
    assert_int_equal(fx_need(f, s, 1).copies, 1); /* the first block is held whole */
    pkv_hold_post(f->m, shorter, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    assert_int_equal(fx_need(f, s, 1).copies, 0);
    fx_close(f, s);
    fx_end(f);
}

/* The tail copy of a lone sequence cannot be left out while the tail is held. */
static void no_writing_in_place_under_a_hold(void **state)
{
    (void)state;
    fx *f = fx_new(3, 2, CACHE);
    pkv_seq s = fx_with(f, "abcd");
    pkv_hold h = hold(f, s, 4, NEVER);
    fx_truncate(f, s, 3);
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, s, 1));
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 0);
    fx_close(f, s);
    fx_end(f);
}

static void what_can_be_held(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(20, 2, CACHE);
    cfg.max_holds = 2;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "abc"), empty = fx_open(f);
    pkv_hold h = { 77 };
    fx_refused(f, PKV_E_RANGE, pkv_hold_open(f->m, s, 4, 1, &h));
    fx_refused(f, PKV_E_RANGE, pkv_hold_open(f->m, s, INT32_MAX, 1, &h));
    fx_refused(f, PKV_E_RANGE, pkv_hold_open(f->m, empty, 1, 1, &h));
    fx_reserve(f, s, 3);
    fx_refused(f, PKV_E_RANGE, pkv_hold_open(f->m, s, 4, 1, &h)); /* reserved is not settled */
    pkv_hold one = hold(f, s, 1, 0), two = hold(f, s, 1, 1);
    fx_refused(f, PKV_E_LIMIT, pkv_hold_open(f->m, s, 1, 1, &h));
    assert_int_equal(h.v, 77);
    ended(f, 1, one, PKV_HOLD_EXPIRED);
    fx_refused(f, PKV_E_LIMIT, pkv_hold_open(f->m, s, 1, 1, &h)); /* an expired one counts */
    assert_ok(pkv_hold_reclaim(f->m, one));
    pkv_hold three = hold(f, s, 1, NEVER);
    pkv_hold_post(f->m, two, PKV_OK);
    pkv_hold_post(f->m, three, PKV_OK);
    assert_int_equal(poll_at(f, 1), 2);
    fx_close(f, s);
    fx_close(f, empty);
    fx_end(f);
}

/* What windows have released is not held; nothing left at all is RANGE. States are not held. */
static void holds_in_groups(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(30, 2, CACHE);
    static const pkv_group g[3] = { { PKV_GROUP_SLIDING, 2, 4, 0, 0 },
                                    { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_STATE, 0, 0, 0, 2 } };
    cfg.groups = g, cfg.n_groups = 3, cfg.max_seq_tokens = 40;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "abcdefgh"); /* the window keeps the last two blocks */
    int32_t ids[8], n;
    pkv_hold h = hold(f, s, 7, NEVER);
    assert_ok(pkv_hold_blocks(f->m, h, 0, ids, 8, &n));
    assert_int_equal(n, 2);
    assert_int_equal(ids[0], fx_group_block(f, s, 0, 2));
    assert_int_equal(ids[1], fx_group_block(f, s, 0, 3));
    assert_ok(pkv_hold_blocks(f->m, h, 1, ids, 8, &n));
    assert_int_equal(n, 4);
    for (int32_t i = 0; i < 4; i++) assert_int_equal(ids[i], fx_group_block(f, s, 1, i));
    assert_ok(pkv_hold_blocks(f->m, h, 2, ids, 8, &n));
    assert_int_equal(n, 0);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).active_blocks, 6);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    fx_evict(f, 2);                                /* what the window released long ago */
    assert_int_equal(fx_probe(f, "abcdefghi"), 0); /* no state */
    assert_int_equal(f->match.longest[0], 8);
    fx_evict(f, 1); /* group by group, tail first: the window's last */
    assert_int_equal(fx_probe(f, "abcdefghi"), 0);
    assert_int_equal(f->match.longest[0], 0);
    assert_int_equal(f->match.longest[1], 8);
    fx_end(f);
    cfg.n_groups = 1;
    f = fx_from(&cfg);
    s = fx_with(f, "abcdefgh");
    fx_refused(f, PKV_E_RANGE, pkv_hold_open(f->m, s, 4, 1, &h));
    h = hold(f, s, 5, NEVER);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    fx_close(f, s);
    fx_end(f);
}

/* A namespace can go while its blocks are held: they lose their content, not their holder. */
static void a_namespace_goes_under_a_hold(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns;
    pkv_seq s;
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    assert_ok(pkv_seq_open(f->m, ns, &s));
    fx_commit(f, s, "abcd");
    pkv_hold h = hold(f, s, 2, NEVER);
    fx_close(f, s);
    states(f, 1, 1, 0);
    assert_ok(pkv_ns_close(f->m, ns));
    states(f, 1, 0, 0);
    assert_int_equal(fx_stats(f).nodes, 0);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 0), 1);
    states(f, 0, 0, 0);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posted),
        cmocka_unit_test(its_blocks_outlive_the_sequence),
        cmocka_unit_test(deadlines),
        cmocka_unit_test(collected_in_order_of_index),
        cmocka_unit_test(posts_that_meet_nothing),
        cmocka_unit_test(quarantine),
        cmocka_unit_test(a_writer_gets_a_copy),
        cmocka_unit_test(the_longest_hold_counts),
        cmocka_unit_test(no_writing_in_place_under_a_hold),
        cmocka_unit_test(what_can_be_held),
        cmocka_unit_test(holds_in_groups),
        cmocka_unit_test(a_namespace_goes_under_a_hold),
    };
    return cmocka_run_group_tests_name("holds", tests, NULL, NULL);
}
