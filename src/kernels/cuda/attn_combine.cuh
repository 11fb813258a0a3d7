/* States of the chunks of invariant mode become rows: a kernel of its own, after the decode kernel
 * has left them. */
#ifndef PKV_ATTN_COMBINE_CUH
#define PKV_ATTN_COMBINE_CUH

#include "kernels/cuda/attn_decode_states.cuh"
#include "kernels/cuda/attn_decode_work.cuh"

/* Eight dims of one column, chunks in ascending order. */
template <class Shape>
PKV_DEV void pkv__combine_piece(const struct pkv__cuda_attn &a, const pkv__seq_record &r,
                                const pkv__work &w, int64_t in_order, int32_t c, int32_t piece)
{
    constexpr int64_t SLOT = Shape::SLOT_FLOATS;
    const int64_t column = in_order % w.n_column_tiles * Shape::COLUMNS + c;
    if (column >= w.n_columns) return;
    const float *const first = a.partials + (r.slot + in_order * w.n_chunks) * SLOT;
    const float m = pkv__largest_of_slots<Shape>(PKV_NEG_INF, first, SLOT, w.n_chunks, c);
    pkv__piece sum = pkv__no_state(m);
    pkv__merge_slots<Shape>(sum, first, SLOT, w.n_chunks, c, piece);
    const int32_t head =
        (int32_t)(in_order / w.n_column_tiles) * a.group + (int32_t)(column % a.group);
    pkv__finish(a, r.cut.row0 + column / a.group, head, piece, sum,
                PKV_P_BITS<typename Shape::Product>);
}

/* Grid: as the decode kernel's; items go round among the CTAs. A thread has pieces of 8 dims of a
 * column. Limited by bandwidth. Without a number of CTAs ptxas aims at 28 warps and spills. */
template <class Shape>
PKV_GLOBAL(Shape::THREADS, 512 / Shape::THREADS)
pkv__attn_combine(const struct pkv__cuda_attn a)
{
    constexpr int32_t PIECES = Shape::D / 8;
    PKV_DEV_SHARED(pkv__batch_space<Shape::THREADS>, space, 1);
    int64_t seen = 0, mine = pkv_block(); /* items of all sequences: before this one, the next */
    if (pkv_thread() == 0) space->walk = { 0, 0, 0, 0 };
    pkv_syncthreads();
    while (space->walk.first < a.batch.n_seqs) {
        pkv__load_sequences<Shape>(a, nullptr, space);
        const int32_t n = space->walk.first - space->first;
        for (int32_t s = 0; s < n; s++) {
            const pkv__seq_record r = space->seqs[s];
            if (r.slot < 0) continue;
            const pkv__work w = pkv__work_of<Shape::COLUMNS>(
                a, pkv__sight_of(a.batch, a.opts, space->first + s, r.cut.row0, r.cut.q_len,
                                 r.cut.kv_len));
            const int64_t n_items = w.n_units / w.n_chunks;
            for (; mine - seen < n_items; mine += pkv_n_blocks())
                for (int32_t i = pkv_thread(); i < Shape::COLUMNS * PIECES; i += Shape::THREADS)
                    pkv__combine_piece<Shape>(a, r, w, mine - seen, i / PIECES, i % PIECES);
            seen += n_items;
        }
        pkv_syncthreads(); /* the records are read */
    }
}

#endif
