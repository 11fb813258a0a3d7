/* What kv_write does to one row: RMSNorm and RoPE in double, by the formulas of
 * include/pagedkv/moves.h, with their error bounds; and the float32 steps of quantisation, which
 * are part of the contract, so that scales and codes are compared for equality. Shares nothing with
 * src/. */
#ifndef PKV_ORACLE_KV_WRITE_H
#define PKV_ORACLE_KV_WRITE_H

#include "pagedkv/base.h"

/* A row on its way into the store. `err`: how far the float32 value may be from x, per element. */
struct oracle_written {
    double x[256], err[256];
    int32_t dim;
};

/* x_d *= w_d / sqrt(mean of x^2 + eps); relative error (D / 2 + 8) * 2^-24. */
void oracle_norm(struct oracle_written *row, const float *weights, double eps);
/* Pairs of the first rot_dim elements turned by cos and sin, one row of the table: [rot_dim / 2]
 * each. Error 3 * 2^-24 of the pair's length times the amplitude, and the norm's, turned along. */
void oracle_rotate(struct oracle_written *row, const float *cos_sin, int32_t rot_dim,
                   bool interleaved);

/* Scale and zero point, in float32 as the contract says. */
struct oracle_scale {
    float scale, zero;
};
struct oracle_extremes {
    float lo, hi; /* of the finite values so far */
    bool any;
};
void oracle_extremes_add(struct oracle_extremes *e, const float *x, int32_t n);
/* e4m3, int8, int4. Without a finite value as of a row of zeros. */
struct oracle_scale oracle_scale_of(pkv_dtype dtype, const struct oracle_extremes *e);
/* The code of x: x / s (+ z for int4) in float32, then to the nearest code. */
unsigned oracle_quantized(pkv_dtype dtype, float x, struct oracle_scale s);
/* scale * (code - zero), exact in double. */
double oracle_code_meaning(pkv_dtype dtype, unsigned code, struct oracle_scale s);
/* How far a written code's meaning may be from a finite x that is within the range of the codes. */
double oracle_code_bound(pkv_dtype dtype, float x, struct oracle_scale s);

#endif
