/* The tile of avx512 and avx512bf16; kernels/vector/tile.inc says what each number is. */
#ifndef PKV_AVX512_TILE_SHAPE_H
#define PKV_AVX512_TILE_SHAPE_H

#include "kernels/x86/avx512_vec.h"

enum {
    TILE_VECTORS = 3,
    TILE_LANES = TILE_VECTORS * LANES,
    TILE_QUERIES = 4 * TILE_LANES,
    TILE_REGISTER_ROWS = 8, /* times 3 vectors: 24 of 32 registers */
    TILE_STEP = TILE_REGISTER_ROWS
};

#endif
