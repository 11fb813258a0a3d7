/* The closed loop by hand, what ends a run, and the limits a latency is held to. Steps last 10 ns.
 */
#include "fake_policy.h"
#include "sim_recorder.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define expect_close(got, want, tolerance) close_to(got, want, tolerance, #got, __LINE__)
static void close_to(double got, double want, double tolerance, const char *what, int line)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("line %d: %s is %.17g, expected %.17g +- %g", line, what, got, want, tolerance);
}

/* Two clients. 0 and 1 run in step 0; 0 is done, 2 arrives. 1 and 2 are done after step 1, in this
 * order: 3 and 4 arrive. 4 is done after step 2, 3 after step 4. Arrivals are ignored. */
static void test_two_clients(void **state)
{
    (void)state;
    const pkv_sim_request reqs[5] = {
        { 99, 2, 1 }, { 7, 2, 2 }, { 0, 2, 1 }, { -5, 2, 3 }, { 0, 2, 1 }
    };
    pkv_sim_config cfg = fake_config(100);
    cfg.concurrency = 2;
    cfg.window = PKV_SIM_WINDOW_AUTO;
    const pkv_sim_result res = fake_run(&cfg, reqs, 5);
    assert_int_equal(res.window, PKV_SIM_WINDOW_ARRIVALS);
    assert_int_equal(res.window_ns, 20);
    assert_int_equal(res.end_ns, 50);
    assert_int_equal(res.n_steps, 5);
    expect_close(res.mean_batch, 2, 0);
    expect_close(res.e2e_s.mean, (10 + 20 + 10 + 30 + 10) / 5.0 * 1e-9, 1e-18);
    expect_close(res.ttft_s.max, 10e-9, 1e-18);

    cfg.window = PKV_SIM_WINDOW_ALL;
    expect_close(fake_run(&cfg, reqs, 5).mean_batch, 8 / 5.0, 1e-12);
    cfg.window = PKV_SIM_WINDOW_AUTO;
    cfg.concurrency = 5; /* as many as requests: nothing arrives after the start */
    assert_int_equal(fake_run(&cfg, reqs, 5).window, PKV_SIM_WINDOW_ALL);
    cfg.concurrency = 1;
    const pkv_sim_result alone = fake_run(&cfg, reqs, 5);
    assert_int_equal(alone.end_ns, 80);
    assert_int_equal(alone.max_batch, 1);
    assert_int_equal(alone.waited_ns, 0);
}

/* Longest request 4: 1, 2 and 4 can never run. A client whose request is rejected sends the next
 * one at once. */
static void test_rejections_chain(void **state)
{
    (void)state;
    const pkv_sim_request reqs[6] = { { 0, 2, 1 }, { 0, 4, 1 }, { 0, 4, 2 },
                                      { 0, 2, 2 }, { 0, 5, 0 }, { 0, 1, 1 } };
    static const struct {
        int64_t t, request;
        pkv_sim_event_kind kind;
    } want[] = {
        { 0, 0, PKV_SIM_EVENT_ARRIVE },  { 0, 1, PKV_SIM_EVENT_ARRIVE },
        { 0, 1, PKV_SIM_EVENT_REJECT },  { 0, 2, PKV_SIM_EVENT_ARRIVE },
        { 0, 2, PKV_SIM_EVENT_REJECT },  { 0, 3, PKV_SIM_EVENT_ARRIVE },
        { 0, 0, PKV_SIM_EVENT_ADMIT },   { 0, 3, PKV_SIM_EVENT_ADMIT },
        { 0, 0, PKV_SIM_EVENT_GROW },    { 0, 3, PKV_SIM_EVENT_GROW },
        { 10, 0, PKV_SIM_EVENT_FINISH }, { 10, 4, PKV_SIM_EVENT_ARRIVE },
        { 10, 4, PKV_SIM_EVENT_REJECT }, { 10, 5, PKV_SIM_EVENT_ARRIVE },
        { 10, 5, PKV_SIM_EVENT_ADMIT },
    };
    pkv_sim_config cfg = fake_config(100);
    cfg.max_model_len = 4;
    cfg.concurrency = 2;
    cfg.window = PKV_SIM_WINDOW_ARRIVALS;
    const pkv_sim_result res = fake_run(&cfg, reqs, 6);
    assert_int_equal(res.n_too_long, 3);
    assert_int_equal(res.first_too_long, 1);
    assert_int_equal(res.window_ns, 10);
    assert_int_equal(res.n_steps, 2);

    recorder rec;
    recorder_init(&rec, 0, 0, 100);
    cfg.observer = &rec.observer;
    pkv_sim_result seen = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv__sim_run_policy(&cfg, reqs, 6, &fake_policy, &seen), PKV_OK);
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        assert_int_equal(rec.events[k].t_ns, want[k].t);
        assert_int_equal(rec.events[k].request, want[k].request);
        assert_int_equal(rec.events[k].kind, want[k].kind);
    }
    recorder_deinit(&rec);
}

