/* Kernels whose requests to memory can be counted by hand. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_kernels.h"

namespace
{

PKV_GLOBAL(32) strides_kernel(float *out, const float *in, int32_t stride, int32_t n_rounds)
{
    PKV_DEV_SHARED(float, s, 2048);
    float x = 0;
    for (int32_t round = 0; round < n_rounds; round++) {
        const int32_t i = pkv_lane() * stride;
        x += pkv_ldv<float>(in + i); /* here: global load */
        pkv_stv(s + i, x);           /* here: shared store */
        pkv_syncwarp();
        x += pkv_ldv<float>(s + i); /* here: shared load */
        pkv_syncwarp();
    }
    out[pkv_lane()] = x;
}

PKV_GLOBAL(32) vectors_kernel(float *out, const float *in, int32_t stride)
{
    PKV_DEV_SHARED(float4, s, 128);
    const int32_t i = pkv_lane() * stride;
    float4 x = pkv_ldv<float4>(in + 4 * i); /* here: global load16 */
    x.w += 1;          /* nvcc gives a plain copy's load the line of its store */
    pkv_stv(s + i, x); /* here: shared store16 */
    pkv_syncwarp();
    x = pkv_ldv<float4>(s + i);              /* here: shared load16 */
    out[pkv_lane()] = x.x + x.y + x.z + x.w; /* of fewer, it would load fewer bytes */
}

PKV_GLOBAL(32) ldmatrix_pitch_kernel(uint32_t *out, int32_t pitch)
{
    PKV_DEV_SHARED_DYN(uint8_t, s);
    uint8_t *row = s + pitch * pkv_lane();
    uint32_t r[4];
    pkv_stv(row, make_uint4(1, 2, 3, 4));
    pkv_syncwarp();
    pkv_ldm_x4(r, row);                                                   /* here: ldmatrix */
    if (pkv_lane() < 16) out[pkv_lane()] = r[0] + pkv_ldv<uint32_t>(row); /* here: half */
}

PKV_GLOBAL(32) counted_copy_kernel(float *out, const float *in)
{
    PKV_DEV_SHARED(float, s, 128);
    pkv_cp_async16(&s[4 * pkv_lane()], in + 4 * pkv_lane()); /* here: copy */
    pkv_cp_commit();
    pkv_cp_wait<0>();
    out[pkv_lane()] = s[4 * pkv_lane()];
}

/* Lanes that do not wait for each other: each makes all its visits before the next one begins. */
PKV_GLOBAL(32) apart_kernel(float *out, const float *in, int32_t n_rounds)
{
    PKV_DEV_SHARED(float, s, 32);
    float x = 0;
    for (int32_t round = 0; round < n_rounds; round++)
        x += pkv_ldv<float>(in + 32 * round + pkv_lane()); /* here: apart */
    pkv_stv(s + pkv_lane(), x);
    pkv_syncwarp();
    x = pkv_ldv<float>(s + 7);               /* here: one word */
    x += pkv_ldv<float>(s + pkv_lane() / 2); /* here: pairs */
    out[pkv_lane()] = x;
}

} // namespace

extern "C" {

int run_apart(float *out, const float *in, int n_rounds)
{
    return PKV_LAUNCH(apart_kernel, 1, 32, 0, nullptr, out, in, n_rounds);
}

int run_strides(float *out, const float *in, int stride, int n_rounds)
{
    return PKV_LAUNCH(strides_kernel, 1, 32, 0, nullptr, out, in, stride, n_rounds);
}

int run_vectors(float *out, const float *in, int stride)
{
    return PKV_LAUNCH(vectors_kernel, 1, 32, 0, nullptr, out, in, stride);
}

int run_ldmatrix_pitch(uint32_t *out, int pitch)
{
    return PKV_LAUNCH(ldmatrix_pitch_kernel, 1, 32, (size_t)(pitch * 32), nullptr, out, pitch);
}

int run_counted_copy(float *out, const float *in)
{
    return PKV_LAUNCH(counted_copy_kernel, 1, 32, 0, nullptr, out, in);
}
}
