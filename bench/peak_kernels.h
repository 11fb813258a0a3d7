/* Arithmetic loops, compiled once per CPU level: how many operations a second the level can do when
 * nothing but arithmetic is in the way. */
#ifndef PKV_PEAK_KERNELS_H
#define PKV_PEAK_KERNELS_H

#include <stdint.h>

/* Do `rounds` rounds of independent multiply-adds on registers. */
typedef void (*peak_fn)(int64_t rounds);

struct peak_loop {
    peak_fn run;      /* NULL: the level has no such instruction */
    int32_t flops;    /* of one round; a multiply-add is two */
    const char *what; /* "float32 FMA" */
};

void peak_kernels_scalar(struct peak_loop *loop);
void peak_kernels_avx2(struct peak_loop *loop);
void peak_kernels_avx512(struct peak_loop *loop);
void peak_kernels_avx512bf16(struct peak_loop *loop);

#endif
