/* What goes first: priorities and what they do to prefixes, hits and the share they may protect,
 * decay, eviction by hand, and content of older epochs. */
#include "mgr_fixture.h"

#define CACHE PKV_MGR_PREFIX_CACHE

/* A sequence with this text, its tokens [first, first + n) retained. */
static pkv_seq retained(fx *f, const char *text, int32_t first, int32_t n, int32_t priority)
{
    pkv_seq s = fx_with(f, text);
    assert_ok(pkv_seq_retain(f->m, s, first, n, priority));
    return s;
}

static void publish(fx *f, const char *text)
{
    fx_close(f, fx_with(f, text));
}

/* Claims the text, commits one token more, which counts as a hit, and stays open. */
static pkv_seq hit(fx *f, const char *text)
{
    pkv_seq s;
    assert_int_equal(fx_match(f, text, (int32_t)strlen(text) + 1, &s), (int32_t)strlen(text));
    assert_ok(fx_put(f, s, "?", PKV_STEP_NONE));
    return s;
}

/* These units are the first of the eviction order, in this order. Each is a text, of which the last
 * unit is meant; it is there before and not after one more eviction. NULL ends the list. */
static void goes(fx *f, const char *const *text)
{
    for (; *text; text++) {
        int32_t length = (int32_t)strlen(*text);
        assert_int_equal(fx_probe(f, *text), length);
        fx_evict(f, 1);
        if (fx_probe(f, *text) != length - 2) fail_msg("%s is still there", *text);
        fx_check(f);
    }
}
#define GOES(f, ...) goes(f, (const char *const[]){ __VA_ARGS__, NULL })

static void lowest_priority_first(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    static const char *const text[8] = { "a5", "b0", "c7", "d3", "e1", "f6", "g2", "h4" };
    pkv_seq s[8];
    for (int i = 0; i < 8; i++) s[i] = retained(f, text[i], 0, 2, text[i][1] - '0');
    for (int i = 0; i < 8; i++) fx_close(f, s[i]);
    assert_int_equal(fx_stats(f).cached_blocks, 8);
    GOES(f, "b0", "e1", "g2", "d3", "h4", "a5", "f6", "c7");
    fx_end(f);
}

/* Within a class what became evictable first; what was in use again comes behind the others. */
static void oldest_first_in_a_class(void **state)
{
    (void)state;
    for (int32_t priority = 0; priority <= 7; priority++) {
        fx *f = fx_new(30, 2, CACHE);
        fx_close(f, retained(f, "aa", 0, 2, priority));
        fx_close(f, retained(f, "bb", 0, 2, priority));
        fx_close(f, retained(f, "cc", 0, 2, priority));
        assert_int_equal(fx_match(f, "aa", 0, NULL), 2);
        GOES(f, "bb", "cc", "aa");
        fx_end(f);
    }
}

/* reserve takes victims in the same order. */
static void reserve_evicts_in_order(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, CACHE);
    fx_close(f, retained(f, "aa", 0, 2, 5));
    publish(f, "bb");
    fx_close(f, retained(f, "cc", 0, 2, 1));
    pkv_seq s = fx_open(f);
    static const char *const order[3] = { "cc", "bb", "aa" };
    for (int32_t i = 0; i < 3; i++) {
        assert_int_equal(fx_need(f, s, 2 * i + 2).evictions, 1);
        assert_int_equal(fx_probe(f, order[i]), 2);
        fx_reserve(f, s, 2 * i + 2);
        assert_int_equal(fx_probe(f, order[i]), 0);
        assert_int_equal(fx_stats(f).evicted_blocks, (uint64_t)i + 1);
    }
    fx_close(f, s);
    fx_end(f);
}

