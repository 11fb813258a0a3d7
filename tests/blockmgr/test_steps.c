/* Steps: what is committed in an open one settles when it retires, what is released under one waits
 * in LIMBO, what an abort takes back, and what closed sequences still settle. */
#include "mgr_fixture.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define IN_ORDER (PKV_MGR_PREFIX_CACHE | PKV_MGR_IN_ORDER)

static void lengths(fx *f, pkv_seq s, int32_t settled, int32_t committed, int32_t reserved)
{
    pkv_seq_info_t i = fx_info(f, s);
    assert_int_equal(i.settled, settled);
    assert_int_equal(i.committed, committed);
    assert_int_equal(i.reserved, reserved);
}

static void states(fx *f, int32_t active, int32_t cached, int32_t limbo)
{
    pkv_blockmgr_stats_t s = fx_stats(f);
    assert_int_equal(s.active_blocks, active);
    assert_int_equal(s.cached_blocks, cached);
    assert_int_equal(s.limbo_blocks, limbo);
}

/* Numbered from 1 in the order of their begin, as many as allowed, retired in any order, and gone
 * for ever then. */
static void steps_come_and_go(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 2, CACHE);
    cfg.max_steps = 2;
    fx *f = fx_from(&cfg);
    pkv_step one = fx_begin(f), two = fx_begin(f), no = { 77 };
    assert_int_equal(one.v, 1);
    assert_int_equal(two.v, 2);
    assert_int_equal(fx_stats(f).open_steps, 2);
    fx_refused(f, PKV_E_LIMIT, pkv_step_begin(f->m, &no));
    assert_int_equal(no.v, 77);
    fx_retire(f, one);
    assert_int_equal(fx_stats(f).open_steps, 1);
    fx_refused(f, PKV_E_STALE, pkv_step_retire(f->m, one));
    fx_refused(f, PKV_E_STALE, pkv_step_abort(f->m, one));
    pkv_step three = fx_begin(f);
    assert_int_equal(three.v, 3);
    fx_retire(f, three);
    fx_abort(f, two);
    fx_refused(f, PKV_E_STALE, pkv_step_retire(f->m, two));
    fx_refused(f, PKV_E_STALE, pkv_step_abort(f->m, two));
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 2);
    for (uint64_t v = 1; v <= 5; v++)
        fx_refused(f, PKV_E_STALE, fx_put(f, s, "a", (pkv_step){ v }));
    assert_int_equal(fx_stats(f).open_steps, 0);
    fx_close(f, s);
    fx_end(f);
}

