/* The definition: one step at a time, one request at a time. */
#include "sim/sim_engine.h"

/* Sum up what each running request holds and compare with what the policy says of all. On the way,
 * *may_end: somebody may be done after this step. */
static pkv_status sample_by_request(pkv__sim_engine *e, pkv__sim_sample *sample, bool *may_end)
{
    pkv__sim_sample sum = { 0 };
    *may_end = false;
    for (int64_t r = e->running.head; r != PKV__NOBODY; r = e->req[r].next) {
        const int32_t u = pkv__engine_resident(e, r), i = e->reqs[r].prompt_tokens;
        e->ops->usage_of(e->policy, r, u, &sum);
        *may_end |= u + 1 - i >= e->reqs[r].output_tokens;
    }
    const pkv_status status = pkv__engine_sample(e, sample);
    if (status != PKV_OK) return status;
    static const pkv__sim_part parts[] = { PKV__PART_LOGICAL, PKV__PART_RESERVATION,
                                           PKV__PART_INTERNAL, PKV__PART_ROUNDING };
    sum.part[PKV__PART_INTERNAL] += sample->part[PKV__PART_DEAD];
    for (size_t k = 0; k < PKV_ARRAY_LEN(parts); k++) {
        const pkv__sim_part p = parts[k];
        if (sum.part[p] != sample->part[p])
            return pkv__refuse(&e->cfg->log, PKV_E_CORRUPT,
                               "step %lld: part %d is %lld summed by request, %lld in all",
                               (long long)e->n_steps, (int)p, (long long)sum.part[p],
                               (long long)sample->part[p]);
    }
    return PKV_OK;
}

/* The first running request behind `order`: where to go on when one was put out itself. */
static int64_t first_behind(const pkv__sim_engine *e, int64_t order)
{
    int64_t r = e->running.head;
    while (r != PKV__NOBODY && e->req[r].order <= order) r = e->req[r].next;
    return r;
}

static pkv_status make_room_for_all(pkv__sim_engine *e)
{
    for (int64_t r = e->running.head; r != PKV__NOBODY;) {
        const int64_t order = e->req[r].order;
        if (!e->req[r].stalled) {
            const pkv_status status = pkv__engine_make_room(e, r);
            if (status != PKV_OK) return status;
        }
        r = pkv__engine_is_running(e, r) ? e->req[r].next : first_behind(e, order);
    }
    return PKV_OK;
}

static pkv_status finish_all(pkv__sim_engine *e)
{
    for (int64_t r = e->running.head, next; r != PKV__NOBODY; r = next) {
        next = e->req[r].next;
        if (!pkv__engine_is_done(e, r)) continue;
        const pkv_status status = pkv__engine_finish(e, r);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}

pkv_status pkv__engine_step(pkv__sim_engine *e)
{
    pkv_status status = make_room_for_all(e);
    if (status != PKV_OK) return status;
    pkv__sim_stretch step;
    status = pkv__engine_stretch(e, &step);
    if (status != PKV_OK) return status;
    pkv__sim_sample sample;
    bool may_end;
    status = sample_by_request(e, &sample, &may_end);
    if (status != PKV_OK) return status;
    status = pkv__engine_pass(e, &step, &sample, &sample);
    return status == PKV_OK && may_end ? finish_all(e) : status;
}
