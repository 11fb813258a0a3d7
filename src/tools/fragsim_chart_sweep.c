/* Lines over an axis of a sweep. */
#include "fragsim_chart_sweep.h"

#include <stdlib.h>
#include <string.h>

/* ---------------------------------------------------------------- which lines */

const char *fragsim_sweep_axis_name(const fragsim_axis *axis)
{
    return axis->option + strspn(axis->option, "-");
}

/* Numbers that rise stand at their place, logarithmically if they span a decade and more. */
static void place_values(const fragsim_axis *axis, fragsim_sweep_lines *out)
{
    out->scaled = true;
    for (int k = 0; k < axis->n; k++) {
        char *end;
        out->x[k] = strtod(axis->values[k], &end);
        if (*end != '\0' || !(out->x[k] < 1e18) || (k > 0 && out->x[k] <= out->x[k - 1]))
            out->scaled = false;
    }
    if (!out->scaled)
        for (int k = 0; k < axis->n; k++) out->x[k] = k + 1;
    out->log_x =
        out->scaled && axis->n > 2 && out->x[0] > 0 && out->x[axis->n - 1] / out->x[0] >= 10;
}

static bool is_named_alike(const fragsim_sweep_report *rep, int policy)
{
    for (int i = 1; i < rep->n_points; i++)
        if (strcmp(rep->points[i].jobs[policy].name, rep->points[0].jobs[policy].name) != 0)
            return false;
    return true;
}

/* The name of the policy; where an axis changes it, what comes before the colon. */
static void put_label(const fragsim_sweep_report *rep, const fragsim_sweep_lines *lines,
                      fragsim_sweep_line *line)
{
    const fragsim_options *o = rep->opts;
    const fragsim_sweep_point *first = &rep->points[line->first_point];
    const char *name = first->jobs[line->policy].name;
    const size_t cap = sizeof(line->label);
    const bool same = is_named_alike(rep, line->policy);
    int n = snprintf(line->label, cap, "%.*s", same ? (int)strlen(name) : (int)strcspn(name, ":"),
                     name);
    for (int a = 0; a < o->n_axes && n < (int)cap; a++)
        if (a != lines->axis && o->axes[a].n > 1)
            n += snprintf(line->label + n, cap - (size_t)n, ", %s %s",
                          fragsim_sweep_axis_name(&o->axes[a]), o->axes[a].values[first->k[a]]);
}

void fragsim_sweep_lines_of(const fragsim_sweep_report *rep, fragsim_sweep_lines *out)
{
    const fragsim_options *o = rep->opts;
    memset(out, 0, sizeof(*out));
    out->axis = rep->rate_axis >= 0 ? rep->rate_axis : 0;
    for (int a = 0; a < o->n_axes; a++)
        if (o->axes[a].n > o->axes[out->axis].n) out->axis = a;
    out->n_x = o->axes[out->axis].n;
    out->stride = 1;
    for (int a = out->axis + 1; a < o->n_axes; a++) out->stride *= o->axes[a].n;
    place_values(&o->axes[out->axis], out);
    for (int i = 0; i < rep->n_points; i++) {
        if (rep->points[i].k[out->axis] != 0) continue;
        for (int p = 0; p < rep->points[i].n_jobs; p++, out->n_all++) {
            if (out->n == FRAGSIM_MAX_SWEEP_LINES) continue;
            fragsim_sweep_line *line = &out->line[out->n++];
            line->policy = p;
            line->first_point = i;
            put_label(rep, out, line);
        }
    }
}

/* ---------------------------------------------------------------- values */

const char *fragsim_sweep_title(fragsim_sweep_measure measure)
{
    static const char *const titles[] = { "Batch", "Latency per token", "Waste" };
    return titles[measure];
}

const char *fragsim_sweep_axis_title(fragsim_sweep_measure measure)
{
    static const char *const titles[] = { "mean running requests", "mean s/token",
                                          "% of the pool without tokens" };
    return titles[measure];
}

bool fragsim_sweep_value(const fragsim_sweep_report *rep, const fragsim_sweep_lines *lines,
                         fragsim_sweep_measure measure, int line, int x, double *out)
{
    const fragsim_sweep_line *l = &lines->line[line];
    const pkv_sim_result *r =
        &rep->points[l->first_point + x * lines->stride].jobs[l->policy].result;
    switch (measure) {
    case FRAGSIM_SWEEP_BATCH:
        *out = r->mean_batch;
        return r->window_ns > 0;
    case FRAGSIM_SWEEP_LATENCY:
        *out = r->norm_s.mean;
        return r->norm_s.n > 0;
    default:
        *out = 100 * (1 - r->split.token);
        return r->window_ns > 0;
    }
}

/* A hundredfold range has no room on a linear axis. */
static bool needs_log(const fragsim_sweep_report *rep, const fragsim_sweep_lines *lines,
                      fragsim_sweep_measure measure)
{
    double least = 0, most = 0, v;
    for (int k = 0; k < lines->n; k++)
        for (int x = 0; x < lines->n_x; x++) {
            if (!fragsim_sweep_value(rep, lines, measure, k, x, &v)) continue;
            if (v <= 0) return false;
            if (least == 0 || v < least) least = v;
            if (v > most) most = v;
        }
    return measure == FRAGSIM_SWEEP_LATENCY && most > 30 * least;
}

/* ---------------------------------------------------------------- drawing */