static void findable_when_the_step_has_retired(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step s = fx_begin(f);
    fx_commit_in(f, a, "abcde", s);
    lengths(f, a, 0, 5, 5);
    assert_int_equal(fx_info(f, a).n_pending, 1);
    assert_int_equal(fx_info(f, a).n_indexed, 0);
    assert_int_equal(fx_probe(f, "abcdefgh"), 0);
    assert_int_equal(fx_stats(f).nodes, 1); /* prepared */
    fx_retire(f, s);
    lengths(f, a, 5, 5, 5);
    assert_int_equal(fx_info(f, a).n_pending, 0);
    assert_int_equal(fx_info(f, a).n_indexed, 1);
    assert_int_equal(fx_probe(f, "abcdefgh"), 4);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_close(f, a);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* settled is the end of the longest prefix of the list whose steps have all retired. */
static void a_prefix_of_the_list_settles(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step s[3];
    for (int i = 0; i < 3; i++) {
        static const char *const text[3] = { "ab", "cde", "f" };
        s[i] = fx_begin(f);
        fx_commit_in(f, a, text[i], s[i]);
    }
    assert_int_equal(fx_info(f, a).n_pending, 3);
    fx_retire(f, s[1]);
    lengths(f, a, 0, 6, 6);
    assert_int_equal(fx_info(f, a).n_pending, 2);
    fx_retire(f, s[0]);
    lengths(f, a, 5, 6, 6);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    fx_retire(f, s[2]);
    lengths(f, a, 6, 6, 6);
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    assert_int_equal(fx_info(f, a).n_pending, 0);
    fx_close(f, a);
    fx_end(f);
}

/* As many open steps as there can be, a commit in each, and a fork that has them all. */
static void sixty_four_steps(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(100, 2, CACHE);
    cfg.max_steps = 64;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_open(f);
    pkv_step s[64];
    for (int i = 0; i < 64; i++) fx_commit_in(f, a, "a", s[i] = fx_begin(f));
    pkv_seq kid = fx_fork(f, a);
    assert_int_equal(fx_info(f, kid).n_pending, 64);
    for (int i = 63; i > 0; i--) fx_retire(f, s[i]);
    lengths(f, a, 0, 64, 64);
    assert_int_equal(fx_info(f, a).n_pending, 1);
    fx_retire(f, s[0]);
    lengths(f, a, 64, 64, 64);
    lengths(f, kid, 64, 64, 64);
    fx_end(f);
}

/* A second commit in a step that is in the list, and one without a step behind pending ones, settle
 * with the last entry. */
static void commits_that_join_the_last_entry(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, a, "ab", one);
    fx_commit_in(f, a, "cd", two);
    fx_commit_in(f, a, "ef", one);
    fx_commit(f, a, "gh");
    assert_int_equal(fx_info(f, a).n_pending, 2);
    fx_retire(f, one);
    lengths(f, a, 2, 8, 8);
    fx_retire(f, two);
    lengths(f, a, 8, 8, 8);
    fx_truncate(f, a, 0);
    fx_commit(f, a, "ab"); /* nothing pending: at once */
    lengths(f, a, 2, 2, 2);
    pkv_step three = fx_begin(f);
    fx_commit(f, a, "cd"); /* a step is open, but not for this sequence */
    lengths(f, a, 4, 4, 4);
    fx_commit_in(f, a, "ef", three);
    fx_commit(f, a, "gh");
    lengths(f, a, 4, 8, 8);
    assert_int_equal(fx_info(f, a).n_pending, 1);
    fx_abort(f, three); /* takes both */
    lengths(f, a, 4, 4, 4);
    fx_close(f, a);
    fx_end(f);
}

/* A commit of no tokens changes nothing: no entry in the list, digest as before. */
static void an_empty_commit_in_a_step(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "ab");
    pkv_step s = fx_begin(f);
    fx_refused(f, PKV_OK, fx_put(f, a, "", s));
    assert_int_equal(fx_info(f, a).n_pending, 0);
    fx_refused(f, PKV_E_STATE, fx_put(f, a, "c", s)); /* not reserved */
    fx_retire(f, s);
    fx_close(f, a);
    fx_end(f);
}

/* A block released while a step is open comes back when every step begun before has retired. */
static void limbo_waits_for_all_earlier_steps(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "abc"), b = fx_with(f, "xy");
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_close(f, a);
    states(f, 1, 0, 2);
    pkv_step three = fx_begin(f);
    fx_retire(f, two);
    states(f, 1, 0, 2);
    fx_close(f, b); /* behind step 3 */
    states(f, 0, 0, 3);
    fx_retire(f, one);
    states(f, 0, 1, 1); /* "ab" is kept, "c" is free */
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_retire(f, three);
    states(f, 0, 2, 0);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* The stamp is the newest step begun, also if that one has retired already. */
static void the_stamp_is_the_newest_step_begun(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, 0);
    pkv_seq a = fx_open(f), b = fx_open(f);
    fx_reserve(f, a, 6);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_retire(f, two);
    fx_close(f, a);
    states(f, 0, 0, 3);
    pkv_need n = fx_need(f, b, 2);
    assert_int_equal(n.verdict, PKV_E_AGAIN);
    assert_int_equal(n.step.v, one.v);
    fx_begin(f);
    fx_retire(f, one);
    states(f, 0, 0, 0);
    fx_close(f, b);
    fx_end(f);
}

