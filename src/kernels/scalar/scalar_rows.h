/* One row at a time, shared by the scalar definitions: from stored codes to float and back, the
 * scalar product. */
#ifndef PKV_SCALAR_ROWS_H
#define PKV_SCALAR_ROWS_H

#include "common/number_format.h"
#include "kernels/kernels_internal.h"
#include "kernels/row_places.h"

/* The codes of a row as numbers, without scale and zero point; exact. scalar_rows.c. */
void pkv__scalar_load_codes(float *dst, const void *src, pkv_dtype dtype, int32_t n);

/* Slots of the table, by dtype as there; scalar_rows.c. */
void pkv__scalar_row_slots(struct pkv__cpu_kernels *k);

/* Every dim is a multiple of 8: partial sums let compilers use vectors. */
static inline float pkv__sum_lanes(const float part[8])
{
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

static inline float pkv__scalar_dot(const float *a, const float *b, int32_t n)
{
    float part[8] = { 0.f };
    for (int32_t d = 0; d < n; d += 8)
        for (int32_t e = 0; e < 8; e++) part[e] += a[d + e] * b[d + e];
    return pkv__sum_lanes(part);
}

static inline float pkv__scalar_sum(const float *a, int32_t n)
{
    float part[8] = { 0.f };
    for (int32_t d = 0; d < n; d += 8)
        for (int32_t e = 0; e < 8; e++) part[e] += a[d + e];
    return pkv__sum_lanes(part);
}

#endif
