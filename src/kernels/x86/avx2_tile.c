/* Rows kernels of the avx2 level: kernels/vector/tile.inc in float32. */
#include "kernels/x86/avx2_vec.h"

#include "kernels/x86/avx2_formats.h"

#include "common/number_format.h"
#include "kernels/vector/tile.h"
#include "kernels/x86/avx2_tile_shape.h"
#include "kernels/x86/avx2_transpose.h"
#include "kernels/x86/x86_levels.h"

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
