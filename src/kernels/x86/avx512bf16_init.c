/* The AVX-512-BF16 level: what its operations offer. */
#include "kernels/x86/x86_levels.h"

void pkv__init_avx512bf16(struct pkv__cpu_kernels *k)
{
    pkv__avx512bf16_register_int8_qk(k);
    pkv__avx512bf16_register_rows(k);
}
