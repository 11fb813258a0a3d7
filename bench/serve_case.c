/* Rounds of plays, and the comparison of what came out. */
#include "serve_case.h"

#include "serve_model.h"
#include "serve_play.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK_TOKENS 16
/* Goodput of an open loop: delays within so many times those of a request alone, as their medians
 * over a few requests are. */
#define GOOD_TTFT 10
#define GOOD_TPOT 5
#define FEW 8

/* What all sides share, and what each of them has given so far. */
struct serve_run {
    const struct bench_case *c;
    const struct serve_spec_case *spec;
    struct bench_run *run;
    pkv_model *model;
    pkv_model_info info;
    struct serve_load load;
    double slo_ttft_ms, slo_tpot_ms; /* of goodput; 0: none */
    int64_t demand;                  /* tokens of the blocks in use at most where all fit */
    int32_t *ids;                    /* [load.n_output] of the first play */
    struct serve_totals totals[SERVE_MAX_SIDES];
    struct serve_delays delays[SERVE_MAX_SIDES][3];
    struct bench_correct correct[SERVE_MAX_SIDES];
    struct bench_error *err;
};

/* Tokens of the blocks that all requests take at their longest. They do not take them at once:
 * short ones have ended when long ones are at their longest. */
static int64_t longest_of_all(const struct serve_load *load)
{
    int64_t blocks = 0;
    for (int32_t i = 0; i < load->n; i++) {
        const pkv_sim_request *r = &load->reqs[i];
        blocks += (r->prompt_tokens + r->output_tokens - 1 + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    }
    return blocks * BLOCK_TOKENS;
}

static pkv_engine_config serve_config(const struct serve_run *s, const struct serve_side *side)
{
    const struct serve_spec_case *spec = s->spec;
    pkv_engine_config cfg = PKV_ENGINE_CONFIG_INIT;
    const int64_t token = serve_model_token_bytes(&s->info);
    const int32_t percent = side->pool_percent ? side->pool_percent : 100;
    int64_t tokens = spec->pool_tokens;
    size_t bytes = spec->kv_bytes;
    if (tokens < 0) tokens = -tokens * s->load.context;
    if (spec->pool_of_demand) tokens = side->baseline ? longest_of_all(&s->load) : s->demand;
    /* Behind the null block. */
    if (tokens > 0) bytes = (size_t)((tokens * percent / 100 + BLOCK_TOKENS) * token);
    cfg.model = s->model;
    cfg.kv_dtype = PKV_F16;
    cfg.block_tokens = BLOCK_TOKENS;
    cfg.kv_bytes = bytes;
    cfg.swap_bytes = spec->swap_bytes;
    cfg.max_seqs = spec->max_seqs;
    cfg.max_batch_tokens = spec->max_seqs > 512 ? spec->max_seqs : 512;
    cfg.chunk_tokens = spec->chunk_tokens;
    cfg.max_context = s->load.context;
    cfg.preempt = side->preempt;
    cfg.placement = side->placement;
    cfg.no_prefix_cache = side->no_prefix_cache;
    cfg.n_threads = s->run->threads;
    cfg.isa = s->run->options->isa;
    cfg.slo_ttft_ms = s->slo_ttft_ms;
    cfg.slo_tpot_ms = s->slo_tpot_ms;
    return cfg;
}

/* ---------------------------------------------------------------- what a play adds */

static void mark_wrong(struct serve_run *s, int32_t i, const char *text)
{
    struct bench_correct *c = &s->correct[i];
    if (!c->ok) return;
    c->ok = false;
    snprintf(c->text, sizeof(c->text), "%.150s", text);
    s->run->report.wrong = true;
}

/* Where the ids are not those of the first play: which request. */
static void compare_ids(struct serve_run *s, int32_t side, const struct serve_result *r)
{
    int64_t at = 0;
    for (int32_t i = 0; i < s->load.n; i++) {
        const int64_t n = (int64_t)s->load.reqs[i].output_tokens * s->load.spec.n_samples;
        for (int64_t k = 0; k < n; k++) {
            char text[120];
            if (r->ids[at + k] == s->ids[at + k]) continue;
            snprintf(text, sizeof(text), "token %lld of request %d is %d, with %s it is %d",
                     (long long)k, i, r->ids[at + k], s->spec->sides[0].label, s->ids[at + k]);
            mark_wrong(s, side, text);
            return;
        }
        at += n;
    }
}

static void add_play(struct serve_run *s, int32_t side, struct serve_result *r)
{
    struct serve_totals *t = &s->totals[side];
    const pkv_engine_stats *e = &r->stats;
    const double own_s = e->step_s - e->forward_s - e->sampling_s;
    const bool repeat = s->spec->kind == SERVE_REPEAT;
    t->ns[t->n++] =
        repeat ? r->ttft.ms[side == 0 ? 1 : 0] * 1e6 : r->wall_s * 1e9 / (double)r->n_ids;
    t->wall_s += r->wall_s;
    t->mean_seqs += e->mean_seqs;
    t->mean_queued += r->mean_queued;
    t->n_queued += r->n_full > 0;
    t->slots_filled += e->slots_filled;
    t->slo_ttft_ms = s->slo_ttft_ms;
    t->slo_tpot_ms = s->slo_tpot_ms;
    t->goodput += (double)r->n_good / r->wall_s;
    t->slo_met += (double)r->n_good / s->load.n;
    t->steps += (double)e->n_steps;
    t->swaps += (double)e->n_preempt_swap;
    t->recomputes += (double)e->n_preempt_recompute;
    t->recomputed += (double)e->n_recomputed_tokens;
    t->cached += (double)e->n_cached_tokens;
    t->engine_us += own_s * 1e6 / (double)e->n_steps;
    t->engine_share += own_s / e->step_s;
    t->attention_share += e->attention_s / e->step_s;
    t->sampling_share += e->sampling_s / e->step_s;
    t->n_blocks = e->n_blocks;
    if (e->peak_seqs > t->peak_seqs) t->peak_seqs = e->peak_seqs;
}

/* Sums become means, delays percentiles. */
static void close_totals(struct serve_run *s, int32_t side)
{
    struct serve_totals *t = &s->totals[side];
    double *const sums[] = { &t->wall_s,          &t->mean_seqs,     &t->slots_filled,
                             &t->goodput,         &t->slo_met,       &t->steps,
                             &t->swaps,           &t->recomputes,    &t->recomputed,
                             &t->cached,          &t->engine_us,     &t->engine_share,
                             &t->attention_share, &t->sampling_share };
    for (int i = 0; t->n > 0 && i < BENCH_LEN(sums); i++) *sums[i] /= t->n;
    t->mean_queued = t->n_queued > 0 ? t->mean_queued / t->n_queued : NAN;
    for (int k = 0; k < 3; k++) {
        t->delays_ms[2 * k] = serve_delays_at(&s->delays[side][k], 0.50);
        t->delays_ms[2 * k + 1] = serve_delays_at(&s->delays[side][k], 0.99);
    }
}

static bool keep_delays(struct serve_run *s, int32_t side, const struct serve_result *r)
{
    const struct serve_delays *const from[] = { &r->ttft, &r->tpot, &r->itl };
    for (int k = 0; k < 3; k++)
        if (!serve_delays_join(&s->delays[side][k], from[k]))
            return bench_fail(s->err, BENCH_USAGE, "no memory for delays");
    return true;
}

/* ---------------------------------------------------------------- plays */

/* A side that cannot be made is skipped, one that fails is wrong; the others go on. */
static bool outlive(struct serve_run *s, int32_t side)
{
    char id[128];
    if (s->err->code == BENCH_WRONG) {
        mark_wrong(s, side, s->err->text);
        return true;
    }
    if (s->err->code != BENCH_SKIP) return false;
    if (s->totals[side].n < 0) return true; /* said before */
    s->totals[side].n = -1;
    snprintf(id, sizeof(id), "%.60s/%.40s", s->c->id, s->spec->sides[side].id);
    return bench_report_skip(&s->run->report, id, s->err->text, s->err);
}

/* Both sides of SERVE_REPEAT from one play. The second answer is the first, bit for bit. */
static bool play_repeat(struct serve_run *s)
{
    const pkv_engine_config cfg = serve_config(s, &s->spec->sides[0]);
    struct serve_result r;
    if (!s->correct[0].ok) return true;
    if (!serve_play(&s->load, &cfg, &s->run->clock, &r, s->err)) return outlive(s, 0);
    const int64_t n = r.n_ids / 2;
    if (s->run->options->self_test == SELF_TEST_WRONG) r.ids[0] ^= 1;
    if (memcmp(r.ids, r.ids + n, (size_t)n * sizeof(*r.ids)) != 0)
        mark_wrong(s, 0, "the second answer is not the first");
    add_play(s, 0, &r);
    add_play(s, 1, &r);
    serve_result_free(&r);
    return true;
}

static bool play_side(struct serve_run *s, int32_t i)
{
    const pkv_engine_config cfg = serve_config(s, &s->spec->sides[i]);
    struct serve_result r;
    if (s->totals[i].n < 0 || !s->correct[i].ok) return true;
    if (!serve_play(&s->load, &cfg, &s->run->clock, &r, s->err)) return outlive(s, i);
    if (s->run->options->self_test == SELF_TEST_WRONG && i == s->spec->n_sides - 1) r.ids[0] ^= 1;
    if (!s->ids) {
        s->ids = r.ids;
        r.ids = NULL;
    } else {
        compare_ids(s, i, &r);
    }
    add_play(s, i, &r);
    const bool ok = keep_delays(s, i, &r);
    serve_result_free(&r);
    return ok;
}

static bool play_rounds(struct serve_run *s)
{
    const int32_t n = s->spec->n_sides;
    if (s->spec->kind == SERVE_REPEAT) {
        for (int32_t round = 0; round < s->spec->rounds; round++)
            if (!play_repeat(s)) return false;
        return true;
    }
    for (int32_t round = 0; round < s->spec->rounds; round++)
        for (int32_t k = 0; k < n; k++)
            if (!play_side(s, round % 2 == 0 ? k : n - 1 - k)) return false;
    return true;
}

/* How fast the baseline is when everything is there at once decides the arrivals of all, and its
 * delays with one request at a time decide what is good: both of this machine, now. */
static bool calibrate(struct serve_run *s, const struct serve_side *baseline)
{
    const pkv_engine_config cfg = serve_config(s, baseline);
    struct serve_load few = s->load;
    struct serve_result r;
    if (!serve_play(&s->load, &cfg, &s->run->clock, &r, s->err)) return false;
    const double rate = s->load.n / r.wall_s;
    serve_result_free(&r);
    few.n = few.n < FEW ? few.n : FEW;
    few.n_output = 0;
    for (int32_t i = 0; i < few.n; i++)
        few.n_output += (int64_t)few.reqs[i].output_tokens * few.spec.n_samples;
    few.spec.concurrency = 1;
    if (!serve_play(&few, &cfg, &s->run->clock, &r, s->err)) return false;
    s->slo_ttft_ms = GOOD_TTFT * serve_delays_at(&r.ttft, 0.5);
    if (r.tpot.n > 0) s->slo_tpot_ms = GOOD_TPOT * serve_delays_at(&r.tpot, 0.5);
    serve_result_free(&r);
    return serve_load_arrive(&s->load, s->spec->rate_factor * rate, s->err);
}

/* What the requests have in use at most when all of them fit. */
static bool find_demand(struct serve_run *s, const struct serve_side *baseline)
{
    const pkv_engine_config cfg = serve_config(s, baseline);
    struct serve_result r;
    if (!serve_play(&s->load, &cfg, &s->run->clock, &r, s->err)) return false;
    s->demand = (int64_t)r.stats.peak_blocks_used * BLOCK_TOKENS;
    serve_result_free(&r);
    return true;
}

/* What the case takes from a play of its baseline, before the rounds. */
static bool prepare(struct serve_run *s)
{
    const struct serve_side *baseline = NULL;
    for (int32_t i = 0; i < s->spec->n_sides; i++)
        if (s->spec->sides[i].baseline) baseline = &s->spec->sides[i];
    if (baseline && s->spec->kind == SERVE_RATE) return calibrate(s, baseline);
    if (baseline && s->spec->pool_of_demand) return find_demand(s, baseline);
    return true;
}

/* ---------------------------------------------------------------- the case */

static bool begin(struct serve_run *s)
{
    const struct serve_spec_case *spec = s->spec;
    s->slo_ttft_ms = spec->slo_ttft_ms;
    s->slo_tpot_ms = spec->slo_tpot_ms;
    s->info = (pkv_model_info)PKV_MODEL_INFO_INIT;
    if (!serve_load_make(&spec->load, &s->load, s->err) ||
        !serve_model_open(spec->model, s->load.context, &s->model, s->err))
        return false;
    if (pkv_model_get_info(s->model, &s->info) != PKV_OK)
        return bench_fail(s->err, BENCH_USAGE, "%s: no information", spec->model);
    if (s->info.context < s->load.context)
        return bench_fail(s->err, BENCH_USAGE,
                          "lengths of up to %d tokens, but %.100s takes %d: --scale %d makes them "
                          "fit, --max-context cuts them",
                          s->load.context, spec->model, s->info.context,
                          (s->load.context + s->info.context - 1) / s->info.context *
                              spec->load.scale);
    for (int32_t i = 0; i < spec->n_sides; i++) {
        s->correct[i] = (struct bench_correct){ .checked = true, .ok = true, .renamed_equal = -1 };
        s->totals[i].ns = bench_calloc((size_t)spec->rounds, sizeof(double), s->err);
        if (!s->totals[i].ns) return false;
    }
    return true;
}

static void end(struct serve_run *s)
{
    for (int32_t i = 0; i < SERVE_MAX_SIDES; i++) {
        free(s->totals[i].ns);
        for (int k = 0; k < 3; k++) serve_delays_free(&s->delays[i][k]);
    }
    free(s->ids);
    serve_load_free(&s->load);
    pkv_model_close(s->model);
}

bool serve_case_run(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct serve_run s = { .c = c, .spec = c->ctx, .run = run, .err = err };
    bool ok = begin(&s);
    ok = ok && prepare(&s) && play_rounds(&s);
    for (int32_t i = 0; ok && i < s.spec->n_sides; i++) close_totals(&s, i);
    ok = ok && serve_case_rows(c, run, &s.load, s.totals, s.correct, err);
    end(&s);
    if (!ok && err->code == BENCH_SKIP)
        return bench_report_skip(&run->report, c->id, err->text, err);
    return ok;
}
