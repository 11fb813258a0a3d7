/* Leap against naive, byte for byte: results, events, samples and maps, for random requests, every
 * policy and every combination of options. And allocation failures with all of them on. */
#include "common/philox.h"
#include "fake_policy.h"
#include "miser.h"
#include "sim_recorder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 50 };

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    if (level <= PKV_LOG_ERROR) fprintf(stderr, "# %s\n", text);
}

static uint64_t first_seed(uint64_t usual)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : usual;
}

static int64_t below(pkv__rng *rng, uint32_t n)
{
    return pkv__rng_below(rng, n);
}

static bool one_in(pkv__rng *rng, uint32_t n)
{
    return pkv__rng_below(rng, n) == 0;
}

/* ---------------------------------------------------------------- random cases */

typedef struct random_case {
    pkv_sim_config cfg;
    const pkv__sim_policy_ops *ops; /* NULL: as the config says */
    pkv_sim_request reqs[N];
    pkv_sim_content content;
    int64_t first[N];
    int32_t n_ids[N], ids[N * 64];
    int64_t interval_ns;
    int32_t map_cells;
} random_case;

static void random_requests(pkv__rng *rng, random_case *c)
{
    const uint32_t longest = 1 + pkv__rng_below(rng, 60);
    const uint32_t gap = pkv__rng_below(rng, 3) * pkv__rng_below(rng, 40000);
    const bool some_without_output = one_in(rng, 3);
    int64_t now = below(rng, 1000);
    for (int r = 0; r < N; r++) {
        c->reqs[r].arrival_ns = now;
        c->reqs[r].prompt_tokens = 1 + (int32_t)below(rng, longest);
        c->reqs[r].output_tokens = 1 + (int32_t)below(rng, longest);
        if (some_without_output && one_in(rng, 3)) c->reqs[r].output_tokens = 0;
        if (gap > 0 && !one_in(rng, 3)) now += below(rng, gap);
    }
}

/* Few ids, so that many prompts begin alike. */
static void random_content(pkv__rng *rng, random_case *c)
{
    c->content = (pkv_sim_content){ 1 + (int32_t)below(rng, 20), 1 + (int32_t)below(rng, 6),
                                    c->first, c->n_ids, c->ids };
    int64_t at = 0;
    for (int r = 0; r < N; r++) {
        const int32_t most = pkv__ceil_div_i32(c->reqs[r].prompt_tokens, c->content.block_tokens);
        c->first[r] = at;
        c->n_ids[r] = (int32_t)below(rng, (uint32_t)most + 1);
        for (int k = 0; k < c->n_ids[r]; k++)
            c->ids[at++] = (int32_t)below(rng, (uint32_t)c->content.n_distinct);
    }
    c->cfg.content = &c->content;
}

static void random_scheduling(pkv__rng *rng, pkv_sim_config *cfg)
{
    cfg->admit_skip = one_in(rng, 3);
    cfg->concurrency = one_in(rng, 4) ? 1 + (int32_t)below(rng, 15) : 0;
    cfg->prefill_chunk = one_in(rng, 3) ? 1 + (int32_t)below(rng, 30) : 0;
    if (one_in(rng, 3))
        cfg->max_batched_tokens =
            (cfg->prefill_chunk ? 1 : cfg->max_model_len) + (int32_t)below(rng, 60);
    if (one_in(rng, 3)) cfg->prefill_tokens_per_s = 1 + below(rng, 1000000000);
    cfg->slo_ttft_ns = below(rng, 2) * below(rng, 100000);
    cfg->slo_norm_ns = below(rng, 2) * below(rng, 20000);
    cfg->slo_tpot_ns = below(rng, 2) * below(rng, 8000);
    cfg->percentile_nearest = one_in(rng, 2);
}

/* Small numbers everywhere, so that every branch is taken: pools that hold a few requests, bursts
 * and gaps, requests that can never fit, windows that end inside a step. */
static void random_config(pkv__rng *rng, pkv_sim_config *cfg)
{
    cfg->log.fn = print_log;
    cfg->check = true;
    cfg->pool_tokens = 40 + (int32_t)below(rng, 400);
    cfg->max_model_len = 20 + (int32_t)below(rng, 120);
    cfg->max_num_seqs = 1 + (int32_t)below(rng, 12);
    cfg->watermark_ppm = (int32_t)below(rng, 3) * 50000;
    cfg->step_base_ns = 1 + below(rng, 2000);
    cfg->step_per_seq_ns = below(rng, 100);
    cfg->step_per_token_ns = below(rng, 3) * below(rng, 20);
    cfg->window = (pkv_sim_window)below(rng, 4);
    cfg->seed = pkv__rng_u64(rng);
    cfg->swap_tokens = (int32_t)below(rng, 300);
    cfg->kv_bytes_per_token = 1 + below(rng, 3000);
    cfg->tensor_token_bytes = 1000 + (int32_t)below(rng, 30000);
    cfg->swap_bytes_per_s = below(rng, 2) * (1 + below(rng, 1000000000));
    cfg->copy_latency_ns = below(rng, 2) * below(rng, 100);
    cfg->compact_bytes_per_s = below(rng, 2) * (1 + below(rng, 1000000000));
    random_scheduling(rng, cfg);
}

