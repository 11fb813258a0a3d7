/* The paged policies from outside: maps of the pool slot by slot, samples that agree with them, and
 * memory that runs out at every allocation. */
#include "common/philox.h"
#include "miser.h"
#include "sim/paged.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 30 };

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fprintf(stderr, "# %s\n", text);
}

static pkv_sim_config small_config(int32_t pool)
{
    pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
    cfg.policy.block_tokens = 4;
    cfg.pool_tokens = pool;
    cfg.max_model_len = 64;
    cfg.watermark_ppm = 0;
    cfg.step_base_ns = 10;
    cfg.step_per_seq_ns = cfg.step_per_token_ns = 0;
    cfg.swap_tokens = 100;
    cfg.swap_bytes_per_s = 0;
    cfg.copy_latency_ns = 5;
    cfg.check = true;
    cfg.log.fn = print_log;
    return cfg;
}

static void draw_small(uint64_t seed, pkv_sim_request *reqs, int64_t n)
{
    pkv__rng rng;
    pkv__rng_init(&rng, seed, 0, 0);
    int64_t now = 0;
    for (int64_t r = 0; r < n; r++) {
        reqs[r].arrival_ns = now;
        reqs[r].prompt_tokens = 1 + (int32_t)pkv__rng_below(&rng, 25);
        reqs[r].output_tokens = 1 + (int32_t)pkv__rng_below(&rng, 25);
        now += pkv__rng_below(&rng, 40);
    }
}

/* ---------------------------------------------------------------- maps */

static void ignore_sample(void *ctx, const pkv_sim_sample *sample)
{
    (void)ctx;
    (void)sample;
}

/* Every token lies where the manager says that it is written; what else its block has is internal.
 * A pool of 43 slots ends with 3 that belong to no block. */
static void test_map_by_slots(void **state)
{
    (void)state;
    enum { POOL = 43 };
    const pkv_sim_request reqs[] = { { 0, 6, 5 }, { 0, 3, 5 } };
    pkv_sim_config cfg = small_config(POOL);
    pkv_sim_observer observer = PKV_SIM_OBSERVER_INIT;
    observer.on_sample = ignore_sample;
    observer.sample_interval_ns = 1;
    observer.map_cells = POOL;
    cfg.observer = &observer;
    cfg.policy.group = PKV_SIM_GROUP_FORK;
    cfg.policy.n_seqs = 2;
    const pkv__sim_policy_ops *ops = &pkv__sim_policy_paged;
    void *self;
    int32_t cached;
    assert_int_equal(ops->create(&cfg, reqs, 2, &self), PKV_OK);
    assert_int_equal(ops->admit(self, 0, 6, true, &cached), PKV_OK);
    assert_int_equal(ops->admit(self, 1, 3, false, &cached), PKV_OK);
    assert_int_equal(ops->grow(self, 0, 6), PKV_OK);
    assert_int_equal(ops->grow(self, 1, 3), PKV_OK);
    const pkv__sim_held running[] = { { 0, 6 }, { 1, 3 } };
    pkv__sim_cell cells[POOL] = { { { 0 } } };
    assert_true(ops->map(self, running, 2, cells, POOL));

    pkv__paged *p = self;
    pkv_sim_map_state want[POOL] = { PKV_SIM_MAP_FREE };
    for (int k = 0; k < 2; k++) {
        for (int j = 0; j < 2; j++) {
            int64_t slots[8];
            const int32_t room = k == 0 ? 8 : 4;
            const pkv_seq seq = pkv__paged_seqs_of(p, pkv__paged_run_of(p, k))[j].seq;
            assert_int_equal(pkv_seq_slots(p->mgr, seq, 0, 0, room, slots), PKV_OK);
            for (int32_t pos = 0; pos < room; pos++)
                want[slots[pos] - 4] =
                    pos < running[k].u ? PKV_SIM_MAP_TOKEN : PKV_SIM_MAP_INTERNAL;
        }
    }
    int64_t n_token = 0;
    for (int at = 0; at < POOL; at++) {
        for (int s = 1; s < PKV__MAP_STATES; s++)
            assert_int_equal(cells[at].slots[s], s == (int)want[at] ? 1 : 0);
        n_token += want[at] == PKV_SIM_MAP_TOKEN;
    }
    assert_int_equal(n_token, (4 + 2 + 2) + (3 + 3));
    ops->destroy(self);
}

