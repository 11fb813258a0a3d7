/* The parts of the simulator one by one: next events, percentiles, the split of a chunk, integrals
 * over a leap. */
#include "common/philox.h"
#include "sim/shadow_model.h"
#include "sim/sim_internal.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const pkv_allocator no_hook = { NULL, NULL, NULL };

/* ---------------------------------------------------------------- Fig. 3 of the paper */

/* Pool 2560, no rounding. A: maximum 2048, prompt 7, one token generated, two to come. B: maximum
 * 512, prompt 3, one generated, one to come. By hand: 12 / 3 / 2545 / 0. */
static void test_figure_3(void **state)
{
    (void)state;
    pkv__sim_sample s = { { 0 } };
    pkv__sim_chunk_usage(2048, 2048, 7 + 1 + 2, 7 + 1, &s);
    assert_int_equal(s.part[PKV__PART_LOGICAL], 8);
    assert_int_equal(s.part[PKV__PART_RESERVATION], 2);
    assert_int_equal(s.part[PKV__PART_INTERNAL], 2038);
    pkv__sim_chunk_usage(512, 512, 3 + 1 + 1, 3 + 1, &s);
    assert_int_equal(s.part[PKV__PART_LOGICAL], 12);
    assert_int_equal(s.part[PKV__PART_RESERVATION], 3);
    assert_int_equal(s.part[PKV__PART_INTERNAL], 2545);
    assert_int_equal(s.part[PKV__PART_ROUNDING], 0);
    s.part[PKV__PART_TOKEN] = s.part[PKV__PART_LOGICAL]; /* nothing is shared */
    assert_true(pkv__sim_sample_valid(&s, 2560));
    assert_false(pkv__sim_sample_valid(&s, 2561));
    s.part[PKV__PART_TOKEN] = -1;
    s.part[PKV__PART_IDLE] = 13;
    assert_false(pkv__sim_sample_valid(&s, 2560));

    /* Paged, 4 tokens per block: A has 3 blocks after its next append, B has 2. */
    pkv__sim_shadow shadow;
    assert_int_equal(pkv__shadow_init(&shadow, 640, 4, 2, 512, false, &no_hook), PKV_OK);
    assert_int_equal(pkv__shadow_open(&shadow, 0, NULL, 0, 8 + 1), 0);
    assert_int_equal(pkv__shadow_open(&shadow, 1, NULL, 0, 4 + 1), 0);
    assert_int_equal(shadow.seqs[0].len, 3);
    assert_int_equal(shadow.seqs[1].len, 2);
    assert_int_equal(shadow.n_free, 635);
    pkv__shadow_deinit(&shadow);
}

/* Rounding of a chunk is external: 100 asked, 128 granted, 90 final, 40 resident. */
static void test_rounding_is_external(void **state)
{
    (void)state;
    pkv__sim_sample s = { { 0 } };
    pkv__sim_chunk_usage(100, 128, 90, 40, &s);
    assert_int_equal(s.part[PKV__PART_RESERVATION], 50);
    assert_int_equal(s.part[PKV__PART_INTERNAL], 10);
    assert_int_equal(s.part[PKV__PART_ROUNDING], 28);
}

/* ---------------------------------------------------------------- next events, stretches */

/* Against a list of steps, some of which are several turns of the ring away. */
static void test_ring(void **state)
{
    (void)state;
    enum { N = 40, MOVES = 20000 };
    int64_t step[N], got[N], now = 0, n_taken = 0; /* step -1: no event */
    pkv__rng rng;
    pkv__rng_init(&rng, 5, 0, 0);
    pkv__sim_ring ring;
    assert_int_equal(pkv__sim_ring_init(&ring, N, &no_hook), PKV_OK);
    for (int r = 0; r < N; r++) step[r] = -1;
    for (int k = 0; k < MOVES; k++) {
        const uint32_t r = pkv__rng_below(&rng, N);
        if (pkv__rng_below(&rng, 5) == 0) {
            step[r] = -1;
            pkv__sim_ring_remove(&ring, r);
        } else {
            step[r] = now + pkv__rng_below(&rng, 4) * pkv__rng_below(&rng, 1500);
            pkv__sim_ring_set(&ring, r, step[r]);
        }
        if (pkv__rng_below(&rng, 3) > 0) continue;
        int64_t first = INT64_MAX;
        for (int i = 0; i < N; i++)
            if (step[i] >= 0 && step[i] < first) first = step[i];
        const int64_t next = pkv__sim_ring_next(&ring);
        assert_true(first == INT64_MAX ? next == INT64_MAX : next >= now && next <= first);
        if (first == INT64_MAX) continue;
        assert_true(next - now < PKV__RING_LISTS);
        now = pkv__rng_below(&rng, 4) > 0 ? next : now + (next - now) / 2;
        const int32_t n = pkv__sim_ring_take(&ring, now, got);
        int32_t n_due = 0;
        for (int i = 0; i < N; i++) n_due += step[i] == now;
        assert_int_equal(n, n_due);
        for (int32_t i = 0; i < n; i++) {
            assert_int_equal(step[got[i]], now);
            step[got[i]] = -1;
        }
        n_taken += n;
    }
    assert_true(n_taken > MOVES / 8 && now > 20 * PKV__RING_LISTS);
    pkv__sim_ring_deinit(&ring);
}

