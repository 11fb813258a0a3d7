/* Shared by the trace readers.
 *
 *   bytes --lines--> line --csv or json--> values by role --rows--> request or reason to drop it
 *                                     '--> content ids --ids--> dense indices
 *
 * A role is what a value means (time, input, ...); detect knows by which name each format calls it.
 * Rows count every row exactly once, as added or as dropped. */
#ifndef PKV_SIM_TRACE_H
#define PKV_SIM_TRACE_H

#include "sim/sim_internal.h"

#include <string.h>

#define PKV__MAX_COLUMNS 256 /* of a CSV header, and keys of a JSON object */

typedef struct pkv__text {
    const char *at;
    size_t len;
} pkv__text;

static inline bool pkv__text_is(pkv__text text, const char *name)
{
    return strlen(name) == text.len && memcmp(text.at, name, text.len) == 0;
}

/* The text as it can be shown anywhere: what is not printable ASCII as \xNN, "..." where it gets
 * longer than cap (at least 8). */
void pkv__trace_printable(pkv__text text, char *out, size_t cap);

/* ---------------------------------------------------------------- values */

/* A token count: "7564", "7564.0" and "1e3" are integers, "12.5" is not. `drop` is set unless true
 * comes back: BAD_NUMBER or OVERFLOW. */
bool pkv__trace_tokens(pkv__text text, int32_t *out, pkv_sim_drop *drop);

/* Decimal text times unit_ns to ns, cut below. False: negative, NaN, infinite, not a number, or
 * 10^28 ns or more. */
bool pkv__trace_ns(pkv__text text, int64_t unit_ns, pkv__i128 *ns);

/* YYYY-MM-DD HH:MM:SS[.f], f of 1 to 9 digits, blank or T between, optionally Z or +HH:MM behind;
 * years 1900 to 2199. ns since 2000-01-01, in UTC if *zoned. */
bool pkv__trace_date(pkv__text text, pkv__i128 *ns, bool *zoned);

/* ---------------------------------------------------------------- lines */

typedef struct pkv__lines {
    const pkv_sim_trace_config *cfg;
    pkv_sim_read_fn read;
    void *ctx;
    char *buffer; /* [buffer_bytes], grows with long lines up to max_line and a chunk */
    size_t buffer_bytes;
    size_t from, to; /* unread bytes in the buffer */
    bool at_end;
    size_t max_line; /* bytes; longer ones are too long */
    bool skips_long; /* and are skipped to their end; otherwise they come back cut at once */
    int64_t number;  /* of the line read last, from 1 */
    int64_t bytes_read;
    bool had_bom, had_crlf, unterminated;
} pkv__lines;

/* A line without its end; the bytes are the reader's until the next line is asked for. */
typedef struct pkv__line {
    char *at; /* NULL: there is no more */
    size_t len;
    bool too_long;
} pkv__line;

pkv_status pkv__lines_init(pkv__lines *lines, pkv_sim_read_fn read, void *ctx,
                           const pkv_sim_trace_config *cfg);
void pkv__lines_deinit(pkv__lines *lines);
/* Pass over a byte order mark and blank lines and tell the first byte that is neither, whose line
 * stays unread; ' ': the line is longer than max_line and blank so far. *empty: the source ends
 * before. */
pkv_status pkv__lines_begin(pkv__lines *lines, char *first, bool *empty);
pkv_status pkv__lines_next(pkv__lines *lines, pkv__line *out);
bool pkv__line_is_blank(const pkv__line *line);

/* ---------------------------------------------------------------- formats */

typedef enum pkv__trace_role {
    PKV__ROLE_TIME,
    PKV__ROLE_INPUT,
    PKV__ROLE_OUTPUT,
    PKV__ROLE_MODEL, /* only asked for by a filter */
    PKV__ROLE_IDS,
    PKV__ROLE_COUNT
} pkv__trace_role;

typedef enum pkv__time_kind {
    PKV__TIME_NONE,
    PKV__TIME_NUMBER,
    PKV__TIME_DATE,
    PKV__TIME_EITHER /* as the first one is */
} pkv__time_kind;

typedef struct pkv__trace_format {
    const char *name;
    const char *key[PKV__ROLE_COUNT]; /* name of the column or key; NULL: there is none */
    const char *mark;                 /* has to be there too and tells it from its like; or NULL */
    pkv__time_kind time_kind;
    int64_t unit_ns;
    int32_t block_tokens; /* per content id */
    bool time_optional, ids_optional, has_history;
} pkv__trace_format;

/* The name that a line of several requests has in llmservingsim. */
#define PKV__NESTED_KEY "sub_requests"

/* PKV_E_INVALID_ARG: the config names a format that does not exist. */
pkv_status pkv__trace_check_format(const pkv_sim_trace_config *cfg);

/* What names a format is recognised by. */
typedef struct pkv__trace_names {
    const pkv__text *at;
    int n;
    int64_t line;
    bool json; /* keys of JSON, which can hold content ids; otherwise columns of CSV */
} pkv__trace_names;

/* Recognise the format, with the config's own names in it. PKV_E_FORMAT: the log lists what was
 * found. */
pkv_status pkv__trace_recognise(const pkv__trace_names *names, const pkv_sim_trace_config *cfg,
                                pkv__trace_format *out);
/* Position of a name; -1: not there, -2: there twice. */
int pkv__trace_find(const pkv__text *names, int n, const char *name);

