/* A sweep as a table, as CSV and as JSON. */
#include "fragsim_csv.h"
#include "fragsim_derived.h"
#include "fragsim_json_parts.h"
#include "fragsim_sweep.h"
#include "fragsim_table.h"

#include <stdlib.h>
#include <string.h>

/* "request-rate" */
static const char *axis_name(const fragsim_axis *axis)
{
    return axis->option + strspn(axis->option, "-");
}

/* ---------------------------------------------------------------- table */

static int axis_width(const fragsim_axis *axis)
{
    size_t width = strlen(axis_name(axis));
    for (int v = 0; v < axis->n; v++)
        if (strlen(axis->values[v]) > width) width = strlen(axis->values[v]);
    return (int)width;
}

static void print_heads(FILE *out, const fragsim_options *o, bool goodput)
{
    for (int a = 0; a < o->n_axes; a++)
        fprintf(out, "%s%*s", a > 0 ? " " : "", axis_width(&o->axes[a]), axis_name(&o->axes[a]));
    fprintf(out, "%8s%6s%7s%7s%8s%8s%8s%9s%7s", "batch", "token", "intern", "extern", "preempt",
            "s/token", "p99", "TTFT p50", "req/s");
    fprintf(out, goodput ? "%7s\n" : "\n", "good/s");
}

/* Number or "-", at least one space in front. */
static void print_real(FILE *out, int width, int digits, bool known, double value)
{
    char text[32];
    if (!known) snprintf(text, sizeof(text), "-");
    else if (value >= 99.95) snprintf(text, sizeof(text), "%.0f", value);
    else snprintf(text, sizeof(text), "%.*g", digits, value);
    fprintf(out, "%*s", width, text);
}

static void print_row(FILE *out, const fragsim_options *o, const fragsim_sweep_point *point,
                      const fragsim_job *job, bool goodput)
{
    const pkv_sim_result *r = &job->result;
    fragsim_derived d;
    fragsim_derive(job, &d);
    for (int a = 0; a < o->n_axes; a++)
        fprintf(out, "%s%*s", a > 0 ? " " : "", axis_width(&o->axes[a]),
                o->axes[a].values[point->k[a]]);
    if (r->window_ns > 0)
        fprintf(out, "%8.2f%6.1f%7.1f%7.1f", r->mean_batch, 100 * r->split.token,
                100 * r->split.internal, 100 * r->split.external);
    else fprintf(out, "%8s%6s%7s%7s", "-", "-", "-", "-");
    fprintf(out, "%8lld", (long long)r->n_preemptions);
    print_real(out, 8, 3, r->norm_s.n > 0, r->norm_s.mean);
    print_real(out, 8, 3, r->norm_s.n > 0, r->norm_s.p99);
    print_real(out, 9, 3, r->ttft_s.n > 0, r->ttft_s.p50);
    print_real(out, 7, 3, d.requests_per_s >= 0, d.requests_per_s);
    if (goodput) print_real(out, 7, 3, d.good_per_s >= 0, d.good_per_s);
    fputc('\n', out);
}

/* " at block-tokens 8, seed 1": the axes other than the rate. */
static void print_place(FILE *out, const fragsim_sweep_report *rep, const fragsim_knee *knee)
{
    const char *before = " at ";
    for (int a = 0; a < rep->opts->n_axes; a++) {
        if (a == rep->rate_axis) continue;
        const fragsim_axis *axis = &rep->opts->axes[a];
        fprintf(out, "%s%s %s", before, axis_name(axis), axis->values[knee->at->k[a]]);
        before = ", ";
    }
}

static void print_knee(FILE *out, const fragsim_sweep_report *rep, const fragsim_knee *knee)
{
    const fragsim_axis *axis = &rep->opts->axes[rep->rate_axis];
    fputs("knee", out);
    print_place(out, rep, knee);
    if (knee->alone_s < 0) fputs(": no request finished\n", out);
    else if (knee->value < 0) fputs(": below the lowest rate\n", out);
    else
        fprintf(out, ": %s%s requests/s\n", knee->highest ? "not below " : "",
                axis->values[knee->value]);
}

