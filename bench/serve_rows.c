/* Totals of a case become rows: figures, ratios to the baseline, goals. */
#include "serve_case.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MOST_REPEAT 0.05 /* of the first prompt's time to its first token */

static void describe(struct bench_row *row, const struct bench_case *c, const struct bench_run *run,
                     const struct serve_load *load, const struct serve_totals *t)
{
    const struct serve_spec_case *spec = c->ctx;
    const struct serve_spec *l = &load->spec;
    bench_row_param(row, "model", "%s", spec->model);
    const char *slash = strrchr(l->lengths, '/'); /* of a file the name: folders differ */
    bench_row_param(row, "lengths", "%s", slash ? slash + 1 : l->lengths);
    bench_row_param(row, "scale", "%d", l->scale);
    bench_row_param(row, "requests", "%d", load->n);
    bench_row_param(row, "context", "%d", load->context);
    bench_row_param(row, "pool_tokens", "%d", t->n_blocks * 16);
    bench_row_param(row, "max_seqs", "%d", spec->max_seqs);
    bench_row_param(row, "chunk_tokens", "%d", spec->chunk_tokens);
    bench_row_param(row, "threads", "%d", run->threads);
    if (l->concurrency) bench_row_param(row, "arrivals", "%d at a time", l->concurrency);
    else if (l->rate > 0) bench_row_param(row, "arrivals", "Poisson, %.3g a second", l->rate);
    else bench_row_param(row, "arrivals", "all at once");
    if (l->n_prefix) bench_row_param(row, "prefix", "%d", l->n_prefix);
    if (l->n_samples > 1) bench_row_param(row, "samples", "%d", l->n_samples);
    if (t->slo_ttft_ms > 0) bench_row_param(row, "slo_ttft_ms", "%.3g", t->slo_ttft_ms);
    if (t->slo_tpot_ms > 0) bench_row_param(row, "slo_tpot_ms", "%.3g", t->slo_tpot_ms);
}

/* What the prefix cache had, of all plays' prompts. */
static void add_repeat(struct bench_row *row, const struct serve_totals *t)
{
    bench_row_value(row, "ttft_p50_ms", row->stats.median * 1e-6);
    bench_row_value(row, "cached_tokens", t->cached);
}

static void add_values(struct bench_row *row, const struct serve_load *load,
                       const struct serve_totals *t)
{
    static const char *const delays[] = { "ttft_p50_ms", "ttft_p99_ms", "tpot_p50_ms",
                                          "tpot_p99_ms", "itl_p50_ms",  "itl_p99_ms" };
    const double per_s = 1e9 / row->stats.median;
    bench_row_value(row, "output_tokens_per_s", per_s);
    bench_row_value(row, "prompt_tokens_per_s",
                    per_s * (double)load->n_prompt / (double)load->n_output);
    bench_row_value(row, "mean_seqs", t->mean_seqs);
    bench_row_value(row, "mean_seqs_queued", t->mean_queued);
    bench_row_value(row, "peak_seqs", t->peak_seqs);
    bench_row_value(row, "steps", t->steps);
    bench_row_value(row, "slots_filled", t->slots_filled);
    bench_row_value(row, "preempt_swap", t->swaps);
    bench_row_value(row, "preempt_recompute", t->recomputes);
    bench_row_value(row, "recomputed_tokens", t->recomputed);
    bench_row_value(row, "cached_tokens", t->cached);
    for (int k = 0; k < BENCH_LEN(delays); k++) bench_row_value(row, delays[k], t->delays_ms[k]);
    if (t->slo_ttft_ms > 0 || t->slo_tpot_ms > 0) {
        bench_row_value(row, "goodput_per_s", t->goodput);
        bench_row_value(row, "slo_met", t->slo_met);
    }
    bench_row_value(row, "engine_us", t->engine_us);
    bench_row_value(row, "engine_share", t->engine_share);
    bench_row_value(row, "attention_share", t->attention_share);
    bench_row_value(row, "sampling_share", t->sampling_share);
}

static void repro_text(const struct bench_case *c, const struct bench_run *run, char *text,
                       size_t size)
{
    const struct bench_options *o = run->options;
    if (o->serve.given) {
        snprintf(text, size, "%.280s", o->text);
        return;
    }
    const int n = snprintf(text, size, "pkv-bench serve --profile %s --filter %s --seed %llu%s%s",
                           bench_profile_name(o->profile), c->id, (unsigned long long)o->seed,
                           o->isa ? " --isa " : "", o->isa ? pkv_isa_name(o->isa) : "");
    if (o->n_threads) snprintf(text + n, size - (size_t)n, " --threads %d", o->n_threads);
}

