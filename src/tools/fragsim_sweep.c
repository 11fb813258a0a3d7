/* The command sweep: options with several values span a grid; every policy runs at every point of
 * it. Points that differ only in what is simulated share their requests.
 *
 *   axes --> points --> inputs, jobs (and where a rate is swept, jobs with a request alone)
 *                        --threads--> results --> knees --> table, CSV, JSON, charts */
#include "fragsim_sweep.h"

#include "fragsim_chart_sweep.h"
#include "fragsim_options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIMULATIONS 20000 /* 40 MB of jobs */

typedef struct sweep {
    const fragsim_options *opts;
    fragsim_options *at;    /* the options of the point in hand */
    fragsim_report *loaded; /* takes notes while requests are read */
    fragsim_sweep_point *points;
    int n_points;
    fragsim_input *inputs;
    bool *has_input;
    int n_inputs;
    fragsim_job *jobs; /* those of the points, then those of the knees */
    int n_jobs;
    int rate_axis;
    fragsim_knee *knees; /* each with one more job: the request alone */
    int n_knees;
} sweep;

/* Options that leave the requests alone. */
static bool keeps_input(const char *option)
{
    static const char *const names[] = {
        "--kv-tokens",       "--num-blocks",    "--num-gpu-blocks-override",
        "--kv-memory",       "--model",         "--kv-dtype",
        "--block-tokens",    "--max-model-len", "--max-num-seqs",
        "--watermark",       "--swap-space",    "--swap-bandwidth",
        "--copy-latency",    "--bandwidth",     "--max-num-batched-tokens",
        "--admit",           "--prefill-rate",  "--prefill-chunk",
        "--tensor-parallel",
    };
    for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++)
        if (strcmp(option, names[k]) == 0) return true;
    return false;
}

static bool is_rate(const char *option)
{
    return strcmp(option, "--request-rate") == 0 || strcmp(option, "--target-rate") == 0;
}

bool fragsim_sweep_rate(const fragsim_axis *axis, int value, int64_t *micro)
{
    bool exact;
    const char *text = axis->values[value];
    return tool_parse_decimal(text, strlen(text), 6, micro, &exact);
}

/* ---------------------------------------------------------------- the grid */

/* Sizes; false: it has complained. */
static bool measure(sweep *s)
{
    const fragsim_options *o = s->opts;
    int64_t n_points = 1, n_inputs = 1, n_groups = 1;
    s->rate_axis = -1;
    if (o->n_axes == 0)
        return fragsim_complain("sweep: no option has several values; give one a list or a range, "
                                "as in --request-rate 1-8*2, or use pkv-fragsim run");
    for (int a = 0; a < o->n_axes; a++) {
        n_points *= o->axes[a].n;
        if (!keeps_input(o->axes[a].option)) n_inputs *= o->axes[a].n;
        if (is_rate(o->axes[a].option) && s->rate_axis < 0) s->rate_axis = a;
        else n_groups *= o->axes[a].n;
    }
    if (s->rate_axis < 0 && fragsim_given(o, "--knee"))
        return fragsim_complain("--knee needs several values of --request-rate or --target-rate");
    const int64_t n_knees = s->rate_axis < 0 ? 0 : n_groups * o->n_policies;
    const int64_t n_jobs = n_points * o->n_policies + n_knees;
    if (n_jobs > MAX_SIMULATIONS)
        return fragsim_complain("sweep: %lld simulations, at most %d are possible; give fewer "
                                "values or policies",
                                (long long)n_jobs, MAX_SIMULATIONS);
    if (n_inputs > 1 && o->trace_path && strcmp(o->trace_path, "-") == 0)
        return fragsim_complain("--trace -: stdin can be read only once, and the requests of this "
                                "sweep differ; give a file");
    s->n_points = (int)n_points;
    s->n_inputs = (int)n_inputs;
    s->n_jobs = (int)n_jobs;
    s->n_knees = (int)n_knees;
    return true;
}

static bool allocate(sweep *s)
{
    s->at = calloc(1, sizeof(*s->at));
    s->loaded = calloc(1, sizeof(*s->loaded));
    s->points = calloc((size_t)s->n_points, sizeof(*s->points));
    s->inputs = calloc((size_t)s->n_inputs, sizeof(*s->inputs));
    s->has_input = calloc((size_t)s->n_inputs, sizeof(*s->has_input));
    s->jobs = calloc((size_t)s->n_jobs, sizeof(*s->jobs));
    s->knees = calloc((size_t)s->n_knees + 1, sizeof(*s->knees));
    if (s->at && s->loaded && s->points && s->inputs && s->has_input && s->jobs && s->knees)
        return true;
    return fragsim_complain("out of memory");
}

