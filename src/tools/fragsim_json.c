/* The report of a run as JSON; docs/fragsim.schema.json describes it. */
#include "fragsim_json_parts.h"

static json_t *config_json(const fragsim_report *rep)
{
    json_t *o = fragsim_json_config(&rep->jobs[0]), *policies = json_array();
    fragsim_json_put(o, "window", json_string(fragsim_window_name(rep->jobs[0].result.window)));
    fragsim_json_put(o, "model", fragsim_json_model(rep->opts));
    for (int k = 0; k < rep->n_jobs; k++)
        fragsim_json_append(policies, json_string(rep->jobs[k].name));
    fragsim_json_put(o, "policies", policies);
    return o;
}

static json_t *cache_json(const fragsim_report *rep)
{
    const pkv_sim_cache_forms *c = &rep->cache;
    if (c->struct_size == 0) return json_null();
    json_t *o = json_object();
    const bool any = c->prompt_tokens > 0;
    const double prompts = any ? (double)c->prompt_tokens : 1;
    fragsim_json_put(o, "block_tokens", json_integer(rep->cache_block_tokens));
    fragsim_json_put(o, "prompt_tokens", json_integer(c->prompt_tokens));
    fragsim_json_put(o, "ids", json_integer(c->ids));
    fragsim_json_put(o, "found_ids", json_integer(c->found_ids));
    fragsim_json_put(o, "found_tokens", json_integer(c->found_tokens));
    fragsim_json_put(o, "found_block_tokens", json_integer(c->found_block_tokens));
    fragsim_json_put(o, "below_block_tokens", json_integer(c->below_block));
    fragsim_json_put(o, "hit_rate", fragsim_json_real(any, (double)c->found_tokens / prompts));
    fragsim_json_put(o, "block_hit_rate",
                     fragsim_json_real(any, (double)c->found_block_tokens / prompts));
    fragsim_json_put(o, "mean_rate", fragsim_json_real(any, c->mean_rate));
    return o;
}

char *fragsim_json(const fragsim_report *rep)
{
    json_t *o = fragsim_json_head("pkv-fragsim/run", rep->opts), *policies = json_array();
    fragsim_json_put(o, "config", config_json(rep));
    fragsim_json_put(o, "input", fragsim_json_input(rep->opts, rep->input));
    fragsim_json_put(o, "requests", fragsim_json_requests(rep->input));
    fragsim_json_put(o, "closed_forms", fragsim_json_forms(&rep->forms));
    fragsim_json_put(o, "infinite_cache", cache_json(rep));
    for (int k = 0; k < rep->n_jobs; k++)
        fragsim_json_append(policies, fragsim_json_policy(&rep->jobs[k]));
    fragsim_json_put(o, "policies", policies);
    fragsim_json_put(o, "notes", fragsim_json_notes(rep));
    return fragsim_json_text(o);
}
