/* The loads of stored types of one level, as plain functions: formats_probe.inc, compiled once for
 * each level with its flags. dtype: any. */
#ifndef PKV_FORMATS_UNDER_TEST_H
#define PKV_FORMATS_UNDER_TEST_H

#include "pagedkv/base.h"

#include <stdbool.h>

struct formats {
    const char *level;
    int lanes;
    /* Codes to floats in natural order: 2 lanes; n codes and zeros, `lanes` in all, as numbers and
     * as values. */
    void (*pair)(float *dst, pkv_dtype dtype, const void *src);
    void (*codes)(float *dst, pkv_dtype dtype, const void *src, int n);
    void (*values)(float *dst, pkv_dtype dtype, const void *src, int n);
    bool (*has_nan_code)(const void *src, int n);
};

extern const struct formats formats_avx2, formats_avx512, formats_neon;

#endif
