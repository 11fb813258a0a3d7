/* For who looks on: events as they happen, and the pool at regular times.
 *
 * A sample shows the step that lasts at its time. Inside a leap every part is linear in the number
 * of the step, so what a sample shows of step k is exact; those who arrived while the steps before
 * k ran wait. */
#include "sim/sim_engine.h"

static size_t cell_bytes(const pkv_sim_observer *o)
{
    return (size_t)o->map_cells * sizeof(pkv__sim_cell);
}

static size_t held_bytes(const pkv_sim_config *cfg)
{
    return (size_t)cfg->max_num_seqs * sizeof(pkv__sim_held);
}

pkv_status pkv__watch_init(pkv__sim_watch *watch, const pkv_sim_config *cfg)
{
    const pkv_sim_observer *o = cfg->observer;
    *watch = (pkv__sim_watch){ .observer = o, .next_sample_ns = INT64_MAX };
    if (!o || !o->on_sample || o->map_cells == 0) return PKV_OK;
    watch->cells = pkv__alloc(&cfg->alloc, cell_bytes(o), _Alignof(pkv__sim_cell));
    watch->map = pkv__alloc(&cfg->alloc, (size_t)o->map_cells, 1);
    watch->held = pkv__alloc(&cfg->alloc, held_bytes(cfg), _Alignof(pkv__sim_held));
    if (watch->cells && watch->map && watch->held) return PKV_OK;
    pkv__watch_deinit(watch, cfg);
    return PKV_E_NO_MEMORY;
}

void pkv__watch_deinit(pkv__sim_watch *watch, const pkv_sim_config *cfg)
{
    const pkv_sim_observer *o = watch->observer;
    if (!o) return;
    pkv__free(&cfg->alloc, watch->held, held_bytes(cfg));
    pkv__free(&cfg->alloc, watch->map, (size_t)o->map_cells);
    pkv__free(&cfg->alloc, watch->cells, cell_bytes(o));
    *watch = (pkv__sim_watch){ .next_sample_ns = INT64_MAX };
}

/* ---------------------------------------------------------------- events */

void pkv__watch_event(const pkv__sim_engine *e, pkv_sim_event_kind kind, int64_t r, int64_t tokens,
                      int64_t cached)
{
    const bool runs = r != PKV__NOBODY && pkv__engine_is_running(e, r);
    const pkv_sim_event event = {
        .t_ns = e->now_ns,
        .step = e->n_steps,
        .kind = kind,
        .request = r,
        .tokens = tokens,
        .cached = cached,
        .slots = runs ? e->req[r].held : 0,
    };
    e->watch.observer->on_event(e->watch.observer->ctx, &event);
}

void pkv__watch_arrival(const pkv__sim_engine *e, pkv_sim_event_kind kind, int64_t r, int64_t t_ns,
                        int64_t step)
{
    const pkv_sim_event event = { .t_ns = t_ns, .step = step, .kind = kind, .request = r };
    e->watch.observer->on_event(e->watch.observer->ctx, &event);
}

/* ---------------------------------------------------------------- samples */

static pkv_sim_map_state most_of(const pkv__sim_cell *cell, int64_t n_slots)
{
    int64_t rest = n_slots, most = 0;
    pkv_sim_map_state state = PKV_SIM_MAP_FREE;
    for (int k = PKV_SIM_MAP_FREE + 1; k < PKV__MAP_STATES; k++) {
        rest -= cell->slots[k];
        if (cell->slots[k] <= most) continue;
        most = cell->slots[k];
        state = (pkv_sim_map_state)k;
    }
    return rest >= most ? PKV_SIM_MAP_FREE : state;
}

