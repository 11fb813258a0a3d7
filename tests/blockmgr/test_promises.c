/* What the manager says about the future comes true. After every operation of a random history the
 * arena is copied aside, a promise is put to the test, and the arena is put back:
 *
 *   need            reserve answers the same, and takes, copies and evicts so many blocks
 *   need.step       AGAIN: with all steps up to this one retired, in any order, reserve is OK
 *   blocks_if_closed   so many blocks are nobody's any more after close
 *   probe           match claims so much, and gives the same reasons
 *   n_indexed       so many units of its own text a sequence's next reader finds
 *   NO_BLOCKS       not for ever: alone, with no step open and nothing held, it gets what fits */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"

enum { SEQS = 6, STEPS = 3, TOKENS = 96, MAX_TEXT = TOKENS + 16 };

typedef struct world {
    fx *f; /* its manager lives in `arena` */
    void *arena, *aside;
    size_t bytes;
    uint32_t random;
    bool copies; /* a hit may need some: PARTIAL_HITS, or states */
    int32_t largest_block;
    pkv_seq seq[SEQS];
    int32_t text[SEQS][MAX_TEXT]; /* what each has committed, and what it will say next */
    int32_t n_seqs;
    pkv_step step[STEPS]; /* {0}: not open */
    pkv_hold hold;
    uint64_t now;
    uint32_t n_again, n_refused, n_hits; /* promises of each kind that were kept */
} world;

static uint32_t draw(world *w, uint32_t n)
{
    w->random = w->random * 1664525u + 1013904223u;
    return (w->random >> 16) % n;
}

/* One of a few texts that begin alike. */
static void think_of_text(world *w, int32_t *text, int32_t from)
{
    int32_t until = (int32_t)draw(w, TOKENS), other = (int32_t)draw(w, 2);
    for (int32_t i = from; i < MAX_TEXT; i++) text[i] = i < until ? i % 7 : 10 + other;
}

static pkv_status match(world *w, int32_t k, int32_t max, int32_t upto)
{
    const pkv_tokens t = { w->text[k], MAX_TEXT, NULL, 0 };
    w->f->match = (pkv_match)PKV_MATCH_INIT;
    return pkv_seq_match(w->f->m, w->seq[k], &t, max, upto, &w->f->work, &w->f->match);
}

static void speak(world *w, int32_t k)
{
    pkv_seq_info_t i = fx_info(w->f, w->seq[k]);
    int32_t n = 1 + (int32_t)draw(w, 7);
    if (i.committed + n > TOKENS || fx_try_reserve(w->f, w->seq[k], n) != PKV_OK) return;
    const pkv_tokens t = { w->text[k] + i.committed, n, NULL, 0 };
    assert_ok(pkv_seq_commit(w->f->m, w->seq[k], &t, w->step[draw(w, STEPS)]));
}

static void start(world *w)
{
    if (w->n_seqs == SEQS) return;
    int32_t k = w->n_seqs;
    if (pkv_seq_open(w->f->m, (pkv_ns){ 0 }, &w->seq[k]) != PKV_OK) return;
    w->n_seqs++;
    think_of_text(w, w->text[k], 0);
    pkv_status st = match(w, k, (int32_t)draw(w, TOKENS), (int32_t)draw(w, 40));
    assert_true(st == PKV_OK || st == PKV_E_AGAIN || st == PKV_E_NO_BLOCKS || st == PKV_E_NEVER);
}

static void branch(world *w, int32_t k)
{
    if (w->n_seqs == SEQS || pkv_seq_fork(w->f->m, w->seq[k], &w->seq[w->n_seqs], 1) != PKV_OK)
        return;
    memcpy(w->text[w->n_seqs], w->text[k], sizeof w->text[k]);
    think_of_text(w, w->text[w->n_seqs], fx_info(w->f, w->seq[k]).committed);
    w->n_seqs++;
}

static void finish(world *w, int32_t k)
{
    fx_close(w->f, w->seq[k]);
    w->seq[k] = w->seq[--w->n_seqs];
    memmove(w->text[k], w->text[w->n_seqs], sizeof w->text[k]);
}

