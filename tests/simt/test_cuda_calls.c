/* What a call of attention makes of the device: launches, and what each CTA has of the keys. */
#include "cuda_problem.h"
#include "kernels/cuda/cuda_launch.h"

#include <math.h>

static const struct cuda_shape plain = { PKV_F16, PKV_F16, 4, 1, 64, 16 };

/* A state of 8 columns in the workspace: o, then m, then l. */
enum { SLOT = 8 * (64 + 2), SUMS_AT = 8 * (64 + 1) };

/* The weight of the keys that a CTA has left states of, in the first column. */
static double weight_of(const struct cuda_problem *p, int32_t cta)
{
    const float *const states =
        (const float *)((const char *)p->workspace + sizeof(struct pkv__cuda_head));
    double sum = 0;
    for (int32_t s = 2 * cta; s < 2 * cta + 2; s++) {
        const double l = (double)states[(int64_t)s * SLOT + SUMS_AT];
        if (!isnan(l)) sum += l; /* else nothing was left there */
    }
    return sum;
}

/* Tiles of a row at the end of kv_len keys that sees `left` keys in front of its own. */
static int32_t tiles_of(int32_t kv_len, int32_t left)
{
    const int32_t lo = left < 0 || left >= kv_len ? 0 : kv_len - 1 - left;
    return (kv_len - 1) / 16 + 1 - lo / 16;
}

/* Two items, each of more tiles than a CTA gets: nobody has more than an equal part of the line, in
 * which a start costs four tiles, keys in front of a window nothing, and no part is shorter than
 * eight. Of queries of zeros all keys have the same weight. */
static void share_evenly(int32_t n_sms, int32_t left)
{
    static const struct cuda_seq seqs[] = { { 7, 1, 1500 }, { 8, 1, 900 } };
    const int32_t line = tiles_of(1500, left) + 4 + tiles_of(900, left) + 4;
    const double keys = left < 0 ? 1500 + 900 : 2 * (left + 1);
    const size_t head = sizeof(struct pkv__cuda_head);
    struct cuda_problem p;
    device_launch launch;
    pkv_backend *be = cuda_backend(NULL, n_sms);
    double all = 0;
    cuda_build(&p, &plain, seqs, 2, 0);
    memset(p.q.data, 0, 2 * 4 * 64 * 2);
    p.batch.max_q_len = 1;
    p.opts.window_left = left;
    cuda_make_workspace(be, &p);
    device_fill((char *)p.workspace + head, 0xff, p.workspace_bytes - head);
    device_record(&launch, 1);
    cuda_run_right(be, &p);
    assert_int_equal(device_n_recorded(), 1);
    device_record(NULL, 0);
    const int32_t grid = (int32_t)launch.n_blocks, n = grid < line / 8 ? grid : line / 8;
    assert_true(n > 2);
    for (int32_t cta = 0; cta < grid; cta++) all += weight_of(&p, cta);
    for (int32_t cta = 0; cta < grid; cta++) {
        const double has = weight_of(&p, cta) / all * keys;
        if (cta >= n) assert_true(has == 0);
        if (!(has <= 16 * ((line + n - 1) / n) + 1e-3))
            fail_msg("CTA %d of %d has %g keys", cta, grid, has);
    }
    cuda_free(&p);
    pkv_backend_destroy(be);
}
static void even_shares(void **state)
{
    (void)state;
    for (int32_t n_sms = 1; n_sms <= 7; n_sms += 3) {
        share_evenly(n_sms, -1);
        share_evenly(n_sms, 500);
    }
}

/* Few rows and many are two launches. Whichever fails, the call does; where the first one does,
 * there is no second. */
static void failed_launches(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 40, 90 }, { 2, 1, 30 } };
    struct cuda_problem p;
    device_launch launches[3];
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 0);
    cuda_make_workspace(be, &p);
    for (int32_t n = 0; n < 3; n++) {
        cuda_clear(&p);
        device_record(launches, 3);
        device_refuse_launch(n);
        const pkv_status status = pkv_attn_run(be, &p.q, &p.k, &p.v, &p.batch, &p.opts, p.workspace,
                                               p.workspace_bytes, NULL, &p.out, &p.lse);
        assert_int_equal(status, n < 2 ? PKV_E_DEVICE : PKV_OK);
        for (int32_t row = 0; row < 41 && n == 0; row++) assert_true(isnan(p.lse.data[4 * row]));
    }
    device_record(NULL, 0);
    device_refuse_launch(-1);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* No chunk asked for is one of 1024 keys: the bits are the same. */
static void usual_chunk(void **state)
{
    static const struct cuda_seq seqs[] = { { 7, 1, 1500 }, { 8, 1, 2100 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 7);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 0);
    p.opts.invariant = 1;
    p.opts.invariant_chunk = 1024;
    struct cuda_rows said = cuda_result(be, &p);
    cuda_assert_right(&p, &said);
    p.opts.invariant_chunk = 0;
    struct cuda_rows usual = cuda_result(be, &p);
    cuda_assert_same(&said, 0, &usual, 0, 2, "no chunk asked for");
    cuda_rows_free(&said);
    cuda_rows_free(&usual);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_shares),
        cmocka_unit_test(failed_launches),
        cmocka_unit_test(usual_chunk),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
