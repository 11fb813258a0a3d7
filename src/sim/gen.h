/* Streams of the generators: one purpose each, so that another draw in one moves no other. */
#ifndef PKV_SIM_GEN_H
#define PKV_SIM_GEN_H

#include "sim/sim_internal.h"

enum {
    PKV__STREAM_PROMPT = 1,
    PKV__STREAM_OUTPUT = 2,
    PKV__STREAM_ARRIVAL = 3,
    PKV__STREAM_BEAM = 4
};

#endif