static void next_step(world *w)
{
    pkv_step *s = &w->step[draw(w, STEPS)];
    if (s->v == 0) {
        *s = fx_begin(w->f);
        return;
    }
    assert_ok(draw(w, 5) ? pkv_step_retire(w->f->m, *s) : pkv_step_abort(w->f->m, *s));
    s->v = 0;
}

static void hold_or_let_go(world *w, int32_t k)
{
    pkv_hold_result r[1];
    int32_t n;
    if (w->hold.v == 0) {
        if (pkv_hold_open(w->f->m, w->seq[k], 1 + (int32_t)draw(w, 20), w->now + 2, &w->hold))
            return;
    } else if (draw(w, 2)) {
        pkv_hold_post(w->f->m, w->hold, PKV_OK);
    }
    assert_ok(pkv_blockmgr_poll(w->f->m, ++w->now, r, 1, &n));
    if (pkv_hold_reclaim(w->f->m, w->hold) == PKV_OK || (n && r[0].end != PKV_HOLD_EXPIRED))
        w->hold.v = 0;
}

static void do_something(world *w)
{
    int32_t k = w->n_seqs ? (int32_t)draw(w, (uint32_t)w->n_seqs) : 0;
    switch (w->n_seqs ? draw(w, 14) : 0) {
    case 0:
        start(w);
        break;
    case 1:
        branch(w, k);
        break;
    case 2:
        finish(w, k);
        break;
    case 3:
        (void)!pkv_seq_truncate(w->f->m, w->seq[k], (int32_t)draw(w, TOKENS));
        think_of_text(w, w->text[k], fx_info(w->f, w->seq[k]).committed);
        break;
    case 4:
    case 5:
        next_step(w);
        break;
    case 6:
        hold_or_let_go(w, k);
        break;
    case 7:
        (void)!pkv_seq_snapshot(w->f->m, w->seq[k], &w->f->work); /* nothing without a state */
        break;
    default:
        speak(w, k);
    }
}

/* ---------------------------------------------------------------- promises */

static void reserve_does_what_need_said(world *w, pkv_seq s, int32_t n, const pkv_need *need)
{
    pkv_blockmgr_stats_t before = fx_stats(w->f);
    pkv_status st = fx_try_reserve(w->f, s, n);
    pkv_blockmgr_stats_t after = fx_stats(w->f);
    assert_int_equal(st, need->verdict);
    if (st != PKV_OK) {
        w->n_refused++;
        assert_int_equal(need->evictions, 0);
        return;
    }
    assert_int_equal(after.taken_blocks - before.taken_blocks, need->new_blocks);
    assert_int_equal(after.evicted_blocks - before.evicted_blocks, need->evictions);
    assert_int_equal(w->f->work.n_copy, need->copies);
    assert_int_equal(w->f->work.n_zero, need->zeros);
}

static void retiring_suffices(world *w, pkv_seq s, int32_t n, const pkv_need *need)
{
    uint32_t first = draw(w, STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        pkv_step step = w->step[(first + i) % STEPS];
        if (step.v && step.v <= need->step.v) assert_ok(pkv_step_retire(w->f->m, step));
    }
    if (fx_try_reserve(w->f, s, n) != PKV_OK) fail_msg("AGAIN was not enough");
    w->n_again++;
}

static void closing_gives_back(world *w, pkv_seq s)
{
    int32_t promised = fx_info(w->f, s).blocks_if_closed;
    pkv_blockmgr_stats_t before = fx_stats(w->f);
    fx_close(w->f, s);
    pkv_blockmgr_stats_t after = fx_stats(w->f);
    assert_int_equal(before.active_blocks - after.active_blocks -
                         (after.quarantine_blocks - before.quarantine_blocks),
                     promised);
}

