/* The float32 loop. This file is compiled once per level with PEAK_INIT naming its entry.
 *
 * Twelve independent chains cover the latency of two units (4 or 5 cycles each), and with their
 * two operands fit into sixteen registers. x = x * 0.5 + 0.5 tends to 1, so that no value is ever
 * subnormal; the compiler cannot know the operands, and the results go into an asm sink. */
#include "peak_kernels.h"

#if defined(__AVX512F__)
#include <immintrin.h>
typedef __m512 vec;
#define FMA(a, b, c) _mm512_fmadd_ps(a, b, c)
#define WHAT "float32 FMA, 512 bit"
#elif defined(__FMA__)
#include <immintrin.h>
typedef __m256 vec;
#define FMA(a, b, c) _mm256_fmadd_ps(a, b, c)
#define WHAT "float32 FMA, 256 bit"
#elif defined(__aarch64__)
#include <arm_neon.h>
typedef float32x4_t vec;
#define FMA(a, b, c) vfmaq_f32(c, a, b)
#define WHAT "float32 FMA, 128 bit"
#else
typedef float vec __attribute__((vector_size(16)));
#define FMA(a, b, c) ((a) * (b) + (c))
#define WHAT "float32 multiply and add, 128 bit"
#endif

#if defined(__aarch64__)
#define REGISTER "w"
#else
#define REGISTER "x"
#endif

enum { N_CHAINS = 12, LANES = sizeof(vec) / sizeof(float) };

static void multiply_add(int64_t rounds)
{
    float start[LANES];
    vec acc[N_CHAINS], half;
    for (int i = 0; i < LANES; i++) start[i] = 0.5f;
    __builtin_memcpy(&half, start, sizeof(half));
    __asm__ volatile("" : "+" REGISTER(half));
    for (int k = 0; k < N_CHAINS; k++) acc[k] = half;
    for (int64_t i = 0; i < rounds; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < N_CHAINS; k++) acc[k] = FMA(acc[k], half, half);
    }
#pragma GCC unroll 12
    for (int k = 0; k < N_CHAINS; k++) __asm__ volatile("" : : REGISTER(acc[k]));
}

void PEAK_INIT(struct peak_loop *loop)
{
    *loop = (struct peak_loop){ multiply_add, N_CHAINS * LANES * 2, WHAT };
}
