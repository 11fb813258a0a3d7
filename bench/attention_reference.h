/* Attention in double precision, written to be obviously right, and the error bound that float
 * kernels must stay within. Shares no code with the library. */
#ifndef PKV_ATTENTION_REFERENCE_H
#define PKV_ATTENTION_REFERENCE_H

#include <stdint.h>

#include "pagedkv/base.h"

/* What the reference computes and the bound is made of. Arrays are the caller's. */
struct attention_row {
    double *scores; /* [n_keys] scratch */
    double *out;    /* [dim] */
    double *vbar;   /* [dim] sum_j softmax(z)_j |v_j| */
    double *vmax;   /* [dim] max_j |v_j| */
    double z_size;  /* scale times the largest sum_d |q_d k_jd| */
};

/* One query row of one head against its visible keys.
 *   z_j = scale * <q, k_j>;  out = sum_j softmax(z)_j v_j
 * q [dim], k and v [n_keys][dim], n_keys >= 1. All of `row` but its pointers is written. */
void attention_reference(const float *q, const float *k, const float *v, int64_t n_keys,
                         int32_t dim, double scale, struct attention_row *row);

/* Largest |error| of out[d] for a kernel that keeps probabilities in float. The formula and where
 * its terms come from: docs/numerics.md, with T = n_keys, every key one addition in a row, which
 * holds for each kernel. */
double attention_bound(const struct attention_row *row, int32_t d, int64_t n_keys, int32_t dim,
                       pkv_dtype out_dtype);

#endif
