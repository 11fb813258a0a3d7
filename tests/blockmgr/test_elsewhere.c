/* What went wrong in other managers, from their public records: each test names where. Device
 * tables are in test_tables.c, block sizes that differ in test_windows.c, namespaces and hashes
 * beside the index. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define PARTIAL (PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS)

static int32_t poll_at(fx *f, uint64_t now, pkv_hold_result *r)
{
    int32_t n = -1;
    assert_ok(pkv_blockmgr_poll(f->m, now, r, 4, &n));
    return n;
}

/* `n` tokens that repeat with period 26. */
static void commit_n(fx *f, pkv_seq s, int32_t n, pkv_step step)
{
    int32_t ids[512];
    pkv_tokens t = { ids, n, NULL, 0 };
    for (int32_t i = 0; i < n; i++) ids[i] = 'a' + i % 26;
    fx_reserve(f, s, n);
    assert_ok(pkv_seq_commit(f->m, s, &t, step));
}

/* vLLM #42571, #42085: the same block twice in one batch of releases. */
static void a_block_twice_in_one_release(void **state)
{
    (void)state;
    fx *f = fx_new(8, 2, CACHE);
    int32_t ids[4], list[3];
    assert_ok(pkv_blocks_take(f->m, 3, ids, &f->work));
    list[0] = ids[0], list[1] = ids[1], list[2] = ids[0];
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blocks_unref(f->m, list, 3));
    assert_ok(pkv_blocks_ref(f->m, ids, 1));
    assert_ok(pkv_blocks_unref(f->m, list, 3)); /* two references: twice is right */
    fx_refused(f, PKV_E_INVALID_ARG, pkv_blocks_unref(f->m, ids, 1));
    assert_ok(pkv_blocks_unref(f->m, ids + 2, 1));
    assert_int_equal(fx_drain(f), 7);
    fx_end(f);
}

/* TRT-LLM #12667: pinning an evictable block leaves it in the queue, and it is released twice. */
static void a_pin_on_an_evictable_block(void **state)
{
    (void)state;
    fx *f = fx_new(8, 2, CACHE);
    pkv_seq s = fx_with(f, "ab");
    int32_t block = fx_block(f, s, 0);
    pkv_hold h;
    pkv_hold_result r[4];
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_match(f, "ab", 0, &s), 2);
    assert_ok(pkv_hold_open(f->m, s, 2, PKV_DEADLINE_NEVER, &h));
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    pkv_hold_post(f->m, h, PKV_OK);
    assert_int_equal(poll_at(f, 1, r), 1);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_ok(pkv_blocks_ref(f->m, &block, 1)); /* the same with a raw reference */
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    assert_ok(pkv_blocks_unref(f->m, &block, 1));
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_drain(f), 7);
    fx_end(f);
}

/* TRT-LLM #12892: admitting one request evicts what the next was promised. */
static void a_promise_is_kept(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, CACHE);
    pkv_seq a, b = fx_open(f);
    int32_t ids[8];
    fx_close(f, fx_with(f, "ab"));
    fx_close(f, fx_with(f, "cd"));
    assert_int_equal(fx_match(f, "abxy", 4, &a), 2); /* the one free block */
    pkv_tokens t = fx_text("cdxy", ids);
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_match(f->m, b, &t, 4, 4, &f->work, &f->match));
    assert_int_equal(fx_probe(f, "cdxy"), 2);
    assert_ok(pkv_seq_match(f->m, b, &t, 4, 0, &f->work, &f->match));
    assert_int_equal(fx_info(f, b).committed, 2);
    pkv_reserve_req q[2] = { { a, 4 }, { b, 2 } };
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_reserve(f->m, q, 2, &f->work));
    fx_close(f, a);
    q[0].n_tokens = 2, q[0].seq = b;
    assert_ok(pkv_seq_reserve(f->m, q, 1, &f->work));
    assert_int_equal(fx_probe(f, "cdxy"), 2);
    fx_close(f, b);
    assert_int_equal(fx_drain(f), 3);
    fx_end(f);
}

/* vLLM #37152, TGI #2489: content findable before it is written, or after an abandoned prefill. */
static void an_abandoned_prefill(void **state)
{
    (void)state;
    static const char text[] = "abcdefghijklmnopq";
    fx *f = fx_new(8, 16, CACHE);
    pkv_seq a = fx_open(f), b = fx_open(f);
    fx_reserve(f, a, 16);
    assert_int_equal(fx_probe(f, text), 0);
    pkv_step one = fx_begin(f);
    commit_n(f, a, 16, one);
    assert_int_equal(fx_probe(f, text), 0);
    assert_int_equal(fx_match(f, text, 0, NULL), 0);
    fx_retire(f, one);
    assert_int_equal(fx_match(f, text, 0, NULL), 16);
    fx_reserve(f, b, 16);
    fx_close(f, b);
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    assert_int_equal(fx_stats(f).free_blocks, 6);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_close(f, a);
    fx_end(f);
}

