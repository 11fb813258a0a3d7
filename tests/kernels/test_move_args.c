/* Arguments of moves and of merge that break a contract: a status each, and nothing is written. */
#include "arg_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

static void expect_write(struct args *a, pkv_status want)
{
    const pkv_status got = pkv_kv_write(a->be, &a->write);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    assert_true(all_bytes(a->store, sizeof(a->store), 0x11));
    args_reset(a);
}

static void kv_write(void **state)
{
    struct args *a = *state;
    args_reset(a);
    assert_int_equal(pkv_kv_write(NULL, &a->write), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_write(a->be, NULL), PKV_E_INVALID_ARG);
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
    a->v.block_tokens = 2, expect_write(a, PKV_E_INVALID_ARG);
    a->write.v = NULL, a->new_k.head_stride = a->k.head_stride = 0;
    a->new_k.n_heads = a->k.n_heads = 65537, expect_write(a, PKV_E_INVALID_ARG);
}

/* What does not fit a word of the report is the largest number, not its low half. */
static void far_slot(void **state)
{
    struct args *a = *state;
    uint32_t bad[4] = { 0, 9, 9, 9 };
    args_reset(a);
    a->write.bad = bad;
    a->slots[1] = (INT64_C(1) << 32) + BT;
    assert_int_equal(pkv_kv_write(a->be, &a->write), PKV_E_INVALID_ARG);
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
    assert_int_equal(pkv_blocks_copy(NULL, pool, 8, 4, &copy, 1, NULL, 0), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, NULL, 8, 4, &copy, 1, NULL, 0), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 0, 4, &copy, 1, NULL, 0), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, SIZE_MAX / 2, 4, &copy, 1, NULL, 0),
                     PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 0, &copy, 1, NULL, 0), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 4, NULL, 1, NULL, 0), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 4, &copy, -1, NULL, 0), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(NULL, pool, 8, 4, &id, 1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, NULL, 8, 4, &id, 1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 4, NULL, 1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 1, &id, 1), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 4, &id, -1), PKV_E_INVALID_ARG);
    assert_true(all_bytes(pool, sizeof(pool), 0x22));
    assert_int_equal(pkv_blocks_copy(a->be, pool, 8, 4, NULL, 0, NULL, 0), PKV_OK);
    assert_int_equal(pkv_blocks_zero(a->be, pool, 8, 4, NULL, 0), PKV_OK);
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
    const pkv_status got = pkv_states_merge(a->be, m->o, m->lse, 2, &m->out, &m->out_lse);
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
    assert_int_equal(pkv_states_merge(NULL, m->o, m->lse, 2, &m->out, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, NULL, m->lse, 2, &m->out, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, NULL, 2, &m->out, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, m->lse, 0, &m->out, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, m->lse, 2, NULL, NULL), PKV_E_INVALID_ARG);
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
    m->out_lse.data = m->lse_data[1], expect_merge(a, m, PKV_E_INVALID_ARG);
    assert_int_equal(pkv_states_merge(a->be, m->o, m->lse, 2, &m->out, NULL), PKV_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kv_write),
        cmocka_unit_test(far_slot),
        cmocka_unit_test(moves),
        cmocka_unit_test(merge),
    };
    return cmocka_run_group_tests_name("move_args", tests, args_setup, args_teardown);
}
