/* What settles after its sequence was closed, or together with equal content: closed sequences keep
 * their place, who keeps the node, partial tails under steps, and managers whose work is in order.
 */
#include "mgr_fixture.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define PARTIAL (PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS)
#define IN_ORDER (PKV_MGR_PREFIX_CACHE | PKV_MGR_IN_ORDER)

static void states(fx *f, int32_t active, int32_t cached, int32_t limbo)
{
    pkv_blockmgr_stats_t s = fx_stats(f);
    assert_int_equal(s.active_blocks, active);
    assert_int_equal(s.cached_blocks, cached);
    assert_int_equal(s.limbo_blocks, limbo);
}

/* The block that a new match of this one unit gets. */
static int32_t holder_of(fx *f, const char *unit)
{
    pkv_seq s;
    assert_int_equal(fx_match(f, unit, 0, &s), (int32_t)strlen(unit));
    int32_t block = fx_block(f, s, 0);
    fx_close(f, s);
    return block;
}

static void a_closed_sequence_publishes_what_settles(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "ab");
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, a, "cd", one);
    fx_commit_in(f, a, "ef", two);
    fx_close(f, a);
    fx_refused(f, PKV_E_STALE, pkv_seq_close(f->m, a));
    assert_int_equal(fx_stats(f).open_seqs, 0);
    assert_int_equal(fx_stats(f).closing_seqs, 1);
    states(f, 0, 0, 3);
    assert_int_equal(fx_probe(f, "abcdef"), 2);
    fx_retire(f, one);
    assert_int_equal(fx_stats(f).closing_seqs, 1);
    states(f, 0, 0, 3);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    fx_retire(f, two);
    assert_int_equal(fx_stats(f).closing_seqs, 0);
    states(f, 0, 3, 0);
    assert_int_equal(fx_probe(f, "abcdef"), 6);
    for (int32_t left = 4; left >= 0; left -= 2) { /* children go first */
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, "abcdef"), left);
    }
    fx_end(f);
}

static void an_abort_cuts_closed_ones_too(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f), b = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, a, "ab", one);
    fx_commit_in(f, a, "cd", two);
    fx_commit_in(f, b, "xy", two);
    fx_close(f, a);
    fx_close(f, b);
    assert_int_equal(fx_stats(f).nodes, 3);
    assert_int_equal(fx_stats(f).closing_seqs, 2);
    fx_abort(f, two);
    assert_int_equal(fx_stats(f).closing_seqs, 1); /* nothing left to wait for in b */
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_retire(f, one);
    assert_int_equal(fx_stats(f).closing_seqs, 0);
    states(f, 0, 1, 0);
    assert_int_equal(fx_probe(f, "abcd"), 2);
    assert_int_equal(fx_probe(f, "xy"), 0);
    fx_end(f);
}

/* Its place is not free before its commits are gone: open and fork say so, the namespace stays. */
static void a_closing_sequence_keeps_its_place(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 2, CACHE);
    cfg.max_seqs = 3;
    fx *f = fx_from(&cfg);
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns;
    pkv_seq a, b = fx_open(f), kids[2], no;
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    assert_ok(pkv_seq_open(f->m, ns, &a));
    int32_t row = fx_info(f, a).row_idx;
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "ab", one);
    fx_refused(f, PKV_E_STATE, pkv_ns_close(f->m, ns));
    fx_close(f, a);
    fx_refused(f, PKV_E_AGAIN, pkv_ns_close(f->m, ns));
    fx_refused(f, PKV_E_AGAIN, pkv_seq_fork(f->m, b, kids, 2)); /* one free, one closing */
    fx_refused(f, PKV_E_LIMIT, pkv_seq_fork(f->m, b, kids, 3));
    pkv_seq c = fx_open(f);
    assert_int_not_equal(fx_info(f, c).row_idx, row);
    fx_refused(f, PKV_E_AGAIN, pkv_seq_open(f->m, ns, &no));
    fx_refused(f, PKV_E_AGAIN, pkv_seq_fork(f->m, b, kids, 1));
    fx_retire(f, one);
    pkv_seq d = fx_open(f);
    assert_int_equal(fx_info(f, d).row_idx, row);
    fx_refused(f, PKV_E_LIMIT, pkv_seq_open(f->m, ns, &no));
    assert_ok(pkv_ns_close(f->m, ns));
    states(f, 0, 0, 0);
    fx_close(f, b);
    fx_close(f, c);
    fx_close(f, d);
    fx_end(f);
}

