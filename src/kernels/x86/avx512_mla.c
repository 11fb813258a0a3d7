/* Latent attention of the avx512 level: kernels/vector/mla.inc. The tile is that of the rows
 * kernels. */
#include "kernels/x86/avx512_vec.h"

#include "kernels/x86/avx512_formats.h"

#include "common/number_format.h"
#include "kernels/vector/mla_tile.h"
#include "kernels/x86/avx512_tile_shape.h"
#include "kernels/x86/avx512_transpose.h"
#include "kernels/x86/x86_levels.h"

#include "kernels/vector/tile_rows.inc"

#include "kernels/vector/mla.inc"

#include "kernels/vector/tile_products.inc"

#include "kernels/vector/tile.inc"

void pkv__avx512_register_mla(struct pkv__cpu_kernels *k)
{
    for (int place = 0; place < PKV__N_PLACES; place++) k->mla[place] = latent_attention;
    k->mla_isa = PKV_ISA_AVX512;
}