/* Every slot more may be used: with more clients than fit, the batch never falls. */
static void test_more_slots(void **state)
{
    (void)state;
    enum { N = 300 };
    static const char *const policies[] = { "oracle:alloc=ideal", "orca-real:max_tokens=600",
                                            "paged", "vattn:page=64K" };
    pkv_sim_request reqs[N];
    assert_int_equal(pkv_sim_draw("alpaca-like", 3, 0, NULL, reqs, N), PKV_OK);
    for (size_t k = 0; k < PKV_ARRAY_LEN(policies); k++) {
        double before = 0;
        for (int32_t pool = 1024; pool <= 16384; pool += 1024) {
            pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
            pkv_sim_result res = PKV_SIM_RESULT_INIT;
            cfg.concurrency = N;
            cfg.max_model_len = 600;
            cfg.pool_tokens = pool;
            cfg.window = PKV_SIM_WINDOW_QUEUED;
            assert_int_equal(pkv_sim_policy_parse(policies[k], NULL, &cfg.policy), PKV_OK);
            assert_int_equal(pkv_sim_run(&cfg, reqs, N, &res), PKV_OK);
            assert_true(res.n_too_long == 0 && res.mean_batch >= before);
            before = res.mean_batch;
        }
    }
}

/* ---------------------------------------------------------------- the end */

/* The last request is rejected at 1000: the run ends at 20, and just the window up to the last
 * arrival goes on. Nothing that can run: nothing happened. */
static void test_rejected_at_the_end(void **state)
{
    (void)state;
    const pkv_sim_request reqs[2] = { { 0, 2, 2 }, { 1000, 90, 20 } };
    pkv_sim_config cfg = fake_config(100);
    recorder rec;
    recorder_init(&rec, 7, 0, 100);
    cfg.observer = &rec.observer;
    pkv_sim_result res = PKV_SIM_RESULT_INIT;
    assert_int_equal(pkv__sim_run_policy(&cfg, reqs, 2, &fake_policy, &res), PKV_OK);
    assert_int_equal(res.end_ns, 20);
    assert_int_equal(res.window_ns, 20);
    assert_int_equal(rec.n_samples, 3); /* 0, 7, 14 */
    assert_int_equal(rec.events[rec.n_events - 1].kind, PKV_SIM_EVENT_REJECT);
    assert_int_equal(rec.events[rec.n_events - 1].t_ns, 1000);
    assert_int_equal(rec.n_bad, 0);
    recorder_deinit(&rec);

    cfg.observer = NULL;
    cfg.window = PKV_SIM_WINDOW_ARRIVALS;
    res = fake_run(&cfg, reqs, 2);
    assert_int_equal(res.window_ns, 1000);
    expect_close(res.mean_batch, 20 / 1000.0, 1e-12);
    res = fake_run(&cfg, reqs + 1, 1);
    assert_int_equal(res.end_ns, 0);
    assert_int_equal(res.n_steps, 0);
    assert_int_equal(res.e2e_s.n, 0);
}

