/* Generators: the moments of every law against its formula, arrivals, texts and refusals.
 * Tolerances are five standard errors of the 10^6 draws (of zipf, with its many cases, 2 * 10^5);
 * rounding to whole tokens adds 1/12 to a variance and, at these parameters, nothing that shows to
 * a mean. */
#include "common/common.h"
#include "pagedkv/sim.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N 1000000
#define N_ZIPF 200000

static pkv_sim_request reqs[N], others[N];

static uint64_t first_seed(uint64_t usual)
{
    const char *given = getenv("PKV_SEED");
    return given ? strtoull(given, NULL, 10) : usual;
}

static void expect_within(const char *what, double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance))
        fail_msg("%s is %.9g, expected %.9g +- %.3g (PKV_SEED=%llu repeats it)", what, got, want,
                 tolerance, (unsigned long long)first_seed(5));
}

static void draw(const char *text)
{
    pkv_sim_lengths lengths;
    assert_int_equal(pkv_sim_lengths_parse(text, NULL, &lengths), PKV_OK);
    assert_int_equal(pkv_sim_generate(&lengths, first_seed(5), NULL, reqs, N), PKV_OK);
}

/* ---------------------------------------------------------------- laws of lengths */

/* Mean and variance of one length; `kurtosis` is the fourth central moment over variance^2. */
static void expect_moments(const char *text, bool prompt, double mean, double variance,
                           double kurtosis)
{
    double sum = 0, sum2 = 0;
    for (int r = 0; r < N; r++) {
        const double x = (prompt ? reqs[r].prompt_tokens : reqs[r].output_tokens) - mean;
        sum += x;
        sum2 += x * x;
    }
    char what[80];
    snprintf(what, sizeof(what), "%s: mean of the %s", text, prompt ? "prompt" : "output");
    expect_within(what, mean + sum / N, mean, 5 * sqrt(variance / N));
    snprintf(what, sizeof(what), "%s: variance of the %s", text, prompt ? "prompt" : "output");
    expect_within(what, sum2 / N, variance, 5 * variance * sqrt((kurtosis - 1) / N));
}

static void expect_lognormal(const char *text, bool prompt, double mean, double cv)
{
    const double w = 1 + cv * cv;
    const double kurtosis = pow(w, 4) + 2 * pow(w, 3) + 3 * w * w - 3;
    expect_moments(text, prompt, mean, mean * mean * cv * cv + 1.0 / 12, kurtosis);
}

static void test_lognormal(void **state)
{
    (void)state;
    const char *text = "lognormal:500,0.4,3000,.25";
    draw(text);
    expect_lognormal(text, true, 500, 0.4);
    expect_lognormal(text, false, 3000, 0.25);
}

static void test_gamma(void **state)
{
    (void)state;
    const char *text = "gamma:400,6,5000,12.5";
    draw(text);
    expect_moments(text, true, 400, 400.0 * 400 / 6 + 1.0 / 12, 3 + 6.0 / 6);
    expect_moments(text, false, 5000, 5000.0 * 5000 / 12.5 + 1.0 / 12, 3 + 6 / 12.5);
}

static void test_uniform(void **state)
{
    (void)state;
    const char *text = "uniform:3-12,100-1099";
    draw(text);
    int count[10] = { 0 };
    for (int r = 0; r < N; r++) {
        assert_in_range(reqs[r].prompt_tokens, 3, 12);
        assert_in_range(reqs[r].output_tokens, 100, 1099);
        count[reqs[r].prompt_tokens - 3]++;
    }
    for (int k = 0; k < 10; k++)
        expect_within("uniform: draws of one value", count[k], N / 10.0, 5 * sqrt(N * 0.09));
    expect_moments(text, false, 599.5, (1e6 - 1) / 12, 1.8);
}

static void test_fixed(void **state)
{
    (void)state;
    draw("fixed:17,1073741807");
    for (int r = 0; r < N; r++) {
        assert_int_equal(reqs[r].prompt_tokens, 17);
        assert_int_equal(reqs[r].output_tokens, 1073741807);
    }
}

static void draw_zipf(const char *text)
{
    pkv_sim_lengths lengths;
    assert_int_equal(pkv_sim_lengths_parse(text, NULL, &lengths), PKV_OK);
    assert_int_equal(pkv_sim_generate(&lengths, first_seed(5), NULL, reqs, N_ZIPF), PKV_OK);
}

