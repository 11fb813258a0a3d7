/* The floor no block manager can beat: a bare LIFO list of ids with the counters that any manager
 * must keep (a reference count per block, blocks in use, blocks handed out). */
#ifndef PKV_BLOCK_LIST_H
#define PKV_BLOCK_LIST_H

#include "bench_base.h"

struct block_list {
    int32_t *ids;  /* [n_blocks] stack of free ids; the top is ids[n_free - 1] */
    int32_t *refs; /* [n_blocks] */
    int32_t n_blocks, n_free, n_active;
    uint64_t n_taken;
};

/* All blocks free; in random order with a seed other than 0, else the lowest id on top. */
bool block_list_init(struct block_list *list, int32_t n_blocks, uint64_t seed,
                     struct bench_error *err);
void block_list_deinit(struct block_list *list);

/* Not inline: a manager is called through a function as well. */
int32_t block_list_take(struct block_list *list);
void block_list_release(struct block_list *list, int32_t id);

#endif
