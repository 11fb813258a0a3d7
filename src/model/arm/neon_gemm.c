/* The products with NEON, the base of aarch64: 16 partial sums are four registers. 2 x 3 outputs
 * take 24 of 32, with three of W and one of x. */
#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define LANES 4
#define TILE_M 2
#define TILE_N 3
#define COPY_M 0
#define ALONE_N 4

typedef float32x4_t vec;

static inline vec zero(void)
{
    return vdupq_n_f32(0);
}

static inline vec load_f32(const float *p)
{
    return vld1q_f32(p);
}

static inline void store(float *p, vec v)
{
    vst1q_f32(p, v);
}

static inline vec load_bf16(const uint16_t *p)
{
    return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16));
}

static inline vec part_f32(const float *p, int32_t n)
{
    float some[LANES] = { 0 };
    memcpy(some, p, (size_t)n * sizeof(*p));
    return load_f32(some);
}

static inline vec part_bf16(const uint16_t *p, int32_t n)
{
    uint16_t some[LANES] = { 0 };
    memcpy(some, p, (size_t)n * sizeof(*p));
    return load_bf16(some);
}

static inline vec fma_all(vec x, vec w, vec s)
{
    return vfmaq_f32(s, x, w);
}

static inline vec fma_part(vec x, vec w, vec s, int32_t n)
{
    static const uint32_t lanes[LANES] = { 0, 1, 2, 3 };
    const uint32x4_t first = vcltq_u32(vld1q_u32(lanes), vdupq_n_u32((uint32_t)n));
    return vbslq_f32(first, vfmaq_f32(s, x, w), s);
}

static inline float fold(const vec s[4])
{
    const vec q = vaddq_f32(vaddq_f32(s[0], s[2]), vaddq_f32(s[1], s[3]));
    return vpadds_f32(vadd_f32(vget_low_f32(q), vget_high_f32(q)));
}

#include "model/vector/gemm_tiles.inc"

const pkv__gemm_ops pkv__gemm_neon = { "neon", product_f32, product_bf16 };
