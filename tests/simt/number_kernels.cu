/* Numbers: approximations, and conversions between float and 16 bits. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_kernels.h"

namespace
{

PKV_GLOBAL(32) numbers_kernel(float *out, const float *in)
{
    const int32_t i = pkv_block() * 32 + pkv_thread();
    const float x = in[i];
    const float2 f16 = pkv_unpack2<__half>(pkv_pack2<__half>(x, -x));
    const float2 bf16 = pkv_unpack2<__nv_bfloat16>(pkv_pack2<__nv_bfloat16>(x, -x));
    pkv_stv(out + 8 * i, make_float4(pkv_exp2(x), pkv_log2(x), pkv_rcp(x), pkv_rsqrt(x)));
    pkv_stv(out + 8 * i + 4, make_float4(f16.x, f16.y, bf16.x, bf16.y));
}

PKV_GLOBAL(32) exact_kernel(float *out, const float *in)
{
    const int32_t i = pkv_block() * 32 + pkv_thread();
    const float x = in[2 * i], y = in[2 * i + 1];
    const float turned = pkv_float_of_bits(pkv_float_bits(x) ^ 0x80000000u);
    pkv_stv(out + 4 * i,
            make_float4(pkv_add_rn(pkv_mul_rn(x, y), y), pkv_div_rn(x, y), pkv_sqrt_rn(x), turned));
}

} // namespace

extern "C" int run_numbers(float *out, const float *in, int n)
{
    return PKV_LAUNCH(numbers_kernel, n / 32, 32, 0, nullptr, out, in);
}
extern "C" int run_exact(float *out, const float *in, int n)
{
    return PKV_LAUNCH(exact_kernel, n / 32, 32, 0, nullptr, out, in);
}
