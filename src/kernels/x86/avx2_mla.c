/* Latent attention of the avx2 level: kernels/vector/mla.inc. The tile is that of the rows kernels.
 */
#include "kernels/x86/avx2_vec.h"

#include "kernels/x86/avx2_formats.h"

#include "common/number_format.h"
#include "kernels/vector/mla_tile.h"
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

#include "kernels/vector/mla.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__avx2_register_mla(struct pkv__cpu_kernels *k)
{
    for (int place = 0; place < PKV__N_PLACES; place++) k->mla[place] = latent_attention;
    k->mla_isa = PKV_ISA_AVX2;
}
