/* Instructions of PTX on f32 and f64. Rounding is the host's, switched for each instruction that
 * does not round to nearest. A NaN that comes out of arithmetic on f32 is 0x7fffffff, as on a GPU.
 *
 * The approximations are libm's, rounded to float: closer than a GPU's, so only bounds compare. */
#include "simt_ptx_arith.h"

#include <cfenv>
#include <cmath>
#include <cstring>

namespace simt
{
namespace
{

using frame = ptx_frame;
using ins = ptx_instruction;
using m = ptx_mod;

constexpr uint32_t f32_nan = 0x7fffffffu;

template <class T> struct bits_of;
template <> struct bits_of<float> {
    using type = uint32_t;
};
template <> struct bits_of<double> {
    using type = uint64_t;
};

template <class T> T from_bits(uint64_t bits)
{
    const auto narrow = (typename bits_of<T>::type)bits;
    T x;
    memcpy(&x, &narrow, sizeof x);
    return x;
}

template <class T> uint64_t to_bits(T x)
{
    typename bits_of<T>::type bits;
    memcpy(&bits, &x, sizeof x);
    return bits;
}

template <class T> T flushed(T x)
{
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign((T)0, x) : x;
}

template <class T> T get(const frame &f, const ins &i, int k)
{
    const T x = from_bits<T>(ptx_get(f, i, k, 8 * (int)sizeof(T)));
    return i.has(m::ftz) ? flushed(x) : x;
}

template <class T> void set(frame &f, const ins &i, T x)
{
    if (i.has(m::ftz)) x = flushed(x);
    if (i.has(m::sat)) x = x > 0 ? (x < 1 ? x : 1) : 0; /* NaN: 0 */
    if (std::isnan(x)) ptx_set(f, i, 0, sizeof(T) == 4 ? f32_nan : 0x7fffffffffffffffull);
    else ptx_set(f, i, 0, to_bits(x));
}

/* Computes with the instruction's rounding. The operands pass through volatile memory: a compiler
 * knows nothing of rounding modes. */
template <class T, class F> void rounded(frame &f, const ins &i, F fn, int n)
{
    volatile T x[3] = { get<T>(f, i, 1), n > 1 ? get<T>(f, i, 2) : 0, n > 2 ? get<T>(f, i, 3) : 0 };
    const int mode = i.has(m::rz)   ? FE_TOWARDZERO
                     : i.has(m::rm) ? FE_DOWNWARD
                     : i.has(m::rp) ? FE_UPWARD
                                    : FE_TONEAREST;
    if (mode != FE_TONEAREST) fesetround(mode);
    volatile T y = fn(x[0], x[1], x[2]);
    if (mode != FE_TONEAREST) fesetround(FE_TONEAREST);
    set<T>(f, i, y);
}

template <class F> void arithmetic(frame &f, const ins &i, int n, F fn)
{
    if (i.last_type().bits == 32) rounded<float>(f, i, fn, n);
    else rounded<double>(f, i, fn, n);
}

template <class T> T smaller(T a, T b)
{
    if (a == b) return std::signbit(a) ? a : b; /* -0 is less than +0 */
    return std::fmin(a, b);
}

template <class T> void min_or_max(frame &f, const ins &i, bool max)
{
    const T a = get<T>(f, i, 1), b = get<T>(f, i, 2);
    if (i.has(m::nan_) && (std::isnan(a) || std::isnan(b))) set<T>(f, i, (T)NAN);
    else set<T>(f, i, max ? -smaller(-a, -b) : smaller(a, b));
}

/* Unordered counts as true in equ, neu, ..., as false in the others, ne too. */
template <class T> bool compare(const frame &f, const ins &i)
{
    const T a = get<T>(f, i, 1), b = get<T>(f, i, 2);
    const bool unordered = std::isnan(a) || std::isnan(b);
    if (i.has(m::num)) return !unordered;
    if (i.has(m::nan)) return unordered;
    if (unordered)
        return i.has(m::equ) || i.has(m::neu) || i.has(m::ltu) || i.has(m::leu) || i.has(m::gtu) ||
               i.has(m::geu);
    if (i.has(m::eq) || i.has(m::equ)) return a == b;
    if (i.has(m::ne) || i.has(m::neu)) return a != b;
    if (i.has(m::lt) || i.has(m::ltu)) return a < b;
    if (i.has(m::le) || i.has(m::leu)) return a <= b;
    if (i.has(m::gt) || i.has(m::gtu)) return a > b;
    return a >= b;
}

void run_rcp(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return 1 / x; });
}
void run_sqrt(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return std::sqrt(x); });
}
void run_rsqrt(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return (decltype(x))(1 / std::sqrt((double)x)); });
}
void run_ex2(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return std::exp2(x); });
}
void run_lg2(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return std::log2(x); });
}
void run_sin(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return std::sin(x); });
}
void run_cos(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return std::cos(x); });
}
void run_tanh(frame &f, const ins &i)
{
    arithmetic(f, i, 1, [](auto x, auto, auto) { return std::tanh(x); });
}

