/* From logits to events: what is drawn, where it ends, who is told.
 *
 *   draw (all rows of the step) -> per job: text, finish, event -> split the trunk, close sequences
 *
 * Every token is one event; an end rides on the last token's event, or comes alone with token -1.
 * The last event of a request carries its result. */
#include "model/engine_internal.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- drawing */

void pkv__row_tokens(const pkv__row *row, int32_t *out)
{
    const pkv__job *job = row->job;
    const int32_t *output = NULL;
    int32_t in_prompt = pkv__min_i32(job->n_prompt - row->first, row->n);
    if (in_prompt < 0) in_prompt = 0;
    if (row->branch < 0) in_prompt = row->n; /* the output of branch 0 lies behind it */
    memcpy(out, job->prompt + row->first, (size_t)in_prompt * sizeof(*out));
    if (in_prompt == row->n) return;
    if (job->beams) pkv__beam_output(job->beams, row->branch, &output);
    else output = job->branch[row->branch].output;
    memcpy(out + in_prompt, output + row->first + in_prompt - job->n_prompt,
           (size_t)(row->n - in_prompt) * sizeof(*out));
}

static void draw(pkv_engine *e, pkv__job *job, int32_t i, const float *logits)
{
    pkv__branch *b = &job->branch[i];
    const pkv__sample_context context = { .prompt = job->prompt,
                                          .n_prompt = job->n_prompt,
                                          .output = b->output,
                                          .n_output = b->n_output,
                                          .sample = i,
                                          .xorshift =
                                              job->sampling.xorshift_llama2 ? &b->xorshift : NULL };
    b->drawn = e->n_drawn++;
    pkv__sample(e->sampler, logits, &job->sampling, &context, &e->drawn[b->drawn]);
}

void pkv__samples_draw(pkv_engine *e)
{
    e->n_drawn = 0;
    for (int32_t r = 0; r < e->n_rows; r++) {
        const pkv__row *row = &e->rows[r];
        pkv__job *job = row->job;
        if (row->logit_row < 0 || job->beams) continue;
        const float *logits = e->logits + (size_t)row->logit_row * (size_t)e->weights->config.vocab;
        /* A trunk draws for all who begin, or for the only branch, which is the first. */
        const int32_t first = pkv__max_i32(row->branch, 0);
        const int32_t last = row->branch < 0 && !job->has_begun ? job->n_branches - 1 : first;
        for (int32_t i = first; i <= last; i++) draw(e, job, i, logits);
    }
}

/* ---------------------------------------------------------------- events */

pkv_token_event pkv__event_of(const pkv__job *job, int32_t sample)
{
    return (pkv_token_event){ .request = job->id,
                              .sample = sample,
                              .token = -1,
                              .position = -1,
                              .text = "",
                              .logprob = NAN,
                              .score = NAN };
}

static void complete_result(pkv_engine *e, pkv__job *job)
{
    pkv_request_result *result = &job->result;
    result->finish_ns = e->now_ns;
    result->ttft_ms =
        result->n_output == 0 ? NAN : (double)(result->first_token_ns - result->arrival_ns) * 1e-6;
    result->tpot_ms = job->longest < 2 || job->beams ? NAN : job->tpot_ms;
}

void pkv__job_tell(pkv_engine *e, pkv__job *job, pkv_token_event *event, bool last)
{
    if (last) {
        complete_result(e, job);
        event->result = &job->result;
        pkv__stats_ended(e, job, event->finish);
    }
    if (job->on_token) job->on_token(job->ctx, event);
}

static bool ends(const pkv__job *job, int32_t id)
{
    for (int32_t i = 0; i < job->n_end_ids; i++)
        if (job->end_ids[i] == id) return true;
    return false;
}

/* The text that a new token makes final, in e->piece, and whether the sample ends with it. */
static pkv_finish put_token(pkv_engine *e, pkv__job *job, pkv__branch *b, int32_t id, int32_t *n)
{
    pkv_finish finish = PKV_FINISH_NONE;
    bool stopped = false;
    int32_t rest = 0;
    *n = 0;
    if (ends(job, id)) finish = PKV_FINISH_STOP;
    else pkv__output_put(&b->text, id, e->piece, n, &stopped);
    if (stopped) return PKV_FINISH_STOP;
    if (finish == PKV_FINISH_NONE && b->n_output == job->max_new) finish = job->at_max;
    if (finish == PKV_FINISH_NONE) return finish;
    pkv__output_flush(&b->text, e->piece + *n, &rest, &stopped);
    *n += rest;
    return stopped ? PKV_FINISH_STOP : finish;
}

