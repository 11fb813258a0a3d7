/* Rows of K and V on their way from the store to shared memory: which block a tile of 16 keys lies
 * in, and the copies of one warp.
 *
 *   ids       one per tile where blocks are whole tiles (and in the contiguous entry): lane j holds
 *             that of the warp's tile i + j, one load for 32 tiles; else one per key, lane j % 16
 *             holds that of key j % 16 of the warp's next tile
 *   a tile    16 rows of K, then 16 of V, each of CHUNKS pieces of 16 bytes; lane l copies piece
 *             l % CHUNKS of rows l / CHUNKS, + STEP_ROWS, ...
 *
 * Addresses grow by strides, in 64 bits. Keys that nobody sees are not read: their rows are zeros,
 * as is whatever lies beyond a row's dim. */
#ifndef PKV_ATTN_ROWS_CUH
#define PKV_ATTN_ROWS_CUH

#include "kernels/cuda/attn_batch.cuh"

constexpr int32_t PKV__TILE_KEYS = 16;

/* ---------------------------------------------------------------- where rows lie in shared memory
 */
/* Where piece `chunk` of a row of whole 128-byte lines stands: exchanged within its line. */
PKV_DEV int32_t pkv__swizzled(int32_t row, int32_t chunk)
{
    return chunk ^ (row & 7);
}

/* Rows of ROW_BYTES, at conflict-free places: the pieces that ldmatrix reads, of one column and
 * eight rows, lie in eight different groups of four banks, and so do eight pieces in the order of
 * the rows, as they are copied. Short rows share a line of 128 bytes; each line exchanges the
 * pieces of its rows in its own way. */
template <int32_t ROW_BYTES> struct pkv__tile_shape {
    static constexpr int32_t CHUNKS = ROW_BYTES / 16;
    static constexpr int32_t PITCH = ROW_BYTES;
    static constexpr int32_t BYTES = PKV__TILE_KEYS * PITCH; /* of K or of V */
    static constexpr int32_t LINE_ROWS = CHUNKS < 8 ? 8 / CHUNKS : 1;
    static constexpr int32_t WAYS = CHUNKS < 8 ? CHUNKS : 8; /* to exchange pieces */
    static constexpr int32_t STEP_ROWS = 32 / CHUNKS;
    static constexpr int32_t N_COPIES = PKV__TILE_KEYS / STEP_ROWS;
    static_assert(CHUNKS >= 2 && CHUNKS <= 32 && 32 % CHUNKS == 0, "a warp copies whole rows");

    static PKV_DEV int32_t place(int32_t row, int32_t chunk)
    {
        return row * PITCH + pkv__swizzled(row / LINE_ROWS & (WAYS - 1), chunk) * 16;
    }
    /* From a place in a tile that lies at a multiple of 128 bytes, an even chunk or the one behind
     * it among the first two: 2 n chunks along the row. One instruction, no register. */
    static PKV_DEV unsigned char *along(unsigned char *place, int32_t n)
    {
        return pkv_shared_xor(place, (2 * n & 7) << 4) + (2 * n & ~7) * 16;
    }
    /* The same from a row below STEP_ROWS: n * STEP_ROWS rows down. */
    static PKV_DEV unsigned char *down(unsigned char *place, int32_t n)
    {
        const int32_t rows = n * STEP_ROWS;
        return pkv_shared_xor(place, (rows & 7) << 4) + rows * PITCH;
    }
};

/* Strides are elements of 16, 8 or 4 bits. */
template <class Store> PKV_DEV int64_t pkv__stride_bytes(int64_t stride)
{
    return Store::BITS >= 8 ? stride * (Store::BITS / 8) : stride / (8 / Store::BITS);
}

/* K or V of one head as a lane sees it. */
struct pkv__lane_rows {
    const unsigned char *from; /* block 0, token l / CHUNKS, piece l % CHUNKS */
    int32_t bytes; /* of the lane's piece that lie within the dim; not RAGGED: 16 or 0 */
};
template <class Store, class Shape>
PKV_DEV pkv__lane_rows pkv__lane_rows_of(const pkv_kv_view &view, int32_t head)
{
    const int32_t row = pkv_lane() / Shape::CHUNKS, chunk = pkv_lane() % Shape::CHUNKS;
    pkv__lane_rows r;
    r.from = static_cast<const unsigned char *>(view.data) +
             pkv__stride_bytes<Store>(head * view.head_stride + row * view.token_stride) +
             chunk * 16;
    const int32_t left = view.dim * Store::BITS / 8 - chunk * 16;
    r.bytes = left < 0 ? 0 : left > 16 ? 16 : left;
    return r;
}

