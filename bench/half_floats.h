/* 16-bit floats of the suite's own, so that its reference shares nothing with the library. */
#ifndef PKV_HALF_FLOATS_H
#define PKV_HALF_FLOATS_H

#include <stdint.h>

#include "pagedkv/base.h"

/* Exact. */
float half_to_float(uint16_t bits);
float bfloat_to_float(uint16_t bits);
/* Nearest even. */
uint16_t half_from_float(float value);
uint16_t bfloat_from_float(float value);

/* Element i of an array of F32, F16 or BF16. */
float number_get(const void *array, pkv_dtype dtype, int64_t i);
void number_put(void *array, pkv_dtype dtype, int64_t i, float value);

#endif
