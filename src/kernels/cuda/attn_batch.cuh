/* From the arrays of a batch to the rows and keys of its sequences, on the device: the clamps and
 * the verdict of kernels/attn_cut.c.
 *
 *   sequences   0 .. T-1 | T .. 2T-1 | ...      T threads, one sequence each: a chunk
 *   rows        which of them are right depends on all before: next_row goes from chunk to chunk
 *
 * Every block of threads walks the whole batch by itself; one of them reports. */
#ifndef PKV_ATTN_BATCH_CUH
#define PKV_ATTN_BATCH_CUH

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/pkv_dev.cuh"

/* Rows and keys of a sequence, cut to what exists. */
struct pkv__cut {
    int32_t row0, q_len; /* of q, out and lse; q_len 0: it has none */
    int32_t kv_len;
};

/* A row of the block table. */
struct pkv__id_row {
    const int32_t *ids; /* NULL: contiguous */
    int64_t n_ids;
};

/* OR a bit into the report; who finds it empty adds one offender. bad NULL: nobody asks. */
PKV_DEV void pkv__report(uint32_t *bad, uint32_t bit, int32_t seq, int32_t idx, int32_t value)
{
    if (!bad || pkv_atomic_or(bad, bit) != 0) return;
    bad[1] = (uint32_t)seq;
    bad[2] = (uint32_t)idx;
    bad[3] = (uint32_t)value;
}

/* An id that may be used: outside of the store it is the null block; both are reported. */
PKV_DEV int32_t pkv__checked_id(int32_t id, int32_t n_blocks, uint32_t *bad, int32_t seq,
                                int32_t entry)
{
    if ((uint32_t)id - 1u < (uint32_t)n_blocks - 1u) return id;
    const bool range = (uint32_t)id >= (uint32_t)n_blocks;
    pkv__report(bad, range ? PKV_BAD_RANGE : PKV_BAD_NULL_BLOCK, seq, entry, id);
    return 0;
}

PKV_DEV pkv__id_row pkv__ids_of(const pkv_attn_batch &b, int32_t seq)
{
    if (!b.table) return { nullptr, 0 };
    if (!b.table_indptr) return { b.table + seq * b.table_stride, b.table_stride };
    const int64_t start = pkv_ldv_const<int32_t>(b.table_indptr + seq);
    int64_t end = pkv_ldv_const<int32_t>(b.table_indptr + seq + 1);
    if (end > b.table_stride) end = b.table_stride;
    if (start < 0 || end <= start) return { b.table, 0 };
    return { b.table + start, end - start };
}

/* Keys that exist. bad NULL: no report. */
PKV_DEV int32_t pkv__keys_of(const pkv_attn_batch &b, int32_t block_tokens, int32_t seq,
                             uint32_t *bad)
{
    const int32_t asked = pkv_ldv_const<int32_t>(b.kv_len + seq);
    if (asked < 0) pkv__report(bad, PKV_BAD_LENGTH, seq, seq, asked);
    const int32_t kv_len = asked < 0 ? 0 : asked;
    if (!b.table) {
        if (kv_len <= block_tokens) return kv_len;
        pkv__report(bad, PKV_BAD_LENGTH, seq, seq, asked);
        return block_tokens;
    }
    const int64_t n_ids = pkv__ids_of(b, seq).n_ids;
    /* n_ids may be anything up to 2^63: no product of it before it is known to be small. */
    if (n_ids >= kv_len || n_ids * block_tokens >= kv_len) return kv_len;
    pkv__report(bad, PKV_BAD_SHORT_ROW, seq, (int32_t)n_ids, asked);
    return (int32_t)(n_ids * block_tokens);
}

/* Do rows [row0, end) lie in q and behind those of all sequences in front? */
PKV_DEV bool pkv__rows_fit(int32_t row0, int32_t end, int32_t next_row, int64_t n_rows)
{
    return row0 >= next_row && end >= row0 && end <= n_rows;
}

/* What pkv__cut_chunk and pkv__scan share among THREADS threads. */
template <int THREADS> struct pkv__scan_space {
    int64_t warp_sums[THREADS / 32];
    uint32_t fits[THREADS / 32]; /* bit i of word w: sequence 32 w + i of the chunk has its rows */
    int32_t next_row;
};

/* Do the rows of the thread's sequence fit? Mostly all do, and then nobody depends on another; else
 * one thread goes through the chunk. Moves next_row on. */
