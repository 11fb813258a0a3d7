/* What must not change one bit of attention on a device (attention.h, "Determinism"): where blocks
 * lie, strides, tables, padding; repetition; the order in which threads and CTAs run; hints. In
 * invariant mode also the company that a sequence keeps, its order, and the number of
 * multiprocessors. Sequences are long enough to be shared out among CTAs and warps. */
#include "cuda_problem.h"

/* Store and query types; short rows and long ones. */
static const struct kind {
    struct cuda_shape shape;
    int32_t q_len;
    const char *name;
} kinds[] = {
    { { PKV_F16, PKV_F16, 4, 2, 64, 16 }, 1, "f16, one row" },
    { { PKV_BF16, PKV_BF16, 3, 1, 128, 5 }, 2, "bf16, two rows" },
    { { PKV_E4M3, PKV_F16, 8, 1, 64, 32 }, 1, "e4m3, one row" },
    { { PKV_U4, PKV_BF16, 2, 1, 128, 16 }, 3, "int4, three rows" },
    { { PKV_F16, PKV_F16, 2, 1, 64, 16 }, 40, "f16, many rows" },
    { { PKV_I8, PKV_BF16, 2, 2, 64, 24 }, 33, "int8, many rows" },
};
enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

/* A mixed batch: one sequence that many CTAs share, some short ones, an empty one. */
enum { N_MIXED = 5 };
static void mixed(struct cuda_seq seqs[N_MIXED], int32_t q_len)
{
    static const int32_t lens[N_MIXED] = { 70, 331, 0, 16, 129 };
    for (int32_t b = 0; b < N_MIXED; b++)
        seqs[b] = (struct cuda_seq){ 100 + b, b == 3 ? 1 : q_len, lens[b] };
}

/* D1, D2: the plain layout, then others, each under another schedule. */
static void layouts(void **state)
{
    (void)state;
    static const cuda_layout others[] = { 1, 42, 111, 62, 255 };
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int k = 0; k < N_KINDS; k++) {
        struct cuda_seq seqs[N_MIXED];
        struct cuda_problem p;
        mixed(seqs, kinds[k].q_len);
        cuda_build(&p, &kinds[k].shape, seqs, N_MIXED, 0);
        cuda_schedule(0);
        struct cuda_rows first = cuda_result(be, &p);
        cuda_assert_right(&p, &first);
        cuda_free(&p);
        for (int i = 0; i < 5; i++) {
            cuda_build(&p, &kinds[k].shape, seqs, N_MIXED, others[i]);
            cuda_schedule(2 * i + 1);
            struct cuda_rows r = cuda_result(be, &p);
            cuda_assert_same(&first, 0, &r, 0, r.n_rows, kinds[k].name);
            cuda_rows_free(&r);
            cuda_free(&p);
        }
        cuda_rows_free(&first);
    }
    pkv_backend_destroy(be);
}

