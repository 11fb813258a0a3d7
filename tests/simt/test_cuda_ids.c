/* Block tables that are wrong where the decode kernel reads them, in tiles and key by key: what is
 * reported, word by word, and what stands in place of it. Entries that no row sees may hold
 * anything. */
#include "cuda_problem.h"

#include <limits.h>

static const struct cuda_shape plain = { PKV_F16, PKV_F16, 4, 1, 64, 16 };

/* A call that has something to report, alone or beside the kernel for long rows. */
static struct cuda_rows run_bad(pkv_backend *be, struct cuda_problem *p, uint32_t bit, uint32_t seq,
                                uint32_t idx, int32_t value)
{
    const uint32_t want[4] = { bit, seq, idx, (uint32_t)value };
    for (int32_t hint = 1; hint >= 0; hint--) {
        p->batch.max_q_len = hint;
        cuda_clear(p);
        assert_int_equal(pkv_attn_run(be, &p->q, &p->k, &p->v, &p->batch, &p->opts, p->workspace,
                                      p->workspace_bytes, NULL, &p->out, &p->lse),
                         PKV_OK);
        assert_memory_equal(p->bad, want, sizeof want);
        memset(p->bad, 0, sizeof want);
    }
    return cuda_collect(p);
}

/* A row of ids that would end behind the table has those in front of its end. */
static void test_row_behind_table(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 37 }, { 2, 1, 48 } };
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    cuda_build(&p, &plain, seqs, 2, 32);
    struct cuda_rows right = cuda_result(be, &p);
    p.table_indptr[2] += 2;
    p.kv_len[1] = 70;
    struct cuda_rows r = run_bad(be, &p, PKV_BAD_SHORT_ROW, 1, 3, 70);
    cuda_assert_same(&right, 0, &r, 0, 2, "ids behind the table");
    cuda_rows_free(&r);
    p.table_indptr[2] = p.table_indptr[1] - 1; /* ends before it begins: none */
    r = run_bad(be, &p, PKV_BAD_SHORT_ROW, 1, 0, 70);
    cuda_rows_free(&right);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Without a table a sequence has a block's keys at most, and none if their number is negative. */
static void test_contiguous_lengths(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 48 } };
    struct cuda_shape shape = plain;
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 2);
    (void)state;
    shape.block_tokens = 48;
    cuda_build(&p, &shape, seqs, 1, 0);
    p.k.data = (char *)p.k.data + p.table[0] * p.k.block_stride * 2;
    p.v.data = (char *)p.v.data + p.table[0] * p.v.block_stride * 2;
    p.k.n_blocks = p.v.n_blocks = 1;
    p.batch.table = NULL;
    struct cuda_rows full = cuda_result(be, &p);
    cuda_assert_right(&p, &full);
    p.kv_len[0] = 49;
    struct cuda_rows r = run_bad(be, &p, PKV_BAD_LENGTH, 0, 0, 49);
    cuda_assert_same(&full, 0, &r, 0, 1, "a key more than the block has");
    cuda_rows_free(&r);
    p.kv_len[0] = 0;
    struct cuda_rows none = cuda_result(be, &p);
    p.kv_len[0] = -3;
    r = run_bad(be, &p, PKV_BAD_LENGTH, 0, 0, -3);
    cuda_assert_same(&none, 0, &r, 0, 1, "less than no key");
    cuda_rows_free(&r);
    cuda_rows_free(&none);
    cuda_rows_free(&full);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

static void zero_block(const pkv_kv_view *v, int32_t id)
{
    const size_t bytes = (size_t)v->block_stride * 2;
    memset((char *)v->data + (size_t)id * bytes, 0, bytes);
}

/* An id that nobody may use is the null block, in every way to read it. */
static void run_wrong_id(int32_t block_tokens, float softcap, int32_t entry)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 20 }, { 2, 1, 150 } };
    struct cuda_shape shape = plain;
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 3);
    shape.block_tokens = block_tokens;
    cuda_build(&p, &shape, seqs, 2, 5);
    p.opts.softcap = softcap;
    int32_t *const id = &p.table[p.batch.table_stride + entry];
    const int32_t wrong[] = { 0, p.k.n_blocks, INT_MIN };
    zero_block(&p.k, 0);
    zero_block(&p.v, 0);
    zero_block(&p.k, *id);
    zero_block(&p.v, *id);
    struct cuda_rows zeros = cuda_result(be, &p);
    cuda_assert_right(&p, &zeros);
    for (int i = 0; i < 3; i++) {
        *id = wrong[i];
        struct cuda_rows r =
            run_bad(be, &p, i ? PKV_BAD_RANGE : PKV_BAD_NULL_BLOCK, 1, (uint32_t)entry, wrong[i]);
        cuda_assert_same(&zeros, 0, &r, 0, 2, "an id that is none");
        cuda_rows_free(&r);
    }
    cuda_rows_free(&zeros);
    cuda_free(&p);
    pkv_backend_destroy(be);
}
static void test_wrong_ids(void **state)
{
    static const int32_t block_tokens[] = { 16, 32, 5 };
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int way = 0; way < 4; way++) {
            const int32_t last = (150 - 1) / block_tokens[i], entries[] = { 1, last };
            run_wrong_id(block_tokens[i], way % 2 ? 5.f : 0, entries[way / 2]);
        }
}

