/* The engine's loop: all requests are submitted, then steps are done until none is left. Signals
 * that end the program are looked for between two steps, so that nothing of it runs in a handler.
 */
#include "generate.h"
#include "tool_clock.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define IDLE_STEPS 10000 /* nothing to compute, nothing to wait for: more is a bug of ours */

static uint64_t clock_ns(void *ctx)
{
    (void)ctx;
    return tool_clock_ns();
}

/* ---------------------------------------------------------------- events */

static bool add_token(generate_sample *s, const pkv_token_event *e)
{
    if (s->n_tokens == s->cap_tokens) {
        const int32_t cap = s->cap_tokens ? 2 * s->cap_tokens : 64;
        generate_token *more = realloc(s->tokens, (size_t)cap * sizeof(*more));
        if (!more) return false;
        s->tokens = more;
        s->cap_tokens = cap;
    }
    generate_token *t = &s->tokens[s->n_tokens];
    *t = (generate_token){ .id = e->token, .position = e->position, .logprob = e->logprob };
    if (e->n_top > 0) {
        t->top = malloc((size_t)e->n_top * sizeof(*t->top));
        if (!t->top) return false;
        memcpy(t->top, e->top, (size_t)e->n_top * sizeof(*t->top));
        t->n_top = e->n_top;
    }
    s->n_tokens++;
    return true;
}

static bool add_text(generate_sample *s, const char *text, size_t n)
{
    if (s->n_text + n > s->cap_text) {
        const size_t cap = 2 * (s->n_text + n) + 256;
        char *more = realloc(s->text, cap);
        if (!more) return false;
        s->text = more;
        s->cap_text = cap;
    }
    if (n > 0) memcpy(s->text + s->n_text, text, n);
    s->n_text += n;
    return true;
}

/* Without a tokenizer the text of a token is its number. */
static bool add_number(generate_sample *s, int32_t id)
{
    char text[16];
    const int n = snprintf(text, sizeof(text), "%s%d", s->n_text > 0 ? " " : "", id);
    return add_text(s, text, (size_t)n);
}

static void on_token(void *ctx, const pkv_token_event *e)
{
    generate_request *r = ctx;
    generate_run *run = r->run;
    generate_sample *s = &r->answer.samples[e->sample];
    bool ok = e->token < 0 || add_token(s, e);
    if (ok && run->tok) ok = add_text(s, e->text, (size_t)e->n_text);
    else if (ok && e->token >= 0) ok = add_number(s, e->token);
    s->finish = e->finish;
    if (e->finish != PKV_FINISH_NONE) s->score = e->score;
    if (e->result) {
        r->answer.result = *e->result;
        r->answer.done = true;
    }
    run->no_memory |= !ok;
    generate_show(run, r, e);
}

/* ---------------------------------------------------------------- submitting */

/* Pointers that the engine copies from, times on its clock, and room for the answer. */
static bool complete(generate_request *r, generate_run *run, uint64_t now, const char **stops)
{
    pkv_request *q = &r->req;
    for (int32_t k = 0; k < r->n_stops; k++) stops[k] = r->stops[k];
    q->ids = r->ids;
    q->n_ids = r->n_ids;
    q->stop_texts = stops;
    q->n_stop_texts = r->n_stops;
    q->stop_ids = r->stop_ids;
    q->n_stop_ids = r->n_stop_ids;
    q->sampling.bias = r->bias;
    q->sampling.n_bias = r->n_bias;
    const uint64_t arrival = now + (uint64_t)(r->arrival_ms * 1e6);
    q->arrival_ns = r->arrival_ms > 0 ? arrival : 0;
    q->deadline_ns = r->deadline_ms > 0 ? arrival + (uint64_t)(r->deadline_ms * 1e6) : 0;
    q->on_token = on_token;
    q->ctx = r;
    r->run = run;
    r->answer.samples = calloc((size_t)q->n, sizeof(*r->answer.samples));
    if (!r->answer.samples) return false;
    r->answer.n_samples = q->n;
    for (int32_t k = 0; k < q->n; k++) r->answer.samples[k].score = NAN;
    return true;
}