/* A leap adds up to the same as its steps one by one. */
static void test_leap_integral(void **state)
{
    (void)state;
    const pkv__sim_stretch leap = { .n = 1000, .first_ns = 12345, .slope_ns = 67, .waited = true };
    pkv__sim_account a = { .window = PKV_SIM_WINDOW_ALL, .pool_units = 90000, .started = true };
    pkv__sim_account b = a;
    pkv__sim_sample first = { { 0 } }, last;
    first.part[PKV__PART_TOKEN] = 1000;
    first.part[PKV__PART_RESERVATION] = 80000;
    first.part[PKV__PART_IDLE] = 9000;
    last = first;
    last.part[PKV__PART_TOKEN] += 11 * 999;
    last.part[PKV__PART_RESERVATION] -= 11 * 999;
    pkv__sim_account_add(&a, &leap, 0, &first, &last);
    int64_t now = 0;
    for (int k = 0; k < 1000; k++) {
        const pkv__sim_stretch one = { .n = 1, .first_ns = 12345 + 67 * k, .waited = true };
        pkv__sim_account_add(&b, &one, now, &first, &first);
        first.part[PKV__PART_TOKEN] += 11;
        first.part[PKV__PART_RESERVATION] -= 11;
        now += one.first_ns;
    }
    assert_true(pkv__sim_stretch_ns(&leap) == now);
    assert_memory_equal(a.sum, b.sum, sizeof(a.sum));
    assert_true(a.window_ns == now && a.waited_ns == now);
    for (int64_t limit = 0; limit < now + 50000; limit += 9973) {
        int64_t n = 0;
        pkv__sim_stretch part = leap;
        for (part.n = 1; part.n <= leap.n && pkv__sim_stretch_ns(&part) <= limit; part.n++)
            n = part.n;
        assert_int_equal(pkv__sim_stretch_within(&leap, limit), n);
    }
}

/* ---------------------------------------------------------------- percentiles */

static void test_percentiles(void **state)
{
    (void)state;
    double v[100];
    pkv_sim_dist d;
    pkv_sim_dist_of(v, 0, false, &d);
    assert_int_equal(d.n, 0);
    v[0] = 7;
    pkv_sim_dist_of(v, 1, false, &d);
    assert_true(d.mean == 7 && d.p50 == 7 && d.p99 == 7 && d.max == 7);
    v[0] = 10;
    v[1] = 0;
    pkv_sim_dist_of(v, 2, false, &d);
    assert_true(d.p50 == 5 && d.p90 == 9 && d.max == 10);
    for (int k = 0; k < 100; k++) v[k] = 99 - k; /* 0 .. 99 */
    pkv_sim_dist_of(v, 100, false, &d);
    assert_true(d.mean == 49.5 && d.p50 == 49.5);
    assert_true(fabs(d.p90 - 89.1) < 1e-12);
    assert_true(fabs(d.p99 - 98.01) < 1e-12);
    for (int k = 0; k < 99; k++) v[k] = k;
    pkv_sim_dist_of(v, 99, false, &d);
    assert_true(d.p50 == 49 && d.max == 98);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Random, sorted, backwards, up and down, few different, and one that takes the middle of three
 * apart badly: sorted in place as the C library does. */
static void test_values_are_sorted(void **state)
{
    (void)state;
    enum { N = 5000, SHAPES = 6 };
    static double v[N], want[N];
    pkv__rng rng;
    pkv__rng_init(&rng, 1, 0, 0);
    for (int n = 1; n <= N; n = n < 60 ? n + 1 : n * 3 / 2) {
        for (int shape = 0; shape < SHAPES; shape++) {
            for (int k = 0; k < n; k++) {
                const double of_shape[SHAPES] = {
                    pkv__rng_unit(&rng) - 0.5,
                    k,
                    -k,
                    k < n / 2 ? k : n - k,
                    pkv__rng_below(&rng, 3),
                    k % 2 ? k : n / 2 + k / 2,
                };
                v[k] = of_shape[shape];
            }
            memcpy(want, v, sizeof(v));
            qsort(want, (size_t)n, sizeof(double), by_value);
            pkv_sim_dist d;
            pkv_sim_dist_of(v, n, false, &d);
            for (int k = 0; k < n; k++) assert_true(v[k] == want[k]);
            assert_true(d.max == want[n - 1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_figure_3),    cmocka_unit_test(test_rounding_is_external),
        cmocka_unit_test(test_ring),        cmocka_unit_test(test_leap_integral),
        cmocka_unit_test(test_percentiles), cmocka_unit_test(test_values_are_sorted),
    };
    return cmocka_run_group_tests_name("sim_parts", tests, NULL, NULL);
}