static void count_token(pkv_engine *e, pkv__job *job, pkv__branch *b)
{
    if (job->result.n_output == 0) {
        job->result.first_token_ns = e->now_ns;
        pkv__stats_delay(e, PKV__DELAY_TTFT, job->result.arrival_ns, e->now_ns);
    }
    if (b->n_output > 1) pkv__stats_delay(e, PKV__DELAY_ITL, b->last_ns, e->now_ns);
    b->last_ns = e->now_ns;
    job->result.n_output++;
    e->step.n_output_tokens++;
}

/* A sample is over; the caller closes its sequence. */
static void end_branch(pkv_engine *e, pkv__job *job, pkv__branch *b)
{
    b->ended = true;
    job->n_live--;
    if (job->state == PKV__JOB_RUNNING || job->state == PKV__JOB_SWAPPED) e->n_seqs--;
    if (b->n_output <= job->longest) return;
    job->longest = b->n_output;
    if (b->n_output > 1)
        job->tpot_ms = (double)(b->last_ns - job->result.first_token_ns) * 1e-6 / (b->n_output - 1);
}

/* What was drawn for branch i, to its listener. */
static void emit(pkv_engine *e, pkv__job *job, int32_t i)
{
    pkv__branch *b = &job->branch[i];
    const pkv__sampled *drawn = &e->drawn[b->drawn];
    pkv_token_event event = pkv__event_of(job, i);
    b->drawn = -1;
    b->output[b->n_output++] = drawn->id;
    count_token(e, job, b);
    event.token = drawn->id;
    event.position = job->n_prompt + b->n_output - 1;
    event.finish = put_token(e, job, b, drawn->id, &event.n_text);
    event.text = e->piece;
    event.logprob = drawn->logprob;
    event.top = drawn->top;
    event.n_top = drawn->n_top;
    if (event.finish != PKV_FINISH_NONE) end_branch(e, job, b);
    pkv__job_tell(e, job, &event, job->n_live == 0);
}

/* ---------------------------------------------------------------- a job after the pass */

static void split_trunk(pkv_engine *e, pkv__job *job)
{
    const pkv_status status = pkv__trunk_split(e, job);
    if (status == PKV_OK) return;
    /* Only regions need room here. Its tokens are drawn: it computes them again when it is back. */
    pkv__sched_drop(e, job);
}

void pkv__job_advance(pkv_engine *e, const pkv__share *share)
{
    pkv__job *job = share->job;
    if (job->beams) {
        pkv__beams_advance(e, share);
        return;
    }
    const bool in_trunk = job->trunk.seq >= 0;
    if (in_trunk && job->trunk.n_computed < pkv__trunk_tokens(job)) return;
    for (int32_t i = 0; i < job->n_branches; i++) {
        pkv__branch *b = &job->branch[i];
        if (b->drawn < 0) continue;
        emit(e, job, i);
        if (b->ended) pkv__run_close(e, &b->run);
    }
    job->has_begun |= in_trunk;
    if (job->n_live == 0) pkv__job_retire(e, job);
    else if (in_trunk) split_trunk(e, job);
}

/* ---------------------------------------------------------------- ends from outside */

void pkv__job_end(pkv_engine *e, pkv__job *job, pkv_finish finish)
{
    if (job->beams) {
        pkv__beams_end(e, job, finish);
        return;
    }
    for (int32_t i = 0; i < job->n_branches; i++) {
        pkv__branch *b = &job->branch[i];
        pkv_token_event event = pkv__event_of(job, i);
        bool stopped;
        if (b->ended) continue;
        pkv__output_flush(&b->text, e->piece, &event.n_text, &stopped);
        event.text = e->piece;
        event.finish = finish;
        end_branch(e, job, b);
        pkv__job_tell(e, job, &event, job->n_live == 0);
    }
    pkv__job_retire(e, job);
}

void pkv__job_retire(pkv_engine *e, pkv__job *job)
{
    if (job->state == PKV__JOB_RUNNING || job->state == PKV__JOB_SWAPPED) {
        e->n_seqs -= job->n_live;
        pkv__run_close(e, &job->trunk);
        for (int32_t i = 0; i < job->n_branches; i++) pkv__run_close(e, &job->branch[i].run);
    }
    if (job->state == PKV__JOB_RUNNING) pkv__jobs_remove(&e->running, job);
    if (job->state == PKV__JOB_SWAPPED) pkv__jobs_remove(&e->swapped, job);
    if (job->state == PKV__JOB_WAITING) pkv__jobs_remove(&e->waiting, job);
    if (!job->was_admitted) pkv__inbox_left(e->inbox);
    for (int k = 0; k < PKV__N_ORDERS; k++) pkv__heap_drop(e, k, job);
    pkv__table_drop(e, job);
    pkv__job_free(e, job);
}
