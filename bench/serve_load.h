/* What a server is asked for: lengths, arrivals and prompts, the same for every side of a case.
 *
 *   law of lengths or file --drawn, divided by `scale`--> requests --seed--> ids of the prompts
 *
 * Outputs have the drawn length exactly: random weights know no end. */
#ifndef PKV_SERVE_LOAD_H
#define PKV_SERVE_LOAD_H

#include "bench_base.h"

#include "pagedkv/sim_input.h"

struct serve_spec {
    const char *lengths; /* a law of pkv_sim_lengths_parse, or a file that holds lengths */
    int32_t scale;       /* lengths and context are divided by it, so that a CPU gets through */
    int32_t n_requests;
    int32_t n_prefix;    /* tokens that all prompts begin with, in front of the drawn ones */
    int32_t n_samples;   /* of each request, >= 1 */
    double rate;         /* Poisson arrivals a second; 0: all at once */
    int32_t concurrency; /* a closed loop: so many requests at a time; 0: none */
    int32_t context;     /* longest prompt + output; 0: what the lengths allow, scaled */
    bool same_prompt;    /* all requests have that of the first */
    uint64_t seed;
};

struct serve_load {
    struct serve_spec spec;
    pkv_sim_request *reqs; /* [n], lengths scaled, prefix included; arrivals from 0 */
    int32_t n, context;
    int64_t n_prompt, n_output; /* tokens of all; output over all samples */
};

/* False: `err` says what is wrong with the lengths or the file. */
bool serve_load_make(const struct serve_spec *spec, struct serve_load *out,
                     struct bench_error *err);
void serve_load_free(struct serve_load *load); /* a zeroed one is fine */

/* Other arrivals for the same requests: `rate` a second. */
bool serve_load_arrive(struct serve_load *load, double rate, struct bench_error *err);

/* The ids of request idx, [reqs[idx].prompt_tokens]. */
void serve_load_prompt(const struct serve_load *load, int32_t idx, int32_t vocab, int32_t *ids);
int32_t serve_load_longest_prompt(const struct serve_load *load);

#endif
