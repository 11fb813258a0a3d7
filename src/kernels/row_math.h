/* Norm and rotation of one row of float: compiled once, so that all levels agree bit by bit. Sums
 * run over eight lanes, which lets the compiler use vectors without changing them. */
#ifndef PKV_ROW_MATH_H
#define PKV_ROW_MATH_H

#include <math.h>
#include <stdint.h>

/* x_d *= w_d / sqrt(mean of x^2 + eps); n a multiple of 8. */
static inline void pkv__norm_row(float *restrict x, const float *restrict w, int32_t n, float eps)
{
    float part[8] = { 0.f };
    for (int32_t d = 0; d < n; d += 8)
        for (int32_t e = 0; e < 8; e++) part[e] += x[d + e] * x[d + e];
    const float sum =
        ((part[0] + part[4]) + (part[2] + part[6])) + ((part[1] + part[5]) + (part[3] + part[7]));
    const float factor = 1.f / sqrtf(sum / (float)n + eps);
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
