/* Rows kernels of the neon level: kernels/vector/tile.inc in float32. */
#include "kernels/arm/neon_vec.h"

#include "kernels/arm/neon_formats.h"

#include "common/number_format.h"
#include "kernels/arm/arm_levels.h"
#include "kernels/arm/neon_transpose.h"
#include "kernels/vector/tile.h"

enum {
    TILE_VECTORS = 4,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 12 * TILE_LANES,
    TILE_REGISTER_ROWS = 4, /* times 4 vectors: 16 of 32 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

#include "kernels/vector/tile_rows.inc"

#include "kernels/vector/tile_f32.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__neon_register_rows(struct pkv__cpu_kernels *k)
{
    for (int t = PKV_F32; t < PKV_DTYPE_COUNT; t++)
        k->attn_rows[t] = (struct pkv__attn_kernel){ .fn = { tile_attention, tile_attention },
                                                     .isa = PKV_ISA_NEON,
                                                     .kind = PKV__WHOLE,
                                                     .unit_queries = TILE_QUERIES };
}
