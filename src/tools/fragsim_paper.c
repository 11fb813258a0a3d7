/* pkv-fragsim paper: rebuild the figures of the PagedAttention paper and say which hold. */
#include "fragsim_paper.h"
#include "fragsim_outputs.h"
#include "tool_clock.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Everything the command owns. */
typedef struct paper {
    paper_report report;
    pkv_sim_request *reqs[PAPER_SEEDS][PAPER_SAMPLES];
    fragsim_job *jobs;
    pkv_sim_forms *forms;
} paper;

static void print_log(void *ctx, pkv_log_level level, const char *text)
{
    (void)ctx;
    (void)level;
    fragsim_complain("%s", text);
}

static const pkv_logger complainer = { print_log, NULL };

/* ---------------------------------------------------------------- simulations */

static bool draw_samples(paper *p)
{
    for (int s = 0; s < PAPER_SEEDS; s++) {
        for (int k = 0; k < PAPER_SAMPLES; k++) {
            const paper_source *sample = &fragsim_paper_sources[k];
            p->reqs[s][k] = calloc((size_t)sample->n, sizeof(pkv_sim_request));
            if (!p->reqs[s][k]) return fragsim_complain("out of memory");
            if (pkv_sim_draw(sample->lengths, p->report.first_seed + (uint64_t)s,
                             sample->rate_micro, &complainer, p->reqs[s][k], sample->n) != PKV_OK)
                return false;
        }
    }
    return true;
}

/* OPT-13B on 40 GB: the defaults of the library, pinned by what the paper states. */
static bool make_config(const paper_run *run, pkv_sim_config *out)
{
    const paper_source *sample = &fragsim_paper_sources[run->sample];
    *out = (pkv_sim_config)PKV_SIM_CONFIG_INIT;
    out->pool_tokens = 15728;
    out->max_model_len = 2048;
    out->max_num_seqs = 256;
    out->watermark_ppm = run->watermark_ppm;
    out->step_base_ns = sample->step_base_ns;
    out->step_per_seq_ns = sample->step_per_seq_ns;
    out->step_per_token_ns = sample->step_per_token_ns;
    out->window = run->window;
    return pkv_sim_policy_parse(run->policy, &complainer, &out->policy) == PKV_OK;
}

static bool make_jobs(paper *p)
{
    const int n = p->report.n_runs;
    p->jobs = calloc((size_t)(PAPER_SEEDS * n), sizeof(*p->jobs));
    p->forms = calloc((size_t)(PAPER_SEEDS * n), sizeof(*p->forms));
    p->report.outcomes = calloc((size_t)p->report.n_cells, sizeof(*p->report.outcomes));
    if (!p->jobs || !p->forms || !p->report.outcomes) return fragsim_complain("out of memory");
    p->report.jobs = p->jobs;
    p->report.forms = p->forms;
    for (int k = 0; k < PAPER_SEEDS * n; k++) {
        const paper_run *run = &fragsim_paper_runs[k % n];
        fragsim_job *job = &p->jobs[k];
        if (!make_config(run, &job->cfg)) return false;
        job->cfg.seed = p->report.first_seed + (uint64_t)(k / n);
        job->reqs = p->reqs[k / n][run->sample];
        job->n = fragsim_paper_sources[run->sample].n;
        p->forms[k] = (pkv_sim_forms)PKV_SIM_FORMS_INIT;
        const pkv_status status = pkv_sim_closed_forms(&job->cfg, job->reqs, job->n, &p->forms[k]);
        if (status != PKV_OK) return fragsim_complain("%s", pkv_status_text(status));
    }
    return true;
}

/* ---------------------------------------------------------------- cells */

