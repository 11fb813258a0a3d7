/* Whole runs of the contiguous policies, static batches and vAttention: what two policies have in
 * common comes out equal, and small runs come out as worked out by hand. */
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

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

static uint64_t first_seed(void)
{
    const char *given = getenv("PKV_SEED");
    const uint64_t seed = given ? strtoull(given, NULL, 10) : 1;
    print_message("# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

static uint64_t n_seeds(uint64_t usual)
{
    return getenv("PKV_SEED") ? 1 : usual;
}

static void expect_close(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.17g, expected %.17g +- %g", what, got, want, tolerance);
}

static void set_policy(pkv_sim_config *cfg, const char *policy)
{
    assert_int_equal(pkv_sim_policy_parse(policy, NULL, &cfg->policy), PKV_OK);
}

/* Padding is 0, so that results compare with memcmp. */
static pkv_sim_result run(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    pkv_sim_result res;
    memset(&res, 0, sizeof(res));
    res.struct_size = sizeof(res);
    assert_int_equal(pkv_sim_run(cfg, reqs, n, &res), PKV_OK);
    return res;
}

static void expect_same(const char *what, uint64_t seed, const pkv_sim_result *a,
                        const pkv_sim_result *b)
{
    if (memcmp(a, b, sizeof(*a)) != 0)
        fail_msg("%s, PKV_SEED=%llu: %lld and %lld steps, batch %.17g and %.17g", what,
                 (unsigned long long)seed, (long long)a->n_steps, (long long)b->n_steps,
                 a->mean_batch, b->mean_batch);
}

/* Bursts and gaps, lengths up to 80 + 60, all kinds of scheduling. */
static void random_case(pkv__rng *rng, pkv_sim_config *cfg, pkv_sim_request *reqs, int64_t n)
{
    cfg->log.fn = print_log;
    cfg->check = pkv__rng_below(rng, 4) > 0;
    cfg->pool_tokens = 160 + (int32_t)pkv__rng_below(rng, 900);
    cfg->max_model_len = 100 + (int32_t)pkv__rng_below(rng, 60);
    cfg->max_num_seqs = 1 + (int32_t)pkv__rng_below(rng, 20);
    cfg->step_base_ns = 1 + pkv__rng_below(rng, 2000);
    cfg->step_per_seq_ns = pkv__rng_below(rng, 100);
    cfg->step_per_token_ns = pkv__rng_below(rng, 20);
    cfg->window = (pkv_sim_window)pkv__rng_below(rng, 4);
    cfg->admit_skip = pkv__rng_below(rng, 4) == 0;
    cfg->concurrency = pkv__rng_below(rng, 4) == 0 ? 1 + (int32_t)pkv__rng_below(rng, 30) : 0;
    cfg->prefill_chunk = pkv__rng_below(rng, 3) == 0 ? 1 + (int32_t)pkv__rng_below(rng, 50) : 0;
    cfg->prefill_tokens_per_s = (int64_t)pkv__rng_below(rng, 2) * 1000000;
    if (pkv__rng_below(rng, 3) == 0)
        cfg->max_batched_tokens = cfg->max_model_len + (int32_t)pkv__rng_below(rng, 50);
    int64_t now = 0;
    for (int64_t r = 0; r < n; r++) {
        reqs[r].arrival_ns = now;
        reqs[r].prompt_tokens = 1 + (int32_t)pkv__rng_below(rng, 80);
        reqs[r].output_tokens = (int32_t)pkv__rng_below(rng, 60);
        if (pkv__rng_below(rng, 3) > 0) now += pkv__rng_below(rng, 20000);
    }
}

/* ---------------------------------------------------------------- one policy is another */

/* Compaction at infinite bandwidth is the ideal allocator in all that does not speak of it. */
static void test_free_compaction_is_ideal(void **state)
{
    (void)state;
    static const char *const kinds[] = { "max", "pow2", "oracle" };
    const uint64_t first = first_seed(), end = first + n_seeds(300);
    int64_t n_compactions = 0;
    pkv_sim_request reqs[N];
    for (uint64_t seed = first; seed < end; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        random_case(&rng, &cfg, reqs, 150);
        cfg.compact_bytes_per_s = 0;
        for (size_t k = 0; k < PKV_ARRAY_LEN(kinds); k++) {
            char name[40];
            snprintf(name, sizeof(name), "%s:ideal", kinds[k]);
            set_policy(&cfg, name);
            const pkv_sim_result ideal = run(&cfg, reqs, 150);
            assert_int_equal(ideal.n_compactions, 0);
            snprintf(name, sizeof(name), "%s:compact", kinds[k]);
            set_policy(&cfg, name);
            pkv_sim_result compact = run(&cfg, reqs, 150);
            n_compactions += compact.n_compactions;
            assert_true(compact.move_ns == 0);
            compact.n_compactions = compact.compacted_tokens = 0;
            expect_same(name, seed, &compact, &ideal);
        }
    }
    if (end > first + 1) assert_true(n_compactions > 1000);
}

/* The published Orca counts M slots per request, and so does max where places do not matter. */
static void test_orca_real_is_max_ideal(void **state)
{
    (void)state;
    const uint64_t first = first_seed(), end = first + n_seeds(300);
    pkv_sim_request reqs[N];
    for (uint64_t seed = first; seed < end; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        random_case(&rng, &cfg, reqs, 150);
        set_policy(&cfg, "max:ideal");
        const pkv_sim_result max = run(&cfg, reqs, 150);
        set_policy(&cfg, "orca-real");
        const pkv_sim_result orca = run(&cfg, reqs, 150);
        expect_same("orca-real", seed, &orca, &max);

        char name[40];
        snprintf(name, sizeof(name), "orca-real:max_tokens=%d", cfg.max_model_len);
        cfg.max_model_len += 100;
        if (cfg.max_batched_tokens > 0) cfg.max_batched_tokens += 100;
        set_policy(&cfg, name);
        pkv_sim_config longer = cfg;
        set_policy(&longer, "max:ideal");
        longer.max_model_len -= 100;
        const pkv_sim_result a = run(&cfg, reqs, 150), b = run(&longer, reqs, 150);
        expect_same(name, seed, &a, &b);
    }
}

/* Pages that hold P tokens are blocks of P. Shares divide by a pool of b times as many units. */
static void test_vattn_is_paged(void **state)
{
    (void)state;
    static const struct {
        const char *vattn, *paged;
        int32_t token_bytes;
    } pairs[] = {
        { "vattn:page=64K", "paged:block=32", 2048 },
        { "vattn:page=64K", "paged:block=1", 65536 },
        { "vattn:page=128K", "paged:block=8", 16384 },
        { "vattn:page=256K", "paged:block=64", 4096 },
        { "vattn:page=2M", "paged:block=128", 16384 },
    };
    const uint64_t first = first_seed(), end = first + n_seeds(150);
    int64_t n_preemptions = 0;
    pkv_sim_request reqs[N];
    for (uint64_t seed = first; seed < end; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        random_case(&rng, &cfg, reqs, 150);
        cfg.watermark_ppm = (int32_t)pkv__rng_below(&rng, 3) * 40000;
        for (size_t k = 0; k < PKV_ARRAY_LEN(pairs); k++) {
            cfg.tensor_token_bytes = pairs[k].token_bytes;
            set_policy(&cfg, pairs[k].paged);
            pkv_sim_result paged = run(&cfg, reqs, 150);
            set_policy(&cfg, pairs[k].vattn);
            const pkv_sim_result vattn = run(&cfg, reqs, 150);
            n_preemptions += vattn.n_preemptions;
            const double *got = (const double *)&vattn.split, *want = (const double *)&paged.split;
            for (size_t d = 0; d < sizeof(pkv_sim_split) / sizeof(double); d++)
                expect_close(pairs[k].vattn, got[d], want[d], 1e-12);
            expect_close("waste", vattn.waste_waited, paged.waste_waited, 1e-12);
            paged.split = vattn.split;
            paged.waste_waited = vattn.waste_waited;
            paged.hits = vattn.hits;
            expect_same(pairs[k].vattn, seed, &vattn, &paged);
        }
    }
    if (end > first + 1) assert_true(n_preemptions > 1000);
}

/* ---------------------------------------------------------------- leap and naive */

/* As test_sim_engine does for the other policies. */
static void test_leap_equals_naive(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "max:next-fit",
        "pow2:compact",
        "oracle:compact",
        "oracle:best-fit",
        "oracle:first-fit",
        "oracle:next-fit",
        "static-batch",
        "static-batch:ideal",
        "static-batch:first-fit",
        "orca-real",
        "orca-real:max_tokens=120",
        "vattn:page=64K",
        "vattn:page=256K",
    };
    const uint64_t first = first_seed(), end = first + n_seeds(1000);
    pkv_sim_request reqs[N];
    for (uint64_t seed = first; seed < end; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        random_case(&rng, &cfg, reqs, 80);
        const char *policy = policies[pkv__rng_below(&rng, PKV_ARRAY_LEN(policies))];
        set_policy(&cfg, policy);
        cfg.tensor_token_bytes = 1000 + (int32_t)pkv__rng_below(&rng, 100000);
        if ((int64_t)cfg.tensor_token_bytes * cfg.pool_tokens < cfg.policy.page_bytes) continue;
        cfg.kv_bytes_per_token = 1 + pkv__rng_below(&rng, 100000);
        cfg.compact_bytes_per_s = (int64_t)pkv__rng_below(&rng, 2) * INT64_C(1000000000);
        cfg.engine = PKV_SIM_LEAP;
        const pkv_sim_result leap = run(&cfg, reqs, 80);
        cfg.engine = PKV_SIM_NAIVE;
        const pkv_sim_result naive = run(&cfg, reqs, 80);
        expect_same(policy, seed, &leap, &naive);
        assert_int_equal(leap.n_finished + leap.n_too_long, 80);
    }
}

/* ---------------------------------------------------------------- by hand */

/* Pool 30, M = 10: rows of 10. (prompt, output) (3,2) (2,4) (5,1) | (4,3) (1,1), steps of 10 ns.
 *   step          1   2   3   4 |  5   6   7
 *   tokens       10   7   4   5 |  5   5   6     sum 42
 *   reservation   7   4   2   1 |  4   2   1     sum 21
 *   dead          0  10  20  20 |  0  10  10     sum 70
 *   internal     13  19  24  24 | 11  13  13     sum 117
 *   free          0   0   0   0 | 10  10  10     sum 30
 *   batch         3   2   1   1 |  2   1   1     sum 11 */
static void test_static_batch_by_hand(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = {
        { 0, 3, 2 }, { 0, 2, 4 }, { 0, 5, 1 }, { 0, 4, 3 }, { 0, 1, 1 }
    };
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    set_policy(&cfg, "static-batch:first-fit");
    cfg.pool_tokens = 30;
    cfg.max_model_len = 10;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.window = PKV_SIM_WINDOW_ALL;
    cfg.check = true;
    for (int engine = 0; engine < 2; engine++) {
        cfg.engine = (pkv_sim_engine)engine;
        const pkv_sim_result res = run(&cfg, reqs, 5);
        assert_int_equal(res.n_steps, 7);
        assert_int_equal(res.n_preemptions, 0);
        assert_int_equal(res.max_batch, 3);
        assert_int_equal(res.waited_ns, 40);
        expect_close("batch", res.mean_batch, 11.0 / 7, 1e-12);
        expect_close("token", res.split.token, 42.0 / 210, 1e-12);
        expect_close("reservation", res.split.reservation, 21.0 / 210, 1e-12);
        expect_close("dead", res.split.dead, 70.0 / 210, 1e-12);
        expect_close("internal", res.split.internal, 117.0 / 210, 1e-12);
        expect_close("external", res.split.external, 30.0 / 210, 1e-12);
        expect_close("idle", res.split.idle, 30.0 / 210, 1e-12);
        /* the second batch starts after 40 ns: first tokens at 10, 10, 10, 50, 50 */
        expect_close("ttft", res.ttft_s.mean, 26e-9, 1e-15);
        expect_close("e2e", res.e2e_s.mean, (20 + 40 + 10 + 70 + 50) / 5.0 * 1e-9, 1e-15);
    }
}

/* Who comes while a batch runs waits, although there is room: limited, not fragmentation. Pool 30,
 * (3,3) at 0 and (2,1) at 5: steps 1 .. 3 alone, the second from step 2 on in line. */
static void test_static_batch_is_closed(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 3, 3 }, { 5, 2, 1 } };
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    set_policy(&cfg, "static-batch:ideal");
    cfg.pool_tokens = 30;
    cfg.max_model_len = 10;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.window = PKV_SIM_WINDOW_ALL;
    const pkv_sim_result res = run(&cfg, reqs, 2);
    assert_int_equal(res.n_steps, 4);
    assert_int_equal(res.max_batch, 1);
    expect_close("limited", res.split.limited, 40.0 / 120, 1e-12);
    expect_close("idle", res.split.idle, 40.0 / 120, 1e-12);
    expect_close("ttft", res.ttft_s.max, 35e-9, 1e-15);
}

