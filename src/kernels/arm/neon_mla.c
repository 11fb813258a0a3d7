/* Latent attention of the neon level: kernels/vector/mla.inc. The tile is that of the rows kernels.
 */
#include "kernels/arm/neon_vec.h"

#include "kernels/arm/neon_formats.h"

#include "common/number_format.h"
#include "kernels/arm/arm_levels.h"
#include "kernels/arm/neon_tile_shape.h"
#include "kernels/arm/neon_transpose.h"
#include "kernels/vector/mla_tile.h"

#include "kernels/vector/tile_rows.inc"

#include "kernels/vector/mla.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__neon_register_mla(struct pkv__cpu_kernels *k)
{
    for (int place = 0; place < PKV__N_PLACES; place++) k->mla[place] = latent_attention;
    k->mla_isa = PKV_ISA_NEON;
}
