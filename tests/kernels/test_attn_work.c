/* The driver of attention: no way of cutting the work, and no thread, changes a bit. */
#include "attn_batches.h"
#include "kernels/attn_fold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ threads of the test */

/* Tasks in random order, one half of them on another thread. */
struct shuffle {
    struct rng rng;
    int32_t order[64];
    int32_t n;
    atomic_int next;
    void (*task)(void *task_ctx, int32_t i);
    void *task_ctx;
};

static void *run_shuffled(void *ctx)
{
    struct shuffle *s = ctx;
    for (;;) {
        const int32_t i = atomic_fetch_add(&s->next, 1);
        if (i >= s->n) return NULL;
        s->task(s->task_ctx, s->order[i]);
    }
}

static void shuffled_for(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                         void *task_ctx)
{
    struct shuffle *s = ctx;
    pthread_t other;
    rng_permutation(&s->rng, s->order, n_tasks);
    s->n = n_tasks;
    s->task = task;
    s->task_ctx = task_ctx;
    atomic_store(&s->next, 0);
    const bool started =
        rng_chance(&s->rng, 50) && pthread_create(&other, NULL, run_shuffled, s) == 0;
    run_shuffled(s);
    if (started) pthread_join(other, NULL);
}

/* out and lse of a run, the workspace of the least size or more; to be freed. */
static float *run(struct problem *p, pkv_backend *be, size_t more, pkv_status want)
{
    const size_t n = (size_t)p->n_rows * (size_t)p->q.n_heads * (V_DIM + 1);
    size_t bytes = 0;
    assert_int_equal(pkv_attn_workspace(be, p->q.n_heads, p->n_kv_heads, DIM, V_DIM, &bytes),
                     PKV_OK);
    void *workspace = exact(bytes + more);
    memset(workspace, 0xff, bytes + more);
    memset(p->out.data, 0xee, n * sizeof(float));
    memset(p->bad, 0, sizeof p->bad);
    assert_int_equal(pkv_attn_run(be, &p->q, &p->k, &p->v, &p->batch, &p->opts, workspace,
                                  bytes + more, NULL, &p->out, &p->lse),
                     want);
    free(workspace);
    float *result = exact(pkv__align_up(n * sizeof(float) + 64, 64));
    memcpy(result, p->out.data, n * sizeof(float));
    return result;
}

static size_t n_results(const struct problem *p)
{
    return (size_t)p->n_rows * (size_t)p->q.n_heads * (V_DIM + 1);
}

static void check_near(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-4f * (1.f + fabsf(b[i])))) {
            fprintf(stderr, "element %zu: %g instead of %g\n", i, (double)a[i], (double)b[i]);
            fail();
        }
}

/* ------------------------------------------------------------------ bits */

static void any_number_of_tasks(void **state)
{
    static const int32_t n_tasks[] = { 2, 3, 5, 8 };
    static struct problem p;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *scalar = NULL, *one = naive_backend(1, NULL, NULL);
    (void)state;
    cfg.max_isa = PKV_ISA_SCALAR;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &scalar), PKV_OK);
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct rng r = { seed };
        draw_problem(&p, &r);
        const size_t bytes = n_results(&p) * sizeof(float);
        float *whole = run(&p, scalar, 0, PKV_OK), *want = run(&p, one, 0, PKV_OK);
        check_near(want, whole, n_results(&p));
        for (size_t t = 0; t < PKV_ARRAY_LEN(n_tasks); t++) {
            struct shuffle shuffle = { .rng = { seed + t } };
            pkv_backend *be =
                naive_backend(n_tasks[t], rng_chance(&r, 70) ? shuffled_for : NULL, &shuffle);
            float *got =
                run(&p, be, rng_chance(&r, 50) ? 64 * (size_t)rng_int(&r, 1, 999) : 0, PKV_OK);
            if (memcmp(got, want, bytes) != 0) {
                fprintf(stderr, "seed %d, %d tasks\n", (int)seed, n_tasks[t]);
                fail();
            }
            free(got);
            pkv_backend_destroy(be);
        }
        free(whole), free(want), free(p.memory);
    }
    pkv_backend_destroy(one);
    pkv_backend_destroy(scalar);
}