/* The number of a sequence that a CTA has not loaded with the first ones; the report and, without
 * a table, the block. */
static void test_far_sequence(void **state)
{
    enum { N = 140 };
    struct cuda_seq seqs[N];
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    for (int32_t b = 0; b < N; b++) seqs[b] = (struct cuda_seq){ b, 1, 1 + b % 16 };
    cuda_build(&p, &plain, seqs, N, 0);
    cuda_make_workspace(be, &p);
    const int32_t was = p.table[133];
    p.table[133] = -7;
    struct cuda_rows r = run_bad(be, &p, PKV_BAD_RANGE, 133, 0, -7);
    cuda_rows_free(&r);
    p.table[133] = was;
    p.k.data = (char *)p.k.data + p.k.block_stride * 2; /* sequence b lies in block b + 1 */
    p.v.data = (char *)p.v.data + p.v.block_stride * 2;
    p.k.n_blocks = p.v.n_blocks = N;
    p.batch.table = NULL;
    r = cuda_result(be, &p);
    cuda_assert_right(&p, &r);
    p.batch.q_indptr = NULL; /* a row each */
    struct cuda_rows same = cuda_result(be, &p);
    cuda_assert_same(&r, 0, &same, 0, N, "rows without offsets");
    cuda_rows_free(&r);
    cuda_rows_free(&same);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* The last of many sequences ends behind q: it alone has no rows. */
static void test_rows_behind_q(void **state)
{
    enum { N = 100 };
    struct cuda_seq seqs[N];
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    for (int32_t b = 0; b < N; b++) seqs[b] = (struct cuda_seq){ b, 1, 1 + b % 16 };
    cuda_build(&p, &plain, seqs, N, 0);
    p.q_indptr[N] = N - 1;
    struct cuda_rows right = cuda_result(be, &p);
    p.q_indptr[N] = INT_MAX;
    struct cuda_rows r = run_bad(be, &p, PKV_BAD_Q_INDPTR, N - 1, N, INT_MAX);
    cuda_assert_same(&right, 0, &r, 0, N, "rows behind q");
    cuda_rows_free(&right);
    cuda_rows_free(&r);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* One sequence may have a row of ids without end. */
static void test_endless_row(void **state)
{
    static const struct cuda_seq seq = { 1, 1, 100 };
    struct cuda_shape shape = plain;
    struct cuda_problem p;
    pkv_backend *be = cuda_backend(NULL, 1);
    (void)state;
    shape.block_tokens = 256; /* times the ids a negative number, if nobody takes care */
    cuda_build(&p, &shape, &seq, 1, 0);
    p.batch.table_stride = INT64_C(1) << 55;
    cuda_run_right(be, &p);
    cuda_free(&p);
    pkv_backend_destroy(be);
}

/* Two rows that see a few keys each, far from each other: entries in front of, between and behind
 * them hold no id, and are not looked at. */
static void test_ids_not_seen(void **state)
{
    static const struct cuda_seq seqs[] = { { 1, 1, 20 }, { 2, 2, 100 } };
    static const int32_t block_tokens[] = { 16, 4 };
    (void)state;
    for (int i = 0; i < 2; i++)
        for (int32_t at = 16; at < 32; at++) {
            struct cuda_shape shape = plain;
            struct cuda_problem p;
            pkv_backend *be = cuda_backend(NULL, 2);
            shape.block_tokens = block_tokens[i];
            cuda_build(&p, &shape, seqs, 2, 0);
            int32_t *const q_pos = cuda_take(&p, 3 * sizeof(int32_t));
            q_pos[0] = 0;
            q_pos[1] = at;
            q_pos[2] = at + 32;
            p.batch.q_pos = q_pos;
            p.batch.q_detached = 1;
            p.opts.window_left = 0;
            int32_t *const ids = p.table + p.batch.table_stride;
            for (int32_t e = 0; e < (100 + block_tokens[i] - 1) / block_tokens[i]; e++)
                if (e != at / block_tokens[i] && e != (at + 32) / block_tokens[i]) ids[e] = INT_MIN;
            cuda_run_right(be, &p);
            cuda_free(&p);
            pkv_backend_destroy(be);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_row_behind_table), cmocka_unit_test(test_contiguous_lengths),
        cmocka_unit_test(test_wrong_ids),        cmocka_unit_test(test_far_sequence),
        cmocka_unit_test(test_rows_behind_q),    cmocka_unit_test(test_endless_row),
        cmocka_unit_test(test_ids_not_seen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
