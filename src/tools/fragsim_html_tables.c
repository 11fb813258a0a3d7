/* Tables of results and of values over time. */
#include "fragsim_html.h"

#include <stdlib.h>

#define MAX_TABLE_ROWS 300 /* of values over time */

static void put_heads(FILE *out, const char *id, const char *const *heads, int n)
{
    fprintf(out, "<div class=\"scroll\"><table id=\"%s\"><thead><tr>", id);
    for (int k = 0; k < n; k++) fprintf(out, "<th>%s</th>", heads[k]);
    fputs("</tr></thead>\n<tbody>\n", out);
}

static void put_memory(FILE *out, const fragsim_report *rep)
{
    static const char *const heads[] = { "% of the pool", "token",    "reservation", "internal",
                                         "external =",    "rounding", "unusable",    "short",
                                         "limited",       "idle",     "cached" };
    put_heads(out, "t_memory", heads, sizeof(heads) / sizeof(heads[0]));
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        const pkv_sim_split *s = &r->split;
        const double parts[] = { s->token,    s->reservation, s->internal, s->external, s->rounding,
                                 s->unusable, s->shortage,    s->limited,  s->idle,     s->cached };
        fputs("<tr>", out);
        fragsim_cell_text(out, rep->jobs[k].name);
        for (size_t p = 0; p < sizeof(parts) / sizeof(parts[0]); p++)
            fragsim_cell_number(out, r->window_ns > 0, "%.1f", 100 * parts[p]);
        fputs("</tr>\n", out);
    }
    fputs("</tbody></table></div>\n", out);
}

static void put_service(FILE *out, const fragsim_report *rep)
{
    static const char *const heads[] = {
        "service", "mean batch",   "max",          "preemptions",  "s/token mean", "p50",     "p90",
        "p99",     "TTFT p50 (s)", "TPOT p50 (s)", "hit rate (%)", "finished",     "too long"
    };
    put_heads(out, "t_service", heads, sizeof(heads) / sizeof(heads[0]));
    for (int k = 0; k < rep->n_jobs; k++) {
        const pkv_sim_result *r = &rep->jobs[k].result;
        const bool norm = r->norm_s.n > 0, prefix = rep->jobs[k].cfg.policy.prefix;
        fputs("<tr>", out);
        fragsim_cell_text(out, rep->jobs[k].name);
        fragsim_cell_number(out, r->window_ns > 0, "%.2f", r->mean_batch);
        fprintf(out, "<td>%lld</td><td>%lld</td>", (long long)r->max_batch,
                (long long)r->n_preemptions);
        fragsim_cell_number(out, norm, "%.4g", r->norm_s.mean);
        fragsim_cell_number(out, norm, "%.4g", r->norm_s.p50);
        fragsim_cell_number(out, norm, "%.4g", r->norm_s.p90);
        fragsim_cell_number(out, norm, "%.4g", r->norm_s.p99);
        fragsim_cell_number(out, r->ttft_s.n > 0, "%.4g", r->ttft_s.p50);
        fragsim_cell_number(out, r->tpot_s.n > 0, "%.4g", r->tpot_s.p50);
        fragsim_cell_number(out, prefix && r->hits.prompt_tokens > 0, "%.2f",
                            100 * (double)r->hits.cached_tokens /
                                (double)(r->hits.prompt_tokens > 0 ? r->hits.prompt_tokens : 1));
        fprintf(out, "<td>%lld</td><td>%lld</td></tr>\n", (long long)r->n_finished,
                (long long)r->n_too_long);
    }
    fputs("</tbody></table></div>\n", out);
}

void fragsim_result_tables(FILE *out, const fragsim_report *rep)
{
    put_memory(out, rep);
    put_service(out, rep);
}

/* ---------------------------------------------------------------- over time */

