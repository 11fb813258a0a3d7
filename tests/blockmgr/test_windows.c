/* Groups of several kinds and block sizes: rows and slots against the definition at every length,
 * what windows release and when, what a prompt finds and why not more, and how far back truncate
 * can go. */
#include "mgr_fixture.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define COUNT(a) ((int32_t)(sizeof(a) / sizeof((a)[0])))

#define FULL(t)                                                                                    \
    {                                                                                              \
        PKV_GROUP_FULL, t, 0, 0, 0                                                                 \
    }
#define SLIDING(t, w, sink)                                                                        \
    {                                                                                              \
        PKV_GROUP_SLIDING, t, w, sink, 0                                                           \
    }
#define CHUNKED(t, w, sink)                                                                        \
    {                                                                                              \
        PKV_GROUP_CHUNKED, t, w, sink, 0                                                           \
    }

static fx *with_groups(int32_t n_blocks, const pkv_group *g, int32_t n, int32_t max_tokens,
                       int32_t rollback, uint32_t flags)
{
    pkv_blockmgr_config cfg = fx_config(n_blocks, 1, flags);
    cfg.groups = g;
    cfg.n_groups = n;
    cfg.max_seq_tokens = max_tokens;
    cfg.rollback_tokens = rollback;
    return fx_from(&cfg);
}

static void commit_n(fx *f, pkv_seq s, int32_t n)
{
    int32_t ids[4096];
    pkv_tokens t = { ids, n, NULL, 0 };
    int32_t at = fx_info(f, s).committed;
    for (int32_t i = 0; i < n; i++) ids[i] = at + i;
    fx_reserve(f, s, n);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
}

/* ---------------------------------------------------------------- the definition */

static int32_t first_seen(const pkv_group *g, int32_t p)
{
    if (g->kind == PKV_GROUP_FULL) return 0;
    if (g->kind == PKV_GROUP_CHUNKED) return p - p % g->window_tokens;
    return p - g->window_tokens + 1 > 0 ? p - g->window_tokens + 1 : 0;
}

static bool released(const pkv_group *g, int32_t rollback, int32_t settled, int32_t block)
{
    int32_t p = settled > rollback ? settled - rollback : 0;
    bool sink = block * g->block_tokens < g->sink_tokens;
    return !sink && (block + 1) * g->block_tokens <= first_seen(g, p);
}

/* A query at p sees a token of this block. */
static bool needed(const pkv_group *g, int32_t p, int32_t block)
{
    int32_t from = block * g->block_tokens, to = from + g->block_tokens;
    bool in_window = to > first_seen(g, p) && from < p;
    return in_window || (from < g->sink_tokens && from < p);
}

/* Rows of these lengths, null exactly where the window has passed, every block once; slots name
 * them. */
static void equals_definition(fx *f, pkv_seq s, const pkv_group *g, int32_t n_groups,
                              int32_t rollback)
{
    static int64_t slots[4096];
    bool seen[1024] = { false };
    pkv_seq_info_t info = fx_info(f, s);
    int32_t n_blocks = 0;
    for (int32_t k = 0; k < n_groups; k++) {
        const int32_t *ids, t = g[k].block_tokens;
        int32_t n;
        assert_ok(pkv_seq_row(f->m, s, k, &ids, &n));
        assert_int_equal(n, (info.reserved + t - 1) / t);
        for (int32_t b = 0; b < n; b++) {
            if (released(&g[k], rollback, info.settled, b)) {
                assert_int_equal(ids[b], 0);
                continue;
            }
            assert_true(ids[b] > 0 && ids[b] < f->cfg.n_blocks && !seen[ids[b]]);
            seen[ids[b]] = true;
            n_blocks++;
        }
        assert_ok(pkv_seq_slots(f->m, s, k, 0, info.reserved, slots));
        for (int32_t p = 0; p < info.reserved; p++) {
            int32_t b = ids[p / t];
            if (slots[p] != (b ? (int64_t)b * t + p % t : -1)) fail_msg("group %d slot %d", k, p);
        }
    }
    assert_int_equal(info.n_blocks, n_blocks);
    assert_int_equal(info.blocks_if_closed, n_blocks);
    assert_int_equal(fx_stats(f).active_blocks, n_blocks);
}

