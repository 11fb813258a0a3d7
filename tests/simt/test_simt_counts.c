/* Sectors and wavefronts per source line, against counts by hand. */
#include "simt_test.h"

#include "simt/simt_counts.h"

static simt_count count_at(const char *mark, int is_shared, int is_store)
{
    simt_count c;
    const int line = line_of(SIMT_SOURCES "/count_kernels.cu", mark);
    if (!simt_counts_of_line("count_kernels.cu", line, is_shared, is_store, &c))
        fail_msg("nothing was counted at \"%s\", line %d", mark, line);
    return c;
}

static void assert_count(const char *mark, int is_shared, int is_store, uint64_t requests,
                         uint64_t units, uint64_t ideal)
{
    const simt_count c = count_at(mark, is_shared, is_store);
    assert_int_equal(c.requests, requests);
    assert_int_equal(c.units, units);
    assert_int_equal(c.ideal, ideal);
}

/* Words t * stride: shared memory serves gcd(stride, 32) of them per bank; a sector holds 8. */
static void strides(void **state)
{
    (void)state;
    static const struct {
        int stride, sectors, wavefronts;
    } cases[] = { { 1, 4, 1 },    { 2, 8, 2 },   { 3, 12, 1 },  { 8, 32, 8 },
                  { 32, 32, 32 }, { 33, 32, 1 }, { 16, 32, 16 } };
    float *in = device_alloc(4 * 2048), *out = device_alloc(4 * 32);
    device_fill(in, 0, 4 * 2048);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint64_t n = 1 + i % 3; /* the n-th visits of the lanes belong together */
        use_schedule((int)i);
        simt_counts_reset();
        assert_launched(run_strides(out, in, cases[i].stride, (int)n));
        assert_count("global load", 0, 0, n, n * cases[i].sectors, n * 4);
        assert_count("shared store", 1, 1, n, n * cases[i].wavefronts, n);
        assert_count("shared load", 1, 0, n, n * cases[i].wavefronts, n);
        assert_int_equal(count_at("global load", 0, 0).lanes, 32 * n);
        assert_int_equal(count_at("global load", 0, 0).bytes, 4);
    }
    device_free(in);
    device_free(out);
}

/* 16 bytes per lane come by quarter warps: 8 lanes side by side fill all banks once. */
static void vectors(void **state)
{
    (void)state;
    float *in = device_alloc(16 * 128), *out = device_alloc(4 * 32);
    device_fill(in, 0, 16 * 128);
    for (int stride = 1; stride <= 4; stride *= 2) {
        use_schedule(stride);
        simt_counts_reset();
        assert_launched(run_vectors(out, in, stride));
        assert_count("global load16", 0, 0, 1, stride == 1 ? 16 : 32, 16);
        assert_count("shared store16", 1, 1, 1, (uint64_t)(4 * stride), 4);
        assert_count("shared load16", 1, 0, 1, (uint64_t)(4 * stride), 4);
    }
    device_free(in);
    device_free(out);
}

/* Eight rows 128 bytes apart lie in the same banks; 144 bytes apart, in different ones. */
static void rows_of_ldmatrix(void **state)
{
    (void)state;
    static const int pitches[] = { 128, 144, 64, 16 }, wavefronts[] = { 32, 4, 16, 4 };
    uint32_t *out = device_alloc(64);
    for (int i = 0; i < 4; i++) {
        use_schedule(i);
        simt_counts_reset();
        assert_launched(run_ldmatrix_pitch(out, pitches[i]));
        assert_count("ldmatrix", 1, 0, 1, (uint64_t)wavefronts[i], 4);
        assert_int_equal(count_at("half", 1, 0).lanes, 16);
    }
    device_free(out);
}

static void copies(void **state)
{
    (void)state;
    float *in = device_alloc(16 * 32), *out = device_alloc(4 * 32);
    device_fill(in, 0, 16 * 32);
    use_schedule(0);
    simt_counts_reset();
    assert_launched(run_counted_copy(out, in));
    assert_count("copy", 0, 0, 1, 16, 16);
    assert_count("copy", 1, 1, 1, 4, 4);
    device_free(in);
    device_free(out);
}

/* The n-th visits of all lanes are one request, whenever they come; a word is given to all at once.
 */
static void lanes_apart(void **state)
{
    (void)state;
    float *in = device_alloc(4 * 32 * 5), *out = device_alloc(4 * 32);
    device_fill(in, 0, 4 * 32 * 5);
    for (int s = 0; s < DEVICE_N_SCHEDULES; s++) {
        use_schedule(s);
        simt_counts_reset();
        assert_launched(run_apart(out, in, 5));
        assert_count("apart", 0, 0, 5, 20, 20);
        assert_count("one word", 1, 0, 1, 1, 1);
        assert_count("pairs", 1, 0, 1, 1, 1);
    }
    device_free(in);
    device_free(out);
}

/* By file and line, as many as there are, however few fit. */
static void lists(void **state)
{
    (void)state;
    simt_count all[64], one;
    float *in = device_alloc(16 * 32), *out = device_alloc(4 * 32);
    device_fill(in, 0, 16 * 32);
    use_schedule(0);
    simt_counts_reset();
    assert_int_equal(simt_counts_get(all, 64), 0);
    assert_launched(run_counted_copy(out, in));
    const int n = simt_counts_get(all, 64);
    assert_int_equal(n, 4); /* the copy twice, the load and the store of the last line */
    assert_int_equal(simt_counts_get(&one, 1), n);
    assert_int_equal(one.line, all[0].line);
    for (int i = 1; i < n; i++) assert_true(all[i - 1].line <= all[i].line);
    device_free(in);
    device_free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(strides),          cmocka_unit_test(vectors),
        cmocka_unit_test(rows_of_ldmatrix), cmocka_unit_test(copies),
        cmocka_unit_test(lanes_apart),      cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