/* A namespace whose blocks wait in LIMBO can go: they lose their content only. */
static void a_namespace_goes_while_its_blocks_wait(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns;
    pkv_seq a;
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    assert_ok(pkv_seq_open(f->m, ns, &a));
    fx_commit(f, a, "abcd");
    pkv_step one = fx_begin(f);
    fx_close(f, a);
    states(f, 0, 0, 2);
    assert_ok(pkv_ns_close(f->m, ns));
    states(f, 0, 0, 2);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_retire(f, one);
    states(f, 0, 0, 0);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* Places of several closed ones come back in the order of their close, the last one on top. */
static void places_come_back_in_order_of_close(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 2, CACHE);
    cfg.max_seqs = 2;
    fx *f = fx_from(&cfg);
    pkv_seq s[2] = { fx_open(f), fx_open(f) };
    int32_t row[2] = { fx_info(f, s[0]).row_idx, fx_info(f, s[1]).row_idx };
    pkv_step one = fx_begin(f);
    for (int i = 0; i < 2; i++) fx_commit_in(f, s[i], i ? "ab" : "cd", one);
    fx_close(f, s[1]);
    fx_close(f, s[0]);
    fx_retire(f, one);
    assert_int_equal(fx_info(f, fx_open(f)).row_idx, row[0]);
    assert_int_equal(fx_info(f, fx_open(f)).row_idx, row[1]);
    fx_end(f);
}

/* Equal content in one retire: the open sequence with the lower index is the first. */
static void open_ones_settle_in_order_of_index(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_open(f), b = fx_open(f);
    pkv_seq low = fx_info(f, a).row_idx < fx_info(f, b).row_idx ? a : b;
    pkv_seq high = low.v == a.v ? b : a;
    pkv_step one = fx_begin(f);
    fx_commit_in(f, high, "ab", one);
    fx_commit_in(f, low, "ab", one);
    assert_int_equal(fx_stats(f).nodes, 2);
    fx_retire(f, one);
    assert_int_equal(fx_stats(f).nodes, 1);
    assert_int_equal(fx_info(f, high).n_indexed, 1);
    assert_int_equal(holder_of(f, "ab"), fx_block(f, low, 0));
    int32_t spare = fx_block(f, high, 0);
    fx_close(f, low); /* the spare takes over, the first block is free */
    states(f, 1, 0, 0);
    assert_int_equal(holder_of(f, "ab"), spare);
    fx_close(f, high);
    states(f, 0, 1, 0);
    fx_end(f);
}