/* 2^62 ns is the end of time. */
static void test_limit(void **state)
{
    (void)state;
    const int64_t end = INT64_C(1) << 62;
    pkv_sim_request req = { end - 40, 2, 4 };
    pkv_sim_config cfg = fake_config(100);
    cfg.log.fn = NULL;
    assert_int_equal(fake_run(&cfg, &req, 1).end_ns, end);
    for (int k = 0; k < 2; k++) {
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        cfg.engine = k == 0 ? PKV_SIM_LEAP : PKV_SIM_NAIVE;
        res.n_steps = -77;
        req.arrival_ns = end - 39;
        assert_int_equal(pkv__sim_run_policy(&cfg, &req, 1, &fake_policy, &res), PKV_E_LIMIT);
        req.arrival_ns = INT64_MAX;
        assert_int_equal(pkv__sim_run_policy(&cfg, &req, 1, &fake_policy, &res), PKV_E_LIMIT);
        assert_int_equal(res.n_steps, -77);
    }
    req = (pkv_sim_request){ 0, 90, 1 };
    cfg.prefill_tokens_per_s = 1; /* 90 s */
    assert_int_equal(fake_run(&cfg, &req, 1).prefill_ns, INT64_C(90000000000));
}

typedef struct progress {
    int64_t n_calls, last, total;
    bool backwards;
} progress;

static void on_progress(void *ctx, int64_t n_done, int64_t n_total)
{
    progress *p = ctx;
    p->n_calls++;
    if (n_done < p->last) p->backwards = true;
    p->last = n_done;
    p->total = n_total;
}

static void test_progress(void **state)
{
    (void)state;
    enum { N = 3000 };
    static pkv_sim_request reqs[N];
    assert_int_equal(pkv_sim_draw("sharegpt-like", 3, 8000000, NULL, reqs, N), PKV_OK);
    for (int k = 0; k < 2; k++) {
        progress p = { 0 };
        pkv_sim_config cfg = PKV_SIM_CONFIG_INIT;
        pkv_sim_result res = PKV_SIM_RESULT_INIT;
        cfg.engine = k == 0 ? PKV_SIM_LEAP : PKV_SIM_NAIVE;
        cfg.progress = on_progress;
        cfg.progress_ctx = &p;
        assert_int_equal(pkv_sim_run(&cfg, reqs, N, &res), PKV_OK);
        assert_true(p.n_calls > 2 && p.n_calls < N && !p.backwards);
        assert_int_equal(p.last, N);
        assert_int_equal(p.total, N);
    }
}

/* ---------------------------------------------------------------- limits of latencies */

/* Pool 6: A 2 + 3 and B 2 + 2 run in step 0; A needs 4 and 5 in steps 1 and 2, so B is out until
 * step 3; C, 6 without output, arrives at 5 and runs in step 4.
 *   A  ttft 10  e2e 30  tpot 10  norm 10
 *   B  ttft 10  e2e 40  tpot 30  norm 20
 *   C  ttft 45  e2e 45 */
static void test_goodput(void **state)
{
    (void)state;
    const pkv_sim_request reqs[3] = { { 0, 2, 3 }, { 0, 2, 2 }, { 5, 6, 0 } };
    pkv_sim_config cfg = fake_config(6);
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 3);
    cfg.slo_ttft_ns = 45;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 3);
    cfg.slo_ttft_ns = 44;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 2);
    cfg.slo_tpot_ns = 30;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 2);
    cfg.slo_tpot_ns = 29;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 1);
    cfg.slo_ttft_ns = 0;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 2); /* C has no time per token */
    cfg.slo_tpot_ns = 0;
    cfg.slo_norm_ns = 20;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 3); /* C has no normalized latency */
    cfg.slo_norm_ns = 19;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 2);
    cfg.slo_norm_ns = 9;
    assert_int_equal(fake_run(&cfg, reqs, 3).n_good, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_clients), cmocka_unit_test(test_rejections_chain),
        cmocka_unit_test(test_more_slots),  cmocka_unit_test(test_rejected_at_the_end),
        cmocka_unit_test(test_limit),       cmocka_unit_test(test_progress),
        cmocka_unit_test(test_goodput),
    };
    return cmocka_run_group_tests_name("sim_closed_loop", tests, NULL, NULL);
}
