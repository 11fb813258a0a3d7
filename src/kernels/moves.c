/* Moves of whole blocks, and of the first tokens of blocks: what the block manager plans, swapping
 * and sending. All checks come before the first byte moves.
 *
 *   move i    dst <- src, or zeros            block_bytes each, or some tokens of each piece
 *   item      part p of move i                few large blocks are cut, many are not
 *   task      a range of items: all moves of part 0, all of part 1, ...
 *
 * No two tasks write the same bytes, and none reads what another writes, so that their order does
 * not matter. Moves do not either, but that blocks to zero may be named twice: these are always cut
 * into as many parts as there are tasks, so that a task has one part of every block. */
#include "pagedkv/moves.h"
#include "common/kv_layout.h"
#include "kernels/move_tasks.h"

#include <string.h>

enum { IDS_ON_STACK = 32 };

struct moves {
    const pkv_backend *be;
    size_t block_bytes;
    char *dst;             /* pool, or the contiguous bytes */
    const char *src;       /* likewise; NULL: zeros */
    const int32_t *dst_id; /* of move i at [i * id_step]; NULL: i itself */
    const int32_t *src_id; /* likewise */
    int32_t id_step, n;
    const pkv_block_copy *copies; /* with shapes only: which tokens */
    const pkv_kv_shape *shapes;
    bool dst_repeats; /* a block may be written by several moves */
    bool past_caches;
    int32_t parts, n_tasks;
};

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

static pkv_status check_ids(const pkv_logger *log, const char *name, const int32_t *ids, int32_t n,
                            int32_t first, int32_t n_blocks)
{
    for (int32_t i = 0; i < n; i++)
        if (ids[i] < first || ids[i] >= n_blocks)
            return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: id %d, ids go from %d to %d", name,
                               ids[i], first, n_blocks - 1);
    return PKV_OK;
}

/* The contiguous side of a gather or scatter lies outside the pool. */
static pkv_status check_apart(const pkv_logger *log, const void *pool, size_t block_bytes,
                              int32_t n_blocks, const void *bytes, int32_t n)
{
    size_t len;
    if (n == 0) return PKV_OK;
    if (!bytes || !pkv__mul_size(block_bytes, (size_t)n, &len))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "moves: null, or %d blocks of %zu bytes", n,
                           block_bytes);
    const uintptr_t a = (uintptr_t)pool, b = (uintptr_t)bytes;
    if (a < b ? b - a < (size_t)n_blocks * block_bytes : a - b < len)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "moves: the bytes overlap the pool");
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

/* Sorts dsts. Is one written twice, or also read? `copies` NULL: none is read. */
static bool conflict(int32_t *dsts, int32_t n, const pkv_block_copy *copies)
{
    sort_ids(dsts, n);
    for (int32_t i = 1; i < n; i++)
        if (dsts[i] == dsts[i - 1]) return true;
    for (int32_t i = 0; copies && i < n; i++)
        if (contains(dsts, n, copies[i].src)) return true;
    return false;
}

/* The blocks written are `ids`, or the dst of `copies`. */
static pkv_status check_conflict(const pkv_backend *be, const pkv_block_copy *copies,
                                 const int32_t *ids, int32_t n)
{
    int32_t few[IDS_ON_STACK], *dsts = few;
    const size_t bytes = (size_t)n * sizeof(int32_t);
    if (n > IDS_ON_STACK) dsts = pkv__alloc(&be->alloc, bytes, sizeof(int32_t));
    if (!dsts) return pkv__refuse(&be->log, PKV_E_NO_MEMORY, "moves: %zu bytes", bytes);
    for (int32_t i = 0; i < n; i++) dsts[i] = copies ? copies[i].dst : ids[i];
    const bool bad = conflict(dsts, n, copies);
    if (dsts != few) pkv__free(&be->alloc, dsts, bytes);
    if (!bad) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                       "moves: a block is written twice, or both read and written");
}

static pkv_status check_copies(const pkv_logger *log, int32_t n_blocks,
                               const pkv_block_copy *copies, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t src = copies[i].src, dst = copies[i].dst;
        if (src < 1 || src >= n_blocks || dst < 1 || dst >= n_blocks)
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "blocks_copy: copy %d from %d to %d, ids go from 1 to %d", i, src,
                               dst, n_blocks - 1);
    }
    return PKV_OK;
}

