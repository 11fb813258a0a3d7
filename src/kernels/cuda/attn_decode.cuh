/* K1, attention of few rows: tensor cores over keys split among CTAs. attn_decode_*.cu has the
 * instances, cuda_attn.c launches them.
 *
 *   attn_decode_work.cuh     line of units over the batch -> units of this CTA
 *   attn_decode_queries.cuh  queries -> shared memory -> registers
 *   attn_decode_plain.cuh    a warp's tiles of keys -> state of the warp, in the common case
 *   attn_decode_tiles.cuh    the same in all others
 *   attn_decode_states.cuh   states of warps, CTAs, chunks -> rows
 *
 * Sources: online softmax arXiv 1805.02867; merge of states 2501.01005 (2.2). */
#ifndef PKV_ATTN_DECODE_CUH
#define PKV_ATTN_DECODE_CUH

#include "kernels/cuda/attn_combine.cuh"
#include "kernels/cuda/attn_decode_plain.cuh"
#include "kernels/cuda/attn_decode_tiles.cuh"
#include "kernels/cuda/attn_decode_work.cuh"

/* Keys of the item: the state of each warp is left in the scratch, where the ring was. All
 * threads. */
template <class Shape>
PKV_DEV void pkv__attend(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                         unsigned char *shared)
{
    unsigned char *const ring = shared + pkv_warp() * Shape::STAGES * Shape::STAGE_BYTES;
    pkv__plain_source<Shape> source;
    const bool plain = pkv__is_plain<Shape>(a, item);
    if (plain) pkv__begin_plain<Shape>(a, item, ring, source);
    pkv__stage_queries<Shape>(a, item, shared);
    pkv__lane_columns<Shape> columns;
    pkv__load_columns<Shape>(columns, a, shared);

    pkv__decode_state<Shape> state;
    pkv__clear_state(state);
    if (plain) {
        uint32_t q[Shape::NT][Shape::N_FRAGS][2];
        pkv__load_queries<Shape>(q, shared);
        pkv__walk_plain<Shape>(a, item, ring, state, source, columns, q);
    } else {
        pkv__walk_tiles<Shape>(a, item, shared, state, columns);
    }
    pkv__to_logits<Shape>(state, a, shared);
    pkv_syncthreads(); /* nobody needs the ring any more */
    pkv__leave_warp_state<Shape>(state, reinterpret_cast<float *>(shared));
    pkv_syncthreads();
}

/* Threads and what they have of the item's columns, one after the other: piece p of column c. */
template <class Shape, class Each>
PKV_DEV void pkv__for_pieces(const pkv__decode_item &item, const Each &each)
{
    constexpr int32_t PIECES = Shape::D / 8;
    for (int32_t i = pkv_thread(); i < item.n_columns * PIECES; i += Shape::THREADS)
        each(i / PIECES, i % PIECES);
}

/* Rows of the item are finished from the scratch. */
template <class Shape>
PKV_DEV void pkv__finish_item(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                              const unsigned char *shared)
{
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    const float *const scratch = reinterpret_cast<const float *>(shared);
    pkv__for_pieces<Shape>(item, [&](int32_t c, int32_t piece) {
        pkv__piece sum = pkv__merge_warps<Shape>(scratch, c, piece);
        pkv__finish(a, (int64_t)item.cut.row0 + columns[c].row, columns[c].head, piece, sum,
                    PKV_P_BITS<typename Shape::Product>);
    });
}
template <class Shape>
PKV_DEV void pkv__leave_item(const pkv__decode_item &item, const unsigned char *shared, float *slot)
{
    const float *const scratch = reinterpret_cast<const float *>(shared);
    pkv__for_pieces<Shape>(item, [&](int32_t c, int32_t piece) {
        pkv__leave_slot<Shape>(slot, c, piece, pkv__merge_warps<Shape>(scratch, c, piece));
    });
}

