/* The engine: clock, steps, preemption. One step is
 *
 *   1 take in arrivals up to now      4 room for one more token each, in order of admission; if
 *   2 resume who was swapped out        there is none, put out the latest arrival until there is
 *   3 admit from the head             5 account over the step's length
 *                                     6 one token more for all; the finished release
 *
 *   ahead --> waiting <==> running --> finished        put out: to the swap space if there is room,
 *               ^             ||                       else back to the head of the waiting, to
 *               '-- swapped <='                        compute its tokens again
 *
 * A request whose prompt takes more than one step (prefill_chunk), or that has no output, stalls:
 * it holds its room and gains no token.
 *
 * naive does every step for every request and sums up what each holds. leap keeps the next event of
 * every running request (block boundary or finish) in a ring and does all steps up to the first one
 * at once: between events everything is linear in the number of steps. Both call the policy in the
 * same order. An arrival ends a leap only if it could be admitted or is the first to wait;
 * otherwise it just joins the queue. */
#include "sim/sim_engine.h"

#define ROUNDS_PER_REPORT 1024 /* a few milliseconds */

static pkv_status check_policy(pkv__sim_engine *e)
{
    return e->cfg->check ? e->ops->check(e->policy) : PKV_OK;
}

/* ---------------------------------------------------------------- room */

static pkv_status note_growth(pkv__sim_engine *e, int64_t r, int64_t held)
{
    if (held != e->req[r].held) {
        e->req[r].held = held;
        e->n_events++;
        if (pkv__watch_wants_events(&e->watch))
            pkv__watch_event(e, PKV_SIM_EVENT_GROW, r, pkv__engine_resident(e, r), 0);
    }
    return check_policy(e);
}

/* To the swap space if there is room, else back to the head of the queue. */
static pkv_status put_out(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    const int32_t u = pkv__engine_resident(e, r);
    pkv_status status = PKV_E_NO_BLOCKS;
    if (e->cfg->policy.swap && e->ops->suspend) status = e->ops->suspend(e->policy, r, u);
    const bool swapped = status == PKV_OK;
    if (status == PKV_E_NO_BLOCKS) status = e->ops->release(e->policy, r);
    if (status != PKV_OK) return status;

    pkv__engine_stop(e, r);
    q->state = swapped ? PKV__REQ_SWAPPED : PKV__REQ_WAITING;
    pkv__list_push_front(e, swapped ? &e->swapped : &e->waiting, r);
    if (!q->was_preempted) e->n_preempted_requests++;
    q->was_preempted = true;
    e->put_out = true;
    e->epoch++;
    e->n_events++;
    e->n_preemptions++;
    e->n_swaps += swapped;
    if (pkv__watch_wants_events(&e->watch))
        pkv__watch_event(e, swapped ? PKV_SIM_EVENT_SWAP_OUT : PKV_SIM_EVENT_PREEMPT, r, u, 0);
    return check_policy(e);
}

/* There is no room for r: put out the latest arrivals until there is. */
static pkv_status make_room_by_force(pkv__sim_engine *e, int64_t r)
{
    pkv_status status = PKV_E_NO_BLOCKS;
    while (status == PKV_E_NO_BLOCKS) {
        status = put_out(e, pkv__engine_victim(e));
        if (status != PKV_OK || !pkv__engine_is_running(e, r)) return status;
        status = e->ops->grow(e->policy, r, pkv__engine_resident(e, r));
    }
    return status == PKV_OK ? note_growth(e, r, e->ops->held(e->policy, r)) : status;
}

/* The way of most calls is short: naive comes by here once per token. */
pkv_status pkv__engine_make_room(pkv__sim_engine *e, int64_t r)
{
    const pkv_status status = e->ops->grow(e->policy, r, pkv__engine_resident(e, r));
    if (PKV_UNLIKELY(status == PKV_E_NO_BLOCKS)) return make_room_by_force(e, r);
    if (PKV_UNLIKELY(status != PKV_OK)) return status;
    const int64_t held = e->ops->held(e->policy, r);
    if (PKV_LIKELY(held == e->req[r].held && !e->cfg->check)) return PKV_OK;
    return note_growth(e, r, held);
}

