/* Contiguous policies through their table of functions, by hand: Fig. 3 of the PagedAttention
 * paper, what is asked for, refused allocations, compaction and its price, maps. */
#include "common/philox.h"
#include "sim/sim_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const pkv__sim_policy_ops *const ops = &pkv__sim_policy_contig;

static void close_to(double got, double want, double tolerance, const char *what)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.17g, expected %.17g +- %g", what, got, want, tolerance);
}

static pkv_sim_config config(const char *policy, int32_t pool, int32_t max_len)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    assert_int_equal(pkv_sim_policy_parse(policy, NULL, &cfg.policy), PKV_OK);
    cfg.pool_tokens = pool;
    cfg.max_model_len = max_len;
    cfg.check = true;
    return cfg;
}

static void *create(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    void *p;
    assert_int_equal(ops->create(cfg, reqs, n, &p), PKV_OK);
    return p;
}

static bool admit(void *p, int64_t r, int32_t u)
{
    int32_t cached = -1;
    const pkv_status status = ops->admit(p, r, u, false, &cached);
    assert_int_equal(cached, 0);
    assert_int_equal(ops->check(p), PKV_OK);
    if (status == PKV_OK) return true;
    assert_int_equal(status, PKV_E_NO_BLOCKS);
    return false;
}

static void release(void *p, int64_t r)
{
    assert_int_equal(ops->release(p, r), PKV_OK);
    assert_int_equal(ops->check(p), PKV_OK);
}

/* ---------------------------------------------------------------- what is asked for */

/* Pool 2560 without rounding: 2048 for A, 512 for B. A: prompt 7, one token generated, two to come.
 * B: prompt 3, one generated, one to come. By hand: 12 / 3 / 2545 / 0. */
static void test_figure_3(void **state)
{
    (void)state;
    static const struct {
        int32_t max_len, prompt, output;
    } who[] = { { 2048, 7, 3 }, { 512, 3, 2 } };
    int64_t token = 0, reservation = 0, internal = 0, external = 0;
    for (size_t k = 0; k < PKV_ARRAY_LEN(who); k++) {
        const pkv_sim_config cfg = config("max:first-fit", who[k].max_len, who[k].max_len);
        const pkv_sim_request req = { 0, who[k].prompt, who[k].output };
        void *p = create(&cfg, &req, 1);
        assert_true(admit(p, 0, req.prompt_tokens));
        assert_int_equal(ops->grow(p, 0, req.prompt_tokens), PKV_OK);
        pkv__sim_sample s;
        int64_t n_free;
        ops->usage(p, req.prompt_tokens + 1, &s, &n_free);
        token += s.part[PKV__PART_TOKEN];
        reservation += s.part[PKV__PART_RESERVATION];
        internal += s.part[PKV__PART_INTERNAL];
        external += s.part[PKV__PART_ROUNDING] + n_free;
        ops->destroy(p);
    }
    assert_int_equal(token, 12);
    assert_int_equal(reservation, 3);
    assert_int_equal(internal, 2545);
    assert_int_equal(external, 0);
}

static void test_asked(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        int32_t prompt, output;
        int64_t want;
    } cases[] = {
        { "max", 10, 25, 200 },
        { "pow2", 10, 25, 42 }, /* an output of 25 reserves 32 */
        { "pow2", 10, 32, 42 },
        { "pow2", 10, 33, 74 },
        { "pow2", 100, 65, 200 }, /* 228, but at most M */
        { "pow2", 10, 1, 11 },
        { "pow2", 10, 0, 10 },
        { "oracle", 10, 25, 35 },
        { "oracle", 10, 0, 10 },
        { "orca-real", 10, 25, 200 },
        { "orca-real:max_tokens=60", 10, 25, 60 },
        { "orca-real:max_tokens=300", 10, 25, 300 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        const pkv_sim_config cfg = config(cases[k].policy, 1000, 200);
        const pkv_sim_request req = { 0, cases[k].prompt, cases[k].output };
        void *p = create(&cfg, &req, 1);
        if (ops->need(p, 0, req.prompt_tokens) != cases[k].want)
            fail_msg("%s asks for %lld, expected %lld", cases[k].policy,
                     (long long)ops->need(p, 0, req.prompt_tokens), (long long)cases[k].want);
        ops->destroy(p);
    }
}

