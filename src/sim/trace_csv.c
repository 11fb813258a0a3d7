/* The CSV reader: one pass, memory for the requests and one line.
 *
 *   bytes --(line_next)--> line --(split_fields)--> fields --(read_row)--> row or reason to drop it
 *
 * A line ends at LF; a CR before it is part of the line end. A field may be quoted, with "" for a
 * quote; it does not extend over lines, because one stray quote would then swallow the file. */
#include "sim/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_LINE_BYTES ((size_t)1 << 20)
#define MAX_SKIPPED_BYTES ((size_t)64 << 20) /* of one line; a source may never end a line */
#define CHUNK_BYTES ((size_t)1 << 16)
#define FIRST_BUFFER_BYTES ((size_t)1 << 14)
#define MAX_BUFFER_BYTES (MAX_LINE_BYTES + CHUNK_BYTES)
#define MAX_FIELDS 256
#define LATEST_NS (INT64_C(1) << 62)

typedef struct row {
    int64_t time_ns; /* relative to the first good row */
    int64_t line;
    int32_t prompt, output;
} row;

typedef struct reader {
    const pkv_sim_trace_config *cfg;
    pkv_sim_read_fn read;
    void *ctx;
    char *buffer; /* [buffer_bytes], grows up to MAX_BUFFER_BYTES for long lines */
    size_t buffer_bytes;
    size_t from, to; /* unread bytes in the buffer */
    bool at_end;
    int64_t line; /* number of the line read last */
    pkv__text fields[MAX_FIELDS];
    int n_fields;     /* of the row read last */
    char why[160];    /* the first dropped row */
    int64_t why_line; /* 0: none was dropped */
    pkv__trace_columns columns;
    char *header; /* bytes of the header line, to know it again */
    size_t header_len;
    row *rows;
    int64_t n_rows, cap_rows;
    pkv__i128 first_ns; /* absolute time of the first good row */
    bool zoned;         /* of the first good row */
    int64_t n_timed, first_timed_line, n_untimed, first_untimed_line;
    pkv_sim_trace *out;
} reader;

/* ---------------------------------------------------------------- lines */

/* Twice the buffer, for a line that does not fit. */
static pkv_status grow_buffer(reader *rd)
{
    const size_t twice = 2 * rd->buffer_bytes;
    const size_t bytes = twice < MAX_BUFFER_BYTES ? twice : MAX_BUFFER_BYTES;
    char *buffer = pkv__alloc(&rd->cfg->alloc, bytes, 1);
    if (!buffer) return PKV_E_NO_MEMORY;
    memcpy(buffer, rd->buffer, rd->to);
    pkv__free(&rd->cfg->alloc, rd->buffer, rd->buffer_bytes);
    rd->buffer = buffer;
    rd->buffer_bytes = bytes;
    return PKV_OK;
}

/* Have at least one more byte behind `to`, moving what is unread to the front. */
static pkv_status fill(reader *rd)
{
    if (rd->from > 0) {
        memmove(rd->buffer, rd->buffer + rd->from, rd->to - rd->from);
        rd->to -= rd->from;
        rd->from = 0;
    }
    if (rd->to == rd->buffer_bytes) {
        const pkv_status status = grow_buffer(rd);
        if (status != PKV_OK) return status;
    }
    const size_t room = rd->buffer_bytes - rd->to;
    const int64_t got =
        rd->read(rd->ctx, rd->buffer + rd->to, room < CHUNK_BYTES ? room : CHUNK_BYTES);
    if (got < 0) return pkv__refuse(&rd->cfg->log, PKV_E_IO, "reading the trace failed");
    if (got == 0) rd->at_end = true;
    rd->to += (size_t)got;
    return PKV_OK;
}

/* Give up on a line that does not end; forget what is read of it but its first byte, so that it
 * does not come out as blank. */
static pkv_status skip_ahead(reader *rd, size_t *skipped)
{
    *skipped += rd->to - rd->from - 1;
    rd->to = rd->from + 1;
    if (*skipped <= MAX_SKIPPED_BYTES) return PKV_OK;
    return pkv__refuse(&rd->cfg->log, PKV_E_FORMAT,
                       "line %lld: no line end within %d MiB; is this a text file?",
                       (long long)rd->line + 1, (int)(MAX_SKIPPED_BYTES >> 20));
}

/* The next line without its end. *at NULL: there is none. A line above MAX_LINE_BYTES sets
 * *too_long; the header comes back as soon as it is that long, of a row the rest is skipped. */
