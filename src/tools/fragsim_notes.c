/* What a run has to be read with: said below its tables and in its JSON. */
#include "fragsim_table.h"

static bool is_buddy_max(const pkv_sim_policy *p)
{
    return (p->kind == PKV_SIM_MAX || p->kind == PKV_SIM_STATIC_BATCH) &&
           p->addr == PKV_SIM_ADDR_BUDDY;
}

/* A buddy chunk for max_model_len that wastes more than a fifth. */
static void note_rounding(fragsim_report *rep)
{
    int64_t chunk = 1;
    const int64_t limit = rep->opts->sim.max_model_len;
    while (chunk < limit) chunk *= 2;
    if (5 * chunk <= 6 * limit) return;
    for (int k = 0; k < rep->n_jobs; k++) {
        if (!is_buddy_max(&rep->jobs[k].cfg.policy)) continue;
        const char *name = rep->jobs[k].name;
        fragsim_note(rep,
                     "%s: a buddy chunk for --max-model-len %lld has %lld slots, %.2f times "
                     "as many; %s:alloc=ideal does not round",
                     name, (long long)limit, (long long)chunk, (double)chunk / (double)limit, name);
        return;
    }
}

static void note_too_long(fragsim_report *rep)
{
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        if (r->n_too_long == 0) continue;
        fragsim_note(rep,
                     "%s: %lld of %lld requests are too long and were rejected, the first is "
                     "number %lld",
                     rep->jobs[k].name, (long long)r->n_too_long, (long long)r->n_requests,
                     (long long)r->first_too_long + 1);
    }
}

/* Heads of some traces run at a hundredth of the steady rate. */
static void note_no_pressure(fragsim_report *rep)
{
    double rates[FRAGSIM_TENTHS];
    int64_t n_finished = 0;
    for (int k = 0; k < rep->n_jobs; k++) {
        if (rep->jobs[k].result.waited_ns > 0) return;
        n_finished += rep->jobs[k].result.n_finished;
    }
    if (n_finished == 0) return; /* nobody ran at all */
    fragsim_note(rep, "no pressure: policies tie in batch and latency, because nobody waits in the "
                      "window; a smaller pool or a higher rate shows differences");
    if (!rep->opts->trace_path || !fragsim_profile(rep->input, rates)) return;
    int least = 0, most = 0;
    for (int k = 1; k < FRAGSIM_TENTHS; k++) {
        if (rates[k] < rates[least]) least = k;
        if (rates[k] > rates[most]) most = k;
    }
    fragsim_note(rep,
                 "requests per second by tenths of the span: first %.4g, slowest %.4g (tenth %d), "
                 "busiest %.4g (tenth %d), last %.4g",
                 rates[0], rates[least], least + 1, rates[most], most + 1,
                 rates[FRAGSIM_TENTHS - 1]);
}

/* 0 % has to explain itself. */
static void note_sharing(fragsim_report *rep)
{
    const pkv_sim_cache_forms *c = &rep->cache;
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_policy *p = &rep->jobs[k].cfg.policy;
        if (!p->prefix) continue;
        if (c->struct_size == 0)
            fragsim_note(rep,
                         "%s: nothing is known of what the prompts say, so none share; a trace "
                         "with content ids or --shared-prefix N would tell",
                         rep->jobs[k].name);
        else if (100 * c->below_block >= c->found_tokens && c->below_block > 0)
            fragsim_note(
                rep,
                "%lld of %lld shareable prompt tokens are below a block of %d and not found; "
                "smaller blocks would find more of them",
                (long long)c->below_block, (long long)c->found_tokens, rep->cache_block_tokens);
        return;
    }
}

void fragsim_note_results(fragsim_report *rep)
{
    if (rep->input->trace.has_history)
        fragsim_note(rep, "inputs include history: the prompt of a later turn contains the turns "
                          "before it");
    note_rounding(rep);
    note_too_long(rep);
    note_sharing(rep);
    note_no_pressure(rep);
}
