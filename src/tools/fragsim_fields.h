/* One list of everything that is known of a simulation, for JSON, CSV and whoever else prints it
 * all. */
#ifndef PKV_TOOLS_FRAGSIM_FIELDS_H
#define PKV_TOOLS_FRAGSIM_FIELDS_H

#include "fragsim.h"

typedef enum fragsim_value_kind {
    FRAGSIM_NULL, /* not measured, not set, or undefined */
    FRAGSIM_WHOLE,
    FRAGSIM_REAL,
    FRAGSIM_FLAG, /* in `whole` */
    FRAGSIM_TEXT
} fragsim_value_kind;

typedef struct fragsim_value {
    fragsim_value_kind kind;
    int64_t whole;
    double real;
    const char *text; /* static, or of the job */
} fragsim_value;

typedef enum fragsim_section {
    FRAGSIM_CONFIG, /* the configuration as used */
    FRAGSIM_RESULT
} fragsim_section;

/* Called per field, in the order of the output: `group` is the JSON object it belongs to ("" is the
 * outermost, "split.external_split" one inside "split"), `column` its name in a flat table. */
typedef void fragsim_field_visit(void *ctx, const char *group, const char *name, const char *column,
                                 const fragsim_value *value);
void fragsim_fields(const fragsim_job *job, fragsim_section section, fragsim_field_visit *visit,
                    void *ctx);

/* A real number as all outputs write it: 15 digits, which every compiler gets right. */
#define FRAGSIM_DIGITS 15

#endif
