/* Lengths from a law or a file, scaled; arrivals; prompts from a seed. */
#include "serve_load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CONTEXT (1 << 20)

static void keep_text(void *ctx, pkv_log_level level, const char *text)
{
    struct bench_error *err = ctx;
    if (level == PKV_LOG_ERROR) snprintf(err->text, sizeof(err->text), "--lengths: %s", text);
}

static int64_t read_stream(void *ctx, void *buf, size_t cap)
{
    FILE *f = ctx;
    const size_t n = fread(buf, 1, cap, f);
    return n > 0 || !ferror(f) ? (int64_t)n : -1;
}

/* Rows of a file, drawn with replacement; *longest is that of the file. */
static bool draw_from_file(const struct serve_spec *spec, FILE *f, pkv_sim_request *reqs,
                           int32_t *longest, struct bench_error *err)
{
    pkv_sim_trace_config cfg = PKV_SIM_TRACE_CONFIG_INIT;
    pkv_sim_trace trace = PKV_SIM_TRACE_INIT;
    cfg.log = (pkv_logger){ keep_text, err };
    pkv_status status = pkv_sim_trace_read(read_stream, f, &cfg, &trace);
    if (status != PKV_OK) {
        err->code = BENCH_USAGE;
        return false;
    }
    for (int64_t i = 0; i < trace.n_reqs; i++) {
        const int64_t n = (int64_t)trace.reqs[i].prompt_tokens + trace.reqs[i].output_tokens;
        if (n > *longest && n <= INT32_MAX) *longest = (int32_t)n;
    }
    status = pkv_sim_resample(trace.reqs, trace.n_reqs, spec->seed, reqs, spec->n_requests);
    pkv_sim_trace_free(&trace);
    return status == PKV_OK || bench_fail(err, BENCH_USAGE, "--lengths: cannot be drawn from");
}

static bool draw_lengths(const struct serve_spec *spec, pkv_sim_request *reqs, int32_t *longest,
                         struct bench_error *err)
{
    const pkv_logger log = { keep_text, err };
    pkv_sim_lengths lengths;
    FILE *f = fopen(spec->lengths, "rb");
    if (f) {
        const bool ok = draw_from_file(spec, f, reqs, longest, err);
        fclose(f);
        return ok;
    }
    if (strchr(spec->lengths, '/') || strchr(spec->lengths, '.'))
        if (!strchr(spec->lengths, ':'))
            return bench_fail(err, BENCH_USAGE, "--lengths: cannot read %.200s: %s", spec->lengths,
                              strerror(errno));
    if (pkv_sim_lengths_parse(spec->lengths, &log, &lengths) != PKV_OK ||
        pkv_sim_generate(&lengths, spec->seed, &log, reqs, spec->n_requests) != PKV_OK) {
        err->code = BENCH_USAGE;
        return false;
    }
    *longest = lengths.max_total;
    return true;
}

/* Rounded to the nearest, at least one. */
static int32_t scaled(int32_t n, int32_t scale)
{
    const int32_t s = (int32_t)(((int64_t)n + scale / 2) / scale);
    return s > 1 ? s : 1;
}

/* Scale, put the prefix in front, keep within the context. */
static void shape_requests(struct serve_load *load)
{
    const struct serve_spec *spec = &load->spec;
    for (int32_t i = 0; i < load->n; i++) {
        pkv_sim_request *r = &load->reqs[i];
        int32_t prompt = scaled(r->prompt_tokens, spec->scale) + spec->n_prefix;
        int32_t output = scaled(r->output_tokens, spec->scale);
        if (prompt > load->context - 1) prompt = load->context - 1;
        if (output > load->context - prompt) output = load->context - prompt;
        r->prompt_tokens = prompt;
        r->output_tokens = output;
        load->n_prompt += prompt;
        load->n_output += (int64_t)output * spec->n_samples;
    }
}

bool serve_load_arrive(struct serve_load *load, double rate, struct bench_error *err)
{
    pkv_sim_arrival_config cfg = PKV_SIM_ARRIVAL_CONFIG_INIT;
    load->spec.rate = rate;
    cfg.rate_micro = (int64_t)(rate * 1e6 + 0.5);
    cfg.seed = load->spec.seed;
    return pkv_sim_arrivals(&cfg, load->reqs, load->n) == PKV_OK ||
           bench_fail(err, BENCH_USAGE, "--rate %g: arrivals would take for ever", rate);
}

bool serve_load_make(const struct serve_spec *spec, struct serve_load *out, struct bench_error *err)
{
    struct serve_load load = { .spec = *spec, .n = spec->n_requests };
    int32_t longest = 0;
    load.reqs = bench_calloc((size_t)spec->n_requests, sizeof(*load.reqs), err);
    if (!load.reqs) return false;
    bool ok = draw_lengths(spec, load.reqs, &longest, err);
    if (ok) {
        const int32_t fits = scaled(longest, spec->scale) + spec->n_prefix;
        load.context = spec->context ? spec->context : (fits + 15) / 16 * 16;
        ok = load.context <= MAX_CONTEXT ||
             bench_fail(err, BENCH_USAGE,
                        "--lengths: up to %d tokens; --scale %d makes them shorter, --max-context "
                        "cuts them",
                        fits, fits / 2048 * spec->scale);
    }
    if (ok) {
        shape_requests(&load);
        ok = serve_load_arrive(&load, spec->rate, err);
    }
    if (ok) *out = load;
    else free(load.reqs);
    return ok;
}

void serve_load_free(struct serve_load *load)
{
    free(load->reqs);
    memset(load, 0, sizeof(*load));
}

void serve_load_prompt(const struct serve_load *load, int32_t idx, int32_t vocab, int32_t *ids)
{
    struct bench_rng all = { bench_mix(load->spec.seed) };
    struct bench_rng own = { bench_mix(load->spec.seed + 1 +
                                       (uint64_t)(load->spec.same_prompt ? 0 : idx)) };
    for (int32_t i = 0; i < load->reqs[idx].prompt_tokens; i++)
        ids[i] = (int32_t)bench_rng_below(i < load->spec.n_prefix ? &all : &own, (uint64_t)vocab);
}

int32_t serve_load_longest_prompt(const struct serve_load *load)
{
    int32_t longest = 0;
    for (int32_t i = 0; i < load->n; i++)
        if (load->reqs[i].prompt_tokens > longest) longest = load->reqs[i].prompt_tokens;
    return longest;
}
