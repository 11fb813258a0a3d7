/* Latent attention: what breaks a contract is refused without a trace; threads change no bit. */
#include "pagedkv/attention.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    HEADS = 4,
    PARTS = 2,
    PART = 16,
    LATENT = PARTS * PART,
    ROPE = 8,
    BLOCKS = 3,
    BT = 4,
    ROWS = 2
};

/* One valid call; each test breaks one thing. */
struct args {
    pkv_backend *be;
    pkv_tensor3 q_latent, q_rope, out;
    pkv_kv_view latent, rope;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse;
    size_t workspace_bytes;
    int32_t table[ROWS], kv_len[ROWS];
    char log[256];
    int n_logs;
    _Alignas(64) char workspace[1 << 20];
    _Alignas(16) float q_data[ROWS * HEADS * LATENT], r_data[ROWS * HEADS * ROPE];
    _Alignas(16) float latent_data[BLOCKS * BT * LATENT], rope_data[BLOCKS * BT * ROPE];
    struct { /* must not change */
        _Alignas(16) float out[ROWS * HEADS * LATENT], lse[ROWS * HEADS];
    } result;
};

static void log_line(void *ctx, pkv_log_level level, const char *text)
{
    struct args *a = ctx;
    (void)level;
    strncpy(a->log, text, sizeof(a->log) - 1);
    a->n_logs++;
}

static void reset(struct args *a)
{
    pkv_backend *be = a->be;
    memset(a, 0, sizeof(*a));
    a->be = be;
    a->q_latent = (pkv_tensor3){ a->q_data, PKV_F32, HEADS, LATENT, ROWS, HEADS * LATENT, LATENT };
    a->q_rope = (pkv_tensor3){ a->r_data, PKV_F32, HEADS, ROPE, ROWS, HEADS * ROPE, ROPE };
    a->out = a->q_latent;
    a->out.data = a->result.out;
    a->latent = (pkv_kv_view){ .data = a->latent_data, .n_blocks = BLOCKS, .block_tokens = BT };
    a->rope = a->latent;
    a->latent.n_heads = PARTS, a->latent.dim = PART, a->latent.head_stride = PART;
    a->latent.token_stride = LATENT, a->latent.block_stride = BT * LATENT;
    a->rope.data = a->rope_data, a->rope.n_heads = 1, a->rope.dim = ROPE;
    a->rope.token_stride = ROPE, a->rope.block_stride = BT * ROPE;
    a->lse = (pkv_lse){ a->result.lse, HEADS, 1, 0 };
    a->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    a->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    a->batch.n_seqs = ROWS;
    a->batch.table = a->table;
    a->batch.table_stride = 1;
    a->batch.kv_len = a->kv_len;
    for (int i = 0; i < ROWS; i++) a->table[i] = 1 + i, a->kv_len[i] = 3;
    a->workspace_bytes = sizeof(a->workspace);
    memset(&a->result, 0x5a, sizeof(a->result));
}

static int setup(void **state)
{
    struct args *a = aligned_alloc(64, (sizeof(*a) + 63) / 64 * 64);
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    if (!a) return -1;
    cfg.log.fn = log_line;
    cfg.log.ctx = a;
    if (pkv_backend_create_cpu(&cfg, &a->be) != PKV_OK) return -1;
    reset(a);
    *state = a;
    return 0;
}

static int teardown(void **state)
{
    struct args *a = *state;
    pkv_backend_destroy(a->be);
    free(a);
    return 0;
}

static pkv_status run(struct args *a)
{
    return pkv_attn_mla_run(a->be, &a->q_latent, &a->q_rope, &a->latent, &a->rope, &a->batch,
                            &a->opts, a->workspace, a->workspace_bytes, NULL, &a->out, &a->lse);
}

static void expect(struct args *a, pkv_status want, const char *word)
{
    const pkv_status got = run(a);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    if (!strstr(a->log, word)) fail_msg("'%s' does not name '%s'", a->log, word);
    for (size_t i = 0; i < sizeof(a->result); i++)
        assert_int_equal(((const unsigned char *)&a->result)[i], 0x5a);
    reset(a);
}

/* K of zeros: every key weighs the same, and a row of V that is 1 everywhere gives 1. */
static void valid_calls_pass(void **state)
{
    struct args *a = *state;
    reset(a);
    for (int i = 0; i < BLOCKS * BT * LATENT; i++) a->latent_data[i] = 1.f;
    assert_int_equal(run(a), PKV_OK);
    assert_int_equal(a->n_logs, 0);
    for (int i = 0; i < ROWS * HEADS * LATENT; i++) assert_true(a->result.out[i] == 1.f);
    for (int i = 0; i < ROWS * HEADS; i++) assert_true(fabsf(a->result.lse[i] - logf(3.f)) < 1e-6f);
    a->opts.int8_qk = 1; /* not looked at */
    a->lse.data = NULL;
    assert_int_equal(run(a), PKV_OK);
    a->batch.n_seqs = 0;
    assert_int_equal(run(a), PKV_OK);
}

