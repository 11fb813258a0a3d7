/* The report of a run as CSV: a header and a row per policy; what was not measured is
 * empty. */
#include "fragsim_csv.h"

#include "fragsim_fields.h"

#include <stdlib.h>
#include <string.h>

typedef struct writer {
    FILE *out;
    bool any;
} writer;

void fragsim_csv_text(FILE *out, const char *text)
{
    if (text[strcspn(text, ",\"\n\r")] == '\0') {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (const char *c = text; *c; c++) {
        if (*c == '"') fputc('"', out);
        fputc(*c, out);
    }
    fputc('"', out);
}

static void put_name(void *ctx, const char *group, const char *name, const char *column,
                     const fragsim_value *value)
{
    (void)group;
    (void)name;
    (void)value;
    writer *w = ctx;
    fprintf(w->out, "%s%s", w->any ? "," : "", column);
    w->any = true;
}

static void put_value(void *ctx, const char *group, const char *name, const char *column,
                      const fragsim_value *value)
{
    (void)group;
    (void)name;
    (void)column;
    writer *w = ctx;
    if (w->any) fputc(',', w->out);
    w->any = true;
    switch (value->kind) {
    case FRAGSIM_NULL:
        break;
    case FRAGSIM_WHOLE:
        fprintf(w->out, "%lld", (long long)value->whole);
        break;
    case FRAGSIM_REAL:
        fprintf(w->out, "%.*g", FRAGSIM_DIGITS, value->real);
        break;
    case FRAGSIM_FLAG:
        fputs(value->whole != 0 ? "true" : "false", w->out);
        break;
    case FRAGSIM_TEXT:
        fragsim_csv_text(w->out, value->text);
        break;
    }
}

/* The policy first, then what was measured, then under which settings. */
void fragsim_csv_names(FILE *out, const fragsim_job *job)
{
    writer w = { out, false };
    fragsim_fields(job, FRAGSIM_RESULT, put_name, &w);
    fragsim_fields(job, FRAGSIM_CONFIG, put_name, &w);
}

void fragsim_csv_values(FILE *out, const fragsim_job *job)
{
    writer w = { out, false };
    fragsim_fields(job, FRAGSIM_RESULT, put_value, &w);
    fragsim_fields(job, FRAGSIM_CONFIG, put_value, &w);
}

char *fragsim_text_of(void (*write)(FILE *out, const void *what), const void *what)
{
    char *text = NULL;
    size_t len;
    FILE *out = open_memstream(&text, &len);
    if (!out) return NULL;
    write(out, what);
    const bool whole = !ferror(out);
    if (fclose(out) == 0 && whole) return text;
    free(text);
    return NULL;
}

static void write_rows(FILE *out, const void *what)
{
    const fragsim_report *rep = what;
    fragsim_csv_names(out, &rep->jobs[0]);
    fputc('\n', out);
    for (int k = 0; k < rep->n_jobs; k++) {
        fragsim_csv_values(out, &rep->jobs[k]);
        fputc('\n', out);
    }
}

char *fragsim_csv(const fragsim_report *rep)
{
    return fragsim_text_of(write_rows, rep);
}
