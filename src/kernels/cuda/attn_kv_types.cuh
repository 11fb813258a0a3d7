/* Types of KV in attention: from rows in shared memory to the tensor cores' fragments.
 *
 * The dims are permuted, not the data. A *step* is what one ldmatrix.x4 takes: 16 tokens x 32 bytes
 * of their rows, of the same addresses for all types,
 *
 *   K, pkv_ldm_x4        lane's address: row k_row(lane), 16-byte chunk k_chunk(lane) of the step
 *   V, pkv_ldm_x4_trans  lane's address: row v_row(lane), chunk v_chunk(lane)
 *
 * which are STEP_DIMS = 16, 32 or 64 dims, N_FRAGS = 1, 2 or 4 fragments of 16. As the A operand of
 * pkv_mma16816, g = lane / 4, t = lane % 4:
 *
 *   K   16 tokens x 16 slots   k_dim(frag, slot): which dim of the step a slot of the sum is. q as
 *                              the B operand follows: b0 slots 2t, 2t+1, b1 slots 2t+8, 2t+9
 *   V^T 16 rows x 16 tokens    v_dim(frag, row): which dim of the step a row of the result is:
 *                              d[0], d[1] row g, d[2], d[3] row g + 8
 *
 * An element that has all bits of SPECIAL is not finite, value() of it is what it means; SPECIAL 0:
 * there are none.
 *
 * In 16 bytes of a row a lane of K holds bytes 4t .. 4t+3, of V bytes 2g, 2g+1 of two tokens.
 * As the B operand (attention of long rows), the same registers: see attn_codes.cuh, along for K,
 * across for V. Rows that are no type's multiple end in zeros, which mean 0 in all types. */
#ifndef PKV_ATTN_KV_TYPES_CUH
#define PKV_ATTN_KV_TYPES_CUH

#include "kernels/cuda/attn_codes.cuh"

/* What all types share. BITS: of an element. */
template <int32_t BITS_> struct pkv_kv_step {
    static constexpr int32_t BITS = BITS_;
    static constexpr int32_t N_FRAGS = 16 / BITS;
    static constexpr int32_t STEP_DIMS = 16 * N_FRAGS;

    static PKV_DEV constexpr int32_t row_bytes(int32_t dim) { return dim * BITS / 8; }
    static PKV_DEV int32_t k_row(int32_t lane) { return lane % 16; }
    static PKV_DEV int32_t k_chunk(int32_t lane) { return lane / 16; }
    static PKV_DEV int32_t v_row(int32_t lane) { return lane % 8 + lane / 16 * 8; }
    static PKV_DEV int32_t v_chunk(int32_t lane) { return lane / 8 % 2; }
};

/* 16 bits: nothing to convert, nothing to permute. */
template <class T, uint32_t SPECIAL_> struct pkv_kv_16 : pkv_kv_step<16> {
    using product = T;
    static constexpr bool IS_CODES = false, HAS_ZEROS = false;
    static constexpr uint32_t SPECIAL = SPECIAL_;

    static PKV_DEV void k_frags(uint32_t (&a)[1][4], const uint32_t (&r)[4]) { v_frags(a, r); }
    static PKV_DEV void v_frags(uint32_t (&a)[1][4], const uint32_t (&r)[4])
    {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) a[0][i] = r[i];
    }
    static PKV_DEV constexpr int32_t k_dim(int32_t, int32_t slot) { return slot; }
    static PKV_DEV constexpr int32_t v_dim(int32_t, int32_t row) { return row; }
    static PKV_DEV float unit() { return 1.f; }
    static PKV_DEV float value(uint32_t bits) { return pkv_unpack2<T>(bits).x; }
};

/* Of the step's registers, those of the first 16 bytes make the first half of the fragments. K:
 * r[0] and r[1] tokens g and g + 8 of the first 16 bytes, r[2] and r[3] of the second. V: r[0] and
 * r[2] tokens 2t and 2t + 8 of the first 16 bytes, r[1] and r[3] of the second. */
