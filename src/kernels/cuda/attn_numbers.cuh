/* Numbers that all kernels of attention have in common: powers of two, queries on their way to the
 * type of the products, weights, and the end of a row. Register-only. */
#ifndef PKV_ATTN_NUMBERS_CUH
#define PKV_ATTN_NUMBERS_CUH

#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/pkv_dev.cuh"

#define PKV_NEG_INF (-__builtin_inff())
constexpr float PKV_LN2 = 0.693147180559945309f, PKV_LOG2E = 1.44269504088896341f;

/* ---------------------------------------------------------------- powers of two */
/* 2^k, -126 <= k <= 127 */
PKV_DEV float pkv__pow2(int32_t k)
{
    return pkv_float_of_bits((uint32_t)(k + 127) << 23);
}
/* The k with 2^k <= x < 2^(k + 1), for x > 0; -127 for 0 and subnormal x, 128 for infinity. */
PKV_DEV int32_t pkv__exponent(float x)
{
    return (int32_t)(pkv_float_bits(x) >> 23) - 127;
}
/* The largest power of two up to |scale|, for scales from 2^-126 up to below 2^127; beyond, what
 * is nearest. Neither NaN nor infinity breaks it: they have to reach the weights as they are. */
PKV_DEV float pkv__scale_unit(float scale)
{
    const uint32_t exponent = pkv_float_bits(scale) >> 23 & 0xff;
    return pkv_float_of_bits((exponent < 1 ? 1 : exponent > 253 ? 253 : exponent) << 23);
}
/* 1 / unit, exactly. */
PKV_DEV float pkv__unit_inverse(float unit)
{
    return pkv_float_of_bits((254u << 23) - pkv_float_bits(unit));
}
/* 1 over the least unit. */
constexpr float PKV__LARGEST_OVER = 0x1p126f;

/* ---------------------------------------------------------------- queries */
/* The k by which a row of bf16 is multiplied on its way to halves, as 2^k, given back by what its
 * products are multiplied by: its largest value comes to lie in [2^14, 2^15), so that whatever is
 * not below 2^-28 of it keeps all bits. 120: even the smallest bf16 become normal. Rows with an
 * infinity, or of zeros alone, stay. For products of bf16 rows stay as they are: K may be small
 * where q is large. */
PKV_DEV int32_t pkv__half_shift(float largest)
{
    if (!(largest > 0) || largest > 3.4e38f) return 0;
    const int32_t exponent = pkv__exponent(largest);
    return 14 - exponent < 120 ? 14 - exponent : 120;
}

template <class T> PKV_DEV void pkv__unpack8(float (&x)[8], uint4 bits)
{
    const uint32_t words[4] = { bits.x, bits.y, bits.z, bits.w };
    PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        const float2 two = pkv_unpack2<T>(words[i]);
        x[2 * i] = two.x;
        x[2 * i + 1] = two.y;
    }
}
template <class T> PKV_DEV uint4 pkv__pack8(const float (&x)[8])
{
    return make_uint4(pkv_pack2<T>(x[0], x[1]), pkv_pack2<T>(x[2], x[3]), pkv_pack2<T>(x[4], x[5]),
                      pkv_pack2<T>(x[6], x[7]));
}
/* bf16 times a power of two, as halves. Two at a time: in the latent kernel registers are full. */
PKV_DEV uint32_t pkv__two_halves_of(uint32_t bits, float power)
{
    const float2 two = pkv_unpack2<__nv_bfloat16>(bits);
    return pkv_pack2<__half>(two.x * power, two.y * power);
}
PKV_DEV uint4 pkv__halves_of(uint4 bits, float power)
{
    return make_uint4(pkv__two_halves_of(bits.x, power), pkv__two_halves_of(bits.y, power),
                      pkv__two_halves_of(bits.z, power), pkv__two_halves_of(bits.w, power));
}
/* The largest magnitude of eight bf16. */
PKV_DEV float pkv__largest_of(uint4 bits)
{
    const uint32_t words[4] = { bits.x, bits.y, bits.z, bits.w };
    float largest = 0;
    PKV_UNROLL
    for (int32_t i = 0; i < 4; i++) {
        const float2 two = pkv_unpack2<__nv_bfloat16>(words[i]);
        largest = fmaxf(largest, fmaxf(fabsf(two.x), fabsf(two.y)));
    }
    return largest;
}

/* ---------------------------------------------------------------- logits and weights */
/* c * tanh(z / c); a power of infinity gives 1, of 0 gives -1. unit: pkv__cap_unit(c). */
PKV_DEV float pkv__capped(float z, float c, float unit)
{
    return c * (1.f - 2.f * pkv_rcp(1.f + pkv_exp2(z * unit)));
}

/* Weights are kept times 2^P_BITS: those of halves are then precise down to 2^-28 of the largest.
 * 14: a sum of two that are rounded up stays finite. bf16 has the exponents of float. */
template <class Product> constexpr int32_t PKV_P_BITS = 0;
template <> constexpr int32_t PKV_P_BITS<__half> = 14;
template <class Product> constexpr float PKV_P_UNIT = (float)(1 << PKV_P_BITS<Product>);

/* e^z * 2^bits, z <= 0; of 0 exactly 2^bits. */
PKV_DEV float pkv__weight(float z, int32_t bits)
{
    return pkv_exp2(fmaf(z, PKV_LOG2E, (float)bits));
}

/* ---------------------------------------------------------------- the end of a row */
/* What the sum of weights times V is to be multiplied by, and lse. `by` 0: no key has weight, and
 * whatever stands in the sum, the row is zeros. */
struct pkv__row_end {
    float by, lse;
};
/* 1 / x to a unit in the last place, for 1 <= x < 2^126: a division costs registers for the x that
 * are outside. */
PKV_DEV float pkv__inverse(float x)
{
    const float near = pkv_rcp(x);
    return fmaf(near, fmaf(-x, near, 1.f), near);
}
/* m: the largest logit; l: the sum of weights, that of m being 1; sink: -inf if there is none. The
 * sink joins here, and nowhere else: alone it is the lse, whatever it is. */
PKV_DEV pkv__row_end pkv__end_of_row(float m, float l, float sink)
{
    if (l == 0) return { 0, sink };
    const float most = fmaxf(m, sink), finite = most == PKV_NEG_INF ? 0 : most;
    const float of_keys = pkv__weight(m - finite, 0);
    const float sum = fmaf(l, of_keys, pkv__weight(sink - finite, 0));
    return { of_keys * pkv__inverse(sum), fmaf(pkv_log2(sum), PKV_LN2, most) };
}
PKV_DEV void pkv__put_lse(const pkv_lse &to, int64_t row, int32_t head, float lse)
{
    to.data[row * to.row_stride + head * to.head_stride] = to.base2 ? lse * PKV_LOG2E : lse;
}

#endif
