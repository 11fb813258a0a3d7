/* What is left of an item of attention over long rows once its keys are through: states of parts in
 * the workspace, and rows of the output. */
#ifndef PKV_ATTN_PREFILL_STATES_CUH
#define PKV_ATTN_PREFILL_STATES_CUH

#include "kernels/cuda/attn_prefill_queries.cuh"

/* Sums of a thread's columns become sums of the row. */
template <class S> PKV_DEV void pkv__prefill_settle(pkv__prefill_state<S> &st)
{
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        st.l[h] = pkv__quad_sum(st.l[h]);
        if constexpr (S::Store::HAS_ZEROS) {
            const float shift = pkv__quad_sum(st.shift[h]);
            PKV_UNROLL
            for (int32_t j = 0; j < S::D / 8; j++) {
                st.o[j][2 * h] -= shift;
                st.o[j][2 * h + 1] -= shift;
            }
        }
    }
}

/* ---------------------------------------------------------------- parts */
PKV_DEV bool pkv__prefill_is_empty(float m, float l)
{
    return m == -INFINITY && l == 0.f;
}

/* State of a part: m of 64 queries, l, o [64][D]; o of a query that saw nothing is left out. */
template <class S>
PKV_DEV float *pkv__prefill_slot(const struct pkv__cuda_attn &a, const pkv__prefill_item &item,
                                 int32_t part)
{
    return a.partials + (int64_t)(item.slot + part) * PKV__PREFILL_STATE(S::D);
}

template <class S>
PKV_DEV void pkv__prefill_put_part(const struct pkv__cuda_attn &a, const pkv__prefill_item &item,
                                   const pkv__prefill_state<S> &st)
{
    float *const to = pkv__prefill_slot<S>(a, item, item.part);
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const int32_t query = pkv_warp() * 16 + pkv_lane() / 4 + 8 * h;
        if (pkv_lane() % 4 == 0) {
            to[query] = st.m[h];
            to[PKV__PREFILL_ROWS + query] = st.l[h];
        }
        if (pkv__prefill_is_empty(st.m[h], st.l[h])) continue;
        float *const o = to + 2 * PKV__PREFILL_ROWS + query * S::D + pkv_lane() % 4 * 2;
        PKV_UNROLL
        for (int32_t j = 0; j < S::D / 8; j++)
            pkv_stv(o + 8 * j, make_float2(st.o[j][2 * h], st.o[j][2 * h + 1]));
    }
}

/* The parts of an item, in the order of their keys. */
template <class S>
PKV_DEV void pkv__prefill_fold(const struct pkv__cuda_attn &a, const pkv__prefill_item &item,
                               pkv__prefill_state<S> &st, const float (&unit)[2])
{
    pkv__prefill_clear<S>(st);
    for (int32_t part = 0; part < item.n_parts; part++) {
        const float *const from = pkv__prefill_slot<S>(a, item, part);
        PKV_UNROLL
        for (int32_t h = 0; h < 2; h++) {
            const int32_t query = pkv_warp() * 16 + pkv_lane() / 4 + 8 * h;
            const float m = from[query], l = from[PKV__PREFILL_ROWS + query];
            if (pkv__prefill_is_empty(m, l)) continue;
            const float most = fmaxf(m, st.m[h]), base = most == -INFINITY ? 0.f : most;
            const float old = pkv_exp2((st.m[h] - base) * unit[h]);
            const float by = pkv_exp2((m - base) * unit[h]);
            st.m[h] = most;
            st.l[h] = st.l[h] * old + l * by;
            const float *const o = from + 2 * PKV__PREFILL_ROWS + query * S::D + pkv_lane() % 4 * 2;
            PKV_UNROLL
            for (int32_t j = 0; j < S::D / 8; j++) {
                const float2 x = pkv_ldv<float2>(o + 8 * j);
                st.o[j][2 * h] = st.o[j][2 * h] * old + x.x * by;
                st.o[j][2 * h + 1] = st.o[j][2 * h + 1] * old + x.y * by;
            }
        }
    }
}

/* The part is in its slot; is it the item's last to come? Then all others are there, too. */
PKV_DEV bool pkv__prefill_arrive(const struct pkv__cuda_attn &a, const pkv__prefill_item &item,
                                 pkv__prefill_space *space)
{
    const uint32_t last = (uint32_t)item.n_parts - 1;
    pkv_syncthreads();
    if (pkv_thread() == 0)
        space->arrived = pkv_atomic_inc_acq_rel(&a.head->arrived[item.slot], last);
    pkv_syncthreads();
    const uint32_t before = space->arrived;
    pkv_syncthreads(); /* it is read, and may be written again */
    return before == last;
}

/* ---------------------------------------------------------------- rows */
/* The warp's rows of the output, through its place of Q in shared memory. */
template <class S>
PKV_DEV void pkv__prefill_put_rows(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                                   const unsigned char *q)
{
    constexpr int32_t LANES = S::D / 8, STEP = 32 / LANES;
    const int32_t chunk = pkv_lane() % LANES;
    pkv_syncwarp();
    PKV_UNROLL
    for (int32_t r = 0; r < 16; r += STEP) {
        const int32_t query = pkv_warp() * 16 + r + pkv_lane() / LANES;
        if (query >= w.n_queries || chunk * 8 >= a.out.dim) continue;
        const pkv__prefill_place at = pkv__prefill_place_of(w, query);
        pkv_stv(static_cast<uint16_t *>(a.out.data) +
                    (int64_t)(w.row0 + at.row) * a.out.row_stride + at.head * a.out.head_stride +
                    chunk * 8,
                pkv_ldv<uint4>(q + S::Rows::place(query, chunk)));
    }
    pkv_syncwarp();
}

/* to_logit: makes logits of m. */
template <class S>
PKV_DEV void pkv__prefill_finish(const struct pkv__cuda_attn &a, const pkv__prefill_work &w,
                                 const pkv__prefill_state<S> &st, const float (&to_logit)[2],
                                 unsigned char *q)
{
    const bool bf16 = a.out.dtype == PKV_BF16;
    PKV_UNROLL
    for (int32_t h = 0; h < 2; h++) {
        const int32_t query = pkv_warp() * 16 + pkv_lane() / 4 + 8 * h;
        const bool here = query < w.n_queries;
        const pkv__prefill_place at = pkv__prefill_place_of(w, here ? query : 0);
        const float sink = a.opts.sink ? pkv_ldv_const<float>(a.opts.sink + at.head) : -INFINITY;
        constexpr float UNIT = 1.f / PKV_P_UNIT<typename S::T>;
        const pkv__row_end end = pkv__end_of_row(st.m[h] * to_logit[h], st.l[h] * UNIT, sink);
        if (here && a.lse.data && pkv_lane() % 4 == 0)
            pkv__put_lse(a.lse, (int64_t)w.row0 + at.row, at.head, end.lse);
        const float by = end.by * UNIT;
        const bool empty = pkv__prefill_is_empty(st.m[h], st.l[h]);
        PKV_UNROLL
        for (int32_t j = 0; j < S::D / 8; j++) {
            const float lo = empty ? 0.f : st.o[j][2 * h] * by;
            const float hi = empty ? 0.f : st.o[j][2 * h + 1] * by;
            pkv_stv(q + S::Rows::place(query, j) + pkv_lane() % 4 * 4,
                    bf16 ? pkv_pack2<__nv_bfloat16>(lo, hi) : pkv_pack2<__half>(lo, hi));
        }
    }
    pkv__prefill_put_rows<S>(a, w, q);
}

#endif
