/* Batches and shapes far from the usual: none, one, seventy thousand sequences; rows up to 2^31 -
 * 1; more heads and rows than multiprocessors (KT20); 1 to 4 and 160 multiprocessors; what grids
 * the launches have, and how much workspace they need and touch (KT13). */
#include "cuda_problem.h"
#include "kernels/cuda/cuda_internal.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

static const struct cuda_shape usual = { PKV_F16, PKV_F16, 2, 1, 64, 16 };

/* Results are right, and so is the shape of each launch. Returns the number of launches. */
static int32_t run_and_look(pkv_backend *be, struct cuda_problem *p, device_launch list[8])
{
    if (!p->workspace) cuda_make_workspace(be, p);
    device_record(list, 8);
    struct cuda_rows r = cuda_result(be, p);
    const int32_t n = device_n_recorded();
    device_record(NULL, 0);
    assert_true(n <= 8);
    for (int32_t i = 0; i < n; i++) {
        assert_in_range(list[i].n_blocks, 1, PKV__CUDA_MAX_CTAS);
        assert_in_range(list[i].n_threads, 32, 1024);
        assert_int_equal(list[i].n_threads % 32, 0);
        assert_in_range(list[i].shared_bytes, 0, 227 * 1024);
        assert_in_range(list[i].params_bytes, 1, 4096);
    }
    cuda_assert_right(p, &r);
    cuda_rows_free(&r);
    return n;
}

