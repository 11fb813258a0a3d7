/* Reports as tables: one per attention case, tables A and B of the block manager, capacity, then
 * where paging loses, goals, notes and the headline. Everything comes from the rows. */
#include "out_parts.h"

#include "published.h"

#include <stdlib.h>
#include <string.h>

void out_title(const struct printer *p, const char *text)
{
    if (p->markdown) fprintf(p->out, "\n### %s\n\n", text);
    else fprintf(p->out, "\n%s\n", text);
}

void out_note(const struct printer *p, const char *text)
{
    fprintf(p->out, p->markdown ? "- %s\n" : "  %s\n", text);
}

void out_set_interval(struct text_table *t, int32_t column, double value, double lo, double hi)
{
    text_table_set(t, column, "%.3f [%.3f, %.3f]", value, lo, hi);
}

void out_set_ns(struct text_table *t, int32_t column, double ns)
{
    char text[32];
    text_ns(ns, text, sizeof(text));
    text_table_set(t, column, "%s", text);
}

/* ---------------------------------------------------------------- block manager */

static bool has_group(const struct bench_report *report, enum bench_group group)
{
    for (int32_t i = 0; i < report->n_rows; i++)
        if (report->rows[i]->group == group) return true;
    return false;
}

static void set_value(struct text_table *t, int32_t column, const struct bench_row *r,
                      const char *name, const char *fmt)
{
    double value;
    if (!bench_row_get_value(r, name, &value)) return;
    if (strcmp(fmt, "int") == 0) text_table_set(t, column, "%.0f", value);
    else if (strcmp(fmt, "%") == 0) text_table_set(t, column, "%.1f %%", 100 * value);
    else if (strcmp(fmt, "%2") == 0) text_table_set(t, column, "%.2f %%", 100 * value);
    else if (strcmp(fmt, "+2") == 0) text_table_set(t, column, "%+.2f", value);
    else if (strcmp(fmt, "2") == 0) text_table_set(t, column, "%.2f", value);
    else text_table_set(t, column, "%.3f", value);
}

