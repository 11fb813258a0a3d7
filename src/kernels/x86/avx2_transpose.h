/* 8 x 8 floats turned around in registers, AVX2. */
#ifndef PKV_AVX2_TRANSPOSE_H
#define PKV_AVX2_TRANSPOSE_H

#include "common/templates.h"

#include <immintrin.h>

/* Row i becomes column i: pairs, then fours inside each half, then the halves. */
PKV_TEMPLATE void v_transpose(__m256 *x)
{
    __m256 y[8], z[8];
    PKV_UNROLL for (int i = 0; i < 8; i += 2)
    {
        y[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    PKV_UNROLL for (int i = 0; i < 8; i += 4)
    {
        PKV_UNROLL for (int h = 0; h < 2; h++)
        {
            z[i + 2 * h] = _mm256_shuffle_ps(y[i + h], y[i + h + 2], 0x44);
            z[i + 2 * h + 1] = _mm256_shuffle_ps(y[i + h], y[i + h + 2], 0xee);
        }
    }
    PKV_UNROLL for (int c = 0; c < 4; c++)
    {
        x[c] = _mm256_permute2f128_ps(z[c], z[4 + c], 0x20);
        x[4 + c] = _mm256_permute2f128_ps(z[c], z[4 + c], 0x31);
    }
}

#endif