double fragsim_paper_value(paper_what what, const fragsim_job *job, const fragsim_job *other)
{
    const pkv_sim_result *r = &job->result;
    switch (what) {
    case PAPER_TOKEN:
        return 100 * r->split.token;
    case PAPER_RESERVATION:
        return 100 * r->split.reservation;
    case PAPER_INTERNAL:
        return 100 * r->split.internal;
    case PAPER_EXTERNAL:
        return 100 * r->split.external;
    case PAPER_BATCH:
        return r->mean_batch;
    case PAPER_RATIO:
        return other && other->result.mean_batch > 0 ? r->mean_batch / other->result.mean_batch : 0;
    case PAPER_PREEMPTIONS:
        return (double)r->n_preemptions;
    case PAPER_SAVING:
        return 100 * r->sharing_saving;
    }
    return 0;
}

const char *fragsim_paper_unit(paper_what what)
{
    switch (what) {
    case PAPER_BATCH:
        return "requests";
    case PAPER_RATIO:
        return "times";
    case PAPER_PREEMPTIONS:
        return "preemptions";
    case PAPER_SAVING:
        return "percent of blocks";
    default:
        return "percent of slots";
    }
}

/* The closed form of a cell for the requests of one simulation. */
static double form_value(paper_what what, const fragsim_job *job, const pkv_sim_forms *f)
{
    const pkv_sim_policy *policy = &job->cfg.policy;
    const double pool = job->cfg.pool_tokens;
    switch (what) {
    case PAPER_TOKEN:
        return 100 * f->max_split.token;
    case PAPER_RESERVATION:
        return 100 * f->max_split.reservation;
    case PAPER_INTERNAL:
        if (policy->kind == PKV_SIM_PAGED)
            return 100 * job->result.mean_batch * (policy->block_tokens + 1) / 2 / pool;
        return 100 * f->max_split.internal;
    case PAPER_EXTERNAL:
        return 100 * f->max_split.external;
    case PAPER_BATCH:
        if (policy->kind == PKV_SIM_PAGED) return f->paged_batch;
        return policy->kind == PKV_SIM_MAX ? (double)f->max_batch_buddy : f->oracle_ideal_batch;
    case PAPER_SAVING:
        return 100 * f->fork_saving;
    default:
        return 0;
    }
}

/* Every figure is the mean over the seeds; a ratio is that of the means. */
static double mean_value(const paper_report *rep, paper_what what, int run)
{
    double sum = 0;
    for (int s = 0; s < PAPER_SEEDS; s++)
        sum += fragsim_paper_value(what, &rep->jobs[s * rep->n_runs + run], NULL);
    return sum / PAPER_SEEDS;
}

static void fill_values(const paper_report *rep, const paper_cell *c, paper_outcome *o)
{
    double form = 0;
    for (int s = 0; s < PAPER_SEEDS; s++) {
        const int at = s * rep->n_runs;
        const fragsim_job *job = &rep->jobs[at + c->run];
        const fragsim_job *other = c->other < 0 ? NULL : &rep->jobs[at + c->other];
        o->seeds[s] = fragsim_paper_value(c->what, job, other);
        form += form_value(c->what, job, &rep->forms[at + c->run]);
    }
    o->form = form / PAPER_SEEDS;
    if (c->what != PAPER_RATIO) {
        o->ours = mean_value(rep, c->what, c->run);
        return;
    }
    const double other = mean_value(rep, PAPER_BATCH, c->other);
    o->ours = other > 0 ? mean_value(rep, PAPER_BATCH, c->run) / other : 0;
}

static void judge(const paper_report *rep, const paper_cell *c, paper_outcome *o)
{
    fill_values(rep, c, o);
    o->low = c->low;
    o->high = c->high;
    o->gated = c->gate != PAPER_NO_GATE || c->form_points > 0 || c->form_share > 0;
    bool good = true;
    if (c->gate == PAPER_RANGE) good = o->ours >= c->low && o->ours <= c->high;
    if (c->gate == PAPER_FALLING) {
        o->high = mean_value(rep, c->what, c->other);
        good = o->ours < o->high;
    }
    if (c->form_points > 0) good = good && fabs(o->ours - o->form) <= c->form_points;
    if (c->form_share > 0) {
        o->low = o->form * (1 - c->form_share);
        o->high = o->form * (1 + c->form_share);
        good = good && o->ours >= o->low && o->ours <= o->high;
    }
    o->passed = good;
}

