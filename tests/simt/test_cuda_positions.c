/* Few rows at positions of their own, in the decode kernel: in any order, as far away as int32
 * goes, with their keys or detached from them, more of them than keys. */
#include "cuda_problem.h"

enum { MOST_ROWS = 16 };

struct where {
    struct cuda_seq seqs[2];
    int32_t q_pos[2 * MOST_ROWS]; /* of all rows */
    int32_t pos0[2];
    int32_t left;
    bool detached, alibi;
};

static void run(const struct where *w, int32_t n_q_heads, int32_t block_tokens)
{
    const struct cuda_shape shape = { PKV_F16, PKV_F16, n_q_heads, 1, 64, block_tokens };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 2);
    cuda_build(&p, &shape, w->seqs, 2, 0);
    int32_t *const q_pos = cuda_take(&p, (size_t)p.n_rows * sizeof(int32_t));
    int32_t *const pos0 = cuda_take(&p, sizeof w->pos0);
    float *const slopes = cuda_take(&p, (size_t)n_q_heads * sizeof(float));
    memcpy(q_pos, w->q_pos, (size_t)p.n_rows * sizeof(int32_t));
    memcpy(pos0, w->pos0, sizeof w->pos0);
    for (int32_t h = 0; h < n_q_heads; h++) slopes[h] = 0.125f * (float)(h + 1);
    p.batch.q_pos = q_pos;
    p.batch.kv_pos0 = pos0;
    p.batch.q_detached = w->detached;
    p.opts.window_left = w->left;
    if (w->alibi) p.opts.alibi = slopes;
    cuda_run_right(be, &p);
    cuda_free(&p);
    pkv_backend_destroy(be);
}
static void run_all(const struct where *w)
{
    run(w, 1, 16);
    run(w, 4, 5);
    struct where other = *w;
    for (int way = 0; way < 4; way++) {
        other.detached = way % 2;
        other.alibi = way / 2;
        run(&other, 2, 16);
    }
}

/* The first rows see more than the last ones. */
static void test_any_order(void **state)
{
    const struct where all = {
        { { 1, 3, 90 }, { 2, 4, 60 } }, { 85, 40, 3, 50, 59, 20, 33 }, { 0, 0 }, -1, true, false
    };
    const struct where one = {
        { { 1, 1, 90 }, { 2, 1, 60 } }, { 30, 7 }, { 0, 0 }, -1, false, false
    };
    struct where some = all;
    (void)state;
    run_all(&one); /* its own key, the last one, stands among the others */
    run_all(&all);
    some.left = 5;
    run_all(&some);
}

/* Each sequence has its own position of key 0. */
static void test_bases(void **state)
{
    const struct where w = {
        { { 1, 2, 40 }, { 2, 3, 50 } }, { 130, 125, -57, -80, -60 }, { 100, -100 }, 8, true, false
    };
    struct where all = w;
    (void)state;
    run_all(&w);
    all.left = -1;
    run_all(&all);
}

/* Behind all keys by more than int32 holds, and in front of them. */
static void test_far(void **state)
{
    const struct where w = { { { 1, 2, 40 }, { 2, 1, 33 } },
                             { INT32_MAX, INT32_MAX - 1, INT32_MIN },
                             { INT32_MIN, INT32_MAX },
                             -1,
                             true,
                             false };
    (void)state;
    run(&w, 1, 16);
    run(&w, 4, 5);
}

/* More rows than keys: the first ones are those of none. */
static void test_more_rows(void **state)
{
    struct where w = { { { 1, 16, 0 }, { 2, 4, 2 } }, { 0 }, { 0, 0 }, -1, false, false };
    (void)state;
    for (int32_t i = 0; i < 20; i++) w.q_pos[i] = i * 3 % 7;
    run(&w, 1, 16);
    run(&w, 1, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any_order),
        cmocka_unit_test(test_bases),
        cmocka_unit_test(test_far),
        cmocka_unit_test(test_more_rows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
