/* Who waits where: lists in order of arrival, heaps of what has a time, and the table by id that
 * cancels need. All are linked through the jobs or have their room from the start, and no call
 * looks at more than a few of those who wait. */
#include "model/engine_internal.h"

/* ---------------------------------------------------------------- lists */

static void link_between(pkv__jobs *list, pkv__job *prev, pkv__job *job, pkv__job *next)
{
    job->prev = prev;
    job->next = next;
    if (prev) prev->next = job;
    else list->head = job;
    if (next) next->prev = job;
    else list->tail = job;
    list->n++;
}

void pkv__jobs_append(pkv__jobs *list, pkv__job *job)
{
    link_between(list, list->tail, job, NULL);
}

void pkv__jobs_insert(pkv__jobs *list, pkv__job *job)
{
    /* From the end that is nearer: who is put back into the waiting list belongs to its front. */
    if (list->head && list->head->order > job->order) {
        link_between(list, NULL, job, list->head);
        return;
    }
    pkv__job *prev = list->tail;
    while (prev && prev->order > job->order) prev = prev->prev;
    link_between(list, prev, job, prev ? prev->next : list->head);
}

void pkv__jobs_remove(pkv__jobs *list, pkv__job *job)
{
    if (job->prev) job->prev->next = job->next;
    else list->head = job->next;
    if (job->next) job->next->prev = job->prev;
    else list->tail = job->prev;
    job->prev = job->next = NULL;
    list->n--;
}

/* ---------------------------------------------------------------- heaps */

static uint64_t time_of(const pkv__job *job, int order)
{
    return order == PKV__BY_ARRIVAL ? job->result.arrival_ns : job->deadline_ns;
}

static bool is_before(const pkv__job *a, const pkv__job *b, int order)
{
    const uint64_t time_a = time_of(a, order), time_b = time_of(b, order);
    return time_a != time_b ? time_a < time_b : a->id < b->id;
}

static void set(pkv__job_heap *heap, int order, int32_t i, pkv__job *job)
{
    heap->at[i] = job;
    job->place[order] = i;
}

/* `job` belongs at i or above it. */
static void sift_up(pkv__job_heap *heap, int order, int32_t i, pkv__job *job)
{
    for (int32_t parent; i > 0 && is_before(job, heap->at[parent = (i - 1) / 2], order); i = parent)
        set(heap, order, i, heap->at[parent]);
    set(heap, order, i, job);
}

static void sift_down(pkv__job_heap *heap, int order, int32_t i, pkv__job *job)
{
    for (int32_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n && is_before(heap->at[child + 1], heap->at[child], order)) child++;
        if (!is_before(heap->at[child], job, order)) break;
        set(heap, order, i, heap->at[child]);
    }
    set(heap, order, i, job);
}

void pkv__heap_put(pkv_engine *e, int order, pkv__job *job)
{
    pkv__job_heap *heap = &e->heap[order];
    sift_up(heap, order, heap->n++, job);
}

void pkv__heap_drop(pkv_engine *e, int order, pkv__job *job)
{
    pkv__job_heap *heap = &e->heap[order];
    const int32_t i = job->place[order];
    if (i < 0) return;
    job->place[order] = -1;
    pkv__job *last = heap->at[--heap->n];
    if (last == job) return;
    if (i > 0 && is_before(last, heap->at[(i - 1) / 2], order)) sift_up(heap, order, i, last);
    else sift_down(heap, order, i, last);
}

/* ---------------------------------------------------------------- table */

/* Ids are consecutive: their low bits spread them evenly. */
static pkv__job **chain_of(const pkv_engine *e, pkv_request_id id)
{
    return &e->table[(uint32_t)id & e->table_mask];
}

void pkv__table_put(pkv_engine *e, pkv__job *job)
{
    pkv__job **chain = chain_of(e, job->id);
    job->chain = *chain;
    *chain = job;
    e->n_jobs++;
}

void pkv__table_drop(pkv_engine *e, pkv__job *job)
{
    pkv__job **at = chain_of(e, job->id);
    while (*at != job) at = &(*at)->chain;
    *at = job->chain;
    e->n_jobs--;
}

pkv__job *pkv__table_find(const pkv_engine *e, pkv_request_id id)
{
    pkv__job *job = *chain_of(e, id);
    while (job && job->id != id) job = job->chain;
    return job;
}
