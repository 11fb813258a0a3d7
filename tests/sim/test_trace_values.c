/* Values in traces: token counts, times, dates. Expected values by hand, Unix times of dates from
 * date(1). */
#include "sim/trace.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static pkv__text text_of(const char *s)
{
    return (pkv__text){ s, strlen(s) };
}

static void test_token_counts(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t value; /* -1: bad number, -2: overflow */
    } cases[] = {
        { "0", 0 },
        { "7564", 7564 },
        { "7564.0", 7564 },
        { "1e3", 1000 },
        { "1E+3", 1000 },
        { "1.5e3", 1500 },
        { "12000e-3", 12 },
        { "007", 7 },
        { "5.", 5 },
        { "0e99", 0 },
        { "-0", 0 },
        { "-0.0e1", 0 },
        { "-0.0000000000000000000000000000000000000000000007", -1 },
        { "-", -1 },
        { "--1", -1 },
        { "2147483647", 2147483647 },
        { "2147483648", -2 },
        { "1e10", -2 },
        { "1e999999999", -2 },
        { "12.5", -1 },
        { "1e-3", -1 },
        { "-5", -1 },
        { "+5", -1 },
        { "", -1 },
        { ".", -1 },
        { "abc", -1 },
        { "12x", -1 },
        { "1e", -1 },
        { "1e+", -1 },
        { "1.2.3", -1 },
        { "nan", -1 },
        { "inf", -1 },
        { "0x10", -1 },
        { "1 2", -1 },
        { "99999999999999999999999999999999999999999999999", -2 },
        { "7.0000000000000000000000000000000000000000000000", 7 },
        { "7.0000000000000000000000000000000000000000000001", -1 },
        { "0.0000000000000000000000000000000000000000000007e46", 7 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(cases); k++) {
        int32_t value = -9;
        pkv_sim_drop why;
        const bool ok = pkv__trace_tokens(text_of(cases[k].text), &value, &why);
        int64_t got = value;
        if (!ok) got = why == PKV_SIM_DROP_OVERFLOW ? -2 : -1;
        if (got != cases[k].value)
            fail_msg("'%s': %lld, expected %lld", cases[k].text, (long long)got,
                     (long long)cases[k].value);
    }
}

static void test_times(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t unit_ns, high, low; /* ns = high * 10^18 + low */
    } good[] = {
        { "19440110.0", 1000000000, 0, 19440110000000000 },
        /* an epoch with microseconds and more: nothing is lost */
        { "1700158546.680590123", 1000000000, 1, 700158546680590123 },
        { "1700158546680590123", 1, 1, 700158546680590123 },
        { "1700158546680590.123", 1000, 1, 700158546680590123 },
        { "0.0000000019", 1000000000, 0, 1 }, /* cut below a ns */
        { "0.999", 1, 0, 0 },
        { "1.5e-3", 1000000000, 0, 1500000 },
        { "12", 1000000, 0, 12000000 },
        { "12.25", 1000000, 0, 12250000 },
        { "0.5", 3, 0, 1 },
        { "0.33333333333333333", 3, 0, 0 },
        { "2.6666666666666666667e1", 3, 0, 80 },
        { "7", 60000000000, 0, 420000000000 }, /* minutes */
        { "0.1", 60000000000, 0, 6000000000 },
        { "0.00000000000000000000000000000000000000000000000000001e53", 7, 0, 7 },
        { "9999999999", INT64_C(1000000000000000000), 9999999999, 0 },
        { "0e400", 1000000000, 0, 0 },
        { "-0", 1000000000, 0, 0 },
        { "1e-400", INT64_MAX, 0, 0 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(good); k++) {
        pkv__i128 ns = -1;
        const bool ok = pkv__trace_ns(text_of(good[k].text), good[k].unit_ns, &ns);
        if (!ok || ns != (pkv__i128)good[k].high * INT64_C(1000000000000000000) + good[k].low)
            fail_msg("%s of %lld ns", good[k].text, (long long)good[k].unit_ns);
    }
    static const char *const bad[] = { "-1", "nan",   "inf",    "",    "1e30",
                                       "1s", "1e400", "1e19.5", "-0.1" };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        pkv__i128 ns;
        assert_false(pkv__trace_ns(text_of(bad[k]), 1000000000, &ns));
    }
    pkv__i128 ns; /* 10^28 ns and more */
    assert_false(pkv__trace_ns(text_of("10000000000"), INT64_C(1000000000000000000), &ns));
    assert_false(pkv__trace_ns(text_of("10000000000.5"), INT64_C(1000000000000000000), &ns));
    assert_false(pkv__trace_ns(text_of("12345678901234567890123456789"), 1, &ns));
    assert_false(pkv__trace_ns(text_of("99999999999999999999999999999e5"), INT64_MAX, &ns));
}