/* vLLM #53142, #55600: a mix-up between the groups' block sizes. Groups of 16, 64 and 1600 tokens,
 * every length to twice their least common multiple. */
static void mixed_block_sizes(void **state)
{
    (void)state;
    static const pkv_group sets[][3] = {
        { FULL(16), FULL(64), FULL(1600) },
        { FULL(1600), SLIDING(16, 100, 0), CHUNKED(64, 48, 0) },
        { SLIDING(64, 1, 70), CHUNKED(1600, 1000, 17), FULL(16) },
    };
    for (int32_t k = 0; k < COUNT(sets); k++) {
        int32_t rollback = k == 2 ? 33 : 0;
        fx *f = with_groups(400, sets[k], 3, 3200, rollback, k == 1 ? 0 : CACHE);
        pkv_seq s = fx_open(f);
        for (int32_t length = 1; length <= 3200; length++) {
            commit_n(f, s, 1);
            equals_definition(f, s, sets[k], 3, rollback);
        }
        fx_check(f);
        fx_close(f, s);
        assert_int_equal(fx_stats(f).active_blocks, 0);
        fx_end(f);
    }
}

/* Windows of every size against small blocks, with sinks and rollback, in steps of 1 to 7 tokens.
 */
static void all_small_windows(void **state)
{
    (void)state;
    for (int32_t window = 1; window <= 9; window++) {
        for (int32_t how = 0; how < 8; how++) {
            int32_t sink = how & 1 ? 3 : 0, rollback = how & 2 ? 5 : 0, chunk = window % 7 + 1;
            const pkv_group g[2] = { SLIDING(2, window, sink), CHUNKED(4, window, sink) };
            fx *f = with_groups(80, g, 2, 60, rollback, how & 4 ? CACHE : 0);
            pkv_seq s = fx_open(f);
            for (int32_t length = chunk; length <= 50; length += chunk) {
                commit_n(f, s, chunk);
                equals_definition(f, s, g, 2, rollback);
                fx_reserve(f, s, 3); /* surplus is in the row too */
                equals_definition(f, s, g, 2, rollback);
            }
            fx_check(f);
            fx_close(f, s);
            fx_end(f);
        }
    }
}

/* ---------------------------------------------------------------- when and in which order */

/* Front first: of three released at once the last is taken first. */
static void released_front_first(void **state)
{
    (void)state;
    static const pkv_group g[1] = { SLIDING(2, 1, 0) };
    fx *f = with_groups(10, g, 1, 60, 0, 0);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 6);
    int32_t ids[3] = { fx_block(f, s, 0), fx_block(f, s, 1), fx_block(f, s, 2) };
    commit_n(f, s, 6);
    fx_reserve(f, s, 6);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(fx_block(f, s, 3 + i), ids[2 - i]);
    fx_close(f, s);
    fx_end(f);
}

/* Under steps a window releases when its sequence settles, into LIMBO while others are open; what
 * it releases in a retire comes before what leaves LIMBO then. */
static void windows_slide_at_retire(void **state)
{
    (void)state;
    static const pkv_group g[1] = { SLIDING(2, 1, 0) };
    fx *f = with_groups(10, g, 1, 60, 0, 0);
    pkv_seq s = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, s, "ab", one);
    fx_commit_in(f, s, "cd", two);
    int32_t front = fx_block(f, s, 0), back = fx_block(f, s, 1);
    assert_int_equal(fx_stats(f).active_blocks, 2);
    fx_retire(f, one);
    assert_int_equal(fx_block(f, s, 0), 0);
    assert_int_equal(fx_stats(f).limbo_blocks, 1);
    fx_retire(f, two);
    assert_int_equal(fx_block(f, s, 1), 0);
    assert_int_equal(fx_stats(f).limbo_blocks, 0);
    fx_reserve(f, s, 4);
    assert_int_equal(fx_block(f, s, 2), front);
    assert_int_equal(fx_block(f, s, 3), back);
    fx_close(f, s);
    fx_end(f);
}

