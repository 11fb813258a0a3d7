/* Random numbers and the functions under them.
 *   Philox4x32-10: the known-answer vectors of the authors' Random123 package (kat_vectors)
 *   log and exp:   against libm in long double
 *   draws:         moments of the normal, gamma and exponential laws */
#include "common/common.h"
#include "common/detmath.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void test_philox_vectors(void **state)
{
    (void)state;
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } known[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
          { 0xffffffff, 0xffffffff },
          { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
          { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(known); k++) {
        uint32_t out[4];
        pkv__philox4x32(known[k].ctr, known[k].key, out);
        assert_memory_equal(out, known[k].out, sizeof(out));
    }
}

/* A stream is the words of consecutive counters; purposes and lanes do not overlap. */
static void test_stream(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, 0x299f31d0a4093822ULL, 0x13198a2e, 0x03707344);
    const uint32_t key[2] = { 0xa4093822, 0x299f31d0 };
    for (uint32_t block = 0; block < 5; block++) {
        const uint32_t ctr[4] = { block, 0, 0x13198a2e, 0x03707344 };
        uint32_t out[4];
        pkv__philox4x32(ctr, key, out);
        for (int w = 0; w < 4; w++) assert_int_equal(pkv__rng_u32(&rng), out[w]);
    }
    /* The counter carries into its second word. */
    rng.ctr[0] = 0xffffffff;
    rng.n_left = 0;
    (void)pkv__rng_u32(&rng);
    assert_int_equal(rng.ctr[0], 0);
    assert_int_equal(rng.ctr[1], 1);
}

static void test_below(void **state)
{
    (void)state;
    pkv__rng rng;
    int count[7] = { 0 };
    pkv__rng_init(&rng, 1, 0, 0);
    for (int k = 0; k < 70000; k++) count[pkv__rng_below(&rng, 7)]++;
    for (int v = 0; v < 7; v++) assert_in_range(count[v], 10000 - 500, 10000 + 500); /* 5 sigma */
    assert_int_equal(pkv__rng_below(&rng, 1), 0);
}

static void expect_close(const char *what, double x, double got, long double want)
{
    const long double unit = ldexpl(1, ilogbl(want == 0 ? 1 : want) - 52);
    const long double error = fabsl((long double)got - want) / unit;
    if (error > 2) fail_msg("%s(%a) is %a, %Lg units from %La", what, x, got, error, want);
}

static void test_log_and_exp(void **state)
{
    (void)state;
    assert_true(pkv__det_log(1) == 0);
    assert_true(pkv__det_exp(0) == 1);
    pkv__rng rng;
    pkv__rng_init(&rng, 2, 0, 0);
    for (int k = 0; k < 300000; k++) {
        const double u = pkv__rng_unit(&rng);
        const double scaled = ldexp(u, (int)pkv__rng_below(&rng, 1900) - 900);
        const double near_one = 1 + (u - 0.5) * ldexp(1, -(int)pkv__rng_below(&rng, 40));
        const double power = (u - 0.5) * 1400;
        expect_close("log", scaled, pkv__det_log(scaled), logl(scaled));
        expect_close("log", near_one, pkv__det_log(near_one), logl(near_one));
        expect_close("exp", power, pkv__det_exp(power), expl(power));
        expect_close("exp", u, pkv__det_exp(u), expl(u));
    }
}

typedef double (*draw_fn)(pkv__rng *rng);
static double gamma_13(pkv__rng *rng)
{
    return pkv__draw_gamma(rng, 1.3);
}
static double gamma_04(pkv__rng *rng)
{
    return pkv__draw_gamma(rng, 0.4);
}

/* Mean and variance within 6 standard errors; `fourth` is the fourth central moment. */
static void expect_moments(draw_fn draw, double mean, double variance, double fourth)
{
    enum { N = 400000 };
    pkv__rng rng;
    pkv__rng_init(&rng, 3, 0, 0);
    double sum = 0, sum2 = 0;
    for (int k = 0; k < N; k++) {
        const double x = draw(&rng) - mean;
        sum += x;
        sum2 += x * x;
    }
    assert_true(fabs(sum / N) < 6 * sqrt(variance / N));
    assert_true(fabs(sum2 / N - variance) < 6 * sqrt((fourth - variance * variance) / N));
}

static void test_draws(void **state)
{
    (void)state;
    /* Gamma of shape a: variance a, fourth central moment 3a^2 + 6a. */
    expect_moments(pkv__draw_normal, 0, 1, 3);
    expect_moments(pkv__draw_exponential, 1, 1, 9);
    expect_moments(gamma_13, 1.3, 1.3, 3 * 1.69 + 6 * 1.3);
    expect_moments(gamma_04, 0.4, 0.4, 3 * 0.16 + 6 * 0.4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_philox_vectors), cmocka_unit_test(test_stream),
        cmocka_unit_test(test_below),          cmocka_unit_test(test_log_and_exp),
        cmocka_unit_test(test_draws),
    };
    return cmocka_run_group_tests_name("random", tests, NULL, NULL);
}
