/* Answers as JSON: docs/generate.schema.json says what is in them. Keys are added in the order in
 * which they are printed. */
#include "generate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Figures of f32 and times are exact with so many digits; an id may be any number. */
#define FORMAT JSON_REAL_PRECISION(9)
#define EXACT JSON_REAL_PRECISION(17)

/* What is not finite has no number in JSON. */
static json_t *number(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *text_of(const char *text, size_t n)
{
    json_t *string = json_stringn(text ? text : "", n);
    return string ? string : json_null(); /* a prompt that is not UTF-8 */
}

static json_t *alternatives(const pkv_logprob *top, int32_t n)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < n; k++)
        json_array_append_new(
            list, json_pack("{s:i, s:o}", "id", top[k].id, "logprob", number(top[k].logprob)));
    return list;
}

static json_t *ids_of(const generate_sample *s)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < s->n_tokens; k++)
        json_array_append_new(list, json_integer(s->tokens[k].id));
    return list;
}

static json_t *logprobs_of(const generate_sample *s)
{
    json_t *list = json_array();
    for (int32_t k = 0; k < s->n_tokens; k++) {
        const generate_token *t = &s->tokens[k];
        json_array_append_new(list,
                              json_pack("{s:i, s:o, s:o}", "id", t->id, "logprob",
                                        number(t->logprob), "top", alternatives(t->top, t->n_top)));
    }
    return list;
}

static json_t *finish_of(pkv_finish finish)
{
    return finish == PKV_FINISH_NONE ? json_null() : json_string(pkv_finish_name(finish));
}

static json_t *sample_of(const generate_run *run, const generate_request *r, int32_t k)
{
    const generate_sample *s = &r->answer.samples[k];
    const bool wants_logprobs = r->req.sampling.n_logprobs >= 0;
    return json_pack("{s:i, s:o, s:o, s:o, s:o, s:o}", "sample", k, "text",
                     run->tok ? text_of(s->text, s->n_text) : json_null(), "ids", ids_of(s),
                     "finish", finish_of(s->finish), "score", number(s->score), "logprobs",
                     wants_logprobs ? logprobs_of(s) : json_null());
}

static double ms_between(uint64_t from, uint64_t to)
{
    return from == 0 || to < from ? NAN : (double)(to - from) / 1e6;
}

static json_t *error_of(const generate_answer *a)
{
    if (a->refused == PKV_OK) return json_null();
    return json_pack("{s:s, s:o}", "status", pkv_status_name(a->refused), "message",
                     text_of(a->reason, a->reason ? strlen(a->reason) : 0));
}

/* What lines and the document have in common. */
static void add_answer(const generate_run *run, const generate_request *r, json_t *to)
{
    const generate_answer *a = &r->answer;
    const pkv_request_result *q = &a->result;
    const bool ran = a->refused == PKV_OK;
    json_t *samples = json_array();
    for (int32_t k = 0; k < a->n_samples; k++) json_array_append_new(samples, sample_of(run, r, k));
    json_object_set_new(to, "samples", samples);
    json_object_set_new(to, "usage",
                        json_pack("{s:i, s:i, s:i, s:i}", "prompt_tokens", r->n_ids,
                                  "output_tokens", q->n_output, "cached_tokens", q->n_cached,
                                  "preemptions", q->n_preempted));
    json_object_set_new(to, "times",
                        json_pack("{s:o, s:o, s:o, s:o}", "queue_ms",
                                  number(ran ? ms_between(q->arrival_ns, q->admitted_ns) : NAN),
                                  "ttft_ms", number(ran ? q->ttft_ms : NAN), "tpot_ms",
                                  number(ran ? q->tpot_ms : NAN), "latency_ms",
                                  number(ran ? ms_between(q->arrival_ns, q->finish_ns) : NAN)));
    json_object_set_new(to, "error", error_of(a));
}

static json_t *id_of(const generate_request *r)
{
    return r->id ? json_incref(r->id) : json_null();
}