/* The sign of the first operand. */
void run_copysign(frame &f, const ins &i)
{
    const int bits = i.last_type().bits;
    const uint64_t sign = 1ull << (bits - 1);
    ptx_set(f, i, 0, (ptx_get(f, i, 1, bits) & sign) | (ptx_get(f, i, 2, bits) & ~sign));
}

/* neg and abs work on the sign alone, of NaNs too. */
void set_sign(frame &f, const ins &i, uint64_t keep, uint64_t flip)
{
    const int bits = i.last_type().bits;
    uint64_t x = ptx_get(f, i, 1, bits);
    if (i.has(m::ftz)) x = ptx_flush((uint32_t)x);
    const uint64_t sign = 1ull << (bits - 1);
    ptx_set(f, i, 0, (x & (keep ? ~0ull : ~sign)) ^ (flip ? sign : 0));
}

const ptx_opcode opcodes[] = {
    { "fma", ptx_float_fma, "rn rz rm rp ftz sat", 4, 4, 1 },
    { "rcp", run_rcp, "approx rn rz rm rp ftz", 2, 2, 1 },
    { "sqrt", run_sqrt, "approx rn rz rm rp ftz", 2, 2, 1 },
    { "rsqrt", run_rsqrt, "approx ftz", 2, 2, 1 },
    { "ex2", run_ex2, "approx ftz", 2, 2, 1 },
    { "lg2", run_lg2, "approx ftz", 2, 2, 1 },
    { "sin", run_sin, "approx ftz", 2, 2, 1 },
    { "cos", run_cos, "approx ftz", 2, 2, 1 },
    { "tanh", run_tanh, "approx", 2, 2, 1 },
    { "copysign", run_copysign, "", 3, 3, 1 },
};

} // namespace

uint32_t ptx_flush(uint32_t bits)
{
    return bits & 0x7f800000u ? bits : bits & 0x80000000u;
}

void ptx_float_add(ptx_frame &f, const ptx_instruction &i)
{
    arithmetic(f, i, 2, [](auto a, auto b, auto) { return a + b; });
}
void ptx_float_sub(ptx_frame &f, const ptx_instruction &i)
{
    arithmetic(f, i, 2, [](auto a, auto b, auto) { return a - b; });
}
void ptx_float_mul(ptx_frame &f, const ptx_instruction &i)
{
    arithmetic(f, i, 2, [](auto a, auto b, auto) { return a * b; });
}
void ptx_float_fma(ptx_frame &f, const ptx_instruction &i)
{
    arithmetic(f, i, 3, [](auto a, auto b, auto c) { return std::fma(a, b, c); });
}
void ptx_float_div(ptx_frame &f, const ptx_instruction &i)
{
    arithmetic(f, i, 2, [](auto a, auto b, auto) { return a / b; });
}
void ptx_float_neg(ptx_frame &f, const ptx_instruction &i)
{
    set_sign(f, i, 1, 1);
}
void ptx_float_abs(ptx_frame &f, const ptx_instruction &i)
{
    set_sign(f, i, 0, 0);
}
void ptx_float_min(ptx_frame &f, const ptx_instruction &i)
{
    if (i.last_type().bits == 32) min_or_max<float>(f, i, false);
    else min_or_max<double>(f, i, false);
}
void ptx_float_max(ptx_frame &f, const ptx_instruction &i)
{
    if (i.last_type().bits == 32) min_or_max<float>(f, i, true);
    else min_or_max<double>(f, i, true);
}

bool ptx_float_compare(const ptx_frame &f, const ptx_instruction &i)
{
    return i.last_type().bits == 32 ? compare<float>(f, i) : compare<double>(f, i);
}

ptx_opcode_list ptx_float_opcodes()
{
    return { opcodes, sizeof opcodes / sizeof opcodes[0] };
}

} // namespace simt
