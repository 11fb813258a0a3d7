/* The tile of the avx2 level; kernels/vector/tile.inc says what each number is. */
#ifndef PKV_AVX2_TILE_SHAPE_H
#define PKV_AVX2_TILE_SHAPE_H

#include "kernels/x86/avx2_vec.h"

enum {
    TILE_VECTORS = 3,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 8 * TILE_LANES,
    TILE_REGISTER_ROWS = 4, /* times 3 vectors: 12 of 16 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

#endif
