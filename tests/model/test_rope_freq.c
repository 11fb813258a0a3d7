/* Rotary frequencies: tables known by hand, and every formula in its published form with libm. */
#include "model/forward.h"
#include "model_test.h"

#define TWO_PI 6.283185307179586

static pkv__rope_config plain(double theta, int32_t dim)
{
    pkv__rope_config r = { .theta = theta, .factor = 1, .rotary_dim = dim };
    r.low_freq_factor = 1;
    r.high_freq_factor = 4;
    r.beta_fast = 32;
    r.beta_slow = 1;
    r.original_context = 4096;
    return r;
}

static void near(double got, double want)
{
    if (!(fabs(got - want) <= 1e-14 * fabs(want))) fail_msg("%.17g, not %.17g", got, want);
}

static double base(const pkv__rope_config *r, int32_t i)
{
    return pow(r->theta, -2.0 * i / r->rotary_dim);
}

static double amplitude_of(const pkv__rope_config *r, int32_t limit, double f[256])
{
    double amplitude = 0;
    pkv__rope_frequencies(r, r->rotary_dim, limit, f, &amplitude);
    return amplitude;
}

static void default_and_linear(void **state)
{
    (void)state;
    double f[256];
    pkv__rope_config r = plain(10000, 8);
    assert_true(amplitude_of(&r, 512, f) == 1);
    static const double by_hand[] = { 1, 0.1, 0.01, 0.001 };
    for (int i = 0; i < 4; i++) near(f[i], by_hand[i]);
    r.kind = PKV__ROPE_LINEAR;
    r.factor = 4;
    assert_true(amplitude_of(&r, 512, f) == 1);
    for (int i = 0; i < 4; i++) near(f[i], by_hand[i] / 4);
    r = plain(500000, 128);
    amplitude_of(&r, 512, f);
    for (int i = 0; i < 64; i++) near(f[i], base(&r, i));
}

/* Of the file of a published model with 1 B parameters: pairs 0-14 stay, 15-17 are blended, 18-31
 * divided by 32. */
static void llama3_table(void **state)
{
    (void)state;
    double f[256];
    pkv__rope_config r = plain(500000, 64);
    r.kind = PKV__ROPE_LLAMA3;
    r.factor = 32;
    r.original_context = 8192;
    assert_true(amplitude_of(&r, 1 << 17, f) == 1);
    for (int i = 0; i < 32; i++) {
        const double wave = TWO_PI / base(&r, i);
        if (i <= 14) near(f[i], base(&r, i));
        else if (i >= 18) near(f[i], base(&r, i) / 32);
        else {
            const double smooth = (8192 / wave - 1) / (4 - 1);
            assert_true(smooth > 0 && smooth < 1);
            near(f[i], (1 - smooth) * base(&r, i) / 32 + smooth * base(&r, i));
            assert_true(f[i] < 0.99 * base(&r, i) && f[i] > 1.01 * base(&r, i) / 32);
        }
    }
}

static void dynamic(void **state)
{
    (void)state;
    double f[256];
    pkv__rope_config r = plain(10000, 64);
    r.kind = PKV__ROPE_DYNAMIC;
    r.factor = 2;
    assert_true(amplitude_of(&r, 4096, f) == 1); /* within the original context: as ever */
    for (int i = 0; i < 32; i++) near(f[i], base(&r, i));
    amplitude_of(&r, 16384, f);
    const double theta = 10000 * pow(2.0 * 16384 / 4096 - 1, 64.0 / 62);
    for (int i = 0; i < 32; i++) near(f[i], pow(theta, -2.0 * i / 64));
    /* What the formula is for: the last pair turns as slowly as if positions were divided by 7. */
    near(f[31], base(&r, 31) / 7);
    r.rotary_dim = 2;
    amplitude_of(&r, 16384, f);
    assert_true(f[0] == 1);
}

/* theta 10000, 128 dims, 4096 positions: 128 ln(4096 / (32 * 2 pi)) / (2 ln 10000) = 20.9 and
 * 128 ln(4096 / 2 pi) / (2 ln 10000) = 45.03, hence a ramp from 20 to 46. */
static void yarn(void **state)
{
    (void)state;
    double f[256];
    pkv__rope_config r = plain(10000, 128);
    r.kind = PKV__ROPE_YARN;
    r.factor = 16;
    near(amplitude_of(&r, 65536, f), 0.1 * log(16) + 1);
    for (int i = 0; i < 64; i++) {
        const double ramp = i <= 20 ? 0 : i >= 46 ? 1 : (i - 20) / 26.0;
        near(f[i], base(&r, i) / 16 * ramp + base(&r, i) * (1 - ramp));
    }
    r.mscale = 0.707;
    near(amplitude_of(&r, 65536, f), 0.1 * log(16) + 1);
    r.mscale_all_dim = 1;
    near(amplitude_of(&r, 65536, f), (0.0707 * log(16) + 1) / (0.1 * log(16) + 1));
    r.mscale = 1;
    assert_true(amplitude_of(&r, 65536, f) == 1);
    r.attention_factor = 1.25;
    assert_true(amplitude_of(&r, 65536, f) == 1.25);
}

static void longrope(void **state)
{
    (void)state;
    double f[256];
    pkv__rope_config r = plain(10000, 8);
    r.kind = PKV__ROPE_LONGROPE;
    r.factor = 32;
    r.n_short = r.n_long = 4;
    for (int i = 0; i < 4; i++) {
        r.short_factor[i] = 1 + i;
        r.long_factor[i] = 10 * (1 + i);
    }
    near(amplitude_of(&r, 4096, f), sqrt(1 + log(32) / log(4096)));
    for (int i = 0; i < 4; i++) near(f[i], base(&r, i) / (1 + i));
    near(amplitude_of(&r, 4097, f), sqrt(1 + log(32) / log(4096)));
    for (int i = 0; i < 4; i++) near(f[i], base(&r, i) / (10 * (1 + i)));
    r.attention_factor = 1; /* as a table of divisors in GGUF is kept */
    assert_true(amplitude_of(&r, 4096, f) == 1);
    r.attention_factor = 0;
    r.factor = 1;
    assert_true(amplitude_of(&r, 4096, f) == 1);
}

/* The least and the largest that a configuration may say. */
static void extremes_are_numbers(void **state)
{
    (void)state;
    static const double thetas[] = { 1, 1.0000001, 1e12 }, factors[] = { 1, 1e6 };
    static const int32_t contexts[] = { 1, 1 << 28 }, dims[] = { 2, 4, 512 };
    for (int kind = PKV__ROPE_DEFAULT; kind <= PKV__ROPE_LONGROPE; kind++)
        for (int k = 0; k < 3 * 2 * 2 * 3; k++) {
            double f[256];
            pkv__rope_config r = plain(thetas[k % 3], dims[k / 12]);
            r.kind = (pkv__rope_kind)kind;
            r.factor = factors[k / 3 % 2];
            r.original_context = contexts[k / 6 % 2];
            for (int i = 0; i < 256; i++) r.short_factor[i] = r.long_factor[i] = 1e-6;
            const double amplitude = amplitude_of(&r, 1 << 28, f);
            assert_true(isfinite(amplitude) && amplitude > 0);
            for (int i = 0; i < r.rotary_dim / 2; i++) assert_true(isfinite(f[i]) && f[i] > 0);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(default_and_linear),
        cmocka_unit_test(llama3_table),
        cmocka_unit_test(dynamic),
        cmocka_unit_test(yarn),
        cmocka_unit_test(longrope),
        cmocka_unit_test(extremes_are_numbers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
