/* Attention over codes whose scales and zero points are of any size: large and small ones in one
 * tile of keys, all of them tiny or huge, numbers of keys that not every row sees. */
#include "cuda_problem.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

static const pkv_dtype code_types[] = { PKV_E4M3, PKV_E5M2, PKV_I8, PKV_U4 };
enum { N_TYPES = 4, DIM = 64 };

static struct cuda_shape shape_of(pkv_dtype dtype, int32_t group)
{
    return (struct cuda_shape){ dtype, PKV_BF16, group, 1, DIM, 16 };
}

/* On one multiprocessor. */
static pkv_backend *build(struct cuda_problem *p, pkv_dtype dtype, int32_t group,
                          const struct cuda_seq *seqs, int32_t n)
{
    const struct cuda_shape shape = shape_of(dtype, group);
    pkv_backend *const be = cuda_backend(NULL, 1);
    cuda_build(p, &shape, seqs, n, 0);
    return be;
}
static void finish(pkv_backend *be, struct cuda_problem *p)
{
    cuda_free(p);
    pkv_backend_destroy(be);
}
static void finish_right(pkv_backend *be, struct cuda_problem *p)
{
    cuda_run_right(be, p);
    finish(be, p);
}

static float *scale_of(const struct cuda_problem *p, const pkv_scales *s, int32_t j)
{
    return &s->data[p->table[j / 16] * s->block_stride + j % 16 * s->token_stride];
}

static double out_at(const struct cuda_rows *r, int64_t i)
{
    return oracle_load(PKV_BF16, r->o, i);
}

/* One key of a tile, whichever it is, has a scale of V that is far above those of the others. */
static void test_one_large(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 16 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int32_t j = 0; j < 16; j++) {
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 1, &seq, 1);
            *scale_of(&p, &p.v.scales, j) *= 0x1p20f;
            finish_right(be, &p);
        }
}

/* The last of a warp's two tiles has a larger scale than the first one: sums and zero points go
 * over to its unit. In the walk of plain items; under a cap, in the other. */
static void test_growing(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 4 * 16 + 11 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int way = 0; way < 6; way++) {
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 2, &seq, 1);
            if (way % 3 == 2) memset(p.q.data, 0, 2 * DIM * 2); /* no maximum moves in that tile */
            *scale_of(&p, &p.v.scales, 4 * 16 + 5 * (way % 3)) *= way % 3 == 1 ? 0x1p4f : 0x1p20f;
            p.opts.softcap = way < 3 ? 0.f : 30.f;
            finish_right(be, &p);
        }
}

/* The other way round, and far enough for sums to overflow: units do not shrink. */
static void test_shrinking(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 4 * 16 + 11 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int way = 0; way < 2; way++) {
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 8, &seq, 1);
            for (int32_t j = 0; j < seq.kv_len; j++)
                *scale_of(&p, &p.v.scales, j) *= j < 64 ? 1 : 0x1p-125f;
            p.opts.softcap = way == 0 ? 0.f : 30.f;
            finish_right(be, &p);
        }
}

/* With all scales of V times 2^k the output is, too, down to where scales are subnormal. */
static void test_all_scaled(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 37 };
    static const int k[] = { -126, -100, 40, 105 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int n = 0; n < 4; n++) {
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 2, &seq, 1);
            struct cuda_rows one = cuda_result(be, &p);
            for (int32_t j = 0; j < seq.kv_len; j++) {
                float *const s = scale_of(&p, &p.v.scales, j);
                *s = ldexpf(*s, k[n]);
            }
            struct cuda_rows r = cuda_result(be, &p);
            for (int32_t e = 0; e < 2 * DIM; e++) {
                const double want = out_at(&one, e), got = ldexp(out_at(&r, e), -k[n]);
                if (!(fabs(got - want) <= 0.01 * fabs(want) + 0.01))
                    fail_msg("%s times 2^%d: out %d is %g, was %g", pkv_dtype_name(code_types[i]),
                             k[n], e, got, want);
            }
            cuda_rows_free(&one);
            cuda_rows_free(&r);
            finish(be, &p);
        }
}

