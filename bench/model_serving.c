/* The engine under load, in rows that are not samples of one call: the rows P7, P10, P11 and P13
 * of docs/model.md. */
#include "model_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct serving {
    struct bench_case *c;
    struct bench_run *run;
    pkv_model *model;
    int32_t threads, vocab;
    struct bench_error *err;
};

static bool add_row(struct serving *s, const char *id, const char *label, const char *unit,
                    double value, const struct bench_goal *goal, double goal_value)
{
    const struct bench_options *o = s->run->options;
    struct bench_row *row = bench_report_add(&s->run->report, s->err);
    if (!row) return false;
    row->group = GROUP_ENGINE;
    row->correct.checked = row->correct.ok = true;
    snprintf(row->id, sizeof(row->id), "%s/%s", s->c->id, id);
    snprintf(row->case_id, sizeof(row->case_id), "%s", s->c->id);
    snprintf(row->label, sizeof(row->label), "%s", label);
    snprintf(row->repro, sizeof(row->repro), "pkv-bench model --profile %s --filter %s",
             bench_profile_name(o->profile), s->c->id);
    bench_row_param(row, "unit", "%s", unit);
    bench_row_param(row, "threads", "%d", s->threads);
    bench_row_value(row, "value", value);
    if (!goal || o->profile == PROFILE_CI) return true;
    struct bench_goal g = *goal;
    g.value = goal_value;
    bench_row_goal(row, &g);
    return true;
}

static bool engine_failed(struct serving *s)
{
    return bench_fail(s->err, BENCH_WRONG, "%s: the engine failed", s->c->id);
}

static double seconds(const struct serving *s)
{
    return (double)s->run->clock.now_ns(s->run->clock.ctx) / 1e9;
}

/* ---------------------------------------------------------------- P7 */

/* Of a step, what is neither the pass nor sampling, in us; and sampling. */
struct own_time {
    double own_us, sampling_us, step_us;
};

static bool step_time(struct model_engine *m, struct own_time *out)
{
    pkv_engine_stats before = PKV_ENGINE_STATS_INIT, after = PKV_ENGINE_STATS_INIT;
    if (pkv_engine_get_stats(m->engine, &before) != PKV_OK) return false;
    model_engine_decode(m);
    if (pkv_engine_get_stats(m->engine, &after) != PKV_OK || m->failed) return false;
    out->step_us = 1e6 * (after.step_s - before.step_s);
    out->sampling_us = 1e6 * (after.sampling_s - before.sampling_s);
    out->own_us = out->step_us - out->sampling_us - 1e6 * (after.forward_s - before.forward_s);
    return true;
}

/* Medians over steps: on a busy machine some wait for a processor. */
static bool manager_rows(struct serving *s)
{
    enum { STEPS = 24 };
    static const struct bench_goal us = { "P7", "<= 30 us", 30e3, 0, false, false, 0, 0, false };
    static const struct bench_goal share = { "P7", "share <= 0.03", .03, 0, false, false, 0, 0,
                                             false };
    const struct model_load load = { 64, 16, STEPS + 16 };
    const pkv_engine_config cfg =
        model_engine_config(s->model, &load, s->threads, s->run->options->isa);
    struct model_engine m;
    struct bench_stats own_us, sampling_us, step_us;
    double own[STEPS], sampling[STEPS], steps[STEPS];
    bool ok = true;
    if (!model_engine_create(&cfg, &load, &m, s->err)) return false;
    model_engine_fill(&m);
    for (int i = 0; ok && i < STEPS; i++) {
        struct own_time t = { 0, 0, 0 };
        ok = step_time(&m, &t);
        own[i] = t.own_us, sampling[i] = t.sampling_us, steps[i] = t.step_us;
    }
    model_engine_destroy(&m);
    if (!ok) return engine_failed(s);
    if (!bench_stats_of(own, STEPS, &own_us) || !bench_stats_of(sampling, STEPS, &sampling_us) ||
        !bench_stats_of(steps, STEPS, &step_us))
        return bench_fail(s->err, BENCH_USAGE, "no memory for statistics");
    const double part = own_us.median / step_us.median;
    return add_row(s, "own-time", "engine and manager, per step of 64 sequences", "us",
                   own_us.median, &us, 1e3 * own_us.median) &&
           add_row(s, "own-share", "the same, share of a step", "", part, &share, part) &&
           add_row(s, "sampling", "sampling of 64 greedy rows", "us", sampling_us.median, NULL, 0);
}

/* ---------------------------------------------------------------- P10 */

static void keep_ttft(void *ctx, const pkv_token_event *event)
{
    if (event->result) *(double *)ctx = event->result->ttft_ms;
}