/* Does the step that ends now belong to the window? */
static bool ends_in_window(const pkv__sim_engine *e)
{
    const pkv__sim_account *acc = &e->account;
    if (acc->window == PKV_SIM_WINDOW_QUEUED) return e->queued;
    return acc->window != PKV_SIM_WINDOW_ARRIVALS || e->now_ns <= acc->window_end_ns;
}

pkv_status pkv__engine_finish(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    const int32_t u = pkv__engine_resident(e, r);
    pkv__engine_stop(e, r);
    q->state = PKV__REQ_FINISHED;
    q->finish_ns = e->end_ns = e->now_ns;
    e->n_finished++;
    if (ends_in_window(e)) e->n_finished_window++;
    e->epoch++;
    e->n_events++;
    e->generated_tokens += e->n_seqs * q->generated;
    pkv_status status = e->ops->release(e->policy, r);
    if (status == PKV_OK) status = check_policy(e);
    if (status != PKV_OK) return status;
    if (pkv__watch_wants_events(&e->watch)) pkv__watch_event(e, PKV_SIM_EVENT_FINISH, r, u, 0);
    pkv__engine_next_of_client(e);
    return PKV_OK;
}

/* ---------------------------------------------------------------- the run */

/* Nothing runs: let the time pass until the next arrival. After the last one that can run there is
 * nothing to see, and just the window up to the last arrival may go on. */
static pkv_status wait_for_arrival(pkv__sim_engine *e)
{
    const bool over = e->next_arrival > e->last_to_run;
    const int64_t until_ns = pkv__engine_next_arrival_ns(e);
    if (!over || e->account.window == PKV_SIM_WINDOW_ARRIVALS) {
        pkv__sim_sample sample;
        const pkv_status status = pkv__engine_sample(e, &sample);
        if (status != PKV_OK) return status;
        const pkv__sim_stretch gap = { .n = 1, .first_ns = until_ns - e->now_ns };
        pkv__sim_account_add(&e->account, &gap, e->now_ns, &sample, &sample);
        if (!over) pkv__watch_samples(e, &gap, &sample, &sample);
    }
    pkv__engine_take_in(e, until_ns, NULL);
    e->now_ns = until_ns;
    return PKV_OK;
}

static pkv_status run_step(pkv__sim_engine *e)
{
    e->queued = pkv__engine_n_waiting(e) > 0;
    e->put_out = false;
    const bool naive = e->cfg->engine == PKV_SIM_NAIVE;
    return naive ? pkv__engine_step(e) : pkv__engine_leap(e);
}

static void report_progress(const pkv__sim_engine *e)
{
    if (e->cfg->progress)
        e->cfg->progress(e->cfg->progress_ctx, e->n_finished + e->n_too_long, e->n);
}

pkv_status pkv__engine_run(pkv__sim_engine *e)
{
    pkv__engine_open(e);
    for (int64_t round = 0;; round++) {
        const int64_t n_waiting = pkv__engine_n_waiting(e);
        if (n_waiting > e->max_queue) e->max_queue = n_waiting;
        pkv_status status = pkv__engine_admit(e);
        if (status != PKV_OK) return status;
        if (e->running.len > 0) {
            status = run_step(e);
        } else if (pkv__engine_n_waiting(e) > 0) {
            return pkv__refuse(&e->cfg->log, PKV_E_CORRUPT,
                               "request %lld fits an empty pool but is not admitted to one",
                               (long long)pkv__engine_first_in_line(e));
        } else if (e->next_arrival < e->n) {
            status = wait_for_arrival(e);
        } else {
            report_progress(e);
            return PKV_OK;
        }
        if (status != PKV_OK) return status;
        if (round % ROUNDS_PER_REPORT == 0) report_progress(e);
    }
}
