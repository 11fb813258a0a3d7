/* The products, written to be read: the definition that every level follows bit by bit.
 *
 * Without hardware for fused multiply-add fmaf is a function of libm, right and slow. */
#include "common/number_format.h"
#include "model/gemm_levels.h"

#define SUMS 16

static float fold(float s[SUMS])
{
    for (int32_t j = 0; j < 8; j++) s[j] += s[j + 8];
    for (int32_t j = 0; j < 4; j++) s[j] += s[j + 4];
    s[0] += s[2];
    s[1] += s[3];
    return s[0] + s[1];
}

static float dot_f32(int32_t k, const float *x, const float *w)
{
    float s[SUMS] = { 0 };
    for (int32_t p = 0; p < k; p++) s[p % SUMS] = __builtin_fmaf(x[p], w[p], s[p % SUMS]);
    return fold(s);
}

static float dot_bf16(int32_t k, const float *x, const uint16_t *w)
{
    float s[SUMS] = { 0 };
    for (int32_t p = 0; p < k; p++)
        s[p % SUMS] = __builtin_fmaf(x[p], pkv__bf16_to_f32(w[p]), s[p % SUMS]);
    return fold(s);
}

static void put_sum(float *y, float sum, bool add)
{
    *y = add ? *y + sum : sum;
}

/* Rows of W outside, so that each is read from memory once for all rows of x. */
static void scalar_f32(int32_t m, int32_t n0, int32_t n1, int32_t k, const float *x, int64_t ldx,
                       const float *w, float *y, int64_t ldy, bool add)
{
    for (int32_t r = n0; r < n1; r++)
        for (int32_t i = 0; i < m; i++)
            put_sum(y + i * ldy + r, dot_f32(k, x + i * ldx, w + (int64_t)r * k), add);
}

static void scalar_bf16(int32_t m, int32_t n0, int32_t n1, int32_t k, const float *x, int64_t ldx,
                        const uint16_t *w, float *y, int64_t ldy, bool add)
{
    for (int32_t r = n0; r < n1; r++)
        for (int32_t i = 0; i < m; i++)
            put_sum(y + i * ldy + r, dot_bf16(k, x + i * ldx, w + (int64_t)r * k), add);
}

const pkv__gemm_ops pkv__gemm_scalar = { "scalar", scalar_f32, scalar_bf16 };