/* Can it hold a number with a point? */
static bool may_be_real(const json_t *id)
{
    return json_is_real(id) || json_is_array(id) || json_is_object(id);
}

static char *dump(const generate_request *r, json_t *json, size_t flags)
{
    char *text = json ? json_dumps(json, (may_be_real(r->id) ? EXACT : FORMAT) | flags) : NULL;
    json_decref(json);
    return text;
}

char *generate_json_line(const generate_run *run, const generate_request *r)
{
    json_t *line = json_object();
    json_object_set_new(line, "id", id_of(r));
    json_object_set_new(line, "line", json_integer(r->line));
    add_answer(run, r, line);
    return dump(r, line, JSON_COMPACT);
}

char *generate_json_event(const generate_request *r, const pkv_token_event *e)
{
    json_t *line = json_object();
    const bool has_token = e->token >= 0;
    json_object_set_new(line, "event", json_string(has_token ? "token" : "end"));
    json_object_set_new(line, "id", id_of(r));
    json_object_set_new(line, "line", r->line > 0 ? json_integer(r->line) : json_null());
    json_object_set_new(line, "sample", json_integer(e->sample));
    json_object_set_new(line, "token", has_token ? json_integer(e->token) : json_null());
    json_object_set_new(line, "position", has_token ? json_integer(e->position) : json_null());
    json_object_set_new(line, "text",
                        r->run->tok ? text_of(e->text, (size_t)e->n_text) : json_null());
    json_object_set_new(line, "logprob", number(e->logprob));
    json_object_set_new(line, "top", alternatives(e->top, e->n_top));
    json_object_set_new(line, "finish", finish_of(e->finish));
    return dump(r, line, JSON_COMPACT);
}

/* ---------------------------------------------------------------- document */

static json_t *model_of(const generate_run *run)
{
    const pkv_model_info *m = &run->info;
    return json_pack("{s:o, s:s, s:s, s:i, s:i, s:i, s:i, s:I, s:s}", "path",
                     text_of(run->opts->model, strlen(run->opts->model)), "format", m->format,
                     "architecture", m->architecture, "layers", m->n_layers, "hidden", m->hidden,
                     "vocab", m->vocab, "context", m->context, "parameters",
                     (json_int_t)m->n_parameters, "weights", pkv_dtype_name(m->weights_dtype));
}

/* Of what the results depend on, and how the memory was cut. Runs after the end only. */
static json_t *engine_of(const generate_run *run)
{
    const pkv_engine_config *e = &run->opts->engine;
    static const char *const placements[] = { "paged", "max", "request", "pow2" };
    return json_pack("{s:s, s:s, s:s, s:i, s:s}", "mode", e->fast ? "fast" : "exact", "kv_dtype",
                     pkv_dtype_name(e->kv_dtype), "placement", placements[e->placement],
                     "block_tokens", e->block_tokens ? e->block_tokens : 16, "rng",
                     run->opts->base.req.sampling.xorshift_llama2 ? "xorshift-llama2" : "philox");
}

static json_t *prompt_of(const generate_request *r)
{
    json_t *ids = json_array();
    for (int32_t k = 0; k < r->n_ids; k++) json_array_append_new(ids, json_integer(r->ids[k]));
    return json_pack("{s:o, s:o}", "text", r->text ? text_of(r->text, r->n_text) : json_null(),
                     "ids", ids);
}

char *generate_json_document(const generate_run *run, const generate_request *r)
{
    json_t *doc = json_object();
    json_object_set_new(doc, "program", json_string("pkv-generate"));
    json_object_set_new(doc, "version", json_string(pkv_version()));
    json_object_set_new(doc, "model", model_of(run));
    json_object_set_new(doc, "engine", engine_of(run));
    json_object_set_new(doc, "prompt", prompt_of(r));
    add_answer(run, r, doc);
    return dump(r, doc, run->opts->stream ? JSON_COMPACT : JSON_INDENT(2));
}
