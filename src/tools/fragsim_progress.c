/* How far all jobs together are, on one line of stderr:
 *
 *   42 % of 18000 requests, 51200 requests/s, 2 s left
 *
 * On a terminal the line is written over and taken away at the end; elsewhere, where only
 * --progress asks for it, each line stays. */
#include "fragsim_jobs.h"
#include "tool_clock.h"

#include <unistd.h>

#define SHOW_EVERY_S 0.2 /* faster than this nobody can read */

bool fragsim_shows_progress(const fragsim_options *opts)
{
    return !opts->quiet && (opts->force_progress || isatty(STDERR_FILENO));
}

void fragsim_progress_begin(fragsim_progress *p, bool show, int64_t total)
{
    p->show = show;
    p->terminal = show && isatty(STDERR_FILENO);
    p->total = total;
    atomic_init(&p->done, 0);
    p->started_at_s = tool_clock_s();
    p->shown_at_s = p->started_at_s - SHOW_EVERY_S; /* the first one at once */
    pthread_mutex_init(&p->lock, NULL);
}

void fragsim_progress_end(fragsim_progress *p)
{
    if (p->terminal) fputs("\r\x1b[K", stderr);
    pthread_mutex_destroy(&p->lock);
}

static void show_line(const fragsim_progress *p, double now_s)
{
    const int64_t done = atomic_load(&p->done);
    const double passed_s = now_s - p->started_at_s;
    const double rate = passed_s > 0 ? (double)done / passed_s : 0;
    fprintf(stderr, "%s%lld %% of %lld requests", p->terminal ? "\r\x1b[K" : "",
            (long long)(p->total > 0 ? done * 100 / p->total : 100), (long long)p->total);
    if (rate > 0)
        fprintf(stderr, ", %.0f requests/s, %.0f s left", rate, (double)(p->total - done) / rate);
    if (!p->terminal) fputc('\n', stderr);
}

void fragsim_progress_step(void *ctx, int64_t n_done, int64_t n_total)
{
    (void)n_total;
    fragsim_progress_part *part = ctx;
    fragsim_progress *p = part->all;
    atomic_fetch_add(&p->done, n_done - part->counted);
    part->counted = n_done;
    /* whoever finds the line in use leaves it: the other one shows as much */
    if (!p->show || pthread_mutex_trylock(&p->lock) != 0) return;
    const double now_s = tool_clock_s();
    if (now_s - p->shown_at_s >= SHOW_EVERY_S) {
        p->shown_at_s = now_s;
        show_line(p, now_s);
    }
    pthread_mutex_unlock(&p->lock);
}
