/* The engine: queue, clock, admission, preemption. One step is
 *
 *   1 take in arrivals up to now      3 room for one more token each, in order of admission; if
 *   2 admit from the head               there is none, preempt the latest arrival until there is
 *   4 account over the step's length  5 one token more for all; the finished release
 *
 * The queue is a stack of preempted requests above a range of arrivals: first come, first served
 * admits in order of arrival, the preempted one is always the latest admitted and returns to the
 * head. So the running list is sorted by arrival, its tail is the next victim.
 *
 * naive does every step for every request and sums up what each holds. leap keeps the next event of
 * every running request (block boundary or finish) in a heap and does all steps up to the first one
 * at once: between events everything is linear in the number of steps. Both call the policy in the
 * same order. An arrival ends a leap only if nobody waits; otherwise it just joins the queue. */
#include "sim/engine.h"

#define NO_REQUEST (-1)
#define LATEST_NS (INT64_C(1) << 62)

/* ---------------------------------------------------------------- queue and running list */

static bool is_running(const pkv__sim_engine *e, int64_t r)
{
    return e->req[r].state == PKV__REQ_RUNNING;
}

int64_t pkv__engine_n_waiting(const pkv__sim_engine *e)
{
    return e->n_preempted + e->n_arrived;
}

/* Tokens generated so far; only while running. */
static int32_t generated(const pkv__sim_engine *e, int64_t r)
{
    return (int32_t)(e->n_steps - e->req[r].step_zero);
}

int32_t pkv__engine_resident(const pkv__sim_engine *e, int64_t r)
{
    return e->reqs[r].prompt_tokens + generated(e, r);
}

static int64_t queue_head(pkv__sim_engine *e)
{
    if (e->n_preempted > 0) return e->preempted[e->n_preempted - 1];
    while (e->req[e->next_admit].state == PKV__REQ_TOO_LONG) e->next_admit++;
    return e->next_admit;
}

static void queue_pop(pkv__sim_engine *e)
{
    if (e->n_preempted > 0) {
        e->n_preempted--;
    } else {
        e->next_admit++;
        e->n_arrived--;
    }
}

/* Tokens that head has to its name before it runs (again). */
static int32_t tokens_of_waiting(const pkv__sim_engine *e, int64_t r)
{
    return e->reqs[r].prompt_tokens + e->req[r].generated;
}

static void append_running(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    PKV_ASSERT(e->tail == NO_REQUEST || e->tail < r);
    q->prev = e->tail;
    q->next = NO_REQUEST;
    if (e->tail == NO_REQUEST) e->head = r;
    else e->req[e->tail].next = r;
    e->tail = r;
    e->n_running++;
    e->tokens += tokens_of_waiting(e, r);
    q->state = PKV__REQ_RUNNING;
    q->step_zero = e->n_steps - q->generated;
}

static void remove_running(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    e->tokens -= pkv__engine_resident(e, r);
    q->generated = generated(e, r);
    if (q->prev == NO_REQUEST) e->head = q->next;
    else e->req[q->prev].next = q->next;
    if (q->next == NO_REQUEST) e->tail = q->prev;
    else e->req[q->next].prev = q->prev;
    e->n_running--;
    pkv__sim_heap_remove(&e->events, r);
}

static pkv_status check_policy(pkv__sim_engine *e)
{
    return e->cfg->check ? e->ops->check(e->policy) : PKV_OK;
}

/* ---------------------------------------------------------------- the parts of a step */

void pkv__engine_take_in(pkv__sim_engine *e)
{
    while (e->next_arrival < e->n && e->reqs[e->next_arrival].arrival_ns <= e->now_ns) {
        const int64_t r = e->next_arrival++;
        const int64_t final = (int64_t)e->reqs[r].prompt_tokens + e->reqs[r].output_tokens;
        if (final <= e->cfg->max_model_len && e->ops->fits_empty(e->policy, r)) {
            e->n_arrived++;
            continue;
        }
        e->req[r].state = PKV__REQ_TOO_LONG;
        if (e->n_too_long++ == 0) e->first_too_long = r;
    }
    const int64_t n_waiting = pkv__engine_n_waiting(e);
    if (n_waiting > e->max_queue) e->max_queue = n_waiting;
}

