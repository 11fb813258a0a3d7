/* All figures of an engine as text: one object of JSON, or Prometheus' exposition format 0.0.4.
 * Both come from the tables below; docs/engine.md lists the names. A text is written twice, the
 * first time only to count it, so that nothing half written is ever seen. */
#include "pagedkv/engine.h"

#include "common/common.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define PREFIX "pagedkv_"

typedef enum number_type { I32, I64, F64 } number_type;

typedef struct figure {
    const char *field; /* of pkv_engine_stats, and in JSON */
    size_t at;
    number_type type;
    const char *name, *label; /* of Prometheus; a counter's name ends in _total */
    const char *help;
} figure;

#define FIGURE(field, type, name, label, help)                                                     \
    {                                                                                              \
#field, offsetof(pkv_engine_stats, field), type, PREFIX name, label, help                  \
    }

/* Rows of one name are neighbours; the first has its help. */
static const figure figures[] = {
    FIGURE(n_submitted, I64, "requests_submitted_total", "", "Requests taken in."),
    FIGURE(n_refused, I64, "requests_refused_total", "", "Requests refused at submit."),
    FIGURE(n_good, I64, "requests_good_total", "", "Requests finished within both limits."),
    FIGURE(n_steps, I64, "steps_total", "", "Steps that computed something."),
    FIGURE(n_prompt_tokens, I64, "prompt_tokens_total", "",
           "Tokens of prompts, computed or cached, once each."),
    FIGURE(n_output_tokens, I64, "output_tokens_total", "", "Tokens reported to callers."),
    FIGURE(n_computed_tokens, I64, "computed_tokens_total", "", "Tokens that passes computed."),
    FIGURE(n_recomputed_tokens, I64, "recomputed_tokens_total", "",
           "Of the computed tokens, those computed before."),
    FIGURE(n_cached_tokens, I64, "cached_tokens_total", "",
           "Tokens of prompts found by the prefix cache."),
    FIGURE(n_preempt_swap, I64, "preemptions_total", "kind=\"swap\"",
           "Requests that gave up their blocks."),
    FIGURE(n_preempt_recompute, I64, "preemptions_total", "kind=\"recompute\"", NULL),
    FIGURE(n_swapped_bytes, I64, "swapped_bytes_total", "",
           "Bytes moved to and from the host pool."),
    FIGURE(n_copies, I64, "copied_blocks_total", "", "Blocks copied on write."),
    FIGURE(n_evictions, I64, "evicted_blocks_total", "", "Cached blocks given to somebody else."),
    FIGURE(n_blocks, I32, "blocks", "", "Usable blocks of the pool."),
    FIGURE(n_blocks_used, I32, "used_blocks", "", "Blocks held by running requests."),
    FIGURE(n_blocks_cached, I32, "cached_blocks", "", "Blocks the prefix cache can find."),
    FIGURE(peak_seqs, I32, "peak_sequences", "", "Most sequences in one step."),
    FIGURE(peak_blocks_used, I32, "peak_used_blocks", "", "Most blocks held at a time."),
    FIGURE(mean_seqs, F64, "mean_sequences", "", "Sequences per step."),
    FIGURE(slots_filled, F64, "filled_slots_ratio", "",
           "Share of the slots in used blocks that hold a token, over all steps."),
    FIGURE(forward_s, F64, "forward_seconds_total", "", "Time in passes."),
    FIGURE(attention_s, F64, "attention_seconds_total", "", "Of it, in attention."),
    FIGURE(manager_s, F64, "manager_seconds_total", "", "Time in scheduler and block manager."),
    FIGURE(sampling_s, F64, "sampling_seconds_total", "", "Time choosing tokens."),
    FIGURE(step_s, F64, "step_seconds_total", "", "Time in steps."),
    FIGURE(bytes_moved, F64, "moved_bytes_total", "",
           "Weights once per step, keys and values read and written."),
    FIGURE(flop, F64, "flop_total", "", "Operations of passes."),
    FIGURE(elapsed_s, F64, "elapsed_seconds", "", "From the first step to the last."),
    FIGURE(n_threads, I32, "threads", "", "Threads of the engine."),
    FIGURE(block_tokens, I32, "block_tokens", "", "Tokens per block."),
    FIGURE(max_seqs, I32, "max_sequences", "", "Most sequences at a time."),
    FIGURE(max_batch_tokens, I32, "max_batch_tokens", "", "Most tokens per step."),
    FIGURE(max_context, I32, "max_context_tokens", "", "Longest prompt and output."),
    FIGURE(watermark_blocks, I32, "watermark_blocks", "", "Blocks that admission leaves free."),
    FIGURE(pool_bytes, I64, "pool_bytes", "", "Bytes of the pool of blocks."),
};

typedef struct delay_figure {
    const char *field;
    size_t at;
    const char *name; /* _seconds, and _max_seconds */
    const char *help;
} delay_figure;

