/* cp.async on the emulator: zero fill, groups, when copies land, and a ring in every schedule. */
#include "simt_test.h"

static void short_sources_are_filled_with_zeros(void **state)
{
    (void)state;
    uint8_t bytes[1024], got[1024];
    for (int i = 0; i < 1024; i++) bytes[i] = (uint8_t)(i % 251 + 1);
    uint8_t *in = device_copy_of(bytes, sizeof bytes), *out = device_copy_of(NULL, sizeof got);
    for (int eager = 0; eager < 2; eager++) {
        use_schedule(eager);
        assert_launched(run_zero_fill(out, in));
        device_download(got, out, sizeof got);
        for (int t = 0; t < 64; t++)
            for (int i = 0; i < 16; i++)
                assert_int_equal(got[16 * t + i], i < t % 17 ? bytes[16 * t + i] : 0);
    }
    device_free(in);
    device_free(out);
}

static void no_source_is_read(void **state)
{
    (void)state;
    uint8_t got[512], *out = device_copy_of(NULL, sizeof got);
    use_schedule(0);
    assert_launched(run_no_source(out));
    device_download(got, out, sizeof got);
    for (int i = 0; i < 512; i++) assert_int_equal(got[i], 0);
    device_free(out);
}

/* Lazy: a copy is poison until the wait that lets no more than the groups after it go on. */
static void copies_land_with_their_group(void **state)
{
    (void)state;
    static const int landed[4][3] = { { 0, 0, 0 }, { 1, 0, 0 }, { 1, 1, 0 }, { 1, 1, 1 } };
    uint32_t words[3 * 128], got[32][4][3];
    for (uint32_t i = 0; i < 3 * 128; i++) words[i] = i * 7 + 1;
    uint32_t *in = device_copy_of(words, sizeof words), *out = device_copy_of(NULL, sizeof got);
    for (int eager = 0; eager < 2; eager++) {
        use_schedule(eager);
        if (is_watched()) {
            assert_int_equal(run_groups(out, in), 1);
            assert_has(device_last_error(), "before its wait_group");
            continue;
        }
        assert_launched(run_groups(out, in));
        device_download(got, out, sizeof got);
        for (int t = 0; t < 32; t++)
            for (int wait = 0; wait < 4; wait++)
                for (int copy = 0; copy < 3; copy++)
                    assert_int_equal(got[t][wait][copy], eager || landed[wait][copy]
                                                             ? words[128 * copy + 4 * t]
                                                             : 0xffffffffu);
    }
    device_free(in);
    device_free(out);
}

static void ring_in_every_schedule(void **state)
{
    (void)state;
    enum { N_TILES = 7 };
    float values[N_TILES * 128], got[32];
    for (int i = 0; i < N_TILES * 128; i++) values[i] = (float)(i % 13);
    float *in = device_copy_of(values, sizeof values), *out = device_copy_of(NULL, sizeof got);
    for (int s = 0; s < DEVICE_N_SCHEDULES; s++)
        for (int n = 1; n <= N_TILES; n += 6) {
            float expected = 0;
            for (int i = 0; i < n * 128; i++) expected += values[i];
            use_schedule(s);
            assert_launched(run_ring(out, in, n));
            device_download(got, out, sizeof got);
            for (int t = 0; t < 32; t++) assert_true(got[t] == expected);
        }
    device_free(in);
    device_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_sources_are_filled_with_zeros),
        cmocka_unit_test(no_source_is_read),
        cmocka_unit_test(copies_land_with_their_group),
        cmocka_unit_test(ring_in_every_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
