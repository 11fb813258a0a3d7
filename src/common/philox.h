/* Philox4x32-10: a counter-based random generator (Salmon et al., "Parallel Random Numbers: As Easy
 * as 1, 2, 3", SC'11). Four words come from a counter and a key alone, so every purpose can have
 * its own stream, and another draw in one place moves no other. */
#ifndef PKV_PHILOX_H
#define PKV_PHILOX_H

#include <stdint.h>

/* Ten rounds. `out` may be `ctr`. */
void pkv__philox4x32(const uint32_t ctr[4], const uint32_t key[2], uint32_t out[4]);

/* A stream: key = seed, counter = {position, position, purpose, lane}. */
typedef struct pkv__rng {
    uint32_t ctr[4];
    uint32_t key[2];
    uint32_t word[4];
    uint32_t n_left; /* unused entries at the end of word */
} pkv__rng;

void pkv__rng_init(pkv__rng *rng, uint64_t seed, uint32_t purpose, uint32_t lane);
uint32_t pkv__rng_u32(pkv__rng *rng);
uint64_t pkv__rng_u64(pkv__rng *rng);
/* Uniform in the open interval (0, 1): (k + 1/2) / 2^52 for k in [0, 2^52). Exact. */
double pkv__rng_unit(pkv__rng *rng);
/* Uniform in [0, n), n >= 1, without bias. */
uint32_t pkv__rng_below(pkv__rng *rng, uint32_t n);

#endif
