/* Norm and rotation of one row of float: the definition, and what levels share with it.
 *
 * Levels compile the rotations for themselves: the lines leave a compiler no freedom but the width
 * of its vectors (a product is never fused with a sum, -ffp-contract=off), so all levels agree bit
 * by bit. The norm sums sixteen numbers side by side, which every level can do in its vectors. */
#ifndef PKV_ROW_MATH_H
#define PKV_ROW_MATH_H

#include <math.h>
#include <stdint.h>

/* 1 / sqrt(mean of x^2 + eps), from the squares summed over d % 16, n a multiple of 8. */
static inline float pkv__norm_factor(const float part[16], int32_t n, float eps)
{
    float sum[8];
    for (int32_t e = 0; e < 8; e++) sum[e] = part[e] + part[e + 8];
    const float even = (sum[0] + sum[4]) + (sum[2] + sum[6]);
    const float odd = (sum[1] + sum[5]) + (sum[3] + sum[7]);
    return 1.f / sqrtf((even + odd) / (float)n + eps);
}

/* x_d *= w_d / sqrt(mean of x^2 + eps) */
static inline void pkv__norm_row(float *restrict x, const float *restrict w, int32_t n, float eps)
{
    float part[16] = { 0.f };
    for (int32_t d = 0; d < n; d++) part[d % 16] += x[d] * x[d];
    const float factor = pkv__norm_factor(part, n, eps);
    for (int32_t d = 0; d < n; d++) x[d] = x[d] * factor * w[d];
}

/* `turn` is a row of the table: cos of pair d at [d], sin at [half + d]. */
static inline void pkv__rotate_halves(float *restrict x, const float *restrict turn, int32_t half)
{
    for (int32_t d = 0; d < half; d++) {
        const float a = x[d], b = x[half + d], cos = turn[d], sin = turn[half + d];
        x[d] = a * cos - b * sin;
        x[half + d] = a * sin + b * cos;
    }
}
static inline void pkv__rotate_neighbours(float *restrict x, const float *restrict turn,
                                          int32_t half)
{
    for (int32_t d = 0; d < half; d++) {
        const float a = x[2 * d], b = x[2 * d + 1], cos = turn[d], sin = turn[half + d];
        x[2 * d] = a * cos - b * sin;
        x[2 * d + 1] = a * sin + b * cos;
    }
}

#endif
