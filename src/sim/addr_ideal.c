/* The ideal allocator: any free slots will do, as if a compactor ran at no cost. It bounds what any
 * contiguous allocator can reach. Also the table of allocators. */
#include "sim/sim_internal.h"

typedef struct ideal {
    int32_t n_slots, n_free;
    pkv_allocator alloc;
} ideal;

static pkv_status ideal_create(int32_t n_slots, int32_t max_chunks, const pkv_allocator *alloc,
                               void **out)
{
    (void)max_chunks;
    ideal *a = pkv__alloc(alloc, sizeof(*a), _Alignof(ideal));
    if (!a) return PKV_E_NO_MEMORY;
    *a = (ideal){ .n_slots = n_slots, .n_free = n_slots, .alloc = *alloc };
    *out = a;
    return PKV_OK;
}

static void ideal_destroy(void *self)
{
    ideal *a = self;
    if (!a) return;
    const pkv_allocator alloc = a->alloc;
    pkv__free(&alloc, a, sizeof(*a));
}

static bool ideal_fits_empty(const void *self, int32_t h)
{
    return h <= ((const ideal *)self)->n_slots;
}

static bool ideal_take(void *self, int32_t h, int32_t *addr, int32_t *q)
{
    ideal *a = self;
    if (h > a->n_free) return false;
    a->n_free -= h;
    *addr = 0;
    *q = h;
    return true;
}

static void ideal_give(void *self, int32_t addr, int32_t q)
{
    (void)addr;
    ((ideal *)self)->n_free += q;
}

static int32_t ideal_n_free(const void *self)
{
    return ((const ideal *)self)->n_free;
}

/* Wherever they lie, the free slots are one run. */
static int32_t ideal_n_free_chunks(const void *self)
{
    return ((const ideal *)self)->n_free > 0;
}

const pkv__sim_addr_ops pkv__sim_addr_ideal = {
    .name = "ideal",
    .has_places = false,
    .create = ideal_create,
    .destroy = ideal_destroy,
    .fits_empty = ideal_fits_empty,
    .take = ideal_take,
    .give = ideal_give,
    .n_free = ideal_n_free,
    .largest_free = ideal_n_free,
    .n_free_chunks = ideal_n_free_chunks,
};

const pkv__sim_addr_ops *pkv__sim_addr_find(pkv_sim_addr addr)
{
    switch (addr) {
    case PKV_SIM_ADDR_BUDDY:
        return &pkv__sim_addr_buddy;
    case PKV_SIM_ADDR_IDEAL:
        return &pkv__sim_addr_ideal;
    case PKV_SIM_ADDR_FIRST_FIT:
        return &pkv__sim_addr_first_fit;
    case PKV_SIM_ADDR_BEST_FIT:
        return &pkv__sim_addr_best_fit;
    case PKV_SIM_ADDR_NEXT_FIT:
        return &pkv__sim_addr_next_fit;
    case PKV_SIM_ADDR_COMPACT:
        return &pkv__sim_addr_compact;
    }
    return NULL;
}
