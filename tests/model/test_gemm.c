/* The products against a slow reference of its own, bit by bit, at every level of this machine. */
#include "common/number_format.h"
#include "common/philox.h"
#include "common/threads.h"
#include "model/gemm.h"
#include "model_test.h"

#define MAX_N 300
#define MAX_M 300

static const pkv_isa levels[] = { PKV_ISA_SCALAR,     PKV_ISA_AVX2, PKV_ISA_AVX512,
                                  PKV_ISA_AVX512BF16, PKV_ISA_AMX,  PKV_ISA_NEON };

static uint64_t first_seed(void)
{
    const char *text = getenv("PKV_SEED");
    const uint64_t seed = text ? strtoull(text, NULL, 0) : 1;
    fprintf(stderr, "# PKV_SEED=%llu\n", (unsigned long long)seed);
    return seed;
}

/* y = x W^T in the order that gemm.h states, written from the text alone. */
static float want_sum(int32_t k, const float *x, const float *w)
{
    float sum[16];
    for (int j = 0; j < 16; j++) {
        sum[j] = 0;
        for (int32_t p = j; p < k; p += 16) sum[j] = fmaf(x[p], w[p], sum[j]);
    }
    const float e0 = (sum[0] + sum[8]) + (sum[4] + sum[12]);
    const float e1 = (sum[1] + sum[9]) + (sum[5] + sum[13]);
    const float e2 = (sum[2] + sum[10]) + (sum[6] + sum[14]);
    const float e3 = (sum[3] + sum[11]) + (sum[7] + sum[15]);
    return (e0 + e2) + (e1 + e3);
}

typedef struct fixture {
    int32_t m, n, k;
    int64_t ldx, ldy;
    float *x, *w32, *wide, *y_first; /* wide: bf16 weights as floats */
    uint16_t *w16;
} fixture;

static float draw(pkv__rng *rng)
{
    const double u = pkv__rng_unit(rng) * 2 - 1;
    const uint32_t kind = pkv__rng_below(rng, 64);
    if (kind == 0) return 0.f;
    if (kind == 1) return -0.f;
    if (kind == 2) return (float)(u * 1e-40); /* subnormal; products of it fall to zero */
    return (float)(u * pow(10, (double)pkv__rng_below(rng, 5) - 2));
}

static float *draw_floats(pkv__rng *rng, int64_t n)
{
    float *f = malloc((size_t)n * sizeof(*f));
    assert_non_null(f);
    for (int64_t i = 0; i < n; i++) f[i] = draw(rng);
    return f;
}

static fixture make(pkv__rng *rng, int32_t m, int32_t n, int32_t k)
{
    fixture f = { .m = m, .n = n, .k = k };
    const int64_t nw = (int64_t)n * k;
    f.ldx = k + pkv__rng_below(rng, 20);
    f.ldy = n + pkv__rng_below(rng, 20);
    f.x = draw_floats(rng, m * f.ldx);
    f.w32 = draw_floats(rng, nw);
    f.wide = malloc((size_t)nw * sizeof(float));
    f.w16 = malloc((size_t)nw * sizeof(uint16_t));
    f.y_first = draw_floats(rng, m * f.ldy);
    assert_true(f.wide && f.w16);
    for (int64_t i = 0; i < nw; i++) {
        f.w16[i] = pkv__f32_to_bf16(f.w32[i]);
        f.wide[i] = pkv__bf16_to_f32(f.w16[i]);
    }
    return f;
}

static void drop(fixture *f)
{
    free(f->x), free(f->w32), free(f->wide), free(f->w16), free(f->y_first);
}

/* The whole of y with its gaps, and what it has to be. */
static void expect(const fixture *f, pkv_dtype dtype, bool add, float *want)
{
    const float *w = dtype == PKV_BF16 ? f->wide : f->w32;
    memcpy(want, f->y_first, (size_t)(f->m * f->ldy) * sizeof(float));
    for (int32_t i = 0; i < f->m; i++)
        for (int32_t r = 0; r < f->n; r++) {
            const float sum = want_sum(f->k, f->x + i * f->ldx, w + (int64_t)r * f->k);
            float *y = want + i * f->ldy + r;
            *y = add ? *y + sum : sum;
        }
}

