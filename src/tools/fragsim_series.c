/* What happened over time: samples as CSV, a row per policy and moment, and events as JSON lines.
 * Times are exact: whole nanoseconds. */
#include "fragsim_csv.h"

#include <stdlib.h>
#include <string.h>

static const struct column {
    const char *name;
    size_t offset; /* of an int64_t in a sample */
} columns[] = {
#define COLUMN(name, field)                                                                        \
    {                                                                                              \
        name, offsetof(pkv_sim_sample, field)                                                      \
    }
    COLUMN("step", step),
    COLUMN("token", token),
    COLUMN("reservation", reservation),
    COLUMN("internal", internal),
    COLUMN("rounding", rounding),
    COLUMN("unusable", unusable),
    COLUMN("short", shortage),
    COLUMN("limited", limited),
    COLUMN("idle", idle),
    COLUMN("of_which_watermark", watermark),
    COLUMN("of_which_tail", tail),
    COLUMN("of_which_cached", cached),
    COLUMN("of_which_dead", dead),
    COLUMN("logical", logical),
    COLUMN("largest_free_run", largest_free),
    COLUMN("running", running),
    COLUMN("waiting", waiting),
    COLUMN("swapped", swapped),
#undef COLUMN
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void put_sample(FILE *out, const char *policy, const pkv_sim_sample *s)
{
    fragsim_csv_text(out, policy);
    fprintf(out, ",%lld.%09lld", (long long)(s->t_ns / 1000000000),
            (long long)(s->t_ns % 1000000000));
    for (size_t k = 0; k < N_COLUMNS; k++) {
        int64_t value;
        memcpy(&value, (const char *)s + columns[k].offset, sizeof(value));
        fprintf(out, ",%lld", (long long)value);
    }
    fputc('\n', out);
}

static void write_series(FILE *out, const void *what)
{
    const fragsim_report *rep = what;
    fputs("policy,t_s", out);
    for (size_t k = 0; k < N_COLUMNS; k++) fprintf(out, ",%s", columns[k].name);
    fputc('\n', out);
    for (int k = 0; k < rep->n_jobs; k++)
        for (int64_t i = 0; i < rep->jobs[k].series.n; i++)
            put_sample(out, rep->jobs[k].name, &rep->jobs[k].series.samples[i]);
}

char *fragsim_series_csv(const fragsim_report *rep)
{
    return fragsim_text_of(write_series, rep);
}

char *fragsim_events_text(const fragsim_report *rep)
{
    size_t len = 0;
    for (int k = 0; k < rep->n_jobs; k++) len += rep->jobs[k].events_bytes;
    char *text = malloc(len + 1);
    if (!text) return NULL;
    char *at = text;
    for (int k = 0; k < rep->n_jobs; k++) {
        if (rep->jobs[k].events_bytes == 0) continue;
        memcpy(at, rep->jobs[k].events, rep->jobs[k].events_bytes);
        at += rep->jobs[k].events_bytes;
    }
    *at = '\0';
    return text;
}