static void random_observer(pkv__rng *rng, random_case *c)
{
    c->interval_ns = one_in(rng, 4) ? 0 : 1 + below(rng, 30000);
    c->map_cells = one_in(rng, 3) ? 0 : 1 + (int32_t)below(rng, 100);
}

static bool has_kind(const random_case *c, pkv_sim_kind kind)
{
    return !c->ops && c->cfg.policy.kind == kind;
}

static int64_t pool_units(const random_case *c)
{
    const int64_t unit = has_kind(c, PKV_SIM_VATTN) ? c->cfg.tensor_token_bytes : 1;
    return c->cfg.pool_tokens * unit;
}

/* ---------------------------------------------------------------- both engines */

typedef struct totals {
    int64_t preemptions, swaps, too_long, samples, admissions;
} totals;

static pkv_status run(random_case *c, pkv_sim_engine engine, pkv_sim_result *out, recorder *rec)
{
    recorder_init(rec, c->interval_ns, c->map_cells, pool_units(c));
    memset(out, 0, sizeof(*out)); /* padding too, for the comparison */
    out->struct_size = sizeof(*out);
    c->cfg.observer = &rec->observer;
    c->cfg.engine = engine;
    if (!c->ops) return pkv_sim_run(&c->cfg, c->reqs, N, out);
    return pkv__sim_run_policy(&c->cfg, c->reqs, N, c->ops, out);
}

/* Holds for every result. */
static bool is_sound(const random_case *c, const pkv_sim_result *res)
{
    const pkv_sim_split *s = &res->split;
    const double sum = s->token + s->reservation + s->internal + s->external;
    if (res->n_finished + res->n_too_long != N || res->n_good > res->n_finished) return false;
    if (res->window_ns > 0 && fabs(sum - 1) > 1e-12) return false;
    if (res->scatter < 0 || res->scatter > 1) return false;
    /* The residences sum to the integral of the batch. */
    const double residence = res->residence_s.mean * (double)res->residence_s.n * 1e9;
    const double batch = res->mean_batch * (double)res->window_ns;
    return c->cfg.window != PKV_SIM_WINDOW_ALL || fabs(residence - batch) <= 1e-9 * batch + 1e-3;
}

static void compare(random_case *c, const char *what, uint64_t seed, totals *sum)
{
    pkv_sim_result leap, naive;
    recorder seen_leap, seen_naive;
    const pkv_status a = run(c, PKV_SIM_LEAP, &leap, &seen_leap);
    const pkv_status b = run(c, PKV_SIM_NAIVE, &naive, &seen_naive);
    const char *wrong = NULL;
    if (a != PKV_OK || b != PKV_OK) wrong = "a run failed";
    else if (memcmp(&leap, &naive, sizeof(leap)) != 0) wrong = "results differ";
    else if (!recorder_equal(&seen_leap, &seen_naive)) wrong = "events or samples differ";
    else if (seen_leap.n_bad > 0) wrong = "a sample is unsound, or events go back in time";
    else if (!is_sound(c, &leap)) wrong = "the result is unsound";
    if (wrong)
        fail_msg("PKV_SEED=%llu, %s: %s; leap %s, naive %s; %lld and %lld steps",
                 (unsigned long long)seed, what, wrong, pkv_status_name(a), pkv_status_name(b),
                 (long long)leap.n_steps, (long long)naive.n_steps);
    sum->preemptions += leap.n_preemptions;
    sum->swaps += leap.n_swaps;
    sum->too_long += leap.n_too_long;
    sum->admissions += leap.n_admissions;
    sum->samples += seen_leap.n_samples;
    recorder_deinit(&seen_leap);
    recorder_deinit(&seen_naive);
}

static void random_fake(pkv__rng *rng, random_case *c)
{
    pkv_sim_policy *p = &c->cfg.policy;
    p->block_tokens = 1 + (int32_t)below(rng, 20);
    p->swap = !one_in(rng, 3);
    if (one_in(rng, 3)) {
        p->group = PKV_SIM_GROUP_FORK;
        p->n_seqs = 1 + (int32_t)below(rng, 3);
    }
    fake = (fake_setup){ 0 };
    fake.cached = (int32_t)(below(rng, 2) * below(rng, 20));
    fake.suspend_ns = below(rng, 2) * below(rng, 3000);
    fake.resume_ns = below(rng, 2) * below(rng, 3000);
    fake.move_every = below(rng, 2) * below(rng, 5);
    fake.move_ns = below(rng, 2) * below(rng, 3000);
    fake.seals = one_in(rng, 5);
    fake.places = one_in(rng, 2);
    c->ops = &fake_policy;
}

