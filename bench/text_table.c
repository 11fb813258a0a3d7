/* Prints tables. */
#include "text_table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void text_table_init(struct text_table *t, const char *heads, char *storage, size_t size)
{
    char *rest = NULL;
    memset(t, 0, sizeof(*t));
    snprintf(storage, size, "%s", heads);
    for (char *h = strtok_r(storage, "|", &rest); h && t->n_columns < TEXT_TABLE_MAX_COLUMNS;
         h = strtok_r(NULL, "|", &rest)) {
        t->left[t->n_columns] = *h == '<';
        t->heads[t->n_columns++] = *h == '<' ? h + 1 : h;
    }
}

void text_table_free(struct text_table *t)
{
    free(t->cells);
    memset(t, 0, sizeof(*t));
}

void text_table_row(struct text_table *t)
{
    if (t->n_rows == t->cap) {
        const int32_t cap = t->cap ? 2 * t->cap : 16;
        void *cells = realloc(t->cells, (size_t)cap * (size_t)t->n_columns * TEXT_TABLE_CELL);
        if (!cells) {
            t->no_memory = true; /* the row overwrites the last one; print says so */
            return;
        }
        t->cells = cells;
        t->cap = cap;
    }
    memset(t->cells[t->n_rows * t->n_columns], 0, (size_t)t->n_columns * TEXT_TABLE_CELL);
    t->n_rows++;
}

void text_table_set(struct text_table *t, int32_t column, const char *fmt, ...)
{
    va_list args;
    if (t->n_rows == 0) return;
    va_start(args, fmt);
    vsnprintf(t->cells[(t->n_rows - 1) * t->n_columns + column], TEXT_TABLE_CELL, fmt, args);
    va_end(args);
}

static void print_line(const struct text_table *t, const char *const *cells, const size_t *widths,
                       bool markdown, FILE *out)
{
    char line[TEXT_TABLE_MAX_COLUMNS * (TEXT_TABLE_CELL + 4)];
    size_t n = 0;
    for (int32_t c = 0; c < t->n_columns; c++) {
        const int width = (int)widths[c];
        n += (size_t)snprintf(line + n, sizeof(line) - n, "%s%*s",
                              markdown ? "| "
                              : c      ? "  "
                                       : "",
                              t->left[c] ? -width : width, cells[c]);
        if (markdown) n += (size_t)snprintf(line + n, sizeof(line) - n, " ");
    }
    if (!markdown)
        while (n > 0 && line[n - 1] == ' ') line[--n] = '\0';
    fprintf(out, "%s%s\n", line, markdown ? "|" : "");
}

void text_table_print(const struct text_table *t, bool markdown, FILE *out)
{
    size_t widths[TEXT_TABLE_MAX_COLUMNS];
    const char *line[TEXT_TABLE_MAX_COLUMNS];
    for (int32_t c = 0; c < t->n_columns; c++) {
        widths[c] = strlen(t->heads[c]);
        for (int32_t r = 0; r < t->n_rows; r++) {
            const size_t n = strlen(t->cells[r * t->n_columns + c]);
            if (n > widths[c]) widths[c] = n;
        }
    }
    print_line(t, t->heads, widths, markdown, out);
    if (markdown) {
        for (int32_t c = 0; c < t->n_columns; c++) fputs(t->left[c] ? "|:---" : "|---:", out);
        fputs("|\n", out);
    }
    for (int32_t r = 0; r < t->n_rows; r++) {
        for (int32_t c = 0; c < t->n_columns; c++) line[c] = t->cells[r * t->n_columns + c];
        print_line(t, line, widths, markdown, out);
    }
    if (t->no_memory) fputs("(rows are missing: no memory)\n", out);
}

void text_ns(double ns, char *text, size_t size)
{
    const char *unit = "ns";
    if (ns >= 1e9) ns /= 1e9, unit = "s";
    else if (ns >= 1e6) ns /= 1e6, unit = "ms";
    else if (ns >= 1e3) ns /= 1e3, unit = "us";
    snprintf(text, size, "%.*f %s", ns < 10 ? 2 : ns < 100 ? 1 : 0, ns, unit);
}
