/* Leaping: do as many steps at once as nothing happens in. */
#include "sim/engine.h"

/* The step at which r has to be looked at next: a block boundary, or the end of its output. */
static void plan_event(pkv__sim_engine *e, int64_t r)
{
    const int64_t grown = e->ops->leap_limit(e->policy, r, pkv__engine_resident(e, r));
    const int64_t end = e->req[r].step_zero + e->reqs[r].output_tokens;
    const int64_t left = end - e->n_steps;
    pkv__sim_heap_set(&e->events, r, grown < left ? e->n_steps + grown : end);
}

static pkv_status make_room_for(pkv__sim_engine *e, const int64_t *list, int32_t n)
{
    for (int32_t k = 0; k < n; k++) {
        const int64_t r = list[k];
        if (e->req[r].state != PKV__REQ_RUNNING) continue; /* preempted for one before it */
        const pkv_status status = pkv__engine_make_room(e, r);
        if (status != PKV_OK) return status;
        if (e->req[r].state == PKV__REQ_RUNNING) plan_event(e, r);
    }
    return PKV_OK;
}

/* How many steps may be done at once, all inside or all outside the window. */
static int64_t leap_length(const pkv__sim_engine *e, pkv__sim_stretch s, bool preempted)
{
    /* What was freed by a preemption may admit somebody at the next step. */
    if (preempted) return 1;
    s.n = e->events.events[0].step - e->n_steps;
    if (e->account.window == PKV_SIM_WINDOW_ARRIVALS && e->now_ns < e->account.window_end_ns) {
        const int64_t inside = pkv__sim_stretch_within(&s, e->account.window_end_ns - e->now_ns);
        s.n = inside > 1 ? inside : 1;
    }
    if (s.waited || e->next_arrival >= e->n) return s.n;
    /* Up to the first step that ends at or after the next arrival. */
    const int64_t until_ns = e->reqs[e->next_arrival].arrival_ns - e->now_ns;
    const int64_t before = pkv__sim_stretch_within(&s, until_ns - 1);
    return before < s.n ? before + 1 : s.n;
}

/* Finish those whose output ends now; the others stand at a block boundary. */
static pkv_status collect_events(pkv__sim_engine *e)
{
    e->n_due = 0;
    while (e->events.len > 0 && e->events.events[0].step == e->n_steps) {
        const int64_t r = e->events.events[0].req;
        pkv__sim_heap_remove(&e->events, r);
        if (e->n_steps - e->req[r].step_zero < e->reqs[r].output_tokens) {
            e->due[e->n_due++] = r;
            continue;
        }
        const pkv_status status = pkv__engine_finish(e, r);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

pkv_status pkv__engine_leap(pkv__sim_engine *e)
{
    const int64_t n_preemptions = e->n_preemptions;
    pkv_status status = make_room_for(e, e->due, e->n_due);
    if (status != PKV_OK) return status;
    status = make_room_for(e, e->fresh, e->n_fresh);
    if (status != PKV_OK) return status;

    const pkv_sim_config *cfg = e->cfg;
    pkv__sim_stretch s = {
        .n = 1,
        .first_ns = cfg->step_base_ns + cfg->step_per_seq_ns * e->n_running +
                    cfg->step_per_token_ns * e->tokens,
        .slope_ns = cfg->step_per_token_ns * e->n_running,
        .queued = e->queued,
        .waited = pkv__engine_n_waiting(e) > 0,
    };
    s.n = leap_length(e, s, e->n_preemptions != n_preemptions);
    pkv__engine_note_first_tokens(e, s.first_ns);

    pkv__sim_sample first, last;
    status = pkv__engine_sample(e, e->tokens, &first);
    if (status != PKV_OK) return status;
    const int64_t last_tokens = e->tokens + (s.n - 1) * e->n_running;
    status = pkv__engine_sample(e, last_tokens, &last);
    if (status != PKV_OK) return status;
    status = pkv__engine_pass(e, &s, &first, &last);
    if (status != PKV_OK) return status;

    e->n_steps += s.n;
    e->tokens += s.n * e->n_running;
    return collect_events(e);
}