static double ttft_of(pkv_engine *engine, const int32_t *ids, int32_t n)
{
    double ttft_ms = -1;
    pkv_request r = PKV_REQUEST_INIT;
    pkv_request_id id;
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    r.ids = ids;
    r.n_ids = n;
    r.max_new = 2;
    r.ignore_eos = true;
    r.on_token = keep_ttft;
    r.ctx = &ttft_ms;
    if (pkv_engine_submit(engine, &r, &id) != PKV_OK) return -1;
    do {
        if (pkv_engine_step(engine, &report) != PKV_OK) return -1;
    } while (report.n_unfinished > 0);
    return ttft_ms;
}

static bool prefix_rows(struct serving *s)
{
    enum { TOKENS = 2048, ROUNDS = 3 };
    static const struct bench_goal goal = { "P10", "<= 0.05", .05, 0, false, false, 0, 0, false };
    const struct model_load load = { 1, TOKENS, 2 };
    pkv_engine_config cfg = model_engine_config(s->model, &load, s->threads, s->run->options->isa);
    struct bench_rng rng = { 7 };
    double first[ROUNDS], second[ROUNDS];
    pkv_engine *engine = NULL;
    int32_t *ids = bench_calloc(TOKENS, sizeof(*ids), s->err);
    if (!ids) return false;
    cfg.no_prefix_cache = false;
    cfg.n_blocks *= 2;
    cfg.fast = true;
    bool ok = pkv_engine_create(&cfg, &engine) == PKV_OK;
    for (int r = 0; ok && r < ROUNDS; r++) {
        for (int i = 0; i < TOKENS; i++)
            ids[i] = (int32_t)bench_rng_below(&rng, (uint64_t)s->vocab);
        first[r] = ttft_of(engine, ids, TOKENS);
        second[r] = ttft_of(engine, ids, TOKENS);
        ok = first[r] > 0 && second[r] > 0;
    }
    pkv_engine_destroy(engine);
    free(ids);
    if (!ok) return engine_failed(s);
    struct bench_stats a, b;
    if (!bench_stats_of(first, ROUNDS, &a) || !bench_stats_of(second, ROUNDS, &b))
        return bench_fail(s->err, BENCH_USAGE, "no memory for statistics");
    return add_row(s, "first", "first token of a prompt of 2,048, fast", "ms", a.median, NULL, 0) &&
           add_row(s, "second", "of the same prompt again", "ms", b.median, NULL, 0) &&
           add_row(s, "again", "again / first", "", b.median / a.median, &goal,
                   b.median / a.median);
}

/* ---------------------------------------------------------------- P11 */

struct mixed {
    double p99_ms, tokens_per_s;
};

/* Steps of 16 decodes, alone or with prompts of 2,048 one after another, `chunk` tokens a step. */
static bool run_mixed(struct serving *s, int32_t chunk, bool prompts, struct mixed *out)
{
    enum { DECODES = 16, STEPS = 96, TOKENS = 2048 };
    const struct model_load load = { DECODES, 16, STEPS + 32 };
    pkv_engine_config cfg = model_engine_config(s->model, &load, s->threads, s->run->options->isa);
    static const int32_t ids[TOKENS] = { 1, 2, 3 };
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    pkv_request r = PKV_REQUEST_INIT;
    pkv_request_id id;
    struct model_engine m;
    struct bench_stats stats;
    double ms[STEPS], total = 0;
    cfg.max_context = TOKENS + 8;
    cfg.max_batch_tokens = DECODES * 16;
    cfg.chunk_tokens = chunk;
    cfg.max_seqs = DECODES + 1;
    cfg.n_blocks += 2 * TOKENS / 16;
    cfg.fast = true;
    r.ids = ids;
    r.n_ids = TOKENS;
    r.max_new = 1;
    if (!model_engine_create(&cfg, &load, &m, s->err)) return false;
    model_engine_fill(&m);
    for (int i = 0; !m.failed && i < STEPS; i++) {
        if (prompts && report.n_unfinished <= DECODES &&
            pkv_engine_submit(m.engine, &r, &id) != PKV_OK)
            m.failed = true;
        const double start = seconds(s);
        if (pkv_engine_step(m.engine, &report) != PKV_OK) m.failed = true;
        ms[i] = 1e3 * (seconds(s) - start);
        total += ms[i] / 1e3;
    }
    const bool ok = !m.failed;
    model_engine_destroy(&m);
    if (!ok) return engine_failed(s);
    if (!bench_stats_of(ms, STEPS, &stats))
        return bench_fail(s->err, BENCH_USAGE, "no memory for statistics");
    *out = (struct mixed){ stats.p99, DECODES * STEPS / total };
    return true;
}