/* Seven usable blocks: one free, then two each under steps 1, 2 and 3. */
static fx *two_blocks_per_step(pkv_step *s, pkv_seq *e)
{
    fx *f = fx_new(8, 2, 0);
    pkv_seq q[3];
    for (int i = 0; i < 3; i++) {
        q[i] = fx_open(f);
        fx_reserve(f, q[i], 4);
    }
    *e = fx_open(f);
    for (int i = 0; i < 3; i++) {
        s[i] = fx_begin(f);
        fx_close(f, q[i]);
    }
    states(f, 0, 0, 6);
    return f;
}

static void need_names_the_step(void **state)
{
    (void)state;
    pkv_step s[3];
    pkv_seq e;
    static const int step_of[8] = { -1, -1, 0, 0, 1, 1, 2, 2 }; /* for this many blocks */
    fx *f = two_blocks_per_step(s, &e);
    assert_int_equal(fx_need(f, e, 2).verdict, PKV_OK);
    for (int32_t k = 2; k <= 7; k++) {
        pkv_need n = fx_need(f, e, 2 * k);
        assert_int_equal(n.verdict, PKV_E_AGAIN);
        assert_int_equal(n.step.v, s[step_of[k]].v);
        assert_int_equal(n.new_blocks, k);
        assert_int_equal(n.evictions, 0);
        fx_refused(f, PKV_E_AGAIN, fx_try_reserve(f, e, 2 * k));
    }
    assert_int_equal(fx_need(f, e, 16).verdict, PKV_E_NEVER);
    assert_int_equal(fx_need(f, e, 16).step.v, 0);
    fx_close(f, e);
    fx_end(f);
    for (int32_t k = 2; k <= 7; k++) { /* and that step is enough, none is too many */
        fx *g = two_blocks_per_step(s, &e);
        for (int i = 0; i <= step_of[k]; i++) {
            fx_refused(g, PKV_E_AGAIN, fx_try_reserve(g, e, 2 * k));
            fx_retire(g, s[i]);
        }
        fx_reserve(g, e, 2 * k);
        fx_end(g);
    }
}

/* Of two sequences the second asks for what not even LIMBO has. */
static void limbo_may_not_be_enough(void **state)
{
    (void)state;
    pkv_step s[3];
    pkv_seq e;
    fx *f = two_blocks_per_step(s, &e);
    pkv_seq d = fx_open(f);
    fx_reserve(f, d, 2);
    pkv_reserve_req q[2] = { { e, 8 }, { d, 4 } };
    pkv_need n = PKV_NEED_INIT;
    assert_ok(pkv_blockmgr_need(f->m, q, 2, &n)); /* 4 + 1 of 6 */
    assert_int_equal(n.verdict, PKV_E_AGAIN);
    assert_int_equal(n.step.v, s[2].v);
    q[1].n_tokens = 8; /* 4 + 3 */
    assert_ok(pkv_blockmgr_need(f->m, q, 2, &n));
    assert_int_equal(n.verdict, PKV_E_NO_BLOCKS);
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_reserve(f->m, q, 2, &f->work));
    for (int i = 2; i >= 0; i--) { /* any order: all come back with the last */
        fx_retire(f, s[i]);
        states(f, 1, 0, i ? 6 : 0);
    }
    fx_end(f);
}

