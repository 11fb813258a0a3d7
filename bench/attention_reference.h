/* Attention in double precision, written to be obviously right, and the error bound that float
 * kernels must stay within. Shares no code with the library. */
#ifndef PKV_ATTENTION_REFERENCE_H
#define PKV_ATTENTION_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "pagedkv/base.h"

/* What a row sees. The sizes are what rounding errors are relative to: |k| and |v|, or more where a
 * value is the difference of a code and a zero point. */
struct attention_keys {
    const double *k, *k_size; /* [n_keys][k_dim] */
    const double *v, *v_size; /* [n_keys][v_dim] */
    int64_t n_keys;
    int32_t k_dim, v_dim;
};

/* What the reference computes and the bound is made of. Arrays are the caller's. */
struct attention_row {
    double *scores; /* [n_keys] scratch */
    double *out;    /* [v_dim] */
    double *vbar;   /* [v_dim] sum_j softmax(z)_j |v_j| */
    double *vmax;   /* [v_dim] max_j |v_j| */
    double z_size;  /* scale times the largest sum_d |q_d k_jd| */
    double k_size;  /* scale times the largest sum_d |k_jd| */
    double q_max;   /* max_d |q_d| */
};

/* One query row of one head against its visible keys.
 *   z_j = scale * <q, k_j>;  out = sum_j softmax(z)_j v_j
 * q [k_dim], n_keys >= 1. All of `row` but its pointers is written. */
void attention_reference(const float *q, const struct attention_keys *keys, double scale,
                         struct attention_row *row);

/* How a kernel departs from float32 throughout. */
struct attention_rounding {
    bool int8_qk; /* q rounded to 15 bits: half a step of amax / 16383 in every element */
    double p;     /* relative rounding of weights before they meet V, 0 or 2^-8 */
};

/* Largest |error| of out[d]. The formula and where its terms come from: docs/numerics.md, with
 * T = n_keys, every key one addition in a row, which holds for each kernel. */
double attention_bound(const struct attention_row *row, int32_t d, int64_t n_keys, int32_t k_dim,
                       pkv_dtype out_dtype, const struct attention_rounding *rounding);

#endif
