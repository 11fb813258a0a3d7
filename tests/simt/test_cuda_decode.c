/* The decode kernel where it can go wrong: groups and blocks of any size, keys shared by few CTAs
 * and by many, workspaces as they come, tiles of which a row sees nothing, values that are not
 * finite, invariant mode. */
#include "cuda_problem.h"
#include "kernels/cuda/cuda_launch.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

static const struct cuda_shape plain = { PKV_F16, PKV_F16, 4, 1, 64, 16 };
static const struct cuda_seq some[] = { { 1, 1, 37 }, { 2, 1, 0 }, { 3, 1, 200 }, { 4, 1, 16 } };
enum { N_SOME = 4 };

static const struct pkv__cuda_head *head_of(const struct cuda_problem *p)
{
    return p->workspace;
}

static void assert_counters(const struct cuda_problem *p, uint32_t is)
{
    for (int i = 0; i < PKV__CUDA_MAX_CTAS; i++) assert_int_equal(head_of(p)->arrived[i], is);
}

static void run_right(const struct cuda_shape *shape, const struct cuda_seq *seqs, int32_t n,
                      int32_t n_sms)
{
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, n_sms);
    cuda_build(&p, shape, seqs, n, (cuda_layout)n_sms);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_right(&p, &r);
    assert_counters(&p, 0);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

static void test_groups(void **state)
{
    static const int32_t groups[] = { 1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 24, 32, 64, 128 };
    static const struct cuda_seq seqs[] = { { 1, 1, 70 }, { 2, 1, 5 } };
    (void)state;
    for (size_t i = 0; i < sizeof groups / sizeof groups[0]; i++) {
        struct cuda_shape shape = plain;
        shape.n_kv_heads = groups[i] < 32 ? 2 : 1;
        shape.n_q_heads = groups[i] * shape.n_kv_heads;
        run_right(&shape, seqs, 2, 2);
    }
}

static void test_block_tokens(void **state)
{
    static const int32_t sizes[] = { 1, 2, 3, 5, 16, 24, 48, 64, 100, 256, 1000 };
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct cuda_shape shape = plain;
        shape.block_tokens = sizes[i];
        run_right(&shape, some, N_SOME, 1 + (int32_t)i % 3);
    }
}

/* One CTA has all keys, or many share those of a row. */
static void test_splits(void **state)
{
    static const struct cuda_seq one[] = { { 7, 1, 1500 } };
    static const int32_t n_sms[] = { 1, 3, 16 };
    (void)state;
    for (int i = 0; i < 3; i++) {
        run_right(&plain, one, 1, n_sms[i]);
        run_right(&plain, some, N_SOME, n_sms[i]);
    }
}

/* The order of CTAs, and so who merges, changes no bit. */
static void test_schedules(void **state)
{
    static const struct cuda_seq seqs[] = { { 7, 1, 400 }, { 8, 2, 33 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 3);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 3);
    struct cuda_rows first = { NULL, NULL, 0, 0, 0 };
    for (int i = 0; i < DEVICE_N_SCHEDULES; i++) {
        cuda_schedule(i);
        struct cuda_rows r = cuda_result(be, &p);
        if (i == 0) {
            cuda_assert_right(&p, &r);
            first = r;
            continue;
        }
        cuda_assert_same(&first, 0, &r, 0, p.n_rows, "another schedule");
        assert_counters(&p, 0);
        cuda_rows_free(&r);
    }
    cuda_schedule(0);
    cuda_rows_free(&first);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Without pkv_workspace_init nothing is shared, and no counter is touched. */
static void test_fresh_workspace(void **state)
{
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 4);
    (void)state;
    cuda_build(&p, &plain, some, N_SOME, 0);
    cuda_make_workspace(be, &p);
    device_fill(p.workspace, 0xff, p.workspace_bytes);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_right(&p, &r);
    assert_counters(&p, 0xffffffffu);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

static void test_hint(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 3, 90 }, { 2, 1, 20 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 3);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 1);
    struct cuda_rows without = cuda_result(be, &p);
    p.batch.max_q_len = 3;
    struct cuda_rows with = cuda_result(be, &p);
    cuda_assert_same(&without, 0, &with, 0, p.n_rows, "max_q_len");
    cuda_rows_free(&without);
    cuda_rows_free(&with);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Rows far from each other: tiles of which one sees all and another nothing, the first one of the
 * row among them. */
