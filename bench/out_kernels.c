/* Tables of attention and moves: one per case and family (a level and a number of threads). */
#include "out_parts.h"

#include <string.h>

/* Which columns the rows of a table need. */
struct columns {
    bool rate;  /* GFLOP/s instead of GB/s */
    bool ratio; /* to a baseline */
    bool share; /* of a yardstick */
    bool line;  /* through the points of a sweep */
    bool error; /* against a reference */
    bool goals;
};

static struct columns columns_of(const struct printer *p, int32_t first, int32_t end)
{
    struct columns c = { false, false, false, false, false, false };
    for (int32_t i = first; i < end; i++) {
        const struct bench_row *r = p->report->rows[i];
        double unused;
        c.rate = c.rate || r->flops > 0;
        c.ratio = c.ratio || r->has_ratio;
        c.share = c.share || r->has_share || r->in_cache;
        c.line = c.line || bench_row_get_value(r, "of_line", &unused);
        c.error = c.error || r->correct.has_errors;
        c.goals = c.goals || r->n_goals > 0;
    }
    return c;
}

static void heads_of(const struct columns *c, const struct bench_row *r, const char *yardstick,
                     char *heads, size_t size)
{
    int n = snprintf(heads, size, "<%s|n|min|median|IQR|p95|%s",
                     c->line || r->group == GROUP_MODEL ? "side" : "layout",
                     c->rate ? "GFLOP/s" : "GB/s");
    if (c->share) n += snprintf(heads + n, size - (size_t)n, "|of %s", yardstick);
    if (c->ratio) n += snprintf(heads + n, size - (size_t)n, "|time / %s|<verdict", r->versus);
    if (c->line) n += snprintf(heads + n, size - (size_t)n, "|line|line / time");
    if (c->error) n += snprintf(heads + n, size - (size_t)n, "|error / of bound");
    if (c->goals) snprintf(heads + n, size - (size_t)n, "|<goal");
}

static void set_ratio(struct text_table *t, int32_t column, const struct bench_row *r)
{
    static const char *const verdicts[] = { "no difference seen", "slower", "faster" };
    if (!r->has_ratio) {
        text_table_set(t, column, "-");
        return;
    }
    out_set_interval(t, column, r->ratio.value, r->ratio.lo, r->ratio.hi);
    text_table_set(t, column + 1, "%s", verdicts[bench_ratio_verdict(&r->ratio)]);
}

static void set_share(struct text_table *t, int32_t column, const struct bench_row *r)
{
    if (r->in_cache) text_table_set(t, column, "in cache");
    else if (r->has_share) out_set_interval(t, column, r->share.value, r->share.lo, r->share.hi);
}

static void set_line(struct text_table *t, int32_t column, const struct bench_row *r)
{
    double line_ns, of_line;
    if (!bench_row_get_value(r, "line_ns", &line_ns)) return;
    out_set_ns(t, column, line_ns);
    if (bench_row_get_value(r, "of_line", &of_line)) text_table_set(t, column + 1, "%.2f", of_line);
}

static void put_row(struct text_table *t, const struct columns *c, const struct bench_row *r)
{
    int32_t column = 7;
    text_table_row(t);
    text_table_set(t, 0, "%s", r->label);
    if (r->correct.checked && !r->correct.ok) {
        text_table_set(t, 1, "WRONG");
        return;
    }
    if (r->stats.n == 0) return;
    text_table_set(t, 1, "%d", r->stats.n);
    out_set_ns(t, 2, r->stats.min);
    out_set_ns(t, 3, r->stats.median);
    out_set_ns(t, 4, r->stats.q3 - r->stats.q1);
    out_set_ns(t, 5, r->stats.p95);
    if (c->rate) text_table_set(t, 6, "%.1f", bench_row_gflops(r));
    else if (r->bytes_needed) text_table_set(t, 6, "%.2f", bench_row_gbs(r));
    if (c->share) set_share(t, column++, r);
    if (c->ratio) set_ratio(t, column, r);
    if (c->ratio) column += 2;
    if (c->line) set_line(t, column, r);
    if (c->line) column += 2;
    if (c->error && r->correct.has_errors)
        text_table_set(t, column, "%.1e / %.2f", r->correct.max_abs, r->correct.bound_used);
    if (c->error) column++;
    if (c->goals) out_set_goals(t, column, r);
}

