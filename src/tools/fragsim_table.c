/* The report for people: bars, tables, notes. */
#include "fragsim.h"

#include <string.h>

#define BAR_COLUMNS 60
#define NAME_COLUMNS 18

typedef struct bar_part {
    char sign;
    const char *colour; /* terminal escape */
    double share;
} bar_part;

/* Columns of each part by rounding the running sum, so that they always fill the bar. */
static void print_bar(FILE *out, const bar_part *parts, int n, bool colour)
{
    double sum = 0;
    int done = 0;
    fputc('|', out);
    for (int k = 0; k < n; k++) {
        sum += parts[k].share;
        int upto = k == n - 1 ? BAR_COLUMNS : (int)(sum * BAR_COLUMNS + 0.5);
        if (upto > BAR_COLUMNS) upto = BAR_COLUMNS;
        if (upto > done && colour) fputs(parts[k].colour, out);
        for (int c = done; c < upto; c++) fputc(parts[k].sign, out);
        if (upto > done && colour) fputs("\x1b[0m", out);
        if (upto > done) done = upto;
    }
    fputc('|', out);
}

/* The name of policy k, short enough for its column: without "alloc=". */
static const char *label(const fragsim_report *rep, int k, char out[PKV_SIM_POLICY_NAME_BYTES])
{
    const char *name = rep->jobs[k].name, *key = strstr(name, "alloc=");
    if (!key) return name;
    snprintf(out, PKV_SIM_POLICY_NAME_BYTES, "%.*s%s", (int)(key - name), name,
             key + strlen("alloc="));
    return out;
}

static void print_bars(FILE *out, const fragsim_report *rep, int width, bool colour)
{
    char name[PKV_SIM_POLICY_NAME_BYTES];
    fprintf(out, "\n%-*s # token  = reservation  - internal  . rounding  blank: free\n",
            NAME_COLUMNS - 1, "the pool");
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_split *s = &rep->jobs[k].result.split;
        const bar_part parts[] = {
            { '#', "\x1b[32m", s->token },
            { '=', "\x1b[33m", s->reservation },
            { '-', "\x1b[31m", s->internal },
            { '.', "\x1b[35m", s->rounding },
            { ' ', "", 0 },
        };
        fprintf(out, "%-*s", NAME_COLUMNS, label(rep, k, name));
        if (rep->jobs[k].result.window_ns == 0) {
            fprintf(out, "  nothing was measured: the window is empty\n");
            continue;
        }
        print_bar(out, parts, (int)(sizeof(parts) / sizeof(parts[0])), colour);
        if (width >= 120)
            fprintf(out, " %5.1f /%5.1f /%5.1f /%5.1f %%", 100 * s->token, 100 * s->reservation,
                    100 * s->internal, 100 * s->external);
        fputc('\n', out);
    }
}

static void print_split(FILE *out, const fragsim_report *rep)
{
    char name[PKV_SIM_POLICY_NAME_BYTES];
    fprintf(out, "\n%-*s%6s%7s%7s%7s =%6s%7s%6s%6s%6s\n", NAME_COLUMNS, "% of the pool", "token",
            "resrv.", "intern", "extern", "round", "unusab", "short", "limit", "idle");
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_split *s = &rep->jobs[k].result.split;
        if (rep->jobs[k].result.window_ns == 0) continue;
        fprintf(out, "%-*s%6.1f%7.1f%7.1f%7.1f  %6.1f%7.1f%6.1f%6.1f%6.1f\n", NAME_COLUMNS,
                label(rep, k, name), 100 * s->token, 100 * s->reservation, 100 * s->internal,
                100 * s->external, 100 * s->rounding, 100 * s->unusable, 100 * s->shortage,
                100 * s->limited, 100 * s->idle);
    }
}

static void print_service(FILE *out, const fragsim_report *rep)
{
    char name[PKV_SIM_POLICY_NAME_BYTES];
    fprintf(out, "\n%-*s%8s%6s%9s%10s %8s %9s %9s\n", NAME_COLUMNS, "service", "batch", "max",
            "preempt.", "s/token", "p50", "p99", "TTFT p50");
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        fprintf(out, "%-*s", NAME_COLUMNS, label(rep, k, name));
        if (r->window_ns > 0) fprintf(out, "%8.2f", r->mean_batch);
        else fprintf(out, "%8s", "-");
        fprintf(out, "%6lld%9lld", (long long)r->max_batch, (long long)r->n_preemptions);
        if (r->norm_s.n > 0)
            fprintf(out, "%10.4g %8.4g %9.4g %9.4g\n", r->norm_s.mean, r->norm_s.p50, r->norm_s.p99,
                    r->ttft_s.p50);
        else fprintf(out, "%10s %8s %9s %9s\n", "-", "-", "-", "-");
    }
}

