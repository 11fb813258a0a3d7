/* Victims that move to the swap space: a run by hand, costs, a space that is too small, and blocks
 * that stay behind because others share them. */
#include "both_engines.h"
#include "common/philox.h"
#include "sim/paged.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

static uint64_t first_seed(uint64_t usual)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : usual;
}

/* Blocks of 2, steps of 10 ns, nothing kept free. A token is 10 bytes, a copy costs 5 ns a block
 * and 1 ns a byte. */
static pkv_sim_config small_config(int32_t pool, int32_t swap)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.policy.block_tokens = 2;
    cfg.policy.swap = true;
    cfg.pool_tokens = pool;
    cfg.swap_tokens = swap;
    cfg.max_model_len = 64;
    cfg.watermark_ppm = 0;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.kv_bytes_per_token = 10;
    cfg.copy_latency_ns = 5;
    cfg.swap_bytes_per_s = 1000000000;
    cfg.window = PKV_SIM_WINDOW_ALL;
    cfg.check = true;
    cfg.log.fn = print_log;
    return cfg;
}

/* A of 3 + 2 and B of 2 + 3 tokens, 4 blocks.
 *   step  A holds  B holds
 *   1     3        2         ceil(4/2) + ceil(3/2) = 4 blocks for this token and the next: all
 *   2     4                  A needs a third: B's 3 tokens, 2 blocks, move out: 2 * 5 ns and 2 * 2
 *                            * 10 bytes = 40 ns, so the step lasts 60. A is done
 *   3              3         B comes back: 60 ns again
 *   4              4         10 ns; B has its 3 tokens at 10 + 60 + 60 + 10 */
static const pkv_sim_request two[2] = { { 0, 3, 2 }, { 0, 2, 3 } };

static void test_by_hand(void **state)
{
    (void)state;
    const pkv_sim_config cfg = small_config(8, 4);
    const pkv_sim_result res = run_both(&cfg, two, 2);
    assert_int_equal(res.n_steps, 4);
    assert_int_equal(res.end_ns, 140);
    assert_int_equal(res.move_ns, 100);
    assert_int_equal(res.n_preemptions, 1);
    assert_int_equal(res.n_swaps, 1);
    assert_int_equal(res.swapped_blocks, 4);
    assert_int_equal(res.n_admissions, 2);
    assert_int_equal(res.generated_tokens, 5);
    assert_int_equal(res.recomputed_tokens, 0);
    const double all = 8 * 140;
    assert_true(fabs(res.split.token - (5 * 10 + 4 * 60 + 3 * 60 + 4 * 10) / all) < 1e-12);
}

/* A space of 3 slots is one block: B's 2 do not fit, it is computed again. The same without any,
 * and with less than a block. */
static void test_space_too_small(void **state)
{
    (void)state;
    for (int32_t swap = 0; swap <= 3; swap++) {
        const pkv_sim_config cfg = small_config(8, swap);
        const pkv_sim_result res = run_both(&cfg, two, 2);
        assert_int_equal(res.n_swaps, 0);
        assert_int_equal(res.move_ns, 0);
        assert_int_equal(res.swapped_blocks, 0);
        assert_int_equal(res.recomputed_tokens, 3);
        assert_int_equal(res.end_ns, 40);
    }
}

/* 3 ns per started 10^9 bytes, rounded up once per step; no rate: only the latency. */
static void test_costs(void **state)
{
    (void)state;
    pkv_sim_config cfg = small_config(8, 4);
    cfg.swap_bytes_per_s = 3000000000; /* 40 bytes take 13.3 ns */
    assert_int_equal(run_both(&cfg, two, 2).move_ns, 2 * (10 + 14));
    cfg.swap_bytes_per_s = 0;
    assert_int_equal(run_both(&cfg, two, 2).move_ns, 2 * 10);
    cfg.copy_latency_ns = 0;
    const pkv_sim_result res = run_both(&cfg, two, 2);
    assert_int_equal(res.move_ns, 0);
    assert_int_equal(res.end_ns, 40);
    assert_int_equal(res.swapped_blocks, 4);
}

