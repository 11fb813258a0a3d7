/* Jobs on threads, and what they keep, with a simulation of the test's own in place of the
 * library's: it can fail, and show any number of samples. Its memory can run out, too. Compiled
 * without the library, and with realloc renamed. */
#include "tools/fragsim_jobs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_JOBS 40
#define FAILS 13 /* a pool of so many slots fails */

/* ---------------------------------------------------------------- in place of others */

static char complaint[512];
static int n_complaints;
static atomic_int n_runs, reallocs_left; /* reallocs_left below 0: no end */

bool fragsim_complain(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    vsnprintf(complaint, sizeof(complaint), fmt, args);
    va_end(args);
    n_complaints++;
    return false;
}

#undef realloc
extern void *realloc(void *memory, size_t size);
void *limited_realloc(void *memory, size_t size);
void *limited_realloc(void *memory, size_t size)
{
    if (atomic_load(&reallocs_left) >= 0 && atomic_fetch_sub(&reallocs_left, 1) <= 0) return NULL;
    return realloc(memory, size);
}

/* Lasts as many ns as the pool has slots; request r arrives and finishes at 10 r. */
static void show(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n)
{
    const pkv_sim_observer *look = cfg->observer;
    uint8_t map[4096];
    for (int64_t r = 0; look->on_event && r < n; r++) {
        pkv_sim_event e = { .t_ns = 10 * r, .kind = PKV_SIM_EVENT_ARRIVE, .request = r };
        look->on_event(look->ctx, &e);
        e.kind = PKV_SIM_EVENT_FINISH;
        e.tokens = cfg->pool_tokens;
        look->on_event(look->ctx, &e);
    }
    const int64_t end_ns = reqs[0].arrival_ns + cfg->pool_tokens;
    int64_t t = reqs[0].arrival_ns;
    for (int64_t k = 0; look->on_sample && t < end_ns; k++, t += look->sample_interval_ns) {
        memset(map, (int)(k % 5), sizeof(map));
        const pkv_sim_sample s = { .t_ns = t, .step = k, .token = cfg->pool_tokens, .map = map };
        pkv_sim_sample without = s;
        without.map = NULL;
        look->on_sample(look->ctx,
                        cfg->policy.kind == PKV_SIM_ORACLE || look->map_cells == 0 ? &without : &s);
    }
}

pkv_status pkv_sim_run(const pkv_sim_config *cfg, const pkv_sim_request *reqs, int64_t n,
                       pkv_sim_result *out)
{
    atomic_fetch_add(&n_runs, 1);
    if (cfg->pool_tokens == FAILS) {
        cfg->log.fn(cfg->log.ctx, PKV_LOG_ERROR, "not with 13");
        return PKV_E_CORRUPT;
    }
    if (cfg->observer) show(cfg, reqs, n);
    out->end_ns = reqs[0].arrival_ns + cfg->pool_tokens;
    out->n_requests = n;
    return PKV_OK;
}

void pkv_sim_policy_name(const pkv_sim_policy *policy, char name[PKV_SIM_POLICY_NAME_BYTES])
{
    snprintf(name, PKV_SIM_POLICY_NAME_BYTES, "kind-%d", (int)policy->kind);
}

const char *pkv_status_text(pkv_status status)
{
    return status == PKV_E_NO_MEMORY ? "out of memory" : "?";
}

/* ---------------------------------------------------------------- tests */

static const pkv_sim_request requests[3] = { { 100, 1, 1 }, { 100, 1, 1 }, { 100, 1, 1 } };

static void fill(fragsim_job *jobs, int n)
{
    memset(jobs, 0, (size_t)n * sizeof(*jobs));
    for (int k = 0; k < n; k++) {
        jobs[k].cfg = (pkv_sim_config)PKV_SIM_CONFIG_INIT;
        jobs[k].cfg.policy.kind = PKV_SIM_MAX;
        jobs[k].cfg.pool_tokens = 1000 + k;
        jobs[k].reqs = requests;
        jobs[k].n = 3;
    }
    n_complaints = 0;
    atomic_store(&n_runs, 0);
    atomic_store(&reallocs_left, -1);
}

