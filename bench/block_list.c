/* A LIFO list of block ids with counters. */
#include "block_list.h"

#include <stdlib.h>
#include <string.h>

bool block_list_init(struct block_list *list, int32_t n_blocks, uint64_t seed,
                     struct bench_error *err)
{
    struct bench_rng rng = { seed };
    memset(list, 0, sizeof(*list));
    list->ids = bench_calloc((size_t)n_blocks, sizeof(int32_t), err);
    list->refs = bench_calloc((size_t)n_blocks, sizeof(int32_t), err);
    if (!list->ids || !list->refs) {
        block_list_deinit(list);
        return false;
    }
    for (int32_t i = 0; i < n_blocks; i++) list->ids[i] = n_blocks - 1 - i;
    if (seed) bench_shuffle(&rng, list->ids, n_blocks);
    list->n_blocks = list->n_free = n_blocks;
    return true;
}

void block_list_deinit(struct block_list *list)
{
    free(list->ids);
    free(list->refs);
    memset(list, 0, sizeof(*list));
}

int32_t block_list_take(struct block_list *list)
{
    if (list->n_free == 0) return -1;
    const int32_t id = list->ids[--list->n_free];
    list->refs[id] = 1;
    list->n_active++;
    list->n_taken++;
    return id;
}

void block_list_release(struct block_list *list, int32_t id)
{
    if (--list->refs[id] > 0) return;
    list->ids[list->n_free++] = id;
    list->n_active--;
}
