/* Tiles whose keys are latent rows: tile.h with longer rows. Included instead of it. */
#ifndef PKV_VECTOR_MLA_TILE_H
#define PKV_VECTOR_MLA_TILE_H

#include "kernels/mla_units.h"

#define TILE_MAX_DIM (PKV__MAX_LATENT + PKV__MAX_ROPE)
#include "kernels/vector/tile.h"

/* Scratch of one task, enough for every level. */
static inline size_t pkv__mla_tile_scratch_bytes(int32_t latent_dim, int32_t rope_dim)
{
    return pkv__tile_scratch_bytes(latent_dim + rope_dim, latent_dim);
}

#endif
