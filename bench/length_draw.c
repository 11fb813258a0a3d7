/* Length-biased draws from the simulator's generators. */
#include "length_draw.h"

#include "pagedkv/sim.h"

#include <stdlib.h>

#define LONGEST_OUTPUT 2048 /* both generators reject longer requests */

int32_t length_draw_context(enum length_kind kind, struct bench_rng *rng)
{
    pkv_sim_gen_config cfg = PKV_SIM_GEN_CONFIG_INIT;
    pkv_sim_request req;
    cfg.lengths = kind == LENGTH_ALPACA ? PKV_SIM_ALPACA_LIKE : PKV_SIM_SHAREGPT_LIKE;
    cfg.rate_micro = 0;
    do {
        cfg.seed = bench_rng_next(rng);
        if (pkv_sim_generate(&cfg, &req, 1) != PKV_OK) abort(); /* fixed, valid arguments */
    } while (bench_rng_below(rng, LONGEST_OUTPUT) >= (uint64_t)req.output_tokens);
    return req.prompt_tokens + (int32_t)bench_rng_below(rng, (uint64_t)req.output_tokens);
}
