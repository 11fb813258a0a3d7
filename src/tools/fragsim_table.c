/* The report for people: bars, tables, notes. */
#include "fragsim_table.h"

#include <string.h>

#define BAR_COLUMNS 60

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

const char *fragsim_label(const fragsim_job *job, char out[PKV_SIM_POLICY_NAME_BYTES])
{
    static const char *const keys[] = { "alloc=", "block=", "page=", "max_tokens=" };
    const size_t n_keys =
        strlen(job->name) < FRAGSIM_NAME_COLUMNS ? 1 : sizeof(keys) / sizeof(keys[0]);
    size_t len = 0;
    for (const char *at = job->name; *at;) {
        for (size_t k = 0; k < n_keys; k++)
            if (strncmp(at, keys[k], strlen(keys[k])) == 0) at += strlen(keys[k]);
        out[len++] = *at++;
    }
    out[len] = '\0';
    return out;
}

void fragsim_print_name(FILE *out, const fragsim_job *job)
{
    char name[PKV_SIM_POLICY_NAME_BYTES];
    fragsim_label(job, name);
    if (strlen(name) >= FRAGSIM_NAME_COLUMNS)
        fprintf(out, "%s\n%*s", name, FRAGSIM_NAME_COLUMNS, "");
    else fprintf(out, "%-*s", FRAGSIM_NAME_COLUMNS, name);
}

static void print_bars(FILE *out, const fragsim_report *rep, int width, bool colour)
{
    const bool paper = rep->opts->paper_accounting;
    fprintf(out, "\n%-*s # token  = reservation  - internal  %s\n", FRAGSIM_NAME_COLUMNS - 1,
            "the pool", paper ? "blank: external" : ". rounding  blank: free");
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_split *s = &rep->jobs[k].result.split;
        const bar_part parts[] = {
            { '#', "\x1b[32m", s->token },
            { '=', "\x1b[33m", s->reservation },
            { '-', "\x1b[31m", s->internal },
            { '.', "\x1b[35m", paper ? 0 : s->rounding },
            { ' ', "", 0 },
        };
        fragsim_print_name(out, &rep->jobs[k]);
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
    const bool paper = rep->opts->paper_accounting;
    fprintf(out, "\n%-*s%6s%7s%7s%7s", FRAGSIM_NAME_COLUMNS, "% of the pool", "token", "resrv.",
            "intern", "extern");
    if (!paper) fprintf(out, " =%6s%7s%6s%6s%6s", "round", "unusab", "short", "limit", "idle");
    fputc('\n', out);
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_split *s = &rep->jobs[k].result.split;
        if (rep->jobs[k].result.window_ns == 0) continue;
        fragsim_print_name(out, &rep->jobs[k]);
        fprintf(out, "%6.1f%7.1f%7.1f%7.1f", 100 * s->token, 100 * s->reservation,
                100 * s->internal, 100 * s->external);
        if (!paper)
            fprintf(out, "  %6.1f%7.1f%6.1f%6.1f%6.1f", 100 * s->rounding, 100 * s->unusable,
                    100 * s->shortage, 100 * s->limited, 100 * s->idle);
        fputc('\n', out);
    }
}

/* With 120 columns also the other latencies. */
static void print_service(FILE *out, const fragsim_report *rep, int width)
{
    fprintf(out, "\n%-*s%8s%6s%9s%10s %8s %9s %9s", FRAGSIM_NAME_COLUMNS, "service", "batch", "max",
            "preempt.", "s/token", "p50", "p99", "TTFT p50");
    if (width >= 120)
        fprintf(out, " %9s %9s %9s %9s", "TTFT p99", "TPOT p50", "TPOT p99", "e2e p50");
    fputc('\n', out);
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        fragsim_print_name(out, &rep->jobs[k]);
        if (r->window_ns > 0) fprintf(out, "%8.2f", r->mean_batch);
        else fprintf(out, "%8s", "-");
        fprintf(out, "%6lld%9lld", (long long)r->max_batch, (long long)r->n_preemptions);
        const struct {
            int width;
            bool known;
            double value;
        } latencies[] = {
            { 9, r->norm_s.n > 0, r->norm_s.mean }, { 8, r->norm_s.n > 0, r->norm_s.p50 },
            { 9, r->norm_s.n > 0, r->norm_s.p99 },  { 9, r->ttft_s.n > 0, r->ttft_s.p50 },
            { 9, r->ttft_s.n > 0, r->ttft_s.p99 },  { 9, r->tpot_s.n > 0, r->tpot_s.p50 },
            { 9, r->tpot_s.n > 0, r->tpot_s.p99 },  { 9, r->e2e_s.n > 0, r->e2e_s.p50 },
        };
        for (int l = 0; l < (width >= 120 ? 8 : 4); l++)
            if (latencies[l].known) fprintf(out, " %*.4g", latencies[l].width, latencies[l].value);
            else fprintf(out, " %*s", latencies[l].width, "-");
        fputc('\n', out);
    }
}

