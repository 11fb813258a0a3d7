/* Blocks without sequences: taken, referenced, published and looked up one by one, alone and mixed
 * with sequences in one manager. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"

#define CACHE PKV_MGR_PREFIX_CACHE
#define ARG PKV_E_INVALID_ARG

static const pkv_ns DEFAULT = { 0 };

static void take(fx *f, int32_t n, int32_t *ids)
{
    assert_ok(pkv_blocks_take(f->m, n, ids, &f->work));
    assert_int_equal(f->work.n_copy, 0);
}

static void ref(fx *f, int32_t id)
{
    assert_ok(pkv_blocks_ref(f->m, &id, 1));
}

static void unref(fx *f, int32_t id)
{
    assert_ok(pkv_blocks_unref(f->m, &id, 1));
}

static pkv_status publish(fx *f, int32_t parent, const char *unit, int32_t block)
{
    int32_t ids[64];
    pkv_tokens t = fx_text(unit, ids);
    return pkv_block_publish(f->m, DEFAULT, parent, &t, block);
}

static int32_t lookup(fx *f, const char *text, int32_t *ids, int32_t cap)
{
    int32_t tokens[64], n = -1;
    pkv_tokens t = fx_text(text, tokens);
    assert_ok(pkv_blocks_lookup(f->m, DEFAULT, &t, ids, cap, &n));
    return n;
}

static void states(fx *f, int32_t active, int32_t cached, int32_t raw_refs)
{
    pkv_blockmgr_stats_t s = fx_stats(f);
    assert_int_equal(s.active_blocks, active);
    assert_int_equal(s.cached_blocks, cached);
    assert_int_equal(s.raw_refs, raw_refs);
}

static void taken_and_given_back(void **state)
{
    (void)state;
    fx *f = fx_new(6, 2, CACHE);
    int32_t ids[6] = { 0 };
    take(f, 3, ids);
    states(f, 3, 0, 3);
    for (int i = 0; i < 3; i++) {
        assert_true(ids[i] > 0 && ids[i] < 6);
        for (int k = 0; k < i; k++) assert_int_not_equal(ids[i], ids[k]);
    }
    const int32_t twice[2] = { ids[0], ids[0] };
    assert_ok(pkv_blocks_ref(f->m, twice, 2));
    states(f, 3, 0, 5);
    assert_ok(pkv_blocks_unref(f->m, twice, 2));
    states(f, 3, 0, 3);
    assert_ok(pkv_blocks_unref(f->m, ids, 3));
    states(f, 0, 0, 0); /* nothing in them: free */
    int32_t again[3];
    take(f, 3, again); /* the last given back first */
    for (int i = 0; i < 3; i++) assert_int_equal(again[i], ids[2 - i]);
    assert_ok(pkv_blocks_unref(f->m, again, 3));
    assert_int_equal(fx_drain(f), 5);
    fx_end(f);
}

static void verdicts_of_take(void **state)
{
    (void)state;
    fx *f = fx_new(6, 2, CACHE);
    int32_t ids[8] = { 7, 7 };
    fx_refused(f, PKV_E_NEVER, pkv_blocks_take(f->m, 6, ids, &f->work));
    pkv_seq s = fx_with(f, "abcd"), t = fx_open(f);
    fx_reserve(f, t, 2);
    fx_close(f, s); /* two cached, two free, one in use */
    pkv_step one = fx_begin(f);
    fx_close(f, t);
    fx_refused(f, PKV_E_AGAIN, pkv_blocks_take(f->m, 5, ids, &f->work));
    assert_int_equal(ids[0], 7);
    take(f, 3, ids); /* one of them by eviction */
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_retire(f, one);
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_blocks_take(f->m, 3, ids, &f->work));
    take(f, 2, ids + 3);
    states(f, 5, 0, 5);
    assert_ok(pkv_blocks_unref(f->m, ids, 5));
    assert_int_equal(fx_drain(f), 5);
    fx_end(f);
}

