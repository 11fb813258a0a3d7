/* Merge of partial results over disjoint key sets (arXiv 2501.01005, section 2.2).
 *
 *   unit   one (row, head): lanes next to each other, 16 bytes of a state each, as many as its dim
 *          takes, rounded up to a power of two. A dim of more than 512 bytes goes over its lanes
 *          twice
 *   warp   32 / lanes units next to each other; warps take such groups in turn
 *
 * Each lane reads every lse of its unit and, of the states that count, its own elements, and stores
 * these. So out may lie on o[0]: a lane reads what it overwrites, and nobody else does. lse are
 * read by all lanes of a unit: the result is stored when all lanes of the warp are past their
 * reads. No shared memory. Limited by bandwidth. */
#include "kernels/cuda/pkv_dev.cuh"
#include "kernels/cuda/states_merge.h"

#include <math.h>

namespace
{

constexpr int32_t n_threads = PKV__STATES_MERGE_THREADS;
constexpr int32_t n_under_way = 4; /* states whose elements are loaded before any is used */
constexpr float log2e = 1.44269504088896340736f, ln2 = 0.69314718055994530942f;

template <class T> constexpr int32_t lane_elems = 16 / (int32_t)sizeof(T);

/* 16 bytes of a state, and its elements. */
PKV_DEV void unpack(float (&x)[4], float4 loaded)
{
    x[0] = loaded.x;
    x[1] = loaded.y;
    x[2] = loaded.z;
    x[3] = loaded.w;
}
template <class T> struct halves {
    uint4 words;
};
template <class T> PKV_DEV void unpack(float (&x)[8], halves<T> loaded)
{
    const uint32_t words[4] = { loaded.words.x, loaded.words.y, loaded.words.z, loaded.words.w };
    PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        const float2 pair = pkv_unpack2<T>(words[i]);
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
    }
}
PKV_DEV float4 load_elems(const float *p)
{
    return pkv_ldv<float4>(p);
}
template <class T> PKV_DEV halves<T> load_elems(const T *p)
{
    return { pkv_ldv<uint4>(p) };
}

/* N elements, 4 or 8, at dst: aligned to what they take, 16 bytes at most. */
template <class T, int32_t N> PKV_DEV void store_halves(void *dst, const float (&x)[N])
{
    uint32_t words[N / 2];
    PKV_UNROLL
    for (int32_t i = 0; i < N / 2; i++) words[i] = pkv_pack2<T>(x[2 * i], x[2 * i + 1]);
    if constexpr (N == 8) pkv_stv(dst, make_uint4(words[0], words[1], words[2], words[3]));
    else pkv_stv(dst, make_uint2(words[0], words[1]));
}

template <int32_t N>
PKV_DEV void store_row(void *row, int32_t dtype, int64_t elem, const float (&x)[N])
{
    if (dtype == PKV_F16) {
        store_halves<__half>(static_cast<__half *>(row) + elem, x);
    } else if (dtype == PKV_BF16) {
        store_halves<__nv_bfloat16>(static_cast<__nv_bfloat16 *>(row) + elem, x);
    } else {
        PKV_UNROLL
        for (int32_t i = 0; i < N; i += 4)
            pkv_stv(static_cast<float *>(row) + elem + i,
                    make_float4(x[i], x[i + 1], x[i + 2], x[i + 3]));
    }
}

/* Which (row, head), and which of its lanes this is. */
struct place {
    int64_t row;
    int32_t head, first_elem;
};

PKV_DEV float lse_at(const pkv__cuda_merge &m, const place &at, int32_t s)
{
    const pkv__cuda_state &state = m.states[s];
    return state.lse[at.row * state.lse_row_stride + at.head * state.lse_head_stride];
}

/* The largest lse; NaN if there is one. */
PKV_DEV float largest(const pkv__cuda_merge &m, const place &at)
{
    float most = -INFINITY;
    for (int32_t s = 0; s < m.n_states; s++) {
        const float z = lse_at(m, at, s);
        if (!(z <= most) && most == most) most = z;
    }
    return most;
}

/* sum of w_s o_s over this lane's elements from `elem` on, and of w_s. A state with lse -inf is
 * not read; there is one that counts. */