#define DELAY(field, name, help)                                                                   \
    {                                                                                              \
#field, offsetof(pkv_engine_stats, field), PREFIX name, help                               \
    }
static const delay_figure delays[] = {
    DELAY(ttft, "time_to_first_token", "From arrival to the first token of a request."),
    DELAY(tpot, "time_per_output_token", "Mean time between the tokens of a request."),
    DELAY(itl, "inter_token_latency", "Time between two tokens of a sample."),
    DELAY(latency, "request_latency", "From arrival to the end of a request."),
    DELAY(queue, "queue_time", "From arrival to admission."),
};

static const struct {
    const char *key, *quantile;
    size_t at;
} quantiles[] = {
    { "p50_ms", "0.5", offsetof(pkv_delay_stats, p50_ms) },
    { "p90_ms", "0.9", offsetof(pkv_delay_stats, p90_ms) },
    { "p99_ms", "0.99", offsetof(pkv_delay_stats, p99_ms) },
};

/* ---------------------------------------------------------------- writing */

typedef struct sink {
    char *to; /* NULL: only counted */
    size_t n;
} sink;

static void emit(sink *s, const char *text)
{
    const size_t n = strlen(text);
    if (s->to) memcpy(s->to + s->n, text, n);
    s->n += n;
}

static void emit_parts(sink *s, const char *a, const char *b, const char *c, const char *d)
{
    emit(s, a);
    emit(s, b);
    emit(s, c);
    emit(s, d);
}

static void emit_i64(sink *s, int64_t v)
{
    char text[24];
    snprintf(text, sizeof(text), "%" PRId64, v);
    emit(s, text);
}

/* What the locale of the program puts for the decimal point becomes a point again. */
static void emit_f64(sink *s, double v)
{
    char text[48];
    size_t n = 0;
    snprintf(text, sizeof(text), "%.15g", v);
    for (const char *c = text; *c; c++) {
        const bool plain = strchr("0123456789+-e", *c) != NULL;
        if (plain) text[n++] = *c;
        else if (n > 0 && text[n - 1] != '.') text[n++] = '.';
    }
    text[n] = '\0';
    emit(s, text);
}

/* Names of ours, in a field of n bytes; anything that would need an escape is none. */
static void emit_name(sink *s, const char *field, size_t n)
{
    for (size_t k = 0; k < n && field[k]; k++) {
        char c[2] = { field[k], '\0' };
        if (c[0] < ' ' || c[0] > '~' || c[0] == '"' || c[0] == '\\') c[0] = '?';
        emit(s, c);
    }
}

/* ---------------------------------------------------------------- JSON */

static void json_f64(sink *s, double v)
{
    if (isfinite(v)) emit_f64(s, v);
    else emit(s, "null");
}

static void json_delay(sink *s, const pkv_delay_stats *d)
{
    emit(s, "{\"n\":");
    emit_i64(s, d->n);
    emit(s, ",\"mean_ms\":");
    json_f64(s, d->mean_ms);
    for (size_t k = 0; k < PKV_ARRAY_LEN(quantiles); k++) {
        emit_parts(s, ",\"", quantiles[k].key, "\":", "");
        json_f64(s, *(const double *)(const void *)((const char *)d + quantiles[k].at));
    }
    emit(s, ",\"max_ms\":");
    json_f64(s, d->max_ms);
    emit(s, "}");
}

static void write_json(sink *s, const pkv_engine_stats *stats)
{
    const char *base = (const char *)stats;
    emit(s, "{");
    for (size_t k = 0; k < PKV_ARRAY_LEN(figures); k++) {
        const void *at = base + figures[k].at;
        emit_parts(s, "\"", figures[k].field, "\":", "");
        if (figures[k].type == F64) json_f64(s, *(const double *)at);
        else if (figures[k].type == I64) emit_i64(s, *(const int64_t *)at);
        else emit_i64(s, *(const int32_t *)at);
        emit(s, ",");
    }
    emit(s, "\"n_finished\":{");
    for (int k = 1; k < (int)PKV_ARRAY_LEN(stats->n_finished); k++) {
        emit_parts(s, k > 1 ? ",\"" : "\"", pkv_finish_name((pkv_finish)k), "\":", "");
        emit_i64(s, stats->n_finished[k]);
    }
    emit(s, "}");
    for (size_t k = 0; k < PKV_ARRAY_LEN(delays); k++) {
        emit_parts(s, ",\"", delays[k].field, "\":", "");
        json_delay(s, (const pkv_delay_stats *)(const void *)(base + delays[k].at));
    }
    emit(s, ",\"kv_dtype\":\"");
    emit_name(s, stats->kv_dtype, sizeof(stats->kv_dtype));
    emit(s, "\",\"isa\":\"");
    emit_name(s, stats->isa, sizeof(stats->isa));
    emit(s, "\",\"mode\":\"");
    emit_name(s, stats->mode, sizeof(stats->mode));
    emit(s, "\"}");
}

