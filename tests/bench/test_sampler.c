/* The sampler under a clock that only calls move: order, warm-up, calibration, stop rules. */
#include "bench_test.h"

#include "bench_stats.h"
#include "time_sampler.h"

struct world {
    uint64_t now;
    char order[4096]; /* which side was called, by letter; lower case: its `before` */
    int n;
};
struct side {
    struct world *world;
    char letter;
    uint64_t cost;
    int calls;
};

static uint64_t fake_now(void *ctx)
{
    return ((struct world *)ctx)->now;
}

static void call(void *ctx)
{
    struct side *s = ctx;
    s->world->now += s->cost;
    s->calls++;
    if (s->world->n < 4095) s->world->order[s->world->n++] = s->letter;
}

static void before(void *ctx)
{
    struct side *s = ctx;
    s->world->now += 1000; /* untimed, must not show */
    if (s->world->n < 4095) s->world->order[s->world->n++] = (char)(s->letter + 'a' - 'A');
}

static struct world w;
static struct side sides[3];
static struct bench_clock fake_clock;

static int reset(void **state)
{
    (void)state;
    memset(&w, 0, sizeof(w));
    for (int i = 0; i < 3; i++) sides[i] = (struct side){ &w, (char)('A' + i), 100, 0 };
    fake_clock = (struct bench_clock){ fake_now, &w };
    return 0;
}

static struct sampler_side plain(int i)
{
    return (struct sampler_side){ call, NULL, &sides[i] };
}

/* One call per sample, three warm-up calls: then rounds A B, B A, A B, .. */
static void test_order(void **state)
{
    const struct sampler_opts opts = { 4, 1, 3, 0, 100, UINT64_MAX };
    const struct sampler_side s[] = { plain(0), plain(1) };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    sides[1].cost = 200;
    assert_true(sampler_run(&fake_clock, &opts, s, 2, &r, &err));
    assert_string_equal(w.order, "AAABBB"
                                 "ABBAABBA");
    assert_int_equal(r.n_samples, 4);
    for (int i = 0; i < 4; i++) {
        assert_near(sampler_samples(&r, 0)[i], 100, 0);
        assert_near(sampler_samples(&r, 1)[i], 200, 0);
    }
    sampler_free(&r);
}

static void test_three_sides(void **state)
{
    const struct sampler_opts opts = { 3, 1, 1, 0, 100, UINT64_MAX };
    const struct sampler_side s[] = { plain(0), plain(1), plain(2) };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    assert_true(sampler_run(&fake_clock, &opts, s, 3, &r, &err));
    assert_string_equal(w.order, "ABC"
                                 "ABCCBAABC");
    sampler_free(&r);
}

/* Repeats fill min_sample_ns: 1000 / 100 = 10 and 1000 / 300 rounded up = 4 calls a sample; results
 * are per call. The warm-up lasts at least as long as asked. */
static void test_calibration(void **state)
{
    const struct sampler_opts opts = { 5, 1, 3, 100000, 1000, UINT64_MAX };
    const struct sampler_side s[] = { plain(0), plain(1) };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    sides[1].cost = 300;
    assert_true(sampler_run(&fake_clock, &opts, s, 2, &r, &err));
    assert_int_equal(r.repeats[0], 10);
    assert_int_equal(r.repeats[1], 4);
    assert_near(sampler_samples(&r, 0)[4], 100, 1e-9);
    assert_near(sampler_samples(&r, 1)[4], 300, 1e-9);
    const int timed[] = { 50, 20 };
    for (int i = 0; i < 2; i++)
        assert_true((uint64_t)(sides[i].calls - timed[i]) * sides[i].cost >= opts.warmup_ns);
    sampler_free(&r);
}

/* Calls that are slow only while warming up leave no trace in the samples. */
static void slow_start(void *ctx)
{
    struct side *s = ctx;
    s->world->now += s->calls++ < 3 ? 50000 : 100;
}
static void test_warm_up_excluded(void **state)
{
    const struct sampler_opts opts = { 6, 1, 5, 0, 100, UINT64_MAX };
    const struct sampler_side s[] = { { slow_start, NULL, &sides[0] } };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    assert_true(sampler_run(&fake_clock, &opts, s, 1, &r, &err));
    for (int i = 0; i < r.n_samples; i++) assert_near(sampler_samples(&r, 0)[i], 100, 1e-9);
    sampler_free(&r);
}

