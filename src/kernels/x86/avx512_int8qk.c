/* Short rows over int8 with K multiplied in integers, avx512 level. */
#include "kernels/vector/decode.h"
#include "kernels/x86/avx512_formats.h"
#include "kernels/x86/avx512_integers.h"
#include "kernels/x86/x86_levels.h"

enum { PV_ACCUMULATORS = 16, ROWS_ONE_VECTOR = 2, ROWS_TILE = 4 };

PKV_TEMPLATE ivec i_dot(ivec acc, ivec a, ivec b)
{
    return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b));
}

#include "kernels/vector/decode.inc"

#include "kernels/vector/decode_int8_qk.inc"

void pkv__avx512_register_int8_qk(struct pkv__cpu_kernels *k)
{
    int8_qk_register(k, PKV_ISA_AVX512);
}