/* Queries times 2^-k, scales of K times 2^k: all logits are what they were. */
static void test_small_queries(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 37 };
    static const int k[] = { 20, 60, 100, 117 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int n = 0; n < 4; n++) {
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 2, &seq, 1);
            for (int32_t j = 0; j < seq.kv_len; j++) *scale_of(&p, &p.k.scales, j) *= 8;
            struct cuda_rows one = cuda_result(be, &p);
            cuda_assert_right(&p, &one);
            for (int32_t j = 0; j < seq.kv_len; j++) {
                float *const s = scale_of(&p, &p.k.scales, j);
                *s = ldexpf(*s, k[n]);
            }
            for (int32_t e = 0; e < 2 * DIM; e++)
                oracle_store(PKV_BF16, p.q.data, e,
                             ldexp(oracle_load(PKV_BF16, p.q.data, e), -k[n]));
            struct cuda_rows r = cuda_result(be, &p);
            for (int32_t e = 0; e < 2 * DIM; e++)
                assert_true(fabs(out_at(&r, e) - out_at(&one, e)) <= 0.01);
            cuda_rows_free(&one);
            cuda_rows_free(&r);
            finish(be, &p);
        }
}

/* Queries of two heads that share a row, one of them far smaller: each has a power of two of its
 * own. In the walk of plain items; under a cap, in the other. */
static void test_query_sizes(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 37 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int way = 0; way < 4; way++) {
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 2, &seq, 1);
            for (int32_t e = way % 2 * DIM, end = e + DIM; e < end; e++)
                oracle_store(PKV_BF16, p.q.data, e, ldexp(oracle_load(PKV_BF16, p.q.data, e), -20));
            p.opts.softcap = way < 2 ? 0.f : 30.f;
            finish_right(be, &p);
        }
}

/* The same numbers elsewhere, `step` apart. */
static void move_numbers(struct cuda_problem *p, pkv_scales *s, int32_t step)
{
    const pkv_scales from = *s;
    if (!from.data) return;
    s->token_stride = step;
    s->block_stride = 16 * step + 3;
    s->data = cuda_take(p, (size_t)(p->k.n_blocks * s->block_stride) * sizeof(float));
    for (int32_t b = 0; b < p->k.n_blocks; b++)
        for (int32_t j = 0; j < 16; j++)
            s->data[b * s->block_stride + j * step] =
                from.data[b * from.block_stride + j * from.token_stride];
}

/* Scales and zero points each by steps of their own, or those of K and V alike. */
static void test_steps(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 37 }, { 2, 1, 50 } };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int way = 1; way < 16; way++) {
            if (way >= 4 && code_types[i] != PKV_U4) break;
            struct cuda_problem p;
            pkv_backend *be = build(&p, code_types[i], 2, seqs, 2);
            if (way & 1) move_numbers(&p, &p.v.scales, 2);
            if (way & 2) move_numbers(&p, &p.k.scales, 2);
            if (way & 4) move_numbers(&p, &p.v.zeros, 3);
            if (way & 8) move_numbers(&p, &p.k.zeros, 3);
            finish_right(be, &p);
        }
}

/* Rows that end within 16 bytes, or behind some; what lies behind them is NaN, where there is one.
 */
static void test_dims(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 37 }, { 2, 3, 20 } };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int32_t dim = 8; dim < DIM; dim += 8) {
            struct cuda_shape shape = shape_of(code_types[i], 2);
            struct cuda_problem p;
            pkv_backend *be = cuda_backend(NULL, 1);
            shape.dim = dim;
            cuda_build(&p, &shape, seqs, 2, (cuda_layout)dim / 8);
            finish_right(be, &p);
        }
}

/* Memory that ends where it is read last. */
static void *cut_to(struct cuda_problem *p, const void *data, size_t bytes)
{
    void *const to = cuda_take(p, bytes);
    memcpy(to, data, bytes);
    return to;
}
static void cut_numbers(struct cuda_problem *p, pkv_scales *s, int32_t block, int32_t token)
{
    const int64_t at = block * s->block_stride + token * s->token_stride;
    if (s->data) s->data = cut_to(p, s->data, (size_t)(at + 1) * sizeof(float));
}
/* A store that ends where the last key's row does, within 16 bytes; so do its numbers. */
static void cut_behind(struct cuda_problem *p, pkv_kv_view *view, int32_t key)
{
    const int32_t block = p->table[key / view->block_tokens], token = key % view->block_tokens;
    const int64_t at = block * view->block_stride + token * view->token_stride;
    assert_int_equal(block, view->n_blocks - 1);
    view->data = cut_to(p, view->data, (size_t)oracle_span(view->dtype, at + view->dim));
    cut_numbers(p, &view->scales, block, token);
    cut_numbers(p, &view->zeros, block, token);
}
static void test_ends(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 37 };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int way = 0; way < 4; way++) {
            struct cuda_shape shape = shape_of(code_types[i], 2);
            struct cuda_problem p;
            pkv_backend *be = cuda_backend(NULL, 1);
            shape.dim = 40;
            shape.block_tokens = way < 2 ? 16 : 5;
            cuda_build(&p, &shape, &seq, 1, 0);
            cut_behind(&p, &p.k, seq.kv_len - 1);
            cut_behind(&p, &p.v, seq.kv_len - 1);
            p.opts.softcap = way % 2 ? 30.f : 0.f;
            finish_right(be, &p);
        }
}

