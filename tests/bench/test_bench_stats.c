/* Quantiles by hand, the bootstrap's coverage, verdicts, number formats, the reference, the line
 * of a sweep. */
#include "bench_test.h"

#include "attention_reference.h"
#include "bench_line.h"
#include "bench_stats.h"
#include "half_floats.h"
#include "machine_info.h"

#include <math.h>

static void test_stats(void **state)
{
    const double one[] = { 7 }, two[] = { 5, 1 };
    double twenty[20];
    struct bench_stats s;
    (void)state;
    assert_true(bench_stats_of(one, 0, &s));
    assert_int_equal(s.n, 0);
    assert_true(bench_stats_of(one, 1, &s));
    assert_near(s.median, 7, 0);
    assert_near(s.q1, 7, 0);
    assert_near(s.max, 7, 0);
    assert_true(bench_stats_of(two, 2, &s));
    assert_near(s.min, 1, 0);
    assert_near(s.q1, 2, 1e-12); /* 1 + 0.25 * (5 - 1) */
    assert_near(s.median, 3, 1e-12);
    assert_near(s.q3, 4, 1e-12);
    assert_near(s.p95, 4.8, 1e-12);
    for (int i = 0; i < 20; i++) twenty[i] = (i * 7) % 20 + 1; /* 1 .. 20 in another order */
    assert_true(bench_stats_of(twenty, 20, &s));
    assert_int_equal(s.n, 20);
    assert_near(s.min, 1, 0);
    assert_near(s.q1, 5.75, 1e-12);     /* position 4.75 */
    assert_near(s.median, 10.5, 1e-12); /* position 9.5 */
    assert_near(s.q3, 15.25, 1e-12);
    assert_near(s.p90, 18.1, 1e-12);
    assert_near(s.p95, 19.05, 1e-12);
    assert_near(s.p99, 19.81, 1e-12);
    assert_near(s.max, 20, 0);
}

static void test_ratio_exact(void **state)
{
    const double a[] = { 12, 24, 36, 48, 60 }, b[] = { 10, 20, 30, 40, 50 };
    struct bench_ratio r, again;
    (void)state;
    /* Every pair has ratio 1.2, so every resample has it. */
    assert_true(bench_ratio_of(a, b, 5, 3, &r));
    assert_near(r.value, 1.2, 1e-12);
    assert_near(r.lo, 1.2, 1e-12);
    assert_near(r.hi, 1.2, 1e-12);
    assert_int_equal(r.pairs, 5);
    assert_int_equal(bench_ratio_verdict(&r), BENCH_SLOWER);
    assert_true(bench_ratio_of(b, a, 5, 3, &r));
    assert_int_equal(bench_ratio_verdict(&r), BENCH_FASTER);
    assert_true(bench_ratio_of(a, a, 5, 3, &r));
    assert_int_equal(bench_ratio_verdict(&r), BENCH_SAME);
    assert_false(bench_ratio_noisy(&r));
    const double c[] = { 9, 31, 28, 44, 52 };
    assert_true(bench_ratio_of(c, b, 5, 9, &r));
    assert_true(bench_ratio_of(c, b, 5, 9, &again));
    assert_near(r.lo, again.lo, 0); /* same seed, same resamples */
    assert_near(r.hi, again.hi, 0);
    assert_true(r.lo < r.hi);
}

static void test_verdicts(void **state)
{
    const struct bench_ratio small = { 1.02, 1.01, 1.03, 20 }, wide = { 1.3, 0.9, 1.7, 20 };
    const struct bench_ratio real = { 1.03, 1.001, 1.06, 20 }, faster = { 0.9, 0.85, 0.99, 20 };
    const struct bench_ratio quiet = { 1.001, 0.99, 1.01, 20 },
                             shifted = { 1.01, 1.005, 1.014, 20 };
    (void)state;
    assert_int_equal(bench_ratio_verdict(&small), BENCH_SAME);
    assert_int_equal(bench_ratio_verdict(&wide), BENCH_SAME);
    assert_int_equal(bench_ratio_verdict(&real), BENCH_SLOWER);
    assert_int_equal(bench_ratio_verdict(&faster), BENCH_FASTER);
    assert_false(bench_ratio_noisy(&quiet));
    assert_true(bench_ratio_noisy(&shifted)); /* excludes 1 */
    assert_true(bench_ratio_noisy(&wide));
}

/* How many of `trials` intervals over synthetic pairs hold the true ratio of medians, 1.1. Noise is
 * a multiplication by 1 .. 1.2, skewed to the low end as times are; `drift` hits both sides of a
 * pair alike. */
static int covered(int trials, double drift, uint64_t seed)
{
    enum { PAIRS = 41 };
    struct bench_rng rng = { seed };
    int held = 0;
    for (int t = 0; t < trials; t++) {
        double a[PAIRS], b[PAIRS];
        struct bench_ratio r;
        for (int i = 0; i < PAIRS; i++) {
            const double common = 100 * (1 + drift * bench_rng_unit(&rng));
            const double x = bench_rng_unit(&rng), y = bench_rng_unit(&rng);
            a[i] = 1.1 * common * (1 + 0.2 * x * x);
            b[i] = common * (1 + 0.2 * y * y);
        }
        assert_true(bench_ratio_of(a, b, PAIRS, bench_rng_next(&rng), &r));
        held += r.lo <= 1.1 && r.hi >= 1.1;
    }
    return held;
}