/* More chunks than there are slots for: one head of 300 thousand keys, on five threads. */
static void more_chunks_than_slots(void **state)
{
    static struct problem p;
    struct rng r = { 7 };
    struct shuffle shuffle = { .rng = { 8 } };
    pkv_backend *one = naive_backend(1, NULL, NULL),
                *five = naive_backend(5, shuffled_for, &shuffle);
    (void)state;
    set_shape(&p, 1, 1);
    assert_true(add_sequence(&p, &r, 1, 300000));
    assert_true(add_sequence(&p, &r, 1, 70000));
    finish_batch(&p);
    draw_numbers(&p, &r);
    float *want = run(&p, one, 0, PKV_OK), *got = run(&p, five, 0, PKV_OK);
    assert_memory_equal(got, want, n_results(&p) * sizeof(float));
    free(want), free(got), free(p.memory);
    pkv_backend_destroy(one);
    pkv_backend_destroy(five);
}

/* What is bad is reported alike, whoever meets it first: the lowest sequence, the lowest index. */
static void one_report(void **state)
{
    static struct problem p;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng r = { seed };
        struct shuffle shuffle = { .rng = { seed } };
        pkv_backend *be = naive_backend(rng_int(&r, 1, 8), shuffled_for, &shuffle);
        set_shape(&p, 3, 2);
        for (int i = 0; i < 12; i++) assert_true(add_sequence(&p, &r, 1, rng_int(&r, 2100, 4000)));
        finish_batch(&p);
        draw_numbers(&p, &r);
        p.table[p.table_indptr[7] + 60] = 0;
        p.table[p.table_indptr[4] + 64] = -5;
        p.table[p.table_indptr[4] + 9] = N_BLOCKS;
        p.kv_len[9] = -1;
        float *got = run(&p, be, 0, PKV_E_INVALID_ARG);
        assert_int_equal(p.bad[0], PKV_BAD_RANGE | PKV_BAD_NULL_BLOCK | PKV_BAD_LENGTH);
        assert_int_equal(p.bad[1], 4);
        assert_int_equal(p.bad[2], 9);
        assert_int_equal(p.bad[3], N_BLOCKS);
        free(got), free(p.memory);
        pkv_backend_destroy(be);
    }
}

/* ------------------------------------------------------------------ fold and finish */

static void fold_by_hand(void **state)
{
    (void)state;
    float a[64] = { 0 }, b[64] = { 0 };
    const struct pkv__attn_state x = pkv__state_at(a, 1, 8), y = pkv__state_at(b, 1, 8);
    *x.m = -INFINITY; /* nothing yet: the other is copied, bits and all */
    *y.m = 2.f, *y.l = 3.f, y.o[0] = 0.1f, y.o[7] = -5.f;
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(*x.m == 2.f && *x.l == 3.f && x.o[0] == 0.1f && x.o[7] == -5.f);
    *y.l = 0.f, *y.m = 1e30f, y.o[0] = NAN; /* nothing more, whatever else it says */
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(*x.m == 2.f && *x.l == 3.f && x.o[0] == 0.1f);
    *y.l = 2.f, *y.m = 2.f + logf(4.f), y.o[0] = 1.f, y.o[7] = 0.f; /* weights 1/4 and 1 */
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(fabsf(*x.l - 2.75f) < 1e-6f && fabsf(x.o[0] - 1.025f) < 1e-6f);
    assert_true(fabsf(x.o[7] + 1.25f) < 1e-6f && *x.m == 2.f + logf(4.f));
    *y.l = NAN, *y.m = -INFINITY; /* a NaN stays */
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(isnan(*x.l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fold_by_hand),
        cmocka_unit_test(any_number_of_tasks),
        cmocka_unit_test(more_chunks_than_slots),
        cmocka_unit_test(one_report),
    };
    return cmocka_run_group_tests_name("attn_work", tests, NULL, NULL);
}
