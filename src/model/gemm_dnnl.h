/* Products of bf16 weights by oneDNN, for fast passes: a build option (-Donednn=enabled), since it
 * brings a thread pool of its own (OpenMP) into the process. All of oneDNN is in gemm_dnnl.c. */
#ifndef PKV_MODEL_GEMM_DNNL_H
#define PKV_MODEL_GEMM_DNNL_H

#include "model/gemm.h"

/* Rows of x from which on it is asked. */
enum { PKV__DNNL_LEAST_M = 16 };

struct pkv__dnnl;

/* For x of at most max_m rows and max_k columns. With `alone` products run on the calling thread.
 * PKV_E_UNSUPPORTED: a build without oneDNN, or a CPU for which it has no bf16; PKV_E_NO_MEMORY. */
PKV_NODISCARD pkv_status pkv__dnnl_create(int32_t max_m, int32_t max_k, bool alone,
                                          const pkv_allocator *alloc, struct pkv__dnnl **out);
void pkv__dnnl_destroy(struct pkv__dnnl *d); /* NULL is fine */

/* y = x W^T (+ y with `add`) of the first rows of x; returns how many it did, the others are the
 * caller's. A shape that is new is prepared by oneDNN, which takes memory of its own. */
int32_t pkv__dnnl_gemm(struct pkv__dnnl *d, int32_t m, const float *x, int64_t ldx,
                       const pkv__matrix *w, float *y, int64_t ldy, bool add);

#endif
