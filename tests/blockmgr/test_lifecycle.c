/* Sequences from open to close without a prefix cache in the way: which ids come in which order,
 * lengths, rows, slots, forks and copies, zeroing. */
#include "mgr_fixture.h"

static void ids_come_in_order(void **state)
{
    (void)state;
    fx *f = fx_new(9, 4, 0);
    pkv_seq a = fx_open(f), b = fx_open(f);
    fx_reserve(f, a, 12);
    fx_reserve(f, b, 5);
    for (int i = 0; i < 3; i++) assert_int_equal(fx_block(f, a, i), 1 + i);
    assert_int_equal(fx_block(f, b, 0), 4);
    assert_int_equal(fx_block(f, b, 1), 5);
    fx_close(f, a); /* tail first: the next take gets its lowest row index */
    fx_reserve(f, b, 20);
    for (int i = 0; i < 3; i++) assert_int_equal(fx_block(f, b, 2 + i), 1 + i);
    fx_close(f, b);
    assert_int_equal(fx_drain(f), 8);
    fx_end(f);
}

static void lengths_and_rows(void **state)
{
    (void)state;
    fx *f = fx_new(40, 4, 0);
    pkv_seq s = fx_open(f);
    for (int32_t n = 1; n <= 40; n++) {
        fx_reserve(f, s, n);
        fx_reserve(f, s, n / 2); /* never shrinks */
        fx_reserve(f, s, 0);
        pkv_seq_info_t i = fx_info(f, s);
        assert_int_equal(i.reserved, n);
        assert_int_equal(i.committed, 0);
        assert_int_equal(i.n_blocks, (n + 3) / 4);
        assert_int_equal(i.blocks_if_closed, (n + 3) / 4);
        assert_int_equal(fx_row_len(f, s), (n + 3) / 4);
    }
    for (int32_t n = 40; n-- > 0;) {
        fx_truncate(f, s, n);
        assert_int_equal(fx_info(f, s).reserved, n);
        assert_int_equal(fx_stats(f).free_blocks, 39 - (n + 3) / 4);
    }
    fx_close(f, s);
    fx_end(f);
}

/* A row that was 8 long and is used again for 2 has nothing of the old ids behind its end. */
static void short_row_has_zero_tail(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, 0);
    pkv_seq a = fx_open(f), b;
    const int32_t *rows;
    int32_t width;
    assert_ok(pkv_blockmgr_rows(f->m, 0, &rows, &width));
    assert_true(width >= 64);
    fx_reserve(f, a, 32);
    int32_t row = fx_info(f, a).row_idx;
    fx_close(f, a);
    b = fx_open(f);
    fx_reserve(f, b, 8);
    assert_int_equal(fx_info(f, b).row_idx, row);
    for (int32_t i = 0; i < width; i++)
        assert_true((rows[(ptrdiff_t)row * width + i] != 0) == (i < 2));
    fx_truncate(f, b, 3);
    for (int32_t i = 0; i < width; i++)
        assert_true((rows[(ptrdiff_t)row * width + i] != 0) == (i < 1));
    fx_close(f, b);
    for (int32_t i = 0; i < 8 * width; i++) assert_int_equal(rows[i], 0);
    fx_end(f);
}

static void slots_are_block_times_tokens(void **state)
{
    (void)state;
    fx *f = fx_new(30, 5, 0);
    pkv_seq a = fx_open(f), b = fx_open(f);
    int64_t slots[100];
    for (int i = 1; i <= 10; i++) { /* interleaved, so that ids are not consecutive */
        fx_reserve(f, a, 5 * i);
        fx_reserve(f, b, 3 * i);
    }
    assert_ok(pkv_seq_slots(f->m, a, 0, 3, 40, slots));
    for (int32_t i = 0; i < 40; i++)
        assert_int_equal(slots[i], (int64_t)fx_block(f, a, (3 + i) / 5) * 5 + (3 + i) % 5);
    slots[0] = -7;
    assert_ok(pkv_seq_slots(f->m, a, 0, 50, 0, slots));
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_slots(f->m, a, 0, 50, 1, slots));
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_slots(f->m, a, 0, 11, 40, slots));
    assert_int_equal(slots[0], -7);
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
}

