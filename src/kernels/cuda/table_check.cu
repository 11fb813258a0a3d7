/* The verdict on a batch without its K and V: kernels/table_check.c on the device.
 *
 *   CTA    walks the whole batch, a chunk of sequences at a time, one for each thread:
 *          attn_batch.cuh. The first CTA reports what is wrong with rows and lengths
 *   warp   of the whole grid: a part of the ids of a sequence of the chunk. Where there are fewer
 *          sequences than warps, several share one: groups of 32 ids go round among them
 *   lane   one id
 *
 * Shared: the chunk's rows and lengths. Limited by latency; the grid need not fill the device. */
#include "kernels/cuda/attn_batch.cuh"
#include "kernels/cuda/attn_visible.cuh"
#include "kernels/cuda/pkv_dev.cuh"
#include "kernels/cuda/table_check.h"

namespace
{

constexpr int32_t n_threads = 256;
constexpr int32_t ctas_per_sm = 2; /* as launched; without it ptxas saves registers, and spills */

PKV_DEV bool rows_are_ranges(const pkv__cuda_check &c)
{
    return !c.attn.batch.q_pos && !c.attn.opts.mask;
}

/* Of all rows; lanes take rows in turn. All lanes of the warp come. */
PKV_DEV pkv__keys hull_of_rows(const pkv__sight &s)
{
    if (!s.q_pos) return pkv__sight_hull(s, 0, s.q_len);
    pkv__keys all = { 0, 0 };
    for (int32_t i = pkv_lane(); i < s.q_len; i += 32)
        all = pkv__keys_around(all, pkv__sight_row_hull(s, i));
    PKV_UNROLL
    for (int32_t bits = 16; bits > 0; bits /= 2) {
        const int32_t lo = pkv_shfl_xor(all.lo, bits), hi = pkv_shfl_xor(all.hi, bits);
        all = pkv__keys_around(all, { lo, hi });
    }
    return all;
}

/* Does some row see one of these keys? */
PKV_DEV bool seen(const pkv__sight &s, pkv__keys keys)
{
    for (int32_t i = 0; i < s.q_len; i++)
        for (int64_t j = keys.lo; j < keys.hi; j += 32) {
            const int32_t left = keys.hi - (int32_t)j;
            if (pkv__sight_word(s, i, (int32_t)j) & pkv__ones(0, left)) return true;
        }
    return false;
}

/* Part `part` of n_parts of the ids of a sequence. All lanes of the warp come. */
PKV_DEV void check_ids(const pkv__cuda_check &c, int32_t seq, const pkv__cut &cut, int32_t part,
                       int32_t n_parts)
{
    const pkv__id_row row = pkv__ids_of(c.attn.batch, seq);
    const int32_t block_tokens = c.attn.k.block_tokens;
    const bool all_keys = c.all_keys, ranges = all_keys || rows_are_ranges(c);
    if (!row.ids || (!all_keys && cut.q_len == 0)) return;
    const pkv__sight s =
        pkv__sight_of(c.attn.batch, c.attn.opts, seq, cut.row0, cut.q_len, cut.kv_len);
    const pkv__keys keys = all_keys ? pkv__keys{ 0, cut.kv_len } : hull_of_rows(s);
    if (pkv__keys_empty(keys)) return;
    const int64_t last = (keys.hi - 1) / block_tokens;
    int64_t entry = keys.lo / block_tokens + part * 32 + pkv_lane();
    for (; entry <= last; entry += (int64_t)n_parts * 32) {
        const int64_t first = entry * block_tokens, end = first + block_tokens;
        const pkv__keys here = { (int32_t)first, end < keys.hi ? (int32_t)end : keys.hi };
        if (!ranges && !seen(s, here)) continue;
        const int32_t id = pkv_ldv_const<int32_t>(row.ids + entry);
        pkv__checked_id(id, c.attn.k.n_blocks, c.bad, seq, (int32_t)entry);
    }
}

PKV_GLOBAL(n_threads, ctas_per_sm) table_check_kernel(const pkv__cuda_check c)
{
    PKV_DEV_SHARED(pkv__scan_space<n_threads>, space, 1);
    PKV_DEV_SHARED(pkv__cut, cuts, n_threads);
    const int32_t n_seqs = c.attn.batch.n_seqs, warps_per_cta = n_threads / 32;
    const int32_t n_warps = pkv_n_blocks() * warps_per_cta;
    int32_t next_row = 0;
    for (int64_t first = 0; first < n_seqs; first += n_threads) {
        const int32_t n = n_seqs - first < n_threads ? (int32_t)(n_seqs - first) : n_threads;
        const int32_t n_parts = n_warps > n ? n_warps / n : 1;
        cuts[pkv_thread()] = pkv__cut_chunk<n_threads>(
            c.attn, (int32_t)first, &next_row, pkv_block() == 0 ? c.bad : nullptr, &space[0]);
        pkv_syncthreads();
        for (int32_t unit = pkv_block() * warps_per_cta + pkv_warp(); unit < n * n_parts;
             unit += n_warps)
            check_ids(c, (int32_t)first + unit % n, cuts[unit % n], unit / n, n_parts);
        pkv_syncthreads();
    }
}

} // namespace

extern "C" int pkv__table_check_prepare(struct pkv__kernel_cost *cost)
{
    return PKV_PREPARE(table_check_kernel, n_threads, 0, cost);
}

extern "C" int pkv__table_check_launch(const struct pkv__cuda_check *check, int64_t n_ctas,
                                       void *stream)
{
    return PKV_LAUNCH(table_check_kernel, n_ctas, n_threads, 0, stream, *check);
}
