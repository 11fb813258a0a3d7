/* The definition of what a stored row means, and of how one is made: a code at a time. Levels do
 * the same to many codes at once and must agree bit by bit, NaN and subnormal numbers included. */
#include "kernels/scalar/scalar_rows.h"
#include "common/fp8_format.h"
#include "common/int_format.h"
#include "kernels/row_math.h"

void pkv__scalar_load_codes(float *dst, const void *src, pkv_dtype dtype, int32_t n)
{
    const uint8_t *code = (const uint8_t *)src;
    switch (dtype) {
    case PKV_F32:
    case PKV_F16:
    case PKV_BF16:
        pkv__load_floats(dst, src, dtype, n);
        break;
    case PKV_E4M3:
        for (int32_t d = 0; d < n; d++) dst[d] = pkv__e4m3_to_f32(code[d]);
        break;
    case PKV_E5M2:
        for (int32_t d = 0; d < n; d++) dst[d] = pkv__e5m2_to_f32(code[d]);
        break;
    case PKV_I8:
        for (int32_t d = 0; d < n; d++) dst[d] = (float)(int8_t)code[d];
        break;
    case PKV_U4:
        for (int32_t d = 0; d < n; d++) dst[d] = (float)pkv__u4_code(code, d);
        break;
    }
}

static void load_f32(float *dst, const void *src, int32_t n)
{
    pkv__load_floats(dst, src, PKV_F32, n);
}
static void load_f16(float *dst, const void *src, int32_t n)
{
    pkv__load_floats(dst, src, PKV_F16, n);
}
static void load_bf16(float *dst, const void *src, int32_t n)
{
    pkv__load_floats(dst, src, PKV_BF16, n);
}
static void store_f32(void *dst, const float *src, int32_t n)
{
    pkv__store_floats(dst, PKV_F32, src, n);
}
static void store_f16(void *dst, const float *src, int32_t n)
{
    pkv__store_floats(dst, PKV_F16, src, n);
}
static void store_bf16(void *dst, const float *src, int32_t n)
{
    pkv__store_floats(dst, PKV_BF16, src, n);
}

/* value = scale * (code - zero) */
static void dequantize(float *dst, const void *src, pkv_dtype dtype, int32_t n, float s, float z)
{
    pkv__scalar_load_codes(dst, src, dtype, n);
    for (int32_t d = 0; d < n; d++) dst[d] = s * (dst[d] - z);
}
static void dequantize_e4m3(float *dst, const void *src, int32_t n, float s, float z)
{
    dequantize(dst, src, PKV_E4M3, n, s, z);
}
static void dequantize_e5m2(float *dst, const void *src, int32_t n, float s, float z)
{
    dequantize(dst, src, PKV_E5M2, n, s, z);
}
static void dequantize_i8(float *dst, const void *src, int32_t n, float s, float z)
{
    dequantize(dst, src, PKV_I8, n, s, z);
}
static void dequantize_u4(float *dst, const void *src, int32_t n, float s, float z)
{
    dequantize(dst, src, PKV_U4, n, s, z);
}

/* Whether x / s was NaN is told by the code alone in the float formats, and by nothing in the
 * integer ones: these report it. */
static bool quantize_e4m3(void *dst, const float *src, int32_t n, float s, float z)
{
    uint8_t *code = dst;
    (void)z;
    for (int32_t d = 0; d < n; d++) code[d] = pkv__f32_to_e4m3(src[d] / s);
    return false;
}
static bool quantize_e5m2(void *dst, const float *src, int32_t n, float s, float z)
{
    uint8_t *code = dst;
    (void)z;
    for (int32_t d = 0; d < n; d++) code[d] = pkv__f32_to_e5m2(src[d] / s);
    return false;
}

static int32_t round_or_zero(float x, float lo, float hi, bool *nan)
{
    if (!isnan(x)) return pkv__round_code(x, lo, hi);
    *nan = true;
    return 0;
}
static bool quantize_i8(void *dst, const float *src, int32_t n, float s, float z)
{
    int8_t *code = dst;
    bool nan = false;
    (void)z;
    for (int32_t d = 0; d < n; d++)
        code[d] = (int8_t)round_or_zero(src[d] / s, -127.f, 127.f, &nan);
    return nan;
}
static bool quantize_u4(void *dst, const float *src, int32_t n, float s, float z)
{
    uint8_t *pair = dst;
    bool nan = false;
    for (int32_t d = 0; d < n; d += 2) {
        const int32_t even = round_or_zero(src[d] / s + z, 0.f, 15.f, &nan);
        const int32_t odd = round_or_zero(src[d + 1] / s + z, 0.f, 15.f, &nan);
        pair[d / 2] = pkv__u4_pair((uint8_t)even, (uint8_t)odd);
    }
    return nan;
}

/* A zero comes out positive, so that no order of comparisons shows. */
static void extremes(const float *src, int32_t n, float *lo, float *hi)
{
    for (int32_t d = 0; d < n; d++) {
        if (!isfinite(src[d])) continue;
        if (src[d] < *lo) *lo = src[d];
        if (src[d] > *hi) *hi = src[d];
    }
    *lo += 0.f;
    *hi += 0.f;
}

void pkv__scalar_row_slots(struct pkv__cpu_kernels *k)
{
    k->load_row[PKV_F32] = load_f32;
    k->load_row[PKV_F16] = load_f16;
    k->load_row[PKV_BF16] = load_bf16;
    k->store_row[PKV_F32] = store_f32;
    k->store_row[PKV_F16] = store_f16;
    k->store_row[PKV_BF16] = store_bf16;
    k->row_isa = PKV_ISA_SCALAR;
    k->quantize_row[PKV_E4M3 - PKV_E4M3] = quantize_e4m3;
    k->quantize_row[PKV_E5M2 - PKV_E4M3] = quantize_e5m2;
    k->quantize_row[PKV_I8 - PKV_E4M3] = quantize_i8;
    k->quantize_row[PKV_U4 - PKV_E4M3] = quantize_u4;
    k->dequantize_row[PKV_E4M3 - PKV_E4M3] = dequantize_e4m3;
    k->dequantize_row[PKV_E5M2 - PKV_E4M3] = dequantize_e5m2;
    k->dequantize_row[PKV_I8 - PKV_E4M3] = dequantize_i8;
    k->dequantize_row[PKV_U4 - PKV_E4M3] = dequantize_u4;
    k->norm_row = pkv__norm_row;
    k->rotate_halves = pkv__rotate_halves;
    k->rotate_neighbours = pkv__rotate_neighbours;
    k->extremes_row = extremes;
    k->quantize_isa = PKV_ISA_SCALAR;
}
