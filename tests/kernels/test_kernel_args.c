/* Every argument of attention that breaks a contract gives its status, and nothing is written. */
#include "arg_fixture.h"
#include "test_levels.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

static pkv_status run_attention(struct args *a)
{
    return pkv_attn_run(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, a->workspace,
                        a->workspace_bytes, NULL, &a->out, &a->lse);
}

/* What was broken is refused with `want`, for a reason that names it, leaves no trace, and has no
 * kernel name if it concerns the inputs; then everything is put right again. */
static void expect_attention(struct args *a, pkv_status want, const char *word, bool of_inputs)
{
    const pkv_status got = run_attention(a);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    if (!strstr(a->log, word)) fail_msg("'%s' does not name '%s'", a->log, word);
    assert_true(all_bytes(&a->result, sizeof(a->result), 0x5a));
    const char *name = pkv_attn_kernel_name(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, 1);
    assert_int_equal(name == NULL, of_inputs);
    args_reset(a);
}
#define REFUSED(a, want, word) expect_attention(a, want, word, true)
#define REFUSED_OUTPUT(a, want, word) expect_attention(a, want, word, false)

static void valid_calls_pass(void **state)
{
    struct args *a = *state;
    args_reset(a);
    assert_int_equal(run_attention(a), PKV_OK);
    assert_int_equal(a->n_logs, 0);
    assert_int_equal(pkv_kv_write(a->be, &a->write, NULL), PKV_OK);
    assert_int_equal(pkv_attn_run(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, a->workspace,
                                  a->workspace_bytes, NULL, &a->out, NULL),
                     PKV_OK);
    a->batch.n_seqs = 0;
    assert_int_equal(run_attention(a), PKV_OK);
}

static void null_pointers(void **state)
{
    struct args *a = *state;
    void *w = a->workspace;
    const size_t n = sizeof(a->workspace);
    args_reset(a);
#define RUN(be, q, k, v, b, o, w, out) pkv_attn_run(be, q, k, v, b, o, w, n, NULL, out, &a->lse)
    assert_int_equal(RUN(NULL, &a->q, &a->k, &a->v, &a->batch, &a->opts, w, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, NULL, &a->k, &a->v, &a->batch, &a->opts, w, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, &a->q, NULL, &a->v, &a->batch, &a->opts, w, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, &a->q, &a->k, NULL, &a->batch, &a->opts, w, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, &a->q, &a->k, &a->v, NULL, &a->opts, w, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, &a->q, &a->k, &a->v, &a->batch, NULL, w, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, NULL, &a->out),
                     PKV_E_INVALID_ARG);
    assert_int_equal(RUN(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, w, NULL),
                     PKV_E_INVALID_ARG);
#undef RUN
    assert_true(all_bytes(&a->result, sizeof(a->result), 0x5a));
}

static void queries(void **state)
{
    struct args *a = *state;
    args_reset(a);
    a->q.data = NULL, REFUSED(a, PKV_E_INVALID_ARG, "q: no data");
    a->q.data = a->q_data + 1, REFUSED(a, PKV_E_INVALID_ARG, "q: rows are not 16-byte");
    a->q.dtype = (pkv_dtype)99, REFUSED(a, PKV_E_INVALID_ARG, "q: dtype 99");
    a->q.dtype = (pkv_dtype)-1, REFUSED(a, PKV_E_INVALID_ARG, "q: dtype -1");
    a->q.dtype = PKV_E4M3, REFUSED(a, PKV_E_UNSUPPORTED, "q: no kernel for dtype e4m3");
    a->q.n_rows = -1, REFUSED(a, PKV_E_INVALID_ARG, "q: no data, or negative");
    a->q.n_rows = INT64_C(1) << 32, REFUSED(a, PKV_E_INVALID_ARG, "q: more than 2^31");
    a->q.n_heads = 0, REFUSED(a, PKV_E_INVALID_ARG, "q: ");
    a->q.n_heads = 3, REFUSED(a, PKV_E_INVALID_ARG, "3 query heads");
    a->q.n_heads = 65538, REFUSED(a, PKV_E_INVALID_ARG, "q: 65538 heads");
    a->q.dim = 8, REFUSED(a, PKV_E_INVALID_ARG, "q has dim 8, k has 16");
    a->q.dim = 0, REFUSED(a, PKV_E_INVALID_ARG, "q: dtype 0, dim 0");
    a->q.dim = 12, REFUSED(a, PKV_E_UNSUPPORTED, "q: dim 12");
    a->q.dim = 264, REFUSED(a, PKV_E_UNSUPPORTED, "q: dim 264");
    a->q.row_stride = HEADS * DIM + 2, REFUSED(a, PKV_E_INVALID_ARG, "q: rows are not 16-byte");
    a->q.head_stride = -DIM, REFUSED(a, PKV_E_INVALID_ARG, "q: strides");
    a->q.row_stride = INT64_MAX / 8 * 4, REFUSED(a, PKV_E_INVALID_ARG, "q: strides");
}