static void no_sequence(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    const struct cuda_seq seq = { 1, 1, 20 };
    struct cuda_problem p;
    cuda_build(&p, &usual, &seq, 1, 0);
    cuda_make_workspace(be, &p);
    device_fill(p.out.data, 0xff, usual.dim * 4);
    p.batch.n_seqs = 0;
    cuda_run(be, &p);
    for (int32_t i = 0; i < usual.dim * 4; i++)
        assert_int_equal(((unsigned char *)p.out.data)[i], 0xff);
    p.batch.n_seqs = 1; /* and rows of nobody, of a sequence without any */
    p.q_indptr[1] = 0;
    cuda_run(be, &p);
    for (int32_t i = 0; i < usual.dim * 4; i++)
        assert_int_equal(((unsigned char *)p.out.data)[i], 0xff);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Most have no rows, some have rows and no keys. */
static void many_of(int32_t n, int32_t q_len, bool invariant)
{
    struct cuda_seq *seqs = malloc((size_t)n * sizeof *seqs);
    struct cuda_problem p;
    device_launch list[8];
    pkv_backend *be = cuda_backend(NULL, 1);
    for (int32_t b = 0; b < n; b++) {
        const bool has_rows = b % 997 == 5 || b == n - 1 || b == 0;
        seqs[b] = (struct cuda_seq){ b, has_rows ? q_len : 0, b % 3 * 15 };
    }
    cuda_build(&p, &usual, seqs, n, 33);
    p.opts.invariant = invariant;
    run_and_look(be, &p, list);
    cuda_free(&p);
    free(seqs);
    pkv_backend_destroy(be);
}

static void many_sequences(void **state)
{
    (void)state;
    const int32_t n = strcmp(device_build(), "plain") == 0 ? 70000 : 3000;
    many_of(1025, 1, false);
    many_of(1025, 20, false);
    many_of(n, 1, false);
    many_of(4000, 1, true);
    many_of(4000, 20, false);
}

/* Rows that end at 2^31 - 1: byte offsets of q, out and lse beyond 2^34. */
static void last_rows(void **state)
{
    (void)state;
    static const int32_t lens[] = { 1, 18 };
    pkv_backend *be = cuda_backend(NULL, 2);
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 1, 1, 8, 16 };
    for (int i = 0; i < 2; i++) {
        const struct cuda_seq seq = { 3, lens[i], 25 };
        struct cuda_problem p, far;
        cuda_build(&p, &shape, &seq, 1, 0);
        far = p;
        const int64_t row0 = INT32_MAX - lens[i];
        const size_t bytes = (size_t)INT32_MAX * 8 * 2;
        far.q.data = device_alloc_sparse(bytes);
        far.out.data = device_alloc_sparse(bytes);
        far.lse.data = device_alloc_sparse((size_t)INT32_MAX * sizeof(float));
        assert_true(far.q.data && far.out.data && far.lse.data);
        far.q.n_rows = far.out.n_rows = INT32_MAX;
        struct cuda_rows want = cuda_result(be, &p);
        cuda_assert_right(&p, &want);
        memcpy((char *)far.q.data + row0 * 16, p.q.data, (size_t)lens[i] * 16);
        p.q_indptr[0] = (int32_t)row0;
        p.q_indptr[1] = INT32_MAX;
        far.workspace = p.workspace;
        far.workspace_bytes = p.workspace_bytes;
        cuda_run(be, &far);
        assert_memory_equal((char *)far.out.data + row0 * 16, want.o, (size_t)lens[i] * 16);
        assert_memory_equal(far.lse.data + row0, want.lse, (size_t)lens[i] * sizeof(float));
        device_free(far.q.data);
        device_free(far.out.data);
        device_free(far.lse.data);
        cuda_rows_free(&want);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

/* Keys that end at 2^31 - 1, all of them one row; only those in the window are looked at. */
static void last_keys_of(pkv_backend *be, int32_t q_len, bool has_table, float softcap)
{
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 1, 1, 64, 32 };
    const struct cuda_seq seq = { 3, q_len, 25 };
    struct cuda_problem p;
    cuda_build(&p, &shape, &seq, 1, 0);
    p.k.block_tokens = p.v.block_tokens = INT32_MAX;
    p.k.token_stride = p.v.token_stride = 0;
    p.kv_len[0] = INT32_MAX;
    p.opts.window_left = 20;
    p.opts.softcap = softcap;
    if (!has_table) { /* its block becomes block 0 */
        p.k.data = (char *)p.k.data + p.table[0] * p.k.block_stride * 2;
        p.v.data = (char *)p.v.data + p.table[0] * p.v.block_stride * 2;
        p.k.n_blocks = p.v.n_blocks = 1;
        p.batch.table = NULL;
    }
    cuda_run_right(be, &p);
    cuda_free(&p);
}
static void last_keys(void **state)
{
    static const int32_t lens[] = { 1, 3, 18 };
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int i = 0; i < 12; i++) last_keys_of(be, lens[i / 4], i % 2 == 1, i % 4 < 2 ? 0 : 5.f);
    pkv_backend_destroy(be);
}

