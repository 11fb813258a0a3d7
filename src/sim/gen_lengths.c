/* Pairs of lengths drawn by law. Prompts, outputs and arrivals have streams of their own.
 *
 * sharegpt-like: the paper's ShareGPT set has means 161.31 and 337.99, and its Fig. 2 implies
 * E[o^2]/E[o] of about 595 with prompt and output independent. Means alone do not suffice: an
 * exponential output of the same mean gives 676, a constant 338. */
#include "common/detmath.h"
#include "sim/gen.h"

#include <string.h>

#define MAX_REDRAWS 10000

static const pkv_sim_lengths sharegpt_like = {
    { PKV_SIM_LAW_LOGNORMAL, 178, 1.3 }, { PKV_SIM_LAW_GAMMA, 341, 1.3 }, 4, 1024, 4, 2044, 2048
};
static const pkv_sim_lengths alpaca_like = {
    { PKV_SIM_LAW_LOGNORMAL, 19.3, 0.6 }, { PKV_SIM_LAW_GAMMA, 58.45, 1 }, 4, 400, 4, 2044, 2048
};

/* ---------------------------------------------------------------- texts */

/* Decimal digits with at most one point, as the nearest double: at most 15 digits count, so that
 * both the digits and the power of ten are exact. Moves *text behind them; false: no number. */
static bool read_number(const char **text, double *out)
{
    int64_t digits = 0, power = 1;
    int n = 0;
    bool point = false;
    const char *p = *text;
    for (; (*p >= '0' && *p <= '9') || (*p == '.' && !point); p++) {
        if (*p == '.') {
            point = true;
            continue;
        }
        if (++n > 15) return false;
        digits = 10 * digits + (*p - '0');
        if (point) power *= 10;
    }
    if (n == 0) return false;
    *out = (double)digits / (double)power;
    *text = p;
    return true;
}

/* Four (a, b, a, b) or two (a, a) numbers with `inner` between those of a pair and a comma between
 * the pairs, and nothing behind them. */
static bool read_pairs(const char *text, char inner, pkv_sim_lengths *out)
{
    double *const places[] = { &out->prompt.a, &out->prompt.b, &out->output.a, &out->output.b };
    for (int k = 0; k < 4; k++) {
        if (inner == '\0' && k % 2 == 1) continue;
        const char before = k == 0 ? '\0' : k == 2 ? ',' : inner;
        if (before != '\0' && *text++ != before) return false;
        if (!read_number(&text, places[k])) return false;
    }
    return *text == '\0';
}

static const struct law_text {
    const char *name; /* with the colon */
    pkv_sim_law law;
    char inner; /* between the two numbers of a length, '\0': there is one */
    const char *form, *ranges;
} law_texts[] = {
    { "fixed:", PKV_SIM_LAW_FIXED, '\0', "fixed:IN,OUT",
      "both are whole numbers from 1 to 2^30, together at most 2^30" },
    { "uniform:", PKV_SIM_LAW_UNIFORM, '-', "uniform:IN1-IN2,OUT1-OUT2",
      "all are whole numbers from 1 to 2^30, the first of a pair not above the second, IN2 + OUT2 "
      "at most 2^30" },
    { "lognormal:", PKV_SIM_LAW_LOGNORMAL, ',', "lognormal:MEAN,CV,MEAN,CV",
      "means are from 1 to 2^30, coefficients of variation from 0 to 1000" },
    { "gamma:", PKV_SIM_LAW_GAMMA, ',', "gamma:MEAN,SHAPE,MEAN,SHAPE",
      "means are from 1 to 2^30, shapes from 0.015625 to 1000000 (1: exponential)" },
    { "zipf:", PKV_SIM_LAW_ZIPF, ',', "zipf:A,MAX,A,MAX",
      "exponents are from 0 to 100, MAX whole numbers from 1, together at most 2^30" },
};

/* The limits that follow from a law: what it can give, and at most 2^30 tokens in all. */
static bool set_limits(pkv_sim_lengths *l)
{
    l->min_prompt = l->min_output = 1;
    l->max_prompt = l->max_output = l->max_total = PKV__MAX_LENGTH;
    if (!pkv__length_valid(&l->prompt) || !pkv__length_valid(&l->output)) return false;
    const bool bounded = l->prompt.law == PKV_SIM_LAW_UNIFORM || l->prompt.law == PKV_SIM_LAW_ZIPF;
    if (l->prompt.law == PKV_SIM_LAW_FIXED || l->prompt.law == PKV_SIM_LAW_UNIFORM) {
        l->min_prompt = (int32_t)l->prompt.a;
        l->min_output = (int32_t)l->output.a;
    }
    if (l->prompt.law == PKV_SIM_LAW_FIXED || bounded) {
        l->max_prompt = (int32_t)(bounded ? l->prompt.b : l->prompt.a);
        l->max_output = (int32_t)(bounded ? l->output.b : l->output.a);
        if (l->max_prompt > PKV__MAX_LENGTH - l->max_output) return false;
        l->max_total = l->max_prompt + l->max_output;
    }
    return true;
}

static pkv_status parse_law(const struct law_text *t, const char *text, const pkv_logger *log,
                            pkv_sim_lengths *out)
{
    pkv_sim_lengths l = { .prompt.law = t->law, .output.law = t->law };
    if (!read_pairs(text + strlen(t->name), t->inner, &l))
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "lengths '%.60s': %s is expected, in numbers like 12 or 1.3", text,
                           t->form);
    if (!set_limits(&l))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "lengths '%.60s': in %s %s", text, t->form,
                           t->ranges);
    *out = l;
    return PKV_OK;
}