static const int thread_counts[] = { 0, 1, 2, 7, 64, 1000 };
#define N_COUNTS ((int)(sizeof(thread_counts) / sizeof(thread_counts[0])))

static void test_each_job_has_its_result(void **state)
{
    (void)state;
    fragsim_job jobs[N_JOBS];
    for (int t = 0; t < N_COUNTS; t++) {
        fill(jobs, N_JOBS);
        for (int k = 0; k < N_JOBS; k += 2) jobs[k].want_events = true;
        assert_int_equal(fragsim_simulate(jobs, N_JOBS, thread_counts[t], false), PKV_OK);
        assert_int_equal(atomic_load(&n_runs), N_JOBS);
        for (int k = 0; k < N_JOBS; k++) {
            assert_int_equal(jobs[k].result.end_ns, 1100 + k);
            assert_null(jobs[k].cfg.observer);
            assert_null(jobs[k].cfg.progress);
            char last[128];
            snprintf(last, sizeof(last),
                     "{\"policy\":\"kind-0\",\"t_ns\":20,\"step\":0,\"event\":\"finish\","
                     "\"request\":2,\"tokens\":%d,\"slots\":0}\n",
                     1000 + k);
            if (k % 2 == 1) assert_null(jobs[k].events);
            else
                assert_string_equal(strstr(jobs[k].events, "{\"policy\":\"kind-0\",\"t_ns\":20,"
                                                           "\"step\":0,\"event\":\"finish\""),
                                    last);
        }
        fragsim_jobs_free(jobs, N_JOBS);
    }
}

static void test_first_failure_in_order(void **state)
{
    (void)state;
    fragsim_job jobs[N_JOBS];
    for (int t = 0; t < N_COUNTS; t++) {
        fill(jobs, N_JOBS);
        jobs[9].cfg.pool_tokens = FAILS;
        jobs[9].cfg.policy.kind = PKV_SIM_ORACLE;
        for (int k = 10; k < N_JOBS; k++) jobs[k].cfg.pool_tokens = FAILS;
        assert_int_equal(fragsim_simulate(jobs, N_JOBS, thread_counts[t], false), PKV_E_CORRUPT);
        assert_int_equal(n_complaints, 1);
        assert_string_equal(complaint, "kind-2: not with 13");
        if (thread_counts[t] <= 1) assert_int_equal(atomic_load(&n_runs), 10);
        for (int k = 0; k < 9; k++) assert_int_equal(jobs[k].result.end_ns, 1100 + k);
        fragsim_jobs_free(jobs, N_JOBS);
    }
}

static void test_series(void **state)
{
    (void)state;
    fragsim_job jobs[3];
    fill(jobs, 3);
    jobs[0].sample_interval_ns = 7;
    jobs[0].cfg.pool_tokens = 7 * 5000;
    jobs[0].map_cells = 3;
    jobs[1].sample_interval_ns = 100;
    jobs[1].map_cells = 3;
    jobs[1].cfg.policy.kind = PKV_SIM_ORACLE; /* has no map */
    assert_int_equal(fragsim_simulate(jobs, 3, 2, false), PKV_OK);
    assert_int_equal(atomic_load(&n_runs), 5); /* twice where samples are wanted */
    assert_int_equal(jobs[0].series.n, 5000);
    assert_int_equal(jobs[0].series.map_cells, 3);
    for (int64_t k = 0; k < 5000; k++) {
        const pkv_sim_sample *s = &jobs[0].series.samples[k];
        assert_int_equal(s->t_ns, 100 + 7 * k);
        assert_ptr_equal(s->map, jobs[0].series.maps + 3 * k);
        for (int c = 0; c < 3; c++) assert_int_equal(s->map[c], k % 5);
    }
    assert_int_equal(jobs[1].series.n, 11);
    assert_null(jobs[1].series.maps);
    assert_int_equal(jobs[1].series.map_cells, 0);
    assert_null(jobs[1].series.samples[10].map);
    assert_int_equal(jobs[2].series.n, 0);
    fragsim_jobs_free(jobs, 3);
}