/* The job whose samples give the rows: the one with most of them shown. */
static const fragsim_job *row_job(const fragsim_report *rep, const fragsim_time *time)
{
    const fragsim_job *best = &rep->jobs[0];
    for (int k = 1; k < rep->n_jobs; k++)
        if (fragsim_shown(&rep->jobs[k], time) > fragsim_shown(best, time)) best = &rep->jobs[k];
    return best;
}

static double units(const fragsim_time *time, int64_t t_ns)
{
    return (double)(t_ns - time->from_ns) / time->unit_ns;
}

/* The sample of a job at exactly this moment, looked for from *at on; NULL: none. */
static const pkv_sim_sample *sample_at(const fragsim_job *job, int64_t t_ns, int64_t *at)
{
    while (*at < job->series.n && job->series.samples[*at].t_ns < t_ns) ++*at;
    if (*at >= job->series.n || job->series.samples[*at].t_ns != t_ns) return NULL;
    return &job->series.samples[*at];
}

void fragsim_measure_table(FILE *out, const fragsim_report *rep, fragsim_measure measure,
                           const fragsim_time *time)
{
    static const char *const ids[] = { "d_tokens", "d_used", "d_batch", "d_queue", "d_scatter" };
    const char *heads[FRAGSIM_MAX_POLICIES + 2];
    int64_t at[FRAGSIM_MAX_POLICIES] = { 0 };
    char first[32];
    int n = 0;
    snprintf(first, sizeof(first), "time (%s)", time->unit);
    heads[n++] = first;
    for (int k = 0; k < rep->n_jobs; k++)
        if (fragsim_measure_matters(measure, &rep->jobs[k])) heads[n++] = rep->jobs[k].name;
    heads[n] = NULL;
    const fragsim_job *rows = row_job(rep, time);
    const int64_t shown = fragsim_shown(rows, time);
    const int64_t stride = (shown + MAX_TABLE_ROWS - 1) / MAX_TABLE_ROWS;
    fragsim_data_begin(out, ids[measure], "data", heads);
    for (int64_t row = 0; row < shown; row += stride) {
        const int64_t t_ns = rows->series.samples[row].t_ns;
        fprintf(out, "<tr><td>%.6g</td>", units(time, t_ns));
        for (int k = 0; k < rep->n_jobs; k++) {
            if (!fragsim_measure_matters(measure, &rep->jobs[k])) continue;
            const pkv_sim_sample *s = sample_at(&rep->jobs[k], t_ns, &at[k]);
            double v = 0;
            const bool known = s && fragsim_measure_at(measure, s, &v);
            fragsim_cell_number(out, known, "%.4g", v);
        }
        fputs("</tr>\n", out);
    }
    fragsim_data_end(out);
}

void fragsim_parts_table(FILE *out, const fragsim_report *rep, int k, const fragsim_time *time)
{
    const fragsim_job *job = &rep->jobs[k];
    const char *heads[FRAGSIM_PART_COUNT + 4];
    char first[32], id[32];
    int n = 0;
    snprintf(first, sizeof(first), "time (%s)", time->unit);
    snprintf(id, sizeof(id), "d_parts%d", k);
    heads[n++] = first;
    for (int p = 0; p < FRAGSIM_PART_COUNT; p++) heads[n++] = fragsim_part_name((fragsim_part)p);
    heads[n++] = "largest free run (slots)";
    heads[n] = NULL;
    const int64_t shown = fragsim_shown(job, time);
    const int64_t stride = (shown + MAX_TABLE_ROWS - 1) / MAX_TABLE_ROWS;
    fragsim_data_begin(out, id, "data (% of the pool)", heads);
    for (int64_t row = 0; row < shown; row += stride) {
        const pkv_sim_sample *s = &job->series.samples[row];
        fprintf(out, "<tr><td>%.6g</td>", units(time, s->t_ns));
        for (int p = 0; p < FRAGSIM_PART_COUNT; p++)
            fprintf(out, "<td>%.4g</td>", 100 * fragsim_part_at((fragsim_part)p, s));
        fprintf(out, "<td>%lld</td></tr>\n", (long long)s->largest_free);
    }
    fragsim_data_end(out);
}
