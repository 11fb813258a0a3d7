/* Charts of a report: waste bars, and lines over time with a line per policy. */
#include "fragsim_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_POINTS 600 /* of a line: more than a plot of 900 pixels can show apart */

/* ---------------------------------------------------------------- colours */

/* The Okabe-Ito palette, which those with red-green or blue-yellow blindness can tell apart; they
 * also differ in lightness, for grey prints. Free memory is light, waste is warm, use is blue. */
static const struct {
    const char *name, *colour;
    bool light;
} parts[FRAGSIM_PART_COUNT] = {
    { "token", "#0072b2", false },    { "reservation", "#56b4e9", true },
    { "internal", "#e69f00", true },  { "rounding", "#f0e442", true },
    { "unusable", "#d55e00", false }, { "cached", "#8ccfb8", true },
    { "free", "#e4e4e4", true },
};

const char *fragsim_part_name(fragsim_part part)
{
    return parts[part].name;
}
const char *fragsim_part_colour(fragsim_part part)
{
    return parts[part].colour;
}
bool fragsim_part_is_light(fragsim_part part)
{
    return parts[part].light;
}

/* Paul Tol's bright palette: safe for colour blindness, and none of it stands for a part. */
static const char *const line_colours[] = { "#4477aa", "#ee6677", "#228833",
                                            "#aa3377", "#66ccee", "#ccbb44" };
enum { N_LINE_COLOURS = sizeof(line_colours) / sizeof(line_colours[0]) };

const char *fragsim_line_colour(int k)
{
    return line_colours[k % N_LINE_COLOURS];
}

/* Lines that share a colour differ in their dashes. */
int fragsim_line_dash(int k)
{
    static const int dashes[] = { 1, 2, 4, 3, 5 };
    return dashes[k / N_LINE_COLOURS % 5];
}

/* ---------------------------------------------------------------- waste bars */

enum { BAR = 34 }; /* pixels per policy */

/* With --paper-accounting all that is external is one part, drawn where free memory would be. */
static double bar_share(const fragsim_report *rep, int job, fragsim_part part)
{
    const pkv_sim_split *s = &rep->jobs[job].result.split;
    if (!rep->opts->paper_accounting || part <= FRAGSIM_PART_INTERNAL)
        return 100 * fragsim_part_mean(part, s);
    return part == FRAGSIM_PART_FREE ? 100 * s->external : 0;
}

static const char *bar_name(const fragsim_report *rep, fragsim_part part)
{
    return part == FRAGSIM_PART_FREE && rep->opts->paper_accounting ? "external"
                                                                    : fragsim_part_name(part);
}

/* Is the part there in any bar? The first three always are, as in the paper's figure. */
static bool part_is_used(const fragsim_report *rep, fragsim_part part)
{
    if (part <= FRAGSIM_PART_INTERNAL) return true;
    for (int k = 0; k < rep->n_jobs; k++)
        if (bar_share(rep, k, part) > 0) return true;
    return false;
}

/* Corners of the bars of a part, a row per policy; what is to the left of it in `left`, which
 * moves on. */
static void put_bars(FILE *out, const fragsim_report *rep, fragsim_part part, double *left)
{
    fprintf(out, "$p%d << EOD\n", part);
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        if (r->window_ns == 0) continue;
        const double share = bar_share(rep, k, part);
        fprintf(out, "%.4f %.4f %.2f %.2f\n", left[k], left[k] + share, k + 0.64, k + 1.36);
        left[k] += share;
    }
    fputs("EOD\n", out);
}

/* The percentages inside the bars, where there is room for them. */
static void put_bar_labels(FILE *out, const fragsim_report *rep)
{
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        double left = 0;
        if (r->window_ns == 0) {
            fprintf(out, "set label 'nothing was measured' at 1,%d left noenhanced\n", k + 1);
            continue;
        }
        for (int part = 0; part < FRAGSIM_PART_COUNT; part++) {
            const double share = bar_share(rep, k, (fragsim_part)part);
            if (share >= 3.6)
                fprintf(out, "set label '%.1f' at %.4f,%d center front noenhanced tc rgb '%s'\n",
                        share, left + share / 2, k + 1,
                        part == FRAGSIM_PART_FREE                   ? "black"
                        : fragsim_part_is_light((fragsim_part)part) ? "#111111"
                                                                    : "#fefefe");
            left += share;
        }
        fprintf(out, "set label '%.*f' at 101.5,%d left noenhanced\n", r->mean_batch < 100 ? 2 : 1,
                r->mean_batch, k + 1);
    }
    fputs("set label 'mean batch' at 101.5,0.2 left noenhanced\n", out);
}

