/* States of a decode kernel put together, always in ascending order of keys: those of the warps of
 * a CTA, of the CTAs that share an item, of the chunks of a sequence; and rows finished.
 *
 *   warps -> scratch in shared memory -> one state: finished, or left in a slot of the workspace
 *   slots of the CTAs of an item -> whoever arrives last -> finished
 *
 * A thread has one column and 8 dims of it at a time. */
#ifndef PKV_ATTN_DECODE_STATES_CUH
#define PKV_ATTN_DECODE_STATES_CUH

#include "kernels/cuda/attn_decode_queries.cuh"

/* Eight dims of a column. */
struct pkv__piece {
    float o[8];
    float m, l;
};

/* ---------------------------------------------------------------- finished rows */
PKV_DEV void pkv__write_out(const struct pkv__cuda_attn &a, int64_t row, int32_t head,
                            int32_t piece, const float (&o)[8])
{
    uint16_t *to = static_cast<uint16_t *>(a.out.data) + row * a.out.row_stride +
                   head * a.out.head_stride + piece * 8;
    if (a.out.dtype == PKV_F16) pkv_stv(to, pkv__pack8<__half>(o));
    else pkv_stv(to, pkv__pack8<__nv_bfloat16>(o));
}

/* Normalise, add the sink, round and write. P_BITS: what weights are scaled by. */
PKV_DEV void pkv__finish(const struct pkv__cuda_attn &a, int64_t row, int32_t head, int32_t piece,
                         pkv__piece &state, int32_t p_bits)
{
    const float sink = a.opts.sink ? a.opts.sink[head] : PKV_NEG_INF, unit = pkv__pow2(-p_bits);
    const pkv__row_end end = pkv__end_of_row(state.m, state.l * unit, sink);
    const bool empty = state.l == 0;
    PKV_UNROLL
    for (int32_t i = 0; i < 8; i++) state.o[i] = empty ? 0 : state.o[i] * (end.by * unit);
    if (piece * 8 < a.out.dim) pkv__write_out(a, row, head, piece, state.o);
    if (a.lse.data && piece == 0) pkv__put_lse(a.lse, row, head, end.lse);
}

/* ---------------------------------------------------------------- slots */
/* Adds one state to a piece: what `slot` has of column c, whose largest logit is m. */
PKV_DEV void pkv__add_state(pkv__piece &to, const float *o, float m, float l, float largest)
{
    const float finite = largest == PKV_NEG_INF ? 0 : largest, w = pkv__weight(m - finite, 0);
    const float4 lo = pkv_ldv<float4>(o), hi = pkv_ldv<float4>(o + 4);
    const float more[8] = { lo.x, lo.y, lo.z, lo.w, hi.x, hi.y, hi.z, hi.w };
    to.l += w * l;
    PKV_UNROLL
    for (int32_t i = 0; i < 8; i++) to.o[i] += w * more[i];
}
PKV_DEV pkv__piece pkv__no_state(float largest)
{
    return { { 0, 0, 0, 0, 0, 0, 0, 0 }, largest, 0 };
}

/* ---------------------------------------------------------------- warps */
/* Over the eight lanes that share columns. */
PKV_DEV float pkv__sum_of_rows(float x)
{
    x += pkv_shfl_xor(x, 4);
    x += pkv_shfl_xor(x, 8);
    return x + pkv_shfl_xor(x, 16);
}

