/* The report of a sweep as one page. */
#include "fragsim_chart_sweep.h"
#include "fragsim_derived.h"
#include "fragsim_html.h"

#include <stdlib.h>

static const char *const how[FRAGSIM_SWEEP_MEASURE_COUNT] = {
    "Requests running at a time, mean over the window. Where a line stops rising with the load, "
    "the memory is full.",
    "Mean over requests of the time from arrival to the last token, per output token. Where it "
    "turns up, requests wait: the policy does not keep up any more. Lower is better.",
    "Share of the pool that holds no token: reserved, wasted or free. At low load most of it is "
    "simply free; compare policies where the pool is full. Lower is better.",
};

static void put_line_table(FILE *out, const fragsim_sweep_report *rep,
                           const fragsim_sweep_lines *lines, fragsim_sweep_measure measure)
{
    static const char *const ids[] = { "d_batch", "d_latency", "d_waste" };
    const fragsim_axis *axis = &rep->opts->axes[lines->axis];
    const char *heads[FRAGSIM_MAX_SWEEP_LINES + 2];
    int n = 0;
    heads[n++] = fragsim_sweep_axis_name(axis);
    for (int k = 0; k < lines->n; k++) heads[n++] = lines->line[k].label;
    heads[n] = NULL;
    fragsim_data_begin(out, ids[measure], "data", heads);
    for (int x = 0; x < lines->n_x; x++) {
        fputs("<tr>", out);
        fragsim_cell_text(out, axis->values[x]);
        for (int k = 0; k < lines->n; k++) {
            double v = 0;
            const bool known = fragsim_sweep_value(rep, lines, measure, k, x, &v);
            fragsim_cell_number(out, known, "%.5g", v);
        }
        fputs("</tr>\n", out);
    }
    fragsim_data_end(out);
}

static bool put_charts(FILE *out, const fragsim_sweep_report *rep, bool can_draw)
{
    static const char *const ids[] = { "f_batch", "f_latency", "f_waste" };
    bool ok = true;
    fragsim_sweep_lines *lines = malloc(sizeof(*lines));
    if (!lines) return fragsim_complain("out of memory for the charts");
    fragsim_sweep_lines_of(rep, lines);
    if (lines->n < lines->n_all)
        fprintf(out,
                "<p class=\"note\">The charts show %d of %d lines; the table of all points "
                "has the rest.</p>\n",
                lines->n, lines->n_all);
    for (int m = 0; m < FRAGSIM_SWEEP_MEASURE_COUNT && ok; m++) {
        const fragsim_sweep_measure measure = (fragsim_sweep_measure)m;
        char *svg = can_draw ? fragsim_draw_sweep(rep, lines, measure) : NULL;
        ok = svg || !can_draw;
        if (!ok) break;
        fragsim_figure_begin(out, ids[m], fragsim_sweep_title(measure), svg, how[m]);
        put_line_table(out, rep, lines, measure);
        fragsim_figure_end(out);
        free(svg);
    }
    free(lines);
    return ok;
}

/* ---------------------------------------------------------------- tables */

static void put_axis_heads(FILE *out, const fragsim_options *o, int but)
{
    for (int a = 0; a < o->n_axes; a++) {
        if (a == but) continue;
        fputs("<th>", out);
        fragsim_put_escaped(out, fragsim_sweep_axis_name(&o->axes[a]));
        fputs("</th>", out);
    }
}

static void put_place(FILE *out, const fragsim_options *o, const fragsim_sweep_point *point,
                      int but)
{
    for (int a = 0; a < o->n_axes; a++)
        if (a != but) fragsim_cell_text(out, o->axes[a].values[point->k[a]]);
}

