/* Number formats by their definition, in double: the value of a code by its fields, the nearest
 * code by arithmetic on doubles. Shares nothing with the library. */
#ifndef PKV_ORACLE_NUMBERS_H
#define PKV_ORACLE_NUMBERS_H

#include "pagedkv/base.h"

/* Value of a 16-bit code (f16, bf16). */
double oracle_value16(pkv_dtype dtype, uint16_t code);
/* Nearest 16-bit code, ties to even; NaN gives a quiet NaN. Exact for any double. */
uint16_t oracle_code16(pkv_dtype dtype, double x);

/* Value of a code of e4m3 (no infinity, NaN where the low 7 bits are set), e5m2, int8 or int4, and
 * the code of a value that the type holds; NaN has one, too, in e4m3 and e5m2. */
double oracle_value8(pkv_dtype dtype, uint8_t code);
uint8_t oracle_code8(pkv_dtype dtype, double x);

/* Element `idx` of an array of any type. int4: two per byte, the even one in the low half. Stored
 * in 8 or 4 bits, `x` has to be a value of the type. */
double oracle_load(pkv_dtype dtype, const void *data, int64_t idx);
void oracle_store(pkv_dtype dtype, void *data, int64_t idx, double x);
/* `x` as the dtype would hold it. */
double oracle_round(pkv_dtype dtype, double x);

int32_t oracle_bytes(pkv_dtype dtype);           /* f32, f16, bf16 */
int64_t oracle_span(pkv_dtype dtype, int64_t n); /* bytes of n elements, any type */
double oracle_unit_roundoff(pkv_dtype dtype);
double oracle_smallest(pkv_dtype dtype); /* positive, subnormal */
double oracle_largest(pkv_dtype dtype);  /* finite */

#endif
