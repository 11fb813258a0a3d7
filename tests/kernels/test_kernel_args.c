/* Every argument that breaks a contract gives its status, and nothing is written. */
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { DIM = 16, HEADS = 4, KV_HEADS = 2, BLOCKS = 3, BT = 4, ROWS = 2 };

/* One valid call of everything; each test breaks one thing. */
struct args {
    pkv_backend *be;
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse;
    pkv_kv_write_args write;
    pkv_tensor3 new_k, new_v;
    size_t workspace_bytes;
    int32_t table[ROWS], kv_len[ROWS], q_indptr[ROWS + 1];
    int64_t slots[ROWS];
    char log[256];
    int n_logs;
    _Alignas(64) char workspace[1 << 21];
    _Alignas(64) float q_data[ROWS * HEADS * DIM], new_data[2][ROWS * KV_HEADS * DIM];
    _Alignas(64) float store[2][BLOCKS * BT * KV_HEADS * DIM];
    struct { /* must not change */
        _Alignas(64) float out[ROWS * HEADS * DIM], lse[ROWS * HEADS];
    } result;
};

static void log_line(void *ctx, pkv_log_level level, const char *text)
{
    struct args *a = ctx;
    (void)level;
    strncpy(a->log, text, sizeof(a->log) - 1);
    a->n_logs++;
}

static pkv_kv_view view_of(float *data)
{
    return (pkv_kv_view){ data,
                          PKV_F32,
                          BLOCKS,
                          BT,
                          KV_HEADS,
                          DIM,
                          BT * KV_HEADS * DIM,
                          KV_HEADS * DIM,
                          DIM,
                          { NULL, 0, 0, 0 },
                          { NULL, 0, 0, 0 } };
}

static void reset(struct args *a)
{
    pkv_backend *be = a->be;
    memset(a, 0, sizeof(*a));
    a->be = be;
    a->q = (pkv_tensor3){ a->q_data, PKV_F32, HEADS, DIM, ROWS, HEADS * DIM, DIM };
    a->out = a->q;
    a->out.data = a->result.out;
    a->k = view_of(a->store[0]);
    a->v = view_of(a->store[1]);
    a->lse = (pkv_lse){ a->result.lse, HEADS, 1, 0 };
    a->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    a->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    a->batch.n_seqs = ROWS;
    a->batch.table = a->table;
    a->batch.table_stride = 1;
    a->batch.kv_len = a->kv_len;
    a->batch.q_indptr = a->q_indptr;
    for (int i = 0; i < ROWS; i++) {
        a->table[i] = 1 + i;
        a->kv_len[i] = 3;
        a->q_indptr[i + 1] = 1 + i;
        a->slots[i] = BT + i;
    }
    a->workspace_bytes = sizeof(a->workspace);
    a->new_k = (pkv_tensor3){ a->new_data[0], PKV_F32, KV_HEADS, DIM, ROWS, KV_HEADS * DIM, DIM };
    a->new_v = a->new_k;
    a->new_v.data = a->new_data[1];
    a->write = (pkv_kv_write_args)PKV_KV_WRITE_ARGS_INIT;
    a->write.k = &a->new_k;
    a->write.v = &a->new_v;
    a->write.slots = a->slots;
    a->write.k_view = &a->k;
    a->write.v_view = &a->v;
    memset(&a->result, 0x5a, sizeof(a->result));
    memset(a->store, 0x11, sizeof(a->store));
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

static bool all_bytes(const void *data, size_t n, int value)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        if (p[i] != value) return false;
    return true;
}

static pkv_status run_attention(struct args *a)
{
    return pkv_attn_run(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, a->workspace,
                        a->workspace_bytes, &a->out, &a->lse);
}

/* What was broken is refused with `want` and a reason, leaves no trace, and has no kernel name if
 * it concerns the inputs; then everything is put right again. */