static void test_counters(void **state)
{
    (void)state;
    const uint64_t first = first_seed(1), n_cases = getenv("PKV_SEED") ? 1 : 3000;
    totals sum = { 0 };
    for (uint64_t seed = first; seed < first + n_cases; seed++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, 1, 0);
        random_case c = { .cfg = PKV_SIM_CONFIG_INIT };
        random_config(&rng, &c.cfg);
        random_requests(&rng, &c);
        random_observer(&rng, &c);
        random_fake(&rng, &c);
        compare(&c, "counters", seed, &sum);
    }
    if (n_cases == 1) return;
    fprintf(stderr, "# %lld admissions, %lld preemptions, %lld swaps, %lld too long\n",
            (long long)sum.admissions, (long long)sum.preemptions, (long long)sum.swaps,
            (long long)sum.too_long);
    assert_true(sum.preemptions > 10000 && sum.swaps > 3000 && sum.too_long > 3000);
    assert_true(sum.samples > 100000 && sum.admissions > 100000);
}

/* Blocks, pages and the like as this policy allows them. */
static void random_policy(pkv__rng *rng, random_case *c, const char *text)
{
    pkv_sim_policy *p = &c->cfg.policy;
    assert_int_equal(pkv_sim_policy_parse(text, &c->cfg.log, p), PKV_OK);
    if (p->kind == PKV_SIM_PAGED) p->block_tokens = 1 + (int32_t)below(rng, 20);
    if (p->group != PKV_SIM_GROUP_NONE) p->n_seqs = 1 + (int32_t)below(rng, 4);
    if (p->group == PKV_SIM_GROUP_BEAM) p->switch_ppm = (int32_t)below(rng, 1000001);
    if (p->kind == PKV_SIM_VATTN) /* at least one page, at most 20 or so */
        c->cfg.tensor_token_bytes =
            (int32_t)((1 + below(rng, 20)) * p->page_bytes / c->cfg.pool_tokens + 1);
    if (p->kind == PKV_SIM_ORCA_REAL) p->max_tokens = (int32_t)below(rng, 2) * 60;
}

static void test_policies(void **state)
{
    (void)state;
    static const char *const policies[] = {
        "max",
        "pow2",
        "oracle",
        "max:alloc=ideal",
        "oracle:alloc=ideal",
        "oracle:alloc=first-fit",
        "oracle:alloc=best-fit",
        "oracle:alloc=next-fit",
        "oracle:alloc=compact",
        "max:alloc=compact",
        "static-batch",
        "static-batch:alloc=ideal",
        "orca-real",
        "vattn:page=64K",
        "vattn:page=2M",
        "paged",
        "paged+swap",
        "paged+prefix",
        "paged+prefix+swap",
        "paged+fork:n=3",
        "paged+fork+prefix:n=2",
        "paged+fork+swap:n=2",
        "paged+beam:width=3,switch=0.3",
        "paged+prefix+beam+swap:width=2,switch=0.5",
    };
    const uint64_t first = first_seed(1), n_cases = getenv("PKV_SEED") ? 1 : 150;
    totals sum = { 0 };
    for (size_t k = 0; k < PKV_ARRAY_LEN(policies); k++) {
        for (uint64_t seed = first; seed < first + n_cases; seed++) {
            pkv__rng rng;
            pkv__rng_init(&rng, seed, 2, (uint32_t)k);
            random_case c = { .cfg = PKV_SIM_CONFIG_INIT };
            random_config(&rng, &c.cfg);
            random_requests(&rng, &c);
            random_observer(&rng, &c);
            random_content(&rng, &c);
            random_policy(&rng, &c, policies[k]);
            compare(&c, policies[k], seed, &sum);
        }
    }
    if (n_cases > 1) assert_true(sum.preemptions > 1000 && sum.too_long > 1000);
}

/* ---------------------------------------------------------------- memory that runs out */

/* Observed, with maps, content and swap: each allocation fails in turn, nothing is lost. */
static void test_each_allocation_fails(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, 5, 3, 0);
    random_case c = { .cfg = PKV_SIM_CONFIG_INIT, .interval_ns = 5000, .map_cells = 20 };
    random_requests(&rng, &c);
    random_content(&rng, &c);
    c.cfg.check = true;
    c.cfg.policy.swap = true;
    c.cfg.swap_tokens = 200;
    c.cfg.pool_tokens = 200;
    fake = (fake_setup){ 0 };
    for (int kind = 0; kind < 2; kind++) {
        c.ops = kind == 0 ? &fake_policy : NULL;
        int allowed = 0;
        for (pkv_status status = PKV_E_NO_MEMORY; status != PKV_OK; allowed++) {
            miser m = { allowed, 0 };
            c.cfg.alloc = (pkv_allocator){ miser_alloc, miser_free, &m };
            pkv_sim_result res;
            recorder rec;
            status = run(&c, PKV_SIM_LEAP, &res, &rec);
            recorder_deinit(&rec);
            assert_int_equal(m.bytes, 0);
            assert_true(status == PKV_OK || status == PKV_E_NO_MEMORY);
            assert_true(status == PKV_OK || res.n_steps == 0);
        }
        assert_in_range(allowed, 10, 40);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_counters),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_each_allocation_fails),
    };
    return cmocka_run_group_tests_name("sim_options", tests, NULL, NULL);
}
