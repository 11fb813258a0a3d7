/* Latent attention: the end of an item, and what becomes of those that several CTAs share.
 *
 *   CTA   0   1   2   3   4       Of two neighbours the one that arrives second has both states
 *         '-1-'   '-3-'   |       and goes on; the other one has left its own in the workspace.
 *           '---2---'     |       A meeting has the counter of the first CTA of its right side.
 *               '----4----'       A state has 128 KiB: no CTA reads more than a few of them.
 *
 * Which of the two is second changes no bit: sides may be exchanged in the sum. */
#ifndef PKV_ATTN_MLA_FINISH_CUH
#define PKV_ATTN_MLA_FINISH_CUH

#include "kernels/cuda/attn_mla_tile.cuh"

/* A state in the workspace: element i of thread t's O at i * threads + t, then maxima and sums of
 * the queries. O of a query is in units of e^max; of stores without codes, times P_UNIT. */
PKV_DEV float *mla_state(const struct pkv__cuda_mla &c, int32_t slot)
{
    return c.attn.partials + (int64_t)slot * PKV__MLA_STATE_FLOATS;
}
constexpr int32_t MLA_STATE_MAX = MLA_QUERIES * PKV__MLA_LATENT;
constexpr int32_t MLA_STATE_SUM = MLA_STATE_MAX + MLA_QUERIES;

/* Maxima and sums of all queries to max[0] and sum[0]; the block meets. It need not before: nobody
 * reads maxima of a tile once the block has met behind its weights. */
PKV_DEV void mla_join_halves(mla_shared *s, const mla_running &run)
{
    const int32_t lane = pkv_lane();
    PKV_UNROLL
    for (int32_t side = 0; side < 2; side++) {
        float sum = run.sum[side];
        sum += pkv_shfl_xor(sum, 1);
        sum += pkv_shfl_xor(sum, 2);
        if (lane % 4 != 0) continue;
        const int32_t query = mla_query(lane, mla_m_tile(), side);
        s->max[mla_half_of_keys()][query] = run.max[side];
        s->sum[mla_half_of_keys()][query] = sum;
    }
    pkv_syncthreads();
    const int32_t i = pkv_thread();
    if (i < MLA_QUERIES) s->sum[0][i] += s->sum[1][i];
    pkv_syncthreads();
}

/* All of it, with zeros where there are no queries or columns: O in registers does not bear
 * branches.
 */
PKV_DEV void mla_write_state(float *state, const mla_shared *s, const mla_out &o)
{
    const int32_t t = pkv_thread();
    PKV_UNROLL
    for (int32_t m = 0; m < MLA_M_TILES; m++)
        for (int32_t n = 0; n < 2 * MLA_GROUPS; n++)
            for (int32_t i = 0; i < 4; i++)
                state[((m * 2 * MLA_GROUPS + n) * 4 + i) * MLA_THREADS + t] = o[m][n][i];
    if (t >= MLA_QUERIES) return;
    state[MLA_STATE_MAX + t] = s->max[0][t];
    state[MLA_STATE_SUM + t] = s->sum[0][t];
}

/* The other side's state joins o, max[0] and sum[0]. One of the two factors is 1, so that there is
 * one product and one sum, whoever adds whom. */
PKV_DEV void mla_join_state(const float *state, mla_shared *s, mla_out &o)
{
    const int32_t t = pkv_thread(), lane = pkv_lane();
    if (t < MLA_QUERIES) {
        const float own = s->max[0][t], other = state[MLA_STATE_MAX + t];
        const float sum = state[MLA_STATE_SUM + t];
        const float f = own == other ? 1.f : pkv__weight(-fabsf(own - other), 0);
        s->factor[t] = own > other ? f : -f; /* its sign says who shrinks */
        s->sum[0][t] = own > other ? fmaf(sum, f, s->sum[0][t]) : fmaf(s->sum[0][t], f, sum);
        s->max[0][t] = fmaxf(own, other);
    }
    pkv_syncthreads();
    PKV_UNROLL
    for (int32_t m = 0; m < MLA_M_TILES; m++) {
        const float f[2] = { s->factor[mla_query(lane, m, 0)], s->factor[mla_query(lane, m, 1)] };
        PKV_UNROLL
        for (int32_t n = 0; n < 2 * MLA_GROUPS; n++)
            for (int32_t i = 0; i < 4; i++) {
                const float x = state[((m * 2 * MLA_GROUPS + n) * 4 + i) * MLA_THREADS + t];
                const bool keeps = !(pkv_float_bits(f[i / 2]) >> 31);
                o[m][n][i] = fmaf(keeps ? x : o[m][n][i], fabsf(f[i / 2]), keeps ? o[m][n][i] : x);
            }
    }
    pkv_syncthreads();
}