template <int THREADS>
PKV_DEV bool pkv__chunk_rows_fit(const int32_t *indptr, int32_t first, int32_t n_seqs,
                                 int64_t n_rows, int32_t *next_row, pkv__scan_space<THREADS> *space)
{
    const int32_t i = first + pkv_thread(), n = n_seqs - first < THREADS ? n_seqs - first : THREADS;
    const int32_t row0 = i < n_seqs ? pkv_ldv_const<int32_t>(indptr + i) : 0;
    const int32_t end = i < n_seqs ? pkv_ldv_const<int32_t>(indptr + i + 1) : 0;
    const bool fits = i >= n_seqs || pkv__rows_fit(row0, end, *next_row, n_rows);
    const bool warp_fits = pkv_all(fits);
    if (pkv_lane() == 0) space->fits[pkv_warp()] = warp_fits;
    pkv_syncthreads();
    bool all = true;
    for (int32_t w = 0; w < THREADS / 32; w++) all = all && space->fits[w];
    if (all) {
        *next_row = pkv_ldv_const<int32_t>(indptr + first + n);
        pkv_syncthreads(); /* `fits` is read, and may be written again */
        return true;
    }
    pkv_syncthreads();
    if (pkv_thread() == 0) {
        int32_t next = *next_row;
        for (int32_t w = 0; w < THREADS / 32; w++) space->fits[w] = 0;
        for (int32_t k = 0; k < n; k++) {
            const int32_t to = indptr[first + k + 1];
            if (!pkv__rows_fit(indptr[first + k], to, next, n_rows)) continue;
            next = to;
            space->fits[k / 32] |= 1u << k % 32;
        }
        space->next_row = next;
    }
    pkv_syncthreads();
    const bool mine = space->fits[pkv_warp()] >> pkv_lane() & 1u;
    *next_row = space->next_row;
    pkv_syncthreads();
    return mine;
}

/* Rows and keys of sequence first + thread; of none beyond the last one. All threads of the block
 * come, chunk by chunk from 0 on, with *next_row 0 at first. bad NULL: no report. */
template <int THREADS>
PKV_DEV pkv__cut pkv__cut_chunk(const struct pkv__cuda_attn &a, int32_t first, int32_t *next_row,
                                uint32_t *bad, pkv__scan_space<THREADS> *space)
{
    const int32_t seq = first + pkv_thread(), n_seqs = a.batch.n_seqs;
    const int32_t *indptr = a.batch.q_indptr;
    bool fits = true;
    if (indptr)
        fits = pkv__chunk_rows_fit<THREADS>(indptr, first, n_seqs, a.q.n_rows, next_row, space);
    pkv__cut cut = { 0, 0, 0 };
    if (seq >= n_seqs) return cut;
    cut.kv_len = pkv__keys_of(a.batch, a.k.block_tokens, seq, bad);
    if (!indptr) {
        cut.row0 = seq;
        cut.q_len = 1;
    } else if (fits) {
        cut.row0 = pkv_ldv_const<int32_t>(indptr + seq);
        cut.q_len = pkv_ldv_const<int32_t>(indptr + seq + 1) - cut.row0;
    } else {
        pkv__report(bad, PKV_BAD_Q_INDPTR, seq, seq + 1, pkv_ldv_const<int32_t>(indptr + seq + 1));
    }
    if (a.opts.mask && cut.q_len > 0 && (cut.q_len - 1) / 32 >= a.opts.mask_stride)
        pkv__report(bad, PKV_BAD_MASK, seq, (int32_t)(a.opts.mask_stride * 32), cut.q_len);
    return cut;
}

/* Does this launch take a sequence of so many rows? */
PKV_DEV bool pkv__takes(const struct pkv__cuda_attn &a, int32_t q_len)
{
    if (q_len == 0 || a.rows == PKV__CUDA_ALL) return q_len > 0;
    return pkv__cuda_is_short(q_len, a.group) == (a.rows == PKV__CUDA_SHORT);
}

/* Sum of x over the threads before this one; *total over all. All threads of the block come. */
template <int THREADS>
PKV_DEV int64_t pkv__scan(int64_t x, int64_t *total, pkv__scan_space<THREADS> *space)
{
    int64_t sum = x;
    PKV_UNROLL
    for (int32_t by = 1; by < 32; by *= 2) {
        const int64_t left = pkv_shfl_up(sum, by);
        if (pkv_lane() >= by) sum += left;
    }
    if (pkv_lane() == 31) space->warp_sums[pkv_warp()] = sum;
    pkv_syncthreads();
    int64_t before = 0;
    *total = 0;
    for (int32_t w = 0; w < THREADS / 32; w++) {
        if (w < pkv_warp()) before += space->warp_sums[w];
        *total += space->warp_sums[w];
    }
    pkv_syncthreads();
    return before + sum - x;
}

#endif
