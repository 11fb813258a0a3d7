/* The report as JSON. Shares are fractions of the pool, times are in the unit of their name; what
 * was not measured is null. */
#include "fragsim.h"

#include <jansson.h>
#include <string.h>

#define SCHEMA_VERSION 1
#define DIGITS 15

static void put(json_t *to, const char *key, json_t *value)
{
    json_object_set_new(to, key, value);
}

static json_t *or_null(bool measured, double value)
{
    return measured ? json_real(value) : json_null();
}

static json_t *dist_json(const pkv_sim_dist *d)
{
    json_t *o = json_object();
    put(o, "n", json_integer(d->n));
    put(o, "mean", or_null(d->n > 0, d->mean));
    put(o, "p50", or_null(d->n > 0, d->p50));
    put(o, "p90", or_null(d->n > 0, d->p90));
    put(o, "p99", or_null(d->n > 0, d->p99));
    put(o, "max", or_null(d->n > 0, d->max));
    return o;
}

static json_t *config_json(const fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    const pkv_sim_config *c = &opts->sim;
    json_t *o = json_object(), *step = json_object(), *policies = json_array();
    put(o, "kv_tokens", json_integer(c->pool_tokens));
    put(o, "max_model_len", json_integer(c->max_model_len));
    put(o, "max_num_seqs", json_integer(c->max_num_seqs));
    put(o, "watermark", json_real((double)c->watermark_ppm / 1e6));
    put(step, "base_ns", json_integer(c->step_base_ns));
    put(step, "per_batch_ns", json_integer(c->step_per_seq_ns));
    put(step, "per_token_ns", json_integer(c->step_per_token_ns));
    put(o, "step_time", step);
    put(o, "window", json_string(fragsim_window_name(rep->jobs[0].result.window)));
    put(o, "engine", json_string(fragsim_engine_name(c->engine)));
    put(o, "check", json_boolean(c->check));
    for (int k = 0; k < rep->n_jobs; k++)
        json_array_append_new(policies, json_string(rep->jobs[k].name));
    put(o, "policies", policies);
    return o;
}

static json_t *rows_json(const pkv_sim_trace *t)
{
    json_t *o = json_object(), *dropped = json_object();
    put(o, "format", json_string(t->format));
    put(o, "rows_read", json_integer(t->rows_read));
    put(o, "used", json_integer(t->n_reqs));
    for (int k = 0; k < PKV_SIM_DROP_COUNT; k++) {
        if (t->dropped[k] == 0) continue;
        json_t *one = json_object();
        put(one, "rows", json_integer(t->dropped[k]));
        put(one, "first_line", json_integer(t->first_line[k]));
        put(dropped, pkv_sim_drop_name((pkv_sim_drop)k), one);
    }
    put(o, "dropped", dropped);
    put(o, "backwards", json_integer(t->n_backwards));
    put(o, "bom", json_boolean(t->had_bom));
    put(o, "crlf", json_boolean(t->had_crlf));
    put(o, "last_row_unterminated", json_boolean(t->last_row_unterminated));
    return o;
}

/* What moved the arrivals, and the rate if there is one. */
static void put_arrivals(json_t *o, const fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    const char *how = "trace";
    int64_t rate_micro = 0;
    if (opts->all_at_once || opts->arrivals.rate_micro == 0) {
        how = "all_at_once";
    } else if (opts->target_rate_micro > 0) {
        how = "stretched";
        rate_micro = opts->target_rate_micro;
    } else if (opts->arrivals.rate_micro > 0 || rep->input->from_generator) {
        how = "poisson";
        rate_micro =
            opts->arrivals.rate_micro > 0 ? opts->arrivals.rate_micro : FRAGSIM_USUAL_RATE_MICRO;
    }
    put(o, "arrivals", json_string(how));
    put(o, "requests_per_s", or_null(rate_micro > 0, (double)rate_micro / 1e6));
    put(o, "seed",
        strcmp(how, "poisson") == 0 || rep->input->from_generator
            ? json_integer((json_int_t)opts->arrivals.seed)
            : json_null());
}

static json_t *input_json(const fragsim_report *rep)
{
    const fragsim_options *opts = rep->opts;
    json_t *o = json_object();
    if (rep->input->from_trace) {
        put(o, "trace", json_string(opts->trace_path));
        put(o, "rows", rows_json(&rep->input->trace));
        put(o, "strict", json_boolean(opts->trace.strict));
    } else {
        put(o, "lengths", json_string(opts->lengths_text ? opts->lengths_text : "sharegpt-like"));
    }
    put_arrivals(o, rep);
    return o;
}

