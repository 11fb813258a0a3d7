/* The levels of the products. Only gemm.c asks which of them this build contains. */
#ifndef PKV_MODEL_GEMM_LEVELS_H
#define PKV_MODEL_GEMM_LEVELS_H

#include "model/gemm.h"

extern const pkv__gemm_ops pkv__gemm_scalar, pkv__gemm_avx2, pkv__gemm_avx512;

#endif
