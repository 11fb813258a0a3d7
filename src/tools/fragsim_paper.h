/* The command paper: which figures of the PagedAttention paper (SOSP'23, arXiv 2309.06180) are
 * rebuilt, from which simulations, and what is accepted.
 *
 *   runs (policy, sample) x seeds --fragsim_simulate--> results --> cells (paper, ours, accepted)
 */
#ifndef PKV_TOOLS_FRAGSIM_PAPER_H
#define PKV_TOOLS_FRAGSIM_PAPER_H

#include "fragsim.h"

#define PAPER_SEEDS 3 /* figures are means over so many samples */

typedef enum paper_sample {
    PAPER_SHAREGPT,
    PAPER_ALPACA,
    PAPER_SHAREGPT_BEAMS, /* the first of the same requests: beams are drawn anew every step */
    PAPER_ALPACA_BEAMS,
    PAPER_SAMPLES
} paper_sample;

typedef struct paper_source {
    const char *lengths;
    int64_t rate_micro, n;
    int64_t step_base_ns, step_per_seq_ns, step_per_token_ns;
} paper_source;

typedef struct paper_run {
    const char *policy; /* NULL behind the last one */
    paper_sample sample;
    int32_t watermark_ppm;
    pkv_sim_window window;
    bool context; /* a row of the table of what is shown for comparison */
} paper_run;

typedef enum paper_what {
    PAPER_TOKEN, /* percent of the pool */
    PAPER_RESERVATION,
    PAPER_INTERNAL,
    PAPER_EXTERNAL,
    PAPER_BATCH,
    PAPER_RATIO, /* of the batches of run and other */
    PAPER_PREEMPTIONS,
    PAPER_SAVING /* percent of the blocks */
} paper_what;

typedef enum paper_gate {
    PAPER_NO_GATE,
    PAPER_RANGE,  /* low .. high */
    PAPER_FALLING /* less than the same figure of `other`, in the mean of the seeds */
} paper_gate;

/* What the closed forms say of the very requests that were simulated. */
typedef enum paper_form {
    PAPER_NO_FORM,
    PAPER_FORM,     /* what is expected */
    PAPER_BOUND,    /* cannot be passed by much: a compactor at no cost */
    PAPER_ESTIMATE, /* close, no more */
} paper_form;

#define PAPER_NO_RUN (-1)
typedef struct paper_cell {
    const char *group; /* NULL behind the last one; equal ones stand together */
    const char *name;
    paper_what what;
    int run, other;
    double paper_low, paper_high; /* as published, a range or one value; below 0: not published */
    bool approximate;             /* read off a figure */
    paper_gate gate;
    double low, high; /* accepted */
    paper_form form;
    double form_points; /* and at most so far from the form; 0: not asked for */
    double form_share;  /* or by this share of the form */
} paper_cell;

extern const paper_source fragsim_paper_sources[PAPER_SAMPLES];
extern const paper_run fragsim_paper_runs[];
extern const paper_cell fragsim_paper_cells[];

/* A cell as it came out. */
typedef struct paper_outcome {
    double ours, seeds[PAPER_SEEDS];
    double form;      /* unless cell->form is PAPER_NO_FORM */
    double low, high; /* accepted; of PAPER_FALLING and of what is only tied to its form as well */
    bool gated, passed;
} paper_outcome;

typedef struct paper_report {
    const fragsim_options *opts;
    uint64_t first_seed;
    int n_runs, n_cells, n_gated, n_failed;
    const fragsim_job *jobs;    /* [PAPER_SEEDS][n_runs] */
    const pkv_sim_forms *forms; /* likewise */
    paper_outcome *outcomes;    /* [n_cells] */
} paper_report;

/* What a figure of a simulation is; `other` is of PAPER_RATIO. */
double fragsim_paper_value(paper_what what, const fragsim_job *job, const fragsim_job *other);
const char *fragsim_paper_unit(paper_what what);

void fragsim_paper_print(FILE *out, const paper_report *report);
/* Whole texts; NULL: no memory. */
char *fragsim_paper_json(const paper_report *report);
char *fragsim_paper_csv(const paper_report *report);

#endif
