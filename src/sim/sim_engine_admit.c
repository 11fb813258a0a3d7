/* Resuming and admitting. The swapped come first, and while one of them is out nobody is admitted.
 * First come, first served, unless admit_skip lets those who fit pass those who do not.
 *
 * A request that the policy refused is not offered again in the same epoch, that is before somebody
 * gave room back: the answer would be the same. */
#include "sim/sim_engine.h"

int64_t pkv__engine_chunk(const pkv__sim_engine *e, int64_t to_compute)
{
    const int64_t chunk = e->cfg->prefill_chunk;
    return chunk > 0 && chunk < to_compute ? chunk : to_compute;
}

/* ---------------------------------------------------------------- tokens of this step */

/* What the running ones compute in this step. */
static int64_t tokens_given(const pkv__sim_engine *e)
{
    int64_t sum = e->n_seqs * (e->running.len - e->prefill.n);
    for (int32_t k = 0; k < e->prefill.n; k++)
        sum += pkv__engine_chunk(e, e->req[e->prefill.r[k]].to_compute);
    return sum;
}

/* Of a request with u tokens of which `cached` are there: the rest, at least one. */
static int64_t tokens_to_compute(const pkv__sim_engine *e, int64_t r, int32_t cached)
{
    const int64_t all = e->reqs[r].prompt_tokens + e->n_seqs * e->req[r].generated;
    return all > cached ? all - cached : 1;
}

static bool is_over_budget(const pkv__sim_engine *e, int64_t r)
{
    if (e->cfg->max_batched_tokens == 0 || e->running.len == 0) return false;
    const int32_t cached = e->ops->probe(e->policy, r, pkv__engine_tokens_of(e, r));
    const int64_t more = pkv__engine_chunk(e, tokens_to_compute(e, r, cached));
    return e->tokens_given + more > e->cfg->max_batched_tokens;
}

static void give_tokens(pkv__sim_engine *e, int64_t r)
{
    const int64_t to_compute = e->req[r].to_compute;
    e->tokens_given += to_compute > 0 ? pkv__engine_chunk(e, to_compute) : e->n_seqs;
}

/* ---------------------------------------------------------------- one request */

static pkv_status check_policy(pkv__sim_engine *e)
{
    return e->cfg->check ? e->ops->check(e->policy) : PKV_OK;
}

static pkv_status note_start(pkv__sim_engine *e, int64_t r, pkv_sim_event_kind kind, int32_t cached)
{
    e->req[r].held = e->ops->held(e->policy, r);
    e->n_events++;
    give_tokens(e, r);
    if (pkv__watch_wants_events(&e->watch))
        pkv__watch_event(e, kind, r, pkv__engine_resident(e, r), cached);
    return check_policy(e);
}

/* All but `cached` of its tokens have to be computed. */
static void note_admission(pkv__sim_engine *e, int64_t r, int32_t cached)
{
    pkv__sim_req *q = &e->req[r];
    q->to_compute = tokens_to_compute(e, r, cached);
    q->stalled =
        e->reqs[r].output_tokens == 0 || q->to_compute > pkv__engine_chunk(e, q->to_compute);
    if (q->was_admitted) e->recomputed_tokens += q->to_compute;
    q->was_admitted = true;
    e->n_admissions++;
    e->account.started = true;
}

static pkv_status resume(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    const int32_t u = pkv__engine_tokens_of(e, r);
    bool lost = false;
    int32_t cached = 0;
    const pkv_status status = e->ops->resume(e->policy, r, u, e->running.len == 0, &lost, &cached);
    if (status == PKV_E_NO_BLOCKS) q->refused_epoch = e->epoch;
    if (status != PKV_OK) return status;
    if (lost) note_admission(e, r, cached);
    pkv__list_remove(e, &e->swapped, r);
    pkv__engine_start(e, r);
    return note_start(e, r, lost ? PKV_SIM_EVENT_ADMIT : PKV_SIM_EVENT_SWAP_IN, cached);
}

static pkv_status admit(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    const int32_t u = pkv__engine_tokens_of(e, r);
    int32_t cached = 0;
    const pkv_status status = e->ops->admit(e->policy, r, u, e->running.len == 0, &cached);
    if (status == PKV_E_NO_BLOCKS) q->refused_epoch = e->epoch;
    if (status != PKV_OK) return status;
    note_admission(e, r, cached);
    pkv__list_remove(e, &e->waiting, r);
    pkv__engine_start(e, r);
    return note_start(e, r, PKV_SIM_EVENT_ADMIT, cached);
}

/* ---------------------------------------------------------------- all */

static bool has_place(const pkv__sim_engine *e)
{
    return e->running.len < e->cfg->max_num_seqs;
}

static pkv_status resume_swapped(pkv__sim_engine *e)
{
    while (e->swapped.len > 0 && has_place(e)) {
        const int64_t r = e->swapped.head;
        if (e->req[r].refused_epoch == e->epoch) break;
        const pkv_status status = resume(e, r);
        if (status == PKV_E_NO_BLOCKS) break;
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

/* From the first one that has not been refused; whoever fits is admitted. */
static pkv_status admit_skipping(pkv__sim_engine *e)
{
    int64_t r = e->tried_epoch == e->epoch ? e->try_next : e->waiting.head;
    int64_t left = PKV__NOBODY; /* the first that has not been refused and is still there */
    while (r != PKV__NOBODY && has_place(e)) {
        const int64_t next = e->req[r].next;
        if (e->req[r].refused_epoch != e->epoch) {
            const bool waits = is_over_budget(e, r);
            const pkv_status status = waits ? PKV_OK : admit(e, r);
            if (status != PKV_OK && status != PKV_E_NO_BLOCKS) return status;
            if (waits && e->over_budget == PKV__NOBODY) e->over_budget = r;
            if (waits && left == PKV__NOBODY) left = r;
        }
        r = next;
    }
    e->try_next = left == PKV__NOBODY ? r : left;
    e->tried_epoch = e->epoch;
    return PKV_OK;
}

static pkv_status admit_in_order(pkv__sim_engine *e)
{
    while (e->waiting.len > 0 && has_place(e)) {
        const int64_t r = e->waiting.head;
        if (e->req[r].refused_epoch == e->epoch) break;
        if (is_over_budget(e, r)) {
            e->over_budget = r;
            break;
        }
        const pkv_status status = admit(e, r);
        if (status == PKV_E_NO_BLOCKS) break;
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

pkv_status pkv__engine_admit(pkv__sim_engine *e)
{
    e->fresh.n = 0;
    e->over_budget = PKV__NOBODY;
    if (pkv__engine_n_waiting(e) == 0) return PKV_OK;
    /* A beam may have given room back when it grew. */
    if (e->cfg->policy.group == PKV_SIM_GROUP_BEAM) e->epoch++;
    if (e->cfg->max_batched_tokens > 0) e->tokens_given = tokens_given(e);
    const pkv_status status = resume_swapped(e);
    if (status != PKV_OK || e->swapped.len > 0 || e->ops->closed(e->policy)) return status;
    return e->cfg->admit_skip ? admit_skipping(e) : admit_in_order(e);
}