/* An abort settles nothing, so it slides no window. */
static void an_abort_slides_no_window(void **state)
{
    (void)state;
    static const pkv_group g[1] = { SLIDING(2, 1, 0) };
    fx *f = with_groups(10, g, 1, 60, 0, CACHE);
    pkv_seq s = fx_open(f);
    pkv_step one = fx_begin(f), two = fx_begin(f);
    fx_commit_in(f, s, "ab", one);
    fx_commit_in(f, s, "cd", two);
    fx_abort(f, two);
    assert_int_not_equal(fx_block(f, s, 0), 0);
    fx_retire(f, one);
    assert_int_equal(fx_block(f, s, 0), 0);
    assert_int_equal(fx_info(f, s).settled, 2);
    fx_close(f, s);
    fx_end(f);
}

/* ---------------------------------------------------------------- what a prompt finds */

static void found(fx *f, const char *text, int32_t claimed, int32_t longest0, int32_t longest1)
{
    assert_int_equal(fx_probe(f, text), claimed);
    assert_int_equal(f->match.longest[0], longest0);
    assert_int_equal(f->match.longest[1], longest1);
}

static void because(fx *f, pkv_stop_reason r0, pkv_stop_reason r1)
{
    assert_int_equal(f->match.stop_reason[0], r0);
    assert_int_equal(f->match.stop_reason[1], r1);
}

/* Full and sliding of equal blocks, window 4: the eviction order is what the window released at
 * commit, front first, then the full blocks, tail first, then the sliding ones, tail first. */
static void a_sliding_window_is_needed_whole(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(2), SLIDING(2, 4, 0) };
    fx *f = with_groups(20, g, 2, 60, 0, CACHE);
    pkv_seq s;
    fx_close(f, fx_with(f, "abcdefgh"));
    assert_int_equal(fx_stats(f).cached_blocks, 8);
    found(f, "abcdefghi", 8, 8, 8);
    because(f, PKV_STOP_END, PKV_STOP_END);
    found(f, "abcdefghij", 8, 8, 8);
    because(f, PKV_STOP_MISS, PKV_STOP_MISS);
    assert_int_equal(fx_match(f, "abcdefghij", 10, &s), 8);
    assert_int_equal(f->match.claimed_cached, 6);
    for (int32_t i = 0; i < 5; i++) {
        assert_int_not_equal(fx_group_block(f, s, 0, i), 0);
        assert_int_equal(fx_group_block(f, s, 1, i) != 0, i >= 2);
    }
    fx_close(f, s); /* as before, the two oldest still first */
    fx_evict(f, 2);
    found(f, "abcdefghi", 8, 8, 8);
    found(f, "abcd", 0, 4, 0);
    because(f, PKV_STOP_END, PKV_STOP_WINDOW);
    found(f, "abcdefg", 0, 6, 0);
    because(f, PKV_STOP_END, PKV_STOP_WINDOW);
    fx_evict(f, 1); /* the full block of "gh" */
    found(f, "abcdefghi", 0, 6, 8);
    because(f, PKV_STOP_MISS, PKV_STOP_END);
    fx_evict(f, 3);
    found(f, "abcdefghi", 0, 0, 8);
    assert_int_equal(fx_stats(f).nodes, 4); /* two of them only connect */
    fx_evict(f, 1);
    assert_int_equal(fx_stats(f).nodes, 3);
    fx_evict(f, 1);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

/* A new chunk needs nothing of the old ones. */
static void a_chunk_needs_itself_only(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(2), CHUNKED(2, 4, 0) };
    fx *f = with_groups(20, g, 2, 60, 0, CACHE);
    pkv_seq s;
    fx_close(f, fx_with(f, "abcdef"));
    found(f, "abcdefg", 6, 6, 6);
    fx_evict(f, 2); /* of the finished chunk */
    found(f, "abcdefg", 6, 6, 6);
    found(f, "abcd", 4, 4, 4);
    because(f, PKV_STOP_END, PKV_STOP_END);
    found(f, "abc", 0, 2, 0);
    because(f, PKV_STOP_END, PKV_STOP_WINDOW);
    assert_int_equal(fx_match(f, "abcdx", 5, &s), 4);
    assert_int_equal(f->match.claimed_cached, 2);
    assert_int_equal(fx_group_block(f, s, 1, 0), 0);
    assert_int_equal(fx_group_block(f, s, 1, 1), 0);
    assert_int_not_equal(fx_group_block(f, s, 1, 2), 0);
    fx_close(f, s);
    fx_end(f);
}