static void sweep_free(sweep *s)
{
    for (int i = 0; s->has_input && i < s->n_inputs; i++)
        if (s->has_input[i]) fragsim_input_free(&s->inputs[i]);
    free(s->at);
    free(s->loaded);
    free(s->points);
    free(s->inputs);
    free(s->has_input);
    free(s->jobs);
    free(s->knees);
}

/* Mixed radix digits of the point's number; the index of its requests likewise. */
static void place(const fragsim_options *o, int number, fragsim_sweep_point *point)
{
    int input = 0, scale = 1;
    for (int a = o->n_axes - 1; a >= 0; a--) {
        point->k[a] = number % o->axes[a].n;
        number /= o->axes[a].n;
        if (keeps_input(o->axes[a].option)) continue;
        input += scale * point->k[a];
        scale *= o->axes[a].n;
    }
    point->input = input;
}

/* ---------------------------------------------------------------- requests and jobs */

/* What a file's rows have to say is said once. */
static void drop_repeated_notes(fragsim_report *report, int n_before)
{
    int n = n_before;
    for (int k = n_before; k < report->n_notes; k++) {
        bool known = false;
        for (int j = 0; j < n; j++) known |= strcmp(report->notes[j], report->notes[k]) == 0;
        if (!known && n != k) memcpy(report->notes[n], report->notes[k], FRAGSIM_NOTE_BYTES);
        n += !known;
    }
    report->n_notes = n;
}

static bool load(sweep *s, int i)
{
    if (s->has_input[i]) return true;
    const int n_notes = s->loaded->n_notes;
    s->loaded->opts = s->at;
    s->has_input[i] = true; /* also a half loaded one is given back */
    if (!fragsim_input_load(s->at, s->loaded, &s->inputs[i])) return false;
    drop_repeated_notes(s->loaded, n_notes);
    return true;
}

/* " at --seed 1, --kv-tokens 5000" */
static void name_place(const fragsim_options *o, const int *k, char *out, size_t cap)
{
    size_t len = 0;
    for (int a = 0; a < o->n_axes && len < cap; a++)
        len += (size_t)snprintf(out + len, cap - len, "%s%s %s", a == 0 ? " at " : ", ",
                                o->axes[a].option, o->axes[a].values[k[a]]);
}

static void fill_job(const fragsim_options *at, int policy, const fragsim_input *input,
                     fragsim_job *job)
{
    job->cfg = at->sim;
    job->cfg.policy = at->policies[policy];
    job->cfg.content = input->content.ids ? &input->content : NULL;
    job->reqs = input->reqs;
    job->n = input->n;
}

/* The jobs of one point, and at the first rate those of the request alone. */
static bool prepare_point(sweep *s, int number, int *n_knees)
{
    fragsim_sweep_point *point = &s->points[number];
    const int n_policies = s->opts->n_policies;
    place(s->opts, number, point);
    point->jobs = s->jobs + (size_t)number * (size_t)n_policies;
    point->n_jobs = n_policies;
    if (!fragsim_options_at(s->opts, point->k, s->at)) return false;
    const bool ok = load(s, point->input);
    for (int p = 0; p < n_policies && ok; p++) {
        fill_job(s->at, p, &s->inputs[point->input], &point->jobs[p]);
        name_place(s->opts, point->k, point->jobs[p].place, sizeof(point->jobs[p].place));
        if (s->rate_axis < 0 || point->k[s->rate_axis] != 0) continue;
        fragsim_job *alone = s->jobs + (size_t)s->n_points * (size_t)n_policies + *n_knees;
        fill_job(s->at, p, &s->inputs[point->input], alone);
        alone->cfg.concurrency = 1;
        s->knees[(*n_knees)++] = (fragsim_knee){ .at = point, .policy = p };
    }
    fragsim_options_free(s->at);
    return ok;
}

/* ---------------------------------------------------------------- knees */

static bool same_but_rate(const sweep *s, const fragsim_sweep_point *a,
                          const fragsim_sweep_point *b)
{
    for (int x = 0; x < s->opts->n_axes; x++)
        if (x != s->rate_axis && a->k[x] != b->k[x]) return false;
    return true;
}

static void find_knee(const sweep *s, fragsim_knee *knee, const pkv_sim_dist *alone)
{
    const fragsim_axis *axis = &s->opts->axes[s->rate_axis];
    int64_t best_micro = -1, top_micro = -1;
    knee->value = -1;
    knee->alone_s = alone->n > 0 ? alone->mean : -1;
    if (alone->n == 0) return;
    const double limit = (double)s->opts->knee_micro * alone->mean / 1e6;
    for (int i = 0; i < s->n_points; i++) {
        const fragsim_sweep_point *point = &s->points[i];
        const pkv_sim_dist *norm = &point->jobs[knee->policy].result.norm_s;
        const int value = point->k[s->rate_axis];
        int64_t micro;
        if (!same_but_rate(s, point, knee->at) || !fragsim_sweep_rate(axis, value, &micro))
            continue;
        if (micro > top_micro) top_micro = micro;
        if (norm->n == 0 || norm->mean > limit || micro <= best_micro) continue;
        best_micro = micro;
        knee->value = value;
    }
    knee->highest = knee->value >= 0 && best_micro == top_micro;
}

