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

char *fragsim_json(const fragsim_report *rep)
{
    json_t *o = fragsim_json_head("pkv-fragsim/run", rep->opts), *policies = json_array();
    fragsim_json_put(o, "config", config_json(rep));
    fragsim_json_put(o, "input", fragsim_json_input(rep->opts, rep->input));
    fragsim_json_put(o, "requests", fragsim_json_requests(rep->input));
    fragsim_json_put(o, "closed_forms", fragsim_json_forms(&rep->forms));
    fragsim_json_put(o, "infinite_cache", fragsim_json_cache(rep));
    for (int k = 0; k < rep->n_jobs; k++)
        fragsim_json_append(policies, fragsim_json_policy(&rep->jobs[k]));
    fragsim_json_put(o, "policies", policies);
    fragsim_json_put(o, "notes", fragsim_json_notes(rep));
    return fragsim_json_text(o);
}