/* Four siblings on one tail, in one call: three copy, the last is alone by then and keeps it. */
static void last_sibling_keeps_the_tail(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, 0);
    pkv_seq s = fx_with(f, "abcdef"), kids[3];
    assert_ok(pkv_seq_fork(f->m, s, kids, 3));
    int32_t tail = fx_block(f, s, 1), first = fx_block(f, s, 0);
    pkv_reserve_req q[4] = { { s, 1 }, { kids[0], 1 }, { kids[1], 1 }, { kids[2], 1 } };
    pkv_need need = PKV_NEED_INIT;
    assert_ok(pkv_blockmgr_need(f->m, q, 4, &need));
    assert_int_equal(need.copies, 3);
    assert_int_equal(need.new_blocks, 3);
    assert_ok(pkv_seq_reserve(f->m, q, 4, &f->work));
    assert_int_equal(f->work.n_copy, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(f->copy[i].src, tail);
        assert_int_equal(f->copy[i].dst, fx_block(f, q[i].seq, 1));
        assert_int_equal(f->copy[i].n_tokens, 2);
        assert_int_equal(f->copy[i].group, 0);
        assert_int_equal(fx_block(f, q[i].seq, 0), first);
    }
    assert_int_equal(fx_block(f, kids[2], 1), tail);
    assert_int_equal(fx_stats(f).copies, 3);
    assert_int_equal(fx_info(f, s).blocks_if_closed, 1);
    for (int i = 0; i < 4; i++) fx_close(f, q[i].seq);
    assert_int_equal(fx_drain(f), 19);
    fx_end(f);
}

/* open; reserve 2; commit 1; fork: nobody keeps a reserved slot in the block that both share. */
static void fork_returns_the_surplus(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, 0);
    pkv_seq s = fx_with(f, "a");
    fx_reserve(f, s, 9);
    assert_int_equal(fx_row_len(f, s), 3);
    pkv_seq c = fx_fork(f, s);
    assert_int_equal(fx_info(f, s).reserved, 1);
    assert_int_equal(fx_info(f, c).reserved, 1);
    assert_int_equal(fx_row_len(f, s), 1);
    assert_int_equal(fx_stats(f).free_blocks, 18);
    assert_int_equal(fx_info(f, s).blocks_if_closed, 0);
    int32_t ids[1] = { 'b' };
    pkv_tokens t = { ids, 1, NULL, 0 };
    fx_refused(f, PKV_E_STATE, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_close(f, s);
    fx_close(f, c);
    fx_end(f);
}

/* Fork, append to the child, then to the parent, close in both orders: each block once free. */
static void beams_free_each_block_once(void **state)
{
    (void)state;
    for (int order = 0; order < 2; order++) {
        fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
        pkv_seq s = fx_with(f, "abcdef"), c = fx_fork(f, s);
        int32_t tail = fx_block(f, s, 1);
        fx_commit(f, c, "gh");
        assert_int_equal(f->work.n_copy, 1);
        assert_int_not_equal(fx_block(f, c, 1), tail);
        fx_commit(f, s, "xyz");
        assert_int_equal(f->work.n_copy, 0);
        assert_int_equal(fx_block(f, s, 1), tail);
        fx_close(f, order ? s : c);
        fx_close(f, order ? c : s);
        pkv_blockmgr_stats_t st = fx_stats(f);
        assert_int_equal(st.active_blocks, 0);
        assert_int_equal(st.cached_blocks, 3); /* abcd, efgh, efxy */
        assert_int_equal(fx_drain(f), 19);
        fx_end(f);
    }
}

/* Speculative verification: reserve for all drafts, accept 0 .. k of them, roll back, close. */
static void speculation_leaks_nothing(void **state)
{
    (void)state;
    for (int32_t len = 0; len < 8; len++) {
        for (int32_t accepted = 0; accepted <= 6; accepted++) {
            fx *f = fx_new(20, 4, 0);
            pkv_seq other = fx_with(f, "neighbour"), s = fx_open(f);
            int32_t ids[16] = { 0 }, keep[3];
            for (int i = 0; i < 3; i++) keep[i] = fx_block(f, other, i);
            pkv_tokens t = { ids, len, NULL, 0 };
            fx_reserve(f, s, len);
            assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
            fx_reserve(f, s, 7);
            t.n = accepted;
            assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
            fx_truncate(f, s, len + accepted);
            assert_int_equal(fx_info(f, s).reserved, len + accepted);
            assert_int_equal(fx_stats(f).free_blocks, 16 - (len + accepted + 3) / 4);
            fx_truncate(f, s, len);
            fx_close(f, s);
            assert_int_equal(fx_stats(f).free_blocks, 16);
            for (int i = 0; i < 3; i++) assert_int_equal(fx_block(f, other, i), keep[i]);
            fx_close(f, other);
            fx_end(f);
        }
    }
}

/* reserve(34) with 10 tokens left to the longest length: a refusal, the neighbour's row intact. */
static void too_long_leaves_the_neighbour(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 60;
    cfg.max_seqs = 2;
    cfg.max_seq_tokens = 100;
    fx *f = fx_from(&cfg); /* block_tokens 0: 16 */
    pkv_seq a = fx_open(f), b = fx_open(f);
    int32_t ids[100] = { 0 };
    pkv_tokens t = { ids, 90, NULL, 0 };
    fx_reserve(f, a, 90);
    fx_reserve(f, b, 100);
    assert_ok(pkv_seq_commit(f->m, a, &t, PKV_STEP_NONE));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, a, 34));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, a, 11));
    fx_reserve(f, a, 10);
    assert_int_equal(fx_row_len(f, a), 7);
    for (int i = 0; i < 7; i++) assert_int_equal(fx_block(f, b, i), 7 + i);
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
}

