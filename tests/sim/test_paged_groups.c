/* Several sequences per request: forks and beams by hand, the saving against its closed form, laws,
 * leaping against stepping on small random runs of every combination, and the edges of sizes. */
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

#define expect_close(got, want, tolerance) close_to(got, want, tolerance, #got, __LINE__)
static void close_to(double got, double want, double tolerance, const char *what, int line)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("line %d: %s is %.17g, expected %.17g", line, what, got, want);
}

static uint64_t first_seed(uint64_t usual)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : usual;
}

static pkv_sim_config small_config(pkv_sim_group group, int32_t n_seqs, int32_t pool)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.policy.block_tokens = 4;
    cfg.policy.group = group;
    cfg.policy.n_seqs = n_seqs;
    cfg.pool_tokens = pool;
    cfg.max_model_len = 64;
    cfg.watermark_ppm = 0;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.window = PKV_SIM_WINDOW_ALL;
    cfg.check = true;
    cfg.log.fn = print_log;
    return cfg;
}

/* Leap and naive agree, or both fail. */
static pkv_status run(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                      pkv_sim_result *out)
{
    pkv_sim_result naive;
    memset(out, 0, sizeof(*out)); /* padding too, for the comparison */
    memset(&naive, 0, sizeof(naive));
    out->struct_size = naive.struct_size = sizeof(naive);
    pkv_sim_config c = *cfg;
    c.engine = PKV_SIM_LEAP;
    const pkv_status a = pkv_sim_run(&c, reqs, n, out);
    c.engine = PKV_SIM_NAIVE;
    const pkv_status b = pkv_sim_run(&c, reqs, n, &naive);
    return a == b && memcmp(out, &naive, sizeof(naive)) == 0 ? a : PKV_E_CORRUPT;
}

/* ---------------------------------------------------------------- by hand */

/* One prompt of 6, three outputs of 3, blocks of 4.
 *   step  u  rows of blocks  unshared  in use                    tokens             internal
 *   1     6  2               6 blocks  1 shared + 3 (2 copied)   4 + 3*2            3*2
 *   2     7  2               6         4                         4 + 3*3            3*1
 *   3     8  3               9         1 + 3*2 = 7               4 + 3*4            3*4 */
static void test_fork_by_hand(void **state)
{
    (void)state;
    const pkv_sim_request req = { 0, 6, 3 };
    const pkv_sim_config cfg = small_config(PKV_SIM_GROUP_FORK, 3, 40);
    pkv_sim_result res;
    assert_int_equal(run(&cfg, &req, 1, &res), PKV_OK);
    assert_int_equal(res.n_steps, 3);
    assert_int_equal(res.copied_blocks, 2);
    assert_int_equal(res.generated_tokens, 9);
    expect_close(res.split.token, (10 + 13 + 16) / 120.0, 1e-12);
    expect_close(res.split.logical, (18 + 21 + 24) / 120.0, 1e-12);
    expect_close(res.split.internal, (6 + 3 + 12) / 120.0, 1e-12);
    expect_close(res.sharing_saving, (2 + 2 + 2) / 21.0, 1e-12);
    expect_close(res.mean_batch, 1, 1e-12);
}

/* A prompt of full blocks: nothing to copy. */
static void test_fork_of_full_blocks(void **state)
{
    (void)state;
    const pkv_sim_request req = { 0, 8, 2 };
    const pkv_sim_config cfg = small_config(PKV_SIM_GROUP_FORK, 5, 80);
    pkv_sim_result res;
    assert_int_equal(run(&cfg, &req, 1, &res), PKV_OK);
    assert_int_equal(res.copied_blocks, 0);
    expect_close(res.split.token, (8 + (8 + 5)) / 160.0, 1e-12);
    expect_close(res.sharing_saving, 2 * 8 / 30.0, 1e-12);
}

