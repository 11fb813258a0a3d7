/* Every capacity at its edge and one beyond, and every field of the configuration. */
#include "mgr_fixture.h"

static pkv_blockmgr_config small(void)
{
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 9;
    cfg.block_tokens = 4;
    cfg.max_seqs = 3;
    cfg.max_seq_tokens = 24;
    return cfg;
}

static void sequences(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    fx *f = fx_from(&cfg);
    pkv_seq s[3], t = { 1 }, kids[3] = { { 1 }, { 2 }, { 3 } };
    for (int i = 0; i < 3; i++) s[i] = fx_open(f);
    fx_refused(f, PKV_E_LIMIT, pkv_seq_open(f->m, (pkv_ns){ 0 }, &t));
    fx_refused(f, PKV_E_LIMIT, pkv_seq_fork(f->m, s[0], kids, 1));
    assert_int_equal(t.v, 1);
    assert_int_equal(fx_stats(f).open_seqs, 3);
    fx_close(f, s[1]);
    fx_refused(f, PKV_E_LIMIT, pkv_seq_fork(f->m, s[0], kids, 2));
    fx_refused(f, PKV_E_LIMIT, pkv_seq_fork(f->m, s[0], kids, INT32_MAX));
    assert_true(kids[0].v == 1 && kids[1].v == 2);
    fx_fork(f, s[0]);
    fx_end(f);
}

static void namespaces(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.max_namespaces = 3;
    fx *f = fx_from(&cfg);
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns a, b, c = { 9 };
    p.model_digest[0] = 1;
    assert_ok(pkv_ns_open(f->m, &p, &a));
    p.model_digest[0] = 2;
    assert_ok(pkv_ns_open(f->m, &p, &b));
    p.model_digest[0] = 3;
    fx_refused(f, PKV_E_LIMIT, pkv_ns_open(f->m, &p, &c));
    assert_int_equal(c.v, 9);
    p.model_digest[0] = 2; /* one that is open needs no room */
    assert_ok(pkv_ns_open(f->m, &p, &c));
    assert_true(c.v == b.v);
    assert_ok(pkv_ns_close(f->m, a));
    p.model_digest[0] = 3;
    assert_ok(pkv_ns_open(f->m, &p, &c));
    fx_end(f);
    cfg.max_namespaces = 1; /* the default one only */
    f = fx_from(&cfg);
    fx_refused(f, PKV_E_LIMIT, pkv_ns_open(f->m, &p, &c));
    fx_end(f);
}

static void longest_sequence(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f);
    int32_t ids[30] = { 0 };
    pkv_tokens t = { ids, 30, NULL, 0 };
    fx_refused(f, PKV_E_LIMIT, pkv_seq_match(f->m, s, &t, 30, 25, &f->work, &f->match));
    fx_refused(f, PKV_E_LIMIT, pkv_seq_match(f->m, s, &t, 30, INT32_MAX, &f->work, &f->match));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, s, 25));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, s, INT32_MAX));
    fx_reserve(f, s, 24);
    t.n = 25;
    fx_refused(f, PKV_E_STATE, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    t.n = 24;
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, s, 1));
    t.n = 1;
    fx_refused(f, PKV_E_STATE, pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    fx_close(f, s);
    t.n = 30; /* a longer prompt is looked up to the longest length */
    s = fx_open(f);
    assert_ok(pkv_seq_match(f->m, s, &t, 30, 24, &f->work, &f->match));
    assert_int_equal(f->match.claimed, 24);
    assert_int_equal(f->match.stop_reason[0], PKV_STOP_END);
    fx_close(f, s);
    fx_end(f);
}

