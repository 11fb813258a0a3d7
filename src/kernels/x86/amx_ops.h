/* The tile instructions that amx_tile.c uses, by names of our own: tests compile the same kernel
 * against a model of them (tests/kernels/amx_model.h), since few machines have the real ones.
 *
 * Eight tiles of 16 rows x 64 bytes; tile numbers are literals. Strides are bytes. State belongs to
 * the thread, and nothing but amx_config and amx_release changes its shape. */
#ifndef PKV_AMX_OPS_H
#define PKV_AMX_OPS_H

#include <immintrin.h>

/* Palette 1; behind byte 16 the bytes per row of each tile, behind byte 48 its rows. */
struct amx_shape {
    unsigned char palette, start_row, reserved[14];
    unsigned short row_bytes[16];
    unsigned char rows[16];
};

#define amx_config(shape) _tile_loadconfig(shape)
#define amx_release() _tile_release()
#define amx_zero(tile) _tile_zero(tile)
#define amx_load(tile, base, stride) _tile_loadd(tile, base, stride)
#define amx_store(tile, base, stride) _tile_stored(tile, base, stride)
/* sum [16][16 floats] += a [16][16 pairs of bf16] * b [16 pairs][16] */
#define amx_dot(sum, a, b) _tile_dpbf16ps(sum, a, b)

#endif