/* Two beams that always switch exchange their places: as forks. Three: the draws by another
 * implementation of the rule (Philox, purpose 4, the request's lane, the step in the high word). */
static void test_beams_by_hand(void **state)
{
    (void)state;
    const pkv_sim_request req = { 0, 6, 7 };
    pkv_sim_config cfg = small_config(PKV_SIM_GROUP_BEAM, 2, 80);
    pkv_sim_result beam, fork;
    cfg.policy.switch_ppm = 1000000;
    assert_int_equal(run(&cfg, &req, 1, &beam), PKV_OK);
    cfg.policy.group = PKV_SIM_GROUP_FORK;
    cfg.policy.switch_ppm = 0;
    assert_int_equal(run(&cfg, &req, 1, &fork), PKV_OK);
    assert_int_equal(beam.copied_blocks, 1);
    assert_memory_equal(&beam.split, &fork.split, sizeof(beam.split));

    /* A row is the numbers of its blocks; the first beam that goes on from a parent keeps its last
     * block, every other one copies it. */
    enum { W = 3, B = 4, I = 6, O = 7 };
    cfg = small_config(PKV_SIM_GROUP_BEAM, W, 120);
    cfg.policy.switch_ppm = 600000;
    cfg.seed = 77;
    int rows[W][8] = { { 0, 1 }, { 0, 2 }, { 0, 3 } }, n_made = 4, n_rows = 2, copied = 2;
    int64_t used = 4;
    double sum = 0;
    for (int g = 0; g < O; g++) {
        int parents[W], next[W][8];
        bool kept[W] = { false };
        uint32_t ctr[4] = { 0, (uint32_t)g, 4, 0 }, key[2] = { 77, 0 }, words[8];
        pkv__philox4x32(ctr, key, words);
        ctr[0] = 1;
        pkv__philox4x32(ctr, key, words + 4);
        for (int k = 0, at = 0; k < W; k++) {
            parents[k] = k;
            if (g == 0 || words[at++] % 1000000 >= 600000) continue;
            parents[k] = (int)(words[at++] % (W - 1));
            parents[k] += parents[k] >= k;
        }
        for (int k = 0; k < W; k++) memcpy(next[k], rows[parents[k]], sizeof(next[k]));
        for (int k = 0; k < W && (I + g) % B != 0; k++) {
            const bool first = !kept[parents[k]];
            kept[parents[k]] = true;
            if (first) continue;
            next[k][n_rows - 1] = n_made++;
            copied++;
        }
        if ((I + g) % B == 0) {
            for (int k = 0; k < W; k++) next[k][n_rows] = n_made++;
            n_rows++;
        }
        memcpy(rows, next, sizeof(rows));
        used = 0;
        for (int b = 0; b < n_made; b++) {
            bool named = false;
            for (int k = 0; k < W; k++)
                for (int at = 0; at < n_rows; at++) named = named || rows[k][at] == b;
            used += named;
        }
        sum += (double)(used * B - (W * n_rows * B - W * (I + g)));
    }
    assert_int_equal(run(&cfg, &req, 1, &beam), PKV_OK);
    assert_int_equal(beam.copied_blocks, copied);
    assert_true(copied > 2);
    expect_close(beam.split.token, sum / (O * 120.0), 1e-12);
}

/* ---------------------------------------------------------------- laws */