static void put_policy_tics(FILE *out, const fragsim_report *rep)
{
    fputs("set ytics scale 0 (", out);
    for (int k = 0; k < rep->n_jobs; k++) {
        if (k > 0) fputs(", ", out);
        fragsim_put_quoted(out, rep->jobs[k].name);
        fprintf(out, " %d", k + 1);
    }
    fputs(")\n", out);
}

static int longest_name(const fragsim_report *rep)
{
    size_t longest = 0;
    for (int k = 0; k < rep->n_jobs; k++)
        if (strlen(rep->jobs[k].name) > longest) longest = strlen(rep->jobs[k].name);
    return (int)longest;
}

static int key_columns(const fragsim_report *rep)
{
    return longest_name(rep) > 36 ? 2 : 3;
}

/* Room for the names at the left; 8 pixels are wide for a letter. */
static int name_pixels(const fragsim_report *rep)
{
    const int pixels = 8 * longest_name(rep) + 24;
    return pixels < 420 ? pixels : 420;
}

char *fragsim_draw_waste(const fragsim_report *rep)
{
    double left[FRAGSIM_MAX_POLICIES] = { 0 };
    const int top = fragsim_key_height(FRAGSIM_PART_COUNT, 7) + 22;
    fragsim_canvas c = { .title = "Where the memory went, a bar per policy",
                         .name = "c_waste",
                         .width = FRAGSIM_CHART_WIDTH,
                         .height = top + BAR * rep->n_jobs + 62,
                         .left = name_pixels(rep),
                         .right = FRAGSIM_CHART_WIDTH - 108,
                         .top = top,
                         .bottom = top + BAR * rep->n_jobs + 6 };
    if (!fragsim_canvas_open(&c)) return NULL;
    FILE *out = c.script;
    for (int part = 0; part < FRAGSIM_PART_COUNT; part++)
        put_bars(out, rep, (fragsim_part)part, left);
    fprintf(out,
            "set xrange [0:100]\nset yrange [%.2f:0.5]\nset border 1\nunset grid\n"
            "set xlabel '%% of the pool, mean over the window' noenhanced\n",
            rep->n_jobs + 0.5);
    put_policy_tics(out, rep);
    put_bar_labels(out, rep);
    int n_shown = 0;
    for (int part = 0; part < FRAGSIM_PART_COUNT; part++)
        if (part_is_used(rep, (fragsim_part)part))
            fragsim_put_key(&c, n_shown++, FRAGSIM_PART_COUNT,
                            fragsim_part_colour((fragsim_part)part), 0,
                            bar_name(rep, (fragsim_part)part));
    bool first = true;
    for (int part = 0; part < FRAGSIM_PART_COUNT; part++) {
        if (!part_is_used(rep, (fragsim_part)part)) continue;
        fprintf(out,
                "%s$p%d using 1:3:1:2:3:4 with boxxyerror fs solid noborder fc rgb '%s' title ",
                first ? "plot " : ", ", part, fragsim_part_colour((fragsim_part)part));
        fragsim_put_quoted(out, bar_name(rep, (fragsim_part)part));
        fputs(" noenhanced", out);
        first = false;
    }
    fputc('\n', out);
    return fragsim_canvas_close(&c);
}

/* ---------------------------------------------------------------- lines over time */

typedef struct measured {
    fragsim_measure measure;
    const pkv_sim_sample *samples;
} measured;

static bool value_of(const void *ctx, int64_t k, double *out)
{
    const measured *m = ctx;
    return fragsim_measure_at(m->measure, &m->samples[k], out);
}

