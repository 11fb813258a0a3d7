/* The host store: one slab of blocks, mapped by us or lent by the caller.
 *
 *   mapping   |<- slack ->|<-------------- map_bytes -------------->|<- slack ->|
 *                         ^ base, a multiple of 2 MiB; the slack is unmapped at once
 *   slab                  | block 0 (null) | block 1 | ... | block n_blocks - 1 |
 *
 * What lies where inside a block: common/kv_layout.h.
 * A fresh anonymous mapping is zero, and stays without pages until somebody writes: the thread that
 * writes a block first decides on which NUMA node it lies.
 *
 * The handle is constant once made; any number of threads may ask it for views. */
#include "pagedkv/store.h"
#include "common/common.h"
#include "common/kv_layout.h"
#include "common/number_format.h"

#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>

/* Two sizes of pages exist on x86-64 that a kernel hands out unasked, 4 KiB and 2 MiB; the larger
 * is also what arm64 uses with 4 KiB base pages. A slab that starts on one can be all huge. */
#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define MEMORY_ALIGN 64  /* of caller's memory: no block starts inside a cache line */
#define DEVICE_ALIGN 256 /* of a device's: as its allocators give it */

struct pkv_store {
    pkv_kv_shape shape;
    int32_t n_blocks;
    struct pkv__kv_layout layout;
    uint8_t *base;    /* [n_blocks] x block_bytes */
    size_t map_bytes; /* of our mapping, from base on; 0: the memory is the caller's */
    bool huge_pages, on_device;
    pkv_allocator alloc;
    pkv_logger log;
};

/* Bytes of the slab, or a refusal with its reason. */
static pkv_status slab_size(const pkv_store_config *cfg, struct pkv__kv_layout *layout,
                            size_t *slab_bytes)
{
    const pkv_kv_shape *s = &cfg->shape;
    const pkv_status status = pkv__kv_layout(s, layout);
    if (status != PKV_OK)
        return pkv__refuse(&cfg->log, status,
                           "store: no block of %d layers x %d kv heads x dim %d x %d tokens, dtype "
                           "%s (%d)",
                           s->n_layers, s->n_kv_heads, s->head_dim, s->block_tokens,
                           pkv_dtype_name(s->dtype), (int)s->dtype);
    if (cfg->n_blocks < 2)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "store: n_blocks is %d, at least 2 are needed (0 is the null block)",
                           cfg->n_blocks);
    if (!pkv__mul_size(layout->block_bytes, (size_t)cfg->n_blocks, slab_bytes) ||
        *slab_bytes > SIZE_MAX - 2 * HUGE_PAGE_BYTES)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "store: %d blocks of %zu bytes do not fit the address space",
                           cfg->n_blocks, layout->block_bytes);
    return PKV_OK;
}

static pkv_status check_memory(const pkv_store_config *cfg, size_t slab_bytes)
{
    if ((uintptr_t)cfg->memory % MEMORY_ALIGN != 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "store: memory is not %d-byte aligned",
                           MEMORY_ALIGN);
    if (cfg->on_device && (uintptr_t)cfg->memory % DEVICE_ALIGN != 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "store: memory of a device is not %d-byte aligned", DEVICE_ALIGN);
    if (cfg->memory_bytes < slab_bytes)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "store: memory has %zu bytes, %d blocks need %zu", cfg->memory_bytes,
                           cfg->n_blocks, slab_bytes);
    return PKV_OK;
}

/* Map `bytes` (a multiple of 2 MiB) at a multiple of 2 MiB; NULL if the OS gives nothing. */
static uint8_t *map_aligned(size_t bytes)
{
    uint8_t *raw = mmap(NULL, bytes + HUGE_PAGE_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) return NULL;
    const size_t before = -(uintptr_t)raw % HUGE_PAGE_BYTES, after = HUGE_PAGE_BYTES - before;
    uint8_t *base = raw + before;
    if (before > 0) munmap(raw, before);
    if (after > 0) munmap(base + bytes, after);
    return base;
}

static bool advise_huge(void *base, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    return madvise(base, bytes, MADV_HUGEPAGE) == 0;
#else
    (void)base, (void)bytes;
    return false;
#endif
}

