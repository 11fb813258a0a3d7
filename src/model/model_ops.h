/* What stands between the products: one row at a time, in float32, in an order of additions that
 * depends on the length of the row alone. Every build and level computes the same bits. */
#ifndef PKV_MODEL_OPS_H
#define PKV_MODEL_OPS_H

#include "model/gemm.h"

/* Row `token` of an embedding [vocab][n], widened. */
void pkv__embed_row(const pkv__matrix *embedding, int32_t token, float *out);

/* RMSNorm (arXiv 1910.07467): out = w * (x / sqrt(mean of x^2 + eps)). The squares are summed in 16
 * partial sums as in gemm.h, with a rounded product. `out` may be x. */
void pkv__rms_norm_row(const float *x, const float *w, int32_t n, float eps, float *out);

/* SwiGLU (arXiv 2002.05202): gate = gate / (1 + e^-gate) * up; the fraction in double, rounded once
 * before the product. */
void pkv__swiglu_row(float *gate, const float *up, int32_t n);

#endif
