/* The list of fields. What was not measured or has no meaning is null: never 0, never NaN. */
#include "fragsim_fields.h"

#include "fragsim_derived.h"

typedef struct visitor {
    fragsim_field_visit *visit;
    void *ctx;
    const char *group;  /* JSON object */
    const char *prefix; /* of the column */
} visitor;

static visitor in_group(const visitor *v, const char *group, const char *prefix)
{
    return (visitor){ v->visit, v->ctx, group, prefix };
}

static void give(const visitor *v, const char *name, fragsim_value value)
{
    char column[64];
    snprintf(column, sizeof(column), "%s%s", v->prefix, name);
    v->visit(v->ctx, v->group, name, column, &value);
}

static void whole_if(const visitor *v, const char *name, bool known, int64_t value)
{
    give(v, name, (fragsim_value){ .kind = known ? FRAGSIM_WHOLE : FRAGSIM_NULL, .whole = value });
}
static void whole(const visitor *v, const char *name, int64_t value)
{
    whole_if(v, name, true, value);
}
static void real_if(const visitor *v, const char *name, bool known, double value)
{
    give(v, name, (fragsim_value){ .kind = known ? FRAGSIM_REAL : FRAGSIM_NULL, .real = value });
}
/* Of fragsim_derived: -1 is null. */
static void derived(const visitor *v, const char *name, double value)
{
    real_if(v, name, value >= 0, value);
}
static void flag(const visitor *v, const char *name, bool value)
{
    give(v, name, (fragsim_value){ .kind = FRAGSIM_FLAG, .whole = value });
}
static void text(const visitor *v, const char *name, const char *value)
{
    give(v, name, (fragsim_value){ .kind = FRAGSIM_TEXT, .text = value });
}

static void dist(const visitor *from, const char *name, const char *prefix, const pkv_sim_dist *d)
{
    const visitor v = in_group(from, name, prefix);
    whole(&v, "n", d->n);
    real_if(&v, "mean", d->n > 0, d->mean);
    real_if(&v, "p50", d->n > 0, d->p50);
    real_if(&v, "p90", d->n > 0, d->p90);
    real_if(&v, "p99", d->n > 0, d->p99);
    real_if(&v, "max", d->n > 0, d->max);
}

/* ---------------------------------------------------------------- configuration */

static void config_fields(const visitor *v, const pkv_sim_config *c)
{
    const visitor step = in_group(v, "step_time", "step_time_");
    const visitor slo = in_group(v, "slo", "slo_");
    whole(v, "kv_tokens", c->pool_tokens);
    whole(v, "kv_bytes_per_token", c->kv_bytes_per_token);
    whole(v, "tensor_token_bytes", c->tensor_token_bytes);
    whole(v, "max_model_len", c->max_model_len);
    whole(v, "max_num_seqs", c->max_num_seqs);
    real_if(v, "watermark", true, (double)c->watermark_ppm / 1e6);
    whole(&step, "base_ns", c->step_base_ns);
    whole(&step, "per_batch_ns", c->step_per_seq_ns);
    whole(&step, "per_token_ns", c->step_per_token_ns);
    text(v, "admit", c->admit_skip ? "skip" : "fcfs");
    whole_if(v, "concurrency", c->concurrency > 0, c->concurrency);
    whole_if(v, "max_batched_tokens", c->max_batched_tokens > 0, c->max_batched_tokens);
    whole_if(v, "prefill_chunk", c->prefill_chunk > 0, c->prefill_chunk);
    whole_if(v, "prefill_tokens_per_s", c->prefill_tokens_per_s > 0, c->prefill_tokens_per_s);
    whole(v, "swap_tokens", c->swap_tokens);
    whole_if(v, "swap_bytes_per_s", c->swap_bytes_per_s > 0, c->swap_bytes_per_s);
    whole(v, "copy_latency_ns", c->copy_latency_ns);
    whole_if(v, "compact_bytes_per_s", c->compact_bytes_per_s > 0, c->compact_bytes_per_s);
    text(v, "engine", fragsim_engine_name(c->engine));
    text(v, "window_asked", fragsim_window_name(c->window));
    flag(v, "check", c->check);
    text(v, "percentile_method", c->percentile_nearest ? "nearest" : "linear");
    whole_if(&slo, "ttft_ns", c->slo_ttft_ns > 0, c->slo_ttft_ns);
    whole_if(&slo, "tpot_ns", c->slo_tpot_ns > 0, c->slo_tpot_ns);
    whole_if(&slo, "norm_ns", c->slo_norm_ns > 0, c->slo_norm_ns);
    whole(v, "seed", (int64_t)c->seed);
}

