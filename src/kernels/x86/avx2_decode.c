/* Attention of short rows, avx2 level (AVX2, FMA, F16C): the vectors of vector/decode.inc. What was
 * tried for fetching, and the setting, stand in avx512_decode.c.
 *
 * On a busy machine 0.65 (16 bit) and 0.89 (f32) of the read loop at 50 GB/s of two threads:
 * arithmetic is the limit for 16 bit. Eight accumulators: four query vectors and two keys (scores)
 * or two vectors (values); 16 registers leave no room for more beside the queries. */
#include "kernels/vector/decode.h"
#include "kernels/x86/avx2_formats.h"
#include "kernels/x86/x86_levels.h"

enum { PV_ACCUMULATORS = 8, ROWS_ONE_VECTOR = 2, ROWS_TILE = 2 };

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_dtypes.inc"

void pkv__avx2_register_decode(struct pkv__cpu_kernels *k)
{
    decode_register(k, PKV_ISA_AVX2);
}
