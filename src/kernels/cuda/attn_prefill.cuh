/* K4: attention over long rows (prefill, appended chunks, long verify) with mma.sync.
 *
 * Grid: any number of CTAs of 128 threads; each takes items of 64 queries x one kv head, or parts
 * of their keys, by tickets (attn_prefill_items.cuh). Warp w computes queries 16 w .. 16 w + 15 and
 * holds their sums in registers, in the layout of the accumulators: thread 4 g + t has rows g and
 * g + 8, columns 8 j + 2 t and the next. Tiles of 64 keys (32 at dim 256) start at multiples of 64,
 * so that company changes no bit; while one is computed the next is on its way.
 *
 * Shared memory: pkv__prefill_shape, then what threads tell each other. Long items are bound by
 * arithmetic. Tiles that all queries see in full have no mask; keys that no query of the item sees
 * are not read. */
#ifndef PKV_ATTN_PREFILL_CUH
#define PKV_ATTN_PREFILL_CUH

#include "kernels/cuda/attn_prefill_states.cuh"
#include "kernels/cuda/attn_prefill_tiles.cuh"
#include "kernels/cuda/attn_prefill_values.cuh"

/* Shared memory of a CTA. */
template <class S> struct pkv__prefill_memory {
    unsigned char *q, *stored, *products;
    pkv__prefill_marks *marks;
    pkv__prefill_space *space;
    pkv__prefill_work *work;

    static constexpr int32_t MARKS_AT = S::SHARED_BYTES;
    static constexpr int32_t SPACE_AT = MARKS_AT + (int32_t)sizeof(pkv__prefill_marks);
    static constexpr int32_t WORK_AT = SPACE_AT + (int32_t)sizeof(pkv__prefill_space);
    static constexpr int32_t BYTES = WORK_AT + (int32_t)sizeof(pkv__prefill_work);
    static_assert(SPACE_AT % 16 == 0 && WORK_AT % 8 == 0, "alignment");
};
template <class S> PKV_DEV pkv__prefill_memory<S> pkv__prefill_memory_at(unsigned char *base)
{
    using Memory = pkv__prefill_memory<S>;
    Memory m;
    m.q = base;
    m.stored = base + S::Q_BYTES;
    m.products = base + S::PRODUCTS_AT;
    m.marks = static_cast<pkv__prefill_marks *>(static_cast<void *>(base + Memory::MARKS_AT));
    m.space = static_cast<pkv__prefill_space *>(static_cast<void *>(base + Memory::SPACE_AT));
    m.work = static_cast<pkv__prefill_work *>(static_cast<void *>(base + Memory::WORK_AT));
    return m;
}

/* Tiles [lo, hi) of keys of an item or a part, and those keys that need no mask. */
struct pkv__prefill_keys {
    int32_t lo, hi;
    pkv__keys core;
};
template <class S>
PKV_DEV pkv__prefill_keys pkv__prefill_keys_of(const pkv__prefill_work &w,
                                               const pkv__prefill_item &item, pkv__divider parts)
{
    const int32_t end = w.first_row + w.n_rows;
    const pkv__keys hull = pkv__sight_hull(w.sight, w.first_row, end);
    pkv__prefill_keys keys = { 0, 0, pkv__sight_core(w.sight, w.first_row, end) };
    if (pkv__keys_empty(hull)) return keys;
    const int32_t lo = hull.lo / S::KEYS, n = (hull.hi - 1) / S::KEYS + 1 - lo;
    keys.lo = lo + (int32_t)pkv__long_quotient((int64_t)n * item.part, parts);
    keys.hi = lo + (int32_t)pkv__long_quotient((int64_t)n * (item.part + 1), parts);
    return keys;
}

/* What threads keep while they go through an item's tiles. */
template <class S> struct pkv__prefill_run {
    pkv__prefill_state<S> state;
    uint32_t q[S::Q_STAYS ? S::D / 16 : 1][4];
    float unit[2];     /* log2(e) times a logit is unit times m and S */
    float to_logit[2]; /* a logit is to_logit times m */
    bool plain;
};

/* Mark the tile if that is needed, and begin to copy it. */
template <class S>
PKV_DEV bool pkv__prefill_start(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                                const pkv__prefill_memory<S> &m, const pkv__prefill_keys &keys,
                                pkv__prefill_source &src, int32_t tile, int32_t stage)
{
    const int32_t key0 = tile * S::KEYS;
    const bool masked = !pkv__keys_hold(keys.core, key0, S::KEYS);
    uint32_t seen = 0xffff;
    if (masked) {
        pkv__prefill_mark<S>(w, m.marks, key0, stage);
        seen = pkv__prefill_any(m.marks, stage, pkv__prefill_subtile<S>());
    }
    pkv__prefill_load<S>(a, w, src, m.stored, stage, seen);
    return masked;
}

