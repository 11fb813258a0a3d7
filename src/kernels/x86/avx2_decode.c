/* Decode attention of the avx2 level. */
#include "kernels/kernels_internal.h"

void pkv__init_avx2(struct pkv__cpu_kernels *k)
{
    (void)k;
}
