/* Room given up and taken back: preemption by swap or recompute, and the trunk that becomes
 * branches. */
#include "model/engine_internal.h"

/* Swapping moves a byte twice, out and in, at some 5 GB/s of one core; recomputing makes some
 * 20 GFLOP/s on that core, and both grow alike with threads. So a byte there and back costs as much
 * as 8 FLOP. Constants and no measured times: the same requests are preempted the same way in every
 * run. */
#define FLOP_PER_SWAPPED_BYTE 8.0

int32_t pkv__job_seqs(const pkv__job *job, int32_t *seqs)
{
    int32_t n = 0;
    if (job->trunk.seq >= 0) seqs[n++] = job->trunk.seq;
    for (int32_t i = 0; i < job->n_branches; i++)
        if (job->branch[i].run.seq >= 0) seqs[n++] = job->branch[i].run.seq;
    return n;
}

void pkv__run_close(pkv_engine *e, pkv__run *run)
{
    if (run->seq < 0) return;
    e->place->ops->close(e->place, run->seq);
    run->n_reached = pkv__max_i32(run->n_reached, run->n_computed);
    run->seq = -1;
    run->n_computed = 0;
}

/* ---------------------------------------------------------------- preemption */

/* FLOP to bring all sequences of a job where they are: the prompt once, each branch's own tokens.
 */
static double recompute_flop(const pkv_engine *e, const pkv__job *job)
{
    double tokens = job->trunk.n_computed, keys = 0;
    if (job->trunk.seq < 0) tokens = job->n_prompt;
    keys = tokens * tokens / 2;
    for (int32_t i = 0; i < job->n_branches; i++) {
        const pkv__run *run = &job->branch[i].run;
        if (run->seq < 0) continue;
        const double more = run->n_computed - job->n_prompt;
        tokens += more;
        keys += more * (job->n_prompt + more / 2);
    }
    return tokens * e->costs.token_flop + keys * e->costs.key_flop;
}

static bool should_swap(const pkv_engine *e, const pkv__job *job, int32_t n)
{
    if (e->preempt == PKV_PREEMPT_RECOMPUTE) return false;
    if (e->preempt == PKV_PREEMPT_SWAP) return true;
    const double bytes = (double)e->place->ops->swap_bytes(e->place, e->seqs, n);
    return bytes * FLOP_PER_SWAPPED_BYTE < recompute_flop(e, job);
}

static void count_preemption(pkv_engine *e, pkv__job *job)
{
    job->result.n_preempted++;
    e->n_preempted++;
}

void pkv__sched_drop(pkv_engine *e, pkv__job *job)
{
    pkv__run_close(e, &job->trunk);
    for (int32_t i = 0; i < job->n_branches; i++) pkv__run_close(e, &job->branch[i].run);
    e->n_seqs -= job->n_live;
    if (job->state == PKV__JOB_RUNNING) {
        pkv__jobs_remove(&e->running, job);
        e->step.n_preempt_recompute++;
        count_preemption(e, job);
    } else {
        pkv__jobs_remove(&e->swapped, job); /* counted when it was swapped out */
    }
    job->state = PKV__JOB_WAITING;
    pkv__jobs_insert(&e->waiting, job);
}

void pkv__sched_preempt(pkv_engine *e, pkv__job *job)
{
    const int32_t n = pkv__job_seqs(job, e->seqs);
    if (!should_swap(e, job, n) || e->place->ops->suspend(e->place, e->seqs, n) != PKV_OK) {
        pkv__sched_drop(e, job); /* no host pool, or it is full */
        return;
    }
    pkv__jobs_remove(&e->running, job);
    job->state = PKV__JOB_SWAPPED;
    pkv__jobs_insert(&e->swapped, job);
    e->step.n_preempt_swap++;
    count_preemption(e, job);
}

/* ---------------------------------------------------------------- trunk */

pkv_status pkv__trunk_split(pkv_engine *e, pkv__job *job)
{
    pkv__run trunk = job->trunk;
    int32_t n = 0, next = -1;
    for (int32_t i = 0; i < job->n_branches; i++) n += !job->branch[i].ended;
    if (n > 1) {
        const pkv_status status = e->place->ops->fork(e->place, trunk.seq, e->children, n - 1);
        if (status != PKV_OK) return status;
    }
    trunk.n_reached = pkv__max_i32(trunk.n_reached, trunk.n_computed);
    for (int32_t i = 0; i < job->n_branches; i++) {
        pkv__branch *b = &job->branch[i];
        if (b->ended) continue;
        b->run.seq = next < 0 ? trunk.seq : e->children[next];
        b->run.n_computed = trunk.n_computed;
        b->run.n_reached = pkv__max_i32(b->run.n_reached, trunk.n_reached);
        next++;
    }
    job->trunk = (pkv__run){ .seq = -1, .n_reached = trunk.n_reached };
    return PKV_OK;
}