/* A row of all blocks is possible, one block more never is; others in between: not now. */
static void pool(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.n_blocks = 5;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f), t = fx_open(f);
    fx_reserve(f, s, 1);
    fx_refused(f, PKV_E_NO_BLOCKS, fx_try_reserve(f, t, 16));
    fx_refused(f, PKV_E_NEVER, fx_try_reserve(f, t, 17));
    pkv_reserve_req q[2] = { { t, 12 }, { s, 5 } };
    pkv_need need = PKV_NEED_INIT;
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_reserve(f->m, q, 2, &f->work));
    assert_ok(pkv_blockmgr_need(f->m, q, 2, &need));
    assert_int_equal(need.verdict, PKV_E_NO_BLOCKS);
    assert_int_equal(need.new_blocks, 4);
    q[1].n_tokens = 17;
    assert_ok(pkv_blockmgr_need(f->m, q, 2, &need));
    assert_int_equal(need.verdict, PKV_E_NEVER);
    assert_int_equal(need.new_blocks, 0);
    fx_close(f, s);
    fx_reserve(f, t, 16);
    fx_refused(f, PKV_E_NEVER, fx_try_reserve(f, t, 17));
    fx_truncate(f, t, 0);
    int32_t ids[1] = { 0 };
    pkv_tokens none = { ids, 0, NULL, 0 };
    fx_refused(f, PKV_E_NEVER, pkv_seq_match(f->m, t, &none, 0, 17, &f->work, &f->match));
    assert_ok(pkv_seq_match(f->m, t, &none, 0, 16, &f->work, &f->match));
    s = fx_open(f);
    fx_refused(f, PKV_E_NO_BLOCKS, pkv_seq_match(f->m, s, &none, 0, 1, &f->work, &f->match));
    fx_close(f, s);
    fx_close(f, t);
    fx_end(f);
}

static void nodes(void **state)
{
    (void)state;
    for (int32_t most = 1; most <= 3; most++) {
        pkv_blockmgr_config cfg = small();
        cfg.max_nodes = most;
        fx *f = fx_from(&cfg);
        pkv_seq s = fx_with(f, "aaaabbbbccccdddd"), t;
        assert_int_equal(fx_info(f, s).n_indexed, most);
        assert_int_equal(fx_stats(f).nodes, most);
        assert_int_equal(fx_stats(f).unindexed_units, 4 - most);
        assert_int_equal(fx_probe(f, "aaaabbbbccccdddd"), 4 * most);
        assert_int_equal(fx_match(f, "aaaa", 0, &t), 4); /* what is known needs no new node */
        fx_close(f, t);
        t = fx_with(f, "aaaaxxxx");
        assert_int_equal(fx_info(f, t).n_indexed, 1);
        fx_close(f, t);
        fx_close(f, s); /* what is not indexed is free, the rest stays cached */
        assert_int_equal(fx_stats(f).cached_blocks, most);
        fx_end(f);
    }
}

/* After the end of indexing: on again once truncated to before the first block that is missing. */
static void indexing_resumes(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.max_nodes = 2;
    fx *f = fx_from(&cfg);
    pkv_seq other = fx_with(f, "zzzz"), s = fx_with(f, "aaaabbbbcc");
    assert_int_equal(fx_info(f, s).n_indexed, 1);
    fx_close(f, other);
    fx_truncate(f, s, 9);
    fx_commit(f, s, "ccc");
    assert_int_equal(fx_info(f, s).n_indexed, 1);
    fx_truncate(f, s, 5); /* inside the block that is not findable: still off */
    pkv_seq t = fx_open(f);
    fx_reserve(f, t, 24); /* evicts zzzz: a node is free again */
    fx_close(f, t);
    fx_commit(f, s, "bbb");
    assert_int_equal(fx_info(f, s).n_indexed, 1);
    fx_truncate(f, s, 4);
    fx_commit(f, s, "bbbb");
    assert_int_equal(fx_info(f, s).n_indexed, 2);
    assert_int_equal(fx_probe(f, "aaaabbbb"), 8);
    fx_close(f, s);
    fx_end(f);
}

/* A partial key on the block gives its node to the full one. */
static void a_full_block_replaces_its_partial_node(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.max_nodes = 1;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_with(f, "a");
    fx_close(f, fx_fork(f, s));
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_commit(f, s, "b");
    fx_close(f, fx_fork(f, s)); /* a longer partial key */
    assert_int_equal(fx_probe(f, "abcd"), 2);
    fx_commit(f, s, "cd");
    assert_int_equal(fx_info(f, s).n_indexed, 1);
    assert_int_equal(fx_probe(f, "abcd"), 4);
    fx_close(f, s);
    fx_end(f);
}