pkv_status pkv_sim_lengths_parse(const char *text, const pkv_logger *log, pkv_sim_lengths *out)
{
    if (!text || !out) return PKV_E_INVALID_ARG;
    if (strcmp(text, "sharegpt-like") == 0) {
        *out = sharegpt_like;
        return PKV_OK;
    }
    if (strcmp(text, "alpaca-like") == 0) {
        *out = alpaca_like;
        return PKV_OK;
    }
    for (size_t k = 0; k < PKV_ARRAY_LEN(law_texts); k++)
        if (strncmp(text, law_texts[k].name, strlen(law_texts[k].name)) == 0)
            return parse_law(&law_texts[k], text, log, out);
    return pkv__refuse(log, PKV_E_INVALID_ARG,
                       "lengths '%.60s': known are sharegpt-like, alpaca-like, fixed:IN,OUT, "
                       "uniform:IN1-IN2,OUT1-OUT2, lognormal:MEAN,CV,MEAN,CV, "
                       "gamma:MEAN,SHAPE,MEAN,SHAPE and zipf:A,MAX,A,MAX",
                       text);
}

/* ---------------------------------------------------------------- draws */

static pkv_status check_lengths(const pkv_sim_lengths *l, const pkv_logger *log)
{
    if (!pkv__length_valid(&l->prompt) || !pkv__length_valid(&l->output))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "lengths: a law with a parameter out of range");
    if (l->min_prompt < 1 || l->min_prompt > l->max_prompt || l->max_prompt > PKV__MAX_LENGTH ||
        l->min_output < 1 || l->min_output > l->max_output || l->max_output > PKV__MAX_LENGTH ||
        l->max_total < 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "lengths: limits are 1 <= min <= max <= 2^30, and max_total >= 1");
    return PKV_OK;
}

/* A pair outside the limits is redrawn as a whole: the limits then cut the joint law. */
static bool draw_pair(const pkv_sim_lengths *l, const pkv__law laws[2], pkv__rng rng[2],
                      pkv_sim_request *req)
{
    for (int k = 0; k < MAX_REDRAWS; k++) {
        const int64_t i = pkv__law_draw(&laws[0], &rng[0]);
        const int64_t o = pkv__law_draw(&laws[1], &rng[1]);
        if (i < l->min_prompt || i > l->max_prompt || o < l->min_output || o > l->max_output ||
            i + o > l->max_total)
            continue;
        req->prompt_tokens = (int32_t)i;
        req->output_tokens = (int32_t)o;
        return true;
    }
    return false;
}

pkv_status pkv_sim_generate(const pkv_sim_lengths *lengths, uint64_t seed, const pkv_logger *log,
                            pkv_sim_request *reqs, int64_t n)
{
    if (!lengths || n < 0 || (n > 0 && !reqs)) return PKV_E_INVALID_ARG;
    const pkv_status status = check_lengths(lengths, log);
    if (status != PKV_OK) return status;
    pkv__law laws[2];
    pkv__rng rng[2];
    pkv__law_init(&laws[0], &lengths->prompt);
    pkv__law_init(&laws[1], &lengths->output);
    pkv__rng_init(&rng[0], seed, PKV__STREAM_PROMPT, 0);
    pkv__rng_init(&rng[1], seed, PKV__STREAM_OUTPUT, 0);
    for (int64_t r = 0; r < n; r++)
        if (!draw_pair(lengths, laws, rng, &reqs[r]))
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "lengths: the limits reject %d pairs in a row; wider limits or "
                               "other means are needed",
                               MAX_REDRAWS);
    return PKV_OK;
}

pkv_status pkv_sim_draw(const char *lengths, uint64_t seed, int64_t rate_micro,
                        const pkv_logger *log, pkv_sim_request *reqs, int64_t n)
{
    pkv_sim_lengths law;
    pkv_sim_arrival_config arrivals = PKV_SIM_ARRIVAL_CONFIG_INIT;
    pkv_status status = pkv_sim_lengths_parse(lengths, log, &law);
    if (status != PKV_OK) return status;
    arrivals.rate_micro = rate_micro;
    arrivals.seed = seed;
    if (log) arrivals.log = *log;
    status = pkv_sim_arrivals(&arrivals, reqs, n);
    return status == PKV_OK ? pkv_sim_generate(&law, seed, log, reqs, n) : status;
}

pkv_status pkv_sim_resample(const pkv_sim_request *from, int64_t n_from, uint64_t seed,
                            pkv_sim_request *reqs, int64_t n)
{
    if (!from || n_from < 1 || n_from > INT32_MAX || n < 0 || (n > 0 && !reqs))
        return PKV_E_INVALID_ARG;
    pkv__rng rng;
    pkv__rng_init(&rng, seed, PKV__STREAM_PROMPT, 0);
    for (int64_t r = 0; r < n; r++) {
        const pkv_sim_request *one = &from[pkv__rng_below(&rng, (uint32_t)n_from)];
        reqs[r].prompt_tokens = one->prompt_tokens;
        reqs[r].output_tokens = one->output_tokens;
    }
    return PKV_OK;
}
