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

/* ---------------------------------------------------------------- quotients by block_tokens */
/* n / by = n * mul >> 31 + shift, exactly, for 0 <= n < 2^31: shift = ceil(log2 by), and mul =
 * floor(2^(31 + shift) / by) + 1 is too large by at most 1, so that n * by * (mul's error) stays
 * below 2^(31 + shift). */
struct pkv__divider {
    int32_t by, shift;
    uint32_t mul;
};
PKV_DEV pkv__divider pkv__divider_of(int32_t by)
{
    int32_t shift = 0;
    while (by > (int64_t)1 << shift) shift++;
    return { by, shift, (uint32_t)(((uint64_t)1 << (31 + shift)) / (uint64_t)by + 1) };
}
PKV_DEV int32_t pkv__quotient(int32_t n, pkv__divider d)
{
    return (int32_t)((uint64_t)(uint32_t)n * d.mul >> (31 + d.shift));
}

/* ---------------------------------------------------------------- where rows lie in shared memory
 */
/* Rows of ROW_BYTES, at conflict-free places for ldmatrix: eight rows' pieces of one column lie in
 * eight different groups of four banks. By exchanging pieces within each 128 bytes where rows are
 * whole such lines; else by rows 16 bytes further apart. */
template <int32_t ROW_BYTES> struct pkv__tile_shape {
    static constexpr int32_t CHUNKS = ROW_BYTES / 16;
    static constexpr bool SWIZZLED = ROW_BYTES % 128 == 0;
    static constexpr int32_t PITCH = SWIZZLED ? ROW_BYTES : ROW_BYTES + 16;
    static constexpr int32_t BYTES = PKV__TILE_KEYS * PITCH; /* of K or of V */
    static constexpr int32_t STEP_ROWS = 32 / CHUNKS;
    static constexpr int32_t N_COPIES = PKV__TILE_KEYS / STEP_ROWS;
    static_assert(CHUNKS >= 2 && CHUNKS <= 32 && 32 % CHUNKS == 0, "a warp copies whole rows");

    static PKV_DEV int32_t place(int32_t row, int32_t chunk)
    {
        if (SWIZZLED) chunk = (chunk & ~7) | ((chunk ^ row) & 7);
        return row * PITCH + chunk * 16;
    }
};

/* K or V of one head as a lane sees it. */
struct pkv__lane_rows {
    const unsigned char *from; /* block 0, token l / CHUNKS, piece l % CHUNKS */
    int64_t block_bytes, token_bytes;
    int32_t bytes; /* of the lane's piece that lie within the dim */
};
template <class Store, int32_t D>
PKV_DEV pkv__lane_rows pkv__lane_rows_of(const pkv_kv_view &view, int32_t head)
{
    using Shape = pkv__tile_shape<Store::row_bytes(D)>;
    constexpr int64_t PER_BYTE = 8 / (Store::BITS < 8 ? Store::BITS : 8),
                      BYTES = Store::BITS > 8 ? 2 : 1;
    const int32_t row = pkv_lane() / Shape::CHUNKS, chunk = pkv_lane() % Shape::CHUNKS;
    pkv__lane_rows r;
    r.block_bytes = view.block_stride * BYTES / PER_BYTE;
    r.token_bytes = view.token_stride * BYTES / PER_BYTE;
    r.from = static_cast<const unsigned char *>(view.data) +
             head * (view.head_stride * BYTES / PER_BYTE) + row * r.token_bytes + chunk * 16;
    const int32_t left = Store::row_bytes(view.dim) - chunk * 16;
    r.bytes = left < 0 ? 0 : left > 16 ? 16 : left;
    return r;
}

/* ---------------------------------------------------------------- ids */
/* The block table's row of one sequence, and what a lane has fetched of it. */
struct pkv__lookup {
    const int32_t *ids; /* NULL: contiguous, block seq */
    int32_t seq, n_blocks;
    uint32_t *bad;
    pkv__divider block;
    int32_t id, at; /* fetched: a block, and the token in it */
    int32_t entry;  /* where the id stood */
};
PKV_DEV pkv__lookup pkv__lookup_of(const struct pkv__cuda_attn &a, int32_t seq, pkv__divider block)
{
    return { pkv__ids_of(a.batch, seq).ids, seq, a.k.n_blocks, a.opts.bad, block, 0, 0, 0 };
}
/* Does every tile lie in one block? */
PKV_DEV bool pkv__tiles_in_blocks(const struct pkv__cuda_attn &a)
{
    return !a.batch.table || a.k.block_tokens % PKV__TILE_KEYS == 0;
}

/* An id that may be used: outside of the store it is the null block, and reported. */
PKV_DEV int32_t pkv__usable_id(const pkv__lookup &l, int32_t id, int32_t entry)
{
    if ((uint32_t)id - 1u < (uint32_t)l.n_blocks - 1u || !l.ids) return id;
    const bool range = (uint32_t)id >= (uint32_t)l.n_blocks;
    pkv__report(l.bad, range ? PKV_BAD_RANGE : PKV_BAD_NULL_BLOCK, l.seq, entry, id);
    return 0;
}

/* The block of `key`, unchecked: the entry exists, but may be one that nobody may use. */
PKV_DEV void pkv__fetch(pkv__lookup &l, int32_t key)
{
    l.id = l.seq;
    l.at = key;
    if (!l.ids) return;
    l.entry = pkv__quotient(key, l.block);
    l.at = key - l.entry * l.block.by;
    l.id = pkv_ldv_const<int32_t>(l.ids + l.entry);
}

/* ---------------------------------------------------------------- copies */
/* One tile of K or V to `to`; all its keys in block `id`, from token `at` on. Bit r of seen: row r
 * is read. */
template <class Shape>
PKV_DEV void pkv__copy_tile(unsigned char *to, const pkv__lane_rows &rows, int32_t id, int32_t at,
                            uint32_t seen)
{
    const int32_t row = pkv_lane() / Shape::CHUNKS, chunk = pkv_lane() % Shape::CHUNKS;
    const unsigned char *from = rows.from + id * rows.block_bytes + at * rows.token_bytes;
    seen >>= row;
    PKV_UNROLL
    for (int32_t j = 0; j < Shape::N_COPIES; j++) {
        const int32_t down = j * Shape::STEP_ROWS;
        pkv_cp_async16(to + Shape::place(row + down, chunk), from,
                       seen >> down & 1u ? rows.bytes : 0);
        from += Shape::STEP_ROWS * rows.token_bytes;
    }
}
/* The same where keys lie in blocks of their own: lane r % 16 has id and token of row r. */
template <class Shape>
PKV_DEV void pkv__copy_rows(unsigned char *to, const pkv__lane_rows &rows, int32_t id, int32_t at,
                            uint32_t seen)
{
    const int32_t row = pkv_lane() / Shape::CHUNKS, chunk = pkv_lane() % Shape::CHUNKS;
    const unsigned char *const base = rows.from - row * rows.token_bytes;
    PKV_UNROLL
    for (int32_t j = 0; j < Shape::N_COPIES; j++) {
        const int32_t r = row + j * Shape::STEP_ROWS;
        const int32_t row_id = pkv_shfl(id, r), row_at = pkv_shfl(at, r);
        pkv_cp_async16(to + Shape::place(r, chunk),
                       base + row_id * rows.block_bytes + row_at * rows.token_bytes,
                       seen >> r & 1u ? rows.bytes : 0);
    }
}

#endif
