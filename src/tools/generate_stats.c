/* Figures of a run on stderr: a table for people, JSON and Prometheus text for programs; and how
 * far a run is. */
#include "generate.h"
#include "tool_clock.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define SHOW_EVERY_S 0.2 /* faster than this nobody can read */

static double per(double amount, double of)
{
    return of > 0 ? amount / of : 0;
}

/* ---------------------------------------------------------------- table */

static void put_requests(const pkv_engine_stats *s)
{
    long long finished = 0;
    for (int k = 1; k < 7; k++) finished += s->n_finished[k];
    fprintf(stderr, "requests   %lld finished", finished);
    for (int k = 1; k < 7; k++)
        if (s->n_finished[k] > 0)
            fprintf(stderr, ", %lld by %s", (long long)s->n_finished[k],
                    pkv_finish_name((pkv_finish)k));
    fprintf(stderr, "; %lld refused\n", (long long)s->n_refused);
}

static void put_tokens(const pkv_engine_stats *s)
{
    fprintf(stderr, "prompt     %lld tokens, %.1f tokens/s; %lld found in the prefix cache\n",
            (long long)s->n_prompt_tokens, per((double)s->n_prompt_tokens, s->elapsed_s),
            (long long)s->n_cached_tokens);
    fprintf(stderr, "output     %lld tokens, %.1f tokens/s\n", (long long)s->n_output_tokens,
            per((double)s->n_output_tokens, s->elapsed_s));
    fprintf(
        stderr,
        "steps      %lld in %.3f s; %.2f sequences each, %d at most; %lld tokens computed, %lld "
        "of them again\n",
        (long long)s->n_steps, s->elapsed_s, s->mean_seqs, s->peak_seqs,
        (long long)s->n_computed_tokens, (long long)s->n_recomputed_tokens);
}

static void put_delay(const char *name, const pkv_delay_stats *d)
{
    fprintf(stderr, "  %-8s", name);
    const double values[] = { d->mean_ms, d->p50_ms, d->p90_ms, d->p99_ms, d->max_ms };
    for (int k = 0; k < 5; k++)
        if (d->n > 0) fprintf(stderr, " %10.3f", values[k]);
        else fprintf(stderr, " %10s", "-");
    fprintf(stderr, " %8lld\n", (long long)d->n);
}

static void put_delays(const pkv_engine_stats *s)
{
    fprintf(stderr, "%-10s %10s %10s %10s %10s %10s %8s\n", "delays, ms", "mean", "p50", "p90",
            "p99", "max", "n");
    put_delay("queue", &s->queue);
    put_delay("TTFT", &s->ttft);
    put_delay("TPOT", &s->tpot);
    put_delay("ITL", &s->itl);
    put_delay("latency", &s->latency);
}

static void put_memory(const pkv_engine_stats *s)
{
    fprintf(stderr, "KV         %d of %d blocks at most, their slots %.1f %% filled; %d cached\n",
            s->peak_blocks_used, s->n_blocks, 100 * s->slots_filled, s->n_blocks_cached);
    fprintf(stderr,
            "           preempted %lld by swapping (%lld bytes), %lld by recomputing; %lld copies "
            "on write, %lld evictions\n",
            (long long)s->n_preempt_swap, (long long)s->n_swapped_bytes,
            (long long)s->n_preempt_recompute, (long long)s->n_copies, (long long)s->n_evictions);
}

static void put_time(const pkv_engine_stats *s)
{
    const double whole = s->step_s / 100;
    fprintf(
        stderr,
        "time       %.3f s in steps: forward %.1f %%, of which attention %.1f %%; block manager "
        "%.1f %%, sampling %.1f %%\n",
        s->step_s, per(s->forward_s, whole), per(s->attention_s, whole), per(s->manager_s, whole),
        per(s->sampling_s, whole));
}

