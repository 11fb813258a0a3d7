/* What needs no simulation: percentiles, closed forms of the lengths, the cache that never evicts.
 * Expected values are by hand, or from the definition written out. */
#include "common/common.h"
#include "common/philox.h"
#include "miser.h"
#include "pagedkv/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static uint64_t first_seed(uint64_t usual)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : usual;
}

#define expect_close(got, want, tolerance) close_to(got, want, tolerance, #got, __LINE__)
static void close_to(double got, double want, double tolerance, const char *what, int line)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("line %d: %s is %.17g, expected %.17g +- %g", line, what, got, want, tolerance);
}

/* ---------------------------------------------------------------- percentiles */

/* Values 10, 20, ..., 10 n in an order that is not sorted. Ranks are ceil(p n / 100). */
static void test_percentiles(void **state)
{
    (void)state;
    static const struct {
        int n;
        double p50, p90, p99;                /* numpy.percentile, default method */
        double near_p50, near_p90, near_p99; /* method "inverted_cdf" */
    } want[] = {
        { 1, 10, 10, 10, 10, 10, 10 },           { 2, 15, 19, 19.9, 10, 20, 20 },
        { 3, 20, 28, 29.8, 20, 30, 30 },         { 10, 55, 91, 99.1, 50, 90, 100 },
        { 99, 500, 892, 980.2, 500, 900, 990 },  { 100, 505, 901, 990.1, 500, 900, 990 },
        { 101, 510, 910, 1000, 510, 910, 1000 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        for (int nearest = 0; nearest < 2; nearest++) {
            double v[101];
            const int n = want[k].n;
            for (int j = 0; j < n; j++) v[(j * 37) % n] = 10 * (j + 1);
            if (n == 1 || 37 % n == 0) /* no permutation */
                for (int j = 0; j < n; j++) v[j] = 10 * (n - j);
            pkv_sim_dist d;
            pkv_sim_dist_of(v, n, nearest == 1, &d);
            assert_int_equal(d.n, n);
            expect_close(d.mean, 5.0 * (n + 1), 1e-11);
            expect_close(d.p50, nearest ? want[k].near_p50 : want[k].p50, 1e-11);
            expect_close(d.p90, nearest ? want[k].near_p90 : want[k].p90, 1e-11);
            expect_close(d.p99, nearest ? want[k].near_p99 : want[k].p99, 1e-11);
            assert_true(d.max == 10 * n); /* p100 */
        }
    }
    pkv_sim_dist d = { 5, 5, 5, 5, 5, 5 };
    pkv_sim_dist_of(NULL, 0, false, &d);
    assert_true(d.n == 0 && d.mean == 0 && d.p50 == 0 && d.p90 == 0 && d.p99 == 0 && d.max == 0);
}

static void test_percentiles_are_monotone(void **state)
{
    (void)state;
    for (uint64_t seed = first_seed(1); seed < first_seed(1) + 300; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        double v[200];
        const int n = 1 + (int)pkv__rng_below(&rng, 200);
        const double scale = ldexp(1, (int)pkv__rng_below(&rng, 60) - 30);
        for (int k = 0; k < n; k++) /* many equal and nearly equal ones */
            v[k] = (1 + pkv__rng_below(&rng, 4) * 0x1p-52 + pkv__rng_below(&rng, 3)) * scale;
        for (int nearest = 0; nearest < 2; nearest++) {
            pkv_sim_dist d;
            pkv_sim_dist_of(v, n, nearest == 1, &d);
            if (!(v[0] <= d.p50 && d.p50 <= d.p90 && d.p90 <= d.p99 && d.p99 <= d.max))
                fail_msg("PKV_SEED=%llu: %a %a %a %a", (unsigned long long)seed, d.p50, d.p90,
                         d.p99, d.max);
            assert_true(d.max == v[n - 1]);
        }
    }
}

/* ---------------------------------------------------------------- closed forms */

/* Two outputs of a prompt of 5 with 3 tokens each, B = 2: without sharing 2 * (3 + 4 + 4) blocks
 * over the steps, of which floor(5 / 2) = 2 are shared in each of 3 steps. And a prompt of 1 with
 * one token: 2 * 1 blocks, nothing shared. With n = 1 nothing is shared at all. */
static void test_fork_by_hand(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 5, 3 }, { 0, 1, 1 } };
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    pkv_sim_forms f = PKV_SIM_FORMS_INIT;
    cfg.policy.block_tokens = 2;
    cfg.policy.group = PKV_SIM_GROUP_FORK;
    cfg.policy.n_seqs = 2;
    assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, 2, &f), PKV_OK);
    expect_close(f.fork_saving, 6.0 / 24, 1e-12);
    cfg.policy.n_seqs = 5;
    assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, 2, &f), PKV_OK);
    expect_close(f.fork_saving, 4 * 6.0 / 60, 1e-12);
    cfg.policy = (pkv_sim_policy)PKV_SIM_POLICY_INIT;
    assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, 2, &f), PKV_OK);
    assert_true(f.fork_saving == 0);
}

