/* New rows of K and V into their slots, and queries made ready, in one launch.
 *
 *   16 bytes a lane -> float [-> shared memory: norm, rotation] -> codes -> 16 bytes a lane
 *
 * Bits are those of the CPU: sums of the norm are made in the order of row_math.h, scales and codes
 * by division, nothing is fused. */
#include "kernels/cuda/cuda_rows.h"
#include "kernels/cuda/row_memory.cuh"

namespace
{

constexpr int32_t n_warps = PKV__CUDA_ROW_THREADS / 32;

/* Floats of shared memory that a warp needs: rows of 8 elements a lane, and between them as many
 * more as there are lanes, so that lanes of different rows meet different banks; multiples of 16
 * bytes, which is 12 floats for 32 rows of one lane. */
constexpr int32_t warp_floats = 32 * 12;

/* Where a row is while it is changed. */
struct shared_row {
    float *x;       /* of this lane's row */
    float *of_warp; /* of row 0 */
    int32_t pitch;  /* floats from row to row */
};
PKV_DEV shared_row row_in_shared(float *of_warp, const pkv__lane_place &lane, int32_t lane_bits)
{
    const int32_t lanes = 1 << lane_bits, pitch = 8 * lanes + (lanes < 4 ? 4 : lanes);
    return { of_warp + lane.row * pitch, of_warp, pitch };
}

/* The chunk of a lane to shared memory, once nobody reads there any more, and all of them back. */
PKV_DEV void put_chunk(const shared_row &row, int32_t chunk, const float (&x)[PKV__CHUNK])
{
    pkv_syncwarp();
    pkv__store_floats(reinterpret_cast<char *>(row.x + 8 * chunk), x);
    pkv_syncwarp();
}

/* x_d *= w_d / sqrt(mean of x^2 + eps). The sixteen sums of squares over d % 16 are made by sixteen
 * lanes, two rows at a time, and added up as the CPU does: d and d + 8, 4, 2, 1 apart. */
PKV_DEV void norm_rows(const shared_row &row, const pkv__lane_place &lane, const float *weights,
                       int32_t dim, float eps, float (&x)[PKV__CHUNK])
{
    float mine = 0.f;
    put_chunk(row, lane.chunk, x);
    for (int32_t first = 0; first < lane.n_rows; first += 2) {
        const int32_t of = first + pkv_lane() / 16;
        float sum = 0.f;
        for (int32_t d = pkv_lane() % 16; d < dim && of < lane.n_rows; d += 16) {
            const float value = row.of_warp[of * row.pitch + d];
            sum = pkv_add_rn(sum, pkv_mul_rn(value, value));
        }
        PKV_UNROLL
        for (int32_t apart = 8; apart > 0; apart /= 2)
            sum = pkv_add_rn(sum, pkv_shfl_xor(sum, apart));
        const float mine_now = pkv_shfl(sum, lane.row % 2 * 16);
        if (lane.row - lane.row % 2 == first) mine = mine_now;
    }
    const float mean = pkv_div_rn(mine, (float)dim);
    const float factor = pkv_div_rn(1.f, pkv_sqrt_rn(pkv_add_rn(mean, eps)));
    if (8 * lane.chunk >= dim) return;
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) {
        const float w = pkv_ldv_const<float>(weights + 8 * lane.chunk + i);
        x[i] = pkv_mul_rn(pkv_mul_rn(x[i], factor), w);
    }
}

/* Each pair is one lane's. `turn`: cos of pair i at [i], sin at [n_pairs + i]. */
PKV_DEV void rotate_rows(const shared_row &row, const pkv__lane_place &lane, const float *turn,
                         int32_t n_pairs, bool interleaved, float (&x)[PKV__CHUNK])
{
    put_chunk(row, lane.chunk, x);
    for (int32_t i = lane.chunk; i < n_pairs; i += 32 / lane.n_rows) {
        float *const at_a = row.x + (interleaved ? 2 * i : i);
        float *const at_b = interleaved ? at_a + 1 : at_a + n_pairs;
        const float a = *at_a, b = *at_b;
        const float cos = pkv_ldv_const<float>(turn + i);
        const float sin = pkv_ldv_const<float>(turn + n_pairs + i);
        *at_a = pkv_add_rn(pkv_mul_rn(a, cos), -pkv_mul_rn(b, sin));
        *at_b = pkv_add_rn(pkv_mul_rn(a, sin), pkv_mul_rn(b, cos));
    }
    pkv_syncwarp();
    pkv__load_floats(reinterpret_cast<const char *>(row.x + 8 * lane.chunk), x);
}

/* Rows of one token of one tensor on their way. */
struct unit_t {
    int64_t token, slot;
    pkv__slot_place to;
    const float *turn; /* row of the table, or NULL */
    float *shared;     /* of this warp */
};

/* Where this lane's elements of row `head` come from. */
PKV_DEV const char *source_of(const pkv__cuda_row_set &s, const unit_t &u,
                              const pkv__lane_place &lane, int32_t head)
{
    return pkv__elem_at(s.from.data, s.from.dtype,
                        u.token * s.from.row_stride + head * s.from.head_stride + 8 * lane.chunk);
}

