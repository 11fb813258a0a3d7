/* Products by oneDNN against double precision; SKIPPED where the build or the CPU has none. */
#include "common/number_format.h"
#include "common/philox.h"
#include "model/gemm_dnnl.h"
#include "model_test.h"

#define MAX_M 200
#define MAX_N 96
#define MAX_K 300

static float x[MAX_M * MAX_K], y[MAX_M * MAX_N], before[MAX_M * MAX_N];
static uint16_t w16[MAX_N * MAX_K];

static void fill(void)
{
    pkv__rng rng;
    pkv__rng_init(&rng, 1, 1, 0);
    for (int32_t i = 0; i < MAX_M * MAX_K; i++) x[i] = (float)(2 * pkv__rng_unit(&rng) - 1);
    for (int32_t i = 0; i < MAX_M * MAX_N; i++) before[i] = (float)(2 * pkv__rng_unit(&rng) - 1);
    for (int32_t i = 0; i < MAX_N * MAX_K; i++)
        w16[i] = pkv__f32_to_bf16((float)(2 * pkv__rng_unit(&rng) - 1));
}

static struct pkv__dnnl *create(void)
{
    struct pkv__dnnl *d = NULL;
    const pkv_allocator alloc = { 0 };
    const pkv_status status = pkv__dnnl_create(MAX_M, MAX_K, true, &alloc, &d);
    if (status == PKV_E_UNSUPPORTED) {
        fprintf(stderr, "SKIPPED: built without oneDNN\n");
        skip();
    }
    assert_int_equal(status, PKV_OK);
    return d;
}

static void check(struct pkv__dnnl *d, int32_t m, int32_t n, int32_t k, bool add, int32_t rows)
{
    const pkv__matrix w = { w16, PKV_BF16, n, k };
    memcpy(y, before, sizeof(y));
    assert_int_equal(pkv__dnnl_gemm(d, m, x, k, &w, y, n, add), rows);
    for (int32_t i = 0; i < rows; i++)
        for (int32_t r = 0; r < n; r++) {
            double want = add ? before[i * n + r] : 0, size = fabs(want);
            for (int32_t p = 0; p < k; p++) {
                const double product = (double)x[i * k + p] * pkv__bf16_to_f32(w16[r * k + p]);
                want += product;
                size += fabs(product);
            }
            if (!(fabs(y[i * n + r] - want) <= 0x1p-8 * size))
                fail_msg("m %d n %d k %d: row %d column %d is %g, not %g", m, n, k, i, r,
                         (double)y[i * n + r], want);
        }
    for (int32_t i = rows * n; i < MAX_M * MAX_N; i++) assert_true(y[i] == before[i]);
}

/* Pieces of powers of two; fewer rows than 16 are left to the caller. Twice: what is kept is found.
 */
static void products(void **state)
{
    (void)state;
    struct pkv__dnnl *d = create();
    fill();
    for (int round = 0; round < 2; round++) {
        check(d, 16, 64, 48, false, 16);
        check(d, 47, 96, 300, true, 32);
        check(d, 127, 33, 70, false, 112);
        check(d, MAX_M, 96, 128, true, 192);
        check(d, 15, 64, 48, false, 0);
    }
    pkv__dnnl_destroy(d);
}

/* A matrix of floats, one that is too wide, and y with gaps are left alone. */
static void left_to_the_caller(void **state)
{
    (void)state;
    struct pkv__dnnl *d = create();
    const pkv__matrix floats = { x, PKV_F32, 16, 48 }, wide = { w16, PKV_BF16, 16, MAX_K + 1 };
    const pkv__matrix good = { w16, PKV_BF16, 16, 48 };
    assert_int_equal(pkv__dnnl_gemm(d, 32, x, 48, &floats, y, 16, false), 0);
    assert_int_equal(pkv__dnnl_gemm(d, 32, x, MAX_K + 1, &wide, y, 16, false), 0);
    assert_int_equal(pkv__dnnl_gemm(d, 32, x, 48, &good, y, 17, false), 0);
    pkv__dnnl_destroy(d);
}

static void no_memory(void **state)
{
    (void)state;
    counted_memory memory;
    struct pkv__dnnl *d = create();
    const pkv_allocator none = count_memory(&memory, 0);
    pkv__dnnl_destroy(d);
    d = NULL;
    assert_int_equal(pkv__dnnl_create(16, 16, true, &none, &d), PKV_E_NO_MEMORY);
    assert_null(d);
    const pkv_allocator some = count_memory(&memory, -1);
    assert_int_equal(pkv__dnnl_create(16, 16, true, &some, &d), PKV_OK);
    pkv__dnnl_destroy(d);
    assert_int_equal(memory.n_live, 0);
    pkv__dnnl_destroy(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(left_to_the_caller),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