/* Settled content is immutable: a hit on a block in LIMBO is as good as any other. */
static void a_hit_in_limbo(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, CACHE);
    pkv_seq a = fx_with(f, "abcd"), b;
    int32_t first = fx_block(f, a, 0);
    pkv_step s = fx_begin(f);
    fx_close(f, a);
    states(f, 0, 0, 2);
    assert_int_equal(fx_match(f, "abxy", 4, &b), 2);
    assert_int_equal(f->match.claimed_cached, 0); /* LIMBO is not evictable */
    assert_int_equal(fx_block(f, b, 0), first);
    states(f, 2, 0, 1);
    int32_t ids[8];
    pkv_tokens t = fx_text("abcdef", ids);
    pkv_seq c = fx_open(f); /* both hits, but no block for the rest until the step retires: never */
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_match(f->m, c, &t, 6, 6, &f->work, &f->match));
    fx_close(f, b);
    fx_refused(f, PKV_E_AGAIN, pkv_seq_match(f->m, c, &t, 6, 6, &f->work, &f->match));
    fx_retire(f, s);
    states(f, 0, 2, 0);
    assert_ok(pkv_seq_match(f->m, c, &t, 6, 6, &f->work, &f->match));
    assert_int_equal(f->match.claimed, 4);
    assert_int_equal(f->match.claimed_cached, 2);
    fx_close(f, c);
    fx_end(f);
}

static void abort_cuts_to_before_the_first_commit(void **state)
{
    (void)state;
    fx *f = fx_new(12, 2, CACHE);
    pkv_seq a = fx_with(f, "ab"), other = fx_with(f, "xy");
    pkv_step one = fx_begin(f), two = fx_begin(f), three = fx_begin(f);
    fx_commit_in(f, a, "c", one);
    fx_commit_in(f, a, "def", two);
    fx_commit_in(f, a, "gh", three);
    fx_reserve(f, a, 3);
    fx_reserve(f, other, 5);
    assert_int_equal(fx_stats(f).nodes, 2 + 3);
    fx_abort(f, two);
    lengths(f, a, 2, 3, 3);
    lengths(f, other, 2, 2, 7); /* nothing of it in that step */
    assert_int_equal(fx_info(f, a).n_pending, 1);
    assert_int_equal(fx_row_len(f, a), 2);
    assert_int_equal(fx_stats(f).nodes, 2);
    assert_int_equal(fx_stats(f).limbo_blocks, 4); /* [ef] [gh] and two of the surplus */
    fx_retire(f, three);
    lengths(f, a, 2, 3, 3);
    fx_commit_in(f, a, "z", one); /* the same slot again, and the same step */
    fx_retire(f, one);
    lengths(f, a, 4, 4, 4);
    assert_int_equal(fx_probe(f, "abcz"), 4);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    assert_int_equal(fx_stats(f).limbo_blocks, 0);
    assert_int_equal(fx_stats(f).free_blocks, 11 - 2 - 4);
    fx_close(f, a);
    fx_close(f, other);
    assert_int_equal(fx_drain(f), 11);
    fx_end(f);
}

/* The last open step: nothing waits, its blocks are free at once. */
static void abort_of_the_only_step_frees(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step s = fx_begin(f);
    fx_commit_in(f, a, "abcd", s);
    fx_abort(f, s);
    lengths(f, a, 0, 0, 0);
    states(f, 0, 0, 0);
    assert_int_equal(fx_stats(f).nodes, 0);
    assert_int_equal(fx_probe(f, "abcd"), 0);
    fx_close(f, a);
    fx_end(f);
}

/* A child is cut with its parent, in whichever of the two rows comes first. */
static void abort_in_any_order_of_rows(void **state)
{
    (void)state;
    for (int lower = 0; lower <= 1; lower++) {
        fx *f = fx_new(10, 2, CACHE);
        pkv_seq first = fx_open(f), a = fx_open(f);
        if (lower) fx_close(f, first); /* the child gets this row */
        pkv_step one = fx_begin(f);
        fx_commit_in(f, a, "abcdef", one);
        pkv_seq kid = fx_fork(f, a);
        assert_int_equal(fx_info(f, kid).row_idx < fx_info(f, a).row_idx, lower);
        fx_abort(f, one);
        lengths(f, a, 0, 0, 0);
        lengths(f, kid, 0, 0, 0);
        states(f, 0, 0, 0);
        assert_int_equal(fx_stats(f).nodes, 0);
        assert_int_equal(fx_drain(f), 9);
        fx_end(f);
    }
}

