/* What a sweep found: a simulation per policy and point of a grid of option values. */
#ifndef PKV_TOOLS_FRAGSIM_SWEEP_H
#define PKV_TOOLS_FRAGSIM_SWEEP_H

#include "fragsim_outputs.h"

typedef struct fragsim_sweep_point {
    int k[FRAGSIM_MAX_AXES]; /* which value of each axis of opts->axes */
    fragsim_job *jobs;       /* [n_jobs], jobs[p] with policy p of opts->policies */
    int n_jobs;
    int input; /* of inputs */
} fragsim_sweep_point;

/* The highest rate that a policy stands: the mean normalized latency is at most opts->knee_micro /
 * 10^6 times that of a request alone. */
typedef struct fragsim_knee {
    const fragsim_sweep_point
        *at; /* the values of the axes other than the rate; its own: the first */
    int policy;
    double alone_s; /* mean s/token when each request has the pool to itself; -1: none finished */
    int value;      /* of the rate's axis; -1: even the lowest is too much */
    bool highest;   /* no higher rate was tried: the knee may be above */
} fragsim_knee;

typedef struct fragsim_sweep_report {
    const fragsim_options *opts;
    const fragsim_sweep_point *points; /* the last axis runs fastest */
    int n_points;
    const fragsim_input *inputs; /* requests that points share */
    int n_inputs;
    int rate_axis; /* -1: no axis is a rate, and there are no knees */
    const fragsim_knee *knees;
    int n_knees;
    char (*notes)[FRAGSIM_NOTE_BYTES];
    int n_notes;
} fragsim_sweep_report;

/* The rate in requests per 10^6 s; false: the value is inf. */
bool fragsim_sweep_rate(const fragsim_axis *axis, int value, int64_t *micro);

void fragsim_print_sweep(FILE *out, const fragsim_sweep_report *report);
/* Whole texts; NULL: no memory. The caller frees them. */
char *fragsim_sweep_csv(const fragsim_sweep_report *report);
char *fragsim_sweep_json(const fragsim_sweep_report *report);

#endif
