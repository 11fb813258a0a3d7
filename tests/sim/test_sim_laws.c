/* Laws that hold for any input: the same question asked in two ways has one answer. And allocation
 * failures: each in turn, nothing is lost. */
#include "common/philox.h"
#include "miser.h"
#include "sim/sim_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 400 };

static void expect_close(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.17g, expected %.17g +- %g", what, got, want, tolerance);
}

static void draw(pkv_sim_request *reqs, const char *lengths, int64_t rate_micro, uint64_t seed)
{
    assert_int_equal(pkv_sim_draw(lengths, seed, rate_micro, NULL, reqs, N), PKV_OK);
}

static pkv_sim_result run(const pkv_sim_config *base, const char *policy,
                          const pkv_sim_request *reqs)
{
    pkv_sim_config cfg = *base;
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv_sim_policy_parse(policy, NULL, &cfg.policy), PKV_OK);
    assert_int_equal(pkv_sim_run(&cfg, reqs, N, &res), PKV_OK);
    return res;
}

static const char *const all_policies[] = {
    "max",         "pow2",           "oracle",          "oracle:ideal",
    "max:ideal",   "pow2:first-fit", "oracle:best-fit", "oracle:next-fit",
    "max:compact", "vattn:page=64K", "orca-real",       "paged+prefix",
    "paged+swap",  "paged:block=1",  "paged:block=16",  "static-batch"
};
enum { N_JOINED = PKV_ARRAY_LEN(all_policies) - 1 }; /* of these, newcomers join who runs */

/* The first requests do not depend on how many are drawn; lengths not on the rate. */
static void test_draws_are_prefixes(void **state)
{
    (void)state;
    pkv_sim_request a[N], b[N];
    draw(a, "sharegpt-like", 8000000, 9);
    assert_int_equal(pkv_sim_draw("sharegpt-like", 9, 8000000, NULL, b, 100), PKV_OK);
    assert_memory_equal(a, b, 100 * sizeof(a[0]));
    draw(b, "sharegpt-like", 0, 9);
    for (int r = 0; r < N; r++) {
        assert_int_equal(a[r].prompt_tokens, b[r].prompt_tokens);
        assert_int_equal(a[r].output_tokens, b[r].output_tokens);
        assert_int_equal(b[r].arrival_ns, 0);
    }
    pkv_sim_arrival_config arrivals = PKV_SIM_ARRIVAL_CONFIG_INIT;
    arrivals.seed = 9;
    assert_int_equal(pkv_sim_arrivals(&arrivals, b, N), PKV_OK);
    assert_memory_equal(a, b, sizeof(a));
    arrivals.rate_micro = 1; /* one request per 10^6 s: 2^62 ns are 4.6e9 s */
    pkv_sim_request *many = malloc(8000 * sizeof(*many));
    assert_non_null(many);
    many[0].arrival_ns = -5;
    assert_int_equal(pkv_sim_arrivals(&arrivals, many, 8000), PKV_E_LIMIT);
    assert_int_equal(many[0].arrival_ns, -5);
    free(many);
}

/* One token per block: internal is the one slot per running request that is taken in advance. */
static void test_block_of_one(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    const pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    draw(reqs, "sharegpt-like", 8000000, 1);
    const pkv_sim_result r = run(&cfg, "paged:block=1", reqs);
    expect_close("internal", r.split.internal * cfg.pool_tokens, r.mean_batch, 1e-9);
}

/* Blocks as long as the longest request are max on an ideal pool. */
static void test_block_of_all(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.max_model_len = 512;
    cfg.pool_tokens = 512 * 9;
    cfg.watermark_ppm = 0;
    draw(reqs, "alpaca-like", 30000000, 2);
    const pkv_sim_result paged = run(&cfg, "paged:block=512", reqs);
    const pkv_sim_result max = run(&cfg, "max:ideal", reqs);
    assert_int_equal(paged.n_steps, max.n_steps);
    assert_int_equal(paged.n_preemptions, 0);
    expect_close("batch", paged.mean_batch, max.mean_batch, 0);
    expect_close("token", paged.split.token, max.split.token, 0);
    expect_close("external", paged.split.external, max.split.external, 0);
    expect_close("latency", paged.norm_s.mean, max.norm_s.mean, 0);
}