static void find_knees(sweep *s)
{
    const fragsim_job *alone = s->jobs + (size_t)s->n_points * (size_t)s->opts->n_policies;
    for (int k = 0; k < s->n_knees; k++) find_knee(s, &s->knees[k], &alone[k].result.norm_s);
}

/* Rejected requests have no column of their own. */
static void note_too_long(sweep *s)
{
    for (int p = 0; p < s->opts->n_policies; p++) {
        const fragsim_job *worst = &s->points[0].jobs[p];
        for (int i = 1; i < s->n_points; i++)
            if (s->points[i].jobs[p].result.n_too_long > worst->result.n_too_long)
                worst = &s->points[i].jobs[p];
        if (worst->result.n_too_long > 0)
            fragsim_note(s->loaded,
                         "%s: requests are too long and were rejected, at most %lld of %lld at a "
                         "point",
                         s->opts->policy_texts[p], (long long)worst->result.n_too_long,
                         (long long)worst->result.n_requests);
    }
}

/* ---------------------------------------------------------------- output */

static void report_of(const sweep *s, fragsim_sweep_report *out)
{
    *out = (fragsim_sweep_report){
        .opts = s->opts,
        .points = s->points,
        .n_points = s->n_points,
        .inputs = s->inputs,
        .n_inputs = s->n_inputs,
        .rate_axis = s->rate_axis,
        .knees = s->knees,
        .n_knees = s->n_knees,
        .notes = s->loaded->notes,
        .n_notes = s->loaded->n_notes,
    };
}

static char *make_json(const void *report)
{
    return fragsim_sweep_json(report);
}
static char *make_csv(const void *report)
{
    return fragsim_sweep_csv(report);
}
static char *make_svg(const void *report)
{
    return fragsim_sweep_svg(report);
}
static char *make_html(const void *report)
{
    return fragsim_sweep_html(report);
}

/* If a file cannot be written, nothing is printed; if the table cannot, no file stays. */
static bool write_sweep(const fragsim_sweep_report *report)
{
    const fragsim_options *o = report->opts;
    const fragsim_output outputs[] = {
        { o->json_path, "the JSON report", make_json, false },
        { o->csv_path, "the CSV report", make_csv, false },
        { o->svg_path, "the SVG", make_svg, true },
        { o->html_path, "the HTML report", make_html, true },
    };
    fragsim_files files = { 0 };
    bool on_stdout;
    if (!fragsim_outputs_put(outputs, sizeof(outputs) / sizeof(outputs[0]), report, &files,
                             &on_stdout))
        return false;
    if (!on_stdout) {
        if (!o->quiet) fragsim_print_sweep(stdout, report);
        else if (o->print_repro) printf("%s\n", o->repro);
        if (fflush(stdout) != 0 || ferror(stdout)) {
            fragsim_complain("stdout: writing failed: %s", strerror(errno));
            fragsim_files_drop(&files);
            return false;
        }
    }
    return fragsim_files_keep(&files);
}

static int run_grid(sweep *s)
{
    int n_knees = 0;
    for (int i = 0; i < s->n_points; i++)
        if (!prepare_point(s, i, &n_knees)) return FRAGSIM_ERROR;
    const pkv_status status =
        fragsim_simulate(s->jobs, s->n_jobs, s->opts->threads, fragsim_shows_progress(s->opts));
    if (status == PKV_E_CORRUPT) return FRAGSIM_NOTHING_DONE;
    if (status != PKV_OK) return FRAGSIM_ERROR;
    find_knees(s);
    note_too_long(s);
    fragsim_sweep_report report;
    report_of(s, &report);
    if (!write_sweep(&report)) return FRAGSIM_ERROR;
    for (int k = 0; k < s->n_jobs; k++)
        if (s->jobs[k].result.n_finished > 0) return FRAGSIM_OK;
    fragsim_complain("no request finished anywhere; see --max-model-len and --kv-tokens");
    return FRAGSIM_NOTHING_DONE;
}

int fragsim_sweep(const fragsim_options *opts)
{
    sweep s = { .opts = opts };
    int code = FRAGSIM_ERROR;
    if (fragsim_svg_is_possible(opts) && measure(&s) && allocate(&s)) code = run_grid(&s);
    sweep_free(&s);
    return code;
}
