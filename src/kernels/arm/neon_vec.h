/* Vectors of the neon level, the base of aarch64: the operations that x86/avx512_vec.h lists. */
#ifndef PKV_NEON_VEC_H
#define PKV_NEON_VEC_H

#include "common/templates.h"
#include "pagedkv/base.h"

#include <arm_neon.h>
#include <math.h>

enum { LANES = 4 };
typedef float32x4_t vec;

#define PREFETCH(p) __builtin_prefetch((p), 0, 3)

PKV_TEMPLATE vec v_set1(float x)
{
    return vdupq_n_f32(x);
}
PKV_TEMPLATE vec v_load(const float *p)
{
    return vld1q_f32(p);
}
PKV_TEMPLATE vec v_in_register(vec x)
{
    __asm__("" : "+w"(x));
    return x;
}
PKV_TEMPLATE void v_store(float *p, vec x)
{
    vst1q_f32(p, x);
}
PKV_TEMPLATE vec v_add(vec a, vec b)
{
    return vaddq_f32(a, b);
}
PKV_TEMPLATE vec v_sub(vec a, vec b)
{
    return vsubq_f32(a, b);
}
PKV_TEMPLATE vec v_mul(vec a, vec b)
{
    return vmulq_f32(a, b);
}
PKV_TEMPLATE vec v_div(vec a, vec b)
{
    return vdivq_f32(a, b);
}
PKV_TEMPLATE vec v_max(vec a, vec b) /* fmax would give NaN, fmaxnm the number */
{
    return vbslq_f32(vcgtq_f32(a, b), a, b);
}
PKV_TEMPLATE vec v_min(vec a, vec b)
{
    return vbslq_f32(vcltq_f32(a, b), a, b);
}
PKV_TEMPLATE vec v_fma(vec a, vec b, vec c)
{
    return vfmaq_f32(c, a, b);
}
PKV_TEMPLATE vec v_round(vec x)
{
    return vrndnq_f32(x);
}

/* Ordered and unlike: neither equal nor NaN. */
PKV_TEMPLATE bool v_differ(vec a, vec b)
{
    return vmaxvq_u32(vorrq_u32(vcgtq_f32(a, b), vcltq_f32(a, b))) != 0;
}

PKV_TEMPLATE vec v_pow2(int32x4_t n) /* -126 <= n <= 127 */
{
    return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

/* 2^n in two halves, which reach through the subnormals. */
PKV_TEMPLATE vec v_scale2(vec x, vec n)
{
    const int32x4_t i = vcvtq_s32_f32(n), half = vshrq_n_s32(i, 1);
    return v_mul(v_mul(x, v_pow2(half)), v_pow2(vsubq_s32(i, half)));
}

PKV_TEMPLATE vec v_copysign(vec mag, vec sign)
{
    return vbslq_f32(vdupq_n_u32(0x80000000u), sign, mag);
}

PKV_TEMPLATE vec v_keep_bits(vec x, uint32_t bits)
{
    static const uint32_t bit[4] = { 1, 2, 4, 8 };
    return vbslq_f32(vtstq_u32(vdupq_n_u32(bits), vld1q_u32(bit)), x, v_set1(-INFINITY));
}

PKV_TEMPLATE vec v_keep_first(vec x, int32_t n)
{
    return v_keep_bits(x, (1u << n) - 1u);
}

PKV_TEMPLATE vec v_rotate_max(vec x, int n)
{
    if (n <= 2) x = v_max(x, vextq_f32(x, x, 2));
    if (n <= 1) x = v_max(x, vrev64q_f32(x));
    return x;
}

PKV_TEMPLATE vec v_rotate_add(vec x, int n)
{
    if (n <= 2) x = v_add(x, vextq_f32(x, x, 2));
    if (n <= 1) x = v_add(x, vrev64q_f32(x));
    return x;
}

PKV_TEMPLATE vec v_spread(const float *p, int n)
{
    if (n >= LANES) return v_set1(*p);
    const vec x = v_load(p);
    return n == 1 ? x : vzip1q_f32(x, x);
}

PKV_TEMPLATE void v_zip(vec a, vec b, vec *x)
{
    x[0] = vzip1q_f32(a, b);
    x[1] = vzip2q_f32(a, b);
}

PKV_TEMPLATE void v_unzip(vec a, vec b, vec *x)
{
    x[0] = vuzp1q_f32(a, b);
    x[1] = vuzp2q_f32(a, b);
}

PKV_TEMPLATE vec v_reduce(const vec *acc)
{
    return vpaddq_f32(vpaddq_f32(acc[0], acc[1]), vpaddq_f32(acc[2], acc[3]));
}

PKV_TEMPLATE vec v_from_bf16(uint16x4_t half)
{
    return vreinterpretq_f32_u32(vshll_n_u16(half, 16));
}

/* bf16 by hand: nearest even is an integer addition below the cut; NaN must not carry over. */
PKV_TEMPLATE uint16x4_t v_to_bf16(vec x)
{
    const uint32x4_t u = vreinterpretq_u32_f32(x);
    const uint32x4_t odd = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
    const uint32x4_t up = vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
    const uint32x4_t quiet = vorrq_u32(u, vdupq_n_u32(0x00400000));
    return vshrn_n_u32(vbslq_u32(vceqq_f32(x, x), up, quiet), 16);
}

PKV_TEMPLATE vec v_load_part(const float *p, int n)
{
    (void)n; /* dims are multiples of 8: every part is a whole vector */
    return v_load(p);
}

PKV_TEMPLATE void v_store_part(float *p, vec x, int n)
{
    (void)n;
    v_store(p, x);
}

PKV_TEMPLATE vec v_load_row(pkv_dtype dtype, const void *p)
{
    if (dtype == PKV_F32) return v_load((const float *)p);
    const uint16x4_t half = vld1_u16((const uint16_t *)p);
    return dtype == PKV_F16 ? vcvt_f32_f16(vreinterpret_f16_u16(half)) : v_from_bf16(half);
}

PKV_TEMPLATE vec v_load_row_part(pkv_dtype dtype, const void *p, int n)
{
    (void)n;
    return v_load_row(dtype, p);
}

PKV_TEMPLATE void v_store_out(pkv_dtype dtype, void *p, vec x)
{
    if (dtype == PKV_F32) {
        v_store((float *)p, x);
        return;
    }
    vst1_u16((uint16_t *)p,
             dtype == PKV_F16 ? vreinterpret_u16_f16(vcvt_f16_f32(x)) : v_to_bf16(x));
}

PKV_TEMPLATE void v_store_out_part(pkv_dtype dtype, void *p, vec x, int n)
{
    (void)n;
    v_store_out(dtype, p, x);
}

#include "kernels/vector/vec_math.h"

#endif