/* The saving as the sum that defines it, over random requests. */
static void test_fork_against_sum(void **state)
{
    (void)state;
    enum { N = 20 };
    for (uint64_t seed = first_seed(1); seed < first_seed(1) + 200; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_request reqs[N];
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        pkv_sim_forms f = PKV_SIM_FORMS_INIT;
        const int64_t block = 1 + pkv__rng_below(&rng, 40), n = 2 + pkv__rng_below(&rng, 6);
        cfg.policy.block_tokens = (int32_t)block;
        cfg.policy.group = PKV_SIM_GROUP_FORK;
        cfg.policy.n_seqs = (int32_t)n;
        cfg.max_model_len = 250;
        int64_t saved = 0, all = 0;
        for (int r = 0; r < N; r++) {
            const int64_t i = 1 + pkv__rng_below(&rng, 150), o = 1 + pkv__rng_below(&rng, 150);
            reqs[r] = (pkv_sim_request){ 0, (int32_t)i, (int32_t)o };
            for (int64_t t = 1; t <= o && i + o <= 250; t++) {
                saved += (n - 1) * (i / block);
                all += n * ((i + t + block - 1) / block);
            }
        }
        assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, N, &f), PKV_OK);
        expect_close(f.fork_saving, (double)saved / (double)all, 1e-12);
    }
}

/* Where every step lasts equally long, the simulated saving over a whole run is the form, also in a
 * pool so small that groups are preempted all the time. */
static void test_fork_against_simulation(void **state)
{
    (void)state;
    enum { N = 400 };
    pkv_sim_request reqs[N];
    assert_int_equal(pkv_sim_draw("sharegpt-like", first_seed(3), 8000000, NULL, reqs, N), PKV_OK);
    static const int32_t pools[] = { 15728, 4000000 };
    for (size_t k = 0; k < 2 * PKV_ARRAY_LEN(pools); k++) {
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        pkv_sim_forms f = PKV_SIM_FORMS_INIT;
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        const char *policy = k < 2 ? "paged+fork:n=3,block=16" : "paged+fork:n=6,block=5";
        assert_int_equal(pkv_sim_policy_parse(policy, NULL, &cfg.policy), PKV_OK);
        cfg.pool_tokens = pools[k % 2];
        cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
        cfg.window = PKV_SIM_WINDOW_ALL;
        assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, N, &f), PKV_OK);
        assert_int_equal(pkv_sim_run(&cfg, reqs, N, &res), PKV_OK);
        assert_int_equal(res.n_finished, N);
        assert_true((res.n_preemptions > 100) == (k % 2 == 0));
        expect_close(res.sharing_saving, f.fork_saving, 1e-12);
    }
}

/* A request without output stands for no step and does not count. */
static void test_prefill_only_does_not_count(void **state)
{
    (void)state;
    const pkv_sim_request with[3] = { { 0, 5, 3 }, { 0, 700, 0 }, { 0, 1, 1 } };
    const pkv_sim_request without[2] = { { 0, 5, 3 }, { 0, 1, 1 } };
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    pkv_sim_forms a = PKV_SIM_FORMS_INIT, b = PKV_SIM_FORMS_INIT;
    assert_int_equal(pkv_sim_closed_forms(&cfg, with, 3, &a), PKV_OK);
    assert_int_equal(pkv_sim_closed_forms(&cfg, without, 2, &b), PKV_OK);
    assert_int_equal(a.n, 2);
    assert_memory_equal(&a, &b, sizeof(a));
}

/* No request counts: everything is 0, nothing is divided by 0. */
static void test_nothing_counts(void **state)
{
    (void)state;
    const pkv_sim_request reqs[1] = { { 0, 30, 30 } };
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    pkv_sim_forms f = PKV_SIM_FORMS_INIT, zero = PKV_SIM_FORMS_INIT;
    cfg.max_model_len = 59;
    f.max_batch_buddy = 5;
    assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, 1, &f), PKV_OK);
    assert_memory_equal(&f, &zero, sizeof(f));
    assert_int_equal(pkv_sim_closed_forms(&cfg, NULL, 0, &f), PKV_OK);
    assert_memory_equal(&f, &zero, sizeof(f));
    assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, 1, NULL), PKV_E_INVALID_ARG);
    f.struct_size = 3;
    assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, 1, &f), PKV_E_ABI);
}