static bool mixed_rows(struct serving *s)
{
    static const struct bench_goal itl = { "P11", "<= 2", 2, 0, false, false, 0, 0, false };
    static const struct bench_goal rate = { "P11", ">= 0.95", .95, 0, true, false, 0, 0, false };
    static const int32_t chunks[] = { 128, 16 };
    for (int i = 0; i < BENCH_LEN(chunks); i++) {
        struct mixed alone, with;
        char id[48], label[72];
        if (!run_mixed(s, chunks[i], false, &alone) || !run_mixed(s, chunks[i], true, &with))
            return false;
        const double itl_ratio = with.p99_ms / alone.p99_ms;
        const double rate_ratio = with.tokens_per_s / alone.tokens_per_s;
        snprintf(id, sizeof(id), "itl-chunk-%d", chunks[i]);
        snprintf(label, sizeof(label), "p99 between tokens, prompts in chunks of %d / alone",
                 chunks[i]);
        if (!add_row(s, id, label, "", itl_ratio, &itl, itl_ratio)) return false;
        snprintf(id, sizeof(id), "rate-chunk-%d", chunks[i]);
        snprintf(label, sizeof(label), "decoded tokens/s, the same / alone");
        if (!add_row(s, id, label, "", rate_ratio, &rate, rate_ratio)) return false;
    }
    return true;
}

/* ---------------------------------------------------------------- P13 */

/* Output tokens a second of 48 requests with a pool of `n_blocks`; all have to finish. */
static bool run_pool(struct serving *s, int32_t n_blocks, double *out)
{
    enum { REQUESTS = 48 };
    const struct model_load load = { REQUESTS, 64, 64 };
    pkv_engine_config cfg = model_engine_config(s->model, &load, s->threads, s->run->options->isa);
    pkv_engine_stats stats = PKV_ENGINE_STATS_INIT;
    struct model_engine m;
    cfg.n_blocks = n_blocks;
    cfg.swap_bytes = (size_t)64 << 20;
    cfg.chunk_tokens = 128;
    cfg.max_batch_tokens = 512;
    if (!model_engine_create(&cfg, &load, &m, s->err)) return false;
    const double start = seconds(s);
    model_engine_load(&m);
    model_engine_drain(&m);
    *out = REQUESTS * load.n_new / (seconds(s) - start);
    const bool ok =
        !m.failed && pkv_engine_get_stats(m.engine, &stats) == PKV_OK &&
        stats.n_finished[PKV_FINISH_LENGTH] + stats.n_finished[PKV_FINISH_CONTEXT] == REQUESTS &&
        pkv_engine_check(m.engine) == PKV_OK;
    model_engine_destroy(&m);
    return ok || engine_failed(s);
}

static bool pool_rows(struct serving *s)
{
    static const struct bench_goal goal = { "P13", ">= 0.85", .85, 0, true, false, 0, 0, false };
    const int32_t each = (64 + 64 - 1 + 15) / 16;
    double fits, half;
    return run_pool(s, 1 + 48 * each, &fits) && run_pool(s, 1 + 24 * each, &half) &&
           add_row(s, "fits", "48 requests, a pool that fits", "tokens/s", fits, NULL, 0) &&
           add_row(s, "half", "the same, half of that pool / fits", "", half / fits, &goal,
                   half / fits);
}

/* ---------------------------------------------------------------- the cases */

static bool run_serving(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    bool (*const rows)(struct serving * s) = *(bool (**)(struct serving *))c->ctx;
    const struct model_size size = model_size_small(run->options, 4096);
    struct serving s = { c, run, NULL, run->threads, size.shape.vocab, err };
    if (!model_random(&size.shape, PKV_F32, &s.model, err))
        return err->code == BENCH_SKIP && bench_report_skip(&run->report, c->id, err->text, err);
    const bool ok = rows(&s);
    pkv_model_close(s.model);
    return ok ||
           (err->code == BENCH_SKIP && bench_report_skip(&run->report, c->id, err->text, err));
}

static bool new_case(const struct bench_options *o, struct case_list *list, const char *id,
                     bool (*rows)(struct serving *), struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    bool (**kept)(struct serving *) = c ? bench_calloc(1, sizeof(*kept), err) : NULL;
    if (!kept) return false;
    *kept = rows;
    c->ctx = kept;
    c->group = GROUP_ENGINE;
    c->run_untimed = run_serving;
    snprintf(c->id, sizeof(c->id), "model/%s/%s", model_size_small(o, 1).name, id);
    return true;
}

bool model_serving_cases(const struct bench_options *o, struct case_list *list,
                         struct bench_error *err)
{
    return new_case(o, list, "steps", manager_rows, err) &&
           (o->profile == PROFILE_QUICK || (new_case(o, list, "same-prompt", prefix_rows, err) &&
                                            new_case(o, list, "prompts-arrive", mixed_rows, err) &&
                                            new_case(o, list, "small-pool", pool_rows, err)));
}
