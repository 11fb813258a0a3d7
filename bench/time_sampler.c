/* Warm-up, calibration and interleaved rounds. */
#include "time_sampler.h"

#include <stdlib.h>
#include <string.h>

#define MAX_REPEATS 1000000

/* A measured time of 0 (below the clock's resolution) would make ratios infinite. */
#define SMALLEST_NS 0.5

static uint64_t now(const struct bench_clock *clock)
{
    return clock->now_ns(clock->ctx);
}

/* The timed part of one sample, in ns. */
static uint64_t time_calls(const struct bench_clock *clock, const struct sampler_side *side,
                           int64_t repeats)
{
    if (side->before) side->before(side->ctx);
    const uint64_t start = now(clock);
    for (int64_t i = 0; i < repeats; i++) side->call(side->ctx);
    return now(clock) - start;
}

/* Warm up and return how many calls make a sample. Growing groups of calls, so that reading the
 * clock costs nothing beside calls that are shorter than that. */
static int64_t warm_up(const struct bench_clock *clock, const struct sampler_opts *opts,
                       const struct sampler_side *side)
{
    uint64_t total = 0, last = 0;
    int64_t group = 1, calls = 0;
    for (;;) {
        last = time_calls(clock, side, group);
        total += last;
        calls += group;
        if (total >= opts->warmup_ns && calls >= opts->warmup_calls) break;
        if (side->before && calls >= opts->warmup_calls) break; /* untimed part may dominate */
        if (!side->before && last < opts->warmup_ns / 8 && group < MAX_REPEATS) group *= 2;
    }
    if (side->before) return 1;
    const double per_call = (double)last / (double)group;
    const double wanted = (double)opts->min_sample_ns / (per_call > 0 ? per_call : SMALLEST_NS);
    if (wanted >= MAX_REPEATS) return MAX_REPEATS;
    return wanted <= 1 ? 1 : (int64_t)(wanted + 0.999);
}

static void run_round(const struct bench_clock *clock, const struct sampler_side *sides,
                      struct sampler_result *r, int32_t capacity)
{
    const bool backward = r->n_samples % 2 == 1;
    for (int32_t i = 0; i < r->n_sides; i++) {
        const int32_t s = backward ? r->n_sides - 1 - i : i;
        const double ns = (double)time_calls(clock, &sides[s], r->repeats[s]);
        r->samples_ns[s * capacity + r->n_samples] =
            (ns > 0 ? ns : SMALLEST_NS) / (double)r->repeats[s];
    }
    r->n_samples++;
}

/* Samples were stored with room for all rounds; close the gaps when fewer were made. */
static void pack(struct sampler_result *r, int32_t capacity)
{
    for (int32_t s = 1; s < r->n_sides; s++)
        memmove(r->samples_ns + (int64_t)s * r->n_samples, r->samples_ns + (int64_t)s * capacity,
                (size_t)r->n_samples * sizeof(*r->samples_ns));
}

const double *sampler_samples(const struct sampler_result *result, int32_t i)
{
    return result->samples_ns + (int64_t)i * result->n_samples;
}

bool sampler_run(const struct bench_clock *clock, const struct sampler_opts *opts,
                 const struct sampler_side *sides, int32_t n_sides, struct sampler_result *out,
                 struct bench_error *err)
{
    struct sampler_result r = { n_sides, 0, NULL, NULL };
    r.samples_ns = bench_calloc((size_t)n_sides * (size_t)opts->n_samples, sizeof(double), err);
    r.repeats = bench_calloc((size_t)n_sides, sizeof(*r.repeats), err);
    if (!r.samples_ns || !r.repeats) {
        sampler_free(&r);
        return false;
    }
    for (int32_t s = 0; s < n_sides; s++) r.repeats[s] = warm_up(clock, opts, &sides[s]);
    const uint64_t start = now(clock);
    while (r.n_samples < opts->n_samples) {
        if (r.n_samples >= opts->min_samples && now(clock) - start >= opts->max_time_ns) break;
        run_round(clock, sides, &r, opts->n_samples);
    }
    pack(&r, opts->n_samples);
    *out = r;
    return true;
}

void sampler_free(struct sampler_result *result)
{
    free(result->samples_ns);
    free(result->repeats);
    memset(result, 0, sizeof(*result));
}