static void sinks_are_needed_too(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(2), SLIDING(2, 2, 2) };
    fx *f = with_groups(20, g, 2, 60, 0, CACHE);
    pkv_seq s = fx_with(f, "abcdef");
    assert_int_not_equal(fx_group_block(f, s, 1, 0), 0);
    assert_int_equal(fx_group_block(f, s, 1, 1), 0);
    int32_t sink = fx_group_block(f, s, 1, 0), last = fx_group_block(f, s, 1, 2);
    fx_close(f, s);
    found(f, "abcdefg", 6, 6, 6);
    assert_int_equal(fx_match(f, "abcdefg", 7, &s), 6);
    assert_int_equal(f->match.claimed_cached, 3 + 2);
    assert_int_equal(fx_group_block(f, s, 1, 0), sink);
    assert_int_equal(fx_group_block(f, s, 1, 1), 0);
    assert_int_equal(fx_group_block(f, s, 1, 2), last);
    fx_close(f, s);
    fx_evict(f, 1); /* the block between */
    found(f, "abcdefg", 6, 6, 6);
    found(f, "abcd", 2, 4, 2);
    because(f, PKV_STOP_END, PKV_STOP_WINDOW);
    fx_evict(f, 3); /* the full ones */
    found(f, "abcdefg", 0, 0, 6);
    because(f, PKV_STOP_MISS, PKV_STOP_END);
    fx_evict(f, 1); /* "ef": the window at 6 */
    found(f, "abcdefg", 0, 0, 2);
    fx_evict(f, 1); /* the sink */
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

/* Nothing in the window is seen, but the sink block is: no hit without it. */
static void a_missing_sink(void **state)
{
    (void)state;
    static const pkv_group g[2] = { SLIDING(2, 1, 2), FULL(2) };
    fx *f = with_groups(20, g, 2, 60, 0, CACHE);
    fx_close(f, fx_with(f, "abcdef"));
    fx_evict(f, 2); /* what the window left behind */
    found(f, "abcdefg", 6, 6, 6);
    fx_evict(f, 1);
    found(f, "abcdefg", 0, 0, 6);
    because(f, PKV_STOP_WINDOW, PKV_STOP_END);
    fx_end(f);
}

/* A claim that needs no block at all still hangs on its content, whatever makes room for it. */
static void a_claim_without_blocks(void **state)
{
    (void)state;
    static const pkv_group g[1] = { CHUNKED(2, 2, 0) };
    fx *f = with_groups(7, g, 1, 60, 0, CACHE);
    pkv_seq s;
    fx_close(f, fx_with(f, "abcdefghijkl"));
    assert_int_equal(fx_stats(f).cached_blocks, 6);
    assert_int_equal(fx_match(f, "abcdefghijklmn", 24, &s), 12); /* evicts all that it claims */
    assert_int_equal(f->match.claimed_cached, 0);
    assert_int_equal(fx_stats(f).cached_blocks, 0);
    fx_check(f);
    assert_ok(fx_put(f, s, "mn", PKV_STEP_NONE));
    assert_int_equal(fx_probe(f, "abcdefghijklmnop"), 14);
    fx_close(f, s);
    fx_evict(f, 1);
    assert_int_equal(fx_stats(f).nodes, 0);
    fx_end(f);
}

