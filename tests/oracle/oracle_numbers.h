/* Number formats by their definition, in double: the value of a code by its fields, the nearest
 * code by arithmetic on doubles. Shares nothing with the library. */
#ifndef PKV_ORACLE_NUMBERS_H
#define PKV_ORACLE_NUMBERS_H

#include "pagedkv/base.h"

/* Value of a 16-bit code (f16, bf16). */
double oracle_value16(pkv_dtype dtype, uint16_t code);
/* Nearest 16-bit code, ties to even; NaN gives a quiet NaN. Exact for any double. */
uint16_t oracle_code16(pkv_dtype dtype, double x);

/* Element `idx` of an array of f32, f16 or bf16. */
double oracle_load(pkv_dtype dtype, const void *data, int64_t idx);
void oracle_store(pkv_dtype dtype, void *data, int64_t idx, double x);
/* `x` as the dtype would hold it. */
double oracle_round(pkv_dtype dtype, double x);

int32_t oracle_bytes(pkv_dtype dtype);
double oracle_unit_roundoff(pkv_dtype dtype);
double oracle_smallest(pkv_dtype dtype); /* positive, subnormal */
double oracle_largest(pkv_dtype dtype);  /* finite */

#endif