/* More sequences than fit one word of whatever the manager marks them with. */
static void hundreds_of_sequences(void **state)
{
    (void)state;
    enum { N = 150 };
    for (int which = 0; which <= 1; which++) { /* of the two steps is given up */
        pkv_blockmgr_config cfg = fx_config(400, 2, CACHE);
        cfg.max_seqs = N;
        fx *f = fx_from(&cfg);
        pkv_seq s[N];
        pkv_step step[2] = { fx_begin(f), fx_begin(f) }; /* a third, and two thirds of them */
        int32_t of[2] = { N / 3, N - N / 3 };
        for (int i = 0; i < N; i++) {
            const char text[3] = { (char)('A' + i % 26), (char)('a' + i / 26), 0 };
            s[i] = fx_open(f);
            fx_commit_in(f, s[i], text, step[i % 3 != 0]);
        }
        for (int i = 0; i < N; i += 2) fx_close(f, s[i]);
        fx_retire(f, step[!which]);
        assert_int_equal(fx_stats(f).closing_seqs, of[which] / 2);
        for (int i = 1; i < N; i += 2)
            assert_int_equal(fx_info(f, s[i]).settled, (i % 3 != 0) == which ? 0 : 2);
        fx_abort(f, step[which]);
        assert_int_equal(fx_stats(f).closing_seqs, 0);
        for (int i = 1; i < N; i += 2)
            assert_int_equal(fx_info(f, s[i]).committed, (i % 3 != 0) == which ? 0 : 2);
        states(f, of[!which] / 2, of[!which] / 2, 0);
        fx_end(f);
    }
}

/* A referenced newcomer takes the node from a block in LIMBO, which keeps nothing. */
static void a_referenced_block_wins_over_limbo(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "ab"), b = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, b, "ab", one);
    int32_t newcomer = fx_block(f, b, 0);
    fx_close(f, a);
    states(f, 1, 0, 1);
    fx_retire(f, one);
    states(f, 1, 0, 1);
    assert_int_equal(holder_of(f, "ab"), newcomer);
    fx_retire(f, two);
    states(f, 1, 0, 0); /* the old one had nothing any more */
    fx_close(f, b);
    fx_end(f);
}

/* Of two in LIMBO the one that was released later has the node, whichever settles first. */
static void the_later_release_wins_in_limbo(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        fx *f = fx_new(10, 2, CACHE);
        pkv_seq a = fx_open(f), b = fx_open(f), kid = { 0 };
        pkv_step one = fx_begin(f), two = { 0 };
        fx_commit_in(f, a, "ab", one);
        fx_commit_in(f, b, "ab", one);
        int32_t block[2] = { fx_block(f, a, 0), fx_block(f, b, 0) };
        if (how == 2) kid = fx_fork(f, a);
        fx_close(f, a);
        if (how == 1) two = fx_begin(f);
        fx_close(f, b);
        if (how == 2) fx_truncate(f, kid, 0); /* now a's block is released too */
        assert_int_equal(fx_stats(f).nodes, 2);
        fx_retire(f, one);
        assert_int_equal(fx_stats(f).nodes, 1);
        assert_int_equal(holder_of(f, "ab"), block[how < 2]);
        if (how == 1) fx_retire(f, two);
        states(f, 0, 1, 0);
        assert_int_equal(holder_of(f, "ab"), block[how < 2]);
        fx_end(f);
    }
}

/* Another prompt's late content joins what was released before it: no child is left behind its
 * parent in the order. */
static void a_late_branch_joins_its_parent(void **state)
{
    (void)state;
    fx *f = fx_new(12, 2, CACHE);
    pkv_seq a = fx_with(f, "abcd"), b = fx_open(f);
    pkv_step one = fx_begin(f);
    fx_close(f, a);
    fx_commit_in(f, b, "abxyzw", one);
    fx_close(f, b);
    fx_retire(f, one);
    states(f, 0, 4, 0);
    static const char *const order[4] = { "abcd", "abxyzw", "abxy", "ab" };
    for (int i = 0; i < 4; i++) {
        int32_t length = (int32_t)strlen(order[i]);
        assert_int_equal(fx_probe(f, order[i]), length);
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, order[i]), length - 2);
        fx_check(f);
    }
    fx_end(f);
}