/* The class of a continuation is passed to what it hangs on, and only upwards. */
static void no_prefix_before_its_continuation(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    fx_close(f, retained(f, "55", 0, 2, 5));
    fx_close(f, retained(f, "abcdef", 2, 1, 6)); /* the second unit */
    publish(f, "zz");
    GOES(f, "abcdef", "zz", "55", "abcd", "ab");
    fx_close(f, retained(f, "abcd", 0, 1, 0)); /* the parent alone: no effect on the order */
    fx_close(f, retained(f, "11", 0, 2, 1));
    GOES(f, "11", "abcd", "ab");
    fx_close(f, retained(f, "abcd", 3, 1, 0)); /* the child alone */
    publish(f, "zz");
    fx_close(f, retained(f, "11", 0, 2, 1));
    GOES(f, "abcd", "11", "ab", "zz");
    fx_end(f);
}

/* Complete units that the range touches, no others. */
static void what_a_range_touches(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    fx_close(f, retained(f, "abcdefgh", 3, 2, 7)); /* "cd" and "ef", and their prefix */
    publish(f, "zz");
    GOES(f, "abcdefgh", "zz", "abcdef", "abcd", "ab");
    pkv_seq s = retained(f, "abc", 2, 1, 7); /* not complete */
    assert_ok(pkv_seq_retain(f->m, s, 3, 0, 7));
    assert_ok(pkv_seq_retain(f->m, s, 1, 0, 7)); /* touches nothing */
    fx_commit(f, s, "d");
    fx_close(f, s);
    publish(f, "zz");
    GOES(f, "abcd", "ab", "zz");
    fx_end(f);
}

/* A priority belongs to the content: all who share it, until it is evicted; the last word counts.
 */
static void a_priority_belongs_to_the_content(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    pkv_seq a = fx_with(f, "aa"), b = fx_with(f, "aa"), c = fx_fork(f, a);
    assert_ok(pkv_seq_retain(f->m, a, 0, 2, 1));
    assert_ok(pkv_seq_retain(f->m, c, 0, 2, 6));
    fx_close(f, a);
    fx_close(f, c);
    fx_close(f, b); /* the spare has it now */
    publish(f, "zz");
    assert_int_equal(fx_match(f, "aa", 0, NULL), 2); /* a hit does not change it */
    publish(f, "yy");
    GOES(f, "zz", "yy", "aa");
    publish(f, "aa");
    publish(f, "zz");
    GOES(f, "aa", "zz");
    fx_end(f);
}

/* What is committed in an open step can be retained already. */
static void pending_content_is_retained(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "aa", one);
    assert_ok(pkv_seq_retain(f->m, a, 0, 2, 6));
    fx_close(f, a);
    fx_retire(f, one);
    publish(f, "zz");
    GOES(f, "zz", "aa");
    fx_end(f);
}

/* ---------------------------------------------------------------- hits */

/* Content hit once outlives what was never hit, if the sequence went on to commit. */
static void a_hit_protects(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    publish(f, "aa");
    publish(f, "bb");
    publish(f, "cc");
    fx_close(f, hit(f, "aa"));
    assert_int_equal(fx_stats(f).protected_blocks, 1);
    publish(f, "dd");
    GOES(f, "bb", "cc", "dd", "aa");
    publish(f, "aa");
    publish(f, "bb");
    publish(f, "cc");
    assert_int_equal(fx_match(f, "aa", 0, NULL), 2); /* no commit: recent, not protected */
    assert_int_equal(fx_stats(f).protected_blocks, 0);
    publish(f, "dd");
    GOES(f, "bb", "cc", "aa", "dd");
    fx_end(f);
}

/* Only what is left of the claim at the commit was hit; a child inherits the claim. */
static void what_is_left_of_the_claim(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    pkv_seq s;
    publish(f, "abcd");
    publish(f, "zz");
    assert_int_equal(fx_match(f, "abcd", 0, &s), 4);
    fx_truncate(f, s, 2);
    fx_commit(f, s, "xy");
    fx_close(f, s);
    publish(f, "qq");
    assert_int_equal(fx_stats(f).protected_blocks, 1);
    GOES(f, "zz", "abcd", "abxy", "qq", "ab");
    publish(f, "aa");
    publish(f, "bb");
    publish(f, "cc");
    assert_int_equal(fx_match(f, "aa", 0, &s), 2);
    pkv_seq kid = fx_fork(f, s);
    fx_close(f, s);
    fx_commit(f, kid, "x");
    fx_close(f, kid);
    publish(f, "dd");
    GOES(f, "bb", "cc", "dd", "aa");
    fx_end(f);
}