/* All times times k: the same shares and batch, latencies times k. */
static void test_scaled_time(void **state)
{
    (void)state;
    enum { K = 8 };
    pkv_sim_request reqs[N], slow[N];
    for (int chunked = 0; chunked < 2; chunked++) {
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        cfg.swap_tokens = 8000;
        cfg.swap_bytes_per_s = cfg.compact_bytes_per_s = 0;
        cfg.prefill_tokens_per_s = 100000; /* 10 us each */
        cfg.prefill_chunk = chunked ? 100 : 0;
        pkv_sim_config slow_cfg = cfg;
        slow_cfg.step_base_ns *= K;
        slow_cfg.step_per_seq_ns *= K;
        slow_cfg.step_per_token_ns *= K;
        slow_cfg.copy_latency_ns *= K;
        slow_cfg.prefill_tokens_per_s /= K;
        draw(reqs, "sharegpt-like", 8000000, 3);
        memcpy(slow, reqs, sizeof(slow));
        for (int r = 0; r < N; r++) slow[r].arrival_ns *= K;
        for (size_t k = 0; k < PKV_ARRAY_LEN(all_policies); k++) {
            const pkv_sim_result a = run(&cfg, all_policies[k], reqs);
            const pkv_sim_result b = run(&slow_cfg, all_policies[k], slow);
            assert_int_equal(a.n_steps, b.n_steps);
            assert_true(b.window_ns == K * a.window_ns && b.end_ns == K * a.end_ns);
            assert_true(b.move_ns == K * a.move_ns && b.prefill_ns == K * a.prefill_ns);
            assert_true(a.prefill_ns > 0);
            expect_close("token", b.split.token, a.split.token, 1e-12);
            expect_close("external", b.split.external, a.split.external, 1e-12);
            expect_close("batch", b.mean_batch, a.mean_batch, 1e-9);
            expect_close("latency", b.norm_s.p90, K * a.norm_s.p90, 1e-9);
        }
    }
}

/* Sum of residences = integral of the batch, whoever is put out and comes back. */
static void test_residence(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.window = PKV_SIM_WINDOW_ALL;
    cfg.swap_tokens = 2000;
    cfg.watermark_ppm = 0;
    draw(reqs, "sharegpt-like", 8000000, 8);
    for (size_t k = 0; k < PKV_ARRAY_LEN(all_policies); k++) {
        const pkv_sim_result r = run(&cfg, all_policies[k], reqs);
        const double want = r.mean_batch * (double)r.window_ns * 1e-9;
        expect_close("residences", r.residence_s.mean * (double)r.residence_s.n, want,
                     1e-11 * want);
    }
}

/* In a closed system more slots never lower the batch of ideal and paged. */
static void test_more_slots(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    draw(reqs, "sharegpt-like", 0, 4);
    static const char *const policies[] = { "max:ideal", "oracle:ideal", "paged:block=16" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(policies); k++) {
        double before = 0;
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        for (cfg.pool_tokens = 4096; cfg.pool_tokens <= 65536; cfg.pool_tokens += 4096) {
            const pkv_sim_result r = run(&cfg, policies[k], reqs);
            assert_int_equal(r.window, PKV_SIM_WINDOW_QUEUED);
            assert_true(r.mean_batch >= before);
            before = r.mean_batch;
        }
    }
}

