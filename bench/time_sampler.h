/* The sampler: times all sides of a case in one interleaved loop.
 *
 *   warm-up   every side: at least warmup_calls calls and warmup_ns, not in the statistics
 *   calibrate repeats of a side = calls that fill min_sample_ns (1 for a side with `before`)
 *   rounds    A B C, C B A, A B C, ..: drift of clock, heat and neighbours hits all sides alike
 *
 * A round is whole or not at all, so the i-th samples of all sides belong together. */
#ifndef PKV_TIME_SAMPLER_H
#define PKV_TIME_SAMPLER_H

#include "bench_base.h"

struct sampler_side {
    void (*call)(void *ctx);   /* what is timed */
    void (*before)(void *ctx); /* untimed, before every call; NULL: calls may follow each other */
    void *ctx;
};

struct sampler_opts {
    int32_t n_samples;   /* rounds wanted, >= 1 */
    int32_t min_samples; /* rounds made however long they take, >= 1 */
    int32_t warmup_calls;
    uint64_t warmup_ns;
    uint64_t min_sample_ns;
    uint64_t max_time_ns; /* of the rounds together */
};
#define SAMPLER_OPTS_INIT                                                                          \
    {                                                                                              \
        20, 3, 3, 50000000u, 1000000u, 10000000000u                                                \
    }

struct sampler_result {
    int32_t n_sides, n_samples;
    double *samples_ns; /* [n_sides][opts.n_samples], ns per call */
    int64_t *repeats;   /* [n_sides] calls per sample */
};

/* Samples of side `i`. */
const double *sampler_samples(const struct sampler_result *result, int32_t i);

bool sampler_run(const struct bench_clock *clock, const struct sampler_opts *opts,
                 const struct sampler_side *sides, int32_t n_sides, struct sampler_result *out,
                 struct bench_error *err);
void sampler_free(struct sampler_result *result);

#endif
