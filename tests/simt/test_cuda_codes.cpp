/* Codes of KV as attention's kernels convert them, at every pair of codes; and the dims that the
 * elements of fragments stand for, by taking matrices through ldmatrix and mma one entry at a time.
 */
#include "kernels/cuda/attn_codes_scales.cuh"
#include "simt/code_kernels.h"
#include "simt/simt_formats.h"

extern "C" {
#include "oracle/oracle_numbers.h"
#include "simt/simt_test.h"
}

namespace
{

constexpr int n_words = 65536;

struct type_t {
    const char *name;
    pkv_dtype dtype;
    int bits;
};
constexpr type_t types[CODE_N] = {
    { "f16", PKV_F16, 16 },         { "bf16", PKV_BF16, 16 },
    { "e4m3", PKV_E4M3, 8 },        { "e5m2", PKV_E5M2, 8 },
    { "int8", PKV_I8, 8 },          { "int4", PKV_U4, 4 },
    { "e4m3 by cvt", PKV_E4M3, 8 }, { "e4m3 by moved bits", PKV_E4M3, 8 },
};

/* Every pair of bytes in the low and, in another order, in the high half. */
uint32_t word(uint32_t i)
{
    return i | (i * 40503u + 12345u) << 16;
}

struct converted {
    std::vector<uint32_t> halves; /* [n_words][8] */
    float unit;
};

converted convert(int type)
{
    std::vector<uint32_t> words(n_words);
    for (uint32_t i = 0; i < n_words; i++) words[i] = word(i);
    converted c = { std::vector<uint32_t>(8 * n_words), 0 };
    void *in = device_copy_of(words.data(), 4 * n_words);
    void *out = device_copy_of(nullptr, 32 * n_words), *unit = device_copy_of(nullptr, 4);
    use_schedule(0);
    assert_launched(run_codes(type, (uint32_t *)out, (float *)unit, (uint32_t *)in, n_words));
    device_download(c.halves.data(), out, 32 * n_words);
    device_download(&c.unit, unit, 4);
    device_free(in);
    device_free(out);
    device_free(unit);
    return c;
}

/* What the two halves of a register of `along` and of `across` are: codes of the word. */
int code_along(int bits, int reg, int half)
{
    return bits == 8 ? 2 * reg + half : reg + 4 * half;
}
int code_across(int bits, int reg, int half)
{
    return 16 / bits * half + reg;
}

/* The value of a half times the unit is that of its code. An e4m3 NaN is NaN or, without a
 * conversion, 480 of its sign; other NaNs are NaNs. */
bool means(uint16_t half, float unit, const type_t &type, uint8_t code)
{
    const double got = (double)simt::float_of_f16(half) * (double)unit;
    const double want = oracle_value8(type.dtype, code);
    if (!std::isnan(want)) return got == want && std::signbit(got) == std::signbit(want);
    if (std::isnan(got)) return true;
    return type.dtype == PKV_E4M3 && unit == 256.f && got == (code & 0x80 ? -480 : 480);
}

void every_pair_of_codes(void **)
{
    for (int t = CODE_E4M3; t < CODE_N; t++) {
        const int bits = types[t].bits, n = 16 / bits;
        const converted c = convert(t);
        for (uint32_t i = 0; i < n_words; i++)
            for (int e = 0; e < 4 * n; e++) {
                const int reg = e / 2 % n, half = e % 2;
                const bool across = e >= 2 * n;
                const int at = across ? code_across(bits, reg, half) : code_along(bits, reg, half);
                const auto code = (uint8_t)(word(i) >> bits * at & ((1u << bits) - 1));
                const auto got = (uint16_t)(c.halves[8 * i + (uint32_t)e / 2] >> 16 * half);
                if (!means(got, c.unit, types[t], code))
                    fail_msg("%s %s: register %d of %08x, half %d: %04x times %g for code %02x",
                             types[t].name, across ? "across" : "along", reg, word(i), half, got,
                             (double)c.unit, code);
            }
    }
}

/* The toolkit's own conversions of the host. */
void fp8_as_in_the_toolkit(void **)
{
    const struct {
        int type;
        __nv_fp8_interpretation_t kind;
    } by_kind[] = { { CODE_E4M3_CVT, __NV_E4M3 }, { CODE_E5M2, __NV_E5M2 } };
    for (const auto &k : by_kind) {
        const converted c = convert(k.type);
        for (uint32_t i = 0; i < n_words; i++) {
            const auto code = (__nv_fp8_storage_t)(word(i) & 0xff);
            const uint32_t got = c.halves[8 * i] & 0xffff;
            const uint32_t want = __nv_cvt_fp8_to_halfraw(code, k.kind).x;
            const bool nan = (want & 0x7fff) > 0x7c00 && (got & 0x7fff) > 0x7c00;
            if (got != want && !nan)
                fail_msg("%s %02x: %04x, %04x in the toolkit", types[k.type].name, code, got, want);
        }
    }
}

/* The two ways of e4m3 give the same numbers but for NaN codes. */
void e4m3_both_ways(void **)
{
    const converted cvt = convert(CODE_E4M3_CVT), moved = convert(CODE_E4M3_MOVED);
    const converted own = convert(CODE_E4M3);
    assert_true(cvt.unit == 1.f && moved.unit == 256.f);
    assert_true(own.unit == 1.f || own.unit == 256.f);
    for (uint32_t i = 0; i < 8 * n_words; i++) {
        if (i % 8 >= 4) continue;
        if (own.halves[i] != (own.unit == 1.f ? cvt : moved).halves[i])
            fail_msg("neither way: %08x", own.halves[i]);
        for (int half = 0; half < 2; half++) {
            const float a = simt::float_of_f16((uint16_t)(cvt.halves[i] >> 16 * half));
            const float b = 256 * simt::float_of_f16((uint16_t)(moved.halves[i] >> 16 * half));
            if (std::isnan(a) ? std::fabs(b) != 480 : simt::to_bits(a) != simt::to_bits(b))
                fail_msg("of %08x: %g by cvt, %g by moved bits", word(i / 8), (double)a, (double)b);
        }
    }
}

/* Finite numbers, of which no two columns and no two rows of a step are alike. */
void fill(std::vector<uint8_t> &rows, const type_t &type)
{
    uint32_t x = 1;
    for (uint8_t &byte : rows) {
        x = x * 1664525u + 1013904223u;
        byte = (uint8_t)(x >> 24);
        if (type.dtype == PKV_E4M3 && (byte & 0x7f) == 0x7f) byte = 0x31;
        if (type.dtype == PKV_E5M2 && (byte & 0x7c) == 0x7c) byte = 0x31;
        if (type.bits == 16) byte &= 0xbf; /* below 2 */
    }
}

void fragments_of_a_step(void **)
{
    for (int t = CODE_F16; t <= CODE_U4; t++) {
        const int dims = 256 / types[t].bits;
        std::vector<uint8_t> rows(16 * 32);
        fill(rows, types[t]);
        std::vector<float> k((size_t)(16 * dims)), v(k.size());
        void *in = device_copy_of(rows.data(), rows.size());
        void *out_k = device_copy_of(nullptr, 4 * k.size());
        void *out_v = device_copy_of(nullptr, 4 * k.size());
        for (int s = 0; s < DEVICE_N_SCHEDULES; s += 5) {
            use_schedule(s);
            assert_launched(run_step(t, (float *)out_k, (float *)out_v, (uint8_t *)in));
            device_download(k.data(), out_k, 4 * k.size());
            device_download(v.data(), out_v, 4 * k.size());
            for (int i = 0; i < 16 * dims; i++) {
                const double want =
                    oracle_load(types[t].dtype, rows.data() + i / dims * 32, i % dims);
                if ((double)k[(size_t)i] != want || (double)v[(size_t)i] != want)
                    fail_msg("%s token %d dim %d: K %g, V %g, must be %g", types[t].name, i / dims,
                             i % dims, (double)k[(size_t)i], (double)v[(size_t)i], want);
            }
        }
        device_free(in);
        device_free(out_k);
        device_free(out_v);
    }
}

/* Differences of halves against doubles, over every half: with itself turned about and with the
 * constants of integer codes. */
void register_operations(void **)
{
    static const uint16_t with[] = { 0x6480, 0x6400, 0x5400, 0x3c01, 0xbc01, 0x0001, 0x7c00, 0 };
    std::vector<uint32_t> a(n_words), b(n_words), picks(n_words), got(2 * n_words);
    for (uint32_t i = 0; i < n_words; i++) {
        a[i] = word(i);
        b[i] = with[i / 4 % 8] | (i * 30011u + 7u) << 16;
        picks[i] = i * 7919u & 0x7777u;
    }
    void *in_a = device_copy_of(a.data(), 4 * n_words),
         *in_b = device_copy_of(b.data(), 4 * n_words);
    void *in_picks = device_copy_of(picks.data(), 4 * n_words);
    void *out = device_copy_of(nullptr, 8 * n_words);
    use_schedule(0);
    assert_launched(run_registers((uint32_t *)out, (uint32_t *)in_a, (uint32_t *)in_b,
                                  (uint32_t *)in_picks, n_words));
    device_download(got.data(), out, 8 * n_words);
    for (uint32_t i = 0; i < n_words; i++) {
        for (int half = 0; half < 2; half++) {
            const double x = oracle_value16(PKV_F16, (uint16_t)(a[i] >> 16 * half));
            const double y = oracle_value16(PKV_F16, (uint16_t)(b[i] >> 16 * half));
            const auto difference = (uint16_t)(got[i] >> 16 * half);
            const uint16_t want = oracle_code16(PKV_F16, x - y);
            if (std::isnan(x - y) ? (difference & 0x7fff) <= 0x7c00 : difference != want)
                fail_msg("%a - %a: %04x, must be %04x", x, y, difference, want);
        }
        for (int byte = 0; byte < 4; byte++) {
            const uint32_t pick = picks[i] >> 4 * byte & 7;
            const uint32_t want = (pick < 4 ? a[i] : b[i]) >> 8 * (pick % 4) & 0xff;
            assert_int_equal(got[n_words + i] >> 8 * byte & 0xff, want);
        }
    }
    for (void *p : { in_a, in_b, in_picks, out }) device_free(p);
}

/* The unit of a scale: a power of two of which the scale is 1 to 2 times as much. */
void units_of_scales(void **)
{
    for (uint32_t i = 0; i < 0x7f800000u; i += 0x1357u) {
        const float x = simt::float_of_bits(i);
        for (const float scale : { x, -x }) {
            const float unit = pkv__scale_unit(scale), inverse = pkv__unit_inverse(unit);
            int exponent;
            assert_true(std::frexp(unit, &exponent) == 0.5f);
            assert_true(unit >= 0x1p-126f && inverse >= 0x1p-126f && unit * inverse == 1.f);
            if (x < 0x1p-126f) assert_true(unit == 0x1p-126f);
            else if (x < 0x1p127f) assert_true(x * inverse >= 1.f && x * inverse < 2.f);
            else assert_true(x * inverse < 4.f);
        }
    }
    for (const float scale : { INFINITY, -INFINITY, NAN, 0.f }) {
        const float unit = pkv__scale_unit(scale);
        assert_true(std::isfinite(unit) && unit * pkv__unit_inverse(unit) == 1.f);
    }
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_of_codes), cmocka_unit_test(fp8_as_in_the_toolkit),
        cmocka_unit_test(e4m3_both_ways),      cmocka_unit_test(fragments_of_a_step),
        cmocka_unit_test(register_operations), cmocka_unit_test(units_of_scales),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