/* Every probability of a short law, also at the exponents where the integral changes its form. */
static void test_zipf_probabilities(void **state)
{
    (void)state;
    static const char *const exponents[] = { "0", "0.5", "0.999999", "1", "1.3", "4", "100" };
    for (size_t e = 0; e < PKV_ARRAY_LEN(exponents); e++) {
        enum { MAX = 12 };
        char text[60];
        snprintf(text, sizeof(text), "zipf:%s,%d,1,1", exponents[e], MAX);
        draw_zipf(text);
        int count[MAX + 1] = { 0 };
        for (int r = 0; r < N_ZIPF; r++) {
            assert_in_range(reqs[r].prompt_tokens, 1, MAX);
            assert_int_equal(reqs[r].output_tokens, 1);
            count[reqs[r].prompt_tokens]++;
        }
        const double a = strtod(exponents[e], NULL);
        double total = 0;
        for (int k = 1; k <= MAX; k++) total += pow(k, -a);
        for (int k = 1; k <= MAX; k++) {
            const double p = pow(k, -a) / total;
            expect_within(text, count[k], N_ZIPF * p, 5 * sqrt(N_ZIPF * p * (1 - p)) + 1e-9);
        }
    }
}

/* Sum of k^-a over 1 .. n: the first 1000 terms, then Euler and Maclaurin. */
static double harmonic(double a, double n)
{
    double sum = 0;
    if (n <= 1000) {
        for (double k = 1; k <= n; k++) sum += pow(k, -a);
        return sum;
    }
    const double low = 1000;
    const double area = a == 1 ? log(n / low) : (pow(n, 1 - a) - pow(low, 1 - a)) / (1 - a);
    return harmonic(a, low) + area + (pow(n, -a) - pow(low, -a)) / 2 +
           a * (pow(low, -a - 1) - pow(n, -a - 1)) / 12;
}

/* A long tail: the law over 2^29 values at three places. */
static void test_zipf_tail(void **state)
{
    (void)state;
    static const double exponents[] = { 0.8, 1, 1.2, 2 };
    static const double upto[] = { 1, 50, 1000, 1e6 };
    const double max = 536870912;
    for (size_t e = 0; e < PKV_ARRAY_LEN(exponents); e++) {
        char text[60];
        snprintf(text, sizeof(text), "zipf:%g,%.0f,%g,%.0f", exponents[e], max, exponents[e], max);
        draw_zipf(text);
        for (size_t k = 0; k < PKV_ARRAY_LEN(upto); k++) {
            int n = 0;
            for (int r = 0; r < N_ZIPF; r++) n += reqs[r].output_tokens <= upto[k];
            const double p = harmonic(exponents[e], upto[k]) / harmonic(exponents[e], max);
            expect_within(text, n, N_ZIPF * p, 5 * sqrt(N_ZIPF * p * (1 - p)) + 1e-6);
        }
    }
}

/* A pair outside the limits is redrawn as a whole: uniform lengths below a diagonal stay uniform
 * over what is left of the square. */
static void test_limits(void **state)
{
    (void)state;
    pkv_sim_lengths l;
    assert_int_equal(pkv_sim_lengths_parse("uniform:1-100,1-100", NULL, &l), PKV_OK);
    l.max_total = 100;
    l.min_output = 2;
    assert_int_equal(pkv_sim_generate(&l, first_seed(5), NULL, reqs, N), PKV_OK);
    double sum = 0, pairs = 0, sum_i = 0;
    for (int o = 2; o < 100; o++)
        for (int i = 1; i + o <= 100; i++) pairs++, sum_i += i;
    for (int r = 0; r < N; r++) {
        assert_true(reqs[r].output_tokens >= 2);
        assert_true(reqs[r].prompt_tokens + reqs[r].output_tokens <= 100);
        sum += reqs[r].prompt_tokens;
    }
    expect_within("mean prompt of the triangle", sum / N, sum_i / pairs, 5 * 24.0 / 1000);

    l.min_prompt = 99; /* 99 + 2 > 100: nothing is left */
    assert_int_equal(pkv_sim_generate(&l, 1, NULL, reqs, 5), PKV_E_INVALID_ARG);
}

/* ---------------------------------------------------------------- texts */

typedef struct note {
    char text[400];
} note;

static void keep(void *ctx, pkv_log_level level, const char *text)
{
    (void)level;
    snprintf(((note *)ctx)->text, sizeof(((note *)ctx)->text), "%s", text);
}

