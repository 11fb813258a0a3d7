/* Rows between the products. */
#include "model/model_ops.h"

#include "common/detmath.h"
#include "common/number_format.h"

#include <math.h>
#include <string.h>

#define SUMS 16
#define MAX_EXPONENT 700.0 /* of pkv__det_exp */

void pkv__embed_row(const pkv__matrix *embedding, int32_t token, float *out)
{
    const size_t n = (size_t)embedding->k, first = (size_t)token * n;
    if (embedding->dtype == PKV_F32) {
        memcpy(out, (const float *)embedding->data + first, n * sizeof(float));
        return;
    }
    const uint16_t *row = (const uint16_t *)embedding->data + first;
    for (size_t i = 0; i < n; i++) out[i] = pkv__bf16_to_f32(row[i]);
}

static float sum_of_squares(const float *x, int32_t n)
{
    float s[SUMS] = { 0 };
    int32_t i = 0;
    for (; i + SUMS <= n; i += SUMS)
        for (int32_t j = 0; j < SUMS; j++) s[j] += x[i + j] * x[i + j];
    for (int32_t j = 0; i + j < n; j++) s[j] += x[i + j] * x[i + j];
    for (int32_t j = 0; j < 8; j++) s[j] += s[j + 8];
    for (int32_t j = 0; j < 4; j++) s[j] += s[j + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

void pkv__rms_norm_row(const float *x, const float *w, int32_t n, float eps, float *out)
{
    const float scale = 1.f / sqrtf(sum_of_squares(x, n) / (float)n + eps);
    for (int32_t i = 0; i < n; i++) out[i] = w[i] * (x[i] * scale);
}

static float silu(float g)
{
    if (isnan(g)) return g;
    double t = -(double)g;
    if (t > MAX_EXPONENT) t = MAX_EXPONENT;
    if (t < -MAX_EXPONENT) t = -MAX_EXPONENT;
    return (float)(g / (1 + pkv__det_exp(t)));
}

void pkv__swiglu_row(float *gate, const float *up, int32_t n)
{
    for (int32_t i = 0; i < n; i++) gate[i] = silu(gate[i]) * up[i];
}
