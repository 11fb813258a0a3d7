/* Moves of blocks on the device. Lists lie on the host and travel in the parameters of launches:
 * nothing is allocated, and the lists are free again when the call returns.
 *
 *   copies, zeros      a move each
 *   gather, scatter    a move for every run of ids that follow each other. Long runs are copies of
 *                      the runtime, which do not need the device's multiprocessors */
#include "common/kv_layout.h"
#include "kernels/cuda/blocks_copy.h"
#include "kernels/cuda/cuda_internal.h"

#include <string.h>

enum {
    COPY_BYTES = 32 << 10, /* from here on a run is left to the runtime: design, K7 */
    MAX_COPIES = 64,       /* handed to the runtime at once; bounds what lies on the stack */
    SET_BITS = 9           /* more than twice the moves of a launch */
};

/* Moves on their way to a launch. */
struct batch {
    const pkv_backend *be;
    void *stream;
    const char *what;
    int32_t variant;
    int32_t groups[PKV__CUDA_MAX_SHAPES], n_shapes; /* m.shapes[i] is of group groups[i] */
    struct pkv__cuda_moves m;
};

static bool wide(const void *dst, const void *src, size_t block_bytes)
{
    return (((uintptr_t)dst | (uintptr_t)src | block_bytes) & 15) == 0;
}

static pkv_status begin(struct batch *b, const pkv_backend *be, const char *what, void *dst,
                        const void *src, size_t block_bytes, void *stream)
{
    b->be = be;
    b->stream = stream;
    b->what = what;
    b->variant = pkv__cuda_variant_of(pkv__cuda_of(be), PKV_OP_BLOCKS_COPY, PKV_I8);
    b->n_shapes = 0;
    b->m.dst = dst;
    b->m.src = src;
    b->m.block_bytes = (int64_t)block_bytes;
    b->m.n_slices = 0;
    b->m.n_moves = 0;
    b->m.wide = wide(dst, src, block_bytes);
    if (b->variant < 0) return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "%s: no kernel", what);
    return PKV_OK;
}

/* Launch what there is. */
static pkv_status flush(struct batch *b)
{
    struct pkv__cuda_moves *m = &b->m;
    const int64_t n_items = m->n_moves * m->n_slices;
    const int64_t grid = pkv__cuda_grid(pkv__cuda_of(b->be), b->variant);
    if (n_items == 0) return PKV_OK;
    const int code =
        pkv__cuda_variants[b->variant].launch(m, n_items < grid ? n_items : grid, b->stream);
    m->n_moves = 0;
    m->n_slices = 0;
    b->n_shapes = 0;
    return pkv__cuda_status(b->be, code, b->what);
}

/* There is room: whoever fills the last place launches. */
static pkv_status add(struct batch *b, struct pkv__cuda_move move, int64_t n_slices)
{
    struct pkv__cuda_moves *m = &b->m;
    m->moves[m->n_moves++] = move;
    if (n_slices > m->n_slices) m->n_slices = n_slices;
    return m->n_moves == PKV__CUDA_MAX_MOVES ? flush(b) : PKV_OK;
}

static int64_t ceil_div(int64_t a, int64_t b)
{
    return (a + b - 1) / b;
}

static pkv_status add_blocks(struct batch *b, int32_t dst, int32_t src, int32_t n)
{
    return add(b, (struct pkv__cuda_move){ dst, src, n, -1 },
               ceil_div(n * b->m.block_bytes, PKV__CUDA_SLICE_BYTES));
}

/* Index of the copy's shape in the parameters; a launch makes room for it if need be. */
static pkv_status place_shape(struct batch *b, const pkv_kv_shape *shapes, int32_t group,
                              int32_t *idx)
{
    struct pkv__kv_layout l;
    for (*idx = 0; *idx < b->n_shapes; ++*idx)
        if (b->groups[*idx] == group) return PKV_OK;
    pkv_status status = pkv__kv_layout(&shapes[group], &l);
    if (status == PKV_OK && b->n_shapes == PKV__CUDA_MAX_SHAPES) status = flush(b);
    if (status != PKV_OK) return status;
    *idx = b->n_shapes++;
    b->groups[*idx] = group;
    b->m.shapes[*idx] = (struct pkv__cuda_pieces){
        .n_pieces = (int64_t)l.n_pieces,
        .piece_bytes = (int64_t)l.piece_bytes,
        .scales_at = (int64_t)l.scales_at,
        .zeros_at = (int64_t)l.zeros_at,
        .row_bytes = (int32_t)l.row_bytes,
        .block_tokens = (int32_t)l.block_tokens,
    };
    return PKV_OK;
}

static pkv_status add_copy(struct batch *b, const pkv_block_copy *copy, const pkv_kv_shape *shapes)
{
    int32_t shape = 0;
    if (!shapes || copy->n_tokens == shapes[copy->group].block_tokens)
        return add_blocks(b, copy->dst, copy->src, 1);
    if (copy->n_tokens == 0) return PKV_OK;
    const pkv_status status = place_shape(b, shapes, copy->group, &shape);
    if (status != PKV_OK) return status;
    const struct pkv__cuda_pieces *p = &b->m.shapes[shape];
    return add(b, (struct pkv__cuda_move){ copy->dst, copy->src, copy->n_tokens, shape },
               ceil_div(p->n_pieces * copy->n_tokens, PKV__CUDA_SLICE_BYTES / p->row_bytes));
}

