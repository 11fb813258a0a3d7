/* Charts of one policy: parts of the pool over time as stacked areas, and the memory map. */
#include "fragsim_chart.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_AREA_POINTS 240 /* per edge of an area; a page has one such chart per policy */
#define MAX_COLUMNS 300     /* of a map: about 3 pixels each */
#define MAX_ROWS 128        /* of a map: 2 pixels each */

static double in_units(const fragsim_time *time, int64_t t_ns)
{
    return (double)(t_ns - time->from_ns) / time->unit_ns;
}

static void put_axes(const fragsim_canvas *c, const fragsim_time *time, const char *y_label)
{
    fprintf(c->script,
            "set xrange [0:%.6g]\nset xlabel 'time (%s)' noenhanced\nset ylabel '%s' noenhanced\n",
            in_units(time, time->to_ns), time->unit, y_label);
}

static fragsim_canvas canvas_of(const char *kind, int job, const char *title, int plot_height)
{
    const int top = fragsim_key_height(FRAGSIM_PART_COUNT, 7);
    fragsim_canvas c = { .title = title,
                         .width = FRAGSIM_CHART_WIDTH,
                         .height = top + plot_height + 60,
                         .left = 92,
                         .right = FRAGSIM_CHART_WIDTH - 24,
                         .top = top,
                         .bottom = top + plot_height };
    snprintf(c.name, sizeof(c.name), "c_%s%d", kind, job);
    return c;
}

/* ---------------------------------------------------------------- stacked areas */

static bool token_share(const void *ctx, int64_t k, double *out)
{
    *out = fragsim_part_at(FRAGSIM_PART_TOKEN, &((const pkv_sim_sample *)ctx)[k]);
    return true;
}

/* The area under the upper edge of `part` as a closed line. */
static void put_area(FILE *out, const fragsim_job *job, int part, const fragsim_time *time,
                     const int64_t *keep, int64_t n)
{
    const pkv_sim_sample *s = job->series.samples;
    fprintf(out, "$a%d << EOD\n%.6g 0\n", part, in_units(time, s[keep[0]].t_ns));
    for (int64_t k = 0; k < n; k++) {
        double upper = 0;
        for (int p = 0; p <= part; p++)
            upper += 100 * fragsim_part_at((fragsim_part)p, &s[keep[k]]);
        fprintf(out, "%.6g %.5g\n", in_units(time, s[keep[k]].t_ns), fmin(upper, 100));
    }
    fprintf(out, "%.6g 0\nEOD\n", in_units(time, s[keep[n - 1]].t_ns));
}

static bool part_is_there(const fragsim_job *job, int part, int64_t n)
{
    for (int64_t k = 0; k < n; k++)
        if (fragsim_part_at((fragsim_part)part, &job->series.samples[k]) > 0) return true;
    return false;
}

char *fragsim_draw_parts(const fragsim_report *rep, int k, const fragsim_time *time)
{
    const fragsim_job *job = &rep->jobs[k];
    const int64_t n = fragsim_shown(job, time);
    fragsim_canvas c = canvas_of("parts", k, "What the pool held over time", 190);
    int64_t *keep = malloc(((size_t)n + 1) * sizeof(*keep));
    if (!keep) fragsim_complain("out of memory for a chart");
    if (!keep || !fragsim_canvas_open(&c)) {
        free(keep);
        return NULL;
    }
    const int64_t n_kept = fragsim_thin(n, MAX_AREA_POINTS, token_share, job->series.samples, keep);
    bool first = true;
    for (int part = 0, at = 0; part < FRAGSIM_PART_COUNT; part++) {
        if (!part_is_there(job, part, n)) continue;
        put_area(c.script, job, part, time, keep, n_kept);
        fragsim_put_key(&c, at++, FRAGSIM_PART_COUNT, fragsim_part_colour((fragsim_part)part), 0,
                        fragsim_part_name((fragsim_part)part));
    }
    put_axes(&c, time, "% of the pool");
    fputs("set yrange [0:100]\nset ytics 25\nset grid front\n", c.script);
    /* the largest area first, the others over it; each is one closed line */
    for (int part = FRAGSIM_PART_COUNT - 1; part >= 0; part--) {
        if (!part_is_there(job, part, n)) continue;
        fprintf(
            c.script,
            "%s$a%d using 1:2 with filledcurves closed fs solid noborder fc rgb '%s' title '%s'",
            first ? "plot " : ", ", part, fragsim_part_colour((fragsim_part)part),
            fragsim_part_name((fragsim_part)part));
        first = false;
    }
    fputc('\n', c.script);
    free(keep);
    return fragsim_canvas_close(&c);
}

