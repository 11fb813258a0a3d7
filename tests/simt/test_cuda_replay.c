/* KT11, KT10: the launches of a call are written down once, as in a graph, and replayed after
 * lengths and tables on the device have changed; each replay has the bits of a direct call. What
 * the workspace held before, or what a larger batch left in it, changes nothing. */
#include "cuda_problem.h"

enum { N_SEQS = 6, N_STEPS = 50, MAX_KEYS = 150 };

struct rig {
    pkv_backend *be;
    struct cuda_problem p;
    int32_t *all_ids; /* [N_SEQS][ids of MAX_KEYS keys], on the host */
    int32_t n_ids;
};

static void make(struct rig *r, const struct cuda_shape *shape, int32_t q_len, bool invariant)
{
    struct cuda_seq seqs[N_SEQS];
    for (int32_t b = 0; b < N_SEQS; b++)
        seqs[b] = (struct cuda_seq){ b, b == 1 ? q_len : 1, MAX_KEYS };
    r->be = cuda_backend(NULL, 2);
    cuda_build(&r->p, shape, seqs, N_SEQS, 8);
    r->p.opts.invariant = invariant;
    r->p.opts.invariant_chunk = invariant ? 64 : 0;
    r->n_ids = (int32_t)r->p.batch.table_stride;
    const size_t bytes = (size_t)(N_SEQS * r->n_ids) * sizeof(int32_t);
    r->all_ids = malloc(bytes);
    device_download(r->all_ids, r->p.table, bytes);
    cuda_make_workspace(r->be, &r->p);
}

static void unmake(struct rig *r)
{
    cuda_free(&r->p);
    free(r->all_ids);
    pkv_backend_destroy(r->be);
}

/* Lengths of a step: they grow, fall to 0 and jump; sequence b reads the blocks of another one, and
 * ids that no key needs are poison. */
static void step(struct rig *r, int32_t i)
{
    const int32_t bt = r->p.shape.block_tokens;
    for (int32_t b = 0; b < N_SEQS; b++) {
        const int32_t from = (b + i / 3) % N_SEQS, n = (i * (b + 3) + 7 * b) % (MAX_KEYS + 1);
        const int32_t keys = i % 11 == b ? 0 : i % 13 == b ? MAX_KEYS : n;
        r->p.kv_len[b] = keys;
        for (int32_t e = 0; e < r->n_ids; e++)
            r->p.table[b * r->n_ids + e] =
                e * bt < keys ? r->all_ids[from * r->n_ids + e] : INT32_MIN;
    }
}

static struct cuda_rows replay(struct rig *r, const device_graph *graph)
{
    cuda_clear(&r->p);
    if (device_graph_run(graph) != 0) fail_msg("%s", device_last_error());
    assert_int_equal(r->p.bad[0], 0);
    return cuda_collect(&r->p);
}

static void replayed(const struct cuda_shape *shape, int32_t q_len, bool invariant, int32_t n_steps)
{
    struct rig r;
    make(&r, shape, q_len, invariant);
    step(&r, 0);
    device_capture_begin();
    cuda_run(r.be, &r.p);
    device_graph *graph = device_capture_end();
    assert_true(device_graph_n_nodes(graph) >= 1 && device_graph_n_nodes(graph) <= 4);
    for (int32_t i = 0; i < n_steps; i++) {
        step(&r, i);
        cuda_schedule(i);
        struct cuda_rows of_graph = replay(&r, graph);
        struct cuda_rows direct = cuda_result(r.be, &r.p);
        cuda_assert_same(&of_graph, 0, &direct, 0, direct.n_rows, "replay");
        if (i % 10 == 3) cuda_assert_right(&r.p, &direct);
        cuda_rows_free(&of_graph);
        cuda_rows_free(&direct);
    }
    device_graph_free(graph);
    unmake(&r);
}

static int32_t n_steps(void)
{
    return strcmp(device_build(), "plain") == 0 ? N_STEPS : 14;
}

static void decode(void **state)
{
    (void)state;
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 4, 2, 64, 16 };
    replayed(&shape, 2, false, n_steps());
}

static void decode_invariant(void **state)
{
    (void)state;
    const struct cuda_shape shape = { PKV_BF16, PKV_BF16, 4, 1, 64, 12 };
    replayed(&shape, 1, true, n_steps());
}

static void prefill(void **state)
{
    (void)state;
    const struct cuda_shape shape = { PKV_F16, PKV_BF16, 2, 1, 64, 16 };
    replayed(&shape, 40, false, n_steps());
}

/* KT10: a large batch leaves its states in the workspace, then a small one runs; a workspace that
 * is full of anything, head included, is not believed. */
static void dirty_workspace(void **state)
{
    (void)state;
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 4, 2, 64, 16 };
    struct rig r;
    make(&r, &shape, 40, false);
    step(&r, 5);
    struct cuda_rows want = cuda_result(r.be, &r.p);
    for (int32_t i = 0; i < 3; i++) {
        for (int32_t b = 0; b < N_SEQS; b++) r.p.kv_len[b] = MAX_KEYS;
        memcpy(r.p.table, r.all_ids, (size_t)(N_SEQS * r.n_ids) * sizeof(int32_t));
        cuda_run(r.be, &r.p);
        step(&r, 5);
        struct cuda_rows got = cuda_result(r.be, &r.p);
        cuda_assert_same(&want, 0, &got, 0, got.n_rows, "a small batch behind a large one");
        cuda_rows_free(&got);
    }
    static const int bytes[] = { 0x00, 0x3f, 0x7f, 0xff };
    for (int i = 0; i < 4; i++) {
        device_fill(r.p.workspace, bytes[i], r.p.workspace_bytes);
        struct cuda_rows got = cuda_result(r.be, &r.p);
        cuda_assert_right(&r.p, &got);
        cuda_rows_free(&got);
        assert_int_equal(pkv_workspace_init(r.be, r.p.workspace, r.p.workspace_bytes, NULL),
                         PKV_OK);
        got = cuda_result(r.be, &r.p);
        cuda_assert_same(&want, 0, &got, 0, got.n_rows, "an old workspace made new");
        cuda_rows_free(&got);
    }
    cuda_rows_free(&want);
    unmake(&r);
}

/* A launch that fails may leave counters behind: the workspace is made new, and all is as before.
 */
static void failed_call(void **state)
{
    (void)state;
    const struct cuda_shape shape = { PKV_F16, PKV_F16, 4, 2, 64, 16 };
    struct rig r;
    make(&r, &shape, 40, false);
    step(&r, 2);
    struct cuda_rows want = cuda_result(r.be, &r.p);
    for (int32_t i = 0; i < 4; i++) {
        device_refuse_launch(i);
        const pkv_status status =
            pkv_attn_run(r.be, &r.p.q, &r.p.k, &r.p.v, &r.p.batch, &r.p.opts, r.p.workspace,
                         r.p.workspace_bytes, NULL, &r.p.out, &r.p.lse);
        if (i == 0) assert_int_equal(status, PKV_E_DEVICE);
        device_refuse_launch(-1);
        assert_int_equal(pkv_workspace_init(r.be, r.p.workspace, r.p.workspace_bytes, NULL),
                         PKV_OK);
        struct cuda_rows got = cuda_result(r.be, &r.p);
        cuda_assert_same(&want, 0, &got, 0, got.n_rows, "behind a failed call");
        cuda_rows_free(&got);
    }
    cuda_rows_free(&want);
    unmake(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decode),      cmocka_unit_test(decode_invariant),
        cmocka_unit_test(prefill),     cmocka_unit_test(dirty_workspace),
        cmocka_unit_test(failed_call),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
