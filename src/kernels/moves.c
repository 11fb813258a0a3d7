/* Moves of whole blocks: the copies and zeroings that the block manager plans. All checks come
 * before the first byte moves. */
#include "pagedkv/moves.h"
#include "kernels/kernels_internal.h"

#include <string.h>

enum { PAIRWISE_MAX = 32 }; /* up to here comparing all pairs needs no memory and costs < 1 us */

static bool id_valid(int32_t id, int32_t n_blocks)
{
    return id >= 1 && id < n_blocks;
}

static pkv_status check_pool(const pkv_logger *log, const void *pool, size_t block_bytes,
                             int32_t n_blocks, const void *list, int32_t n)
{
    size_t total;
    if (n < 0 || (n > 0 && !list))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "moves: no list, or %d entries", n);
    if (!pool || block_bytes == 0 || n_blocks < 1 ||
        !pkv__mul_size(block_bytes, (size_t)n_blocks, &total))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "moves: %d blocks of %zu bytes at %s", n_blocks,
                           block_bytes, pool ? "a pool" : "null");
    return PKV_OK;
}

static void sift_down(int32_t *a, int32_t at, int32_t n)
{
    for (int32_t child; (child = 2 * at + 1) < n; at = child) {
        if (child + 1 < n && a[child + 1] > a[child]) child++;
        if (a[at] >= a[child]) return;
        const int32_t t = a[at];
        a[at] = a[child];
        a[child] = t;
    }
}

/* Heap sort: in place, no memory of its own (the C library's qsort may ask malloc). */
static void sort_ids(int32_t *a, int32_t n)
{
    for (int32_t i = n / 2; i-- > 0;) sift_down(a, i, n);
    for (int32_t end = n - 1; end > 0; end--) {
        const int32_t t = a[0];
        a[0] = a[end];
        a[end] = t;
        sift_down(a, 0, end);
    }
}

static bool contains(const int32_t *sorted, int32_t n, int32_t id)
{
    int32_t lo = 0, hi = n;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (sorted[mid] < id) lo = mid + 1;
        else hi = mid;
    }
    return lo < n && sorted[lo] == id;
}

static bool conflict_pairwise(const pkv_block_copy *copies, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++)
            if (copies[i].dst == copies[j].src || (i != j && copies[i].dst == copies[j].dst))
                return true;
    return false;
}

static bool conflict_sorted(const pkv_block_copy *copies, int32_t n, int32_t *dsts)
{
    for (int32_t i = 0; i < n; i++) dsts[i] = copies[i].dst;
    sort_ids(dsts, n);
    for (int32_t i = 1; i < n; i++)
        if (dsts[i] == dsts[i - 1]) return true;
    for (int32_t i = 0; i < n; i++)
        if (contains(dsts, n, copies[i].src)) return true;
    return false;
}

static pkv_status check_copies(const pkv_backend *be, int32_t n_blocks,
                               const pkv_block_copy *copies, int32_t n)
{
    bool conflict;
    for (int32_t i = 0; i < n; i++)
        if (!id_valid(copies[i].src, n_blocks) || !id_valid(copies[i].dst, n_blocks))
            return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                               "blocks_copy: copy %d from %d to %d, ids go from 1 to %d", i,
                               copies[i].src, copies[i].dst, n_blocks - 1);
    if (n <= PAIRWISE_MAX) {
        conflict = conflict_pairwise(copies, n);
    } else {
        const size_t bytes = (size_t)n * sizeof(int32_t);
        int32_t *dsts = pkv__alloc(&be->alloc, bytes, sizeof(int32_t));
        if (!dsts) return pkv__refuse(&be->log, PKV_E_NO_MEMORY, "blocks_copy: %zu bytes", bytes);
        conflict = conflict_sorted(copies, n, dsts);
        pkv__free(&be->alloc, dsts, bytes);
    }
    if (conflict)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                           "blocks_copy: a block is written twice, or both read and written");
    return PKV_OK;
}

pkv_status pkv_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes, int32_t n_blocks,
                           const pkv_block_copy *copies, int32_t n_copies,
                           const pkv_kv_shape *shapes, int32_t n_shapes)
{
    if (!be) return PKV_E_INVALID_ARG;
    if (shapes || n_shapes) return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "blocks_copy: shapes");
    pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, copies, n_copies);
    if (status == PKV_OK) status = check_copies(be, n_blocks, copies, n_copies);
    if (status != PKV_OK) return status;
    for (int32_t i = 0; i < n_copies; i++)
        be->kernels.copy((char *)pool + (size_t)copies[i].dst * block_bytes,
                         (const char *)pool + (size_t)copies[i].src * block_bytes, block_bytes);
    return PKV_OK;
}

pkv_status pkv_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes, int32_t n_blocks,
                           const int32_t *ids, int32_t n)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, ids, n);
    if (status != PKV_OK) return status;
    for (int32_t i = 0; i < n; i++)
        if (!id_valid(ids[i], n_blocks))
            return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                               "blocks_zero: id %d, ids go from 1 to %d", ids[i], n_blocks - 1);
    for (int32_t i = 0; i < n; i++)
        memset((char *)pool + (size_t)ids[i] * block_bytes, 0, block_bytes);
    return PKV_OK;
}
