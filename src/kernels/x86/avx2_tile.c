/* Rows kernels of the avx2 level: kernels/vector/tile.inc in float32. */
#include "kernels/x86/avx2_vec.h"

#include "kernels/x86/avx2_formats.h"

#include "common/number_format.h"
#include "kernels/vector/tile.h"
#include "kernels/x86/avx2_transpose.h"
#include "kernels/x86/x86_levels.h"

enum {
    TILE_VECTORS = 3,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 8 * TILE_LANES,
    TILE_REGISTER_ROWS = 4, /* times 3 vectors: 12 of 16 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

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