/* Steps of equal length and nobody preempted: the blocks saved are those of the closed form. */
static void test_saving_is_the_closed_form(void **state)
{
    (void)state;
    enum { N = 200 };
    pkv_sim_request reqs[N];
    static const char *const kinds[] = { "sharegpt-like", "alpaca-like" };
    for (int k = 0; k < 2; k++) {
        for (int32_t n_seqs = 2; n_seqs <= 6; n_seqs += 2) {
            assert_int_equal(pkv_sim_draw(kinds[k], 1, 8000000, NULL, reqs, N), PKV_OK);
            pkv_sim_config cfg = small_config(PKV_SIM_GROUP_FORK, n_seqs, 4000000);
            cfg.policy.block_tokens = 16;
            cfg.max_model_len = 2048;
            cfg.check = false;
            pkv_sim_result res = PKV_SIM_RESULT_INIT;
            pkv_sim_forms forms = { .struct_size = sizeof(forms) };
            assert_int_equal(run(&cfg, reqs, N, &res), PKV_OK);
            assert_int_equal(pkv_sim_closed_forms(&cfg, reqs, N, &forms), PKV_OK);
            assert_int_equal(res.n_preemptions, 0);
            expect_close(res.sharing_saving, forms.fork_saving, 1e-12);
        }
    }
}

static void draw_small(pkv__rng *rng, pkv_sim_request *reqs, int64_t n, uint32_t longest)
{
    int64_t now = 0;
    for (int64_t r = 0; r < n; r++) {
        reqs[r].arrival_ns = now;
        reqs[r].prompt_tokens = 1 + (int32_t)pkv__rng_below(rng, longest);
        reqs[r].output_tokens = 1 + (int32_t)pkv__rng_below(rng, longest);
        if (pkv__rng_below(rng, 3) == 0) now += pkv__rng_below(rng, 100);
    }
}

/* A group of one is no group, with prefixes and swap space too. Beams that never switch are forks.
 */
static void test_degenerate_groups(void **state)
{
    (void)state;
    enum { N = 60 };
    pkv_sim_request reqs[N];
    for (uint64_t seed = 1; seed <= 20; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        draw_small(&rng, reqs, N, 30);
        pkv_sim_config cfg = small_config(PKV_SIM_GROUP_NONE, 1, 150);
        cfg.policy.prefix = seed & 1;
        cfg.policy.swap = seed & 2;
        cfg.swap_tokens = 60;
        pkv_sim_result plain, other;
        assert_int_equal(run(&cfg, reqs, N, &plain), PKV_OK);
        cfg.policy.group = PKV_SIM_GROUP_FORK;
        assert_int_equal(run(&cfg, reqs, N, &other), PKV_OK);
        assert_memory_equal(&plain, &other, sizeof(plain));
        cfg.policy.group = PKV_SIM_GROUP_BEAM;
        cfg.policy.switch_ppm = 500000;
        assert_int_equal(run(&cfg, reqs, N, &other), PKV_OK);
        assert_memory_equal(&plain, &other, sizeof(plain));
        assert_true(plain.n_preemptions > 0);

        cfg.policy.n_seqs = 3;
        cfg.policy.switch_ppm = 0;
        assert_int_equal(run(&cfg, reqs, N, &plain), PKV_OK);
        cfg.policy.group = PKV_SIM_GROUP_FORK;
        assert_int_equal(run(&cfg, reqs, N, &other), PKV_OK);
        other.n_events = plain.n_events;
        assert_memory_equal(&plain, &other, sizeof(plain));
    }
}

/* One token per block: internal is the slot of the token to come, of every sequence. */
static void test_block_of_one(void **state)
{
    (void)state;
    enum { N = 40 };
    pkv_sim_request reqs[N];
    for (int32_t n_seqs = 1; n_seqs <= 4; n_seqs += 3) {
        pkv__rng rng;
        pkv__rng_init(&rng, 5, 0, 0);
        draw_small(&rng, reqs, N, 40);
        pkv_sim_config cfg = small_config(PKV_SIM_GROUP_BEAM, n_seqs, 600);
        cfg.policy.block_tokens = 1;
        cfg.policy.switch_ppm = 200000;
        cfg.max_model_len = 100;
        for (int k = 0; k < 4; k++) {
            cfg.policy.prefix = k & 1;
            cfg.policy.swap = k & 2;
            cfg.swap_tokens = 100;
            pkv_sim_result res;
            assert_int_equal(run(&cfg, reqs, N, &res), PKV_OK);
            expect_close(res.split.internal * 600, res.mean_batch * n_seqs, 1e-9);
        }
    }
}

