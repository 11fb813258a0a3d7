/* Which level, and how a product is cut among threads. Tasks are rectangles of y, never pieces of
 * k, so that no cut changes a bit:
 *
 *              rows of W
 *             | t0 | t1 | t2 |
 *   rows of x | t3 | t4 | t5 |
 */
#include "model/gemm_levels.h"

#include "common/threads.h"

/* Tasks along W: a few for each of the threads of a machine, each long beside the 100 ns that it
 * costs to take one. */
#define MAX_TASKS_N 64
/* Rows of W in a task are a multiple of this, a multiple of what each level's tiles take at once.
 */
#define ROW_STEP 24
/* Rows of x in a task: with 2048 columns half of a second-level cache of 1 MiB. Fewer would read W
 * more often. */
#define ROWS_OF_X 64
/* Multiply-adds below which a second thread costs more than it brings: about 5 us of one. */
#define ALONE ((int64_t)64 << 10)

const pkv__gemm_ops *pkv__gemm_find(pkv_isa isa)
{
    if (isa == PKV_ISA_BEST) isa = pkv_isa_detect();
    if (pkv_isa_check(isa, NULL) != PKV_OK) return NULL;
    switch (isa) {
#if PKV_HAVE_AVX512
    case PKV_ISA_AMX:
    case PKV_ISA_AVX512BF16:
    case PKV_ISA_AVX512:
        return &pkv__gemm_avx512;
#endif
#if PKV_HAVE_AVX2
    case PKV_ISA_AVX2:
        return &pkv__gemm_avx2;
#endif
#if PKV_HAVE_NEON
    case PKV_ISA_NEON:
        return &pkv__gemm_neon;
#endif
    default:
        return &pkv__gemm_scalar; /* the same bits */
    }
}

bool pkv__gemm_find_fast(pkv_isa isa, pkv__gemm_fast_ops *out)
{
    const pkv__gemm_ops *exact = pkv__gemm_find(isa);
    if (!exact) return false;
    if (isa == PKV_ISA_BEST) isa = pkv_isa_detect();
    *out = (pkv__gemm_fast_ops){ .exact = exact };
#if PKV_HAVE_AVX2
    if (exact == &pkv__gemm_avx2) out->f32 = pkv__packed_f32_avx2;
#endif
#if PKV_HAVE_AVX512
    if (exact == &pkv__gemm_avx512) out->f32 = pkv__packed_f32_avx512;
#endif
#if PKV_HAVE_AVX512BF16
    if (isa == PKV_ISA_AVX512BF16 || isa == PKV_ISA_AMX) out->bf16 = pkv__packed_bf16_avx512bf16;
#endif
    return true;
}

typedef struct product {
    const pkv__gemm_ops *ops;
    const pkv__gemm_packed *packed; /* NULL: exact */
    int32_t m, rows_x, rows_w, tasks_n;
    const float *x;
    int64_t ldx;
    const pkv__matrix *w;
    float *y;
    int64_t ldy;
    bool add;
} product;

static void run_exact(const product *p, int32_t m0, int32_t m1, int32_t n0, int32_t n1)
{
    const float *x = p->x + m0 * p->ldx;
    float *y = p->y + m0 * p->ldy;
    if (p->w->dtype == PKV_BF16)
        p->ops->bf16(m1 - m0, n0, n1, p->w->k, x, p->ldx, p->w->data, y, p->ldy, p->add);
    else p->ops->f32(m1 - m0, n0, n1, p->w->k, x, p->ldx, p->w->data, y, p->ldy, p->add);
}

/* As much as the packed kernel takes, and what is left at both edges. */
static void run_rectangle(const product *p, int32_t m0, int32_t m1, int32_t n0, int32_t n1)
{
    const pkv__gemm_packed *k = p->packed;
    if (!k) {
        run_exact(p, m0, m1, n0, n1);
        return;
    }
    const int32_t m = m1 - (m1 - m0) % k->rows, n = n1 - (n1 - n0) % k->cols;
    k->run(m - m0, n0, n, p->w->k, p->x + m0 * p->ldx, p->ldx, p->w->data, p->y + m0 * p->ldy,
           p->ldy, p->add);
    if (m < m1) run_exact(p, m, m1, n0, n);
    if (n < n1) run_exact(p, m0, m1, n, n1);
}

static void run_task(void *ctx, int32_t i)
{
    const product *p = ctx;
    const int32_t m0 = i / p->tasks_n * p->rows_x, n0 = i % p->tasks_n * p->rows_w;
    run_rectangle(p, m0, pkv__min_i32(p->m, m0 + p->rows_x), n0,
                  pkv__min_i32(p->w->n, n0 + p->rows_w));
}

/* Tasks of at most rows_x rows of x and a multiple of step_n rows of W. */
static void run(product *p, struct pkv__threads *threads, int32_t rows_x, int32_t step_n)
{
    PKV_ASSERT(p->w->dtype == PKV_F32 || p->w->dtype == PKV_BF16);
    if (p->m <= 0 || p->w->n <= 0) return;
    p->rows_x = pkv__min_i32(p->m, rows_x);
    p->rows_w = p->w->n;
    p->tasks_n = 1;
    if (!threads || (int64_t)p->m * p->w->n * p->w->k < ALONE) {
        pkv__parallel(NULL, pkv__ceil_div_i32(p->m, p->rows_x), run_task, p);
        return;
    }
    const int32_t share = pkv__ceil_div_i32(p->w->n, MAX_TASKS_N);
    p->rows_w = pkv__ceil_div_i32(share, step_n) * step_n;
    p->tasks_n = pkv__ceil_div_i32(p->w->n, p->rows_w);
    pkv__parallel(threads, p->tasks_n * pkv__ceil_div_i32(p->m, p->rows_x), run_task, p);
}

void pkv__gemm(const pkv__gemm_ops *ops, struct pkv__threads *threads, int32_t m, const float *x,
               int64_t ldx, const pkv__matrix *w, float *y, int64_t ldy, bool add)
{
    product p = { .ops = ops, .m = m, .x = x, .ldx = ldx, .w = w, .y = y, .ldy = ldy, .add = add };
    run(&p, threads, ROWS_OF_X, ROW_STEP);
}

void pkv__gemm_fast(const pkv__gemm_fast_ops *ops, struct pkv__threads *threads, int32_t m,
                    const float *x, int64_t ldx, const pkv__matrix *w, float *y, int64_t ldy,
                    bool add)
{
    const pkv__gemm_packed *k = w->dtype == PKV_BF16 ? &ops->bf16 : &ops->f32;
    if (!k->run || m < k->least_m || w->k % k->k_step != 0) {
        pkv__gemm(ops->exact, threads, m, x, ldx, w, y, ldy, add);
        return;
    }
    product p = { ops->exact, k, m, 0, 0, 0, x, ldx, w, y, ldy, add };
    run(&p, threads, m, k->cols);
}