/* An item that several CTAs have parts of: leave this one's; whoever comes last merges all. */
template <class Shape>
PKV_DEV void pkv__join_item(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                            const unsigned char *shared, bool *last)
{
    constexpr int64_t SLOT = Shape::SLOT_FLOATS;
    const pkv__part part = item.part;
    const int32_t n = part.last_cta - part.first_cta + 1;
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    pkv__leave_item<Shape>(item, shared, a.partials + pkv__part_slot(part, pkv_block()) * SLOT);
    pkv_syncthreads(); /* what all threads have left, thread 0 makes known */
    if (pkv_thread() == 0) {
        const uint32_t rest = (uint32_t)n - 1;
        *last = pkv_atomic_inc_acq_rel(&a.head->arrived[part.first_cta], rest) == rest;
    }
    pkv_syncthreads();
    if (!*last) return;
    const float *const head = a.partials + pkv__part_slot(part, part.first_cta) * SLOT;
    const float *const tail = a.partials + pkv__part_slot(part, part.first_cta + 1) * SLOT;
    pkv__for_pieces<Shape>(item, [&](int32_t c, int32_t piece) {
        float m = pkv__largest_of_slots<Shape>(PKV_NEG_INF, head, 0, 1, c);
        m = pkv__largest_of_slots<Shape>(m, tail, 2 * SLOT, n - 1, c);
        pkv__piece sum = pkv__no_state(m);
        pkv__merge_slots<Shape>(sum, head, 0, 1, c, piece);
        pkv__merge_slots<Shape>(sum, tail, 2 * SLOT, n - 1, c, piece);
        pkv__finish(a, (int64_t)item.cut.row0 + columns[c].row, columns[c].head, piece, sum,
                    PKV_P_BITS<typename Shape::Product>);
    });
}

/* The line, once all of the batch is known. Thread 0. */
template <int THREADS>
PKV_DEV void pkv__set_span(const struct pkv__cuda_attn &a, pkv__batch_space<THREADS> *space)
{
    space->line = pkv__line_of(space->walk.cost, pkv_n_blocks());
    space->begin = pkv__span_begin(space->line, pkv_block());
    space->end = pkv__span_begin(space->line, pkv_block() + 1);
    space->shares = a.chunk == 0 && a.head->magic == PKV__CUDA_WORKSPACE_MAGIC;
    space->block = pkv__divider_of(a.k.block_tokens);
    if (a.batch.n_seqs > THREADS) space->walk = { 0, 0, 0, 0 }; /* else all is loaded */
}

/* Grid: any number of CTAs up to PKV__CUDA_MAX_CTAS; CTA i has span i of the line. A warp has every
 * WARPS-th tile of the CTA's keys, all columns and dims; 8 columns are spread over the lanes as the
 * accumulators are. Shared memory: Shape::SHARED_BYTES. Results stand in shared memory after the
 * warps are merged, one piece of 8 dims to a thread. Limited by bandwidth. */
template <class Shape>
PKV_GLOBAL(Shape::THREADS, Shape::MIN_CTAS)
pkv__attn_decode(const struct pkv__cuda_attn a)
{
    constexpr int32_t THREADS = Shape::THREADS;
    PKV_DEV_SHARED_DYN(unsigned char, shared);
    PKV_DEV_SHARED(pkv__batch_space<THREADS>, space, 1);

    /* How long the line is. */
    if (pkv_thread() == 0) space->walk = { 0, 0, 0, 0 };
    do {
        pkv_syncthreads();
        pkv__load_sequences<Shape>(a, pkv_block() == 0 ? a.opts.bad : nullptr, space);
    } while (space->walk.first < a.batch.n_seqs);
    pkv_syncthreads();
    if (pkv_thread() == 0) pkv__set_span<THREADS>(a, space);
    pkv_syncthreads();

    /* The CTA's part of it. */
    while (space->begin < space->end) {
        if (space->walk.first < a.batch.n_seqs) pkv__load_sequences<Shape>(a, nullptr, space);
        if (space->walk.cost <= space->begin) continue;
        pkv__find_span<THREADS>(space);
        for (;;) {
            if (pkv_thread() == 0) pkv__next_item<Shape>(a, space);
            pkv_syncthreads();
            if (!space->has_item) break;
            const pkv__decode_item &item = space->item;
            pkv__attend<Shape>(a, item, shared);
            if (item.slot >= 0)
                pkv__leave_item<Shape>(item, shared,
                                       a.partials + item.slot * (int64_t)Shape::SLOT_FLOATS);
            else if (item.part.first_cta == item.part.last_cta)
                pkv__finish_item<Shape>(a, item, shared);
            else pkv__join_item<Shape>(a, item, shared, &space->last);
            pkv_syncthreads(); /* item and scratch are read */
        }
        if (space->walk.cost >= space->end) break;
        pkv_syncthreads();
    }
}

#endif
