/* One step or leap: how long it lasts, where the pool is meanwhile, what is different after it. */
#include "sim/sim_engine.h"

#define NS_PER_S INT64_C(1000000000)
#define PPM INT64_C(1000000)

/* ---------------------------------------------------------------- its length */

static pkv__i128 prefill_ns(const pkv__sim_engine *e)
{
    const int64_t rate = e->cfg->prefill_tokens_per_s;
    if (rate == 0) return 0;
    pkv__i128 tokens = 0;
    for (int32_t k = 0; k < e->prefill.n; k++) {
        const int64_t r = e->prefill.r[k];
        if (pkv__engine_is_running(e, r)) tokens += pkv__engine_chunk(e, e->req[r].to_compute);
    }
    return (tokens * NS_PER_S + rate - 1) / rate;
}

pkv_status pkv__engine_stretch(pkv__sim_engine *e, pkv__sim_stretch *s)
{
    const pkv_sim_config *cfg = e->cfg;
    pkv__sim_costs costs;
    e->ops->take_costs(e->policy, &costs);
    if (costs.moved_tokens > 0 && pkv__watch_wants_events(&e->watch))
        pkv__watch_event(e, PKV_SIM_EVENT_MOVE, PKV__NOBODY, costs.moved_tokens, 0);
    const int64_t n_seqs = e->n_seqs * e->running.len;
    const pkv__i128 prefill = prefill_ns(e);
    const pkv__i128 ns = (pkv__i128)cfg->step_per_token_ns * e->tokens +
                         (pkv__i128)cfg->step_per_seq_ns * n_seqs + cfg->step_base_ns + costs.ns +
                         prefill;
    if (ns > PKV__LATEST_NS - e->now_ns)
        return pkv__refuse(&cfg->log, PKV_E_LIMIT, "the run lasts longer than 2^62 ns");
    e->move_ns += costs.ns;
    e->prefill_ns += (int64_t)prefill;
    *s = (pkv__sim_stretch){
        .n = 1,
        .first_ns = (int64_t)ns,
        .slope_ns = cfg->step_per_token_ns * n_seqs,
        .queued = e->queued,
        .waited = pkv__engine_n_waiting(e) > 0,
        .unlike = costs.ns + prefill > 0,
    };
    return PKV_OK;
}

/* ---------------------------------------------------------------- the pool meanwhile */

/* Free units are of one kind at a time: what keeps the first in line out? */
static pkv__sim_part kind_of_free(const pkv__sim_engine *e, int64_t n_free)
{
    if (pkv__engine_n_waiting(e) == 0) return PKV__PART_IDLE;
    const int64_t r = pkv__engine_first_in_line(e);
    const bool limited =
        e->running.len >= e->cfg->max_num_seqs || e->ops->closed(e->policy) || e->over_budget == r;
    if (!limited && !e->has_places) return PKV__PART_SHORTAGE;
    const int64_t need = e->ops->need(e->policy, r, pkv__engine_tokens_of(e, r));
    if (need > n_free) return PKV__PART_SHORTAGE;
    return limited ? PKV__PART_LIMITED : PKV__PART_UNUSABLE;
}

static pkv_status check_sample(const pkv__sim_engine *e, const pkv__sim_sample *sample,
                               int64_t n_free)
{
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

/* The longest free run is not cheap, and stays while nobody takes or gives room. */
static void look_at_places(pkv__sim_engine *e)
{
    if (!e->has_places) {
        e->largest_free = e->n_free;
        return;
    }
    if (e->n_events == e->n_events_seen) return;
    e->n_events_seen = e->n_events;
    e->largest_free = e->ops->largest_free(e->policy);
    const pkv__i128 scattered = e->n_free - e->largest_free;
    e->scatter_ppm = e->n_free == 0 ? 0 : (int64_t)(scattered * PPM / e->n_free);
}

pkv_status pkv__engine_sample(pkv__sim_engine *e, pkv__sim_sample *sample)
{
    e->ops->usage(e->policy, e->tokens, sample, &e->n_free);
    e->kind_of_free = kind_of_free(e, e->n_free);
    look_at_places(e);
    sample->part[e->kind_of_free] = e->n_free;
    sample->part[PKV__PART_BATCH] = e->running.len;
    sample->part[PKV__PART_SCATTER_PPM] = e->scatter_ppm;
    if (e->running.len > e->max_batch) e->max_batch = e->running.len;
    return check_sample(e, sample, e->n_free);
}

pkv_status pkv__engine_sample_later(const pkv__sim_engine *e, int64_t n, pkv__sim_sample *sample)
{
    int64_t n_free;
    const int64_t more = n * e->n_seqs * (e->running.len - e->n_stalled);
    e->ops->usage(e->policy, e->tokens + more, sample, &n_free);
    sample->part[e->kind_of_free] = n_free;
    sample->part[PKV__PART_BATCH] = e->running.len;
    sample->part[PKV__PART_SCATTER_PPM] = e->scatter_ppm;
    return check_sample(e, sample, n_free);
}

/* ---------------------------------------------------------------- its end */

/* Who is through with its prompt has its first token at the end of the step; who is through with
 * all but the last chunk generates in the next one. */
static void advance_prefill(pkv__sim_engine *e, int64_t first_end_ns)
{
    int32_t n_left = 0;
    for (int32_t k = 0; k < e->prefill.n; k++) {
        const int64_t r = e->prefill.r[k];
        pkv__sim_req *q = &e->req[r];
        if (q->state != PKV__REQ_RUNNING) continue; /* put out for room */
        q->to_compute -= pkv__engine_chunk(e, q->to_compute);
        if (q->to_compute > 0) e->prefill.r[n_left++] = r;
        else if (q->first_token_ns < 0) q->first_token_ns = first_end_ns;
        if (!q->stalled) continue;
        q->step_zero++;
        const bool no_output = e->reqs[r].output_tokens == 0;
        if (pkv__engine_chunk(e, q->to_compute) < q->to_compute) continue;
        if (no_output && q->to_compute > 0) continue;
        if (!no_output) {
            q->stalled = false;
            e->n_stalled--;
        }
        if (e->cfg->engine == PKV_SIM_LEAP) pkv__sim_ring_set(&e->events, r, e->n_steps);
    }
    e->prefill.n = n_left;
}

pkv_status pkv__engine_pass(pkv__sim_engine *e, const pkv__sim_stretch *s,
                            const pkv__sim_sample *first, const pkv__sim_sample *last)
{
    const pkv__i128 ns = pkv__sim_stretch_ns(s);
    if (ns > PKV__LATEST_NS - e->now_ns)
        return pkv__refuse(&e->cfg->log, PKV_E_LIMIT, "the run lasts longer than 2^62 ns");
    const int64_t end_ns = e->now_ns + (int64_t)ns, first_end_ns = e->now_ns + s->first_ns;
    pkv__sim_account_add(&e->account, s, e->now_ns, first, last);
    pkv__watch_samples(e, s, first, last);
    pkv__engine_take_in(e, end_ns, s);
    e->now_ns = end_ns;
    e->n_steps += s->n;
    e->tokens += s->n * e->n_seqs * (e->running.len - e->n_stalled);
    advance_prefill(e, first_end_ns);
    return PKV_OK;
}