/* vLLM #45357: blocks reused, or a window trimmed, while an asynchronous step still reads them. */
static void a_window_waits_for_the_step(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(6, 32, CACHE);
    pkv_group g = { PKV_GROUP_SLIDING, 32, 128, 0, 0 };
    cfg.groups = &g;
    cfg.n_groups = 1;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_open(f), b = fx_open(f);
    commit_n(f, a, 158, PKV_STEP_NONE); /* a query at 158 sees 31 .. 158 */
    pkv_step one = fx_begin(f);
    commit_n(f, a, 1, one);
    int32_t first = fx_block(f, a, 0);
    assert_int_not_equal(first, 0);
    fx_retire(f, one);
    assert_int_equal(fx_block(f, a, 0), 0); /* 159 sees 32 .. 159 */
    for (int32_t i = 1; i < 5; i++) assert_int_not_equal(fx_block(f, a, i), 0);
    assert_int_equal(fx_stats(f).active_blocks, 4);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    pkv_step two = fx_begin(f);
    fx_close(f, a);
    fx_reserve(f, b, 32);
    assert_int_equal(fx_block(f, b, 0), first); /* the only one that nobody was reading */
    fx_refused(f, PKV_E_AGAIN, fx_try_reserve(f, b, 33));
    assert_int_equal(fx_need(f, b, 160).step.v, two.v);
    fx_retire(f, two);
    fx_reserve(f, b, 160);
    fx_close(f, b);
    fx_end(f);
}

/* vLLM #46283: the peer never reports, and blocks are held for ever. */
static void a_peer_that_never_reports(void **state)
{
    (void)state;
    fx *f = fx_new(3, 2, 0);
    pkv_seq a = fx_open(f), b = fx_open(f);
    pkv_hold h;
    pkv_hold_result r[4];
    fx_commit(f, a, "abcd");
    assert_ok(pkv_hold_open(f->m, a, 4, 5, &h));
    fx_close(f, a);
    assert_int_equal(poll_at(f, 5, r), 0);
    assert_int_equal(fx_stats(f).quarantine_blocks, 0);
    fx_refused(f, PKV_E_STATE, pkv_hold_reclaim(f->m, h));
    assert_int_equal(poll_at(f, 6, r), 1);
    assert_int_equal(r[0].hold.v, h.v);
    assert_int_equal(r[0].end, PKV_HOLD_EXPIRED);
    assert_int_equal(fx_stats(f).quarantine_blocks, 2);
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, b, 1));
    assert_int_equal(poll_at(f, 7, r), 0);
    assert_ok(pkv_hold_reclaim(f->m, h));
    assert_int_equal(fx_stats(f).free_blocks, 2);
    fx_reserve(f, b, 4);
    fx_close(f, b);
    fx_end(f);
}

/* vllm-ascend #16315: "free soon" treated as "no space": everybody is preempted, again and again.
 */
static void free_soon_is_not_no_space(void **state)
{
    (void)state;
    fx *f = fx_new(5, 2, 0);
    pkv_seq a = fx_open(f), b = fx_open(f);
    fx_reserve(f, a, 8);
    pkv_step one = fx_begin(f);
    fx_close(f, a);
    assert_int_equal(fx_stats(f).limbo_blocks, 4);
    pkv_need n = fx_need(f, b, 8);
    assert_int_equal(n.verdict, PKV_E_AGAIN);
    assert_int_equal(n.step.v, one.v);
    fx_refused(f, PKV_E_AGAIN, fx_try_reserve(f, b, 8));
    fx_retire(f, one);
    fx_reserve(f, b, 8);
    fx_close(f, b);
    fx_end(f);
}

/* vLLM #47272: the null block forgotten: a request one block too long waits for ever. */
static void one_block_too_long(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(5, 16, CACHE);
    cfg.max_seq_tokens = 80;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_open(f), b = fx_open(f);
    fx_reserve(f, b, 16);
    assert_int_equal(fx_need(f, a, 64).verdict, PKV_E_NO_BLOCKS); /* when b has gone */
    fx_refused(f, PKV_E_NEVER, fx_try_reserve(f, a, 65));
    fx_close(f, b);
    fx_reserve(f, a, 64);
    fx_refused(f, PKV_E_NEVER, fx_try_reserve(f, a, 65));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, a, 81));
    fx_close(f, a);
    fx_end(f);
}

/* vLLM #49125, kvcached #362: a key outlives the block's content. A tail of 6, continued in a step.
 */
