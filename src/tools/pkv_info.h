/* pkv-info: what its verbs share. Each is a function of its own file; those that need
 * libpagedkv-model are replaced by pkv_info_without.c where that is not built.
 *
 *   argv --info_parse, a table of options--> a verb --> text or one JSON object on stdout */
#ifndef PKV_INFO_H
#define PKV_INFO_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "pagedkv/base.h"

/* Exit statuses. */
enum {
    INFO_OK = 0,
    INFO_USAGE = 2, /* or a level that is not here */
    INFO_MODEL = 3, /* bad model or tokenizer file, or it does not give what it should */
    INFO_NEVER = 4, /* can never fit */
    INFO_IO = 5     /* input, output, memory or device */
};

/* ---------------------------------------------------------------- verbs */

/* argv[0] is the program, argv[1] the verb. */
int info_machine(int argc, char **argv);
int info_model(int argc, char **argv);
int info_tokenize(int argc, char **argv);
int info_kv_size(int argc, char **argv);

/* A library that this program uses, and the Unicode version of its tables; NULL: it has none. */
typedef struct info_library {
    char name[16], version[32];
    char unicode[16]; /* "": none */
} info_library;
#define INFO_MAX_LIBRARIES 8
int info_libraries(info_library out[INFO_MAX_LIBRARIES]);

/* ---------------------------------------------------------------- command lines */

typedef enum info_kind {
    INFO_FLAG,  /* bool */
    INFO_TEXT,  /* const char * */
    INFO_WHOLE, /* int32_t, low .. high */
    INFO_BYTES, /* int64_t: 24GiB, 80e9 */
    INFO_COUNT, /* int64_t: 8e9, 8B, 350M */
    INFO_RATE,  /* int64_t bytes per second: 3.35TB/s */
    INFO_DTYPE  /* pkv_dtype */
} info_kind;

typedef struct info_option {
    const char *name, *alias; /* "--tokens", "-n" or NULL */
    const char *value;        /* "N" in the help; NULL: a flag */
    info_kind kind;
    void *to;
    int64_t low, high;
    bool *given; /* may be NULL */
    const char *help;
} info_option;

typedef struct info_verb {
    const char *usage; /* "kv-size [PATH] [OPTION...]" */
    const char *about;
    const info_option *options;
    int n_options;
    int max_places;   /* arguments that are no options */
    const char *tail; /* of the help */
} info_verb;

typedef enum info_parsed { INFO_GO_ON, INFO_HELPED, INFO_REFUSED } info_parsed;
/* Understand argv[2 ..]; "--" ends the options. HELPED: the help was asked for and is printed;
 * REFUSED: it has complained. */
info_parsed info_parse(const info_verb *verb, int argc, char **argv, const char **places,
                       int *n_places);

/* ---------------------------------------------------------------- messages */

/* "pkv-info: " and one line on stderr. */
void info_complain(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#define INFO_MAX_NOTES 16
/* What the library says: the last error, and warnings. */
typedef struct info_log {
    char error[256];
    char notes[INFO_MAX_NOTES][256];
    int n_notes;
} info_log;
pkv_logger info_logger(info_log *log);
void info_note(info_log *log, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Complain about what failed. Returns the exit status of a model or tokenizer that does not
 * open. */
int info_failed(const info_log *log, pkv_status status);
void info_print_notes(const info_log *log);
json_t *info_notes_json(const info_log *log);

/* ---------------------------------------------------------------- output */

#define INFO_TEXT_BYTES 32
/* "1,280 B", "2.00 MiB"; "260,032"; "1.5 G". Return `out`. */
const char *info_bytes_text(double bytes, char out[INFO_TEXT_BYTES]);
const char *info_count_text(int64_t n, char out[INFO_TEXT_BYTES]);
const char *info_large_text(double n, char out[INFO_TEXT_BYTES]);

/* Rows of cells in columns; a row is one text with tabs between its cells. */
typedef struct info_table {
    const char *align; /* 'l' or 'r' for each column */
    char **rows;
    int n, cap;
    bool failed; /* no memory */
} info_table;
void info_table_add(info_table *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Print and free it. False: no memory, it has complained. */
bool info_table_print(info_table *t, FILE *out);

/* Print and free it; the exit status. NULL: no memory. */
int info_print_json(json_t *root);
/* Is all of stdout written? The exit status. */
int info_finish_output(void);

#endif
