/* Serving: for each case a table of rates and one of delays. */
#include "out_parts.h"

#include <math.h>
#include <string.h>

#define LOSS_FROM 1.03 /* below it a difference of medians is noise */

static bool value_of(const struct bench_row *r, const char *name, double *out)
{
    return bench_row_get_value(r, name, out) && !isnan(*out);
}

static void set(struct text_table *t, int32_t column, const struct bench_row *r, const char *name,
                const char *fmt)
{
    double value;
    if (!value_of(r, name, &value)) return;
    if (strcmp(fmt, "int") == 0) text_table_set(t, column, "%.0f", value);
    else if (strcmp(fmt, "1") == 0) text_table_set(t, column, "%.1f", value);
    else if (strcmp(fmt, "2") == 0) text_table_set(t, column, "%.2f", value);
    else if (strcmp(fmt, "%") == 0) text_table_set(t, column, "%.0f %%", 100 * value);
    else if (strcmp(fmt, "%1") == 0) text_table_set(t, column, "%.1f %%", 100 * value);
    else text_table_set(t, column, "%.3g", value);
}

/* Median, and the spread of the rounds. */
static void set_rate(struct text_table *t, int32_t column, const struct bench_row *r)
{
    double rate;
    if (!value_of(r, "output_tokens_per_s", &rate)) return;
    text_table_set(t, column, "%.0f (%.0f .. %.0f)", rate, 1e9 / r->stats.max, 1e9 / r->stats.min);
}

static void set_preempted(struct text_table *t, int32_t column, const struct bench_row *r)
{
    double swap = 0, recompute = 0;
    (void)bench_row_get_value(r, "preempt_swap", &swap);
    (void)bench_row_get_value(r, "preempt_recompute", &recompute);
    text_table_set(t, column, "%.0f + %.0f", swap, recompute);
}

static void rate_row(struct text_table *t, const struct bench_row *r)
{
    text_table_row(t);
    text_table_set(t, 0, "%s", r->label);
    if (!r->correct.ok) {
        text_table_set(t, 1, "WRONG");
        return;
    }
    set(t, 1, r, "mean_seqs_queued", "1");
    set(t, 2, r, "mean_seqs", "1");
    set(t, 3, r, "peak_seqs", "int");
    set(t, 4, r, "seqs_ratio", "2");
    set_rate(t, 5, r);
    set(t, 6, r, "prompt_tokens_per_s", "int");
    if (r->has_ratio) out_set_interval(t, 7, 1 / r->ratio.value, 1 / r->ratio.hi, 1 / r->ratio.lo);
    else text_table_set(t, 7, "1");
    set(t, 8, r, "steps", "int");
    set(t, 9, r, "slots_filled", "%1");
    set_preempted(t, 10, r);
    set(t, 11, r, "engine_us", "1");
    set(t, 12, r, "engine_share", "%1");
    out_set_goals(t, 13, r);
}

