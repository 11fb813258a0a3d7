/* check_kernels on a GPU: its memory is the process's own, which kernels reach where it lies, as
 * the system lets them or registered with the driver. Calls are waited for, since the cases look at
 * once.
 *
 *   pieces  |--a--|     |--b--|-c-|        what the cases allocate
 *   runs   [  pages ]  [   pages    ]      that pieces share; registered in one call, for
 *                                          the driver refuses a copy that leaves a registration
 *
 * A piece that comes or goes makes the runs that it touches be registered anew: nothing is under
 * way then, and what is given back to the system must not stay registered. What cannot be
 * registered (address space without memory behind it) makes calls unsupported while it is there:
 * those cases count as skipped, and say so. Linked with --wrap of every operation. */
#include "check_gpu_device.h"
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"
#include "simt/simt_cuda.h"

#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 4096, MAX_PIECES = 4096 };
static const size_t most_bytes = (size_t)1 << 30; /* of one piece; more is address space */

/* Of addresses: from the first byte of a page to behind the last one of another. */
struct pages {
    uintptr_t lo, hi;
};
static struct pages runs[MAX_PIECES];
static struct piece {
    void *data;
    struct pages pages;
    bool reached; /* lies in a run */
} pieces[MAX_PIECES];
static int n_runs, n_pieces, n_unreachable;
static bool lends, needs_pages;

void gpu_lend_memory(void)
{
    struct gpu_about about;
    char why[256];
    lends = true; /* without a device nothing will be called */
    needs_pages = gpu_open(&about, why, sizeof(why)) && !about.reads_all_host_memory;
}

static bool overlap(struct pages a, struct pages b)
{
    return a.lo < b.hi && b.lo < a.hi;
}

static bool register_run(struct pages run)
{
    if (n_runs == MAX_PIECES || !gpu_register_pages((void *)run.lo, run.hi - run.lo)) return false;
    runs[n_runs++] = run;
    return true;
}
static void unregister_run(int i)
{
    gpu_unregister_pages((void *)runs[i].lo);
    runs[i] = runs[--n_runs];
}

static int by_address(const void *a, const void *b)
{
    const struct piece *const *x = a, *const *y = b;
    return ((*x)->pages.lo > (*y)->pages.lo) - ((*x)->pages.lo < (*y)->pages.lo);
}

/* Registers the pages of pieces that lay in a run, which is no more. */
static void register_again(struct pages old)
{
    static struct piece *within[MAX_PIECES];
    int n = 0;
    for (int i = 0; i < n_pieces; i++)
        if (pieces[i].reached && overlap(pieces[i].pages, old)) within[n++] = &pieces[i];
    qsort(within, (size_t)n, sizeof(*within), by_address);
    for (int i = 0, end; i < n; i = end) {
        struct pages run = within[i]->pages;
        for (end = i + 1; end < n && within[end]->pages.lo < run.hi; end++)
            if (within[end]->pages.hi > run.hi) run.hi = within[end]->pages.hi;
        const bool reached = register_run(run);
        for (int k = i; k < end && !reached; k++) within[k]->reached = false;
        n_unreachable += reached ? 0 : end - i;
    }
}

/* One run of its pages and of those of all runs that it touches. */
static bool reach(struct pages pages)
{
    static struct pages old[MAX_PIECES];
    struct pages run = pages;
    int n_old = 0;
    if (pages.hi - pages.lo > most_bytes) return false;
    for (int i = n_runs; i-- > 0;) {
        if (!overlap(runs[i], pages)) continue;
        old[n_old++] = runs[i];
        if (runs[i].lo < run.lo) run.lo = runs[i].lo;
        if (runs[i].hi > run.hi) run.hi = runs[i].hi;
        unregister_run(i);
    }
    if (register_run(run)) return true;
    for (int k = 0; k < n_old; k++) register_again(old[k]);
    return false;
}

void device_register(void *data, size_t bytes)
{
    if (!needs_pages) return;
    const uintptr_t at = (uintptr_t)data;
    const struct pages pages = { at / PAGE * PAGE, (at + bytes + PAGE - 1) / PAGE * PAGE };
    if (n_pieces == MAX_PIECES) {
        n_unreachable++;
        return;
    }
    const bool reached = reach(pages);
    pieces[n_pieces++] = (struct piece){ data, pages, reached };
    n_unreachable += !reached;
}

void device_unregister(void *data)
{
    int i = n_pieces;
    if (!needs_pages || !data) return;
    while (i-- > 0 && pieces[i].data != data) continue;
    if (i < 0) {
        n_unreachable -= n_unreachable > 0; /* there were too many pieces */
        return;
    }
    const struct piece gone = pieces[i];
    pieces[i] = pieces[--n_pieces];
    if (!gone.reached) {
        n_unreachable--;
        return;
    }
    int r = 0;
    while (!overlap(runs[r], gone.pages)) r++;
    const struct pages run = runs[r];
    unregister_run(r);
    register_again(run);
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
#define WAITED(name, types, values) WAITED_OR(PKV_E_UNSUPPORTED, name, types, values)
#define WAITED_OR(lost, name, types, values)                                                       \
    pkv_status __real_##name types;                                                                \
    pkv_status __wrap_##name types;                                                                \
    pkv_status __wrap_##name types                                                                 \
    {                                                                                              \
        if (!lends) return __real_##name values;                                                   \
        return n_unreachable > 0 ? (lost) : done(__real_##name values);                            \
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
/* The call that the workspace is for will be the one that is skipped. */
WAITED_OR(PKV_OK, pkv_workspace_init,
          (pkv_backend * be, void *workspace, size_t bytes, void *stream),
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