/* The row of head `head` in float, ready but for rounding; zeros where this lane has none. */
PKV_DEV void make_row(const pkv__cuda_kv_write &p, const pkv__cuda_row_set &s, const unit_t &u,
                      const pkv__lane_place &lane, int32_t head, bool has, float (&x)[PKV__CHUNK])
{
    PKV_UNROLL
    for (int32_t i = 0; i < PKV__CHUNK; i++) x[i] = 0.f;
    if (has) pkv__load_values(s.from.dtype, source_of(s, u, lane, head), x);
    const shared_row row = row_in_shared(u.shared, lane, s.lane_bits);
    if (s.norm) norm_rows(row, lane, s.norm, s.from.dim, p.norm_eps, x);
    if (s.turned) rotate_rows(row, lane, u.turn, p.rot_dim / 2, p.interleaved, x);
}

/* Over the lanes of a row, or over all of the warp. */
PKV_DEV void reduce_extremes(int32_t lane_bits, float &lo, float &hi)
{
    for (int32_t apart = 1; apart < 1 << lane_bits; apart *= 2) {
        lo = fminf(lo, pkv_shfl_xor(lo, apart));
        hi = fmaxf(hi, pkv_shfl_xor(hi, apart));
    }
}

/* Scale and zero point of a head: computed over its row or its token, or as they come. */
PKV_DEV pkv__scale_zero row_scale(const pkv__cuda_row_set &s, const unit_t &u,
                                  const pkv__lane_place &lane, int32_t head, bool has,
                                  const float (&x)[PKV__CHUNK], pkv__scale_zero of_token)
{
    pkv__scale_zero sz = of_token;
    if (!s.computed) {
        if (!has) return sz;
        sz.scale = pkv__scale_or(s.to.scales, 1.f, u.to.block, u.to.offset, head);
        sz.zero = pkv__scale_or(s.to.zeros, 0.f, u.to.block, u.to.offset, head);
        return sz;
    }
    if (!s.per_token) {
        float lo = INFINITY, hi = -INFINITY;
        if (has) pkv__extremes(x, lo, hi);
        reduce_extremes(s.lane_bits, lo, hi);
        sz = pkv__choose_scale(s.to.dtype, lo, hi);
    }
    if (has && lane.chunk == 0 && !(s.per_token && head > 0)) {
        pkv_stv(pkv__scale_of(s.to.scales, u.to.block, u.to.offset, head), sz.scale);
        if (s.to.dtype == PKV_U4)
            pkv_stv(pkv__scale_of(s.to.zeros, u.to.block, u.to.offset, head), sz.zero);
    }
    return sz;
}

/* Whether a NaN was met that the code cannot hold. x is used up. */
PKV_DEV bool store_codes(pkv_dtype dtype, char *to, float (&x)[PKV__CHUNK], pkv__scale_zero sz)
{
    uint32_t eight[1], words[2];
    pkv__divide(x, sz.scale);
    if (dtype == PKV_U4) {
        pkv__add_zero(x, sz.zero);
        pkv__encode<PKV_U4>(x, eight);
        pkv_stv(to, eight[0]);
        return pkv__any_nan(x);
    }
    if (dtype == PKV_E4M3) pkv__encode<PKV_E4M3>(x, words);
    else if (dtype == PKV_E5M2) pkv__encode<PKV_E5M2>(x, words);
    else pkv__encode<PKV_I8>(x, words);
    pkv_stv(to, make_uint2(words[0], words[1]));
    return dtype == PKV_I8 && pkv__any_nan(x);
}

/* ... and where they go. */
PKV_DEV char *place_of(const pkv__cuda_row_set &s, const unit_t &u, const pkv__lane_place &lane,
                       int32_t head)
{
    return pkv__elem_at(s.to.data, s.to.dtype,
                        u.to.block * s.to.block_stride + u.to.offset * s.to.token_stride +
                            head * s.to.head_stride + 8 * lane.chunk);
}

/* Heads are taken as many at a time as a warp has lanes for: unit `unit` is one such step, or,
 * where heads share a scale, all steps twice, first for the extremes. */