static void pool_table(const struct printer *p)
{
    static const char *const names[] = { "iterations", "total_blocks", "allocated_blocks",
                                         "get_avg_us", "get_max_us",   "free_avg_us",
                                         "free_max_us" };
    char heads[256];
    struct text_table t;
    if (!has_group(p->report, GROUP_POOL)) return;
    out_title(p, "Block manager, table A: get and free of blocks (columns of vLLM's "
                 "benchmark_block_pool; us per call)");
    text_table_init(&t,
                    "<side|iterations|total blocks|allocated blocks|get avg|get max|free avg|"
                    "free max",
                    heads, sizeof(heads));
    for (int32_t i = 0; i < p->report->n_rows; i++) {
        const struct bench_row *r = p->report->rows[i];
        if (r->group != GROUP_POOL) continue;
        text_table_row(&t);
        text_table_set(&t, 0, "%s", r->label);
        for (int c = 0; c < BENCH_LEN(names); c++)
            set_value(&t, c + 1, r, names[c], c < 3 ? "int" : "3");
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

static void blockmgr_row(struct text_table *t, const struct bench_row *r)
{
    text_table_row(t);
    text_table_set(t, 0, "%s", r->label);
    text_table_set(t, 1, "%s", bench_row_get_param(r, "per"));
    if (r->correct.checked && !r->correct.ok) {
        text_table_set(t, 2, "WRONG");
        return;
    }
    if (r->stats.n == 0) return;
    text_table_set(t, 2, "%d", r->stats.n);
    out_set_ns(t, 3, r->stats.min);
    out_set_ns(t, 4, r->stats.median);
    out_set_ns(t, 5, r->stats.p90);
    out_set_ns(t, 6, r->stats.p99);
    if (r->stats.n >= 1000) out_set_ns(t, 7, r->stats.p999);
    else text_table_set(t, 7, "-");
    out_set_ns(t, 8, r->stats.max);
    if (r->has_ratio) text_table_set(t, 9, "%.2f", r->ratio.value);
    out_set_goals(t, 10, r);
    text_table_set(t, 11, "%s", r->published);
}

static void blockmgr_table(const struct printer *p)
{
    char heads[256];
    struct text_table t;
    if (!has_group(p->report, GROUP_BLOCKMGR)) return;
    out_title(
        p, "Block manager, table B: time per operation; x list = factor to a bare LIFO list with "
           "counters timed beside it");
    text_table_init(&t,
                    "<operation|<per|n|min|p50|p90|p99|p99.9|max|x list|<goal (p50)|"
                    "<published, other hardware",
                    heads, sizeof(heads));
    for (int32_t i = 0; i < p->report->n_rows; i++)
        if (p->report->rows[i]->group == GROUP_BLOCKMGR) blockmgr_row(&t, p->report->rows[i]);
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
    for (int32_t i = 0; i < p->report->n_rows; i++) {
        const struct bench_row *r = p->report->rows[i];
        char text[256];
        if (r->group != GROUP_BLOCKMGR || !r->note[0]) continue;
        snprintf(text, sizeof(text), "%s: %s", r->label, r->note);
        out_note(p, text);
    }
}

/* ---------------------------------------------------------------- capacity */

/* Rows [first, end) of one generator. */
static void capacity_table(const struct printer *p, int32_t first, int32_t end)
{
    static const struct {
        const char *name, *fmt;
    } columns[] = { { "mean_batch", "2" },   { "max_batch", "int" },   { "resident_tokens", "int" },
                    { "token", "%" },        { "reservation", "%" },   { "internal", "%" },
                    { "external", "%" },     { "preemptions", "int" }, { "table_bytes", "int" },
                    { "ratio_to_max", "2" }, { "ratio_to_best", "2" } };
    char heads[256], text[256];
    struct text_table t;
    const struct bench_row *r = p->report->rows[first];
    snprintf(text, sizeof(text),
             "%s (simulated): concurrent sequences in %s slots, at most %s tokens each", r->case_id,
             bench_row_get_param(r, "slots"), bench_row_get_param(r, "max_model_len"));
    out_title(p, text);
    text_table_init(&t,
                    "<policy|mean batch|max|tokens held|tokens|reserved|internal|external|"
                    "preempted|table bytes|x max|x best contiguous",
                    heads, sizeof(heads));
    for (int32_t i = first; i < end; i++) {
        r = p->report->rows[i];
        text_table_row(&t);
        text_table_set(&t, 0, "%s", r->label);
        if (r->correct.checked && !r->correct.ok) text_table_set(&t, 1, "WRONG");
        for (int c = 0; c < BENCH_LEN(columns); c++)
            set_value(&t, c + 1, r, columns[c].name, columns[c].fmt);
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
    for (int32_t i = first; i < end; i++)
        if (p->report->rows[i]->note[0]) out_note(p, p->report->rows[i]->note);
}

/* ---------------------------------------------------------------- sharing */

/* Rows [first, end) of one generator. */
static void sampling_table(const struct printer *p, int32_t first, int32_t end)
{
    char heads[256], text[256];
    struct text_table t;
    const struct bench_row *r = p->report->rows[first];
    snprintf(text, sizeof(text),
             "%s: parallel sampling, blocks that sharing the prompt saves, %s requests", r->case_id,
             bench_row_get_param(r, "requests"));
    out_title(p, text);
    text_table_init(&t,
                    "samples|block tokens|saved|blocks in use|if nothing was shared|copies a "
                    "request|<published, other lengths",
                    heads, sizeof(heads));
    for (int32_t i = first; i < end; i++) {
        r = p->report->rows[i];
        text_table_row(&t);
        text_table_set(&t, 0, "%s", bench_row_get_param(r, "samples"));
        text_table_set(&t, 1, "%s", bench_row_get_param(r, "block_tokens"));
        if (r->correct.ok) set_value(&t, 2, r, "saved", "%2");
        else text_table_set(&t, 2, "WRONG");
        set_value(&t, 3, r, "mean_blocks", "2");
        set_value(&t, 4, r, "mean_blocks_unshared", "2");
        set_value(&t, 5, r, "copies_per_request", "2");
        text_table_set(&t, 6, "%s", r->published);
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

/* Rows [first, end) of one trace. */
static void trace_table(const struct printer *p, int32_t first, int32_t end)
{
    static const struct {
        const char *name, *fmt;
    } columns[] = { { "pool_tokens", "int" },    { "token_hits", "%2" },
                    { "block_hits", "%2" },      { "request_mean", "%2" },
                    { "of_bound", "%" },         { "evicted_blocks", "int" },
                    { "points_above_lru", "+2" } };
    char heads[256], text[256];
    struct text_table t;
    const struct bench_row *r = p->report->rows[first];
    snprintf(text, sizeof(text),
             "%s: prefix cache, %s requests one after another, %s blocks of %s tokens, %s distinct",
             r->case_id, bench_row_get_param(r, "requests"), bench_row_get_param(r, "blocks"),
             bench_row_get_param(r, "block_tokens"), bench_row_get_param(r, "distinct"));
    out_title(p, text);
    text_table_init(&t,
                    "pool, blocks|<eviction|pool, tokens|tokens found|blocks found|mean of "
                    "requests|of bound|evicted|points above LRU|<goal",
                    heads, sizeof(heads));
    for (int32_t i = first; i < end; i++) {
        r = p->report->rows[i];
        text_table_row(&t);
        text_table_set(&t, 0, "%s", bench_row_get_param(r, "pool"));
        text_table_set(&t, 1, "%s", r->label);
        if (r->correct.checked && !r->correct.ok) text_table_set(&t, 9, "WRONG");
        for (int c = 0; c < BENCH_LEN(columns); c++)
            set_value(&t, c + 2, r, columns[c].name, columns[c].fmt);
        out_set_goals(&t, 9, r);
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

static void share_table(const struct printer *p, int32_t first, int32_t end)
{
    const bool samples = *bench_row_get_param(p->report->rows[first], "samples") != '\0';
    if (samples) sampling_table(p, first, end);
    else trace_table(p, first, end);
}

/* ---------------------------------------------------------------- engine */

static void engine_table(const struct printer *p)
{
    char heads[96];
    struct text_table t;
    if (!has_group(p->report, GROUP_ENGINE)) return;
    out_title(p, "Reference transformer under load");
    text_table_init(&t, "<what|measured|<unit|<goal", heads, sizeof(heads));
    for (int32_t i = 0; i < p->report->n_rows; i++) {
        const struct bench_row *r = p->report->rows[i];
        if (r->group != GROUP_ENGINE) continue;
        text_table_row(&t);
        text_table_set(&t, 0, "%s", r->label);
        if (r->correct.ok) set_value(&t, 1, r, "value", "3");
        else text_table_set(&t, 1, "WRONG");
        text_table_set(&t, 2, "%s", bench_row_get_param(r, "unit"));
        out_set_goals(&t, 3, r);
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

/* One table for each case of a group. */
static void case_tables(const struct printer *p, enum bench_group group,
                        void (*print)(const struct printer *p, int32_t first, int32_t end))
{
    const struct bench_report *report = p->report;
    for (int32_t i = 0, end; i < report->n_rows; i = end) {
        end = i + 1;
        if (report->rows[i]->group != group) continue;
        while (end < report->n_rows &&
               strcmp(report->rows[end]->case_id, report->rows[i]->case_id) == 0)
            end++;
        print(p, i, end);
    }
}

/* ---------------------------------------------------------------- what to take home */

static int compare_loss(const void *a, const void *b)
{
    const struct bench_row *const *x = a, *const *y = b;
    return ((*x)->ratio.value < (*y)->ratio.value) - ((*x)->ratio.value > (*y)->ratio.value);
}

/* Paged rows that hold fewer sequences than the best contiguous policy: too large blocks. */
static int32_t capacity_losses(const struct printer *p)
{
    int32_t n = 0;
    for (int32_t i = 0; i < p->report->n_rows; i++) {
        const struct bench_row *r = p->report->rows[i];
        double ratio;
        char text[320];
        if (r->group != GROUP_CAPACITY || strncmp(r->label, "paged", 5) != 0 ||
            !bench_row_get_value(r, "ratio_to_best", &ratio) || ratio >= 1)
            continue;
        snprintf(text, sizeof(text), "holds %.2f of the best contiguous policy: %s", ratio, r->id);
        out_note(p, text);
        n++;
    }
    return n;
}

/* Every kernel row whose interval lies above 1, worst first. */
static void losses(const struct printer *p)
{
    const struct bench_report *report = p->report;
    const struct bench_row **rows = malloc(sizeof(*rows) * (size_t)(report->n_rows + 1));
    int32_t n = 0;
    const bool asked = has_group(report, GROUP_KERNEL) || has_group(report, GROUP_CAPACITY) ||
                       has_group(report, GROUP_SERVE);
    if (!asked || !rows) {
        free(rows);
        return;
    }
    for (int32_t i = 0; i < report->n_rows; i++) {
        const struct bench_row *r = report->rows[i];
        if (r->group == GROUP_KERNEL && r->has_ratio && strcmp(r->versus, "contiguous") == 0 &&
            strncmp(r->layout, "contig", 6) != 0 && r->ratio.lo > 1)
            rows[n++] = r;
    }
    qsort(rows, (size_t)n, sizeof(*rows), compare_loss);
    out_title(
        p, "Where paging loses: every kernel case whose interval lies above 1, capacity below the "
           "best contiguous policy, and serving below the longest regions, delays included");
    if (n + capacity_losses(p) + out_serve_losses(p) == 0) out_note(p, "none in this run");
    for (int32_t i = 0; i < n; i++) {
        char text[320];
        snprintf(text, sizeof(text), "%.3f [%.3f, %.3f] %s%s%s", rows[i]->ratio.value,
                 rows[i]->ratio.lo, rows[i]->ratio.hi, rows[i]->id,
                 rows[i]->in_cache ? " (in cache)" : "",
                 bench_ratio_verdict(&rows[i]->ratio) == BENCH_SAME ? " (below 3 %)" : "");
        out_note(p, text);
    }
    free(rows);
}

static void skips(const struct printer *p)
{
    if (p->report->n_skips == 0) return;
    out_title(p, "Skipped");
    for (int32_t i = 0; i < p->report->n_skips; i++) {
        char text[320];
        snprintf(text, sizeof(text), "SKIPPED %s: %s", p->report->skips[i].id,
                 p->report->skips[i].reason);
        out_note(p, text);
    }
}

static void published(const struct printer *p)
{
    char heads[128];
    struct text_table t;
    const struct published_figure *f;
    out_title(
        p,
        "Figures for orientation: other hardware, not measured in this run; published except where "
        "the source says otherwise");
    text_table_init(&t, "<what|<figure|<hardware|<source", heads, sizeof(heads));
    for (int i = 0; (f = published_figure(i)) != NULL; i++) {
        text_table_row(&t);
        text_table_set(&t, 0, "%s", f->what);
        text_table_set(&t, 1, "%s", f->value);
        text_table_set(&t, 2, "%s", f->hardware);
        text_table_set(&t, 3, "%s", f->source);
    }
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

/* Kernel ratio of the first case's random blocks, and both capacity ratios, always together. */
static void headline(const struct printer *p)
{
    const struct bench_row *kernel = NULL, *paged = NULL;
    double to_max = 0, to_best = 0;
    char text[512];
    for (int32_t i = 0; i < p->report->n_rows; i++) {
        const struct bench_row *r = p->report->rows[i];
        if (!kernel && r->group == GROUP_KERNEL && r->has_ratio && r->stats.n &&
            strcmp(r->versus, "contiguous") == 0 && strcmp(r->layout, "paged-random") == 0)
            kernel = r;
        if (!paged && r->group == GROUP_CAPACITY &&
            bench_row_get_value(r, "ratio_to_max", &to_max) &&
            bench_row_get_value(r, "ratio_to_best", &to_best) && strstr(r->label, "paged"))
            paged = r;
    }
    const struct bench_row *serve = out_serve_headline_row(p->report);
    if (!kernel && !paged && !serve) return;
    out_title(p, p->report->noisy ? "Headline (noisy run)" : "Headline");
    if (kernel) {
        snprintf(text, sizeof(text),
                 "kernel: attention through a block table takes %.3f [%.3f, %.3f] times the "
                 "contiguous time (%s)",
                 kernel->ratio.value, kernel->ratio.lo, kernel->ratio.hi, kernel->id);
        out_note(p, text);
        out_note(p, kernel->repro);
    }
    if (paged) {
        snprintf(text, sizeof(text),
                 "capacity, simulated: %s holds %.2f times the sequences of contiguous maximum "
                 "regions and %.2f times those of the best contiguous policy",
                 paged->label, to_max, to_best);
        out_note(p, text);
        out_note(p, paged->repro);
    }
    if (serve) out_serve_headline(p, serve);
}

static void run_line(const struct printer *p)
{
    const struct bench_report *r = p->report;
    char text[768];
    out_title(p, "Run");
    if (r->has_aa) {
        snprintf(text, sizeof(text),
                 "A/A check, the baseline against itself: first %.3f [%.3f, %.3f], last %.3f "
                 "[%.3f, %.3f]%s",
                 r->aa_first.value, r->aa_first.lo, r->aa_first.hi, r->aa_last.value, r->aa_last.lo,
                 r->aa_last.hi, r->noisy ? ": NOISY, do not quote times of this run" : ": quiet");
        out_note(p, text);
    }
    char limit[32] = "";
    if (r->limit_s > 0) snprintf(limit, sizeof(limit), " of %.0f s allowed", r->limit_s);
    snprintf(text, sizeof(text),
             "%.1f s%s, peak memory %lld MiB, interrupted %lld times by other programs: %s",
             r->wall_s, limit, (long long)(r->peak_rss_bytes >> 20), (long long)r->preempted,
             r->command);
    out_note(p, text);
}

void out_tables(const struct bench_report *report, bool markdown, FILE *out)
{
    const struct printer p = { report, markdown, out };
    out_machine(&report->machine, markdown, out);
    case_tables(&p, GROUP_KERNEL, out_kernel_tables);
    case_tables(&p, GROUP_MOVES, out_kernel_tables);
    pool_table(&p);
    blockmgr_table(&p);
    case_tables(&p, GROUP_CAPACITY, capacity_table);
    case_tables(&p, GROUP_SHARE, share_table);
    case_tables(&p, GROUP_SERVE, out_serve_tables);
    case_tables(&p, GROUP_MODEL, out_kernel_tables);
    engine_table(&p);
    if (report->published) published(&p);
    losses(&p);
    out_goals(&p);
    skips(&p);
    run_line(&p);
    headline(&p);
}