/* A warp's state to the scratch: o [WARPS][COLUMNS][O_PITCH], m and l [WARPS][COLUMNS]. */
template <class Shape>
PKV_DEV void pkv__leave_warp_state(pkv__decode_state<Shape> &state, float *scratch)
{
    using Store = typename Shape::Store;
    constexpr int32_t WARP_O = Shape::COLUMNS * Shape::O_PITCH;
    const int32_t g = pkv_lane() / 4, t = pkv_lane() % 4;
    float *const o = scratch + pkv_warp() * WARP_O;
    float *const m = scratch + Shape::WARPS * WARP_O + pkv_warp() * Shape::COLUMNS;
    float *const l = m + Shape::WARPS * Shape::COLUMNS;
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            const int32_t c = 8 * n + 2 * t + e;
            const float sum = pkv__sum_of_rows(state.l[n][e]);
            float zeros = 0, unit = 1;
            if constexpr (Store::HAS_ZEROS) zeros = pkv__sum_of_rows(state.zeros.sum[n][e]);
            if constexpr (Store::IS_CODES) unit = pkv__unit_inverse(state.units.over[n][e]);
            if (g == 0) {
                m[c] = sum == 0 ? PKV_NEG_INF : state.m[n][e];
                l[c] = sum;
            }
            PKV_UNROLL
            for (int32_t f = 0; f < Shape::N_FRAGS; f++) {
                float *const at = o + c * Shape::O_PITCH + f / Store::N_FRAGS * Store::STEP_DIMS;
                at[Store::v_dim(f % Store::N_FRAGS, g)] =
                    (state.o[n][f][e] - zeros) * Store::unit() * unit;
                at[Store::v_dim(f % Store::N_FRAGS, g + 8)] =
                    (state.o[n][f][2 + e] - zeros) * Store::unit() * unit;
            }
        }
    }
}

/* Eight dims of column c of all warps. */
template <class Shape>
PKV_DEV pkv__piece pkv__merge_warps(const float *scratch, int32_t c, int32_t piece)
{
    constexpr int32_t WARP_O = Shape::COLUMNS * Shape::O_PITCH;
    const float *const m = scratch + Shape::WARPS * WARP_O + c;
    const float *const l = m + Shape::WARPS * Shape::COLUMNS;
    float largest = PKV_NEG_INF;
    PKV_UNROLL
    for (int32_t w = 0; w < Shape::WARPS; w++) largest = fmaxf(largest, m[w * Shape::COLUMNS]);
    pkv__piece sum = pkv__no_state(largest);
    PKV_UNROLL
    for (int32_t w = 0; w < Shape::WARPS; w++)
        pkv__add_state(sum, scratch + w * WARP_O + c * Shape::O_PITCH + piece * 8,
                       m[w * Shape::COLUMNS], l[w * Shape::COLUMNS], largest);
    return sum;
}

/* ---------------------------------------------------------------- workspace */
template <class Shape>
PKV_DEV void pkv__leave_slot(float *slot, int32_t c, int32_t piece, const pkv__piece &state)
{
    float *const o = slot + c * Shape::D + piece * 8;
    pkv_stv(o, make_float4(state.o[0], state.o[1], state.o[2], state.o[3]));
    pkv_stv(o + 4, make_float4(state.o[4], state.o[5], state.o[6], state.o[7]));
    if (piece > 0) return;
    slot[Shape::COLUMNS * Shape::D + c] = state.m;
    slot[Shape::COLUMNS * (Shape::D + 1) + c] = state.l;
}

/* Slots first, then + step, ... n in all: eight dims of column c. */
template <class Shape>
PKV_DEV void pkv__merge_slots(pkv__piece &sum, const float *first, int64_t step, int32_t n,
                              int32_t c, int32_t piece)
{
    for (int32_t i = 0; i < n; i++) {
        const float *slot = first + i * step;
        pkv__add_state(sum, slot + c * Shape::D + piece * 8, slot[Shape::COLUMNS * Shape::D + c],
                       slot[Shape::COLUMNS * (Shape::D + 1) + c], sum.m);
    }
}
template <class Shape>
PKV_DEV float pkv__largest_of_slots(float largest, const float *first, int64_t step, int32_t n,
                                    int32_t c)
{
    for (int32_t i = 0; i < n; i++)
        largest = fmaxf(largest, first[i * step + Shape::COLUMNS * Shape::D + c]);
    return largest;
}

#endif