static void taken_blocks_are_zeroed(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(6, 2, CACHE);
    cfg.zero_policy = PKV_ZERO_ALWAYS;
    fx *f = fx_from(&cfg);
    int32_t ids[4];
    pkv_block_work small = f->work;
    small.zero_cap = 2;
    fx_refused(f, PKV_E_LIMIT, pkv_blocks_take(f->m, 3, ids, &small));
    take(f, 3, ids);
    assert_int_equal(f->work.n_zero, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(f->zero[i], ids[i]);
    assert_ok(pkv_blocks_unref(f->m, ids, 3));
    fx_end(f);
}

/* A chain by hand is what a sequence would have made. */
static void published_by_hand(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    int32_t ids[3], found[3];
    pkv_seq s;
    take(f, 3, ids);
    assert_ok(publish(f, 0, "ab", ids[0]));
    assert_int_equal(fx_probe(f, "abcdef"), 2);
    assert_ok(publish(f, ids[0], "cd", ids[1]));
    assert_ok(publish(f, ids[1], "ef", ids[2]));
    fx_refused(f, PKV_OK, publish(f, ids[1], "ef", ids[2])); /* as it is already */
    assert_int_equal(fx_stats(f).nodes, 3);
    assert_int_equal(fx_match(f, "abcdefg", 0, &s), 6);
    for (int i = 0; i < 3; i++) assert_int_equal(fx_block(f, s, i), ids[i]);
    fx_close(f, s);
    states(f, 3, 0, 3);
    assert_int_equal(lookup(f, "abcdefg", found, 3), 3);
    assert_memory_equal(found, ids, sizeof ids);
    states(f, 3, 0, 6);
    assert_int_equal(lookup(f, "abcdefg", found, 2), 2); /* at most cap */
    assert_int_equal(lookup(f, "abcdefg", found, 0), 0);
    assert_int_equal(lookup(f, "abc", found, 3), 1);
    assert_int_equal(lookup(f, "xy", found, 3), 0);
    states(f, 3, 0, 9);
    for (int i = 2; i >= 0; i--) /* children before parents */
        for (int k = 0; k < (i == 0 ? 4 : i == 1 ? 3 : 2); k++) unref(f, ids[i]);
    states(f, 0, 3, 0);
    assert_int_equal(lookup(f, "abcd", found, 3), 2); /* out of the cache again */
    states(f, 2, 1, 2);
    unref(f, ids[1]);
    unref(f, ids[0]);
    for (int32_t left = 4; left >= 0; left -= 2) {
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, "abcdef"), left);
    }
    fx_end(f);
}

/* With extra keys, relative to the unit. */
static void units_with_extras(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    int32_t tokens[4] = { 1, 2, 3, 4 }, block, n;
    pkv_extra ex[1] = { { 1, 2, { 5 } } };
    pkv_tokens unit = { tokens, 2, ex, 1 };
    take(f, 1, &block);
    assert_ok(pkv_block_publish(f->m, DEFAULT, 0, &unit, block));
    int32_t got = 0;
    assert_ok(pkv_blocks_lookup(f->m, DEFAULT, &unit, &got, 1, &n));
    assert_int_equal(n, 1);
    assert_int_equal(got, block);
    unit.n_extras = 0;
    assert_ok(pkv_blocks_lookup(f->m, DEFAULT, &unit, &got, 1, &n));
    assert_int_equal(n, 0);
    fx_refused(f, PKV_E_STATE, pkv_block_publish(f->m, DEFAULT, 0, &unit, block));
    unref(f, block);
    unref(f, block);
    fx_end(f);
}

