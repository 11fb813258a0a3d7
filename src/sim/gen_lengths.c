/* The calibrated generator: lengths and arrivals. Prompts, outputs and arrivals have streams of
 * their own.
 *
 * sharegpt-like: the paper's ShareGPT set has means 161.31 and 337.99, and its Fig. 2 implies
 * E[o^2]/E[o] of about 595 with prompt and output independent. Means alone do not suffice: an
 * exponential output of the same mean gives 676, a constant 338. */
#include "common/detmath.h"
#include "sim/sim_internal.h"

enum { STREAM_PROMPT = 1, STREAM_OUTPUT = 2, STREAM_ARRIVAL = 3 };

#define LATEST_NS (INT64_C(1) << 62)
#define NS_PER_MEGASECOND 1e15

typedef struct length_law {
    double prompt_mu, prompt_sigma;    /* lognormal */
    double output_shape, output_scale; /* gamma; shape 1 is the exponential */
    int32_t max_prompt, max_total;     /* both lengths are at least 4 */
} length_law;

static const length_law laws[] = {
    [PKV_SIM_SHAREGPT_LIKE] = { 4.68701, 0.99476, 1.3, 262.308, 1024, 2048 },
    [PKV_SIM_ALPACA_LIKE] = { 2.80636, 0.55451, 1.0, 58.45, 400, 2048 },
};
#define MIN_LENGTH 4

/* To the nearest integer, halves up; x is positive. Capped far above any limit. */
static int64_t rounded(double x)
{
    return x < 1e9 ? (int64_t)(x + 0.5) : 1000000000;
}

static void draw_lengths(const length_law *law, pkv__rng *prompt, pkv__rng *output,
                         pkv_sim_request *req)
{
    for (;;) {
        const double i =
            pkv__det_exp(law->prompt_mu + law->prompt_sigma * pkv__draw_normal(prompt));
        const double o = law->output_scale * pkv__draw_gamma(output, law->output_shape);
        const int64_t ni = rounded(i), no = rounded(o);
        if (ni < MIN_LENGTH || no < MIN_LENGTH || ni > law->max_prompt || ni + no > law->max_total)
            continue;
        req->prompt_tokens = (int32_t)ni;
        req->output_tokens = (int32_t)no;
        return;
    }
}

pkv_status pkv_sim_arrivals(uint64_t seed, int64_t rate_micro, pkv_sim_request *reqs, int64_t n)
{
    if (n < 0 || (n > 0 && !reqs) || rate_micro < 0) return PKV_E_INVALID_ARG;
    pkv__rng rng;
    pkv__rng_init(&rng, seed, STREAM_ARRIVAL, 0);
    const double mean_ns = rate_micro > 0 ? NS_PER_MEGASECOND / (double)rate_micro : 0;
    /* Refuse before anything is written: run through the gaps once. */
    for (int pass = 0; pass < 2; pass++) {
        pkv__rng draw = rng;
        int64_t now_ns = 0;
        for (int64_t r = 0; r < n; r++) {
            if (rate_micro > 0) {
                const double gap = mean_ns * pkv__draw_exponential(&draw) + 0.5;
                if (gap > 0x1p61 || now_ns > LATEST_NS - (int64_t)gap) return PKV_E_LIMIT;
                now_ns += (int64_t)gap;
            }
            if (pass == 1) reqs[r].arrival_ns = now_ns;
        }
    }
    return PKV_OK;
}

pkv_status pkv_sim_generate(const pkv_sim_gen_config *cfg, pkv_sim_request *reqs, int64_t n)
{
    if (!cfg || n < 0 || (n > 0 && !reqs)) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    const bool fixed = cfg->lengths == PKV_SIM_FIXED;
    if (!fixed && (unsigned)cfg->lengths >= PKV_ARRAY_LEN(laws))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "unknown kind of lengths %d",
                           (int)cfg->lengths);
    if (fixed && (cfg->fixed_prompt < 1 || cfg->fixed_output < 1))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "fixed lengths below 1");
    const pkv_status status = pkv_sim_arrivals(cfg->seed, cfg->rate_micro, reqs, n);
    if (status != PKV_OK)
        return pkv__refuse(&cfg->log, status,
                           "arrivals: a negative rate, or one so low that they "
                           "pass 2^62 ns");
    pkv__rng prompt, output;
    pkv__rng_init(&prompt, cfg->seed, STREAM_PROMPT, 0);
    pkv__rng_init(&output, cfg->seed, STREAM_OUTPUT, 0);
    for (int64_t r = 0; r < n; r++) {
        if (fixed) {
            reqs[r].prompt_tokens = cfg->fixed_prompt;
            reqs[r].output_tokens = cfg->fixed_output;
        } else {
            draw_lengths(&laws[cfg->lengths], &prompt, &output, &reqs[r]);
        }
    }
    return PKV_OK;
}