static void same_bits(const fixture *f, const char *level, const float *got, const float *want)
{
    for (int64_t i = 0; i < f->m * f->ldy; i++)
        if (memcmp(got + i, want + i, sizeof(float)) != 0)
            fail_msg("%s, m %d n %d k %d: row %lld column %lld is %a, not %a", level, f->m, f->n,
                     f->k, (long long)(i / f->ldy), (long long)(i % f->ldy), (double)got[i],
                     (double)want[i]);
}

static struct pkv__threads *threads_of(int n)
{
    struct pkv__threads *threads = NULL;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    cfg.n_threads = n;
    if (n > 1) assert_int_equal(pkv__threads_create(&cfg, &threads), PKV_OK);
    return threads;
}

static void check(const fixture *f, struct pkv__threads *threads)
{
    const size_t y_bytes = (size_t)(f->m * f->ldy) * sizeof(float);
    float *want = malloc(y_bytes), *got = malloc(y_bytes);
    assert_true(want && got);
    for (int variant = 0; variant < 4; variant++) {
        const bool add = variant % 2, wide = variant / 2;
        const pkv__matrix w = { wide ? (const void *)f->w16 : f->w32, wide ? PKV_BF16 : PKV_F32,
                                f->n, f->k };
        expect(f, w.dtype, add, want);
        for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++) {
            const pkv__gemm_ops *ops = pkv__gemm_find(levels[l]);
            if (!ops) continue;
            memcpy(got, f->y_first, y_bytes);
            pkv__gemm(ops, threads, f->m, f->x, f->ldx, &w, got, f->ldy, add);
            same_bits(f, ops->name, got, want);
        }
    }
    free(want), free(got);
}

static void levels_exist(void **state)
{
    (void)state;
    assert_non_null(pkv__gemm_find(PKV_ISA_BEST));
    assert_string_equal(pkv__gemm_find(PKV_ISA_SCALAR)->name, "scalar");
    for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++) {
        const bool runs = pkv_isa_check(levels[l], NULL) == PKV_OK;
        assert_int_equal(pkv__gemm_find(levels[l]) != NULL, runs);
        if (!runs) fprintf(stderr, "# SKIPPED level %s\n", pkv_isa_name(levels[l]));
    }
    pkv__gemm_fast_ops ops;
    assert_null(pkv__gemm_find((pkv_isa)99));
    assert_false(pkv__gemm_find_fast((pkv_isa)99, &ops));
}

static void small_shapes(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 1, 0);
    for (int32_t k = 1; k <= 70; k++) {
        fixture f = make(&rng, 1 + (int32_t)pkv__rng_below(&rng, 9),
                         1 + (int32_t)pkv__rng_below(&rng, 20), k);
        check(&f, NULL);
        drop(&f);
    }
    for (int32_t m = 1; m <= 10; m++)
        for (int32_t n = 1; n <= 14; n++) {
            fixture f = make(&rng, m, n, 33);
            check(&f, NULL);
            drop(&f);
        }
}

static void large_shapes(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = { { 1, 300, 300 },  { 300, 7, 64 },   { 17, 129, 300 },
                                         { 70, 61, 48 },   { 3, 257, 256 },  { 130, 40, 31 },
                                         { 2, 24, 3000 },  { 40, 12, 2200 }, { 5, 1, 299 },
                                         { 7, 100, 2900 }, { 6, 400, 400 } };
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 2, 0);
    for (size_t i = 0; i < PKV_ARRAY_LEN(shapes); i++) {
        fixture f = make(&rng, shapes[i][0], shapes[i][1], shapes[i][2]);
        check(&f, NULL);
        drop(&f);
    }
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static const int counts[] = { 1, 2, 3, 7 };
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 3, 0);
    fixture wide = make(&rng, 1, 1700, 64), tall = make(&rng, 150, 30, 50);
    for (size_t i = 0; i < PKV_ARRAY_LEN(counts); i++) {
        struct pkv__threads *threads = threads_of(counts[i]);
        check(&wide, threads);
        check(&tall, threads);
        pkv__threads_destroy(threads);
    }
    drop(&wide), drop(&tall);
}