/* Open ones are cut before closed ones, whichever of the two was the parent. */
static void abort_with_a_closed_fork(void **state)
{
    (void)state;
    for (int parent = 0; parent <= 1; parent++) {
        fx *f = fx_new(10, 2, CACHE);
        pkv_seq a = fx_open(f);
        pkv_step one = fx_begin(f);
        fx_commit_in(f, a, "abcd", one);
        pkv_seq kid = fx_fork(f, a), left = parent ? kid : a;
        fx_close(f, parent ? a : kid);
        fx_abort(f, one);
        lengths(f, left, 0, 0, 0);
        states(f, 0, 0, 0);
        assert_int_equal(fx_stats(f).closing_seqs, 0);
        assert_int_equal(fx_stats(f).nodes, 0);
        assert_int_equal(fx_drain(f), 9);
        fx_end(f);
    }
}

/* Children that inherited the commit are cut too, with what they committed later; one that was cut
 * before it is not. */
static void abort_cuts_the_forks(void **state)
{
    (void)state;
    fx *f = fx_new(20, 2, CACHE);
    pkv_seq a = fx_with(f, "ab");
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "cd", one);
    pkv_seq b = fx_fork(f, a), c = fx_fork(f, a), d = fx_fork(f, a);
    assert_int_equal(fx_info(f, b).n_pending, 1);
    assert_int_equal(fx_stats(f).nodes, 2); /* a prepared node is shared */
    pkv_step two = fx_begin(f);
    fx_commit_in(f, b, "ef", two);
    fx_truncate(f, c, 2);
    assert_int_equal(fx_info(f, c).n_pending, 0);
    fx_commit_in(f, c, "gh", two);
    fx_truncate(f, d, 3);
    assert_int_equal(fx_info(f, d).n_pending, 1);
    fx_abort(f, one);
    lengths(f, a, 2, 2, 2);
    lengths(f, b, 2, 2, 2);
    lengths(f, c, 2, 4, 4);
    lengths(f, d, 2, 2, 2);
    assert_int_equal(fx_stats(f).nodes, 2); /* "ab" and c's "gh" */
    fx_retire(f, two);
    lengths(f, c, 4, 4, 4);
    assert_int_equal(fx_probe(f, "abgh"), 4);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    states(f, 2, 0, 0);
    fx_end(f);
}

/* truncate drops entries at or beyond the new end and clips the one it lies in. */
static void truncate_clips_the_list(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, a, "ab", one);
    fx_commit_in(f, a, "cd", two);
    pkv_seq b = fx_fork(f, a), c = fx_fork(f, a);
    fx_truncate(f, a, 3);
    assert_int_equal(fx_info(f, a).n_pending, 2);
    lengths(f, a, 0, 3, 3);
    fx_truncate(f, b, 2);
    assert_int_equal(fx_info(f, b).n_pending, 1);
    assert_int_equal(fx_stats(f).nodes, 2);
    fx_truncate(f, c, 3);
    assert_int_equal(fx_stats(f).nodes, 1); /* nobody will settle "cd" any more */
    fx_truncate(f, c, 0);
    assert_int_equal(fx_info(f, c).n_pending, 0);
    fx_retire(f, two);
    lengths(f, a, 0, 3, 3);
    fx_retire(f, one);
    lengths(f, a, 3, 3, 3);
    lengths(f, b, 2, 2, 2);
    lengths(f, c, 0, 0, 0);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_end(f);
}

/* A prepared node forbids writing below its end as an indexed one does. */
static void prepared_content_is_copied_from(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, CACHE);
    pkv_seq a = fx_open(f);
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "abcd", one);
    pkv_seq b = fx_fork(f, a);
    int32_t block = fx_block(f, a, 0);
    fx_truncate(f, b, 3);
    fx_close(f, a); /* settles "abcd" all the same */
    fx_reserve(f, b, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].src, block);
    assert_int_equal(f->copy[0].dst, fx_block(f, b, 0));
    assert_int_equal(f->copy[0].n_tokens, 3);
    states(f, 1, 0, 1);
    fx_retire(f, one);
    states(f, 1, 1, 0);
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_end(f);
}