static void views(void **state)
{
    struct args *a = *state;
    args_reset(a);
    a->k.data = NULL, REFUSED(a, PKV_E_INVALID_ARG, "k: no data");
    a->v.data = a->store[1] + 2, REFUSED(a, PKV_E_INVALID_ARG, "v: rows are not 16-byte");
    a->k.dtype = (pkv_dtype)77, REFUSED(a, PKV_E_INVALID_ARG, "k: dtype 77");
    a->v.dtype = PKV_F16, REFUSED(a, PKV_E_UNSUPPORTED, "k is f32 and v is f16");
    a->v.n_blocks = BLOCKS - 1, REFUSED(a, PKV_E_INVALID_ARG, "k and v disagree");
    a->k.n_blocks = a->v.n_blocks = 0, REFUSED(a, PKV_E_INVALID_ARG, "k: no data, blocks");
    a->v.block_tokens = 5, REFUSED(a, PKV_E_INVALID_ARG, "k and v disagree");
    a->k.block_tokens = a->v.block_tokens = 0, REFUSED(a, PKV_E_INVALID_ARG, "tokens");
    a->v.n_heads = 1, REFUSED(a, PKV_E_INVALID_ARG, "k and v disagree");
    a->k.n_heads = a->v.n_heads = -2, REFUSED(a, PKV_E_INVALID_ARG, "heads");
    a->q.n_heads = a->k.n_heads = a->v.n_heads = 65537;
    REFUSED(a, PKV_E_INVALID_ARG, "65537 heads");
    a->k.token_stride = 3, REFUSED(a, PKV_E_INVALID_ARG, "k: rows are not 16-byte");
    a->v.head_stride = -4, REFUSED(a, PKV_E_INVALID_ARG, "v: strides");
    a->k.block_stride = INT64_MAX - 3, REFUSED(a, PKV_E_INVALID_ARG, "k: strides");
    a->k.n_blocks = a->v.n_blocks = 1; /* nothing is multiplied by it, but it has no bytes */
    a->k.block_stride = INT64_C(1) << 60, REFUSED(a, PKV_E_INVALID_ARG, "k: strides");
    a->v.dim = 20, REFUSED(a, PKV_E_UNSUPPORTED, "v: dim 20");
}

/* The same memory as rows of codes of this type, with strides of whole 16 bytes. */
static void use_codes(struct args *a, pkv_dtype dtype)
{
    const int64_t row = 128 / pkv_dtype_bits(dtype);
    a->k.dtype = a->v.dtype = dtype;
    a->k.head_stride = a->v.head_stride = row;
    a->k.token_stride = a->v.token_stride = KV_HEADS * row;
    a->k.block_stride = a->v.block_stride = BT * KV_HEADS * row;
}