/* The map after `k` more steps, or NULL. */
static const uint8_t *draw_map(pkv__sim_engine *e, int64_t k)
{
    const pkv__sim_watch *w = &e->watch;
    const int32_t n_cells = w->observer->map_cells;
    if (n_cells == 0) return NULL;
    int32_t n = 0;
    for (int64_t r = e->running.head; r != PKV__NOBODY; r = e->req[r].next) {
        const int32_t more = e->req[r].stalled ? 0 : (int32_t)k;
        w->held[n++] = (pkv__sim_held){ r, pkv__engine_resident(e, r) + more };
    }
    for (int32_t c = 0; c < n_cells; c++) w->cells[c] = (pkv__sim_cell){ 0 };
    if (!e->ops->map(e->policy, w->held, n, w->cells, n_cells)) return NULL;
    const int64_t pool = e->cfg->pool_tokens;
    for (int32_t c = 0; c < n_cells; c++) {
        const int64_t begin = c * pool / n_cells, end = (c + 1) * pool / n_cells;
        w->map[c] = (uint8_t)most_of(&w->cells[c], end - begin);
    }
    return w->map;
}

/* What was `first` and becomes `last` in n - 1 steps, after k of them. */
static pkv__sim_sample sample_at(const pkv__sim_sample *first, const pkv__sim_sample *last,
                                 int64_t n, int64_t k)
{
    pkv__sim_sample at = *first;
    for (int p = 0; n > 1 && p < PKV__PART_COUNT; p++)
        at.part[p] += (last->part[p] - first->part[p]) / (n - 1) * k;
    return at;
}

static void tell_sample(pkv__sim_engine *e, int64_t t_ns, int64_t k, int64_t n_waiting,
                        const pkv__sim_sample *at)
{
    const int64_t *part = at->part;
    const pkv_sim_sample sample = {
        .t_ns = t_ns,
        .step = e->n_steps + k,
        .token = part[PKV__PART_TOKEN],
        .reservation = part[PKV__PART_RESERVATION],
        .internal = part[PKV__PART_INTERNAL],
        .rounding = part[PKV__PART_ROUNDING],
        .unusable = part[PKV__PART_UNUSABLE],
        .shortage = part[PKV__PART_SHORTAGE],
        .limited = part[PKV__PART_LIMITED],
        .idle = part[PKV__PART_IDLE],
        .watermark = part[PKV__PART_WATERMARK],
        .tail = part[PKV__PART_TAIL],
        .cached = part[PKV__PART_CACHED],
        .dead = part[PKV__PART_DEAD],
        .logical = part[PKV__PART_LOGICAL],
        .largest_free = e->largest_free,
        .running = e->running.len,
        .waiting = n_waiting,
        .swapped = e->swapped.len,
        .map = draw_map(e, k),
    };
    e->watch.observer->on_sample(e->watch.observer->ctx, &sample);
}

void pkv__watch_samples(pkv__sim_engine *e, const pkv__sim_stretch *s, const pkv__sim_sample *first,
                        const pkv__sim_sample *last)
{
    pkv__sim_watch *w = &e->watch;
    if (w->next_sample_ns == INT64_MAX) return;
    const int64_t end_ns = e->now_ns + (int64_t)pkv__sim_stretch_ns(s);
    int64_t seen = e->next_arrival, n_waiting = e->waiting.len;
    while (w->next_sample_ns < end_ns) {
        pkv__sim_stretch done = *s;
        done.n = pkv__sim_stretch_within(s, w->next_sample_ns - e->now_ns);
        const int64_t start_ns = e->now_ns + (int64_t)pkv__sim_stretch_ns(&done);
        for (; seen < e->n && pkv__engine_arrival_ns(e, seen) <= start_ns; seen++)
            n_waiting += pkv__engine_can_run(e, seen);
        const pkv__sim_sample at = sample_at(first, last, s->n, done.n);
        tell_sample(e, w->next_sample_ns, done.n, n_waiting, &at);
        const int64_t interval = w->observer->sample_interval_ns;
        if (interval > PKV__LATEST_NS - w->next_sample_ns) w->next_sample_ns = INT64_MAX;
        else w->next_sample_ns += interval;
    }
}
