/* The number formats against the definition in tests/oracle (the value of a code by its fields, in
 * double), and that against numbers of the standards. */
#include "common/fp8_format.h"
#include "common/int_format.h"
#include "common/number_format.h"
#include "oracle/oracle_formats.h"
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

/* What the specification of the 8-bit formats prints (its tables 1 and 2), and halves by hand. */
static void published_values(void **state)
{
    static const struct {
        pkv_dtype dtype;
        uint16_t code;
        double value;
    } known[] = {
        { PKV_E4M3, 0x00, 0 },
        { PKV_E4M3, 0x01, 0x1p-9 },
        { PKV_E4M3, 0x07, 0.875 * 0x1p-6 },
        { PKV_E4M3, 0x08, 0x1p-6 },
        { PKV_E4M3, 0x38, 1 },
        { PKV_E4M3, 0x7e, 448 },
        { PKV_E4M3, 0xfe, -448 },
        { PKV_E5M2, 0x01, 0x1p-16 },
        { PKV_E5M2, 0x03, 0.75 * 0x1p-14 },
        { PKV_E5M2, 0x04, 0x1p-14 },
        { PKV_E5M2, 0x3c, 1 },
        { PKV_E5M2, 0x7b, 57344 },
        { PKV_E5M2, 0xfc, -INFINITY },
        { PKV_I8, 0x80, -128 },
        { PKV_I8, 0xff, -1 },
        { PKV_U4, 15, 15 },
        { PKV_F16, 0x0001, 0x1p-24 },
        { PKV_F16, 0x7bff, 65504 },
        { PKV_F16, 0x3555, 0.333251953125 },
        { PKV_BF16, 0x3f80, 1 },
        { PKV_BF16, 0x7f7f, 0x1.fep127 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        const bool half = !oracle_is_code(known[i].dtype);
        const double got = half ? oracle_value16(known[i].dtype, known[i].code)
                                : oracle_value8(known[i].dtype, (uint8_t)known[i].code);
        assert_true(got == known[i].value);
    }
    for (unsigned sign = 0; sign <= 0x80u; sign += 0x80u) {
        assert_true(isnan(oracle_value8(PKV_E4M3, (uint8_t)(sign | 0x7f))));
        for (unsigned nan = 0x7d; nan <= 0x7f; nan++)
            assert_true(isnan(oracle_value8(PKV_E5M2, (uint8_t)(sign | nan))));
    }
    /* Ties to even, and where saturation begins. */
    assert_int_equal(oracle_code_of(PKV_E4M3, 17), 0x58);
    assert_int_equal(oracle_code_of(PKV_E4M3, 19), 0x5a);
    assert_int_equal(oracle_code_of(PKV_E4M3, 464), 0x7e);
    assert_int_equal(oracle_code_of(PKV_E4M3, 0x1p-10), 0x00);
    assert_int_equal(oracle_code_of(PKV_E4M3, 0x1.8p-9), 0x02);
    assert_int_equal(oracle_code_of(PKV_E5M2, -1e9), 0xfb);
    assert_int_equal(oracle_code_of(PKV_I8, -2.5), 0xfe);
    assert_int_equal(oracle_code_of(PKV_I8, -200), 0x81);
    assert_int_equal(oracle_code_of(PKV_U4, 14.5), 14);
    assert_int_equal(oracle_code_of(PKV_U4, -0.6), 0);
}

static void fp8_codes(void **state)
{
    (void)state;
    for (unsigned code = 0; code < 256; code++) {
        const float e4m3 = pkv__e4m3_to_f32((uint8_t)code), e5m2 = pkv__e5m2_to_f32((uint8_t)code);
        const double want4 = oracle_value8(PKV_E4M3, (uint8_t)code);
        const double want5 = oracle_value8(PKV_E5M2, (uint8_t)code);
        assert_true(isnan(want4) ? isnan(e4m3)
                                 : (double)e4m3 == want4 && !signbit(e4m3) == !(code & 0x80u));
        assert_true(isnan(want5) ? isnan(e5m2)
                                 : (double)e5m2 == want5 && !signbit(e5m2) == !(code & 0x80u));
        if (!isnan(want4)) assert_int_equal(pkv__f32_to_e4m3(e4m3), code);
        if (isfinite(want5)) assert_int_equal(pkv__f32_to_e5m2(e5m2), code);
        if (isinf(want5)) assert_int_equal(pkv__f32_to_e5m2(e5m2), code - 1);
    }
    assert_int_equal(pkv__f32_to_e4m3(pkv__f32_from_bits(0x7f800001u)), 0x7f);
    assert_int_equal(pkv__f32_to_e4m3(pkv__f32_from_bits(0xffc00000u)), 0xff);
    assert_int_equal(pkv__f32_to_e5m2(pkv__f32_from_bits(0x7fffffffu)), 0x7e);
    assert_int_equal(pkv__f32_to_e5m2(pkv__f32_from_bits(0xff800001u)), 0xfe);
}

/* Halves between integers, and what lies beyond the ends. */
static void int_codes(void **state)
{
    uint8_t row[2] = { pkv__u4_pair(3, 12), pkv__u4_pair(15, 0) };
    (void)state;
    assert_true(pkv__u4_code(row, 0) == 3 && pkv__u4_code(row, 1) == 12);
    assert_true(pkv__u4_code(row, 2) == 15 && pkv__u4_code(row, 3) == 0);
    for (int half = -300; half <= 300; half++)
        for (int near = -1; near <= 1; near++) {
            float x = (float)half / 2;
            if (near) x = nextafterf(x, near > 0 ? INFINITY : -INFINITY);
            const int want = (int8_t)oracle_code_of(PKV_I8, (double)x);
            assert_int_equal(pkv__round_code(x, -127.f, 127.f), want);
            assert_int_equal(pkv__round_code(x, 0.f, 15.f), oracle_code_of(PKV_U4, (double)x));
        }
    assert_int_equal(pkv__round_code(INFINITY, 0.f, 15.f), 15);
    assert_int_equal(pkv__round_code(-INFINITY, -127.f, 127.f), -127);
    assert_int_equal(pkv__round_code(3e38f, -127.f, 127.f), 127);
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
        cmocka_unit_test(f16_codes),        cmocka_unit_test(bf16_codes),
        cmocka_unit_test(beyond_the_range), cmocka_unit_test(published_values),
        cmocka_unit_test(fp8_codes),        cmocka_unit_test(int_codes),
        cmocka_unit_test(arrays),
    };
    return cmocka_run_group_tests_name("number_format", tests, NULL, NULL);
}
