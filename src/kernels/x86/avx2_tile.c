/* Rows kernels of the avx2 level: kernels/vector/tile.inc in float32. */
#include "kernels/x86/avx2_vec.h"

#include "kernels/x86/avx2_formats.h"

#include "common/number_format.h"
#include "kernels/vector/tile.h"
#include "kernels/x86/x86_levels.h"

enum {
    TILE_VECTORS = 3,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 8 * TILE_LANES,
    TILE_REGISTER_ROWS = 4, /* times 3 vectors: 12 of 16 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

/* Row i becomes column i: pairs, then fours inside each half, then the halves. */
PKV_TEMPLATE void v_transpose(vec *x)
{
    vec y[8], z[8];
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

#include "kernels/vector/tile_rows.inc"

#include "kernels/vector/tile_f32.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__avx2_register_rows(struct pkv__cpu_kernels *k)
{
    for (int t = PKV_F32; t < PKV_DTYPE_COUNT; t++)
        k->attn_rows[t] = (struct pkv__attn_kernel){ .fn = { tile_attention, tile_attention },
                                                     .isa = PKV_ISA_AVX2,
                                                     .kind = PKV__WHOLE,
                                                     .unit_queries = TILE_QUERIES };
}
