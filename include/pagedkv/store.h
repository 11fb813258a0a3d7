/* The store: the bytes of the blocks. One slab in the canonical layout, on the host or in memory of
 * a device that the caller brings.
 *
 *   slab    [n_blocks] x block_bytes                block_bytes rounded up to 512
 *   block   [layer][kv_head][K,V][token][dim]       K and V of one head lie side by side
 *           then for e4m3, int8 and int4 float32 scales [layer][kv_head][K,V][token] (one per
 *           token and head, which kv_write computes), then for int4 float32 zero points in the
 *           same shape; rows of 8- and 4-bit codes are padded to 16 bytes
 *
 * One block with all its layers is one piece: copying, swapping or sending it is one descriptor.
 * The store does not know who uses a block; the block manager does. Threads: a store is read-only
 * after creation, so any number may ask for its info and views at once; whoever writes bytes of
 * blocks orders that with those who read them. */
#ifndef PAGEDKV_STORE_H
#define PAGEDKV_STORE_H

#include "pagedkv/base.h"
#include "pagedkv/views.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pkv_store pkv_store;

typedef struct pkv_store_config {
    uint32_t struct_size;
    pkv_kv_shape shape;
    int32_t n_blocks;    /* null block included; >= 2 */
    bool huge_pages;     /* ask the OS for huge pages (Linux: MADV_HUGEPAGE); ignored with memory */
    void *memory;        /* NULL: the store maps its own; else caller's, 64-byte aligned, of at */
    size_t memory_bytes; /* least n_blocks * block_bytes; it stays the caller's */
    bool on_device; /* memory is a device's, 256-byte aligned, and not touched: block 0 is to be
                       zeroed with pkv_blocks_fill */
    pkv_allocator alloc; /* for the handle only; {NULL, NULL, NULL}: malloc family */
    pkv_logger log;
} pkv_store_config;
#define PKV_STORE_CONFIG_INIT                                                                      \
    {                                                                                              \
        sizeof(pkv_store_config), { 0, 0, 0, 0, PKV_F16 }, 0, true, NULL, 0, false,                \
            { NULL, NULL, NULL },                                                                  \
        {                                                                                          \
            NULL, NULL                                                                             \
        }                                                                                          \
    }

/* Make a store. Block 0, the null block, is zeroed; the others hold whatever the memory held
 * (zero, if the store mapped it). Pages are touched when first used, not here, so the thread that
 * writes decides where they live. On failure *out is untouched.
 *   PKV_E_INVALID_ARG  null, shape or n_blocks out of range, memory misaligned or short
 *   PKV_E_NO_MEMORY, PKV_E_ABI */
PKV_API PKV_NODISCARD pkv_status pkv_store_create(const pkv_store_config *cfg, pkv_store **out);
/* NULL is fine. Views die with the store. */
PKV_API void pkv_store_destroy(pkv_store *store);

typedef struct pkv_store_info_t {
    uint32_t struct_size;
    pkv_kv_shape shape;
    int32_t n_blocks;
    size_t block_bytes;
    void *base; /* block i lies at base + i * block_bytes */
    bool owns_memory;
    bool on_device;
    bool huge_pages; /* the OS accepted the advice; no promise that it follows it */
} pkv_store_info_t;
#define PKV_STORE_INFO_INIT                                                                        \
    {                                                                                              \
        sizeof(pkv_store_info_t), { 0, 0, 0, 0, PKV_F16 }, 0, 0, NULL, false, false, false         \
    }
/* What the store is. out->struct_size is set by the caller. PKV_E_INVALID_ARG: null; PKV_E_ABI:
 * struct_size; *out is then untouched. */
PKV_API PKV_NODISCARD pkv_status pkv_store_info(const pkv_store *store, pkv_store_info_t *out);

/* Views of one layer for the kernels. Strides in elements of the shape's dtype.
 * PKV_E_INVALID_ARG: null or layer outside [0, n_layers). */
PKV_API PKV_NODISCARD pkv_status pkv_store_views(const pkv_store *store, int32_t layer,
                                                 pkv_kv_view *k, pkv_kv_view *v);

#ifdef __cplusplus
}
#endif
#endif