static void a_key_does_not_outlive_its_block(void **state)
{
    (void)state;
    fx *f = fx_new(3, 16, PARTIAL);
    pkv_seq s, t = fx_open(f);
    fx_close(f, fx_with(f, "abcdef"));
    assert_int_equal(fx_match(f, "abcdefghijklmnop", 16, &s), 6);
    pkv_step one = fx_begin(f);
    assert_ok(fx_put(f, s, "ghijklmnop", one));
    fx_close(f, s);
    assert_int_equal(fx_probe(f, "abcdefghijklmnop"), 6);
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "abcdefghijklmnop"), 16);
    commit_n(f, t, 32, PKV_STEP_NONE); /* takes both blocks before it names them */
    assert_int_equal(fx_stats(f).evicted_blocks, 2);
    assert_int_equal(fx_stats(f).nodes, 2);
    fx_truncate(f, t, 0);
    fx_evict(f, 2);
    assert_int_equal(fx_probe(f, "abcdefghijklmnop"), 0);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_close(f, t);
    fx_end(f);
}

/* SGLang #33579, #31616: a draft longer than what is left overwrites a neighbour's row; slots leak
 * with what a verify step accepts. */
static void drafts_at_the_end_of_the_row(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(20, 16, 0);
    cfg.max_seq_tokens = 64;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_open(f), b = fx_open(f);
    commit_n(f, a, 54, PKV_STEP_NONE);
    commit_n(f, b, 64, PKV_STEP_NONE);
    const int32_t *rows;
    int32_t width, before[8];
    assert_ok(pkv_blockmgr_rows(f->m, 0, &rows, &width));
    assert_int_equal(width, 4);
    memcpy(before, rows, sizeof before);
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, a, 34));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, a, 11));
    assert_memory_equal(before, rows, sizeof before);
    fx_reserve(f, a, 10);
    fx_close(f, a);
    fx_close(f, b);
    for (int32_t length = 1; length <= 16; length++) {
        for (int32_t accepted = 0; accepted <= 5; accepted++) {
            pkv_seq s = fx_open(f);
            commit_n(f, s, length, PKV_STEP_NONE);
            for (int round = 0; round < 3; round++) {
                int32_t n = length + (round + 1) * (accepted + 1);
                fx_reserve(f, s, 6); /* five drafts and the token they hang on */
                commit_n(f, s, accepted + 1, PKV_STEP_NONE);
                assert_int_equal(fx_info(f, s).committed, n);
                assert_int_equal(fx_stats(f).active_blocks, (n - accepted - 1 + 6 + 15) / 16);
            }
            fx_close(f, s);
            assert_int_equal(fx_stats(f).free_blocks, 19);
        }
    }
    fx_end(f);
}

/* vLLM #1556, SGLang #38840: double free with beams and windows. */
static void beams_in_a_window(void **state)
{
    (void)state;
    for (int order = 0; order <= 1; order++) {
        pkv_blockmgr_config cfg = fx_config(12, 4, 0);
        pkv_group g = { PKV_GROUP_SLIDING, 4, 6, 0, 0 };
        cfg.groups = &g;
        cfg.n_groups = 1;
        fx *f = fx_from(&cfg);
        pkv_seq a = fx_open(f);
        commit_n(f, a, 10, PKV_STEP_NONE); /* 5 .. 10 are seen: the first block is gone */
        assert_int_equal(fx_stats(f).active_blocks, 2);
        pkv_seq b = fx_fork(f, a);
        assert_int_equal(fx_block(f, b, 0), 0);
        fx_reserve(f, b, 1);
        assert_int_equal(f->work.n_copy, 1);
        commit_n(f, b, 1, PKV_STEP_NONE);
        fx_reserve(f, a, 1);
        assert_int_equal(f->work.n_copy, 0);
        commit_n(f, a, 1, PKV_STEP_NONE);
        assert_int_equal(fx_stats(f).active_blocks, 3);
        commit_n(f, b, 2, PKV_STEP_NONE); /* 13 sees 8 on: b leaves the shared block */
        assert_int_equal(fx_block(f, b, 1), 0);
        assert_int_not_equal(fx_block(f, a, 1), 0);
        assert_int_equal(fx_stats(f).active_blocks, 4);
        fx_close(f, order ? a : b);
        fx_close(f, order ? b : a);
        assert_int_equal(fx_stats(f).free_blocks, 11);
        assert_int_equal(fx_drain(f), 11);
        fx_end(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_twice_in_one_release),
        cmocka_unit_test(a_pin_on_an_evictable_block),
        cmocka_unit_test(a_promise_is_kept),
        cmocka_unit_test(an_abandoned_prefill),
        cmocka_unit_test(a_window_waits_for_the_step),
        cmocka_unit_test(a_peer_that_never_reports),
        cmocka_unit_test(free_soon_is_not_no_space),
        cmocka_unit_test(one_block_too_long),
        cmocka_unit_test(a_key_does_not_outlive_its_block),
        cmocka_unit_test(drafts_at_the_end_of_the_row),
        cmocka_unit_test(beams_in_a_window),
    };
    return cmocka_run_group_tests_name("elsewhere", tests, NULL, NULL);
}
