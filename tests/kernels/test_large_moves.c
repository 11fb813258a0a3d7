/* Moves so large that they are shared among threads and stored past the caches: every byte of the
 * store and of what is gathered is that of the scalar level on one thread. */
#include "pagedkv/pagedkv.h"
#include "test_levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEADS = 3, DIM = 72, TOKENS = 2450, BLOCK_TOKENS = 7, BLOCKS = TOKENS / BLOCK_TOKENS + 40 };

static pkv_backend *backend(pkv_isa isa, int32_t n_threads)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.max_isa = isa;
    cfg.n_threads = n_threads;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    return be;
}

/* Everything that a move reads. */
struct inputs {
    float *rows; /* [2][TOKENS][HEADS][DIM] */
    float rope[TOKENS * DIM], norm[DIM];
    int32_t pos[TOKENS];
    int64_t slots[TOKENS];
};

static void fill(struct inputs *in)
{
    uint32_t x = 1;
    const size_t n = (size_t)2 * TOKENS * HEADS * DIM;
    in->rows = aligned_alloc(64, n * sizeof(float));
    assert_non_null(in->rows);
    for (size_t i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        in->rows[i] = (float)(int32_t)(x >> 8) / 8388608.f - 1.f;
    }
    double freq[DIM / 2];
    for (int d = 0; d < DIM / 2; d++)
        freq[d] = 1. / (d + 1), in->norm[2 * d] = 1, in->norm[2 * d + 1] = 2;
    assert_int_equal(pkv_rope_fill(in->rope, 0, TOKENS, freq, DIM, 1), PKV_OK);
    for (int t = 0; t < TOKENS; t++) {
        in->pos[t] = t;
        in->slots[t] = BLOCK_TOKENS + t; /* runs; and places of their own, here and there */
        if (t % 50 == 3) in->slots[t] += (int64_t)TOKENS;
        if (in->slots[t] >= (int64_t)BLOCKS * BLOCK_TOKENS) in->slots[t] = -1;
    }
}

/* What a backend makes of them: the bytes of the pool, and the rows gathered from it. */
struct result {
    pkv_store *store;
    pkv_store_info_t info;
    uint16_t *gathered; /* [TOKENS][HEADS][DIM] */
};

static void run(pkv_backend *be, const struct inputs *in, pkv_dtype dtype, struct result *r)
{
    const pkv_kv_shape shape = { 1, HEADS, DIM, BLOCK_TOKENS, dtype };
    const size_t row = (size_t)HEADS * DIM;
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    pkv_kv_view k, v;
    cfg.shape = shape;
    cfg.n_blocks = 2 * BLOCKS;
    r->info = (pkv_store_info_t)PKV_STORE_INFO_INIT;
    r->gathered = aligned_alloc(64, (TOKENS * row * 2 + 63) / 64 * 64);
    assert_non_null(r->gathered);
    memset(r->gathered, 0, TOKENS * row * 2);
    assert_int_equal(pkv_store_create(&cfg, &r->store), PKV_OK);
    assert_int_equal(pkv_store_info(r->store, &r->info), PKV_OK);
    assert_int_equal(pkv_store_views(r->store, 0, &k, &v), PKV_OK);
    k.n_blocks = v.n_blocks = BLOCKS; /* the other half receives copies */

    pkv_tensor3 kt = { in->rows, PKV_F32, HEADS, DIM, TOKENS, (int64_t)row, DIM }, vt = kt;
    vt.data = in->rows + TOKENS * row;
    pkv_kv_write_args a = PKV_KV_WRITE_ARGS_INIT;
    a.k = &kt, a.v = &vt, a.slots = in->slots, a.k_view = &k, a.v_view = &v;
    a.k_norm = in->norm, a.rope = in->rope, a.pos = in->pos;
    a.n_rope_pos = TOKENS, a.rot_dim = DIM;
    assert_int_equal(pkv_kv_write(be, &a, NULL), PKV_OK);

    pkv_tensor3 out = { r->gathered, PKV_F16, HEADS, DIM, TOKENS, (int64_t)row, DIM };
    assert_int_equal(pkv_kv_gather(be, &k, in->slots, &out, NULL, NULL), PKV_OK);

    pkv_block_copy copies[BLOCKS - 1];
    for (int32_t i = 0; i + 1 < BLOCKS; i++)
        copies[i] = (pkv_block_copy){ i + 1, BLOCKS + i, i % (BLOCK_TOKENS + 1), 0 };
    assert_int_equal(pkv_blocks_copy(be, r->info.base, r->info.block_bytes, 2 * BLOCKS, copies,
                                     BLOCKS - 1, &shape, 1, NULL),
                     PKV_OK);
}

static void release(struct result *r)
{
    free(r->gathered);
    pkv_store_destroy(r->store);
}

