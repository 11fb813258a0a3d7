/* What both placements share: arrays in one piece of memory, the size of the pool, and the numbers
 * of sequences. */
#ifndef PKV_MODEL_PLACEMENT_INTERNAL_H
#define PKV_MODEL_PLACEMENT_INTERNAL_H

#include "model/placement.h"

/* Arrays behind each other: walked once with base NULL to measure, once to hand out. */
typedef struct pkv__place_memory {
    uint8_t *base;
    size_t used;
} pkv__place_memory;
/* The next n elements; NULL while measuring. */
void *pkv__place_take(pkv__place_memory *m, size_t n, size_t element_bytes);

/* The pool: blocks, the null block included, and their bytes. Both kinds ask here, so that they are
 * compared with the same memory. PKV_E_INVALID_ARG, PKV_E_NEVER. */
pkv_status pkv__place_pool(const pkv__placement_config *cfg, size_t *block_bytes,
                           int32_t *n_blocks);
/* Bytes of K and V of one token, all layers, scales included; the shape is valid. */
size_t pkv__place_token_bytes(const pkv_kv_shape *shape);

/* Numbers that no sequence has, last given back first. */
typedef struct pkv__place_numbers {
    int32_t *free; /* [n of create] */
    int32_t n_free;
} pkv__place_numbers;
void pkv__place_numbers_init(pkv__place_numbers *numbers, int32_t n);
static inline int32_t pkv__place_number(pkv__place_numbers *numbers)
{
    PKV_ASSERT(numbers->n_free > 0);
    return numbers->free[--numbers->n_free];
}
static inline void pkv__place_number_back(pkv__place_numbers *numbers, int32_t number)
{
    numbers->free[numbers->n_free++] = number;
}

#endif
