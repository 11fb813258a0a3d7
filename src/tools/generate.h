/* pkv-generate: what its files share. The program parses, calls the library and prints.
 *
 *   argv --options--> one request --+                          +--> text, as it comes
 *   FILE --lines----> many requests +--prompt--> ids --run-----+--> JSON, a document or lines
 *                                                 (engine.h)   +--> figures on stderr
 *
 * A request and what became of it stand in one record, in the order in which they were read; what
 * is printed is in that order too. */
#ifndef PKV_TOOLS_GENERATE_H
#define PKV_TOOLS_GENERATE_H

#include <jansson.h>
#include <stdio.h>

#include "pagedkv/engine.h"

#define GENERATE_MAX_STOPS 16
#define GENERATE_MAX_STOP_IDS 64
#define GENERATE_MAX_STOP_BYTES 256
#define GENERATE_MAX_BIAS 1024
#define GENERATE_MAX_LOGPROBS 20

/* Exit statuses; a signal that ended it: 128 + its number. */
enum {
    GENERATE_OK = 0,
    GENERATE_USAGE = 2,
    GENERATE_MODEL = 3, /* bad model or tokenizer file */
    GENERATE_NEVER = 4, /* a request that can never fit */
    GENERATE_IO = 5     /* input, output, memory or device */
};

/* ---------------------------------------------------------------- requests */

typedef struct generate_token {
    int32_t id, position;
    float logprob; /* NAN: none asked for */
    int32_t n_top;
    pkv_logprob *top; /* [n_top], owned */
} generate_token;

/* What came of one sample so far. */
typedef struct generate_sample {
    generate_token *tokens; /* [n_tokens], owned */
    int32_t n_tokens, cap_tokens;
    char *text; /* [n_text], owned */
    size_t n_text, cap_text;
    pkv_finish finish;
    float score; /* NAN: no beams */
} generate_sample;

typedef struct generate_answer {
    generate_sample *samples; /* [n_samples], owned */
    int32_t n_samples;
    bool done;
    pkv_request_result result; /* with done */
    pkv_status refused;        /* PKV_OK: it was submitted */
    char *reason;              /* of a refusal, owned */
} generate_answer;

/* One request. `req` holds what is plain; pointers in it are set when it is submitted. */
typedef struct generate_request {
    int64_t line; /* of the file; 0: the command line */
    json_t *id;   /* owned; NULL: none */
    char *text;   /* [n_text] the prompt, owned; NULL: ids */
    size_t n_text;
    int32_t *ids; /* [n_ids], owned; of text, once it is encoded */
    int32_t n_ids;
    pkv_request req;
    char *stops[GENERATE_MAX_STOPS]; /* owned */
    int32_t n_stops;
    int32_t stop_ids[GENERATE_MAX_STOP_IDS];
    int32_t n_stop_ids;
    pkv_logit_bias *bias; /* [n_bias], owned */
    int32_t n_bias;
    double arrival_ms, deadline_ms; /* from the start, from the arrival; 0: none */
    /* columns of what only a model can judge */
    int32_t ids_column, stop_ids_column, bias_column;
    pkv_request_id handle; /* of the engine */
    generate_answer answer;
    struct generate_run *run; /* of the callback */
} generate_request;

typedef struct generate_requests {
    generate_request *list; /* [n], owned */
    int32_t n, cap;
} generate_requests;

void generate_request_free(generate_request *r);
void generate_requests_free(generate_requests *rs);

/* ---------------------------------------------------------------- the command line */

typedef enum generate_stats { GENERATE_TABLE, GENERATE_JSON, GENERATE_PROMETHEUS } generate_stats;

typedef struct generate_options {
    uint64_t given[2]; /* bit per row of the table */
    const char *model, *tokenizer, *splitter;
    const char *prompt, *prompt_file, *ids, *requests; /* one of them */
    generate_request base;                             /* the request, or what a line leaves out */
    pkv_engine_config engine;
    pkv_dtype weights;
    int64_t kv_bytes, swap_bytes;
    bool exact, xorshift;
    bool stream, json, echo, stats, progress;
    generate_stats stats_format;
    double peak_gbs, peak_gflops; /* 0: not given */
    const char *output;           /* NULL: stdout */
    const char *help;             /* NULL: not asked for; "": all of it; else a group */
    const char *isa_by;           /* "--isa", "PKV_ISA"; NULL: nobody asked for a level */
} generate_options;

/* Understand argv[1 ..]; false: it has complained. */
bool generate_options_parse(int argc, char **argv, generate_options *out);
void generate_options_free(generate_options *o);
/* The help of all groups (""), or of the one that is named. False: no such group. */
bool generate_help(FILE *out, const char *group);
void generate_help_groups(FILE *out);

/* ---------------------------------------------------------------- fields of requests */

typedef enum generate_kind { GENERATE_WHOLE, GENERATE_REAL, GENERATE_FLAG } generate_kind;

/* A plain value of a request, the same in a line and on the command line. */
typedef struct generate_field {
    const char *key, *aliases[3];
    generate_kind kind;
    size_t at, bytes; /* in generate_request */
    double low, high;
    bool above_low; /* low itself is out of range */
} generate_field;

