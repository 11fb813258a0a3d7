/* row_codes.cuh, which are functions of registers alone, against the CPU's definition (src/common)
 * and the oracle's: every code, and floats beside every code, beside every middle of two, and all
 * over the range. */
#include "common/fp8_format.h"
#include "common/int_format.h"

/* Behind those above, in which `half` is a variable. */
#include "kernels/cuda/row_codes.cuh"

#include <initializer_list>

extern "C" {
#include "oracle/oracle_formats.h"
#include "oracle/oracle_kv_write.h"
#include "oracle/oracle_numbers.h"
#include "simt_test.h"
}

namespace
{

bool same_bits(float a, float b)
{
    return pkv_float_bits(a) == pkv_float_bits(b);
}

void fill(float (&x)[8], float value)
{
    for (float &e : x) e = value;
    x[3] = 1; /* neighbours do not matter, and lie where they should */
    x[6] = -2;
}

/* ---------------------------------------------------------------- f16 and bf16 */

/* All codes of 16 bits, NaN with their payloads included. */
void halves_to_floats(void **)
{
    for (uint32_t code = 0; code < 65536; code++) {
        const uint32_t words[4] = { code | 0x3c00u << 16, code << 16, code, code * 0x10001u };
        const uint32_t at[8] = { code, 0x3c00, 0, code, code, 0, code, code };
        float f16[8], bf16[8];
        pkv__unpack_f16(words, f16);
        pkv__unpack_bf16(words, bf16);
        for (int i = 0; i < 8; i++)
            if (!same_bits(f16[i], pkv__f16_to_f32((uint16_t)at[i])) ||
                !same_bits(bf16[i], pkv__bf16_to_f32((uint16_t)at[i])))
                fail_msg("%04x at %d: %a, %a", code, i, (double)f16[i], (double)bf16[i]);
    }
}

void check_packing(uint32_t bits)
{
    float x[8];
    uint32_t f16[4], bf16[4];
    fill(x, pkv__f32_from_bits(bits));
    pkv__pack_f16(x, f16);
    pkv__pack_bf16(x, bf16);
    for (int i = 0; i < 8; i++)
        if (pkv__half_of(f16, i) != pkv__f32_to_f16(x[i]) ||
            pkv__half_of(bf16, i) != pkv__f32_to_bf16(x[i]))
            fail_msg("%08x at %d: %04x, %04x", bits, i, pkv__half_of(f16, i),
                     pkv__half_of(bf16, i));
}

/* Each code, the middle to the next, and a place beside each, of both signs. */
template <class F> void around_codes(F check)
{
    for (uint32_t code = 0; code < 65536; code++)
        for (const uint32_t at : { pkv__f32_bits(pkv__f16_to_f32((uint16_t)code)), code << 16 })
            for (const uint32_t middle : { 0u, 0x1000u, 0x8000u })
                for (const uint32_t by : { 0u, 1u, ~0u }) check(at + middle + by);
}

/* A float in a thousand, of all. */
template <class F> void all_over(F check)
{
    for (uint64_t bits = 0; bits <= 0xffffffffu; bits += 997) check((uint32_t)bits);
}

void floats_to_halves(void **)
{
    around_codes(check_packing);
    all_over(check_packing);
}

/* ---------------------------------------------------------------- codes */

template <pkv_dtype T> uint32_t code_at(const uint32_t *words, int i)
{
    return T == PKV_U4 ? words[0] >> (4 * i) & 15 : words[i / 4] >> (8 * (i % 4)) & 255;
}

/* x by scale and zero, as the definition has it. */
template <pkv_dtype T> uint32_t definition(float x, float s, float z)
{
    const float y = x / s;
    if (T == PKV_E4M3) return pkv__f32_to_e4m3(y);
    if (T == PKV_E5M2) return pkv__f32_to_e5m2(y);
    const float at = T == PKV_U4 ? y + z : y;
    if (std::isnan(at)) return 0;
    return (uint32_t)pkv__round_code(at, T == PKV_U4 ? 0.f : -127.f, T == PKV_U4 ? 15.f : 127.f) &
           0xffu;
}

template <pkv_dtype T> void encode(float (&x)[8], float s, float z, uint32_t *words)
{
    uint32_t made[T == PKV_U4 ? 1 : 2];
    pkv__divide(x, s);
    if (T == PKV_U4) pkv__add_zero(x, z);
    pkv__encode<T>(x, made);
    memcpy(words, made, sizeof made);
}

template <pkv_dtype T> void check_codes(float value, float s, float z)
{
    float x[8], y[8];
    uint32_t words[2];
    fill(x, value);
    fill(y, value);
    encode<T>(y, s, z, words);
    assert_true(pkv__any_nan(y) == std::isnan(value));
    for (int i = 0; i < 8; i++) {
        const uint32_t got = code_at<T>(words, i), want = definition<T>(x[i], s, z);
        if (got != want)
            fail_msg("%s of %a by %a, %a at %d: %02x, not %02x", pkv_dtype_name(T), (double)x[i],
                     (double)s, (double)z, i, got, want);
    }
}

template <pkv_dtype T> void floats_to_codes(void **)
{
    const auto plain = [](uint32_t bits) {
        const float x = pkv__f32_from_bits(bits);
        check_codes<T>(x, 1, 0);
        float eight[8];
        uint32_t words[2];
        fill(eight, x);
        encode<T>(eight, 1, 0, words);
        const oracle_scale one = { 1, 0 };
        if (code_at<T>(words, 0) != (oracle_quantized(T, x, one) & 0xffu))
            fail_msg("%s of %a", pkv_dtype_name(T), (double)x);
    };
    around_codes(plain);
    all_over(plain);
    for (const float s : { 0.37f, -3.f, 1e-38f, 1e38f })
        all_over([s](uint32_t bits) {
            if (bits % 7 == 0) check_codes<T>(pkv__f32_from_bits(bits), s, T == PKV_U4 ? 7.3f : 0);
        });
}

template <pkv_dtype T> void codes_to_floats(void **)
{
    for (uint32_t code = 0; code < 256; code++) {
        const uint32_t word = code | (255 - code) << 8 | 0x5a0000u | code << 24;
        uint32_t words[T == PKV_U4 ? 1 : 2] = { word };
        if (T != PKV_U4) words[sizeof words / 4 - 1] = ~word;
        float x[8], scaled[8];
        pkv__values<T>(words, x);
        pkv__values<T>(words, scaled);
        pkv__scale_values(scaled, 0.37f, T == PKV_U4 ? 5.1f : 0.f);
        for (int i = 0; i < 8; i++) {
            const uint8_t c = (uint8_t)code_at<T>(words, i);
            const float want = T == PKV_E4M3   ? pkv__e4m3_to_f32(c)
                               : T == PKV_E5M2 ? pkv__e5m2_to_f32(c)
                               : T == PKV_I8   ? (float)(int8_t)c
                                               : (float)c;
            const float by = 0.37f * (want - (T == PKV_U4 ? 5.1f : 0.f));
            const double meant = oracle_value8(T, c);
            if (!same_bits(x[i], want) || (!std::isnan(meant) && (double)x[i] != meant))
                fail_msg("%s %02x: %a", pkv_dtype_name(T), c, (double)x[i]);
            if (!same_bits(scaled[i], std::isnan(want) ? want : by))
                fail_msg("%s %02x, scaled: %a", pkv_dtype_name(T), c, (double)scaled[i]);
        }
    }
}

/* ---------------------------------------------------------------- scales */

void scales_are_the_contracts(void **)
{
    const float values[] = { 0,      -0.f,      1,       -1,       127,  448,   0x1p-149f,
                             1e-40f, 0x1p-126f, 3.3e38f, -3.4e38f, 0.1f, -7.7f, 1.0000001f };
    for (const pkv_dtype dtype : { PKV_E4M3, PKV_I8, PKV_U4 })
        for (const float a : values)
            for (const float b : values)
                for (const float other : { NAN, INFINITY, -INFINITY, a }) {
                    float x[8] = { a, b, other, a, b, b, other, a }, lo = INFINITY, hi = -INFINITY;
                    oracle_extremes e = {};
                    oracle_extremes_add(&e, x, 8);
                    const oracle_scale want = oracle_scale_of(dtype, &e);
                    pkv__extremes(x, lo, hi);
                    const pkv__scale_zero got = pkv__choose_scale(dtype, lo, hi);
                    if (!same_bits(got.scale, want.scale) || got.zero != want.zero)
                        fail_msg("%s of %a, %a: %a, %a", pkv_dtype_name(dtype), (double)a,
                                 (double)b, (double)got.scale, (double)got.zero);
                }
    const pkv__scale_zero none = pkv__choose_scale(PKV_U4, INFINITY, -INFINITY);
    assert_true(none.scale == 1 && none.zero == 0);
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(halves_to_floats),          cmocka_unit_test(floats_to_halves),
        cmocka_unit_test(floats_to_codes<PKV_E4M3>), cmocka_unit_test(floats_to_codes<PKV_E5M2>),
        cmocka_unit_test(floats_to_codes<PKV_I8>),   cmocka_unit_test(floats_to_codes<PKV_U4>),
        cmocka_unit_test(codes_to_floats<PKV_E4M3>), cmocka_unit_test(codes_to_floats<PKV_E5M2>),
        cmocka_unit_test(codes_to_floats<PKV_I8>),   cmocka_unit_test(codes_to_floats<PKV_U4>),
        cmocka_unit_test(scales_are_the_contracts),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