static void test_parse(void **state)
{
    (void)state;
    pkv_sim_lengths l;
    assert_int_equal(pkv_sim_lengths_parse("lognormal:12.5,0.75,1e,1", NULL, &l),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_lengths_parse("lognormal:12.5,0.75,19.3,0", NULL, &l), PKV_OK);
    assert_true(l.prompt.law == PKV_SIM_LAW_LOGNORMAL && l.prompt.a == 12.5 && l.prompt.b == 0.75);
    assert_true(l.output.law == PKV_SIM_LAW_LOGNORMAL && l.output.a == 19.3 && l.output.b == 0);
    assert_int_equal(l.min_prompt, 1);
    assert_int_equal(l.max_total, 1 << 30);
    assert_int_equal(pkv_sim_lengths_parse("uniform:5-7,1-1", NULL, &l), PKV_OK);
    assert_true(l.prompt.a == 5 && l.prompt.b == 7 && l.output.a == 1 && l.output.b == 1);
    assert_true(l.min_prompt == 5 && l.max_prompt == 7 && l.max_total == 8);
    assert_int_equal(pkv_sim_lengths_parse("sharegpt-like", NULL, &l), PKV_OK);
    assert_true(l.max_prompt == 1024 && l.max_total == 2048 && l.min_output == 4);

    static const struct {
        const char *text, *says;
    } bad[] = {
        { "sharegpt", "sharegpt-like, alpaca-like" },
        { "", "known are" },
        { "fixed", "known are" },
        { "fixed:", "fixed:IN,OUT" },
        { "fixed:5", "fixed:IN,OUT" },
        { "fixed:5,6,7", "fixed:IN,OUT" },
        { "fixed:0,6", "whole numbers from 1" },
        { "fixed:5,6.5", "whole numbers from 1" },
        { "fixed:-5,6", "fixed:IN,OUT" },
        { "fixed: 5,6", "fixed:IN,OUT" },
        { "fixed:1073741824,1", "together at most 2^30" },
        { "fixed:99999999999999999999,1", "fixed:IN,OUT" },
        { "uniform:7-5,1-2", "not above the second" },
        { "uniform:5,7", "uniform:IN1-IN2,OUT1-OUT2" },
        { "uniform:1-2,3-4 ", "uniform:IN1-IN2,OUT1-OUT2" },
        { "lognormal:178,1.3,341", "lognormal:MEAN,CV,MEAN,CV" },
        { "lognormal:0.5,1,5,1", "means are from 1" },
        { "lognormal:nan,1,5,1", "lognormal:MEAN" },
        { "gamma:5,0,5,1", "shapes from 0.015625" },
        { "gamma:5,1..5,5,1", "gamma:MEAN" },
        { "zipf:101,5,1,5", "exponents are from 0 to 100" },
        { "zipf:1,0,1,5", "MAX whole numbers from 1" },
        { "zipf:1,2.5,1,5", "MAX whole numbers from 1" },
    };
    const pkv_sim_lengths before = l;
    for (size_t k = 0; k < PKV_ARRAY_LEN(bad); k++) {
        note said = { "" };
        const pkv_logger log = { keep, &said };
        assert_int_equal(pkv_sim_lengths_parse(bad[k].text, &log, &l), PKV_E_INVALID_ARG);
        if (!strstr(said.text, bad[k].says) || !strstr(said.text, bad[k].text))
            fail_msg("'%s': the message is '%s'", bad[k].text, said.text);
        assert_memory_equal(&l, &before, sizeof(l));
    }
    assert_int_equal(pkv_sim_lengths_parse(NULL, NULL, &l), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_lengths_parse("alpaca-like", NULL, NULL), PKV_E_INVALID_ARG);
}

