/* Floats of the interpreter: what other files of it ask of simt_ptx_float.cpp. */
#ifndef SIMT_PTX_ARITH_H
#define SIMT_PTX_ARITH_H

#include "simt_ptx_code.h"

namespace simt
{

/* Both extensions of the compiler, for products of 64 bits. */
__extension__ typedef __int128 ptx_int128;
__extension__ typedef unsigned __int128 ptx_uint128;

/* The instruction's operands, rounding, ftz and sat; f32 and f64. */
void ptx_float_add(ptx_frame &f, const ptx_instruction &i);
void ptx_float_sub(ptx_frame &f, const ptx_instruction &i);
void ptx_float_mul(ptx_frame &f, const ptx_instruction &i);
void ptx_float_fma(ptx_frame &f, const ptx_instruction &i);
void ptx_float_div(ptx_frame &f, const ptx_instruction &i);
void ptx_float_neg(ptx_frame &f, const ptx_instruction &i);
void ptx_float_abs(ptx_frame &f, const ptx_instruction &i);
void ptx_float_min(ptx_frame &f, const ptx_instruction &i);
void ptx_float_max(ptx_frame &f, const ptx_instruction &i);

/* f16x2, rounded to nearest even. simt_ptx_cvt.cpp */
void ptx_half_sub(ptx_frame &f, const ptx_instruction &i);

/* setp's comparison of operands 1 and 2. */
bool ptx_float_compare(const ptx_frame &f, const ptx_instruction &i);

/* A subnormal f32 as a zero of its sign. */
uint32_t ptx_flush(uint32_t bits);

} // namespace simt

#endif
