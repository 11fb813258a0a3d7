/* JSON as bench/schema.json describes it: the machine, the run, and every sample. Unknown is null.
 */
#include "outputs.h"

#include "published.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

#ifndef BENCH_COMPILER
#define BENCH_COMPILER "unknown"
#endif
#ifndef BENCH_FLAGS
#define BENCH_FLAGS ""
#endif
#ifndef BENCH_BUILD_TYPE
#define BENCH_BUILD_TYPE "unknown"
#endif
#ifndef BENCH_COMMIT
#define BENCH_COMMIT ""
#endif
#ifndef BENCH_DIRTY
#define BENCH_DIRTY -1
#endif

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}
static json_t *real_or_null(double value, bool known)
{
    return known && isfinite(value) ? json_real(value) : json_null();
}
static json_t *int_or_null(int64_t value, bool known)
{
    return known ? json_integer(value) : json_null();
}

static json_t *tool_json(void)
{
    return json_pack("{s:s, s:o, s:o, s:s, s:s, s:s}", "version", pkv_version(), "commit",
                     text_or_null(BENCH_COMMIT), "dirty",
                     BENCH_DIRTY < 0 ? json_null() : json_boolean(BENCH_DIRTY), "compiler",
                     BENCH_COMPILER, "flags", BENCH_FLAGS, "build_type", BENCH_BUILD_TYPE);
}

static json_t *caches_json(const struct machine_info *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_caches; i++)
        json_array_append_new(list,
                              json_pack("{s:i, s:s, s:I, s:i}", "level", m->caches[i].level, "type",
                                        m->caches[i].type, "bytes", (json_int_t)m->caches[i].bytes,
                                        "count", m->caches[i].n));
    return list;
}

static json_t *curve_json(const struct machine_info *m)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < m->n_curve; i++)
        json_array_append_new(list, json_pack("{s:I, s:f}", "bytes", (json_int_t)m->curve[i].bytes,
                                              "read_gbs", m->curve[i].read_gbs));
    return list;
}

static json_t *machine_json(const struct machine_info *m)
{
    json_t *o = json_object();
    json_object_set_new(o, "cpu", text_or_null(m->cpu));
    json_object_set_new(o, "sockets", int_or_null(m->sockets, m->sockets > 0));
    json_object_set_new(o, "cores_used", json_integer(m->threads > 1 ? m->threads : 1));
    json_object_set_new(o, "cores", int_or_null(m->cores, m->cores > 0));
    json_object_set_new(o, "smt", m->smt < 0 ? json_null() : json_boolean(m->smt));
    json_object_set_new(o, "governor", text_or_null(m->governor));
    json_object_set_new(o, "freq_khz", int_or_null(m->freq_khz, m->freq_khz > 0));
    json_object_set_new(o, "virtualised", text_or_null(m->hypervisor));
    json_object_set_new(o, "caches", caches_json(m));
    json_object_set_new(o, "llc_bytes", json_integer(m->llc_bytes));
    json_object_set_new(o, "numa", int_or_null(m->numa_nodes, m->numa_nodes > 0));
    json_object_set_new(o, "ram", int_or_null(m->ram_bytes, m->ram_bytes > 0));
    json_object_set_new(o, "huge_pages", text_or_null(m->huge_pages));
    json_object_set_new(o, "kernel", text_or_null(m->kernel));
    json_object_set_new(o, "isa_level", json_string(pkv_isa_name(m->isa)));
    json_object_set_new(o, "timer_ns", json_real(m->timer_cost_ns));
    json_object_set_new(o, "read_gbs", real_or_null(m->read_gbs, m->read_gbs > 0));
    json_object_set_new(o, "read_in_cache",
                        m->read_gbs > 0 ? json_boolean(m->read_in_cache) : json_null());
    json_object_set_new(o, "read_kernel", text_or_null(m->read_kernel));
    json_object_set_new(o, "copy_gbs", real_or_null(m->copy_gbs, m->copy_gbs > 0));
    json_object_set_new(o, "read_curve", curve_json(m));
    json_object_set_new(o, "gpu", json_null());
    return o;
}

static json_t *aa_json(const struct bench_report *r)
{
    if (!r->has_aa) return json_null();
    return json_pack("{s:f, s:f, s:f, s:b, s:{s:f, s:f, s:f}}", "ratio", r->aa_first.value, "lo",
                     r->aa_first.lo, "hi", r->aa_first.hi, "noisy", r->noisy, "last", "ratio",
                     r->aa_last.value, "lo", r->aa_last.lo, "hi", r->aa_last.hi);
}

static json_t *run_json(const struct bench_report *r)
{
    return json_pack("{s:s, s:s, s:I, s:s, s:f, s:o, s:I, s:o}", "argv", r->command, "profile",
                     r->profile, "seed", (json_int_t)r->seed, "started_utc", r->started_utc,
                     "wall_s", r->wall_s, "peak_rss_bytes",
                     int_or_null(r->peak_rss_bytes, r->peak_rss_bytes > 0), "interrupted",
                     (json_int_t)r->preempted, "aa", aa_json(r));
}

