/* Rounding into the 8- and 4-bit codes, in double: the nearest code by search among all values of
 * oracle_value8. Shares nothing with the library.
 *
 *   e4m3  1 sign, 4 exponent (bias 7), 3 mantissa bits; only 0x7f and 0xff are NaN, no infinity
 *   e5m2  1 sign, 5 exponent (bias 15), 2 mantissa bits; infinity and NaN as in IEEE 754
 *   int8  two's complement            int4  0 .. 15, even index in the low half of a byte
 * Source of the first two: OCP 8-bit floating point specification, revision 1.0, 2023. */
#ifndef PKV_ORACLE_FORMATS_H
#define PKV_ORACLE_FORMATS_H

#include "pagedkv/base.h"

/* Types of codes, which may have scales: everything but f32, f16 and bf16. */
bool oracle_is_code(pkv_dtype dtype);

/* Code number `idx` of a row, and its replacement. */
unsigned oracle_code_at(pkv_dtype dtype, const void *row, int64_t idx);
void oracle_put_code(pkv_dtype dtype, void *row, int64_t idx, unsigned code);

/* Code whose value is nearest to x, of two the even one; beyond the range (infinity included) the
 * largest finite one of that sign. NaN: the NaN code with x's sign in e4m3 (0x7f) and e5m2 (0x7e),
 * 0 in int8 and int4. The codes of int8 are -127 .. 127. */
unsigned oracle_code_of(pkv_dtype dtype, double x);
/* Largest value that oracle_code_of gives. */
double oracle_code_largest(pkv_dtype dtype);

#endif
