/* Decode attention of the avx512 level. */
#include "kernels/kernels_internal.h"

void pkv__init_avx512(struct pkv__cpu_kernels *k)
{
    (void)k;
}
