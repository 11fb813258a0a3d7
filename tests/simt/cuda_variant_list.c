/* The table of variants for scripts/kernel_gates.py: name, operation, dtype, least and largest dim,
 * tiles of query heads, threads, shared bytes; tabs between them. */
#include "kernels/cuda/cuda_internal.h"

#include <stdio.h>

int main(void)
{
    for (int32_t i = 0; i < pkv__n_cuda_variants; i++) {
        const struct pkv__cuda_variant *v = &pkv__cuda_variants[i];
        printf("%s\t%d\t%s\t%d\t%d\t%d\t%d\t%d\n", v->name, (int)v->op, pkv_dtype_name(v->dtype),
               v->dim_lo, v->dim_hi, v->head_tiles, v->n_threads, v->shared_bytes);
    }
    return 0;
}
