/* Content: what is found, for whom, how long, and what a duplicate or a withdrawal does to it. */
#include "mgr_fixture.h"

#define CACHE PKV_MGR_PREFIX_CACHE

static void full_blocks_are_found(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, CACHE);
    pkv_seq s = fx_with(f, "abcdefghij");
    assert_int_equal(fx_info(f, s).n_indexed, 2);
    assert_int_equal(fx_probe(f, "abcdefghij"), 8);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_END);
    assert_int_equal(fx_probe(f, "abcdefgh"), 8);
    assert_int_equal(fx_probe(f, "abcdefg"), 4);
    assert_int_equal(fx_probe(f, "abcdefgxyz"), 4);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_MISS);
    assert_int_equal(fx_probe(f, "bcdefghi"), 0);
    assert_int_equal(fx_probe(f, ""), 0);
    pkv_seq t;
    assert_int_equal(fx_match(f, "abcdefghij", 12, &t), 8);
    assert_int_equal(f->match.claimed_cached, 0); /* still in use by s */
    assert_int_equal(f->match.longest[0], 8);
    for (int i = 0; i < 2; i++) assert_int_equal(fx_block(f, t, i), fx_block(f, s, i));
    assert_int_not_equal(fx_block(f, t, 2), fx_block(f, s, 2));
    fx_close(f, s);
    fx_close(f, t);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    assert_int_equal(fx_match(f, "abcdefghij", 0, NULL), 8);
    assert_int_equal(f->match.claimed_cached, 2);
    fx_end(f);
}

static void nothing_before_commit(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, CACHE | PKV_MGR_PARTIAL_HITS);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 16);
    assert_int_equal(fx_match(f, "abcdefghijklmnop", 0, NULL), 0);
    fx_close(f, s); /* an abandoned prefill leaves free blocks, not content */
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    assert_int_equal(fx_match(f, "abcdefghijklmnop", 0, NULL), 0);
    pkv_seq off = fx_open(f);
    fx_commit(f, off, "abc"); /* less than a block is not findable while the sequence is open */
    assert_int_equal(fx_probe(f, "abc"), 0);
    fx_close(f, off);
    assert_int_equal(fx_probe(f, "abc"), 3);
    fx_end(f);
    f = fx_new(20, 4, 0);
    fx_close(f, fx_with(f, "abcdefgh"));
    assert_int_equal(fx_match(f, "abcdefgh", 8, NULL), 0);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_OFF);
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    fx_end(f);
}

/* What one request was promised is not evicted for the next. */
static void claims_stay_claimed(void **state)
{
    (void)state;
    fx *f = fx_new(9, 4, CACHE);
    fx_close(f, fx_with(f, "aaaabbbb"));
    fx_close(f, fx_with(f, "ccccdddd"));
    pkv_seq a, b;
    assert_int_equal(fx_match(f, "aaaabbbb", 0, &a), 8);
    assert_int_equal(fx_match(f, "ccccdddd", 0, &b), 8);
    int32_t ids[4] = { fx_block(f, a, 0), fx_block(f, a, 1), fx_block(f, b, 0), fx_block(f, b, 1) };
    pkv_reserve_req q[2] = { { a, 8 }, { b, 8 } };
    assert_ok(pkv_seq_reserve(f->m, q, 2, &f->work));
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, a, 9));
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, b, 9));
    for (int i = 0; i < 4; i++) assert_int_equal(fx_block(f, i < 2 ? a : b, i % 2), ids[i]);
    assert_int_equal(fx_stats(f).evicted_blocks, 0);
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
}

static void a_match_does_not_evict_its_hit(void **state)
{
    (void)state;
    fx *f = fx_new(5, 4, CACHE);
    fx_close(f, fx_with(f, "aaaabbbb"));
    pkv_seq other = fx_open(f), s = fx_open(f);
    fx_reserve(f, other, 4);
    int32_t ids[16];
    pkv_tokens t = fx_text("aaaabbbbccccdddd", ids);
    fx_refused(f, PKV_E_NO_BLOCKS,
               pkv_seq_match(f->m, s, &t, 16, 16, &f->work, &f->match)); /* 2 new, 1 free */
    assert_ok(pkv_seq_match(f->m, s, &t, 16, 12, &f->work, &f->match));
    assert_int_equal(f->match.claimed, 8);
    assert_int_equal(fx_info(f, s).reserved, 12);
    fx_close(f, s);
    fx_close(f, other);
    fx_end(f);
}