/* ---------------------------------------------------------------- memory map */

enum { N_STATES = PKV_SIM_MAP_CACHED + 1 };

static const fragsim_part part_of_state[N_STATES] = {
    FRAGSIM_PART_FREE,     FRAGSIM_PART_TOKEN,    FRAGSIM_PART_RESERVATION,
    FRAGSIM_PART_INTERNAL, FRAGSIM_PART_ROUNDING, FRAGSIM_PART_CACHED,
};

/* A map ready to be drawn. */
typedef struct grid {
    int columns, rows;
    int64_t stride;                       /* samples per column; the first of them is shown */
    uint8_t cells[MAX_COLUMNS][MAX_ROWS]; /* pkv_sim_map_state */
    int count[N_STATES];
} grid;

/* What most of `n` cells are; of equals the one that says more than "free". */
static uint8_t mostly(const uint8_t *cells, int n)
{
    int count[N_STATES] = { 0 }, best = 0;
    for (int k = 0; k < n; k++)
        if (cells[k] < N_STATES) count[cells[k]]++;
    for (int state = 1; state < N_STATES; state++)
        if (count[state] > 0 && count[state] >= count[best]) best = state;
    return (uint8_t)best;
}

static void fill_grid(const fragsim_series *s, int64_t n, grid *g)
{
    const int per_row = (s->map_cells + MAX_ROWS - 1) / MAX_ROWS;
    g->stride = (n + MAX_COLUMNS - 1) / MAX_COLUMNS;
    g->rows = (s->map_cells + per_row - 1) / per_row;
    g->columns = (int)((n + g->stride - 1) / g->stride);
    for (int x = 0; x < g->columns; x++)
        for (int y = 0; y < g->rows; y++) {
            const uint8_t *cells = s->maps + (x * g->stride) * s->map_cells + y * per_row;
            const int left = s->map_cells - y * per_row;
            g->cells[x][y] = mostly(cells, left < per_row ? left : per_row);
            g->count[g->cells[x][y]]++;
        }
}

static uint8_t cell(const grid *g, bool upright, int line, int along)
{
    return upright ? g->cells[line][along] : g->cells[along][line];
}

/* Runs of equal cells, along columns or along rows. */
static int count_runs(const grid *g, bool upright)
{
    const int lines = upright ? g->columns : g->rows, length = upright ? g->rows : g->columns;
    int runs = 0;
    for (int line = 0; line < lines; line++)
        for (int k = 0; k < length; k++)
            runs += k == 0 || cell(g, upright, line, k) != cell(g, upright, line, k - 1);
    return runs;
}

/* Every run of a state as a line through the middle of its cells, in units of cells. */
static void put_runs(FILE *out, const grid *g, bool upright, int state)
{
    const int lines = upright ? g->columns : g->rows, length = upright ? g->rows : g->columns;
    fprintf(out, "$m%d << EOD\n", state);
    for (int line = 0; line < lines; line++)
        for (int k = 0, end; k < length; k = end) {
            for (end = k + 1; end < length; end++)
                if (cell(g, upright, line, end) != cell(g, upright, line, k)) break;
            if (cell(g, upright, line, k) != state) continue;
            if (upright) fprintf(out, "%.1f %d\n%.1f %d\n\n", line + 0.5, k, line + 0.5, end);
            else fprintf(out, "%d %.1f\n%d %.1f\n\n", k, line + 0.5, end, line + 0.5);
        }
    fputs("EOD\n", out);
}