/* At most a third of what is cached is protected; the oldest give way and are behind the others
 * that were there before. */
static void one_third(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    static const char *const text[7] = { "aa", "bb", "cc", "dd", "ee", "ff", "gg" };
    static const int32_t protected[7] = { 0, 0, 1, 1, 1, 2, 2 };
    pkv_seq s[7];
    for (int i = 0; i < 7; i++) publish(f, text[i]);
    for (int i = 0; i < 7; i++) s[i] = hit(f, text[i]);
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    for (int i = 0; i < 7; i++) {
        fx_close(f, s[i]);
        assert_int_equal(fx_stats(f).cached_blocks, i + 1);
        assert_int_equal(fx_stats(f).protected_blocks, protected[i]);
    }
    publish(f, "zz");
    assert_int_equal(fx_stats(f).protected_blocks, 2);
    GOES(f, "aa", "bb", "cc", "dd", "ee", "zz", "ff", "gg");
    fx_end(f);
}

/* One long prompt that is never hit again passes through probation only. */
static void a_scan_leaves_what_was_hit(void **state)
{
    (void)state;
    fx *f = fx_new(17, 2, CACHE);
    publish(f, "abcdef");
    publish(f, "zz");
    for (char c = 'a'; c < 'c'; c++) publish(f, (char[]){ c, '1', c, '2', c, '3', c, '4', 0 });
    fx_close(f, hit(f, "abcdef")); /* 3 of 12 */
    assert_int_equal(fx_stats(f).protected_blocks, 3);
    for (char c = 'A'; c < 'U'; c++) publish(f, (char[]){ c, '1', c, '2', c, '3', c, '4', 0 });
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    assert_int_equal(fx_probe(f, "zz"), 0);
    fx_end(f);
}

/* ---------------------------------------------------------------- decay */

static void decay_lowers_all_above_the_default(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    pkv_seq used = retained(f, "u7", 0, 2, 7);
    fx_close(f, retained(f, "a7", 0, 2, 7));
    fx_close(f, retained(f, "b5", 0, 2, 5));
    fx_close(f, retained(f, "c4", 0, 2, 4));
    fx_close(f, retained(f, "d2", 0, 2, 2));
    for (int i = 0; i < 4; i++) publish(f, (char[]){ 'p', (char)('1' + i), 0 });
    assert_int_equal(fx_stats(f).protected_blocks, 0);
    assert_ok(pkv_blockmgr_decay(f->m)); /* a6 b4 c3 */
    assert_int_equal(fx_stats(f).protected_blocks, 1);
    fx_close(f, retained(f, "e5", 0, 2, 5)); /* between b and a */
    assert_ok(pkv_blockmgr_decay(f->m));     /* a5 e4 b3 */
    assert_int_equal(fx_stats(f).protected_blocks, 2);
    assert_ok(pkv_blockmgr_decay(f->m)); /* a4 e3 */
    fx_close(f, used);                   /* 7 - 3: with a */
    publish(f, "p5");
    GOES(f, "d2", "p1", "p2", "p3", "p4", "p5", "c4", "b5", "e5", "a7", "u7");
    fx_end(f);
}

static void decay_goes_no_lower(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    fx_close(f, retained(f, "a7", 0, 2, 7));
    for (int i = 0; i < 3; i++) publish(f, (char[]){ 'p', (char)('1' + i), 0 });
    for (int i = 0; i < 9; i++) assert_ok(pkv_blockmgr_decay(f->m));
    fx_close(f, retained(f, "b4", 0, 2, 4));
    GOES(f, "p1", "p2", "p3", "a7", "b4");
    fx_end(f);
}

