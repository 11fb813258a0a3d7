/* Numbers over time for the charts: what to show of a series, and of how many points. */
#include "fragsim_chart.h"

#include <math.h>
#include <string.h>

/* ---------------------------------------------------------------- parts and measures */

static int64_t free_slots(const pkv_sim_sample *s)
{
    return s->unusable + s->shortage + s->limited + s->idle;
}

static int64_t pool(const pkv_sim_sample *s)
{
    return s->token + s->reservation + s->internal + s->rounding + free_slots(s);
}

static int64_t part_slots(fragsim_part part, const pkv_sim_sample *s)
{
    switch (part) {
    case FRAGSIM_PART_TOKEN:
        return s->token;
    case FRAGSIM_PART_RESERVATION:
        return s->reservation;
    case FRAGSIM_PART_INTERNAL:
        return s->internal;
    case FRAGSIM_PART_ROUNDING:
        return s->rounding;
    case FRAGSIM_PART_UNUSABLE:
        return s->unusable;
    case FRAGSIM_PART_CACHED:
        return s->cached;
    default:
        return free_slots(s) - s->unusable - s->cached;
    }
}

double fragsim_part_at(fragsim_part part, const pkv_sim_sample *s)
{
    const int64_t all = pool(s);
    return all > 0 ? (double)part_slots(part, s) / (double)all : 0;
}

double fragsim_part_mean(fragsim_part part, const pkv_sim_split *s)
{
    switch (part) {
    case FRAGSIM_PART_TOKEN:
        return s->token;
    case FRAGSIM_PART_RESERVATION:
        return s->reservation;
    case FRAGSIM_PART_INTERNAL:
        return s->internal;
    case FRAGSIM_PART_ROUNDING:
        return s->rounding;
    case FRAGSIM_PART_UNUSABLE:
        return s->unusable;
    case FRAGSIM_PART_CACHED:
        return s->cached;
    default:
        return fmax(0, s->shortage + s->limited + s->idle - s->cached);
    }
}

const char *fragsim_measure_title(fragsim_measure measure)
{
    static const char *const titles[] = { "Memory filled with tokens", "Memory in use", "Batch",
                                          "Queue", "How scattered the free memory is" };
    return titles[measure];
}

const char *fragsim_measure_axis(fragsim_measure measure)
{
    static const char *const axes[] = { "% of the pool", "% of the pool", "running requests",
                                        "waiting requests", "1 - largest run / free (%)" };
    return axes[measure];
}

bool fragsim_measure_at(fragsim_measure measure, const pkv_sim_sample *s, double *out)
{
    const int64_t all = pool(s), left = free_slots(s);
    switch (measure) {
    case FRAGSIM_BATCH:
        *out = (double)s->running;
        return true;
    case FRAGSIM_QUEUE:
        *out = (double)(s->waiting + s->swapped);
        return true;
    case FRAGSIM_TOKEN_SHARE:
        *out = 100 * (double)s->token / (double)all;
        return all > 0;
    case FRAGSIM_USED_SHARE:
        *out = 100 * (double)(all - left) / (double)all;
        return all > 0;
    default:
        if (left <= 0) return false;
        *out = 100 * (1 - (double)s->largest_free / (double)left);
        return true;
    }
}

bool fragsim_measure_matters(fragsim_measure measure, const fragsim_job *job)
{
    const pkv_sim_policy *p = &job->cfg.policy;
    if (job->series.n == 0) return false;
    if (measure != FRAGSIM_SCATTER) return true;
    if (p->kind > PKV_SIM_ORACLE || p->addr == PKV_SIM_ADDR_IDEAL) return false;
    for (int64_t k = 0; k < job->series.n; k++) {
        double v;
        if (fragsim_measure_at(measure, &job->series.samples[k], &v) && v > 0) return true;
    }
    return false;
}

bool fragsim_has_map(const fragsim_job *job)
{
    return job->series.maps && job->series.map_cells > 0 && job->series.n > 0;
}

/* ---------------------------------------------------------------- the axis */

