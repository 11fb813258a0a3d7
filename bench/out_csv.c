/* CSV: one row per case and side. Columns are documented in docs/benchmarking.md; new ones are
 * added at the end only. */
#include "outputs.h"

#include <string.h>

static void put_text(const char *text, FILE *out)
{
    if (!strpbrk(text, ",\"\n")) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"') fputc('"', out);
        fputc(*text, out);
    }
    fputc('"', out);
}

static void put_stats(const struct bench_row *r, FILE *out)
{
    const struct bench_stats *s = &r->stats;
    if (s->n == 0) {
        fputs(",0,,,,,,,,", out);
        return;
    }
    fprintf(out, ",%d,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g,%.6g", s->n, s->min, s->q1, s->median,
            s->q3, s->p90, s->p95, s->p99, s->max);
}

static void put_values(const struct bench_row *r, FILE *out)
{
    char text[1024];
    size_t n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < r->n_values && n < sizeof(text); i++)
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s=%.9g", i ? ";" : "",
                              r->values[i].name, r->values[i].value);
    fputc(',', out);
    put_text(text, out);
}

/* Texts joined by "; ", and whether all are met. */
static void put_goals(const struct bench_row *r, FILE *out)
{
    char text[256];
    int n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < r->n_goals; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s", i ? "; " : "", r->goals[i].text);
    fputc(',', out);
    put_text(text, out);
    fputs(!r->n_goals ? "," : bench_row_goals_met(r) ? ",1" : ",0", out);
}

static void put_share(const struct bench_row *r, FILE *out)
{
    fprintf(out, ",%s,", bench_row_get_param(r, "level"));
    if (r->flops > 0 && r->stats.n) fprintf(out, "%.4f", bench_row_gflops(r));
    fputc(',', out);
    if (!r->has_share) {
        fputs(",,,", out);
        return;
    }
    put_text(r->share_to, out);
    fprintf(out, ",%.5f,%.5f,%.5f", r->share.value, r->share.lo, r->share.hi);
}

static void put_row(const struct bench_report *report, const struct bench_row *r, FILE *out)
{
    static const char *const params[] = { "batch",        "heads",   "head_dim", "kv_dtype",
                                          "block_tokens", "threads", "kernel",   "layers" };
    double share;
    put_text(r->id, out);
    fprintf(out, ",%s,", bench_group_name(r->group));
    put_text(r->label, out);
    fprintf(out, ",%s", r->layout);
    for (int i = 0; i < BENCH_LEN(params); i++) {
        fputc(',', out);
        put_text(bench_row_get_param(r, params[i]), out);
    }
    put_stats(r, out);
    fprintf(out, ",%lld,%lld,%s", (long long)r->bytes_needed, (long long)r->bytes_distinct,
            r->bytes_needed == 0 ? ""
            : r->in_cache        ? "1"
                                 : "0");
    if (r->bytes_needed && r->stats.n) fprintf(out, ",%.4f", bench_row_gbs(r));
    else fputc(',', out);
    if (bench_row_share(report, r, &share)) fprintf(out, ",%.4f", share);
    else fputc(',', out);
    if (r->has_ratio) {
        fputc(',', out);
        put_text(r->ratio_to, out);
        fprintf(out, ",%.5f,%.5f,%.5f", r->ratio.value, r->ratio.lo, r->ratio.hi);
    } else {
        fputs(",,,,", out);
    }
    fputs(!r->correct.checked ? "," : r->correct.ok ? ",1" : ",0", out);
    if (r->correct.has_errors)
        fprintf(out, ",%.3g,%.3g,%.4g", r->correct.max_abs, r->correct.max_rel,
                r->correct.bound_used);
    else fputs(",,,", out);
    fputs(r->correct.renamed_equal < 0 ? "," : r->correct.renamed_equal ? ",1" : ",0", out);
    put_goals(r, out);
    fprintf(out, ",%d", report->noisy);
    put_values(r, out);
    fputc(',', out);
    put_text(r->note, out);
    put_share(r, out);
    fputc('\n', out);
}

void out_csv(const struct bench_report *report, FILE *out)
{
    fputs("id,level,label,layout,batch,heads,head_dim,kv_dtype,block_tokens,threads,kernel,layers,"
          "n,min_ns,q1_ns,median_ns,q3_ns,p90_ns,p95_ns,p99_ns,max_ns,bytes_needed,bytes_distinct,"
          "in_cache,gb_per_s,share_of_read,ratio_to,ratio,ratio_lo,ratio_hi,correct,max_abs_error,"
          "max_rel_error,bound_used,renamed_equal,goal,goal_met,noisy,values,note,cpu_level,"
          "gflop_per_s,share_to,share,share_lo,share_hi\n",
          out);
    for (int32_t i = 0; i < report->n_rows; i++) put_row(report, report->rows[i], out);
}