/* A claim ends a block of every group that sees something below it. */
static void a_claim_ends_blocks(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(2), SLIDING(4, 3, 0) };
    fx *f = with_groups(20, g, 2, 60, 0, CACHE);
    fx_close(f, fx_with(f, "abcdef"));
    found(f, "abcdef", 4, 6, 4);
    because(f, PKV_STOP_END, PKV_STOP_END);
    found(f, "abcdefgh", 4, 6, 4);
    because(f, PKV_STOP_MISS, PKV_STOP_MISS);
    found(f, "abc", 0, 2, 0);
    because(f, PKV_STOP_END, PKV_STOP_END);
    fx_end(f);
    static const pkv_group h[2] = { FULL(2), FULL(4) };
    f = with_groups(20, h, 2, 60, 0, CACHE);
    fx_close(f, fx_with(f, "abcdef"));
    found(f, "abcdef", 4, 6, 4);
    because(f, PKV_STOP_END, PKV_STOP_END);
    found(f, "abcdefgh", 4, 6, 4);
    because(f, PKV_STOP_MISS, PKV_STOP_MISS);
    fx_end(f);
}

/* With equal blocks in all groups the rest comes as one copy per group. */
static void partial_hits_in_all_groups(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(4), SLIDING(4, 8, 0) };
    fx *f = with_groups(20, g, 2, 60, 0, CACHE | PKV_MGR_PARTIAL_HITS);
    pkv_seq s;
    fx_close(f, fx_with(f, "abcdef"));
    assert_int_equal(fx_match(f, "abcdefgh", 8, &s), 6);
    assert_int_equal(f->match.copied, 2);
    assert_int_equal(f->work.n_copy, 2);
    for (int32_t k = 0; k < 2; k++) {
        assert_int_equal(f->copy[k].group, k);
        assert_int_equal(f->copy[k].n_tokens, 2);
        assert_int_equal(f->copy[k].dst, fx_group_block(f, s, k, 1));
    }
    fx_close(f, s);
    fx_end(f);
    static const pkv_group h[2] = { FULL(4), SLIDING(8, 8, 0) }; /* not equal: no effect */
    f = with_groups(20, h, 2, 60, 0, CACHE | PKV_MGR_PARTIAL_HITS);
    fx_close(f, fx_with(f, "abcdefghij"));
    assert_int_equal(fx_probe(f, "abcdefghij"), 8);
    assert_int_equal(f->match.copied, 0);
    fx_end(f);
}

/* ---------------------------------------------------------------- back again */

/* truncate below settled, for every pair of lengths: RANGE exactly where a block that a query there
 * sees, or the one that it lies inside, is gone. */
static void how_far_back(void **state)
{
    (void)state;
    static const int32_t rollbacks[3] = { 0, 1, 6 };
    static const pkv_group groups[] = { SLIDING(4, 6, 0),  SLIDING(4, 1, 0),  SLIDING(2, 3, 3),
                                        CHUNKED(4, 8, 0),  CHUNKED(4, 6, 0),  CHUNKED(2, 5, 2),
                                        SLIDING(4, 99, 0), CHUNKED(4, 99, 0), FULL(4) };
    for (int32_t k = 0; k < COUNT(groups) * 3; k++) {
        const pkv_group *g = &groups[k / 3];
        int32_t rollback = rollbacks[k % 3];
        fx *f = with_groups(60, g, 1, 60, rollback, 0);
        pkv_seq s = fx_open(f);
        for (int32_t settled = 1; settled <= 30; settled++) {
            commit_n(f, s, 1);
            for (int32_t n = 0; n <= settled; n++) {
                bool gone =
                    n % g->block_tokens && released(g, rollback, settled, n / g->block_tokens);
                for (int32_t b = 0; b * g->block_tokens < n; b++)
                    gone |= needed(g, n, b) && released(g, rollback, settled, b);
                pkv_seq kid = fx_fork(f, s);
                if (n && n < settled && gone) {
                    fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, kid, n));
                } else {
                    assert_ok(pkv_seq_truncate(f->m, kid, n));
                    assert_int_equal(fx_info(f, kid).committed, n);
                }
                if (n && n < settled && settled - n <= rollback) assert_false(gone);
                fx_close(f, kid);
            }
        }
        fx_close(f, s);
        fx_end(f);
    }
}

/* A claim that begins inside a block of a chunked group: the part below was never written, so there
 * is no way back into it. */