static void rows_do_not_see_each_other(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 4, 0);
    fixture f = make(&rng, 37, 50, 130);
    float batch[37 * 70], alone[50];
    assert_true(f.ldy <= 70);
    for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++) {
        const pkv__gemm_ops *ops = pkv__gemm_find(levels[l]);
        if (!ops) continue;
        const pkv__matrix w = { f.w32, PKV_F32, f.n, f.k };
        pkv__gemm(ops, NULL, f.m, f.x, f.ldx, &w, batch, f.ldy, false);
        for (int32_t i = 0; i < f.m; i++) {
            pkv__gemm(ops, NULL, 1, f.x + i * f.ldx, f.ldx, &w, alone, f.n, false);
            assert_memory_equal(alone, batch + i * f.ldy, sizeof(alone));
        }
    }
    drop(&f);
}

/* Products too small for a float leave -0 in every partial sum, and lanes behind k must not turn it
 * into 0. */
static void minus_zero(void **state)
{
    (void)state;
    float x[40], y[2];
    uint16_t w16[2 * 40];
    float w32[2 * 40];
    for (int i = 0; i < 40; i++) x[i] = 0x1p-120f;
    for (int i = 0; i < 2 * 40; i++) {
        w32[i] = -0x1p-120f;
        w16[i] = pkv__f32_to_bf16(w32[i]);
    }
    for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++)
        for (int32_t k = 1; k <= 40; k++) {
            const pkv__gemm_ops *ops = pkv__gemm_find(levels[l]);
            const bool minus = k >= 16; /* below, some sums are still the 0 that they begin with */
            if (!ops) continue;
            ops->f32(1, 0, 2, k, x, 40, w32, y, 2, false);
            assert_true(y[0] == 0 && !!signbit(y[0]) == minus && !!signbit(y[1]) == minus);
            ops->bf16(1, 0, 2, k, x, 40, w16, y, 2, false);
            assert_true(y[0] == 0 && !!signbit(y[0]) == minus && !!signbit(y[1]) == minus);
        }
}

/* Rows [n0, n1) of W go to their own columns, and a NaN stays in its row and column. */
static void parts_of_rows(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 5, 0);
    fixture f = make(&rng, 5, 29, 41);
    f.x[2 * f.ldx + 40] = NAN;
    f.w32[7 * f.k + 3] = INFINITY;
    for (int32_t i = 0; i < f.m; i++) f.x[i * f.ldx + 3] = 1; /* 0 times infinity is NaN */
    float want[5 * 60], got[5 * 60];
    assert_true(f.ldy <= 60);
    expect(&f, PKV_F32, false, want);
    for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++) {
        const pkv__gemm_ops *ops = pkv__gemm_find(levels[l]);
        if (!ops) continue;
        memcpy(got, f.y_first, (size_t)(f.m * f.ldy) * sizeof(float));
        ops->f32(f.m, 0, 11, f.k, f.x, f.ldx, f.w32, got, f.ldy, false);
        ops->f32(f.m, 11, 29, f.k, f.x, f.ldx, f.w32, got, f.ldy, false);
        for (int64_t i = 0; i < f.m * f.ldy; i++) {
            const bool both_nan = isnan(got[i]) && isnan(want[i]);
            if (!both_nan && memcmp(got + i, want + i, sizeof(float)) != 0)
                fail_msg("%s: %lld is %a, not %a", ops->name, (long long)i, (double)got[i],
                         (double)want[i]);
            if (i % f.ldy < f.n) assert_int_equal(isnan(got[i]) != 0, i / f.ldy == 2);
        }
    }
    drop(&f);
}

/* ---------------------------------------------------------------- packed */

