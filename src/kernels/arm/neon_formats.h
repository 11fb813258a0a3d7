/* Rows of K and V of every stored type as vectors of floats, neon level; included after neon_vec.h.
 * x86/avx512_formats.h says what each function does. */
#ifndef PKV_NEON_FORMATS_H
#define PKV_NEON_FORMATS_H

#include "kernels/arm/neon_vec.h"

#include <string.h>

PKV_TEMPLATE float codes_unit(pkv_dtype dtype)
{
    return dtype == PKV_E4M3 ? 256.f : 1.f;
}

PKV_TEMPLATE bool codes_split(pkv_dtype dtype)
{
    return dtype == PKV_BF16 || dtype == PKV_U4;
}

/* Two bytes of u4, four of the 8-bit types, into the low half of a vector. */
PKV_TEMPLATE uint8x8_t v_few_bytes(const void *p, size_t bytes)
{
    uint32_t few = 0;
    memcpy(&few, p, bytes);
    return vreinterpret_u8_u32(vdup_n_u32(few));
}

PKV_TEMPLATE vec v_codes_part(pkv_dtype dtype, const void *p, int n)
{
    if (dtype <= PKV_BF16) return v_load_row_part(dtype, p, n);
    if (dtype == PKV_U4) {
        static const int32_t shift[4] = { 0, -4, -8, -12 };
        const uint32x4_t packed = vmovl_u16(vreinterpret_u16_u8(v_few_bytes(p, 2)));
        const uint32x4_t first = vdupq_laneq_u32(packed, 0);
        return vcvtq_f32_u32(vandq_u32(vshlq_u32(first, vld1q_s32(shift)), vdupq_n_u32(15)));
    }
    const uint8x8_t code = v_few_bytes(p, 4);
    if (dtype == PKV_I8)
        return vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(vreinterpret_s8_u8(code)))));
    const int16x4_t high = vreinterpret_s16_u16(vshl_n_u16(vget_low_u16(vmovl_u8(code)), 8));
    if (dtype == PKV_E5M2) return vcvt_f32_f16(vreinterpret_f16_s16(high));
    /* e4m3 in the upper byte: f16 with an exponent 8 too small. */
    const int16x4_t half = vand_s16(vshr_n_s16(high, 1), vdup_n_s16((int16_t)0xbf80));
    return vcvt_f32_f16(vreinterpret_f16_s16(half));
}

PKV_TEMPLATE void v_codes_pair(pkv_dtype dtype, const void *p, vec *x)
{
    if (dtype == PKV_U4) {
        const uint32x4_t both = vmovl_u16(vget_low_u16(vmovl_u8(v_few_bytes(p, 4))));
        x[0] = vcvtq_f32_u32(vandq_u32(both, vdupq_n_u32(15)));
        x[1] = vcvtq_f32_u32(vshrq_n_u32(both, 4));
    } else if (dtype == PKV_BF16) {
        const uint32x4_t both = vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p));
        x[0] = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
        x[1] = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xffff0000u)));
    } else {
        const int bytes = dtype == PKV_F32 ? 4 : dtype == PKV_F16 ? 2 : 1;
        x[0] = v_codes_part(dtype, p, LANES);
        x[1] = v_codes_part(dtype, (const char *)p + LANES * bytes, LANES);
    }
}

PKV_TEMPLATE vec v_load_codes_part(pkv_dtype dtype, const void *p, int n)
{
    const vec x = v_codes_part(dtype, p, n);
    if (dtype != PKV_E4M3) return x;
    const uint32x4_t nan = vceqq_f32(vabsq_f32(x), v_set1(480.f / 256.f));
    return vbslq_f32(nan, v_set1(NAN), v_mul(x, v_set1(256.f)));
}

PKV_TEMPLATE vec v_load_codes(pkv_dtype dtype, const void *p)
{
    return v_load_codes_part(dtype, p, LANES);
}

/* n is a multiple of 8. */
PKV_TEMPLATE bool has_nan_code(const void *p, int32_t n)
{
    const uint8_t *code = (const uint8_t *)p;
    const uint8x8_t sign = vdup_n_u8(0x80);
    uint8x8_t most = vdup_n_u8(0);
    for (int32_t i = 0; i < n; i += 8) most = vmax_u8(most, vorr_u8(sign, vld1_u8(code + i)));
    return vmaxv_u8(most) == 0xff;
}

#endif