/* What a prefix owes to its continuation decays with it. */
static void decay_keeps_prefixes_behind(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    fx_close(f, retained(f, "abcd", 2, 2, 6));
    for (int i = 0; i < 3; i++) publish(f, (char[]){ 'p', (char)('1' + i), 0 });
    pkv_seq s;
    assert_int_equal(fx_match(f, "abcd", 0, &s), 4); /* in use while it decays */
    assert_ok(pkv_blockmgr_decay(f->m));
    fx_close(f, s);
    fx_close(f, retained(f, "x5", 0, 2, 5));
    GOES(f, "p1", "p2", "p3", "abcd", "ab", "x5");
    fx_end(f);
}

/* A priority given after a decay is not lowered by it. */
static void decay_is_over_when_it_returns(void **state)
{
    (void)state;
    fx *f = fx_new(30, 2, CACHE);
    pkv_seq a = fx_with(f, "aa");
    assert_ok(pkv_seq_retain(f->m, a, 0, 2, 7));
    for (int i = 0; i < 3; i++) assert_ok(pkv_blockmgr_decay(f->m));
    assert_ok(pkv_seq_retain(f->m, a, 0, 2, 7));
    fx_close(f, a);
    fx_close(f, retained(f, "bb", 0, 2, 6));
    GOES(f, "bb", "aa");
    fx_end(f);
}

/* ---------------------------------------------------------------- evict */