/* Cached content gives way to a copy that is in use, and its block is free at once. */
static void a_settling_copy_frees_the_cached_one(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq a = fx_with(f, "ab"), b = fx_open(f);
    pkv_step one = fx_begin(f);
    fx_commit_in(f, b, "ab", one);
    fx_close(f, a);
    states(f, 1, 0, 1);
    fx_retire(f, one);
    states(f, 1, 0, 0);
    fx_close(f, b);
    pkv_seq c = fx_open(f);
    fx_reserve(f, c, 2);
    states(f, 1, 1, 0);
    pkv_step three = fx_begin(f);
    assert_ok(fx_put(f, c, "ab", three));
    states(f, 1, 1, 0);
    int32_t block = fx_block(f, c, 0);
    fx_retire(f, three);
    states(f, 1, 0, 0);
    assert_int_equal(holder_of(f, "ab"), block);
    fx_close(f, c);
    fx_end(f);
}

/* The copied part of a partial hit settles with the first commit after it, and stays after an
 * abort of that. */
static void the_copied_part_settles_with_the_next_commit(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, PARTIAL);
    pkv_seq s;
    fx_close(f, fx_with(f, "abcdef"));
    assert_int_equal(fx_match(f, "abcdefghi", 9, &s), 6);
    pkv_step one = fx_begin(f);
    assert_ok(fx_put(f, s, "g", one));
    assert_int_equal(fx_info(f, s).settled, 4);
    fx_abort(f, one);
    assert_int_equal(fx_info(f, s).settled, 4);
    assert_int_equal(fx_info(f, s).committed, 6);
    assert_int_equal(fx_info(f, s).reserved, 6);
    assert_int_equal(fx_info(f, s).n_pending, 0);
    pkv_step two = fx_begin(f);
    fx_commit_in(f, s, "g", two);
    pkv_seq kid = fx_fork(f, s);
    assert_int_equal(fx_info(f, kid).settled, 4);
    fx_retire(f, two);
    assert_int_equal(fx_info(f, s).settled, 7);
    assert_int_equal(fx_info(f, kid).settled, 7);
    fx_close(f, kid);
    fx_close(f, s);
    assert_int_equal(fx_probe(f, "abcdefghi"), 7);
    fx_end(f);
}

/* A source of a partial hit that nobody refers to goes through LIMBO while a step is open. */
static void a_partial_source_waits_for_the_step(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, PARTIAL);
    pkv_seq s;
    fx_close(f, fx_with(f, "ab"));
    states(f, 0, 1, 0);
    pkv_step one = fx_begin(f);
    assert_int_equal(fx_match(f, "abc", 0, &s), 2);
    states(f, 1, 0, 1);
    fx_retire(f, one);
    states(f, 1, 1, 0);
    fx_close(f, s);
    states(f, 0, 1, 0);
    fx_end(f);
}

/* close with commits pending prepares the partial tail; it is found when the last of them is gone.
 */
static void a_late_tail(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, PARTIAL);
    pkv_seq a = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, a, "abcde", one);
    fx_commit_in(f, a, "f", two);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_close(f, a);
    assert_int_equal(fx_stats(f).nodes, 2);
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "abcdefgh"), 4);
    fx_retire(f, two);
    assert_int_equal(fx_probe(f, "abcdefgh"), 6);
    assert_int_equal(fx_stats(f).nodes, 2);
    states(f, 0, 2, 0);
    fx_evict(f, 1); /* the tail goes before its parent */
    assert_int_equal(fx_probe(f, "abcdefgh"), 4);
    fx_end(f);
}

/* An abort shortens the tail of a closed sequence to what is left. */
static void a_late_tail_is_cut(void **state)
{
    (void)state;
    for (int32_t pending = 0; pending <= 1; pending++) {
        fx *f = fx_new(10, 4, PARTIAL);
        pkv_seq a = fx_with(f, "abcd");
        pkv_step one = fx_begin(f), two = fx_begin(f);
        if (pending) fx_commit_in(f, a, "e", one);
        else fx_commit(f, a, "e");
        fx_commit_in(f, a, "f", two);
        fx_close(f, a);
        assert_int_equal(fx_stats(f).closing_seqs, 1);
        fx_abort(f, two);
        assert_int_equal(fx_stats(f).closing_seqs, pending);
        assert_int_equal(fx_probe(f, "abcdef"), pending ? 4 : 5);
        fx_retire(f, one);
        assert_int_equal(fx_probe(f, "abcdef"), 5);
        assert_int_equal(fx_stats(f).nodes, 2);
        states(f, 0, 2, 0);
        fx_end(f);
    }
}

