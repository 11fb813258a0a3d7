/* Between the files of pkv-generate's command line: the row of an option and how its value is
 * understood. */
#ifndef PKV_TOOLS_GENERATE_OPTIONS_H
#define PKV_TOOLS_GENERATE_OPTIONS_H

#include "generate.h"

/* A row without name is a heading of the help: `alias` its name as an argument of --help. */
typedef struct generate_option {
    const char *name, *alias; /* alias NULL: none */
    const char *value;        /* NULL: a flag */
    bool (*set)(generate_options *o, const struct generate_option *row, const char *value);
    size_t at;         /* in generate_options, for the setters of a kind */
    const char *field; /* of a request, for generate_set_field */
    int64_t low, high; /* of whole numbers */
    bool many;         /* may stand there more than once */
    const char *help;
} generate_option;

/* Was it on the line? By its first name. */
bool generate_given(const generate_options *o, const char *name);

/* Setters; they complain themselves. Of a kind: */
bool generate_set_flag(generate_options *o, const generate_option *row, const char *v);
bool generate_set_text(generate_options *o, const generate_option *row, const char *v);
bool generate_set_any_text(generate_options *o, const generate_option *row, const char *v);
bool generate_set_whole(generate_options *o, const generate_option *row, const char *v);
bool generate_set_bytes(generate_options *o, const generate_option *row, const char *v);
bool generate_set_field(generate_options *o, const generate_option *row, const char *v);
/* Of one option each: */
bool generate_set_stop(generate_options *o, const generate_option *row, const char *v);
bool generate_set_stop_id(generate_options *o, const generate_option *row, const char *v);
bool generate_set_ids(generate_options *o, const generate_option *row, const char *v);
bool generate_set_rng(generate_options *o, const generate_option *row, const char *v);
bool generate_set_kv_dtype(generate_options *o, const generate_option *row, const char *v);
bool generate_set_weights(generate_options *o, const generate_option *row, const char *v);
bool generate_set_preempt(generate_options *o, const generate_option *row, const char *v);
bool generate_set_placement(generate_options *o, const generate_option *row, const char *v);
bool generate_set_isa(generate_options *o, const generate_option *row, const char *v);
bool generate_set_stats(generate_options *o, const generate_option *row, const char *v);
bool generate_set_peaks(generate_options *o, const generate_option *row, const char *v);

/* May the options that were given stand together? False: it has complained. */
bool generate_options_check(const generate_options *o);

#endif
