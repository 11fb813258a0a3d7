/* What a report says about its requests and its setting, above all results. */
#include "fragsim_table.h"

#include <string.h>

#define LEFT 11 /* where the text of a line begins */

static void put_line(FILE *out, const char *title, const char *text)
{
    fprintf(out, "%-*s", LEFT, title);
    tool_put_wrapped(out, text, LEFT, LEFT, 80);
}

static void print_rows(FILE *out, const fragsim_input *in, const fragsim_options *opts)
{
    const pkv_sim_trace *t = &in->trace;
    if (opts->trace_path) fprintf(out, "trace      %s (%s)\n", opts->trace_path, t->format);
    else
        fprintf(out, "drawn      rows of %s (%s)%s\n", opts->lengths_path, t->format,
                opts->lengths_in_order ? " in order" : "");
    fprintf(out, "rows       %lld read = %lld used", (long long)t->rows_read, (long long)t->n_reqs);
    for (int k = 0; k < PKV_SIM_DROP_COUNT; k++)
        if (t->dropped[k] > 0)
            fprintf(out, " + %lld %s (from line %lld)", (long long)t->dropped[k],
                    pkv_sim_drop_name((pkv_sim_drop)k), (long long)t->first_line[k]);
    fputc('\n', out);
}

static void print_arrivals(FILE *out, const fragsim_input *in, const fragsim_options *opts)
{
    const int64_t span_ns = in->reqs[in->n - 1].arrival_ns - in->reqs[0].arrival_ns;
    fprintf(out, "requests   %lld", (long long)in->n);
    if (opts->command == FRAGSIM_CAPACITY) return;
    if (opts->sim.concurrency > 0) fprintf(out, " from %d clients", opts->sim.concurrency);
    else if (span_ns > 0)
        fprintf(out, " in %.3f s, %.3f per second", (double)span_ns / 1e9,
                (double)(in->n - 1) * 1e9 / (double)span_ns);
    else if (opts->trace_path && !in->trace.has_times && !opts->all_at_once &&
             opts->arrivals.rate_micro < 0)
        fprintf(out, ", without times");
    else fprintf(out, " at once");
}

static void print_dist(FILE *out, const char *name, const pkv_sim_dist *d)
{
    fprintf(out, "           %-9s %9.2f %9.1f %9.1f %9.1f %9.0f\n", name, d->mean, d->p50, d->p90,
            d->p99, d->max);
}

void fragsim_print_input(FILE *out, const fragsim_input *in, const fragsim_options *opts)
{
    if (in->from_trace) print_rows(out, in, opts);
    else
        fprintf(out, "drawn      %s, seed %llu\n",
                opts->lengths_text ? opts->lengths_text : "sharegpt-like",
                (unsigned long long)opts->arrivals.seed);
    print_arrivals(out, in, opts);
    fprintf(out, "\n           %-9s %9s %9s %9s %9s %9s\n", "tokens", "mean", "p50", "p90", "p99",
            "max");
    print_dist(out, "in", &in->prompt);
    print_dist(out, "out", &in->output);
}

static void print_scheduling(FILE *out, const pkv_sim_config *c)
{
    if (c->prefill_tokens_per_s > 0)
        fprintf(out, "prefill    %lld tokens per second\n", (long long)c->prefill_tokens_per_s);
    if (c->prefill_chunk > 0)
        fprintf(out, "           at most %d prompt tokens per request and step\n",
                c->prefill_chunk);
    if (c->max_batched_tokens > 0)
        fprintf(out, "           at most %d tokens computed per step\n", c->max_batched_tokens);
    if (c->admit_skip) fprintf(out, "admission  later requests pass a head that does not fit\n");
}

static void print_moves(FILE *out, const fragsim_report *rep)
{
    const pkv_sim_config *c = &rep->opts->sim;
    bool swap = false, compact = false;
    char latency[32];
    tool_time_text(c->copy_latency_ns, latency, sizeof(latency));
    for (int k = 0; k < rep->n_jobs; k++) {
        swap = swap || rep->jobs[k].cfg.policy.swap;
        compact = compact || rep->jobs[k].cfg.policy.addr == PKV_SIM_ADDR_COMPACT;
    }
    if (swap) {
        fprintf(out, "swap       %d slots", c->swap_tokens);
        if (c->swap_bytes_per_s > 0) fprintf(out, ", %.4g GB/s", (double)c->swap_bytes_per_s / 1e9);
        fprintf(out, ", %s per block\n", latency);
    }
    if (compact && c->compact_bytes_per_s > 0)
        fprintf(out, "compaction %.4g GB/s\n", (double)c->compact_bytes_per_s / 1e9);
    if (swap || compact || fragsim_names_bytes(rep->opts))
        fprintf(out, "bytes      %lld per token%s%s\n", (long long)c->kv_bytes_per_token,
                rep->opts->model.name ? ", " : "",
                rep->opts->model.name ? rep->opts->model.name : "");
}

void fragsim_print_config(FILE *out, const fragsim_report *rep)
{
    const pkv_sim_config *c = &rep->opts->sim;
    static const char *const windows[] = { "", "first admission to last finish",
                                           "first admission to last arrival",
                                           "steps in which somebody waits after admission" };
    char base[32], per_seq[32], per_token[32];
    tool_time_text(c->step_base_ns, base, sizeof(base));
    tool_time_text(c->step_per_seq_ns, per_seq, sizeof(per_seq));
    tool_time_text(c->step_per_token_ns, per_token, sizeof(per_token));
    char pool[128];
    snprintf(pool, sizeof(pool),
             "%d slots, longest request %d, at most %d running, watermark %g %%", c->pool_tokens,
             c->max_model_len, c->max_num_seqs, (double)c->watermark_ppm / 1e4);
    put_line(out, "pool", pool);
    print_moves(out, rep);
    print_scheduling(out, c);
    fprintf(out, "step       %s + %s * batch + %s * tokens\n", base, per_seq, per_token);
    fprintf(out, "averages   %s\n", windows[rep->jobs[0].result.window]);
}

bool fragsim_profile(const fragsim_input *in, double rates[FRAGSIM_TENTHS])
{
    const int64_t first = in->reqs[0].arrival_ns;
    const int64_t span = in->reqs[in->n - 1].arrival_ns - first;
    int64_t counts[FRAGSIM_TENTHS] = { 0 };
    if (span <= 0) return false;
    for (int64_t r = 0; r < in->n; r++) {
        const int tenth =
            (int)((double)(in->reqs[r].arrival_ns - first) / (double)span * FRAGSIM_TENTHS);
        counts[tenth < FRAGSIM_TENTHS ? tenth : FRAGSIM_TENTHS - 1]++;
    }
    for (int k = 0; k < FRAGSIM_TENTHS; k++)
        rates[k] = (double)counts[k] * FRAGSIM_TENTHS * 1e9 / (double)span;
    return true;
}
