/* Figures: counted in `step` by the stepping thread, added to `total` under the lock when the step
 * is over, so that whoever asks sees one moment between two steps. */
#include "model/engine_internal.h"

#include <string.h>

/* FLOP of the products of one token's layers and of one row of logits, of attention to one key,
 * and the bytes of all weights that a step reads. */
static pkv__costs costs_of(const pkv__weights *w, double weight_bytes)
{
    const pkv__model_config *c = &w->config;
    const double hidden = c->hidden, heads = (double)c->n_heads * c->head_dim,
                 kv_heads = (double)c->n_kv_heads * c->head_dim;
    const double layer = hidden * (2 * heads + 2 * kv_heads) + 3 * hidden * c->ffn;
    return (pkv__costs){ .weight_bytes = weight_bytes,
                         .token_flop = 2 * layer * c->n_layers,
                         .logits_flop = 2 * hidden * c->vocab,
                         .key_flop = 4 * heads * c->n_layers };
}

pkv_status pkv__stats_init(pkv_engine *e, const pkv_model_info *info, const pkv_engine_config *cfg)
{
    if (pthread_mutex_init(&e->lock, NULL) != 0) return PKV_E_NO_MEMORY;
    e->costs = costs_of(e->weights, (double)info->weight_bytes);
    e->total = (pkv_engine_stats)PKV_ENGINE_STATS_INIT;
    e->total.n_blocks = e->n_blocks;
    e->total.n_threads = pkv__max_i32(cfg->n_threads, 1);
    e->total.block_tokens = cfg->block_tokens;
    e->total.max_seqs = e->max_seqs;
    e->total.max_batch_tokens = e->max_batch_tokens;
    e->total.max_context = e->max_context;
    e->total.watermark_blocks = e->watermark;
    e->total.pool_bytes = (int64_t)e->place->block_bytes * (e->n_blocks + 1);
    strncpy(e->total.kv_dtype, pkv_dtype_name(cfg->kv_dtype), sizeof(e->total.kv_dtype) - 1);
    strncpy(e->total.isa, pkv__gemm_find(cfg->isa)->name, sizeof(e->total.isa) - 1);
    strncpy(e->total.mode, cfg->fast ? "fast" : "exact", sizeof(e->total.mode) - 1);
    return PKV_OK;
}

void pkv__stats_delay(pkv_engine *e, pkv__delay_kind kind, uint64_t from_ns, uint64_t to_ns)
{
    /* A clock of the caller's may stand still, or a planned arrival lie ahead of it. */
    const uint64_t ns = to_ns > from_ns ? to_ns - from_ns : 0;
    e->new_delays[e->n_new_delays++] = (pkv__delay){ kind, ns };
}

void pkv__stats_row(pkv_engine *e, const pkv__row *row, int32_t n_reached)
{
    const int32_t n_prompt = row->job->n_prompt, end = row->first + row->n;
    const int32_t known = pkv__max_i32(n_prompt, n_reached);
    const int32_t again = pkv__max_i32(pkv__min_i32(n_reached, end) - row->first, 0);
    const int32_t fresh = pkv__min_i32(n_prompt, end) - pkv__max_i32(row->first, n_reached);
    /* Token i sees i + 1 keys. */
    const double keys = ((double)row->first + end + 1) / 2 * row->n;
    const double kv_tokens = (double)end + row->n; /* read once per row, written once */
    e->n_prefill += pkv__max_i32(pkv__min_i32(known, end) - row->first, 0);
    e->step.n_computed_tokens += row->n;
    e->step.n_recomputed_tokens += again;
    e->step.n_prompt_tokens += pkv__max_i32(fresh, 0);
    e->step.bytes_moved += kv_tokens * (double)e->place->token_bytes;
    e->step.flop += row->n * e->costs.token_flop + keys * e->costs.key_flop;
    if (row->wants_logits) e->step.flop += e->costs.logits_flop;
}

void pkv__stats_step(pkv_engine *e, const pkv__place_usage *usage)
{
    e->step.n_steps = 1;
    e->step.bytes_moved += e->costs.weight_bytes;
    e->step.peak_blocks_used = usage->n_used;
    e->slots_used += (double)usage->n_slots_used;
    e->slots_filled += (double)usage->n_slots_filled;
}