/* How many times the batch of the others the paged policies reach. */
static void print_ratios(FILE *out, const fragsim_report *rep)
{
    char name[PKV_SIM_POLICY_NAME_BYTES];
    const int n = rep->n_jobs;
    for (int p = 0; p < n; p++) {
        if (rep->opts->policies[p].kind != PKV_SIM_PAGED) continue;
        int column = 0;
        for (int k = 0; k < n; k++) {
            if (rep->opts->policies[k].kind == PKV_SIM_PAGED || rep->jobs[k].result.mean_batch <= 0)
                continue;
            if (column == 0) column = fprintf(out, "\nbatch of %s:", label(rep, p, name)) - 1;
            else if (column < 56) column += fprintf(out, ",");
            else column = fprintf(out, ",\n   ") - 2;
            column += fprintf(out, " %.2fx %s",
                              rep->jobs[p].result.mean_batch / rep->jobs[k].result.mean_batch,
                              label(rep, k, name));
        }
        if (column > 0) fputc('\n', out);
    }
}

static void print_forms(FILE *out, const fragsim_report *rep)
{
    const pkv_sim_forms *f = &rep->forms;
    if (f->n == 0) return;
    fprintf(out,
            "\nlengths alone: a live request holds %.1f tokens and ends at %.1f; batch of\n"
            "max %lld (buddy) or %lld (ideal), the best contiguous about %.1f, paged about %.1f\n",
            f->live_tokens, f->live_final, (long long)f->max_batch_buddy,
            (long long)f->max_batch_ideal, f->oracle_ideal_batch, f->paged_batch);
}

void fragsim_print_input(FILE *out, const fragsim_input *in, const fragsim_options *opts)
{
    const pkv_sim_trace *t = &in->trace;
    const int64_t span_ns = in->reqs[in->n - 1].arrival_ns - in->reqs[0].arrival_ns;
    if (in->from_trace) {
        if (opts->trace_path) fprintf(out, "trace      %s (%s)\n", opts->trace_path, t->format);
        else
            fprintf(out, "drawn      rows of %s (%s)%s\n", opts->lengths_path, t->format,
                    opts->lengths_in_order ? " in order" : "");
        fprintf(out, "rows       %lld read = %lld used", (long long)t->rows_read,
                (long long)t->n_reqs);
        for (int k = 0; k < PKV_SIM_DROP_COUNT; k++)
            if (t->dropped[k] > 0)
                fprintf(out, " + %lld %s (from line %lld)", (long long)t->dropped[k],
                        pkv_sim_drop_name((pkv_sim_drop)k), (long long)t->first_line[k]);
        fputc('\n', out);
    } else {
        fprintf(out, "drawn      %s, seed %llu\n",
                opts->lengths_text ? opts->lengths_text : "sharegpt-like",
                (unsigned long long)opts->arrivals.seed);
    }
    fprintf(out, "requests   %lld", (long long)in->n);
    if (span_ns > 0)
        fprintf(out, " in %.3f s, %.3f per second", (double)span_ns / 1e9,
                (double)(in->n - 1) * 1e9 / (double)span_ns);
    else if (opts->sim.concurrency > 0) fprintf(out, " from %d clients", opts->sim.concurrency);
    else if (in->from_trace && !t->has_times)
        fprintf(out, in->n > 0 && opts->arrivals.rate_micro < 0 ? ", without times" : " at once");
    else fprintf(out, " at once");
    fprintf(out, "\n           %-9s %9s %9s %9s %9s %9s\n", "tokens", "mean", "p50", "p90", "p99",
            "max");
    fprintf(out, "           %-9s %9.2f %9.1f %9.1f %9.1f %9.0f\n", "in", in->prompt.mean,
            in->prompt.p50, in->prompt.p90, in->prompt.p99, in->prompt.max);
    fprintf(out, "           %-9s %9.2f %9.1f %9.1f %9.1f %9.0f\n", "out", in->output.mean,
            in->output.p50, in->output.p90, in->output.p99, in->output.max);
}

static void print_config(FILE *out, const fragsim_report *rep)
{
    const pkv_sim_config *c = &rep->opts->sim;
    static const char *const windows[] = { "", "first admission to last finish",
                                           "first admission to last arrival",
                                           "steps in which somebody waits after admission" };
    char base[32], per_seq[32], per_token[32];
    fragsim_time_text(c->step_base_ns, base, sizeof(base));
    fragsim_time_text(c->step_per_seq_ns, per_seq, sizeof(per_seq));
    fragsim_time_text(c->step_per_token_ns, per_token, sizeof(per_token));
    fprintf(out, "pool       %d slots, longest request %d, at most %d running, watermark %g %%\n",
            c->pool_tokens, c->max_model_len, c->max_num_seqs, (double)c->watermark_ppm / 1e4);
    fprintf(out, "step       %s + %s * batch + %s * tokens\n", base, per_seq, per_token);
    fprintf(out, "averages   %s\n", windows[rep->jobs[0].result.window]);
}

void fragsim_print_report(FILE *out, const fragsim_report *rep, int width, bool colour)
{
    fragsim_print_input(out, rep->input, rep->opts);
    fprintf(out, "           E[out^2]/E[out] %.1f\n", rep->forms.output_bias);
    print_config(out, rep);
    print_bars(out, rep, width, colour);
    print_split(out, rep);
    print_service(out, rep);
    print_ratios(out, rep);
    print_forms(out, rep);
    for (int k = 0; k < rep->n_notes; k++)
        fprintf(out, "%snote: %s\n", k == 0 ? "\n" : "", rep->notes[k]);
    if (rep->opts->print_repro) fprintf(out, "\n%s\n", rep->opts->repro);
}
