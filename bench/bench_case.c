/* Runs one case from setup to rows. */
#include "bench_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_side *bench_case_side(struct bench_case *c)
{
    if (c->n_sides == CASE_MAX_SIDES) abort(); /* a case of ours names too many */
    struct bench_side *s = &c->sides[c->n_sides++];
    memset(s, 0, sizeof(*s));
    s->ops = 1;
    return s;
}

static void repro_text(const struct bench_run *run, const char *id, char *text, size_t size)
{
    const struct bench_options *o = run->options;
    int n = snprintf(text, size, "pkv-bench %s", bench_command_name(o->command));
    if (o->has_batch) {
        char spec[128];
        if (!batch_spec_format(&o->batch, spec, sizeof(spec))) spec[0] = '\0';
        n += snprintf(text + n, size - (size_t)n,
                      " --batch %s --heads %d/%d --head-dim %d "
                      "--kv-dtype %s",
                      spec, o->h_q, o->h_kv, o->dim, pkv_dtype_name(o->dtype));
        for (int32_t i = 0; i < o->n_blocks; i++)
            n += snprintf(text + n, size - (size_t)n, "%s%d", i ? "," : " --block-tokens ",
                          o->block_tokens[i]);
    } else {
        n += snprintf(text + n, size - (size_t)n, " --profile %s", bench_profile_name(o->profile));
    }
    snprintf(text + n, size - (size_t)n, " --filter %s --seed %llu%s%s", id,
             (unsigned long long)o->seed, o->isa ? " --isa " : "",
             o->isa ? pkv_isa_name(o->isa) : "");
}

static struct bench_row *new_row(struct bench_case *c, struct bench_run *run,
                                 const struct bench_side *s, struct bench_error *err)
{
    struct bench_row *row = bench_report_add(&run->report, err);
    if (!row) return NULL;
    snprintf(row->id, sizeof(row->id), "%s/%s", c->id, s->id);
    snprintf(row->case_id, sizeof(row->case_id), "%s", c->id);
    snprintf(row->label, sizeof(row->label), "%s", s->label);
    snprintf(row->layout, sizeof(row->layout), "%s", s->layout);
    snprintf(row->published, sizeof(row->published), "%s", s->published);
    snprintf(row->note, sizeof(row->note), "%s", s->note);
    row->group = c->group;
    row->bytes_needed = s->bytes_needed;
    row->bytes_distinct = s->bytes_distinct;
    row->in_cache = s->in_cache;
    for (int32_t i = 0; i < c->n_params; i++) row->params[row->n_params++] = c->params[i];
    for (int32_t i = 0; i < s->n_params; i++) row->params[row->n_params++] = s->params[i];
    for (int32_t i = 0; i < s->n_values; i++) row->values[row->n_values++] = s->values[i];
    repro_text(run, row->id, row->repro, sizeof(row->repro));
    return row;
}

/* Copy the samples, per operation, and summarise them. */
static bool fill_samples(struct bench_row *row, const double *samples_ns, int32_t n, double ops,
                         struct bench_error *err)
{
    row->samples_ns = bench_calloc((size_t)n, sizeof(double), err);
    if (!row->samples_ns) return false;
    for (int32_t i = 0; i < n; i++) row->samples_ns[i] = samples_ns[i] / ops;
    return bench_stats_of(row->samples_ns, n, &row->stats) ||
           bench_fail(err, BENCH_USAGE, "no memory for statistics");
}

static void fill_goal(struct bench_row *row, const struct bench_side *s)
{
    struct bench_goal *g = &row->goal;
    if (s->goal_ratio > 0 && row->has_ratio) {
        g->limit = s->goal_ratio;
        g->value = row->ratio.value;
        snprintf(g->text, sizeof(g->text), "ratio <= %.2f", g->limit);
    } else if (s->goal_ns > 0 && row->stats.n) {
        g->limit = s->goal_ns;
        g->value = row->stats.median;
        if (g->limit >= 1e6) snprintf(g->text, sizeof(g->text), "<= %.2f ms", g->limit / 1e6);
        else if (g->limit >= 1e3) snprintf(g->text, sizeof(g->text), "<= %.0f us", g->limit / 1e3);
        else snprintf(g->text, sizeof(g->text), "<= %.0f ns", g->limit);
    }
    g->met = g->text[0] && g->value <= g->limit;
}

