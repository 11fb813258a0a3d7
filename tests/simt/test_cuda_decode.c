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

/* What is not finite in V of the last key reaches the last row, and no bit of the rows that do not
 * see it. */
static void confine(pkv_dtype dtype, int32_t kv_len)
{
    const struct cuda_seq seq = { 1, 4, kv_len };
    const pkv_dtype q_dtype = dtype == PKV_F16 ? PKV_F16 : PKV_BF16;
    const struct cuda_shape shape = { dtype, q_dtype, 3, 1, 64, 16 };
    const int32_t last = kv_len - 1;
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    cuda_build(&p, &shape, &seq, 1, 0);
    struct cuda_rows clean = cuda_result(be, &p);
    const int64_t at = p.table[last / 16] * p.v.block_stride + last % 16 * p.v.token_stride;
    const bool has_infinity = dtype != PKV_E4M3;
    oracle_store(dtype, p.v.data, at + 5, (double)NAN);
    oracle_store(dtype, p.v.data, at + 63, (double)NAN);
    if (has_infinity) oracle_store(dtype, p.v.data, at + 20, (double)INFINITY);
    if (has_infinity) oracle_store(dtype, p.v.data, at + 33, -(double)INFINITY);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&clean, 0, &r, 0, 3, "a NaN that the row does not see");
    for (int32_t h = 0; h < 3; h++) {
        const int64_t row = (3 * 3 + h) * 64;
        for (int32_t d = 0; d < 64; d++) {
            const double is = oracle_load(q_dtype, r.o, row + d);
            if (d == 5 || d == 63) assert_true(isnan(is));
            else if (has_infinity && d == 20) assert_true(isinf(is) && is > 0);
            else if (has_infinity && d == 33) assert_true(isinf(is) && is < 0);
            else assert_true(is == oracle_load(q_dtype, clean.o, row + d));
        }
    }
    cuda_rows_free(&clean);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}
static void test_confined(void **state)
{
    static const pkv_dtype types[] = { PKV_F16, PKV_BF16, PKV_E4M3, PKV_E5M2 };
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int32_t kv_len = 33; kv_len <= 48; kv_len++) confine(types[i], kv_len);
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

/* In invariant mode, with a workspace for `room` states and a guard behind it. */
static struct cuda_rows run_in(pkv_backend *be, struct cuda_problem *p, int64_t room)
{
    const size_t slot = 16 * (64 + 2) * sizeof(float);
    const size_t bytes = sizeof(struct pkv__cuda_head) + (size_t)room * slot;
    device_free(p->workspace);
    unsigned char *const guarded = device_alloc(bytes + 256);
    p->workspace = guarded;
    p->workspace_bytes = bytes;
    assert_int_equal(pkv_workspace_init(be, guarded, bytes, NULL), PKV_OK);
    struct cuda_rows r = cuda_result(be, p);
    cuda_assert_right(p, &r);
    for (int g = 0; g < 256; g++) assert_int_equal(guarded[bytes + (size_t)g], 0xff);
    return r;
}

/* No more states than there is room for: a sequence whose chunks do not fit is not cut, its rows
 * are right all the same, and nothing behind the workspace is touched. Where there is room for just
 * as many, it is used. Of two chunks of each item one key is seen. */
static void test_small_invariant_workspace(void **state)
{
    enum { N = 8, HEADS = 64, UNITS = N * HEADS * 2 };
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 16 * HEADS, HEADS, 64, 16 };
    struct cuda_seq seqs[N];
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    size_t least;
    (void)state;
    for (int32_t b = 0; b < N; b++) seqs[b] = (struct cuda_seq){ b, 1, 65 };
    cuda_build(&p, &shape, seqs, N, 0);
    p.opts.invariant = 1;
    p.opts.invariant_chunk = 64;
    p.opts.window_left = 1;
    assert_int_equal(pkv_attn_workspace(be, 16 * HEADS, HEADS, 64, 64, &least), PKV_OK);
    assert_true(least < (UNITS - 1) * (16 * 66 * sizeof(float))); /* the call takes all of these */
    struct cuda_rows much = run_in(be, &p, UNITS + 9), fits = run_in(be, &p, UNITS);
    struct cuda_rows less = run_in(be, &p, UNITS - 1);
    cuda_assert_same(&much, 0, &fits, 0, N, "just enough room");
    cuda_assert_same(&much, 0, &less, 0, N - 1, "the last sequence does not fit");
    cuda_rows_free(&much);
    cuda_rows_free(&fits);
    cuda_rows_free(&less);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Slopes and sinks are those of the query's head, whichever kv head it belongs to; rows finished by
 * one CTA, by many, and from chunks. */