static json_t *correct_json(const struct bench_correct *c)
{
    if (!c->checked) return json_null();
    json_t *o = json_object();
    json_object_set_new(o, "ok", json_boolean(c->ok));
    json_object_set_new(o, "max_abs", real_or_null(c->max_abs, c->has_errors));
    json_object_set_new(o, "max_rel", real_or_null(c->max_rel, c->has_errors));
    json_object_set_new(o, "bound_used", real_or_null(c->bound_used, c->has_errors));
    json_object_set_new(o, "renamed_equal",
                        c->renamed_equal < 0 ? json_null() : json_boolean(c->renamed_equal));
    json_object_set_new(o, "text", text_or_null(c->text));
    return o;
}

static json_t *stats_json(const struct bench_stats *s)
{
    if (s->n == 0) return json_null();
    return json_pack("{s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "n", s->n, "min", s->min,
                     "q1", s->q1, "median", s->median, "q3", s->q3, "p90", s->p90, "p95", s->p95,
                     "p99", s->p99, "max", s->max);
}

static json_t *goals_json(const struct bench_row *r)
{
    json_t *list = json_array();
    for (int32_t i = 0; i < r->n_goals; i++) {
        const struct bench_goal *g = &r->goals[i];
        json_array_append_new(list, json_pack("{s:o, s:s, s:f, s:f, s:b, s:o, s:o, s:b}", "name",
                                              text_or_null(g->name), "text", g->text, "limit",
                                              g->limit, "value", g->value, "at_least", g->at_least,
                                              "lo", real_or_null(g->lo, g->has_interval), "hi",
                                              real_or_null(g->hi, g->has_interval), "met", g->met));
    }
    return list;
}

/* A ratio or a share. */
static json_t *relation_json(bool known, const char *to, const struct bench_ratio *r)
{
    if (!known) return json_null();
    return json_pack("{s:s, s:f, s:f, s:f, s:i}", "to", to, "value", r->value, "lo", r->lo, "hi",
                     r->hi, "pairs", r->pairs);
}

static json_t *row_json(const struct bench_report *report, const struct bench_row *r)
{
    json_t *o = json_object(), *params = json_object(), *values = json_object();
    json_t *samples = json_array();
    double share = 0;
    const bool has_share = bench_row_share(report, r, &share);
    for (int32_t i = 0; i < r->n_params; i++)
        json_object_set_new(params, r->params[i].name, json_string(r->params[i].value));
    for (int32_t i = 0; i < r->n_values; i++)
        json_object_set_new(values, r->values[i].name, real_or_null(r->values[i].value, true));
    for (int32_t i = 0; i < r->stats.n; i++)
        json_array_append_new(samples, json_real(r->samples_ns[i]));
    json_object_set_new(o, "id", json_string(r->id));
    json_object_set_new(o, "level", json_string(bench_group_name(r->group)));
    json_object_set_new(o, "label", json_string(r->label));
    json_object_set_new(o, "params", params);
    json_object_set_new(o, "layout", text_or_null(r->layout));
    json_object_set_new(o, "correct", correct_json(&r->correct));
    json_object_set_new(o, "bytes_needed", int_or_null(r->bytes_needed, r->bytes_needed > 0));
    json_object_set_new(o, "bytes_distinct", int_or_null(r->bytes_distinct, r->bytes_distinct > 0));
    json_object_set_new(o, "in_cache", r->bytes_needed ? json_boolean(r->in_cache) : json_null());
    json_object_set_new(o, "samples_ns", samples);
    json_object_set_new(o, "stats", stats_json(&r->stats));
    json_object_set_new(o, "gb_per_s",
                        real_or_null(bench_row_gbs(r), r->bytes_needed && r->stats.n));
    json_object_set_new(o, "share_of_read", real_or_null(share, has_share));
    json_object_set_new(o, "values", values);
    json_object_set_new(o, "gflop_per_s",
                        real_or_null(bench_row_gflops(r), r->flops > 0 && r->stats.n));
    json_object_set_new(o, "ratio", relation_json(r->has_ratio, r->ratio_to, &r->ratio));
    json_object_set_new(o, "share", relation_json(r->has_share, r->share_to, &r->share));
    json_object_set_new(o, "goals", goals_json(r));
    json_object_set_new(o, "published", text_or_null(r->published));
    json_object_set_new(o, "note", text_or_null(r->note));
    json_object_set_new(o, "repro", json_string(r->repro));
    return o;
}

static json_t *published_json(void)
{
    json_t *list = json_array();
    const struct published_figure *f;
    for (int i = 0; (f = published_figure(i)) != NULL; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s, s:s, s:s}", "what", f->what, "value", f->value,
                                        "hardware", f->hardware, "source", f->source));
    return list;
}

bool out_json(const struct bench_report *report, FILE *out)
{
    json_t *root = json_object(), *cases = json_array(), *skipped = json_array();
    for (int32_t i = 0; i < report->n_rows; i++)
        json_array_append_new(cases, row_json(report, report->rows[i]));
    for (int32_t i = 0; i < report->n_skips; i++)
        json_array_append_new(skipped, json_pack("{s:s, s:s}", "id", report->skips[i].id, "reason",
                                                 report->skips[i].reason));
    json_object_set_new(root, "schema", json_integer(2));
    json_object_set_new(root, "tool", tool_json());
    json_object_set_new(root, "machine", machine_json(&report->machine));
    json_object_set_new(root, "run", run_json(report));
    json_object_set_new(root, "cases", cases);
    json_object_set_new(root, "skipped", skipped);
    json_object_set_new(root, "published", published_json());
    const bool ok = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;
    json_decref(root);
    fputc('\n', out);
    return ok;
}