static void null_pointers(void **state)
{
    struct args *a = *state;
    pkv_tensor3 *q = &a->q_latent, *r = &a->q_rope, *out = &a->out;
    pkv_kv_view *c = &a->latent, *p = &a->rope;
    void *w = a->workspace;
    reset(a);
#define NULL_REFUSED(be, q, r, c, p, b, o, w, out)                                                 \
    assert_int_equal(                                                                              \
        pkv_attn_mla_run(be, q, r, c, p, b, o, w, sizeof(a->workspace), NULL, out, &a->lse),       \
        PKV_E_INVALID_ARG)
    NULL_REFUSED(NULL, q, r, c, p, &a->batch, &a->opts, w, out);
    NULL_REFUSED(a->be, NULL, r, c, p, &a->batch, &a->opts, w, out);
    NULL_REFUSED(a->be, q, NULL, c, p, &a->batch, &a->opts, w, out);
    NULL_REFUSED(a->be, q, r, NULL, p, &a->batch, &a->opts, w, out);
    NULL_REFUSED(a->be, q, r, c, NULL, &a->batch, &a->opts, w, out);
    NULL_REFUSED(a->be, q, r, c, p, NULL, &a->opts, w, out);
    NULL_REFUSED(a->be, q, r, c, p, &a->batch, NULL, w, out);
    NULL_REFUSED(a->be, q, r, c, p, &a->batch, &a->opts, NULL, out);
    NULL_REFUSED(a->be, q, r, c, p, &a->batch, &a->opts, w, NULL);
#undef NULL_REFUSED
}

static void views(void **state)
{
    struct args *a = *state;
    reset(a);
    a->latent.data = NULL, expect(a, PKV_E_INVALID_ARG, "latent: no data");
    a->rope.data = a->rope_data + 1, expect(a, PKV_E_INVALID_ARG, "rope: rows are not 16-byte");
    a->latent.dim = 12, expect(a, PKV_E_UNSUPPORTED, "latent: dim 12");
    a->latent.dim = 520, expect(a, PKV_E_UNSUPPORTED, "latent: dim 520");
    a->latent.n_heads = 33, expect(a, PKV_E_UNSUPPORTED, "latent of 528 elements");
    a->latent.n_heads = 65536, a->latent.dim = 256, expect(a, PKV_E_UNSUPPORTED, "latent of");
    a->rope.dim = 136, expect(a, PKV_E_UNSUPPORTED, "rope: dim 136");
    a->rope.n_heads = 2, expect(a, PKV_E_INVALID_ARG, "rope: 2 heads");
    a->rope.n_blocks = 2, expect(a, PKV_E_INVALID_ARG, "latent and rope disagree");
    a->rope.block_tokens = 2, expect(a, PKV_E_INVALID_ARG, "latent and rope disagree");
    a->latent.scales.data = a->q_data, expect(a, PKV_E_INVALID_ARG, "latent: f32 takes no scales");
}

static void queries(void **state)
{
    struct args *a = *state;
    reset(a);
    a->q_latent.dim = PART, expect(a, PKV_E_INVALID_ARG, "q_latent has dim 16, latent has 32");
    a->q_latent.dim = 520, expect(a, PKV_E_UNSUPPORTED, "q_latent: dim 520");
    a->q_rope.dim = 16, expect(a, PKV_E_INVALID_ARG, "q_rope has dim 16, rope has 8");
    a->q_rope.dim = 136, expect(a, PKV_E_UNSUPPORTED, "q_rope: dim 136");
    a->q_latent.dtype = PKV_I8, expect(a, PKV_E_UNSUPPORTED, "q_latent: no kernel");
    a->q_rope.dtype = PKV_F16, expect(a, PKV_E_INVALID_ARG, "q_latent and q_rope disagree");
    a->q_rope.n_rows = 1, expect(a, PKV_E_INVALID_ARG, "q_latent and q_rope disagree");
    a->q_rope.n_heads = 2, expect(a, PKV_E_INVALID_ARG, "q_latent and q_rope disagree");
    a->q_latent.data = a->q_data + 1, expect(a, PKV_E_INVALID_ARG, "q_latent: rows");
    a->q_latent.n_rows = a->q_rope.n_rows = INT64_C(1) << 31;
    expect(a, PKV_E_INVALID_ARG, "q_latent: more than");
}

static void the_rest(void **state)
{
    struct args *a = *state;
    reset(a);
    a->batch.struct_size++, expect(a, PKV_E_ABI, "batch: struct_size");
    a->batch.q_detached = 1, expect(a, PKV_E_INVALID_ARG, "q_detached needs q_pos");
    a->opts.struct_size++, expect(a, PKV_E_ABI, "opts: struct_size");
    a->opts.softcap = -1.f, expect(a, PKV_E_INVALID_ARG, "softcap");
    a->out.dim = PART, expect(a, PKV_E_INVALID_ARG, "out must have");
    a->out.dtype = PKV_BF16, expect(a, PKV_E_INVALID_ARG, "out must have");
    a->out.n_rows = 1, expect(a, PKV_E_INVALID_ARG, "out must have");
    a->out.data = a->q_data, expect(a, PKV_E_INVALID_ARG, "out overlaps");
    a->out.data = a->r_data, expect(a, PKV_E_INVALID_ARG, "out overlaps");
    a->out.data = a->latent_data, expect(a, PKV_E_INVALID_ARG, "out overlaps");
    a->out.data = a->rope_data, expect(a, PKV_E_INVALID_ARG, "out overlaps");
    a->lse.base2 = 2, expect(a, PKV_E_INVALID_ARG, "lse:");
}