/* One block per request: as reserving the longest without rounding, where that divides the pool. */
static void test_block_of_all(void **state)
{
    (void)state;
    enum { N = 60, M = 80 };
    pkv_sim_request reqs[N];
    pkv__rng rng;
    pkv__rng_init(&rng, 6, 0, 0);
    draw_small(&rng, reqs, N, M / 2);
    pkv_sim_config cfg = small_config(PKV_SIM_GROUP_NONE, 1, 5 * M);
    cfg.policy.block_tokens = M;
    cfg.max_model_len = M;
    pkv_sim_result paged, max;
    assert_int_equal(run(&cfg, reqs, N, &paged), PKV_OK);
    assert_int_equal(pkv_sim_policy_parse("max:ideal", NULL, &cfg.policy), PKV_OK);
    assert_int_equal(run(&cfg, reqs, N, &max), PKV_OK);
    assert_int_equal(paged.n_steps, max.n_steps);
    assert_int_equal(paged.end_ns, max.end_ns);
    expect_close(paged.mean_batch, max.mean_batch, 1e-12);
    expect_close(paged.split.token, max.split.token, 1e-12);
    expect_close(paged.split.external, max.split.external, 1e-12);
    /* What max reserves for tokens to come is inside the block. */
    expect_close(paged.split.internal, max.split.internal + max.split.reservation, 1e-12);
}

/* floor(i/B) + n * (ceil(f/B) - floor(i/B)) blocks: with 6 + 7 tokens in blocks of 4 and 3 outputs
 * 1 + 3 * 3 = 10. So many finish, alone; one fewer is refused at arrival. */
static void test_what_fits(void **state)
{
    (void)state;
    const pkv_sim_request req = { 0, 6, 7 };
    for (int k = 0; k < 16; k++) {
        pkv_sim_config cfg =
            small_config(k & 1 ? PKV_SIM_GROUP_BEAM : PKV_SIM_GROUP_FORK, 3, 10 * 4 + 3);
        cfg.policy.prefix = k & 2;
        cfg.policy.swap = k & 4;
        cfg.swap_tokens = 100;
        cfg.policy.switch_ppm = 300000;
        cfg.watermark_ppm = k & 8 ? 1000000 : 0; /* waived for who runs alone */
        pkv_sim_result res;
        assert_int_equal(run(&cfg, &req, 1, &res), PKV_OK);
        assert_int_equal(res.n_finished, 1);
        assert_int_equal(res.n_preemptions, 0);
        expect_close(res.split.tail, 3.0 / 43, 1e-12);
        cfg.pool_tokens = 10 * 4 - 1;
        assert_int_equal(run(&cfg, &req, 1, &res), PKV_OK);
        assert_int_equal(res.n_too_long, 1);
    }
    pkv_sim_config cfg = small_config(PKV_SIM_GROUP_NONE, 1, 4096);
    cfg.policy.block_tokens = 1024;
    cfg.max_model_len = 5000;
    pkv_sim_request big = { 0, 4000, 96 };
    pkv_sim_result res;
    assert_int_equal(run(&cfg, &big, 1, &res), PKV_OK);
    assert_int_equal(res.n_finished, 1);
    big.output_tokens++;
    assert_int_equal(run(&cfg, &big, 1, &res), PKV_OK);
    assert_int_equal(res.n_too_long, 1);
}

/* ---------------------------------------------------------------- leap against naive */