template <class T>
PKV_DEV float sum_states(const pkv__cuda_merge &m, const place &at, int32_t elem, float most,
                         float (&sum)[lane_elems<T>])
{
    const float to_log2 = m.base2 ? 1.f : log2e;
    float weights = 0.f;
    PKV_UNROLL
    for (int32_t d = 0; d < lane_elems<T>; d++) sum[d] = 0.f;
    for (int32_t first = 0; first < m.n_states; first += n_under_way) {
        decltype(load_elems(static_cast<const T *>(nullptr))) loaded[n_under_way];
        float lse[n_under_way];
        PKV_UNROLL
        for (int32_t i = 0; i < n_under_way; i++) {
            lse[i] = first + i < m.n_states ? lse_at(m, at, first + i) : -INFINITY;
            loaded[i] = {};
            if (lse[i] == -INFINITY) continue;
            const pkv__cuda_state &state = m.states[first + i];
            loaded[i] = load_elems(static_cast<const T *>(state.o) + at.row * state.row_stride +
                                   at.head * state.head_stride + elem);
        }
        PKV_UNROLL
        for (int32_t i = 0; i < n_under_way; i++) {
            float o[lane_elems<T>];
            if (lse[i] == -INFINITY) continue;
            const float weight = pkv_exp2((lse[i] - most) * to_log2);
            unpack(o, loaded[i]);
            weights += weight;
            PKV_UNROLL
            for (int32_t d = 0; d < lane_elems<T>; d++) sum[d] = fmaf(weight, o[d], sum[d]);
        }
    }
    return weights;
}

/* The lane's elements of its unit; lse of the result. One state that counts comes out bit by bit:
 * its weight is 1, and the logarithm, an approximation, is not asked. */
template <class T> PKV_DEV float merge_lane(const pkv__cuda_merge &m, const place &at, int32_t step)
{
    char *const out_row = static_cast<char *>(m.out);
    const int64_t out_at = at.row * m.row_stride + at.head * m.head_stride;
    const float most = largest(m, at);
    float weights = 0.f;
    for (int32_t elem = at.first_elem; elem < m.dim; elem += step) {
        float sum[lane_elems<T>] = {};
        if (most != -INFINITY) {
            weights = sum_states<T>(m, at, elem, most, sum);
            const float scale = 1.f / weights;
            PKV_UNROLL
            for (int32_t d = 0; d < lane_elems<T>; d++) sum[d] *= scale;
        }
        store_row(out_row, m.out_dtype, out_at + elem, sum);
    }
    if (most == -INFINITY || weights == 1.f) return most;
    return most + pkv_log2(weights) * (m.base2 ? 1.f : ln2);
}

template <class T> PKV_GLOBAL(n_threads) states_merge_kernel(const pkv__cuda_merge m)
{
    int32_t lanes = 1; /* of a unit */
    while (lanes < 32 && lanes * lane_elems<T> < m.dim) lanes *= 2;
    const int32_t per_warp = 32 / lanes, lane = pkv_lane() % lanes;
    const int64_t n_units = m.n_rows * m.n_heads;
    const int64_t n_warps = (int64_t)pkv_n_blocks() * (n_threads / 32);
    int64_t group = (int64_t)pkv_block() * (n_threads / 32) + pkv_warp();
    for (; group * per_warp < n_units; group += n_warps) {
        const int64_t unit = group * per_warp + pkv_lane() / lanes;
        const place at = { unit / m.n_heads, (int32_t)(unit % m.n_heads), lane * lane_elems<T> };
        float lse = 0.f;
        const bool mine = unit < n_units;
        if (mine) lse = merge_lane<T>(m, at, lanes * lane_elems<T>);
        pkv_syncwarp();
        if (mine && lane == 0 && m.out_lse)
            m.out_lse[at.row * m.lse_row_stride + at.head * m.lse_head_stride] = lse;
    }
}

template <class T> int prepare(struct pkv__kernel_cost *cost)
{
    return PKV_PREPARE(states_merge_kernel<T>, n_threads, 0, cost);
}
template <class T> int launch(const void *merge, int64_t n_ctas, void *stream)
{
    return PKV_LAUNCH(states_merge_kernel<T>, n_ctas, n_threads, 0, stream,
                      *static_cast<const pkv__cuda_merge *>(merge));
}

} // namespace

extern "C" int pkv__states_merge_f32_prepare(struct pkv__kernel_cost *cost)
{
    return prepare<float>(cost);
}
extern "C" int pkv__states_merge_f32_launch(const void *merge, int64_t n_ctas, void *stream)
{
    return launch<float>(merge, n_ctas, stream);
}
extern "C" int pkv__states_merge_f16_prepare(struct pkv__kernel_cost *cost)
{
    return prepare<__half>(cost);
}
extern "C" int pkv__states_merge_f16_launch(const void *merge, int64_t n_ctas, void *stream)
{
    return launch<__half>(merge, n_ctas, stream);
}
extern "C" int pkv__states_merge_bf16_prepare(struct pkv__kernel_cost *cost)
{
    return prepare<__nv_bfloat16>(cost);
}
extern "C" int pkv__states_merge_bf16_launch(const void *merge, int64_t n_ctas, void *stream)
{
    return launch<__nv_bfloat16>(merge, n_ctas, stream);
}