/* ---------------------------------------------------------------- Prometheus */

static void prom_head(sink *s, const char *name, const char *end, const char *help,
                      const char *type)
{
    emit_parts(s, "# HELP ", name, end, " ");
    emit_parts(s, help, "\n# TYPE ", name, end);
    emit_parts(s, " ", type, "\n", "");
}

/* One sample; `label` is empty or name="value". */
static void prom_f64(sink *s, const char *name, const char *end, const char *label, double v)
{
    emit_parts(s, name, end, *label ? "{" : "", label);
    emit(s, *label ? "} " : " ");
    if (isnan(v)) emit(s, "NaN");
    else if (isinf(v)) emit(s, v > 0 ? "+Inf" : "-Inf");
    else emit_f64(s, v);
    emit(s, "\n");
}

static void prom_i64(sink *s, const char *name, const char *end, const char *label, int64_t v)
{
    emit_parts(s, name, end, *label ? "{" : "", label);
    emit(s, *label ? "} " : " ");
    emit_i64(s, v);
    emit(s, "\n");
}

static bool ends_in_total(const char *name)
{
    const size_t n = strlen(name);
    return n > 6 && strcmp(name + n - 6, "_total") == 0;
}

static void prom_delay(sink *s, const delay_figure *f, const pkv_delay_stats *d)
{
    prom_head(s, f->name, "_seconds", f->help, "summary");
    for (size_t k = 0; k < PKV_ARRAY_LEN(quantiles); k++) {
        char label[32];
        snprintf(label, sizeof(label), "quantile=\"%s\"", quantiles[k].quantile);
        const char *at = (const char *)d + quantiles[k].at;
        prom_f64(s, f->name, "_seconds", label, *(const double *)(const void *)at / 1e3);
    }
    prom_f64(s, f->name, "_seconds_sum", "", d->n > 0 ? d->mean_ms * (double)d->n / 1e3 : 0);
    prom_i64(s, f->name, "_seconds_count", "", d->n);
    prom_head(s, f->name, "_max_seconds", "The longest of these.", "gauge");
    prom_f64(s, f->name, "_max_seconds", "", d->max_ms / 1e3);
}

static void write_prometheus(sink *s, const pkv_engine_stats *stats)
{
    const char *base = (const char *)stats;
    for (size_t k = 0; k < PKV_ARRAY_LEN(figures); k++) {
        const figure *f = &figures[k];
        const void *at = base + f->at;
        if (f->help)
            prom_head(s, f->name, "", f->help, ends_in_total(f->name) ? "counter" : "gauge");
        if (f->type == F64) prom_f64(s, f->name, "", f->label, *(const double *)at);
        else if (f->type == I64) prom_i64(s, f->name, "", f->label, *(const int64_t *)at);
        else prom_i64(s, f->name, "", f->label, *(const int32_t *)at);
    }
    prom_head(s, PREFIX "requests_finished_total", "", "Requests by the end of their last sample.",
              "counter");
    for (int k = 1; k < (int)PKV_ARRAY_LEN(stats->n_finished); k++) {
        char label[32];
        snprintf(label, sizeof(label), "finish=\"%s\"", pkv_finish_name((pkv_finish)k));
        prom_i64(s, PREFIX "requests_finished_total", "", label, stats->n_finished[k]);
    }
    for (size_t k = 0; k < PKV_ARRAY_LEN(delays); k++)
        prom_delay(s, &delays[k], (const pkv_delay_stats *)(const void *)(base + delays[k].at));
    prom_head(s, PREFIX "engine_info", "", "What the engine computes with.", "gauge");
    emit(s, PREFIX "engine_info{kv_dtype=\"");
    emit_name(s, stats->kv_dtype, sizeof(stats->kv_dtype));
    emit(s, "\",isa=\"");
    emit_name(s, stats->isa, sizeof(stats->isa));
    emit(s, "\",mode=\"");
    emit_name(s, stats->mode, sizeof(stats->mode));
    emit(s, "\"} 1\n");
}

pkv_status pkv_engine_stats_text(const pkv_engine_stats *stats, pkv_stats_format format, char *out,
                                 size_t cap, size_t *n)
{
    if (!stats || !n || (!out && cap > 0)) return PKV_E_INVALID_ARG;
    if (format != PKV_STATS_JSON && format != PKV_STATS_PROMETHEUS) return PKV_E_INVALID_ARG;
    if (stats->struct_size != sizeof(*stats)) return PKV_E_ABI;
    void (*const write)(sink *, const pkv_engine_stats *) =
        format == PKV_STATS_JSON ? write_json : write_prometheus;
    sink s = { NULL, 0 };
    write(&s, stats);
    *n = s.n;
    if (cap <= s.n) return PKV_E_LIMIT;
    s = (sink){ out, 0 };
    write(&s, stats);
    out[s.n] = '\0';
    return PKV_OK;
}