/* The canonical name, or where --block-tokens changes it, what the command line said. */
static const char *policy_head(const fragsim_sweep_report *rep, int p)
{
    const char *name = rep->points[0].jobs[p].name;
    for (int i = 1; i < rep->n_points; i++)
        if (strcmp(rep->points[i].jobs[p].name, name) != 0) return rep->opts->policy_texts[p];
    return name;
}

/* Requests and setting of the first point; the others differ in the options of the axes. */
static void print_first(FILE *out, const fragsim_sweep_report *rep, const fragsim_report *first)
{
    const fragsim_options *o = rep->opts;
    fprintf(out, "points     %d", rep->n_points);
    for (int a = 0; a < o->n_axes; a++)
        fprintf(out, "%s%d of %s", a == 0 ? " = " : " x ", o->axes[a].n, axis_name(&o->axes[a]));
    fputs("; the first is\n", out);
    fragsim_print_input(out, &rep->inputs[rep->points[0].input], o);
    fragsim_print_config(out, first);
}

static bool any_slo(const fragsim_options *o)
{
    return o->sim.slo_ttft_ns > 0 || o->sim.slo_tpot_ns > 0 || o->sim.slo_norm_ns > 0;
}

void fragsim_print_sweep(FILE *out, const fragsim_sweep_report *rep)
{
    const fragsim_options *o = rep->opts;
    const bool goodput = any_slo(o); /* else it says what req/s says */
    fragsim_report first = { .opts = o,
                             .input = &rep->inputs[rep->points[0].input],
                             .jobs = rep->points[0].jobs,
                             .n_jobs = rep->points[0].n_jobs,
                             .n_notes = rep->n_notes };
    memcpy(first.notes, rep->notes, sizeof(first.notes));
    print_first(out, rep, &first);
    for (int p = 0; p < o->n_policies; p++) {
        fprintf(out, "\n%s (%% of the pool, seconds)\n", policy_head(rep, p));
        print_heads(out, o, goodput);
        for (int i = 0; i < rep->n_points; i++)
            print_row(out, o, &rep->points[i], &rep->points[i].jobs[p], goodput);
        for (int k = 0; k < rep->n_knees; k++)
            if (rep->knees[k].policy == p) print_knee(out, rep, &rep->knees[k]);
    }
    if (rep->n_knees > 0)
        fprintf(out,
                "\nknee: the highest rate at which the mean latency per token is at most %g times "
                "that of\na request alone\n",
                (double)o->knee_micro / 1e6);
    fragsim_print_notes(out, &first, 80);
    if (o->print_repro) fprintf(out, "\n%s\n", o->repro);
}

/* ---------------------------------------------------------------- CSV */

static void write_csv(FILE *out, const void *what)
{
    const fragsim_sweep_report *rep = what;
    const fragsim_options *o = rep->opts;
    /* with its dashes: so the option cannot be taken for the field of the same name */
    for (int a = 0; a < o->n_axes; a++) fprintf(out, "%s,", o->axes[a].option);
    fragsim_csv_names(out, &rep->points[0].jobs[0]);
    fputc('\n', out);
    for (int i = 0; i < rep->n_points; i++) {
        const fragsim_sweep_point *point = &rep->points[i];
        for (int p = 0; p < point->n_jobs; p++) {
            for (int a = 0; a < o->n_axes; a++) {
                fragsim_csv_text(out, o->axes[a].values[point->k[a]]);
                fputc(',', out);
            }
            fragsim_csv_values(out, &point->jobs[p]);
            fputc('\n', out);
        }
    }
}

char *fragsim_sweep_csv(const fragsim_sweep_report *rep)
{
    return fragsim_text_of(write_csv, rep);
}

/* ---------------------------------------------------------------- JSON */

static json_t *axes_json(const fragsim_options *o)
{
    json_t *axes = json_array();
    for (int a = 0; a < o->n_axes; a++) {
        json_t *axis = json_object(), *values = json_array();
        for (int v = 0; v < o->axes[a].n; v++)
            fragsim_json_append(values, json_string(o->axes[a].values[v]));
        fragsim_json_put(axis, "option", json_string(o->axes[a].option));
        fragsim_json_put(axis, "values", values);
        fragsim_json_append(axes, axis);
    }
    return axes;
}

