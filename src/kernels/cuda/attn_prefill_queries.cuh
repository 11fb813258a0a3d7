/* Queries of an item of attention over long rows, and which keys of a tile they see.
 *
 *   query r of the item, 0 .. 63, is (first_head + r) of the heads of a group, counted on over rows
 *   warp w has queries 16 w .. 16 w + 15, and alone touches their place in shared memory */
#ifndef PKV_ATTN_PREFILL_QUERIES_CUH
#define PKV_ATTN_PREFILL_QUERIES_CUH

#include "kernels/cuda/attn_prefill_items.cuh"
#include "kernels/cuda/attn_prefill_tile.cuh"
#include "kernels/cuda/attn_visible.cuh"

/* What an item is about: in shared memory, by thread 0. */
struct pkv__prefill_work {
    pkv__sight sight;
    int32_t row0, head0;           /* of q, of sequence and group */
    int32_t first_row, first_head; /* of query 0 */
    int32_t n_rows, n_queries;     /* 1 .. 64 queries, of rows first_row .. + n_rows - 1 */
    pkv__divider group;
    pkv__lookup lookup;
    int32_t kv_head;
    bool in_blocks; /* 16 keys lie in one block */
};

/* By one thread. */
PKV_DEV void pkv__prefill_plan(const struct pkv__cuda_attn &a, const pkv__prefill_item &item,
                               const pkv__prefill_dividers &by, pkv__prefill_work &w)
{
    w.sight =
        pkv__sight_of(a.batch, a.opts, item.seq, item.cut.row0, item.cut.q_len, item.cut.kv_len);
    w.row0 = item.cut.row0;
    w.head0 = item.kv_head * a.group;
    w.first_row = (int32_t)pkv__long_quotient(item.query, by.group);
    w.first_head = (int32_t)(item.query - (int64_t)w.first_row * a.group);
    const int64_t left = item.n_queries - item.query;
    w.n_queries = left < PKV__PREFILL_ROWS ? (int32_t)left : PKV__PREFILL_ROWS;
    w.group = by.group;
    w.n_rows = pkv__quotient(w.first_head + w.n_queries - 1, w.group) + 1;
    w.lookup = { pkv__ids_of(a.batch, item.seq).ids, item.seq, by.block };
    w.kv_head = item.kv_head;
    w.in_blocks = pkv__tiles_in_blocks(a);
}

/* Row of the sequence and head of q. */
struct pkv__prefill_place {
    int32_t row, head;
};
PKV_DEV pkv__prefill_place pkv__prefill_place_of(const pkv__prefill_work &w, int32_t query)
{
    const int32_t at = w.first_head + query, down = pkv__quotient(at, w.group);
    return { w.first_row + down, w.head0 + at - down * w.group.by };
}

/* What thread r knows of query r. */
PKV_DEV void pkv__prefill_describe(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                                   pkv__prefill_marks *marks)
{
    const int32_t query = pkv_thread();
    if (query >= PKV__PREFILL_ROWS) return;
    const bool here = query < w.n_queries;
    const pkv__prefill_place at = pkv__prefill_place_of(w, here ? query : 0);
    marks->row[query] = here ? at.row : -1;
    marks->slope[query] = here && a.opts.alibi ? pkv_ldv_const<float>(a.opts.alibi + at.head) : 0.f;
    marks->at[query] = pkv__sight_row_at(w.sight, at.row);
}

/* ---------------------------------------------------------------- Q */
/* A row of bf16 to halves, LANES lanes with 8 elements each; what undoes the factor. */
template <int32_t LANES> PKV_DEV float pkv__prefill_to_halves(uint4 &bits)
{
    float largest = pkv__largest_of(bits);
    PKV_UNROLL
    for (int32_t by = 1; by < LANES; by *= 2) largest = fmaxf(largest, pkv_shfl_xor(largest, by));
    const int32_t shift = pkv__half_shift(largest);
    bits = pkv__halves_of(bits, pkv__pow2(shift));
    return pkv__pow2(-shift);
}

/* The warp's 16 queries to shared memory, as products take them; zeros beyond their dim and their
 * number. Marks hold the factor that makes logits of S. */
template <class S>
PKV_DEV void pkv__prefill_load_queries(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                                       unsigned char *q, pkv__prefill_marks *marks)
{
    constexpr int32_t LANES = S::D / 8, STEP = 32 / LANES;
    constexpr bool HALVES = PKV_P_BITS < typename S::T >> 0;
    const int32_t chunk = pkv_lane() % LANES;
    PKV_UNROLL
    for (int32_t r = 0; r < 16; r += STEP) {
        const int32_t query = pkv_warp() * 16 + r + pkv_lane() / LANES;
        uint4 bits = make_uint4(0, 0, 0, 0);
        if (query < w.n_queries && chunk * 8 < a.q.dim) {
            const pkv__prefill_place at = pkv__prefill_place_of(w, query);
            bits = pkv_ldv_const<uint4>(static_cast<const uint16_t *>(a.q.data) +
                                        (int64_t)(w.row0 + at.row) * a.q.row_stride +
                                        at.head * a.q.head_stride + chunk * 8);
        }
        float factor = a.scale;
        if (HALVES && a.q.dtype == PKV_BF16) factor *= pkv__prefill_to_halves<LANES>(bits);
        pkv_stv(q + S::Rows::place(query, chunk), bits);
        float sum = 0.f;
        if constexpr (S::Store::IS_CODES) {
            float x[8];
            factor *= S::Store::unit();
            pkv__unpack8<typename S::T>(x, bits);
            PKV_UNROLL
            for (int32_t i = 0; i < 8; i++) sum += x[i];
            PKV_UNROLL
            for (int32_t by = 1; by < LANES; by *= 2) sum += pkv_shfl_xor(sum, by);
        }
        if (chunk == 0) {
            marks->factor[query] = factor;
            marks->q_sum[query] = sum;
        }
    }
    pkv_syncwarp();
}

/* ---------------------------------------------------------------- what they see */
/* Which query sees which key of the tile from key0 on. All threads of the block come, and meet
 * before they look. */
template <class S>
PKV_DEV void pkv__prefill_mark(const pkv__prefill_work &w, pkv__prefill_marks *marks, int32_t key0,
                               int32_t stage)
{
    const int32_t query = pkv_thread() / S::WORDS, word = pkv_thread() % S::WORDS;
    const int32_t key = word * 32 < w.sight.kv_len - key0 ? key0 + word * 32 : -1;
    uint32_t bits = 0;
    if (query < w.n_queries && key >= 0)
        bits = pkv__sight_word(w.sight, pkv__prefill_place_of(w, query).row, key);
    if (query < PKV__PREFILL_ROWS) marks->seen[stage][pkv_thread()] = bits;
    PKV_UNROLL
    for (int32_t by = S::WORDS; by < 32; by *= 2) bits |= pkv_shfl_xor(bits, by);
    if (pkv_lane() < S::WORDS) marks->any[stage][pkv_warp()][word] = bits;
    pkv_syncthreads();
}

/* Of 16 keys of a marked tile, those that some query sees. */
PKV_DEV uint32_t pkv__prefill_any(const pkv__prefill_marks *marks, int32_t stage, int32_t subtile)
{
    uint32_t bits = 0;
    PKV_UNROLL
    for (int32_t warp = 0; warp < PKV__PREFILL_THREADS / 32; warp++)
        bits |= marks->any[stage][warp][subtile / 2];
    return bits >> subtile % 2 * 16 & 0xffffu;
}

#endif