static void random_case(pkv__rng *rng, pkv_sim_config *cfg, pkv_sim_request *reqs, int64_t n)
{
    cfg->policy.prefix = pkv__rng_below(rng, 2);
    cfg->policy.swap = pkv__rng_below(rng, 2);
    cfg->policy.group = (pkv_sim_group)pkv__rng_below(rng, 3);
    cfg->policy.n_seqs = cfg->policy.group ? 1 + (int32_t)pkv__rng_below(rng, 4) : 1;
    cfg->policy.switch_ppm = (int32_t)pkv__rng_below(rng, 5) * 250000;
    cfg->policy.block_tokens = 1 + (int32_t)pkv__rng_below(rng, 12);
    cfg->pool_tokens = 40 + (int32_t)pkv__rng_below(rng, 400);
    cfg->max_model_len = 20 + (int32_t)pkv__rng_below(rng, 150);
    cfg->max_num_seqs = 1 + (int32_t)pkv__rng_below(rng, 10);
    cfg->watermark_ppm = pkv__rng_below(rng, 8) ? (int32_t)pkv__rng_below(rng, 3) * 50000 : 1000000;
    cfg->step_per_seq_ns = pkv__rng_below(rng, 10);
    cfg->step_per_token_ns = pkv__rng_below(rng, 3);
    cfg->swap_tokens = (int32_t)pkv__rng_below(rng, 300);
    cfg->copy_latency_ns = pkv__rng_below(rng, 20);
    cfg->window = (pkv_sim_window)pkv__rng_below(rng, 4);
    cfg->admit_skip = pkv__rng_below(rng, 4) == 0;
    cfg->concurrency = pkv__rng_below(rng, 4) ? 0 : 1 + (int32_t)pkv__rng_below(rng, 9);
    if (pkv__rng_below(rng, 3) == 0) cfg->prefill_chunk = 1 + (int32_t)pkv__rng_below(rng, 20);
    cfg->prefill_tokens_per_s = pkv__rng_below(rng, 3) ? 0 : 1000000000;
    draw_small(rng, reqs, n, 1 + pkv__rng_below(rng, 60));
}

static void test_leap_equals_naive(void **state)
{
    (void)state;
    enum { N = 40, PER_ID = 6 };
    pkv_sim_request reqs[N];
    int64_t first[N];
    int32_t n_ids[N], ids[N * 12];
    const uint64_t seed0 = first_seed(1), n_cases = getenv("PKV_SEED") ? 1 : 600;
    int64_t n_swaps = 0, found = 0, copied = 0;
    for (uint64_t seed = seed0; seed < seed0 + n_cases; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 0, 0);
        pkv_sim_config cfg = small_config(PKV_SIM_GROUP_NONE, 1, 40);
        cfg.seed = seed;
        random_case(&rng, &cfg, reqs, N);
        const pkv_sim_content content = { PER_ID, 4, first, n_ids, ids };
        for (int r = 0; r < N; r++) {
            first[r] = r * 12;
            n_ids[r] = pkv__ceil_div_i32(reqs[r].prompt_tokens, PER_ID);
            for (int k = 0; k < n_ids[r]; k++)
                ids[first[r] + k] = (int32_t)pkv__rng_below(&rng, k < 3 ? 2 : 4);
        }
        cfg.content = pkv__rng_below(&rng, 4) ? &content : NULL;
        pkv_sim_result res;
        const pkv_status status = run(&cfg, reqs, N, &res);
        if (status != PKV_OK || res.n_finished + res.n_too_long != N)
            fail_msg("PKV_SEED=%llu: %s", (unsigned long long)seed, pkv_status_name(status));
        n_swaps += res.n_swaps;
        found += res.hits.cached_tokens;
        copied += res.copied_blocks;
    }
    if (n_cases > 1) assert_true(n_swaps > 1000 && found > 10000 && copied > 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fork_by_hand),      cmocka_unit_test(test_fork_of_full_blocks),
        cmocka_unit_test(test_beams_by_hand),     cmocka_unit_test(test_saving_is_the_closed_form),
        cmocka_unit_test(test_degenerate_groups), cmocka_unit_test(test_block_of_one),
        cmocka_unit_test(test_block_of_all),      cmocka_unit_test(test_what_fits),
        cmocka_unit_test(test_leap_equals_naive),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