/* One interval for all that leave it open: over the shortest where all arrive at once, and not
 * below a 4800th of the longest. */
static void test_interval(void **state)
{
    (void)state;
    fragsim_job jobs[3];
    const struct {
        int32_t pools[3];
        int64_t arrivals_ns, expected;
    } cases[] = {
        { { 2400, 4800, 3000 }, 0, 10 },        { { 2401, 4800, 3000 }, 0, 11 },
        { { 2400, 48000, 96000 }, 0, 20 },      { { 2400, 4800, 3000 }, 480, 2 },
        { { 2400, 9600000, 3000 }, 480, 2000 }, { { 1, 1, 1 }, 0, 1 },
    };
    for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
        pkv_sim_request spread[2] = { { 50, 1, 1 }, { 50 + cases[c].arrivals_ns, 1, 1 } };
        fill(jobs, 3);
        for (int k = 0; k < 3; k++) {
            jobs[k].cfg.pool_tokens = cases[c].pools[k];
            jobs[k].sample_interval_ns = -1;
            jobs[k].reqs = spread;
            jobs[k].n = 2;
        }
        assert_int_equal(fragsim_simulate(jobs, 3, 3, false), PKV_OK);
        for (int k = 0; k < 3; k++) {
            assert_int_equal(jobs[k].sample_interval_ns, cases[c].expected);
            assert_int_equal(jobs[k].series.n,
                             (jobs[k].cfg.pool_tokens - 1) / cases[c].expected + 1);
        }
        fragsim_jobs_free(jobs, 3);
    }
}

static void test_too_many_samples(void **state)
{
    (void)state;
    fragsim_job job;
    fill(&job, 1);
    job.sample_interval_ns = 2;
    job.cfg.pool_tokens = 1999999; /* 1,000,000 samples */
    assert_int_equal(fragsim_simulate(&job, 1, 1, false), PKV_OK);
    assert_int_equal(job.series.n, 1000000);
    fragsim_jobs_free(&job, 1);
    fill(&job, 1);
    job.sample_interval_ns = 2;
    job.cfg.pool_tokens = 2000000;
    assert_int_equal(fragsim_simulate(&job, 1, 1, false), PKV_E_LIMIT);
    assert_string_equal(complaint,
                        "kind-0: --sample-interval gives 1000001 samples, at most 1000000 "
                        "are possible; give at least 3 ns");
    assert_int_equal(job.series.n, 0);
}

/* Each growth of each array refused in turn. */
static void test_no_memory(void **state)
{
    (void)state;
    fragsim_job jobs[2];
    int left = 0;
    pkv_status status = PKV_E_NO_MEMORY;
    for (; status == PKV_E_NO_MEMORY && left < 50; left++) {
        fill(jobs, 2);
        jobs[0].sample_interval_ns = 1;
        jobs[0].map_cells = 10;
        jobs[0].want_events = true;
        atomic_store(&reallocs_left, left);
        status = fragsim_simulate(jobs, 2, 1, false);
        if (status != PKV_OK) {
            assert_int_equal(status, PKV_E_NO_MEMORY);
            assert_string_equal(complaint, "kind-0: out of memory");
            assert_int_equal(n_complaints, 1);
        }
        fragsim_jobs_free(jobs, 2);
    }
    assert_int_equal(status, PKV_OK);
    assert_true(left > 4); /* 256, 512, 1024 samples, and their maps */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_job_has_its_result),
        cmocka_unit_test(test_first_failure_in_order),
        cmocka_unit_test(test_series),
        cmocka_unit_test(test_interval),
        cmocka_unit_test(test_too_many_samples),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