/* The values of the axes at a point; the axis `but` is left out. */
static json_t *place_json(const fragsim_options *o, const fragsim_sweep_point *point, int but)
{
    json_t *at = json_object();
    for (int a = 0; a < o->n_axes; a++)
        if (a != but)
            fragsim_json_put(at, o->axes[a].option, json_string(o->axes[a].values[point->k[a]]));
    return at;
}

static json_t *knees_json(const fragsim_sweep_report *rep)
{
    json_t *knees = json_array();
    for (int k = 0; k < rep->n_knees; k++) {
        const fragsim_knee *knee = &rep->knees[k];
        const fragsim_axis *axis = &rep->opts->axes[rep->rate_axis];
        json_t *o = json_object();
        int64_t micro = 0;
        const bool any = knee->value >= 0 && fragsim_sweep_rate(axis, knee->value, &micro);
        fragsim_json_put(o, "policy", json_string(knee->at->jobs[knee->policy].name));
        fragsim_json_put(o, "at", place_json(rep->opts, knee->at, rep->rate_axis));
        fragsim_json_put(o, "alone_s_per_token",
                         fragsim_json_real(knee->alone_s >= 0, knee->alone_s));
        fragsim_json_put(o, "requests_per_s", fragsim_json_real(any, (double)micro / 1e6));
        fragsim_json_put(o, "highest_tried", json_boolean(knee->highest));
        fragsim_json_append(knees, o);
    }
    return knees;
}

/* Each list of requests with the options of the first point that uses it. */
static bool put_inputs(const fragsim_sweep_report *rep, json_t *inputs)
{
    fragsim_options *at = calloc(1, sizeof(*at));
    bool ok = at != NULL;
    for (int n = 0, i = 0; n < rep->n_inputs && i < rep->n_points && ok; i++) {
        if (rep->points[i].input != n) continue;
        ok = fragsim_options_at(rep->opts, rep->points[i].k, at);
        if (!ok) break;
        json_t *o = fragsim_json_input(at, &rep->inputs[n]);
        fragsim_json_put(o, "requests", fragsim_json_requests(&rep->inputs[n]));
        fragsim_json_append(inputs, o);
        fragsim_options_free(at);
        n++;
    }
    free(at);
    return ok;
}

static json_t *point_json(const fragsim_sweep_report *rep, const fragsim_sweep_point *point)
{
    json_t *o = json_object(), *policies = json_array();
    fragsim_json_put(o, "at", place_json(rep->opts, point, -1));
    fragsim_json_put(o, "input", json_integer(point->input));
    fragsim_json_put(o, "config", fragsim_json_config(&point->jobs[0]));
    for (int p = 0; p < point->n_jobs; p++)
        fragsim_json_append(policies, fragsim_json_policy(&point->jobs[p]));
    fragsim_json_put(o, "policies", policies);
    return o;
}

char *fragsim_sweep_json(const fragsim_sweep_report *rep)
{
    json_t *o = fragsim_json_head("pkv-fragsim/sweep", rep->opts);
    json_t *inputs = json_array(), *points = json_array(), *notes = json_array();
    const bool ok = put_inputs(rep, inputs);
    for (int i = 0; i < rep->n_points; i++)
        fragsim_json_append(points, point_json(rep, &rep->points[i]));
    for (int k = 0; k < rep->n_notes; k++)
        fragsim_json_append(notes, fragsim_json_string(rep->notes[k]));
    fragsim_json_put(o, "axes", axes_json(rep->opts));
    fragsim_json_put(o, "knee_factor",
                     fragsim_json_real(rep->n_knees > 0, (double)rep->opts->knee_micro / 1e6));
    fragsim_json_put(o, "knees", knees_json(rep));
    fragsim_json_put(o, "inputs", inputs);
    fragsim_json_put(o, "points", points);
    fragsim_json_put(o, "notes", notes);
    if (ok) return fragsim_json_text(o);
    json_decref(o);
    return NULL;
}
