/* Latent attention of the neon level: kernels/vector/mla.inc. The tile is that of the rows kernels.
 */
#include "kernels/arm/neon_vec.h"

#include "kernels/arm/neon_formats.h"

#include "common/number_format.h"
#include "kernels/arm/arm_levels.h"
#include "kernels/arm/neon_transpose.h"
#include "kernels/vector/mla_tile.h"

enum {
    TILE_VECTORS = 4,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 12 * TILE_LANES,
    TILE_REGISTER_ROWS = 4, /* times 4 vectors: 16 of 32 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

#include "kernels/vector/tile_rows.inc"

#include "kernels/vector/mla.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__neon_register_mla(struct pkv__cpu_kernels *k)
{
    for (int place = 0; place < PKV__N_PLACES; place++) k->mla[place] = latent_attention;
    k->mla_isa = PKV_ISA_NEON;
}
