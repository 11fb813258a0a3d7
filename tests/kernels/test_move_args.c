/* Arguments of moves and of merge that break a contract: a status each, and nothing is written. */
#include "arg_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static void expect_write_word(struct args *a, pkv_status want, const char *word)
{
    const pkv_status got = pkv_kv_write(a->be, &a->write, NULL);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    if (!strstr(a->log, word)) fail_msg("'%s' does not name '%s'", a->log, word);
    assert_true(all_bytes(a->store, sizeof(a->store), 0x11));
    args_reset(a);
}

static void expect_write(struct args *a, pkv_status want)
{
    expect_write_word(a, want, "");
}

static void kv_write(void **state)
{
    struct args *a = *state;
    void *odd = (char *)a->slots + 1;
    args_reset(a);
    assert_int_equal(pkv_kv_write(NULL, &a->write, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_write(a->be, NULL, NULL), PKV_E_INVALID_ARG);
    args_reset(a);
    a->write.struct_size++, expect_write(a, PKV_E_ABI);
    a->write.k = NULL, expect_write(a, PKV_E_INVALID_ARG);
    a->write.k_view = NULL, expect_write(a, PKV_E_INVALID_ARG);
    a->write.v_view = NULL, expect_write(a, PKV_E_INVALID_ARG);
    a->write.slots = NULL, expect_write(a, PKV_E_INVALID_ARG);
    a->new_k.dtype = PKV_I8, expect_write(a, PKV_E_UNSUPPORTED);
    a->new_k.n_heads = 1, expect_write(a, PKV_E_INVALID_ARG);
    a->new_v.dim = 8, expect_write(a, PKV_E_INVALID_ARG);
    a->new_v.n_rows = 1, expect_write(a, PKV_E_INVALID_ARG);
    a->new_v.data = a->new_data[1] + 1, expect_write(a, PKV_E_INVALID_ARG);
    a->v.n_blocks = 2, expect_write(a, PKV_E_INVALID_ARG);
    a->k.token_stride = 0, expect_write(a, PKV_E_INVALID_ARG); /* rows that overlap */
    a->v.head_stride = DIM - 4, expect_write(a, PKV_E_INVALID_ARG);
    a->write.slots = odd, expect_write(a, PKV_E_INVALID_ARG);
    a->write.n_valid = odd, expect_write(a, PKV_E_INVALID_ARG);
    a->write.bad = odd, expect_write(a, PKV_E_INVALID_ARG);
    a->write.q = &a->q, a->write.q_out = &a->out, a->out.head_stride = 0;
    expect_write(a, PKV_E_INVALID_ARG);
    a->write.q = &a->q, a->write.q_out = &a->out, a->out.row_stride = DIM;
    expect_write(a, PKV_E_INVALID_ARG);
    a->v.block_tokens = 2, expect_write(a, PKV_E_INVALID_ARG);
    a->write.v = NULL, a->new_k.head_stride = a->k.head_stride = 0;
    a->new_k.n_heads = a->k.n_heads = 65537, expect_write(a, PKV_E_INVALID_ARG);
}

static void norm_rope_and_q(void **state)
{
    struct args *a = *state;
    float *odd = (float *)(void *)((char *)a->q_data + 2);
    const int32_t pos[ROWS] = { 0, 0 };
    pkv_tensor3 q_out;
#define REFUSED(word) expect_write_word(a, PKV_E_INVALID_ARG, word)
    args_reset(a);
    q_out = a->q;
    a->write.norm_eps = -1.f, REFUSED("norm_eps");
    a->write.norm_eps = INFINITY, REFUSED("norm_eps");
    a->write.k_norm = odd, REFUSED("norm weights");
    a->write.q_norm = odd, REFUSED("norm weights");
    a->write.rope = odd, REFUSED("rope not aligned");
    a->write.rope_interleaved = 2, REFUSED("rope_interleaved");
    a->write.reserved[6] = 1, REFUSED("reserved");
    a->write.rope = a->q_data, REFUSED("rope without pos");
    for (int32_t rot_dim = -2; rot_dim <= DIM + 2; rot_dim++) {
        if (rot_dim >= 2 && rot_dim <= DIM && rot_dim % 2 == 0) continue;
        a->write.rope = a->q_data, a->write.pos = pos, a->write.n_rope_pos = 1;
        a->write.rot_dim = rot_dim, REFUSED("rot_dim");
    }
    a->write.rope = a->q_data, a->write.pos = pos, a->write.rot_dim = 2;
    a->write.n_rope_pos = -1, REFUSED("-1 positions");
    a->write.q = &a->q, REFUSED("q_out: null");
    a->write.q_out = &q_out, REFUSED("q: null");
    a->write.q = &a->q, a->write.q_out = &q_out, q_out.n_rows = 1, REFUSED("differ in shape");
    q_out = a->q, q_out.row_stride = 2 * HEADS * DIM;
    a->write.q = &a->q, a->write.q_out = &q_out, REFUSED("q_out overlaps q");
    q_out = a->q, q_out.data = a->new_data[0];
    a->write.q = &a->q, a->write.q_out = &q_out, REFUSED("q_out overlaps k");
    q_out.data = a->store[1];
    a->write.q = &a->q, a->write.q_out = &q_out, REFUSED("q_out overlaps k or v");
#undef REFUSED
}

/* Rows out of a store: out keeps its bytes. */
static void expect_gather(struct args *a, const pkv_kv_view *view, const int64_t *slots,
                          pkv_tensor3 *out, pkv_status want)
{
    const pkv_status got = pkv_kv_gather(a->be, view, slots, out, NULL, NULL);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    assert_true(all_bytes(&a->result, sizeof(a->result), 0x5a));
    args_reset(a);
}

static void kv_gather(void **state)
{
    struct args *a = *state;
    pkv_tensor3 out, good;
    void *odd = (char *)a->slots + 1;
    args_reset(a);
    good = out = (pkv_tensor3){ a->result.out, PKV_F32, KV_HEADS, DIM, ROWS, KV_HEADS * DIM, DIM };
    assert_int_equal(pkv_kv_gather(NULL, &a->k, a->slots, &out, NULL, NULL), PKV_E_INVALID_ARG);
    expect_gather(a, NULL, a->slots, &out, PKV_E_INVALID_ARG);
    expect_gather(a, &a->k, NULL, &out, PKV_E_INVALID_ARG);
    expect_gather(a, &a->k, a->slots, NULL, PKV_E_INVALID_ARG);
    out.dtype = PKV_I8, expect_gather(a, &a->k, a->slots, &out, PKV_E_UNSUPPORTED);
    out = good, out.n_heads = 1, expect_gather(a, &a->k, a->slots, &out, PKV_E_INVALID_ARG);
    out = good, out.dim = 8, expect_gather(a, &a->k, a->slots, &out, PKV_E_INVALID_ARG);
    out = good, out.n_rows = -1, expect_gather(a, &a->k, a->slots, &out, PKV_E_INVALID_ARG);
    out = good, a->k.n_blocks = 0, expect_gather(a, &a->k, a->slots, &out, PKV_E_INVALID_ARG);
    expect_gather(a, &a->k, odd, &out, PKV_E_INVALID_ARG);
    out.row_stride = 0, expect_gather(a, &a->k, a->slots, &out, PKV_E_INVALID_ARG);
    out = good, out.head_stride = DIM - 4;
    expect_gather(a, &a->k, a->slots, &out, PKV_E_INVALID_ARG);
    out = good;
    assert_int_equal(pkv_kv_gather(a->be, &a->k, a->slots, &out, odd, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_gather(a->be, &a->k, a->slots, &out, NULL, NULL), PKV_OK);
}

static void rope_fill(void **state)
{
    float table[8];
    const double freq[2] = { 1., .5 };
    (void)state;
    memset(table, 0x33, sizeof(table));
    assert_int_equal(pkv_rope_fill(NULL, 0, 1, freq, 4, 1.), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_rope_fill(table, 0, 1, NULL, 4, 1.), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_rope_fill(table, -1, 1, freq, 4, 1.), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_rope_fill(table, 0, -1, freq, 4, 1.), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_rope_fill(table, 0, 1, freq, 3, 1.), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_rope_fill(table, 0, 1, freq, 0, 1.), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_rope_fill(table, 0, 1, freq, 258, 1.), PKV_E_INVALID_ARG);
    assert_true(all_bytes(table, sizeof(table), 0x33));
    assert_int_equal(pkv_rope_fill(table, 0, 2, freq, 4, 1.), PKV_OK);
}

static void blocks_out_and_in(void **state)
{
    struct args *a = *state;
    char pool[4 * 8], out[2 * 8];
    int32_t ids[2] = { 1, 3 }, twice[2] = { 2, 2 }, null_block[2] = { 0, 1 }, far[2] = { 1, 4 };
    pkv_backend *be = a->be;
    args_reset(a);
    memset(pool, 0x22, sizeof(pool));
    memset(out, 0x44, sizeof(out));
#define GATHER(be, pool, bytes, n_blocks, ids, n, dst)                                             \
    assert_int_equal(pkv_blocks_gather(be, pool, bytes, n_blocks, ids, n, dst, NULL),              \
                     PKV_E_INVALID_ARG)
#define SCATTER(be, src, ids, n, pool, bytes, n_blocks)                                            \
    assert_int_equal(pkv_blocks_scatter(be, src, ids, n, pool, bytes, n_blocks, NULL),             \
                     PKV_E_INVALID_ARG)
    GATHER(NULL, pool, 8, 4, ids, 2, out);
    GATHER(be, NULL, 8, 4, ids, 2, out);
    GATHER(be, pool, 0, 4, ids, 2, out);
    GATHER(be, pool, 8, 0, ids, 2, out);
    GATHER(be, pool, 8, 4, NULL, 2, out);
    GATHER(be, pool, 8, 4, ids, -1, out);
    GATHER(be, pool, 8, 4, ids, 2, NULL);
    GATHER(be, pool, 8, 4, far, 2, out);
    GATHER(be, pool, 8, 4, ids, 2, pool + 8);
    SCATTER(NULL, out, ids, 2, pool, 8, 4);
    SCATTER(be, NULL, ids, 2, pool, 8, 4);
    SCATTER(be, out, NULL, 2, pool, 8, 4);
    SCATTER(be, out, ids, -1, pool, 8, 4);
    SCATTER(be, out, ids, 2, NULL, 8, 4);
    SCATTER(be, out, ids, 2, pool, 0, 4);
    SCATTER(be, out, far, 2, pool, 8, 4);
    SCATTER(be, out, null_block, 2, pool, 8, 4);
    SCATTER(be, out, twice, 2, pool, 8, 4);
#undef GATHER
#undef SCATTER
    assert_true(all_bytes(pool, sizeof(pool), 0x22) && all_bytes(out, sizeof(out), 0x44));
    assert_int_equal(pkv_blocks_scatter(be, out, ids, 2, pool, 8, 4, NULL), PKV_OK);
    assert_int_equal(pkv_blocks_gather(be, pool, 8, 4, null_block, 2, out, NULL), PKV_OK);
}

static void table_check(void **state)
{
    struct args *a = *state;
    uint32_t bad[4] = { 0 };
    args_reset(a);
#define CHECK_IS(want, be, batch, opts, n_rows, n_blocks, bt, bad)                                 \
    assert_int_equal(pkv_table_check(be, batch, opts, n_rows, n_blocks, bt, bad, NULL), want)
    CHECK_IS(PKV_E_INVALID_ARG, NULL, &a->batch, &a->opts, ROWS, BLOCKS, BT, bad);
    CHECK_IS(PKV_E_INVALID_ARG, a->be, NULL, &a->opts, ROWS, BLOCKS, BT, bad);
    CHECK_IS(PKV_E_INVALID_ARG, a->be, &a->batch, &a->opts, -1, BLOCKS, BT, bad);
    CHECK_IS(PKV_E_INVALID_ARG, a->be, &a->batch, &a->opts, ROWS, 0, BT, bad);
    CHECK_IS(PKV_E_INVALID_ARG, a->be, &a->batch, &a->opts, ROWS, BLOCKS, 0, bad);
    CHECK_IS(PKV_E_INVALID_ARG, a->be, &a->batch, &a->opts, ROWS, BLOCKS, BT, NULL);
    a->batch.q_detached = 1; /* without q_pos */
    CHECK_IS(PKV_E_INVALID_ARG, a->be, &a->batch, NULL, ROWS, BLOCKS, BT, bad);
    args_reset(a), a->opts.struct_size++;
    CHECK_IS(PKV_E_ABI, a->be, &a->batch, &a->opts, ROWS, BLOCKS, BT, bad);
    args_reset(a), a->batch.struct_size++;
    CHECK_IS(PKV_E_ABI, a->be, &a->batch, &a->opts, ROWS, BLOCKS, BT, bad);
    args_reset(a);
    CHECK_IS(PKV_OK, a->be, &a->batch, &a->opts, ROWS, BLOCKS, BT, bad);
    CHECK_IS(PKV_OK, a->be, &a->batch, NULL, ROWS, BLOCKS, BT, bad);
    assert_int_equal(bad[0], 0);
#undef CHECK_IS
}

/* What does not fit a word of the report is the largest number, not its low half. */
static void far_slot(void **state)
{
    struct args *a = *state;
    uint32_t bad[4] = { 0, 9, 9, 9 };
    args_reset(a);
    a->write.bad = bad;
    a->slots[1] = (INT64_C(1) << 32) + BT;
    assert_int_equal(pkv_kv_write(a->be, &a->write, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(bad[0], PKV_BAD_SLOT);
    assert_int_equal(bad[1], 0);
    assert_int_equal(bad[2], 1);
    assert_true(bad[3] == UINT32_MAX);
}

static void moves(void **state)
{
    struct args *a = *state;
    char pool[4 * 8];
    const pkv_block_copy copy = { 1, 2, 1, 0 };
    const int32_t id = 1;
    args_reset(a);
    memset(pool, 0x22, sizeof(pool));
    assert_int_equal(pkv_blocks_copy(NULL, pool, 8, 4, &copy, 1, NULL, 0, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, NULL, 8, 4, &copy, 1, NULL, 0, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 0, 4, &copy, 1, NULL, 0, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, SIZE_MAX / 2, 4, &copy, 1, NULL, 0, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 0, &copy, 1, NULL, 0, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 4, NULL, 1, NULL, 0, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 4, &copy, -1, NULL, 0, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(NULL, pool, 8, 4, &id, 1, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, NULL, 8, 4, &id, 1, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 4, NULL, 1, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 1, &id, 1, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 4, &id, -1, NULL), PKV_E_INVALID_ARG);
    assert_true(all_bytes(pool, sizeof(pool), 0x22));
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 4, NULL, 0, NULL, 0, NULL), PKV_OK);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 4, NULL, 0, NULL), PKV_OK);
}

struct merge_args {
    pkv_tensor3 o[2], out;
    pkv_lse lse[2], out_lse;
    _Alignas(16) float data[2][ROWS * HEADS * DIM];
    float lse_data[2][ROWS * HEADS];
    struct {
        _Alignas(16) float out[ROWS * HEADS * DIM], lse[ROWS * HEADS];
    } result;
};

static struct merge_args *fresh_merge(struct merge_args *m)
{
    memset(m, 0, sizeof(*m));
    for (int s = 0; s < 2; s++) {
        m->o[s] = (pkv_tensor3){ m->data[s], PKV_F32, HEADS, DIM, ROWS, HEADS * DIM, DIM };
        m->lse[s] = (pkv_lse){ m->lse_data[s], HEADS, 1, 0 };
    }
    m->out = m->o[0];
    m->out.data = m->result.out;
    m->out_lse = m->lse[0];
    m->out_lse.data = m->result.lse;
    memset(&m->result, 0x5a, sizeof(m->result));
    return m;
}

static void expect_merge(struct args *a, struct merge_args *m, pkv_status want)
{
    const pkv_status got = pkv_states_merge(a->be, m->o, m->lse, 2, NULL, &m->out, &m->out_lse);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    assert_true(all_bytes(&m->result, sizeof(m->result), 0x5a));
    assert_true(all_bytes(m->data, sizeof(m->data), 0));
    a->n_logs = 0;
    fresh_merge(m);
}

static void merge(void **state)
{
    struct args *a = *state;
    static struct merge_args storage;
    struct merge_args *m = fresh_merge(&storage);
    args_reset(a);
    assert_int_equal(pkv_states_merge(NULL, m->o, m->lse, 2, NULL, &m->out, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, NULL, m->lse, 2, NULL, &m->out, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, NULL, 2, NULL, &m->out, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, m->lse, 0, NULL, &m->out, NULL),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, m->lse, 2, NULL, NULL, NULL), PKV_E_INVALID_ARG);
    a->n_logs = 0;
    m->lse[1].base2 = 1, expect_merge(a, m, PKV_E_INVALID_ARG); /* KT5: unlike bases */
    m->out_lse.base2 = 1, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->lse[1].data = NULL, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->o[1].n_rows = 1, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->o[1].dim = 8, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->o[1].dtype = PKV_F16, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->o[0].dtype = m->o[1].dtype = PKV_I8, expect_merge(a, m, PKV_E_UNSUPPORTED);
    m->o[1].data = m->data[1] + 1, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->out.n_heads = 2, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->out.data = m->data[1], expect_merge(a, m, PKV_E_INVALID_ARG); /* only o[0] may be out */
    m->out.data = m->data[0], m->out.dtype = PKV_F16, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->out.row_stride = DIM, expect_merge(a, m, PKV_E_INVALID_ARG); /* rows that overlap */
    m->out_lse.row_stride = 0, expect_merge(a, m, PKV_E_INVALID_ARG);
    m->out_lse.data = m->lse_data[1], expect_merge(a, m, PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, m->lse, 2, NULL, &m->out, NULL), PKV_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_write),
        cmocka_unit_test(norm_rope_and_q),
        cmocka_unit_test(kv_gather),
        cmocka_unit_test(rope_fill),
        cmocka_unit_test(blocks_out_and_in),
        cmocka_unit_test(table_check),
        cmocka_unit_test(far_slot),
        cmocka_unit_test(moves),
        cmocka_unit_test(merge),
    };
    return cmocka_run_group_tests_name("move_args", tests, args_setup, args_teardown);
}
