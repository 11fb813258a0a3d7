/* check_kernels on a GPU: its memory is the process's own, which kernels reach where it lies, page
 * by page registered with the driver or as the system lets them. Calls are waited for, since the
 * cases look at once.
 *
 * What cannot be registered (address space without memory behind it) makes calls unsupported while
 * it is there: those runs count as skipped, and say so. Linked with --wrap of every operation. */
#include "check_gpu_device.h"
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"
#include "simt/simt_cuda.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, N_SLOTS = 1 << 17 };
static const size_t most_bytes = (size_t)1 << 30; /* of one piece; more is address space */

/* A page and how many pieces lie on it: open addressing; 0 is free, a count of 0 a grave. */
static struct {
    uintptr_t page;
    int32_t n;
} pages[N_SLOTS];

/* Pieces, to know their bytes again. */
static struct {
    void *data;
    size_t bytes;
} pieces[4096];
static int n_pieces, n_unreachable, n_pages;
static bool lends, needs_pages;

void gpu_lend_memory(void)
{
    struct gpu_about about;
    char why[256];
    lends = true; /* without a device nothing will be called */
    needs_pages = gpu_open(&about, why, sizeof(why)) && !about.reads_all_host_memory;
}

/* The slot of a page; where it is missing, one that is free. */
static size_t slot_of(uintptr_t page)
{
    size_t i = (size_t)(page / PAGE * UINT64_C(0x9e3779b97f4a7c15) >> 48) % N_SLOTS;
    size_t grave = N_SLOTS;
    for (size_t n = 0; n < N_SLOTS && pages[i].page != 0; n++, i = (i + 1) % N_SLOTS) {
        if (pages[i].page == page) return i;
        if (pages[i].n == 0 && grave == N_SLOTS) grave = i;
    }
    return grave < N_SLOTS ? grave : i;
}

static void leave(void *data, size_t bytes)
{
    const uintptr_t end = (uintptr_t)data + bytes;
    for (uintptr_t page = (uintptr_t)data / PAGE * PAGE; page < end; page += PAGE) {
        const size_t i = slot_of(page);
        if (pages[i].page != page || pages[i].n == 0 || --pages[i].n > 0) continue;
        n_pages--;
        gpu_unregister_pages((void *)page);
    }
}

/* All pages of it, or none. */
static bool reach(void *data, size_t bytes)
{
    if (bytes > most_bytes) return false;
    const uintptr_t end = (uintptr_t)data + bytes;
    for (uintptr_t page = (uintptr_t)data / PAGE * PAGE; page < end; page += PAGE) {
        const size_t i = slot_of(page);
        const bool fresh = pages[i].page != page || pages[i].n == 0;
        if (fresh && (n_pages == N_SLOTS / 2 || !gpu_register_pages((void *)page, PAGE))) {
            if (page > (uintptr_t)data) leave(data, page - (uintptr_t)data);
            return false;
        }
        n_pages += fresh;
        pages[i].page = page;
        pages[i].n = fresh ? 1 : pages[i].n + 1;
    }
    return true;
}

void device_register(void *data, size_t bytes)
{
    if (!needs_pages) return;
    if (n_pieces == (int)(sizeof(pieces) / sizeof(pieces[0])) || !reach(data, bytes)) {
        n_unreachable++;
        return;
    }
    pieces[n_pieces].data = data;
    pieces[n_pieces++].bytes = bytes;
}

void device_unregister(void *data)
{
    int i = n_pieces;
    if (!needs_pages || !data) return;
    while (i-- > 0 && pieces[i].data != data) continue;
    if (i < 0) {
        n_unreachable -= n_unreachable > 0;
        return;
    }
    leave(data, pieces[i].bytes);
    pieces[i] = pieces[--n_pieces];
}

static pkv_status done(pkv_status status)
{
    char why[128];
    if (gpu_wait(why, sizeof(why))) return status;
    printf("FAILED the device: %s\n", why);
    fflush(stdout);
    _Exit(1); /* nothing runs on it any more */
}

