/* What running jobs consists of: the line on stderr that says how far all of them are, and the
 * observer that keeps what happens on the way. Private to fragsim_simulate.c and its parts. */
#ifndef PKV_TOOLS_FRAGSIM_JOBS_H
#define PKV_TOOLS_FRAGSIM_JOBS_H

#include "fragsim.h"

#include <pthread.h>
#include <stdatomic.h>

/* ---------------------------------------------------------------- progress */

/* Shared by all threads. The clock is for the eye only; nothing else looks at it. */
typedef struct fragsim_progress {
    bool show, terminal;
    int64_t total;                   /* requests of all passes of all jobs */
    atomic_int_least64_t done;       /* of them */
    double started_at_s, shown_at_s; /* shown_at_s under `lock` */
    pthread_mutex_t lock;            /* of the line */
} fragsim_progress;

/* One simulation's part of it, used by one thread. */
typedef struct fragsim_progress_part {
    fragsim_progress *all;
    int64_t counted; /* requests that are in all->done */
} fragsim_progress_part;

void fragsim_progress_begin(fragsim_progress *p, bool show, int64_t total);
/* Takes the line away. */
void fragsim_progress_end(fragsim_progress *p);
/* For pkv_sim_config.progress; ctx is a fragsim_progress_part. */
void fragsim_progress_step(void *ctx, int64_t n_done, int64_t n_total);

/* ---------------------------------------------------------------- samples and events */

/* Fills series and events of a job. */
typedef struct fragsim_collector {
    fragsim_job *job;
    pkv_sim_observer observer; /* for the run */
    int64_t cap;               /* samples that there is room for */
    FILE *events;              /* into job->events; NULL: not wanted */
    bool no_memory;
} fragsim_collector;

/* To be placed where it stays until the end of the run; job->sample_interval_ns is the one to use.
 * PKV_E_NO_MEMORY: nothing is to be closed. */
pkv_status fragsim_collector_open(fragsim_collector *c, fragsim_job *job);
/* Hands everything to the job. PKV_E_NO_MEMORY: not all of it found room. */
pkv_status fragsim_collector_close(fragsim_collector *c);

#endif