static bool make_row(const struct bench_case *c, struct bench_run *run,
                     const struct serve_side *side, const struct serve_load *load,
                     const struct serve_totals *t, const struct bench_correct *correct,
                     struct bench_row **out, struct bench_error *err)
{
    struct bench_row *row = *out = bench_report_add(&run->report, err);
    if (!row) return false;
    row->group = GROUP_SERVE;
    snprintf(row->id, sizeof(row->id), "%s/%s", c->id, side->id);
    snprintf(row->case_id, sizeof(row->case_id), "%s", c->id);
    snprintf(row->label, sizeof(row->label), "%s", side->label);
    snprintf(row->versus, sizeof(row->versus), "%s", c->versus);
    repro_text(c, run, row->repro, sizeof(row->repro));
    snprintf(row->note, sizeof(row->note), "%s", ((const struct serve_spec_case *)c->ctx)->title);
    row->correct = *correct;
    describe(row, c, run, load, t);
    if (!correct->ok) {
        fprintf(stderr, "WRONG %s: %s\n  again: %s\n", row->id, correct->text, row->repro);
        return true;
    }
    row->samples_ns = bench_calloc((size_t)t->n, sizeof(double), err);
    if (!row->samples_ns) return false;
    memcpy(row->samples_ns, t->ns, (size_t)t->n * sizeof(double));
    if (!bench_stats_of(row->samples_ns, t->n, &row->stats))
        return bench_fail(err, BENCH_USAGE, "no memory for statistics");
    if (((const struct serve_spec_case *)c->ctx)->kind == SERVE_REPEAT) add_repeat(row, t);
    else add_values(row, load, t);
    return true;
}

static bool set_ratio(struct bench_row *row, const struct bench_row *base, uint64_t seed,
                      struct bench_error *err)
{
    double own, theirs;
    if (!bench_ratio_of(row->samples_ns, base->samples_ns, base->stats.n, seed, &row->ratio))
        return bench_fail(err, BENCH_USAGE, "no memory for the bootstrap");
    row->has_ratio = true;
    snprintf(row->ratio_to, sizeof(row->ratio_to), "%s", base->id);
    if (bench_row_get_value(row, "mean_seqs_queued", &own) &&
        bench_row_get_value(base, "mean_seqs_queued", &theirs) && own > 0 && theirs > 0)
        bench_row_value(row, "seqs_ratio", own / theirs);
    return true;
}

/* In ci, whose times mean nothing, only what does not depend on them. */
static void set_goals(struct bench_row *row, const struct serve_spec_case *spec, bool timed)
{
    struct bench_goal g;
    if (spec->least_seqs > 0) {
        memset(&g, 0, sizeof(g));
        g.at_least = true;
        g.limit = spec->least_seqs;
        snprintf(g.text, sizeof(g.text), "sequences >= %.1f x %.24s", g.limit, row->versus);
        if (bench_row_get_value(row, "seqs_ratio", &g.value)) bench_row_goal(row, &g);
    }
    if (!timed) return;
    if (spec->kind == SERVE_REPEAT && row->has_ratio) {
        g = (struct bench_goal){ .limit = MOST_REPEAT,
                                 .has_interval = true,
                                 .value = row->ratio.value,
                                 .lo = row->ratio.lo,
                                 .hi = row->ratio.hi };
        snprintf(g.name, sizeof(g.name), "%s", spec->goal_name);
        snprintf(g.text, sizeof(g.text), "TTFT <= %.2f x the first", g.limit);
        bench_row_goal(row, &g);
    }
    if (spec->least_rate > 0 && row->has_ratio) {
        memset(&g, 0, sizeof(g));
        g.at_least = g.has_interval = true;
        g.limit = spec->least_rate;
        g.value = 1 / row->ratio.value;
        g.lo = 1 / row->ratio.hi;
        g.hi = 1 / row->ratio.lo;
        snprintf(g.name, sizeof(g.name), "%s", spec->goal_name ? spec->goal_name : "");
        snprintf(g.text, sizeof(g.text), "tokens/s >= %.2f x %.24s", g.limit, row->versus);
        bench_row_goal(row, &g);
    }
}

bool serve_case_rows(const struct bench_case *c, struct bench_run *run,
                     const struct serve_load *load, const struct serve_totals *totals,
                     const struct bench_correct *correct, struct bench_error *err)
{
    const struct serve_spec_case *spec = c->ctx;
    struct bench_row *rows[SERVE_MAX_SIDES] = { NULL }, *base = NULL;
    for (int32_t i = 0; i < spec->n_sides; i++) {
        if (totals[i].n < 0) continue; /* skipped */
        if (!make_row(c, run, &spec->sides[i], load, &totals[i], &correct[i], &rows[i], err))
            return false;
        if (spec->sides[i].baseline && correct[i].ok) base = rows[i];
    }
    for (int32_t i = 0; base && i < spec->n_sides; i++) {
        if (!rows[i] || rows[i] == base || !correct[i].ok) continue;
        if (!set_ratio(rows[i], base, run->options->seed + (uint64_t)i, err)) return false;
        if (i == 0) set_goals(rows[i], spec, run->options->profile != PROFILE_CI);
    }
    return true;
}