template <class Codes, int32_t BITS_> struct pkv_kv_codes : pkv_kv_step<BITS_> {
    using product = __half;
    static constexpr bool IS_CODES = true, HAS_ZEROS = BITS_ == 4;
    static constexpr uint32_t SPECIAL = Codes::SPECIAL;
    using codes = Codes;
    static constexpr int32_t N_FRAGS = 16 / BITS_;

    static PKV_DEV void k_frags(uint32_t (&a)[N_FRAGS][4], const uint32_t (&r)[4])
    {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            uint32_t to[Codes::N];
            Codes::along(to, r[i]);
            PKV_UNROLL
            for (int32_t j = 0; j < Codes::N; j++)
                a[i / 2 * (N_FRAGS / 2) + j / 2][i % 2 + j % 2 * 2] = to[j];
        }
    }
    static PKV_DEV void v_frags(uint32_t (&a)[N_FRAGS][4], const uint32_t (&r)[4])
    {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i++) {
            uint32_t to[Codes::N];
            Codes::across(to, r[i]);
            PKV_UNROLL
            for (int32_t j = 0; j < Codes::N; j++)
                a[i % 2 * (N_FRAGS / 2) + j / 2][i / 2 * 2 + j % 2] = to[j];
        }
    }
    static PKV_DEV float unit() { return Codes::unit(); }
    static PKV_DEV float value(uint32_t code) { return Codes::value(code); }

    /* Slots 2t + e and 2t + e + 8 are elements e of to[2 * (frag % (N_FRAGS / 2))] and the next. */
    static PKV_DEV constexpr int32_t k_dim(int32_t frag, int32_t slot)
    {
        const int32_t t = slot % 8 / 2, e = slot % 2, j = frag % (N_FRAGS / 2) * 2 + slot / 8;
        const int32_t chunk = frag / (N_FRAGS / 2) * (128 / BITS_);
        return chunk + (BITS_ == 8 ? 4 * t + 2 * j + e : 8 * t + j + 4 * e);
    }
    static PKV_DEV constexpr int32_t v_dim(int32_t frag, int32_t row)
    {
        const int32_t g = row % 8, j = frag % (N_FRAGS / 2) * 2 + row / 8;
        const int32_t chunk = frag / (N_FRAGS / 2) * (128 / BITS_);
        return chunk + Codes::N * g + j;
    }
};

using pkv_kv_f16 = pkv_kv_16<__half, 0x7c00>;
using pkv_kv_bf16 = pkv_kv_16<__nv_bfloat16, 0x7f80>;
using pkv_kv_e4m3 = pkv_kv_codes<pkv_codes_e4m3, 8>;
using pkv_kv_e5m2 = pkv_kv_codes<pkv_codes_e5m2, 8>;
using pkv_kv_int8 = pkv_kv_codes<pkv_codes_i8, 8>;
using pkv_kv_int4 = pkv_kv_codes<pkv_codes_u4, 4>;

/* The 16-bit type that stores what the tensor cores multiply. */
template <class Product> struct pkv__kv_of {
    using type = pkv_kv_f16;
};
template <> struct pkv__kv_of<__nv_bfloat16> {
    using type = pkv_kv_bf16;
};
template <class Product> using pkv_kv_of = typename pkv__kv_of<Product>::type;

/* Is the lowest element of a word infinite or NaN? */
template <class Store> PKV_DEV bool pkv__is_special(uint32_t bits)
{
    return (bits & Store::SPECIAL) == Store::SPECIAL;
}
/* A word of elements, with zeros for those. */
template <class Store> PKV_DEV uint32_t pkv__without_specials(uint32_t word)
{
    PKV_UNROLL
    for (int32_t at = 0; at < 32; at += Store::BITS)
        if (pkv__is_special<Store>(word >> at)) word &= ~(((1u << Store::BITS) - 1) << at);
    return word;
}
template <class Store> PKV_DEV uint4 pkv__without_specials(uint4 piece)
{
    return make_uint4(pkv__without_specials<Store>(piece.x), pkv__without_specials<Store>(piece.y),
                      pkv__without_specials<Store>(piece.z), pkv__without_specials<Store>(piece.w));
}

#endif
