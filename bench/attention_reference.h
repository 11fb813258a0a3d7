/* Attention in double precision, written to be obviously right, and the error bound that float
 * kernels must stay within. Shares no code with the library. */
#ifndef PKV_ATTENTION_REFERENCE_H
#define PKV_ATTENTION_REFERENCE_H

#include <stdint.h>

#include "pagedkv/base.h"

/* One query row of one head against its visible keys.
 *   z_j = scale * <q, k_j>;  out = sum_j softmax(z)_j v_j
 * q [dim], k and v [n_keys][dim], n_keys >= 1, scores [n_keys] is scratch.
 * out [dim] and vbar [dim] = sum_j softmax(z)_j |v_j| are written; *z_size is scale times the
 * largest sum_d |q_d k_jd|. */
void attention_reference(const float *q, const float *k, const float *v, int64_t n_keys,
                         int32_t dim, double scale, double *scores, double *out, double *vbar,
                         double *z_size);

/* Largest |error| of one output element for a kernel that keeps probabilities in float:
 *   dz    = (2 dim + 60) 2^-24 z_size      any order of summation; 60: scale, log2 e, z - max
 *   ex    = 2^-21                          the exponential
 *   acc   = (16 + n_keys) 2^-23            every key one sequential add at worst
 *   bound = vbar (2 dz + 2 ex + acc) + u_out |out| + smallest number of the output type */
double attention_bound(double vbar, double z_size, double out, int64_t n_keys, int32_t dim,
                       pkv_dtype out_dtype);

#endif
