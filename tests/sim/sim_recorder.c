#include "sim_recorder.h"

#include <stdlib.h>
#include <string.h>

static void *grown(void *old, int64_t n, size_t size)
{
    void *more = realloc(old, (size_t)n * size);
    if (!more) abort();
    return more;
}

static void on_event(void *ctx, const pkv_sim_event *event)
{
    recorder *rec = ctx;
    if (rec->n_events == rec->cap_events) {
        rec->cap_events = 2 * rec->cap_events + 64;
        rec->events = grown(rec->events, rec->cap_events, sizeof(*rec->events));
    }
    if (rec->n_events > 0 && rec->events[rec->n_events - 1].t_ns > event->t_ns) rec->n_bad++;
    /* Field by field: padding stays 0. */
    pkv_sim_event *e = &rec->events[rec->n_events++];
    memset(e, 0, sizeof(*e));
    e->t_ns = event->t_ns;
    e->step = event->step;
    e->kind = event->kind;
    e->request = event->request;
    e->tokens = event->tokens;
    e->cached = event->cached;
    e->slots = event->slots;
}

static bool sample_is_sound(const recorder *rec, const pkv_sim_sample *s)
{
    const int64_t parts[] = { s->token,    s->reservation, s->internal, s->rounding,
                              s->unusable, s->shortage,    s->limited,  s->idle };
    int64_t sum = 0;
    for (size_t k = 0; k < sizeof(parts) / sizeof(parts[0]); k++) {
        if (parts[k] < 0) return false;
        sum += parts[k];
    }
    const int64_t n_free = s->unusable + s->shortage + s->limited + s->idle;
    return sum == rec->pool_units && s->largest_free >= 0 && s->largest_free <= n_free;
}

static void on_sample(void *ctx, const pkv_sim_sample *sample)
{
    recorder *rec = ctx;
    const size_t n_cells = (size_t)rec->observer.map_cells;
    if (rec->n_samples == rec->cap_samples) {
        rec->cap_samples = 2 * rec->cap_samples + 64;
        rec->samples = grown(rec->samples, rec->cap_samples, sizeof(*rec->samples));
        rec->maps = grown(rec->maps, rec->cap_samples, n_cells + 1);
    }
    if (!sample_is_sound(rec, sample)) rec->n_bad++;
    uint8_t *map = rec->maps + (size_t)rec->n_samples * n_cells;
    if (sample->map) memcpy(map, sample->map, n_cells);
    else memset(map, 0, n_cells);
    pkv_sim_sample *s = &rec->samples[rec->n_samples++];
    *s = *sample;
    s->map = NULL;
}

void recorder_init(recorder *rec, int64_t interval_ns, int32_t map_cells, int64_t pool_units)
{
    const pkv_sim_observer init = PKV_SIM_OBSERVER_INIT;
    *rec = (recorder){ .observer = init, .pool_units = pool_units };
    rec->observer.ctx = rec;
    rec->observer.on_event = on_event;
    if (interval_ns == 0) return;
    rec->observer.on_sample = on_sample;
    rec->observer.sample_interval_ns = interval_ns;
    rec->observer.map_cells = map_cells;
}

void recorder_deinit(recorder *rec)
{
    free(rec->events);
    free(rec->samples);
    free(rec->maps);
    *rec = (recorder){ .n_events = 0 };
}

static bool same_bytes(const void *a, const void *b, size_t bytes)
{
    return bytes == 0 || memcmp(a, b, bytes) == 0;
}

bool recorder_equal(const recorder *a, const recorder *b)
{
    const size_t n_cells = (size_t)a->observer.map_cells;
    return a->n_events == b->n_events && a->n_samples == b->n_samples &&
           same_bytes(a->events, b->events, (size_t)a->n_events * sizeof(*a->events)) &&
           same_bytes(a->samples, b->samples, (size_t)a->n_samples * sizeof(*a->samples)) &&
           same_bytes(a->maps, b->maps, (size_t)a->n_samples * n_cells);
}
