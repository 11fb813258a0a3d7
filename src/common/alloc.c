/* Memory through the caller's hook, or from the malloc family. */
#include "common/common.h"

#include <stdlib.h>

bool pkv__allocator_valid(const pkv_allocator *alloc)
{
    return !alloc || (alloc->alloc == NULL) == (alloc->free == NULL);
}

void *pkv__alloc(const pkv_allocator *alloc, size_t bytes, size_t align)
{
    PKV_ASSERT(bytes > 0 && (align & (align - 1)) == 0);
    if (alloc && alloc->alloc) return alloc->alloc(alloc->ctx, bytes, align);
    if (align < sizeof(void *)) align = sizeof(void *);
    if (bytes > SIZE_MAX - align) return NULL;
    return aligned_alloc(align, pkv__align_up(bytes, align));
}

void pkv__free(const pkv_allocator *alloc, void *ptr, size_t bytes)
{
    if (!ptr) return;
    if (alloc && alloc->free) alloc->free(alloc->ctx, ptr, bytes);
    else free(ptr);
}