/* Oracle, pool 20: (5,1) at 0, (6,5), then (10,2) that fits 6 + 3 free slots at once, (5,5).
 *   A 0 .. 6, B 6 .. 17, free 17 .. 20. A is done after step 1: 0 .. 6 and 17 .. 20 are free.
 *   C asks for 8: none is long enough, 9 are free, so B slides from 6 to 0 with the 7 tokens that
 * it has then, and C gets 11 .. 19. Each token has 100 bytes, 10^9 bytes/s: step 2 takes 700 ns
 *   longer. */
static void test_compaction_by_hand(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 5, 1 }, { 0, 6, 5 }, { 0, 6, 2 } };
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    set_policy(&cfg, "oracle:compact");
    cfg.pool_tokens = 20;
    cfg.max_model_len = 20;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.kv_bytes_per_token = 100;
    cfg.compact_bytes_per_s = 1000000000;
    cfg.window = PKV_SIM_WINDOW_ALL;
    for (int engine = 0; engine < 2; engine++) {
        cfg.engine = (pkv_sim_engine)engine;
        const pkv_sim_result res = run(&cfg, reqs, 3);
        assert_int_equal(res.n_steps, 5);
        assert_int_equal(res.n_compactions, 1);
        assert_int_equal(res.compacted_tokens, 7);
        assert_int_equal(res.move_ns, 700);
        assert_int_equal(res.end_ns, 5 * 10 + 700);
        assert_int_equal(res.n_failed_takes, 0);
        /* C: admitted at 10, first token at 720, last one at 730 */
        expect_close("ttft", res.ttft_s.max, 720e-9, 1e-15);
        expect_close("unusable", res.split.unusable, 0, 0);
    }
    /* Without compaction C waits until B is done after step 5; refused once, for 8 slots of 9 in
     * two runs: 1 - (1 + 9 / 8) / 2. */
    set_policy(&cfg, "oracle:first-fit");
    const pkv_sim_result waits = run(&cfg, reqs, 3);
    assert_int_equal(waits.n_steps, 7);
    assert_int_equal(waits.n_failed_takes, 1);
    expect_close("index", waits.frag_index, 1 - (1 + 9.0 / 8) / 2, 1e-9);
    /* 3 of 9 free slots are not in the longest run during steps 2 .. 5, none in 1, 6 and 7 */
    expect_close("scatter", waits.scatter, 4 * (3.0 / 9) / 7, 1e-6);
    expect_close("unusable", waits.split.unusable, 4 * 9.0 / 140, 1e-12);
}