static void back_into_a_claim(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(2), CHUNKED(4, 2, 0) };
    fx *f = with_groups(30, g, 2, 60, 0, CACHE);
    pkv_seq s;
    fx_close(f, fx_with(f, "ab"));
    assert_int_equal(fx_match(f, "abcd", 4, &s), 2);
    fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, s, 1));
    fx_commit(f, s, "x");
    fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, s, 1)); /* a query at 1 sees slot 0 */
    fx_truncate(f, s, 2);
    fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, s, 1)); /* still */
    fx_truncate(f, s, 0);
    fx_commit(f, s, "abc"); /* written from the beginning: */
    fx_truncate(f, s, 1);
    fx_close(f, s);
    fx_end(f);
}

/* Request by request, group by group; in a group the copy of the tail first, then the new blocks.
 */
static void order_of_taking(void **state)
{
    (void)state;
    static const pkv_group g[2] = { FULL(2), FULL(4) };
    fx *f = with_groups(40, g, 2, 60, 0, 0);
    pkv_seq filler = fx_open(f), a = fx_with(f, "abc"), b = fx_with(f, "x"), kid = fx_fork(f, a);
    fx_reserve(f, filler, 24); /* twelve blocks of the first group and six of the other */
    int32_t next[18];
    for (int32_t i = 0; i < 6; i++) next[i] = fx_group_block(f, filler, 1, i);
    for (int32_t i = 0; i < 12; i++) next[6 + i] = fx_group_block(f, filler, 0, i);
    fx_close(f, filler); /* tail first: the front of the second group is given back last */
    const pkv_reserve_req q[2] = { { kid, 6 }, { b, 5 } };
    assert_ok(pkv_seq_reserve(f->m, q, 2, &f->work));
    int32_t at = 0; /* kid: 3 to 9 tokens; b: 1 to 6 */
    assert_int_equal(f->work.n_copy, 2);
    assert_int_equal(f->copy[0].dst, next[at]);
    for (int32_t i = 1; i < 5; i++) assert_int_equal(fx_group_block(f, kid, 0, i), next[at++]);
    assert_int_equal(f->copy[1].dst, next[at]);
    for (int32_t i = 0; i < 3; i++) assert_int_equal(fx_group_block(f, kid, 1, i), next[at++]);
    for (int32_t i = 1; i < 3; i++) assert_int_equal(fx_group_block(f, b, 0, i), next[at++]);
    assert_int_equal(fx_group_block(f, b, 1, 1), next[at++]);
    fx_close(f, a);
    fx_close(f, b);
    fx_close(f, kid);
    fx_end(f);
}

/* Pending tokens can always go: the window has not moved for them. */
static void truncate_above_settled(void **state)
{
    (void)state;
    static const pkv_group g[1] = { SLIDING(2, 1, 0) };
    fx *f = with_groups(20, g, 1, 60, 0, CACHE);
    pkv_seq s = fx_with(f, "abcd");
    pkv_step one = fx_begin(f);
    fx_commit_in(f, s, "efgh", one);
    fx_truncate(f, s, 5);
    fx_truncate(f, s, 4);
    fx_refused(f, PKV_E_RANGE, pkv_seq_truncate(f->m, s, 3));
    assert_ok(pkv_seq_truncate(f->m, s, 2)); /* a boundary, and nothing below is seen */
    fx_retire(f, one);
    fx_close(f, s);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_block_sizes),
        cmocka_unit_test(all_small_windows),
        cmocka_unit_test(released_front_first),
        cmocka_unit_test(windows_slide_at_retire),
        cmocka_unit_test(an_abort_slides_no_window),
        cmocka_unit_test(a_sliding_window_is_needed_whole),
        cmocka_unit_test(a_chunk_needs_itself_only),
        cmocka_unit_test(sinks_are_needed_too),
        cmocka_unit_test(a_missing_sink),
        cmocka_unit_test(a_claim_without_blocks),
        cmocka_unit_test(a_claim_ends_blocks),
        cmocka_unit_test(partial_hits_in_all_groups),
        cmocka_unit_test(how_far_back),
        cmocka_unit_test(back_into_a_claim),
        cmocka_unit_test(order_of_taking),
        cmocka_unit_test(truncate_above_settled),
    };
    return cmocka_run_group_tests_name("windows", tests, NULL, NULL);
}