/* Within `share` of the sum of |x w|, with a double of its own; what lies between rows stays. */
static void check_packed(const fixture *f, const pkv__gemm_fast_ops *ops,
                         struct pkv__threads *threads, pkv_dtype dtype, bool add, double share)
{
    const float *w32 = dtype == PKV_BF16 ? f->wide : f->w32;
    const pkv__matrix w = { dtype == PKV_BF16 ? (const void *)f->w16 : f->w32, dtype, f->n, f->k };
    float *got = malloc((size_t)(f->m * f->ldy) * sizeof(float));
    assert_non_null(got);
    memcpy(got, f->y_first, (size_t)(f->m * f->ldy) * sizeof(float));
    pkv__gemm_fast(ops, threads, f->m, f->x, f->ldx, &w, got, f->ldy, add);
    for (int64_t at = 0; at < f->m * f->ldy; at++) {
        const int64_t i = at / f->ldy, r = at % f->ldy;
        double want = r >= f->n || add ? f->y_first[at] : 0, size = fabs(want) + 1e-30;
        for (int32_t p = 0; r < f->n && p < f->k; p++) {
            const double product = (double)f->x[i * f->ldx + p] * w32[r * f->k + p];
            want += product;
            size += fabs(product);
        }
        if (!(fabs(got[at] - want) <= share * size))
            fail_msg("%s, m %d n %d k %d: row %lld column %lld is %g, not %g", ops->exact->name,
                     f->m, f->n, f->k, (long long)i, (long long)r, (double)got[at], want);
    }
    free(got);
}

static void packed_products(void **state)
{
    (void)state;
    static const int32_t shapes[][3] = { { 8, 48, 16 },    { 6, 16, 1 },    { 31, 97, 254 },
                                         { 50, 100, 258 }, { 200, 49, 70 }, { 9, 200, 1300 },
                                         { 24, 144, 526 }, { 5, 100, 300 }, { 40, 15, 64 } };
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 6, 0);
    struct pkv__threads *threads = threads_of(3);
    int32_t n_packed = 0;
    for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++) {
        pkv__gemm_fast_ops ops;
        if (!pkv__gemm_find_fast(levels[l], &ops)) continue;
        assert_ptr_equal(ops.exact, pkv__gemm_find(levels[l]));
        n_packed += (ops.f32.run != NULL) + (ops.bf16.run != NULL);
        ops.f32.least_m = ops.bf16.least_m = 1;
        for (size_t i = 0; i < PKV_ARRAY_LEN(shapes); i++) {
            fixture f = make(&rng, shapes[i][0], shapes[i][1], shapes[i][2]);
            for (int add = 0; add < 2; add++) {
                /* A sum of k products in float32, in any order; x rounded to 8 bits. */
                check_packed(&f, &ops, i % 2 ? threads : NULL, PKV_F32, add, 0x1p-24 * (f.k + 2));
                check_packed(&f, &ops, i % 2 ? threads : NULL, PKV_BF16, add,
                             0x1p-8 + 0x1p-23 * (f.k + 2));
            }
            drop(&f);
        }
    }
    if (pkv_isa_check(PKV_ISA_AVX2, NULL) == PKV_OK) assert_true(n_packed > 0);
    pkv__threads_destroy(threads);
}

/* Below the number of rows from which on packing pays, and where there is no packed kernel, the
 * bits are those of the exact products. */
static void few_rows_are_exact(void **state)
{
    (void)state;
    pkv__rng rng;
    pkv__rng_init(&rng, first_seed(), 7, 0);
    fixture f = make(&rng, 15, 50, 64);
    float want[15 * 80], got[15 * 80];
    assert_true(f.ldy <= 80);
    for (size_t l = 0; l < PKV_ARRAY_LEN(levels); l++)
        for (int bf16 = 0; bf16 < 2; bf16++) {
            pkv__gemm_fast_ops ops;
            const pkv__matrix w = { bf16 ? (const void *)f.w16 : f.w32, bf16 ? PKV_BF16 : PKV_F32,
                                    f.n, f.k };
            if (!pkv__gemm_find_fast(levels[l], &ops)) continue;
            memcpy(got, f.y_first, (size_t)(f.m * f.ldy) * sizeof(float));
            expect(&f, w.dtype, false, want);
            pkv__gemm_fast(&ops, NULL, f.m, f.x, f.ldx, &w, got, f.ldy, false);
            same_bits(&f, ops.exact->name, got, want);
        }
    drop(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_exist),
        cmocka_unit_test(small_shapes),
        cmocka_unit_test(large_shapes),
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(rows_do_not_see_each_other),
        cmocka_unit_test(minus_zero),
        cmocka_unit_test(parts_of_rows),
        cmocka_unit_test(packed_products),
        cmocka_unit_test(few_rows_are_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
