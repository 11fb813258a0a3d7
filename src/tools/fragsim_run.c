/* The command run: one list of requests, a simulation per policy, one report. */
#include "fragsim_chart.h"
#include "fragsim_outputs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MAP_CELLS 128 /* of the memory map in pictures: as wide as a page shows */

static int terminal_width(void)
{
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return 80;
    return size.ws_col >= 120 ? 120 : 80;
}

static bool print_table(const fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    const char *no_colour = getenv("NO_COLOR");
    const bool colour = isatty(STDOUT_FILENO) && !(no_colour && *no_colour);
    if (opts->quiet && opts->print_repro) printf("%s\n", opts->repro);
    if (!opts->quiet)
        fragsim_print_report(stdout, rep, opts->width ? opts->width : terminal_width(), colour);
    if (fflush(stdout) == 0 && !ferror(stdout)) return true;
    return fragsim_complain("stdout: writing failed: %s", strerror(errno));
}

/* If a file cannot be written, nothing is printed; if the table cannot, no file stays. */
static bool write_report(const fragsim_report *rep)
{
    fragsim_files files = { 0 };
    bool on_stdout;
    if (!fragsim_outputs_make(rep, &files, &on_stdout)) return false;
    if (on_stdout || print_table(rep)) return fragsim_files_keep(&files);
    fragsim_files_drop(&files);
    return false;
}

static bool make_jobs(fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    const bool pictures = opts->svg_path || opts->html_path;
    const bool watched = pictures || opts->series_path;
    rep->jobs = calloc((size_t)opts->n_policies, sizeof(*rep->jobs));
    if (!rep->jobs) return fragsim_complain("out of memory");
    rep->n_jobs = opts->n_policies;
    for (int k = 0; k < rep->n_jobs; k++) {
        fragsim_job *job = &rep->jobs[k];
        job->cfg = opts->sim;
        job->cfg.policy = opts->policies[k];
        job->cfg.content = rep->input->content.ids ? &rep->input->content : NULL;
        job->reqs = rep->input->reqs;
        job->n = rep->input->n;
        job->sample_interval_ns = watched ? opts->sample_interval_ns : 0;
        job->map_cells = pictures ? MAP_CELLS : 0;
        job->want_events = opts->events_path != NULL;
    }
    return true;
}

static bool look_up_cache(fragsim_report *rep, int32_t block_tokens)
{
    const fragsim_input *in = rep->input;
    if (!in->content.ids) return true;
    pkv_sim_cache_forms forms = PKV_SIM_CACHE_FORMS_INIT;
    const pkv_status status =
        pkv_sim_cache_bound(&in->content, in->reqs, in->n, block_tokens, NULL, &forms);
    if (status != PKV_OK) return fragsim_complain("%s", pkv_status_text(status));
    rep->cache = forms;
    rep->cache_block_tokens = block_tokens;
    return true;
}

static int run_loaded(fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    pkv_sim_config cfg = opts->sim;
    bool found = false;
    /* the first that finds prefixes, else the first in blocks */
    for (int k = 0; k < opts->n_policies; k++) {
        const pkv_sim_policy *p = &opts->policies[k];
        if (p->kind != PKV_SIM_PAGED || (found && (cfg.policy.prefix || !p->prefix))) continue;
        cfg.policy = *p;
        found = true;
    }
    if (cfg.policy.block_tokens > cfg.pool_tokens) cfg.policy.block_tokens = cfg.pool_tokens;
    rep->forms = (pkv_sim_forms)PKV_SIM_FORMS_INIT;
    const pkv_status forms =
        pkv_sim_closed_forms(&cfg, rep->input->reqs, rep->input->n, &rep->forms);
    if (forms != PKV_OK) {
        fragsim_complain("%s", pkv_status_text(forms));
        return FRAGSIM_ERROR;
    }
    if (!look_up_cache(rep, cfg.policy.block_tokens) || !make_jobs(rep)) return FRAGSIM_ERROR;
    const pkv_status status =
        fragsim_simulate(rep->jobs, rep->n_jobs, opts->threads, fragsim_shows_progress(opts));
    if (status == PKV_E_CORRUPT) return FRAGSIM_NOTHING_DONE;
    if (status != PKV_OK) return FRAGSIM_ERROR;
    fragsim_note_results(rep);
    if (!write_report(rep)) return FRAGSIM_ERROR;
    int64_t n_finished = 0;
    for (int k = 0; k < rep->n_jobs; k++) n_finished += rep->jobs[k].result.n_finished;
    if (n_finished > 0) return FRAGSIM_OK;
    fragsim_complain("no request finished under any policy; see --max-model-len and --kv-tokens");
    return FRAGSIM_NOTHING_DONE;
}

int fragsim_run(const fragsim_options *opts)
{
    fragsim_input input;
    if (!fragsim_svg_is_possible(opts)) return FRAGSIM_ERROR;
    fragsim_report *rep = calloc(1, sizeof(*rep));
    if (!rep) {
        fragsim_complain("out of memory");
        return FRAGSIM_ERROR;
    }
    rep->opts = opts;
    rep->input = &input;
    const int code = fragsim_input_load(opts, rep, &input) ? run_loaded(rep) : FRAGSIM_ERROR;
    fragsim_jobs_free(rep->jobs, rep->n_jobs);
    fragsim_input_free(&input);
    free(rep->jobs);
    free(rep);
    return code;
}
