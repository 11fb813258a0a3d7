/* Latent attention (K9): shared keys and values for all query heads.
 *
 * The work is one line of items (attn_spans.cuh): 64 queries of a sequence over all keys that the
 * sequence sees. Block of threads i has the i-th span of it; whoever arrives last at a shared item
 * merges it. Invariant mode, and a workspace that was never made ready: items are not shared.
 *
 *   grid     multiprocessors times blocks that fit on one, whatever the batch
 *   block    256 threads, 8 warps: attn_mla.cuh
 *   shared   mla_shared_bytes: about 180 KiB, 215 KiB for codes
 *   bound by 64 heads: 1088 products per key and query against 1152 bytes per key: both bandwidth
 *            and arithmetic; few heads: bandwidth */
#include "kernels/cuda/attn_mla_finish.cuh"

namespace
{

/* Tiles of keys of all items of a sequence. With q_pos rows may look anywhere. */
PKV_DEV mla_sequence mla_sequence_of(const struct pkv__cuda_mla &c, int32_t seq,
                                     const pkv__cut &cut)
{
    mla_sequence q = { 0, cut.row0, cut.q_len, cut.kv_len, 0, 0, 0 };
    if (cut.q_len == 0) return q;
    const pkv__sight sight =
        pkv__sight_of(c.attn.batch, c.attn.opts, seq, cut.row0, cut.q_len, cut.kv_len);
    pkv__keys keys = { 0, cut.kv_len };
    if (!sight.q_pos) keys = pkv__sight_hull(sight, 0, cut.q_len);
    q.n_items = (int32_t)(((int64_t)cut.q_len * c.attn.q.n_heads + MLA_QUERIES - 1) / MLA_QUERIES);
    q.tile_lo = keys.lo / MLA_KEYS;
    q.n_tiles = keys.lo < keys.hi ? (keys.hi - 1) / MLA_KEYS + 1 - q.tile_lo : 0;
    return q;
}

PKV_DEV void mla_put_sequence(mla_shared *s, int32_t k, const mla_sequence &q)
{
    mla_sequences &all = s->sequences;
    all.begin[k] = q.begin;
    all.row0[k] = q.row0;
    all.q_len[k] = q.q_len;
    all.kv_len[k] = q.kv_len;
    all.n_items[k] = q.n_items;
    all.tile_lo[k] = q.tile_lo;
    all.n_tiles[k] = q.n_tiles;
}
PKV_DEV mla_sequence mla_get_sequence(const mla_shared *s, int32_t k)
{
    const mla_sequences &all = s->sequences;
    return { all.begin[k],   all.row0[k],    all.q_len[k],  all.kv_len[k],
             all.n_items[k], all.tile_lo[k], all.n_tiles[k] };
}

/* The cost of all items; the first block reports what is wrong with the batch. */
PKV_DEV int64_t mla_total(const struct pkv__cuda_mla &c, mla_shared *s)
{
    uint32_t *bad = pkv_block() == 0 ? c.attn.opts.bad : nullptr;
    int64_t total = 0, chunk = 0;
    int32_t next_row = 0;
    for (int32_t first = 0; first < c.attn.batch.n_seqs; first += MLA_THREADS) {
        const pkv__cut cut = pkv__cut_chunk<MLA_THREADS>(c.attn, first, &next_row, bad, &s->scan);
        const mla_sequence q = mla_sequence_of(c, first + pkv_thread(), cut);
        pkv__scan<MLA_THREADS>(q.n_items * pkv__item_cost(q.n_tiles), &chunk, &s->scan);
        total += chunk;
    }
    return total;
}

/* An item's keys, tile by tile. Copies of the next tile are under way while one is used. */
template <class Store>
PKV_DEV void mla_walk(const struct pkv__cuda_mla &c, mla_shared *s, mla_running *run, mla_out &o)
{
    const mla_item &item = s->item;
    const int32_t n_groups = mla_groups(c);
    const int32_t m_tiles = mla_m_tiles(item);
    const bool has_logits = mla_m_tile() < m_tiles;
    mla_ahead ahead = { mla_fetch_id(c, item, item.tile_lo), 0 };
    if (pkv_thread() < MLA_QUERIES) s->factor[pkv_thread()] = 1;
    mla_look(c, s, item.tile_lo, 0);
    mla_look(c, s, item.tile_lo + 1, 1);
    pkv_syncthreads();
    mla_issue<Store>(c, s, item.tile_lo, 0, 0, &ahead);
    for (int32_t tile = item.tile_lo, n = 0; tile < item.tile_hi; tile++, n++) {
        const int32_t stage = n % 2, buffer = n % 3;
        const float scale = ahead.scale;
        mla_logit logit;
        pkv_cp_wait<0>();
        pkv_syncthreads(); /* the tile is there; the one before is done with */
        if (tile + 1 < item.tile_hi)
            mla_issue<Store>(c, s, tile + 1, 1 - stage, (n + 1) % 3, &ahead);
        if constexpr (Store::IS_CODES) {
            mla_convert(c, s, stage, scale);
            pkv_syncthreads();
        }
        if (has_logits) mla_logits<Store>(c, s, tile, stage, buffer, &logit);
        mla_look(c, s, tile + 2, (n + 2) % 3);
        pkv_syncthreads();
        const bool odd = s->odd[buffer] != 0;
        if (odd && has_logits) pkv_atomic_or(&s->finite[buffer], logit.finite);
        if (has_logits) mla_weights<Store>(c, s, logit, run);
        pkv_syncthreads();
        mla_rescale(s, o);
        if (odd) mla_add_specials<Store>(c, s, stage, buffer, o);
        mla_values<Store>(s, m_tiles, stage, n_groups, o);
    }
}

/* ---------------------------------------------------------------- the line of work */
/* As attn_spans.cuh has it, without dividing again and again. */
PKV_DEV void mla_set_line(mla_shared *s, pkv__line line)
{
    s->n_ctas = line.n_ctas;
    s->span_lo = pkv__span_begin(line, pkv_block());
    s->span_hi = pkv__span_begin(line, pkv_block() + 1);
    s->span_step = line.total / line.n_ctas;
    s->span_rest = (int32_t)(line.total % line.n_ctas);
    s->by_ctas = pkv__divider_of(line.n_ctas);
}
/* pkv__span_owner. */
PKV_DEV int32_t mla_owner(const mla_shared *s, int64_t x)
{
    int32_t lo = 0, hi = s->n_ctas - 1;
    while (lo < hi) {
        const int32_t mid = (lo + hi + 1) / 2;
        const int64_t begin = s->span_step * mid + pkv__quotient(s->span_rest * mid, s->by_ctas);
        if (begin <= x) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}
/* pkv__part_of, and pkv__whole_part where items are not shared. */
PKV_DEV pkv__part mla_part_of(const mla_shared *s, int64_t begin, int32_t n_tiles)
{
    const int32_t n = n_tiles > 0 ? n_tiles : 1, cta = pkv_block();
    if (!s->split) return { 0, begin >= s->span_lo && begin < s->span_hi ? n : 0, cta, cta };
    const int64_t tiles = begin + PKV__ITEM_START;
    const int64_t lo = s->span_lo - tiles, hi = s->span_hi - tiles;
    pkv__part part = { lo < 0   ? 0
                       : lo > n ? n
                                : (int32_t)lo,
                       hi < 0   ? 0
                       : hi > n ? n
                                : (int32_t)hi,
                       cta, cta };
    if (lo > 0) part.first_cta = mla_owner(s, tiles);
    if (hi < n) part.last_cta = mla_owner(s, tiles + n - 1);
    return part;
}
/* pkv__first_item. */
PKV_DEV int32_t mla_first_item(const mla_shared *s, const mla_sequence &q)
{
    int32_t lo = 0, hi = q.n_items;
    while (lo < hi) {
        const int32_t mid = lo + (hi - lo) / 2;
        if (q.begin + (mid + (int64_t)1) * pkv__item_cost(q.n_tiles) > s->span_lo) hi = mid;
        else lo = mid + 1;
    }
    return lo;
}

/* ---------------------------------------------------------------- items */
/* What the stages read of a piece of work: part.lo .. part.hi of the tiles of 64 queries, but those
 * that none of them sees. */
PKV_DEV void mla_set_item(const struct pkv__cuda_mla &c, mla_shared *s, const mla_sequence &q,
                          int32_t seq, int32_t index, const pkv__part &part)
{
    const int64_t all = (int64_t)q.q_len * c.attn.q.n_heads, first = (int64_t)index * MLA_QUERIES;
    const int32_t n = all - first < MLA_QUERIES ? (int32_t)(all - first) : MLA_QUERIES;
    const int32_t row_lo = pkv__quotient((int32_t)first, c.by_heads);
    const int32_t row_hi = pkv__quotient((int32_t)first + n - 1, c.by_heads) + 1;
    const pkv__sight sight =
        pkv__sight_of(c.attn.batch, c.attn.opts, seq, q.row0, q.q_len, q.kv_len);
    const pkv__keys keys = pkv__sight_hull(sight, row_lo, row_hi);
    const int32_t lo = keys.lo / MLA_KEYS;
    const int32_t hi = pkv__keys_empty(keys) ? lo : (keys.hi - 1) / MLA_KEYS + 1;
    if (pkv_thread() != 0) return;
    mla_item &item = s->item;
    item.seq = seq;
    item.row0 = q.row0;
    item.q_len = q.q_len;
    item.kv_len = q.kv_len;
    item.first_query = (int32_t)first;
    item.n_queries = n;
    item.tile_lo = q.tile_lo + part.lo > lo ? q.tile_lo + part.lo : lo;
    item.tile_hi = q.tile_lo + part.hi < hi ? q.tile_lo + part.hi : hi;
    item.ids = pkv__ids_of(c.attn.batch, seq).ids;
    s->sight = sight;
    s->part = part;
}

template <class Store> PKV_DEV void mla_run_item(const struct pkv__cuda_mla &c, mla_shared *s)
{
    mla_running run = { { PKV_NEG_INF, PKV_NEG_INF }, { 0, 0 } };
    mla_out o;
    PKV_UNROLL
    for (int32_t m = 0; m < MLA_M_TILES; m++)
        for (int32_t k = 0; k < 2 * MLA_GROUPS; k++)
            for (int32_t i = 0; i < 4; i++) o[m][k][i] = 0;
    if (s->item.tile_lo < s->item.tile_hi) {
        mla_load_queries<Store>(c, s);
        mla_walk<Store>(c, s, &run, o);
    }
    mla_finish<Store>(c, s, run, o);
}

/* The items of sequence k of the chunk that lie in the span; k again. While an item runs, registers
 * are for O: neither k nor the item's number is kept in one. */
template <class Store>
PKV_DEV int32_t mla_run_sequence(const struct pkv__cuda_mla &c, mla_shared *s, int32_t k)
{
    for (int32_t i = mla_first_item(s, mla_get_sequence(s, k));; i++) {
        const mla_sequence q = mla_get_sequence(s, k);
        if (i >= q.n_items) break;
        const int64_t at = q.begin + i * pkv__item_cost(q.n_tiles);
        if (at >= s->span_hi) break;
        const pkv__part part = mla_part_of(s, at, q.n_tiles);
        if (part.lo == part.hi) continue;
        mla_set_item(c, s, q, s->first_seq - MLA_THREADS + k, i, part);
        pkv_syncthreads();
        mla_run_item<Store>(c, s);
        k = s->item.seq - s->first_seq + MLA_THREADS;
        i = s->item.first_query / MLA_QUERIES;
        pkv_syncthreads(); /* the item is read */
    }
    return k;
}

/* The next chunk of sequences to shared memory, where the state of the walk is, too: registers are
 * for O. The end of their items in the line. */
PKV_DEV int64_t mla_fetch_sequences(const struct pkv__cuda_mla &c, mla_shared *shared)
{
    mla_shared *const s = shared + pkv_shfl(0, 0); /* as mla_fresh_lane */
    int32_t next_row = s->next_row, first = s->first_seq;
    int64_t chunk;
    const pkv__cut cut = pkv__cut_chunk<MLA_THREADS>(c.attn, first, &next_row, nullptr, &s->scan);
    mla_sequence q = mla_sequence_of(c, first + pkv_thread(), cut);
    q.begin =
        s->begin + pkv__scan<MLA_THREADS>(q.n_items * pkv__item_cost(q.n_tiles), &chunk, &s->scan);
    mla_put_sequence(s, pkv_thread(), q);
    pkv_syncthreads();
    if (pkv_thread() == 0) {
        s->begin += chunk;
        s->next_row = next_row;
        s->first_seq = first + MLA_THREADS;
    }
    pkv_syncthreads();
    return s->begin;
}

template <class Store> PKV_GLOBAL(MLA_THREADS, 1) mla_kernel(const struct pkv__cuda_mla c)
{
    PKV_DEV_SHARED_DYN(mla_shared, s);
    const int64_t total = mla_total(c, s);
    if (total == 0) return;
    const pkv__line line = pkv__line_of(total, pkv_n_blocks());
    if (pkv_block() >= line.n_ctas) return;
    if (pkv_warp() == 0) {
        const int32_t column = 16 * pkv_lane();
        mla_set_places<Store>(c, &s->places);
        s->p_copy[pkv_lane()] =
            c.n_p_copies > 1 && column < c.n_columns ? pkv__quotient(column, c.by_part_pitch) : 0;
    }
    if (pkv_thread() == 0) {
        mla_set_line(s, line);
        s->begin = s->next_row = s->first_seq = 0;
        s->split = !c.attn.opts.invariant && c.attn.head->magic == PKV__CUDA_WORKSPACE_MAGIC;
    }
    pkv_syncthreads();
    while (s->first_seq < c.attn.batch.n_seqs && s->begin < s->span_hi) {
        if (mla_fetch_sequences(c, s) <= s->span_lo) continue;
        for (int32_t k = 0; k < MLA_THREADS; k++) {
            const mla_sequence q = mla_get_sequence(s, k);
            const int64_t end = q.begin + q.n_items * pkv__item_cost(q.n_tiles);
            if (q.n_items > 0 && end > s->span_lo && q.begin < s->span_hi)
                k = mla_run_sequence<Store>(c, s, k);
        }
        pkv_syncthreads(); /* the next chunk meets before it writes; without, sm_80 spills */
    }
}

template <class Store> int prepare(struct pkv__kernel_cost *cost)
{
    return PKV_PREPARE((mla_kernel<Store>), MLA_THREADS, mla_shared_bytes<Store>(), cost);
}
template <class Store> int launch(const void *params, int64_t n_ctas, void *stream)
{
    return PKV_LAUNCH((mla_kernel<Store>), n_ctas, MLA_THREADS, mla_shared_bytes<Store>(), stream,
                      *static_cast<const struct pkv__cuda_mla *>(params));
}

} // namespace

extern "C" {

int pkv__mla_f16_prepare(struct pkv__kernel_cost *cost)
{
    return prepare<mla_f16>(cost);
}
int pkv__mla_bf16_prepare(struct pkv__kernel_cost *cost)
{
    return prepare<mla_bf16>(cost);
}
int pkv__mla_codes_prepare(struct pkv__kernel_cost *cost)
{
    return prepare<mla_codes>(cost);
}
int pkv__mla_f16_launch(const void *params, int64_t n_ctas, void *stream)
{
    return launch<mla_f16>(params, n_ctas, stream);
}
int pkv__mla_bf16_launch(const void *params, int64_t n_ctas, void *stream)
{
    return launch<mla_bf16>(params, n_ctas, stream);
}
int pkv__mla_codes_launch(const void *params, int64_t n_ctas, void *stream)
{
    return launch<mla_codes>(params, n_ctas, stream);
}
}