/* Where dropping the partial key would free no node, the full block is not indexed and it stays. */
static void a_partial_node_stays_without_room(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.max_nodes = 1;
    cfg.max_seqs = 4;
    cfg.flags |= PKV_MGR_PARTIAL_HITS;
    fx *f = fx_from(&cfg);
    pkv_seq a = fx_with(f, "a"), b = fx_with(f, "a"), s;
    fx_close(f, fx_fork(f, a));
    fx_close(f, fx_fork(f, b)); /* b's block becomes the spare of the same key */
    int32_t first = fx_block(f, a, 0);
    assert_int_equal(fx_stats(f).nodes, 1);
    fx_commit(f, a, "bcd");
    assert_int_equal(fx_info(f, a).n_indexed, 0);
    assert_int_equal(fx_stats(f).unindexed_units, 1);
    assert_int_equal(fx_match(f, "abcd", 0, &s), 1);
    assert_int_equal(f->copy[0].src, first);
    fx_close(f, s);
    fx_close(f, a);
    fx_close(f, b);
    fx_end(f);
}

static void extras(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.max_extras = 3;
    fx *f = fx_from(&cfg);
    int32_t ids[16] = { 0 };
    pkv_extra ex[4] = { { 1, 1, { 1 } }, { 3, 3, { 2 } }, { 9, 1, { 3 } } };
    pkv_tokens t = { ids, 16, ex, 3 }; /* 2 in the first block, 1 in the second, 1 in the third */
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 16);
    assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
    assert_int_equal(fx_stats(f).extras, 3);
    assert_int_equal(fx_info(f, s).n_indexed, 2);
    assert_int_equal(fx_stats(f).unindexed_units, 2);
    fx_close(f, s);
    assert_int_equal(fx_stats(f).cached_blocks, 2);
    s = fx_open(f);
    fx_reserve(f, s, 24); /* 6 free blocks: nothing evicted */
    assert_int_equal(fx_stats(f).extras, 3);
    pkv_seq u = fx_open(f);
    fx_reserve(f, u, 8); /* evicts both */
    assert_int_equal(fx_stats(f).extras, 0);
    fx_close(f, u);
    fx_close(f, s);
    fx_end(f);
}

/* Work lists: exactly enough is enough, one less is a refusal, and it is judged last. */
static void work_lists(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = small();
    cfg.zero_policy = PKV_ZERO_ALWAYS;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f), c;
    f->work.zero_cap = 2;
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, s, 9));
    f->work.n_zero = -5;
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, s, 12));
    assert_int_equal(f->work.n_zero, -5);
    f->work.zero_cap = 3;
    fx_reserve(f, s, 9);
    assert_int_equal(f->work.n_zero, 3);
    fx_truncate(f, s, 0);
    fx_commit(f, s, "ab");
    c = fx_fork(f, s);
    f->work.copy_cap = 0;
    f->work.copy = NULL;
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, c, 1));
    f->work.copy_cap = 1;
    f->work.copy = f->copy;
    f->work.zero_cap = 0;
    f->work.zero = NULL;
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, c, 1));
    fx_refused(f, PKV_E_LIMIT, fx_try_reserve(f, c, 30)); /* longer than the longest: before */
    f->work.zero_cap = 1;
    f->work.zero = f->zero;
    fx_reserve(f, c, 1);
    assert_true(f->work.n_copy == 1 && f->work.n_zero == 1);
    fx_close(f, s);
    fx_close(f, c);
    fx_end(f);
}

static pkv_status try_config(const pkv_blockmgr_config *cfg)
{
    pkv_blockmgr *m = NULL;
    pkv_status st = pkv_blockmgr_create(cfg, NULL, &m);
    assert_true((st == PKV_OK) == (m != NULL));
    assert_true((st == PKV_OK) == (pkv_blockmgr_bytes(cfg) > 0));
    if (m) assert_ok(pkv_blockmgr_check(m, 3));
    pkv_blockmgr_destroy(m);
    return st;
}

