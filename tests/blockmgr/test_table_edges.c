/* Tables for devices at their edges: arrays of exactly the size, changes that are taken back, ids
 * that do not fit. */
#include "mgr_fixture.h"

#include "pagedkv/blockmgr_tables.h"

enum { GUARD = -77 };

/* What grew and shrank again between two deltas is no change; neither is a row that was never
 * longer than at the last one. */
static void back_and_forth(void **state)
{
    (void)state;
    fx *f = fx_new(20, 2, 0);
    pkv_table_range ranges[4];
    int32_t ids[32];
    pkv_delta d = PKV_DELTA_INIT;
    pkv_seq s = fx_open(f), gone = fx_open(f);
    fx_reserve(f, s, 4);
    assert_ok(pkv_table_delta(f->m, 0, ranges, 4, ids, 32, &d));
    assert_int_equal(d.n_ids, 2);
    fx_reserve(f, s, 12);
    fx_reserve(f, gone, 6);
    fx_truncate(f, s, 4);
    fx_close(f, gone);
    assert_ok(pkv_table_delta(f->m, 0, NULL, 0, NULL, 0, &d));
    assert_int_equal(d.n_ranges, 0);
    assert_int_equal(d.n_ids, 0);
    fx_reserve(f, s, 12);
    fx_truncate(f, s, 6); /* one entry stays of four */
    assert_ok(pkv_table_delta(f->m, 0, ranges, 4, ids, 32, &d));
    assert_int_equal(d.n_ids, 1);
    assert_int_equal(ranges[0].first, 2);
    assert_int_equal(ids[0], fx_block(f, s, 2));
    fx_end(f);
}

/* Nothing is written behind what the call says. */
static void arrays_of_the_size(void **state)
{
    (void)state;
    fx *f = fx_new(20, 4, 0);
    pkv_table_range ranges[2] = { { GUARD, GUARD, GUARD }, { GUARD, GUARD, GUARD } };
    int32_t ids[9], n = 0, n_local = 0;
    int64_t slots[6];
    pkv_delta d = PKV_DELTA_INIT;
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    pkv_seq s = fx_open(f);
    for (int i = 0; i < 9; i++) ids[i] = GUARD;
    for (int i = 0; i < 6; i++) slots[i] = GUARD;
    fx_reserve(f, s, 15);
    assert_ok(pkv_table_delta(f->m, 0, ranges, 1, ids, 4, &d));
    assert_int_equal(d.n_ids, 4);
    assert_true(ids[3] > 0 && ids[4] == GUARD && ranges[1].n == GUARD);
    v.kernel_tokens = 2;
    assert_ok(pkv_seq_view_row(f->m, s, 0, &v, ids, 8, &n, &n_local));
    assert_int_equal(n, 8);
    assert_true(ids[7] > 0 && ids[8] == GUARD);
    assert_int_equal(n_local, 0); /* nothing is committed */
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 0, 5, slots));
    assert_true(slots[4] > 0 && slots[5] == GUARD);
    assert_ok(pkv_seq_view_slots(f->m, s, 0, &v, 15, 0, slots));
    fx_end(f);
}

/* Block ids times sub-blocks have to fit 32 bits: 2^20 blocks of 2^11 sub-blocks do not. */
static void ids_that_do_not_fit(void **state)
{
    (void)state;
    const pkv_group group = { PKV_GROUP_FULL, 2048, 0, 0, 0 };
    pkv_blockmgr_config cfg = PKV_BLOCKMGR_CONFIG_INIT;
    int32_t ids[2048], n = 0, n_local;
    pkv_kernel_view v = PKV_KERNEL_VIEW_INIT;
    cfg.n_blocks = 1 << 20, cfg.max_seqs = 2, cfg.max_seq_tokens = 4096, cfg.flags = 0;
    cfg.groups = &group, cfg.n_groups = 1;
    fx *f = fx_from(&cfg);
    pkv_seq s = fx_open(f);
    fx_reserve(f, s, 1);
    v.kernel_tokens = 1;
    fx_refused(f, PKV_E_INVALID_ARG, pkv_seq_view_row(f->m, s, 0, &v, ids, 2048, &n, &n_local));
    v.kernel_tokens = 2;
    assert_ok(pkv_seq_view_row(f->m, s, 0, &v, ids, 2048, &n, &n_local));
    assert_int_equal(n, 1024);
    assert_int_equal(ids[1023], fx_block(f, s, 0) * 1024 + 1023);
    fx_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(back_and_forth),
                                        cmocka_unit_test(arrays_of_the_size),
                                        cmocka_unit_test(ids_that_do_not_fit) };
    return cmocka_run_group_tests_name("table_edges", tests, NULL, NULL);
}
