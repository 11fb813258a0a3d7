/* Goals: met or missed. */
#include "out_parts.h"

#include <string.h>

void out_set_goals(struct text_table *t, int32_t column, const struct bench_row *r)
{
    char text[256];
    int n = 0;
    text[0] = '\0';
    for (int32_t i = 0; i < r->n_goals; i++)
        n += snprintf(text + n, sizeof(text) - (size_t)n, "%s%s: %s", i ? "; " : "",
                      r->goals[i].text, r->goals[i].met ? "met" : "missed");
    text_table_set(t, column, "%s", text);
}

/* The figure that a goal is about, in its unit. */
static void value_text(const struct bench_row *r, const struct bench_goal *g, char *text,
                       size_t size)
{
    if (g->has_interval && g->limit >= 100) /* GFLOP/s */
        snprintf(text, size, "%.0f [%.0f, %.0f]", g->value, g->lo, g->hi);
    else if (g->has_interval) snprintf(text, size, "%.3f [%.3f, %.3f]", g->value, g->lo, g->hi);
    else if (r->group == GROUP_SHARE) snprintf(text, size, "%.2f points", g->value);
    else if (strncmp(g->text, "<=", 2) == 0) text_ns(g->value, text, size);
    else snprintf(text, size, "%.3f", g->value);
}

static void goal_row(struct text_table *t, const struct bench_row *r, const struct bench_goal *g)
{
    char value[64];
    value_text(r, g, value, sizeof(value));
    text_table_row(t);
    text_table_set(t, 0, "%s", g->name);
    text_table_set(t, 1, "%s", r->id);
    text_table_set(t, 2, "%s", g->text);
    text_table_set(t, 3, "%s", value);
    text_table_set(t, 4, "%s", g->met ? "met" : "missed");
}

/* Goals that a page of the documentation numbers, in the order of their names, as a table to be
 * kept. */
static void named_goals(const struct printer *p, char letter, const char *title)
{
    char heads[96];
    struct text_table t;
    int32_t n = 0;
    text_table_init(&t, "<goal|<row|<wanted|measured|<verdict", heads, sizeof(heads));
    for (int number = 1; number <= 15; number++)
        for (int32_t i = 0; i < p->report->n_rows; i++) {
            const struct bench_row *r = p->report->rows[i];
            char name[8];
            snprintf(name, sizeof(name), "%c%d", letter, number);
            for (int32_t k = 0; k < r->n_goals; k++) {
                if (strcmp(r->goals[k].name, name) != 0) continue;
                goal_row(&t, r, &r->goals[k]);
                n++;
            }
        }
    if (n) out_title(p, title);
    if (n) text_table_print(&t, p->markdown, p->out);
    text_table_free(&t);
}

void out_goals(const struct printer *p)
{
    int32_t n = 0, met = 0;
    char text[320], value[64];
    for (int32_t i = 0; i < p->report->n_rows; i++)
        for (int32_t k = 0; k < p->report->rows[i]->n_goals; k++) {
            n++;
            met += p->report->rows[i]->goals[k].met;
        }
    if (n == 0) return;
    named_goals(p, 'C', "Kernel goals (docs/kernels.md says what they are about)");
    named_goals(p, 'P', "Goals of the reference transformer (docs/model.md)");
    snprintf(text, sizeof(text), "Goals: %d of %d met%s", met, n,
             p->report->noisy ? " (noisy run: times are unreliable)" : "");
    out_title(p, text);
    for (int32_t i = 0; i < p->report->n_rows; i++)
        for (int32_t k = 0; k < p->report->rows[i]->n_goals; k++) {
            const struct bench_row *r = p->report->rows[i];
            const struct bench_goal *g = &r->goals[k];
            if (g->met || g->name[0]) continue; /* those with a name stand in the table */
            value_text(r, g, value, sizeof(value));
            snprintf(text, sizeof(text), "missed: %s: %s, goal %s", r->id, value, g->text);
            out_note(p, text);
        }
}
