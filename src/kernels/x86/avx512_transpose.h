/* 16 x 16 floats (or any 32-bit elements) turned around in registers, AVX-512 F. */
#ifndef PKV_AVX512_TRANSPOSE_H
#define PKV_AVX512_TRANSPOSE_H

#include "common/templates.h"

#include <immintrin.h>

/* Row i becomes column i: pairs, then fours inside each 128-bit quarter, then the quarters. */
PKV_TEMPLATE void v_transpose(__m512 *x)
{
    __m512 y[16], z[16];
    PKV_UNROLL for (int i = 0; i < 16; i += 2)
    {
        y[i] = _mm512_unpacklo_ps(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_ps(x[i], x[i + 1]);
    }
    PKV_UNROLL for (int i = 0; i < 16; i += 4)
    {
        PKV_UNROLL for (int h = 0; h < 2; h++)
        {
            const __m512d a = _mm512_castps_pd(y[i + h]), b = _mm512_castps_pd(y[i + h + 2]);
            z[i + 2 * h] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            z[i + 2 * h + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    }
    /* Quarter k of z[4 r + c] is column 4 k + c of rows 4 r .. 4 r + 3. */
    PKV_UNROLL for (int c = 0; c < 4; c++)
    {
        const __m512 even01 = _mm512_shuffle_f32x4(z[c], z[4 + c], 0x88);
        const __m512 even23 = _mm512_shuffle_f32x4(z[8 + c], z[12 + c], 0x88);
        const __m512 odd01 = _mm512_shuffle_f32x4(z[c], z[4 + c], 0xdd);
        const __m512 odd23 = _mm512_shuffle_f32x4(z[8 + c], z[12 + c], 0xdd);
        x[c] = _mm512_shuffle_f32x4(even01, even23, 0x88);
        x[4 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0x88);
        x[8 + c] = _mm512_shuffle_f32x4(even01, even23, 0xdd);
        x[12 + c] = _mm512_shuffle_f32x4(odd01, odd23, 0xdd);
    }
}

#endif
