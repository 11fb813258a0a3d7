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
    cuda_run_right(be, &p);
    assert_counters(&p, 0);
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

/* One CTA has all keys, or many share those of a row; long rows, which are another kernel's, lie
 * between. */
static void test_splits(void **state)
{
    static const struct cuda_seq one[] = { { 7, 1, 1500 } };
    static const struct cuda_seq mixed[] = {
        { 1, 1, 300 }, { 2, 40, 90 }, { 3, 1, 200 }, { 4, 25, 300 }
    };
    static const int32_t n_sms[] = { 1, 3, 16 };
    (void)state;
    for (int i = 0; i < 3; i++) {
        run_right(&plain, one, 1, n_sms[i]);
        run_right(&plain, some, N_SOME, n_sms[i]);
        run_right(&plain, mixed, 4, n_sms[i]);
    }
}

/* The order of CTAs, and so who merges, changes no bit. */
static void test_schedules(void **state)
{
    static const struct cuda_seq seqs[] = {
        { 7, 1, 200 }, { 8, 2, 33 }, { 9, 1, 250 }, { 6, 1, 90 }
    };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 3);
    (void)state;
    cuda_build(&p, &plain, seqs, 4, 3);
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

/* Without pkv_workspace_init nothing is shared, and no counter is touched: a CTA has all tiles of
 * its items, of which a warp looks up 32 at a time. In the walk of plain items; under a cap, in the
 * other. */
static void test_fresh_workspace(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 37 }, { 2, 1, 0 }, { 3, 1, 4500 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 4);
    (void)state;
    cuda_build(&p, &plain, seqs, 3, 0);
    cuda_make_workspace(be, &p);
    device_fill(p.workspace, 0xff, p.workspace_bytes);
    for (int i = 0; i < 2; i++) {
        p.opts.softcap = i == 0 ? 0.f : 30.f;
        cuda_run_right(be, &p);
        assert_counters(&p, 0xffffffffu);
    }
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
        cuda_run_right(be, &p);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

/* What is not finite in V of the last key reaches the last row, and no bit of the rows that do not
 * see it; wherever it stands, alone and in company. */