/* What a caller may have put into the struct. */
static void test_bad_laws(void **state)
{
    (void)state;
    pkv_sim_lengths ok;
    assert_int_equal(pkv_sim_lengths_parse("gamma:50,2,50,2", NULL, &ok), PKV_OK);
#define REFUSES(field, value)                                                                      \
    do {                                                                                           \
        pkv_sim_lengths l = ok;                                                                    \
        l.field = (value);                                                                         \
        assert_int_equal(pkv_sim_generate(&l, 1, NULL, reqs, 3), PKV_E_INVALID_ARG);               \
    } while (0)
    REFUSES(prompt.law, (pkv_sim_law)5);
    REFUSES(prompt.a, NAN);
    REFUSES(prompt.a, INFINITY);
    REFUSES(prompt.b, NAN);
    REFUSES(output.b, 0.001);
    REFUSES(output.a, -5);
    REFUSES(min_prompt, 0);
    REFUSES(min_output, 0);
    REFUSES(max_prompt, 0);
    REFUSES(max_output, INT32_MAX);
    REFUSES(max_total, 0);
#undef REFUSES
    assert_int_equal(pkv_sim_generate(NULL, 1, NULL, reqs, 3), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_generate(&ok, 1, NULL, NULL, 3), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_generate(&ok, 1, NULL, reqs, -1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_generate(&ok, 1, NULL, NULL, 0), PKV_OK);
}

/* ---------------------------------------------------------------- streams */

static const char *const all_laws[] = { "sharegpt-like",       "alpaca-like",
                                        "fixed:5,6",           "uniform:1-9,1-99",
                                        "lognormal:20,1,30,2", "gamma:20,1,30,.5",
                                        "zipf:1.1,1000,0,50" };

/* The first requests do not depend on how many are drawn, lengths not on arrivals nor arrivals on
 * lengths. */
static void test_streams(void **state)
{
    (void)state;
    for (size_t k = 0; k < PKV_ARRAY_LEN(all_laws); k++) {
        pkv_sim_lengths l;
        assert_int_equal(pkv_sim_lengths_parse(all_laws[k], NULL, &l), PKV_OK);
        assert_int_equal(pkv_sim_generate(&l, 3, NULL, reqs, 1000), PKV_OK);
        for (int kind = 0; kind <= PKV_SIM_ARRIVAL_ARTIFACT; kind++) {
            pkv_sim_arrival_config cfg = PKV_SIM_ARRIVAL_CONFIG_INIT;
            cfg.kind = (pkv_sim_arrival)kind;
            cfg.seed = 3;
            memset(others, 0x11, 1000 * sizeof(*others));
            assert_int_equal(pkv_sim_arrivals(&cfg, others, 400), PKV_OK);
            assert_int_equal(pkv_sim_generate(&l, 3, NULL, others, 400), PKV_OK);
            assert_int_equal(pkv_sim_arrivals(&cfg, reqs, 1000), PKV_OK);
            assert_memory_equal(reqs, others, 400 * sizeof(*reqs));
        }
        assert_int_equal(pkv_sim_draw(all_laws[k], 3, 8000000, NULL, others, 500), PKV_OK);
        for (int r = 0; r < 500; r++) {
            assert_int_equal(reqs[r].prompt_tokens, others[r].prompt_tokens);
            assert_int_equal(reqs[r].output_tokens, others[r].output_tokens);
        }
    }
}

static void test_resample(void **state)
{
    (void)state;
    enum { FROM = 7 };
    pkv_sim_request from[FROM];
    int count[FROM] = { 0 };
    for (int k = 0; k < FROM; k++) from[k] = (pkv_sim_request){ 77, 10 + k, 100 - k };
    for (int r = 0; r < N; r++) reqs[r].arrival_ns = r;
    assert_int_equal(pkv_sim_resample(from, FROM, first_seed(5), reqs, N), PKV_OK);
    for (int r = 0; r < N; r++) {
        assert_int_equal(reqs[r].arrival_ns, r);
        assert_in_range(reqs[r].prompt_tokens, 10, 10 + FROM - 1);
        assert_int_equal(reqs[r].prompt_tokens + reqs[r].output_tokens, 110);
        count[reqs[r].prompt_tokens - 10]++;
    }
    for (int k = 0; k < FROM; k++)
        expect_within("draws of one row", count[k], N / 7.0, 5 * sqrt(N * 6.0 / 49));
    for (int r = 0; r < 100; r++) others[r].arrival_ns = r;
    assert_int_equal(pkv_sim_resample(from, FROM, first_seed(5), others, 100), PKV_OK);
    assert_memory_equal(reqs, others, 100 * sizeof(*reqs));
    assert_int_equal(pkv_sim_resample(from, 0, 1, reqs, 5), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_resample(NULL, 1, 1, reqs, 5), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_resample(from, FROM, 1, NULL, 5), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_resample(from, FROM, 1, reqs, -1), PKV_E_INVALID_ARG);
}

/* ---------------------------------------------------------------- arrivals */

static void arrive(pkv_sim_arrival kind, int64_t rate_micro, int64_t burstiness_micro)
{
    pkv_sim_arrival_config cfg = PKV_SIM_ARRIVAL_CONFIG_INIT;
    cfg.kind = kind;
    cfg.rate_micro = rate_micro;
    cfg.burstiness_micro = burstiness_micro;
    cfg.seed = first_seed(5);
    assert_int_equal(pkv_sim_arrivals(&cfg, reqs, N), PKV_OK);
    for (int r = 1; r < N; r++) assert_true(reqs[r].arrival_ns >= reqs[r - 1].arrival_ns);
}

/* Gaps of gamma law with this shape: mean 1 / rate, variance mean^2 / shape, and neighbours do not
 * depend on each other. */
static void expect_gaps(const char *what, double mean_ns, double shape)
{
    double sum = 0, sum2 = 0, next = 0, before = 0;
    int64_t last = 0;
    for (int r = 0; r < N; r++) {
        const double x = (double)(reqs[r].arrival_ns - last) / mean_ns - 1;
        last = reqs[r].arrival_ns;
        sum += x;
        sum2 += x * x;
        next += x * before;
        before = x;
    }
    const double variance = 1 / shape, kurtosis = 3 + 6 / shape;
    expect_within(what, 1 + sum / N, 1, 5 * sqrt(variance / N));
    expect_within(what, sum2 / N, variance, 5 * variance * sqrt((kurtosis - 1) / N));
    expect_within(what, next / N, 0, 5 * variance / sqrt(N));
}

static void test_gaps(void **state)
{
    (void)state;
    arrive(PKV_SIM_ARRIVAL_POISSON, 8000000, -1);
    expect_gaps("poisson", 125e6, 1);
    arrive(PKV_SIM_ARRIVAL_GAMMA, 8000000, 1000000);
    expect_gaps("gamma 1", 125e6, 1);
    arrive(PKV_SIM_ARRIVAL_GAMMA, 400000, 250000);
    expect_gaps("gamma 0.25", 2.5e9, 0.25);
    arrive(PKV_SIM_ARRIVAL_GAMMA, 30000000, 9000000);
    expect_gaps("gamma 9", 1e9 / 30, 9);
    arrive(PKV_SIM_ARRIVAL_GAMMA, 8000000, 15625);
    expect_gaps("gamma 1/64", 125e6, 1.0 / 64);
}

/* Poisson counts per quantum of 10 ms: mean and variance rate / 100, none in e^(-rate/100) of the
 * quanta, and neighbouring quanta do not depend on each other. */
static void test_artifact(void **state)
{
    (void)state;
    static const int64_t rates[] = { 8000000, 150000000 };
    for (int k = 0; k < 2; k++) {
        arrive(PKV_SIM_ARRIVAL_ARTIFACT, rates[k], -1);
        const double lambda = (double)rates[k] / 1e8;
        const int64_t n_quanta = reqs[N - 1].arrival_ns / 10000000; /* without the last one */
        double sum2 = 0, next = 0, before = 0;
        int64_t r = 0, none = 0;
        for (int64_t q = 0; q < n_quanta; q++) {
            const int64_t from = r;
            while (r < N && reqs[r].arrival_ns == q * 10000000) r++;
            const double x = (double)(r - from) - lambda;
            none += r == from;
            sum2 += x * x;
            next += x * before;
            before = x;
        }
        const double n = (double)n_quanta, p = exp(-lambda);
        assert_in_range(r, N - 40, N - 1);
        expect_within("artifact: mean count", (double)r / n, lambda, 5 * sqrt(lambda / n));
        expect_within("artifact: variance", sum2 / n, lambda,
                      5 * sqrt((lambda + 2 * lambda * lambda) / n));
        expect_within("artifact: empty quanta", (double)none / n, p, 5 * sqrt(p * (1 - p) / n));
        expect_within("artifact: neighbours", next / n, 0, 5 * lambda / sqrt(n));
    }
}

/* Multiples of 1 / rate, rounded once: three per second, and bursts of four at seven per second. */
static void test_regular(void **state)
{
    (void)state;
    arrive(PKV_SIM_ARRIVAL_CONSTANT, 3000000, -1);
    for (int64_t r = 0; r < N; r++)
        assert_int_equal(reqs[r].arrival_ns, (r * 1000000000 * 2 + 3) / 6);
    pkv_sim_arrival_config cfg = PKV_SIM_ARRIVAL_CONFIG_INIT;
    cfg.kind = PKV_SIM_ARRIVAL_BURST;
    cfg.rate_micro = 7000000;
    cfg.burst_size = 4;
    assert_int_equal(pkv_sim_arrivals(&cfg, reqs, N), PKV_OK);
    for (int64_t r = 0; r < N; r++)
        assert_int_equal(reqs[r].arrival_ns, (r / 4 * 4 * 1000000000 * 2 + 7) / 14);
    cfg.burst_size = INT32_MAX;
    assert_int_equal(pkv_sim_arrivals(&cfg, reqs, N), PKV_OK);
    assert_int_equal(reqs[N - 1].arrival_ns, 0);
}

static void test_bad_arrivals(void **state)
{
    (void)state;
    const pkv_sim_arrival_config ok = PKV_SIM_ARRIVAL_CONFIG_INIT;
    for (int r = 0; r < 10000; r++) reqs[r].arrival_ns = others[r].arrival_ns = -77;
#define REFUSES(change, status)                                                                    \
    do {                                                                                           \
        pkv_sim_arrival_config cfg = ok;                                                           \
        change;                                                                                    \
        assert_int_equal(pkv_sim_arrivals(&cfg, reqs, 10000), status);                             \
        for (int r = 0; r < 10000; r++) assert_int_equal(reqs[r].arrival_ns, -77);                 \
    } while (0)
    REFUSES(cfg.struct_size = 8, PKV_E_ABI);
    REFUSES(cfg.kind = (pkv_sim_arrival)5, PKV_E_INVALID_ARG);
    REFUSES(cfg.rate_micro = -1, PKV_E_INVALID_ARG);
    REFUSES((cfg.kind = PKV_SIM_ARRIVAL_GAMMA, cfg.burstiness_micro = 15624), PKV_E_INVALID_ARG);
    REFUSES((cfg.kind = PKV_SIM_ARRIVAL_BURST, cfg.burst_size = 0), PKV_E_INVALID_ARG);
    /* One request per 10^6 s: 10^4 of them pass 2^62 ns = 4.6 * 10^9 s. */
    REFUSES((cfg.rate_micro = 1), PKV_E_LIMIT);
    REFUSES((cfg.rate_micro = 1, cfg.kind = PKV_SIM_ARRIVAL_CONSTANT), PKV_E_LIMIT);
    REFUSES((cfg.rate_micro = 1, cfg.kind = PKV_SIM_ARRIVAL_BURST), PKV_E_LIMIT);
    REFUSES((cfg.rate_micro = 1, cfg.kind = PKV_SIM_ARRIVAL_GAMMA), PKV_E_LIMIT);
    REFUSES((cfg.rate_micro = 1, cfg.kind = PKV_SIM_ARRIVAL_ARTIFACT), PKV_E_LIMIT);
#undef REFUSES
    assert_int_equal(pkv_sim_arrivals(NULL, reqs, 1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_arrivals(&ok, NULL, 1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_sim_arrivals(&ok, reqs, -1), PKV_E_INVALID_ARG);
    pkv_sim_arrival_config cfg = ok; /* the last one that fits: 4611 gaps of 10^6 s */
    cfg.rate_micro = 1;
    cfg.kind = PKV_SIM_ARRIVAL_CONSTANT;
    assert_int_equal(pkv_sim_arrivals(&cfg, reqs, 4612), PKV_OK);
    assert_int_equal(pkv_sim_arrivals(&cfg, reqs, 4613), PKV_E_LIMIT);
    cfg.rate_micro = 0;
    cfg.kind = PKV_SIM_ARRIVAL_BURST;
    assert_int_equal(pkv_sim_arrivals(&cfg, reqs, N), PKV_OK);
    for (int r = 0; r < N; r++) assert_int_equal(reqs[r].arrival_ns, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lognormal),
        cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_fixed),
        cmocka_unit_test(test_zipf_probabilities),
        cmocka_unit_test(test_zipf_tail),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_parse),
        cmocka_unit_test(test_bad_laws),
        cmocka_unit_test(test_streams),
        cmocka_unit_test(test_resample),
        cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_artifact),
        cmocka_unit_test(test_regular),
        cmocka_unit_test(test_bad_arrivals),
    };
    return cmocka_run_group_tests_name("gen", tests, NULL, NULL);
}
