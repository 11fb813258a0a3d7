/* Shared by the trace readers: values, times, formats. */
#ifndef PKV_SIM_TRACE_H
#define PKV_SIM_TRACE_H

#include "sim/sim_internal.h"

typedef struct pkv__text {
    const char *at;
    size_t len;
} pkv__text;

/* The text as it can be shown anywhere: what is not printable ASCII as \xNN, "..." where it gets
 * longer than cap (at least 8). */
void pkv__trace_printable(pkv__text text, char *out, size_t cap);

/* A token count: "7564", "7564.0" and "1e3" are integers, "12.5" is not. `drop` is set unless true
 * comes back: BAD_NUMBER or OVERFLOW. */
bool pkv__trace_tokens(pkv__text text, int32_t *out, pkv_sim_drop *drop);

/* Seconds as decimal text to ns, cut below. False: negative, NaN, infinite, not a number, or 10^19
 * seconds or more. */
bool pkv__trace_seconds(pkv__text text, pkv__i128 *ns);

/* YYYY-MM-DD HH:MM:SS[.f], f of 1 to 9 digits, blank or T between, optionally Z or +HH:MM behind;
 * years 1900 to 2199. ns since 2000-01-01, in UTC if *zoned. */
bool pkv__trace_date(pkv__text text, pkv__i128 *ns, bool *zoned);

typedef struct pkv__trace_format {
    const char *name;
    const char *time; /* column names */
    const char *input;
    const char *output;
    bool time_is_date;
    bool time_optional;
} pkv__trace_format;

/* Where the columns of the recognised format are; time -1: there is none. */
typedef struct pkv__trace_columns {
    const pkv__trace_format *format;
    int time, input, output, n;
} pkv__trace_columns;

/* Recognise the format by the names in the header. PKV_E_FORMAT: the log lists what was found. */
pkv_status pkv__trace_recognise(const pkv__text *names, int n, int64_t line, const pkv_logger *log,
                                pkv__trace_columns *out);

#endif