/* Bytes and operations over the time in passes; which of two measured peaks is the nearer one. */
static void put_machine(const pkv_engine_stats *s, const generate_options *o)
{
    const double gbs = per(s->bytes_moved, s->forward_s) / 1e9;
    const double gflops = per(s->flop, s->forward_s) / 1e9;
    fprintf(stderr,
            "machine    %.4g GB moved, %.3f GB/s; %.4g GFLOP, %.3f GFLOP/s; %s, %s, %d thread%s\n",
            s->bytes_moved / 1e9, gbs, s->flop / 1e9, gflops, s->mode, s->isa, s->n_threads,
            s->n_threads == 1 ? "" : "s");
    fprintf(stderr, "roofline   %.2f FLOP per byte", per(s->flop, s->bytes_moved));
    if (o->peak_gbs > 0) {
        const double ridge = o->peak_gflops / o->peak_gbs;
        const bool memory = per(s->flop, s->bytes_moved) < ridge;
        fprintf(stderr, ", memory bounds below %.2f: bound by %s, %.1f %% of %g %s", ridge,
                memory ? "memory" : "arithmetic",
                memory ? 100 * gbs / o->peak_gbs : 100 * gflops / o->peak_gflops,
                memory ? o->peak_gbs : o->peak_gflops, memory ? "GB/s" : "GFLOP/s");
    }
    fputc('\n', stderr);
}

/* ---------------------------------------------------------------- text for programs */

static void put_text(const pkv_engine_stats *s, pkv_stats_format format)
{
    size_t n = 0;
    pkv_status status = pkv_engine_stats_text(s, format, NULL, 0, &n);
    char *text = status == PKV_E_LIMIT ? malloc(n + 1) : NULL;
    if (text) status = pkv_engine_stats_text(s, format, text, n + 1, &n);
    if (text && status == PKV_OK)
        fprintf(stderr, "%s%s", text, n > 0 && text[n - 1] == '\n' ? "" : "\n");
    else
        generate_complain("the figures cannot be printed: %s",
                          pkv_status_text(text ? status : PKV_E_NO_MEMORY));
    free(text);
}

void generate_print_stats(const generate_run *run)
{
    const pkv_engine_stats *s = &run->stats;
    if (run->opts->stats_format != GENERATE_TABLE) {
        put_text(s,
                 run->opts->stats_format == GENERATE_JSON ? PKV_STATS_JSON : PKV_STATS_PROMETHEUS);
        return;
    }
    put_requests(s);
    put_tokens(s);
    put_delays(s);
    put_memory(s);
    put_time(s);
    put_machine(s, run->opts);
}

/* ---------------------------------------------------------------- progress */

void generate_progress_begin(generate_progress *p, const generate_run *run)
{
    const bool terminal = isatty(STDERR_FILENO);
    /* text that appears on the same terminal is progress enough */
    const bool seen = generate_prints_text(run->opts) && isatty(fileno(run->sink.file));
    *p = (generate_progress){ .show = run->opts->progress || (terminal && !seen),
                              .terminal = terminal,
                              .started_s = tool_clock_s() };
    p->shown_s = p->started_s - SHOW_EVERY_S; /* the first one at once */
}

void generate_progress_step(generate_progress *p, const generate_run *run,
                            const pkv_step_report *report)
{
    const double now = tool_clock_s();
    if (!p->show || now - p->shown_s < SHOW_EVERY_S) return;
    p->shown_s = now;
    pkv_engine_stats s = PKV_ENGINE_STATS_INIT;
    if (pkv_engine_get_stats(run->engine, &s) != PKV_OK) return;
    fprintf(stderr,
            "%s%d of %d requests done, %d running, %d waiting; %lld tokens, %.1f tokens/s%s",
            p->terminal ? "\r\x1b[K" : "", run->rs->n - report->n_unfinished, run->rs->n,
            report->n_running, report->n_waiting + report->n_swapped, (long long)s.n_output_tokens,
            per((double)s.n_output_tokens, now - p->started_s), p->terminal ? "" : "\n");
}

void generate_progress_end(generate_progress *p)
{
    if (p->show && p->terminal) fputs("\r\x1b[K", stderr);
}