static pkv_status line_next(reader *rd, char **at, size_t *len, bool *too_long)
{
    size_t seen = 0; /* unread bytes known to hold no LF */
    size_t skipped = 0;
    *at = NULL;
    for (;;) {
        char *start = rd->buffer + rd->from;
        const size_t n = rd->to - rd->from;
        char *end = n > seen ? memchr(start + seen, '\n', n - seen) : NULL;
        if (end || (rd->at_end && n > 0) || (n > MAX_LINE_BYTES && !rd->header)) {
            *at = start;
            *len = end ? (size_t)(end - start) : n;
            *too_long = skipped > 0 || *len > MAX_LINE_BYTES;
            rd->from += *len + (end != NULL);
            rd->out->last_row_unterminated = !end;
            break;
        }
        if (rd->at_end) return PKV_OK;
        pkv_status status = n > MAX_LINE_BYTES ? skip_ahead(rd, &skipped) : PKV_OK;
        seen = rd->to - rd->from;
        if (status == PKV_OK) status = fill(rd);
        if (status != PKV_OK) return status;
    }
    rd->line++;
    if (*len > 0 && (*at)[*len - 1] == '\r') {
        (*len)--;
        rd->out->had_crlf = true;
    }
    return PKV_OK;
}

static bool is_blank(const char *at, size_t len)
{
    for (size_t k = 0; k < len; k++)
        if (at[k] != ' ' && at[k] != '\t' && at[k] != '\r') return false;
    return true;
}

/* ---------------------------------------------------------------- fields */

/* Undo the quotes of a field that begins at at[*k], in place; *k ends behind it. */
static bool unquote(char *at, size_t len, size_t *k, pkv__text *field)
{
    size_t from = *k + 1, to = from;
    const size_t start = from;
    for (; from < len; from++) {
        if (at[from] == '"') {
            if (from + 1 >= len || at[from + 1] != '"') break;
            from++;
        }
        at[to++] = at[from];
    }
    if (from >= len) return false; /* never closed */
    *field = (pkv__text){ at + start, to - start };
    *k = from + 1;
    return *k == len || at[*k] == ',';
}

/* Number of fields, of which the first MAX_FIELDS are kept; -1: the quoting is broken. */
static int split_fields(reader *rd, char *at, size_t len)
{
    int n = 0;
    for (size_t k = 0;; k++) {
        pkv__text field = { at + k, 0 };
        if (k < len && at[k] == '"') {
            if (!unquote(at, len, &k, &field)) return -1;
        } else {
            const char *comma = k < len ? memchr(at + k, ',', len - k) : NULL;
            field.len = comma ? (size_t)(comma - (at + k)) : len - k;
            k += field.len;
        }
        if (n < MAX_FIELDS) rd->fields[n] = field;
        if (n < INT32_MAX) n++;
        if (k >= len) return n;
    }
}