static void refused_publications(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    int32_t ids[4], seq_block;
    pkv_seq s = fx_with(f, "xy");
    seq_block = fx_block(f, s, 0);
    take(f, 4, ids);
    assert_ok(publish(f, 0, "ab", ids[0]));
    fx_refused(f, PKV_E_STATE, publish(f, 0, "cd", ids[0])); /* other content */
    fx_refused(f, PKV_E_STATE, publish(f, ids[0], "ab", ids[0]));
    fx_refused(f, ARG, publish(f, ids[1], "cd", ids[2])); /* a parent without content */
    fx_refused(f, ARG, publish(f, 0, "a", ids[1]));       /* not a unit */
    fx_refused(f, ARG, publish(f, 0, "abc", ids[1]));
    fx_refused(f, ARG, publish(f, 0, "", ids[1]));
    fx_refused(f, ARG, publish(f, 0, "cd", seq_block)); /* no raw reference */
    fx_refused(f, ARG, publish(f, seq_block, "cd", ids[1]));
    ref(f, seq_block);
    assert_ok(publish(f, seq_block, "cd", ids[1]));
    assert_int_equal(fx_probe(f, "xycd"), 4);
    static const int32_t no_id[] = { -1, 10, INT32_MAX, INT32_MIN };
    for (int i = 0; i < 4; i++) {
        fx_refused(f, ARG, publish(f, no_id[i], "ef", ids[2]));
        fx_refused(f, ARG, publish(f, 0, "ef", no_id[i]));
        fx_refused(f, ARG, pkv_blocks_ref(f->m, &no_id[i], 1));
        fx_refused(f, ARG, pkv_blocks_unref(f->m, &no_id[i], 1));
    }
    fx_refused(f, ARG, publish(f, 0, "ef", 0));
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns;
    int32_t tokens[2] = { 'c', 'd' };
    pkv_tokens t = { tokens, 2, NULL, 0 };
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    fx_refused(f, ARG, pkv_block_publish(f->m, ns, ids[0], &t, ids[2])); /* another namespace */
    assert_ok(pkv_block_publish(f->m, ns, 0, &t, ids[2]));
    assert_ok(pkv_ns_close(f->m, ns)); /* its content is forgotten, not the references */
    fx_refused(f, PKV_E_STALE, pkv_block_publish(f->m, ns, 0, &t, ids[2]));
    assert_int_equal(fx_stats(f).raw_refs, 5);
    assert_ok(pkv_blockmgr_new_epoch(f->m));
    fx_refused(f, PKV_E_IDENTITY, publish(f, ids[0], "gh", ids[3]));
    assert_ok(publish(f, 0, "gh", ids[3]));
    fx_close(f, s);
    unref(f, ids[1]);
    unref(f, seq_block);
    unref(f, ids[0]);
    unref(f, ids[2]);
    unref(f, ids[3]);
    assert_int_equal(fx_stats(f).cached_blocks, 4); /* ab xy cd of the old epoch, gh */
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* No node left: the block is not findable, and can be published when there is room. */
static void no_node_left(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 2, CACHE);
    cfg.max_nodes = 1;
    fx *f = fx_from(&cfg);
    int32_t ids[2];
    take(f, 2, ids);
    assert_ok(publish(f, 0, "ab", ids[0]));
    fx_refused(f, PKV_E_LIMIT, publish(f, ids[0], "cd", ids[1]));
    unref(f, ids[0]);
    fx_evict(f, 1);
    assert_ok(publish(f, 0, "cd", ids[1]));
    unref(f, ids[1]);
    states(f, 0, 1, 0);
    fx_end(f);
}

/* What a sequence holds can be referred to, and the other way round; who writes gets a copy. */
static void mixed_with_sequences(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, CACHE);
    pkv_seq s = fx_with(f, "abcdef");
    int32_t full = fx_block(f, s, 0), tail = fx_block(f, s, 1);
    assert_int_equal(fx_info(f, s).blocks_if_closed, 2);
    ref(f, tail);
    assert_int_equal(fx_info(f, s).blocks_if_closed, 1);
    assert_int_equal(fx_need(f, s, 1).copies, 1);
    fx_reserve(f, s, 1);
    assert_int_equal(f->work.n_copy, 1);
    assert_int_equal(f->copy[0].src, tail);
    states(f, 3, 0, 1);
    unref(f, tail);
    states(f, 2, 0, 0);
    ref(f, full);
    fx_close(f, s);
    states(f, 1, 0, 1);
    assert_int_equal(fx_match(f, "abcdx", 0, NULL), 4);
    fx_refused(f, ARG, pkv_blocks_ref(f->m, &tail, 1)); /* free */
    unref(f, full);
    states(f, 0, 1, 0);
    ref(f, full); /* cached */
    states(f, 1, 0, 1);
    pkv_step one = fx_begin(f);
    unref(f, full);
    assert_int_equal(fx_stats(f).limbo_blocks, 1);
    ref(f, full); /* in LIMBO, with content */
    states(f, 1, 0, 1);
    int32_t plain;
    take(f, 1, &plain);
    unref(f, plain);
    fx_refused(f, ARG, pkv_blocks_ref(f->m, &plain, 1)); /* in LIMBO, without */
    const int32_t both[2] = { full, plain };
    fx_refused(f, ARG, pkv_blocks_ref(f->m, both, 2));
    unref(f, full);
    fx_retire(f, one);
    states(f, 0, 1, 0);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* A block with room that a sequence has reserved and not committed cannot be referred to: what it
 * launched there would be lost. */
static void room_of_a_sequence(void **state)
{
    (void)state;
    fx *f = fx_new(10, 4, CACHE);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 2);
    int32_t block = fx_block(f, s, 0);
    fx_refused(f, ARG, pkv_blocks_ref(f->m, &block, 1));
    assert_ok(fx_put(f, s, "a", PKV_STEP_NONE));
    fx_refused(f, ARG, pkv_blocks_ref(f->m, &block, 1));
    assert_ok(fx_put(f, s, "b", PKV_STEP_NONE));
    ref(f, block);
    assert_int_equal(fx_need(f, s, 1).copies, 1);
    unref(f, block);
    fx_close(f, s);
    assert_int_equal(fx_drain(f), 9);
    fx_end(f);
}

