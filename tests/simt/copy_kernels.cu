/* Kernels that copy with cp.async. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_kernels.h"

namespace
{

/* Thread t copies t % 17 bytes; the rest of its 16 has to become zeros. */
PKV_GLOBAL(64) zero_fill_kernel(uint8_t *out, const uint8_t *in)
{
    PKV_DEV_SHARED_DYN(uint8_t, shared);
    const int32_t t = pkv_thread();
    pkv_cp_async16(shared + 16 * t, in + 16 * t, t % 17);
    pkv_cp_commit();
    pkv_cp_wait<0>();
    pkv_stv(out + 16 * t, pkv_ldv<uint4>(shared + 16 * t));
}

/* Nothing of `in` is read: it is no address at all. */
PKV_GLOBAL(32) no_source_kernel(uint8_t *out)
{
    PKV_DEV_SHARED_DYN(uint8_t, shared);
    const int32_t t = pkv_thread();
    pkv_cp_async16(shared + 16 * t, nullptr, 0);
    pkv_cp_commit();
    pkv_cp_wait<0>();
    pkv_stv(out + 16 * t, pkv_ldv<uint4>(shared + 16 * t));
}

/* Four groups of one copy each, the second one empty. Looks at what has landed after each wait,
 * which only the builds without a race detector survive. */
PKV_GLOBAL(32) groups_kernel(uint32_t *out, const uint32_t *in)
{
    PKV_DEV_SHARED(uint4, shared, 3 * 32);
    const int32_t t = pkv_thread();
    for (int32_t i = 0; i < 3; i++) shared[32 * i + t] = make_uint4(1, 1, 1, 1);
    pkv_cp_async16(&shared[t], in + 4 * t);
    pkv_cp_commit();
    pkv_cp_commit();
    pkv_cp_async16(&shared[32 + t], in + 128 + 4 * t);
    pkv_cp_commit();
    pkv_cp_async16(&shared[64 + t], in + 256 + 4 * t);
    pkv_cp_commit();
    uint32_t *mine = out + 12 * t;
    pkv_cp_wait<4>();
    for (int32_t i = 0; i < 3; i++) mine[i] = shared[32 * i + t].x;
    pkv_cp_wait<2>();
    for (int32_t i = 0; i < 3; i++) mine[3 + i] = shared[32 * i + t].x;
    pkv_cp_wait<1>();
    for (int32_t i = 0; i < 3; i++) mine[6 + i] = shared[32 * i + t].x;
    pkv_cp_wait<0>();
    for (int32_t i = 0; i < 3; i++) mine[9 + i] = shared[32 * i + t].x;
}

/* A ring of two tiles, as the attention kernels have it: the warp sums every row of `in`. */
PKV_GLOBAL(32) ring_kernel(float *out, const float *in, int32_t n_tiles)
{
    PKV_DEV_SHARED(float, ring, 2 * 128);
    const int32_t t = pkv_thread();
    float sum = 0;
    pkv_cp_async16(&ring[4 * t], in + 4 * t);
    pkv_cp_commit();
    for (int32_t tile = 0; tile < n_tiles; tile++) {
        if (tile + 1 < n_tiles)
            pkv_cp_async16(&ring[(tile + 1) % 2 * 128 + 4 * t], in + (tile + 1) * 128 + 4 * t);
        pkv_cp_commit();
        pkv_cp_wait<1>();
        pkv_syncwarp();
        for (int32_t i = 0; i < 4; i++) sum += ring[tile % 2 * 128 + 32 * i + t];
        pkv_syncwarp();
    }
    pkv_cp_wait<0>();
    out[t] = pkv_warp_sum(sum);
}

} // namespace

extern "C" {

int run_zero_fill(uint8_t *out, const uint8_t *in)
{
    return PKV_LAUNCH(zero_fill_kernel, 1, 64, 1024, nullptr, out, in);
}

int run_no_source(uint8_t *out)
{
    return PKV_LAUNCH(no_source_kernel, 1, 32, 512, nullptr, out);
}

int run_groups(uint32_t *out, const uint32_t *in)
{
    return PKV_LAUNCH(groups_kernel, 1, 32, 0, nullptr, out, in);
}

int run_ring(float *out, const float *in, int n_tiles)
{
    return PKV_LAUNCH(ring_kernel, 1, 32, 0, nullptr, out, in, n_tiles);
}
}