/* A tile that has arrived. */
template <class S>
PKV_DEV void pkv__prefill_tile(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                               const pkv__prefill_memory<S> &m, pkv__prefill_run<S> &run,
                               int32_t tile, int32_t stage, bool masked)
{
    unsigned char *k = m.stored + stage * 2 * S::STORED_BYTES, *v = k + S::STORED_BYTES;
    if constexpr (S::Store::IS_CODES) {
        pkv__prefill_convert<S>(m.products, k);
        pkv__prefill_convert<S>(m.products + S::TILE_BYTES, v);
        k = m.products;
        v = k + S::TILE_BYTES;
        pkv_syncthreads();
    }
    float s[S::KEYS / 8][4], unit[2] = { 1.f, 1.f };
    pkv__prefill_scores<S>(s, run.q, m.q, k);
    if (!run.plain) pkv__prefill_logits<S>(s, a, m.marks, w.sight, tile * S::KEYS, stage);
    pkv__prefill_bits<S> bits = {};
    if (masked) {
        bits = pkv__prefill_bits_of<S>(m.marks, stage);
        pkv__prefill_mask<S>(s, bits, -INFINITY);
    }
    pkv__prefill_weights<S>(s, run.state, run.unit);
    if constexpr (S::Store::IS_CODES)
        pkv__prefill_weigh_codes<S>(s, run.state, m.marks, stage, bits, masked,
                                    a.v.zeros.data != nullptr, unit);
    if (masked) pkv__prefill_care<S>(run.state, s, m.marks, stage, v);
    pkv__prefill_add_values<S>(run.state, s, v, unit);
}

/* Queries to registers, once they are in shared memory. */
template <class S>
PKV_DEV void pkv__prefill_ready(const struct pkv__cuda_attn &a, const pkv__prefill_memory<S> &m,
                                pkv__prefill_run<S> &run)
{
    if constexpr (S::Q_STAYS) {
        PKV_UNROLL
        for (int32_t step = 0; step < S::D / 16; step++) pkv__prefill_q<S>(run.q[step], m.q, step);
    }
    run.plain = pkv__prefill_is_plain<S>(a);
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        run.to_logit[h] =
            run.plain ? m.marks->factor[pkv_warp() * 16 + pkv_lane() / 4 + 8 * h] : 1.f;
        run.unit[h] = run.to_logit[h] * PKV_LOG2E;
    }
}

/* All tiles of an item or a part. */
template <class S>
PKV_DEV void pkv__prefill_walk(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                               const pkv__prefill_memory<S> &m, const pkv__prefill_keys &keys,
                               pkv__prefill_run<S> &run)
{
    pkv__prefill_source src = {};
    pkv__prefill_fetch<S>(w, src, keys.lo * S::KEYS);
    bool masked = pkv__prefill_start<S>(a, w, m, keys, src, keys.lo, 0);
    pkv_cp_commit();
    pkv__prefill_put_scales<S>(src, m.marks, 0);
    if (keys.lo + 1 < keys.hi) pkv__prefill_fetch<S>(w, src, (keys.lo + 1) * S::KEYS);
    pkv__prefill_load_queries<S>(a, w, m.q, m.marks);
    pkv__prefill_ready<S>(a, m, run);
    int32_t stage = 0;
    for (int32_t tile = keys.lo; tile < keys.hi; tile++, stage = 1 - stage) {
        const bool more = tile + 1 < keys.hi;
        bool next_masked = false;
        if (more) next_masked = pkv__prefill_start<S>(a, w, m, keys, src, tile + 1, 1 - stage);
        pkv_cp_commit();
        if (tile + 2 < keys.hi) pkv__prefill_fetch<S>(w, src, (tile + 2) * S::KEYS);
        pkv_cp_wait<1>();
        pkv_syncthreads();
        pkv__prefill_tile<S>(a, w, m, run, tile, stage, masked);
        if (more) pkv__prefill_put_scales<S>(src, m.marks, 1 - stage);
        pkv_syncthreads();
        masked = next_masked;
    }
    pkv_cp_wait<0>();
}

template <class S>
PKV_DEV void pkv__prefill_item_run(const struct pkv__cuda_attn &a, const pkv__prefill_memory<S> &m)
{
    const pkv__prefill_item &item = m.space->item;
    const pkv__prefill_work &w = *m.work;
    if (pkv_thread() == 0) pkv__prefill_plan(a, item, m.space->by, *m.work);
    pkv_syncthreads();
    const pkv__prefill_keys keys = pkv__prefill_keys_of<S>(w, item, m.space->by.parts);
    pkv__prefill_run<S> run;
    pkv__prefill_clear<S>(run.state);
    pkv__prefill_describe(a, w, m.marks);
    if (keys.lo < keys.hi) {
        pkv__prefill_walk<S>(a, w, m, keys, run);
    } else if (item.n_parts > 1) { /* the last part to come needs its units */
        pkv__prefill_load_queries<S>(a, w, m.q, m.marks);
        pkv__prefill_ready<S>(a, m, run);
    } else {
        run.to_logit[0] = run.to_logit[1] = 1.f;
    }
    pkv__prefill_settle<S>(run.state);
    if (item.n_parts > 1) {
        pkv__prefill_put_part<S>(a, item, run.state);
        if (!pkv__prefill_arrive(a, item, m.space)) return;
        pkv__prefill_fold<S>(a, item, run.state, run.unit);
    }
    pkv__prefill_finish<S>(a, w, run.state, run.to_logit, m.q);
}

template <class Store, int32_t D>
PKV_GLOBAL(PKV__PREFILL_THREADS, 2)
pkv__prefill_kernel(const struct pkv__cuda_attn a)
{
    using S = pkv__prefill_shape<Store, D>;
    PKV_DEV_SHARED_DYN(unsigned char, base);
    const pkv__prefill_memory<S> m = pkv__prefill_memory_at<S>(base);
    pkv__prefill_begin(a, m.space);
    while (pkv__prefill_draw(a, m.space)) {
        pkv__prefill_find(a, m.space);
        pkv__prefill_item_run<S>(a, m);
    }
}

#endif
