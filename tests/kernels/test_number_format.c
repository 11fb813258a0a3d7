/* f16 and bf16 against the definition in tests/oracle: the value of a code by its fields, in
 * double. */
#include "common/number_format.h"
#include "oracle/oracle_numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <math.h>

struct format {
    pkv_dtype dtype;
    int man_bits;
    float (*load)(uint16_t);
    uint16_t (*store)(float);
};

static const struct format f16 = { PKV_F16, 10, pkv__f16_to_f32, pkv__f32_to_f16 };
static const struct format bf16 = { PKV_BF16, 7, pkv__bf16_to_f32, pkv__f32_to_bf16 };

static double value_of(const struct format *f, unsigned code)
{
    return oracle_value16(f->dtype, (uint16_t)code);
}

static void every_code(const struct format *f)
{
    for (unsigned code = 0; code < 65536; code++) {
        const double want = value_of(f, code);
        const float got = f->load((uint16_t)code);
        if (isnan(want)) {
            assert_true(isnan(got));
            assert_true(isnan(f->load(f->store(got))));
            assert_int_equal(f->store(got) & 0x8000u, code & 0x8000u);
            continue;
        }
        assert_true((double)got == want && !signbit(got) == !(code & 0x8000u));
        assert_int_equal(f->store(got), code);
    }
}

/* The codes of one sign are ordered like their values: between two neighbours, the middle goes to
 * the even code, everything else to the nearer one. */
static void every_gap(const struct format *f)
{
    const unsigned inf = (1u << 15) - (1u << f->man_bits);
    for (unsigned code = 0; code < inf; code++) {
        const double lo = value_of(f, code);
        /* Infinity takes the place of the next power of two when rounding. */
        const double step =
            code + 1 < inf ? value_of(f, code + 1) - lo : lo - value_of(f, code - 1);
        const float middle = (float)(lo + step / 2);
        if ((double)middle != lo + step / 2) continue; /* below the smallest float */
        const unsigned even = code & 1u ? code + 1 : code;
        for (unsigned sign = 0; sign <= 0x8000u; sign += 0x8000u) {
            const float s = sign ? -1.f : 1.f;
            assert_int_equal(f->store(s * middle), even | sign);
            assert_int_equal(f->store(s * nextafterf(middle, 0.f)), code | sign);
            assert_int_equal(f->store(s * nextafterf(middle, INFINITY)), (code + 1) | sign);
        }
    }
}

/* Random floats of every exponent, against the oracle's rounding of the same value. */
static void random_floats(const struct format *f)
{
    uint64_t x = 88172645463325252u; /* xorshift64 (Marsaglia, 2003) */
    for (int i = 0; i < 300000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const float v = pkv__f32_from_bits((uint32_t)(x >> 32));
        if (!isnan(v)) assert_int_equal(f->store(v), oracle_code16(f->dtype, (double)v));
    }
}

static void f16_codes(void **state)
{
    (void)state;
    every_code(&f16);
    every_gap(&f16);
    random_floats(&f16);
}

static void bf16_codes(void **state)
{
    (void)state;
    every_code(&bf16);
    every_gap(&bf16);
    random_floats(&bf16);
}

static void beyond_the_range(void **state)
{
    (void)state;
    assert_int_equal(pkv__f32_to_f16(65519.99f), 0x7bff);
    assert_int_equal(pkv__f32_to_f16(65520.f), 0x7c00);
    assert_int_equal(pkv__f32_to_f16(-3e38f), 0xfc00);
    assert_int_equal(pkv__f32_to_f16(INFINITY), 0x7c00);
    assert_int_equal(pkv__f32_to_f16(1e-40f), 0);
    assert_int_equal(pkv__f32_to_f16(-1e-40f), 0x8000);
    assert_int_equal(pkv__f32_to_bf16(3.4e38f), 0x7f80);
    assert_int_equal(pkv__f32_to_bf16(-INFINITY), 0xff80);
    assert_true(isnan(pkv__bf16_to_f32(pkv__f32_to_bf16(pkv__f32_from_bits(0x7f800001u)))));
    assert_true(isnan(pkv__f16_to_f32(pkv__f32_to_f16(pkv__f32_from_bits(0xff800001u)))));
}

static void arrays(void **state)
{
    (void)state;
    const float x[3] = { 1.f, -2.5f, 1e-3f };
    for (int t = PKV_F32; t <= PKV_BF16; t++) {
        float raw[4] = { 7.f, 7.f, 7.f, 7.f }, back[3];
        pkv__store_floats(raw, (pkv_dtype)t, x, 3);
        assert_true(raw[3] == 7.f);
        pkv__load_floats(back, raw, (pkv_dtype)t, 3);
        assert_true(back[0] == 1.f && back[1] == -2.5f && fabsf(back[2] - 1e-3f) < 4e-6f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_codes),
        cmocka_unit_test(bf16_codes),
        cmocka_unit_test(beyond_the_range),
        cmocka_unit_test(arrays),
    };
    return cmocka_run_group_tests_name("number_format", tests, NULL, NULL);
}
