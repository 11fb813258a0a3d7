/* Scales and zero points of the keys of a tile, in registers.
 *
 *   loaded       lane l has those of key l % 16
 *   at their use the accumulators' rows g and g + 8, g = lane / 4, are keys of the tile
 *
 * K: z = (product - zero * sum of the query) * scale * what the column is multiplied by.
 *
 * V: a weight is multiplied by the scale before it is rounded to 16 bits. Scales may be of any
 * size: what is rounded is weight * scale / unit, unit the power of two of the largest scale that a
 * column has seen so far. Sums are kept over it, and go over to a new one as they do to a new
 * maximum. Zero points meet the same rounded weights: what they lose, V loses too. */
#ifndef PKV_ATTN_CODES_SCALES_CUH
#define PKV_ATTN_CODES_SCALES_CUH

#include "kernels/cuda/attn_kv_types.cuh"
#include "kernels/cuda/attn_numbers.cuh"
#include "pagedkv/views.h"

/* Scale and zero point of one key. */
struct pkv__numbers {
    float scale, zero;
};
/* Of token `at` of block `id`; of a key that nobody sees nothing is read. */
PKV_DEV float pkv__load_number(const pkv_scales &s, int32_t head, int32_t id, int32_t at,
                               float absent)
{
    if (!s.data) return absent;
    return pkv_ldv_const<float>(s.data +
                                (id * s.block_stride + at * s.token_stride + head * s.head_stride));
}
template <class Store>
PKV_DEV pkv__numbers pkv__load_numbers(const pkv_kv_view &view, int32_t head, int32_t id,
                                       int32_t at, bool seen)
{
    pkv__numbers x = { 0, 0 };
    if (!seen) return x;
    x.scale = pkv__load_number(view.scales, head, id, at, 1);
    if constexpr (Store::HAS_ZEROS) x.zero = pkv__load_number(view.zeros, head, id, at, 0);
    return x;
}

/* ---------------------------------------------------------------- at their use */
/* Of keys g and g + 8. */
struct pkv__row_numbers {
    float scale[2], zero[2];
};
/* The unit of a tile's scales, two in each lane as its rows are. All lanes come. */
PKV_DEV float pkv__tile_unit(float first, float second)
{
    float largest = fmaxf(fabsf(first), fabsf(second));
    PKV_UNROLL
    for (int32_t bits = 4; bits < 32; bits *= 2)
        largest = fmaxf(largest, pkv_shfl_xor(largest, bits));
    return pkv__scale_unit(largest);
}

#endif
