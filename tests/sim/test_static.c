/* Static batches through their table of functions, against a batch worked out by hand. */
#include "sim/sim_internal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const pkv__sim_policy_ops *const ops = &pkv__sim_policy_static;

static pkv_sim_config config(const char *policy, int32_t pool, int32_t max_len)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    assert_int_equal(pkv_sim_policy_parse(policy, NULL, &cfg.policy), PKV_OK);
    cfg.pool_tokens = pool;
    cfg.max_model_len = max_len;
    return cfg;
}

static pkv_status admit(void *p, int64_t r, int32_t u)
{
    int32_t cached = -1;
    const pkv_status status = ops->admit(p, r, u, false, &cached);
    assert_int_equal(cached, 0);
    assert_int_equal(ops->check(p), PKV_OK);
    return status;
}

static void release(void *p, int64_t r)
{
    assert_int_equal(ops->release(p, r), PKV_OK);
    assert_int_equal(ops->check(p), PKV_OK);
}

/* Parts in the order token, reservation, internal, rounding, dead, free. */
static void expect_parts(const void *p, const pkv__sim_held *running, int32_t n,
                         const int64_t want[6])
{
    pkv__sim_sample all, sum = { { 0 } };
    int64_t n_free, tokens = 0;
    for (int32_t k = 0; k < n; k++) {
        tokens += running[k].u;
        ops->usage_of(p, running[k].r, running[k].u, &sum);
    }
    ops->usage(p, tokens, &all, &n_free);
    assert_int_equal(all.part[PKV__PART_TOKEN], want[0]);
    assert_int_equal(all.part[PKV__PART_RESERVATION], want[1]);
    assert_int_equal(all.part[PKV__PART_INTERNAL], want[2]);
    assert_int_equal(all.part[PKV__PART_ROUNDING], want[3]);
    assert_int_equal(all.part[PKV__PART_DEAD], want[4]);
    assert_int_equal(n_free, want[5]);
    assert_int_equal(sum.part[PKV__PART_LOGICAL], all.part[PKV__PART_LOGICAL]);
    assert_int_equal(sum.part[PKV__PART_RESERVATION], all.part[PKV__PART_RESERVATION]);
    assert_int_equal(sum.part[PKV__PART_ROUNDING], all.part[PKV__PART_ROUNDING]);
    assert_int_equal(sum.part[PKV__PART_INTERNAL] + want[4], all.part[PKV__PART_INTERNAL]);
}
#define EXPECT_PARTS(p, n, running, ...)                                                           \
    expect_parts(p, running, n, (const int64_t[6]){ __VA_ARGS__ })

/* Pool 35, M = 10: three rows of 10. Prompts and outputs (3,2), (2,4), (5,1), (4,3). */
static void test_batch_by_hand(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 3, 2 }, { 0, 2, 4 }, { 0, 5, 1 }, { 0, 4, 3 } };
    const pkv_sim_config cfg = config("static-batch:ideal", 35, 10);
    void *p;
    assert_int_equal(ops->create(&cfg, reqs, 4, &p), PKV_OK);
    EXPECT_PARTS(p, 0, NULL, 0, 0, 0, 0, 0, 35);
    assert_int_equal(admit(p, 0, 3), PKV_OK);
    assert_int_equal(admit(p, 1, 2), PKV_OK);
    assert_int_equal(admit(p, 2, 5), PKV_OK);
    assert_false(ops->closed(p));
    assert_int_equal(admit(p, 3, 4), PKV_E_NO_BLOCKS);
    assert_int_equal(ops->need(p, 3, 4), 10);
    assert_int_equal(ops->grow(p, 0, 3), PKV_OK);
    assert_true(ops->closed(p));
    const pkv__sim_held first[] = { { 0, 3 }, { 1, 2 }, { 2, 5 } };
    EXPECT_PARTS(p, 3, first, 10, 5 + 6 + 6 - 10, 30 - 17, 0, 0, 5);
    /* (5,1) is done after one step: its row of 10 is dead */
    release(p, 2);
    const pkv__sim_held second[] = { { 0, 4 }, { 1, 3 } };
    EXPECT_PARTS(p, 2, second, 7, 4, 9 + 10, 0, 10, 5);
    assert_int_equal(admit(p, 3, 4), PKV_E_NO_BLOCKS);
    assert_int_equal(ops->held(p, 1), 10);
    release(p, 0);
    const pkv__sim_held third[] = { { 1, 4 } };
    EXPECT_PARTS(p, 1, third, 4, 2, 4 + 20, 0, 20, 5);
    assert_true(ops->closed(p));
    assert_int_equal(admit(p, 3, 4), PKV_E_NO_BLOCKS);
    release(p, 1); /* the longest: the batch ends */
    assert_false(ops->closed(p));
    EXPECT_PARTS(p, 0, NULL, 0, 0, 0, 0, 0, 35);
    assert_int_equal(ops->held(p, 0), 0);
    assert_int_equal(admit(p, 3, 4), PKV_OK);
    const pkv__sim_held fourth[] = { { 3, 4 } };
    EXPECT_PARTS(p, 1, fourth, 4, 3, 3, 0, 0, 25);
    assert_int_equal(ops->leap_limit(p, 3, 4), INT64_MAX);
    ops->destroy(p);
}