/* Say a parameter in the title where all rows agree on it. */
static void put_common(const struct printer *p, int32_t first, int32_t end, const char *name,
                       const char *before, const char *after, char *text, size_t size)
{
    const char *value = "";
    for (int32_t i = first; i < end; i++) {
        const char *own = bench_row_get_param(p->report->rows[i], name);
        if (!*own) continue;
        if (*value && strcmp(own, value) != 0) return;
        value = own;
    }
    const size_t n = strlen(text);
    if (*value) snprintf(text + n, size - n, "%s%s%s", before, value, after);
}

/* Do all rows read as much? Sizes of a sweep do not. */
static bool same_bytes(const struct printer *p, int32_t first, int32_t end)
{
    bool same = true;
    for (int32_t i = first; i < end; i++)
        same = same && p->report->rows[i]->bytes_needed == p->report->rows[first]->bytes_needed;
    return same;
}

static void put_title(const struct printer *p, int32_t first, int32_t end)
{
    const struct bench_row *r = p->report->rows[first];
    char text[320];
    snprintf(text, sizeof(text), "%s:", r->case_id);
    put_common(p, first, end, "threads", " threads ", ",", text, sizeof(text));
    put_common(p, first, end, "level", " level ", ",", text, sizeof(text));
    put_common(p, first, end, "heads", " heads ", ",", text, sizeof(text));
    put_common(p, first, end, "head_dim", " dim ", ",", text, sizeof(text));
    put_common(p, first, end, "kv_dtype", " ", ",", text, sizeof(text));
    put_common(p, first, end, "layers", " layers ", ",", text, sizeof(text));
    if (r->bytes_needed && r->group == GROUP_KERNEL && same_bytes(p, first, end)) {
        const size_t n = strlen(text);
        snprintf(text + n, sizeof(text) - n, " %.1f MiB of K and V a call,",
                 (double)r->bytes_needed / 0x1p20);
    }
    put_common(p, first, end, "kernel", " ", ",", text, sizeof(text));
    text[strlen(text) - 1] = '\0'; /* the last comma, or the colon */
    out_title(p, text);
}

/* The yardstick's name for the head of a column. */
static const char *yardstick_of(const struct printer *p, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) {
        const struct bench_row *r = p->report->rows[i];
        for (int32_t k = first; r->has_share && k < end; k++)
            if (strcmp(p->report->rows[k]->id, r->share_to) == 0) return p->report->rows[k]->label;
    }
    return "reads";
}

static void line_note(const struct printer *p, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) {
        const struct bench_row *r = p->report->rows[i];
        double a, b;
        char text[200];
        if (!bench_row_get_value(r, "line_a_ns", &a) || !bench_row_get_value(r, "line_b_ns", &b))
            continue;
        snprintf(text, sizeof(text), "line: %.4g us + %.4g us x %s", a / 1e3, b / 1e3, r->line);
        out_note(p, text);
        return;
    }
}

/* Notes of the rows, each once. */
static void row_notes(const struct printer *p, int32_t first, int32_t end)
{
    for (int32_t i = first; i < end; i++) {
        const char *text = p->report->rows[i]->note;
        if (*text && (i == first || strcmp(text, p->report->rows[i - 1]->note) != 0))
            out_note(p, text);
    }
}

static void family_table(const struct printer *p, int32_t first, int32_t end)
{
    const struct columns c = columns_of(p, first, end);
    char heads[256], storage[256];
    struct text_table t;
    put_title(p, first, end);
    const char *versus = "";
    const struct bench_row *named = p->report->rows[first];
    for (int32_t i = first; i < end && !*versus; i++) {
        named = p->report->rows[i];
        versus = named->versus;
    }
    heads_of(&c, named, yardstick_of(p, first, end), heads, sizeof(heads));
    text_table_init(&t, heads, storage, sizeof(storage));
    for (int32_t i = first; i < end; i++) put_row(&t, &c, p->report->rows[i]);
    text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
    line_note(p, first, end);
    row_notes(p, first, end);
}

void out_kernel_tables(const struct printer *p, int32_t first, int32_t end)
{
    for (int32_t i = first, next; i < end; i = next) {
        const int32_t family = p->report->rows[i]->family;
        next = i + 1;
        while (next < end && p->report->rows[next]->family == family) next++;
        family_table(p, i, next);
    }
}