static void scales(void **state)
{
    struct args *a = *state;
    float *data = a->store[1];
    args_reset(a);
    for (int t = PKV_F32; t < PKV_DTYPE_COUNT; t++) { /* who takes what */
        const bool codes = t > PKV_BF16;
        use_codes(a, (pkv_dtype)t);
        a->k.head_stride = a->v.head_stride = DIM;
        if (codes) use_codes(a, (pkv_dtype)t);
        assert_int_equal(run_attention(a), PKV_OK);
        memset(&a->result, 0x5a, sizeof(a->result));
        a->k.scales.data = data;
        if (codes) assert_int_equal(run_attention(a), PKV_OK), args_reset(a);
        else REFUSED(a, PKV_E_INVALID_ARG, "takes no scales");
        use_codes(a, (pkv_dtype)t);
        a->v.zeros.data = data;
        if (t == PKV_U4) assert_int_equal(run_attention(a), PKV_OK), args_reset(a);
        else REFUSED(a, PKV_E_INVALID_ARG, "takes no zeros");
    }
    use_codes(a, PKV_U4), a->k.head_stride = 16;
    REFUSED(a, PKV_E_INVALID_ARG, "k: rows are not 16-byte");
    use_codes(a, PKV_U4), a->v.token_stride = 72;
    REFUSED(a, PKV_E_INVALID_ARG, "v: rows are not 16-byte");
    use_codes(a, PKV_I8), a->v.block_stride = 8 * BT * KV_HEADS + 8;
    REFUSED(a, PKV_E_INVALID_ARG, "v: rows are not 16-byte");
    use_codes(a, PKV_I8), a->k.scales.data = (float *)(void *)((char *)data + 2);
    REFUSED(a, PKV_E_INVALID_ARG, "k: alignment or strides of scales");
    use_codes(a, PKV_E4M3), a->v.scales = (pkv_scales){ data, -1, 0, 0 };
    REFUSED(a, PKV_E_INVALID_ARG, "v: alignment or strides of scales");
    use_codes(a, PKV_U4), a->k.zeros = (pkv_scales){ data, INT64_MAX / 4, 1, 1 };
    REFUSED(a, PKV_E_INVALID_ARG, "k: alignment or strides of scales");
}

static void batches(void **state)
{
    struct args *a = *state;
    const int32_t q_pos[ROWS] = { 2, 2 };
    const int32_t *odd = (const int32_t *)(const void *)((const char *)a->kv_len + 1);
    args_reset(a);
    a->batch.struct_size--, REFUSED(a, PKV_E_ABI, "batch: struct_size");
    a->batch.n_seqs = -1, REFUSED(a, PKV_E_INVALID_ARG, "batch: n_seqs -1");
    a->batch.kv_len = NULL, REFUSED(a, PKV_E_INVALID_ARG, "no kv_len");
    a->batch.table_stride = -1, REFUSED(a, PKV_E_INVALID_ARG, "table_stride");
    a->batch.table_stride = INT64_MAX / 2, REFUSED(a, PKV_E_INVALID_ARG, "table_stride");
    a->batch.kv_len = odd, REFUSED(a, PKV_E_INVALID_ARG, "batch: alignment");
    a->batch.table = odd, REFUSED(a, PKV_E_INVALID_ARG, "batch: alignment");
    a->batch.q_pos = odd, REFUSED(a, PKV_E_INVALID_ARG, "batch: alignment");
    a->batch.table = NULL, a->batch.table_indptr = a->q_indptr;
    REFUSED(a, PKV_E_INVALID_ARG, "table_indptr without table");
    a->batch.table = NULL, a->batch.n_seqs = BLOCKS + 1;
    REFUSED(a, PKV_E_INVALID_ARG, "4 contiguous sequences in 3 blocks");
    a->batch.q_indptr = NULL, a->batch.n_seqs = ROWS + 1;
    REFUSED(a, PKV_E_INVALID_ARG, "3 sequences of one row, 2 rows");
    a->batch.q_detached = 1, REFUSED(a, PKV_E_INVALID_ARG, "q_detached needs q_pos");
    a->batch.max_q_len = -1, REFUSED(a, PKV_E_INVALID_ARG, "max_q_len is -1");
    a->batch.q_pos = q_pos, a->batch.q_detached = 2;
    REFUSED(a, PKV_E_INVALID_ARG, "q_detached is neither");
    a->batch.reserved[0] = 1, REFUSED(a, PKV_E_INVALID_ARG, "batch: reserved");
    a->batch.reserved[2] = 1, REFUSED(a, PKV_E_INVALID_ARG, "batch: reserved");
    a->batch.q_pos = q_pos, a->batch.q_detached = 1;
    assert_int_equal(run_attention(a), PKV_OK);
}

