/* One instruction of the tensor cores per kernel. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_kernels.h"

namespace
{

template <class T>
PKV_GLOBAL(32)
mma_kernel(float *d, const uint32_t *a, const uint32_t *b, const float *c)
{
    const int32_t lane = pkv_lane();
    uint32_t fa[4], fb[2];
    float fd[4];
    for (int32_t i = 0; i < 4; i++) {
        fa[i] = a[4 * lane + i];
        fd[i] = c[4 * lane + i];
    }
    for (int32_t i = 0; i < 2; i++) fb[i] = b[2 * lane + i];
    pkv_mma16816<T>(fd, fa, fb[0], fb[1]);
    for (int32_t i = 0; i < 4; i++) d[4 * lane + i] = fd[i];
}

/* n matrices of 8 rows; row r of all of them lies at byte 48 * (r * 5 % 32), so that no address
 * follows from another one. Lanes without a row pass an address that must not be looked at. */
template <int N, bool TRANS> PKV_GLOBAL(32) ldmatrix_kernel(uint32_t *out, const uint16_t *in)
{
    PKV_DEV_SHARED_DYN(uint16_t, shared);
    const int32_t lane = pkv_lane();
    uint16_t *row = shared + 24 * (lane * 5 % 32);
    if (lane < 8 * N)
        for (int32_t i = 0; i < 8; i++) row[i] = in[8 * lane + i];
    pkv_syncwarp();
    uint32_t r[N];
    const void *address = lane < 8 * N ? row : shared + 1;
    if constexpr (N == 1 && !TRANS) pkv_ldm_x1(r, address);
    if constexpr (N == 2 && !TRANS) pkv_ldm_x2(r, address);
    if constexpr (N == 4 && !TRANS) pkv_ldm_x4(r, address);
    if constexpr (N == 1 && TRANS) pkv_ldm_x1_trans(r, address);
    if constexpr (N == 2 && TRANS) pkv_ldm_x2_trans(r, address);
    if constexpr (N == 4 && TRANS) pkv_ldm_x4_trans(r, address);
    for (int32_t j = 0; j < N; j++) out[32 * j + lane] = r[j];
}

PKV_GLOBAL(32) movmatrix_kernel(uint32_t *out, const uint32_t *in)
{
    const uint32_t once = pkv_movmatrix_trans(in[pkv_lane()]);
    out[pkv_lane()] = once;
    out[32 + pkv_lane()] = pkv_movmatrix_trans(once);
}

template <int N> int run_ldmatrix_of(uint32_t *out, const uint16_t *in, int trans)
{
    if (trans) return PKV_LAUNCH((ldmatrix_kernel<N, true>), 1, 32, 48 * 32, nullptr, out, in);
    return PKV_LAUNCH((ldmatrix_kernel<N, false>), 1, 32, 48 * 32, nullptr, out, in);
}

} // namespace

extern "C" {

int run_mma(float *d, const uint32_t *a, const uint32_t *b, const float *c, int bf16)
{
    if (bf16) return PKV_LAUNCH((mma_kernel<__nv_bfloat16>), 1, 32, 0, nullptr, d, a, b, c);
    return PKV_LAUNCH((mma_kernel<__half>), 1, 32, 0, nullptr, d, a, b, c);
}

int run_ldmatrix(uint32_t *out, const uint16_t *in, int n, int trans)
{
    if (n == 1) return run_ldmatrix_of<1>(out, in, trans);
    if (n == 2) return run_ldmatrix_of<2>(out, in, trans);
    return run_ldmatrix_of<4>(out, in, trans);
}

int run_movmatrix(uint32_t *out, const uint32_t *in)
{
    return PKV_LAUNCH(movmatrix_kernel, 1, 32, 0, nullptr, out, in);
}
}
