/* One step: who came, who computes, the pass, what came of it.
 *
 *   take in -> schedule -> batch -> step_begin, pass, commit, retire -> draw -> events, forks, ends
 *
 * A pass that fails is undone as a whole: nothing was committed, its jobs end with ERROR. */
#include "model/engine_internal.h"

#include "common/clock.h"

#include <string.h>

double pkv__engine_seconds(void)
{
    return 1e-9 * (double)pkv__clock_ns();
}

/* ---------------------------------------------------------------- who came */

static void drain_inbox(pkv_engine *e)
{
    for (pkv__job *job; (job = pkv__inbox_take(e->inbox));) {
        job->id = ++e->last_taken;
        pkv__table_put(e, job);
        pkv__heap_put(e, PKV__BY_ARRIVAL, job);
        if (job->deadline_ns != 0) pkv__heap_put(e, PKV__BY_DEADLINE, job);
    }
}

static void take_in(pkv_engine *e)
{
    drain_inbox(e);
    for (pkv_request_id id; (id = pkv__inbox_take_cancel(e->inbox)) != 0;) {
        pkv__job *job = pkv__table_find(e, id);
        if (job) pkv__job_end(e, job, PKV_FINISH_CANCEL);
    }
    const pkv__job_heap *deadlines = &e->heap[PKV__BY_DEADLINE];
    while (deadlines->n > 0 && deadlines->at[0]->deadline_ns <= e->now_ns)
        pkv__job_end(e, deadlines->at[0], PKV_FINISH_DEADLINE);
    const pkv__job_heap *arrivals = &e->heap[PKV__BY_ARRIVAL];
    while (arrivals->n > 0 && arrivals->at[0]->result.arrival_ns <= e->now_ns) {
        pkv__job *job = arrivals->at[0];
        pkv__heap_drop(e, PKV__BY_ARRIVAL, job);
        job->order = e->n_ordered++;
        job->state = PKV__JOB_WAITING;
        pkv__jobs_append(&e->waiting, job);
    }
}

/* ---------------------------------------------------------------- the pass */

static pkv__run *run_of(const pkv__row *row)
{
    return row->branch < 0 ? &row->job->trunk : &row->job->branch[row->branch].run;
}

/* The arrays of the pass from the rows. */
static pkv__batch build_batch(pkv_engine *e)
{
    const pkv__place_ops *ops = e->place->ops;
    const int32_t width = e->place->table_width;
    int32_t at = 0, n_logits = 0;
    e->n_prefill = 0;
    for (int32_t r = 0; r < e->n_rows; r++) {
        pkv__row *row = &e->rows[r];
        const int32_t seq = run_of(row)->seq;
        int32_t n_ids;
        pkv__row_tokens(row, e->tokens + at);
        for (int32_t i = 0; i < row->n; i++) e->positions[at + i] = row->first + i;
        ops->slots(e->place, seq, row->first, row->n, e->slots + at);
        const int32_t *ids = ops->row(e->place, seq, &n_ids);
        memcpy(e->tables + (size_t)r * (size_t)width, ids, (size_t)n_ids * sizeof(*ids));
        e->q_indptr[r] = at;
        e->kv_len[r] = row->first + row->n;
        at += row->n;
        row->logit_row = row->wants_logits ? n_logits : -1;
        if (row->wants_logits) e->logit_rows[n_logits++] = at - 1;
    }
    e->q_indptr[e->n_rows] = at;
    e->n_tokens = at;
    e->n_logit_rows = n_logits;
    return (pkv__batch){ .n_tokens = at,
                         .n_seqs = e->n_rows,
                         .n_logit_rows = n_logits,
                         .tokens = e->tokens,
                         .positions = e->positions,
                         .slots = e->slots,
                         .q_indptr = e->q_indptr,
                         .kv_len = e->kv_len,
                         .block_tables = e->tables,
                         .table_stride = width,
                         .logit_rows = e->logit_rows };
}

static pkv_status commit_rows(pkv_engine *e)
{
    const pkv__place_ops *ops = e->place->ops;
    for (int32_t r = 0; r < e->n_rows; r++) {
        const pkv__row *row = &e->rows[r];
        const pkv_status status =
            ops->commit(e->place, run_of(row)->seq, e->tokens + e->q_indptr[r], row->n);
        if (status != PKV_OK) return status;
    }
    return ops->step_retire(e->place);
}