/* Ratios of all rows to the fastest baseline. */
static bool fill_ratios(struct bench_run *run, const struct bench_case *c,
                        struct bench_row *const *rows, struct bench_error *err)
{
    const struct bench_row *base = NULL;
    for (int32_t i = 0; i < c->n_sides; i++)
        if (c->sides[i].baseline && rows[i]->stats.n &&
            (!base || rows[i]->stats.median < base->stats.median))
            base = rows[i];
    for (int32_t i = 0; base && i < c->n_sides; i++) {
        if (rows[i] == base || !rows[i]->stats.n || c->sides[i].no_ratio) continue;
        if (!bench_ratio_of(rows[i]->samples_ns, base->samples_ns, base->stats.n,
                            run->options->seed + (uint64_t)i, &rows[i]->ratio))
            return bench_fail(err, BENCH_USAGE, "no memory for the bootstrap");
        rows[i]->has_ratio = true;
        snprintf(rows[i]->ratio_to, sizeof(rows[i]->ratio_to), "%s", base->id);
    }
    for (int32_t i = 0; i < c->n_sides; i++) fill_goal(rows[i], &c->sides[i]);
    return true;
}

static bool check_sides(struct bench_case *c, struct bench_run *run, struct bench_row *const *rows,
                        bool timed, struct bench_error *err)
{
    for (int32_t i = 0; c->check && i < c->n_sides; i++) {
        struct bench_correct *correct = &rows[i]->correct;
        if (correct->checked && !correct->ok) continue;
        if (!c->check(c, run, i, timed, correct, err)) return false;
        if (correct->ok) continue;
        run->report.wrong = true;
        fprintf(stderr, "WRONG %s: %s\n  again: %s\n", rows[i]->id, correct->text, rows[i]->repro);
    }
    return true;
}

static bool time_sides(struct bench_case *c, struct bench_run *run, struct bench_row *const *rows,
                       struct bench_error *err)
{
    struct sampler_side sides[CASE_MAX_SIDES];
    int32_t timed[CASE_MAX_SIDES], n = 0;
    struct sampler_result result;
    for (int32_t i = 0; i < c->n_sides; i++) {
        if (rows[i]->correct.checked && !rows[i]->correct.ok) continue;
        timed[n] = i;
        sides[n++] = (struct sampler_side){ c->sides[i].call, c->sides[i].before, c->sides[i].ctx };
    }
    if (n == 0) return true;
    if (!sampler_run(&run->clock, &c->sampler, sides, n, &result, err)) return false;
    bool ok = true;
    for (int32_t k = 0; ok && k < n; k++)
        ok = fill_samples(rows[timed[k]], sampler_samples(&result, k), result.n_samples,
                          c->sides[timed[k]].ops, err);
    sampler_free(&result);
    return ok;
}

static bool run_rows(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct bench_row *rows[CASE_MAX_SIDES];
    for (int32_t i = 0; i < c->n_sides; i++) {
        rows[i] = new_row(c, run, &c->sides[i], err);
        if (!rows[i]) return false;
    }
    return check_sides(c, run, rows, false, err) && time_sides(c, run, rows, err) &&
           check_sides(c, run, rows, true, err) && fill_ratios(run, c, rows, err);
}

bool bench_case_run(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    if (c->run_untimed) return c->run_untimed(c, run, err);
    if (!c->setup(c, run, err))
        return err->code == BENCH_SKIP && bench_report_skip(&run->report, c->id, err->text, err);
    const bool ok = run_rows(c, run, err);
    c->teardown(c);
    return ok;
}

bool bench_aa_run(struct bench_case *c, struct bench_run *run, struct bench_ratio *out,
                  struct bench_error *err)
{
    struct sampler_result result;
    if (!c->setup(c, run, err)) return false;
    const struct bench_side *s = &c->sides[0];
    const struct sampler_side twice[2] = { { s->call, s->before, s->ctx },
                                           { s->call, s->before, s->ctx } };
    bool ok = sampler_run(&run->clock, &c->sampler, twice, 2, &result, err);
    if (ok) {
        ok = bench_ratio_of(sampler_samples(&result, 1), sampler_samples(&result, 0),
                            result.n_samples, run->options->seed, out) ||
             bench_fail(err, BENCH_USAGE, "no memory for the bootstrap");
        sampler_free(&result);
    }
    c->teardown(c);
    return ok;
}
