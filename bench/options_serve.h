/* Options of `serve` alone: a workload instead of the profile's cases. */
#ifndef PKV_OPTIONS_SERVE_H
#define PKV_OPTIONS_SERVE_H

#include "bench_options.h"

#include <argp.h>

/* A child of the parser, whose input is a struct bench_options. With other commands its options are
 * hidden, and refused by name. */
const struct argp *options_serve_argp(enum bench_command command);

#endif
