/* Partial hits: less than a block, found among the newest continuations, and taken as a copy. */
#include "mgr_fixture.h"

#define PARTIAL (PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS)

static void a_tail_is_found_and_copied(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PARTIAL);
    pkv_seq s = fx_with(f, "abcdef"), t;
    int32_t tail = fx_block(f, s, 1);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    assert_int_equal(fx_probe(f, "abcdefgh"), 6);
    assert_int_equal(f->match.copied, 2);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_MISS);
    assert_int_equal(fx_match(f, "abcdefgh", 9, &t), 6);
    assert_int_equal(f->match.copied, 2);
    assert_int_equal(f->match.claimed_cached, 1);
    assert_int_equal(f->match.longest[0], 4);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].src, tail);
    assert_int_equal(f->copy[0].dst, fx_block(f, t, 1));
    assert_int_equal(f->copy[0].n_tokens, 2);
    pkv_seq_info_t i = fx_info(f, t);
    assert_int_equal(i.settled, 4); /* the copied part settles with the next commit */
    assert_int_equal(i.committed, 6);
    assert_int_equal(i.reserved, 9);
    fx_commit(f, t, "g");
    assert_int_equal(fx_info(f, t).settled, 7);
    fx_close(f, t);
    assert_int_equal(fx_probe(f, "abcdefgh"), 7);
    assert_int_equal(fx_probe(f, "abcdefx"), 6);
    assert_int_equal(fx_probe(f, "abcdexy"), 5);
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_END);
    fx_end(f);
}

/* The end of a full block is a partial hit too, where the prompt ends or differs inside it. */
static void a_full_block_serves_a_part(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PARTIAL);
    fx_close(f, fx_with(f, "abcd"));
    assert_int_equal(fx_match(f, "abc", 0, NULL), 3);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_END);
    assert_int_equal(fx_match(f, "abxy", 0, NULL), 2);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_MISS);
    assert_int_equal(fx_match(f, "xbcd", 0, NULL), 0);
    fx_end(f);
}

static void an_unsettled_copy_is_not_published(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PARTIAL);
    fx_close(f, fx_with(f, "abcdef"));
    pkv_blockmgr_stats_t before = fx_stats(f);
    for (int i = 0; i < 3; i++) assert_int_equal(fx_match(f, "abcdefgh", 0, NULL), 6);
    assert_int_equal(fx_stats(f).nodes, before.nodes);
    assert_int_equal(fx_stats(f).cached_blocks, before.cached_blocks);
    fx_end(f);
}

/* A partial tail of 6 of 8 is published, matched, continued to a full block; old keys go with the
 * blocks that carried them. */
static void no_key_outlives_its_content(void **state)
{
    (void)state;
    fx *f = fx_new(3, 8, PARTIAL);
    fx_close(f, fx_with(f, "abcdef"));
    pkv_seq s, t = fx_open(f);
    assert_int_equal(fx_match(f, "abcdefgh", 8, &s), 6);
    fx_commit(f, s, "gh");
    fx_close(f, s);
    assert_int_equal(fx_probe(f, "abcdefgh"), 8);
    fx_commit(f, t, "zzzzzzzzyyyyyyyy"); /* evicts both blocks */
    assert_int_equal(fx_probe(f, "abcdefgh"), 0);
    assert_int_equal(fx_probe(f, "abcdef"), 0);
    assert_int_equal(fx_stats(f).evicted_blocks, 2);
    assert_int_equal(fx_stats(f).nodes, 2);
    fx_close(f, t);
    fx_end(f);
}

/* Growing the shared tail drops the shorter key from the block and then publishes the longer. */
static void a_longer_tail_replaces_a_shorter(void **state)
{
    (void)state;
    fx *f = fx_new(20, 8, PARTIAL);
    pkv_seq s = fx_with(f, "abc"), c = fx_fork(f, s);
    fx_close(f, c); /* "abc" on the block that s goes on writing */
    assert_int_equal(fx_stats(f).nodes, 1);
    assert_int_equal(fx_probe(f, "abcde"), 3);
    fx_commit(f, s, "de");
    assert_int_equal(f->work.n_copy, 0); /* no published token is overwritten */
    assert_int_equal(fx_probe(f, "abcde"), 3);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).nodes, 1);
    assert_int_equal(fx_probe(f, "abcde"), 5);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    fx_end(f);
    f = fx_new(20, 8, PARTIAL); /* the same, filled to the end of the block */
    s = fx_with(f, "abc");
    fx_close(f, fx_fork(f, s));
    fx_commit(f, s, "defgh");
    assert_int_equal(fx_stats(f).nodes, 1);
    assert_int_equal(fx_probe(f, "abcdefgh"), 8);
    fx_close(f, s);
    fx_end(f);
}