static void test_heads(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 2, 70 }, { 2, 1, 200 }, { 3, 1, 7 } };
    struct cuda_shape shape = plain;
    (void)state;
    shape.n_q_heads = 6;
    shape.n_kv_heads = 2;
    for (int i = 0; i < 4; i++) {
        struct cuda_problem p;
        pkv_backend *be = cuda_backend(NULL, i % 2 ? 6 : 1);
        cuda_build(&p, &shape, seqs, 3, (cuda_layout)i);
        float *const slopes = cuda_take(&p, 6 * sizeof(float));
        float *const sinks = cuda_take(&p, 6 * sizeof(float));
        for (int h = 0; h < 6; h++) {
            slopes[h] = 0.01f * (float)(1 << h);
            sinks[h] = (float)(2 * h - 4);
        }
        p.opts.alibi = slopes;
        p.opts.sink = sinks;
        p.opts.invariant = i >= 2;
        p.opts.invariant_chunk = i >= 2 ? 64 : 0;
        struct cuda_rows r = cuda_result(be, &p);
        cuda_assert_right(&p, &r);
        cuda_rows_free(&r);
        cuda_free(&p);
        pkv_backend_destroy(be);
    }
}

/* As many sequences as a CTA has threads, more, and more than twice as many: every tenth has rows,
 * of which few have keys; on one CTA and on many. */
static void run_many(int32_t n, int32_t n_sms, bool invariant)
{
    struct cuda_seq *const seqs = malloc((size_t)n * sizeof *seqs);
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, n_sms);
    for (int32_t b = 0; b < n; b++)
        seqs[b] = (struct cuda_seq){ b, b % 10 == 3 || b >= n - 2, b % 40 == 3 ? 70 + b : b % 7 };
    cuda_build(&p, &plain, seqs, n, 0);
    p.opts.invariant = invariant;
    p.opts.invariant_chunk = invariant ? 64 : 0;
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_right(&p, &r);
    assert_counters(&p, 0);
    cuda_rows_free(&r);
    cuda_free(&p);
    free(seqs);
    pkv_backend_destroy(be);
}
static void test_many(void **state)
{
    static const int32_t n[] = { 128, 129, 300 };
    (void)state;
    for (int i = 0; i < 12; i++) run_many(n[i / 4], i % 2 ? 5 : 1, i / 2 % 2 == 1);
}

/* A call that has something to report. */
static struct cuda_rows run_bad(pkv_backend *be, struct cuda_problem *p, uint32_t bit, uint32_t seq,
                                uint32_t idx, int32_t value)
{
    const uint32_t want[4] = { bit, seq, idx, (uint32_t)value };
    cuda_clear(p);
    assert_int_equal(pkv_attn_run(be, &p->q, &p->k, &p->v, &p->batch, &p->opts, p->workspace,
                                  p->workspace_bytes, NULL, &p->out, &p->lse),
                     PKV_OK);
    assert_memory_equal(p->bad, want, sizeof want);
    memset(p->bad, 0, sizeof want);
    return cuda_collect(p);
}

/* A row of ids that would end behind the table has those in front of its end. */
static void test_row_behind_table(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 37 }, { 2, 1, 48 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 32);
    struct cuda_rows right = cuda_result(be, &p);
    p.table_indptr[2] += 2;
    p.kv_len[1] = 70;
    struct cuda_rows r = run_bad(be, &p, PKV_BAD_SHORT_ROW, 1, 3, 70);
    cuda_assert_same(&right, 0, &r, 0, 2, "ids behind the table");
    cuda_rows_free(&right);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Without a table a sequence has a block's keys at most, and none if their number is negative. */
static void test_contiguous_lengths(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 48 } };
    struct cuda_shape shape = plain;
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    shape.block_tokens = 48;
    cuda_build(&p, &shape, seqs, 1, 0);
    p.k.data = (char *)p.k.data + p.table[0] * p.k.block_stride * 2;
    p.v.data = (char *)p.v.data + p.table[0] * p.v.block_stride * 2;
    p.k.n_blocks = p.v.n_blocks = 1;
    p.batch.table = NULL;
    struct cuda_rows full = cuda_result(be, &p);
    cuda_assert_right(&p, &full);
    p.kv_len[0] = 49;
    struct cuda_rows r = run_bad(be, &p, PKV_BAD_LENGTH, 0, 0, 49);
    cuda_assert_same(&full, 0, &r, 0, 1, "a key more than the block has");
    cuda_rows_free(&r);
    p.kv_len[0] = 0;
    struct cuda_rows none = cuda_result(be, &p);
    p.kv_len[0] = -3;
    r = run_bad(be, &p, PKV_BAD_LENGTH, 0, 0, -3);
    cuda_assert_same(&none, 0, &r, 0, 1, "less than no key");
    cuda_rows_free(&r);
    cuda_rows_free(&none);
    cuda_rows_free(&full);
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
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_block_tokens),
        cmocka_unit_test(test_splits),
        cmocka_unit_test(test_schedules),
        cmocka_unit_test(test_fresh_workspace),
        cmocka_unit_test(test_hint),
        cmocka_unit_test(test_hidden_tiles),
        cmocka_unit_test(test_confined),
        cmocka_unit_test(test_invariant),
        cmocka_unit_test(test_small_invariant_workspace),
        cmocka_unit_test(test_workspace_bytes),
        cmocka_unit_test(test_odd_sinks),
        cmocka_unit_test(test_tiny_softcap),
        cmocka_unit_test(test_small_init),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_heads),
        cmocka_unit_test(test_row_behind_table),
        cmocka_unit_test(test_contiguous_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