/* Of the pool, of the largest root, and of what orca-real lets a request have. */
static void test_fits_empty(void **state)
{
    (void)state;
    static const struct {
        const char *policy;
        int32_t pool, prompt, output;
        bool want;
    } cases[] = {
        { "oracle:ideal", 100, 60, 40, true },
        { "oracle:ideal", 100, 60, 41, false },
        { "oracle:compact", 100, 60, 40, true },
        { "oracle:next-fit", 100, 60, 41, false },
        { "oracle", 100, 60, 4, true }, /* 64 + 32 + 4 */
        { "oracle", 100, 60, 5, false },
        { "max", 255, 60, 5, false },
        { "max", 256, 60, 5, true },
        { "orca-real", 200, 60, 5, true },
        { "orca-real", 199, 60, 5, false },
        { "orca-real:max_tokens=100", 100, 60, 40, true },
        { "orca-real:max_tokens=100", 1000, 60, 41, false },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        const pkv_sim_config cfg = config(cases[k].policy, cases[k].pool, 200);
        const pkv_sim_request req = { 0, cases[k].prompt, cases[k].output };
        void *p = create(&cfg, &req, 1);
        if (ops->fits_empty(p, 0) != cases[k].want) fail_msg("case %zu: %s", k, cases[k].policy);
        ops->destroy(p);
    }
}

/* 70 of 100 taken: 30 are left wherever they lie, for whoever asks for 30. */
static void test_orca_real_counts(void **state)
{
    (void)state;
    const pkv_sim_config cfg = config("orca-real:max_tokens=35", 100, 200);
    const pkv_sim_request reqs[] = { { 0, 5, 5 }, { 0, 6, 6 }, { 0, 7, 7 } };
    void *p = create(&cfg, reqs, 3);
    assert_true(admit(p, 0, 5));
    assert_true(admit(p, 1, 6));
    assert_false(admit(p, 2, 7));
    assert_int_equal(ops->held(p, 0), 35);
    assert_int_equal(ops->largest_free(p), 30);
    assert_false(ops->has_places(p));
    pkv__sim_cell cells[4] = { { { 0 } } };
    const pkv__sim_held held = { 0, 5 };
    assert_false(ops->map(p, &held, 1, cells, 4));
    release(p, 0);
    assert_true(admit(p, 2, 7));
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    ops->result(p, &res);
    assert_int_equal(res.n_failed_takes, 0);
    ops->destroy(p);
}

/* ---------------------------------------------------------------- refused allocations */

static double result_index(const void *p, int64_t n)
{
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    ops->result(p, &res);
    assert_int_equal(res.n_failed_takes, n);
    return res.frag_index;
}

/* 100 slots, chunks at 0, 20, 30, 60 of 20, 10, 30, 5; the first and third leave runs of 20, 30 and
 * 35. 36 slots, order 6: 1 - (1 + 85 / 64) / 3. Asking again without a change is no new refusal. */
static void test_index_of_runs(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 15, 5 }, { 0, 6, 4 },   { 0, 20, 10 }, { 0, 3, 2 },
                                     { 0, 30, 6 }, { 0, 80, 20 }, { 0, 35, 1 },  { 0, 30, 5 } };
    const pkv_sim_config cfg = config("oracle:first-fit", 100, 200);
    void *p = create(&cfg, reqs, 8);
    for (int r = 0; r < 4; r++) assert_true(admit(p, r, reqs[r].prompt_tokens));
    release(p, 0);
    release(p, 2);
    assert_int_equal(ops->largest_free(p), 35);
    assert_true(ops->has_places(p));
    pkv__sim_sample s;
    int64_t n_free;
    ops->usage(p, 6 + 3, &s, &n_free);
    assert_int_equal(n_free, 85);
    close_to(result_index(p, 0), 0, 0, "index of nothing");
    assert_false(admit(p, 4, 30));
    const double first = 1 - (1 + 85.0 / 64) / 3;
    close_to(result_index(p, 1), first, 1e-9, "index");
    assert_false(admit(p, 4, 30));
    close_to(result_index(p, 1), first, 1e-9, "index");
    assert_false(admit(p, 5, 80)); /* 100 slots are not free at all: no fragmentation */
    close_to(result_index(p, 1), first, 1e-9, "index");
    assert_false(admit(p, 6, 35)); /* another request: 36 slots too */
    close_to(result_index(p, 2), first, 1e-9, "index");
    assert_true(admit(p, 7, 30)); /* 35 slots fill the last run; 50 are free in two */
    assert_false(admit(p, 4, 30));
    close_to(result_index(p, 3), (2 * first + 1 - (1 + 50.0 / 64) / 2) / 3, 1e-9, "index");
    ops->destroy(p);
}

/* 16 slots: of sixteen chunks of one the even ones go, 8 are free in 8 chunks: for 8 slots
 * 1 - (1 + 1) / 8. Then for 5 slots, order 3 too, the same. */