static void expect_attention(struct args *a, pkv_status want, bool of_inputs)
{
    const pkv_status got = run_attention(a);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    assert_true(a->log[0] != '\0');
    assert_true(all_bytes(&a->result, sizeof(a->result), 0x5a));
    const char *name = pkv_attn_kernel_name(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, 1);
    assert_int_equal(name == NULL, of_inputs);
    reset(a);
}
#define REFUSED(a, want) expect_attention(a, want, true)
#define REFUSED_OUTPUT(a, want) expect_attention(a, want, false)

static void valid_calls_pass(void **state)
{
    struct args *a = *state;
    reset(a);
    assert_int_equal(run_attention(a), PKV_OK);
    assert_int_equal(a->n_logs, 0);
    assert_int_equal(pkv_kv_write(a->be, &a->write), PKV_OK);
    assert_int_equal(pkv_attn_run(a->be, &a->q, &a->k, &a->v, &a->batch, &a->opts, a->workspace,
                                  a->workspace_bytes, &a->out, NULL),
                     PKV_OK);
    a->batch.n_seqs = 0;
    assert_int_equal(run_attention(a), PKV_OK);
}

static void null_pointers(void **state)
{
    struct args *a = *state;
    void *w = a->workspace;
    const size_t n = sizeof(a->workspace);
    reset(a);
#define RUN(be, q, k, v, b, o, w, out) pkv_attn_run(be, q, k, v, b, o, w, n, out, &a->lse)
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
    reset(a);
    a->q.data = NULL, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.data = a->q_data + 1, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.dtype = (pkv_dtype)99, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.dtype = (pkv_dtype)-1, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.dtype = PKV_E4M3, REFUSED(a, PKV_E_UNSUPPORTED);
    a->q.n_rows = -1, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.n_rows = INT64_C(1) << 32, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.n_heads = 0, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.n_heads = 3, REFUSED(a, PKV_E_INVALID_ARG);     /* no multiple of the kv heads */
    a->q.n_heads = 65538, REFUSED(a, PKV_E_INVALID_ARG); /* more than 2^16 */
    a->q.dim = 8, REFUSED(a, PKV_E_INVALID_ARG);         /* K has 16 */
    a->q.dim = 0, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.dim = 12, REFUSED(a, PKV_E_UNSUPPORTED);
    a->q.dim = 264, REFUSED(a, PKV_E_UNSUPPORTED);
    a->q.row_stride = HEADS * DIM + 2, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.head_stride = -DIM, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.row_stride = INT64_MAX / 8 * 4, REFUSED(a, PKV_E_INVALID_ARG);
}

static void views(void **state)
{
    struct args *a = *state;
    reset(a);
    a->k.data = NULL, REFUSED(a, PKV_E_INVALID_ARG);
    a->v.data = a->store[1] + 2, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.dtype = (pkv_dtype)77, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.dtype = a->v.dtype = PKV_U4, REFUSED(a, PKV_E_INVALID_ARG); /* rows of 8 bytes */
    a->k.scales.data = a->store[1], REFUSED(a, PKV_E_INVALID_ARG);   /* of f32 */
    a->v.dtype = PKV_F16, REFUSED(a, PKV_E_UNSUPPORTED);             /* K is f32 */
    a->v.n_blocks = BLOCKS - 1, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.n_blocks = a->v.n_blocks = 0, REFUSED(a, PKV_E_INVALID_ARG);
    a->v.block_tokens = 5, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.block_tokens = a->v.block_tokens = 0, REFUSED(a, PKV_E_INVALID_ARG);
    a->v.n_heads = 1, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.n_heads = a->v.n_heads = -2, REFUSED(a, PKV_E_INVALID_ARG);
    a->q.n_heads = a->k.n_heads = a->v.n_heads = 65537, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.token_stride = 3, REFUSED(a, PKV_E_INVALID_ARG);
    a->v.head_stride = -4, REFUSED(a, PKV_E_INVALID_ARG);
    a->k.block_stride = INT64_MAX - 3, REFUSED(a, PKV_E_INVALID_ARG);
    a->v.dim = 20, REFUSED(a, PKV_E_UNSUPPORTED);
}

