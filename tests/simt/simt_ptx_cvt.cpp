/* cvt: between integers and the float formats, and within them.
 *
 * Every value but NaN is held exactly in a long double: of 64 bits of mantissa on x86-64, of 113
 * elsewhere. Rounding is done here, once, for all formats. */
#include "simt_formats.h"
#include "simt_ptx_arith.h"

#include <algorithm>
#include <cmath>
#include <cstring>

static_assert(__LDBL_MANT_DIG__ >= 64, "an integer of 64 bits fits");

namespace simt
{
namespace
{

using frame = ptx_frame;
using ins = ptx_instruction;
using m = ptx_mod;

struct format {
    int exp_bits, man_bits;
    bool has_inf;
    uint64_t nan;
};

format format_of(const ptx_type &t)
{
    switch (t.kind) {
    case ptx_kind::bf:
        return { 8, 7, true, 0x7fff };
    case ptx_kind::e4m3:
        return { 4, 3, false, 0x7f };
    case ptx_kind::e5m2:
        return { 5, 2, true, 0x7f };
    default:
        break;
    }
    if (t.bits == 16) return { 5, 10, true, 0x7fff };
    if (t.bits == 32) return { 8, 23, true, 0x7fffffff };
    return { 11, 52, true, 0x7fffffffffffffffull };
}

enum class rounding { nearest, zero, down, up };

rounding rounding_of(const ins &i)
{
    if (i.has(m::rz) || i.has(m::rzi)) return rounding::zero;
    if (i.has(m::rm) || i.has(m::rmi)) return rounding::down;
    if (i.has(m::rp) || i.has(m::rpi)) return rounding::up;
    return rounding::nearest;
}

/* To an integer. Nearest: of two equally near, the even one. */
long double round_to_integer(long double x, rounding how)
{
    if (how == rounding::zero) return std::trunc(x);
    if (how == rounding::down) return std::floor(x);
    if (how == rounding::up) return std::ceil(x);
    const long double below = std::floor(x), rest = x - below;
    if (rest != 0.5L) return rest < 0.5L ? below : below + 1;
    return std::fmod(below, 2.0L) == 0 ? below : below + 1;
}

/* The largest finite magnitude's code. */
uint64_t max_code(const format &to)
{
    const uint64_t all = (1ull << (to.exp_bits + to.man_bits)) - 1;
    return to.has_inf ? all - (1ull << to.man_bits) : all - 1;
}

/* The code of x in a format. */
uint64_t encode(long double x, const format &to, rounding how, bool finite)
{
    const uint64_t sign = (uint64_t)std::signbit(x) << (to.exp_bits + to.man_bits);
    const int bias = (1 << (to.exp_bits - 1)) - 1;
    const uint64_t infinity = max_code(to) + 1;
    if (std::isnan(x)) return to.nan;
    if (std::isinf(x)) return finite ? sign | max_code(to) : to.has_inf ? sign | infinity : to.nan;
    if (x == 0) return sign;
    int exp = 0;
    std::frexp(x, &exp);                                        /* |x| in [2^(exp - 1), 2^exp) */
    const int unit = std::max(exp - 1, 1 - bias) - to.man_bits; /* log2 of the last place */
    const long double n = std::fabs(round_to_integer(std::ldexp(x, -unit), how));
    /* The exponent field and the mantissa are one number, which a carry runs through. */
    const uint64_t code =
        n == 0 ? 0 : ((uint64_t)(unit + to.man_bits + bias - 1) << to.man_bits) + (uint64_t)n;
    if (code <= max_code(to)) return sign | code;
    const bool towards_zero =
        how == rounding::zero || (how == rounding::down && !sign) || (how == rounding::up && sign);
    return sign | (finite || towards_zero ? max_code(to) : to.has_inf ? infinity : to.nan);
}

long double decode(uint64_t code, const ptx_type &t)
{
    if (t.kind == ptx_kind::bf) return float_of_bf16((uint16_t)code);
    if (t.kind == ptx_kind::e4m3) return float_of_e4m3((uint8_t)code);
    if (t.kind == ptx_kind::e5m2) return float_of_e5m2((uint8_t)code);
    if (t.bits == 16) return float_of_f16((uint16_t)code);
    if (t.bits == 32) return float_of_bits((uint32_t)code);
    double x;
    memcpy(&x, &code, sizeof x);
    return x;
}

/* Float to integer: clamped to the type. NaN: 0, or the highest bit alone if 64 bits take part. */
uint64_t to_integer(long double x, const ptx_type &to, const ptx_type &from, rounding how)
{
    if (std::isnan(x)) return from.bits == 64 || to.bits == 64 ? 1ull << (to.bits - 1) : 0;
    const long double max = std::ldexp(1.0L, to.is_signed() ? to.bits - 1 : to.bits) - 1;
    const long double min = to.is_signed() ? -max - 1 : 0, y = round_to_integer(x, how);
    if (y >= max) return ptx_low(~0ull, to.is_signed() ? to.bits - 1 : to.bits);
    if (y <= min) return to.is_signed() ? 1ull << (to.bits - 1) : 0;
    return ptx_low(y < 0 ? (uint64_t)(int64_t)y : (uint64_t)y, to.bits);
}

uint64_t integer_to_integer(uint64_t x, const ptx_type &to, const ptx_type &from, bool sat)
{
    const ptx_int128 value =
        from.is_signed() ? (ptx_int128)ptx_signed(x, from.bits) : (ptx_int128)x;
    if (!sat) return (uint64_t)value; /* sign-extended: the register takes what it holds */
    const ptx_int128 max = ((ptx_int128)1 << (to.is_signed() ? to.bits - 1 : to.bits)) - 1;
    const ptx_int128 min = to.is_signed() ? -max - 1 : 0;
    return (uint64_t)(value > max ? max : value < min ? min : value);
}

uint64_t to_float(long double x, const ins &i, const ptx_type &to)
{
    const bool to_whole =
        i.has(m::rni) || i.has(m::rzi) || i.has(m::rmi) || i.has(m::rpi); /* within a format */
    if (to_whole && !std::isnan(x) && !std::isinf(x))
        x = std::copysign(round_to_integer(x, rounding_of(i)), x);
    if (i.has(m::sat)) x = x > 0 ? (x < 1 ? x : 1) : 0;
    if (i.has(m::relu) && x < 0) x = 0;
    const rounding how = to_whole ? rounding::nearest : rounding_of(i);
    const uint64_t code = encode(x, format_of(to), how, i.has(m::satfinite));
    const bool flush = i.has(m::ftz) && to.bits == 32 && to.kind == ptx_kind::f;
    return flush ? ptx_flush((uint32_t)code) : code;
}

/* One element, from the low bits of x. */
uint64_t convert(uint64_t x, const ins &i)
{
    const ptx_type &to = i.type[0], &from = i.type[1];
    const bool from_float =
        from.is_float() || from.kind == ptx_kind::e4m3 || from.kind == ptx_kind::e5m2;
    const bool to_a_float = to.is_float() || to.kind == ptx_kind::e4m3 || to.kind == ptx_kind::e5m2;
    x = ptx_low(x, from.bits);
    if (i.has(m::ftz) && from.kind == ptx_kind::f && from.bits == 32) x = ptx_flush((uint32_t)x);
    if (!from_float && !to_a_float) return integer_to_integer(x, to, from, i.has(m::sat));
    const long double value = from_float         ? decode(x, from)
                              : from.is_signed() ? (long double)ptx_signed(x, from.bits)
                                                 : (long double)x;
    if (!to_a_float) {
        const uint64_t y = to_integer(value, to, from, rounding_of(i));
        return to.is_signed() ? (uint64_t)ptx_signed(y, to.bits) : y;
    }
    return to_float(value, i, to);
}

/* Two elements: from two registers, the first one to the high half; or half by half. */
void run_pair(frame &f, const ins &i)
{
    const int to = i.type[0].bits, from = i.type[1].bits;
    const bool packed = i.type[1].lanes == 2;
    const uint64_t a = ptx_get(f, i, 1, 64);
    const uint64_t lo = packed ? a : ptx_get(f, i, 2, 64), hi = packed ? a >> from : a;
    ptx_set(f, i, 0, ptx_low(convert(lo, i), to) | ptx_low(convert(hi, i), to) << to);
}

void run_cvt(frame &f, const ins &i)
{
    if (i.type[0].lanes == 2) run_pair(f, i);
    else ptx_set(f, i, 0, convert(ptx_get(f, i, 1, 64), i));
}

constexpr ptx_type f16 = { ptx_kind::f, 16, 1 };

uint64_t half_difference(uint64_t a, uint64_t b)
{
    const long double x = decode(ptx_low(a, 16), f16), y = decode(ptx_low(b, 16), f16);
    return encode(x - y, format_of(f16), rounding::nearest, false);
}

const ptx_opcode opcodes[] = {
    { "cvt", run_cvt, "rn rz rm rp rni rzi rmi rpi ftz sat satfinite relu", 2, 3, 2 },
};

} // namespace

void ptx_half_sub(ptx_frame &f, const ptx_instruction &i)
{
    const uint64_t a = ptx_get(f, i, 1, 32), b = ptx_get(f, i, 2, 32);
    ptx_set(f, i, 0, half_difference(a, b) | half_difference(a >> 16, b >> 16) << 16);
}

ptx_opcode_list ptx_cvt_opcodes()
{
    return { opcodes, sizeof opcodes / sizeof opcodes[0] };
}

} // namespace simt
