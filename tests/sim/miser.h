/* An allocator that refuses after a number of allocations and counts what is not given back. */
#ifndef PKV_TESTS_MISER_H
#define PKV_TESTS_MISER_H

#include "common/common.h"

#include <stdlib.h>

typedef struct miser {
    int left; /* allocations before it refuses */
    int64_t bytes;
} miser;

static inline void *miser_alloc(void *ctx, size_t bytes, size_t align)
{
    miser *m = ctx;
    if (m->left-- <= 0) return NULL;
    if (align < sizeof(void *)) align = sizeof(void *);
    void *ptr = aligned_alloc(align, pkv__align_up(bytes, align));
    if (ptr) m->bytes += (int64_t)bytes;
    return ptr;
}

static inline void miser_free(void *ctx, void *ptr, size_t bytes)
{
    if (ptr) ((miser *)ctx)->bytes -= (int64_t)bytes;
    free(ptr);
}

#endif