static void match_claims_what_probe_said(world *w)
{
    if (w->n_seqs == SEQS || pkv_seq_open(w->f->m, (pkv_ns){ 0 }, &w->seq[w->n_seqs])) return;
    int32_t k = w->n_seqs, max = 1 + (int32_t)draw(w, TOKENS);
    think_of_text(w, w->text[k], 0);
    pkv_match probed = PKV_MATCH_INIT;
    const pkv_tokens t = { w->text[k], max, NULL, 0 };
    assert_ok(pkv_blockmgr_probe(w->f->m, (pkv_ns){ 0 }, &t, &probed));
    pkv_status st = match(w, k, max, 0);
    if (st != PKV_OK) { /* a claim inside a block of the other group takes a fresh one */
        assert_true(st == PKV_E_AGAIN || st == PKV_E_NO_BLOCKS);
        assert_int_not_equal(probed.claimed % w->largest_block, 0);
        return;
    }
    assert_int_equal(fx_info(w->f, w->seq[k]).committed, w->f->match.claimed);
    if (w->f->match.stop_reason[0] == PKV_STOP_ROOM) {
        assert_true(w->copies && w->f->match.claimed < probed.claimed);
        return;
    }
    assert_int_equal(w->f->match.claimed, probed.claimed);
    assert_int_equal(w->f->match.copied, probed.copied);
    assert_memory_equal(w->f->match.longest, probed.longest, sizeof probed.longest);
    assert_memory_equal(w->f->match.stop_reason, probed.stop_reason, sizeof probed.stop_reason);
    w->n_hits += probed.claimed > 0;
}

static void its_own_text_is_found(world *w, int32_t k)
{
    pkv_seq_info_t i = fx_info(w->f, w->seq[k]);
    pkv_match m = PKV_MATCH_INIT;
    const pkv_tokens t = { w->text[k], i.committed, NULL, 0 };
    assert_ok(pkv_blockmgr_probe(w->f->m, (pkv_ns){ 0 }, &t, &m));
    assert_true(m.longest[0] >= 2 * i.n_indexed); /* group 0 is full, of units of 2 */
}

static void alone_it_gets_what_fits(world *w, int32_t k, int32_t n)
{
    pkv_hold_result r[1];
    int32_t done;
    for (int32_t i = 0; i < w->n_seqs; i++)
        if (i != k) fx_close(w->f, w->seq[i]);
    for (int i = 0; i < STEPS; i++)
        if (w->step[i].v) assert_ok(pkv_step_retire(w->f->m, w->step[i]));
    pkv_hold_post(w->f->m, w->hold, PKV_OK);
    assert_ok(pkv_blockmgr_poll(w->f->m, w->now, r, 1, &done));
    (void)!pkv_hold_reclaim(w->f->m, w->hold); /* if its deadline was over before */
    pkv_status st = fx_try_reserve(w->f, w->seq[k], n);
    assert_true(st == PKV_OK || st == PKV_E_NEVER || st == PKV_E_LIMIT);
}

static void promises(world *w)
{
    if (w->n_seqs == 0) return;
    int32_t k = (int32_t)draw(w, (uint32_t)w->n_seqs), n = (int32_t)draw(w, 40);
    pkv_need need = fx_need(w->f, w->seq[k], n);
    its_own_text_is_found(w, k);
    memcpy(w->aside, w->arena, w->bytes);
    switch (draw(w, 4)) {
    case 0:
        reserve_does_what_need_said(w, w->seq[k], n, &need);
        if (need.verdict == PKV_E_AGAIN) retiring_suffices(w, w->seq[k], n, &need);
        break;
    case 1:
        closing_gives_back(w, w->seq[k]);
        break;
    case 2:
        alone_it_gets_what_fits(w, k, 2 * n);
        break;
    default:
        match_claims_what_probe_said(w);
    }
    fx_check(w->f);
    memcpy(w->arena, w->aside, w->bytes);
}