static pkv_status check_shapes(const pkv_logger *log, size_t block_bytes,
                               const pkv_block_copy *copies, int32_t n, const pkv_kv_shape *shapes,
                               int32_t n_shapes)
{
    for (int32_t i = 0; i < n; i++) {
        const int32_t group = copies[i].group, n_tokens = copies[i].n_tokens;
        struct pkv__kv_layout layout;
        if (group < 0 || group >= n_shapes)
            return pkv__refuse(log, PKV_E_INVALID_ARG, "blocks_copy: copy %d of group %d", i,
                               group);
        if (pkv__kv_layout(&shapes[group], &layout) != PKV_OK || layout.block_bytes > block_bytes)
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "blocks_copy: the shape of group %d is none, or too large", group);
        if (n_tokens < 0 || n_tokens > shapes[group].block_tokens)
            return pkv__refuse(log, PKV_E_INVALID_ARG, "blocks_copy: copy %d of %d tokens", i,
                               n_tokens);
    }
    return PKV_OK;
}

static void put(const struct moves *m, char *dst, const char *src, size_t bytes)
{
    if (m->past_caches) m->be->kernels.stream(dst, src, bytes);
    else m->be->kernels.copy(dst, src, bytes);
}

/* Bytes [lo, hi) of a block, cut at cache lines. */
static void move_bytes(const struct moves *m, char *dst, const char *src, int32_t part)
{
    const int64_t lines = (int64_t)((m->block_bytes + PKV_CACHE_LINE - 1) / PKV_CACHE_LINE);
    const struct pkv__share share = pkv__move_share(lines, m->parts, part);
    const size_t lo = (size_t)share.lo * PKV_CACHE_LINE;
    size_t hi = (size_t)share.hi * PKV_CACHE_LINE;
    if (hi > m->block_bytes) hi = m->block_bytes;
    if (hi <= lo) return;
    if (src) put(m, dst + lo, src + lo, hi - lo);
    else memset(dst + lo, 0, hi - lo);
}

/* The first n_tokens rows, scales and zero points of some pieces. */
static void move_tokens(const struct moves *m, char *dst, const char *src, size_t n_tokens,
                        const struct pkv__kv_layout *l, int32_t part)
{
    const struct pkv__share pieces = pkv__move_share((int64_t)l->n_pieces, m->parts, part);
    const size_t floats = n_tokens * sizeof(float);
    for (size_t p = (size_t)pieces.lo; p < (size_t)pieces.hi; p++) {
        const size_t rows = p * l->piece_bytes, first = p * l->block_tokens * sizeof(float);
        put(m, dst + rows, src + rows, n_tokens * l->row_bytes);
        if (l->scales_at) memcpy(dst + l->scales_at + first, src + l->scales_at + first, floats);
        if (l->zeros_at) memcpy(dst + l->zeros_at + first, src + l->zeros_at + first, floats);
    }
}

static void run_item(const struct moves *m, int64_t i, int32_t part)
{
    const size_t to = m->dst_id ? (size_t)m->dst_id[i * m->id_step] : (size_t)i;
    const size_t from = m->src_id ? (size_t)m->src_id[i * m->id_step] : (size_t)i;
    char *dst = m->dst + to * m->block_bytes;
    const char *src = m->src ? m->src + from * m->block_bytes : NULL;
    if (m->shapes) {
        const pkv_kv_shape *shape = &m->shapes[m->copies[i].group];
        struct pkv__kv_layout layout;
        if (m->copies[i].n_tokens < shape->block_tokens) {
            if (pkv__kv_layout(shape, &layout) == PKV_OK) /* checked before */
                move_tokens(m, dst, src, (size_t)m->copies[i].n_tokens, &layout, part);
            return;
        }
    }
    move_bytes(m, dst, src, part);
}

static void run_share(void *ctx, int32_t task)
{
    const struct moves *m = ctx;
    const struct pkv__share items = pkv__move_share((int64_t)m->n * m->parts, m->n_tasks, task);
    for (int64_t item = items.lo; item < items.hi; item++)
        run_item(m, item % m->n, (int32_t)(item / m->n));
    if (m->past_caches) m->be->kernels.stream_end();
}

static void run_moves(struct moves *m)
{
    m->n_tasks = pkv__move_tasks(m->be, (size_t)m->n * m->block_bytes);
    m->past_caches = pkv__past_caches((size_t)m->n * m->block_bytes);
    m->parts = !m->dst_repeats && m->n / 4 >= m->n_tasks ? 1 : m->n_tasks;
    pkv__parallel(m->be->threads, m->n_tasks, run_share, m);
}

