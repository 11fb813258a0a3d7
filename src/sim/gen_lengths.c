/* Lengths drawn by law. Prompts, outputs and arrivals have streams of their own.
 *
 * sharegpt-like: the paper's ShareGPT set has means 161.31 and 337.99, and its Fig. 2 implies
 * E[o^2]/E[o] of about 595 with prompt and output independent. Means alone do not suffice: an
 * exponential output of the same mean gives 676, a constant 338. */
#include "common/detmath.h"
#include "sim/gen.h"

#include <stdio.h>
#include <string.h>

#define MAX_REDRAWS 10000

static const pkv_sim_lengths sharegpt_like = {
    { PKV_SIM_LAW_LOGNORMAL, 178, 1.3 }, { PKV_SIM_LAW_GAMMA, 341, 1.3 }, 4, 1024, 4, 2044, 2048
};
static const pkv_sim_lengths alpaca_like = {
    { PKV_SIM_LAW_LOGNORMAL, 19.3, 0.6 }, { PKV_SIM_LAW_GAMMA, 58.45, 1 }, 4, 400, 4, 2044, 2048
};

pkv_status pkv_sim_lengths_parse(const char *text, const pkv_logger *log, pkv_sim_lengths *out)
{
    if (!text || !out) return PKV_E_INVALID_ARG;
    int i, o, end = 0;
    if (strcmp(text, "sharegpt-like") == 0) *out = sharegpt_like;
    else if (strcmp(text, "alpaca-like") == 0) *out = alpaca_like;
    else if (sscanf(text, "fixed:%d,%d%n", &i, &o, &end) == 2 && text[end] == '\0' && i >= 1 &&
             o >= 1)
        *out = (pkv_sim_lengths){
            { PKV_SIM_LAW_FIXED, i, 0 }, { PKV_SIM_LAW_FIXED, o, 0 }, i, i, o, o, i + o
        };
    else
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "lengths '%.40s': sharegpt-like, alpaca-like or fixed:IN,OUT", text);
    return PKV_OK;
}

/* To the nearest integer, halves up; x is positive. Capped far above any limit. */
static int64_t rounded(double x)
{
    return x < 1e9 ? (int64_t)(x + 0.5) : 1000000000;
}

static int64_t draw_length(const pkv_sim_length *l, pkv__rng *rng)
{
    if (l->law == PKV_SIM_LAW_GAMMA) return rounded(l->a / l->b * pkv__draw_gamma(rng, l->b));
    if (l->law != PKV_SIM_LAW_LOGNORMAL) return rounded(l->a);
    const double var = pkv__det_log(1 + l->b * l->b);
    const double mu = pkv__det_log(l->a) - var / 2;
    return rounded(pkv__det_exp(mu + __builtin_sqrt(var) * pkv__draw_normal(rng)));
}

static bool draw_pair(const pkv_sim_lengths *l, pkv__rng *prompt, pkv__rng *output,
                      pkv_sim_request *req)
{
    for (int k = 0; k < MAX_REDRAWS; k++) {
        const int64_t i = draw_length(&l->prompt, prompt), o = draw_length(&l->output, output);
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
    pkv__rng prompt, output;
    pkv__rng_init(&prompt, seed, PKV__STREAM_PROMPT, 0);
    pkv__rng_init(&output, seed, PKV__STREAM_OUTPUT, 0);
    for (int64_t r = 0; r < n; r++)
        if (!draw_pair(lengths, &prompt, &output, &reqs[r]))
            return pkv__refuse(log, PKV_E_INVALID_ARG, "lengths: the limits reject every pair");
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