/* Buddy rounds 10 to 16: 35 = 32 + 2 + 1 has room for two, and 6 slots of each are rounding. What
 * is dead is all internal. */
static void test_rounding(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 3, 2 }, { 0, 2, 4 }, { 0, 5, 1 } };
    const pkv_sim_config cfg = config("static-batch", 35, 10);
    void *p;
    assert_int_equal(ops->create(&cfg, reqs, 3, &p), PKV_OK);
    assert_true(ops->fits_empty(p, 0));
    assert_int_equal(admit(p, 0, 3), PKV_OK);
    assert_int_equal(admit(p, 1, 2), PKV_OK);
    assert_int_equal(admit(p, 2, 5), PKV_E_NO_BLOCKS);
    const pkv__sim_held first[] = { { 0, 3 }, { 1, 2 } };
    EXPECT_PARTS(p, 2, first, 5, 6, 9, 12, 0, 3);
    release(p, 0);
    const pkv__sim_held second[] = { { 1, 3 } };
    EXPECT_PARTS(p, 1, second, 3, 3, 4 + 16, 6, 16, 3);
    pkv__sim_cell cells[7] = { { { 0 } } };
    assert_true(ops->map(p, second, 1, cells, 7));
    int64_t sum[PKV__MAP_STATES] = { 0 };
    for (int k = 0; k < 7; k++)
        for (int s = 0; s < PKV__MAP_STATES; s++) sum[s] += cells[k].slots[s];
    assert_int_equal(sum[PKV_SIM_MAP_TOKEN], 3);
    assert_int_equal(sum[PKV_SIM_MAP_RESERVED], 3);
    assert_int_equal(sum[PKV_SIM_MAP_INTERNAL], 20);
    assert_int_equal(sum[PKV_SIM_MAP_ROUNDING], 6);
    assert_int_equal(cells[2].slots[PKV_SIM_MAP_INTERNAL], 5); /* the dead row lies at 0 .. 16 */
    ops->destroy(p);
    const pkv_sim_config small = config("static-batch", 15, 10);
    assert_int_equal(ops->create(&small, reqs, 3, &p), PKV_OK);
    assert_false(ops->fits_empty(p, 0));
    ops->destroy(p);
}

/* The first step seals also where nobody grows, and so does a request that is done; an empty pool
 * is never sealed. No more members than may run, even if some are done. */
static void test_sealing(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 3, 0 }, { 0, 2, 4 }, { 0, 5, 1 } };
    pkv_sim_config cfg = config("static-batch:first-fit", 100, 10);
    cfg.max_num_seqs = 2;
    void *p;
    pkv__sim_costs costs = { 5, 5 };
    assert_int_equal(ops->create(&cfg, reqs, 3, &p), PKV_OK);
    ops->take_costs(p, &costs);
    assert_true(costs.ns == 0 && costs.moved_tokens == 0);
    assert_false(ops->closed(p));
    assert_int_equal(admit(p, 0, 3), PKV_OK);
    assert_int_equal(admit(p, 1, 2), PKV_OK);
    assert_int_equal(admit(p, 2, 5), PKV_E_NO_BLOCKS);
    ops->take_costs(p, &costs);
    assert_true(ops->closed(p));
    release(p, 1);
    assert_true(ops->closed(p));
    release(p, 0);
    assert_false(ops->closed(p));
    assert_int_equal(admit(p, 0, 3), PKV_OK);
    assert_int_equal(admit(p, 2, 5), PKV_OK);
    release(p, 0);
    assert_true(ops->closed(p));
    release(p, 2);
    assert_int_equal(admit(p, 1, 2), PKV_OK);
    ops->destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_batch_by_hand),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_sealing),
    };
    return cmocka_run_group_tests_name("static", tests, NULL, NULL);
}
