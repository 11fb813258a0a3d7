/* Beams over sequences: branch i is live beam i. What lives on is decided by beam.h; here sequences
 * follow it: who has no child is closed, the first child takes its parent's sequence, the others
 * are forks of it. */
#include "model/engine_internal.h"

#include <string.h>

/* ---------------------------------------------------------------- following */

/* The output is what beam.h says, whether there are sequences or not. */
static void set_branches(pkv__job *job, int32_t n_beams)
{
    for (int32_t i = 0; i < job->n_branches; i++) {
        pkv__branch *b = &job->branch[i];
        const int32_t *ids;
        b->ended = i >= n_beams;
        b->n_output = b->ended ? 0 : pkv__beam_output(job->beams, i, &ids);
    }
}

/* Sequences of the beams after a step from those before it. PKV_E_NO_BLOCKS: only regions need
 * room; all sequences are closed then. */
static pkv_status follow(pkv_engine *e, pkv__job *job, const pkv__beam_next *next)
{
    pkv__run old[PKV__MAX_BEAMS];
    bool taken[PKV__MAX_BEAMS] = { false }, used[PKV__MAX_BEAMS] = { false };
    pkv_status status = PKV_OK;
    for (int32_t i = 0; i < job->n_branches; i++) {
        old[i] = job->branch[i].run;
        job->branch[i].run = (pkv__run){ .seq = -1 };
    }
    for (int32_t i = 0; i < next->n_beams; i++) used[next->parent[i]] = true;
    for (int32_t i = 0; i < job->n_branches; i++)
        if (!used[i]) pkv__run_close(e, &old[i]);
    for (int32_t i = 0; i < next->n_beams && status == PKV_OK; i++) {
        const int32_t p = next->parent[i];
        pkv__run *run = &job->branch[i].run;
        *run = old[p];
        if (taken[p]) {
            run->seq = -1;
            status = e->place->ops->fork(e->place, old[p].seq, &run->seq, 1);
        }
        taken[p] = true;
    }
    if (status == PKV_OK) return PKV_OK;
    for (int32_t i = 0; i < job->n_branches; i++) {
        pkv__run_close(e, &job->branch[i].run);
        if (used[i] && !taken[i]) pkv__run_close(e, &old[i]);
    }
    return status;
}

/* ---------------------------------------------------------------- results */

static void count_tokens(pkv_engine *e, pkv__job *job, int32_t n)
{
    if (job->result.n_output == 0) {
        job->result.first_token_ns = e->now_ns;
        pkv__stats_delay(e, PKV__DELAY_TTFT, job->result.arrival_ns, e->now_ns);
    }
    job->result.n_output += n;
    e->step.n_output_tokens += n;
}

/* One hypothesis: its tokens one by one, the end with the last. */
static void tell_result(pkv_engine *e, pkv__job *job, int32_t rank, pkv_finish finish, bool last)
{
    pkv__output *text = &job->branch[0].text;
    pkv_token_event event = pkv__event_of(job, rank);
    const int32_t *ids = NULL;
    int32_t n = 0, rest = 0;
    float score = event.score;
    pkv_finish own = finish;
    bool stopped;
    if (rank < pkv__beam_n_results(job->beams)) {
        pkv__beam_result(job->beams, rank, &ids, &n, &score, &own);
        /* A beam that was cut off: by what, the search does not know. */
        if (own != PKV_FINISH_STOP) own = finish;
    }
    if (n > 0) count_tokens(e, job, n);
    pkv__output_init(text, e->tokenizer, NULL);
    pkv__output_follow(text, job->prompt, job->n_prompt);
    for (int32_t i = 0; i < n - 1; i++) {
        event.token = ids[i];
        event.position = job->n_prompt + i;
        pkv__output_put(text, ids[i], e->piece, &event.n_text, &stopped);
        event.text = e->piece;
        pkv__job_tell(e, job, &event, false);
    }
    event = pkv__event_of(job, rank);
    if (n > 0) {
        event.token = ids[n - 1];
        event.position = job->n_prompt + n - 1;
        if (own != PKV_FINISH_STOP)
            pkv__output_put(text, ids[n - 1], e->piece, &event.n_text, &stopped);
    }
    pkv__output_flush(text, e->piece + event.n_text, &rest, &stopped);
    event.n_text += rest;
    event.text = e->piece;
    event.score = score;
    event.finish = own;
    pkv__job_tell(e, job, &event, last);
}

static void tell_results(pkv_engine *e, pkv__job *job, pkv_finish finish)
{
    for (int32_t rank = 0; rank < job->n_return; rank++)
        tell_result(e, job, rank, finish, rank == job->n_return - 1);
    pkv__job_retire(e, job);
}

void pkv__beams_end(pkv_engine *e, pkv__job *job, pkv_finish finish)
{
    pkv__beam_finish(job->beams);
    tell_results(e, job, finish);
}

/* ---------------------------------------------------------------- a step */

static void advance(pkv_engine *e, const pkv__share *share)
{
    pkv__job *job = share->job;
    const float *logits[PKV__MAX_BEAMS];
    const size_t vocab = (size_t)e->weights->config.vocab;
    const bool from_trunk = job->trunk.seq >= 0;
    pkv__beam_next next;
    for (int32_t i = 0; i < share->n; i++)
        logits[i] = e->logits + (size_t)e->rows[share->first + i].logit_row * vocab;
    const double start = pkv__engine_seconds();
    pkv__beam_advance(job->beams, logits, &next);
    e->step.sampling_s += pkv__engine_seconds() - start;
    if (next.n_beams == 0) {
        tell_results(e, job, job->at_max);
        return;
    }
    set_branches(job, next.n_beams);
    job->has_begun = true;
    const pkv_status status = from_trunk ? pkv__trunk_split(e, job) : follow(e, job, &next);
    if (status != PKV_OK) pkv__sched_drop(e, job);
}

void pkv__beams_advance(pkv_engine *e, const pkv__share *share)
{
    pkv__job *job = share->job;
    if (job->trunk.seq >= 0 && job->trunk.n_computed < job->n_prompt) return;
    if (e->rows[share->first].logit_row >= 0) {
        advance(e, share);
        return;
    }
    /* Output that is computed again; or the prompt was, and beams had begun. */
    if (job->trunk.seq >= 0 && pkv__trunk_split(e, job) != PKV_OK) pkv__sched_drop(e, job);
}
