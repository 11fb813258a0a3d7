/* Instructions of PTX on integers, bits and predicates. Widths above an operand's type never count:
 * operands are read with the bits of the type. */
#include "simt_ptx_arith.h"

namespace simt
{
namespace
{

using frame = ptx_frame;
using ins = ptx_instruction;
using m = ptx_mod;
using wide = ptx_uint128;

int width(const ins &i)
{
    return i.last_type().bits;
}

/* The product in twice the bits. */
wide product(const frame &f, const ins &i)
{
    const int bits = width(i);
    if (i.last_type().is_signed())
        return (wide)((ptx_int128)ptx_get_signed(f, i, 1, bits) * ptx_get_signed(f, i, 2, bits));
    return (wide)ptx_get(f, i, 1, bits) * ptx_get(f, i, 2, bits);
}

uint64_t saturated(ptx_int128 x, int bits)
{
    const ptx_int128 max = ((ptx_int128)1 << (bits - 1)) - 1;
    return (uint64_t)(x > max ? max : x < -max - 1 ? -max - 1 : x);
}

void add_or_sub(frame &f, const ins &i, bool sub)
{
    const int bits = width(i);
    if (i.has(m::sat)) {
        const ptx_int128 a = ptx_get_signed(f, i, 1, bits), b = ptx_get_signed(f, i, 2, bits);
        ptx_set(f, i, 0, saturated(sub ? a - b : a + b, bits));
        return;
    }
    const wide a = ptx_get(f, i, 1, bits), b = ptx_get(f, i, 2, bits);
    const wide x = sub ? a - b : a + b;
    ptx_set(f, i, 0, ptx_low((uint64_t)x, bits));
    if (i.has(m::cc)) f.carry = (uint64_t)(x >> bits) & 1;
}

void run_add(frame &f, const ins &i)
{
    if (i.last_type().is_float()) ptx_float_add(f, i);
    else add_or_sub(f, i, false);
}

void run_sub(frame &f, const ins &i)
{
    if (i.last_type().lanes == 2) ptx_half_sub(f, i);
    else if (i.last_type().is_float()) ptx_float_sub(f, i);
    else add_or_sub(f, i, true);
}

void run_addc(frame &f, const ins &i)
{
    const int bits = width(i);
    const wide x = (wide)ptx_get(f, i, 1, bits) + ptx_get(f, i, 2, bits) + f.carry;
    ptx_set(f, i, 0, ptx_low((uint64_t)x, bits));
    if (i.has(m::cc)) f.carry = (uint64_t)(x >> bits) & 1;
}

void run_subc(frame &f, const ins &i)
{
    const int bits = width(i);
    const wide x = (wide)ptx_get(f, i, 1, bits) - ptx_get(f, i, 2, bits) - f.carry;
    ptx_set(f, i, 0, ptx_low((uint64_t)x, bits));
    if (i.has(m::cc)) f.carry = (uint64_t)(x >> bits) & 1;
}

void run_mul(frame &f, const ins &i)
{
    if (i.last_type().is_float()) {
        ptx_float_mul(f, i);
        return;
    }
    const int bits = width(i);
    const wide x = product(f, i);
    if (i.has(m::wide)) ptx_set(f, i, 0, ptx_low((uint64_t)x, 2 * bits));
    else ptx_set(f, i, 0, ptx_low((uint64_t)(i.has(m::hi) ? x >> bits : x), bits));
}

void run_mad(frame &f, const ins &i)
{
    if (i.last_type().is_float()) {
        ptx_float_fma(f, i);
        return;
    }
    const int bits = width(i);
    const wide x = product(f, i);
    if (i.has(m::wide))
        ptx_set(f, i, 0, ptx_low((uint64_t)x + ptx_get(f, i, 3, 2 * bits), 2 * bits));
    else if (i.has(m::sat))
        ptx_set(f, i, 0,
                saturated((ptx_int128)ptx_signed((uint64_t)(x >> bits), bits) +
                              ptx_get_signed(f, i, 3, bits),
                          bits));
    else
        ptx_set(f, i, 0,
                ptx_low((uint64_t)(i.has(m::hi) ? x >> bits : x) + ptx_get(f, i, 3, bits), bits));
}

/* By zero the manual leaves it open; this is what GPUs do: all ones, and the dividend. The least
 * number by -1 is itself, remainder 0. */
void run_div_or_rem(frame &f, const ins &i, bool rem)
{
    const int bits = width(i);
    if (ptx_get(f, i, 2, bits) == 0) {
        ptx_set(f, i, 0, rem ? ptx_get(f, i, 1, bits) : ptx_low(~0ull, bits));
        return;
    }
    if (i.last_type().is_signed()) {
        const ptx_int128 a = ptx_get_signed(f, i, 1, bits), b = ptx_get_signed(f, i, 2, bits);
        ptx_set(f, i, 0, ptx_low((uint64_t)(rem ? a % b : a / b), bits));
        return;
    }
    const uint64_t a = ptx_get(f, i, 1, bits), b = ptx_get(f, i, 2, bits);
    ptx_set(f, i, 0, rem ? a % b : a / b);
}

void run_div(frame &f, const ins &i)
{
    if (i.last_type().is_float()) ptx_float_div(f, i);
    else run_div_or_rem(f, i, false);
}

void run_rem(frame &f, const ins &i)
{
    run_div_or_rem(f, i, true);
}

void run_neg(frame &f, const ins &i)
{
    if (i.last_type().is_float()) ptx_float_neg(f, i);
    else ptx_set(f, i, 0, ptx_low(0 - ptx_get(f, i, 1, width(i)), width(i)));
}

void run_abs(frame &f, const ins &i)
{
    if (i.last_type().is_float()) {
        ptx_float_abs(f, i);
        return;
    }
    const int64_t x = ptx_get_signed(f, i, 1, width(i));
    ptx_set(f, i, 0, ptx_low(x < 0 ? 0 - (uint64_t)x : (uint64_t)x, width(i)));
}

void min_or_max(frame &f, const ins &i, bool max)
{
    const int bits = width(i);
    const uint64_t a = ptx_get(f, i, 1, bits), b = ptx_get(f, i, 2, bits);
    const bool a_less =
        i.last_type().is_signed() ? ptx_signed(a, bits) < ptx_signed(b, bits) : a < b;
    ptx_set(f, i, 0, a_less == max ? b : a);
}

void run_min(frame &f, const ins &i)
{
    if (i.last_type().is_float()) ptx_float_min(f, i);
    else min_or_max(f, i, false);
}

void run_max(frame &f, const ins &i)
{
    if (i.last_type().is_float()) ptx_float_max(f, i);
    else min_or_max(f, i, true);
}

/* ---------------------------------------------------------------- bits */

/* Predicates too, whose sources may be inverted. */
uint64_t bits_of(const frame &f, const ins &i, int k)
{
    if (i.last_type().kind == ptx_kind::pred) return ptx_get_pred(f, i.operand[k]);
    return ptx_get(f, i, k, width(i));
}

void run_and(frame &f, const ins &i)
{
    ptx_set(f, i, 0, bits_of(f, i, 1) & bits_of(f, i, 2));
}
void run_or(frame &f, const ins &i)
{
    ptx_set(f, i, 0, bits_of(f, i, 1) | bits_of(f, i, 2));
}
void run_xor(frame &f, const ins &i)
{
    ptx_set(f, i, 0, bits_of(f, i, 1) ^ bits_of(f, i, 2));
}
void run_not(frame &f, const ins &i)
{
    ptx_set(f, i, 0, ptx_low(~bits_of(f, i, 1), width(i)));
}
void run_cnot(frame &f, const ins &i)
{
    ptx_set(f, i, 0, bits_of(f, i, 1) == 0);
}

/* The amount has 32 bits whatever the type, and more than the width is the width. */
void run_shl(frame &f, const ins &i)
{
    const uint64_t by = ptx_get(f, i, 2, 32);
    ptx_set(f, i, 0,
            by >= (uint64_t)width(i) ? 0 : ptx_low(ptx_get(f, i, 1, width(i)) << by, width(i)));
}

void run_shr(frame &f, const ins &i)
{
    const int bits = width(i);
    const uint64_t amount = ptx_get(f, i, 2, 32);
    if (i.last_type().is_signed()) {
        const int by = amount >= (uint64_t)bits ? bits - 1 : (int)amount;
        ptx_set(f, i, 0, ptx_low((uint64_t)(ptx_get_signed(f, i, 1, bits) >> by), bits));
    } else {
        ptx_set(f, i, 0, amount >= (uint64_t)bits ? 0 : ptx_get(f, i, 1, bits) >> amount);
    }
}

/* 32 bits of hi:lo, shifted. */
void run_shf(frame &f, const ins &i)
{
    const uint64_t both = ptx_get(f, i, 2, 32) << 32 | ptx_get(f, i, 1, 32);
    uint64_t by = ptx_get(f, i, 3, 32);
    by = i.has(m::clamp) ? (by > 32 ? 32 : by) : by & 31;
    ptx_set(f, i, 0, ptx_low(i.has(m::l) ? both << by >> 32 : both >> by, 32));
}

void run_popc(frame &f, const ins &i)
{
    ptx_set(f, i, 0, (uint64_t)__builtin_popcountll(ptx_get(f, i, 1, width(i))));
}

void run_clz(frame &f, const ins &i)
{
    const uint64_t x = ptx_get(f, i, 1, width(i));
    ptx_set(f, i, 0, x ? (uint64_t)(__builtin_clzll(x) - (64 - width(i))) : (uint64_t)width(i));
}

void run_brev(frame &f, const ins &i)
{
    const uint64_t x = ptx_get(f, i, 1, width(i));
    uint64_t y = 0;
    for (int b = 0; b < width(i); b++) y |= (x >> b & 1) << (width(i) - 1 - b);
    ptx_set(f, i, 0, y);
}

/* The highest bit that is not the sign, or all ones. */
void run_bfind(frame &f, const ins &i)
{
    uint64_t x = ptx_get(f, i, 1, width(i));
    if (i.last_type().is_signed() && ptx_signed(x, width(i)) < 0) x = ptx_low(~x, width(i));
    const uint64_t at = x ? (uint64_t)(63 - __builtin_clzll(x)) : 0xffffffffu;
    ptx_set(f, i, 0, x && i.has(m::shiftamt) ? (uint64_t)width(i) - 1 - at : at);
}

/* `len` bits from `pos`; signed: filled with the highest bit of the field, or of the number where
 * the field leads out of it. pos and len have 8 bits. */
void run_bfe(frame &f, const ins &i)
{
    const int bits = width(i), pos = (int)ptx_get(f, i, 2, 8), len = (int)ptx_get(f, i, 3, 8);
    const uint64_t x = ptx_get(f, i, 1, bits);
    const int last = pos + len - 1 < bits ? pos + len - 1 : bits - 1;
    const bool fill = i.last_type().is_signed() && len > 0 && (x >> last & 1);
    uint64_t y = 0;
    for (int b = 0; b < bits; b++) {
        const bool inside = b < len && pos + b < bits;
        y |= (uint64_t)(inside ? (x >> (pos + b) & 1) : fill) << b;
    }
    ptx_set(f, i, 0, y);
}

void run_bfi(frame &f, const ins &i)
{
    const int bits = width(i), pos = (int)ptx_get(f, i, 3, 8), len = (int)ptx_get(f, i, 4, 8);
    uint64_t y = ptx_get(f, i, 2, bits);
    for (int b = 0; b < len && pos + b < bits; b++) {
        const uint64_t bit = 1ull << (pos + b);
        y = (ptx_get(f, i, 1, bits) >> b & 1) ? y | bit : y & ~bit;
    }
    ptx_set(f, i, 0, y);
}

/* Selector of byte n of the result, in a mode. */
uint64_t prmt_selector(const ins &i, uint64_t control, int n)
{
    const int s = (int)(control & 3);
    if (i.has(m::f4e)) return (uint64_t)(s + n);
    if (i.has(m::b4e)) return (uint64_t)((s + 8 - n) % 8);
    if (i.has(m::rc8)) return (uint64_t)s;
    if (i.has(m::ecl)) return (uint64_t)(n > s ? n : s);
    if (i.has(m::ecr)) return (uint64_t)(n < s ? n : s);
    if (i.has(m::rc16)) return (uint64_t)((s & 1) * 2 + (n & 1));
    return control >> (4 * n) & 15;
}

/* Bytes of b:a; bit 3 of a selector asks for its sign eight times. */
void run_prmt(frame &f, const ins &i)
{
    const uint64_t both = ptx_get(f, i, 2, 32) << 32 | ptx_get(f, i, 1, 32);
    uint64_t y = 0;
    for (int n = 0; n < 4; n++) {
        const uint64_t s = prmt_selector(i, ptx_get(f, i, 3, 32), n);
        const uint64_t byte = both >> (8 * (s & 7)) & 0xff;
        y |= (s & 8 ? (byte & 0x80 ? 0xff : 0) : byte) << (8 * n);
    }
    ptx_set(f, i, 0, y);
}

/* Bit (a << 2 | b << 1 | c) of the table, for each bit. */
void run_lop3(frame &f, const ins &i)
{
    const uint64_t a = ptx_get(f, i, 1, 32), b = ptx_get(f, i, 2, 32), c = ptx_get(f, i, 3, 32);
    const uint64_t table = ptx_get(f, i, 4, 8);
    uint64_t y = 0;
    for (int n = 0; n < 32; n++)
        y |= (table >> ((a >> n & 1) << 2 | (b >> n & 1) << 1 | (c >> n & 1)) & 1) << n;
    ptx_set(f, i, 0, y);
}

/* ---------------------------------------------------------------- comparisons */

bool compare_integers(const frame &f, const ins &i, const ptx_type &t)
{
    const uint64_t a = ptx_get(f, i, 1, t.bits), b = ptx_get(f, i, 2, t.bits);
    const bool equal = a == b;
    const bool less = t.is_signed() ? ptx_signed(a, t.bits) < ptx_signed(b, t.bits) : a < b;
    if (i.has(m::eq)) return equal;
    if (i.has(m::ne)) return !equal;
    if (i.has(m::lt) || i.has(m::lo)) return less;
    if (i.has(m::le) || i.has(m::ls)) return less || equal;
    if (i.has(m::gt) || i.has(m::hi)) return !less && !equal;
    return !less; /* ge, hs */
}

/* p|q = (a ? b) and q its opposite, each combined with c. */
void run_setp(frame &f, const ins &i)
{
    const ptx_type &t = i.last_type();
    const bool holds = t.is_float() ? ptx_float_compare(f, i) : compare_integers(f, i, t);
    const bool c = i.n_operands > 3 && ptx_get_pred(f, i.operand[3]);
    for (int j = 0; j < i.operand[0].n; j++) {
        bool p = holds != (j == 1);
        if (i.has(m::and_)) p = p && c;
        if (i.has(m::or_)) p = p || c;
        if (i.has(m::xor_)) p = p != c;
        ptx_set(f, i, 0, p, j);
    }
}

void run_selp(frame &f, const ins &i)
{
    ptx_set(f, i, 0, ptx_get(f, i, ptx_get_pred(f, i.operand[3]) ? 1 : 2, width(i)));
}

const ptx_opcode opcodes[] = {
    { "add", run_add, "sat cc rn rz rm rp ftz", 3, 3, 1 },
    { "sub", run_sub, "sat cc rn rz rm rp ftz", 3, 3, 1 },
    { "addc", run_addc, "cc", 3, 3, 1 },
    { "subc", run_subc, "cc", 3, 3, 1 },
    { "mul", run_mul, "lo hi wide rn rz rm rp ftz sat", 3, 3, 1 },
    { "mad", run_mad, "lo hi wide sat rn rz rm rp ftz", 4, 4, 1 },
    { "div", run_div, "approx full rn rz rm rp ftz", 3, 3, 1 },
    { "rem", run_rem, "", 3, 3, 1 },
    { "neg", run_neg, "ftz", 2, 2, 1 },
    { "abs", run_abs, "ftz", 2, 2, 1 },
    { "min", run_min, "ftz NaN", 3, 3, 1 },
    { "max", run_max, "ftz NaN", 3, 3, 1 },
    { "and", run_and, "", 3, 3, 1 },
    { "or", run_or, "", 3, 3, 1 },
    { "xor", run_xor, "", 3, 3, 1 },
    { "not", run_not, "", 2, 2, 1 },
    { "cnot", run_cnot, "", 2, 2, 1 },
    { "shl", run_shl, "", 3, 3, 1 },
    { "shr", run_shr, "", 3, 3, 1 },
    { "shf", run_shf, "l r wrap clamp", 4, 4, 1 },
    { "popc", run_popc, "", 2, 2, 1 },
    { "clz", run_clz, "", 2, 2, 1 },
    { "brev", run_brev, "", 2, 2, 1 },
    { "bfind", run_bfind, "shiftamt", 2, 2, 1 },
    { "bfe", run_bfe, "", 4, 4, 1 },
    { "bfi", run_bfi, "", 5, 5, 1 },
    { "prmt", run_prmt, "f4e b4e rc8 ecl ecr rc16", 4, 4, 1 },
    { "lop3", run_lop3, "", 5, 5, 1 },
    { "setp", run_setp,
      "eq ne lt le gt ge lo ls hi hs equ neu ltu leu gtu geu num nan and or xor ftz", 3, 4, 1 },
    { "selp", run_selp, "", 4, 4, 1 },
};

} // namespace

ptx_opcode_list ptx_integer_opcodes()
{
    return { opcodes, sizeof opcodes / sizeof opcodes[0] };
}

} // namespace simt
