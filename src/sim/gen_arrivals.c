/* Arrivals by law.
 *
 *   poisson, gamma    gaps drawn one by one, rounded to whole ns, and summed
 *   constant, burst   k / rate, rounded once: no error adds up
 *   artifact          a Poisson process cut into quanta of 10 ms: the counts of its quanta are
 *                     independent and Poisson, and it costs O(1) per request at any rate */
#include "common/detmath.h"
#include "sim/gen.h"

#define LATEST_NS (INT64_C(1) << 62)
#define NS_PER_MEGASECOND INT64_C(1000000000000000)
#define QUANTUM_NS INT64_C(10000000)
#define ONE_MICRO 1000000
/* pkv__draw_gamma takes shapes from 1/64 on; above a million all gaps are alike to a thousandth. */
#define MIN_BURSTINESS_MICRO (ONE_MICRO / 64)
#define MAX_BURSTINESS_MICRO (INT64_C(1000000) * ONE_MICRO)

static pkv_status check_config(const pkv_sim_arrival_config *cfg)
{
    if ((unsigned)cfg->kind > PKV_SIM_ARRIVAL_ARTIFACT)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "arrivals: unknown kind %d", cfg->kind);
    if (cfg->rate_micro < 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "arrivals: the rate is negative; 0 lets all arrive at once");
    if (cfg->kind == PKV_SIM_ARRIVAL_GAMMA && (cfg->burstiness_micro < MIN_BURSTINESS_MICRO ||
                                               cfg->burstiness_micro > MAX_BURSTINESS_MICRO))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "arrivals: burstiness is 0.015625 to 1000000; 1 is Poisson, less is "
                           "burstier");
    if (cfg->kind == PKV_SIM_ARRIVAL_BURST && cfg->burst_size < 1)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "arrivals: a burst has 1 request or more");
    return PKV_OK;
}

/* The state of a pass over the requests. */
typedef struct clock {
    pkv__rng rng;
    double mean_ns;
    double shape;   /* of gamma */
    int64_t now_ns; /* of the drawn kinds; before any cutting */
} clock;

/* Arrival of request r, the next one; false: beyond 2^62 ns. */
static bool next_arrival(const pkv_sim_arrival_config *cfg, clock *c, int64_t r, int64_t *out_ns)
{
    if (cfg->kind == PKV_SIM_ARRIVAL_CONSTANT || cfg->kind == PKV_SIM_ARRIVAL_BURST) {
        const int64_t size = cfg->kind == PKV_SIM_ARRIVAL_BURST ? cfg->burst_size : 1;
        const pkv__i128 scaled = (pkv__i128)(r - r % size) * NS_PER_MEGASECOND;
        const pkv__i128 at_ns = (scaled + cfg->rate_micro / 2) / cfg->rate_micro;
        if (at_ns > LATEST_NS) return false;
        *out_ns = (int64_t)at_ns;
        return true;
    }
    const double unit = cfg->kind == PKV_SIM_ARRIVAL_GAMMA
                            ? pkv__draw_gamma(&c->rng, c->shape) / c->shape
                            : pkv__draw_exponential(&c->rng);
    const double gap = c->mean_ns * unit + 0.5;
    if (gap > 0x1p61 || c->now_ns > LATEST_NS - (int64_t)gap) return false;
    c->now_ns += (int64_t)gap;
    *out_ns = c->now_ns;
    if (cfg->kind == PKV_SIM_ARRIVAL_ARTIFACT) *out_ns -= c->now_ns % QUANTUM_NS;
    return true;
}

pkv_status pkv_sim_arrivals(const pkv_sim_arrival_config *cfg, pkv_sim_request *reqs, int64_t n)
{
    if (!cfg || n < 0 || (n > 0 && !reqs)) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    const pkv_status status = check_config(cfg);
    if (status != PKV_OK) return status;
    if (cfg->rate_micro == 0) {
        for (int64_t r = 0; r < n; r++) reqs[r].arrival_ns = 0;
        return PKV_OK;
    }
    clock start = { .mean_ns = (double)NS_PER_MEGASECOND / (double)cfg->rate_micro,
                    .shape = (double)cfg->burstiness_micro / ONE_MICRO };
    pkv__rng_init(&start.rng, cfg->seed, PKV__STREAM_ARRIVAL, 0);
    /* Refuse before anything is written: run through the arrivals once. */
    for (int pass = 0; pass < 2; pass++) {
        clock c = start;
        for (int64_t r = 0; r < n; r++) {
            int64_t at_ns;
            if (!next_arrival(cfg, &c, r, &at_ns))
                return pkv__refuse(&cfg->log, PKV_E_LIMIT,
                                   "arrivals pass 2^62 ns at request %lld: a higher rate or fewer "
                                   "requests are needed",
                                   (long long)r);
            if (pass == 1) reqs[r].arrival_ns = at_ns;
        }
    }
    return PKV_OK;
}
