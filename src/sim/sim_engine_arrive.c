/* Arrivals: as given, or in a closed loop, where each of a number of clients sends its next request
 * when its last one is finished or rejected. */
#include "sim/sim_engine.h"

bool pkv__engine_can_run(const pkv__sim_engine *e, int64_t r)
{
    const int64_t final = (int64_t)e->reqs[r].prompt_tokens + e->reqs[r].output_tokens;
    return final <= e->cfg->max_model_len && e->ops->fits_empty(e->policy, r);
}

/* False: it is rejected. */
static bool arrive(pkv__sim_engine *e, int64_t at_ns, int64_t step)
{
    const int64_t r = e->next_arrival++;
    pkv__sim_req *q = &e->req[r];
    q->arrival_ns = at_ns;
    if (e->cfg->concurrency > 0 && e->next_arrival == e->n) e->account.window_end_ns = at_ns;
    if (pkv__watch_wants_events(&e->watch))
        pkv__watch_arrival(e, PKV_SIM_EVENT_ARRIVE, r, at_ns, step);
    if (pkv__engine_can_run(e, r)) {
        q->state = PKV__REQ_WAITING;
        pkv__list_push_back(e, &e->waiting, r);
        if (e->tried_epoch == e->epoch && e->try_next == PKV__NOBODY) e->try_next = r;
        return true;
    }
    q->state = PKV__REQ_TOO_LONG;
    if (e->n_too_long++ == 0) e->first_too_long = r;
    if (pkv__watch_wants_events(&e->watch))
        pkv__watch_arrival(e, PKV_SIM_EVENT_REJECT, r, at_ns, step);
    return false;
}

void pkv__engine_next_of_client(pkv__sim_engine *e)
{
    if (e->cfg->concurrency == 0) return;
    while (e->next_arrival < e->n && !arrive(e, e->now_ns, e->n_steps)) continue;
}

void pkv__engine_open(pkv__sim_engine *e)
{
    for (int64_t r = e->n - 1; r >= 0 && e->last_to_run == PKV__NOBODY; r--)
        if (pkv__engine_can_run(e, r)) e->last_to_run = r;
    const pkv_sim_observer *observer = e->watch.observer;
    if (observer && observer->on_sample)
        e->watch.next_sample_ns = e->cfg->concurrency > 0 ? 0 : e->reqs[0].arrival_ns;
    if (e->cfg->concurrency == 0) {
        pkv__engine_take_in(e, e->now_ns, NULL);
        return;
    }
    for (int32_t client = 0; client < e->cfg->concurrency && e->next_arrival < e->n; client++)
        pkv__engine_next_of_client(e);
}

int64_t pkv__engine_arrival_ns(const pkv__sim_engine *e, int64_t r)
{
    return e->cfg->concurrency > 0 ? INT64_MAX : e->reqs[r].arrival_ns;
}

int64_t pkv__engine_next_arrival_ns(const pkv__sim_engine *e)
{
    return e->next_arrival < e->n ? pkv__engine_arrival_ns(e, e->next_arrival) : INT64_MAX;
}

/* Steps of `s` that are over at at_ns. */
static int64_t steps_until(const pkv__sim_engine *e, int64_t at_ns, const pkv__sim_stretch *s)
{
    return s ? pkv__sim_stretch_within(s, at_ns - e->now_ns) : 0;
}

void pkv__engine_take_in(pkv__sim_engine *e, int64_t until_ns, const pkv__sim_stretch *s)
{
    if (e->cfg->concurrency > 0) return;
    while (e->next_arrival < e->n && e->reqs[e->next_arrival].arrival_ns <= until_ns) {
        const int64_t at_ns = e->reqs[e->next_arrival].arrival_ns;
        const bool watched = pkv__watch_wants_events(&e->watch);
        arrive(e, at_ns, watched ? e->n_steps + steps_until(e, at_ns, s) : 0);
    }
}