/* Own surplus counts as room, and is given back first. */
static void surplus_is_room_for_the_match(void **state)
{
    (void)state;
    fx *f = fx_new(5, 4, CACHE);
    pkv_seq s = fx_open(f);
    int32_t ids[16];
    pkv_tokens t = fx_text("abcdefghijklmnop", ids);
    fx_reserve(f, s, 16);
    assert_ok(pkv_seq_match(f->m, s, &t, 15, 16, &f->work, &f->match));
    for (int i = 0; i < 4; i++) assert_int_equal(fx_block(f, s, i), 1 + i);
    assert_ok(pkv_seq_match(f->m, s, &t, 15, 3, &f->work, &f->match));
    assert_int_equal(fx_row_len(f, s), 1);
    assert_int_equal(fx_stats(f).free_blocks, 3);
    fx_commit(f, s, "a");
    fx_refused(f, PKV_E_STATE, pkv_seq_match(f->m, s, &t, 15, 16, &f->work, &f->match));
    fx_close(f, s);
    fx_end(f);
}

static void a_duplicate_takes_over(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, CACHE);
    pkv_seq a = fx_with(f, "abcd"), b = fx_with(f, "abcd"), c = fx_with(f, "abcd");
    int32_t ba = fx_block(f, a, 0), bb = fx_block(f, b, 0), bc = fx_block(f, c, 0), hit;
    assert_true(ba != bb && bb != bc && fx_stats(f).nodes == 1);
    pkv_seq s;
    assert_int_equal(fx_match(f, "abcd", 0, &s), 4);
    assert_int_equal(fx_block(f, s, 0), ba);
    fx_close(f, s);
    fx_close(f, a); /* the oldest spare takes over, a's block is free */
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    assert_int_equal(fx_match(f, "abcd", 0, &s), 4);
    assert_int_equal(hit = fx_block(f, s, 0), bb);
    fx_close(f, c); /* an unused spare is free */
    fx_close(f, b);
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_stats(f).free_blocks, 18);
    /* a newcomer's block replaces one that nobody refers to, which is free at once */
    pkv_seq d = fx_with(f, "abcd");
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    assert_int_equal(fx_stats(f).free_blocks, 18);
    pkv_seq e = fx_open(f);
    fx_reserve(f, e, 1);
    assert_int_equal(fx_block(f, e, 0), hit);
    assert_int_equal(fx_match(f, "abcd", 0, &s), 4);
    assert_int_equal(fx_block(f, s, 0), fx_block(f, d, 0));
    fx_close(f, s);
    fx_close(f, e);
    fx_close(f, d);
    fx_end(f);
}

/* A computes n1; B computes n1 as a duplicate, and n2; both close; one block goes: it is n2. */
static void no_child_without_its_parent(void **state)
{
    (void)state;
    fx *f = fx_new(5, 4, CACHE);
    pkv_seq a = fx_with(f, "abcd"), b = fx_with(f, "abcdefgh"), s = fx_open(f);
    fx_close(f, a);
    fx_close(f, b);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_reserve(f, s, 12);
    assert_int_equal(fx_stats(f).evicted_blocks, 1);
    assert_int_equal(fx_probe(f, "abcdefgh"), 4);
    fx_reserve(f, s, 16);
    assert_int_equal(fx_probe(f, "abcdefgh"), 0);
    fx_close(f, s);
    fx_end(f);
}

/* T 2: commit 4, truncate 3, reserve 1 (copy), close. The copied-from block goes before its parent.
 */
static void a_copied_from_block_goes_first(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, CACHE);
    pkv_seq s = fx_with(f, "abcd"), t = fx_open(f);
    int32_t tail = fx_block(f, s, 1);
    fx_truncate(f, s, 3);
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].src, tail);
    assert_int_equal(f->copy[0].n_tokens, 1);
    assert_int_equal(fx_probe(f, "abcd"), 4); /* published content stays findable */
    fx_close(f, s);
    fx_reserve(f, t, 4);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_reserve(f, t, 6);
    assert_int_equal(fx_probe(f, "abcd"), 0);
    fx_close(f, t);
    fx_end(f);
}

/* A lone sequence never starves on its own tail. */
static void a_tail_is_withdrawn_to_fit(void **state)
{
    (void)state;
    for (int usable = 2; usable <= 3; usable++) {
        fx *f = fx_new(1 + usable, 2, CACHE);
        pkv_seq s = fx_with(f, "abcd");
        int32_t tail = fx_block(f, s, 1);
        fx_truncate(f, s, 3);
        pkv_reserve_req q = { s, usable == 2 ? 1 : 3 };
        pkv_need need = PKV_NEED_INIT;
        assert_ok(pkv_blockmgr_need(f->m, &q, 1, &need));
        assert_int_equal(need.copies, 0);
        assert_int_equal(need.new_blocks, usable - 2);
        assert_int_equal(need.verdict, PKV_OK);
        fx_reserve(f, s, q.n_tokens);
        assert_int_equal(f->work.n_copy, 0);
        assert_int_equal(fx_block(f, s, 1), tail);
        assert_int_equal(fx_stats(f).withdrawn, 1);
        assert_int_equal(fx_probe(f, "abcd"), 2);
        fx_commit(f, s, "x");
        assert_int_equal(fx_probe(f, "abcx"), 4);
        fx_close(f, s);
        fx_end(f);
    }
}