static void put_tics(FILE *out, const fragsim_axis *axis, const fragsim_sweep_lines *lines)
{
    /* about 13 fit */
    const int step = (axis->n + 12) / 13;
    fputs("set xtics (", out);
    for (int k = 0; k < axis->n; k += step) {
        if (k > 0) fputs(", ", out);
        fragsim_put_quoted(out, axis->values[k]);
        fprintf(out, " %.9g", lines->x[k]);
    }
    fputs(")\nset grid xtics lt 1 lw 1 lc rgb '#dcdcdc'\n", out);
}

static void put_axes(FILE *out, const fragsim_sweep_report *rep, const fragsim_sweep_lines *lines,
                     fragsim_sweep_measure measure)
{
    const fragsim_axis *axis = &rep->opts->axes[lines->axis];
    const double first = lines->x[0], last = lines->x[lines->n_x - 1];
    const double room = lines->log_x ? 0 : (last - first) * 0.03 + (first >= last ? 1 : 0);
    fprintf(out, "set xrange [%.9g:%.9g]\nset xlabel ", lines->log_x ? first / 1.1 : first - room,
            lines->log_x ? last * 1.1 : last + room);
    fragsim_put_quoted(out, fragsim_sweep_axis_name(axis));
    fprintf(out, " noenhanced\nset ylabel '%s' noenhanced\n", fragsim_sweep_axis_title(measure));
    if (lines->log_x) fputs("set logscale x\n", out);
    if (needs_log(rep, lines, measure)) fputs("set logscale y\nset format y '%g'\n", out);
    else if (measure == FRAGSIM_SWEEP_WASTE) fputs("set yrange [0:100]\n", out);
    else fputs("set yrange [0:*]\nset offsets 0,0,graph 0.04,0\n", out);
    put_tics(out, axis, lines);
}

char *fragsim_draw_sweep(const fragsim_sweep_report *rep, const fragsim_sweep_lines *lines,
                         fragsim_sweep_measure measure)
{
    static const char *const names[] = { "c_batch", "c_latency", "c_waste" };
    size_t longest = 0;
    for (int k = 0; k < lines->n; k++)
        if (strlen(lines->line[k].label) > longest) longest = strlen(lines->line[k].label);
    const int columns = longest > 54 ? 1 : longest > 36 ? 2 : 3;
    const int top = fragsim_key_height(lines->n, columns);
    fragsim_canvas c = { .title = fragsim_sweep_title(measure),
                         .width = FRAGSIM_CHART_WIDTH,
                         .height = top + 346,
                         .left = 92,
                         .right = FRAGSIM_CHART_WIDTH - 24,
                         .top = top,
                         .bottom = top + 286 };
    snprintf(c.name, sizeof(c.name), "%s", names[measure]);
    if (!fragsim_canvas_open(&c)) return NULL;
    for (int k = 0; k < lines->n; k++) {
        fprintf(c.script, "$d%d << EOD\n", k);
        for (int x = 0; x < lines->n_x; x++) {
            double v;
            if (fragsim_sweep_value(rep, lines, measure, k, x, &v))
                fprintf(c.script, "%.9g %.6g\n", lines->x[x], v);
            else fprintf(c.script, "%.9g NaN\n", lines->x[x]);
        }
        fputs("EOD\n", c.script);
        fragsim_put_key(&c, k, columns, fragsim_line_colour(k), fragsim_line_dash(k),
                        lines->line[k].label);
    }
    put_axes(c.script, rep, lines, measure);
    /* points show what was simulated; many of them would hide the lines */
    const char *how = lines->n_x <= 40 ? "linespoints pt 7 ps 0.7" : "lines";
    for (int k = 0; k < lines->n; k++) {
        fprintf(c.script, "%s$d%d using 1:2 with %s lw 2 lc rgb '%s' dt %d title ",
                k > 0 ? ", " : "plot ", k, how, fragsim_line_colour(k), fragsim_line_dash(k));
        fragsim_put_quoted(c.script, lines->line[k].label);
        fputs(" noenhanced", c.script);
    }
    fputc('\n', c.script);
    return fragsim_canvas_close(&c);
}

char *fragsim_sweep_svg(const fragsim_sweep_report *rep)
{
    char *charts[FRAGSIM_SWEEP_MEASURE_COUNT] = { NULL }, *text = NULL;
    const char *titles[FRAGSIM_SWEEP_MEASURE_COUNT];
    char headline[160];
    bool ok = true;
    fragsim_sweep_lines *lines = malloc(sizeof(*lines));
    if (!lines) {
        fragsim_complain("out of memory for the charts");
        return NULL;
    }
    fragsim_sweep_lines_of(rep, lines);
    for (int m = 0; m < FRAGSIM_SWEEP_MEASURE_COUNT && ok; m++) {
        titles[m] = fragsim_sweep_title((fragsim_sweep_measure)m);
        charts[m] = fragsim_draw_sweep(rep, lines, (fragsim_sweep_measure)m);
        ok = charts[m] != NULL;
    }
    snprintf(headline, sizeof(headline), "KV-cache memory over %s",
             fragsim_sweep_axis_name(&rep->opts->axes[lines->axis]));
    if (ok) text = fragsim_stack_charts(charts, titles, FRAGSIM_SWEEP_MEASURE_COUNT, headline);
    for (int m = 0; m < FRAGSIM_SWEEP_MEASURE_COUNT; m++) free(charts[m]);
    free(lines);
    return text;
}