/* The 95 % interval must hold the truth in 93 to 97 of 100 cases; over 1,000 trials one standard
 * deviation is 0.6 points. Drift common to both sides may only make it more careful. */
static void test_coverage(void **state)
{
    enum { TRIALS = 1000 };
    (void)state;
    const int without = covered(TRIALS, 0, 20240917), with = covered(TRIALS, 0.3, 4711);
    print_message("# coverage %.1f %%, with drift %.1f %%\n", 100.0 * without / TRIALS,
                  100.0 * with / TRIALS);
    assert_in_range(without, TRIALS * 93 / 100, TRIALS * 97 / 100);
    assert_in_range(with, TRIALS * 93 / 100, TRIALS);
}

static void test_half_floats(void **state)
{
    (void)state;
    assert_near(half_to_float(0x3c00), 1, 0);
    assert_near(half_to_float(0xc000), -2, 0);
    assert_near(half_to_float(0x7bff), 65504, 0);
    assert_near(half_to_float(0x0001), 0x1p-24, 0);
    assert_true(isinf(half_to_float(0x7c00)));
    assert_true(isnan(half_to_float(0xffff)));
    assert_true(isnan(bfloat_to_float(0xffff)));
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float h = half_to_float((uint16_t)bits), b = bfloat_to_float((uint16_t)bits);
        if (!isnan(h)) assert_int_equal(half_from_float(h), bits);
        if (!isnan(b)) assert_int_equal(bfloat_from_float(b), bits);
    }
    assert_int_equal(half_from_float(1 + 0x1p-11f), 0x3c00);     /* tie to even: down */
    assert_int_equal(half_from_float(1 + 3 * 0x1p-11f), 0x3c02); /* tie to even: up */
    assert_int_equal(half_from_float(1.9999f), 0x4000);          /* carries */
    assert_int_equal(half_from_float(65519.9f), 0x7bff);
    assert_int_equal(half_from_float(65520.f), 0x7c00);
    assert_int_equal(half_from_float(0x1p-25f), 0);
    assert_int_equal(bfloat_from_float(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(bfloat_from_float(1 + 3 * 0x1p-8f), 0x3f82);
}

/* Codes by the tables of the OCP 8-bit floating point specification. */
static void test_small_floats(void **state)
{
    uint8_t nibbles[2] = { 0x5a, 0xff };
    (void)state;
    assert_near(e4m3_to_float(0x7e), 448, 0);
    assert_near(e4m3_to_float(0x01), 0x1p-9, 0);
    assert_near(e4m3_to_float(0xb8), -1, 0);
    assert_true(isnan(e4m3_to_float(0x7f)) && isnan(e4m3_to_float(0xff)));
    assert_near(e5m2_to_float(0x7b), 57344, 0);
    assert_near(e5m2_to_float(0x01), 0x1p-16, 0);
    assert_near(e5m2_to_float(0x3c), 1, 0);
    assert_true(isinf(e5m2_to_float(0x7c)) && isnan(e5m2_to_float(0x7d)));
    for (int code = 0; code < 0x7c; code++) { /* every finite one comes back */
        assert_int_equal(e4m3_from_float(e4m3_to_float((uint8_t)code)), code);
        assert_int_equal(e5m2_from_float(-e5m2_to_float((uint8_t)code)), code | 0x80);
    }
    assert_int_equal(e4m3_from_float(1.0625f), 0x38);   /* tie to even: down */
    assert_int_equal(e4m3_from_float(1.1875f), 0x3a);   /* tie to even: up */
    assert_int_equal(e4m3_from_float(0x1.8p-10f), 1);   /* subnormal */
    assert_int_equal(e4m3_from_float(0x1.fp-7f), 0x08); /* rounds up into the normal ones */
    assert_near(number_get(nibbles, PKV_U4, 0), 10, 0); /* even dim: low nibble */
    assert_near(number_get(nibbles, PKV_U4, 1), 5, 0);
    number_put(nibbles, PKV_U4, 0, 2.5f);
    number_put(nibbles, PKV_U4, 3, -1);
    assert_int_equal(nibbles[0], 0x52);
    assert_int_equal(nibbles[1], 0x0f);
}

/* Two keys with scores 0 and ln 3: weights 1/4 and 3/4, by hand. */
static void test_reference(void **state)
{
    const float q[] = { 1, 0, 0, 0, 0, 0, 0, 0 };
    double k[16] = { 0 }, v[16] = { 0 }, k_size[16] = { 0 }, v_size[16] = { 0 };
    double scores[2], out[8], vbar[8], vmax[8];
    const struct attention_keys keys = { k, k_size, v, v_size, 2, 8, 8 };
    const struct attention_rounding exact = { false, 0 }, coarse = { true, 0x1p-8 };
    struct attention_row row = { scores, out, vbar, vmax, 0, 0, 0 };
    (void)state;
    k[8] = k_size[8] = log(3);
    v[0] = v_size[0] = 8;
    v[8] = -4;
    v_size[8] = 6; /* 1 * (1 - 5), say: errors are relative to 6 */
    v[1] = v[9] = v_size[1] = v_size[9] = 5;
    attention_reference(q, &keys, 1.0, &row);
    assert_near(out[0], 8 * 0.25 - 4 * 0.75, 1e-6);
    assert_near(vbar[0], 8 * 0.25 + 6 * 0.75, 1e-6);
    assert_near(out[1], 5, 1e-12);
    assert_near(vmax[0], 8, 0);
    assert_near(vmax[1], 5, 0);
    assert_near(row.z_size, log(3), 1e-6);
    assert_near(row.k_size, log(3), 1e-6);
    assert_near(row.q_max, 1, 0);
    /* docs/numerics.md: vbar (e^(2 dz) - 1 + 2 ex + acc) + 2^-11 |out| + 2^-24 + n 2^-126 vmax with
     * dz (2*8+60) 2^-24 z, ex 2^-21, acc 18 2^-23; z such that 2 dz is 1: not the 2 dz that small
     * logits make of it. */
    row.z_size = 0x1p24 / 152;
    vbar[0] = 1;
    out[0] = 2;
    assert_near(attention_bound(&row, 0, 2, 8, PKV_F16, &exact),
                exp(1) - 1 + 0x1p-20 + 18 * 0x1p-23 + 0x1p-10 + 0x1p-24, 1e-12);
    /* Keys in integers: half a step, 2^-15 amax(q) sum |k|; weights in bf16: 2^-8. */
    row.z_size = 0;
    row.q_max = 0x1p10;
    row.k_size = 0x1p4;
    assert_near(attention_bound(&row, 0, 2, 8, PKV_F16, &coarse),
                exp(1) - 1 + 0x1p-8 + 0x1p-20 + 18 * 0x1p-23 + 0x1p-10 + 0x1p-24, 1e-12);
    /* Below the normal range: 3 keys, vmax 2^126, nothing else. */
    vbar[0] = out[0] = row.z_size = 0;
    vmax[0] = 0x1p126;
    assert_near(attention_bound(&row, 0, 3, 8, PKV_F32, &exact), 3, 1e-12);
}

/* Points on a line lie on it; one that is 30 % slower than a line of many sticks out. */
static void test_line(void **state)
{
    double x[] = { 1, 2, 4, 8, 1024 }, t[5], flat[] = { 7, 7 };
    (void)state;
    for (int i = 0; i < 5; i++) t[i] = 100 + 3 * x[i];
    struct bench_line line = bench_line_of(x, t, 5);
    assert_near(line.a, 100, 1e-9);
    assert_near(line.b, 3, 1e-12);
    line = bench_line_of(flat, t, 2); /* no direction: a constant between both */
    assert_near(line.b, 0, 0);
    assert_true(line.a > t[0] && line.a < t[1]);
    /* By hand: t = 1, 1, 2 at x = -1, 0, 1 with weights 1, 1, 1/4 gives 9/4 a - 3/4 b = 5/2 and
     * -3/4 a + 5/4 b = -1/2. */
    const double hand_x[] = { -1, 0, 1 }, hand_t[] = { 1, 1, 2 };
    line = bench_line_of(hand_x, hand_t, 3);
    assert_near(line.a, 11. / 9, 1e-12);
    assert_near(line.b, 1. / 3, 1e-12);
}

static void test_machine_texts(void **state)
{
    struct machine_info m;
    (void)state;
    assert_int_equal(machine_parse_size("32768K"), 32 << 20);
    assert_int_equal(machine_parse_size("2M"), 2 << 20);
    assert_int_equal(machine_parse_size("4096"), 4096);
    assert_int_equal(machine_parse_size("x"), 0);
    assert_int_equal(machine_parse_size("-1K"), 0);
    assert_int_equal(machine_count_cpus("0-3,8"), 5);
    assert_int_equal(machine_count_cpus("0"), 1);
    assert_int_equal(machine_count_cpus(""), -1);
    assert_int_equal(machine_count_cpus("3-1"), -1);
    assert_int_equal(machine_count_cpus("0-3;"), -1);
    machine_read(&m);
    assert_true(m.llc_bytes > 0);
    assert_true(m.timer_cost_ns > 0);
    assert_int_equal(m.isa, pkv_isa_detect());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stats),         cmocka_unit_test(test_ratio_exact),
        cmocka_unit_test(test_verdicts),      cmocka_unit_test(test_coverage),
        cmocka_unit_test(test_half_floats),   cmocka_unit_test(test_small_floats),
        cmocka_unit_test(test_reference),     cmocka_unit_test(test_line),
        cmocka_unit_test(test_machine_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
