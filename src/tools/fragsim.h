/* pkv-fragsim: what its files share. The program parses, calls the library and prints.
 *
 *   argv --options--> fragsim_options --input--> requests --jobs--> results --+--> table, JSON,
 * CSV, ^                          |    series, events run: a job per policy; sweep: one per point
 * and policy; paper: its own ---'    '--> charts, HTML
 *
 * Output is decided by the jobs and their order alone, never by which thread did one when. */
#ifndef PKV_TOOLS_FRAGSIM_H
#define PKV_TOOLS_FRAGSIM_H

#include "pagedkv/sim.h"
#include "tool_values.h"

#include <stdio.h>

#define FRAGSIM_MAX_POLICIES 32
#define FRAGSIM_MAX_NOTES 32
#define FRAGSIM_NOTE_BYTES 320
#define FRAGSIM_USUAL_PROMPTS 3000
#define FRAGSIM_USUAL_RATE_MICRO INT64_C(8000000)
#define FRAGSIM_MAX_THREADS 64

/* Exit statuses. */
enum { FRAGSIM_OK = 0, FRAGSIM_NOTHING_DONE = 1, FRAGSIM_ERROR = 2 };

/* ---------------------------------------------------------------- the command line */

typedef enum fragsim_command {
    FRAGSIM_RUN = 1, /* bits: an option says which commands it belongs to */
    FRAGSIM_PAPER = 2,
    FRAGSIM_SWEEP = 4,
    FRAGSIM_CAPACITY = 8,
    FRAGSIM_INSPECT = 16
} fragsim_command;

/* A parameter that sweep varies: the values of one option, in the order given. */
#define FRAGSIM_MAX_AXES 4
#define FRAGSIM_MAX_VALUES 256
typedef struct fragsim_axis {
    const char *option;                  /* "--request-rate" */
    char values[FRAGSIM_MAX_VALUES][32]; /* as text, exactly what the option would be given */
    int n;
} fragsim_axis;

/* What one token costs. */
typedef struct fragsim_model {
    const char *name; /* NULL: given by numbers, or not at all */
    int32_t layers, kv_heads, head_dim;
    int32_t dtype_bits; /* of K and V: 16, 8 or 4; 32 */
    int32_t tensor_parallel;
} fragsim_model;

/* The command line as understood. Numbers of -1: not given. */
typedef struct fragsim_options {
    fragsim_command command;
    uint64_t given[2]; /* which options were on the line, by their place in the table */
    const char *trace_path;
    pkv_sim_trace_config trace; /* strict, filter, format, columns, unit, limits */
    char *columns;              /* names that `trace` points to; owned, NULL in a copy */
    const char *lengths_text;   /* a text of pkv_sim_lengths_parse; NULL: not given */
    const char *lengths_path;   /* rows of this file are drawn with replacement, or in order */
    bool lengths_in_order, repeat;
    pkv_sim_arrival_config arrivals; /* with rate_micro -1: not given; seed is that of all draws */
    bool arrival_given, seed_given;
    int64_t target_rate_micro; /* --target-rate */
    int64_t time_scale_micro;  /* --time-scale, times 10^6 */
    bool all_at_once, quiet, print_repro;
    int32_t shared_prefix; /* tokens that all prompts begin with; -1 */
    int64_t num_prompts;

    const char *policy_texts[FRAGSIM_MAX_POLICIES];
    pkv_sim_policy policies[FRAGSIM_MAX_POLICIES];
    int n_policies;
    int64_t kv_tokens, num_blocks, block_tokens;
    int64_t kv_memory_bytes, swap_bytes;
    fragsim_model model;
    pkv_sim_config sim; /* everything but policy, content, observer */
    bool paper_accounting;
    int n_axes; /* of sweep */
    fragsim_axis axes[FRAGSIM_MAX_AXES];
    int64_t knee_micro; /* k of the knee, times 10^6 */

    const char *json_path, *csv_path, *series_path, *events_path, *svg_path, *html_path;
    int64_t sample_interval_ns; /* -1: 240 samples over the run's arrivals */
    int threads;
    int width;           /* 80 or 120; 0: not given */
    bool force_progress; /* --progress: also where stderr is no terminal */
    char *repro;         /* the line that repeats the run; owned */
} fragsim_options;

/* Understand argv[2 ..]; false: it has complained. */
bool fragsim_options_parse(int argc, char **argv, fragsim_command command, fragsim_options *out);
/* A copy of `from` in which value k[a] of each axis a is set and `n_axes` is 0; `from` has to
 * outlive it. False: it has complained. */
bool fragsim_options_at(const fragsim_options *from, const int *k, fragsim_options *out);
void fragsim_options_free(fragsim_options *opts);
/* Was anything said of the bytes of a token? */
bool fragsim_names_bytes(const fragsim_options *opts);
void fragsim_help(FILE *out, fragsim_command command);
const char *fragsim_command_name(fragsim_command command);

/* ---------------------------------------------------------------- requests */