/* With a duplicate the content moves instead of going, and what continues it stays. */
static void withdrawal_moves_or_goes(void **state)
{
    (void)state;
    fx *f = fx_new(5, 2, CACHE);
    pkv_seq a = fx_with(f, "abcd"), b = fx_with(f, "abcd");
    fx_truncate(f, a, 3);
    fx_reserve(f, a, 1);
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_stats(f).withdrawn, 1);
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_close(f, a);
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_truncate(f, b, 1); /* "ab" goes on as "abcd", which is cached now: evict that instead */
    fx_reserve(f, b, 1);
    assert_int_equal(f->work.n_copy, 1);
    fx_close(f, b);
    fx_end(f);
    f = fx_new(4, 2, CACHE);
    a = fx_with(f, "abcd");
    b = fx_with(f, "ab"); /* a duplicate of a's first block */
    fx_truncate(f, b, 1);
    fx_reserve(f, b, 1); /* "ab" has a continuation in use, and stays with a's block */
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
    f = fx_new(3, 2, CACHE); /* two blocks: the continuation is cached, and has to go with it */
    a = fx_with(f, "abcd");
    fx_truncate(f, a, 1);
    pkv_need need = PKV_NEED_INIT;
    assert_ok(pkv_blockmgr_need(f->m, &(pkv_reserve_req){ a, 3 }, 1, &need));
    assert_int_equal(need.verdict, PKV_OK);
    assert_int_equal(need.evictions, 1);
    fx_reserve(f, a, 3);
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_probe(f, "abcd"), 0);
    assert_int_equal(fx_stats(f).evicted_blocks, 1);
    fx_close(f, a);
    fx_end(f);
}

/* All copies of a call are left out together where it does not fit with them; need says the same.
 */
static void what_does_not_fit_is_written_in_place(void **state)
{
    (void)state;
    fx *f = fx_new(5, 2, CACHE);
    pkv_seq b = fx_with(f, "ab"), a = fx_with(f, "abcd");
    fx_truncate(f, a, 3);
    fx_truncate(f, b, 1);
    pkv_reserve_req q[2] = { { a, 1 }, { b, 1 } };
    pkv_need need = PKV_NEED_INIT;
    assert_ok(pkv_blockmgr_need(f->m, q, 2, &need));
    assert_int_equal(need.copies, 0); /* with copies it would take two blocks, and one is free */
    assert_int_equal(need.new_blocks, 0);
    assert_ok(pkv_seq_reserve(f->m, q, 2, &f->work));
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_stats(f).withdrawn, 2);
    assert_int_equal(fx_probe(f, "abcd"), 2); /* "cd" is gone, "ab" stays with a's first block */
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
}

/* Content that was hit once survives a scan of content that never is; not with one plain list. */
static void a_hit_protects(void **state)
{
    (void)state;
    for (int plain = 0; plain < 2; plain++) {
        fx *f = fx_new(11, 4, CACHE | (plain ? PKV_MGR_PLAIN_LRU : 0u));
        fx_close(f, fx_with(f, "wwwwxxxxyyyyzzzz")); /* or a third of the cached is too little */
        fx_close(f, fx_with(f, "aaaabbbb"));
        pkv_seq s;
        assert_int_equal(fx_match(f, "aaaabbbb", 0, &s), 8);
        fx_commit(f, s, "c"); /* the mark is made by the commit */
        fx_close(f, s);
        for (int i = 0; i < 20; i++) {
            char text[17];
            memset(text, 'e' + i % 10, 16);
            text[0] = (char)('A' + i);
            text[16] = 0;
            fx_close(f, fx_with(f, text));
        }
        assert_int_equal(fx_stats(f).protected_blocks, plain ? 0 : 2);
        assert_int_equal(fx_probe(f, "aaaabbbb"), plain ? 0 : 8);
        fx_end(f);
    }
}

static void a_match_without_commit_marks_nothing(void **state)
{
    (void)state;
    fx *f = fx_new(11, 4, CACHE);
    fx_close(f, fx_with(f, "aaaabbbbccccdddd"));
    for (int i = 0; i < 3; i++) assert_int_equal(fx_match(f, "aaaabbbb", 9, NULL), 8);
    assert_int_equal(fx_stats(f).protected_blocks, 0);
    fx_end(f);
}