static void rate_table(const struct printer *p, int32_t first, int32_t end)
{
    char heads[256];
    struct text_table t;
    text_table_init(&t,
                    "<KV memory|sequences while others wait|mean|most|x|output tokens/s|prompt "
                    "tokens/s|tokens/s x|steps|slots filled|swapped + recomputed|engine us a step|"
                    "of step|<goal",
                    heads, sizeof(heads));
    for (int32_t i = first; i < end; i++) rate_row(&t, p->report->rows[i]);
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

static void delay_table(const struct printer *p, int32_t first, int32_t end)
{
    static const struct {
        const char *name, *fmt;
    } columns[] = { { "ttft_p50_ms", "3" },   { "ttft_p99_ms", "3" }, { "tpot_p50_ms", "3" },
                    { "tpot_p99_ms", "3" },   { "itl_p50_ms", "3" },  { "itl_p99_ms", "3" },
                    { "goodput_per_s", "2" }, { "slo_met", "%" } };
    char heads[256];
    struct text_table t;
    text_table_init(&t,
                    "<KV memory|TTFT p50, ms|p99|TPOT p50, ms|p99|ITL p50, ms|p99|good requests/s|"
                    "within limits",
                    heads, sizeof(heads));
    for (int32_t i = first; i < end; i++) {
        const struct bench_row *r = p->report->rows[i];
        text_table_row(&t);
        text_table_set(&t, 0, "%s", r->label);
        for (int c = 0; c < BENCH_LEN(columns); c++)
            set(&t, c + 1, r, columns[c].name, columns[c].fmt);
    }
    fputc('\n', p->out);
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
    const struct bench_row *r = p->report->rows[first];
    const char *ttft = bench_row_get_param(r, "slo_ttft_ms");
    const char *tpot = bench_row_get_param(r, "slo_tpot_ms");
    char text[160];
    if (!*ttft && !*tpot) return;
    snprintf(text, sizeof(text), "good: TTFT at most %s ms, TPOT at most %s ms",
             *ttft ? ttft : "any", *tpot ? tpot : "any");
    out_note(p, text);
}

static void repeat_table(const struct printer *p, int32_t first, int32_t end)
{
    char heads[128];
    struct text_table t;
    text_table_init(&t, "<prompt|n|TTFT min|median|max|x|<goal", heads, sizeof(heads));
    for (int32_t i = first; i < end; i++) {
        const struct bench_row *r = p->report->rows[i];
        text_table_row(&t);
        text_table_set(&t, 0, "%s", r->label);
        if (!r->correct.ok) {
            text_table_set(&t, 1, "WRONG");
            continue;
        }
        text_table_set(&t, 1, "%d", r->stats.n);
        out_set_ns(&t, 2, r->stats.min);
        out_set_ns(&t, 3, r->stats.median);
        out_set_ns(&t, 4, r->stats.max);
        if (r->has_ratio) out_set_interval(&t, 5, r->ratio.value, r->ratio.lo, r->ratio.hi);
        out_set_goals(&t, 6, r);
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

void out_serve_tables(const struct printer *p, int32_t first, int32_t end)
{
    const struct bench_row *r = p->report->rows[first];
    char text[512];
    double unused;
    snprintf(text, sizeof(text),
             "%s: %s; %s requests of %s / %s, context %s, arrivals: %s; model %s, %s tokens of K "
             "and V, at most %s sequences, %s threads; x is to %s",
             r->case_id, r->note, bench_row_get_param(r, "requests"),
             bench_row_get_param(r, "lengths"), bench_row_get_param(r, "scale"),
             bench_row_get_param(r, "context"), bench_row_get_param(r, "arrivals"),
             bench_row_get_param(r, "model"), bench_row_get_param(r, "pool_tokens"),
             bench_row_get_param(r, "max_seqs"), bench_row_get_param(r, "threads"), r->versus);
    out_title(p, text);
    if (!r->correct.ok || bench_row_get_value(r, "output_tokens_per_s", &unused)) {
        rate_table(p, first, end);
        delay_table(p, first, end);
    } else {
        repeat_table(p, first, end);
    }
}

/* ---------------------------------------------------------------- what to take home */

static bool is_paged_against_max(const struct bench_row *r)
{
    return r->group == GROUP_SERVE && r->has_ratio && strncmp(r->label, "paged", 5) == 0 &&
           strcmp(r->versus, "max") == 0;
}

/* The same case's row of the longest regions; NULL: it was not run. */
static const struct bench_row *max_row_of(const struct bench_report *report,
                                          const struct bench_row *paged)
{
    for (int32_t i = 0; i < report->n_rows; i++)
        if (strcmp(report->rows[i]->case_id, paged->case_id) == 0 &&
            strncmp(report->rows[i]->label, "max", 3) == 0)
            return report->rows[i];
    return NULL;
}

/* More sequences at a time make each of them slower: medians that are longer than those of max. */
static int32_t delay_losses(const struct printer *p, const struct bench_row *paged)
{
    static const char *const delays[] = { "ttft_p50_ms", "tpot_p50_ms", "itl_p50_ms" };
    const struct bench_row *max = max_row_of(p->report, paged);
    int32_t n = 0;
    for (int k = 0; max && k < BENCH_LEN(delays); k++) {
        double of_paged, of_max;
        char text[320];
        if (!bench_row_get_value(paged, delays[k], &of_paged) ||
            !bench_row_get_value(max, delays[k], &of_max) || !(of_paged > LOSS_FROM * of_max))
            continue;
        snprintf(text, sizeof(text), "%s %.3g against %.3g of max: %s", delays[k], of_paged, of_max,
                 paged->id);
        out_note(p, text);
        n++;
    }
    return n;
}

int32_t out_serve_losses(const struct printer *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->report->n_rows; i++) {
        const struct bench_row *r = p->report->rows[i];
        char text[320];
        if (!is_paged_against_max(r)) continue;
        n += delay_losses(p, r);
        if (r->ratio.pairs < 3 || r->ratio.lo <= 1) continue;
        snprintf(text, sizeof(text), "%.3f [%.3f, %.3f] times the tokens/s of max: %s",
                 1 / r->ratio.value, 1 / r->ratio.hi, 1 / r->ratio.lo, r->id);
        out_note(p, text);
        n++;
    }
    return n;
}

const struct bench_row *out_serve_headline_row(const struct bench_report *report)
{
    double unused;
    for (int32_t i = 0; i < report->n_rows; i++)
        if (is_paged_against_max(report->rows[i]) &&
            bench_row_get_value(report->rows[i], "seqs_ratio", &unused))
            return report->rows[i];
    return NULL;
}

void out_serve_headline(const struct printer *p, const struct bench_row *row)
{
    double ratio = 0;
    char text[512];
    (void)bench_row_get_value(row, "seqs_ratio", &ratio);
    snprintf(text, sizeof(text),
             "serving: in the same memory blocks hold %.2f times the sequences of regions of the "
             "longest context, and give %.3f [%.3f, %.3f] times the tokens/s (%s)",
             ratio, 1 / row->ratio.value, 1 / row->ratio.hi, 1 / row->ratio.lo, row->id);
    out_note(p, text);
    out_note(p, row->repro);
}
