/* What moves, merges and checks ask of the memory system, in the builds that count: every byte
 * once, in sectors that are full, and 16 bytes at a time where it matters. */
#include "cuda_test.h"
#include "simt/simt_counts.h"

/* Of the global accesses of one width every sector is full. */
static void assert_traffic(const char *file, bool store, uint32_t width, uint64_t bytes)
{
    const simt_count sum = simt_counts_of_file(file, false, store, width);
    assert_int_equal(sum.lanes * width, bytes);
    assert_int_equal(sum.units, bytes / 32);
    assert_int_equal(sum.ideal, bytes / 32);
}

static void assert_no_others(const char *file, uint32_t width)
{
    for (uint32_t other = 1; other <= 16; other *= 2)
        for (int store = 0; store < 2 && other != width; store++)
            assert_int_equal(simt_counts_of_file(file, false, store, other).lanes, 0);
}

static void test_whole_blocks(void **state)
{
    (void)state;
    enum { BLOCK = 40960, N = 9 };
    const pkv_block_copy list[3] = { { 1, 2, 0, 0 }, { 3, 4, 0, 0 }, { 5, 6, 0, 0 } };
    const int32_t zeros[2] = { 7, 8 }, ids[2] = { 1, 3 };
    pkv_backend *be = cuda_backend(NULL, 2);
    uint8_t *pool = device_alloc(BLOCK * N), *flat = device_alloc(2 * 2048);
    device_fill(pool, 1, BLOCK * N);
    cuda_schedule(3);
    simt_counts_reset();
    assert_device_ok(pkv_blocks_copy(be, pool, BLOCK, N, list, 3, NULL, 0, NULL));
    assert_traffic("blocks_copy.cu", false, 16, 3 * BLOCK);
    assert_traffic("blocks_copy.cu", true, 16, 3 * BLOCK);
    assert_no_others("blocks_copy.cu", 16);
    simt_counts_reset();
    assert_device_ok(pkv_blocks_zero(be, pool, BLOCK, N, zeros, 2, NULL));
    assert_traffic("blocks_copy.cu", false, 16, 0);
    assert_traffic("blocks_copy.cu", true, 16, 2 * BLOCK);
    simt_counts_reset();
    assert_device_ok(pkv_blocks_gather(be, pool, 2048, N, ids, 2, flat, NULL));
    assert_traffic("blocks_copy.cu", false, 16, 2 * 2048);
    assert_traffic("blocks_copy.cu", true, 16, 2 * 2048);
    device_free(flat);
    device_free(pool);
    pkv_backend_destroy(be);
}

/* 5 of 16 tokens of int8: rows of 128 bytes, which are 4 sectors; scales 20 bytes in a row. */
static void test_first_tokens(void **state)
{
    (void)state;
    const pkv_kv_shape shape = { 4, 2, 128, 16, PKV_I8 };
    const pkv_block_copy copy = { 1, 2, 5, 0 };
    const uint64_t rows = 2 * 4 * 2 * 5;
    size_t block = 0;
    assert_int_equal(pkv_kv_block_bytes(&shape, &block), PKV_OK);
    pkv_backend *be = cuda_backend(NULL, 2);
    uint8_t *pool = device_alloc(block * 3);
    device_fill(pool, 1, block * 3);
    cuda_schedule(2);
    simt_counts_reset();
    assert_device_ok(pkv_blocks_copy(be, pool, block, 3, &copy, 1, &shape, 1, NULL));
    assert_traffic("blocks_copy.cu", false, 16, rows * 128);
    assert_traffic("blocks_copy.cu", true, 16, rows * 128);
    assert_int_equal(simt_counts_of_file("blocks_copy.cu", false, false, 4).lanes, rows);
    assert_int_equal(simt_counts_of_file("blocks_copy.cu", false, true, 4).lanes, rows);
    device_free(pool);
    pkv_backend_destroy(be);
}

/* Each state is read once, and the result written once. */
static void test_merges(void **state)
{
    (void)state;
    enum { ROWS = 5, HEADS = 4, STATES = 3 };
    static const int32_t dims[] = { 64, 128, 256 };
    static const pkv_dtype dtypes[] = { PKV_F16, PKV_F32 };
    static float zeros[ROWS * HEADS];
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int i = 0; i < 6; i++) {
        const int32_t dim = dims[i / 2], elem = i % 2 ? 4 : 2;
        const size_t bytes = (size_t)(ROWS * HEADS * dim * elem);
        pkv_tensor3 o[STATES], out = { NULL, dtypes[i % 2], HEADS, dim, ROWS, HEADS * dim, dim };
        pkv_lse lse[STATES];
        for (int s = 0; s < STATES; s++) {
            o[s] = out;
            o[s].data = device_alloc(bytes);
            device_fill(o[s].data, 0, bytes);
            lse[s] = (pkv_lse){ device_alloc(sizeof zeros), HEADS, 1, 0 };
            device_upload(lse[s].data, zeros, sizeof zeros);
        }
        out.data = device_alloc(bytes);
        cuda_schedule(i);
        simt_counts_reset();
        assert_device_ok(pkv_states_merge(be, o, lse, STATES, NULL, &out, NULL));
        assert_traffic("states_merge.cu", false, 16, STATES * bytes);
        assert_traffic("states_merge.cu", true, 16, bytes);
        for (int s = 0; s < STATES; s++) {
            device_free(o[s].data);
            device_free(lse[s].data);
        }
        device_free(out.data);
    }
    pkv_backend_destroy(be);
}

/* Ids are read once, by warps that read 32 in a row, whoever shares them. */
static void test_tables(void **state)
{
    (void)state;
    enum { N_IDS = 4096 };
    static int32_t ids[N_IDS];
    const int32_t len = N_IDS * 16;
    const uint32_t nothing[4] = { 0 };
    for (int32_t i = 0; i < N_IDS; i++) ids[i] = 1 + i % 9;
    for (int32_t n_sms = 1; n_sms <= 4; n_sms++) {
        pkv_backend *be = cuda_backend(NULL, n_sms);
        int32_t *table = device_alloc(sizeof ids), *kv_len = device_alloc(4);
        uint32_t *bad = device_alloc(16);
        pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
        device_upload(table, ids, sizeof ids);
        device_upload(kv_len, &len, 4);
        device_upload(bad, nothing, 16);
        batch.n_seqs = 1;
        batch.table = table;
        batch.table_stride = N_IDS;
        batch.kv_len = kv_len;
        cuda_schedule(n_sms);
        simt_counts_reset();
        assert_device_ok(pkv_table_check(be, &batch, NULL, 1, 10, 16, bad, NULL));
        assert_traffic("table_check.cu", false, 4, sizeof ids);
        device_free(table);
        device_free(kv_len);
        device_free(bad);
        pkv_backend_destroy(be);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_blocks),
        cmocka_unit_test(test_first_tokens),
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_tables),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