typedef struct tally {
    int32_t pool;
    int64_t n_samples;
} tally;

/* With a cell per slot the map is the sample. */
static void compare_with_map(void *ctx, const pkv_sim_sample *s)
{
    tally *t = ctx;
    int64_t n[PKV__MAP_STATES] = { 0 };
    assert_non_null(s->map);
    for (int32_t at = 0; at < t->pool; at++) n[s->map[at]]++;
    assert_int_equal(n[PKV_SIM_MAP_TOKEN], s->token);
    assert_int_equal(n[PKV_SIM_MAP_INTERNAL], s->internal);
    assert_int_equal(n[PKV_SIM_MAP_RESERVED] + n[PKV_SIM_MAP_ROUNDING], 0);
    assert_int_equal(s->tail, t->pool % 4);
    assert_true(s->cached <= t->pool - s->token - s->internal);
    t->n_samples++;
}

static void test_samples_are_maps(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    for (uint64_t seed = 1; seed <= 30; seed++) {
        draw_small(seed, reqs, N);
        tally t = { 100 + (int32_t)(seed * 7 % 50), 0 };
        pkv_sim_config cfg = small_config(t.pool);
        cfg.policy.prefix = seed & 1;
        cfg.policy.swap = seed & 2;
        cfg.policy.group = (pkv_sim_group)(seed % 3);
        cfg.policy.n_seqs = cfg.policy.group ? 3 : 1;
        cfg.policy.switch_ppm = 300000;
        pkv_sim_observer observer = PKV_SIM_OBSERVER_INIT;
        observer.ctx = &t;
        observer.on_sample = compare_with_map;
        observer.sample_interval_ns = 7;
        observer.map_cells = t.pool;
        cfg.observer = &observer;
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        assert_int_equal(pkv_sim_run(&cfg, reqs, N, &res), PKV_OK);
        assert_true(t.n_samples > 50);
    }
}

/* ---------------------------------------------------------------- memory that runs out */

static void test_each_allocation_fails(void **state)
{
    (void)state;
    pkv_sim_request reqs[N];
    draw_small(3, reqs, N);
    static const char *const policies[] = { "paged+prefix", "paged+prefix+swap+beam:width=3",
                                            "paged+swap+fork:n=2" };
    tally t = { 160, 0 };
    pkv_sim_observer observer = PKV_SIM_OBSERVER_INIT;
    observer.ctx = &t;
    observer.on_sample = ignore_sample;
    observer.sample_interval_ns = 100;
    observer.map_cells = t.pool;
    for (size_t k = 0; k < PKV_ARRAY_LEN(policies); k++) {
        for (int allowed = 0;; allowed++) {
            miser m = { allowed, 0 };
            pkv_sim_config cfg = small_config(t.pool);
            pkv_sim_result res = PKV_SIM_RESULT_INIT;
            assert_int_equal(pkv_sim_policy_parse(policies[k], NULL, &cfg.policy), PKV_OK);
            cfg.policy.block_tokens = 4;
            cfg.observer = &observer;
            cfg.alloc = (pkv_allocator){ miser_alloc, miser_free, &m };
            res.n_steps = -77;
            const pkv_status status = pkv_sim_run(&cfg, reqs, N, &res);
            assert_int_equal(m.bytes, 0);
            if (status == PKV_OK) break;
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_int_equal(res.n_steps, -77);
            assert_in_range(allowed, 0, 60);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map_by_slots),
        cmocka_unit_test(test_samples_are_maps),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
