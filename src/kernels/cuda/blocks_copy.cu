/* Blocks to blocks, to contiguous bytes and from them, and zeros.
 *
 *   item    slice s of move i: 16 KiB of whole blocks, or the rows of 16 KiB of some tokens' codes
 *           with their scales and zero points. CTAs take items in turn; a move that is shorter than
 *           the longest one has empty slices.
 *   thread  every n_threads-th unit of the slice: 16 bytes, 4 of scales; 1 where blocks are not
 *           16-byte aligned
 *
 * No two items write the same byte, and none reads what another writes. No shared memory. Limited
 * by bandwidth: each thread has four loads under way. */
#include "kernels/cuda/blocks_copy.h"
#include "kernels/cuda/pkv_dev.cuh"

namespace
{

constexpr int32_t n_threads = PKV__BLOCKS_COPY_THREADS;
constexpr int32_t n_under_way = 4; /* of 256 threads, 16 bytes each: a slice */

/* Unit u of a slice lies at place(u) of both blocks. src NULL: zeros. */
template <class Unit, class Place>
PKV_DEV void copy_units(char *dst, const char *src, int32_t n, const Place &place)
{
    for (int32_t first = pkv_thread(); first < n; first += n_under_way * n_threads) {
        Unit unit[n_under_way];
        PKV_UNROLL
        for (int32_t i = 0; i < n_under_way; i++) {
            const int32_t u = first + i * n_threads;
            unit[i] = Unit{};
            if (src && u < n) unit[i] = pkv_ldv<Unit>(src + place(u));
        }
        PKV_UNROLL
        for (int32_t i = 0; i < n_under_way; i++) {
            const int32_t u = first + i * n_threads;
            if (u < n) pkv_stv(dst + place(u), unit[i]);
        }
    }
}

template <class Unit>
PKV_DEV void copy_bytes(char *dst, const char *src, int64_t n_bytes, int64_t slice)
{
    const int64_t lo = slice * PKV__CUDA_SLICE_BYTES;
    if (lo >= n_bytes) return;
    const int64_t left = n_bytes - lo;
    const int32_t here =
        left < PKV__CUDA_SLICE_BYTES ? (int32_t)left : (int32_t)PKV__CUDA_SLICE_BYTES;
    copy_units<Unit>(dst + lo, src ? src + lo : nullptr, here / (int32_t)sizeof(Unit),
                     [](int32_t u) { return u * (int64_t)sizeof(Unit); });
}

/* Rows [first, first + n_rows) of a slice: row r is token r % n_tokens of piece r / n_tokens. */
struct row_range {
    int64_t piece;
    int32_t token, n_rows, n_tokens;
};

/* Their `row_bytes` each, which begin at `at` in the block. */
template <class Unit>
PKV_DEV void copy_rows(char *dst, const char *src, const row_range &rows, int64_t at,
                       int64_t piece_bytes, int32_t row_bytes)
{
    const int32_t per_row = row_bytes / (int32_t)sizeof(Unit);
    copy_units<Unit>(dst + at, src + at, rows.n_rows * per_row, [&](int32_t u) {
        const int32_t row = u / per_row, token = rows.token + row;
        return (rows.piece + token / rows.n_tokens) * piece_bytes +
               (int64_t)(token % rows.n_tokens) * row_bytes +
               (int64_t)(u - row * per_row) * (int32_t)sizeof(Unit);
    });
}

template <class Unit, class Float>
PKV_DEV void copy_tokens(char *dst, const char *src, const pkv__cuda_pieces &p, int32_t n_tokens,
                         int64_t slice)
{
    const int32_t rows_each = PKV__CUDA_SLICE_BYTES / p.row_bytes;
    const int64_t first = slice * rows_each, left = p.n_pieces * n_tokens - first;
    if (left <= 0) return;
    const row_range rows = { first / n_tokens, (int32_t)(first % n_tokens),
                             left < rows_each ? (int32_t)left : rows_each, n_tokens };
    const int32_t one = (int32_t)sizeof(float);
    const int64_t floats = (int64_t)p.block_tokens * one;
    copy_rows<Unit>(dst, src, rows, 0, p.piece_bytes, p.row_bytes);
    if (p.scales_at) copy_rows<Float>(dst, src, rows, p.scales_at, floats, one);
    if (p.zeros_at) copy_rows<Float>(dst, src, rows, p.zeros_at, floats, one);
}

template <class Unit, class Float>
PKV_DEV void run_item(const pkv__cuda_moves &m, int32_t move, int64_t slice)
{
    const pkv__cuda_move what = m.moves[move];
    char *const dst = m.dst + what.dst * m.block_bytes;
    const char *const src = m.src ? m.src + what.src * m.block_bytes : nullptr;
    if (what.shape < 0) copy_bytes<Unit>(dst, src, what.n * m.block_bytes, slice);
    else copy_tokens<Unit, Float>(dst, src, m.shapes[what.shape], what.n, slice);
}

PKV_GLOBAL(n_threads) blocks_copy_kernel(const pkv__cuda_moves m)
{
    const int64_t n_items = m.n_moves * m.n_slices;
    for (int64_t item = pkv_block(); item < n_items; item += pkv_n_blocks()) {
        const int32_t move = (int32_t)(item / m.n_slices);
        const int64_t slice = item % m.n_slices;
        if (m.wide) run_item<uint4, uint32_t>(m, move, slice);
        else run_item<uint8_t, uint8_t>(m, move, slice);
    }
}

} // namespace

extern "C" int pkv__blocks_copy_prepare(struct pkv__kernel_cost *cost)
{
    return PKV_PREPARE(blocks_copy_kernel, n_threads, 0, cost);
}

extern "C" int pkv__blocks_copy_launch(const void *moves, int64_t n_ctas, void *stream)
{
    return PKV_LAUNCH(blocks_copy_kernel, n_ctas, n_threads, 0, stream,
                      *static_cast<const pkv__cuda_moves *>(moves));
}
