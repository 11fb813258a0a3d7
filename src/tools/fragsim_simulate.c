/* Runs the jobs, one after the other, and says how far it is. */
#include "fragsim.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

typedef struct progress {
    const char *policy;
    int number, of;
    double shown_at; /* seconds; for the eye only, nothing else looks at a clock */
} progress;

static double clock_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void show_progress(void *ctx, int64_t n_done, int64_t n_total)
{
    progress *p = ctx;
    const double now = clock_s();
    if (now - p->shown_at < 0.2) return;
    p->shown_at = now;
    fprintf(stderr, "\r\x1b[K%d/%d %s: %lld of %lld requests", p->number, p->of, p->policy,
            (long long)n_done, (long long)n_total);
}

bool fragsim_shows_progress(const fragsim_options *opts)
{
    return opts->force_progress || (isatty(STDERR_FILENO) && !opts->quiet);
}

static void keep_error(void *ctx, pkv_log_level level, const char *text)
{
    fragsim_job *job = ctx;
    if (level == PKV_LOG_ERROR) snprintf(job->error, sizeof(job->error), "%s", text);
}

pkv_status fragsim_simulate(fragsim_job *jobs, int n, int threads, bool show)
{
    (void)threads;
    progress p = { .of = n, .shown_at = clock_s() };
    pkv_status status = PKV_OK;
    for (int k = 0; k < n && status == PKV_OK; k++) {
        fragsim_job *job = &jobs[k];
        pkv_sim_policy_name(&job->cfg.policy, job->name);
        job->cfg.log = (pkv_logger){ keep_error, job };
        p.policy = job->name;
        p.number = k + 1;
        if (show) {
            job->cfg.progress = show_progress;
            job->cfg.progress_ctx = &p;
        }
        job->result = (pkv_sim_result)PKV_SIM_RESULT_INIT;
        status = job->status = pkv_sim_run(&job->cfg, job->reqs, job->n, &job->result);
        if (show) fputs("\r\x1b[K", stderr);
        if (status != PKV_OK)
            fragsim_complain("%s: %s", job->name,
                             job->error[0] ? job->error : pkv_status_text(status));
    }
    return status;
}

void fragsim_jobs_free(fragsim_job *jobs, int n)
{
    for (int k = 0; k < n; k++) {
        free(jobs[k].series.samples);
        free(jobs[k].series.maps);
        free(jobs[k].events);
    }
}
