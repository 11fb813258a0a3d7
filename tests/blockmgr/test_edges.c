/* Edges that random operations miss: content that differs in one place only, capacities of one,
 * nulls. */
#include "blockmgr/blockmgr_internal.h"
#include "mgr_fixture.h"
#include "pagedkv/blockmgr_holds.h"
#include "pagedkv/blockmgr_raw.h"
#include "pagedkv/blockmgr_steps.h"
#include "pagedkv/blockmgr_tables.h"

/* ---------------------------------------------------------------- the hash spreads */

/* Units with one hash crowd each other out of the index (at most 64 find room), so a hundred that
 * differ in one part, and are all findable, prove that this part is hashed. */
enum { CROWD = 100, UNIT = 131 }; /* a unit has this many tokens or one less: odd and even */

struct unit {
    int32_t first; /* token of the unit before */
    int32_t ids[UNIT];
    int32_t n_ids;
    int32_t of; /* tokens of a full unit */
    pkv_extra extra;
};

static struct unit plain(int32_t of)
{
    struct unit u = { .n_ids = of, .of = of, .extra = { .first = of, .n = 1 } };
    return u;
}

/* A unit of one token repeated, then `u`; committed and closed, or only looked for: the number of
 * tokens that are found. */
static int32_t visit(fx *f, const struct unit *u, bool commit)
{
    int32_t ids[2 * UNIT];
    pkv_tokens t = { ids, u->of + u->n_ids, &u->extra, 1 };
    for (int i = 0; i < u->of; i++) ids[i] = u->first;
    memcpy(ids + u->of, u->ids, (size_t)u->n_ids * sizeof *ids);
    if (commit) {
        pkv_seq s = fx_open(f);
        fx_reserve(f, s, t.n);
        assert_ok(pkv_seq_commit(f->m, s, &t, PKV_STEP_NONE));
        fx_close(f, s);
    }
    f->match = (pkv_match)PKV_MATCH_INIT;
    assert_ok(pkv_blockmgr_probe(f->m, (pkv_ns){ 0 }, &t, &f->match));
    return f->match.longest[0] + f->match.copied;
}

/* Fill a crowd; part `part` of unit i is the one that differs. */
static void vary(struct unit *u, int part, int i)
{
    if (part < 5) u->ids[(int[]){ 0, 1, 2, u->of - 2, u->of - 1 }[part]] = i;
    else if (part < 9) u->extra.digest[8 * (part - 5) + 3] = (uint8_t)i;
    else if (part == 9) u->extra.first += i;
    else if (part == 10) u->extra.n += i;
    else u->first = i;
}

static void crowd_of(int32_t of, int part)
{
    fx *f = fx_new(3 * CROWD, of, PKV_MGR_PREFIX_CACHE);
    for (int again = 0; again < 2; again++) {
        for (int i = 0; i < CROWD; i++) {
            struct unit u = plain(of);
            vary(&u, part, i);
            assert_int_equal(visit(f, &u, !again), 2 * of);
        }
    }
    assert_int_equal(fx_stats(f).unindexed_units, 0);
    fx_end(f);
}

static void everything_is_hashed(void **state)
{
    (void)state;
    for (int part = 0; part < 12; part++) {
        crowd_of(UNIT, part);
        crowd_of(UNIT - 1, part);
    }
}

/* The same for a unit that is not full: its length is hashed. */
static void lengths_are_hashed(void **state)
{
    (void)state;
    fx *f = fx_new(3 * CROWD, UNIT, PKV_MGR_PREFIX_CACHE | PKV_MGR_PARTIAL_HITS);
    for (int n = 1; n <= CROWD; n++) {
        struct unit u = plain(UNIT);
        u.n_ids = n;
        u.extra.first = 0, u.extra.n = UNIT; /* of the unit before */
        (void)visit(f, &u, true);
    }
    assert_int_equal(fx_stats(f).nodes, 1 + CROWD);
    fx_end(f);
}

/* Each byte of the secret changes the hash, so none of them makes collisions easier to craft. */
static void every_byte_of_the_secret_counts(void **state)
{
    (void)state;
    uint64_t hash[17];
    for (int i = 0; i <= 16; i++) {
        pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
        cfg.n_blocks = 4, cfg.block_tokens = 4, cfg.max_seqs = 1, cfg.max_seq_tokens = 4;
        if (i < 16) cfg.hash_secret[i] = 1;
        fx *f = fx_from(&cfg);
        pkv_seq s = fx_with(f, "abcd");
        hash[i] = node_at(f->m, blocks_of(f->m)[fx_block(f, s, 0)].node)->hash;
        for (int k = 0; k < i; k++) assert_true(hash[k] != hash[i]);
        fx_end(f);
    }
}

