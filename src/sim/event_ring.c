/* The next event of every running request, found by step: a ring of lists, one per step from `now`
 * on, and a bit per list that is not empty.
 *
 *   step   now  +1  +2  ...  +1023           events further away stand in the last list and are
 *   list    []  [7]  []      [3, 9]          put back when their turn comes
 *
 * A heap cost a fifth of a run of `paged`; the ring is O(1) but for looking at 16 words of bits. */
#include "sim/sim_internal.h"

#define N_LISTS PKV__RING_LISTS
#define NONE (-1)

static int32_t list_of(int64_t step)
{
    return (int32_t)(step % N_LISTS);
}

pkv_status pkv__sim_ring_init(pkv__sim_ring *ring, int64_t n, const pkv_allocator *alloc)
{
    *ring = (pkv__sim_ring){ .n = n, .alloc = *alloc };
    const size_t bytes = (size_t)n * sizeof(*ring->nodes);
    ring->nodes = pkv__alloc(alloc, bytes, _Alignof(pkv__sim_node));
    if (!ring->nodes) return PKV_E_NO_MEMORY;
    for (int64_t r = 0; r < n; r++) ring->nodes[r].list = NONE;
    for (int32_t k = 0; k < N_LISTS; k++) ring->head[k] = NONE;
    return PKV_OK;
}

void pkv__sim_ring_deinit(pkv__sim_ring *ring)
{
    pkv__free(&ring->alloc, ring->nodes, (size_t)ring->n * sizeof(*ring->nodes));
    *ring = (pkv__sim_ring){ 0 };
}

void pkv__sim_ring_remove(pkv__sim_ring *ring, int64_t req)
{
    pkv__sim_node *node = &ring->nodes[req];
    if (node->list == NONE) return;
    if (node->prev != NONE) ring->nodes[node->prev].next = node->next;
    else ring->head[node->list] = node->next;
    if (node->next != NONE) ring->nodes[node->next].prev = node->prev;
    if (ring->head[node->list] == NONE)
        ring->bits[node->list / 64] &= ~(UINT64_C(1) << node->list % 64);
    node->list = NONE;
}

void pkv__sim_ring_set(pkv__sim_ring *ring, int64_t req, int64_t step)
{
    PKV_ASSERT(step >= ring->now);
    pkv__sim_ring_remove(ring, req);
    const int64_t last = ring->now + N_LISTS - 1;
    const int32_t k = list_of(step < last ? step : last);
    pkv__sim_node *node = &ring->nodes[req];
    *node = (pkv__sim_node){ .step = step, .prev = NONE, .next = ring->head[k], .list = k };
    if (node->next != NONE) ring->nodes[node->next].prev = (int32_t)req;
    ring->head[k] = (int32_t)req;
    ring->bits[k / 64] |= UINT64_C(1) << k % 64;
}

int64_t pkv__sim_ring_next(const pkv__sim_ring *ring)
{
    const int32_t from = list_of(ring->now);
    for (int32_t w = 0; w <= N_LISTS / 64; w++) {
        const int32_t word = (from / 64 + w) % (N_LISTS / 64);
        uint64_t bits = ring->bits[word];
        if (w == 0) bits &= ~UINT64_C(0) << from % 64; /* the others come last */
        if (bits == 0) continue;
        const int32_t k = word * 64 + PKV_LOWEST_BIT(bits);
        return ring->now + (k - from + N_LISTS) % N_LISTS;
    }
    return INT64_MAX;
}

int32_t pkv__sim_ring_take(pkv__sim_ring *ring, int64_t step, int64_t *reqs)
{
    PKV_ASSERT(step >= ring->now && step <= pkv__sim_ring_next(ring));
    ring->now = step;
    const int32_t k = list_of(step);
    int32_t r = ring->head[k], n = 0;
    ring->head[k] = NONE;
    ring->bits[k / 64] &= ~(UINT64_C(1) << k % 64);
    while (r != NONE) {
        pkv__sim_node *node = &ring->nodes[r];
        const int32_t next = node->next;
        node->list = NONE;
        if (node->step == step) reqs[n++] = r;
        else pkv__sim_ring_set(ring, r, node->step);
        r = next;
    }
    return n;
}
