/* Arrivals drawn by law. */
#include "common/detmath.h"
#include "sim/gen.h"

#define LATEST_NS (INT64_C(1) << 62)
#define NS_PER_MEGASECOND 1e15

pkv_status pkv_sim_arrivals(const pkv_sim_arrival_config *cfg, pkv_sim_request *reqs, int64_t n)
{
    if (!cfg || n < 0 || (n > 0 && !reqs) || cfg->rate_micro < 0) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    pkv__rng rng;
    pkv__rng_init(&rng, cfg->seed, PKV__STREAM_ARRIVAL, 0);
    const double mean_ns = cfg->rate_micro > 0 ? NS_PER_MEGASECOND / (double)cfg->rate_micro : 0;
    /* Refuse before anything is written: run through the gaps once. */
    for (int pass = 0; pass < 2; pass++) {
        pkv__rng draw = rng;
        int64_t now_ns = 0;
        for (int64_t r = 0; r < n; r++) {
            if (cfg->rate_micro > 0) {
                const double gap = mean_ns * pkv__draw_exponential(&draw) + 0.5;
                if (gap > 0x1p61 || now_ns > LATEST_NS - (int64_t)gap)
                    return pkv__refuse(&cfg->log, PKV_E_LIMIT, "arrivals pass 2^62 ns");
                now_ns += (int64_t)gap;
            }
            if (pass == 1) reqs[r].arrival_ns = now_ns;
        }
    }
    return PKV_OK;
}
