/* Elements of every type as floats: blocks by hand, and against formulas written bit by bit. */
#include "model_test.h"

#include "common/number_format.h"
#include "common/philox.h"

/* f16 by its definition: sign, 5 bits of exponent, 10 of fraction. Infinities and NaN are not in
 * weights and not asked for. */
static float slow_f16(const uint8_t *at)
{
    const int bits = at[0] | at[1] << 8;
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const double v = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    return (float)(bits >> 15 ? -v : v);
}

static pkv__tensor tensor_of(pkv__tensor_type type, const void *data, size_t n)
{
    return (pkv__tensor){
        .name = "t", .type = type, .n_dims = 1, .dims = { 1, 1, 1, 1 }, .data = data, .bytes = n
    };
}

static void expect_floats(pkv__tensor_type type, const uint8_t *block, size_t n_bytes,
                          const float *want, int32_t n)
{
    float got[256];
    const pkv__tensor t = tensor_of(type, block, n_bytes);
    assert_true(n <= 256);
    assert_int_equal(pkv__tensor_floats(&t, 0, n, got), PKV_OK);
    for (int32_t k = 0; k < n; k++)
        if (memcmp(&got[k], &want[k], sizeof(float)) != 0)
            fail_msg("type %d, element %d: %.9g, expected %.9g", type, k, got[k], want[k]);
}

/* ---------------------------------------------------------------- by hand */

static void q8_0_by_hand(void **state)
{
    (void)state;
    uint8_t block[34] = { 0x00, 0x38 }; /* 0.5 */
    float want[32] = { 0 };
    block[2] = 127, want[0] = 63.5f;
    block[3] = 0x80, want[1] = -64.0f; /* -128 */
    block[4] = 0xff, want[2] = -0.5f;
    block[33] = 3, want[31] = 1.5f;
    expect_floats(PKV__T_Q8_0, block, sizeof(block), want, 32);
}

/* Weight k is in the low half of byte k, weight k + 16 in the high one. */
static void q4_0_by_hand(void **state)
{
    (void)state;
    uint8_t block[18] = { 0x00, 0xc0 }; /* -2 */
    float want[32];
    memset(block + 2, 0x88, 16);
    for (int k = 0; k < 32; k++) want[k] = -0.0f; /* -2 times 0 */
    block[2] = 0x0f, want[0] = -14.0f, want[16] = 16.0f;
    block[17] = 0x91, want[15] = 14.0f, want[31] = -2.0f;
    expect_floats(PKV__T_Q4_0, block, sizeof(block), want, 32);
}

static void q4_1_by_hand(void **state)
{
    (void)state;
    uint8_t block[20] = { 0x00, 0x34, 0x00, 0xbc }; /* 0.25, -1 */
    float want[32];
    for (int k = 0; k < 32; k++) want[k] = -1.0f;
    block[4] = 0x0f, want[0] = 2.75f;
    block[19] = 0x40, want[31] = 0.0f;
    expect_floats(PKV__T_Q4_1, block, sizeof(block), want, 32);
}

/* The weights of each quarter of the first half, and one of the second, by their places in the
 * block: low bits at 0, high bits at 128, scales at 192, d at 208. */
static void q6_k_by_hand(void **state)
{
    (void)state;
    uint8_t block[210] = { 0 };
    float want[256];
    block[209] = 0x3c; /* d = 1 */
    for (int k = 0; k < 16; k++) block[192 + k] = (uint8_t)(k + 1);
    for (int k = 0; k < 256; k++) want[k] = -32.0f * (float)(k / 16 + 1);
    block[5] = 0xa7;       /* low bits of weight 5: 7, of weight 64 + 5: 10 */
    block[32 + 5] = 1;     /* of weight 32 + 5: 1, of weight 96 + 5: 0 */
    block[128 + 5] = 0xe4; /* high bits of 5: 0, of 37: 1, of 69: 2, of 101: 3 */
    want[5] = 1 * (7.0f - 32);
    want[37] = 3 * (16 + 1 - 32.0f);
    want[69] = 5 * (32 + 10 - 32.0f);
    want[101] = 7 * (48 + 0 - 32.0f);
    block[64 + 31] = 0x0f;        /* low bits of weight 128 + 31 */
    block[160 + 31] = 0x03;       /* its high bits: 63 in all */
    block[192 + 9] = (uint8_t)-2; /* and the scale of weights 144 .. 159 */
    for (int k = 144; k < 160; k++) want[k] = 64.0f;
    want[159] = -2 * 31.0f;
    expect_floats(PKV__T_Q6_K, block, sizeof(block), want, 256);
}

/* ---------------------------------------------------------------- against formulas */

/* Each weight on its own, from the bits that the definition gives it. Scales are finite. */
static float slow_weight(pkv__tensor_type type, const uint8_t *b, int k)
{
    const int half = k / 128, in_half = k % 128, quarter = in_half / 32, l = in_half % 32;
    switch (type) {
    case PKV__T_Q8_0:
        return slow_f16(b) * (float)(b[2 + k] < 128 ? b[2 + k] : b[2 + k] - 256);
    case PKV__T_Q4_0:
        return slow_f16(b) * (float)((k < 16 ? b[2 + k] % 16 : b[2 + k - 16] / 16) - 8);
    case PKV__T_Q4_1:
        return slow_f16(b) * (float)(k < 16 ? b[4 + k] % 16 : b[4 + k - 16] / 16) + slow_f16(b + 2);
    default: {
        const int ql = b[64 * half + 32 * (quarter % 2) + l];
        const int low = quarter < 2 ? ql % 16 : ql / 16;
        const int high = b[128 + 32 * half + l] / (1 << 2 * quarter) % 4;
        const int scale = b[192 + k / 16];
        return slow_f16(b + 208) * (float)(scale < 128 ? scale : scale - 256) *
               (float)(low + 16 * high - 32);
    }
    }
}

static uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    return text ? strtoull(text, NULL, 10) : 1;
}

static void blocks_against_formulas(void **state)
{
    (void)state;
    static const struct {
        pkv__tensor_type type;
        int n, bytes, scales[2];
    } types[] = { { PKV__T_Q8_0, 32, 34, { 0, 0 } },
                  { PKV__T_Q4_0, 32, 18, { 0, 0 } },
                  { PKV__T_Q4_1, 32, 20, { 0, 2 } },
                  { PKV__T_Q6_K, 256, 210, { 208, 208 } } };
    const uint64_t seed = first_seed();
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    for (size_t t = 0; t < PKV_ARRAY_LEN(types); t++) {
        pkv__rng rng;
        pkv__rng_init(&rng, seed, (uint32_t)t, 0);
        for (int round = 0; round < 200; round++) {
            uint8_t block[210];
            float want[256];
            for (int k = 0; k < types[t].bytes; k++) block[k] = (uint8_t)pkv__rng_below(&rng, 256);
            for (int k = 0; k < 2; k++) /* no infinite scale */
                if ((block[types[t].scales[k] + 1] & 0x7c) == 0x7c)
                    block[types[t].scales[k] + 1] ^= 0x40;
            for (int k = 0; k < types[t].n; k++) want[k] = slow_weight(types[t].type, block, k);
            expect_floats(types[t].type, block, (size_t)types[t].bytes, want, types[t].n);
        }
    }
}

static void halves_against_common(void **state)
{
    (void)state;
    static uint16_t all[65536];
    static float got[65536];
    for (int k = 0; k < 65536; k++) all[k] = (uint16_t)k;
    pkv__tensor t = tensor_of(PKV__T_F16, all, sizeof(all));
    assert_int_equal(pkv__tensor_floats(&t, 0, 65536, got), PKV_OK);
    for (int k = 0; k < 65536; k++) {
        const float want = pkv__f16_to_f32((uint16_t)k);
        assert_memory_equal(&got[k], &want, sizeof(want));
        if ((k & 0x7c00) != 0x7c00) assert_true(want == slow_f16((const uint8_t *)&all[k]));
    }
    t.type = PKV__T_BF16;
    assert_int_equal(pkv__tensor_floats(&t, 0, 65536, got), PKV_OK);
    for (int k = 0; k < 65536; k++) {
        const uint32_t want = (uint32_t)k << 16; /* the upper half of a float */
        const float common = pkv__bf16_to_f32((uint16_t)k);
        assert_memory_equal(&got[k], &want, sizeof(want));
        assert_memory_equal(&common, &want, sizeof(want));
    }
}

/* ---------------------------------------------------------------- places */

static void parts_of_a_tensor(void **state)
{
    (void)state;
    uint8_t data[1 + 3 * 34] = { 0 }; /* three blocks, at an odd place */
    float all[96], part[32];
    for (size_t k = 0; k < sizeof(data); k++) data[k] = (uint8_t)(k & 0x3f);
    const pkv__tensor t = tensor_of(PKV__T_Q8_0, data + 1, 3 * 34);
    assert_int_equal(pkv__tensor_floats(&t, 0, 96, all), PKV_OK);
    assert_int_equal(pkv__tensor_floats(&t, 64, 32, part), PKV_OK);
    assert_memory_equal(part, all + 64, sizeof(part));
    assert_int_equal(pkv__tensor_floats(&t, 96, 0, part), PKV_OK);
    assert_int_equal(pkv__tensor_floats(&t, 16, 32, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, 0, 16, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, 96, 32, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, 64, 64, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, -32, 32, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, 0, -32, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, INT64_MAX - 31, 32, part), PKV_E_RANGE);
    assert_int_equal(pkv__tensor_floats(&t, 32, INT64_MAX - 31, part), PKV_E_RANGE);
}

static void types_without_floats(void **state)
{
    (void)state;
    const uint8_t data[8] = { 0 };
    float out[2];
    pkv__tensor t = tensor_of(PKV__T_I32, data, 8);
    assert_int_equal(pkv__tensor_floats(&t, 0, 2, out), PKV_E_UNSUPPORTED);
    t.type = PKV__T_OTHER;
    assert_int_equal(pkv__tensor_floats(&t, 0, 2, out), PKV_E_UNSUPPORTED);
}

static void sizes_of_blocks(void **state)
{
    (void)state;
    static const int want[][3] = {
        { PKV__T_F32, 1, 4 },      { PKV__T_F16, 1, 2 },    { PKV__T_BF16, 1, 2 },
        { PKV__T_Q8_0, 32, 34 },   { PKV__T_Q4_0, 32, 18 }, { PKV__T_Q4_1, 32, 20 },
        { PKV__T_Q6_K, 256, 210 }, { PKV__T_I32, 1, 4 },
    };
    for (size_t k = 0; k < PKV_ARRAY_LEN(want); k++) {
        int32_t n_bytes;
        assert_int_equal(pkv__tensor_block((pkv__tensor_type)want[k][0], &n_bytes), want[k][1]);
        assert_int_equal(n_bytes, want[k][2]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(q8_0_by_hand),
        cmocka_unit_test(q4_0_by_hand),
        cmocka_unit_test(q4_1_by_hand),
        cmocka_unit_test(q6_k_by_hand),
        cmocka_unit_test(blocks_against_formulas),
        cmocka_unit_test(halves_against_common),
        cmocka_unit_test(parts_of_a_tensor),
        cmocka_unit_test(types_without_floats),
        cmocka_unit_test(sizes_of_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
