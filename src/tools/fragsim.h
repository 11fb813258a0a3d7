/* pkv-fragsim: what its files share. The program parses, calls the library and prints. */
#ifndef PKV_TOOLS_FRAGSIM_H
#define PKV_TOOLS_FRAGSIM_H

#include "pagedkv/sim.h"

#include <stdio.h>

#define FRAGSIM_MAX_POLICIES 32
#define FRAGSIM_MAX_NOTES 32
#define FRAGSIM_NOTE_BYTES 320
#define FRAGSIM_USUAL_PROMPTS 3000
#define FRAGSIM_USUAL_RATE_MICRO INT64_C(8000000)

/* Exit statuses. */
enum { FRAGSIM_OK = 0, FRAGSIM_NOTHING_DONE = 1, FRAGSIM_ERROR = 2 };

/* The command line as understood. Numbers of -1: not given. */
typedef struct fragsim_options {
    const char *command; /* "run" or "inspect" */
    const char *trace_path;
    const char *lengths_text; /* "sharegpt-like", ...; NULL: not given */
    uint64_t seed;
    int64_t rate_micro;        /* --request-rate; 0: inf */
    int64_t target_rate_micro; /* --target-rate */
    bool all_at_once, strict, quiet, print_repro;
    bool seed_given;
    int64_t num_prompts, max_requests, duration_ns;

    const char *policy_texts[FRAGSIM_MAX_POLICIES];
    pkv_sim_policy policies[FRAGSIM_MAX_POLICIES];
    int n_policies;
    int64_t kv_tokens, num_blocks, block_tokens;
    pkv_sim_config sim; /* everything but the policy */

    const char *json_path;
    int width;   /* 80 or 120; 0: not given */
    char *repro; /* the line that repeats the run; owned */
} fragsim_options;

/* The requests of a run and where they came from. */
typedef struct fragsim_input {
    pkv_sim_trace trace; /* of a file; otherwise empty */
    pkv_sim_request *reqs;
    int64_t n;
    bool from_trace;
    bool from_generator; /* lengths drawn, not read */
    pkv_sim_dist prompt, output;
} fragsim_input;

typedef struct fragsim_report {
    const fragsim_options *opts;
    const fragsim_input *input;
    pkv_sim_forms forms;
    pkv_sim_result results[FRAGSIM_MAX_POLICIES];
    char names[FRAGSIM_MAX_POLICIES][PKV_SIM_POLICY_NAME_BYTES];
    char notes[FRAGSIM_MAX_NOTES][FRAGSIM_NOTE_BYTES];
    int n_notes;
} fragsim_report;

/* ---------------------------------------------------------------- messages */

/* "pkv-fragsim: ..." and a newline to stderr. Returns false. */
bool fragsim_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* Add a note to the report; what does not fit is dropped. */
void fragsim_note(fragsim_report *report, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---------------------------------------------------------------- values */

/* Decimal text times 10^scale to the nearest integer; false: not a number, negative or too big.
 * *exact tells whether anything was rounded. */
bool fragsim_parse_decimal(const char *text, size_t len, int scale, int64_t *out, bool *exact);
/* A whole number in low .. high. */
bool fragsim_parse_whole(const char *text, int64_t low, int64_t high, int64_t *out);
/* NUMBER with ns, us, ms, s, min or h behind (none: s), to ns. */
bool fragsim_parse_time(const char *text, size_t len, int64_t *ns, bool *exact);
/* "a+b*batch+c*tokens" with times a, b, c; complains itself. */
bool fragsim_parse_step_time(const char *text, pkv_sim_config *sim);
/* 22000000 -> "22 ms"; exact. */
void fragsim_time_text(int64_t ns, char *out, size_t cap);

/* ---------------------------------------------------------------- parts */

/* Understand argv[2 ..]; false: it has complained. */
bool fragsim_options_parse(int argc, char **argv, fragsim_options *out);
void fragsim_options_free(fragsim_options *opts);
void fragsim_help(FILE *out, const char *command);

/* Read or draw the requests; false: it has complained. Warnings become notes. */
bool fragsim_input_load(const fragsim_options *opts, fragsim_report *report, fragsim_input *out);
void fragsim_input_free(fragsim_input *input);

void fragsim_print_input(FILE *out, const fragsim_input *input, const fragsim_options *opts);
void fragsim_print_report(FILE *out, const fragsim_report *report, int width, bool colour);

/* The whole report as JSON; NULL: no memory. The caller frees it. */
char *fragsim_json(const fragsim_report *report);

/* Write a file that appears whole or not at all; "-" is stdout. False: it has complained. */
bool fragsim_write_whole(const char *path, const char *text);

const char *fragsim_window_name(pkv_sim_window window);
const char *fragsim_engine_name(pkv_sim_engine engine);

#endif
