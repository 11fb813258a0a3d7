/* Rows out of a store, as values: the reverse of kv_write, with the bits of the CPU. */
#include "kernels/cuda/cuda_rows.h"
#include "kernels/cuda/row_memory.cuh"

namespace
{

constexpr int32_t n_warps = PKV__CUDA_ROW_THREADS / 32;

PKV_DEV void load_codes(pkv_dtype dtype, const char *at, float (&x)[PKV__CHUNK])
{
    if (dtype == PKV_U4) {
        const uint32_t eight[1] = { pkv_ldv<uint32_t>(at) };
        pkv__values<PKV_U4>(eight, x);
        return;
    }
    const uint2 v = pkv_ldv<uint2>(at);
    const uint32_t words[2] = { v.x, v.y };
    if (dtype == PKV_E4M3) pkv__values<PKV_E4M3>(words, x);
    else if (dtype == PKV_E5M2) pkv__values<PKV_E5M2>(words, x);
    else pkv__values<PKV_I8>(words, x);
}

/* One lane's elements of a row. */
PKV_DEV void gather_chunk(const pkv__cuda_kv_gather &p, pkv__slot_place from, int64_t row,
                          int32_t head, int32_t chunk)
{
    const pkv_kv_view &v = p.view;
    const char *const in = pkv__elem_at(v.data, v.dtype,
                                        from.block * v.block_stride + from.offset * v.token_stride +
                                            head * v.head_stride + 8 * chunk);
    char *const out = pkv__elem_at(p.out.data, p.out.dtype,
                                   row * p.out.row_stride + head * p.out.head_stride + 8 * chunk);
    float x[PKV__CHUNK];
    if (v.dtype == p.out.dtype) {
        pkv__copy_values(v.dtype, out, in);
        return;
    }
    if (v.dtype <= PKV_BF16) {
        pkv__load_values(v.dtype, in, x);
    } else {
        load_codes(v.dtype, in, x);
        pkv__scale_values(x, pkv__scale_or(v.scales, 1.f, from.block, from.offset, head),
                          pkv__scale_or(v.zeros, 0.f, from.block, from.offset, head));
    }
    pkv__store_values(p.out.dtype, out, x);
}

/* Warps of the grid take the units of all rows in turn: of one row of `out`, as many heads as a
 * warp has lanes for. Bound by memory. */
PKV_GLOBAL(PKV__CUDA_ROW_THREADS) kv_gather_kernel(const pkv__cuda_kv_gather p)
{
    const pkv__lane_place lane = pkv__lane_of_rows(p.lane_bits);
    const int32_t stride = pkv_n_blocks() * n_warps, at = pkv_block() * n_warps + pkv_warp();
    const int64_t end = (int64_t)p.view.n_blocks * p.view.block_tokens;
    int64_t row = at / p.n_units;
    int32_t unit = at % p.n_units;
    while (row < p.out.n_rows) {
        const int64_t slot = pkv_ldv_const<int64_t>(p.slots + row);
        const int32_t head = unit * lane.n_rows + lane.row;
        if (slot >= end) {
            if (unit == 0 && pkv_lane() == 0) pkv__report_slot(p.bad, PKV_BAD_SLOT, row, slot);
        } else if (slot >= 0 && head < p.out.n_heads && 8 * lane.chunk < p.out.dim) {
            gather_chunk(p, pkv__place_of_slot(slot, p.view.block_tokens), row, head, lane.chunk);
        }
        row += stride / p.n_units;
        unit += stride % p.n_units;
        if (unit >= p.n_units) unit -= p.n_units, row++;
    }
}

} // namespace

extern "C" int pkv__kv_gather_prepare(struct pkv__kernel_cost *cost)
{
    return PKV_PREPARE(kv_gather_kernel, PKV__CUDA_ROW_THREADS, 0, cost);
}
extern "C" int pkv__kv_gather_launch(const void *params, int64_t n_ctas, void *stream)
{
    return PKV_LAUNCH(kv_gather_kernel, n_ctas, PKV__CUDA_ROW_THREADS, 0, stream,
                      *static_cast<const pkv__cuda_kv_gather *>(params));
}
