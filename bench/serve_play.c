/* Submits what is due, steps, and notes what comes. Everything is allocated before the clock
 * starts.
 */
#include "serve_play.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---------------------------------------------------------------- delays */

static bool delays_room(struct serve_delays *d, int64_t more, struct bench_error *err)
{
    d->n = 0;
    d->cap = (int32_t)more;
    d->ms = bench_calloc((size_t)(more > 0 ? more : 1), sizeof(*d->ms), err);
    return d->ms != NULL;
}

static void delays_add(struct serve_delays *d, double ms)
{
    if (d->n < d->cap) d->ms[d->n++] = ms;
}

void serve_delays_free(struct serve_delays *d)
{
    free(d->ms);
    memset(d, 0, sizeof(*d));
}

bool serve_delays_join(struct serve_delays *d, const struct serve_delays *from)
{
    double *ms = realloc(d->ms, ((size_t)d->n + (size_t)from->n + 1) * sizeof(*ms));
    if (!ms) return false;
    memcpy(ms + d->n, from->ms, (size_t)from->n * sizeof(*ms));
    d->ms = ms;
    d->n += from->n;
    d->cap = d->n;
    return true;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double serve_delays_at(struct serve_delays *d, double p)
{
    if (d->n == 0) return NAN;
    qsort(d->ms, (size_t)d->n, sizeof(*d->ms), compare);
    const double at = p * (d->n - 1);
    const int32_t i = (int32_t)at;
    return i >= d->n - 1 ? d->ms[d->n - 1] : d->ms[i] + (at - i) * (d->ms[i + 1] - d->ms[i]);
}

/* ---------------------------------------------------------------- a play */

struct player;

/* What one request has been given. */
struct heard {
    struct player *p;
    int32_t idx;
    int64_t first_id; /* of its ids in the result */
};

struct player {
    const struct serve_load *load;
    const pkv_engine_config *cfg;
    struct bench_clock clock;
    pkv_engine *engine;
    struct serve_result *r;
    struct heard *heard; /* [n] */
    int32_t *n_got;      /* [n][n_samples] tokens so far */
    uint64_t *last_ns;   /* [n][n_samples] when the last of them came */
    int32_t *prompt;     /* [longest] */
    int32_t vocab, n_submitted, n_ended;
    uint64_t start_ns;
    bool failed; /* a token too many, or an end that is none of ours */
    char log[240];
};

static uint64_t now(const struct player *p)
{
    return p->clock.now_ns(p->clock.ctx);
}

static void keep_text(void *ctx, pkv_log_level level, const char *text)
{
    struct player *p = ctx;
    if (level == PKV_LOG_ERROR) snprintf(p->log, sizeof(p->log), "%s", text);
}

static void end_request(struct player *p, const pkv_request_result *result)
{
    const double ttft = p->cfg->slo_ttft_ms, tpot = p->cfg->slo_tpot_ms;
    delays_add(&p->r->ttft, result->ttft_ms);
    if (!isnan(result->tpot_ms)) delays_add(&p->r->tpot, result->tpot_ms);
    p->r->n_good += (ttft <= 0 || result->ttft_ms <= ttft) &&
                    (tpot <= 0 || isnan(result->tpot_ms) || result->tpot_ms <= tpot);
    p->n_ended++;
}

static void on_token(void *ctx, const pkv_token_event *event)
{
    const struct heard *h = ctx;
    struct player *p = h->p;
    const int32_t n_new = p->load->reqs[h->idx].output_tokens;
    const int64_t at = (int64_t)h->idx * p->load->spec.n_samples + event->sample;
    const uint64_t t = now(p);
    if (event->token < 0 || p->n_got[at] == n_new) {
        p->failed = true;
    } else {
        p->r->ids[h->first_id + (int64_t)event->sample * n_new + p->n_got[at]] = event->token;
        if (p->n_got[at]++ > 0) delays_add(&p->r->itl, (double)(t - p->last_ns[at]) * 1e-6);
        p->last_ns[at] = t;
    }
    if (event->finish != PKV_FINISH_NONE)
        p->failed = p->failed || event->finish > PKV_FINISH_CONTEXT || p->n_got[at] != n_new;
    if (event->result) end_request(p, event->result);
}

static bool submit(struct player *p, struct bench_error *err)
{
    const struct serve_load *load = p->load;
    const int32_t i = p->n_submitted++;
    pkv_request request = PKV_REQUEST_INIT;
    pkv_request_id id;
    serve_load_prompt(load, i, p->vocab, p->prompt);
    request.ids = p->prompt;
    request.n_ids = load->reqs[i].prompt_tokens;
    request.max_new = load->reqs[i].output_tokens;
    request.n = load->spec.n_samples;
    if (request.n > 1) { /* greedy samples of one prompt would be one and the same */
        request.sampling.temperature = 1;
        request.sampling.seed = load->spec.seed + (uint64_t)i;
    }
    request.ignore_eos = true;
    request.arrival_ns =
        load->spec.concurrency > 0 ? now(p) : p->start_ns + (uint64_t)load->reqs[i].arrival_ns;
    request.on_token = on_token;
    request.ctx = &p->heard[i];
    const pkv_status status = pkv_engine_submit(p->engine, &request, &id);
    if (status == PKV_OK) return true;
    return bench_fail(err,
                      status == PKV_E_NEVER || status == PKV_E_LIMIT ? BENCH_USAGE : BENCH_WRONG,
                      "request %d of %d + %d tokens: %s: %s", i, request.n_ids, request.max_new,
                      pkv_status_name(status), p->log);
}

/* Those that may be in now: all of an open loop, so many of a closed one. */
static bool submit_due(struct player *p, struct bench_error *err)
{
    const int32_t most = p->load->spec.concurrency;
    while (p->n_submitted < p->load->n && (most == 0 || p->n_submitted - p->n_ended < most))
        if (!submit(p, err)) return false;
    return true;
}

static void sleep_until(const struct player *p, uint64_t when)
{
    const uint64_t t = now(p);
    if (when <= t) return;
    const struct timespec rest = { (time_t)((when - t) / 1000000000u),
                                   (long)((when - t) % 1000000000u) };
    nanosleep(&rest, NULL); /* woken early, the loop asks again */
}

static bool run(struct player *p, struct bench_error *err)
{
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    double queued = 0;
    p->start_ns = now(p);
    while (p->n_ended < p->load->n) {
        if (!submit_due(p, err)) return false;
        const pkv_status status = pkv_engine_step(p->engine, &report);
        if (status != PKV_OK)
            return bench_fail(err, BENCH_WRONG, "a step failed: %s: %s", pkv_status_name(status),
                              p->log);
        if (p->failed) return bench_fail(err, BENCH_WRONG, "a request ended too early or too late");
        if (report.n_waiting > 0) {
            queued += report.n_rows;
            p->r->n_full++;
        }
        if (report.n_tokens > 0) continue;
        if (report.next_arrival_ns == 0 && p->n_ended < p->load->n)
            return bench_fail(err, BENCH_WRONG, "%d requests are stuck", report.n_unfinished);
        sleep_until(p, report.next_arrival_ns);
    }
    p->r->wall_s = (double)(now(p) - p->start_ns) * 1e-9;
    p->r->mean_queued = p->r->n_full > 0 ? queued / p->r->n_full : 0;
    return true;
}

/* ---------------------------------------------------------------- beginning and end */

static bool take_memory(struct player *p, struct bench_error *err)
{
    const struct serve_load *load = p->load;
    const size_t n = (size_t)load->n, sequences = n * (size_t)load->spec.n_samples;
    struct serve_result *r = p->r;
    int64_t at = 0;
    p->heard = bench_calloc(n, sizeof(*p->heard), err);
    p->n_got = bench_calloc(sequences, sizeof(*p->n_got), err);
    p->last_ns = bench_calloc(sequences, sizeof(*p->last_ns), err);
    p->prompt = bench_calloc((size_t)serve_load_longest_prompt(load), sizeof(*p->prompt), err);
    r->ids = bench_calloc((size_t)load->n_output, sizeof(*r->ids), err);
    r->n_ids = load->n_output;
    if (!p->heard || !p->n_got || !p->last_ns || !p->prompt || !r->ids) return false;
    for (int32_t i = 0; i < load->n; i++) {
        p->heard[i] = (struct heard){ p, i, at };
        at += (int64_t)load->reqs[i].output_tokens * load->spec.n_samples;
    }
    return delays_room(&r->ttft, load->n, err) && delays_room(&r->tpot, load->n, err) &&
           delays_room(&r->itl, load->n_output, err);
}

static bool make_engine(struct player *p, struct bench_error *err)
{
    pkv_model_info info = PKV_MODEL_INFO_INIT;
    pkv_engine_config cfg = *p->cfg;
    cfg.log = (pkv_logger){ keep_text, p };
    cfg.clock_ns = p->clock.now_ns;
    cfg.clock_ctx = p->clock.ctx;
    cfg.max_queue = p->load->n;
    pkv_status status = pkv_model_get_info(cfg.model, &info);
    p->vocab = info.vocab;
    if (status == PKV_OK) status = pkv_engine_create(&cfg, &p->engine);
    return status == PKV_OK ||
           bench_fail(err, BENCH_SKIP, "no engine: %s: %s", pkv_status_name(status), p->log);
}

static bool finish(struct player *p, struct bench_error *err)
{
    p->r->stats = (pkv_engine_stats)PKV_ENGINE_STATS_INIT;
    if (pkv_engine_get_stats(p->engine, &p->r->stats) != PKV_OK ||
        pkv_engine_check(p->engine) != PKV_OK || p->r->stats.n_blocks_used != 0)
        return bench_fail(err, BENCH_WRONG, "what the engine holds does not add up: %s", p->log);
    return true;
}

bool serve_play(const struct serve_load *load, const pkv_engine_config *cfg,
                const struct bench_clock *clock, struct serve_result *out, struct bench_error *err)
{
    struct player p = { .load = load, .cfg = cfg, .clock = *clock, .r = out };
    memset(out, 0, sizeof(*out));
    const bool ok = take_memory(&p, err) && make_engine(&p, err) && run(&p, err) && finish(&p, err);
    pkv_engine_destroy(p.engine);
    free(p.heard);
    free(p.n_got);
    free(p.last_ns);
    free(p.prompt);
    if (!ok) serve_result_free(out);
    return ok;
}

void serve_result_free(struct serve_result *r)
{
    free(r->ids);
    serve_delays_free(&r->ttft);
    serve_delays_free(&r->tpot);
    serve_delays_free(&r->itl);
    memset(r, 0, sizeof(*r));
}
