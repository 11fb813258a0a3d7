/* Reports and places of rows at their edges: what is said of a NaN that only some steps of a warp
 * met, what an earlier report keeps, and slots that take more than 32 bits. */
#include "cuda_test.h"

#include <math.h>

static void *upload(const void *data, size_t bytes)
{
    void *there = device_alloc(bytes);
    assert_non_null(there);
    device_upload(there, data, bytes);
    return there;
}

/* Forty heads with one scale for the token: a warp has four at a time. The NaN is one of the first
 * four; the last ones have none. The report was empty, or is of an earlier call. */
static void nan_of_the_first_heads(void **state)
{
    (void)state;
    enum { HEADS = 40, DIM = 64, SLOT = 5 };
    static float rows[HEADS * DIM];
    pkv_backend *be = cuda_backend(NULL, 2);
    const int64_t slot = SLOT;
    for (int i = 0; i < HEADS * DIM; i++) rows[i] = (float)(i % 7) - 3.f;
    rows[3] = NAN;
    for (int earlier = 0; earlier < 2; earlier++) {
        const uint32_t before[4] = { earlier ? PKV_BAD_MASK : 0, 71, 72, 73 };
        uint32_t after[4], *bad = upload(before, sizeof before);
        float *k_data = upload(rows, sizeof rows), *scales = device_alloc(8 * sizeof(float));
        int64_t *slots = upload(&slot, sizeof slot);
        int8_t codes[DIM], *store = device_alloc(8 * HEADS * DIM);
        pkv_tensor3 k = { k_data, PKV_F32, HEADS, DIM, 1, HEADS * DIM, DIM };
        pkv_kv_view view = { store,
                             PKV_I8,
                             2,
                             4,
                             HEADS,
                             DIM,
                             4 * HEADS * DIM,
                             HEADS * DIM,
                             DIM,
                             { scales, 4, 1, 0 },
                             { NULL, 0, 0, 0 } };
        pkv_kv_write_args a = PKV_KV_WRITE_ARGS_INIT;
        a.k = &k;
        a.k_view = &view;
        a.slots = slots;
        a.bad = bad;
        assert_device_ok(pkv_kv_write(be, &a, NULL));
        device_download(after, bad, sizeof after);
        assert_int_equal(after[0], before[0] | PKV_BAD_NAN_CODE);
        assert_int_equal(after[1], earlier ? 71 : 0);
        assert_int_equal(after[2], earlier ? 72 : 0);
        assert_int_equal(after[3], earlier ? 73 : SLOT);
        device_download(codes, store + SLOT * HEADS * DIM, sizeof codes);
        assert_int_equal(codes[3], 0);
        assert_int_equal(codes[0], -127); /* -3, the largest magnitude */
        device_free(bad);
        device_free(k_data);
        device_free(scales);
        device_free(slots);
        device_free(store);
    }
    pkv_backend_destroy(be);
}

/* All blocks of three tokens lie in one place: of slot 2^32 + i the offset is (1 + i) % 3. */
static void slots_beyond_32_bits(void **state)
{
    (void)state;
    enum { N = 3, DIM = 8 };
    pkv_backend *be = cuda_backend(NULL, 1);
    float rows[N * DIM], got[N * DIM];
    int64_t slots[N];
    for (int i = 0; i < N * DIM; i++) rows[i] = (float)i;
    for (int i = 0; i < N; i++) slots[i] = (INT64_C(1) << 32) + i;
    float *store = upload(rows, sizeof rows), *out = device_alloc(sizeof got);
    int64_t *slots_there = upload(slots, sizeof slots);
    const pkv_kv_view view = { store, PKV_F32,           INT32_MAX,        N, 1, DIM, 0, DIM,
                               DIM,   { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 } };
    pkv_tensor3 t = { out, PKV_F32, 1, DIM, N, DIM, DIM };
    assert_device_ok(pkv_kv_gather(be, &view, slots_there, &t, NULL, NULL));
    device_download(got, out, sizeof got);
    for (int i = 0; i < N; i++) assert_true(got[i * DIM] == rows[(1 + i) % N * DIM]);
    device_free(store);
    device_free(out);
    device_free(slots_there);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nan_of_the_first_heads),
        cmocka_unit_test(slots_beyond_32_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