/* ---------------------------------------------------------------- content ids */

/* An id as a trace has it: a sign and 64 bits, so that nothing from -2^63 to 2^64 - 1 is like
 * anything else. */
typedef struct pkv__id {
    uint64_t bits;
    bool negative;
} pkv__id;

/* Ids to dense indices in order of first appearance, and the list of indices of all rows. */
typedef struct pkv__ids {
    const pkv_allocator *alloc;
    struct pkv__ids_entry *table; /* [cap]; a power of two, at most half full */
    int64_t cap;
    int32_t n_distinct;
    int32_t *list; /* [list_cap], n in use */
    int64_t n, list_cap;
} pkv__ids;

void pkv__ids_deinit(pkv__ids *ids);
/* Append the indices of n <= PKV__IDS_AT_ONCE ids to the list. */
#define PKV__IDS_AT_ONCE 32
pkv_status pkv__ids_append(pkv__ids *ids, const pkv__id *from, int n);

/* ---------------------------------------------------------------- JSON */

typedef enum pkv__value_kind {
    PKV__VALUE_NONE,   /* not there, or null */
    PKV__VALUE_PLAIN,  /* a CSV field without blanks around it, a JSON number */
    PKV__VALUE_STRING, /* of JSON, what is between the quotes */
    PKV__VALUE_OTHER   /* of JSON: true, false, a list, an object */
} pkv__value_kind;

typedef struct pkv__trace_value {
    pkv__text text;
    pkv__value_kind kind;
} pkv__trace_value;

typedef struct pkv__json_key {
    pkv__text name;
    uint32_t hash;
} pkv__json_key;

/* One JSON object, read in one pass. Strings and keys are decoded in place. */
typedef struct pkv__json {
    /* What to do with content ids; ids_key NULL: nothing. */
    const char *ids_key;
    pkv__ids *ids;
    int64_t n_ids;     /* appended to ids; -1: the key is not there, or null */
    bool ids_bad;      /* it holds something else than a list of whole numbers of 64 bits */
    pkv_status status; /* of appending */
    /* The members of the object. */
    pkv__text names[PKV__MAX_COLUMNS];
    pkv__trace_value values[PKV__MAX_COLUMNS];
    int n;
    /* Why the text is not a JSON object, and where: byte from 1. */
    const char *expected;
    int64_t error_byte;
    /* Inside. */
    char *begin, *at, *end;
    int depth;
    pkv__json_key keys[PKV__MAX_COLUMNS]; /* of all open objects */
    int n_keys;
} pkv__json;

/* False: not an object, or status is not PKV_OK. */
bool pkv__json_read(pkv__json *json, char *at, size_t len);
/* Append the content ids in the text of a value; sets n_ids, ids_bad and status. */
void pkv__json_read_ids(pkv__json *json, pkv__trace_value value);

/* ---------------------------------------------------------------- rows */

typedef struct pkv__row {
    int64_t time_ns; /* relative to the first good row */
    int64_t line;
    int32_t prompt, output;
} pkv__row;

/* The content ids of a row, in ids.list. */
typedef struct pkv__span {
    int64_t first;
    int32_t n;
} pkv__span;

typedef struct pkv__rows {
    const pkv_sim_trace_config *cfg;
    pkv_sim_trace *out;
    bool recognised; /* the format is known */
    pkv__trace_format format;
    pkv__row *at; /* [cap], n in use, in the order of the file */
    int64_t n, cap;
    pkv__span *spans; /* [spans_cap] beside the rows, if the format has content ids */
    int64_t spans_cap;
    int64_t n_good; /* rows without a fault, also filtered ones */
    pkv__ids ids;
    int64_t n_ids_kept;  /* of ids.list, they belong to rows */
    pkv__time_kind kind; /* of the times: NUMBER or DATE as soon as there is one */
    pkv__i128 first_ns;  /* absolute time of the first good row ... */
    bool zoned;          /* ... which has a zone */
    int64_t earliest_ns; /* of good rows, relative to the first */
    int64_t n_timed, first_timed_line, n_untimed, first_untimed_line;
    char why[160];    /* the first dropped row */
    int64_t why_line; /* 0: none was dropped */
} pkv__rows;

void pkv__rows_init(pkv__rows *rows, const pkv_sim_trace_config *cfg, pkv_sim_trace *out);
void pkv__rows_deinit(pkv__rows *rows);
/* The format of all rows. */
void pkv__rows_set_format(pkv__rows *rows, const pkv__trace_format *format);
/* Count a row that cannot be used, and forget the content ids that were appended for it. An error
 * in strict. The text says what is wrong. */
pkv_status pkv__rows_drop(pkv__rows *rows, int64_t line, pkv_sim_drop reason, const char *fmt, ...)
    PKV_PRINTF(4, 5);
/* A row with its values by role. Its n_ids content ids are those appended to rows->ids since the
 * row before; -1: it says nothing about its content. */
pkv_status pkv__rows_add(pkv__rows *rows, int64_t line, const pkv__trace_value *values,
                         int64_t n_ids);
/* All rows are in: sort, choose, and fill the trace. */
pkv_status pkv__rows_finish(pkv__rows *rows);

/* ---------------------------------------------------------------- readers */

pkv_status pkv__trace_read_csv(pkv__lines *lines, pkv__rows *rows);
pkv_status pkv__trace_read_json(pkv__lines *lines, pkv__rows *rows);

#endif
