/* What kv_write and kv_gather share: which lanes have which row, rows of f32, f16 and bf16 in
 * memory, and reports. Rows begin at multiples of 16 bytes and have a multiple of 8 elements, so
 * that every access of 8 elements is one of 16 bytes, two of them, or all that there is. */
#ifndef PKV_ROW_MEMORY_CUH
#define PKV_ROW_MEMORY_CUH

#include "kernels/cuda/row_codes.cuh"
#include "pagedkv/views.h"

/* A lane among the rows that a warp has at a time:
 *
 *   lane   0 .. n-1 | n .. 2n-1 | ...     n = 2^lane_bits >= dim / 8
 *   row    0        | 1         | ...     lane i of a row has elements 8i .. 8i + 7 */
struct pkv__lane_place {
    int32_t row, chunk, n_rows;
};
PKV_DEV pkv__lane_place pkv__lane_of_rows(int32_t lane_bits)
{
    return { pkv_lane() >> lane_bits, pkv_lane() & ((1 << lane_bits) - 1), 32 >> lane_bits };
}

PKV_DEV int32_t pkv__bits_of(pkv_dtype dtype)
{
    return dtype == PKV_F32 ? 32 : dtype <= PKV_BF16 ? 16 : dtype == PKV_U4 ? 4 : 8;
}
/* Address of element `at`, a multiple of 8. */
PKV_DEV char *pkv__elem_at(void *data, pkv_dtype dtype, int64_t at)
{
    return static_cast<char *>(data) + at / 8 * pkv__bits_of(dtype);
}

PKV_DEV void pkv__load_words(const char *at, uint32_t (&words)[4])
{
    const uint4 v = pkv_ldv<uint4>(at);
    words[0] = v.x, words[1] = v.y, words[2] = v.z, words[3] = v.w;
}
PKV_DEV void pkv__store_words(char *at, const uint32_t (&words)[4])
{
    pkv_stv(at, make_uint4(words[0], words[1], words[2], words[3]));
}

PKV_DEV void pkv__load_floats(const char *at, float (&x)[PKV__CHUNK])
{
    const float4 a = pkv_ldv<float4>(at), b = pkv_ldv<float4>(at + 16);
    x[0] = a.x, x[1] = a.y, x[2] = a.z, x[3] = a.w;
    x[4] = b.x, x[5] = b.y, x[6] = b.z, x[7] = b.w;
}
PKV_DEV void pkv__store_floats(char *at, const float (&x)[PKV__CHUNK])
{
    pkv_stv(at, make_float4(x[0], x[1], x[2], x[3]));
    pkv_stv(at + 16, make_float4(x[4], x[5], x[6], x[7]));
}

/* Of f32, f16 or bf16. */
PKV_DEV void pkv__load_values(pkv_dtype dtype, const char *at, float (&x)[PKV__CHUNK])
{
    uint32_t words[4];
    if (dtype == PKV_F32) {
        pkv__load_floats(at, x);
        return;
    }
    pkv__load_words(at, words);
    if (dtype == PKV_F16) pkv__unpack_f16(words, x);
    else pkv__unpack_bf16(words, x);
}
PKV_DEV void pkv__store_values(pkv_dtype dtype, char *at, const float (&x)[PKV__CHUNK])
{
    uint32_t words[4];
    if (dtype == PKV_F32) {
        pkv__store_floats(at, x);
        return;
    }
    if (dtype == PKV_F16) pkv__pack_f16(x, words);
    else pkv__pack_bf16(x, words);
    pkv__store_words(at, words);
}

/* Bits pass. */
PKV_DEV void pkv__copy_values(pkv_dtype dtype, char *to, const char *from)
{
    const uint4 first = pkv_ldv<uint4>(from);
    if (dtype == PKV_F32) pkv_stv(to + 16, pkv_ldv<uint4>(from + 16));
    pkv_stv(to, first);
}

PKV_DEV float *pkv__scale_of(const pkv_scales &s, int64_t block, int64_t token, int64_t head)
{
    return s.data + block * s.block_stride + token * s.token_stride + head * s.head_stride;
}
PKV_DEV float pkv__scale_or(const pkv_scales &s, float absent, int64_t block, int64_t token,
                            int64_t head)
{
    return s.data ? pkv_ldv<float>(pkv__scale_of(s, block, token, head)) : absent;
}

/* Block and offset of a slot; most fit into 32 bits, where a division is short. */
struct pkv__slot_place {
    int64_t block, offset;
};
PKV_DEV pkv__slot_place pkv__place_of_slot(int64_t slot, int32_t block_tokens)
{
    if ((uint64_t)slot >> 32) return { slot / block_tokens, slot % block_tokens };
    const uint32_t n = (uint32_t)slot, bt = (uint32_t)block_tokens;
    return { n / bt, n % bt };
}

PKV_DEV uint32_t pkv__slot_word(int64_t x)
{
    return x < 0 || x > 0xffffffffll ? 0xffffffffu : (uint32_t)x;
}
/* By one thread of those that met the same. The words of an offender are those of whoever finds the
 * report empty. */
PKV_DEV void pkv__report_slot(uint32_t *bad, uint32_t bit, int64_t token, int64_t slot)
{
    if (!bad || pkv_atomic_or(bad, bit) != 0) return;
    pkv_stv(bad + 1, 0u);
    pkv_stv(bad + 2, pkv__slot_word(token));
    pkv_stv(bad + 3, pkv__slot_word(slot));
}

#endif