/* Field by field: the least and the most that is allowed (where it fits a test), one beyond. */
static void configuration(void **state)
{
    (void)state;
    static const struct {
        size_t at;
        int32_t good[3], bad[3];
    } field[] = {
#define FIELD(name) offsetof(pkv_blockmgr_config, name)
        { FIELD(n_blocks), { 2, 3, 70000 }, { 1, 0, -1 } },
        { FIELD(block_tokens), { 0, 1, 2048 }, { -1, 2049, INT32_MAX } },
        { FIELD(max_seqs), { 1, 2, 5000 }, { 0, -1, (1 << 24) + 1 } },
        { FIELD(max_seq_tokens), { 1, 2, 1 << 20 }, { 0, -1, INT32_MAX - 1023 } },
        { FIELD(max_nodes), { 0, 1, 70000 }, { -1, INT32_MIN, -1 } },
        { FIELD(max_extras), { 0, 1, 70000 }, { -1, INT32_MIN, -1 } },
        { FIELD(max_namespaces), { 0, 1, 1000 }, { -1, INT32_MIN, -1 } },
        { FIELD(flags), { 0, 1, 15 }, { 16, PKV_MGR_PARTIAL_HITS, INT32_MIN } },
        { FIELD(zero_policy), { 0, 1, 2 }, { 3, -1, INT32_MAX } },
#undef FIELD
    };
    for (size_t i = 0; i < sizeof field / sizeof field[0]; i++) {
        for (int k = 0; k < 3; k++) {
            pkv_blockmgr_config cfg = small();
            memcpy((char *)&cfg + field[i].at, &field[i].good[k], 4);
            assert_ok(try_config(&cfg));
            memcpy((char *)&cfg + field[i].at, &field[i].bad[k], 4);
            assert_string_equal(pkv_status_name(try_config(&cfg)), "PKV_E_INVALID_ARG");
        }
    }
    pkv_blockmgr_config cfg = small();
    pkv_blockmgr *m = NULL;
    cfg.struct_size = 0;
    assert_int_equal(pkv_blockmgr_create(&cfg, NULL, &m), PKV_E_ABI);
    cfg.struct_size = sizeof cfg + 4;
    assert_int_equal(pkv_blockmgr_create(&cfg, NULL, &m), PKV_E_ABI);
    assert_int_equal(pkv_blockmgr_bytes(&cfg), 0);
    assert_int_equal(pkv_blockmgr_bytes(NULL), 0);
    assert_null(m);
}

/* Sizes that a test cannot hold are still answered, without overflow: the largest manager there is.
 * Sixteen tokens more in the longest sequence are sixteen ids more per row and per hold, and one
 * cache line of scratch; all but the rows is a few hundred bytes per block, sequence and namespace.
 */
static void huge_configurations(void **state)
{
    (void)state;
    const size_t seqs = (size_t)1 << 24, longest = (size_t)INT32_MAX - 2048;
    pkv_blockmgr_config cfg = small();
    size_t one = pkv_blockmgr_bytes(&cfg);
    assert_true(one > 0 && one < 100000);
    cfg.n_blocks = INT32_MAX;
    assert_true(pkv_blockmgr_bytes(&cfg) / 100 > (size_t)INT32_MAX / 2);
    cfg.max_seqs = 1 << 24;
    cfg.block_tokens = 1;
    cfg.max_seq_tokens = INT32_MAX - 2048;
    cfg.max_holds = 1;
    size_t all = pkv_blockmgr_bytes(&cfg), rows = seqs * longest * 4;
    assert_true(all > rows);
    assert_true(all - rows < 400 * ((size_t)INT32_MAX + seqs + 64) + 8 * longest);
    cfg.max_seq_tokens -= 16;
    assert_int_equal(all - pkv_blockmgr_bytes(&cfg), 16 * 4 * (seqs + 1) + 64);
    cfg.max_seq_tokens = INT32_MAX - 2047; /* the first that is refused */
    assert_int_equal(pkv_blockmgr_bytes(&cfg), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequences),
        cmocka_unit_test(namespaces),
        cmocka_unit_test(longest_sequence),
        cmocka_unit_test(pool),
        cmocka_unit_test(nodes),
        cmocka_unit_test(indexing_resumes),
        cmocka_unit_test(a_full_block_replaces_its_partial_node),
        cmocka_unit_test(a_partial_node_stays_without_room),
        cmocka_unit_test(extras),
        cmocka_unit_test(work_lists),
        cmocka_unit_test(configuration),
        cmocka_unit_test(huge_configurations),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