/* ---------------------------------------------------------------- memory that runs out */

static void test_each_allocation_fails(void **state)
{
    (void)state;
    static const char *const policies[] = { "max:compact",  "oracle:best-fit", "oracle",
                                            "static-batch", "orca-real",       "vattn:page=64K" };
    const pkv_sim_request reqs[] = { { 0, 5, 1 }, { 0, 6, 5 }, { 0, 6, 2 } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(policies); k++) {
        for (int allowed = 0;; allowed++) {
            miser m = { allowed, 0 };
            pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
            set_policy(&cfg, policies[k]);
            cfg.check = true;
            cfg.alloc = (pkv_allocator){ miser_alloc, miser_free, &m };
            pkv_sim_result res = PKV_SIM_RESULT_INIT;
            res.n_steps = -77;
            const pkv_status status = pkv_sim_run(&cfg, reqs, 3, &res);
            assert_int_equal(m.bytes, 0);
            if (status == PKV_OK) break;
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_int_equal(res.n_steps, -77);
            assert_in_range(allowed, 0, 20);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_free_compaction_is_ideal),
        cmocka_unit_test(test_orca_real_is_max_ideal),
        cmocka_unit_test(test_vattn_is_paged),
        cmocka_unit_test(test_leap_equals_naive),
        cmocka_unit_test(test_static_batch_by_hand),
        cmocka_unit_test(test_static_batch_is_closed),
        cmocka_unit_test(test_compaction_by_hand),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests_name("policy_laws", tests, NULL, NULL);
}
