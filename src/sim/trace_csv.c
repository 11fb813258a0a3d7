/* The CSV reader: a line to fields, fields to values by role.
 *
 * A field may be quoted, with "" for a quote; it does not extend over lines, because one stray
 * quote would then swallow the file. */
#include "sim/trace.h"

typedef struct csv {
    pkv__lines *lines;
    pkv__rows *rows;
    pkv__text fields[PKV__MAX_COLUMNS];
    int n_fields;  /* of the line split last; may be more than are kept */
    int n_columns; /* of the header */
    char *header;  /* bytes of the header line, to know it again; owned */
    size_t header_len;
    int column[PKV__ROLE_COUNT]; /* where the values of a role are; -1: nowhere */
} csv;

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

/* Number of fields, of which the first PKV__MAX_COLUMNS are kept; -1: the quoting is broken. */
static int split_fields(csv *c, char *at, size_t len)
{
    int n = 0;
    for (size_t k = 0;; k++) {
        pkv__text field = { at + k, 0 };
        if (k < len && at[k] == '"') {
            if (!unquote(at, len, &k, &field)) return -1;
        } else {
            const size_t start = k;
            while (k < len && at[k] != ',') k++;
            field.len = k - start;
        }
        if (n < PKV__MAX_COLUMNS) c->fields[n] = field;
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

static pkv_status recognise(csv *c)
{
    const pkv__trace_names names = { c->fields, c->n_fields, c->lines->number, false };
    pkv__trace_format format;
    const pkv_status status = pkv__trace_recognise(&names, c->rows->cfg, &format);
    if (status != PKV_OK) return status;
    c->n_columns = c->n_fields;
    for (int role = 0; role < PKV__ROLE_COUNT; role++) {
        const char **key = &format.key[role];
        c->column[role] = *key ? pkv__trace_find(c->fields, c->n_fields, *key) : -1;
        if (c->column[role] < 0) *key = NULL; /* no row has it */
    }
    pkv__rows_set_format(c->rows, &format);
    return PKV_OK;
}

static pkv_status read_header(csv *c)
{
    const pkv_logger *log = &c->rows->cfg->log;
    pkv__line line;
    const pkv_status status = pkv__lines_next(c->lines, &line);
    const long long number = (long long)c->lines->number;
    if (status != PKV_OK) return status;
    if (line.too_long || memchr(line.at, '\0', line.len))
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: not a CSV header (%s); is this a text file?", number,
                           line.too_long ? "longer than 1 MiB" : "a NUL byte");
    c->header = pkv__alloc(&c->rows->cfg->alloc, line.len, 1);
    if (!c->header) return PKV_E_NO_MEMORY;
    c->header_len = line.len;
    memcpy(c->header, line.at, line.len);
    c->n_fields = split_fields(c, line.at, line.len);
    if (c->n_fields < 0 || c->n_fields > PKV__MAX_COLUMNS)
        return pkv__refuse(log, PKV_E_FORMAT,
                           "line %lld: the header has broken quotes or more than %d columns",
                           number, PKV__MAX_COLUMNS);
    return recognise(c);
}

/* ---------------------------------------------------------------- rows */

static pkv__trace_value value_of(const csv *c, pkv__trace_role role)
{
    if (c->column[role] < 0) return (pkv__trace_value){ { "", 0 }, PKV__VALUE_NONE };
    const pkv__text text = trimmed(c->fields[c->column[role]]);
    const bool none = role == PKV__ROLE_TIME && text.len == 0;
    return (pkv__trace_value){ text, none ? PKV__VALUE_NONE : PKV__VALUE_PLAIN };
}

static pkv_status read_row(csv *c, pkv__line line)
{
    pkv__rows *rows = c->rows;
    const int64_t number = c->lines->number;
    if (line.too_long) return pkv__rows_drop(rows, number, PKV_SIM_DROP_JUNK, "longer than 1 MiB");
    if (memchr(line.at, '\0', line.len))
        return pkv__rows_drop(rows, number, PKV_SIM_DROP_BAD_BYTES, "a NUL byte, text is expected");
    if (line.len == c->header_len && memcmp(line.at, c->header, line.len) == 0)
        return pkv__rows_drop(rows, number, PKV_SIM_DROP_REPEATED_HEADER, "the header once more");
    c->n_fields = split_fields(c, line.at, line.len);
    if (c->n_fields < 0) return pkv__rows_drop(rows, number, PKV_SIM_DROP_JUNK, "broken quotes");
    if (c->n_fields != c->n_columns)
        return pkv__rows_drop(rows, number, PKV_SIM_DROP_RAGGED_ROW, "%d fields, the header has %d",
                              c->n_fields, c->n_columns);
    pkv__trace_value values[PKV__ROLE_COUNT];
    for (int role = 0; role < PKV__ROLE_COUNT; role++)
        values[role] = value_of(c, (pkv__trace_role)role);
    return pkv__rows_add(rows, number, values, -1);
}

static pkv_status read_rows(csv *c)
{
    for (;;) {
        pkv__line line;
        pkv_status status = pkv__lines_next(c->lines, &line);
        if (status != PKV_OK || !line.at) return status;
        if (pkv__line_is_blank(&line)) continue;
        status = read_row(c, line);
        if (status != PKV_OK) return status;
    }
}

pkv_status pkv__trace_read_csv(pkv__lines *lines, pkv__rows *rows)
{
    const pkv_allocator *alloc = &rows->cfg->alloc;
    csv *c = pkv__alloc(alloc, sizeof(*c), _Alignof(csv));
    if (!c) return PKV_E_NO_MEMORY;
    *c = (csv){ .lines = lines, .rows = rows };
    pkv_status status = read_header(c);
    lines->skips_long = true;
    if (status == PKV_OK) status = read_rows(c);
    pkv__free(alloc, c->header, c->header_len);
    pkv__free(alloc, c, sizeof(*c));
    return status;
}
