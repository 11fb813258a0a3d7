/* Leaping: do as many steps at once as nothing happens in. */
#include "sim/sim_engine.h"

/* The step at which r has to be looked at next: a block boundary, or the end of its output. */
static void plan_event(pkv__sim_engine *e, int64_t r)
{
    const int64_t grown = e->ops->leap_limit(e->policy, r, pkv__engine_resident(e, r));
    const int64_t end = e->req[r].step_zero + e->reqs[r].output_tokens;
    const int64_t left = end - e->n_steps;
    pkv__sim_ring_set(&e->events, r, grown < left ? e->n_steps + grown : end);
}

static pkv_status make_room_for(pkv__sim_engine *e, const pkv__sim_batch *batch)
{
    for (int32_t k = 0; k < batch->n; k++) {
        const int64_t r = batch->r[k];
        if (!pkv__engine_is_running(e, r) || e->req[r].stalled) continue;
        const pkv_status status = pkv__engine_make_room(e, r);
        if (status != PKV_OK) return status;
        if (pkv__engine_is_running(e, r)) plan_event(e, r);
    }
    return PKV_OK;
}

/* Must the next step be looked at by itself? */
static bool is_unsteady(const pkv__sim_engine *e, const pkv__sim_stretch *s)
{
    /* What was given up may let somebody in; stalled ones change with every step; who was kept out
     * by the tokens that prefill computes may come in when it is done. */
    return e->put_out || s->unlike || e->n_stalled > 0 ||
           (e->over_budget != PKV__NOBODY && e->prefill.n > 0);
}

/* Does somebody who arrives change anything before the next event? */
static bool heeds_arrivals(const pkv__sim_engine *e)
{
    if (pkv__engine_n_waiting(e) == 0) return true;
    return e->cfg->admit_skip && e->swapped.len == 0 && e->running.len < e->cfg->max_num_seqs &&
           !e->ops->closed(e->policy);
}

/* How many steps may be done at once, all inside or all outside the window. */
static int64_t leap_length(const pkv__sim_engine *e, pkv__sim_stretch s)
{
    if (is_unsteady(e, &s)) return 1;
    s.n = pkv__sim_ring_next(&e->events) - e->n_steps;
    const pkv__sim_account *acc = &e->account;
    if (acc->window == PKV_SIM_WINDOW_ARRIVALS && e->now_ns < acc->window_end_ns &&
        acc->window_end_ns != INT64_MAX) {
        const int64_t inside = pkv__sim_stretch_within(&s, acc->window_end_ns - e->now_ns);
        s.n = inside > 1 ? inside : 1;
    }
    const int64_t arrival_ns = pkv__engine_next_arrival_ns(e);
    if (arrival_ns == INT64_MAX || !heeds_arrivals(e)) return s.n;
    /* Up to the first step that ends at or after the next arrival. */
    const int64_t before = pkv__sim_stretch_within(&s, arrival_ns - e->now_ns - 1);
    return before < s.n ? before + 1 : s.n;
}

/* Few, and nearly in order already; shell sort keeps the worst case tame. */
static void sort_by_order(const pkv__sim_engine *e, int64_t *r, int32_t n)
{
    for (int32_t gap = n / 2; gap > 0; gap /= 2) {
        for (int32_t i = gap; i < n; i++) {
            const int64_t one = r[i];
            int32_t k = i;
            for (; k >= gap && e->req[r[k - gap]].order > e->req[one].order; k -= gap)
                r[k] = r[k - gap];
            r[k] = one;
        }
    }
}

/* Finish those whose output ends now; the others need room. In order of admission. */
static pkv_status collect_events(pkv__sim_engine *e)
{
    const int32_t n = pkv__sim_ring_take(&e->events, e->n_steps, e->due.r);
    sort_by_order(e, e->due.r, n);
    e->due.n = 0;
    for (int32_t k = 0; k < n; k++) {
        const int64_t r = e->due.r[k];
        if (!pkv__engine_is_done(e, r)) {
            e->due.r[e->due.n++] = r;
            continue;
        }
        const pkv_status status = pkv__engine_finish(e, r);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

pkv_status pkv__engine_leap(pkv__sim_engine *e)
{
    pkv_status status = make_room_for(e, &e->due);
    if (status != PKV_OK) return status;
    status = make_room_for(e, &e->fresh);
    if (status != PKV_OK) return status;
    pkv__sim_stretch s;
    status = pkv__engine_stretch(e, &s);
    if (status != PKV_OK) return status;
    s.n = leap_length(e, s);

    pkv__sim_sample first, last;
    status = pkv__engine_sample(e, &first);
    if (status != PKV_OK) return status;
    if (s.n > 1) status = pkv__engine_sample_later(e, s.n - 1, &last);
    if (status != PKV_OK) return status;
    status = pkv__engine_pass(e, &s, &first, s.n > 1 ? &last : &first);
    return status == PKV_OK ? collect_events(e) : status;
}