/* The tail copy of a lone sequence is left out only while no step is open: who reads it then would
 * read what is written into it. */
static void no_writing_in_place_under_a_step(void **state)
{
    (void)state;
    for (int32_t in_order = 0; in_order <= 1; in_order++) {
        fx *f = fx_new(3, 2, in_order ? IN_ORDER : CACHE);
        pkv_seq a = fx_with(f, "abcd");
        fx_truncate(f, a, 3);
        pkv_step s = fx_begin(f);
        if (!in_order) {
            assert_int_equal(fx_need(f, a, 1).verdict, PKV_E_NO_BLOCKS);
            fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, a, 1));
            fx_retire(f, s);
        }
        fx_reserve(f, a, 1);
        assert_int_equal(f->work.n_copy, 0);
        assert_int_equal(fx_stats(f).withdrawn, 1);
        assert_int_equal(fx_probe(f, "abcd"), 2);
        if (in_order) fx_retire(f, s);
        fx_close(f, a);
        assert_int_equal(fx_drain(f), 2);
        fx_end(f);
    }
}

/* With room for it the copy is made, and its source waits for the step. */
static void a_copy_source_goes_to_limbo(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, CACHE);
    pkv_seq a = fx_with(f, "abcd");
    fx_truncate(f, a, 3);
    pkv_step s = fx_begin(f);
    fx_reserve(f, a, 1);
    assert_int_equal(f->work.n_copy, 1);
    states(f, 2, 0, 1);
    assert_int_equal(fx_probe(f, "abcd"), 4); /* content in LIMBO is found */
    fx_retire(f, s);
    states(f, 2, 1, 0);
    fx_close(f, a);
    fx_end(f);
}

/* No node left: what cannot be prepared ends indexing, as without steps. */
static void prepared_nodes_count(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 2, CACHE);
    cfg.max_nodes = 1;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_open(f), b = fx_open(f);
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "abcd", one);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_commit_in(f, b, "xy", one);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_retire(f, one);
    assert_int_equal(fx_info(f, a).n_indexed, 1);
    assert_int_equal(fx_info(f, b).n_indexed, 0);
    assert_int_equal(fx_stats(f).unindexed_units, 2);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_close(f, a);
    fx_close(f, b);
    states(f, 0, 1, 0);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_come_and_go),
        cmocka_unit_test(findable_when_the_step_has_retired),
        cmocka_unit_test(a_prefix_of_the_list_settles),
        cmocka_unit_test(sixty_four_steps),
        cmocka_unit_test(commits_that_join_the_last_entry),
        cmocka_unit_test(an_empty_commit_in_a_step),
        cmocka_unit_test(limbo_waits_for_all_earlier_steps),
        cmocka_unit_test(the_stamp_is_the_newest_step_begun),
        cmocka_unit_test(need_names_the_step),
        cmocka_unit_test(limbo_may_not_be_enough),
        cmocka_unit_test(a_hit_in_limbo),
        cmocka_unit_test(abort_cuts_to_before_the_first_commit),
        cmocka_unit_test(abort_of_the_only_step_frees),
        cmocka_unit_test(abort_in_any_order_of_rows),
        cmocka_unit_test(abort_with_a_closed_fork),
        cmocka_unit_test(abort_cuts_the_forks),
        cmocka_unit_test(truncate_clips_the_list),
        cmocka_unit_test(prepared_content_is_copied_from),
        cmocka_unit_test(no_writing_in_place_under_a_step),
        cmocka_unit_test(a_copy_source_goes_to_limbo),
        cmocka_unit_test(prepared_nodes_count),
    };
    return cmocka_run_group_tests_name("steps", tests, NULL, NULL);
}
