/* One engine serves one load from beginning to end, in real time. */
#ifndef PKV_SERVE_PLAY_H
#define PKV_SERVE_PLAY_H

#include "serve_load.h"

#include "pagedkv/engine.h"

/* Raw delays, in milliseconds. */
struct serve_delays {
    int32_t n, cap;
    double *ms;
};
void serve_delays_free(struct serve_delays *d); /* a zeroed one is fine */
/* Append those of `from`. False: no memory. */
bool serve_delays_join(struct serve_delays *d, const struct serve_delays *from);
/* Quantile p; NAN where there is none. Sorts them. */
double serve_delays_at(struct serve_delays *d, double p);

struct serve_result {
    int32_t *ids; /* all tokens of output, by request, sample, position; owned */
    int64_t n_ids;
    double wall_s;      /* from the first arrival to the last token */
    double mean_queued; /* sequences per step over the steps after which requests still waited */
    int32_t n_full;     /* those steps */
    int64_t n_good;     /* requests within both limits */
    struct serve_delays ttft, tpot, itl;
    pkv_engine_stats stats;
};

/* Play. The engine's clock is `clock`. False: `err` says why: BENCH_SKIP where the engine cannot be
 * made with this memory, BENCH_USAGE where a request can never fit, BENCH_WRONG where the engine
 * failed or does not add up afterwards. */
bool serve_play(const struct serve_load *load, const pkv_engine_config *cfg,
                const struct bench_clock *clock, struct serve_result *out, struct bench_error *err);
void serve_result_free(struct serve_result *r); /* a zeroed one is fine */

#endif
