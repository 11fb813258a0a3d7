/* The AVX-512 level: what its operations offer. */
#include "kernels/x86/x86_levels.h"

void pkv__init_avx512(struct pkv__cpu_kernels *k)
{
    pkv__avx512_register_decode(k);
    pkv__avx512_register_int8_qk(k);
    pkv__avx512_register_rows(k);
    pkv__avx512_register_mla(k);
    pkv__avx512_register_moves(k);
}
