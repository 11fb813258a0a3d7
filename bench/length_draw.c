/* Length-biased draws from the simulator's generators. */
#include "length_draw.h"

#include "pagedkv/sim.h"

#include <stdlib.h>

#define LONGEST_OUTPUT 2048 /* both generators reject longer requests */

int32_t length_draw_context(enum length_kind kind, struct bench_rng *rng)
{
    const char *const lengths = kind == LENGTH_ALPACA ? "alpaca-like" : "sharegpt-like";
    pkv_sim_request req;
    do {
        const uint64_t seed = bench_rng_next(rng);
        if (pkv_sim_draw(lengths, seed, 0, NULL, &req, 1) != PKV_OK) abort(); /* valid arguments */
    } while (bench_rng_below(rng, LONGEST_OUTPUT) >= (uint64_t)req.output_tokens);
    return req.prompt_tokens + (int32_t)bench_rng_below(rng, (uint64_t)req.output_tokens);
}