static void test_before_untimed(void **state)
{
    const struct sampler_opts opts = { 2, 1, 2, 1000000, 1000000, UINT64_MAX };
    const struct sampler_side s[] = { { call, before, &sides[0] } };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    assert_true(sampler_run(&fake_clock, &opts, s, 1, &r, &err));
    /* Two warm-up calls although they are far from a millisecond; then one call a sample. */
    assert_string_equal(w.order, "aAaA"
                                 "aAaA");
    assert_int_equal(r.repeats[0], 1);
    assert_near(sampler_samples(&r, 0)[1], 100, 0);
    sampler_free(&r);
}

/* A round takes 200 ns. 1,000 ns allowed: 5 rounds. Less than min_samples allowed: min_samples. */
static void test_stop(void **state)
{
    const struct sampler_opts by_time = { 100, 2, 1, 0, 100, 1000 };
    const struct sampler_opts at_least = { 100, 7, 1, 0, 100, 1 };
    const struct sampler_side s[] = { plain(0), plain(1) };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    assert_true(sampler_run(&fake_clock, &by_time, s, 2, &r, &err));
    assert_int_equal(r.n_samples, 5);
    assert_near(sampler_samples(&r, 1)[4], 100, 0); /* packed */
    sampler_free(&r);
    assert_true(sampler_run(&fake_clock, &at_least, s, 2, &r, &err));
    assert_int_equal(r.n_samples, 7);
    sampler_free(&r);
}

static void costs_nothing(void *ctx)
{
    (void)ctx;
}
static void test_zero_time(void **state)
{
    const struct sampler_opts opts = { 2, 1, 1, 0, 1000, UINT64_MAX };
    const struct sampler_side s[] = { { costs_nothing, NULL, NULL } };
    struct sampler_result r;
    struct bench_error err;
    (void)state;
    assert_true(sampler_run(&fake_clock, &opts, s, 1, &r, &err));
    assert_true(sampler_samples(&r, 0)[0] > 0); /* ratios stay finite */
    sampler_free(&r);
}

/* Sides whose cost has 10 % noise and a common drift of 30 %: through sampler and bootstrap, one
 * that takes 1.20 times as long is found slower, and one that takes the same is not. */
static struct bench_rng noise;
static void noisy_call(void *ctx)
{
    struct side *s = ctx;
    const double drift = 1 + 0.3 * (double)(s->world->now % 3000000) / 3e6;
    s->world->now += (uint64_t)((double)s->cost * drift * (1 + 0.1 * bench_rng_unit(&noise)));
}
static struct bench_ratio noisy_ratio(uint64_t cost, uint64_t seed)
{
    const struct sampler_opts opts = { 40, 1, 3, 0, 1, UINT64_MAX };
    const struct sampler_side s[] = { { noisy_call, NULL, &sides[0] },
                                      { noisy_call, NULL, &sides[1] } };
    struct sampler_result r;
    struct bench_ratio ratio;
    struct bench_error err;
    noise.state = seed;
    sides[0].cost = 10000;
    sides[1].cost = cost;
    assert_true(sampler_run(&fake_clock, &opts, s, 2, &r, &err));
    assert_true(bench_ratio_of(sampler_samples(&r, 1), sampler_samples(&r, 0), 40, seed, &ratio));
    sampler_free(&r);
    return ratio;
}
static void test_slow_side_found(void **state)
{
    int false_alarms = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        const struct bench_ratio slow = noisy_ratio(12000, seed), same = noisy_ratio(10000, seed);
        assert_int_equal(bench_ratio_verdict(&slow), BENCH_SLOWER);
        assert_near(slow.value, 1.2, 0.1);
        false_alarms += bench_ratio_verdict(&same) != BENCH_SAME;
    }
    /* 2.5 of 100 intervals lie above 1 by chance, and of those only some are off by 3 %. */
    assert_true(false_alarms <= 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_order, reset),
        cmocka_unit_test_setup(test_three_sides, reset),
        cmocka_unit_test_setup(test_calibration, reset),
        cmocka_unit_test_setup(test_warm_up_excluded, reset),
        cmocka_unit_test_setup(test_before_untimed, reset),
        cmocka_unit_test_setup(test_stop, reset),
        cmocka_unit_test_setup(test_zero_time, reset),
        cmocka_unit_test_setup(test_slow_side_found, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