/* Operations of the library, waited for. */
#define WAITED(name, types, values)                                                                \
    pkv_status __real_##name types;                                                                \
    pkv_status __wrap_##name types;                                                                \
    pkv_status __wrap_##name types                                                                 \
    {                                                                                              \
        if (!lends) return __real_##name values;                                                   \
        return n_unreachable > 0 ? PKV_E_UNSUPPORTED : done(__real_##name values);                 \
    }

WAITED(pkv_attn_run,
       (pkv_backend * be, const pkv_tensor3 *q, const pkv_kv_view *k, const pkv_kv_view *v,
        const pkv_attn_batch *batch, const pkv_attn_opts *opts, void *workspace, size_t bytes,
        void *stream, pkv_tensor3 *out, pkv_lse *lse),
       (be, q, k, v, batch, opts, workspace, bytes, stream, out, lse))
WAITED(pkv_attn_mla_run,
       (pkv_backend * be, const pkv_tensor3 *q, const pkv_tensor3 *q_rope, const pkv_kv_view *k,
        const pkv_kv_view *v, const pkv_attn_batch *batch, const pkv_attn_opts *opts,
        void *workspace, size_t bytes, void *stream, pkv_tensor3 *out, pkv_lse *lse),
       (be, q, q_rope, k, v, batch, opts, workspace, bytes, stream, out, lse))
WAITED(pkv_workspace_init, (pkv_backend * be, void *workspace, size_t bytes, void *stream),
       (be, workspace, bytes, stream))
WAITED(pkv_table_check,
       (pkv_backend * be, const pkv_attn_batch *batch, const pkv_attn_opts *opts, int64_t n_rows,
        int32_t n_blocks, int32_t block_tokens, uint32_t *bad, void *stream),
       (be, batch, opts, n_rows, n_blocks, block_tokens, bad, stream))
WAITED(pkv_states_merge,
       (pkv_backend * be, const pkv_tensor3 *o, const pkv_lse *lse, int32_t n_states, void *stream,
        pkv_tensor3 *out, pkv_lse *out_lse),
       (be, o, lse, n_states, stream, out, out_lse))
WAITED(pkv_kv_write, (pkv_backend * be, const pkv_kv_write_args *args, void *stream),
       (be, args, stream))
WAITED(pkv_kv_gather,
       (pkv_backend * be, const pkv_kv_view *view, const int64_t *slots, pkv_tensor3 *out,
        uint32_t *bad, void *stream),
       (be, view, slots, out, bad, stream))
WAITED(pkv_blocks_copy,
       (pkv_backend * be, void *pool, size_t block_bytes, int32_t n_blocks,
        const pkv_block_copy *copies, int32_t n_copies, const pkv_kv_shape *shapes,
        int32_t n_shapes, void *stream),
       (be, pool, block_bytes, n_blocks, copies, n_copies, shapes, n_shapes, stream))
WAITED(pkv_blocks_zero,
       (pkv_backend * be, void *pool, size_t block_bytes, int32_t n_blocks, const int32_t *ids,
        int32_t n, void *stream),
       (be, pool, block_bytes, n_blocks, ids, n, stream))
WAITED(pkv_blocks_fill,
       (pkv_backend * be, void *pool, size_t block_bytes, int32_t n_blocks, int32_t first,
        int32_t n, uint8_t byte, void *stream),
       (be, pool, block_bytes, n_blocks, first, n, byte, stream))
WAITED(pkv_blocks_gather,
       (pkv_backend * be, const void *pool, size_t block_bytes, int32_t n_blocks,
        const int32_t *ids, int32_t n, void *dst, void *stream),
       (be, pool, block_bytes, n_blocks, ids, n, dst, stream))
WAITED(pkv_blocks_scatter,
       (pkv_backend * be, const void *src, const int32_t *ids, int32_t n, void *pool,
        size_t block_bytes, int32_t n_blocks, void *stream),
       (be, src, ids, n, pool, block_bytes, n_blocks, stream))