/* ---------------------------------------------------------------- result */

static void split_fields(const visitor *from, const pkv_sim_result *r)
{
    const pkv_sim_split *s = &r->split;
    const bool any = r->window_ns > 0;
    const visitor v = in_group(from, "split", "");
    const visitor external = in_group(from, "split.external_split", "");
    real_if(&v, "token", any, s->token);
    real_if(&v, "reservation", any, s->reservation);
    real_if(&v, "internal", any, s->internal);
    real_if(&v, "external", any, s->external);
    real_if(&external, "rounding", any, s->rounding);
    real_if(&external, "unusable", any, s->unusable);
    real_if(&external, "short", any, s->shortage);
    real_if(&external, "limited", any, s->limited);
    real_if(&external, "idle", any, s->idle);
    real_if(&v, "of_which_watermark", any, s->watermark);
    real_if(&v, "of_which_tail", any, s->tail);
    real_if(&v, "of_which_cached", any, s->cached);
    real_if(&v, "of_which_dead", any, s->dead);
    real_if(&v, "logical", any, s->logical);
}

static void run_fields(const visitor *v, const pkv_sim_result *r)
{
    text(v, "window", fragsim_window_name(r->window));
    whole(v, "window_ns", r->window_ns);
    whole(v, "waited_ns", r->waited_ns);
    whole(v, "end_ns", r->end_ns);
    real_if(v, "mean_batch", r->window_ns > 0, r->mean_batch);
    whole(v, "max_batch", r->max_batch);
    whole(v, "max_queue", r->max_queue);
    whole(v, "steps", r->n_steps);
    whole(v, "events", r->n_events);
    whole(v, "requests", r->n_requests);
    whole(v, "finished", r->n_finished);
    whole(v, "finished_in_window", r->n_finished_window);
    whole(v, "too_long", r->n_too_long);
    whole_if(v, "first_too_long", r->first_too_long >= 0, r->first_too_long);
    whole(v, "admissions", r->n_admissions);
    whole(v, "preemptions", r->n_preemptions);
    whole(v, "preempted_requests", r->n_preempted_requests);
    whole(v, "generated_tokens", r->generated_tokens);
    whole(v, "recomputed_tokens", r->recomputed_tokens);
    whole(v, "prefill_ns", r->prefill_ns);
    whole(v, "move_ns", r->move_ns);
}

static void rate_fields(const visitor *v, const pkv_sim_result *r, const fragsim_derived *d)
{
    derived(v, "preemptions_per_admission", d->preemptions_per_admission);
    derived(v, "preempted_share", d->preempted_share);
    derived(v, "recomputed_share", d->recomputed_share);
    derived(v, "duration_s", d->duration_s);
    derived(v, "requests_per_s", d->requests_per_s);
    derived(v, "tokens_per_s", d->tokens_per_s);
    whole(v, "good", r->n_good);
    derived(v, "goodput_requests_per_s", d->good_per_s);
}

/* Can free slots be in the wrong place? */
static bool has_places(const pkv_sim_policy *p)
{
    const bool contiguous = p->kind == PKV_SIM_MAX || p->kind == PKV_SIM_POW2 ||
                            p->kind == PKV_SIM_ORACLE || p->kind == PKV_SIM_STATIC_BATCH;
    return contiguous && p->addr != PKV_SIM_ADDR_IDEAL && p->addr != PKV_SIM_ADDR_COMPACT;
}

