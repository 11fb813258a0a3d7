/* The levels of the products. Only gemm.c asks which of them this build contains. */
#ifndef PKV_MODEL_GEMM_LEVELS_H
#define PKV_MODEL_GEMM_LEVELS_H

#include "model/gemm.h"

#if defined(__clang__)
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#define UNROLLED _Pragma("GCC unroll 8")
#endif
#define INLINE static inline __attribute__((always_inline))

extern const pkv__gemm_ops pkv__gemm_scalar, pkv__gemm_avx2, pkv__gemm_avx512, pkv__gemm_neon;
extern const pkv__gemm_packed pkv__packed_f32_avx2, pkv__packed_f32_avx512,
    pkv__packed_bf16_avx512bf16;

#endif