/* A group moves together, what it shares once: 2 outputs of a prompt of 3 in a pool of 5 blocks
 * beside one of 3 + 2. In the first step the group has its prompt's full block, and a last block
 * each (the first copy): 3; A has 2. In the second A needs a third: 3 blocks move, and come back.
 */
static void test_group_moves_once(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 3, 2 }, { 0, 3, 2 } };
    pkv_sim_config cfg = small_config(14, 6);
    cfg.policy.group = PKV_SIM_GROUP_FORK;
    cfg.policy.n_seqs = 2;
    /* Both are groups: 3 blocks each in the first step, 5 in the second; 7 blocks in all. */
    const pkv_sim_result res = run_both(&cfg, reqs, 2);
    assert_int_equal(res.n_swaps, 1);
    assert_int_equal(res.swapped_blocks, 6);
    assert_int_equal(res.copied_blocks, 2);
    assert_int_equal(res.recomputed_tokens, 0);
    assert_int_equal(res.generated_tokens, 8);
}

/* 8 blocks, 1 of which is kept free at admission and resume. Z finds the beginning of W's prompt, 2
 * blocks.
 *   step 2   X 2 blocks, W 3, Z 5 of which 2 are W's: Z needs a sixth and moves its own 3 out
 *   step 6   X needs a fourth beside W's 5: W moves its own 3 out. The 2 that both began with stay,
 *            Z refers to them. Neither comes back: 3 and the one to keep are more than is free
 *   step 12  X, alone, needs a seventh block. Z's and W's share makes way, and the swap space with
 * it When X is done, W and Z are computed again, from 9 and 10 tokens on. */
static void test_what_stays_makes_way(void **state)
{
    (void)state;
    const int64_t first[] = { 0, 0, 2 };
    const int32_t n_ids[] = { 0, 2, 2 }, ids[] = { 0, 1, 0, 1 };
    const pkv_sim_content content = { 2, 2, first, n_ids, ids };
    const pkv_sim_request reqs[] = { { 0, 1, 15 }, { 0, 4, 8 }, { 0, 9, 3 } };
    pkv_sim_config cfg = small_config(16, 40);
    cfg.watermark_ppm = 125000;
    cfg.policy.prefix = true;
    cfg.content = &content;
    const pkv_sim_result res = run_both(&cfg, reqs, 3);
    assert_int_equal(res.n_finished, 3);
    assert_int_equal(res.hits.cached_tokens, 4);
    assert_int_equal(res.n_swaps, 2);
    assert_int_equal(res.n_preemptions, 2);
    assert_int_equal(res.swapped_blocks, 3 + 3);
    assert_int_equal(res.hits.again_tokens, 9 + 10);
    assert_int_equal(res.generated_tokens, 15 + 8 + 3);
}

/* Space enough and no costs: every token is generated once, none computed again, on drawn loads. */
static void test_nothing_is_computed_twice(void **state)
{
    (void)state;
    enum { N = 300 };
    pkv_sim_request reqs[N];
    const uint64_t first = first_seed(1), n_cases = getenv("PKV_SEED") ? 1 : 5;
    for (uint64_t seed = first; seed < first + n_cases; seed++) {
        assert_int_equal(pkv_sim_draw("sharegpt-like", seed, 8000000, NULL, reqs, N), PKV_OK);
        int64_t sum_o = 0;
        for (int r = 0; r < N; r++) sum_o += reqs[r].output_tokens;
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        cfg.policy.swap = true;
        cfg.swap_tokens = 100000;
        cfg.swap_bytes_per_s = cfg.copy_latency_ns = 0;
        cfg.check = true;
        const pkv_sim_result res = run_both(&cfg, reqs, N);
        if (res.generated_tokens != sum_o || res.recomputed_tokens != 0 || res.move_ns != 0 ||
            res.n_admissions != N || res.n_swaps < 50)
            fail_msg("PKV_SEED=%llu: %lld swaps, %lld tokens again", (unsigned long long)seed,
                     (long long)res.n_swaps, (long long)res.recomputed_tokens);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_space_too_small),
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_group_moves_once),
        cmocka_unit_test(test_what_stays_makes_way),
        cmocka_unit_test(test_nothing_is_computed_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