static json_t *requests_json(const fragsim_report *rep)
{
    const fragsim_input *in = rep->input;
    json_t *o = json_object();
    put(o, "n", json_integer(in->n));
    put(o, "span_ns", json_integer(in->reqs[in->n - 1].arrival_ns - in->reqs[0].arrival_ns));
    put(o, "prompt_tokens", dist_json(&in->prompt));
    put(o, "output_tokens", dist_json(&in->output));
    return o;
}

static json_t *forms_json(const pkv_sim_forms *f)
{
    json_t *o = json_object(), *max = json_object();
    const bool any = f->n > 0;
    put(o, "n", json_integer(f->n));
    put(o, "output_bias", or_null(any, f->output_bias));
    put(o, "live_tokens", or_null(any, f->live_tokens));
    put(o, "live_final_tokens", or_null(any, f->live_final));
    put(o, "max_batch_buddy", json_integer(f->max_batch_buddy));
    put(o, "max_batch_ideal", json_integer(f->max_batch_ideal));
    put(max, "token", or_null(any, f->max_split.token));
    put(max, "reservation", or_null(any, f->max_split.reservation));
    put(max, "internal", or_null(any, f->max_split.internal));
    put(max, "external", or_null(any, f->max_split.external));
    put(o, "max_split", max);
    put(o, "oracle_ideal_batch", or_null(any, f->oracle_ideal_batch));
    put(o, "paged_batch", or_null(any, f->paged_batch));
    put(o, "paged_internal", or_null(any, f->paged_internal));
    return o;
}

static json_t *split_json(const pkv_sim_split *s)
{
    json_t *o = json_object(), *external = json_object();
    put(o, "token", json_real(s->token));
    put(o, "reservation", json_real(s->reservation));
    put(o, "internal", json_real(s->internal));
    put(o, "external", json_real(s->external));
    put(external, "rounding", json_real(s->rounding));
    put(external, "unusable", json_real(s->unusable));
    put(external, "short", json_real(s->shortage));
    put(external, "limited", json_real(s->limited));
    put(external, "idle", json_real(s->idle));
    put(o, "external_split", external);
    put(o, "of_which_watermark", json_real(s->watermark));
    put(o, "of_which_tail", json_real(s->tail));
    return o;
}

static json_t *policy_json(const char *name, const pkv_sim_result *r)
{
    json_t *o = json_object();
    const bool measured = r->window_ns > 0;
    put(o, "policy", json_string(name));
    put(o, "window_ns", json_integer(r->window_ns));
    put(o, "waited_ns", json_integer(r->waited_ns));
    put(o, "end_ns", json_integer(r->end_ns));
    put(o, "split", measured ? split_json(&r->split) : json_null());
    put(o, "mean_batch", or_null(measured, r->mean_batch));
    put(o, "max_batch", json_integer(r->max_batch));
    put(o, "max_queue", json_integer(r->max_queue));
    put(o, "steps", json_integer(r->n_steps));
    put(o, "requests", json_integer(r->n_requests));
    put(o, "finished", json_integer(r->n_finished));
    put(o, "too_long", json_integer(r->n_too_long));
    put(o, "admissions", json_integer(r->n_admissions));
    put(o, "preemptions", json_integer(r->n_preemptions));
    put(o, "preempted_requests", json_integer(r->n_preempted_requests));
    put(o, "generated_tokens", json_integer(r->generated_tokens));
    put(o, "recomputed_tokens", json_integer(r->recomputed_tokens));
    put(o, "e2e_s", dist_json(&r->e2e_s));
    put(o, "normalized_s_per_token", dist_json(&r->norm_s));
    put(o, "ttft_s", dist_json(&r->ttft_s));
    put(o, "tpot_s", dist_json(&r->tpot_s));
    return o;
}

char *fragsim_json(const fragsim_report *rep)
{
    json_t *o = json_object(), *policies = json_array(), *notes = json_array();
    put(o, "schema", json_string("pkv-fragsim/run"));
    put(o, "schema_version", json_integer(SCHEMA_VERSION));
    put(o, "version", json_string(pkv_version()));
    put(o, "repro_command", json_string(rep->opts->repro));
    put(o, "config", config_json(rep));
    put(o, "input", input_json(rep));
    put(o, "requests", requests_json(rep));
    put(o, "closed_forms", forms_json(&rep->forms));
    for (int k = 0; k < rep->n_jobs; k++)
        json_array_append_new(policies, policy_json(rep->jobs[k].name, &rep->jobs[k].result));
    put(o, "policies", policies);
    for (int k = 0; k < rep->n_notes; k++) json_array_append_new(notes, json_string(rep->notes[k]));
    put(o, "notes", notes);
    char *body = json_dumps(o, JSON_INDENT(2) | JSON_REAL_PRECISION(DIGITS));
    json_decref(o);
    return body;
}