/* Where averages end with the last arrival, what follows is drained for up to many times as long;
 * it is shown for a tenth of the time before. */
static int64_t last_shown(const fragsim_report *rep, int64_t end_ns, int64_t *last_arrival_ns)
{
    const fragsim_input *in = rep->input;
    *last_arrival_ns = -1;
    if (in->n == 0 || rep->opts->sim.concurrency > 0) return end_ns;
    if (rep->jobs[0].result.window != PKV_SIM_WINDOW_ARRIVALS) return end_ns;
    const int64_t last = in->reqs[in->n - 1].arrival_ns, span = last - in->reqs[0].arrival_ns;
    if (span <= 0) return end_ns;
    *last_arrival_ns = last;
    return last + span / 10 < end_ns ? last + span / 10 : end_ns;
}

bool fragsim_time_of(const fragsim_report *rep, fragsim_time *out)
{
    bool any = false;
    int64_t from_ns = INT64_MAX, end_ns = 0;
    for (int k = 0; k < rep->n_jobs; k++) {
        const fragsim_series *s = &rep->jobs[k].series;
        if (s->n < 2) continue;
        if (s->samples[0].t_ns < from_ns) from_ns = s->samples[0].t_ns;
        if (s->samples[s->n - 1].t_ns > end_ns) end_ns = s->samples[s->n - 1].t_ns;
    }
    if (from_ns >= end_ns) return false;
    out->from_ns = from_ns;
    out->to_ns = last_shown(rep, end_ns, &out->last_arrival_ns);
    out->cut = out->to_ns < end_ns;
    const double span_s = (double)(out->to_ns - from_ns) / 1e9;
    out->unit = span_s < 1e-3        ? "us"
                : span_s < 1         ? "ms"
                : span_s < 600       ? "s"
                : span_s < 4 * 3600  ? "min"
                : span_s < 4 * 86400 ? "h"
                                     : "d";
    out->unit_ns = span_s < 1e-3        ? 1e3
                   : span_s < 1         ? 1e6
                   : span_s < 600       ? 1e9
                   : span_s < 4 * 3600  ? 60e9
                   : span_s < 4 * 86400 ? 3600e9
                                        : 86400e9;
    for (int k = 0; k < rep->n_jobs; k++) any |= fragsim_shown(&rep->jobs[k], out) >= 2;
    return any;
}

int64_t fragsim_shown(const fragsim_job *job, const fragsim_time *time)
{
    int64_t n = job->series.n;
    while (n > 0 && job->series.samples[n - 1].t_ns > time->to_ns) n--;
    return n;
}

/* ---------------------------------------------------------------- thinning */

/* Indices of the smallest and the largest value in [from, to), in order and once each. */
static int64_t put_extremes(int64_t from, int64_t to, fragsim_value_fn value, const void *ctx,
                            int64_t *out)
{
    int64_t low = -1, high = -1;
    double v, least = 0, most = 0;
    for (int64_t k = from; k < to; k++) {
        if (!value(ctx, k, &v)) continue;
        if (low < 0 || v < least) low = k, least = v;
        if (high < 0 || v > most) high = k, most = v;
    }
    if (low < 0) low = high = from; /* a gap stays a gap */
    out[0] = low < high ? low : high;
    if (low == high) return 1;
    out[1] = low < high ? high : low;
    return 2;
}

int64_t fragsim_thin(int64_t n, int64_t cap, fragsim_value_fn value, const void *ctx, int64_t *out)
{
    int64_t m = 0;
    if (n <= cap || cap < 4) {
        for (int64_t k = 0; k < n; k++) out[m++] = k;
        return m;
    }
    const int64_t stretches = (cap - 2) / 2, inner = n - 2;
    out[m++] = 0;
    for (int64_t s = 0; s < stretches; s++)
        m += put_extremes(1 + s * inner / stretches, 1 + (s + 1) * inner / stretches, value, ctx,
                          out + m);
    out[m++] = n - 1;
    return m;
}