/* Unix times of these dates from `date -u +%s`; 2000-01-01 is 946684800. */
static void test_dates(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t unix_s, ns;
        bool zoned;
    } good[] = {
        { "2023-11-16 18:15:46.6805900", 1700158546, 680590000, false },
        { "2023-11-16T18:15:46", 1700158546, 0, false },
        { "2023-11-16T18:15:46.5Z", 1700158546, 500000000, true },
        { "2023-11-16 18:15:46.000000001", 1700158546, 1, false },
        { "2024-05-12 00:00:00.003163+00:00", 1715472000, 3163000, true },
        { "2023-11-16 20:15:46+0200", 1700158546, 0, true },
        { "2023-11-16 12:45:46-05:30", 1700158546, 0, true },
        { "2024-02-29 12:00:00", 1709208000, 0, false },
        { "2024-03-01 00:00:00", 1709251200, 0, false },
        { "1900-01-01 00:00:00", -2208988800, 0, false },
        { "1970-01-01 00:00:00", 0, 0, false },
        { "2100-03-01 00:00:00", 4107542400, 0, false },
        { "2199-12-31 23:59:59", 7258118399, 0, false },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(good); k++) {
        pkv__i128 ns;
        bool zoned;
        if (!pkv__trace_date(text_of(good[k].text), &ns, &zoned)) fail_msg("%s", good[k].text);
        const pkv__i128 want = (pkv__i128)(good[k].unix_s - 946684800) * 1000000000 + good[k].ns;
        if (ns != want || zoned != good[k].zoned) fail_msg("%s is wrong", good[k].text);
    }
    static const char *const bad[] = {
        "",
        "2023-11-16",
        "2023-02-29 00:00:00",
        "2100-02-29 00:00:00",
        "2023-13-01 00:00:00",
        "2023-00-01 00:00:00",
        "2023-01-00 00:00:00",
        "2023-11-31 00:00:00",
        "2023-11-16 24:00:00",
        "2023-11-16 23:60:00",
        "2023-11-16 23:59:60",
        "2023-11-16 18:15",
        "2023-11-16 18:15:46.",
        "2023-11-16 18:15:46.0123456789",
        "2023-11-16 18:15:46 ",
        "2023-11-16 18:15:46z",
        "2023-11-16 18:15:46+",
        "2023-11-16 18:15:46+24:00",
        "2023-11-16 18:15:46+02:0",
        "2023/11/16 18:15:46",
        "1899-12-31 23:59:59",
        "2200-01-01 00:00:00",
        "1700158546",
        "20x3-11-16 18:15:46",
        "2x23-11-16 18:15:46",
        "2023-x1-16 18:15:46",
        "2023-11-x6 18:15:46",
        "2023-11-16 x8:15:46",
        "2023-11-16 1x:15:46",
        "2023-11-16 18:x5:46",
        "2023-11-16 18:15:4x",
        "2023-11-16 18-15:46",
        "2023-11-16 18:15-46",
        "2023-11-16_18:15:46",
        "2023-11-16 18:15:46Zx",
        "2023-11-16 18:15:46+02x00",
        "2023-11-16 18:15:46+x2:00",
        "2023-11-16 18:15:46+02:x0",
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        pkv__i128 ns;
        bool zoned;
        if (pkv__trace_date(text_of(bad[k]), &ns, &zoned)) fail_msg("'%s' is accepted", bad[k]);
    }
    for (size_t len = 0; len < 19; len++) { /* a text ends where its length says */
        pkv__i128 ns;
        bool zoned;
        assert_false(pkv__trace_date((pkv__text){ "2023-11-16 18:15:46", len }, &ns, &zoned));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_token_counts),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_dates),
    };
    return cmocka_run_group_tests_name("trace_values", tests, NULL, NULL);
}