pkv_status pkv_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes, int32_t n_blocks,
                           const pkv_block_copy *copies, int32_t n_copies,
                           const pkv_kv_shape *shapes, int32_t n_shapes, void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, copies, n_copies);
    if (status == PKV_OK) status = check_copies(&be->log, n_blocks, copies, n_copies);
    if (status == PKV_OK && shapes)
        status = check_shapes(&be->log, block_bytes, copies, n_copies, shapes, n_shapes);
    if (status == PKV_OK) status = check_conflict(be, copies, NULL, n_copies);
    if (status != PKV_OK || n_copies == 0) return status;
    if (be->device)
        return be->device->blocks_copy(be, pool, block_bytes, copies, n_copies, shapes, stream);
    struct moves m = { .be = be,
                       .block_bytes = block_bytes,
                       .dst = pool,
                       .src = pool,
                       .dst_id = &copies[0].dst,
                       .src_id = &copies[0].src,
                       .id_step = (int32_t)(sizeof(copies[0]) / sizeof(int32_t)),
                       .n = n_copies,
                       .copies = copies,
                       .shapes = shapes };
    run_moves(&m);
    return PKV_OK;
}

pkv_status pkv_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes, int32_t n_blocks,
                           const int32_t *ids, int32_t n, void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, ids, n);
    if (status == PKV_OK) status = check_ids(&be->log, "blocks_zero", ids, n, 1, n_blocks);
    if (status != PKV_OK || n == 0) return status;
    if (be->device) return be->device->blocks_zero(be, pool, block_bytes, ids, n, stream);
    struct moves m = { .be = be,
                       .block_bytes = block_bytes,
                       .dst = pool,
                       .dst_id = ids,
                       .id_step = 1,
                       .n = n,
                       .dst_repeats = true };
    run_moves(&m);
    return PKV_OK;
}

pkv_status pkv_blocks_fill(pkv_backend *be, void *pool, size_t block_bytes, int32_t n_blocks,
                           int32_t first, int32_t n, uint8_t byte, void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, pool, n);
    if (status != PKV_OK || n == 0) return status;
    if (first < 0 || n > n_blocks - first)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG, "blocks_fill: %d blocks from %d on, of %d",
                           n, first, n_blocks);
    if (be->device) return be->device->blocks_fill(be, pool, block_bytes, first, n, byte, stream);
    memset((char *)pool + (size_t)first * block_bytes, byte, (size_t)n * block_bytes);
    return PKV_OK;
}

pkv_status pkv_blocks_gather(pkv_backend *be, const void *pool, size_t block_bytes,
                             int32_t n_blocks, const int32_t *ids, int32_t n, void *dst,
                             void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, ids, n);
    if (status == PKV_OK) status = check_apart(&be->log, pool, block_bytes, n_blocks, dst, n);
    if (status == PKV_OK) status = check_ids(&be->log, "blocks_gather", ids, n, 0, n_blocks);
    if (status != PKV_OK || n == 0) return status;
    if (be->device) return be->device->blocks_gather(be, pool, block_bytes, ids, n, dst, stream);
    struct moves m = { .be = be,
                       .block_bytes = block_bytes,
                       .dst = dst,
                       .src = pool,
                       .src_id = ids,
                       .id_step = 1,
                       .n = n };
    run_moves(&m);
    return PKV_OK;
}

pkv_status pkv_blocks_scatter(pkv_backend *be, const void *src, const int32_t *ids, int32_t n,
                              void *pool, size_t block_bytes, int32_t n_blocks, void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    pkv_status status = check_pool(&be->log, pool, block_bytes, n_blocks, ids, n);
    if (status == PKV_OK) status = check_apart(&be->log, pool, block_bytes, n_blocks, src, n);
    if (status == PKV_OK) status = check_ids(&be->log, "blocks_scatter", ids, n, 1, n_blocks);
    if (status == PKV_OK) status = check_conflict(be, NULL, ids, n);
    if (status != PKV_OK || n == 0) return status;
    if (be->device) return be->device->blocks_scatter(be, src, ids, n, pool, block_bytes, stream);
    struct moves m = { .be = be,
                       .block_bytes = block_bytes,
                       .dst = pool,
                       .src = src,
                       .dst_id = ids,
                       .id_step = 1,
                       .n = n };
    run_moves(&m);
    return PKV_OK;
}
