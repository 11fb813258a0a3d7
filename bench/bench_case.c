/* Runs one case from setup to rows. */
#include "bench_case.h"

#include "bench_line.h"

#include <stdarg.h>
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

void bench_side_goal(struct bench_side *s, enum bench_goal_kind kind, double limit,
                     const char *name)
{
    if (limit <= 0) return;
    if (s->n_goals == SIDE_MAX_GOALS) abort();
    s->goals[s->n_goals++] = (struct bench_goal_spec){ kind, limit, name };
}

void bench_side_param(struct bench_side *s, const char *name, const char *fmt, ...)
{
    va_list args;
    if (s->n_params == SIDE_MAX_PARAMS) abort();
    struct bench_param *p = &s->params[s->n_params++];
    snprintf(p->name, sizeof(p->name), "%s", name);
    va_start(args, fmt);
    vsnprintf(p->value, sizeof(p->value), fmt, args);
    va_end(args);
}

struct bench_side *bench_case_call_side(struct bench_case *c, int32_t threads, const char *id,
                                        const char *label, void (*call)(void *))
{
    struct bench_side *s = bench_case_side(c);
    if (threads > 1) snprintf(s->id, sizeof(s->id), "t%d/%s", threads, id);
    else snprintf(s->id, sizeof(s->id), "%s", id);
    snprintf(s->label, sizeof(s->label), "%s", label);
    s->call = call;
    s->ctx = c->ctx;
    bench_side_param(s, "threads", "%d", threads);
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
    n += snprintf(text + n, size - (size_t)n, " --filter %s --seed %llu%s%s", id,
                  (unsigned long long)o->seed, o->isa ? " --isa " : "",
                  o->isa ? pkv_isa_name(o->isa) : "");
    if (o->n_threads) snprintf(text + n, size - (size_t)n, " --threads %d", o->n_threads);
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
    snprintf(row->versus, sizeof(row->versus), "%s", c->versus);
    if (s->line_x > 0) snprintf(row->line, sizeof(row->line), "%s", c->line);
    row->group = c->group;
    row->family = s->family;
    row->flops = s->flops;
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

/* What a goal is about, from a row that is otherwise complete. False: the row has no such figure.
 */
static bool goal_of(const struct bench_row *row, const struct bench_goal_spec *spec,
                    struct bench_goal *g)
{
    const struct bench_ratio *r = &row->ratio, *share = &row->share;
    memset(g, 0, sizeof(*g));
    g->limit = spec->limit;
    g->at_least = spec->kind != GOAL_RATIO && spec->kind != GOAL_NS;
    g->has_interval = true;
    snprintf(g->name, sizeof(g->name), "%s", spec->name);
    switch (spec->kind) {
    case GOAL_RATIO:
        g->value = r->value, g->lo = r->lo, g->hi = r->hi;
        snprintf(g->text, sizeof(g->text), "ratio <= %.2f", g->limit);
        return row->has_ratio;
    case GOAL_SPEED:
        g->value = 1 / r->value, g->lo = 1 / r->hi, g->hi = 1 / r->lo;
        snprintf(g->text, sizeof(g->text), "speed >= %.2f x %.24s", g->limit, row->versus);
        return row->has_ratio;
    case GOAL_SHARE:
        g->value = share->value, g->lo = share->lo, g->hi = share->hi;
        snprintf(g->text, sizeof(g->text), "share >= %.2f", g->limit);
        return row->has_share && !row->in_cache;
    case GOAL_RATE:
        g->value = bench_row_gflops(row);
        g->lo = row->flops / row->stats.q3;
        g->hi = row->flops / row->stats.q1;
        snprintf(g->text, sizeof(g->text), ">= %.0f GFLOP/s", g->limit);
        return row->flops > 0;
    case GOAL_LINE:
        g->has_interval = false;
        snprintf(g->text, sizeof(g->text), "line / time >= %.2f", g->limit);
        return bench_row_get_value(row, "of_line", &g->value);
    case GOAL_NS:
        break;
    }
    g->has_interval = false;
    g->value = row->stats.median;
    if (g->limit >= 1e6) snprintf(g->text, sizeof(g->text), "<= %.2f ms", g->limit / 1e6);
    else if (g->limit >= 1e3) snprintf(g->text, sizeof(g->text), "<= %.0f us", g->limit / 1e3);
    else snprintf(g->text, sizeof(g->text), "<= %.0f ns", g->limit);
    return true;
}

static void fill_goals(struct bench_row *row, const struct bench_side *s)
{
    struct bench_goal g;
    for (int32_t i = 0; row->stats.n && i < s->n_goals; i++)
        if (goal_of(row, &s->goals[i], &g)) bench_row_goal(row, &g);
}

/* The row that others of a family are compared with: the fastest baseline, or the yardstick. */
static const struct bench_row *reference(const struct bench_case *c, struct bench_row *const *rows,
                                         int32_t family, bool yardstick)
{
    const struct bench_row *best = NULL;
    for (int32_t i = 0; i < c->n_sides; i++) {
        const struct bench_side *s = &c->sides[i];
        if (s->family != family || !rows[i]->stats.n) continue;
        if (!(yardstick ? s->yardstick : s->baseline)) continue;
        if (!best || rows[i]->stats.median < best->stats.median) best = rows[i];
    }
    return best;
}

static bool fill_ratio(struct bench_row *row, const struct bench_row *base, uint64_t seed,
                       struct bench_error *err)
{
    if (!bench_ratio_of(row->samples_ns, base->samples_ns, base->stats.n, seed, &row->ratio))
        return bench_fail(err, BENCH_USAGE, "no memory for the bootstrap");
    row->has_ratio = true;
    snprintf(row->ratio_to, sizeof(row->ratio_to), "%s", base->id);
    return true;
}

/* Rate of the row / rate of the yardstick, in operations if both count them, else in bytes. */
static bool fill_share(struct bench_row *row, const struct bench_row *yard, uint64_t seed,
                       struct bench_error *err)
{
    const bool flops = row->flops > 0 && yard->flops > 0;
    const double work =
        flops ? row->flops / yard->flops : (double)row->bytes_needed / (double)yard->bytes_needed;
    struct bench_ratio *r = &row->share;
    if (!flops && (!row->bytes_needed || !yard->bytes_needed)) return true;
    if (!bench_ratio_of(yard->samples_ns, row->samples_ns, row->stats.n, seed, r))
        return bench_fail(err, BENCH_USAGE, "no memory for the bootstrap");
    r->value *= work;
    r->lo *= work;
    r->hi *= work;
    row->has_share = true;
    snprintf(row->share_to, sizeof(row->share_to), "%s", yard->id);
    return true;
}

/* The line through the family's points, and where each lies. */
static void fill_line(const struct bench_case *c, struct bench_row *const *rows, int32_t family)
{
    double x[CASE_MAX_SIDES], t[CASE_MAX_SIDES];
    int32_t n = 0;
    for (int32_t i = 0; i < c->n_sides; i++) {
        if (c->sides[i].family != family || c->sides[i].line_x <= 0 || !rows[i]->stats.n) continue;
        x[n] = c->sides[i].line_x;
        t[n++] = rows[i]->stats.median;
    }
    if (n < 3) return; /* two points are always in line */
    const struct bench_line line = bench_line_of(x, t, n);
    for (int32_t i = 0; i < c->n_sides; i++) {
        if (c->sides[i].family != family || c->sides[i].line_x <= 0 || !rows[i]->stats.n) continue;
        const double fitted = line.a + line.b * c->sides[i].line_x;
        bench_row_value(rows[i], "line_x", c->sides[i].line_x);
        bench_row_value(rows[i], "line_ns", fitted);
        bench_row_value(rows[i], "line_a_ns", line.a);
        bench_row_value(rows[i], "line_b_ns", line.b);
        bench_row_value(rows[i], "of_line", fitted / rows[i]->stats.median);
    }
}

/* Ratios, shares, lines, and then the goals that are about them. */
static bool fill_relations(struct bench_run *run, const struct bench_case *c,
                           struct bench_row *const *rows, struct bench_error *err)
{
    for (int32_t i = 0; i < c->n_sides; i++) {
        const struct bench_side *s = &c->sides[i];
        const struct bench_row *base = reference(c, rows, s->family, false);
        const struct bench_row *yard = reference(c, rows, s->family, true);
        const uint64_t seed = run->options->seed + (uint64_t)i;
        if (!rows[i]->stats.n) continue;
        if (base && base != rows[i] && !s->no_ratio && !fill_ratio(rows[i], base, seed, err))
            return false;
        if (yard && yard != rows[i] && !fill_share(rows[i], yard, seed, err)) return false;
    }
    for (int32_t i = 0; i < c->n_sides; i++)
        if (i == 0 || c->sides[i].family != c->sides[i - 1].family)
            fill_line(c, rows, c->sides[i].family);
    for (int32_t i = 0; i < c->n_sides; i++) fill_goals(rows[i], &c->sides[i]);
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
           check_sides(c, run, rows, true, err) && fill_relations(run, c, rows, err);
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