/* T 4: a settled token, shared; one beam writes on while the other's tail is published. */
static void a_published_tail_is_not_overwritten(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PARTIAL);
    pkv_seq a = fx_with(f, "ab"), b = fx_fork(f, a);
    fx_truncate(f, b, 1);
    fx_close(f, a); /* publishes "ab" on the block that b still reads one token of */
    assert_int_equal(fx_probe(f, "ab"), 2);
    int32_t old = fx_block(f, b, 0);
    fx_commit(f, b, "x");
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].src, old);
    assert_int_equal(f->copy[0].n_tokens, 1);
    assert_int_equal(fx_probe(f, "ab"), 2);
    fx_close(f, b);
    assert_int_equal(fx_probe(f, "ax"), 2);
    fx_end(f);
}

/* Only the newest 16 continuations are compared; the longest wins, then the newest. */
static void the_newest_sixteen(void **state)
{
    (void)state;
    fx *f = fx_new(60, 8, PARTIAL);
    char text[4] = "aab";
    fx_close(f, fx_with(f, text));
    for (int i = 0; i < 15; i++) {
        text[0] = (char)('b' + i);
        fx_close(f, fx_with(f, text));
    }
    assert_int_equal(fx_probe(f, "aabc"), 3); /* the sixteenth */
    fx_close(f, fx_with(f, "zzz"));
    assert_int_equal(fx_probe(f, "aabc"), 0); /* the seventeenth */
    fx_close(f, fx_with(f, "mnop"));
    pkv_seq s = fx_with(f, "mnox");
    int32_t newest = fx_block(f, s, 0);
    fx_close(f, s);
    fx_close(f, fx_with(f, "mn"));
    pkv_seq t;
    assert_int_equal(fx_match(f, "mno", 0, &t), 3);
    assert_int_equal(f->copy[0].src, newest);
    fx_close(f, t);
    fx_end(f);
}

/* The source and the claim are not evicted for the copy's sake: then the hit is cut. */
static void a_hit_is_cut_for_room(void **state)
{
    (void)state;
    fx *f = fx_new(3, 4, PARTIAL);
    fx_close(f, fx_with(f, "abcdef")); /* both blocks are cached now */
    pkv_seq s;
    assert_int_equal(fx_match(f, "abcdefgh", 0, &s), 4);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_ROOM);
    assert_int_equal(f->match.copied, 0);
    assert_int_equal(fx_probe(f, "abcdefgh"), 6); /* the source is still there */
    fx_close(f, s);
    assert_int_equal(fx_match(f, "abcdefgh", 8, &s), 4); /* and may go for room beyond the claim */
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_ROOM);
    assert_int_equal(fx_probe(f, "abcdefgh"), 4);
    fx_close(f, s);
    fx_end(f);
}

/* A cached source moves to the recent end, so what it was copied from is not the next victim. */
static void a_source_becomes_recent(void **state)
{
    (void)state;
    fx *f = fx_new(5, 4, PARTIAL);
    fx_close(f, fx_with(f, "ab"));
    fx_close(f, fx_with(f, "xy"));
    pkv_seq s, t = fx_open(f);
    assert_int_equal(fx_match(f, "abc", 0, &s), 2);
    fx_close(f, s);
    fx_reserve(f, t, 12); /* 2 free, then one victim */
    assert_int_equal(fx_probe(f, "xy"), 0);
    assert_int_equal(fx_probe(f, "ab"), 2);
    fx_close(f, t);
    fx_end(f);
}

/* Equal ids, another image: the hit ends where the images differ. */
static void images_cut_the_hit(void **state)
{
    (void)state;
    fx *f = fx_new(20, 8, PARTIAL);
    int32_t ids[8] = { 1, 2, 9, 9, 3, 9, 9, 4 };
    pkv_extra ex[2] = { { 2, 2, { 1 } }, { 5, 2, { 2 } } };
    pkv_tokens t = { ids, 8, ex, 2 };
    pkv_match m = PKV_MATCH_INIT;
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 8);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_close(f, s);
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 8);
    ex[1].digest[31] = 1;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 5);
    ex[0].n = 3;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 2);
    t.n_extras = 0;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 2);
    ex[0] = (pkv_extra){ 5, 2, { 2 } }; /* the second image alone */
    t.n_extras = 1;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 2);
    ex[0] = (pkv_extra){ 2, 2, { 1 } }; /* one before both */
    ex[1] = ex[0];
    ex[0] = (pkv_extra){ 1, 1, { 4 } };
    t.n_extras = 2;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 1);
    ex[0] = (pkv_extra){ -3, 5, { 3 } }; /* covers the first token */
    t.n_extras = 1;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &m));
    assert_int_equal(m.claimed, 0);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tail_is_found_and_copied),
        cmocka_unit_test(a_full_block_serves_a_part),
        cmocka_unit_test(an_unsettled_copy_is_not_published),
        cmocka_unit_test(no_key_outlives_its_content),
        cmocka_unit_test(a_longer_tail_replaces_a_shorter),
        cmocka_unit_test(a_published_tail_is_not_overwritten),
        cmocka_unit_test(the_newest_sixteen),
        cmocka_unit_test(a_hit_is_cut_for_room),
        cmocka_unit_test(a_source_becomes_recent),
        cmocka_unit_test(images_cut_the_hit),
    };
    return cmocka_run_group_tests_name("partial", tests, NULL, NULL);
}
