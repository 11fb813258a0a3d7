/* Arithmetic of pkv_dev.cuh on the host: of registers alone. Included by pkv_dev_host.h, behind the
 * toolkit's headers. */
#ifndef PKV_DEV_NUMBERS_H
#define PKV_DEV_NUMBERS_H

#include <cmath>
#include <cstdint>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

/* ---------------------------------------------------------------- numbers in registers */
inline uint32_t pkv_e4m3x2_to_f16x2(uint16_t codes)
{
    const __half2_raw h = __nv_cvt_fp8x2_to_halfraw2(codes, __NV_E4M3);
    return h.x | (uint32_t)h.y << 16;
}
template <class T> uint32_t pkv_pack2(float lo, float hi);
template <> inline uint32_t pkv_pack2<__half>(float lo, float hi)
{
    return __half_as_ushort(__float2half_rn(lo)) | (uint32_t)__half_as_ushort(__float2half_rn(hi))
                                                       << 16;
}
template <> inline uint32_t pkv_pack2<__nv_bfloat16>(float lo, float hi)
{
    return __bfloat16_as_ushort(__float2bfloat16_rn(lo)) |
           (uint32_t)__bfloat16_as_ushort(__float2bfloat16_rn(hi)) << 16;
}
/* As on sm_80: the way that needs more of the kernel. */
constexpr bool PKV_E4M3_CVT = false;

inline uint32_t pkv_prmt(uint32_t a, uint32_t b, uint32_t picks)
{
    const uint64_t bytes = (uint64_t)b << 32 | a;
    uint32_t result = 0;
    for (int i = 0; i < 4; i++) {
        const uint32_t byte = (uint32_t)(bytes >> 8 * (picks >> 4 * i & 7) & 0xff);
        const bool sign = picks >> 4 * i & 8;
        result |= (!sign ? byte : byte & 0x80 ? 0xffu : 0u) << 8 * i;
    }
    return result;
}
inline uint32_t pkv_and_or(uint32_t x, uint32_t mask, uint32_t bits)
{
    return (x & mask) | bits;
}

namespace simt
{

/* In double the difference of two halves is exact. */
inline uint32_t half_difference(uint32_t a, uint32_t b)
{
    const double x = (double)__half2float(__ushort_as_half((unsigned short)a));
    const double y = (double)__half2float(__ushort_as_half((unsigned short)b));
    return __half_as_ushort(__double2half(x - y));
}

} // namespace simt

inline uint32_t pkv_sub_f16x2(uint32_t a, uint32_t b)
{
    return simt::half_difference(a & 0xffff, b & 0xffff) | simt::half_difference(a >> 16, b >> 16)
                                                               << 16;
}

/* ---------------------------------------------------------------- exact arithmetic */
inline float pkv_add_rn(float x, float y)
{
    return x + y;
}
inline float pkv_mul_rn(float x, float y)
{
    return x * y;
}
inline float pkv_div_rn(float x, float y)
{
    return x / y;
}
inline float pkv_sqrt_rn(float x)
{
    return std::sqrt(x);
}
inline uint32_t pkv_float_bits(float x)
{
    uint32_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits;
}
inline float pkv_float_of_bits(uint32_t bits)
{
    float x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---------------------------------------------------------------- approximations */
namespace simt
{

/* Subnormals to zeros of their sign, as .ftz does. */
inline float flushed(float x)
{
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.f, x) : x;
}

} // namespace simt

inline float pkv_exp2(float x)
{
    return simt::flushed(std::exp2(simt::flushed(x)));
}
inline float pkv_log2(float x)
{
    return std::log2(simt::flushed(x));
}
inline float pkv_rcp(float x)
{
    return simt::flushed(1.f / simt::flushed(x));
}
inline float pkv_rsqrt(float x)
{
    return 1.f / std::sqrt(simt::flushed(x));
}

#endif