static void options(void **state)
{
    struct args *a = *state;
    float *odd = (float *)(void *)((char *)a->q_data + 2);
    args_reset(a);
    a->opts.struct_size = 0, REFUSED(a, PKV_E_ABI, "opts: struct_size");
    a->opts.scale = NAN, REFUSED(a, PKV_E_INVALID_ARG, "scale");
    a->opts.scale = INFINITY, REFUSED(a, PKV_E_INVALID_ARG, "scale");
    a->opts.softcap = -1.f, REFUSED(a, PKV_E_INVALID_ARG, "softcap");
    a->opts.softcap = NAN, REFUSED(a, PKV_E_INVALID_ARG, "softcap");
    a->opts.window_left = -2, REFUSED(a, PKV_E_INVALID_ARG, "window");
    a->opts.window_right = INT32_MIN, REFUSED(a, PKV_E_INVALID_ARG, "window");
    a->opts.causal = 2, REFUSED(a, PKV_E_INVALID_ARG, "causal");
    a->opts.int8_qk = 2, REFUSED(a, PKV_E_INVALID_ARG, "int8_qk");
    a->opts.reserved[0] = 1, REFUSED(a, PKV_E_INVALID_ARG, "opts: reserved");
    a->opts.invariant = 2, REFUSED(a, PKV_E_INVALID_ARG, "invariant");
    a->opts.invariant_chunk = 63, REFUSED(a, PKV_E_INVALID_ARG, "invariant_chunk, 63");
    a->opts.invariant_chunk = -64, REFUSED(a, PKV_E_INVALID_ARG, "invariant_chunk, -64");
    a->opts.alibi = odd, REFUSED(a, PKV_E_INVALID_ARG, "alignment of alibi");
    a->opts.sink = odd, REFUSED(a, PKV_E_INVALID_ARG, "alignment of alibi, sink");
    a->opts.bad = (uint32_t *)(void *)odd, REFUSED(a, PKV_E_INVALID_ARG, "sink or bad");
}

static void masks(void **state)
{
    struct args *a = *state;
    uint32_t mask[ROWS + 1] = { 1, 1 }, bad[4] = { 0 };
    const int32_t q_pos[ROWS] = { 2, 2 };
    args_reset(a);
    a->opts.mask = mask, a->opts.mask_stride = -1;
    REFUSED(a, PKV_E_INVALID_ARG, "stride of mask");
    a->opts.mask = mask, a->opts.mask_stride = INT64_MAX / 2;
    REFUSED(a, PKV_E_INVALID_ARG, "stride of mask");
    a->opts.mask = (const uint32_t *)(const void *)((const char *)mask + 1),
    a->opts.mask_stride = 1;
    REFUSED(a, PKV_E_INVALID_ARG, "alignment or stride of mask");
    a->opts.mask = mask, a->opts.mask_stride = 1, a->batch.q_pos = q_pos, a->batch.q_detached = 1;
    REFUSED(a, PKV_E_INVALID_ARG, "mask with q_detached");
    a->opts.mask = mask, a->opts.mask_stride = 1;
    assert_int_equal(run_attention(a), PKV_OK);
    a->opts.mask_stride = 0, a->opts.bad = bad; /* rows without a bit: reported, written */
    assert_int_equal(run_attention(a), PKV_E_INVALID_ARG);
    assert_int_equal(bad[0], PKV_BAD_MASK);
    a->opts.mask = NULL, a->opts.mask_stride = -7; /* not looked at */
    assert_int_equal(run_attention(a), PKV_OK);
}

/* A sink that is no number: so is lse, of a row without keys too, whose output is still 0. */
static void sink_not_a_number(void **state)
{
    const float sink[HEADS] = { NAN, NAN, NAN, NAN };
    struct args *a = *state;
    pkv_backend *best = a->be;
    for (int i = 0; i < TEST_N_LEVELS; i++) {
        pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
        cfg.max_isa = test_levels[i];
        if (pkv_isa_check(test_levels[i], NULL) != PKV_OK) continue;
        args_reset(a);
        a->be = NULL;
        assert_int_equal(pkv_backend_create_cpu(&cfg, &a->be), PKV_OK);
        memset(a->store, 0, sizeof(a->store));
        a->kv_len[0] = 0;
        a->opts.sink = sink;
        assert_int_equal(run_attention(a), PKV_OK);
        pkv_backend_destroy(a->be);
        a->be = best;
        for (int n = 0; n < ROWS * HEADS; n++)
            if (!isnan(a->result.lse[n])) fail_msg("%s: %d", pkv_isa_name(test_levels[i]), n);
        for (int n = 0; n < HEADS * DIM; n++) assert_true(a->result.out[n] == 0.f);
        for (int n = HEADS * DIM; n < ROWS * HEADS * DIM; n++) assert_true(isnan(a->result.out[n]));
    }
}

