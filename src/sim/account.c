/* Integrals over time: slots times nanoseconds, in 128-bit integers, divided once at the end.
 *
 * Over a leap of K steps a part is p0 + d*k at step k, and the step lasts l0 + e*k, so its integral
 * is K*p0*l0 + (p0*e + d*l0) * S1 + d*e * S2 with S1 = sum of k, S2 = sum of k^2: exact. */
#include "sim/sim_internal.h"

static pkv__i128 sum_of_k(int64_t n)
{
    return (pkv__i128)n * (n - 1) / 2;
}
static pkv__i128 sum_of_k2(int64_t n)
{
    return (pkv__i128)n * (n - 1) * (2 * (pkv__i128)n - 1) / 6;
}

pkv__i128 pkv__sim_stretch_ns(const pkv__sim_stretch *s)
{
    return (pkv__i128)s->n * s->first_ns + s->slope_ns * sum_of_k(s->n);
}

int64_t pkv__sim_stretch_within(const pkv__sim_stretch *s, int64_t limit_ns)
{
    if (pkv__sim_stretch_ns(s) <= limit_ns) return s->n;
    int64_t low = 0, high = s->n; /* low steps fit, high do not */
    while (high - low > 1) {
        pkv__sim_stretch part = *s;
        part.n = low + (high - low) / 2;
        if (pkv__sim_stretch_ns(&part) <= limit_ns) low = part.n;
        else high = part.n;
    }
    return low;
}

bool pkv__sim_sample_valid(const pkv__sim_sample *sample, int64_t pool_units)
{
    int64_t sum = 0;
    for (int p = 0; p < PKV__PART_COUNT; p++) {
        if (sample->part[p] < 0) return false;
        if (p < PKV__PART_SUMMED) sum += sample->part[p];
    }
    return sum == pool_units;
}

/* How much of [now, now + ns) lies in the window. */
static pkv__i128 clip(const pkv__sim_account *acc, bool queued, int64_t now_ns, pkv__i128 ns)
{
    if (!acc->started) return 0;
    if (acc->window == PKV_SIM_WINDOW_QUEUED && !queued) return 0;
    if (acc->window != PKV_SIM_WINDOW_ARRIVALS) return ns;
    const pkv__i128 left = (pkv__i128)acc->window_end_ns - now_ns;
    if (left <= 0) return 0;
    return ns < left ? ns : left;
}

static bool any_free(const pkv__sim_sample *sample)
{
    const int64_t *part = sample->part;
    return part[PKV__PART_UNUSABLE] > 0 || part[PKV__PART_SHORTAGE] > 0 ||
           part[PKV__PART_LIMITED] > 0 || part[PKV__PART_IDLE] > 0;
}

void pkv__sim_account_add(pkv__sim_account *acc, const pkv__sim_stretch *s, int64_t now_ns,
                          const pkv__sim_sample *first, const pkv__sim_sample *last)
{
    const pkv__i128 whole_ns = pkv__sim_stretch_ns(s);
    const pkv__i128 ns = clip(acc, s->queued, now_ns, whole_ns);
    if (ns == 0) return;
    PKV_ASSERT(s->n == 1 || ns == whole_ns);
    acc->window_ns += ns;
    if (s->waited) acc->waited_ns += ns;
    if (any_free(first)) acc->free_ns += ns;
    const pkv__i128 tokens_before = acc->sum[PKV__PART_TOKEN];
    const pkv__i128 slope = s->first_ns * sum_of_k(s->n) + s->slope_ns * sum_of_k2(s->n);
    for (int p = 0; p < PKV__PART_COUNT; p++) {
        /* Most parts are 0, and most others do not change. */
        if (first->part[p] > 0) acc->sum[p] += ns * first->part[p];
        if (last->part[p] != first->part[p])
            acc->sum[p] += slope * ((last->part[p] - first->part[p]) / (s->n - 1));
    }
    if (s->waited)
        acc->waste_waited += ns * acc->pool_units - (acc->sum[PKV__PART_TOKEN] - tokens_before);
}

void pkv__sim_account_result(const pkv__sim_account *acc, pkv_sim_result *out)
{
    out->window = acc->window;
    out->window_ns = (int64_t)acc->window_ns;
    out->waited_ns = (int64_t)acc->waited_ns;
    out->mean_batch = 0;
    out->split = (pkv_sim_split){ 0 };
    out->waste_waited = out->sharing_saving = out->scatter = 0;
    if (acc->window_ns == 0) return;
    const double ns = (double)acc->window_ns;
    const double whole = (double)(acc->window_ns * acc->pool_units);
    double share[PKV__PART_COUNT];
    for (int p = 0; p < PKV__PART_COUNT; p++) share[p] = (double)acc->sum[p] / whole;
    pkv__i128 outside = 0;
    for (int p = PKV__PART_ROUNDING; p < PKV__PART_SUMMED; p++) outside += acc->sum[p];
    out->mean_batch = (double)acc->sum[PKV__PART_BATCH] / ns;
    out->split = (pkv_sim_split){
        .token = share[PKV__PART_TOKEN],
        .reservation = share[PKV__PART_RESERVATION],
        .internal = share[PKV__PART_INTERNAL],
        .external = (double)outside / whole,
        .rounding = share[PKV__PART_ROUNDING],
        .unusable = share[PKV__PART_UNUSABLE],
        .shortage = share[PKV__PART_SHORTAGE],
        .limited = share[PKV__PART_LIMITED],
        .idle = share[PKV__PART_IDLE],
        .watermark = share[PKV__PART_WATERMARK],
        .tail = share[PKV__PART_TAIL],
        .cached = share[PKV__PART_CACHED],
        .dead = share[PKV__PART_DEAD],
        .logical = share[PKV__PART_LOGICAL],
    };
    out->waste_waited = (double)acc->waste_waited / whole;
    if (acc->free_ns > 0)
        out->scatter = (double)acc->sum[PKV__PART_SCATTER_PPM] / (double)acc->free_ns / 1e6;
    const double alone = (double)acc->sum[PKV__PART_SHARED_UNITS];
    if (alone > 0) out->sharing_saving = 1 - (double)acc->sum[PKV__PART_USED_UNITS] / alone;
}