/* ---------------------------------------------------------------- what is closed is forgotten */

static bool contains(const uint8_t *memory, size_t bytes, const uint8_t *what, size_t n)
{
    for (size_t i = 0; i + n <= bytes; i++)
        if (memcmp(memory + i, what, n) == 0) return true;
    return false;
}

/* The digest of a salt does not outlive its namespace. */
static void identities_are_erased(void **state)
{
    (void)state;
    fx *f = fx_new(8, 4, PKV_MGR_PREFIX_CACHE);
    const size_t bytes = pkv_blockmgr_bytes(&f->cfg);
    const uint8_t *memory = (const uint8_t *)f->m;
    pkv_ns_params p = PKV_NS_PARAMS_INIT;
    pkv_ns ns;
    uint8_t identity[32];
    p.salt = "secret", p.salt_bytes = 6;
    assert_ok(pkv_ns_open(f->m, &p, &ns));
    memcpy(identity, namespaces_of(f->m)[(uint32_t)ns.v].identity, sizeof identity);
    assert_true(contains(memory, bytes, identity, sizeof identity));
    assert_ok(pkv_ns_close(f->m, ns));
    assert_false(contains(memory, bytes, identity, 8));
    fx_end(f);
}

/* ---------------------------------------------------------------- work arrays */

static void work_arrays(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f);
    pkv_reserve_req q = { s, 1 };
    pkv_block_work w = PKV_BLOCK_WORK_INIT;
    w.copy_cap = 1;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_reserve(f->m, &q, 1, &w));
    w.copy_cap = -1, w.copy = f->copy;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_reserve(f->m, &q, 1, &w));
    w.copy_cap = 0, w.zero_cap = 1;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_reserve(f->m, &q, 1, &w));
    w.zero_cap = -1, w.zero = f->zero;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_reserve(f->m, &q, 1, &w));
    w.zero_cap = 0;
    assert_ok(pkv_seq_reserve(f->m, &q, 1, &w));   /* arrays without room are fine */
    assert_ok(pkv_seq_reserve(f->m, NULL, 0, &w)); /* and so is nothing to do */
    pkv_need need = PKV_NEED_INIT;
    assert_ok(pkv_blockmgr_need(f->m, NULL, 0, &need));
    assert_ok(need.verdict);
    assert_int_equal(need.new_blocks, 0);
    fx_end(f);
}

/* ---------------------------------------------------------------- after 2^32 batches */

/* A sequence that was named in the first batch is not taken for one named in this one. */
static void batch_numbers_wrap(void **state)
{
    (void)state;
    fx *f = fx_new(8, 4, PKV_MGR_PREFIX_CACHE);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 1);
    f->m->batch_no = UINT32_MAX;
    fx_reserve(f, s, 1);
    assert_int_equal(f->m->batch_no, 1);
    pkv_reserve_req twice[2] = { { s, 1 }, { s, 1 } };
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_reserve(f->m, twice, 2, &f->work));
    f->m->batch_no = UINT32_MAX;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_reserve(f->m, twice, 2, &f->work));
    fx_end(f);
}

/* ---------------------------------------------------------------- neighbours on the host */

/* The checker counts each row's host blocks once, whatever the row behind it holds. */
static void neighbours_on_the_host(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 20, cfg.block_tokens = 2, cfg.max_seqs = 3, cfg.max_seq_tokens = 4;
    cfg.n_host_blocks = 9;
    fx *f = fx_from(&cfg);
    const pkv_seq s[3] = { fx_with(f, "abcd"), fx_with(f, "ABCD"), fx_with(f, "1234") };
    pkv_swap_copy copies[8];
    pkv_hold_result done;
    pkv_hold hold;
    int32_t n;
    assert_ok(pkv_seqs_suspend(f->m, s, 3, 10, copies, 8, &n, &hold));
    assert_int_equal(n, 6);
    assert_ok(pkv_blockmgr_check(f->m, 3));
    pkv_hold_post(f->m, hold, PKV_OK);
    assert_ok(pkv_blockmgr_poll(f->m, 0, &done, 1, &n));
    assert_int_equal(fx_stats(f).free_host_blocks, 2);
    fx_end(f);
}