/* Equal content, once by a sequence and once by hand: a spare that takes over. */
static void duplicates_by_hand(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    pkv_seq s = fx_with(f, "ab");
    int32_t block, found;
    take(f, 1, &block);
    assert_ok(publish(f, 0, "ab", block));
    assert_int_equal(lookup(f, "ab", &found, 1), 1);
    assert_int_equal(found, fx_block(f, s, 0));
    unref(f, found);
    fx_close(f, s);
    states(f, 1, 0, 1);
    assert_int_equal(lookup(f, "ab", &found, 1), 1);
    assert_int_equal(found, block);
    unref(f, block);
    unref(f, block);
    states(f, 0, 1, 0);
    fx_end(f);
}

/* A look-up is a hit. */
static void a_lookup_protects(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    int32_t found;
    fx_close(f, fx_with(f, "aa"));
    fx_close(f, fx_with(f, "bb"));
    fx_close(f, fx_with(f, "cc"));
    assert_int_equal(lookup(f, "aa", &found, 1), 1);
    unref(f, found);
    assert_int_equal(fx_stats(f).protected_blocks, 1);
    fx_close(f, fx_with(f, "dd"));
    fx_evict(f, 3);
    assert_int_equal(fx_probe(f, "aa"), 2);
    fx_end(f);
}

/* A child that becomes evictable while its parent is already: directly before it, whatever its own
 * priority. */
static void a_late_child_is_put_before_its_parent(void **state)
{
    (void)state;
    fx *f = fx_new(10, 2, CACHE);
    fx_close(f, fx_with(f, "zz"));
    pkv_seq s = fx_with(f, "abcd");
    int32_t child = fx_block(f, s, 1);
    assert_ok(pkv_seq_retain(f->m, s, 2, 2, 7));
    ref(f, child);
    fx_close(f, s);
    fx_close(f, fx_with(f, "yy"));
    states(f, 1, 3, 1); /* zz, ab, yy */
    unref(f, child);
    static const char *const order[4] = { "zz", "abcd", "ab", "yy" };
    for (int i = 0; i < 4; i++) {
        int32_t length = (int32_t)strlen(order[i]);
        assert_int_equal(fx_probe(f, order[i]), length);
        fx_evict(f, 1);
        assert_int_equal(fx_probe(f, order[i]), length - 2);
        fx_check(f);
    }
    fx_end(f);
}

static void only_one_full_group(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = fx_config(10, 2, CACHE);
    static const pkv_group two[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                      { PKV_GROUP_FULL, 2, 0, 0, 0 } };
    static const pkv_group sliding[1] = { { PKV_GROUP_SLIDING, 2, 4, 0, 0 } };
    int32_t ids[2] = { 1, 2 }, n, tokens[2] = { 1, 2 };
    pkv_tokens t = { tokens, 2, NULL, 0 };
    for (int k = 0; k < 2; k++) {
        cfg.groups = k ? sliding : two;
        cfg.n_groups = k ? 1 : 2;
        fx *f = fx_from(&cfg);
        fx_refused(f, PKV_E_UNSUPPORTED, pkv_blocks_take(f->m, 1, ids, &f->work));
        if (k == 0) {
            fx_refused(f, PKV_E_UNSUPPORTED, pkv_block_publish(f->m, DEFAULT, 0, &t, 1));
            fx_refused(f, PKV_E_UNSUPPORTED, pkv_blocks_lookup(f->m, DEFAULT, &t, ids, 2, &n));
        }
        fx_end(f);
    }
    fx *f = fx_new(10, 2, 0); /* no prefix cache */
    take(f, 1, ids);
    fx_refused(f, PKV_E_UNSUPPORTED, publish(f, 0, "ab", ids[0]));
    unref(f, ids[0]);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(taken_and_given_back),
        cmocka_unit_test(verdicts_of_take),
        cmocka_unit_test(taken_blocks_are_zeroed),
        cmocka_unit_test(published_by_hand),
        cmocka_unit_test(units_with_extras),
        cmocka_unit_test(refused_publications),
        cmocka_unit_test(no_node_left),
        cmocka_unit_test(mixed_with_sequences),
        cmocka_unit_test(room_of_a_sequence),
        cmocka_unit_test(duplicates_by_hand),
        cmocka_unit_test(a_lookup_protects),
        cmocka_unit_test(a_late_child_is_put_before_its_parent),
        cmocka_unit_test(only_one_full_group),
    };
    return cmocka_run_group_tests_name("raw", tests, NULL, NULL);
}