/* Everything fits: nobody waits, and every policy that does not reject serves alike. */
static void test_no_pressure(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.pool_tokens = 1 << 21;
    cfg.max_num_seqs = N;
    draw(reqs, "sharegpt-like", 8000000, 5);
    const pkv_sim_result want = run(&cfg, "max", reqs);
    for (size_t k = 0; k < N_JOINED; k++) {
        const pkv_sim_result r = run(&cfg, all_policies[k], reqs);
        assert_int_equal(r.waited_ns, 0);
        assert_int_equal(r.n_preemptions, 0);
        assert_int_equal(r.end_ns, want.end_ns);
        expect_close("batch", r.mean_batch, want.mean_batch, 0);
        expect_close("token", r.split.token, want.split.token, 0);
        expect_close("latency", r.norm_s.p99, want.norm_s.p99, 0);
        expect_close("idle", r.split.idle + r.split.rounding, r.split.external, 1e-12);
    }
}

/* The limit on running requests shows as such, not as fragmentation. */
static void test_limited(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.pool_tokens = 1 << 20;
    cfg.max_num_seqs = 3;
    draw(reqs, "sharegpt-like", 0, 6);
    for (size_t k = 0; k < N_JOINED; k++) {
        const pkv_sim_result r = run(&cfg, all_policies[k], reqs);
        assert_int_equal(r.max_batch, 3);
        expect_close("batch", r.mean_batch, 3, 1e-12);
        expect_close("limited", r.split.limited + r.split.rounding, r.split.external, 1e-12);
    }
}

/* ---------------------------------------------------------------- Fig. 13 of the paper */

/* Alpaca at 30 requests/s: batches 7.00, 43.24 and 72.75, the latter two read off a figure. */
static void test_alpaca_batches(void **state)
{
    (void)state;
    enum { MANY = 8000 };
    static const struct {
        const char *policy;
        double batch, tolerance;
    } want[] = { { "max", 7.00, 0.05 }, { "pow2", 43.24, 3 }, { "oracle", 72.75, 6 } };
    pkv_sim_request *reqs = malloc(MANY * sizeof(*reqs));
    assert_non_null(reqs);
    assert_int_equal(pkv_sim_draw("alpaca-like", 0, 30000000, NULL, reqs, MANY), PKV_OK);
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        cfg.step_per_seq_ns = 400000;
        cfg.step_per_token_ns = 0;
        assert_int_equal(pkv_sim_policy_parse(want[k].policy, NULL, &cfg.policy), PKV_OK);
        assert_int_equal(pkv_sim_run(&cfg, reqs, MANY, &res), PKV_OK);
        expect_close(want[k].policy, res.mean_batch, want[k].batch, want[k].tolerance);
    }
    free(reqs);
}

/* ---------------------------------------------------------------- memory that runs out */

static void test_each_allocation_fails(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    draw(reqs, "sharegpt-like", 8000000, 7);
    for (size_t k = 0; k < PKV_ARRAY_LEN(all_policies); k++) {
        for (int allowed = 0;; allowed++) {
            miser m = { allowed, 0 };
            pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
            pkv_sim_result res = PKV_SIM_RESULT_INIT;
            res.n_steps = -77;
            cfg.check = true;
            cfg.alloc = (pkv_allocator){ miser_alloc, miser_free, &m };
            assert_int_equal(pkv_sim_policy_parse(all_policies[k], NULL, &cfg.policy), PKV_OK);
            const pkv_status status = pkv_sim_run(&cfg, reqs, N, &res);
            assert_int_equal(m.bytes, 0);
            if (status == PKV_OK) break;
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_int_equal(res.n_steps, -77);
            assert_in_range(allowed, 0, 100);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_draws_are_prefixes), cmocka_unit_test(test_block_of_one),
        cmocka_unit_test(test_block_of_all),       cmocka_unit_test(test_scaled_time),
        cmocka_unit_test(test_residence),          cmocka_unit_test(test_more_slots),
        cmocka_unit_test(test_no_pressure),        cmocka_unit_test(test_limited),
        cmocka_unit_test(test_alpaca_batches),     cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests_name("sim_laws", tests, NULL, NULL);
}