/* D1: again and again on one workspace, whose counters have to come back to 0; every schedule. */
static void repetition(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 3);
    const int n = strcmp(device_build(), "plain") == 0 ? 100 : 24;
    for (int k = 0; k < N_KINDS; k += 4) {
        const struct cuda_seq seqs[] = { { 1, kinds[k].q_len, 200 }, { 2, 1, 30 } };
        struct cuda_problem p;
        cuda_build(&p, &kinds[k].shape, seqs, 2, 3);
        struct cuda_rows first = cuda_result(be, &p);
        cuda_assert_right(&p, &first);
        for (int i = 0; i < n; i++) {
            cuda_schedule(i);
            struct cuda_rows r = cuda_result(be, &p);
            cuda_assert_same(&first, 0, &r, 0, r.n_rows, kinds[k].name);
            cuda_rows_free(&r);
        }
        cuda_rows_free(&first);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

/* D3: the longest q_len, said, said too large, or not; a larger workspace full of other bytes. */
static void hints(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    for (int k = 0; k < N_KINDS; k++) {
        struct cuda_seq seqs[N_MIXED];
        struct cuda_problem p;
        mixed(seqs, kinds[k].q_len);
        cuda_build(&p, &kinds[k].shape, seqs, N_MIXED, 9);
        struct cuda_rows first = cuda_result(be, &p);
        const int32_t said[] = { kinds[k].q_len, 1000000 };
        for (int i = 0; i < 2; i++) {
            p.batch.max_q_len = said[i];
            struct cuda_rows r = cuda_result(be, &p);
            cuda_assert_same(&first, 0, &r, 0, r.n_rows, "max_q_len");
            cuda_rows_free(&r);
        }
        const size_t larger = p.workspace_bytes + 65536;
        device_free(p.workspace);
        p.workspace = device_alloc(larger);
        p.workspace_bytes = larger;
        device_fill(p.workspace, 0x3f, larger);
        assert_int_equal(pkv_workspace_init(be, p.workspace, larger, NULL), PKV_OK);
        struct cuda_rows r = cuda_result(be, &p);
        cuda_assert_same(&first, 0, &r, 0, r.n_rows, "a larger workspace");
        cuda_rows_free(&r);
        cuda_rows_free(&first);
        cuda_free(&p);
    }
    pkv_backend_destroy(be);
}

/* Short rows alone: no q_indptr says the same as one that counts them. */
static void one_row_each(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    struct cuda_seq seqs[N_MIXED];
    struct cuda_problem p;
    mixed(seqs, 1);
    cuda_build(&p, &kinds[0].shape, seqs, N_MIXED, 1);
    struct cuda_rows first = cuda_result(be, &p);
    p.batch.q_indptr = NULL;
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&first, 0, &r, 0, r.n_rows, "no q_indptr");
    cuda_rows_free(&r);
    cuda_rows_free(&first);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* ------------------------------------------------------------------ invariant mode */

static void set_invariant(struct cuda_problem *p, int32_t chunk)
{
    p->opts.invariant = 1;
    p->opts.invariant_chunk = chunk;
}

/* KT19: each sequence alone, on 1 .. 4 multiprocessors, and as one of many in any order. */
static void company_of(const struct kind *kind, int32_t chunk, int32_t n)
{
    struct cuda_seq seqs[64];
    struct cuda_problem p;
    struct cuda_rows alone[64];
    for (int32_t b = 0; b < n; b++) {
        const int32_t kv_len = b * 37 % 150 + (b % 5 == 0 ? chunk + 3 : 0);
        seqs[b] = (struct cuda_seq){ b, b % 3 == 2 ? 1 : kind->q_len, kv_len };
    }
    for (int32_t b = 0; b < n; b++) {
        pkv_backend *be = cuda_backend(NULL, 1 + b % 4);
        cuda_build(&p, &kind->shape, &seqs[b], 1, (cuda_layout)b);
        set_invariant(&p, chunk);
        cuda_schedule(b);
        alone[b] = cuda_result(be, &p);
        if (b % 8 == 0) cuda_assert_right(&p, &alone[b]);
        cuda_free(&p);
        pkv_backend_destroy(be);
    }
    for (int32_t turn = 0; turn < 3; turn++) {
        struct cuda_seq order[64];
        const int32_t step = (const int32_t[]){ 1, 29, 63 }[turn];
        pkv_backend *be = cuda_backend(NULL, 4 - turn);
        for (int32_t b = 0; b < n; b++) order[b] = seqs[b * step % n];
        cuda_build(&p, &kind->shape, order, n, 77 + (cuda_layout)turn);
        set_invariant(&p, chunk);
        cuda_schedule(turn * 5);
        struct cuda_rows all = cuda_result(be, &p);
        for (int32_t b = 0; b < n; b++)
            cuda_assert_same(&all, p.row0[b], &alone[order[b].id], 0, order[b].q_len, kind->name);
        cuda_rows_free(&all);
        cuda_free(&p);
        pkv_backend_destroy(be);
    }
    for (int32_t b = 0; b < n; b++) cuda_rows_free(&alone[b]);
}

static void company(void **state)
{
    (void)state;
    const bool plain = strcmp(device_build(), "plain") == 0;
    company_of(&kinds[0], 64, plain ? 64 : 16);
    for (int k = 1; k < N_KINDS; k++) company_of(&kinds[k], k % 2 ? 128 : 64, 8);
}

/* A workspace for more sequences and keys than there are; the default chunk said in full. */
static void invariant_hints(void **state)
{
    (void)state;
    pkv_backend *be = cuda_backend(NULL, 2);
    const struct cuda_seq seqs[] = { { 1, 1, 1100 }, { 2, 1, 0 }, { 3, 1, 40 } };
    struct cuda_problem p;
    cuda_build(&p, &kinds[0].shape, seqs, 3, 0);
    set_invariant(&p, 0);
    struct cuda_rows first = cuda_result(be, &p);
    cuda_assert_right(&p, &first);
    set_invariant(&p, 1024);
    const size_t larger = p.workspace_bytes + (1 << 20);
    device_free(p.workspace);
    p.workspace = device_alloc(larger);
    p.workspace_bytes = larger;
    assert_int_equal(pkv_workspace_init(be, p.workspace, larger, NULL), PKV_OK);
    struct cuda_rows r = cuda_result(be, &p);
    cuda_assert_same(&first, 0, &r, 0, r.n_rows, "the default chunk, and a larger workspace");
    cuda_rows_free(&r);
    cuda_rows_free(&first);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layouts), cmocka_unit_test(repetition),
        cmocka_unit_test(hints),   cmocka_unit_test(one_row_each),
        cmocka_unit_test(company), cmocka_unit_test(invariant_hints),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
