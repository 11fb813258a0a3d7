/* The charts of a report in one SVG file. */
#include "fragsim_chart.h"

#include <stdlib.h>

/* Waste, four measures, and a map per policy. */
enum { MAX_CHARTS = 1 + FRAGSIM_MEASURE_COUNT + FRAGSIM_MAX_POLICIES };

typedef struct sheet {
    char *charts[MAX_CHARTS];
    const char *titles[MAX_CHARTS];
    char map_titles[FRAGSIM_MAX_POLICIES][PKV_SIM_POLICY_NAME_BYTES + 32];
    int n;
} sheet;

static bool add(sheet *to, char *chart, const char *title)
{
    if (!chart) return false;
    to->titles[to->n] = title;
    to->charts[to->n++] = chart;
    return true;
}

static bool add_all(const fragsim_report *rep, sheet *to)
{
    fragsim_time time;
    if (!add(to, fragsim_draw_waste(rep), "Where the memory went")) return false;
    if (!fragsim_time_of(rep, &time)) return true;
    for (int m = 0; m < FRAGSIM_MEASURE_COUNT; m++) {
        const fragsim_measure measure = (fragsim_measure)m;
        bool matters = false;
        for (int k = 0; k < rep->n_jobs; k++)
            matters |= fragsim_measure_matters(measure, &rep->jobs[k]);
        if (matters &&
            !add(to, fragsim_draw_measure(rep, measure, &time), fragsim_measure_title(measure)))
            return false;
    }
    for (int k = 0; k < rep->n_jobs; k++) {
        if (!fragsim_has_map(&rep->jobs[k]) || fragsim_shown(&rep->jobs[k], &time) < 2) continue;
        snprintf(to->map_titles[k], sizeof(to->map_titles[k]), "Memory map of %s",
                 rep->jobs[k].name);
        if (!add(to, fragsim_draw_map(rep, k, &time), to->map_titles[k])) return false;
    }
    return true;
}

char *fragsim_svg(const fragsim_report *rep)
{
    char headline[160];
    sheet *all = calloc(1, sizeof(*all));
    if (!all) {
        fragsim_complain("out of memory for the charts");
        return NULL;
    }
    snprintf(headline, sizeof(headline), "KV-cache memory: %lld requests, pool of %lld slots",
             (long long)rep->input->n, (long long)rep->opts->sim.pool_tokens);
    char *text =
        add_all(rep, all) ? fragsim_stack_charts(all->charts, all->titles, all->n, headline) : NULL;
    for (int k = 0; k < all->n; k++) free(all->charts[k]);
    free(all);
    return text;
}
