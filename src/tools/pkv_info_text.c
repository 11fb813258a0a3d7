/* What all verbs print with: notes, numbers, tables, JSON. */
#include "pkv_info.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- what the library says */

void info_note(info_log *log, const char *fmt, ...)
{
    va_list args;
    if (log->n_notes == INFO_MAX_NOTES) return;
    va_start(args, fmt);
    vsnprintf(log->notes[log->n_notes++], sizeof(log->notes[0]), fmt, args);
    va_end(args);
}

static void keep_line(void *ctx, pkv_log_level level, const char *text)
{
    info_log *log = ctx;
    if (level == PKV_LOG_ERROR) snprintf(log->error, sizeof(log->error), "%s", text);
    else info_note(log, "%s", text);
}

pkv_logger info_logger(info_log *log)
{
    return (pkv_logger){ keep_line, log };
}

int info_failed(const info_log *log, pkv_status status)
{
    info_complain("%s", log->error[0] ? log->error : pkv_status_text(status));
    return status == PKV_E_NO_MEMORY ? INFO_IO : INFO_MODEL;
}

void info_print_notes(const info_log *log)
{
    for (int k = 0; k < log->n_notes; k++) printf("note          %s\n", log->notes[k]);
}

json_t *info_notes_json(const info_log *log)
{
    json_t *list = json_array();
    for (int k = 0; k < log->n_notes; k++) json_array_append_new(list, json_string(log->notes[k]));
    return list;
}

/* ---------------------------------------------------------------- numbers */

const char *info_count_text(int64_t n, char out[INFO_TEXT_BYTES])
{
    char plain[24];
    const int len = snprintf(plain, sizeof(plain), "%lld", (long long)n);
    int at = 0;
    for (int k = 0; k < len; k++) {
        out[at++] = plain[k];
        if (k + 1 < len && (len - k - 1) % 3 == 0 && plain[k] != '-') out[at++] = ',';
    }
    out[at] = '\0';
    return out;
}

/* Three digits or more of `n` in the largest unit that it fills. */
static void scaled(double n, double step, const char *const *units, int n_units,
                   char out[INFO_TEXT_BYTES])
{
    int unit = 0;
    for (; unit + 1 < n_units && n >= step; unit++) n /= step;
    snprintf(out, INFO_TEXT_BYTES, "%.*f %s", n < 10 ? 2 : n < 100 ? 1 : 0, n, units[unit]);
}

const char *info_bytes_text(double bytes, char out[INFO_TEXT_BYTES])
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
    if (bytes < 10240) { /* exact */
        char count[INFO_TEXT_BYTES];
        const bool whole = bytes == (double)(int64_t)bytes;
        if (whole)
            snprintf(out, INFO_TEXT_BYTES, "%.20s B", info_count_text((int64_t)bytes, count));
        else snprintf(out, INFO_TEXT_BYTES, "%.6g B", bytes);
        return out;
    }
    scaled(bytes, 1024, units, 7, out);
    return out;
}

const char *info_large_text(double n, char out[INFO_TEXT_BYTES])
{
    static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
    if (n < 1000) snprintf(out, INFO_TEXT_BYTES, "%.6g", n);
    else scaled(n, 1000, units, 7, out);
    return out;
}

/* ---------------------------------------------------------------- tables */

void info_table_add(info_table *t, const char *fmt, ...)
{
    char row[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(row, sizeof(row), fmt, args);
    va_end(args);
    if (t->n == t->cap) {
        const int cap = t->cap ? 2 * t->cap : 16;
        char **rows = realloc(t->rows, (size_t)cap * sizeof(*rows));
        if (!rows) {
            t->failed = true;
            return;
        }
        t->rows = rows;
        t->cap = cap;
    }
    t->rows[t->n] = strdup(row);
    if (t->rows[t->n]) t->n++;
    else t->failed = true;
}

/* Columns that the text takes: characters of UTF-8. */
static int width_of(const char *text, size_t n)
{
    int width = 0;
    for (size_t k = 0; k < n; k++) width += ((unsigned char)text[k] & 0xC0) != 0x80;
    return width;
}

/* Cell `column` of a row; its bytes, 0 if there is none. */
static const char *cell(const char *row, int column, size_t *n)
{
    for (; column > 0 && *row; column--) {
        row += strcspn(row, "\t");
        row += *row == '\t';
    }
    *n = column > 0 ? 0 : strcspn(row, "\t");
    return row;
}

static void print_row(const info_table *t, const char *row, const int *widths, FILE *out)
{
    const int n_columns = (int)strlen(t->align);
    int blanks = 0; /* not yet printed: none stand at the end of a line */
    for (int c = 0; c < n_columns; c++) {
        size_t n;
        const char *text = cell(row, c, &n);
        const int width = width_of(text, n), rest = widths[c] - width;
        if (c > 0) blanks += 2;
        if (t->align[c] == 'r') blanks += rest;
        if (n > 0) {
            fprintf(out, "%*s%.*s", blanks, "", (int)n, text);
            blanks = 0;
        } else {
            blanks += width;
        }
        if (t->align[c] != 'r') blanks += rest;
    }
    fputc('\n', out);
}

bool info_table_print(info_table *t, FILE *out)
{
    enum { MAX_COLUMNS = 16 };
    int widths[MAX_COLUMNS] = { 0 };
    const bool ok = !t->failed;
    for (int r = 0; r < t->n; r++)
        for (int c = 0; c < MAX_COLUMNS && t->align[c]; c++) {
            size_t n;
            const char *text = cell(t->rows[r], c, &n);
            const int width = width_of(text, n);
            if (width > widths[c]) widths[c] = width;
        }
    for (int r = 0; r < t->n; r++) {
        if (ok) print_row(t, t->rows[r], widths, out);
        free(t->rows[r]);
    }
    free(t->rows);
    *t = (info_table){ .align = t->align };
    if (!ok) info_complain("no memory for a table");
    return ok;
}

/* ---------------------------------------------------------------- the end */

int info_finish_output(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return INFO_OK;
    info_complain("cannot write to standard output");
    return INFO_IO;
}

int info_print_json(json_t *root)
{
    if (!root || (json_dumpf(root, stdout, JSON_INDENT(1)) != 0 && !ferror(stdout))) {
        info_complain("no memory for the JSON");
        json_decref(root);
        return INFO_IO;
    }
    json_decref(root);
    fputc('\n', stdout);
    return info_finish_output();
}
