/* Runs jobs on threads. They take jobs in order from a common counter; each writes into its own job
 * only, so who did what leaves no trace. When a job fails, no more are handed out. The first
 * failure in order is the one that is reported, and it does not depend on the threads either: it
 * was handed out before every later job, and nothing in front of it could stop that. */
#include "fragsim_jobs.h"

#include <stdlib.h>

#define USUAL_SAMPLES 240
#define MOST_USUAL_SAMPLES 4800      /* of a run that lasts far longer than the arrivals */
#define MAX_SAMPLES INT64_C(1000000) /* 150 MB per policy */

typedef struct job_queue job_queue;
struct job_queue {
    pkv_status (*run)(job_queue *q, fragsim_job *job);
    fragsim_job *jobs;
    int n;
    atomic_int next;
    atomic_bool failed;
    fragsim_progress progress;
};

static void keep_error(void *ctx, pkv_log_level level, const char *text)
{
    fragsim_job *job = ctx;
    if (level == PKV_LOG_ERROR) snprintf(job->error, sizeof(job->error), "%s", text);
}

/* Simulate once; `observer` NULL: for the result alone. */
static pkv_status run_once(job_queue *q, fragsim_job *job, const pkv_sim_observer *observer)
{
    fragsim_progress_part part = { &q->progress, 0 };
    pkv_sim_config cfg = job->cfg;
    cfg.log = (pkv_logger){ keep_error, job };
    cfg.observer = observer;
    if (q->progress.show) {
        cfg.progress = fragsim_progress_step;
        cfg.progress_ctx = &part;
    }
    job->result = (pkv_sim_result)PKV_SIM_RESULT_INIT;
    const pkv_status status = pkv_sim_run(&cfg, job->reqs, job->n, &job->result);
    if (status == PKV_OK) fragsim_progress_step(&part, job->n, job->n);
    return status;
}

/* With what the job wants to have kept. */
static pkv_status run_watched(job_queue *q, fragsim_job *job)
{
    fragsim_collector collector;
    pkv_status status = fragsim_collector_open(&collector, job);
    if (status != PKV_OK) return status;
    status = run_once(q, job, &collector.observer);
    const pkv_status kept = fragsim_collector_close(&collector);
    return status != PKV_OK ? status : kept;
}

/* First round: whoever wants samples runs without, to learn how long it takes. */
static pkv_status run_first(job_queue *q, fragsim_job *job)
{
    pkv_sim_policy_name(&job->cfg.policy, job->name);
    if (job->sample_interval_ns == 0 && job->want_events) return run_watched(q, job);
    return run_once(q, job, NULL);
}

static int64_t duration_ns(const fragsim_job *job)
{
    const int64_t first_ns = job->cfg.concurrency > 0 ? 0 : job->reqs[0].arrival_ns;
    return job->result.end_ns > first_ns ? job->result.end_ns - first_ns : 1;
}

/* Second round: with samples, unless the interval would drown it in them. */
static pkv_status run_second(job_queue *q, fragsim_job *job)
{
    if (job->sample_interval_ns == 0) return PKV_OK;
    const int64_t n = duration_ns(job) / job->sample_interval_ns + 1;
    if (n <= MAX_SAMPLES) return run_watched(q, job);
    char least[32];
    tool_time_text((duration_ns(job) - 1) / (MAX_SAMPLES - 1) + 1, least, sizeof(least));
    snprintf(job->error, sizeof(job->error),
             "--sample-interval gives %lld samples, at most %lld are possible; give at least %s",
             (long long)n, (long long)MAX_SAMPLES, least);
    return PKV_E_LIMIT;
}

/* One interval for all jobs that leave it open, so that their samples stand at equal times: the
 * usual number of samples over the arrivals, or where all arrive at once over the shortest run; and
 * not too many over the longest. */
static void choose_interval(fragsim_job *jobs, int n)
{
    int64_t shortest_ns = INT64_MAX, longest_ns = 1, arrivals_ns = 0;
    for (int k = 0; k < n; k++) {
        if (jobs[k].sample_interval_ns >= 0) continue;
        const int64_t ran_ns = duration_ns(&jobs[k]);
        if (ran_ns < shortest_ns) shortest_ns = ran_ns;
        if (ran_ns > longest_ns) longest_ns = ran_ns;
        if (jobs[k].cfg.concurrency > 0) continue;
        const int64_t span_ns = jobs[k].reqs[jobs[k].n - 1].arrival_ns - jobs[k].reqs[0].arrival_ns;
        if (span_ns > arrivals_ns) arrivals_ns = span_ns;
    }
    const int64_t covered_ns = arrivals_ns > 0 ? arrivals_ns : shortest_ns;
    int64_t interval_ns = (covered_ns - 1) / USUAL_SAMPLES + 1;
    const int64_t least_ns = (longest_ns - 1) / MOST_USUAL_SAMPLES + 1;
    if (interval_ns < least_ns) interval_ns = least_ns;
    for (int k = 0; k < n; k++)
        if (jobs[k].sample_interval_ns < 0) jobs[k].sample_interval_ns = interval_ns;
}

static void *work(void *ctx)
{
    job_queue *q = ctx;
    while (!atomic_load(&q->failed)) {
        const int k = atomic_fetch_add(&q->next, 1);
        if (k >= q->n) break;
        q->jobs[k].status = q->run(q, &q->jobs[k]);
        if (q->jobs[k].status != PKV_OK) atomic_store(&q->failed, true);
    }
    return NULL;
}

/* The caller works too; where no thread can be had, alone. */
static void run_all(job_queue *q, pkv_status (*run)(job_queue *q, fragsim_job *job), int threads)
{
    q->run = run;
    atomic_store(&q->next, 0);
    pthread_t helpers[FRAGSIM_MAX_THREADS];
    int n_helpers = 0;
    if (threads > FRAGSIM_MAX_THREADS) threads = FRAGSIM_MAX_THREADS;
    if (threads > q->n) threads = q->n;
    while (n_helpers < threads - 1 && pthread_create(&helpers[n_helpers], NULL, work, q) == 0)
        n_helpers++;
    work(q);
    for (int k = 0; k < n_helpers; k++) pthread_join(helpers[k], NULL);
}

pkv_status fragsim_simulate(fragsim_job *jobs, int n, int threads, bool show)
{
    job_queue q = { .jobs = jobs, .n = n };
    atomic_init(&q.next, 0);
    atomic_init(&q.failed, false);
    int64_t total = 0;
    bool watched = false;
    for (int k = 0; k < n; k++) {
        watched |= jobs[k].sample_interval_ns != 0;
        total += jobs[k].sample_interval_ns != 0 ? 2 * jobs[k].n : jobs[k].n;
        jobs[k].status = PKV_OK;
        jobs[k].error[0] = '\0';
    }
    fragsim_progress_begin(&q.progress, show, total);
    run_all(&q, run_first, threads);
    if (watched && !atomic_load(&q.failed)) {
        choose_interval(jobs, n);
        run_all(&q, run_second, threads);
    }
    fragsim_progress_end(&q.progress);
    for (int k = 0; k < n; k++) {
        if (jobs[k].status == PKV_OK) continue;
        fragsim_complain("%s%s: %s", jobs[k].name, jobs[k].place,
                         jobs[k].error[0] ? jobs[k].error : pkv_status_text(jobs[k].status));
        return jobs[k].status;
    }
    return PKV_OK;
}

void fragsim_jobs_free(fragsim_job *jobs, int n)
{
    for (int k = 0; k < n; k++) {
        free(jobs[k].series.samples);
        free(jobs[k].series.maps);
        free(jobs[k].events);
    }
}