static void judge_all(paper_report *rep)
{
    for (int k = 0; k < rep->n_cells; k++) {
        paper_outcome *o = &rep->outcomes[k];
        judge(rep, &fragsim_paper_cells[k], o);
        rep->n_gated += o->gated;
        rep->n_failed += o->gated && !o->passed;
    }
}

/* ---------------------------------------------------------------- outputs */

static bool put_text(fragsim_files *files, const char *path, char *text)
{
    if (!text) return fragsim_complain("out of memory");
    const bool ok = fragsim_files_put(files, path, text);
    free(text);
    return ok;
}

static bool is_stdout(const char *path)
{
    return path && strcmp(path, "-") == 0;
}

static bool put_files(const paper_report *rep, bool on_stdout, fragsim_files *files)
{
    const fragsim_options *o = rep->opts;
    const bool json = o->json_path && is_stdout(o->json_path) == on_stdout;
    const bool csv = o->csv_path && is_stdout(o->csv_path) == on_stdout;
    if (json && !put_text(files, o->json_path, fragsim_paper_json(rep))) return false;
    return !csv || put_text(files, o->csv_path, fragsim_paper_csv(rep));
}

/* Files that have a name appear last, and only if everything else could be written. */
static bool write_paper(const paper_report *rep)
{
    const fragsim_options *o = rep->opts;
    fragsim_files files = { 0 };
    bool ok = put_files(rep, false, &files) && put_files(rep, true, &files);
    if (ok && !o->quiet && !is_stdout(o->json_path) && !is_stdout(o->csv_path)) {
        fragsim_paper_print(stdout, rep);
        ok = fflush(stdout) == 0 && !ferror(stdout);
        if (!ok) fragsim_complain("stdout: writing failed: %s", strerror(errno));
    }
    if (ok) return fragsim_files_keep(&files);
    fragsim_files_drop(&files);
    return false;
}

/* ---------------------------------------------------------------- command */

static int run_paper(paper *p)
{
    paper_report *rep = &p->report;
    const double begin = tool_clock_s();
    if (!draw_samples(p) || !make_jobs(p)) return FRAGSIM_ERROR;
    const pkv_status status = fragsim_simulate(
        p->jobs, PAPER_SEEDS * rep->n_runs, rep->opts->threads, fragsim_shows_progress(rep->opts));
    if (status == PKV_E_CORRUPT) return FRAGSIM_NOTHING_DONE;
    if (status != PKV_OK) return FRAGSIM_ERROR;
    judge_all(rep);
    const double end = tool_clock_s();
    if (!write_paper(rep)) return FRAGSIM_ERROR;
    if (!rep->opts->quiet)
        fprintf(stderr, "%d simulations in %.2f s\n", PAPER_SEEDS * rep->n_runs, end - begin);
    if (rep->n_failed == 0) return FRAGSIM_OK;
    fragsim_complain("%d of %d cells are outside what is accepted", rep->n_failed, rep->n_gated);
    return FRAGSIM_NOTHING_DONE;
}

int fragsim_paper(const fragsim_options *opts)
{
    paper p = { 0 };
    p.report.opts = opts;
    p.report.first_seed = opts->seed_given ? opts->arrivals.seed : 1;
    while (fragsim_paper_runs[p.report.n_runs].policy) p.report.n_runs++;
    while (fragsim_paper_cells[p.report.n_cells].group) p.report.n_cells++;
    const int code = run_paper(&p);
    if (p.jobs) fragsim_jobs_free(p.jobs, PAPER_SEEDS * p.report.n_runs);
    for (int s = 0; s < PAPER_SEEDS; s++)
        for (int k = 0; k < PAPER_SAMPLES; k++) free(p.reqs[s][k]);
    free(p.report.outcomes);
    free(p.forms);
    free(p.jobs);
    return code;
}