static void batches(void **state)
{
    struct args *a = *state;
    reset(a);
    a->batch.struct_size--, REFUSED(a, PKV_E_ABI);
    a->batch.n_seqs = -1, REFUSED(a, PKV_E_INVALID_ARG);
    a->batch.kv_len = NULL, REFUSED(a, PKV_E_INVALID_ARG);
    a->batch.table_stride = -1, REFUSED(a, PKV_E_INVALID_ARG);
    a->batch.table = NULL, a->batch.table_indptr = a->q_indptr, REFUSED(a, PKV_E_INVALID_ARG);
    a->batch.table = NULL, a->batch.n_seqs = BLOCKS + 1, REFUSED(a, PKV_E_INVALID_ARG);
    a->batch.q_indptr = NULL, a->batch.n_seqs = ROWS + 1, REFUSED(a, PKV_E_INVALID_ARG);
}

static void options(void **state)
{
    struct args *a = *state;
    reset(a);
    a->opts.struct_size = 0, REFUSED(a, PKV_E_ABI);
    a->opts.scale = NAN, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.scale = INFINITY, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.softcap = -1.f, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.softcap = NAN, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.window_left = -2, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.window_right = INT32_MIN, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.causal = 2, REFUSED(a, PKV_E_INVALID_ARG);
    a->opts.reserved[5] = 1, REFUSED(a, PKV_E_INVALID_ARG);
}

static void outputs_and_workspace(void **state)
{
    struct args *a = *state;
    size_t need = 0;
    reset(a);
    a->out.dtype = PKV_F16, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.n_rows = ROWS - 1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.n_heads = 2, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.dim = 8, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.data = a->result.out + 1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.data = a->q_data, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.data = a->store[0], REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->out.data = a->store[1], REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->lse.base2 = 2, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->lse.row_stride = -1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->lse.data = (float *)(void *)((char *)a->result.lse + 2);
    REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    assert_int_equal(pkv_attn_workspace(a->be, HEADS, KV_HEADS, DIM, DIM, &need), PKV_OK);
    assert_true(need > 0 && need <= sizeof(a->workspace));
    a->workspace_bytes = need - 1, REFUSED_OUTPUT(a, PKV_E_INVALID_ARG);
    a->workspace_bytes = need;
    assert_int_equal(run_attention(a), PKV_OK);
}

static void workspace_query(void **state)
{
    struct args *a = *state;
    size_t bytes = 77;
    reset(a);
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

static void expect_write(struct args *a, pkv_status want)
{
    const pkv_status got = pkv_kv_write(a->be, &a->write);
    assert_string_equal(pkv_status_name(got), pkv_status_name(want));
    assert_int_equal(a->n_logs, 1);
    assert_true(all_bytes(a->store, sizeof(a->store), 0x11));
    reset(a);
}

static void kv_write(void **state)
{
    struct args *a = *state;
    reset(a);
    assert_int_equal(pkv_kv_write(NULL, &a->write), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kv_write(a->be, NULL), PKV_E_INVALID_ARG);
    reset(a);
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
    reset(a);
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
    reset(a);
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

/* An allocator that has nothing. */
static void *no_memory(void *ctx, size_t bytes, size_t align)
{
    (void)bytes, (void)align;
    return *(int *)ctx > 0 ? --*(int *)ctx, aligned_alloc(64, 4096) : NULL;
}
static void give_back(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx, (void)bytes;
    free(ptr);
}

static void memory_runs_out(void **state)
{
    int left = 0;
    char pool[100] = { 0 };
    pkv_block_copy copies[40];
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    (void)state;
    cfg.alloc = (pkv_allocator){ no_memory, give_back, &left };
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_E_NO_MEMORY);
    assert_null(be);
    left = 1;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    for (int i = 0; i < 40; i++) copies[i] = (pkv_block_copy){ 1, 2 + i, 1, 0 };
    pool[1] = 5;
    assert_int_equal(pkv_blocks_copy(be, pool, 1, 100, copies, 40, NULL, 0), PKV_E_NO_MEMORY);
    assert_int_equal(pool[2], 0);
    assert_int_equal(pkv_blocks_copy(be, pool, 1, 100, copies, 32, NULL, 0),
                     PKV_OK); /* needs none */
    assert_int_equal(pool[33], 5);
    pkv_backend_destroy(be);
}

static void backends(void **state)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    pkv_isa isa = PKV_ISA_BEST;
    (void)state;
    assert_int_equal(pkv_backend_create_cpu(NULL, &be), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_backend_create_cpu(&cfg, NULL), PKV_E_INVALID_ARG);
    cfg.struct_size = 4;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_E_ABI);
    cfg = (pkv_cpu_config)PKV_CPU_CONFIG_INIT;
    cfg.max_isa = (pkv_isa)6;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_E_INVALID_ARG);
    cfg.max_isa = PKV_ISA_BEST;
    cfg.alloc.alloc = no_memory;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_E_INVALID_ARG);
    assert_null(be);
    pkv_backend_destroy(NULL);
    for (int i = PKV_ISA_BEST; i <= PKV_ISA_AMX; i++) {
        assert_int_equal(pkv_isa_from_name(pkv_isa_name((pkv_isa)i), &isa), PKV_OK);
        assert_int_equal(isa, i);
    }
    assert_string_equal(pkv_isa_name((pkv_isa)99), "?");
    assert_int_equal(pkv_isa_from_name("AVX2", &isa), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_isa_from_name(NULL, &isa), PKV_E_INVALID_ARG);
    assert_int_equal(isa, PKV_ISA_AMX);
    assert_int_equal(pkv_isa_check(pkv_isa_detect(), NULL), PKV_OK);
}