/* ---------------------------------------------------------------- half a snapshot */

static void snapshot(fx *f, pkv_seq s, int32_t n_copies)
{
    assert_ok(pkv_seq_snapshot(f->m, s, &f->work));
    assert_int_equal(f->work.n_copy, n_copies);
}

/* What is left of a snapshot is not evicted for the rest of it, though it is the oldest. */
static void what_is_left_of_a_snapshot_stays(void **state)
{
    (void)state;
    static const pkv_group g[2] = { { PKV_GROUP_FULL, 2, 0, 0, 0 },
                                    { PKV_GROUP_STATE, 0, 0, 0, 2 } };
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 11, cfg.max_seqs = 4, cfg.max_seq_tokens = 8, cfg.groups = g, cfg.n_groups = 2;
    fx *f = fx_from(&cfg);
    const pkv_seq s = fx_with(f, "abcd"); /* 2 + 2 blocks */
    int32_t n;
    snapshot(f, s, 2);
    assert_ok(pkv_blockmgr_evict(f->m, 1, &n));
    fx_close(f, fx_with(f, "xy"));
    fx_reserve(f, fx_open(f), 4);
    assert_int_equal(fx_stats(f).free_blocks, 0);
    assert_int_equal(fx_stats(f).cached_blocks, 2); /* half a snapshot, then "xy" */
    snapshot(f, s, 1);
    snapshot(f, s, 0);
    fx_end(f);
}

/* ---------------------------------------------------------------- first and last block */

static void link_pair(pkv_blockmgr *m, int32_t first, int32_t second)
{
    struct block_rec *b = blocks_of(m);
    struct block_list *l = &m->lists[pkv__evict_list_of(m, first)];
    assert_int_equal(l->n, 2);
    l->head = first, l->tail = second;
    b[first].prev = NONE, b[first].next = second;
    b[second].prev = first, b[second].next = NONE;
}

/* A child that goes after its parent is found in the first block and in the last. */
static void every_block_is_checked(void **state)
{
    (void)state;
    for (int32_t child = 1; child <= 2; child++) {
        fx *f = fx_new(3, 2, PKV_MGR_PREFIX_CACHE);
        pkv_seq other = fx_open(f), s = fx_open(f);
        if (child == 1) fx_reserve(f, other, 1);
        fx_commit(f, s, "ab");
        fx_truncate(f, other, 0);
        fx_commit(f, s, "cd");
        assert_int_equal(fx_block(f, s, 1), child);
        fx_close(f, s);
        assert_ok(pkv_blockmgr_check(f->m, 3));
        link_pair(f->m, 3 - child, child);
        assert_int_equal(pkv_blockmgr_check(f->m, 3), PKV_E_CORRUPT);
        link_pair(f->m, child, 3 - child);
        fx_end(f);
    }
}

/* ---------------------------------------------------------------- more than 64 sequences */

enum { MANY = 130, WIDTH = 4 };

/* The copy becomes what the rows of the open sequences are. */
static void follow_delta(fx *f, const pkv_seq *s, const bool *open, int32_t copy[MANY][WIDTH])
{
    static pkv_table_range range[MANY];
    static int32_t ids[MANY * WIDTH];
    pkv_delta d = PKV_DELTA_INIT;
    assert_ok(pkv_table_delta(f->m, 0, range, MANY, ids, MANY * WIDTH, &d));
    for (int32_t i = 0, at = 0; i < d.n_ranges; i++) {
        assert_true(i == 0 || range[i].row_idx > range[i - 1].row_idx);
        for (int32_t k = 0; k < range[i].n; k++)
            copy[range[i].row_idx][range[i].first + k] = ids[at++];
    }
    for (int i = 0; i < MANY; i++)
        for (int32_t k = 0; k < WIDTH; k++)
            assert_int_equal(copy[i][k],
                             open[i] && k < fx_row_len(f, s[i]) ? fx_block(f, s[i], k) : 0);
}

/* Steps and deltas keep sets of sequences: of a hundred and thirty, some closed with commits
 * pending, one step retires and one is given up. */
