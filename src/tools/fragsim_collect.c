/* Keeps what a simulation shows on the way: samples in an array that doubles, events as text, a
 * line of JSON each. The library's calls cannot be refused, so missing memory is remembered and
 * reported at the end. */
#include "fragsim_jobs.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SAMPLES 256

static bool grow_series(fragsim_collector *c)
{
    fragsim_series *s = &c->job->series;
    const int64_t cap = c->cap > 0 ? 2 * c->cap : FIRST_SAMPLES;
    pkv_sim_sample *samples = realloc(s->samples, (size_t)cap * sizeof(*samples));
    if (!samples) return false;
    s->samples = samples;
    if (c->job->map_cells > 0) {
        uint8_t *maps = realloc(s->maps, (size_t)cap * (size_t)c->job->map_cells);
        if (!maps) return false;
        s->maps = maps;
    }
    c->cap = cap;
    return true;
}

static void keep_sample(void *ctx, const pkv_sim_sample *sample)
{
    fragsim_collector *c = ctx;
    fragsim_series *s = &c->job->series;
    if (c->no_memory) return;
    if (s->n == c->cap && !grow_series(c)) {
        c->no_memory = true;
        return;
    }
    s->samples[s->n] = *sample;
    if (s->maps && sample->map) {
        s->map_cells = c->job->map_cells;
        memcpy(s->maps + (size_t)s->n * (size_t)s->map_cells, sample->map, (size_t)s->map_cells);
    }
    s->n++;
}

static const char *event_name(pkv_sim_event_kind kind)
{
    static const char *const names[] = { "arrive",   "reject",  "admit", "grow",  "preempt",
                                         "swap_out", "swap_in", "move",  "finish" };
    return (size_t)kind < sizeof(names) / sizeof(names[0]) ? names[kind] : "?";
}

static void keep_event(void *ctx, const pkv_sim_event *e)
{
    fragsim_collector *c = ctx;
    fprintf(c->events, "{\"policy\":\"%s\",\"t_ns\":%lld,\"step\":%lld,\"event\":\"%s\"",
            c->job->name, (long long)e->t_ns, (long long)e->step, event_name(e->kind));
    if (e->request >= 0) fprintf(c->events, ",\"request\":%lld", (long long)e->request);
    fprintf(c->events, ",\"tokens\":%lld", (long long)e->tokens);
    if (e->kind == PKV_SIM_EVENT_ADMIT)
        fprintf(c->events, ",\"cached\":%lld", (long long)e->cached);
    if (e->request >= 0) fprintf(c->events, ",\"slots\":%lld", (long long)e->slots);
    fputs("}\n", c->events);
}

pkv_status fragsim_collector_open(fragsim_collector *c, fragsim_job *job)
{
    *c = (fragsim_collector){ .job = job, .observer = PKV_SIM_OBSERVER_INIT };
    c->observer.ctx = c;
    if (job->sample_interval_ns > 0) {
        c->observer.on_sample = keep_sample;
        c->observer.sample_interval_ns = job->sample_interval_ns;
        c->observer.map_cells = job->map_cells;
    }
    if (job->want_events) {
        c->events = open_memstream(&job->events, &job->events_bytes);
        if (!c->events) return PKV_E_NO_MEMORY;
        c->observer.on_event = keep_event;
    }
    return PKV_OK;
}

pkv_status fragsim_collector_close(fragsim_collector *c)
{
    fragsim_series *s = &c->job->series;
    if (c->events) {
        const bool lost = ferror(c->events) != 0;
        if (fclose(c->events) != 0 || lost) c->no_memory = true;
    }
    if (s->map_cells == 0) { /* a policy without addresses */
        free(s->maps);
        s->maps = NULL;
    }
    /* the arrays move no more: where the library's map was, ours is */
    for (int64_t k = 0; k < s->n; k++)
        s->samples[k].map = s->maps ? s->maps + (size_t)k * (size_t)s->map_cells : NULL;
    return c->no_memory ? PKV_E_NO_MEMORY : PKV_OK;
}