/* ---------------------------------------------------------------- ids */
/* The block table's row of one sequence. */
struct pkv__lookup {
    const int32_t *ids; /* NULL: contiguous, block seq */
    int32_t seq;
    pkv__divider block;
};
/* Does every tile lie in one block? */
PKV_DEV bool pkv__tiles_in_blocks(const struct pkv__cuda_attn &a)
{
    return !a.batch.table || a.k.block_tokens % PKV__TILE_KEYS == 0;
}

/* Where a key lies: in a block, from its first token on. */
struct pkv__place {
    int32_t id, at;
    int32_t entry; /* where the id stands */
};
/* The id is not judged: the entry exists, but may be one that nobody may use. */
PKV_DEV pkv__place pkv__fetch(const pkv__lookup &l, int32_t key)
{
    if (!l.ids) return { l.seq, key, 0 };
    const int32_t entry = pkv__quotient(key, l.block);
    return { pkv_ldv_const<int32_t>(l.ids + entry), key - entry * l.block.by, entry };
}
/* The same of a lookup; without a table there is nothing to check. */
PKV_DEV int32_t pkv__usable_id(const struct pkv__cuda_attn &a, const pkv__lookup &l, int32_t id,
                               int32_t entry)
{
    return l.ids ? pkv__checked_id(id, a.k.n_blocks, a.opts.bad, l.seq, entry) : id;
}

/* ---------------------------------------------------------------- copies */
/* What a lane copies of rows that are read. A size that is 16 or 0 is a predicate to a GPU, any
 * other takes six instructions: rows whose dim is a multiple of 16 bytes are spared them. */
template <bool RAGGED>
PKV_DEV int32_t pkv__piece_bytes(const pkv__lane_rows &rows, uint32_t seen, int32_t row)
{
    const bool here = seen >> row & 1u;
    if (RAGGED) return here ? rows.bytes : 0;
    return here ? 16 : 0;
}
/* Rows that the lane reads of those that are seen, its first one at bit 0. */
template <class Shape> PKV_DEV uint32_t pkv__rows_of_lane(const pkv__lane_rows &rows, uint32_t seen)
{
    return rows.bytes > 0 ? seen >> pkv_lane() / Shape::CHUNKS : 0;
}

/* One tile of K or V; all its keys in block `id`, from token `at` on. Bit r of seen: row r is read.
 * to: where the lane's first piece goes in shared memory, at Shape::place of it. */
template <class Store, class Shape, bool RAGGED>
PKV_DEV void pkv__copy_tile(unsigned char *to, const pkv_kv_view &view, const pkv__lane_rows &rows,
                            int32_t id, int32_t at, uint32_t seen)
{
    const int64_t down_bytes = pkv__stride_bytes<Store>(view.token_stride) * Shape::STEP_ROWS;
    const unsigned char *from =
        rows.from + pkv__stride_bytes<Store>(id * view.block_stride + at * view.token_stride);
    seen = pkv__rows_of_lane<Shape>(rows, seen);
    PKV_UNROLL
    for (int32_t j = 0; j < Shape::N_COPIES; j++) {
        pkv_cp_async16(Shape::down(to, j), from,
                       pkv__piece_bytes<RAGGED>(rows, seen, j * Shape::STEP_ROWS));
        from += down_bytes;
    }
}
/* The same where keys lie in blocks of their own: lane r has id and token of row r < 16. */
template <class Store, class Shape, bool RAGGED>
PKV_DEV void pkv__copy_rows(unsigned char *to, const pkv_kv_view &view, const pkv__lane_rows &rows,
                            int32_t id, int32_t at, uint32_t seen)
{
    const int32_t row = pkv_lane() / Shape::CHUNKS;
    const int64_t mine = pkv__stride_bytes<Store>(id * view.block_stride + at * view.token_stride);
    const unsigned char *const base = rows.from - pkv__stride_bytes<Store>(row * view.token_stride);
    seen = pkv__rows_of_lane<Shape>(rows, seen);
    PKV_UNROLL
    for (int32_t j = 0; j < Shape::N_COPIES; j++)
        pkv_cp_async16(Shape::down(to, j), base + pkv_shfl(mine, row + j * Shape::STEP_ROWS),
                       pkv__piece_bytes<RAGGED>(rows, seen, j * Shape::STEP_ROWS));
}

#endif