/* Pass and commit, or neither. */
static pkv_status compute(pkv_engine *e, const pkv__batch *batch)
{
    const pkv__place_ops *ops = e->place->ops;
    pkv__forward_times before, after;
    pkv_status status = ops->step_begin(e->place);
    if (status != PKV_OK) return PKV_E_CORRUPT;
    const double start = pkv__engine_seconds();
    pkv__forward_get_times(e->forward, &before);
    status = e->pass(e->forward, batch, e->place->k_views, e->place->v_views, e->logits);
    pkv__forward_get_times(e->forward, &after);
    const double end = pkv__engine_seconds();
    e->step.forward_s += end - start;
    e->step.attention_s += after.attention_s - before.attention_s;
    if (status == PKV_OK) {
        status = commit_rows(e);
        e->step.manager_s += pkv__engine_seconds() - end;
        if (status == PKV_OK) return PKV_OK;
        status = PKV_E_CORRUPT;
    }
    ops->step_abort(e->place);
    return status == PKV_E_NO_MEMORY || status == PKV_E_DEVICE ? status : PKV_E_CORRUPT;
}

static void end_all(pkv_engine *e)
{
    for (int32_t s = 0; s < e->n_shares; s++) pkv__job_end(e, e->shares[s].job, PKV_FINISH_ERROR);
}

/* ---------------------------------------------------------------- what came of it */

static void count_rows(pkv_engine *e)
{
    pkv__place_usage usage;
    for (int32_t r = 0; r < e->n_rows; r++) {
        const pkv__row *row = &e->rows[r];
        pkv__run *run = run_of(row);
        pkv__stats_row(e, row, run->n_reached);
        run->n_computed += row->n;
        run->n_reached = pkv__max_i32(run->n_reached, run->n_computed);
    }
    e->place->ops->usage(e->place, &usage);
    pkv__stats_step(e, &usage);
}

static void draw_and_tell(pkv_engine *e)
{
    const double start = pkv__engine_seconds();
    pkv__samples_draw(e);
    e->step.sampling_s += pkv__engine_seconds() - start;
    e->now_ns = pkv__engine_now(e);
    for (int32_t s = 0; s < e->n_shares; s++) pkv__job_advance(e, &e->shares[s]);
}

static pkv_status run_rows(pkv_engine *e, double start)
{
    const pkv__batch batch = build_batch(e);
    e->step.manager_s += pkv__engine_seconds() - start;
    const pkv_status status = compute(e, &batch);
    if (status != PKV_OK) {
        e->now_ns = pkv__engine_now(e);
        pkv__log(&e->log, PKV_LOG_ERROR, "the pass failed: %s; its %d requests end with an error",
                 pkv_status_name(status), e->n_shares);
        end_all(e);
        e->n_tokens = e->n_prefill = 0;
        return status;
    }
    count_rows(e);
    draw_and_tell(e);
    return PKV_OK;
}

static void fill_report(const pkv_engine *e, pkv_step_report *out)
{
    const pkv__job_heap *arrivals = &e->heap[PKV__BY_ARRIVAL];
    const int32_t n_due = e->running.n + e->waiting.n + e->swapped.n;
    *out = (pkv_step_report){ .struct_size = sizeof(*out),
                              .n_tokens = e->n_tokens,
                              .n_prefill = e->n_prefill,
                              .n_rows = e->n_tokens > 0 ? e->n_rows : 0,
                              .n_running = e->running.n,
                              .n_waiting = e->waiting.n,
                              .n_swapped = e->swapped.n,
                              .n_unfinished = e->n_jobs,
                              .n_preempted = e->n_preempted };
    if (n_due == 0 && arrivals->n > 0) out->next_arrival_ns = arrivals->at[0]->result.arrival_ns;
}

pkv_status pkv_engine_step(pkv_engine *engine, pkv_step_report *report)
{
    if (!engine || !report) return PKV_E_INVALID_ARG;
    if (report->struct_size != sizeof(*report)) return PKV_E_ABI;
    pkv_engine *e = engine;
    pkv_status status = PKV_OK;
    if (e->in_step)
        return pkv__refuse(&e->log, PKV_E_INVALID_ARG, "step: called by a callback of a step");
    const double start = pkv__engine_seconds();
    e->in_step = true;
    e->now_ns = e->step_began_ns = pkv__engine_now(e);
    e->n_tokens = e->n_prefill = 0;
    take_in(e);
    pkv__sched_rows(e);
    if (e->n_rows > 0) status = run_rows(e, start);
    drain_inbox(e); /* what callbacks handed in is unfinished too */
    e->step.step_s += e->n_tokens > 0 ? pkv__engine_seconds() - start : 0;
    pkv__stats_publish(e);
    fill_report(e, report);
    e->in_step = false;
    return status;
}