static void run(const pkv_group *g, int32_t n_groups, uint32_t flags, uint32_t seeds)
{
    uint32_t n_again = 0, n_refused = 0, n_hits = 0;
    for (uint32_t seed = 0; seed < seeds; seed++) {
        pkv_blockmgr_config cfg =
            fx_config(8 + (int32_t)seed % 16 + 14 * n_groups, 2, PKV_MGR_PREFIX_CACHE | flags);
        cfg.max_seqs = SEQS;
        cfg.max_seq_tokens = 160;
        cfg.groups = g;
        cfg.n_groups = n_groups;
        cfg.max_steps = STEPS;
        cfg.zero_policy = seed % 3;
        world *w = calloc(1, sizeof *w);
        assert_non_null(w);
        w->f = fx_from(&cfg);
        pkv_blockmgr_destroy(w->f->m); /* it shall live where it can be copied */
        w->bytes = pkv_blockmgr_bytes(&w->f->cfg);
        w->arena = aligned_alloc(64, (w->bytes + 63) / 64 * 64);
        w->aside = malloc(w->bytes);
        assert_true(w->arena && w->aside);
        assert_ok(pkv_blockmgr_init(w->arena, w->bytes, &w->f->cfg, &w->f->m));
        w->random = seed, w->copies = flags & PKV_MGR_PARTIAL_HITS;
        w->largest_block = 2;
        for (int32_t k = 0; k < n_groups; k++) {
            if (g[k].block_tokens > 2) w->largest_block = g[k].block_tokens;
            if (g[k].kind == PKV_GROUP_STATE) w->copies = true;
        }
        for (int i = 0; i < 300; i++) {
            do_something(w);
            promises(w);
        }
        n_again += w->n_again, n_refused += w->n_refused, n_hits += w->n_hits;
        fx_end(w->f);
        free(w->arena);
        free(w->aside);
        free(w);
    }
    assert_true(n_refused > seeds && n_hits > seeds);
    assert_true(n_again > 0 || flags & PKV_MGR_IN_ORDER);
}

static void one_full_group(void **state)
{
    (void)state;
    run(NULL, 0, 0, 40);
    run(NULL, 0, PKV_MGR_PARTIAL_HITS, 40);
    run(NULL, 0, PKV_MGR_IN_ORDER | PKV_MGR_PLAIN_LRU, 20);
}

static void with_windows(void **state)
{
    (void)state;
    static const pkv_group sliding[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                          { PKV_GROUP_SLIDING, 2, 7, 3, 0 } };
    static const pkv_group chunked[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                          { PKV_GROUP_CHUNKED, 4, 6, 0, 0 } };
    run(sliding, 2, 0, 40);
    run(sliding, 2, PKV_MGR_PARTIAL_HITS, 20);
    run(chunked, 2, 0, 40);
}

static void with_states(void **state)
{
    (void)state;
    static const pkv_group two[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                      { PKV_GROUP_STATE, 0, 0, 0, 2 } };
    static const pkv_group three[3] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                        { PKV_GROUP_STATE, 0, 0, 0, 1 },
                                        { PKV_GROUP_SLIDING, 4, 5, 0, 0 } };
    run(two, 2, 0, 20);
    run(three, 3, 0, 20);
}

/* Two usable blocks: the only way to write into the first is to give the cached continuation up. */
static void its_own_continuation_is_room(void **state)
{
    (void)state;
    fx *f = fx_new(3, 5, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_with(f, "abcdefghij");
    fx_truncate(f, s, 4);
    assert_int_equal(fx_stats(f).cached_blocks, 1);
    assert_int_equal(fx_need(f, s, 5).verdict, PKV_OK);
    assert_int_equal(fx_need(f, s, 5).copies, 0);
    assert_int_equal(fx_need(f, s, 5).evictions, 1);
    fx_reserve(f, s, 5);
    assert_int_equal(fx_stats(f).evicted_blocks, 1);
    assert_int_equal(f->work.n_copy, 0);
    assert_int_equal(fx_row_len(f, s), 2);
    assert_int_equal(fx_stats(f).nodes, 0);
    assert_int_equal(fx_stats(f).withdrawn, 1);
    assert_int_equal(fx_probe(f, "abcdefghij"), 0);
    fx_check(f);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 2);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(its_own_continuation_is_room),
        cmocka_unit_test(one_full_group),
        cmocka_unit_test(with_windows),
        cmocka_unit_test(with_states),
    };
    return cmocka_run_group_tests_name("promises", tests, NULL, NULL);
}
