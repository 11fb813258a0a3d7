/* What there is to do for a sequence, and which CTA does it: the line of attn_spans.cuh over a
 * batch on the device.
 *
 * Units of a sequence lie in the order kv head, tile of columns, chunk. A unit is an item; in
 * invariant mode, where keys are cut at multiples of `chunk` whatever the batch is, each chunk of
 * an item is a unit, and is not shared. A sequence whose states do not fit into the workspace is
 * one chunk: the caller promised fewer keys. Long rows, which K1 takes where there is no other
 * kernel, are one chunk as well. */
#ifndef PKV_ATTN_DECODE_WORK_CUH
#define PKV_ATTN_DECODE_WORK_CUH

#include "kernels/cuda/attn_decode_shape.cuh"

/* A sequence of the batch. */
struct pkv__work {
    pkv__keys keys; /* hull of all its rows */
    int32_t tile0, n_tiles;
    int32_t n_chunks, chunk0; /* chunks with keys of the hull; 1 and 0 in the default mode */
    int32_t unit_tiles;       /* what a unit costs besides its start */
    int64_t n_columns, n_column_tiles, n_units;
};
template <int32_t COLUMNS>
PKV_DEV pkv__work pkv__work_of(const struct pkv__cuda_attn &a, const pkv__sight &sight)
{
    pkv__work w = {};
    w.keys = pkv__sight_hull(sight, 0, sight.q_len);
    w.tile0 = w.keys.lo / PKV__TILE_KEYS;
    w.n_tiles = pkv__keys_empty(w.keys) ? 0 : (w.keys.hi - 1) / PKV__TILE_KEYS + 1 - w.tile0;
    w.n_columns = (int64_t)sight.q_len * a.group;
    w.n_column_tiles = (w.n_columns + COLUMNS - 1) / COLUMNS;
    w.n_chunks = 1;
    w.chunk0 = 0;
    w.unit_tiles = w.n_tiles;
    if (a.chunk > 0 && w.n_tiles > 0 && pkv__cuda_is_short(sight.q_len, a.group)) {
        w.chunk0 = w.keys.lo / a.chunk;
        w.n_chunks = (w.keys.hi - 1) / a.chunk + 1 - w.chunk0;
        if (w.n_chunks > 1) w.unit_tiles = a.chunk / PKV__TILE_KEYS;
    }
    w.n_units = w.n_column_tiles * a.k.n_heads * w.n_chunks;
    return w;
}
/* It does not fit into the slots. */
PKV_DEV void pkv__work_unchunk(pkv__work &w)
{
    w.n_units /= w.n_chunks;
    w.n_chunks = 1;
    w.chunk0 = 0;
    w.unit_tiles = w.n_tiles;
}
PKV_DEV int64_t pkv__unit_cost(const pkv__work &w)
{
    return pkv__item_cost(w.unit_tiles);
}

/* A sequence of the chunk of sequences that the CTA is at. */
struct pkv__seq_record {
    int64_t begin, end; /* on the line; equal: nothing to do */
    int64_t slot;       /* of its first unit, where it has several chunks; else -1 */
    pkv__cut cut;
};

/* Where a walk over the batch is. */
struct pkv__batch_walk {
    int32_t first; /* sequence */
    int32_t next_row;
    int64_t cost, slots; /* of all sequences in front */
};

/* What a CTA knows of the batch and its part of it, in shared memory. Thread 0 writes, but for
 * `scan` and `seqs`. */
template <int THREADS> struct pkv__batch_space {
    pkv__scan_space<THREADS> scan;
    pkv__seq_record seqs[THREADS]; /* from sequence `first` on */
    pkv__batch_walk walk;
    int32_t first;
    pkv__line line;
    int64_t begin, end; /* of the span */
    bool shares;
    pkv__divider block;
    /* Where the CTA is: */
    int32_t seq; /* in seqs */
    pkv__work work;
    int64_t unit;
    bool has_item;
    pkv__decode_item item; /* its sight is the sequence's */
    bool last;             /* this CTA arrived last */
};

/* The next THREADS sequences into space->seqs; moves space->walk on. All threads. */
template <class Shape>
PKV_DEV void pkv__load_sequences(const struct pkv__cuda_attn &a, uint32_t *bad,
                                 pkv__batch_space<Shape::THREADS> *space)
{
    constexpr int32_t THREADS = Shape::THREADS;
    pkv__batch_walk walk = space->walk;
    const int32_t seq = walk.first + pkv_thread();
    pkv__seq_record r;
    r.slot = -1;
    r.cut = pkv__cut_chunk<THREADS>(a, walk.first, &walk.next_row, bad, &space->scan);
    pkv__work w = {};
    int64_t slots = 0, cost = 0, total;
    const bool takes = pkv__takes(a, r.cut.q_len);
    if (takes) {
        w = pkv__work_of<Shape::COLUMNS>(
            a, pkv__sight_of(a.batch, a.opts, seq, r.cut.row0, r.cut.q_len, r.cut.kv_len));
        if (w.n_chunks > 1) slots = w.n_units;
    }
    if (a.chunk > 0) {
        const int64_t before = walk.slots + pkv__scan<THREADS>(slots, &total, &space->scan);
        walk.slots += total;
        if (slots > 0 && before + slots <= a.n_slots) r.slot = before;
        else if (slots > 0) pkv__work_unchunk(w);
    }
    if (takes) cost = w.n_units * pkv__unit_cost(w);
    r.begin = walk.cost + pkv__scan<THREADS>(cost, &total, &space->scan);
    r.end = r.begin + cost;
    walk.cost += total;
    space->seqs[pkv_thread()] = r;
    pkv_syncthreads(); /* all have read the walk, too */
    if (pkv_thread() == 0) {
        space->first = walk.first;
        walk.first = a.batch.n_seqs - walk.first < THREADS ? a.batch.n_seqs : walk.first + THREADS;
        space->walk = walk;
    }
    pkv_syncthreads();
}