/* NULL: none. Aliases count. */
const generate_field *generate_field_find(const char *key);
/* Set it; false: out of range, nothing is changed. */
bool generate_field_set_whole(const generate_field *f, generate_request *r, int64_t value);
bool generate_field_set_real(const generate_field *f, generate_request *r, double value);
void generate_field_set_flag(const generate_field *f, generate_request *r, bool value);
/* "a whole number from 0 to 20" */
void generate_field_range(const generate_field *f, char *out, size_t cap);
/* The k-th name of all fields and aliases; NULL behind the last one. */
const char *generate_field_name(int k);
/* Append a stop text or id. NULL, or what is wrong with it. */
const char *generate_add_stop(generate_request *r, const char *text, size_t n);
const char *generate_add_stop_id(generate_request *r, int64_t id);
/* May its fields stand together? NULL, or what is wrong. */
const char *generate_request_check(const generate_request *r);
/* A request with the fields of another, without prompt and answer. False: no memory. */
bool generate_request_copy(const generate_request *from, generate_request *out);

/* Is text[0 .. n) UTF-8? */
bool generate_is_utf8(const char *text, size_t n);
/* The nearest of the names that `next` gives for 0, 1, .. until NULL; NULL: none is near. */
const char *generate_nearest(const char *name, const char *(*next)(int k));

/* ---------------------------------------------------------------- input */

/* All of a file; "-" is stdin. NULL: it has complained. The caller frees it. */
char *generate_read_file(const char *path, size_t *n);
/* Check and keep all lines of the file, before anything runs. Returns an exit status. */
int generate_lines_read(const generate_options *o, generate_requests *out);

/* Open the model's own tokenizer, or the one that is named. PKV_OK with *out NULL: there is none,
 * and nobody needs one. Returns an exit status. */
int generate_tokenizer_open(const generate_options *o, const pkv_model_info *info, bool needed,
                            pkv_tokenizer **out);
/* Give every request its ids, and check them against the model. Returns an exit status. */
int generate_prompts_encode(const generate_options *o, const pkv_model_info *info,
                            const pkv_tokenizer *tok, generate_requests *rs);

/* ---------------------------------------------------------------- running */

/* Where answers go: stdout, or a file that appears whole. */
typedef struct generate_sink {
    FILE *file;
    const char *path;         /* NULL: stdout */
    char *target, *temporary; /* owned; NULL: nothing to rename */
    int broken;               /* errno of the first failure */
} generate_sink;

bool generate_sink_open(generate_sink *s, const char *path);
void generate_sink_put(generate_sink *s, const char *text, size_t n);
/* What was put is on its way. */
void generate_sink_flush(generate_sink *s);
/* Close; the file gets its name if `keep`. False: it has complained, unless a reader went away. */
bool generate_sink_close(generate_sink *s, bool keep);

typedef struct generate_run {
    const generate_options *opts;
    const pkv_model *model;
    pkv_model_info info;
    const pkv_tokenizer *tok; /* NULL: ids only */
    pkv_engine *engine;
    pkv_engine_stats stats; /* at the end */
    generate_requests *rs;
    generate_sink sink;
    bool no_memory;
    int signal;          /* that ended it; 0: none */
    int32_t n_shown;     /* requests whose lines are out */
    int32_t show_sample; /* of the only request: sample that is printed now */
    size_t show_bytes;   /* of its text */
    bool show_begun;
} generate_run;

/* Is text printed as it comes, and not JSON? */
bool generate_prints_text(const generate_options *o);
/* Run all requests. Returns an exit status; answers are in the requests. */
int generate_run_all(generate_run *run);

/* After an event: print what can be printed now. */
void generate_show(generate_run *run, const generate_request *r, const pkv_token_event *event);
/* What the end is still missing. */
void generate_show_end(generate_run *run);
/* The JSON of an answer as a line, of the only one as a document; NULL: no memory. Owned by the
 * caller. */
char *generate_json_line(const generate_run *run, const generate_request *r);
char *generate_json_document(const generate_run *run, const generate_request *r);
char *generate_json_event(const generate_request *r, const pkv_token_event *event);

/* Figures on stderr, as the options want them. */
void generate_print_stats(const generate_run *run);

typedef struct generate_progress {
    bool show, terminal;
    double started_s, shown_s;
} generate_progress;
void generate_progress_begin(generate_progress *p, const generate_run *run);
void generate_progress_step(generate_progress *p, const generate_run *run,
                            const pkv_step_report *report);
void generate_progress_end(generate_progress *p);

/* ---------------------------------------------------------------- messages */

/* "pkv-generate: ..." and a newline to stderr. Returns false. */
bool generate_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Keeps the last error of the library; warnings are printed. */
typedef struct generate_log {
    char text[512];
} generate_log;
pkv_logger generate_logger(generate_log *log);
/* The library's words, or those of the status. */
const char *generate_why(const generate_log *log, pkv_status status);

#endif
