/* Number formats of the suite's own, so that its reference shares nothing with the library. */
#ifndef PKV_HALF_FLOATS_H
#define PKV_HALF_FLOATS_H

#include <stdint.h>

#include "pagedkv/base.h"

/* Exact. */
float half_to_float(uint16_t bits);
float bfloat_to_float(uint16_t bits);
float e4m3_to_float(uint8_t code);
float e5m2_to_float(uint8_t code);
/* Nearest even. */
uint16_t half_from_float(float value);
uint16_t bfloat_from_float(float value);
/* Nearest even, values of at most 448 and 57344. */
uint8_t e4m3_from_float(float value);
uint8_t e5m2_from_float(float value);

/* Element i of an array: a number, or for I8 and U4 a code (-128 .. 127, 0 .. 15). Putting rounds
 * to nearest even and saturates. */
float number_get(const void *array, pkv_dtype dtype, int64_t i);
void number_put(void *array, pkv_dtype dtype, int64_t i, float value);

#endif