/* What is left of a cut tail keeps its extra keys. */
static void a_cut_tail_keeps_its_extras(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, PARTIAL);
    pkv_seq a = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    static const int32_t ids[2] = { 'a', 'b' };
    const pkv_extra ex = { 0, 1, { 5 } };
    const pkv_tokens with = { ids, 1, &ex, 1 }, plain = { ids, 1, NULL, 0 };
    fx_reserve(f, a, 2);
    assert_ok(pkv_seq_commit(f->m, a, &with, one));
    assert_ok(fx_put(f, a, "b", two));
    fx_close(f, a);
    fx_abort(f, two);
    fx_retire(f, one);
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &with, &f->match));
    assert_int_equal(f->match.claimed, 1);
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &plain, &f->match));
    assert_int_equal(f->match.claimed, 0);
    fx_end(f);
}

/* A longer tail replaces the shorter one on its block when it settles, not before. */
static void a_late_longer_tail_replaces_a_shorter(void **state)
{
    (void)state;
    fx *f = fx_new(10, 8, PARTIAL);
    pkv_seq a = fx_with(f, "abc"), b = fx_fork(f, a);
    fx_close(f, a); /* publishes "abc" on the block that b writes on */
    pkv_step one = fx_begin(f);
    fx_commit_in(f, b, "de", one);
    assert_int_equal(f->work.n_copy, 0);
    fx_close(f, b);
    assert_int_equal(fx_stats(f).nodes, 2);
    assert_int_equal(fx_probe(f, "abcdef"), 3);
    fx_retire(f, one);
    assert_int_equal(fx_stats(f).nodes, 1);
    assert_int_equal(fx_probe(f, "abcdef"), 5);
    states(f, 0, 1, 0);
    fx_end(f);
}

/* A tail shorter than what is prepared on its block is not published. */
static void a_shorter_tail_does_not_come_late(void **state)
{
    (void)state;
    fx *f = fx_new(10, 8, PARTIAL);
    pkv_step one = fx_begin(f);
    pkv_seq a = fx_open(f);
    fx_commit_in(f, a, "abcd", one);
    pkv_seq b = fx_fork(f, a);
    fx_truncate(f, b, 2);
    fx_close(f, a);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_close(f, b); /* "ab" in the same block */
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    assert_int_equal(fx_stats(f).nodes, 1);
    states(f, 0, 1, 0);
    fx_end(f);
}

/* Three closed sequences wait for their tails on one block, each longer than the one before. Only
 * the longest is worth a key; after an abort the next one is. */
static void tails_on_one_block(void **state)
{
    (void)state;
    for (int aborted = 0; aborted <= 1; aborted++) {
        fx *f = fx_new(10, 8, PARTIAL);
        pkv_step step[3];
        pkv_seq s = fx_open(f), next;
        static const char *const text[3] = { "ab", "cd", "ef" };
        for (int i = 0; i < 3; i++) {
            step[i] = fx_begin(f);
            fx_commit_in(f, s, text[i], step[i]);
            assert_int_equal(f->work.n_copy, 0); /* behind what is prepared */
            next = fx_fork(f, s);
            fx_close(f, s);
            s = next;
            assert_int_equal(fx_stats(f).nodes, i + 1);
        }
        fx_close(f, s); /* as long as the longest */
        assert_int_equal(fx_stats(f).nodes, 3);
        fx_retire(f, step[0]);
        assert_int_equal(fx_probe(f, "abcdefgh"), 0);
        assert_int_equal(fx_stats(f).nodes, 2);
        if (aborted) fx_abort(f, step[2]);
        fx_retire(f, step[1]);
        assert_int_equal(fx_probe(f, "abcdefgh"), aborted ? 4 : 0);
        if (!aborted) fx_retire(f, step[2]);
        assert_int_equal(fx_probe(f, "abcdefgh"), aborted ? 4 : 6);
        assert_int_equal(fx_stats(f).nodes, 1);
        assert_int_equal(fx_stats(f).closing_seqs, 0);
        states(f, 0, 1, 0);
        fx_end(f);
    }
}