static void space_fields(const visitor *from, const fragsim_job *job, const fragsim_derived *d)
{
    const pkv_sim_result *r = &job->result;
    const bool places = has_places(&job->cfg.policy);
    const visitor waste = in_group(from, "waste", "waste_");
    const visitor table = in_group(from, "block_table", "block_table_");
    const visitor scatter = in_group(from, "places", "places_");
    real_if(&scatter, "scatter", places && r->window_ns > 0, r->scatter);
    whole_if(&scatter, "failed_takes", places, r->n_failed_takes);
    real_if(&scatter, "frag_index", places && r->n_failed_takes > 0, r->frag_index);
    derived(&waste, "byte_s", d->waste_byte_s);
    derived(&waste, "byte_s_per_finished", d->waste_byte_s_per_request);
    derived(&waste, "waited_byte_s", d->waste_waited_byte_s);
    real_if(&waste, "waited_share", r->window_ns > 0, r->waste_waited);
    derived(&table, "mean_entries", d->table_entries);
    derived(&table, "mean_bytes", d->table_bytes);
    derived(&table, "padded_bytes", d->padded_bytes);
    derived(&table, "share_of_kv", d->table_share);
}

static void move_fields(const visitor *from, const pkv_sim_result *r, const fragsim_derived *d)
{
    const visitor v = in_group(from, "moves", "moves_");
    whole(&v, "copied_blocks", r->copied_blocks);
    derived(&v, "copied_bytes", d->copied_bytes);
    whole(&v, "swaps", r->n_swaps);
    whole(&v, "swapped_blocks", r->swapped_blocks);
    derived(&v, "swapped_bytes", d->swapped_bytes);
    whole(&v, "compactions", r->n_compactions);
    whole(&v, "compacted_tokens", r->compacted_tokens);
    derived(&v, "compacted_bytes", d->compacted_bytes);
}

static void cache_fields(const visitor *from, const pkv_sim_result *r, const fragsim_derived *d)
{
    const pkv_sim_hits *h = &r->hits;
    const visitor sharing = in_group(from, "sharing", "sharing_");
    const visitor hits = in_group(from, "hits", "hits_");
    real_if(&sharing, "saving", r->window_ns > 0, r->sharing_saving);
    whole(&hits, "prompt_tokens", h->prompt_tokens);
    whole(&hits, "cached_tokens", h->cached_tokens);
    derived(&hits, "rate", d->hit_rate);
    whole(&hits, "prompt_blocks", h->prompt_blocks);
    whole(&hits, "cached_blocks", h->cached_blocks);
    derived(&hits, "block_rate", d->block_hit_rate);
    real_if(&hits, "mean_rate", h->prompt_tokens > 0, h->mean_rate);
    whole(&hits, "again_tokens", h->again_tokens);
    whole(&hits, "again_cached", h->again_cached);
}

static void result_fields(const visitor *v, const fragsim_job *job)
{
    const pkv_sim_result *r = &job->result;
    const pkv_sim_policy *p = &job->cfg.policy;
    fragsim_derived d;
    fragsim_derive(job, &d);
    text(v, "policy", job->name);
    whole_if(v, "block_tokens", p->kind == PKV_SIM_PAGED, p->block_tokens);
    whole(v, "sequences_per_request", p->n_seqs);
    split_fields(v, r);
    run_fields(v, r);
    rate_fields(v, r, &d);
    dist(v, "normalized_s_per_token", "normalized_s_per_token_", &r->norm_s);
    dist(v, "ttft_s", "ttft_s_", &r->ttft_s);
    dist(v, "tpot_s", "tpot_s_", &r->tpot_s);
    dist(v, "e2e_s", "e2e_s_", &r->e2e_s);
    dist(v, "residence_s", "residence_s_", &r->residence_s);
    space_fields(v, job, &d);
    move_fields(v, r, &d);
    cache_fields(v, r, &d);
}

void fragsim_fields(const fragsim_job *job, fragsim_section section, fragsim_field_visit *visit,
                    void *ctx)
{
    const visitor v = { visit, ctx, "", "" };
    if (section == FRAGSIM_CONFIG) config_fields(&v, &job->cfg);
    else result_fields(&v, job);
}