static void many_sequences(void **state)
{
    (void)state;
    static int32_t copy[MANY][WIDTH];
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 3 * MANY, cfg.block_tokens = 2, cfg.max_seqs = MANY;
    cfg.max_seq_tokens = 2 * WIDTH;
    fx *f = fx_from(&cfg);
    pkv_seq s[MANY];
    bool open[MANY];
    const pkv_step step[2] = { fx_begin(f), fx_begin(f) };
    for (int i = 0; i < MANY; i++) {
        s[i] = fx_open(f), open[i] = true;
        fx_commit_in(f, s[i], "abc", step[i % 3 == 0]);
        assert_int_equal(fx_info(f, s[i]).row_idx, i);
    }
    follow_delta(f, s, open, copy);
    for (int i = 0; i < MANY; i += 2) {
        fx_close(f, s[i]);
        open[i] = false;
    }
    assert_ok(pkv_blockmgr_check(f->m, 3));
    follow_delta(f, s, open, copy);
    fx_retire(f, step[0]);
    assert_ok(pkv_blockmgr_check(f->m, 3));
    fx_abort(f, step[1]);
    follow_delta(f, s, open, copy);
    for (int i = 1; i < MANY; i += 2) {
        assert_int_equal(fx_info(f, s[i]).settled, i % 3 == 0 ? 0 : 3);
        assert_int_equal(fx_info(f, s[i]).committed, i % 3 == 0 ? 0 : 3);
    }
    assert_int_equal(fx_stats(f).open_seqs, MANY / 2);
    fx_end(f);
}

/* ---------------------------------------------------------------- 2^30 raw references */

static void raw_references_end_somewhere(void **state)
{
    (void)state;
    fx *f = fx_new(8, 4, PKV_MGR_PREFIX_CACHE);
    const int32_t block = fx_block(f, fx_with(f, "abcd"), 0), twice[2] = { block, block };
    f->m->n_raw_refs = (1 << 30) - 1;
    fx_refused(f, PKV_E_LIMIT, pkv_blocks_ref(f->m, twice, 2));
    assert_ok(pkv_blocks_ref(f->m, twice, 1));
    fx_refused(f, PKV_E_LIMIT, pkv_blocks_ref(f->m, twice, 1));
    assert_ok(pkv_blocks_ref(f->m, twice, 0));
    f->m->n_raw_refs = 1;
    fx_end(f);
}

/* ---------------------------------------------------------------- questions leave no trace */

/* The checker, the digest and the statistics use scratch; every byte is as before. */
static void questions_change_no_byte(void **state)
{
    (void)state;
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    cfg.n_blocks = 20, cfg.block_tokens = 4, cfg.max_seqs = 4, cfg.max_seq_tokens = 40;
    const size_t bytes = pkv_blockmgr_bytes(&cfg);
    uint8_t *arena = aligned_alloc(64, (bytes + 63) / 64 * 64), *before = malloc(bytes);
    assert_non_null(arena);
    assert_non_null(before);
    memset(arena, 0, bytes);
    fx *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->work = (pkv_block_work){ sizeof f->work, f->zero, FX_CAP, 0, f->copy, FX_CAP, 0 };
    assert_ok(pkv_blockmgr_init(arena, bytes, &cfg, &f->m));
    (void)fx_fork(f, fx_with(f, "abcdefghi"));
    (void)fx_with(f, "abcd");
    fx_close(f, fx_with(f, "ABCDEFGHI"));
    memcpy(before, arena, bytes);
    for (int level = 1; level <= 3; level++) {
        assert_ok(pkv_blockmgr_check(f->m, level));
        assert_memory_equal(before, arena, bytes);
    }
    uint8_t digest[16];
    pkv_blockmgr_digest(f->m, digest);
    (void)fx_stats(f);
    assert_memory_equal(before, arena, bytes);
    free(f);
    free(before);
    free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything_is_hashed),
        cmocka_unit_test(lengths_are_hashed),
        cmocka_unit_test(every_byte_of_the_secret_counts),
        cmocka_unit_test(identities_are_erased),
        cmocka_unit_test(work_arrays),
        cmocka_unit_test(batch_numbers_wrap),
        cmocka_unit_test(neighbours_on_the_host),
        cmocka_unit_test(every_block_is_checked),
        cmocka_unit_test(many_sequences),
        cmocka_unit_test(raw_references_end_somewhere),
        cmocka_unit_test(what_is_left_of_a_snapshot_stays),
        cmocka_unit_test(questions_change_no_byte),
    };
    return cmocka_run_group_tests_name("edges", tests, NULL, NULL);
}