/* ---------------------------------------------------------------- the cache that never evicts */

/* Ids of 4 tokens each.
 *   r  prompt  ids       finds
 *   0  10      7 8 9     nothing; the third id covers 2 tokens
 *   1  10      7 8 9     all 10 tokens, 3 ids
 *   2  12      7 8 9     10 tokens: only two of the last id were there; 2 ids
 *   3  12      7 8 9     12 tokens, 3 ids
 *   4  9       8 7       nothing: the same ids in another place
 *   5  9       7 5       4 tokens, 1 id
 *   6  6       none      nothing
 * Blocks of 3: 10 -> 9, 10 -> 9, 12 -> 12, 4 -> 3. */
static void test_bound_by_hand(void **state)
{
    (void)state;
    static const pkv_sim_request reqs[7] = { { 0, 10, 1 }, { 0, 10, 1 }, { 0, 12, 1 }, { 0, 12, 1 },
                                             { 0, 9, 1 },  { 0, 9, 1 },  { 0, 6, 0 } };
    static const int32_t ids[] = { 7, 8, 9, 8, 7, 7, 5 };
    static const int64_t first[7] = { 0, 0, 0, 0, 3, 5, 0 };
    static const int32_t n_ids[7] = { 3, 3, 3, 3, 2, 2, 0 };
    const pkv_sim_content content = { 4, 10, first, n_ids, ids };
    pkv_sim_cache_forms f = PKV_SIM_CACHE_FORMS_INIT;
    assert_int_equal(pkv_sim_cache_bound(&content, reqs, 7, 3, NULL, &f), PKV_OK);
    assert_int_equal(f.prompt_tokens, 10 + 10 + 12 + 12 + 9 + 9 + 6);
    assert_int_equal(f.ids, 16);
    assert_int_equal(f.found_ids, 3 + 2 + 3 + 1);
    assert_int_equal(f.found_tokens, 10 + 10 + 12 + 4);
    assert_int_equal(f.found_block_tokens, 9 + 9 + 12 + 3);
    assert_int_equal(f.below_block, 3);
    expect_close(f.mean_rate, (1 + 10.0 / 12 + 1 + 4.0 / 9) / 7, 1e-12);
    /* A shared prefix below a block: 100 tokens per block find nothing, and it shows. */
    assert_int_equal(pkv_sim_cache_bound(&content, reqs, 7, 100, NULL, &f), PKV_OK);
    assert_int_equal(f.found_block_tokens, 0);
    assert_int_equal(f.below_block, 36);
}

/* Random prompts against the definition: the longest run of tokens under ids that some earlier
 * prompt begins with too. Few ids, so that common prefixes are frequent. */
static void test_bound_against_definition(void **state)
{
    (void)state;
    enum { N = 40, LONGEST = 60 };
    int64_t found_in_all = 0;
    for (uint64_t seed = first_seed(1); seed < first_seed(1) + 300; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_request reqs[N];
        int64_t first[N], tokens = 0, found = 0, found_blocks = 0;
        int32_t n_ids[N], ids[N * LONGEST], covered[N], n = 0;
        const int32_t per_id = 1 + (int32_t)pkv__rng_below(&rng, 12);
        const int32_t block = 1 + (int32_t)pkv__rng_below(&rng, 12);
        for (int r = 0; r < N; r++) {
            const int32_t i = 1 + (int32_t)pkv__rng_below(&rng, LONGEST);
            reqs[r] = (pkv_sim_request){ 0, i, 1 };
            first[r] = n;
            n_ids[r] = (int32_t)pkv__rng_below(&rng, (uint32_t)((i + per_id - 1) / per_id) + 1);
            for (int32_t k = 0; k < n_ids[r]; k++) ids[n++] = (int32_t)pkv__rng_below(&rng, 2);
            covered[r] = pkv__min_i32(i, n_ids[r] * per_id);
            int32_t best = 0;
            for (int q = 0; q < r; q++) {
                int32_t same = 0;
                while (same < covered[r] && same < covered[q] &&
                       ids[first[r] + same / per_id] == ids[first[q] + same / per_id])
                    same++;
                if (same > best) best = same;
            }
            tokens += i;
            found += best;
            found_blocks += best / block * block;
        }
        const pkv_sim_content content = { per_id, 2, first, n_ids, ids };
        pkv_sim_cache_forms f = PKV_SIM_CACHE_FORMS_INIT;
        assert_int_equal(pkv_sim_cache_bound(&content, reqs, N, block, NULL, &f), PKV_OK);
        if (f.prompt_tokens != tokens || f.ids != n || f.found_tokens != found ||
            f.found_block_tokens != found_blocks)
            fail_msg("PKV_SEED=%llu: found %lld of %lld tokens, expected %lld of %lld",
                     (unsigned long long)seed, (long long)f.found_tokens,
                     (long long)f.prompt_tokens, (long long)found, (long long)tokens);
        found_in_all += found;
    }
    assert_true(found_in_all > 10000);
}

