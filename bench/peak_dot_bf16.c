/* The loop of bf16 dot products: vdpbf16ps multiplies 32 pairs and adds them in twos to 16 sums. */
#include "peak_kernels.h"

#include <immintrin.h>

enum { N_CHAINS = 12 };

static void dot_products(int64_t rounds)
{
    __m512 acc[N_CHAINS];
    __m512i ones = _mm512_set1_epi16(0x3f80), zeros = _mm512_setzero_si512();
    __asm__ volatile("" : "+x"(ones), "+x"(zeros));
    for (int k = 0; k < N_CHAINS; k++) acc[k] = _mm512_setzero_ps();
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < N_CHAINS; k++)
            acc[k] = _mm512_dpbf16_ps(acc[k], (__m512bh)ones, (__m512bh)zeros);
    }
#pragma GCC unroll 12
    for (int k = 0; k < N_CHAINS; k++) __asm__ volatile("" : : "x"(acc[k]));
}

void peak_kernels_avx512bf16(struct peak_loop *loop)
{
    *loop = (struct peak_loop){ dot_products, N_CHAINS * 16 * 2 * 2, "bf16 dot products, 512 bit" };
}
