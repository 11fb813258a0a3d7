/* Values that are not finite, of keys that some row of an item sees and another does not: in a
 * product a weight of 0 would not keep them out. Rare, and looked for only in such tiles. */
#ifndef PKV_ATTN_DECODE_CONFINE_CUH
#define PKV_ATTN_DECODE_CONFINE_CUH

#include "kernels/cuda/attn_decode_queries.cuh"

/* A lane's piece j of a tile without what is not finite. */
template <class Shape> PKV_DEV uint4 pkv__finite_piece(unsigned char *place, int32_t j)
{
    const uint4 piece = pkv_ldv<uint4>(Shape::Tile::down(place, j));
    return pkv__without_specials<typename Shape::Store>(piece);
}
template <class Shape> PKV_DEV bool pkv__has_specials(unsigned char *place)
{
    bool found = false;
    for (int32_t j = 0; j < Shape::Tile::N_COPIES; j++) {
        const uint4 is = pkv_ldv<uint4>(Shape::Tile::down(place, j));
        const uint4 finite = pkv__finite_piece<Shape>(place, j);
        found =
            found || is.x != finite.x || is.y != finite.y || is.z != finite.z || is.w != finite.w;
    }
    return pkv_any(found);
}

/* Element i of 16 bytes. */
template <class Store> PKV_DEV uint32_t pkv__element(const unsigned char *piece, int32_t i)
{
    if constexpr (Store::BITS == 16) return pkv_ldv<uint16_t>(piece + 2 * i);
    return piece[i];
}

/* Add weight times value where a column sees it, element by element: row r of the tile. */
template <class Shape>
PKV_DEV void pkv__add_specials(pkv__decode_state<Shape> &state, const unsigned char *values,
                               const float (&p)[Shape::NT][4], uint32_t word, int32_t r)
{
    using Store = typename Shape::Store;
    const int32_t g = pkv_lane() / 4, t = pkv_lane() % 4;
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            const float weight = pkv_shfl(r < 8 ? p[n][e] : p[n][2 + e], r % 8 * 4 + t);
            const bool sees = pkv_shfl(word, 8 * n + 2 * t + e) >> r & 1u;
            PKV_UNROLL
            for (int32_t f = 0; f < Shape::N_FRAGS; f++) {
                PKV_UNROLL
                for (int32_t up = 0; up < 2; up++) {
                    const int32_t dim = f / Store::N_FRAGS * Store::STEP_DIMS +
                                        Store::v_dim(f % Store::N_FRAGS, 8 * up + g);
                    const uint32_t bits =
                        pkv__element<Store>(values + Shape::Tile::place(r, dim * Store::BITS / 128),
                                            dim % (128 / Store::BITS));
                    if (sees && pkv__is_special<Store>(bits))
                        state.o[n][f][2 * up + e] += weight * Store::value(bits);
                }
            }
        }
    }
}

/* Before the product with V. word: of lane c, which keys column c sees; all: of any column. */
template <class Shape>
PKV_DEV void pkv__confine_values(pkv__decode_state<Shape> &state, unsigned char *values,
                                 const float (&p)[Shape::NT][4], uint32_t word, uint32_t all,
                                 bool is_column)
{
    using Tile = typename Shape::Tile;
    if (!pkv_any(is_column && word != all)) return;
    unsigned char *const place =
        values + Tile::place(pkv_lane() / Tile::CHUNKS, pkv_lane() % Tile::CHUNKS);
    if (!pkv__has_specials<Shape>(place)) return;
    for (int32_t r = 0; r < PKV__TILE_KEYS; r++)
        pkv__add_specials<Shape>(state, values, p, word, r);
    pkv_syncwarp();
    for (int32_t j = 0; j < Tile::N_COPIES; j++)
        pkv_stv(Tile::down(place, j), pkv__finite_piece<Shape>(place, j));
    pkv_syncwarp();
}

#endif