pkv_status pkv__cuda_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes,
                                 const pkv_block_copy *copies, int32_t n,
                                 const pkv_kv_shape *shapes, void *stream)
{
    struct batch b;
    pkv_status status = begin(&b, be, "blocks_copy", pool, pool, block_bytes, stream);
    for (int32_t i = 0; i < n && status == PKV_OK; i++) status = add_copy(&b, &copies[i], shapes);
    return status == PKV_OK ? flush(&b) : status;
}

/* Puts the id, >= 1, into a set of at most PKV__CUDA_MAX_MOVES, in which 0 is an empty place. Was
 * it missing? */
static bool insert(int32_t set[1 << SET_BITS], int32_t id)
{
    uint32_t at = (uint32_t)id * 0x9e3779b1u >> (32 - SET_BITS);
    for (; set[at] != 0; at = (at + 1) % (1u << SET_BITS))
        if (set[at] == id) return false;
    set[at] = id;
    return true;
}

/* A block that is named twice is zeroed once in a launch: two CTAs must not write the same bytes,
 * not even the same zeros. */
pkv_status pkv__cuda_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes,
                                 const int32_t *ids, int32_t n, void *stream)
{
    struct batch b;
    int32_t set[1 << SET_BITS];
    pkv_status status = begin(&b, be, "blocks_zero", pool, NULL, block_bytes, stream);
    for (int32_t i = 0; i < n && status == PKV_OK; i++) {
        if (b.m.n_moves == 0) memset(set, 0, sizeof(set));
        if (insert(set, ids[i])) status = add_blocks(&b, ids[i], 0, 1);
    }
    return status == PKV_OK ? flush(&b) : status;
}

pkv_status pkv__cuda_blocks_fill(pkv_backend *be, void *pool, size_t block_bytes, int32_t first,
                                 int32_t n, uint8_t byte, void *stream)
{
    char *const dst = (char *)pool + (size_t)first * block_bytes;
    return pkv__cuda_status(be, pkv__device_fill(dst, byte, (size_t)n * block_bytes, stream),
                            "blocks_fill");
}

/* Copies on their way to the runtime. */
struct copies {
    void *dst[MAX_COPIES];
    const void *src[MAX_COPIES];
    size_t bytes[MAX_COPIES], n;
};

static pkv_status flush_copies(const struct batch *b, struct copies *c)
{
    const size_t n = c->n;
    c->n = 0;
    if (n == 0) return PKV_OK;
    return pkv__cuda_status(b->be, pkv__device_copy_batch(c->dst, c->src, c->bytes, n, b->stream),
                            b->what);
}

static pkv_status add_run(struct batch *b, struct copies *c, int32_t dst, int32_t src, int32_t n)
{
    const size_t block_bytes = (size_t)b->m.block_bytes, bytes = (size_t)n * block_bytes;
    if (bytes < COPY_BYTES) return add_blocks(b, dst, src, n);
    c->dst[c->n] = b->m.dst + (size_t)dst * block_bytes;
    c->src[c->n] = b->m.src + (size_t)src * block_bytes;
    c->bytes[c->n++] = bytes;
    return c->n == MAX_COPIES ? flush_copies(b, c) : PKV_OK;
}

/* Place i of the contiguous side and block ids[i]; `out`: out of the pool. */
static pkv_status swap(struct batch *b, const int32_t *ids, int32_t n, bool out)
{
    struct copies c = { .n = 0 };
    pkv_status status = PKV_OK;
    for (int32_t i = 0, end; i < n && status == PKV_OK; i = end) {
        for (end = i + 1; end < n && ids[end] == ids[end - 1] + 1; end++) {}
        status = add_run(b, &c, out ? i : ids[i], out ? ids[i] : i, end - i);
    }
    if (status == PKV_OK) status = flush_copies(b, &c);
    return status == PKV_OK ? flush(b) : status;
}

pkv_status pkv__cuda_blocks_gather(pkv_backend *be, const void *pool, size_t block_bytes,
                                   const int32_t *ids, int32_t n, void *dst, void *stream)
{
    struct batch b;
    const pkv_status status = begin(&b, be, "blocks_gather", dst, pool, block_bytes, stream);
    return status == PKV_OK ? swap(&b, ids, n, true) : status;
}

pkv_status pkv__cuda_blocks_scatter(pkv_backend *be, const void *src, const int32_t *ids, int32_t n,
                                    void *pool, size_t block_bytes, void *stream)
{
    struct batch b;
    const pkv_status status = begin(&b, be, "blocks_scatter", pool, src, block_bytes, stream);
    return status == PKV_OK ? swap(&b, ids, n, false) : status;
}
