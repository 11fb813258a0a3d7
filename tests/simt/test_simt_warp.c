/* Shuffles, votes, reductions and atomics of the emulator, against plain formulas. */
#include "simt_test.h"

#include <math.h>

/* The CUDA guide's words: segments of `width` lanes; idx wraps in the segment, xor may reach an
 * earlier segment but no later one, up and down stay; where nothing is, the own value. */
static int lane_read(int mode, int lane, int by, int width)
{
    const int segment = lane / width, place = lane % width;
    switch (mode) {
    case SHUFFLE_IDX:
        return segment * width + by % width;
    case SHUFFLE_XOR:
        return (lane ^ by) / width <= segment ? lane ^ by : lane;
    case SHUFFLE_UP:
        return place >= by ? lane - by : lane;
    default:
        return place + by < width ? lane + by : lane;
    }
}

static void shuffles_in_all_modes(void **state)
{
    (void)state;
    uint64_t values[32], got[32];
    for (uint64_t i = 0; i < 32; i++) values[i] = (i + 1) * 0x0101010100000001u;
    uint64_t *in = device_copy_of(values, sizeof values), *out = device_copy_of(NULL, sizeof got);
    for (int mode = SHUFFLE_IDX; mode <= SHUFFLE_DOWN; mode++)
        for (int width = 1; width <= 32; width *= 2)
            for (int by = 0; by < 32; by++) {
                use_schedule((by + width) % DEVICE_N_SCHEDULES);
                assert_launched(run_shuffle(out, in, mode, by, width));
                device_download(got, out, sizeof got);
                for (int i = 0; i < 32; i++)
                    if (got[i] != values[lane_read(mode, i, by, width)])
                        fail_msg("mode %d width %d by %d: lane %d", mode, width, by, i);
            }
    device_free(in);
    device_free(out);
}

static void widths_are_powers_of_two(void **state)
{
    (void)state;
    uint64_t *buffer = device_copy_of(NULL, 256);
    const int bad[] = { 0, 3, 33, 64, -1 };
    use_schedule(0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(run_shuffle(buffer, buffer, SHUFFLE_IDX, 0, bad[i]), 1);
        assert_has(device_last_error(), "is not 1, 2, 4, 8, 16 or 32");
    }
    device_free(buffer);
}

static void disjoint_masks_at_once(void **state)
{
    (void)state;
    uint32_t got[32], *out = device_copy_of(NULL, sizeof got);
    for (int s = 0; s < DEVICE_N_SCHEDULES; s++) {
        use_schedule(s);
        assert_launched(run_two_masks(out));
        device_download(got, out, sizeof got);
        for (int i = 0; i < 32; i++) assert_int_equal(got[i], i % 2 ? 16 * 16 : 15 * 16);
    }
    device_free(out);
}

static void votes(void **state)
{
    (void)state;
    const uint32_t cases[] = { 0, 1, 0x80000000u, 0x12345678u, 0xfffffffeu, 0xffffffffu };
    uint32_t got[4], *out = device_copy_of(NULL, sizeof got);
    for (int i = 0; i < 6; i++) {
        const uint32_t bits = cases[i];
        use_schedule(2 * i);
        assert_launched(run_votes(out, bits));
        device_download(got, out, sizeof got);
        assert_int_equal(got[0], bits);
        assert_int_equal(got[1], bits != 0);
        assert_int_equal(got[2], bits == 0xffffffffu);
        assert_int_equal(got[3], bits & 0xaaaaaaaau);
    }
    device_free(out);
}

/* One meeting gives the bits of five shuffles; all lanes the same. */
static void reductions_have_the_bits_of_shuffles(void **state)
{
    (void)state;
    float values[32], got[32][4];
    uint32_t random = 2463534242u;
    double sum = 0, max = -INFINITY;
    for (int i = 0; i < 32; i++) {
        random = random * 1664525 + 1013904223;
        values[i] = ldexpf((float)(int32_t)random, (int)(random >> 8) % 20 - 40);
        sum += values[i];
        max = fmax(max, values[i]);
    }
    float *in = device_copy_of(values, sizeof values), *out = device_copy_of(NULL, sizeof got);
    use_schedule(4);
    assert_launched(run_reductions(out, in));
    device_download(got, out, sizeof got);
    for (int i = 0; i < 32; i++) {
        assert_memory_equal(got[i], got[i] + 2, 8);
        assert_memory_equal(got[i], got[0], 8);
    }
    assert_true(fabs(got[0][0] - sum) <= 1e-6 * 32 * fabs(max));
    assert_true(got[0][1] == (float)max);
    device_free(in);
    device_free(out);
}

static void last_arriver_sees_all(void **state)
{
    (void)state;
    enum { N = 7 };
    const uint32_t zeros[3] = { 0, 0, 0 };
    uint32_t got[N + 1], counters[3];
    uint32_t *d_counters = device_copy_of(zeros, sizeof zeros);
    for (int s = 0; s < DEVICE_N_SCHEDULES; s++) { /* the counter goes round: no reset between */
        uint32_t *out = device_copy_of(NULL, sizeof got), *parts = device_copy_of(NULL, 8 * N);
        uint32_t n_last = 0;
        use_schedule(s);
        assert_launched(run_last_arriver(out, parts, d_counters, N));
        device_download(got, out, sizeof got);
        device_download(counters, d_counters, sizeof counters);
        for (int b = 0; b < N; b++) n_last += got[b];
        assert_int_equal(n_last, 1);
        assert_int_equal(got[N], 3 * N * (N + 1) / 2);
        assert_int_equal(counters[0], 0);
        assert_int_equal(counters[1], 0xffffffffu);
        assert_int_equal(counters[2], 63 - 40);
        device_free(out);
        device_free(parts);
    }
    device_free(d_counters);
}

/* What was acquired is passed on with the next release. */
static void orders_pass_through_blocks(void **state)
{
    (void)state;
    const uint32_t zeros[3] = { 0, 0, 0 };
    uint32_t got, *words = device_copy_of(zeros, sizeof zeros), *out = device_copy_of(NULL, 4);
    use_seed(0, DEVICE_FORWARD);
    assert_launched(run_chain(out, words));
    device_download(&got, out, 4);
    assert_int_equal(got, 5);
    device_free(words);
    device_free(out);
}

static void shared_atomics(void **state)
{
    (void)state;
    uint32_t got, *out = device_copy_of(NULL, 4);
    use_schedule(5);
    assert_launched(run_shared_atomics(out));
    device_download(&got, out, 4);
    assert_int_equal(got, 3 * 128);
    device_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shuffles_in_all_modes),
        cmocka_unit_test(widths_are_powers_of_two),
        cmocka_unit_test(disjoint_masks_at_once),
        cmocka_unit_test(votes),
        cmocka_unit_test(reductions_have_the_bits_of_shuffles),
        cmocka_unit_test(last_arriver_sees_all),
        cmocka_unit_test(orders_pass_through_blocks),
        cmocka_unit_test(shared_atomics),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