PKV_DEV void write_unit(const pkv__cuda_kv_write &p, const pkv__cuda_row_set &s, const unit_t &u,
                        int32_t unit)
{
    const pkv__lane_place lane = pkv__lane_of_rows(s.lane_bits);
    const int32_t n_steps = (s.from.n_heads + lane.n_rows - 1) / lane.n_rows;
    const bool as_it_is = s.to.dtype == s.from.dtype && !s.norm && !s.turned;
    const int32_t end = s.per_token ? n_steps : unit + 1;
    float lo = INFINITY, hi = -INFINITY;
    pkv__scale_zero of_token = { 1.f, 0.f };
    bool nan = false;
    for (int32_t step = s.per_token ? -n_steps : unit; step < end; step++) {
        const int32_t head = (step < 0 ? step + n_steps : step) * lane.n_rows + lane.row;
        const bool has = head < s.from.n_heads && 8 * lane.chunk < s.from.dim;
        float x[PKV__CHUNK];
        if (as_it_is) {
            if (has)
                pkv__copy_values(s.to.dtype, place_of(s, u, lane, head),
                                 source_of(s, u, lane, head));
            continue;
        }
        make_row(p, s, u, lane, head, has, x);
        if (step < 0) {
            if (has) pkv__extremes(x, lo, hi);
            if (step < -1) continue;
            reduce_extremes(5, lo, hi);
            of_token = pkv__choose_scale(s.to.dtype, lo, hi);
        } else if (s.to.dtype <= PKV_BF16) {
            if (has) pkv__store_values(s.to.dtype, place_of(s, u, lane, head), x);
        } else {
            const pkv__scale_zero sz = row_scale(s, u, lane, head, has, x, of_token);
            if (has) nan |= store_codes(s.to.dtype, place_of(s, u, lane, head), x, sz);
        }
    }
    if (pkv_any(nan) && pkv_lane() == 0) pkv__report_slot(p.bad, PKV_BAD_NAN_CODE, u.token, u.slot);
}

/* Does unit `unit` of the token have anything to do? The same for all lanes; unit 0, which every
 * call has, reports. */
PKV_DEV bool find_place(const pkv__cuda_kv_write &p, int32_t set, bool reports, unit_t &u)
{
    const pkv_kv_view &k = p.sets[PKV__CUDA_SET_K].to;
    const int64_t bt = k.block_tokens, slot = u.slot;
    if (slot < 0 && !p.with_q) return false;
    if (p.rope) {
        const int32_t pos = pkv_ldv_const<int32_t>(p.pos + u.token);
        if ((uint32_t)pos >= (uint32_t)p.n_rope_pos) {
            if (reports) pkv__report_slot(p.bad, PKV_BAD_POSITION, u.token, slot);
            return false;
        }
        u.turn = p.rope + (int64_t)pos * p.rot_dim;
    }
    if (set == PKV__CUDA_SET_Q) {
        u.to = { u.token, 0 };
        return true;
    }
    if (slot < 0) return false;
    if (slot < bt || slot >= k.n_blocks * bt) { /* the null block stays zero */
        if (reports) pkv__report_slot(p.bad, PKV_BAD_SLOT, u.token, slot);
        return false;
    }
    u.to = pkv__place_of_slot(slot, k.block_tokens);
    return true;
}

PKV_DEV int64_t valid_tokens(const pkv__cuda_kv_write &p)
{
    if (!p.n_valid) return p.n_tokens;
    const int64_t n = pkv_ldv_const<int32_t>(p.n_valid);
    return n < 0 ? 0 : n < p.n_tokens ? n : p.n_tokens;
}

/* Warps of the grid take the units of all tokens in turn: token by token, first those of K, then of
 * V, then of Q. Bound by memory, or by the division of codes. */
PKV_GLOBAL(PKV__CUDA_ROW_THREADS, 9) kv_write_kernel(const pkv__cuda_kv_write p)
{
    PKV_DEV_SHARED(float, shared, n_warps *warp_floats);
    const int32_t n_k = p.sets[PKV__CUDA_SET_K].n_units, n_v = p.sets[PKV__CUDA_SET_V].n_units;
    const int32_t n_units = n_k + n_v + p.sets[PKV__CUDA_SET_Q].n_units;
    const int32_t stride = pkv_n_blocks() * n_warps, at = pkv_block() * n_warps + pkv_warp();
    const int64_t n_tokens = valid_tokens(p);
    int64_t token = at / n_units;
    int32_t unit = at % n_units;
    while (token < n_tokens) {
        unit_t u = { token,
                     pkv_ldv_const<int64_t>(p.slots + token),
                     { 0, 0 },
                     nullptr,
                     shared + pkv_warp() * warp_floats };
        const int32_t set = unit < n_k         ? PKV__CUDA_SET_K
                            : unit < n_k + n_v ? PKV__CUDA_SET_V
                                               : PKV__CUDA_SET_Q;
        const int32_t before = set == PKV__CUDA_SET_K   ? 0
                               : set == PKV__CUDA_SET_V ? n_k
                                                        : n_k + n_v;
        if (find_place(p, set, unit == 0 && pkv_lane() == 0, u))
            write_unit(p, p.sets[set], u, unit - before);
        token += stride / n_units;
        unit += stride % n_units;
        if (unit >= n_units) unit -= n_units, token++;
    }
}

} // namespace

extern "C" int pkv__kv_write_prepare(struct pkv__kernel_cost *cost)
{
    return PKV_PREPARE(kv_write_kernel, PKV__CUDA_ROW_THREADS, 0, cost);
}
extern "C" int pkv__kv_write_launch(const void *params, int64_t n_ctas, void *stream)
{
    return PKV_LAUNCH(kv_write_kernel, n_ctas, PKV__CUDA_ROW_THREADS, 0, stream,
                      *static_cast<const pkv__cuda_kv_write *>(params));
}