static void test_hidden_tiles(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 16, 40 }, { 2, 16, 100 } };
    struct cuda_shape shape = plain;
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    shape.n_q_heads = 1;
    for (int32_t left = 0; left < 20; left += 3) {
        struct cuda_problem p;
        cuda_build(&p, &shape, seqs, 2, 0);
        p.opts.window_left = left;
        struct cuda_rows r = cuda_result(be, &p);
        cuda_assert_right(&p, &r);
        cuda_rows_free(&r);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

/* A NaN in V of the last key reaches the last row, and no bit of the rows that do not see it. */
static void test_confined(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 4, 45 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    cuda_build(&p, &plain, seqs, 1, 0);
    struct cuda_rows clean = cuda_result(be, &p);
    const int64_t at = p.table[44 / 16] * p.v.block_stride + 44 % 16 * p.v.token_stride;
    oracle_store(PKV_F16, p.v.data, at + 5, (double)NAN);
    oracle_store(PKV_F16, p.v.data, at + 20, (double)INFINITY);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&clean, 0, &r, 0, 3, "a NaN that the row does not see");
    for (int32_t h = 0; h < 4; h++) {
        assert_true(isnan(oracle_load(PKV_F16, r.o, (3 * 4 + h) * 64 + 5)));
        assert_true(isinf(oracle_load(PKV_F16, r.o, (3 * 4 + h) * 64 + 20)));
        assert_true(isfinite(oracle_load(PKV_F16, r.o, (3 * 4 + h) * 64 + 6)));
    }
    cuda_rows_free(&clean);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* A row that sees no key: zeros, and as lse its sink, even one that no logit can be. */
static void test_odd_sinks(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 0 }, { 2, 3, 1 }, { 3, 1, 40 } };
    static const float odd[4] = { INFINITY, NAN, -INFINITY, 3.f };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    cuda_build(&p, &plain, seqs, 3, 0);
    float *sink = cuda_take(&p, sizeof odd);
    memcpy(sink, odd, sizeof odd);
    p.opts.sink = sink;
    struct cuda_rows r = cuda_result(be, &p);
    for (int32_t i = 0; i < 3; i++) /* of seqs[1] the last row alone sees a key */
        for (int32_t h = 0; h < 4; h++) {
            float lse;
            memcpy(&lse, r.lse + (i * 4 + h) * 4, 4);
            assert_true(isnan(odd[h]) ? isnan(lse) : lse == odd[h]);
            for (int32_t d = 0; d < 64; d++)
                assert_true(oracle_load(PKV_F16, r.o, (i * 4 + h) * 64 + d) == 0);
        }
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* The smallest softcap that there is: logits are all but equal, the output is the mean of V. */
static void test_tiny_softcap(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 1 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    cuda_build(&p, &plain, seqs, 1, 0);
    memset(p.q.data, 0, 4 * 64 * 2);
    p.opts.softcap = 0x1p-149f;
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_right(&p, &r);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Invariant mode: the bits of a sequence alone, in company, and on any number of multiprocessors.
 */
static void test_invariant(void **state)
{
    static const struct cuda_seq all[] = {
        { 5, 1, 63 }, { 6, 2, 300 }, { 7, 1, 128 }, { 8, 1, 0 }
    };
    (void)state;
    for (int32_t b = 0; b < 4; b++) {
        pkv_backend *few = cuda_backend(NULL, 1), *many = cuda_backend(NULL, 7);
        struct cuda_problem alone, batch;
        cuda_build(&alone, &plain, &all[b], 1, 0);
        cuda_build(&batch, &plain, all, 4, 11);
        alone.opts.invariant = batch.opts.invariant = 1;
        alone.opts.invariant_chunk = batch.opts.invariant_chunk = 64;
        struct cuda_rows one = cuda_result(few, &alone), r = cuda_result(many, &batch);
        cuda_assert_same(&one, 0, &r, batch.row0[b], all[b].q_len, "company");
        cuda_assert_right(&batch, &r);
        cuda_rows_free(&one);
        cuda_rows_free(&r);
        cuda_free(&alone);
        cuda_free(&batch);
        pkv_backend_destroy(few);
        pkv_backend_destroy(many);
    }
}

/* A workspace of the default mode has no room for a state of each chunk: the rows are right all the
 * same, and nothing behind it is touched. */
static void test_small_invariant_workspace(void **state)
{
    static const struct cuda_seq many[] = { { 1, 1, 4096 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    cuda_build(&p, &plain, many, 1, 0);
    cuda_make_workspace(be, &p);
    p.opts.invariant = 1;
    p.opts.invariant_chunk = 64;
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_right(&p, &r);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Memory too small for any workspace is refused, and not written behind. */
static void test_small_init(void **state)
{
    pkv_backend *be = cuda_backend(NULL, 1);
    const size_t bytes = sizeof(struct pkv__cuda_head);
    void *memory = device_alloc(bytes - 64);
    (void)state;
    assert_int_equal(pkv_workspace_init(be, memory, bytes - 64, NULL), PKV_E_INVALID_ARG);
    device_free(memory);
    pkv_backend_destroy(be);
}

/* 8 MB at most up to dims of 128. */
static void test_workspace_bytes(void **state)
{
    pkv_backend *be = cuda_backend(NULL, 1000);
    (void)state;
    for (int32_t heads = 1; heads <= 128; heads *= 2)
        for (int32_t dim = 8; dim <= 128; dim += 8) {
            size_t bytes;
            assert_int_equal(pkv_attn_workspace(be, heads, 1, dim, dim, &bytes), PKV_OK);
            assert_true(bytes <= 8 * 1024 * 1024);
        }
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_groups),          cmocka_unit_test(test_block_tokens),
        cmocka_unit_test(test_splits),          cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_fresh_workspace), cmocka_unit_test(test_hint),
        cmocka_unit_test(test_hidden_tiles),    cmocka_unit_test(test_confined),
        cmocka_unit_test(test_invariant),       cmocka_unit_test(test_small_invariant_workspace),
        cmocka_unit_test(test_workspace_bytes), cmocka_unit_test(test_odd_sinks),
        cmocka_unit_test(test_tiny_softcap),    cmocka_unit_test(test_small_init),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
