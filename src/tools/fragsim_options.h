/* Between the files of the command line: the row of an option, how its value is understood, and
 * what may stand beside what. */
#ifndef PKV_TOOLS_FRAGSIM_OPTIONS_H
#define PKV_TOOLS_FRAGSIM_OPTIONS_H

#include "fragsim.h"

/* A row without name is a heading of the help. An option may have a row per group of commands. */
typedef struct fragsim_option {
    const char *name, *alias; /* alias NULL: none */
    const char *value;        /* NULL: a flag */
    unsigned commands;        /* bits of fragsim_command */
    bool axis;                /* sweep takes several values */
    bool (*set)(fragsim_options *o, const struct fragsim_option *row, const char *value);
    size_t field;      /* offset in fragsim_options, for the setters of a kind */
    int64_t low, high; /* of whole numbers; low also of times */
    const char *help;
} fragsim_option;

/* Was it on the line? By its first name. */
bool fragsim_given(const fragsim_options *o, const char *name);

/* Setters; they complain themselves. Of a kind: */
bool fragsim_set_flag(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_whole32(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_whole64(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_text(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_rate(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_factor(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_time(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_bytes(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_speed(fragsim_options *o, const fragsim_option *row, const char *v);
/* Of one option each: */
bool fragsim_set_trace(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_format(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_columns(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_time_unit(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_filter(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_zero_output(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_lengths(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_request_rate(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_arrival(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_seed(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_policy(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_gpu_blocks(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_model(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_kv_dtype(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_swap_space(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_watermark(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_step_time(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_admit(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_slo(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_percentile(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_window(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_engine(fragsim_options *o, const fragsim_option *row, const char *v);
bool fragsim_set_width(fragsim_options *o, const fragsim_option *row, const char *v);

/* May the options that were given stand together? False: it has complained. */
bool fragsim_options_check(const fragsim_options *o);
/* Policies, model, pool and swap space from what was given. May be called again after a value
 * changed. False: it has complained. */
bool fragsim_options_resolve(fragsim_options *o);

/* ---------------------------------------------------------------- models */

/* NULL: unknown. */
const fragsim_model *fragsim_model_find(const char *name);
/* All names, for messages. */
void fragsim_model_names(char *out, size_t cap);
/* Bytes of a token in all layers on all workers, and in one K or V tensor of one layer on one
 * worker. False: it has complained. */
bool fragsim_model_bytes(const fragsim_model *model, int64_t *token_bytes, int64_t *tensor_bytes);

#endif
