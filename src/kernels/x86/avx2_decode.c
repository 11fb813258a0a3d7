/* Decode attention of the avx2 level (AVX2, FMA, F16C): the vectors of vector/decode.inc, which has
 * the picture of the data flow. What was tried for prefetching stands in avx512_decode.c.
 *
 * Same setting as there, on a busy machine: about 0.5 .. 0.6 of the read loop for f16 with 4 heads
 * in a tile, paged and contiguous. From L2 it is 23 GB/s, which is 0.7 of the FMA peak of 8-float
 * vectors: on such a machine arithmetic is the limit. Eight accumulators: four heads and two keys
 * (scores) or two vectors (values); 16 registers leave no room for more beside the queries. */
#include "kernels/vector/decode.h"
#include "kernels/x86/avx2_formats.h"
#include "kernels/x86/x86_levels.h"

enum { PV_ACCUMULATORS = 8, ROWS_ONE_VECTOR = 2, ROWS_TILE = 2 };

PKV_TEMPLATE vec v_load_kv(pkv_dtype dtype, const void *p, int n)
{
    return v_codes_part(dtype, p, n);
}

PKV_TEMPLATE void v_load_kv_pair(pkv_dtype dtype, const void *p, vec *x)
{
    v_codes_pair(dtype, p, x);
}

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_dtypes.inc"

void pkv__avx2_register_decode(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_AVX2);
}