/* The requests of a run and where they came from. */
typedef struct fragsim_input {
    pkv_sim_trace trace; /* of a file; otherwise empty */
    pkv_sim_request *reqs;
    int64_t n;
    pkv_sim_content content;     /* ids NULL: none; of the trace, or of --shared-prefix */
    void *own_content, *own_ids; /* behind content where it is not the trace's; owned */
    bool from_trace;             /* lengths come from a file: `trace` says which rows it had */
    bool from_generator;         /* reqs is ours and not the trace's */
    pkv_sim_dist prompt, output;
} fragsim_input;

/* ---------------------------------------------------------------- simulations */

/* The samples of a run; `map` of a sample points into maps. */
typedef struct fragsim_series {
    pkv_sim_sample *samples; /* [n], owned */
    uint8_t *maps;           /* [n][map_cells], NULL: the policy has no addresses; owned */
    int64_t n;
    int32_t map_cells;
} fragsim_series;

/* One simulation. The caller fills the first part, fragsim_simulate the rest. */
typedef struct fragsim_job {
    pkv_sim_config cfg; /* complete but for observer, log and progress */
    const pkv_sim_request *reqs;
    int64_t n;
    int64_t sample_interval_ns; /* 0: no series */
    int32_t map_cells;
    bool want_events; /* collect the events as JSON lines */
    char place[128];  /* for complaints: " at seed 1", the point of a sweep; or empty */

    char name[PKV_SIM_POLICY_NAME_BYTES];
    pkv_status status;
    char error[FRAGSIM_NOTE_BYTES]; /* unless status is PKV_OK */
    pkv_sim_result result;
    fragsim_series series;
    char *events; /* owned, NULL: none */
    size_t events_bytes;
} fragsim_job;

/* Run n jobs on `threads` threads (1: the caller's own), with progress on stderr if `show`. Returns
 * the status of the first job in order that failed, which it complains about, or PKV_OK. */
pkv_status fragsim_simulate(fragsim_job *jobs, int n, int threads, bool show);
void fragsim_jobs_free(fragsim_job *jobs, int n);
/* Should progress be shown? */
bool fragsim_shows_progress(const fragsim_options *opts);

typedef struct fragsim_report {
    const fragsim_options *opts;
    const fragsim_input *input;
    pkv_sim_forms forms;
    pkv_sim_cache_forms cache;  /* struct_size 0: the input has no content */
    int32_t cache_block_tokens; /* that `cache` is for */
    fragsim_job *jobs;          /* [n_jobs], a policy each */
    int n_jobs;
    char notes[FRAGSIM_MAX_NOTES][FRAGSIM_NOTE_BYTES];
    int n_notes;
} fragsim_report;

/* Read or draw the requests; false: it has complained. Warnings become notes. */
bool fragsim_input_load(const fragsim_options *opts, fragsim_report *report, fragsim_input *out);
void fragsim_input_free(fragsim_input *input);

/* ---------------------------------------------------------------- commands */

/* Each returns an exit status. */
int fragsim_run(const fragsim_options *opts);
int fragsim_paper(const fragsim_options *opts);
int fragsim_sweep(const fragsim_options *opts);
int fragsim_capacity(const fragsim_options *opts);
int fragsim_inspect(const fragsim_options *opts);

/* ---------------------------------------------------------------- outputs */

void fragsim_print_input(FILE *out, const fragsim_input *input, const fragsim_options *opts);
void fragsim_print_report(FILE *out, const fragsim_report *report, int width, bool colour);

/* Whole texts; NULL: no memory. The caller frees them. */
char *fragsim_json(const fragsim_report *report);
char *fragsim_csv(const fragsim_report *report);
char *fragsim_series_csv(const fragsim_report *report);  /* time series of all jobs */
char *fragsim_events_text(const fragsim_report *report); /* JSON lines of all jobs */

/* Notes about the results of all jobs. */
void fragsim_note_results(fragsim_report *report);

/* Is gnuplot there? */
bool fragsim_can_draw(void);
/* The charts of a report as one SVG (waste bars over usage and batch over time); NULL: it has
 * complained. */
char *fragsim_svg(const fragsim_report *report);
/* One page without references to anything outside it: tables, charts where gnuplot is there, the
 * data of the charts as tables, the line that repeats the run; NULL: it has complained. */
char *fragsim_html(const fragsim_report *report);

/* Write a file that appears whole or not at all; "-" is stdout. False: it has complained. */
bool fragsim_write_whole(const char *path, const char *text);

/* ---------------------------------------------------------------- messages */

/* "pkv-fragsim: ..." and a newline to stderr. Returns false. */
bool fragsim_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Add a note to the report; what does not fit is dropped. */
void fragsim_note(fragsim_report *report, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---------------------------------------------------------------- values */

/* "a+b*batch+c*tokens" with times a, b, c; complains itself. */
bool fragsim_parse_step_time(const char *text, pkv_sim_config *sim);
/* "1,8,16", "1-64*2", "1-9+2" and mixtures; complains itself. */
bool fragsim_parse_values(const char *option, const char *text, fragsim_axis *out);

const char *fragsim_window_name(pkv_sim_window window);
const char *fragsim_engine_name(pkv_sim_engine engine);

#endif
