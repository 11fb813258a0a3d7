/* Rows kernels of the neon level: kernels/vector/tile.inc in float32. */
#include "kernels/arm/neon_vec.h"

#include "kernels/arm/neon_formats.h"

#include "common/number_format.h"
#include "kernels/arm/arm_levels.h"
#include "kernels/arm/neon_tile_shape.h"
#include "kernels/arm/neon_transpose.h"
#include "kernels/vector/tile.h"

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
