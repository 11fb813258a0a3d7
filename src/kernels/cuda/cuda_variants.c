/* The table of compiled kernels. */
#include "kernels/cuda/cuda_internal.h"

const struct pkv__cuda_variant pkv__cuda_variants[] = { { 0 } };
const int32_t pkv__n_cuda_variants = 0;
