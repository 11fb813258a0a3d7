/* What the generators share. */
#ifndef PKV_SIM_GEN_H
#define PKV_SIM_GEN_H

#include "common/philox.h"
#include "sim/sim_internal.h"

/* Streams: one purpose each, so that another draw in one moves no other. */
enum {
    PKV__STREAM_PROMPT = 1,
    PKV__STREAM_OUTPUT = 2,
    PKV__STREAM_ARRIVAL = 3,
    PKV__STREAM_BEAM = 4
};

/* Longest length, and longest prompt + output. */
#define PKV__MAX_LENGTH (INT32_C(1) << 30)

/* A law with the constants of its draws worked out. */
typedef struct pkv__law {
    pkv_sim_law law;
    int64_t low, span; /* fixed, uniform: low .. low + span */
    double shape;      /* gamma */
    double scale;      /* gamma: mean / shape; lognormal: sigma */
    double mu;         /* lognormal */
    /* zipf: exponent, log(b + 1), the integral of x^-a over [1, b + 1], and that over [1, 2] */
    double exponent, log_end, area, first_area;
    int32_t n_values;
} pkv__law;

/* Is the law known and are its parameters in range? */
bool pkv__length_valid(const pkv_sim_length *length);
/* Of a valid law. */
void pkv__law_init(pkv__law *law, const pkv_sim_length *length);
/* One length, rounded to the nearest integer; may be 0 or far beyond any limit. */
int64_t pkv__law_draw(const pkv__law *law, pkv__rng *rng);

#endif