/* Meet the neighbours. False: another CTA goes on with the item; true: all of it is here. */
PKV_DEV bool mla_share(const struct pkv__cuda_mla &c, mla_shared *s, mla_out &o)
{
    const int32_t first = s->part.first_cta, n = s->part.last_cta - first + 1;
    const int32_t own = pkv_block() - first;
    for (int32_t width = 1; width < n; width *= 2) {
        const int32_t left = own & ~(2 * width - 1), right = left + width;
        if (right >= n) continue; /* nobody to meet */
        /* Both sides leave their state where their first CTA has its slot. */
        const bool is_left = own < right;
        const int32_t mine = pkv__part_slot(s->part, first + (is_left ? left : right));
        const int32_t theirs = pkv__part_slot(s->part, first + (is_left ? right : left));
        mla_write_state(mla_state(c, mine), s, o);
        pkv_syncthreads();
        if (pkv_thread() == 0)
            s->last = pkv_atomic_inc_acq_rel(&c.attn.head->arrived[first + right], 1);
        pkv_syncthreads();
        if (s->last == 0) return false;
        mla_join_state(mla_state(c, theirs), s, o);
    }
    return true;
}

/* A query's lse, its sink included, and what its O is to be multiplied by; 0: it has no weight. */
PKV_DEV float mla_finish_query(const struct pkv__cuda_mla &c, const mla_item &item, float max,
                               float sum, int32_t query)
{
    const int32_t at = item.first_query + query, row = pkv__quotient(at, c.by_heads);
    const int32_t head = at - row * c.attn.q.n_heads;
    const float sink =
        c.attn.opts.sink ? pkv_ldv_const<float>(c.attn.opts.sink + head) : PKV_NEG_INF;
    const pkv__row_end end = pkv__end_of_row(max, sum, sink);
    if (c.attn.lse.data) pkv__put_lse(c.attn.lse, (int64_t)item.row0 + row, head, end.lse);
    return end.by;
}

PKV_DEV uint32_t mla_pack(bool bf16, float lo, float hi)
{
    return bf16 ? pkv_pack2<__nv_bfloat16>(lo, hi) : pkv_pack2<__half>(lo, hi);
}

/* O through shared memory, where queries were, to rows of `out`. */
PKV_DEV void mla_write_out(const struct pkv__cuda_mla &c, mla_shared *s, float out_unit,
                           const mla_out &o)
{
    const mla_item &item = s->item;
    const bool bf16 = c.attn.out.dtype == PKV_BF16;
    const int32_t lane = pkv_lane();
    PKV_UNROLL
    for (int32_t m = 0; m < MLA_M_TILES; m++)
        for (int32_t side = 0; side < 2; side++) {
            const int32_t query = mla_query(lane, m, side);
            const float f = s->factor[query] * out_unit;
            PKV_UNROLL
            for (int32_t n = 0; n < 2 * MLA_GROUPS; n++) {
                /* Without weight O may be NaN: 0 times what nobody should have seen. */
                const float lo = f == 0 ? 0.f : o[m][n][2 * side] * f;
                const float hi = f == 0 ? 0.f : o[m][n][2 * side + 1] * f;
                const int32_t chunk = 2 * MLA_GROUPS * pkv_warp() + n;
                pkv_stv(s->q_latent + mla_at(query, MLA_LATENT_BYTES, chunk) + 4 * (lane % 4),
                        mla_pack(bf16, lo, hi));
            }
        }
    pkv_syncthreads();
    const int32_t first[2] = { s->places.q[0][lane], s->places.q[1][lane] };
    const pkv_tensor3 &out = c.attn.out;
    for (int32_t i = pkv_warp(); i < item.n_queries; i += MLA_WARPS) {
        const int32_t at = item.first_query + i, row = pkv__quotient(at, c.by_heads);
        unsigned char *to = static_cast<unsigned char *>(out.data) +
                            2 * (((int64_t)item.row0 + row) * out.row_stride +
                                 (at - row * out.n_heads) * out.head_stride);
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++)
            if (first[h] >= 0 && 8 * (lane + 32 * h) < c.n_columns)
                pkv_stv(to + 2 * first[h],
                        pkv_ldv<uint4>(s->q_latent + mla_at(i, MLA_LATENT_BYTES, lane + 32 * h)));
    }
    pkv_syncthreads();
}

/* From running states to the rows of the output, or to the workspace. */
template <class Store>
PKV_DEV void mla_finish(const struct pkv__cuda_mla &c, mla_shared *s, const mla_running &run,
                        mla_out &o)
{
    const mla_item &item = s->item;
    const int32_t i = pkv_thread();
    mla_join_halves(s, run);
    if (s->part.first_cta != s->part.last_cta && !mla_share(c, s, o)) return;
    if (i < item.n_queries) s->factor[i] = mla_finish_query(c, item, s->max[0][i], s->sum[0][i], i);
    else if (i < MLA_QUERIES) s->factor[i] = 0;
    pkv_syncthreads();
    mla_write_out(c, s, Store::IS_CODES ? 1.f : 1.f / Store::P_UNIT, o);
}

#endif