static pkv__text trimmed(pkv__text text)
{
    while (text.len > 0 && (*text.at == ' ' || *text.at == '\t')) {
        text.at++;
        text.len--;
    }
    while (text.len > 0 && (text.at[text.len - 1] == ' ' || text.at[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* ---------------------------------------------------------------- header */

static pkv_status read_header(reader *rd)
{
    const pkv_logger *log = &rd->cfg->log;
    char *at;
    size_t len;
    bool too_long;
    do {
        const pkv_status status = line_next(rd, &at, &len, &too_long);
        if (status != PKV_OK) return status;
        if (!at)
            return pkv__refuse(log, PKV_E_FORMAT,
                               "the file is empty: a header line with the "
                               "column names is expected");
        if (rd->line == 1 && len >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0) {
            rd->out->had_bom = true;
            at += 3;
            len -= 3;
        }
    } while (!too_long && is_blank(at, len));
    if (*at == '{')
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: this looks like JSON lines; a CSV header is expected",
                           (long long)rd->line);
    if (too_long || memchr(at, '\0', len))
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: not a CSV header (%s); is this a text file?",
                           (long long)rd->line, too_long ? "longer than 1 MiB" : "a NUL byte");
    rd->header = pkv__alloc(&rd->cfg->alloc, len, 1);
    if (!rd->header) return PKV_E_NO_MEMORY;
    rd->header_len = len;
    memcpy(rd->header, at, len);
    const int n = split_fields(rd, at, len);
    if (n < 0 || n > MAX_FIELDS)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: the header has broken quotes or more than %d columns",
                           (long long)rd->line, MAX_FIELDS);
    const pkv_status status = pkv__trace_recognise(rd->fields, n, rd->line, log, &rd->columns);
    if (status == PKV_OK) rd->out->format = rd->columns.format->name;
    return status;
}

/* ---------------------------------------------------------------- rows */

/* What is expected of a value. */
static const char *expected(const reader *rd, pkv_sim_drop reason)
{
    if (reason == PKV_SIM_DROP_OVERFLOW) return "at most 2147483647";
    if (reason != PKV_SIM_DROP_BAD_TIMESTAMP) return "a whole number from 1 on";
    return rd->columns.format->time_is_date ? "a time as in 2023-11-16 18:15:46.68"
                                            : "seconds from 0 on, as in 12.5";
}

/* What is wrong with the row read last; column -1: no single value is. */
static void explain(const reader *rd, pkv_sim_drop reason, int column, char *out, size_t cap)
{
    const char *name = pkv_sim_drop_name(reason);
    const pkv__trace_columns *c = &rd->columns;
    if (column >= 0) {
        const pkv__trace_format *f = c->format;
        char value[40];
        pkv__trace_printable(rd->fields[column], value, sizeof(value));
        snprintf(out, cap, "%s: %s is '%s', %s is expected", name,
                 column == c->time    ? f->time
                 : column == c->input ? f->input
                                      : f->output,
                 value, expected(rd, reason));
    } else if (reason == PKV_SIM_DROP_RAGGED_ROW)
        snprintf(out, cap, "%s: %d fields, the header has %d", name, rd->n_fields, c->n);
    else if (reason == PKV_SIM_DROP_REPEATED_HEADER)
        snprintf(out, cap, "%s: the header once more", name);
    else if (reason == PKV_SIM_DROP_BAD_BYTES)
        snprintf(out, cap, "%s: a NUL byte, text is expected", name);
    else snprintf(out, cap, "%s: broken quotes, or longer than 1 MiB", name);
}

static pkv_status drop(reader *rd, pkv_sim_drop reason, int column)
{
    if (rd->cfg->strict || rd->why_line == 0) {
        explain(rd, reason, column, rd->why, sizeof(rd->why));
        rd->why_line = rd->line;
    }
    if (rd->cfg->strict)
        return pkv__refuse(&rd->cfg->log, PKV_E_FORMAT,
                           "line %lld: %s; correct the row, or read without strict to drop it",
                           (long long)rd->line, rd->why);
    if (rd->out->dropped[reason]++ == 0) rd->out->first_line[reason] = rd->line;
    return PKV_OK;
}

static pkv_status append(reader *rd, row r)
{
    if (rd->n_rows == rd->cap_rows) {
        const int64_t cap = rd->cap_rows ? 2 * rd->cap_rows : 1024;
        row *rows = pkv__alloc(&rd->cfg->alloc, (size_t)cap * sizeof(row), _Alignof(row));
        if (!rows) return PKV_E_NO_MEMORY;
        if (rd->n_rows > 0) memcpy(rows, rd->rows, (size_t)rd->n_rows * sizeof(row));
        pkv__free(&rd->cfg->alloc, rd->rows, (size_t)rd->cap_rows * sizeof(row));
        rd->rows = rows;
        rd->cap_rows = cap;
    }
    rd->rows[rd->n_rows++] = r;
    return PKV_OK;
}

/* The time of a row, which may have none. BAD_TIMESTAMP comes back as false. */
static bool read_time(const reader *rd, bool *timed, pkv__i128 *ns, bool *zoned)
{
    *timed = false;
    *zoned = false;
    *ns = 0;
    if (rd->columns.time < 0) return true;
    const pkv__text text = trimmed(rd->fields[rd->columns.time]);
    *timed = text.len > 0;
    if (!*timed) return true;
    if (rd->columns.format->time_is_date) return pkv__trace_date(text, ns, zoned);
    return pkv__trace_seconds(text, ns);
}

/* Count rows with and without a time; refuse a mixture of zoned and unzoned ones. */
static pkv_status note_time(reader *rd, bool timed, pkv__i128 ns, bool zoned)
{
    if (!timed) {
        if (rd->n_untimed++ == 0) rd->first_untimed_line = rd->line;
        return PKV_OK;
    }
    if (rd->n_timed++ == 0) {
        rd->first_timed_line = rd->line;
        rd->first_ns = ns;
        rd->zoned = zoned;
    }
    if (zoned == rd->zoned) return PKV_OK;
    return pkv__refuse(&rd->cfg->log, PKV_E_FORMAT,
                       "line %lld: a time %s zone, while line %lld has one %s; make them alike",
                       (long long)rd->line, zoned ? "with a" : "without",
                       (long long)rd->first_timed_line, zoned ? "without" : "with a zone");
}

/* Lengths and time of the split line. */
static pkv_status read_values(reader *rd)
{
    pkv__i128 ns;
    bool timed, zoned;
    pkv_sim_drop reason;
    row r = { .line = rd->line };
    const pkv__trace_columns *c = &rd->columns;
    if (!read_time(rd, &timed, &ns, &zoned)) return drop(rd, PKV_SIM_DROP_BAD_TIMESTAMP, c->time);
    if (!pkv__trace_tokens(trimmed(rd->fields[c->input]), &r.prompt, &reason))
        return drop(rd, reason, c->input);
    if (!pkv__trace_tokens(trimmed(rd->fields[c->output]), &r.output, &reason))
        return drop(rd, reason, c->output);
    if (r.prompt == 0) return drop(rd, PKV_SIM_DROP_ZERO_INPUT, c->input);
    if (r.output == 0) return drop(rd, PKV_SIM_DROP_ZERO_OUTPUT, c->output);
    if (timed && rd->n_timed > 0 &&
        (ns - rd->first_ns >= LATEST_NS / 2 || rd->first_ns - ns >= LATEST_NS / 2))
        return drop(rd, PKV_SIM_DROP_BAD_TIMESTAMP, c->time);
    const pkv_status status = note_time(rd, timed, ns, zoned);
    if (status != PKV_OK) return status;
    r.time_ns = timed ? (int64_t)(ns - rd->first_ns) : 0;
    if (rd->n_rows > 0 && r.time_ns < rd->rows[rd->n_rows - 1].time_ns) {
        if (rd->cfg->strict)
            return pkv__refuse(&rd->cfg->log, PKV_E_FORMAT,
                               "line %lld: arrives before the row in front of it; sort the file, "
                               "or read without strict",
                               (long long)rd->line);
        if (rd->out->n_backwards++ == 0) rd->out->first_backwards_line = rd->line;
    }
    return append(rd, r);
}

static pkv_status read_row(reader *rd, char *at, size_t len, bool too_long)
{
    if (!too_long && is_blank(at, len)) return PKV_OK;
    rd->out->rows_read++;
    if (too_long) return drop(rd, PKV_SIM_DROP_JUNK, -1);
    if (memchr(at, '\0', len)) return drop(rd, PKV_SIM_DROP_BAD_BYTES, -1);
    if (len == rd->header_len && memcmp(at, rd->header, len) == 0)
        return drop(rd, PKV_SIM_DROP_REPEATED_HEADER, -1);
    rd->n_fields = split_fields(rd, at, len);
    if (rd->n_fields < 0) return drop(rd, PKV_SIM_DROP_JUNK, -1);
    if (rd->n_fields != rd->columns.n) return drop(rd, PKV_SIM_DROP_RAGGED_ROW, -1);
    return read_values(rd);
}

static pkv_status read_rows(reader *rd)
{
    for (;;) {
        char *at;
        size_t len;
        bool too_long;
        pkv_status status = line_next(rd, &at, &len, &too_long);
        if (status != PKV_OK || !at) return status;
        status = read_row(rd, at, len, too_long);
        if (status != PKV_OK) return status;
    }
}

/* ---------------------------------------------------------------- the whole */

static int compare_rows(const void *a, const void *b)
{
    const row *x = a, *y = b;
    if (x->time_ns != y->time_ns) return x->time_ns < y->time_ns ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

static pkv_status refuse_empty(const reader *rd)
{
    const pkv_logger *log = &rd->cfg->log;
    const pkv__trace_format *f = rd->columns.format;
    const long long n = (long long)rd->out->rows_read, line = (long long)rd->why_line;
    if (n == 0)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "a header, but no rows; below it, a row with %s%s%s and %s per request "
                           "is expected",
                           rd->columns.time >= 0 ? f->time : "", rd->columns.time >= 0 ? ", " : "",
                           f->input, f->output);
    if (n == 1)
        return pkv__refuse(log, PKV_E_FORMAT, "the only row is not usable; line %lld: %s", line,
                           rd->why);
    return pkv__refuse(log, PKV_E_FORMAT, "none of the %lld rows is usable; line %lld: %s", n, line,
                       rd->why);
}

/* Keep the earliest rows within the limits; count the others as filtered. */
static pkv_status keep_wanted(reader *rd)
{
    pkv_sim_trace *t = rd->out;
    const pkv_sim_trace_config *cfg = rd->cfg;
    int64_t n = rd->n_rows;
    if (cfg->max_requests > 0 && n > cfg->max_requests) n = cfg->max_requests;
    const int64_t start_ns = rd->rows[0].time_ns;
    if (cfg->duration_ns > 0 && rd->n_timed > 0)
        while (rd->rows[n - 1].time_ns - start_ns >= cfg->duration_ns) n--;
    t->dropped[PKV_SIM_DROP_FILTERED] = rd->n_rows - n;
    for (int64_t k = n; k < rd->n_rows; k++)
        if (k == n || rd->rows[k].line < t->first_line[PKV_SIM_DROP_FILTERED])
            t->first_line[PKV_SIM_DROP_FILTERED] = rd->rows[k].line;

    t->reqs = pkv__alloc(&cfg->alloc, (size_t)n * sizeof(*t->reqs), _Alignof(pkv_sim_request));
    if (!t->reqs) return PKV_E_NO_MEMORY;
    t->n_reqs = n;
    for (int64_t k = 0; k < n; k++) {
        const row *r = &rd->rows[k];
        t->reqs[k] = (pkv_sim_request){ r->time_ns - start_ns, r->prompt, r->output };
    }
    t->has_times = rd->n_timed > 0;
    t->span_ns = t->reqs[n - 1].arrival_ns;
    return PKV_OK;
}

static pkv_status read_all(reader *rd)
{
    pkv_status status = read_header(rd);
    if (status != PKV_OK) return status;
    status = read_rows(rd);
    if (status != PKV_OK) return status;
    if (rd->n_rows == 0) return refuse_empty(rd);
    if (rd->n_timed > 0 && rd->n_untimed > 0)
        return pkv__refuse(&rd->cfg->log, PKV_E_FORMAT,
                           "line %lld: no time, while line %lld has one; fill in all or none",
                           (long long)rd->first_untimed_line, (long long)rd->first_timed_line);
    if (rd->out->n_backwards > 0) {
        qsort(rd->rows, (size_t)rd->n_rows, sizeof(row), compare_rows);
        pkv__log(&rd->cfg->log, PKV_LOG_WARN,
                 "line %lld: arrives before the row in front of it, as do %lld rows in all; sorted",
                 (long long)rd->out->first_backwards_line, (long long)rd->out->n_backwards);
    }
    return keep_wanted(rd);
}

static pkv_status check_args(const pkv_sim_trace_config *cfg)
{
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    if (cfg->max_requests < 0 || cfg->duration_ns < 0 || !pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "a negative limit, or half an allocator");
    return PKV_OK;
}

pkv_status pkv_sim_trace_read(pkv_sim_read_fn read, void *ctx, const pkv_sim_trace_config *cfg,
                              pkv_sim_trace *out)
{
    if (!read || !cfg || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    pkv_status status = check_args(cfg);
    if (status != PKV_OK) return status;
    pkv_sim_trace trace = PKV_SIM_TRACE_INIT;
    trace.alloc = cfg->alloc;
    reader *rd = pkv__alloc(&cfg->alloc, sizeof(*rd), _Alignof(reader));
    if (!rd) return PKV_E_NO_MEMORY;
    *rd = (reader){ .cfg = cfg, .read = read, .ctx = ctx, .out = &trace };
    rd->buffer_bytes = FIRST_BUFFER_BYTES;
    rd->buffer = pkv__alloc(&cfg->alloc, rd->buffer_bytes, 1);
    status = rd->buffer ? read_all(rd) : PKV_E_NO_MEMORY;
    if (status == PKV_OK) *out = trace;
    else pkv_sim_trace_free(&trace);
    pkv__free(&cfg->alloc, rd->rows, (size_t)rd->cap_rows * sizeof(row));
    pkv__free(&cfg->alloc, rd->header, rd->header_len);
    pkv__free(&cfg->alloc, rd->buffer, rd->buffer_bytes);
    pkv__free(&cfg->alloc, rd, sizeof(*rd));
    return status;
}

void pkv_sim_trace_free(pkv_sim_trace *trace)
{
    if (!trace) return;
    const pkv_allocator alloc = trace->alloc;
    pkv__free(&alloc, trace->reqs, (size_t)trace->n_reqs * sizeof(*trace->reqs));
    *trace = (pkv_sim_trace)PKV_SIM_TRACE_INIT;
}

const char *pkv_sim_drop_name(pkv_sim_drop reason)
{
    switch (reason) {
#define PKV_SIM_DROP_CASE(name, text)                                                              \
    case PKV_SIM_DROP_##name:                                                                      \
        return text;
        PKV_SIM_DROP_LIST(PKV_SIM_DROP_CASE)
#undef PKV_SIM_DROP_CASE
    case PKV_SIM_DROP_COUNT:
        break;
    }
    return "?";
}
