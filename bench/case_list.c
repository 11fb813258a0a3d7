/* The registry of cases: building, filtering and printing it. */
#include "bench_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bench_case *case_list_add(struct case_list *list, struct bench_error *err)
{
    if (list->n == list->cap) {
        const int32_t cap = list->cap ? 2 * list->cap : 32;
        struct bench_case *cases = realloc(list->cases, (size_t)cap * sizeof(*cases));
        if (!cases) {
            (void)bench_fail(err, BENCH_USAGE, "no memory for the list of cases");
            return NULL;
        }
        list->cases = cases;
        list->cap = cap;
    }
    struct bench_case *c = &list->cases[list->n++];
    memset(c, 0, sizeof(*c));
    return c;
}

void case_list_free(struct case_list *list)
{
    for (int32_t i = 0; i < list->n; i++) free(list->cases[i].ctx);
    free(list->cases);
    memset(list, 0, sizeof(*list));
}

bool case_list_build(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    const bool all = o->command == CMD_RUN;
    memset(list, 0, sizeof(*list));
    const bool kernels = all || o->command == CMD_KERNEL;
    if (kernels && !case_list_attention(o, list, err)) return false;
    if (kernels && !o->has_batch && !case_list_moves(o, list, err)) return false;
    if ((all || o->command == CMD_BLOCKMGR) && !case_list_blocks(o, list, err)) return false;
    if ((all || o->command == CMD_CAPACITY) && !case_list_capacity(o, list, err)) return false;
    if (o->command == CMD_SERVE && !case_list_serve(o, list, err)) return false;
    if (o->command == CMD_MODEL && !case_list_model(o, list, err)) return false;
    /* With --trace and its options, `share` is about that trace alone. */
    const bool sampling = all || (o->command == CMD_SHARE && !o->has_trace);
    const bool trace = o->command == CMD_SHARE || (all && o->profile == PROFILE_FULL);
    if (sampling && !case_list_sampling(list, err)) return false;
    if (trace && !case_list_share(o, list, err)) return false;
    return true;
}

static bool row_matches(const struct bench_case *c, const struct bench_side *s, const char *text,
                        bool whole)
{
    char id[160];
    snprintf(id, sizeof(id), "%s/%s", c->id, s->id);
    return whole ? strcmp(id, text) == 0 : strstr(id, text) != NULL;
}

/* Is `text` the whole id of a row? Then it names that row alone: b1 is not b16. */
static bool names_a_row(const struct case_list *list, const char *text)
{
    for (int32_t i = 0; i < list->n; i++)
        for (int32_t s = 0; s < list->cases[i].n_sides; s++)
            if (row_matches(&list->cases[i], &list->cases[i].sides[s], text, true)) return true;
    return false;
}

/* Keep the sides that the filter names, and of their families what they are compared with. False:
 * it names none of this case. */
static bool filter_sides(struct bench_case *c, const char *text, bool whole)
{
    bool named[CASE_MAX_SIDES];
    int32_t n = 0;
    bool any = false;
    for (int32_t i = 0; i < c->n_sides; i++) {
        named[i] = row_matches(c, &c->sides[i], text, whole);
        any = any || named[i];
    }
    if (!any) return false;
    for (int32_t i = 0; i < c->n_sides; i++) {
        bool keep = named[i];
        for (int32_t k = 0; k < c->n_sides && (c->sides[i].baseline || c->sides[i].yardstick); k++)
            keep = keep || (named[k] && c->sides[k].family == c->sides[i].family);
        if (!keep) continue;
        named[n] = named[i]; /* sides move down, their names with them */
        c->sides[n++] = c->sides[i];
    }
    c->n_sides = n;
    return true;
}

void case_list_filter(struct case_list *list, const char *text)
{
    const bool whole = names_a_row(list, text);
    int32_t n = 0;
    for (int32_t i = 0; i < list->n; i++) {
        struct bench_case *c = &list->cases[i];
        const bool named = !whole && strstr(c->id, text) != NULL;
        if (named || filter_sides(c, text, whole)) list->cases[n++] = *c;
        else free(c->ctx);
    }
    list->n = n;
}

void case_list_print(const struct case_list *list)
{
    for (int32_t i = 0; i < list->n; i++) {
        const struct bench_case *c = &list->cases[i];
        if (c->n_sides == 0) printf("%s\n", c->id);
        for (int32_t s = 0; s < c->n_sides; s++) printf("%s/%s\n", c->id, c->sides[s].id);
    }
}
