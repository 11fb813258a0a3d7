/* The batch grammar: what it accepts, where it refuses, and that printing and parsing agree. */
#include "bench_test.h"

#include "batch_spec.h"
#include "bench_base.h"

static struct batch_spec parse(const char *text)
{
    struct batch_spec spec;
    struct batch_spec_error err;
    if (!batch_spec_parse(text, &spec, &err)) fail_msg("%s: at %d: %s", text, err.at, err.text);
    return spec;
}

static void test_accept(void **state)
{
    (void)state;
    struct batch_spec s = parse("8q1s1k");
    assert_int_equal(s.n_groups, 1);
    assert_int_equal(s.n_seqs, 8);
    assert_int_equal(s.groups[0].q_len, 1);
    assert_int_equal(s.groups[0].kind, BATCH_KV_FIXED);
    assert_int_equal(s.groups[0].kv_lo, 1024);

    s = parse("4q512s4k");
    assert_int_equal(s.groups[0].count, 4);
    assert_int_equal(s.groups[0].q_len, 512);
    assert_int_equal(s.groups[0].kv_hi, 4096);

    s = parse("2q2k_32q1s1k");
    assert_int_equal(s.n_groups, 2);
    assert_int_equal(s.n_seqs, 34);
    assert_int_equal(s.groups[0].kind, BATCH_KV_SELF);
    assert_int_equal(s.groups[0].q_len, 2048);

    s = parse("q1s1k-4k");
    assert_int_equal(s.groups[0].count, 1);
    assert_int_equal(s.groups[0].kind, BATCH_KV_RANGE);
    assert_int_equal(s.groups[0].kv_lo, 1024);
    assert_int_equal(s.groups[0].kv_hi, 4096);

    s = parse("32q1s@sharegpt_1q7s@alpaca");
    assert_int_equal(s.groups[0].kind, BATCH_KV_SHAREGPT);
    assert_int_equal(s.groups[1].kind, BATCH_KV_ALPACA);
    parse("65536q1s1");
    parse("q16384k");
}

/* Position counted by hand, from 0. */
static void test_refuse(void **state)
{
    static const struct {
        const char *text;
        int at;
    } cases[] = {
        { "", 0 },
        { "8", 1 },
        { "0q1s1", 0 },
        { "8x1s1", 1 },
        { "8q", 2 },
        { "8q0s1", 2 },
        { "8q1s", 4 },
        { "8q1s1k_", 7 },
        { "8q1s1k 1q1", 6 },
        { "q2s1", 3 },
        { "2q2k_1q64s32", 10 },
        { "q1s4k-1k", 6 },
        { "q1s1-", 5 },
        { "q1s@", 4 },
        { "q1s@wiki", 4 },
        { "q1s@sharegptx", 4 },
        { "-1q1s1", 0 },
        { "q1s16385k", 3 },
        { "q16777217", 1 },
        { "65537q1s1", 0 },
        { "65536q1_1q1", 8 },
        { "q1s99999999999999999999", 3 },
        { "q1s1K", 4 },
        { "q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1_q1", 48 },
    };
    (void)state;
    for (int i = 0; i < BENCH_LEN(cases); i++) {
        struct batch_spec spec, before;
        struct batch_spec_error err;
        memset(&spec, 0x5a, sizeof(spec));
        memcpy(&before, &spec, sizeof(spec));
        assert_false(batch_spec_parse(cases[i].text, &spec, &err));
        if (err.at != cases[i].at)
            fail_msg("'%s': refused at %d (%s), should be %d", cases[i].text, err.at, err.text,
                     cases[i].at);
        assert_memory_equal(&spec, &before, sizeof(spec));
        assert_true(strlen(err.text) > 5);
    }
}

static void test_round_trip(void **state)
{
    static const char *const texts[] = { "1q1s1k",      "8q1s1000",         "2q2k_32q1s1k",
                                         "1q3s5-7k",    "32q1s@sharegpt",   "4q512s4k_1q1",
                                         "7q1s@alpaca", "1q16384k_2q1s1025" };
    char out[256];
    (void)state;
    for (int i = 0; i < BENCH_LEN(texts); i++) {
        const struct batch_spec s = parse(texts[i]);
        assert_true(batch_spec_format(&s, out, sizeof(out)));
        assert_string_equal(out, texts[i]);
        assert_false(batch_spec_format(&s, out, strlen(texts[i])));
    }
    struct batch_spec s = parse("q2048s2048");
    assert_true(batch_spec_format(&s, out, sizeof(out)));
    assert_string_equal(out, "1q2ks2k");
}

static void test_draw(void **state)
{
    int32_t q[600], kv[600], again[600];
    const struct batch_spec s = parse("2q3_100q1s10-20_200q1s@sharegpt_98q40s@alpaca");
    int64_t sum = 0;
    (void)state;
    batch_spec_draw(&s, 7, q, kv);
    assert_int_equal(q[0], 3);
    assert_int_equal(kv[1], 3);
    bool low = false, high = false;
    for (int i = 2; i < 102; i++) {
        assert_in_range(kv[i], 10, 20);
        low = low || kv[i] == 10;
        high = high || kv[i] == 20;
    }
    assert_true(low && high); /* (10/11)^100 = 7e-5 that one is missed */
    for (int i = 102; i < 302; i++) {
        assert_in_range(kv[i], 4, 2048);
        sum += kv[i];
    }
    /* A running request of the ShareGPT-like set holds E[oi]/E[o] + E[o^2]/(2 E[o]) = 161 + 293
     * tokens on average, with a standard deviation of about 290: 200 of them within 4 sigma. */
    assert_near((double)sum / 200, 454, 85);
    for (int i = 302; i < 400; i++) {
        assert_int_equal(q[i], 40);
        assert_true(kv[i] >= 40);
    }
    batch_spec_draw(&s, 7, q, again);
    assert_memory_equal(kv, again, 400 * sizeof(*kv));
    batch_spec_draw(&s, 8, q, again);
    assert_memory_not_equal(kv, again, 400 * sizeof(*kv));
}

static void test_halve(void **state)
{
    struct batch_spec s = parse("5q1s4_1q9");
    (void)state;
    assert_true(batch_spec_halve(&s));
    assert_int_equal(s.n_seqs, 3);
    assert_true(batch_spec_halve(&s));
    assert_int_equal(s.n_seqs, 2);
    assert_false(batch_spec_halve(&s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_accept),     cmocka_unit_test(test_refuse),
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_draw),
        cmocka_unit_test(test_halve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
