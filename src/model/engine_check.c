/* Does what the engine holds add up? The placement's own check, the lists against the counts, and
 * the blocks of the pool against the rows of the sequences that are open. */
#include "model/engine_internal.h"

#include <string.h>

static pkv_status corrupt(const pkv_engine *e, const char *what, long long is, long long should)
{
    return pkv__refuse(&e->log, PKV_E_CORRUPT, "engine: %s: %lld, should be %lld", what, is,
                       should);
}

/* Jobs of a list are in its state and in order; returns their live branches, or -1. */
static int64_t count_list(const pkv__jobs *list, pkv__job_state state)
{
    int64_t n_live = 0;
    int32_t n = 0;
    for (const pkv__job *job = list->head; job; job = job->next, n++) {
        if (job->state != state || job->n_live < 1) return -1;
        if (job->next ? job->next->prev != job || job->next->order <= job->order
                      : list->tail != job)
            return -1;
        n_live += job->n_live;
    }
    return n == list->n ? n_live : -1;
}

/* A sequence of a job: what both sides say about its length; marks its blocks. */
static pkv_status check_run(const pkv_engine *e, const pkv__run *run, int64_t *n_seen)
{
    const pkv__place_ops *ops = e->place->ops;
    int32_t n_ids;
    if (run->seq < 0) return PKV_OK;
    if (ops->committed(e->place, run->seq) != run->n_computed)
        return corrupt(e, "tokens of a sequence", ops->committed(e->place, run->seq),
                       run->n_computed);
    const int32_t *ids = ops->row(e->place, run->seq, &n_ids);
    for (int32_t i = 0; i < n_ids; i++) {
        uint64_t *word = &e->seen[ids[i] / 64];
        const uint64_t bit = UINT64_C(1) << (ids[i] % 64);
        *n_seen += !(*word & bit);
        *word |= bit;
    }
    return PKV_OK;
}

static pkv_status check_blocks(const pkv_engine *e)
{
    int64_t n_seen = 0;
    pkv__place_usage usage;
    memset(e->seen, 0, ((size_t)e->n_blocks + 1 + 63) / 64 * sizeof(*e->seen));
    for (const pkv__job *job = e->running.head; job; job = job->next) {
        pkv_status status = check_run(e, &job->trunk, &n_seen);
        for (int32_t i = 0; i < job->n_branches && status == PKV_OK; i++)
            status = check_run(e, &job->branch[i].run, &n_seen);
        if (status != PKV_OK) return status;
    }
    e->place->ops->usage(e->place, &usage);
    /* A region is held whole, and spare ones for samples to come; what a swapped sequence shared
     * when it went has stayed: rows show less. */
    const bool hidden = (e->kind != PKV_PLACE_PAGED && e->running.n > 0) || e->swapped.n > 0;
    if (hidden ? usage.n_used < n_seen : usage.n_used != n_seen)
        return corrupt(e, "blocks in use", usage.n_used, n_seen);
    return PKV_OK;
}

pkv_status pkv_engine_check(const pkv_engine *engine)
{
    if (!engine || engine->in_step) return PKV_E_INVALID_ARG;
    const pkv_engine *e = engine;
    const int64_t running = count_list(&e->running, PKV__JOB_RUNNING);
    const int64_t swapped = count_list(&e->swapped, PKV__JOB_SWAPPED);
    if (running < 0 || swapped < 0 || count_list(&e->waiting, PKV__JOB_WAITING) < 0)
        return pkv__refuse(&e->log, PKV_E_CORRUPT, "engine: a list is not in order");
    if (running + swapped != e->n_seqs)
        return corrupt(e, "sequences", e->n_seqs, running + swapped);
    const int32_t n_jobs = e->running.n + e->swapped.n + e->waiting.n + e->heap[PKV__BY_ARRIVAL].n;
    if (n_jobs != e->n_jobs) return corrupt(e, "requests", e->n_jobs, n_jobs);
    const pkv_status status = e->place->ops->check(e->place);
    if (status != PKV_OK) return status;
    return check_blocks(e);
}
