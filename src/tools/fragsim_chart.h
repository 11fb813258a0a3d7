/* The pictures of a report: what the files that draw and those that write pages share.
 *
 *   report --chart, chart_map, chart_sweep--> gnuplot's input --gnuplot--> one <svg> per chart
 *                                                                          |
 *                            --svg: all in one file <----------------------+--> --html: in a page
 *
 * A chart is one <svg> element that may stand inside a page or another <svg>: its ids begin with
 * its name, it loads nothing, and its bytes depend on the data and the version of gnuplot alone.
 * All functions that return text return memory of the caller; NULL: they have complained. */
#ifndef PKV_TOOLS_FRAGSIM_CHART_H
#define PKV_TOOLS_FRAGSIM_CHART_H

#include "fragsim.h"

/* ---------------------------------------------------------------- how things look */

/* Parts of the pool as the charts show them. */
typedef enum fragsim_part {
    FRAGSIM_PART_TOKEN = 0,
    FRAGSIM_PART_RESERVATION,
    FRAGSIM_PART_INTERNAL,
    FRAGSIM_PART_ROUNDING,
    FRAGSIM_PART_UNUSABLE,
    FRAGSIM_PART_CACHED, /* free, with content that may still be found */
    FRAGSIM_PART_FREE,   /* all other free slots */
    FRAGSIM_PART_COUNT
} fragsim_part;

const char *fragsim_part_name(fragsim_part part);
const char *fragsim_part_colour(fragsim_part part); /* "#0072b2" */
/* Does dark text read better on it? */
bool fragsim_part_is_light(fragsim_part part);

/* Line k of a chart: "#4477aa", and the dash type of gnuplot. */
const char *fragsim_line_colour(int k);
int fragsim_line_dash(int k);

/* ---------------------------------------------------------------- numbers */

/* What a line over time shows. */
typedef enum fragsim_measure {
    FRAGSIM_TOKEN_SHARE = 0, /* % of the pool */
    FRAGSIM_USED_SHARE,      /* % of the pool that is not free */
    FRAGSIM_BATCH,           /* running requests */
    FRAGSIM_QUEUE,           /* waiting and swapped requests */
    FRAGSIM_SCATTER,         /* 1 - largest free run / free, %; nothing while nothing is free */
    FRAGSIM_MEASURE_COUNT
} fragsim_measure;

const char *fragsim_measure_title(fragsim_measure measure);
const char *fragsim_measure_axis(fragsim_measure measure);
/* Its value at a sample; false: it has none. */
bool fragsim_measure_at(fragsim_measure measure, const pkv_sim_sample *sample, double *out);
/* Does the measure tell anything about this job? */
bool fragsim_measure_matters(fragsim_measure measure, const fragsim_job *job);

/* Share of the pool, 0 .. 1, of a part at a sample, or averaged over the window. */
double fragsim_part_at(fragsim_part part, const pkv_sim_sample *sample);
double fragsim_part_mean(fragsim_part part, const pkv_sim_split *split);

/* The x axis of everything over time. */
typedef struct fragsim_time {
    const char *unit; /* "s", "min", "h" */
    double unit_ns;
    int64_t from_ns, to_ns;  /* what is shown */
    int64_t last_arrival_ns; /* -1: no line there */
    bool cut;                /* some run lasts longer than what is shown */
} fragsim_time;

/* False: no job has two samples in what would be shown, there is nothing to draw over time. */
bool fragsim_time_of(const fragsim_report *report, fragsim_time *out);
/* How many samples of a job are shown. */
int64_t fragsim_shown(const fragsim_job *job, const fragsim_time *time);

/* At most `cap` of n values, in order: the first, the last, and of each of cap / 2 equal stretches
 * its smallest and its largest, so that no peak gets lost. value(ctx, k, &v) is false where there
 * is none. Returns how many indices it has put into `out`. */
typedef bool (*fragsim_value_fn)(const void *ctx, int64_t k, double *out);
int64_t fragsim_thin(int64_t n, int64_t cap, fragsim_value_fn value, const void *ctx, int64_t *out);

/* ---------------------------------------------------------------- drawing */

bool fragsim_has_map(const fragsim_job *job);

/* The name of a chart is a word of its own within a page. */
char *fragsim_draw_waste(const fragsim_report *report);
char *fragsim_draw_measure(const fragsim_report *report, fragsim_measure measure,
                           const fragsim_time *time);
/* Parts of the pool over time, and what lies where, of one job. */
char *fragsim_draw_parts(const fragsim_report *report, int job, const fragsim_time *time);
char *fragsim_draw_map(const fragsim_report *report, int job, const fragsim_time *time);

/* ---------------------------------------------------------------- gnuplot */

/* False: --svg is given, there is no gnuplot, and it has complained. Asked before anything is run.
 */
bool fragsim_svg_is_possible(const fragsim_options *opts);

/* A chart in the making: text for gnuplot is written to `script`. Pixels are those of the viewBox
 * and count from the left and the top. */
typedef struct fragsim_canvas {
    char name[32];
    const char *title; /* for those who cannot see it */
    int width, height;
    int left, right, top, bottom; /* where the plot is */
    char attributes[64];          /* of the <svg>, valid markup */
    FILE *script;                 /* NULL: no memory */
    char *text;
    size_t len;
} fragsim_canvas;

#define FRAGSIM_CHART_WIDTH 1040

/* Sets script, text and len, and writes what all charts have in common. */
bool fragsim_canvas_open(fragsim_canvas *canvas);
/* Lets gnuplot draw; gives the script back. */
char *fragsim_canvas_close(fragsim_canvas *canvas);
/* The key stands above the plot, in rows of `columns` entries: the pixels it needs, and entry
 * number `at`, a box (dash 0) or a line. Gnuplot's own key overlaps the plot when names are long.
 */
int fragsim_key_height(int n_entries, int columns);
void fragsim_put_key(fragsim_canvas *canvas, int at, int columns, const char *colour, int dash,
                     const char *text);
/* 'text' as gnuplot reads it: quoted, nothing in it means anything. */
void fragsim_put_quoted(FILE *out, const char *text);
/* Text for markup: < > & quotes are escaped, what is not printable UTF-8 is replaced. */
void fragsim_put_escaped(FILE *out, const char *text);

/* Charts one below the other in one <svg>, each under its title; charts[k] NULL: left out. */
char *fragsim_stack_charts(char *const *charts, const char *const *titles, int n,
                           const char *headline);

#endif
