/* Moves of the neon level. Copies are the C library's. */
#include "kernels/arm/neon_formats.h"

#include "kernels/arm/arm_levels.h"

#define MOVES_ISA PKV_ISA_NEON

PKV_TEMPLATE vec v_finite_or(vec x, vec other)
{
    return vbslq_f32(vcltq_f32(vabsq_f32(x), v_set1(INFINITY)), x, other);
}

enum { STREAM_PART = 64 };
PKV_TEMPLATE void stream_part(char *to, const char *from)
{
    __builtin_memcpy(to, from, STREAM_PART);
}
PKV_TEMPLATE void v_stream_end(void) {}

/* Magnitudes up to the largest code, as codes of `man` mantissa bits and `bias`, nearest even. A
 * normal number drops bits of its mantissa; a subnormal one is rounded by adding a number whose
 * last place is the smallest code. */
PKV_TEMPLATE uint32x4_t v_small_float(vec mag, int man, int bias)
{
    const int drop = 23 - man, rebias = 127 - bias;
    const uint32x4_t u = vreinterpretq_u32_f32(mag);
    const int32x4_t down = vdupq_n_s32(-drop);
    const uint32x4_t odd = vandq_u32(vshlq_u32(u, down), vdupq_n_u32(1));
    const uint32_t half_and_rebias = (1u << (drop - 1)) - 1u - (uint32_t)rebias * (1u << 23);
    const uint32x4_t sum = vaddq_u32(vaddq_u32(u, vdupq_n_u32(half_and_rebias)), odd);
    const uint32x4_t normal = vshlq_u32(sum, down);
    const uint32x4_t last_place = vdupq_n_u32((uint32_t)(1 + rebias + drop) << 23);
    const vec added = v_add(mag, vreinterpretq_f32_u32(last_place));
    const uint32x4_t subnormal = vsubq_u32(vreinterpretq_u32_f32(added), last_place);
    return vbslq_u32(vcltq_u32(u, vdupq_n_u32((uint32_t)(rebias + 1) << 23)), subnormal, normal);
}

PKV_TEMPLATE uint32x4_t v_fp8(vec y, int man, int bias, float largest, uint32_t nan_code)
{
    const uint32x4_t sign = vandq_u32(vshrq_n_u32(vreinterpretq_u32_f32(y), 24), vdupq_n_u32(0x80));
    const uint32x4_t code = v_small_float(v_min(vabsq_f32(y), v_set1(largest)), man, bias);
    return vorrq_u32(vbslq_u32(vceqq_f32(y, y), code, vdupq_n_u32(nan_code)), sign);
}

PKV_TEMPLATE bool v_store_codes(pkv_dtype dtype, void *p, vec y, int n)
{
    const uint32x4_t number = vceqq_f32(y, y);
    uint32x4_t code;
    (void)n;
    if (dtype == PKV_E4M3) {
        code = v_fp8(y, 3, 7, 448.f, 0x7f);
    } else if (dtype == PKV_E5M2) {
        code = v_fp8(y, 2, 15, 57344.f, 0x7e);
    } else {
        const float lo = dtype == PKV_I8 ? -127.f : 0.f, hi = dtype == PKV_I8 ? 127.f : 15.f;
        const vec in = v_max(v_min(y, v_set1(hi)), v_set1(lo));
        code = vandq_u32(vreinterpretq_u32_s32(vcvtnq_s32_f32(in)), number);
    }
    uint8_t bytes[8];
    const uint16x4_t half = vmovn_u32(code);
    vst1_u8(bytes, vmovn_u16(vcombine_u16(half, half)));
    if (dtype == PKV_U4) {
        bytes[0] = (uint8_t)(bytes[0] | bytes[1] << 4);
        bytes[1] = (uint8_t)(bytes[2] | bytes[3] << 4);
    }
    memcpy(p, bytes, dtype == PKV_U4 ? 2 : 4);
    return dtype >= PKV_I8 && vminvq_u32(number) == 0;
}

#include "kernels/vector/moves.inc"

void pkv__neon_register_moves(struct pkv__cpu_kernels *k)
{
    register_moves(k);
}