pkv_status pkv__engine_admit(pkv__sim_engine *e)
{
    e->n_fresh = 0;
    while (pkv__engine_n_waiting(e) > 0 && e->n_running < e->cfg->max_num_seqs) {
        const int64_t r = queue_head(e);
        const int32_t u = tokens_of_waiting(e, r);
        int32_t cached;
        pkv_status status = e->ops->admit(e->policy, r, u, e->n_running == 0, &cached);
        if (status == PKV_E_NO_BLOCKS) break;
        if (status != PKV_OK) return status;
        if (e->req[r].was_preempted) e->recomputed_tokens += u;
        queue_pop(e);
        append_running(e, r);
        e->fresh[e->n_fresh++] = r;
        e->n_admissions++;
        e->account.started = true;
        status = check_policy(e);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

static pkv_status preempt(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    remove_running(e, r);
    q->state = PKV__REQ_WAITING;
    if (!q->was_preempted) e->n_preempted_requests++;
    q->was_preempted = true;
    e->preempted[e->n_preempted++] = r;
    e->n_preemptions++;
    const pkv_status status = e->ops->release(e->policy, r);
    return status == PKV_OK ? check_policy(e) : status;
}

pkv_status pkv__engine_make_room(pkv__sim_engine *e, int64_t r)
{
    while (is_running(e, r)) {
        const pkv_status status = e->ops->grow(e->policy, r, pkv__engine_resident(e, r));
        if (status == PKV_OK) return check_policy(e);
        if (status != PKV_E_NO_BLOCKS) return status;
        const pkv_status preempted = preempt(e, e->tail);
        if (preempted != PKV_OK) return preempted;
    }
    return PKV_OK;
}

void pkv__engine_note_first_tokens(pkv__sim_engine *e, int64_t step_ns)
{
    for (int32_t k = 0; k < e->n_fresh; k++) {
        const int64_t r = e->fresh[k];
        if (is_running(e, r) && e->req[r].first_token_ns < 0)
            e->req[r].first_token_ns = e->now_ns + step_ns;
    }
}

pkv_status pkv__engine_finish(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    remove_running(e, r);
    q->state = PKV__REQ_FINISHED;
    q->finish_ns = e->now_ns;
    e->n_finished++;
    e->generated_tokens += q->generated;
    const pkv_status status = e->ops->release(e->policy, r);
    return status == PKV_OK ? check_policy(e) : status;
}

/* ---------------------------------------------------------------- accounting */

/* Free slots are of one kind at a time: what keeps the head of the queue out? */
static pkv__sim_part kind_of_free(pkv__sim_engine *e, int64_t n_free)
{
    if (pkv__engine_n_waiting(e) == 0) return PKV__PART_IDLE;
    const int64_t r = queue_head(e);
    if (e->ops->need(e->policy, r, tokens_of_waiting(e, r)) > n_free) return PKV__PART_SHORTAGE;
    if (e->n_running >= e->cfg->max_num_seqs) return PKV__PART_LIMITED;
    if (e->ops->closed(e->policy)) return PKV__PART_LIMITED;
    return e->ops->has_places(e->policy) ? PKV__PART_UNUSABLE : PKV__PART_SHORTAGE;
}

pkv_status pkv__engine_sample(pkv__sim_engine *e, int64_t tokens, pkv__sim_sample *sample)
{
    int64_t n_free;
    e->ops->usage(e->policy, tokens, sample, &n_free);
    sample->part[kind_of_free(e, n_free)] = n_free;
    sample->part[PKV__PART_BATCH] = e->n_running;
    if (e->n_running > e->max_batch) e->max_batch = e->n_running;
    if (pkv__sim_sample_valid(sample, e->account.pool_units)) return PKV_OK;
    return pkv__refuse(&e->cfg->log, PKV_E_CORRUPT,
                       "step %lld: token %lld, reservation %lld, internal %lld, rounding %lld and "
                       "free %lld units do not make up the pool of %lld",
                       (long long)e->n_steps, (long long)sample->part[PKV__PART_TOKEN],
                       (long long)sample->part[PKV__PART_RESERVATION],
                       (long long)sample->part[PKV__PART_INTERNAL],
                       (long long)sample->part[PKV__PART_ROUNDING], (long long)n_free,
                       (long long)e->account.pool_units);
}

pkv_status pkv__engine_pass(pkv__sim_engine *e, const pkv__sim_stretch *s,
                            const pkv__sim_sample *first, const pkv__sim_sample *last)
{
    const pkv__i128 ns = pkv__sim_stretch_ns(s);
    if (ns > LATEST_NS - e->now_ns)
        return pkv__refuse(&e->cfg->log, PKV_E_LIMIT, "the run lasts longer than 2^62 ns");
    pkv__sim_account_add(&e->account, s, e->now_ns, first, last);
    e->now_ns += (int64_t)ns;
    return PKV_OK;
}

/* Nothing runs: let the time pass until the next arrival. */
static pkv_status wait_for_arrival(pkv__sim_engine *e)
{
    pkv__sim_sample sample;
    const pkv_status status = pkv__engine_sample(e, 0, &sample);
    if (status != PKV_OK) return status;
    const pkv__sim_stretch gap = { .n = 1,
                                   .first_ns = e->reqs[e->next_arrival].arrival_ns - e->now_ns };
    return pkv__engine_pass(e, &gap, &sample, &sample);
}

pkv_status pkv__engine_run(pkv__sim_engine *e)
{
    pkv_status (*const advance)(pkv__sim_engine *) =
        e->cfg->engine == PKV_SIM_NAIVE ? pkv__engine_step : pkv__engine_leap;
    for (int64_t round = 0;; round++) {
        pkv__engine_take_in(e);
        pkv_status status = pkv__engine_admit(e);
        if (status != PKV_OK) return status;
        if (e->n_running > 0) {
            e->queued = pkv__engine_n_waiting(e) > 0;
            status = advance(e);
        } else if (pkv__engine_n_waiting(e) > 0) {
            return pkv__refuse(&e->cfg->log, PKV_E_CORRUPT,
                               "request %lld fits an empty pool but is not admitted to one",
                               (long long)queue_head(e));
        } else if (e->next_arrival < e->n) {
            status = wait_for_arrival(e);
        } else {
            return PKV_OK;
        }
        if (status != PKV_OK) return status;
        if (e->cfg->progress && round % 4096 == 0)
            e->cfg->progress(e->cfg->progress_ctx, e->n_finished + e->n_too_long, e->n);
    }
}
