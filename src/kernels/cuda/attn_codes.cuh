/* Codes of KV to halves, four or eight in a register at a time.
 *
 * A register holds what ldmatrix gives a lane: two 16-bit elements, that is bytes 0 and 1 of the
 * first, bytes 2 and 3 of the second. Without .trans they are neighbours in one row; with it they
 * are of two rows, one above the other. Per type of codes:
 *
 *   along(to, from)   to[i] = two codes of one row: what `along_code(i, half)` names
 *   across(to, from)  to[i] = code i of each of the two elements: of two rows
 *   unit()            the value of a code is unit() times the half
 *   SPECIAL, value()  codes that have all of these bits are not finite, and what they mean; 0: none
 *
 *   8 bits: bytes 0 1 | 2 3      along: to[0] = 0, 1  to[1] = 2, 3    across: to[0] = 0, 2  to[1] =
 * 1, 3 4 bits: codes 0 .. 3 | 4 .. 7     along and across: to[i] = i, i + 4
 *
 * Halves are exact. int8 and int4 are put into the mantissa of 1024 or 64, which is then taken
 * off. e4m3 has a conversion since sm_89; before, its bits are moved into a half whose exponent is
 * 8 too low, subnormals included: unit() is 256, and the NaN codes read as 480. */
#ifndef PKV_ATTN_CODES_CUH
#define PKV_ATTN_CODES_CUH

#include "kernels/cuda/pkv_dev.cuh"

/* Codes, divided by 256; each stands in the lower byte of a half, above it its sign eight times. */
PKV_DEV uint32_t pkv__e4m3_of_signed(uint32_t x)
{
    return x << 7 & 0xbf80bf80u;
}

struct pkv_codes_e4m3 {
    static constexpr int32_t N = 2; /* registers of halves per register of codes */
    static constexpr uint32_t SPECIAL = 0x7f;

    template <bool CVT = PKV_E4M3_CVT> static PKV_DEV void along(uint32_t (&to)[2], uint32_t from)
    {
        if constexpr (CVT) {
            to[0] = pkv_e4m3x2_to_f16x2((uint16_t)(from & 0xffff));
            to[1] = pkv_e4m3x2_to_f16x2((uint16_t)(from >> 16));
        } else {
            to[0] = pkv__e4m3_of_signed(pkv_prmt(from, 0, 0x9180));
            to[1] = pkv__e4m3_of_signed(pkv_prmt(from, 0, 0xb3a2));
        }
    }
    template <bool CVT = PKV_E4M3_CVT> static PKV_DEV void across(uint32_t (&to)[2], uint32_t from)
    {
        if constexpr (CVT) {
            along<true>(to, pkv_prmt(from, 0, 0x3120));
        } else {
            to[0] = pkv__e4m3_of_signed(pkv_prmt(from, 0, 0xa280));
            to[1] = pkv__e4m3_of_signed(pkv_prmt(from, 0, 0xb391));
        }
    }
    static PKV_DEV float value(uint32_t code)
    {
        return pkv_unpack2<__half>(pkv_e4m3x2_to_f16x2((uint16_t)code)).x;
    }
    template <bool CVT = PKV_E4M3_CVT> static PKV_DEV float unit() { return CVT ? 1.f : 256.f; }
};

/* The upper half of a binary16. */
struct pkv_codes_e5m2 {
    static constexpr int32_t N = 2;
    static constexpr uint32_t SPECIAL = 0x7c;

    static PKV_DEV void along(uint32_t (&to)[2], uint32_t from)
    {
        to[0] = pkv_prmt(from, 0, 0x1404);
        to[1] = pkv_prmt(from, 0, 0x3424);
    }
    static PKV_DEV void across(uint32_t (&to)[2], uint32_t from)
    {
        to[0] = pkv_prmt(from, 0, 0x2404);
        to[1] = from & 0xff00ff00u;
    }
    static PKV_DEV float value(uint32_t code) { return pkv_unpack2<__half>(code << 8).x; }
    static PKV_DEV float unit() { return 1.f; }
};

/* With its sign bit flipped a code is code + 128; in the mantissa of 1024: 1152 + code. */
struct pkv_codes_i8 {
    static constexpr int32_t N = 2;
    static constexpr uint32_t SPECIAL = 0;

    static PKV_DEV void along(uint32_t (&to)[2], uint32_t from)
    {
        placed(to, from, 0x4140, 0x4342);
    }
    static PKV_DEV void across(uint32_t (&to)[2], uint32_t from)
    {
        placed(to, from, 0x4240, 0x4341);
    }
    static PKV_DEV float unit() { return 1.f; }

  private:
    static PKV_DEV void placed(uint32_t (&to)[2], uint32_t from, uint32_t first, uint32_t second)
    {
        const uint32_t raised = from ^ 0x80808080u;
        to[0] = pkv_sub_f16x2(pkv_prmt(raised, 0x64646464u, first), 0x64806480u);
        to[1] = pkv_sub_f16x2(pkv_prmt(raised, 0x64646464u, second), 0x64806480u);
    }
};

/* Nibbles 0 and 2 of an element in the last bits of the mantissa of 1024; 1 and 3 four places
 * further, in that of 64. */
struct pkv_codes_u4 {
    static constexpr int32_t N = 4;
    static constexpr uint32_t SPECIAL = 0;

    static PKV_DEV void along(uint32_t (&to)[4], uint32_t from)
    {
        PKV_UNROLL
        for (int32_t i = 0; i < 4; i += 2, from >>= 8) {
            to[i] = pkv_sub_f16x2(pkv_and_or(from, 0x000f000fu, 0x64006400u), 0x64006400u);
            to[i + 1] = pkv_sub_f16x2(pkv_and_or(from, 0x00f000f0u, 0x54005400u), 0x54005400u);
        }
    }
    static PKV_DEV void across(uint32_t (&to)[4], uint32_t from) { along(to, from); }
    static PKV_DEV float unit() { return 1.f; }
};

#endif