static void every_level_and_number_of_threads(void **state)
{
    static struct inputs in;
    (void)state;
    fill(&in);
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) {
        struct result want, got;
        pkv_backend *be = backend(PKV_ISA_SCALAR, 1);
        run(be, &in, (pkv_dtype)t, &want);
        pkv_backend_destroy(be);
        const size_t bytes = (size_t)want.info.n_blocks * want.info.block_bytes;
        for (int i = 1; i < 2 * TEST_N_LEVELS; i++) {
            const pkv_isa isa = test_levels[i / 2];
            if (pkv_isa_check(isa, NULL) != PKV_OK) continue;
            be = backend(isa, i % 2 ? 3 : 1);
            run(be, &in, (pkv_dtype)t, &got);
            if (memcmp(got.info.base, want.info.base, bytes) != 0)
                fail_msg("store of %s differs at %s, %d threads", pkv_dtype_name((pkv_dtype)t),
                         pkv_isa_name(isa), i % 2 ? 3 : 1);
            assert_memory_equal(got.gathered, want.gathered, (size_t)TOKENS * HEADS * DIM * 2);
            release(&got);
            pkv_backend_destroy(be);
        }
        release(&want);
    }
    free(in.rows);
}

/* Blocks out, zeroed, and in again. */
static void blocks_there_and_back(void **state)
{
    enum { N = 300, BYTES = 5000 }; /* 1.4 MiB, blocks across cache lines */
    static uint8_t pool[(N + 1) * BYTES], was[(N + 1) * BYTES], out[N * BYTES];
    int32_t ids[N];
    (void)state;
    for (int i = 0; i < (N + 1) * BYTES; i++) was[i] = (uint8_t)(i * 2654435761u >> 13);
    for (int i = 0; i < N; i++) ids[i] = 1 + (i * 7) % N;
    for (int i = 0; i < 2 * TEST_N_LEVELS; i++) {
        if (pkv_isa_check(test_levels[i / 2], NULL) != PKV_OK) continue;
        pkv_backend *be = backend(test_levels[i / 2], i % 2 ? 3 : 1);
        memcpy(pool, was, sizeof pool);
        memset(out, 0, sizeof out);
        assert_int_equal(pkv_blocks_gather(be, pool, BYTES, N + 1, ids, N, out, NULL), PKV_OK);
        for (int b = 0; b < N; b++)
            assert_memory_equal(out + b * BYTES, was + ids[b] * BYTES, BYTES);
        assert_int_equal(pkv_blocks_zero(be, pool, BYTES, N + 1, ids, N, NULL), PKV_OK);
        for (int b = BYTES; b < (N + 1) * BYTES; b++) assert_int_equal(pool[b], 0);
        assert_memory_equal(pool, was, BYTES);
        assert_int_equal(pkv_blocks_scatter(be, out, ids, N, pool, BYTES, N + 1, NULL), PKV_OK);
        assert_memory_equal(pool, was, sizeof pool);
        pkv_backend_destroy(be);
    }
}

/* Runs tasks one after the other, each on a pool of 0xff, and notes which bytes it zeroes. */
struct zeroing {
    uint8_t *pool, *task_of; /* [bytes]; 0: none, else task + 1 */
    size_t bytes;
    bool twice;
};

static void run_apart(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                      void *task_ctx)
{
    struct zeroing *z = ctx;
    assert_true(n_tasks > 1);
    for (int32_t i = 0; i < n_tasks; i++) {
        memset(z->pool, 0xff, z->bytes);
        task(task_ctx, i);
        for (size_t b = 0; b < z->bytes; b++) {
            if (z->pool[b] != 0) continue;
            if (z->task_of[b]) z->twice = true;
            z->task_of[b] = (uint8_t)(i + 1);
        }
    }
}

/* Blocks to zero may be named twice: no byte of them is then written by two tasks. */
static void zeros_of_repeated_blocks(void **state)
{
    enum { N = 300, DISTINCT = 40, BYTES = 5000 };
    static uint8_t pool[(DISTINCT + 2) * BYTES], task_of[sizeof pool];
    struct zeroing z = { pool, task_of, sizeof pool, false };
    int32_t ids[N];
    (void)state;
    for (int i = 0; i < N; i++) ids[i] = 1 + (i * 7) % DISTINCT;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.n_threads = 3;
    cfg.parallel_for = run_apart;
    cfg.parallel_ctx = &z;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    assert_int_equal(pkv_blocks_zero(be, pool, BYTES, DISTINCT + 2, ids, N, NULL), PKV_OK);
    assert_false(z.twice);
    for (size_t b = 0; b < sizeof pool; b++)
        assert_int_equal(task_of[b] != 0, b >= BYTES && b < (DISTINCT + 1) * BYTES);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_and_number_of_threads),
        cmocka_unit_test(blocks_there_and_back),
        cmocka_unit_test(zeros_of_repeated_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