static void test_index_of_buddy(void **state)
{
    (void)state;
    pkv_sim_request reqs[18];
    for (int r = 0; r < 16; r++) reqs[r] = (pkv_sim_request){ 0, 1, 0 };
    reqs[16] = (pkv_sim_request){ 0, 7, 1 };
    reqs[17] = (pkv_sim_request){ 0, 4, 1 };
    const pkv_sim_config cfg = config("oracle", 16, 16);
    void *p = create(&cfg, reqs, 18);
    for (int r = 0; r < 16; r++) assert_true(admit(p, r, 1));
    for (int r = 0; r < 16; r += 2) release(p, r);
    assert_false(admit(p, 16, 7));
    close_to(result_index(p, 1), 0.75, 1e-12, "index");
    assert_false(admit(p, 17, 4));
    close_to(result_index(p, 2), 0.75, 1e-12, "index");
    ops->destroy(p);
}

/* ---------------------------------------------------------------- compaction */

static int32_t resident_of(const void *engine, int64_t r)
{
    return ((const int32_t *)engine)[r];
}

/* The pool of test_index_of_runs: chunk 1 slides from 20 to 0, chunk 3 from 60 to 10, and 36 slots
 * follow at 15. 10 + 5 slots move, and 8 + 4 tokens in them. */
static void test_compaction(void **state)
{
    (void)state;
    const pkv_sim_request reqs[] = { { 0, 15, 5 }, { 0, 6, 4 },  { 0, 20, 10 },
                                     { 0, 3, 2 },  { 0, 30, 6 }, { 0, 40, 9 } };
    static const int32_t resident[] = { 0, 8, 0, 4, 30, 40 };
    for (int connected = 0; connected < 2; connected++) {
        pkv_sim_config cfg = config("oracle:compact", 100, 200);
        cfg.kv_bytes_per_token = 7;
        cfg.compact_bytes_per_s = INT64_C(10000000000); /* 0.7 ns per token */
        void *p = create(&cfg, reqs, 6);
        if (connected) ops->connect(p, resident, resident_of);
        for (int r = 0; r < 4; r++) assert_true(admit(p, r, reqs[r].prompt_tokens));
        release(p, 0);
        release(p, 2);
        pkv__sim_costs costs;
        ops->take_costs(p, &costs);
        assert_true(costs.ns == 0 && costs.moved_tokens == 0);
        assert_false(ops->has_places(p));
        assert_int_equal(ops->largest_free(p), 35); /* as it lies now */
        assert_true(admit(p, 4, 30));
        assert_int_equal(ops->largest_free(p), 49);
        const int64_t moved = connected ? 8 + 4 : 10 + 5;
        ops->take_costs(p, &costs);
        assert_int_equal(costs.moved_tokens, moved);
        assert_int_equal(costs.ns, connected ? 9 : 11); /* 8.4 and 10.5, rounded up */
        ops->take_costs(p, &costs);
        assert_true(costs.ns == 0 && costs.moved_tokens == 0);
        pkv__sim_cell cells[100] = { { { 0 } } };
        const pkv__sim_held held[] = { { 3, 4 }, { 4, 30 }, { 1, 8 } };
        assert_true(ops->map(p, held, 3, cells, 100));
        static const struct {
            int to, state;
        } want[] = { { 8, PKV_SIM_MAP_TOKEN },  { 10, PKV_SIM_MAP_RESERVED },
                     { 14, PKV_SIM_MAP_TOKEN }, { 15, PKV_SIM_MAP_RESERVED },
                     { 45, PKV_SIM_MAP_TOKEN }, { 51, PKV_SIM_MAP_RESERVED } };
        for (int slot = 0, k = 0; slot < 51; slot++) {
            if (slot == want[k].to) k++;
            assert_int_equal(cells[slot].slots[want[k].state], 1);
        }
        assert_true(admit(p, 5, 40)); /* 49 slots fit exactly, nothing moves */
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        ops->result(p, &res);
        assert_int_equal(res.n_compactions, 1);
        assert_int_equal(res.compacted_tokens, moved);
        assert_int_equal(res.n_failed_takes, 0);
        ops->destroy(p);
    }
}

/* A 0 .. 10 goes, B 10 .. 20 stays. 80 slots fit behind B, 81 only once B has moved; 10 more do not
 * fit at all, and nothing moves. A rate of 0 is infinite; a price beyond any run is cut. */