static void outputs_and_workspace(void **state)
{
    struct args *a = *state;
    size_t need = 0;
    args_reset(a);
    a->out.dtype = PKV_F16, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out must have dtype");
    a->out.n_rows = ROWS - 1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out must have dtype, rows");
    a->out.n_heads = 2, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out must have");
    a->out.dim = 8, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out must have");
    a->out.data = a->result.out + 1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out: rows");
    a->out.data = a->q_data, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out overlaps");
    a->out.data = a->store[0], REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out overlaps");
    a->out.data = a->store[1], REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out overlaps");
    a->out.row_stride = 0, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out: rows overlap");
    a->out.head_stride = DIM - 4, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "out: rows overlap");
    a->lse.head_stride = 0, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "lse: places overlap");
    a->lse.base2 = 2, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "lse:");
    a->lse.row_stride = -1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "lse:");
    a->lse.data = (float *)(void *)((char *)a->result.lse + 2);
    REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "lse:");
    assert_int_equal(pkv_attn_workspace(a->be, HEADS, KV_HEADS, DIM, DIM, &need), PKV_OK);
    assert_true(need > 0 && need <= sizeof(a->workspace));
    a->workspace_bytes = need - 1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG, "workspace:");
    a->workspace_bytes = need;
    assert_int_equal(run_attention(a), PKV_OK);
}

static void workspace_query(void **state)
{
    struct args *a = *state;
    size_t bytes = 77;
    args_reset(a);
    assert_int_equal(pkv_attn_workspace(NULL, 4, 2, 64, 64, &bytes), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, 4, 2, 64, 64, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, 0, 2, 64, 64, &bytes), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, 4, 3, 64, 64, &bytes), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, 4, 2, 64, -8, &bytes), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, 65537, 1, 64, 64, &bytes), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, 4, 2, 63, 64, &bytes), PKV_E_UNSUPPORTED);
    assert_int_equal(pkv_attn_workspace(a->be, 4, 2, 64, 512, &bytes), PKV_E_UNSUPPORTED);
    assert_int_equal(bytes, 77);
    assert_int_equal(pkv_attn_workspace(a->be, 65536, 65536, 256, 256, &bytes), PKV_OK);
    assert_true(bytes > 2 * (size_t)512 * 258 * sizeof(float)); /* two states of 512 heads */
}

/* Which kernel is named: by rows and options alone. */
static void kernel_names(void **state)
{
    struct args *a = *state;
    args_reset(a);
#define NAME(q_len) pkv_attn_kernel_name(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, q_len)
    assert_non_null(strstr(NAME(1), "attention_short_f32_"));
    assert_non_null(strstr(NAME(16), "attention_short_f32_")); /* 16 rows x group 2 */
    assert_non_null(strstr(NAME(17), "attention_rows_f32_"));
    assert_null(NAME(-1));
    use_codes(a, PKV_U4);
    assert_non_null(strstr(NAME(1), "attention_short_int4_"));
    use_codes(a, PKV_I8);
    assert_non_null(strstr(NAME(1), "attention_short_int8_"));
    a->opts.int8_qk = 1; /* may be taken up */
    assert_non_null(strstr(NAME(1), "attention_short_int8"));
    assert_non_null(strstr(NAME(17), "attention_rows_int8_"));
#undef NAME
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_calls_pass),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(queries),
        cmocka_unit_test(views),
        cmocka_unit_test(scales),
        cmocka_unit_test(batches),
        cmocka_unit_test(options),
        cmocka_unit_test(masks),
        cmocka_unit_test(workspace_query),
        cmocka_unit_test(outputs_and_workspace),
        cmocka_unit_test(sink_not_a_number),
        cmocka_unit_test(kernel_names),
    };
    return cmocka_run_group_tests_name("kernel_args", tests, args_setup, args_teardown);
}