static void confine(pkv_dtype dtype, int32_t kv_len)
{
    const int32_t nan = 4 * (kv_len - 33) + kv_len % 4;
    const struct cuda_seq seq = { 1, 4, kv_len };
    const pkv_dtype q_dtype = dtype == PKV_F16 ? PKV_F16 : PKV_BF16;
    const struct cuda_shape shape = { dtype, q_dtype, 3, 1, 64, 16 };
    const int32_t last = kv_len - 1;
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    cuda_build(&p, &shape, &seq, 1, 0);
    struct cuda_rows clean = cuda_result(be, &p);
    const int64_t at = p.table[last / 16] * p.v.block_stride + last % 16 * p.v.token_stride;
    const bool has_infinity = dtype != PKV_E4M3 && kv_len % 8 < 4;
    oracle_store(dtype, p.v.data, at + nan, (double)NAN);
    if (has_infinity) oracle_store(dtype, p.v.data, at + (nan + 20) % 64, (double)INFINITY);
    if (has_infinity) oracle_store(dtype, p.v.data, at + (nan + 33) % 64, -(double)INFINITY);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&clean, 0, &r, 0, 3, "a NaN that the row does not see");
    for (int32_t h = 0; h < 3; h++) {
        const int64_t row = (3 * 3 + h) * 64;
        for (int32_t d = 0; d < 64; d++) {
            const double is = oracle_load(q_dtype, r.o, row + d);
            if (d == nan) assert_true(isnan(is));
            else if (has_infinity && d == (nan + 20) % 64) assert_true(isinf(is) && is > 0);
            else if (has_infinity && d == (nan + 33) % 64) assert_true(isinf(is) && is < 0);
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

/* An infinity in V of a key that has all weight in one row, and none in those behind it. */
static void confine_weights(pkv_dtype dtype, int32_t kv_len)
{
    const struct cuda_seq seq = { 1, 4, kv_len };
    const pkv_dtype q_dtype = dtype == PKV_F16 ? PKV_F16 : PKV_BF16;
    const struct cuda_shape shape = { dtype, q_dtype, 1, 1, 64, 16 };
    const int32_t key = kv_len - 3; /* of row 1 */
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    cuda_build(&p, &shape, &seq, 1, 0);
    float *const slope = cuda_take(&p, sizeof *slope);
    *slope = 1000;
    p.opts.alibi = slope;
    struct cuda_rows clean = cuda_result(be, &p);
    const int64_t at = p.table[key / 16] * p.v.block_stride + key % 16 * p.v.token_stride;
    oracle_store(dtype, p.v.data, at + 5, (double)INFINITY);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&clean, 0, &r, 0, 1, "an infinity that the row does not see");
    assert_true(oracle_load(q_dtype, r.o, 64 + 5) == (double)INFINITY);
    for (int32_t i = 2; i < 4; i++) {
        const double is = oracle_load(q_dtype, r.o, i * 64 + 5);
        assert_true(isnan(is) || is == oracle_load(q_dtype, clean.o, i * 64 + 5));
    }
    cuda_rows_free(&clean);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}
static void test_confined_weights(void **state)
{
    (void)state;
    for (int32_t kv_len = 37; kv_len <= 45; kv_len += 8) {
        confine_weights(PKV_F16, kv_len);
        confine_weights(PKV_E5M2, kv_len);
    }
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
    cuda_run_right(be, &p);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Invariant mode: the bits of a sequence alone, in company, and on any number of multiprocessors;
 * of several chunks, and of one that many could share. */
static void run_invariant(const struct cuda_seq *all, int32_t n, int32_t b, int32_t chunk)
{
    pkv_backend *few = cuda_backend(NULL, 1), *many = cuda_backend(NULL, 7);
    struct cuda_problem alone, batch;
    cuda_build(&alone, &plain, &all[b], 1, 0);
    cuda_build(&batch, &plain, all, n, 11);
    alone.opts.invariant = batch.opts.invariant = 1;
    alone.opts.invariant_chunk = batch.opts.invariant_chunk = chunk;
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
static void test_invariant(void **state)
{
    static const struct cuda_seq all[] = {
        { 5, 1, 63 }, { 6, 2, 300 }, { 7, 1, 128 }, { 8, 1, 0 }, { 9, 1, 500 }
    };
    (void)state;
    for (int32_t b = 0; b < 5; b++) run_invariant(all, 5, b, 64);
    run_invariant(all, 5, 1, 512);
    run_invariant(all, 5, 4, 512);
}

/* Windows that begin in any chunk, at any place of it. */
static void test_chunk_windows(void **state)
{
    static const int32_t lens[] = { 129, 145, 190, 192, 193, 250 };
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    for (int i = 0; i < 18; i++) {
        const struct cuda_seq seqs[] = { { 1, i / 6 + 1, lens[i % 6] }, { 2, 1, 80 } };
        struct cuda_problem p;
        cuda_build(&p, &plain, seqs, 2, 0);
        p.opts.invariant = 1;
        p.opts.invariant_chunk = 64;
        p.opts.window_left = 70;
        cuda_run_right(be, &p);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

/* One row, whose only own key a mask hides. */
static void test_masked_row(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 40 }, { 2, 1, 33 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 0);
    uint32_t *const mask = cuda_take(&p, 2 * sizeof(uint32_t));
    mask[0] = 0xfffffffeu;
    mask[1] = 1;
    p.opts.mask = mask;
    p.opts.mask_stride = 1;
    cuda_run_right(be, &p);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Masks of several rows whose own keys begin anywhere in a tile and reach into the next one. */
static void test_masked_rows(void **state)
{
    struct cuda_shape shape = plain;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    shape.n_q_heads = 1;
    for (int32_t kv_len = 30; kv_len < 47; kv_len++) {
        const struct cuda_seq seqs[] = { { 1, 3, 20 }, { 2, 13, kv_len } };
        struct cuda_problem p;
        cuda_build(&p, &shape, seqs, 2, 0);
        uint32_t *const mask = cuda_take(&p, 16 * sizeof(uint32_t));
        for (uint32_t i = 0; i < 16; i++) mask[i] = (i + 1) * 0x9e3779b9u >> (kv_len & 7);
        p.opts.mask = mask;
        p.opts.mask_stride = 1;
        cuda_run_right(be, &p);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
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
 * as many, the last one is used. Of each item two chunks are seen, of the second a few keys. */
static void test_small_invariant_workspace(void **state)
{
    enum { N = 8, HEADS = 64, UNITS = N * HEADS * 2 };
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 16 * HEADS, HEADS, 64, 16 };
    struct cuda_seq seqs[N];
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    size_t least;
    (void)state;
    for (int32_t b = 0; b < N; b++) seqs[b] = (struct cuda_seq){ b, 1, 135 };
    cuda_build(&p, &shape, seqs, N, 0);
    p.opts.invariant = 1;
    p.opts.invariant_chunk = 64;
    p.opts.window_left = 70;
    assert_int_equal(pkv_attn_workspace(be, 16 * HEADS, HEADS, 64, 64, &least), PKV_OK);
    assert_true(least < (UNITS - 1) * (16 * 66 * sizeof(float))); /* the call takes all of these */
    struct cuda_rows fits = run_in(be, &p, UNITS);
    const float *const end = (float *)((char *)p.workspace + p.workspace_bytes);
    assert_true(end[-1] >= 1); /* a sum of weights */
    struct cuda_rows less = run_in(be, &p, UNITS - 1);
    cuda_assert_same(&fits, 0, &less, 0, N - 1, "the last sequence does not fit");
    cuda_rows_free(&fits);
    cuda_rows_free(&less);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Slopes and sinks are those of the query's head, whichever kv head it belongs to; rows finished by
 * one CTA, by many, and from chunks. The last head's slope leaves no weight to all but a few keys,
 * and none at all to chunks beside that of the last keys. */
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
            slopes[h] = 0.01f * (float)(1 << 3 * h);
            sinks[h] = (float)(2 * h - 4);
        }
        p.opts.alibi = slopes;
        p.opts.sink = sinks;
        p.opts.invariant = i >= 2;
        p.opts.invariant_chunk = i >= 2 ? 64 : 0;
        cuda_run_right(be, &p);
        cuda_free(&p);
        pkv_backend_destroy(be);
    }
}

/* All logits far below 0: rows stand far behind the keys that they see, and slopes are steep. */
static void test_low_logits(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 70 }, { 2, 1, 3 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 0);
    float *const slopes = cuda_take(&p, 4 * sizeof(float));
    int32_t *const q_pos = cuda_take(&p, 2 * sizeof(int32_t));
    for (int h = 0; h < 4; h++) slopes[h] = 0.5f * (float)h;
    q_pos[0] = q_pos[1] = 2000;
    p.opts.alibi = slopes;
    p.batch.q_pos = q_pos;
    p.batch.q_detached = 1;
    cuda_run_right(be, &p);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* As many sequences as a CTA has threads, more, and more than twice as many: every tenth has rows,
 * of which few have keys; on one CTA and on many, at their indices and elsewhere. */
static void run_many(int32_t n, int32_t n_sms, bool invariant, bool moved)
{
    struct cuda_seq *const seqs = malloc((size_t)n * sizeof *seqs);
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, n_sms);
    for (int32_t b = 0; b < n; b++)
        seqs[b] = (struct cuda_seq){ b, b % 10 == 3 || b >= n - 2, b % 40 == 3 ? 70 + b : b % 7 };
    cuda_build(&p, &plain, seqs, n, 0);
    p.opts.invariant = invariant;
    p.opts.invariant_chunk = invariant ? 64 : 0;
    if (moved) {
        int32_t *const pos0 = cuda_take(&p, (size_t)n * sizeof(int32_t));
        int32_t *const q_pos = cuda_take(&p, (size_t)(p.n_rows + 1) * sizeof(int32_t));
        for (int32_t b = 0; b < n; b++) {
            pos0[b] = 7 * b;
            if (seqs[b].q_len > 0) q_pos[p.row0[b]] = 7 * b + seqs[b].kv_len - 3;
        }
        p.batch.kv_pos0 = pos0;
        p.batch.q_pos = q_pos;
        p.batch.q_detached = 1;
    }
    cuda_run_right(be, &p);
    assert_counters(&p, 0);
    cuda_free(&p);
    free(seqs);
    pkv_backend_destroy(be);
}
static void test_many(void **state)
{
    static const int32_t n[] = { 128, 129, 300 };
    (void)state;
    for (int i = 0; i < 12; i++) run_many(n[i / 4], i % 2 ? 5 : 1, i / 2 % 2 == 1, i % 3 == 0);
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
        cmocka_unit_test(test_chunk_windows),
        cmocka_unit_test(test_masked_row),
        cmocka_unit_test(test_masked_rows),
        cmocka_unit_test(test_confined_weights),
        cmocka_unit_test(test_low_logits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