/* The smallest codes and the largest scales, up to infinity: all keys have the same V, and that is
 * the output. */
static void run_equal(pkv_dtype dtype, double code, float scale)
{
    static const struct cuda_seq seq = { 1, 1, 2 };
    struct cuda_problem p;
    pkv_backend *be = build(&p, dtype, 1, &seq, 1);
    for (int32_t j = 0; j < seq.kv_len; j++) {
        const int64_t at = p.table[0] * p.v.block_stride + j * p.v.token_stride;
        for (int32_t d = 0; d < DIM; d++) oracle_store(dtype, p.v.data, at + d, code);
        *scale_of(&p, &p.v.scales, j) = scale;
    }
    struct cuda_rows r = cuda_result(be, &p);
    for (int32_t d = 0; d < DIM; d++) {
        const double want = code * (double)scale, got = out_at(&r, d);
        if (!(got == want || fabs(got - want) <= 0.01 * want))
            fail_msg("%s %g times %g: out %g", pkv_dtype_name(dtype), code, (double)scale, got);
    }
    cuda_rows_free(&r);
    finish(be, &p);
}
static void test_largest(void **state)
{
    (void)state;
    run_equal(PKV_E4M3, 0x1p-9, 0x1p118f);
    run_equal(PKV_E5M2, 0x1p-16, 0x1p127f);
    run_equal(PKV_E5M2, 1, INFINITY);
    run_equal(PKV_I8, 1, 0x1p112f);
}

/* Values that are all at their zero point: their sum is 0, for zero points lose what V does. */
static void test_zeros_cancel(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 37 };
    (void)state;
    struct cuda_problem p;
    pkv_backend *be = build(&p, PKV_U4, 2, &seq, 1);
    for (int32_t j = 0; j < seq.kv_len; j++) {
        const int64_t at = p.table[j / 16] * p.v.block_stride + j % 16 * p.v.token_stride;
        for (int32_t d = 0; d < DIM; d++) oracle_store(PKV_U4, p.v.data, at + d, 11);
        *scale_of(&p, &p.v.zeros, j) = 11;
    }
    struct cuda_rows r = cuda_result(be, &p);
    for (int32_t e = 0; e < 2 * DIM; e++) assert_true(fabs(out_at(&r, e)) < 1e-5);
    cuda_rows_free(&r);
    finish(be, &p);
}

/* Numbers of the last key, which the last of four rows alone sees, change no bit of the others. Of
 * three heads a pair of columns belongs to two rows. */
static void confine(pkv_dtype dtype, int32_t kv_len, bool of_v, bool zero, float number)
{
    const struct cuda_seq seq = { 1, 4, kv_len };
    struct cuda_problem p;
    pkv_backend *be = build(&p, dtype, 3, &seq, 1);
    const pkv_kv_view *const view = of_v ? &p.v : &p.k;
    struct cuda_rows clean = cuda_result(be, &p);
    *scale_of(&p, zero ? &view->zeros : &view->scales, kv_len - 1) = number;
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&clean, 0, &r, 0, 3, "a number of a key that the row does not see");
    if (of_v && !zero && number == 0x1p12f) cuda_assert_right(&p, &r); /* of all rows */
    cuda_rows_free(&clean);
    cuda_rows_free(&r);
    finish(be, &p);
}
static void test_confined(void **state)
{
    static const float numbers[] = { NAN, INFINITY, 0x1p90f, -0x1p60f, 0x1p-140f, 0x1p12f };
    (void)state;
    for (int i = 0; i < N_TYPES; i++)
        for (int n = 0; n < 6; n++)
            for (int way = 0; way < 4; way++) {
                confine(code_types[i], way % 2 ? 37 : 45, way < 2, false, numbers[n]);
                if (code_types[i] == PKV_U4)
                    confine(PKV_U4, way % 2 ? 37 : 45, way < 2, true, numbers[n]);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_large),     cmocka_unit_test(test_all_scaled),
        cmocka_unit_test(test_small_queries), cmocka_unit_test(test_dims),
        cmocka_unit_test(test_largest),       cmocka_unit_test(test_zeros_cancel),
        cmocka_unit_test(test_confined),      cmocka_unit_test(test_query_sizes),
        cmocka_unit_test(test_steps),         cmocka_unit_test(test_growing),
        cmocka_unit_test(test_shrinking),     cmocka_unit_test(test_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
