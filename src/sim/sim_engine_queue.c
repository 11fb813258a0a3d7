/* Who is where: waiting, swapped out, running. A request is in one list at most, the one that its
 * state names. */
#include "sim/sim_engine.h"

/* ---------------------------------------------------------------- lists */

void pkv__list_push_back(pkv__sim_engine *e, pkv__sim_list *list, int64_t r)
{
    e->req[r].prev = (int32_t)list->tail;
    e->req[r].next = PKV__NOBODY;
    if (list->tail == PKV__NOBODY) list->head = r;
    else e->req[list->tail].next = (int32_t)r;
    list->tail = r;
    list->len++;
}

void pkv__list_push_front(pkv__sim_engine *e, pkv__sim_list *list, int64_t r)
{
    e->req[r].prev = PKV__NOBODY;
    e->req[r].next = (int32_t)list->head;
    if (list->head == PKV__NOBODY) list->tail = r;
    else e->req[list->head].prev = (int32_t)r;
    list->head = r;
    list->len++;
}

void pkv__list_remove(pkv__sim_engine *e, pkv__sim_list *list, int64_t r)
{
    const int32_t prev = e->req[r].prev, next = e->req[r].next;
    if (prev == PKV__NOBODY) list->head = next;
    else e->req[prev].next = next;
    if (next == PKV__NOBODY) list->tail = prev;
    else e->req[next].prev = prev;
    list->len--;
}

int64_t pkv__engine_first_in_line(const pkv__sim_engine *e)
{
    return e->swapped.len > 0 ? e->swapped.head : e->waiting.head;
}

/* ---------------------------------------------------------------- the running ones */

int32_t pkv__engine_tokens_of(const pkv__sim_engine *e, int64_t r)
{
    return e->reqs[r].prompt_tokens + e->req[r].generated;
}

void pkv__engine_start(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    if (e->running.len == 0) e->running_sorted = true;
    else if (e->running.tail > r) e->running_sorted = false;
    pkv__list_push_back(e, &e->running, r);
    q->state = PKV__REQ_RUNNING;
    q->order = e->n_starts++;
    q->start_ns = e->now_ns;
    q->step_zero = e->n_steps - q->generated;
    e->tokens += e->n_seqs * q->generated + e->n_seqs * e->reqs[r].prompt_tokens;
    if (q->to_compute > 0) e->prefill.r[e->prefill.n++] = r;
    if (q->stalled) e->n_stalled++;
    e->fresh.r[e->fresh.n++] = r;
}

void pkv__engine_stop(pkv__sim_engine *e, int64_t r)
{
    pkv__sim_req *q = &e->req[r];
    const int32_t u = pkv__engine_resident(e, r);
    pkv__list_remove(e, &e->running, r);
    q->generated = u - e->reqs[r].prompt_tokens;
    q->residence_ns += e->now_ns - q->start_ns;
    e->tokens -= e->n_seqs * u;
    if (q->stalled) e->n_stalled--;
    pkv__sim_ring_remove(&e->events, r);
}

int64_t pkv__engine_victim(const pkv__sim_engine *e)
{
    if (e->running_sorted) return e->running.tail;
    int64_t latest = e->running.head;
    for (int64_t r = latest; r != PKV__NOBODY; r = e->req[r].next)
        if (r > latest) latest = r;
    return latest;
}