static void put_knees(FILE *out, const fragsim_sweep_report *rep)
{
    if (rep->n_knees == 0) return;
    fragsim_page_section(out, "knees", "Knees");
    fprintf(out,
            "<p>The highest rate at which the mean latency per token is at most %.4g times "
            "that of a request alone.</p>\n",
            (double)rep->opts->knee_micro / 1e6);
    fputs("<div class=\"scroll\"><table id=\"t_knees\"><thead><tr><th>policy</th>", out);
    put_axis_heads(out, rep->opts, rep->rate_axis);
    fputs("<th>alone (s/token)</th><th>knee (requests/s)</th></tr></thead>\n<tbody>\n", out);
    for (int k = 0; k < rep->n_knees; k++) {
        const fragsim_knee *knee = &rep->knees[k];
        fputs("<tr>", out);
        fragsim_cell_text(out, knee->at->jobs[knee->policy].name);
        put_place(out, rep->opts, knee->at, rep->rate_axis);
        fragsim_cell_number(out, knee->alone_s >= 0, "%.4g", knee->alone_s);
        fputs("<td>", out);
        if (knee->value < 0) fputs(knee->alone_s >= 0 ? "below the lowest" : "-", out);
        else {
            fragsim_put_escaped(out, rep->opts->axes[rep->rate_axis].values[knee->value]);
            if (knee->highest) fputs(" or more", out);
        }
        fputs("</td></tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_point(FILE *out, const fragsim_options *o, const fragsim_sweep_point *point,
                      const fragsim_job *job)
{
    const pkv_sim_result *r = &job->result;
    const pkv_sim_split *s = &r->split;
    const double parts[] = { s->token, s->reservation, s->internal, s->external };
    fragsim_derived d;
    fragsim_derive(job, &d);
    fputs("<tr>", out);
    fragsim_cell_text(out, job->name);
    put_place(out, o, point, -1);
    fragsim_cell_number(out, r->window_ns > 0, "%.2f", r->mean_batch);
    for (int p = 0; p < 4; p++) fragsim_cell_number(out, r->window_ns > 0, "%.1f", 100 * parts[p]);
    fprintf(out, "<td>%lld</td>", (long long)r->n_preemptions);
    fragsim_cell_number(out, r->norm_s.n > 0, "%.4g", r->norm_s.mean);
    fragsim_cell_number(out, r->norm_s.n > 0, "%.4g", r->norm_s.p99);
    fragsim_cell_number(out, r->ttft_s.n > 0, "%.4g", r->ttft_s.p50);
    fragsim_cell_number(out, d.requests_per_s >= 0, "%.4g", d.requests_per_s);
    fragsim_cell_number(out, d.hit_rate >= 0 && job->cfg.policy.prefix, "%.4g", 100 * d.hit_rate);
    fprintf(out, "<td>%lld</td><td>%lld</td></tr>\n", (long long)r->n_finished,
            (long long)r->n_too_long);
}

static void put_points(FILE *out, const fragsim_sweep_report *rep)
{
    static const char *const heads[] = { "batch",        "token %",  "reservation", "internal",
                                         "external",     "preempt.", "s/token",     "p99",
                                         "TTFT p50 (s)", "req/s",    "hit rate %",  "finished",
                                         "too long" };
    fragsim_page_section(out, "points", "All points");
    fputs("<div class=\"scroll\"><table id=\"t_points\"><thead><tr><th>policy</th>", out);
    put_axis_heads(out, rep->opts, -1);
    for (size_t k = 0; k < sizeof(heads) / sizeof(heads[0]); k++)
        fprintf(out, "<th>%s</th>", heads[k]);
    fputs("</tr></thead>\n<tbody>\n", out);
    for (int i = 0; i < rep->n_points; i++)
        for (int p = 0; p < rep->points[i].n_jobs; p++)
            put_point(out, rep->opts, &rep->points[i], &rep->points[i].jobs[p]);
    fputs("</tbody></table></div>\n", out);
}

/* ---------------------------------------------------------------- the page */

static void put_config(FILE *out, const json_t *json)
{
    const json_t *first = json_array_get(json_object_get(json, "points"), 0);
    const json_t *config = json_object_get(first, "config");
    const json_t *inputs = json_object_get(json, "inputs");
    if (json_is_object(json_array_get(inputs, 0))) {
        fragsim_page_section(out, "input", "Input");
        fputs("<p>Of the first point.</p>\n", out);
        fragsim_json_rows(out, "j_input", json_array_get(inputs, 0));
    }
    if (!json_is_object(config)) return;
    fragsim_page_section(out, "config", "Configuration");
    fputs("<p>Of the first point, as used, defaults included; the other points differ in what is "
          "swept.</p>\n",
          out);
    fragsim_json_rows(out, "j_config", config);
}

static bool put_page(FILE *out, const fragsim_sweep_report *rep, const json_t *json)
{
    const fragsim_options *o = rep->opts;
    const bool can_draw = fragsim_can_draw();
    fragsim_page_begin(out, "pkv-fragsim: sweep", "KV-cache memory, swept");
    fprintf(out, "<p class=\"lead\">%d points", rep->n_points);
    for (int a = 0; a < o->n_axes; a++) {
        fprintf(out, "%s ", a == 0 ? " of" : ",");
        fragsim_put_escaped(out, o->axes[a].option);
        fprintf(out, " (%d values)", o->axes[a].n);
    }
    fprintf(out, ", each with %d %s. pkv-fragsim %s.</p>\n", o->n_policies,
            o->n_policies == 1 ? "policy" : "policies", pkv_version());
    for (int k = 0; k < rep->n_notes; k++) {
        fputs("<p class=\"note\">", out);
        fragsim_put_escaped(out, rep->notes[k]);
        fputs("</p>\n", out);
    }
    if (!can_draw) fragsim_page_no_charts(out);
    if (!put_charts(out, rep, can_draw)) return false;
    put_knees(out, rep);
    put_points(out, rep);
    put_config(out, json);
    fragsim_page_repro(out, o);
    fragsim_page_end(out);
    return true;
}

char *fragsim_sweep_html(const fragsim_sweep_report *rep)
{
    char *text = NULL, *json_text = fragsim_sweep_json(rep);
    size_t len = 0;
    json_t *json = json_text ? json_loads(json_text, 0, NULL) : NULL;
    FILE *out = json ? open_memstream(&text, &len) : NULL;
    const bool ok = out && put_page(out, rep, json);
    free(json_text);
    json_decref(json);
    if (!out) fragsim_complain("out of memory for the HTML report");
    else if (fclose(out) == 0 && ok) return text;
    free(text);
    return NULL;
}