static int exit_of(pkv_status status)
{
    switch (status) {
    case PKV_E_NEVER:
    case PKV_E_LIMIT:
        return GENERATE_NEVER;
    case PKV_E_INVALID_ARG:
    case PKV_E_UNSUPPORTED:
        return GENERATE_USAGE;
    default:
        return GENERATE_IO;
    }
}

static int worse(int a, int b)
{
    return a > b ? a : b;
}

/* The library's words for a refusal name its own fields; here they have names of this program. */
static const char *const words[][2] = { { "submit: ", "" },
                                        { "engine: ", "" },
                                        { "placement: ", "" },
                                        { "kv_bytes", "--kv-memory" },
                                        { "max_new", "max_tokens" },
                                        { "max_seqs", "--max-seqs" },
                                        { "max_context", "--max-context" } };
#define N_WORDS (sizeof(words) / sizeof(words[0]))

/* NULL: no memory. */
static char *refusal_text(const char *text)
{
    char *out = NULL;
    size_t n = 0;
    FILE *to = open_memstream(&out, &n);
    while (to && *text) {
        size_t w = 0;
        while (w < N_WORDS && strncmp(text, words[w][0], strlen(words[w][0])) != 0) w++;
        if (w == N_WORDS) {
            fputc(*text++, to);
            continue;
        }
        fputs(words[w][1], to);
        text += strlen(words[w][0]);
    }
    if (to && fclose(to) == 0) return out;
    free(out);
    return NULL;
}

/* Refused: one request ends the program; of many only its own line says so. */
static int submit(generate_run *run, generate_request *r, uint64_t now, generate_log *log)
{
    const char *stops[GENERATE_MAX_STOPS];
    log->text[0] = '\0';
    pkv_status status = PKV_E_NO_MEMORY;
    if (complete(r, run, now, stops)) status = pkv_engine_submit(run->engine, &r->req, &r->handle);
    if (status == PKV_OK) return GENERATE_OK;
    r->answer.refused = status;
    r->answer.done = true;
    r->answer.n_samples = 0; /* nothing came of them: they own nothing */
    r->answer.reason = refusal_text(generate_why(log, status));
    if (r->line == 0)
        generate_complain("%s", r->answer.reason ? r->answer.reason : pkv_status_text(status));
    return exit_of(status);
}

/* ---------------------------------------------------------------- steps */

/* Those that end the program, except what its parent had ignored (a job in the background): held
 * back, it would come here all the same. */