pkv_status pkv_store_create(const pkv_store_config *cfg, pkv_store **out)
{
    struct pkv__kv_layout layout;
    size_t slab_bytes = 0;
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof *cfg) return PKV_E_ABI;
    if (!pkv__allocator_valid(&cfg->alloc))
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "store: the allocator has one function");
    pkv_status status = slab_size(cfg, &layout, &slab_bytes);
    if (status == PKV_OK && cfg->on_device && !cfg->memory)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "store: on_device needs memory: the store has none of a device");
    if (status == PKV_OK && cfg->memory) status = check_memory(cfg, slab_bytes);
    if (status != PKV_OK) return status;

    pkv_store *store = pkv__alloc(&cfg->alloc, sizeof *store, alignof(pkv_store));
    if (!store) return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "store: no memory for the handle");
    *store = (pkv_store){ .shape = cfg->shape,
                          .n_blocks = cfg->n_blocks,
                          .layout = layout,
                          .base = cfg->memory,
                          .on_device = cfg->on_device,
                          .alloc = cfg->alloc,
                          .log = cfg->log };
    if (cfg->memory) {
        if (!cfg->on_device) memset(store->base, 0, layout.block_bytes);
        *out = store;
        return PKV_OK;
    }
    store->map_bytes = pkv__align_up(slab_bytes, HUGE_PAGE_BYTES);
    store->base = map_aligned(store->map_bytes);
    if (!store->base) {
        pkv__free(&cfg->alloc, store, sizeof *store);
        return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "store: the OS refused to map %zu bytes",
                           slab_bytes);
    }
    store->huge_pages = cfg->huge_pages && advise_huge(store->base, store->map_bytes);
    *out = store;
    return PKV_OK;
}

void pkv_store_destroy(pkv_store *store)
{
    if (!store) return;
    if (store->map_bytes > 0) munmap(store->base, store->map_bytes);
    const pkv_allocator alloc = store->alloc;
    pkv__free(&alloc, store, sizeof *store);
}

pkv_status pkv_store_info(const pkv_store *store, pkv_store_info_t *out)
{
    if (!store || !out) return PKV_E_INVALID_ARG;
    if (out->struct_size != sizeof *out) return PKV_E_ABI;
    out->shape = store->shape;
    out->n_blocks = store->n_blocks;
    out->block_bytes = store->layout.block_bytes;
    out->base = store->base;
    out->owns_memory = store->map_bytes > 0;
    out->on_device = store->on_device;
    out->huge_pages = store->huge_pages;
    return PKV_OK;
}

/* Scales or zeros of the pieces from number `piece` on; `at` 0: the dtype has none. */
static pkv_scales floats_view(const pkv_store *store, size_t at, size_t piece)
{
    const int64_t tokens = store->shape.block_tokens;
    if (at == 0) return (pkv_scales){ NULL, 0, 0, 0 };
    return (pkv_scales){
        .data = (float *)(void *)(store->base + at) + piece * (size_t)tokens,
        .block_stride = (int64_t)(store->layout.block_bytes / sizeof(float)),
        .token_stride = 1,
        .head_stride = 2 * tokens,
    };
}

pkv_status pkv_store_views(const pkv_store *store, int32_t layer, pkv_kv_view *k, pkv_kv_view *v)
{
    if (!store || !k || !v) return PKV_E_INVALID_ARG;
    const pkv_kv_shape *s = &store->shape;
    if (layer < 0 || layer >= s->n_layers)
        return pkv__refuse(&store->log, PKV_E_INVALID_ARG, "store: layer %d of %d", layer,
                           s->n_layers);
    const struct pkv__kv_layout *l = &store->layout;
    const size_t first_piece = (size_t)layer * (size_t)s->n_kv_heads * 2;
    const int64_t bits = pkv__elem_bits(s->dtype);
    uint8_t *first = store->base + first_piece * l->piece_bytes;
    *k = (pkv_kv_view){ .data = first,
                        .dtype = s->dtype,
                        .n_blocks = store->n_blocks,
                        .block_tokens = s->block_tokens,
                        .n_heads = s->n_kv_heads,
                        .dim = s->head_dim,
                        .block_stride = (int64_t)l->block_bytes * 8 / bits,
                        .token_stride = (int64_t)l->row_bytes * 8 / bits,
                        .head_stride = (int64_t)(2 * l->piece_bytes) * 8 / bits,
                        .scales = floats_view(store, l->scales_at, first_piece),
                        .zeros = floats_view(store, l->zeros_at, first_piece) };
    *v = *k;
    v->data = first + l->piece_bytes;
    if (l->scales_at > 0) v->scales.data += s->block_tokens;
    if (l->zeros_at > 0) v->zeros.data += s->block_tokens;
    return PKV_OK;
}
