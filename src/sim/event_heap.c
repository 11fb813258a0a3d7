/* The heap of next events: at most one per running request. */
#include "sim/sim_internal.h"

typedef struct pkv__sim_event event;

static bool before(const event *a, const event *b)
{
    return a->step < b->step || (a->step == b->step && a->order < b->order);
}

static void place(pkv__sim_heap *heap, int32_t i, event e)
{
    heap->events[i] = e;
    heap->pos[e.req] = i;
}

static void sift_up(pkv__sim_heap *heap, int32_t i, event e)
{
    while (i > 0) {
        const int32_t parent = (i - 1) / 2;
        if (!before(&e, &heap->events[parent])) break;
        place(heap, i, heap->events[parent]);
        i = parent;
    }
    place(heap, i, e);
}

static void sift_down(pkv__sim_heap *heap, int32_t i, event e)
{
    for (;;) {
        int32_t child = 2 * i + 1;
        if (child >= heap->len) break;
        if (child + 1 < heap->len && before(&heap->events[child + 1], &heap->events[child]))
            child++;
        if (!before(&heap->events[child], &e)) break;
        place(heap, i, heap->events[child]);
        i = child;
    }
    place(heap, i, e);
}

pkv_status pkv__sim_heap_init(pkv__sim_heap *heap, int32_t cap, int64_t n,
                              const pkv_allocator *alloc)
{
    *heap = (pkv__sim_heap){ .cap = cap, .n = n, .alloc = *alloc };
    heap->events = pkv__alloc(alloc, (size_t)cap * sizeof(event), _Alignof(event));
    heap->pos = pkv__alloc(alloc, (size_t)n * sizeof(int32_t), _Alignof(int32_t));
    if (!heap->events || !heap->pos) {
        pkv__sim_heap_deinit(heap);
        return PKV_E_NO_MEMORY;
    }
    for (int64_t r = 0; r < n; r++) heap->pos[r] = -1;
    return PKV_OK;
}

void pkv__sim_heap_deinit(pkv__sim_heap *heap)
{
    pkv__free(&heap->alloc, heap->events, (size_t)heap->cap * sizeof(event));
    pkv__free(&heap->alloc, heap->pos, (size_t)heap->n * sizeof(int32_t));
    *heap = (pkv__sim_heap){ 0 };
}

void pkv__sim_heap_set(pkv__sim_heap *heap, int64_t req, int64_t step, int64_t order)
{
    const event e = { step, order, req };
    int32_t i = heap->pos[req];
    if (i < 0) {
        PKV_ASSERT(heap->len < heap->cap);
        i = heap->len++;
        sift_up(heap, i, e);
    } else if (before(&e, &heap->events[i])) {
        sift_up(heap, i, e);
    } else {
        sift_down(heap, i, e);
    }
}

void pkv__sim_heap_remove(pkv__sim_heap *heap, int64_t req)
{
    const int32_t i = heap->pos[req];
    if (i < 0) return;
    heap->pos[req] = -1;
    const event last = heap->events[--heap->len];
    if (i == heap->len) return;
    if (i > 0 && before(&last, &heap->events[(i - 1) / 2])) sift_up(heap, i, last);
    else sift_down(heap, i, last);
}