void pkv__stats_ended(pkv_engine *e, const pkv__job *job, pkv_finish finish)
{
    const pkv_request_result *r = &job->result;
    e->step.n_finished[finish]++;
    if (finish >= PKV_FINISH_CANCEL) return;
    pkv__stats_delay(e, PKV__DELAY_LATENCY, r->arrival_ns, r->finish_ns);
    if (r->tpot_ms >= 0)
        pkv__stats_delay(e, PKV__DELAY_TPOT, 0, (uint64_t)(job->tpot_ms * 1e6 + 0.5));
    if (e->slo_ttft_ms > 0 && !(r->ttft_ms <= e->slo_ttft_ms)) return;
    if (e->slo_tpot_ms > 0 && r->tpot_ms > e->slo_tpot_ms) return;
    e->step.n_good++;
}

/* ---------------------------------------------------------------- publishing */

static void add_counts(pkv_engine_stats *total, const pkv_engine_stats *step)
{
    for (int32_t i = 0; i < (int32_t)PKV_ARRAY_LEN(total->n_finished); i++)
        total->n_finished[i] += step->n_finished[i];
    total->n_steps += step->n_steps;
    total->n_prompt_tokens += step->n_prompt_tokens;
    total->n_output_tokens += step->n_output_tokens;
    total->n_computed_tokens += step->n_computed_tokens;
    total->n_recomputed_tokens += step->n_recomputed_tokens;
    total->n_cached_tokens += step->n_cached_tokens;
    total->n_preempt_swap += step->n_preempt_swap;
    total->n_preempt_recompute += step->n_preempt_recompute;
    total->n_good += step->n_good;
    total->forward_s += step->forward_s;
    total->attention_s += step->attention_s;
    total->manager_s += step->manager_s;
    total->sampling_s += step->sampling_s;
    total->step_s += step->step_s;
    total->bytes_moved += step->bytes_moved;
    total->flop += step->flop;
}

/* Totals of whole-run averages and peaks; `used` is of the moment. */
static void add_averages(pkv_engine *e, const pkv__place_usage *now)
{
    pkv_engine_stats *total = &e->total;
    const pkv_engine_stats *step = &e->step;
    total->n_blocks_used = now->n_used;
    total->n_blocks_cached = now->n_cached;
    total->n_copies = now->n_copies;
    total->n_evictions = now->n_evictions;
    total->n_swapped_bytes = now->n_swapped_bytes;
    if (step->n_steps == 0) return;
    if (total->n_steps == 1) e->first_step_ns = e->step_began_ns;
    total->elapsed_s = (double)(e->now_ns - e->first_step_ns) * 1e-9;
    e->n_row_steps += e->n_rows;
    total->mean_seqs = (double)e->n_row_steps / (double)total->n_steps;
    total->slots_filled = e->slots_used > 0 ? e->slots_filled / e->slots_used : 0;
    total->peak_seqs = pkv__max_i32(total->peak_seqs, e->n_rows);
    total->peak_blocks_used = pkv__max_i32(total->peak_blocks_used, step->peak_blocks_used);
}

void pkv__stats_publish(pkv_engine *e)
{
    pkv__place_usage now;
    e->place->ops->usage(e->place, &now);
    pthread_mutex_lock(&e->lock);
    add_counts(&e->total, &e->step);
    add_averages(e, &now);
    for (int32_t i = 0; i < e->n_new_delays; i++)
        pkv__delays_add(&e->delays[e->new_delays[i].kind], e->new_delays[i].ns);
    pthread_mutex_unlock(&e->lock);
    e->n_new_delays = 0;
    e->step = (pkv_engine_stats){ 0 };
}

pkv_status pkv_engine_get_stats(pkv_engine *engine, pkv_engine_stats *out)
{
    if (!engine || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof(*out)) return PKV_E_ABI;
    pthread_mutex_lock(&engine->lock);
    *out = engine->total;
    pkv__delays_stats(&engine->delays[PKV__DELAY_TTFT], &out->ttft);
    pkv__delays_stats(&engine->delays[PKV__DELAY_TPOT], &out->tpot);
    pkv__delays_stats(&engine->delays[PKV__DELAY_ITL], &out->itl);
    pkv__delays_stats(&engine->delays[PKV__DELAY_LATENCY], &out->latency);
    pkv__delays_stats(&engine->delays[PKV__DELAY_QUEUE], &out->queue);
    pthread_mutex_unlock(&engine->lock);
    return PKV_OK;
}