static void zero_policies(void **state)
{
    (void)state;
    for (int policy = 0; policy < 3; policy++) {
        pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
        cfg.n_blocks = 7;
        cfg.block_tokens = 4;
        cfg.max_seqs = 3;
        cfg.max_seq_tokens = 24;
        cfg.zero_policy = (pkv_zero_policy)policy;
        fx *f = fx_from(&cfg);
        pkv_seq s = fx_open(f);
        fx_reserve(f, s, 9);
        assert_int_equal(f->work.n_zero, policy == PKV_ZERO_NEVER ? 0 : 3);
        for (int i = 0; i < f->work.n_zero; i++) assert_int_equal(f->zero[i], 1 + i);
        fx_close(f, s);
        s = fx_open(f);
        fx_reserve(f, s, 17); /* 1 2 3 were handed out before, 4 5 were not */
        assert_int_equal(f->work.n_zero, policy == PKV_ZERO_NEVER ? 0 : policy == 1 ? 2 : 5);
        if (policy == 1) assert_int_equal(f->zero[0], 4);
        if (policy == 1) assert_int_equal(f->zero[1], 5);
        fx_truncate(f, s, 0);
        fx_commit(f, s, "a");
        pkv_seq c = fx_fork(f, s); /* a copy's destination is zeroed like any other */
        fx_reserve(f, c, 1);
        assert_int_equal(f->work.n_copy, 1);
        assert_int_equal(f->work.n_zero, policy == PKV_ZERO_ALWAYS);
        if (policy == 2) assert_int_equal(f->zero[0], f->copy[0].dst);
        fx_close(f, s);
        fx_close(f, c);
        fx_end(f);
    }
}

static void closed_handles_stay_stale(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, 0);
    pkv_seq old[20], s;
    for (int i = 0; i < 20; i++) {
        s = fx_open(f);
        for (int k = 0; k < i; k++) {
            assert_true(old[k].v != s.v && s.v != 0);
            fx_refused(f, PKV_E_STALE, fx_try_reserve(f, old[k], 1));
            fx_refused(f, PKV_E_STALE, pkv_seq_close(f->m, old[k]));
        }
        old[i] = s;
        fx_close(f, s);
    }
    assert_int_equal(fx_drain(f), 19);
    fx_end(f);
}

/* Rows of one call name different blocks; no list has a block as source and destination. */
static void batch_names_no_block_twice(void **state)
{
    (void)state;
    fx *f = fx_new(60, 2, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_with(f, "abc"), kids[5];
    assert_ok(pkv_seq_fork(f->m, s, kids, 5));
    pkv_reserve_req q[6] = { { s, 4 } };
    for (int i = 0; i < 5; i++) q[1 + i] = (pkv_reserve_req){ kids[i], 1 + i };
    assert_ok(pkv_seq_reserve(f->m, q, 6, &f->work));
    for (int i = 0; i < f->work.n_copy; i++)
        for (int k = 0; k < f->work.n_copy; k++) {
            assert_int_not_equal(f->copy[i].dst, f->copy[k].src);
            assert_true(i == k || f->copy[i].dst != f->copy[k].dst);
        }
    int seen[60] = { 0 };
    for (int i = 0; i < 6; i++)
        for (int k = 1; k < fx_row_len(f, q[i].seq); k++) seen[fx_block(f, q[i].seq, k)]++;
    for (int b = 0; b < 60; b++) assert_true(seen[b] <= 1);
    for (int i = 0; i < 6; i++) fx_close(f, q[i].seq);
    assert_int_equal(fx_drain(f), 59);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_come_in_order),
        cmocka_unit_test(lengths_and_rows),
        cmocka_unit_test(short_row_has_zero_tail),
        cmocka_unit_test(slots_are_block_times_tokens),
        cmocka_unit_test(last_sibling_keeps_the_tail),
        cmocka_unit_test(fork_returns_the_surplus),
        cmocka_unit_test(beams_free_each_block_once),
        cmocka_unit_test(speculation_leaks_nothing),
        cmocka_unit_test(too_long_leaves_the_neighbour),
        cmocka_unit_test(zero_policies),
        cmocka_unit_test(closed_handles_stay_stale),
        cmocka_unit_test(batch_names_no_block_twice),
    };
    return cmocka_run_group_tests_name("lifecycle", tests, NULL, NULL);
}