static sigset_t ending_signals(void)
{
    static const int all[] = { SIGINT, SIGTERM };
    sigset_t set;
    sigemptyset(&set);
    for (size_t k = 0; k < sizeof(all) / sizeof(all[0]); k++) {
        struct sigaction now;
        if (sigaction(all[k], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, all[k]);
    }
    return set;
}

/* Has one of the signals come, or does it within wait_ns? */
static int signal_within(uint64_t wait_ns)
{
    const sigset_t set = ending_signals();
    const struct timespec wait = { .tv_sec = (time_t)(wait_ns / UINT64_C(1000000000)),
                                   .tv_nsec = (long)(wait_ns % UINT64_C(1000000000)) };
    const int got = sigtimedwait(&set, NULL, &wait);
    return got > 0 ? got : 0;
}

/* Until the program has ended: threads that are made from here on leave these signals alone too. */
static void hold_signals(void)
{
    const sigset_t set = ending_signals();
    pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* Cancel what runs; what the queue of cancels does not take waits for the next step. */
static void cancel_all(generate_run *run)
{
    for (int32_t k = 0; k < run->rs->n; k++) {
        const generate_request *r = &run->rs->list[k];
        if (!r->answer.done && pkv_engine_cancel(run->engine, r->handle) != PKV_OK) return;
    }
}

static bool gives_up(const generate_run *run)
{
    return run->signal != 0 || run->no_memory || run->sink.broken != 0;
}

static int step_failed(const generate_log *log, pkv_status status)
{
    generate_complain("a step failed: %s", generate_why(log, status));
    return GENERATE_IO;
}

static int run_steps(generate_run *run, generate_log *log, generate_progress *progress)
{
    int idle = 0, code = GENERATE_OK;
    pkv_step_report report = PKV_STEP_REPORT_INIT;
    do {
        if (!run->signal) run->signal = signal_within(0);
        if (gives_up(run)) cancel_all(run);
        const pkv_status status = pkv_engine_step(run->engine, &report);
        if (status == PKV_E_NO_MEMORY || status == PKV_E_DEVICE) code = step_failed(log, status);
        else if (status != PKV_OK) return step_failed(log, status);
        generate_progress_step(progress, run, &report);
        idle = report.n_tokens > 0 || status != PKV_OK ? 0 : idle + 1;
        if (report.n_tokens > 0 || report.next_arrival_ns == 0) continue;
        idle = 0;
        const uint64_t now = clock_ns(NULL);
        if (report.next_arrival_ns > now && !gives_up(run))
            run->signal = signal_within(report.next_arrival_ns - now);
    } while (report.n_unfinished > 0 && idle < IDLE_STEPS);
    if (report.n_unfinished == 0) return code;
    generate_complain("the engine does not go on with %d requests: a bug, please report it",
                      report.n_unfinished);
    return GENERATE_IO;
}

/* ---------------------------------------------------------------- all of it */

static int create(generate_run *run, generate_log *log)
{
    const generate_options *o = run->opts;
    pkv_engine_config cfg = o->engine;
    cfg.model = run->model;
    cfg.tokenizer = run->tok;
    cfg.kv_bytes = (size_t)o->kv_bytes;
    cfg.swap_bytes = (size_t)o->swap_bytes;
    cfg.max_queue = run->rs->n > 65536 ? run->rs->n : 0;
    cfg.clock_ns = clock_ns;
    cfg.log = generate_logger(log);
    const pkv_status status = pkv_engine_create(&cfg, &run->engine);
    if (status == PKV_OK) return GENERATE_OK;
    char *reason = refusal_text(generate_why(log, status));
    generate_complain("%s", reason ? reason : pkv_status_text(status));
    free(reason);
    return exit_of(status);
}

/* A result that is there may still be bad news. */
static int judge(const generate_run *run, int code)
{
    if (run->no_memory) {
        generate_complain("out of memory");
        return GENERATE_IO;
    }
    for (int32_t k = 0; k < run->rs->n; k++) {
        const generate_answer *a = &run->rs->list[k].answer;
        for (int32_t s = 0; s < a->n_samples; s++)
            if (a->samples[s].finish == PKV_FINISH_ERROR) code = worse(code, GENERATE_IO);
    }
    return run->signal ? 128 + run->signal : code;
}

static int submit_and_step(generate_run *run, generate_log *log)
{
    int code = GENERATE_OK;
    generate_progress progress;
    const uint64_t now = clock_ns(NULL);
    for (int32_t k = 0; k < run->rs->n; k++)
        code = worse(code, submit(run, &run->rs->list[k], now, log));
    if (code != GENERATE_OK && run->rs->list[0].line == 0) return code;
    generate_progress_begin(&progress, run);
    code = worse(code, run_steps(run, log, &progress));
    generate_progress_end(&progress);
    run->stats = (pkv_engine_stats)PKV_ENGINE_STATS_INIT;
    if (pkv_engine_get_stats(run->engine, &run->stats) != PKV_OK) code = worse(code, GENERATE_IO);
    generate_show_end(run);
    return judge(run, code);
}

int generate_run_all(generate_run *run)
{
    generate_log log = { "" };
    hold_signals();
    int code = create(run, &log);
    if (code == GENERATE_OK) {
        if (!generate_sink_open(&run->sink, run->opts->output)) {
            code = GENERATE_IO;
        } else {
            code = submit_and_step(run, &log);
            const bool shown = run->n_shown == run->rs->n;
            if (!generate_sink_close(&run->sink, shown)) code = worse(code, GENERATE_IO);
            if (shown && run->opts->stats) generate_print_stats(run);
        }
        pkv_engine_destroy(run->engine);
    }
    return code;
}