/* How many times the batch of the others the paged policies reach. */
static void print_ratios(FILE *out, const fragsim_report *rep)
{
    char name[PKV_SIM_POLICY_NAME_BYTES];
    const int n = rep->n_jobs;
    bool any = false;
    for (int p = 0; p < n; p++) {
        if (rep->opts->policies[p].kind != PKV_SIM_PAGED) continue;
        int column = 0;
        for (int k = 0; k < n; k++) {
            if (rep->opts->policies[k].kind == PKV_SIM_PAGED || rep->jobs[k].result.mean_batch <= 0)
                continue;
            if (column == 0) {
                if (!any) fputc('\n', out);
                any = true;
                column = fprintf(out, "batch of %s:", fragsim_label(&rep->jobs[p], name));
            } else if (column < 56) column += fprintf(out, ",");
            else column = fprintf(out, ",\n   ") - 2;
            column += fprintf(out, " %.2fx %s",
                              rep->jobs[p].result.mean_batch / rep->jobs[k].result.mean_batch,
                              fragsim_label(&rep->jobs[k], name));
        }
        if (column > 0) fputc('\n', out);
    }
}

void fragsim_print_forms(FILE *out, const pkv_sim_forms *f, const char *title, int width)
{
    char text[320];
    if (f->n == 0) return;
    snprintf(text, sizeof(text),
             "%s: a live request holds %.1f tokens and ends at %.1f; batch of max %lld (buddy) or "
             "%lld (ideal), the best contiguous about %.1f, paged:block=%d about %.1f",
             title, f->live_tokens, f->live_final, (long long)f->max_batch_buddy,
             (long long)f->max_batch_ideal, f->oracle_ideal_batch, f->block_tokens, f->paged_batch);
    fputc('\n', out);
    tool_put_wrapped(out, text, 0, 0, width);
}

static void print_cache(FILE *out, const fragsim_report *rep)
{
    const pkv_sim_cache_forms *c = &rep->cache;
    if (c->struct_size == 0 || c->prompt_tokens == 0) return;
    fprintf(out,
            "a cache that never evicts would find %.2f %% of the prompt tokens,\n%.2f %% in whole "
            "blocks of %d\n",
            100.0 * (double)c->found_tokens / (double)c->prompt_tokens,
            100.0 * (double)c->found_block_tokens / (double)c->prompt_tokens,
            rep->cache_block_tokens);
}

void fragsim_print_notes(FILE *out, const fragsim_report *rep, int width)
{
    for (int k = 0; k < rep->n_notes; k++) {
        const int column = fprintf(out, "note: ");
        tool_put_wrapped(out, rep->notes[k], column, column, width);
    }
}

void fragsim_print_report(FILE *out, const fragsim_report *rep, int width, bool colour)
{
    fragsim_print_input(out, rep->input, rep->opts);
    fprintf(out, "           E[out^2]/E[out] %.1f\n", rep->forms.output_bias);
    fragsim_print_config(out, rep);
    print_bars(out, rep, width, colour);
    print_split(out, rep);
    print_service(out, rep, width);
    fragsim_print_details(out, rep);
    print_ratios(out, rep);
    fragsim_print_forms(out, &rep->forms, "lengths alone", width);
    print_cache(out, rep);
    if (rep->n_notes > 0) fputc('\n', out);
    fragsim_print_notes(out, rep, width);
    if (rep->opts->print_repro) fprintf(out, "\n%s\n", rep->opts->repro);
}