/* The points of a job as block $dK. False: no memory. */
static bool put_points(FILE *out, const fragsim_job *job, int k, fragsim_measure measure,
                       const fragsim_time *time)
{
    const measured m = { measure, job->series.samples };
    const int64_t n = fragsim_shown(job, time);
    int64_t *keep = malloc(((size_t)n + 1) * sizeof(*keep));
    if (!keep) return fragsim_complain("out of memory for a chart");
    const int64_t n_kept = fragsim_thin(n, MAX_POINTS, value_of, &m, keep);
    fprintf(out, "$d%d << EOD\n", k);
    for (int64_t p = 0; p < n_kept; p++) {
        const pkv_sim_sample *s = &m.samples[keep[p]];
        double v = 0;
        fprintf(out, "%.6g ", (double)(s->t_ns - time->from_ns) / time->unit_ns);
        if (fragsim_measure_at(measure, s, &v)) fprintf(out, "%.5g\n", v);
        else fputs("NaN\n", out);
    }
    fputs("EOD\n", out);
    free(keep);
    return true;
}

static void put_last_arrival(FILE *out, const fragsim_time *time)
{
    if (time->last_arrival_ns < 0 || !time->cut) return;
    const double at = (double)(time->last_arrival_ns - time->from_ns) / time->unit_ns;
    fprintf(
        out,
        "set arrow from %.6g, graph 0 to %.6g, graph 1 nohead dt 3 lw 1.2 lc rgb '#808080' front\n"
        "set label 'last arrival' at %.6g, graph 1.035 right front noenhanced tc rgb '#808080'\n",
        at, at, at);
}

static void put_line_axes(FILE *out, fragsim_measure measure, const fragsim_time *time)
{
    const bool share = measure != FRAGSIM_BATCH && measure != FRAGSIM_QUEUE;
    fprintf(out,
            "set xrange [0:%.6g]\nset yrange [0:%s]\nset offsets 0,0,%s,0\n"
            "set xlabel 'time (%s)' noenhanced\nset ylabel '%s' noenhanced\n",
            (double)(time->to_ns - time->from_ns) / time->unit_ns, share ? "100" : "*",
            share ? "0" : "graph 0.04", time->unit, fragsim_measure_axis(measure));
    put_last_arrival(out, time);
}

char *fragsim_draw_measure(const fragsim_report *rep, fragsim_measure measure,
                           const fragsim_time *time)
{
    static const char *const names[] = { "c_tokens", "c_used", "c_batch", "c_queue", "c_scatter" };
    int n_drawn = 0;
    for (int k = 0; k < rep->n_jobs; k++)
        n_drawn += fragsim_measure_matters(measure, &rep->jobs[k]);
    const int columns = key_columns(rep), top = fragsim_key_height(n_drawn, columns) + 12;
    fragsim_canvas c = { .title = fragsim_measure_title(measure),
                         .width = FRAGSIM_CHART_WIDTH,
                         .height = top + 306,
                         .left = 92,
                         .right = FRAGSIM_CHART_WIDTH - 24,
                         .top = top,
                         .bottom = top + 248 };
    snprintf(c.name, sizeof(c.name), "%s", names[measure]);
    snprintf(c.attributes, sizeof(c.attributes), "data-span=\"%.6g\"",
             (double)(time->to_ns - time->from_ns) / time->unit_ns);
    if (!fragsim_canvas_open(&c)) return NULL;
    bool first = true;
    for (int k = 0; k < rep->n_jobs; k++) {
        const fragsim_job *job = &rep->jobs[k];
        if (fragsim_measure_matters(measure, job) && !put_points(c.script, job, k, measure, time)) {
            fclose(c.script);
            free(c.text);
            return NULL;
        }
    }
    put_line_axes(c.script, measure, time);
    int n_lines = 0;
    for (int k = 0; k < rep->n_jobs; k++)
        if (fragsim_measure_matters(measure, &rep->jobs[k]))
            fragsim_put_key(&c, n_lines++, columns, fragsim_line_colour(k), fragsim_line_dash(k),
                            rep->jobs[k].name);
    for (int k = 0; k < rep->n_jobs; k++) {
        if (!fragsim_measure_matters(measure, &rep->jobs[k])) continue;
        fprintf(c.script, "%s$d%d using 1:2 with lines lw 1.7 lc rgb '%s' dt %d title ",
                first ? "plot " : ", ", k, fragsim_line_colour(k), fragsim_line_dash(k));
        fragsim_put_quoted(c.script, rep->jobs[k].name);
        fputs(" noenhanced", c.script);
        first = false;
    }
    fputc('\n', c.script);
    return fragsim_canvas_close(&c);
}