/* 1000 prompts of one id each, all different: the table grows, and each growth may fail. */
static void test_bound_without_memory(void **state)
{
    (void)state;
    enum { N = 1000 };
    static pkv_sim_request reqs[N];
    static int64_t first[N];
    static int32_t n_ids[N], ids[N];
    for (int r = 0; r < N; r++) {
        reqs[r] = (pkv_sim_request){ 0, 16, 1 };
        first[r] = ids[r] = r;
        n_ids[r] = 1;
    }
    const pkv_sim_content content = { 16, N, first, n_ids, ids };
    int allowed = 0;
    for (;; allowed++) {
        miser m = { allowed, 0 };
        const pkv_allocator alloc = { miser_alloc, miser_free, &m };
        pkv_sim_cache_forms f = PKV_SIM_CACHE_FORMS_INIT;
        f.ids = -77;
        const pkv_status status = pkv_sim_cache_bound(&content, reqs, N, 16, &alloc, &f);
        assert_int_equal(m.bytes, 0);
        if (status == PKV_OK) break;
        assert_int_equal(status, PKV_E_NO_MEMORY);
        assert_int_equal(f.ids, -77);
    }
    assert_true(allowed >= 2);
}

static void test_bound_refuses(void **state)
{
    (void)state;
    static const pkv_sim_request reqs[1] = { { 0, 10, 1 } };
    static const int64_t first[1] = { 0 };
    static const int32_t three[1] = { 3 }, four[1] = { 4 }, less[1] = { -1 };
    static const int32_t ids[] = { 0, 1, 2, 3 }, outside[] = { 0, 1, 4 };
    const pkv_sim_content ok = { 4, 4, first, three, ids };
    pkv_sim_cache_forms f = PKV_SIM_CACHE_FORMS_INIT;
    assert_int_equal(pkv_sim_cache_bound(&ok, reqs, 1, 4, NULL, &f), PKV_OK);
    const pkv_sim_content bad[] = {
        { 0, 4, first, three, ids },  { 4, 4, NULL, three, ids },      { 4, 4, first, NULL, ids },
        { 4, 4, first, three, NULL }, { 4, 4, first, four, ids }, /* 10 tokens have at most 3 */
        { 4, 4, first, less, ids },   { 4, 4, first, three, outside }, { 4, 2, first, three, ids },
    };
    f.ids = -77;
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++)
        assert_int_equal(pkv_sim_cache_bound(&bad[k], reqs, 1, 4, NULL, &f), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_cache_bound(&ok, reqs, 1, 0, NULL, &f), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_cache_bound(&ok, reqs, -1, 4, NULL, &f), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_cache_bound(&ok, NULL, 1, 4, NULL, &f), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_cache_bound(NULL, reqs, 1, 4, NULL, &f), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_cache_bound(&ok, reqs, 1, 4, NULL, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(f.ids, -77);
    f.struct_size = 1;
    assert_int_equal(pkv_sim_cache_bound(&ok, reqs, 1, 4, NULL, &f), PKV_E_ABI);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_percentiles),
        cmocka_unit_test(test_percentiles_are_monotone),
        cmocka_unit_test(test_fork_by_hand),
        cmocka_unit_test(test_fork_against_sum),
        cmocka_unit_test(test_fork_against_simulation),
        cmocka_unit_test(test_prefill_only_does_not_count),
        cmocka_unit_test(test_nothing_counts),
        cmocka_unit_test(test_bound_by_hand),
        cmocka_unit_test(test_bound_against_definition),
        cmocka_unit_test(test_bound_without_memory),
        cmocka_unit_test(test_bound_refuses),
    };
    return cmocka_run_group_tests_name("forms", tests, NULL, NULL);
}
