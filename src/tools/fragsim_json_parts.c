/* Pieces of JSON. Shares are fractions of the pool, times are in the unit of their name; what was
 * not measured or not set is null. */
#include "fragsim_json_parts.h"

#include "fragsim_fields.h"

#include <stdlib.h>
#include <string.h>

/* Half a report must not be taken for a whole one. JSON is made before anything is written, so
 * nothing is left behind. */
static void need(int result)
{
    if (result == 0) return;
    fragsim_complain("out of memory for the JSON report");
    exit(FRAGSIM_ERROR);
}

void fragsim_json_put(json_t *to, const char *key, json_t *value)
{
    need(json_object_set_new(to, key, value));
}

void fragsim_json_append(json_t *to, json_t *value)
{
    need(json_array_append_new(to, value));
}

json_t *fragsim_json_real(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

json_t *fragsim_json_whole(bool known, int64_t value)
{
    return known ? json_integer(value) : json_null();
}

json_t *fragsim_json_string(const char *text)
{
    if (!text) return json_null();
    json_t *string = json_string(text);
    /* a file name may be any bytes; JSON is UTF-8 */
    return string ? string : json_string("?");
}

/* ---------------------------------------------------------------- fields */

static json_t *value_json(const fragsim_value *v)
{
    switch (v->kind) {
    case FRAGSIM_WHOLE:
        return json_integer(v->whole);
    case FRAGSIM_REAL:
        return json_real(v->real);
    case FRAGSIM_FLAG:
        return json_boolean(v->whole != 0);
    case FRAGSIM_TEXT:
        return json_string(v->text);
    case FRAGSIM_NULL:
        break;
    }
    return json_null();
}

/* The object that `group` names below root; made where it is not there yet. */
static json_t *group_of(json_t *root, const char *group)
{
    json_t *at = root;
    for (const char *name = group; *name != '\0';) {
        const size_t len = strcspn(name, ".");
        char key[64];
        snprintf(key, sizeof(key), "%.*s", (int)len, name);
        json_t *next = json_object_get(at, key);
        if (!next) {
            next = json_object();
            fragsim_json_put(at, key, next);
        }
        at = next;
        name += len;
        name += *name == '.';
    }
    return at;
}

static void put_field(void *ctx, const char *group, const char *name, const char *column,
                      const fragsim_value *value)
{
    (void)column;
    fragsim_json_put(group_of(ctx, group), name, value_json(value));
}

static json_t *section_json(const fragsim_job *job, fragsim_section section)
{
    json_t *o = json_object();
    fragsim_fields(job, section, put_field, o);
    return o;
}

json_t *fragsim_json_config(const fragsim_job *job)
{
    return section_json(job, FRAGSIM_CONFIG);
}

json_t *fragsim_json_policy(const fragsim_job *job)
{
    json_t *o = section_json(job, FRAGSIM_RESULT);
    if (job->result.window_ns == 0) fragsim_json_put(o, "split", json_null());
    return o;
}

/* ---------------------------------------------------------------- where requests come from */

static json_t *dist_json(const pkv_sim_dist *d)
{
    json_t *o = json_object();
    const bool any = d->n > 0;
    fragsim_json_put(o, "n", json_integer(d->n));
    fragsim_json_put(o, "mean", fragsim_json_real(any, d->mean));
    fragsim_json_put(o, "p50", fragsim_json_real(any, d->p50));
    fragsim_json_put(o, "p90", fragsim_json_real(any, d->p90));
    fragsim_json_put(o, "p99", fragsim_json_real(any, d->p99));
    fragsim_json_put(o, "max", fragsim_json_real(any, d->max));
    return o;
}

json_t *fragsim_json_model(const fragsim_options *opts)
{
    const fragsim_model *m = &opts->model;
    if (m->layers <= 0) return json_null();
    json_t *o = json_object();
    fragsim_json_put(o, "name", fragsim_json_string(m->name));
    fragsim_json_put(o, "layers", json_integer(m->layers));
    fragsim_json_put(o, "kv_heads", json_integer(m->kv_heads));
    fragsim_json_put(o, "head_dim", json_integer(m->head_dim));
    fragsim_json_put(o, "kv_dtype_bits", json_integer(m->dtype_bits));
    fragsim_json_put(o, "tensor_parallel", json_integer(m->tensor_parallel));
    return o;
}

static json_t *rows_json(const pkv_sim_trace *t)
{
    json_t *o = json_object(), *dropped = json_object();
    fragsim_json_put(o, "format", json_string(t->format));
    fragsim_json_put(o, "has_times", json_boolean(t->has_times));
    fragsim_json_put(o, "has_history", json_boolean(t->has_history));
    fragsim_json_put(o, "time_unit_ns", fragsim_json_whole(t->time_unit_ns > 0, t->time_unit_ns));
    fragsim_json_put(o, "bytes_read", json_integer(t->bytes_read));
    fragsim_json_put(o, "rows_read", json_integer(t->rows_read));
    fragsim_json_put(o, "used", json_integer(t->n_reqs));
    for (int k = 0; k < PKV_SIM_DROP_COUNT; k++) {
        if (t->dropped[k] == 0) continue;
        json_t *one = json_object();
        fragsim_json_put(one, "rows", json_integer(t->dropped[k]));
        fragsim_json_put(one, "first_line", json_integer(t->first_line[k]));
        fragsim_json_put(dropped, pkv_sim_drop_name((pkv_sim_drop)k), one);
    }
    fragsim_json_put(o, "dropped", dropped);
    fragsim_json_put(o, "backwards", json_integer(t->n_backwards));
    fragsim_json_put(o, "first_backwards_line",
                     fragsim_json_whole(t->n_backwards > 0, t->first_backwards_line));
    fragsim_json_put(o, "equal_times", json_integer(t->n_equal_times));
    fragsim_json_put(o, "bom", json_boolean(t->had_bom));
    fragsim_json_put(o, "crlf", json_boolean(t->had_crlf));
    fragsim_json_put(o, "last_row_unterminated", json_boolean(t->last_row_unterminated));
    return o;
}

static const char *filter_name(pkv_sim_filter filter)
{
    static const char *const names[] = { "none", "vllm", "artifact", "sglang", "burstgpt-gpt4" };
    return (size_t)filter < sizeof(names) / sizeof(names[0]) ? names[filter] : "?";
}

static void put_trace(json_t *o, const fragsim_options *opts, const pkv_sim_trace *trace)
{
    const pkv_sim_trace_config *t = &opts->trace;
    fragsim_json_put(o, "trace", fragsim_json_string(opts->trace_path));
    fragsim_json_put(o, "rows", rows_json(trace));
    fragsim_json_put(o, "strict", json_boolean(t->strict));
    fragsim_json_put(o, "keep_zero_output", json_boolean(t->keep_zero_output));
    fragsim_json_put(o, "filter", json_string(filter_name(t->filter)));
    fragsim_json_put(o, "in_column", fragsim_json_string(t->in_column));
    fragsim_json_put(o, "out_column", fragsim_json_string(t->out_column));
    fragsim_json_put(o, "time_column", fragsim_json_string(t->time_column));
    fragsim_json_put(o, "max_requests", fragsim_json_whole(t->max_requests > 0, t->max_requests));
    fragsim_json_put(o, "start_ns", json_integer(t->start_ns));
    fragsim_json_put(o, "duration_ns", fragsim_json_whole(t->duration_ns > 0, t->duration_ns));
}

static const char *arrival_name(pkv_sim_arrival kind)
{
    static const char *const names[] = { "poisson", "gamma", "constant", "burst", "artifact" };
    return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

/* What moved the arrivals, the rate if there is one, and the seed if anything was drawn. */
static void put_arrivals(json_t *o, const fragsim_options *opts)
{
    const pkv_sim_arrival_config *a = &opts->arrivals;
    const char *how = "trace";
    int64_t rate_micro = 0;
    bool drawn = false;
    if (opts->sim.concurrency > 0) {
        how = "closed_loop";
    } else if (opts->all_at_once || a->rate_micro == 0) {
        how = "all_at_once";
    } else if (opts->target_rate_micro > 0) {
        how = "stretched";
        rate_micro = opts->target_rate_micro;
    } else if (a->rate_micro > 0 || !opts->trace_path) {
        how = arrival_name(a->kind);
        rate_micro = a->rate_micro > 0 ? a->rate_micro : FRAGSIM_USUAL_RATE_MICRO;
        drawn = true;
    }
    fragsim_json_put(o, "arrivals", json_string(how));
    fragsim_json_put(o, "requests_per_s",
                     fragsim_json_real(rate_micro > 0, (double)rate_micro / 1e6));
    fragsim_json_put(o, "burstiness",
                     fragsim_json_real(drawn && a->kind == PKV_SIM_ARRIVAL_GAMMA,
                                       (double)a->burstiness_micro / 1e6));
    fragsim_json_put(o, "burst_size",
                     fragsim_json_whole(drawn && a->kind == PKV_SIM_ARRIVAL_BURST, a->burst_size));
    fragsim_json_put(
        o, "time_scale",
        fragsim_json_real(opts->time_scale_micro > 0, (double)opts->time_scale_micro / 1e6));
    fragsim_json_put(o, "seed",
                     fragsim_json_whole(drawn || (!opts->trace_path && !opts->lengths_in_order),
                                        (int64_t)a->seed));
}

static json_t *content_json(const fragsim_options *opts, const pkv_sim_content *c)
{
    if (!c->ids) return json_null();
    json_t *o = json_object();
    fragsim_json_put(o, "block_tokens", json_integer(c->block_tokens));
    fragsim_json_put(o, "distinct", json_integer(c->n_distinct));
    fragsim_json_put(o, "shared_prefix_tokens",
                     fragsim_json_whole(opts->shared_prefix > 0, opts->shared_prefix));
    return o;
}

json_t *fragsim_json_input(const fragsim_options *opts, const fragsim_input *input)
{
    json_t *o = json_object();
    if (input->from_trace) put_trace(o, opts, &input->trace);
    if (!opts->trace_path) {
        const char *usual = opts->lengths_path ? NULL : "sharegpt-like";
        fragsim_json_put(o, "lengths",
                         fragsim_json_string(opts->lengths_text ? opts->lengths_text : usual));
        fragsim_json_put(o, "lengths_file", fragsim_json_string(opts->lengths_path));
        fragsim_json_put(o, "in_order", json_boolean(opts->lengths_in_order));
    }
    fragsim_json_put(o, "num_prompts",
                     fragsim_json_whole(opts->num_prompts >= 0, opts->num_prompts));
    fragsim_json_put(o, "repeat", json_boolean(opts->repeat));
    if ((opts->command & (FRAGSIM_RUN | FRAGSIM_SWEEP)) != 0) put_arrivals(o, opts);
    else
        fragsim_json_put(o, "seed",
                         fragsim_json_whole(!opts->trace_path, (int64_t)opts->arrivals.seed));
    fragsim_json_put(o, "content", content_json(opts, &input->content));
    return o;
}

json_t *fragsim_json_requests(const fragsim_input *in)
{
    json_t *o = json_object();
    fragsim_json_put(o, "n", json_integer(in->n));
    fragsim_json_put(o, "span_ns",
                     json_integer(in->reqs[in->n - 1].arrival_ns - in->reqs[0].arrival_ns));
    fragsim_json_put(o, "prompt_tokens", dist_json(&in->prompt));
    fragsim_json_put(o, "output_tokens", dist_json(&in->output));
    return o;
}

json_t *fragsim_json_forms(const pkv_sim_forms *f)
{
    json_t *o = json_object(), *max = json_object();
    const bool any = f->n > 0;
    fragsim_json_put(o, "n", json_integer(f->n));
    fragsim_json_put(o, "mean_prompt_tokens", fragsim_json_real(any, f->mean_prompt));
    fragsim_json_put(o, "mean_output_tokens", fragsim_json_real(any, f->mean_output));
    fragsim_json_put(o, "output_bias", fragsim_json_real(any, f->output_bias));
    fragsim_json_put(o, "live_tokens", fragsim_json_real(any, f->live_tokens));
    fragsim_json_put(o, "live_final_tokens", fragsim_json_real(any, f->live_final));
    fragsim_json_put(o, "max_batch_buddy", json_integer(f->max_batch_buddy));
    fragsim_json_put(o, "max_batch_ideal", json_integer(f->max_batch_ideal));
    fragsim_json_put(max, "token", fragsim_json_real(any, f->max_split.token));
    fragsim_json_put(max, "reservation", fragsim_json_real(any, f->max_split.reservation));
    fragsim_json_put(max, "internal", fragsim_json_real(any, f->max_split.internal));
    fragsim_json_put(max, "external", fragsim_json_real(any, f->max_split.external));
    fragsim_json_put(o, "max_split", max);
    fragsim_json_put(o, "oracle_ideal_batch", fragsim_json_real(any, f->oracle_ideal_batch));
    fragsim_json_put(o, "block_tokens", fragsim_json_whole(any, f->block_tokens));
    fragsim_json_put(o, "sequences", fragsim_json_whole(any, f->n_seqs));
    fragsim_json_put(o, "paged_batch", fragsim_json_real(any, f->paged_batch));
    fragsim_json_put(o, "paged_internal", fragsim_json_real(any, f->paged_internal));
    fragsim_json_put(o, "fork_saving", fragsim_json_real(any, f->fork_saving));
    return o;
}

/* ---------------------------------------------------------------- around it */

json_t *fragsim_json_head(const char *schema, const fragsim_options *opts)
{
    json_t *o = json_object();
    fragsim_json_put(o, "schema", json_string(schema));
    fragsim_json_put(o, "schema_version", json_integer(FRAGSIM_SCHEMA_VERSION));
    fragsim_json_put(o, "version", json_string(pkv_version()));
    fragsim_json_put(o, "repro_command", fragsim_json_string(opts->repro));
    return o;
}

json_t *fragsim_json_cache(const fragsim_report *rep)
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

json_t *fragsim_json_notes(const fragsim_report *rep)
{
    json_t *notes = json_array();
    for (int k = 0; k < rep->n_notes; k++)
        fragsim_json_append(notes, fragsim_json_string(rep->notes[k]));
    return notes;
}

char *fragsim_json_text(json_t *root)
{
    char *body = json_dumps(root, JSON_INDENT(2) | JSON_REAL_PRECISION(FRAGSIM_DIGITS));
    json_decref(root);
    if (!body) return NULL;
    const size_t len = strlen(body);
    char *text = realloc(body, len + 2);
    if (!text) free(body);
    else memcpy(text + len, "\n", 2);
    return text;
}
