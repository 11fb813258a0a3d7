/* The emulator's float formats against the toolkit's host functions, at every code; conversions and
 * approximations of pkv_dev.cuh against the same formats. */
#include "kernels/cuda/pkv_dev.cuh"
#include "simt/simt_formats.h"

#include <cfloat>

extern "C" {
#include "simt_test.h"
}

namespace
{

uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The same number, bit by bit; two NaNs are the same. */
bool same(float a, float b)
{
    return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b));
}

void f16_at_every_code(void **)
{
    for (uint32_t code = 0; code < 65536; code++)
        if (!same(simt::float_of_f16((uint16_t)code),
                  __half2float(__ushort_as_half((unsigned short)code))))
            fail_msg("f16 %04x", code);
}

void bf16_at_every_code(void **)
{
    for (uint32_t code = 0; code < 65536; code++)
        if (!same(simt::float_of_bf16((uint16_t)code),
                  __bfloat162float(__ushort_as_bfloat16((unsigned short)code))))
            fail_msg("bf16 %04x", code);
}

float toolkit_fp8(uint32_t code, __nv_fp8_interpretation_t kind)
{
    return __half2float(__half(__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)code, kind)));
}

void fp8_at_every_code(void **)
{
    for (uint32_t code = 0; code < 256; code++) {
        if (!same(simt::float_of_e4m3((uint8_t)code), toolkit_fp8(code, __NV_E4M3)))
            fail_msg("e4m3 %02x", code);
        if (!same(simt::float_of_e5m2((uint8_t)code), toolkit_fp8(code, __NV_E5M2)))
            fail_msg("e5m2 %02x", code);
        const uint16_t pair = (uint16_t)(code | (255 - code) << 8);
        const float2 e4m3 = pkv_unpack2<__half>(pkv_e4m3x2_to_f16x2(pair));
        const float2 e5m2 = pkv_unpack2<__half>(pkv_e5m2x2_to_f16x2(pair));
        assert_true(same(e4m3.x, simt::float_of_e4m3((uint8_t)code)));
        assert_true(same(e4m3.y, simt::float_of_e4m3((uint8_t)(255 - code))));
        assert_true(same(e5m2.x, simt::float_of_e5m2((uint8_t)code)));
        assert_true(same(e5m2.y, simt::float_of_e5m2((uint8_t)(255 - code))));
    }
}

/* Between two neighbours the nearer one wins; in the middle the one with an even code. */
template <class T> void rounds_to_nearest(float (*value)(uint16_t), uint32_t end)
{
    for (uint32_t code = 0; code + 1 < end; code++) {
        const float lo = value((uint16_t)code), hi = value((uint16_t)(code + 1));
        const float middle = lo + (hi - lo) / 2;
        const float inputs[3] = { std::nextafter(middle, lo), middle, std::nextafter(middle, hi) };
        const uint32_t expected[3] = { code, code + code % 2, code + 1 };
        for (int i = 0; i < 3; i++)
            if (pkv_pack2<T>(inputs[i], -inputs[i]) != (expected[i] | (expected[i] | 0x8000) << 16))
                fail_msg("%a, beside code %04x", (double)inputs[i], code);
    }
}

void packing_rounds_to_nearest_even(void **)
{
    rounds_to_nearest<__half>(simt::float_of_f16, 0x7c00);
    rounds_to_nearest<__nv_bfloat16>(simt::float_of_bf16, 0x7f80);
}

/* The kernel computes what the functions say, and subnormals count as zeros. */
void approximations(void **)
{
    const float tiny = FLT_MIN / 4;
    float values[32] = { 0,   1,    -1,    0.5f,    3,      -127,     -130,
                         200, tiny, -tiny, FLT_MIN, 1e-30f, INFINITY, -INFINITY,
                         NAN, 6e7f, 1e38f, 3e38f,   65519,  65520,    0x1p-24f };
    float got[32][8];
    void *in = device_copy_of(values, sizeof values), *out = device_copy_of(NULL, sizeof got);
    use_schedule(0);
    assert_launched(run_numbers((float *)out, (const float *)in, 32));
    device_download(got, out, sizeof got);
    for (int i = 0; i < 32; i++) {
        const float x = values[i], zeroed = std::fabs(x) < FLT_MIN ? std::copysign(0.f, x) : x;
        const float exp2 = std::exp2(zeroed), rcp = 1 / zeroed;
        assert_true(same(got[i][0], exp2 < FLT_MIN ? 0 : exp2));
        assert_true(same(got[i][1], std::log2(zeroed)));
        assert_true(same(got[i][2], std::fabs(rcp) < FLT_MIN ? std::copysign(0.f, rcp) : rcp));
        assert_true(same(got[i][3], 1 / std::sqrt(zeroed)));
        assert_true(same(got[i][4], __half2float(__float2half_rn(x))));
        assert_true(same(got[i][5], -got[i][4]));
        assert_true(same(got[i][6], __bfloat162float(__float2bfloat16_rn(x))));
        assert_true(same(got[i][7], -got[i][6]));
    }
    device_free(in);
    device_free(out);
}

/* By hand: nothing is fused (the first pair would give 2^-12 + 2^-35), subnormals stay. */
void exact_arithmetic(void **)
{
    const float values[32][2] = {
        { -0x1.ffep-1f, 0x1.000002p+0f }, { 1, 3 }, { 0x1p-130f, 4 }, { 2, 0x1p-149f }, { -0.f, 1 }
    };
    const float want[5][4] = { { 0x1p-12f, -0x1.ffdffcp-1f, NAN, 0x1.ffep-1f },
                               { 6, 0x1.555556p-2f, 1, -1 },
                               { 4, 0x1p-132f, 0x1p-65f, -0x1p-130f },
                               { 0x1.8p-148f, INFINITY, 0x1.6a09e6p+0f, -2 },
                               { 1, -0.f, -0.f, 0 } };
    float got[32][4];
    void *in = device_copy_of(values, sizeof values), *out = device_copy_of(NULL, sizeof got);
    use_schedule(0);
    assert_launched(run_exact((float *)out, (const float *)in, 32));
    device_download(got, out, sizeof got);
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 4; j++)
            if (!same(got[i][j], want[i][j]))
                fail_msg("row %d, %d: %a, not %a", i, j, (double)got[i][j], (double)want[i][j]);
    device_free(in);
    device_free(out);
}

} // namespace

int main()
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f16_at_every_code), cmocka_unit_test(bf16_at_every_code),
        cmocka_unit_test(fp8_at_every_code), cmocka_unit_test(packing_rounds_to_nearest_even),
        cmocka_unit_test(approximations),    cmocka_unit_test(exact_arithmetic),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