static void workspace(void **state)
{
    struct args *a = *state;
    size_t need = 5;
    reset(a);
    assert_int_equal(pkv_attn_mla_workspace(NULL, 4, 512, 64, &need), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 4, 512, 64, NULL), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 0, 512, 64, &need), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 65537, 512, 64, &need), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 4, 0, 64, &need), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 4, 520, 64, &need), PKV_E_UNSUPPORTED);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 4, 512, 136, &need), PKV_E_UNSUPPORTED);
    assert_int_equal(pkv_attn_mla_workspace(a->be, 4, 512, 63, &need), PKV_E_UNSUPPORTED);
    assert_int_equal(need, 5);
    assert_int_equal(pkv_attn_mla_workspace(a->be, HEADS, LATENT, ROPE, &need), PKV_OK);
    assert_true(need > 0 && need % 64 == 0 && need <= sizeof(a->workspace));
    reset(a);
    a->workspace_bytes = need - 1, expect(a, PKV_E_INVALID_ARG, "workspace:");
    a->workspace_bytes = need;
    assert_int_equal(run(a), PKV_OK);
}

/* More heads than a unit has when there are threads: 100 of them, each with a sink, a slope and
 * rows of its own, on one thread and on several. */
enum { WIDE = 100 };
struct wide {
    float q[ROWS * WIDE * LATENT], r[ROWS * WIDE * ROPE];
    struct wide_result {
        _Alignas(16) float out[ROWS * WIDE * LATENT], lse[ROWS * WIDE];
    } one, many;
    float sink[WIDE], alibi[WIDE];
};

static void run_wide(struct args *a, struct wide *w, struct wide_result *result, int32_t n_threads)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    pkv_lse lse = { result->lse, WIDE, 1, 1 };
    size_t bytes = 0;
    cfg.n_threads = n_threads;
    memset(result, 0x77, sizeof(*result));
    a->q_latent = (pkv_tensor3){ w->q, PKV_F32, WIDE, LATENT, ROWS, WIDE * LATENT, LATENT };
    a->q_rope = (pkv_tensor3){ w->r, PKV_F32, WIDE, ROPE, ROWS, WIDE * ROPE, ROPE };
    a->out = a->q_latent;
    a->out.data = result->out;
    a->opts.sink = w->sink;
    a->opts.alibi = w->alibi;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    assert_int_equal(pkv_attn_mla_workspace(be, WIDE, LATENT, ROPE, &bytes), PKV_OK);
    void *workspace = aligned_alloc(64, bytes);
    assert_non_null(workspace);
    assert_int_equal(pkv_attn_mla_run(be, &a->q_latent, &a->q_rope, &a->latent, &a->rope, &a->batch,
                                      &a->opts, workspace, bytes, NULL, &a->out, &lse),
                     PKV_OK);
    free(workspace);
    pkv_backend_destroy(be);
}

static void any_number_of_threads(void **state)
{
    struct args *a = *state;
    struct wide *w = aligned_alloc(64, (sizeof(*w) + 63) / 64 * 64);
    assert_non_null(w);
    reset(a);
    for (int i = 0; i < BLOCKS * BT * LATENT; i++)
        a->latent_data[i] = (float)(i * 37 % 101) * 0.02f;
    for (int i = 0; i < BLOCKS * BT * ROPE; i++) a->rope_data[i] = (float)(i * 53 % 97) * 0.02f;
    for (int i = 0; i < ROWS * WIDE * LATENT; i++) w->q[i] = (float)(i * 29 % 103 - 50) * 0.01f;
    for (int i = 0; i < ROWS * WIDE * ROPE; i++) w->r[i] = (float)(i * 31 % 89 - 40) * 0.01f;
    for (int i = 0; i < WIDE; i++) w->sink[i] = 0.01f * (float)i, w->alibi[i] = -0.1f * (float)i;
    run_wide(a, w, &w->one, 1);
    for (int32_t n = 2; n <= 8; n++) {
        run_wide(a, w, &w->many, n);
        assert_memory_equal(&w->many, &w->one, sizeof(w->one));
    }
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(valid_calls_pass),
        cmocka_unit_test(null_pointers),
        cmocka_unit_test(views),
        cmocka_unit_test(queries),
        cmocka_unit_test(the_rest),
        cmocka_unit_test(workspace),
        cmocka_unit_test(any_number_of_threads),
    };
    return cmocka_run_group_tests_name("mla_args", tests, setup, teardown);
}
