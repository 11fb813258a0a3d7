/* The tile of the neon level; kernels/vector/tile.inc says what each number is. */
#ifndef PKV_NEON_TILE_SHAPE_H
#define PKV_NEON_TILE_SHAPE_H

#include "kernels/arm/neon_vec.h"

enum {
    TILE_VECTORS = 4,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 12 * TILE_LANES,
    TILE_REGISTER_ROWS = 4, /* times 4 vectors: 16 of 32 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

#endif