/* Stand in front of the first sequence in the space that reaches into the span, with no unit left:
 * pkv__next_item goes on from there. Where the span began in sequences before these, it is the
 * first one. All threads. */
template <int THREADS> PKV_DEV void pkv__find_span(pkv__batch_space<THREADS> *space)
{
    const pkv__seq_record &r = space->seqs[pkv_thread()];
    if (pkv_thread() == 0) space->seq = 0;
    pkv_syncthreads();
    if (r.begin <= space->begin && space->begin < r.end) space->seq = pkv_thread();
    pkv_syncthreads();
    if (pkv_thread() == 0) {
        space->seq--;
        space->unit = space->work.n_units = 0;
        space->work.unit_tiles = 0;
    }
}

/* ---------------------------------------------------------------- by thread 0 */
/* The next sequence of the space that reaches into the span; false: there is none. */
template <class Shape>
PKV_DEV bool pkv__next_sequence(const struct pkv__cuda_attn &a,
                                pkv__batch_space<Shape::THREADS> *space)
{
    const int32_t n = space->walk.first - space->first;
    for (int32_t i = space->seq + 1; i < n; i++) {
        const pkv__seq_record &r = space->seqs[i];
        if (r.begin >= space->end) return false;
        if (r.begin == r.end) continue;
        space->seq = i;
        space->item.sight =
            pkv__sight_of(a.batch, a.opts, space->first + i, r.cut.row0, r.cut.q_len, r.cut.kv_len);
        pkv__work w = pkv__work_of<Shape::COLUMNS>(a, space->item.sight);
        if (r.slot < 0 && w.n_chunks > 1) pkv__work_unchunk(w);
        space->work = w;
        space->unit = pkv__first_item(r.begin, pkv__unit_cost(w), space->begin);
        return true;
    }
    return false;
}

/* Tiles [lo, hi), from key 0 on, as far as the item's rows see something there. */
PKV_DEV void pkv__limit_tiles(pkv__decode_item &item, int32_t lo, int32_t hi)
{
    item.tile_lo = item.tile_hi = 0;
    if (pkv__keys_empty(item.keys)) return;
    const int32_t first = item.keys.lo / PKV__TILE_KEYS;
    const int32_t end = (item.keys.hi - 1) / PKV__TILE_KEYS + 1;
    item.tile_lo = lo > first ? lo : first;
    item.tile_hi = hi < end ? hi : end;
}

/* Describe a unit of the current sequence. */
template <class Shape>
PKV_DEV void pkv__set_item(const struct pkv__cuda_attn &a, int64_t unit, const pkv__part &part,
                           pkv__batch_space<Shape::THREADS> *space)
{
    const pkv__seq_record &r = space->seqs[space->seq];
    const pkv__work &w = space->work;
    pkv__decode_item &item = space->item;
    const int64_t in_order = unit / w.n_chunks;
    item.cut = r.cut;
    item.lookup = { pkv__ids_of(a.batch, space->first + space->seq).ids, space->first + space->seq,
                    space->block };
    item.kv_head = (int32_t)(in_order / w.n_column_tiles);
    item.column0 = in_order % w.n_column_tiles * Shape::COLUMNS;
    const int64_t left = w.n_columns - item.column0;
    item.n_columns = left < Shape::COLUMNS ? (int32_t)left : Shape::COLUMNS;
    const int32_t row_lo = (int32_t)(item.column0 / a.group);
    const int32_t row_hi = (int32_t)((item.column0 + item.n_columns - 1) / a.group) + 1;
    item.one_row = row_hi - row_lo == 1;
    item.keys = pkv__keys_in_both(pkv__sight_hull(item.sight, row_lo, row_hi), w.keys);
    item.part = part;
    item.slot = w.n_chunks > 1 ? r.slot + unit : -1;
    if (w.n_chunks > 1) {
        const int32_t tiles = a.chunk / PKV__TILE_KEYS;
        const int32_t chunk = w.chunk0 + (int32_t)(unit % w.n_chunks);
        pkv__limit_tiles(item, chunk * tiles, (chunk + 1) * tiles);
    } else {
        pkv__limit_tiles(item, w.tile0 + part.lo, w.tile0 + part.hi);
    }
}

/* The next unit of which the CTA has something, into space->item; or has_item becomes false. */
template <class Shape>
PKV_DEV void pkv__next_item(const struct pkv__cuda_attn &a, pkv__batch_space<Shape::THREADS> *space)
{
    for (;;) {
        const int64_t cost = pkv__unit_cost(space->work);
        for (int64_t unit = space->unit; unit < space->work.n_units; unit++) {
            const int64_t begin = space->seqs[space->seq].begin + unit * cost;
            if (begin >= space->end) break;
            const pkv__part part =
                space->shares
                    ? pkv__part_of(space->line, pkv_block(), begin, space->work.unit_tiles)
                    : pkv__whole_part(space->line, pkv_block(), begin, space->work.unit_tiles);
            if (part.lo >= part.hi) continue;
            pkv__set_item<Shape>(a, unit, part, space);
            space->unit = unit + 1;
            space->has_item = true;
            return;
        }
        if (!pkv__next_sequence<Shape>(a, space)) break;
    }
    space->has_item = false;
}

#endif
