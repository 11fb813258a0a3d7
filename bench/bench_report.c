/* Rows of a report. */
#include "bench_report.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *bench_group_name(enum bench_group group)
{
    static const char *const names[GROUP_COUNT] = { "kernel",   "moves",    "pool",
                                                    "blockmgr", "capacity", "share",
                                                    "serve",    "model",    "engine" };
    return names[group];
}

struct bench_row *bench_report_add(struct bench_report *report, struct bench_error *err)
{
    if (report->n_rows == report->rows_cap) {
        const int32_t cap = report->rows_cap ? 2 * report->rows_cap : 64;
        struct bench_row **rows = realloc(report->rows, (size_t)cap * sizeof(*rows));
        if (!rows) {
            (void)bench_fail(err, BENCH_USAGE, "no memory for results");
            return NULL;
        }
        report->rows = rows;
        report->rows_cap = cap;
    }
    struct bench_row *row = bench_calloc(1, sizeof(*row), err);
    if (!row) return NULL;
    row->correct.renamed_equal = -1;
    report->rows[report->n_rows++] = row;
    return row;
}

bool bench_report_skip(struct bench_report *report, const char *id, const char *reason,
                       struct bench_error *err)
{
    if (report->n_skips == report->skips_cap) {
        const int32_t cap = report->skips_cap ? 2 * report->skips_cap : 16;
        struct bench_skip *skips = realloc(report->skips, (size_t)cap * sizeof(*skips));
        if (!skips) return bench_fail(err, BENCH_USAGE, "no memory for results");
        report->skips = skips;
        report->skips_cap = cap;
    }
    struct bench_skip *s = &report->skips[report->n_skips++];
    snprintf(s->id, sizeof(s->id), "%s", id);
    snprintf(s->reason, sizeof(s->reason), "%s", reason);
    return true;
}

void bench_report_free(struct bench_report *report)
{
    for (int32_t i = 0; i < report->n_rows; i++) {
        free(report->rows[i]->samples_ns);
        free(report->rows[i]);
    }
    free(report->rows);
    free(report->skips);
    memset(report, 0, sizeof(*report));
}

void bench_row_param(struct bench_row *row, const char *name, const char *fmt, ...)
{
    va_list args;
    assert(row->n_params < ROW_MAX_PARAMS);
    struct bench_param *p = &row->params[row->n_params++];
    snprintf(p->name, sizeof(p->name), "%s", name);
    va_start(args, fmt);
    vsnprintf(p->value, sizeof(p->value), fmt, args);
    va_end(args);
}

void bench_row_value(struct bench_row *row, const char *name, double value)
{
    assert(row->n_values < ROW_MAX_VALUES);
    struct bench_value *v = &row->values[row->n_values++];
    snprintf(v->name, sizeof(v->name), "%s", name);
    v->value = value;
}

const char *bench_row_get_param(const struct bench_row *row, const char *name)
{
    for (int32_t i = 0; i < row->n_params; i++)
        if (strcmp(row->params[i].name, name) == 0) return row->params[i].value;
    return "";
}

bool bench_row_get_value(const struct bench_row *row, const char *name, double *out)
{
    for (int32_t i = 0; i < row->n_values; i++) {
        if (strcmp(row->values[i].name, name) != 0) continue;
        *out = row->values[i].value;
        return true;
    }
    return false;
}

double bench_row_gflops(const struct bench_row *row)
{
    return row->stats.median > 0 ? row->flops / row->stats.median : 0;
}

void bench_row_goal(struct bench_row *row, const struct bench_goal *goal)
{
    assert(row->n_goals < ROW_MAX_GOALS);
    struct bench_goal *g = &row->goals[row->n_goals++];
    *g = *goal;
    g->met = g->at_least ? g->value >= g->limit : g->value <= g->limit;
}

bool bench_row_goals_met(const struct bench_row *row)
{
    bool met = true;
    for (int32_t i = 0; i < row->n_goals; i++) met = met && row->goals[i].met;
    return met;
}

double bench_row_gbs(const struct bench_row *row)
{
    return row->stats.median > 0 ? (double)row->bytes_needed / row->stats.median : 0;
}

bool bench_row_share(const struct bench_report *report, const struct bench_row *row, double *out)
{
    const struct machine_info *m = &report->machine;
    if (!row->bytes_needed || !row->stats.n || row->in_cache) return false;
    if (!(m->read_gbs > 0) || m->read_in_cache) return false;
    *out = bench_row_gbs(row) / m->read_gbs;
    return true;
}
