/* Options of `serve` alone: a workload instead of the profile's cases. */
#ifndef PKV_OPTIONS_SERVE_H
#define PKV_OPTIONS_SERVE_H

#include "bench_options.h"

#include <argp.h>

/* The options, an empty one behind the last. With other commands they are hidden. */
#define OPTIONS_SERVE_MAX 16
void options_serve_list(enum bench_command command, struct argp_option out[OPTIONS_SERVE_MAX]);
/* The parser of a child of argp whose input is a struct bench_options. With other commands it
 * refuses them by name. */
error_t options_serve_parse(int key, char *arg, struct argp_state *state);

#endif