/* KT20: many more heads times rows than multiprocessors, on 1 to 4 of these. */
static void many_heads(void **state)
{
    (void)state;
    static const struct {
        struct cuda_shape shape;
        int32_t q_len, kv_len;
    } cases[] = {
        { { PKV_F16, PKV_F16, 48, 24, 64, 16 }, 1, 20 },
        { { PKV_F16, PKV_F16, 128, 1, 64, 16 }, 1, 20 },
        { { PKV_F16, PKV_F16, 24, 1, 64, 16 }, 1, 100 },
        { { PKV_F16, PKV_F16, 16, 16, 64, 16 }, 40, 45 },
        { { PKV_F16, PKV_F16, 12, 1, 64, 16 }, 20, 33 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int32_t sms = 1; sms <= 4; sms += i > 0 ? 3 : 1) {
            const struct cuda_seq seq = { 1, cases[i].q_len, cases[i].kv_len };
            struct cuda_problem p;
            device_launch list[8];
            pkv_backend *be = cuda_backend(NULL, sms);
            cuda_build(&p, &cases[i].shape, &seq, 1, 0);
            run_and_look(be, &p, list);
            cuda_free(&p);
            pkv_backend_destroy(be);
        }
}

/* Grids follow from the device alone; max_sms leaves some of it to others. */
static void grids(void **state)
{
    (void)state;
    device_launch few[8], many[8], held[8];
    struct cuda_seq seqs[100];
    for (int32_t b = 0; b < 100; b++) seqs[b] = (struct cuda_seq){ b, b == 7 ? 30 : 1, b % 19 };
    for (int32_t sms = 1; sms <= 5; sms += 2) {
        pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
        pkv_backend *be = cuda_backend(NULL, sms), *part = NULL;
        struct cuda_problem one, all;
        const struct cuda_seq lone = { 7, 30, 100 };
        cuda_build(&one, &usual, &lone, 1, 0);
        cuda_build(&all, &usual, seqs, 100, 0);
        const int32_t n = run_and_look(be, &one, few);
        assert_true(n >= 1);
        assert_int_equal(run_and_look(be, &all, many), n);
        assert_memory_equal(few, many, (size_t)n * sizeof few[0]);
        device_set_sms(sms + 3);
        cfg.max_sms = sms;
        assert_int_equal(pkv_backend_create_cuda(&cfg, &part), PKV_OK);
        assert_int_equal(run_and_look(part, &all, held), n);
        assert_memory_equal(few, held, (size_t)n * sizeof few[0]);
        pkv_backend_destroy(part);
        pkv_backend_destroy(be);
        cuda_free(&one);
        cuda_free(&all);
    }
}

/* KT13: at most 8 MB, whatever the batch and the heads; pure. */
static void workspace_sizes(void **state)
{
    (void)state;
    static const int32_t sms[] = { 1, 2, 4, 108, 132, 160 }, dims[] = { 8, 64, 72, 128 };
    static const int32_t heads[][2] = {
        { 1, 1 }, { 8, 8 }, { 128, 1 }, { 65536, 1 }, { 65536, 65536 }
    };
    for (int i = 0; i < 6; i++) {
        pkv_backend *be = cuda_backend(NULL, sms[i]);
        for (int d = 0; d < 4; d++)
            for (int h = 0; h < 5; h++) {
                size_t bytes = 0, again = 0;
                assert_int_equal(
                    pkv_attn_workspace(be, heads[h][0], heads[h][1], dims[d], dims[d], &bytes),
                    PKV_OK);
                assert_int_equal(
                    pkv_attn_workspace(be, heads[h][0], heads[h][1], dims[d], dims[d], &again),
                    PKV_OK);
                assert_in_range(bytes, sizeof(struct pkv__cuda_head), 8 << 20);
                assert_int_equal(bytes % 64, 0);
                assert_int_equal(bytes, again);
            }
        pkv_backend_destroy(be);
    }
}

/* Grids and workspaces stay within their bounds on devices that do not exist. */
static void very_large_device(void **state)
{
    (void)state;
    const struct cuda_seq seqs[] = { { 1, 1, 900 }, { 2, 20, 500 } };
    device_launch list[2];
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, INT32_MAX);
    cuda_build(&p, &usual, seqs, 2, 0);
    cuda_make_workspace(be, &p);
    assert_in_range(p.workspace_bytes, sizeof(struct pkv__cuda_head), 8 << 20);
    device_record(list, 2);
    device_capture_begin();
    cuda_run(be, &p);
    device_graph_free(device_capture_end());
    assert_int_equal(device_n_recorded(), 2);
    device_record(NULL, 0);
    for (int i = 0; i < 2; i++) assert_in_range(list[i].n_blocks, 1000, PKV__CUDA_MAX_CTAS);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* As many sequences as kernels can number get to a launch, one more does not. */
static void most_sequences(void **state)
{
    (void)state;
    const struct cuda_seq seq = { 1, 1, 20 };
    struct cuda_log log = { "" };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(&log, 2);
    cuda_build(&p, &usual, &seq, 1, 0);
    cuda_make_workspace(be, &p);
    p.batch.n_seqs = PKV__CUDA_MAX_SEQS;
    device_refuse_launch(0);
    assert_int_equal(pkv_attn_run(be, &p.q, &p.k, &p.v, &p.batch, &p.opts, p.workspace,
                                  p.workspace_bytes, NULL, &p.out, &p.lse),
                     PKV_E_DEVICE);
    p.batch.n_seqs++;
    assert_int_equal(pkv_attn_run(be, &p.q, &p.k, &p.v, &p.batch, &p.opts, p.workspace,
                                  p.workspace_bytes, NULL, &p.out, &p.lse),
                     PKV_E_UNSUPPORTED);
    assert_non_null(strstr(log.text, "2147482624 sequences"));
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* A device as large as they come uses all of its workspace and not a byte behind it; less is
 * refused. */
static void workspace_border(void **state)
{
    (void)state;
    static const struct cuda_seq seqs[] = { { 1, 1, 900 }, { 2, 20, 500 } };
    for (int i = 0; i < 2; i++) {
        pkv_backend *be = cuda_backend(NULL, i ? 160 : 7);
        struct cuda_problem p;
        cuda_build(&p, &usual, seqs, 2, 0);
        cuda_make_workspace(be, &p);
        const size_t bytes = p.workspace_bytes;
        device_free(p.workspace);
        unsigned char *guarded = device_alloc(bytes + 256);
        p.workspace = guarded;
        assert_int_equal(pkv_workspace_init(be, guarded, bytes, NULL), PKV_OK);
        struct cuda_rows r = cuda_result(be, &p);
        cuda_assert_right(&p, &r);
        for (int g = 0; g < 256; g++) assert_int_equal(guarded[bytes + (size_t)g], 0xff);
        cuda_rows_free(&r);
        assert_int_equal(pkv_attn_run(be, &p.q, &p.k, &p.v, &p.batch, &p.opts, p.workspace,
                                      bytes - 64, NULL, &p.out, &p.lse),
                         PKV_E_INVALID_ARG);
        cuda_free(&p);
        pkv_backend_destroy(be);
    }
}

/* Of invariant mode: grows with keys over chunks; what is asked for suffices for any batch within,
 * and a call that could need more is refused where the host can tell. */
static void workspace_of_chunks(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    size_t small = 0, large = 0;
    assert_int_equal(pkv_attn_workspace_invariant(be, 8, 2, 64, 64, 4, 1000, 64, &small), PKV_OK);
    assert_int_equal(pkv_attn_workspace_invariant(be, 8, 2, 64, 64, 4, 100000, 64, &large), PKV_OK);
    assert_true(large > small);
    assert_int_equal(pkv_attn_workspace_invariant(be, 8, 2, 64, 64, 4, 1000, 63, &small),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace_invariant(be, 8, 2, 64, 64, 4, INT64_MAX, 64, &small),
                     PKV_E_INVALID_ARG);
    static const int32_t lens[][4] = { { 1000, 0, 0, 0 },
                                       { 250, 250, 250, 250 },
                                       { 1, 65, 129, 805 } };
    for (int i = 0; i < 3; i++) {
        struct cuda_seq seqs[4];
        struct cuda_problem p;
        for (int32_t b = 0; b < 4; b++) seqs[b] = (struct cuda_seq){ b, 1, lens[i][b] };
        cuda_build(&p, &usual, seqs, 4, 0);
        p.opts.invariant = 1;
        p.opts.invariant_chunk = 64;
        cuda_run_right(be, &p); /* exact: the sum of keys is what is asked for */
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_sequence),         cmocka_unit_test(many_sequences),
        cmocka_unit_test(last_rows),           cmocka_unit_test(last_keys),
        cmocka_unit_test(many_heads),          cmocka_unit_test(grids),
        cmocka_unit_test(very_large_device),   cmocka_unit_test(most_sequences),
        cmocka_unit_test(workspace_sizes),     cmocka_unit_test(workspace_border),
        cmocka_unit_test(workspace_of_chunks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
