/* Lengths of requests as a server meets them at a random moment. */
#ifndef PKV_LENGTH_DRAW_H
#define PKV_LENGTH_DRAW_H

#include "bench_base.h"

enum length_kind { LENGTH_SHAREGPT, LENGTH_ALPACA };

/* Keys of one running request: its prompt and the part of the output generated so far. Prompt and
 * output come from the simulator's calibrated generator; the request is chosen with a probability
 * proportional to its output length, because it stays for that many steps, and the part generated
 * is uniform. 1 .. 2048. */
int32_t length_draw_context(enum length_kind kind, struct bench_rng *rng);

#endif