/* One stream does everything in order: no LIMBO, and close drops what has not settled. */
static void in_order(void **state)
{
    (void)state;
    fx *f = fx_new(4, 2, IN_ORDER);
    pkv_seq a = fx_with(f, "abcd");
    pkv_step one = fx_begin(f);
    fx_commit_in(f, a, "ef", one);
    int32_t last = fx_block(f, a, 2);
    fx_close(f, a);
    assert_int_equal(fx_stats(f).closing_seqs, 0);
    assert_int_equal(fx_stats(f).nodes, 2);
    states(f, 0, 2, 0);
    pkv_seq b = fx_open(f);
    fx_reserve(f, b, 2);
    assert_int_equal(fx_block(f, b, 0), last); /* at once */
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "abcdef"), 4);
    fx_truncate(f, b, 0);
    pkv_step two = fx_begin(f);
    fx_reserve(f, b, 6); /* the surplus of a match is room, step or not */
    int32_t ids[8];
    pkv_tokens t = fx_text("xxyyzz", ids);
    assert_ok(pkv_seq_match(f->m, b, &t, 6, 6, &f->work, &f->match));
    fx_retire(f, two);
    fx_close(f, b);
    assert_int_equal(fx_drain(f), 3);
    fx_end(f);
}

static void in_order_and_partial_tails(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, IN_ORDER | PARTIAL);
    pkv_step one = fx_begin(f);
    fx_close(f, fx_with(f, "ab")); /* settled: published, cached at once */
    assert_int_equal(fx_probe(f, "abc"), 2);
    states(f, 0, 1, 0);
    pkv_seq a = fx_with(f, "x");
    fx_commit_in(f, a, "y", one);
    fx_close(f, a); /* settled < committed */
    assert_int_equal(fx_probe(f, "xyz"), 0);
    states(f, 0, 1, 0);
    fx_retire(f, one);
    assert_int_equal(fx_probe(f, "xyz"), 0);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_closed_sequence_publishes_what_settles),
        cmocka_unit_test(an_abort_cuts_closed_ones_too),
        cmocka_unit_test(a_closing_sequence_keeps_its_place),
        cmocka_unit_test(a_namespace_goes_while_its_blocks_wait),
        cmocka_unit_test(places_come_back_in_order_of_close),
        cmocka_unit_test(open_ones_settle_in_order_of_index),
        cmocka_unit_test(hundreds_of_sequences),
        cmocka_unit_test(a_referenced_block_wins_over_limbo),
        cmocka_unit_test(the_later_release_wins_in_limbo),
        cmocka_unit_test(a_late_branch_joins_its_parent),
        cmocka_unit_test(a_settling_copy_frees_the_cached_one),
        cmocka_unit_test(the_copied_part_settles_with_the_next_commit),
        cmocka_unit_test(a_partial_source_waits_for_the_step),
        cmocka_unit_test(a_late_tail),
        cmocka_unit_test(a_late_tail_is_cut),
        cmocka_unit_test(a_cut_tail_keeps_its_extras),
        cmocka_unit_test(a_late_longer_tail_replaces_a_shorter),
        cmocka_unit_test(a_shorter_tail_does_not_come_late),
        cmocka_unit_test(tails_on_one_block),
        cmocka_unit_test(in_order),
        cmocka_unit_test(in_order_and_partial_tails),
    };
    return cmocka_run_group_tests_name("late_settling", tests, NULL, NULL);
}
