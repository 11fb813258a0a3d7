/* The definition: one step at a time, one request at a time. */
#include "sim/engine.h"

/* Sum up what each running request holds and compare with what the policy says of all. */
static pkv_status sample_by_request(pkv__sim_engine *e, pkv__sim_sample *sample)
{
    pkv__sim_sample sum = { 0 };
    for (int64_t r = e->head; r >= 0; r = e->req[r].next)
        e->ops->usage_of(e->policy, r, pkv__engine_resident(e, r), &sum);
    const pkv_status status = pkv__engine_sample(e, e->tokens, sample);
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

pkv_status pkv__engine_step(pkv__sim_engine *e)
{
    for (int64_t r = e->head; r >= 0; r = e->req[r].next) {
        const pkv_status status = pkv__engine_make_room(e, r);
        if (status != PKV_OK) return status;
        if (e->req[r].state != PKV__REQ_RUNNING) break; /* it was the last one */
    }
    pkv__sim_sample sample;
    pkv_status status = sample_by_request(e, &sample);
    if (status != PKV_OK) return status;
    const pkv_sim_config *cfg = e->cfg;
    const pkv__sim_stretch step = {
        .n = 1,
        .first_ns = cfg->step_base_ns + cfg->step_per_seq_ns * e->n_running +
                    cfg->step_per_token_ns * sample.part[PKV__PART_TOKEN],
        .queued = e->queued,
        .waited = pkv__engine_n_waiting(e) > 0,
    };
    pkv__engine_note_first_tokens(e, step.first_ns);
    status = pkv__engine_pass(e, &step, &sample, &sample);
    if (status != PKV_OK) return status;

    e->n_steps++;
    e->tokens += e->n_running;
    for (int64_t r = e->head, next; r >= 0; r = next) {
        next = e->req[r].next;
        if (e->n_steps - e->req[r].step_zero < e->reqs[r].output_tokens) continue;
        status = pkv__engine_finish(e, r);
        if (status != PKV_OK) return status;
    }
    return PKV_OK;
}