/* The list holds every kernel once, operation after operation. */
static void kernel_list(void **state)
{
    struct args *a = *state;
    pkv_kernel_desc d = { .struct_size = sizeof(d) }, before = { .op = PKV_OP_ATTENTION };
    int n_ops[PKV_OP_STATES_MERGE + 1] = { 0 };
    int32_t n = 0;
    assert_int_equal(pkv_kernel_info(NULL, 0, &d), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kernel_info(a->be, -1, &d), PKV_E_INVALID_ARG);
    assert_int_equal(pkv_kernel_info(a->be, 0, NULL), PKV_E_INVALID_ARG);
    d.struct_size = 8;
    assert_int_equal(pkv_kernel_info(a->be, 0, &d), PKV_E_ABI);
    d.struct_size = sizeof(d);
    for (; pkv_kernel_info(a->be, n, &d) == PKV_OK; n++) {
        assert_true(d.name[0] && d.covers[0] && memchr(d.covers, 0, sizeof(d.covers)));
        assert_true(d.op >= before.op);
        assert_true(n == 0 || strcmp(d.name, before.name) != 0);
        assert_non_null(strstr(d.name, pkv_isa_name(d.isa)));
        n_ops[d.op]++;
        before = d;
    }
    assert_int_equal(pkv_kernel_info(a->be, n, &d), PKV_E_LIMIT);
    assert_true(n_ops[PKV_OP_ATTENTION] >= 3 && n_ops[PKV_OP_KV_WRITE] == 3);
    assert_true(n_ops[PKV_OP_BLOCKS_COPY] == 1 && n_ops[PKV_OP_STATES_MERGE] == 3);
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
    reset(a);
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
        cmocka_unit_test(valid_calls_pass), cmocka_unit_test(null_pointers),
        cmocka_unit_test(queries),          cmocka_unit_test(views),
        cmocka_unit_test(batches),          cmocka_unit_test(options),
        cmocka_unit_test(workspace_query),  cmocka_unit_test(outputs_and_workspace),
        cmocka_unit_test(kv_write),         cmocka_unit_test(moves),
        cmocka_unit_test(memory_runs_out),  cmocka_unit_test(backends),
        cmocka_unit_test(kernel_list),      cmocka_unit_test(merge),
        cmocka_unit_test(far_slot),
    };
    return cmocka_run_group_tests_name("kernel_args", tests, setup, teardown);
}