static void protected_is_at_most_a_third(void **state)
{
    (void)state;
    fx *f = fx_new(21, 1, CACHE);
    for (int i = 0; i < 20; i++) {
        char text[2] = { (char)('A' + i), 0 };
        pkv_seq s = fx_with(f, text), t;
        assert_int_equal(fx_match(f, text, 0, &t), 1);
        fx_reserve(f, t, i < 19);
        if (i < 19) fx_commit(f, t, "!");
        fx_close(f, t);
        fx_close(f, s);
        pkv_blockmgr_stats_t st = fx_stats(f);
        assert_true(st.protected_blocks <= st.cached_blocks / 3);
    }
    assert_true(fx_stats(f).protected_blocks > 0);
    fx_end(f);
}

/* 64 images in one block: any bit of any token or digest makes another content. */
static void every_bit_counts(void **state)
{
    (void)state;
    fx *f = fx_new(20, 64, CACHE);
    int32_t ids[64];
    pkv_extra ex[64];
    memset(ex, 0, sizeof ex);
    for (int i = 0; i < 64; i++) {
        ids[i] = 1000003 * i;
        ex[i].first = i;
        ex[i].n = 1;
        for (int k = 0; k < 32; k++) ex[i].digest[k] = (uint8_t)(i * 37 + k);
    }
    pkv_tokens t = { ids, 64, ex, 64 };
    pkv_match m = PKV_MATCH_INIT;
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 64);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_close(f, s);
    for (int i = 0; i < 64; i++) {
        for (int bit = 0; bit < 32; bit++) {
            ids[i] = (int32_t)((uint32_t)ids[i] ^ 1u << bit);
            assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
            assert_int_equal(m.claimed, 0);
            ids[i] = (int32_t)((uint32_t)ids[i] ^ 1u << bit);
        }
        for (int bit = 0; bit < 256; bit++) {
            ex[i].digest[bit / 8] ^= (uint8_t)(1 << bit % 8);
            assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
            assert_int_equal(m.claimed, 0);
            ex[i].digest[bit / 8] ^= (uint8_t)(1 << bit % 8);
        }
    }
    ex[63].n = 2; /* an image one token longer */
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 0);
    ex[63].n = 1;
    t.n_extras = 63; /* one image less */
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 0);
    t.n_extras = 64;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 64);
    fx_end(f);
}

/* An extra that spans blocks is the same content however the tokens are split over calls. */
static void splits_do_not_matter(void **state)
{
    (void)state;
    int32_t ids[20];
    pkv_extra all[2] = { { 2, 9, { 7 } }, { 13, 2, { 9 } } };
    for (int i = 0; i < 20; i++) ids[i] = i;
    for (int32_t step = 1; step <= 20; step++) {
        fx *f = fx_new(20, 4, CACHE);
        pkv_seq s = fx_open(f);
        fx_reserve(f, s, 20);
        for (int32_t at = 0; at < 20; at += step) {
            int32_t n = at + step < 20 ? step : 20 - at, n_ex = 0;
            pkv_extra ex[2];
            for (int i = 0; i < 2; i++) {
                if (all[i].first >= at + n || all[i].first + all[i].n <= at) continue;
                ex[n_ex] = all[i];
                ex[n_ex++].first -= at;
            }
            pkv_tokens t = { ids + at, n, ex, n_ex };
            assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
        }
        pkv_tokens t = { ids, 20, all, 2 };
        pkv_match m = PKV_MATCH_INIT;
        assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
        assert_int_equal(m.claimed, 20);
        t.extras = NULL, t.n_extras = 0;
        assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
        assert_int_equal(m.claimed, 0);
        fx_close(f, s);
        fx_end(f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(full_blocks_are_found),
        cmocka_unit_test(nothing_before_commit),
        cmocka_unit_test(claims_stay_claimed),
        cmocka_unit_test(a_match_does_not_evict_its_hit),
        cmocka_unit_test(surplus_is_room_for_the_match),
        cmocka_unit_test(a_duplicate_takes_over),
        cmocka_unit_test(no_child_without_its_parent),
        cmocka_unit_test(a_copied_from_block_goes_first),
        cmocka_unit_test(a_tail_is_withdrawn_to_fit),
        cmocka_unit_test(withdrawal_moves_or_goes),
        cmocka_unit_test(what_does_not_fit_is_written_in_place),
        cmocka_unit_test(a_hit_protects),
        cmocka_unit_test(a_match_without_commit_marks_nothing),
        cmocka_unit_test(protected_is_at_most_a_third),
        cmocka_unit_test(every_bit_counts),
        cmocka_unit_test(splits_do_not_matter),
    };
    return cmocka_run_group_tests_name("prefix", tests, NULL, NULL);
}