static void test_price_of_compaction(void **state)
{
    (void)state;
    enum { A, B, FITS, MOVES };
    const pkv_sim_request reqs[] = { { 0, 10, 0 }, { 0, 10, 0 }, { 0, 80, 0 }, { 0, 50, 31 } };
    static const struct {
        int64_t kv_bytes, rate, want;
    } cases[] = { { 819200, 0, 0 },
                  { 819200, INT64_C(1000000000000), 8192 }, /* 8.192 MB at 1 TB/s */
                  { 1, INT64_MAX, 1 },
                  { INT64_MAX, 1, INT64_C(1) << 62 } };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        pkv_sim_config cfg = config("oracle:compact", 100, 200);
        cfg.kv_bytes_per_token = cases[k].kv_bytes;
        cfg.compact_bytes_per_s = cases[k].rate;
        void *p = create(&cfg, reqs, 4);
        pkv__sim_costs costs;
        assert_true(admit(p, A, 10) && admit(p, B, 10));
        release(p, A);
        assert_true(admit(p, FITS, 80));
        release(p, FITS);
        ops->take_costs(p, &costs);
        assert_int_equal(costs.moved_tokens, 0);
        assert_true(admit(p, MOVES, 50));
        ops->take_costs(p, &costs);
        assert_int_equal(costs.moved_tokens, 10);
        assert_int_equal(costs.ns, cases[k].want);
        assert_false(admit(p, A, 10)); /* 9 are free */
        ops->take_costs(p, &costs);
        assert_int_equal(costs.moved_tokens, 0);
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        ops->result(p, &res);
        assert_int_equal(res.n_compactions, 1);
        assert_int_equal(res.n_failed_takes, 0);
        ops->destroy(p);
    }
}

/* ---------------------------------------------------------------- maps */

/* Cell k of n begins at slot floor(k * C / n): slot by slot. */
static void test_map_cells(void **state)
{
    (void)state;
    enum { CELLS = 40 };
    pkv__rng rng;
    pkv__rng_init(&rng, 3, 0, 0);
    for (int round = 0; round < 5000; round++) {
        const int64_t pool = 1 + pkv__rng_below(&rng, 100);
        const int32_t n = 1 + (int32_t)pkv__rng_below(&rng, CELLS);
        const int64_t from = pkv__rng_below(&rng, (uint32_t)pool + 1);
        const int64_t to = from + pkv__rng_below(&rng, (uint32_t)(pool - from) + 1);
        pkv__sim_cell cells[CELLS] = { { { 0 } } };
        pkv__sim_map_add(cells, n, pool, from, to, PKV_SIM_MAP_INTERNAL);
        for (int32_t k = 0; k < n; k++) {
            int64_t want = 0;
            for (int64_t s = k * pool / n; s < (k + 1) * pool / n; s++) want += s >= from && s < to;
            assert_int_equal(cells[k].slots[PKV_SIM_MAP_INTERNAL], want);
            assert_int_equal(cells[k].slots[PKV_SIM_MAP_TOKEN], 0);
        }
    }
    const int64_t pool = INT32_MAX;
    static pkv__sim_cell many[4096];
    pkv__sim_map_add(many, 4096, pool, 0, pool, PKV_SIM_MAP_TOKEN);
    int64_t sum = 0;
    for (int k = 0; k < 4096; k++) sum += many[k].slots[PKV_SIM_MAP_TOKEN];
    assert_int_equal(sum, pool);
}

/* max, 40 asked, 64 granted at 0 and 64: 12 tokens of 20, and 5 of 5. Cells of 16 slots. */
static void test_map_by_hand(void **state)
{
    (void)state;
    const pkv_sim_config cfg = config("max", 160, 40);
    const pkv_sim_request reqs[] = { { 0, 10, 10 }, { 0, 5, 0 } };
    void *p = create(&cfg, reqs, 2);
    assert_true(admit(p, 0, 10));
    assert_true(admit(p, 1, 5));
    pkv__sim_cell cells[10] = { { { 0 } } };
    const pkv__sim_held held[] = { { 0, 12 }, { 1, 5 } };
    assert_true(ops->map(p, held, 2, cells, 10));
    static const int64_t want[10][PKV__MAP_STATES] = {
        { 0, 12, 4, 0, 0, 0 }, { 0, 0, 4, 12, 0, 0 }, { 0, 0, 0, 8, 8, 0 }, { 0, 0, 0, 0, 16, 0 },
        { 0, 5, 0, 11, 0, 0 }, { 0, 0, 0, 16, 0, 0 }, { 0, 0, 0, 8, 8, 0 }, { 0, 0, 0, 0, 16, 0 },
        { 0, 0, 0, 0, 0, 0 },  { 0, 0, 0, 0, 0, 0 },
    };
    assert_memory_equal(cells, want, sizeof(want));
    ops->destroy(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_3),      cmocka_unit_test(test_asked),
        cmocka_unit_test(test_fits_empty),    cmocka_unit_test(test_orca_real_counts),
        cmocka_unit_test(test_index_of_runs), cmocka_unit_test(test_index_of_buddy),
        cmocka_unit_test(test_compaction),    cmocka_unit_test(test_price_of_compaction),
        cmocka_unit_test(test_map_cells),     cmocka_unit_test(test_map_by_hand),
    };
    return cmocka_run_group_tests_name("contig", tests, NULL, NULL);
}