static void put_map_key(fragsim_canvas *c, const grid *g)
{
    for (int part = 0, at = 0; part < FRAGSIM_PART_COUNT; part++)
        for (int state = 0; state < N_STATES; state++)
            if (part_of_state[state] == (fragsim_part)part && g->count[state] > 0)
                fragsim_put_key(c, at++, FRAGSIM_PART_COUNT,
                                fragsim_part_colour((fragsim_part)part), 0,
                                fragsim_part_name((fragsim_part)part));
}

static void put_map_plot(const fragsim_canvas *c, const grid *g, bool upright, double x_scale,
                         double y_scale)
{
    /* lines as wide as a cell and a little more, so that nothing shines through between them */
    const double pixels = upright ? (double)(c->right - c->left) / g->columns
                                  : (double)(c->bottom - c->top) / g->rows;
    int background = 0;
    for (int state = 1; state < N_STATES; state++)
        if (g->count[state] > g->count[background]) background = state;
    fprintf(c->script, "$back << EOD\n0 0\n0 %d\n%d %d\n%d 0\nEOD\n", g->rows, g->columns, g->rows,
            g->columns);
    for (int state = 0; state < N_STATES; state++)
        if (state != background && g->count[state] > 0) put_runs(c->script, g, upright, state);
    for (int k = 0; k < N_STATES; k++) {
        /* the background first, then the others in their order */
        const int state = k == 0 ? background : k <= background ? k - 1 : k;
        if (g->count[state] == 0) continue;
        const fragsim_part part = part_of_state[state];
        fprintf(c->script, "%s", k == 0 ? "plot " : ", ");
        if (k == 0)
            fprintf(c->script,
                    "$back using ($1*%.9g):($2*%.9g) with filledcurves closed fs solid noborder fc "
                    "rgb '%s'",
                    x_scale, y_scale, fragsim_part_colour(part));
        else
            fprintf(c->script, "$m%d using ($1*%.9g):($2*%.9g) with lines lw %.2f lc rgb '%s'",
                    state, x_scale, y_scale, pixels + 0.25, fragsim_part_colour(part));
        fprintf(c->script, " title '%s'", fragsim_part_name(part));
    }
    fputc('\n', c->script);
}

char *fragsim_draw_map(const fragsim_report *rep, int k, const fragsim_time *time)
{
    const fragsim_job *job = &rep->jobs[k];
    const int64_t n = fragsim_shown(job, time);
    fragsim_canvas c = canvas_of("map", k, "What lay at which address over time", 260);
    grid *g = calloc(1, sizeof(*g));
    if (!g) fragsim_complain("out of memory for a chart");
    if (!g || !fragsim_canvas_open(&c)) {
        free(g);
        return NULL;
    }
    fill_grid(&job->series, n, g);
    const pkv_sim_sample *s = job->series.samples;
    const double step = (double)(s[1].t_ns - s[0].t_ns) / time->unit_ns;
    /* six digits and more would push the title of the axis out of the picture */
    const double all = job->cfg.pool_tokens, unit = all < 1e5 ? 1 : all < 1e8 ? 1e3 : 1e6;
    const double pool = all / unit;
    put_axes(&c, time,
             unit < 1e3   ? "address (slots)"
             : unit < 1e6 ? "address (1000 slots)"
                          : "address (million slots)");
    fprintf(c.script, "set yrange [0:%.9g]\nunset grid\nset ylabel offset 0.8,0\n", pool);
    put_map_key(&c, g);
    put_map_plot(&c, g, count_runs(g, true) <= count_runs(g, false), step * (double)g->stride,
                 pool / g->rows);
    free(g);
    return fragsim_canvas_close(&c);
}