static void evict_by_hand(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    int32_t n = -1;
    assert_ok(pkv_blockmgr_evict(f->m, 3, &n));
    assert_int_equal(n, 0);
    publish(f, "abcdef");
    pkv_seq s = fx_with(f, "xy"), limbo = fx_with(f, "lm");
    assert_ok(pkv_blockmgr_evict(f->m, 0, &n));
    assert_int_equal(n, 0);
    pkv_step one = fx_begin(f);
    fx_close(f, limbo);
    assert_ok(pkv_blockmgr_evict(f->m, 2, &n));
    assert_int_equal(n, 2);
    assert_int_equal(fx_stats(f).evicted_blocks, 2);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_ok(pkv_blockmgr_evict(f->m, INT32_MAX, &n)); /* not what is in use or waits */
    assert_int_equal(n, 1);
    assert_int_equal(fx_probe(f, "xy"), 2);
    assert_int_equal(fx_probe(f, "lm"), 2);
    assert_int_equal(fx_stats(f).free_blocks, 7);
    fx_retire(f, one);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* ---------------------------------------------------------------- epochs */

static void old_content_never_matches_again(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    uint32_t epoch = fx_stats(f).epoch;
    fx_close(f, retained(f, "aa", 0, 2, 7));
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    assert_int_equal(fx_stats(f).epoch, epoch + 1);
    assert_int_equal(fx_probe(f, "aa"), 0);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    fx_close(f, retained(f, "aa", 0, 2, 0)); /* another content, and the old one goes first */
    assert_int_equal(fx_probe(f, "aa"), 2);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    fx_evict(f, 1);
    assert_int_equal(fx_probe(f, "aa"), 2);
    GOES(f, "aa");
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

/* Old content keeps its order; what comes out of use later is behind it. */
static void old_content_keeps_its_order(void **state)
{
    (void)state;
    fx *f = fx_new(6, 2, CACHE);
    pkv_seq used = retained(f, "uu", 0, 2, 0), s, first, other = fx_open(f);
    first = retained(f, "aa", 0, 2, 6);
    s = retained(f, "bb", 0, 2, 1);
    int32_t order[3] = { fx_block(f, s, 0), fx_block(f, first, 0), fx_block(f, used, 0) };
    fx_close(f, first);
    fx_close(f, s);
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    fx_close(f, used);
    fx_close(f, retained(f, "nn", 0, 2, 0));
    assert_int_equal(fx_stats(f).cached_blocks, 4);
    fx_reserve(f, other, 2);
    for (int32_t i = 0; i < 3; i++) {
        fx_reserve(f, other, 2 * i + 4);
        assert_int_equal(fx_block(f, other, i + 1), order[i]);
    }
    assert_int_equal(fx_probe(f, "nn"), 2);
    fx_close(f, other);
    fx_end(f);
}

/* Running sequences go on, and what they settle is not indexed until they begin anew. */
static void sequences_carry_their_epoch(void **state)
{
    (void)state;
    fx *f = fx_new(20, 2, CACHE);
    pkv_seq a = fx_with(f, "ab"), pending = fx_open(f), empty = fx_open(f), matched = fx_open(f);
    uint32_t epoch = fx_info(f, a).epoch;
    int32_t ids[4];
    pkv_tokens t = fx_text("cd", ids);
    pkv_step one = fx_begin(f);
    fx_commit_in(f, pending, "pq", one);
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    fx_retire(f, one);
    assert_int_equal(fx_info(f, pending).settled, 2);
    assert_int_equal(fx_probe(f, "pq"), 0);
    fx_commit(f, a, "cd");
    pkv_seq kid = fx_fork(f, a);
    assert_int_equal(fx_info(f, kid).epoch, epoch);
    fx_commit(f, kid, "ef");
    fx_commit(f, empty, "mn");
    assert_int_equal(fx_probe(f, "abcdef"), 0);
    assert_int_equal(fx_probe(f, "mn"), 0);
    assert_int_equal(fx_stats(f).unindexed_units, 4); /* pq cd ef mn */
    fx_truncate(f, a, 0);
    assert_int_equal(fx_info(f, a).epoch, epoch + 1);
    fx_commit(f, a, "ab");
    assert_int_equal(fx_probe(f, "ab"), 2);
    assert_int_equal(fx_info(f, matched).epoch, epoch);
    assert_ok(pkv_seq_match(f->m, matched, &t, 2, 2, &f->work, &f->match));
    assert_int_equal(fx_info(f, matched).epoch, epoch + 1);
    assert_ok(fx_put(f, matched, "cd", PKV_STEP_NONE));
    assert_int_equal(fx_probe(f, "cd"), 2);
    fx_close(f, a);
    fx_close(f, kid);
    fx_close(f, pending);
    fx_close(f, empty);
    fx_close(f, matched);
    assert_int_equal(fx_stats(f).cached_blocks, 3); /* the old "ab", the new "ab" and "cd" */
    assert_int_equal(fx_drain(f), 19);
    fx_end(f);
}

/* ---------------------------------------------------------------- one list */

static void plain_lru(void **state)
{
    (void)state;
    fx *f = fx_new(20, 2, CACHE | PKV_MGR_PLAIN_LRU);
    fx_close(f, retained(f, "a7", 0, 2, 7));
    fx_close(f, retained(f, "b0", 0, 2, 0));
    publish(f, "cc");
    fx_close(f, hit(f, "b0"));
    assert_int_equal(fx_stats(f).protected_blocks, 0);
    assert_ok(pkv_blockmgr_decay(f->m));
    publish(f, "dd");
    GOES(f, "a7", "cc", "b0", "dd");
    publish(f, "aa");
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    publish(f, "bb");
    fx_evict(f, 1);
    GOES(f, "bb");
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lowest_priority_first),
        cmocka_unit_test(oldest_first_in_a_class),
        cmocka_unit_test(reserve_evicts_in_order),
        cmocka_unit_test(no_prefix_before_its_continuation),
        cmocka_unit_test(what_a_range_touches),
        cmocka_unit_test(a_priority_belongs_to_the_content),
        cmocka_unit_test(pending_content_is_retained),
        cmocka_unit_test(a_hit_protects),
        cmocka_unit_test(what_is_left_of_the_claim),
        cmocka_unit_test(one_third),
        cmocka_unit_test(a_scan_leaves_what_was_hit),
        cmocka_unit_test(decay_lowers_all_above_the_default),
        cmocka_unit_test(decay_goes_no_lower),
        cmocka_unit_test(decay_keeps_prefixes_behind),
        cmocka_unit_test(decay_is_over_when_it_returns),
        cmocka_unit_test(evict_by_hand),
        cmocka_unit_test(old_content_never_matches_again),
        cmocka_unit_test(old_content_keeps_its_order),
        cmocka_unit_test(sequences_carry_their_epoch),
        cmocka_unit_test(plain_lru),
    };
    return cmocka_run_group_tests_name("policy", tests, NULL, NULL);
}
