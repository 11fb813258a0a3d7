/* Latent attention on the emulated device, by directed cases: numbers of heads and sizes of blocks,
 * one sequence on many blocks of threads, parts with scales of their own, rows without keys, NaN
 * that not all rows see, addresses beyond 2^32, bad tables, refusals. Held against the formula in
 * double within the bounds of docs/numerics.md; random shapes are check_kernels' business. */
#include "cuda_test.h"
#include "oracle/oracle_mla.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

enum { MOST_SEQS = 4, MOST_KEYS = 1000 };

struct shape {
    pkv_dtype latent, rope, q;
    int32_t parts, part_dim, rope_dim, heads, block_tokens, n_seqs;
    int32_t kv_len[MOST_SEQS], q_len[MOST_SEQS];
    int32_t n_sms;
    bool is_record, is_far; /* the 656-byte record; blocks 2^32 bytes apart */
};

/* A call: what lies on the device, and the same numbers as floats. */
struct call {
    struct shape s;
    int32_t row0[MOST_SEQS + 1], latent_dim;
    float *latent[MOST_SEQS], *scale[MOST_SEQS], *rope[MOST_SEQS], *q_latent, *q_rope;
    pkv_tensor3 q, qr, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse;
    int32_t *table;
    uint32_t *bad;
    void *workspace;
    size_t workspace_bytes;
    pkv_backend *be;
    struct cuda_log log;
    void *memory[24];
    int n_memory;
};

static void *take(struct call *c, size_t bytes)
{
    void *p = device_alloc(bytes);
    assert_non_null(p);
    c->memory[c->n_memory++] = p;
    return p;
}

static bool has_scales(pkv_dtype dtype)
{
    return dtype >= PKV_E4M3;
}

/* A number that the type holds, of unit variance or so; codes up to 7 times that. */
static float draw(struct cuda_rng *r, pkv_dtype dtype)
{
    const double x = ((int32_t)cuda_random(r, 4001) - 2000) / 1024.0;
    if (dtype == PKV_U4) return (float)cuda_random(r, 16);
    return (float)oracle_round(dtype, has_scales(dtype) ? rint(x * 8) : x);
}

/* Values by id of the sequence and index alone. */
static float *draw_array(uint64_t seed, size_t n, pkv_dtype dtype)
{
    struct cuda_rng r = { seed * 7919 + 17 };
    float *a = malloc((n + 1) * sizeof(float));
    for (size_t i = 0; i < n; i++) a[i] = draw(&r, dtype);
    return a;
}

static int32_t ids_of(const struct shape *s)
{
    int32_t most = 1;
    for (int32_t b = 0; b < s->n_seqs; b++)
        if (s->kv_len[b] > most) most = s->kv_len[b];
    return (most + s->block_tokens - 1) / s->block_tokens;
}

/* Rows of the views; blocks of a sequence lie backwards in the pool. */
static void place_views(struct call *c)
{
    const struct shape *s = &c->s;
    const int32_t n_blocks = 1 + s->n_seqs * ids_of(s), bt = s->block_tokens;
    const int32_t part = has_scales(s->latent) ? (s->part_dim + 31) / 32 * 32 : s->part_dim;
    const int64_t row = s->parts * part + 32;
    c->k = (pkv_kv_view){ .dtype = s->latent,
                          .n_blocks = n_blocks,
                          .block_tokens = bt,
                          .n_heads = s->parts,
                          .dim = s->part_dim,
                          .block_stride = bt * row,
                          .token_stride = row,
                          .head_stride = part };
    c->v = (pkv_kv_view){ .dtype = s->rope,
                          .n_blocks = n_blocks,
                          .block_tokens = bt,
                          .n_heads = 1,
                          .dim = s->rope_dim,
                          .block_stride = bt * s->rope_dim,
                          .token_stride = s->rope_dim,
                          .head_stride = s->rope_dim };
    const int64_t rows = (int64_t)n_blocks * bt;
    if (s->is_record) {
        char *pool = take(c, (size_t)rows * 656);
        c->k.data = pool;
        c->k.token_stride = 656;
        c->k.block_stride = bt * 656;
        c->k.scales = (pkv_scales){ (float *)(void *)(pool + 512), bt * 164, 164, 1 };
        c->v.data = pool + 528;
        c->v.token_stride = c->v.head_stride = 328;
        c->v.block_stride = bt * 328;
        return;
    }
    if (s->is_far) {
        c->k.block_stride = INT64_C(1) << 31;
        c->k.data = device_alloc_sparse((size_t)n_blocks << 32);
        assert_non_null(c->k.data);
        c->v.block_stride = c->k.block_stride;
        c->v.data = device_alloc_sparse((size_t)n_blocks << 32);
        assert_non_null(c->v.data);
        c->memory[c->n_memory++] = c->k.data;
        c->memory[c->n_memory++] = c->v.data;
    } else {
        c->k.data = take(c, (size_t)oracle_span(s->latent, rows * row));
        c->v.data = take(c, (size_t)(rows * s->rope_dim * 2));
    }
    if (has_scales(s->latent))
        c->k.scales = (pkv_scales){ take(c, (size_t)(rows * s->parts) * sizeof(float)),
                                    bt * s->parts, s->parts, 1 };
}

static void write_keys(struct call *c, int32_t b)
{
    const struct shape *s = &c->s;
    const size_t n = (size_t)s->kv_len[b];
    const int32_t n_ids = ids_of(s);
    c->latent[b] = draw_array(100 + (unsigned)b, n * (size_t)c->latent_dim, s->latent);
    c->rope[b] = draw_array(200 + (unsigned)b, n * (size_t)s->rope_dim, s->rope);
    c->scale[b] = malloc((n * (size_t)s->parts + 1) * sizeof(float));
    for (int32_t e = 0; e < n_ids; e++) {
        const bool live = e * s->block_tokens < s->kv_len[b];
        c->table[b * n_ids + e] = live ? 1 + b * n_ids + n_ids - 1 - e : INT32_MIN;
    }
    for (int32_t j = 0; j < s->kv_len[b]; j++) {
        const int64_t block = c->table[b * n_ids + j / s->block_tokens], t = j % s->block_tokens;
        for (int32_t p = 0; p < s->parts; p++) {
            /* Parts of one token differ by up to 2^9, tokens by up to 2^6. */
            const float scale = ldexpf(1.f + (float)(j % 7) / 8, -6 - 3 * (p % 4) + j % 7);
            c->scale[b][j * s->parts + p] = scale;
            if (c->k.scales.data)
                c->k.scales
                    .data[block * c->k.scales.block_stride + t * c->k.scales.token_stride + p] =
                    scale;
            for (int32_t d = 0; d < s->part_dim; d++)
                oracle_store(s->latent, c->k.data,
                             block * c->k.block_stride + t * c->k.token_stride +
                                 p * c->k.head_stride + d,
                             (double)c->latent[b][(j * s->parts + p) * s->part_dim + d]);
        }
        for (int32_t d = 0; d < s->rope_dim; d++)
            oracle_store(s->rope, c->v.data, block * c->v.block_stride + t * c->v.token_stride + d,
                         (double)c->rope[b][j * s->rope_dim + d]);
    }
}

static pkv_tensor3 place_q(struct call *c, const float *from, int32_t n_rows, int32_t dim)
{
    const int64_t n = (int64_t)n_rows * c->s.heads * dim;
    const pkv_tensor3 t = { take(c, (size_t)n * 2),    c->s.q, c->s.heads, dim, n_rows,
                            (int64_t)c->s.heads * dim, dim };
    for (int64_t i = 0; i < n && from; i++) oracle_store(c->s.q, t.data, i, (double)from[i]);
    return t;
}

static int32_t *upload(struct call *c, const int32_t *from, int32_t n)
{
    int32_t *p = take(c, (size_t)n * sizeof(int32_t));
    device_upload(p, from, (size_t)n * sizeof(int32_t));
    return p;
}

static void build(struct call *c, const struct shape *s)
{
    *c = (struct call){ .s = *s,
                        .latent_dim = s->parts * s->part_dim,
                        .batch = PKV_ATTN_BATCH_INIT,
                        .opts = PKV_ATTN_OPTS_INIT };
    c->be = cuda_backend(&c->log, s->n_sms);
    for (int32_t b = 0; b < s->n_seqs; b++) c->row0[b + 1] = c->row0[b] + s->q_len[b];
    const int32_t n_rows = c->row0[s->n_seqs];
    c->table = take(c, (size_t)(s->n_seqs * ids_of(s)) * sizeof(int32_t));
    place_views(c);
    for (int32_t b = 0; b < s->n_seqs; b++) write_keys(c, b);
    const size_t n_q = (size_t)n_rows * (size_t)s->heads;
    c->q_latent = draw_array(1, n_q * (size_t)c->latent_dim, s->q);
    c->q_rope = draw_array(2, n_q * (size_t)s->rope_dim, s->q);
    c->q = place_q(c, c->q_latent, n_rows, c->latent_dim);
    c->qr = place_q(c, c->q_rope, n_rows, s->rope_dim);
    c->out = place_q(c, NULL, n_rows, c->latent_dim);
    c->lse = (pkv_lse){ take(c, n_q * sizeof(float)), s->heads, 1, 0 };
    c->bad = take(c, 16);
    memset(c->bad, 0, 16);
    c->batch.n_seqs = s->n_seqs;
    c->batch.table = c->table;
    c->batch.table_stride = ids_of(s);
    c->batch.kv_len = upload(c, s->kv_len, s->n_seqs);
    c->batch.q_indptr = upload(c, c->row0, s->n_seqs + 1);
    c->opts.bad = c->bad;
    c->opts.scale = 0.0625f;
    assert_int_equal(
        pkv_attn_mla_workspace(c->be, s->heads, c->latent_dim, s->rope_dim, &c->workspace_bytes),
        PKV_OK);
    c->workspace = take(c, c->workspace_bytes);
    assert_device_ok(pkv_workspace_init(c->be, c->workspace, c->workspace_bytes, NULL));
}

static void destroy(struct call *c)
{
    for (int i = 0; i < c->n_memory; i++) device_free(c->memory[i]);
    for (int32_t b = 0; b < c->s.n_seqs; b++) {
        free(c->latent[b]);
        free(c->rope[b]);
        free(c->scale[b]);
    }
    free(c->q_latent);
    free(c->q_rope);
    pkv_backend_destroy(c->be);
}

static size_t out_bytes(const struct call *c)
{
    return (size_t)(c->out.n_rows * c->out.row_stride) * 2;
}

static pkv_status run(struct call *c)
{
    device_fill(c->out.data, 0xff, out_bytes(c));
    device_fill(c->lse.data, 0xff, (size_t)(c->out.n_rows * c->s.heads) * sizeof(float));
    return pkv_attn_mla_run(c->be, &c->q, &c->qr, &c->k, &c->v, &c->batch, &c->opts, c->workspace,
                            c->workspace_bytes, NULL, &c->out, &c->lse);
}

/* One row and head against the formula. */
static void judge(const struct call *c, const struct oracle_seq *o, int32_t b, int32_t i, int32_t h)
{
    static double z[MOST_KEYS];
    static struct oracle_row want;
    const bool bf16 = c->s.latent == PKV_BF16;
    oracle_attention(o, i, h, z, &want);
    const struct oracle_path path = { .terms = want.n_visible + 8,
                                      .p_roundoff = bf16 ? 0x1p-8 : 0x1p-11,
                                      .p_step = bf16 ? 0 : 0x1p-39,
                                      .q_step = 0x1p-39,
                                      .out = c->s.q };
    const int64_t row = c->row0[b] + i, at = row * c->out.row_stride + h * c->latent_dim;
    const double lse = (double)c->lse.data[row * c->s.heads + h];
    if (want.n_visible == 0) assert_true(isinf(lse) && lse < 0);
    else if (!(fabs(lse - want.lse) <= oracle_bound_lse(o, &want, &path, false)))
        fail_msg("lse of sequence %d row %d head %d: %.9g, want %.9g", b, i, h, lse, want.lse);
    for (int32_t d = 0; d < c->latent_dim; d++) {
        const double got = oracle_load(c->s.q, c->out.data, at + d);
        const double bound = oracle_bound_o(o, &want, &path, d);
        if (want.n_visible == 0 ? got == 0 && !signbit(got) : fabs(got - want.o[d]) <= bound)
            continue;
        fail_msg("sequence %d row %d head %d dim %d: %.9g, want %.9g, bound %.3g", b, i, h, d, got,
                 want.o[d], bound);
    }
}

/* Every row of a sequence, of the heads every `step`-th. */
static void assert_sequence(const struct call *c, int32_t b, int32_t step)
{
    const struct shape *s = &c->s;
    const size_t row = (size_t)c->row0[b] * (size_t)s->heads;
    struct oracle_seq o = { .q_len = s->q_len[b],
                            .n_q_heads = s->heads,
                            .scale = (double)c->opts.scale,
                            .window_left = c->opts.window_left,
                            .window_right = -1,
                            .causal = c->opts.causal,
                            .softcap = (double)c->opts.softcap,
                            .alibi = c->opts.alibi,
                            .sink = c->opts.sink,
                            .q_pos = c->batch.q_pos ? c->batch.q_pos + c->row0[b] : NULL,
                            .q_detached = c->batch.q_detached };
    const struct oracle_mla mla = { .kv_len = s->kv_len[b],
                                    .n_parts = s->parts,
                                    .part_dim = s->part_dim,
                                    .rope_dim = s->rope_dim,
                                    .latent = c->latent[b],
                                    .latent_scale = has_scales(s->latent) ? c->scale[b] : NULL,
                                    .rope = c->rope[b],
                                    .q_latent = c->q_latent + row * (size_t)c->latent_dim,
                                    .q_rope = c->q_rope + row * (size_t)s->rope_dim };
    oracle_mla_rows(&mla, &o);
    for (int32_t i = 0; i < s->q_len[b]; i++)
        for (int32_t h = 0; h < s->heads; h += step) judge(c, &o, b, i, h);
    oracle_mla_free(&o);
}

static void assert_right(struct call *c, int32_t step)
{
    assert_device_ok(run(c));
    assert_int_equal(c->bad[0], 0);
    for (int32_t b = 0; b < c->s.n_seqs; b++) assert_sequence(c, b, step);
}

static void test_heads(void **state)
{
    static const int32_t heads[] = { 1, 16, 64, 100, 128 }, blocks[] = { 1, 16, 64 };
    (void)state;
    for (int i = 0; i < 5; i++) {
        const struct shape s = { PKV_F16,       PKV_F16, PKV_F16,   1,        128, 64,    heads[i],
                                 blocks[i % 3], 2,       { 70, 5 }, { 1, 2 }, 2,   false, false };
        struct call c;
        build(&c, &s);
        cuda_schedule(i);
        assert_right(&c, heads[i] > 16 ? 9 : 1);
        destroy(&c);
    }
}

/* 576 dims of bf16, windows, a softcap, ALiBi, sinks; positions, of no more rows than there are. */
static void test_options(void **state)
{
    const struct shape s = { PKV_BF16, PKV_BF16, PKV_BF16,    1,        512, 64,    20,
                             16,       2,        { 100, 40 }, { 3, 1 }, 3,   false, false };
    struct call c;
    (void)state;
    build(&c, &s);
    c.opts.window_left = 37;
    c.opts.softcap = 2;
    assert_right(&c, 3);
    float *slopes = take(&c, 20 * sizeof(float));
    for (int32_t h = 0; h < 20; h++) slopes[h] = ldexpf(1, -h % 5);
    c.opts.alibi = c.opts.sink = slopes;
    c.batch.q_pos = upload(&c, (const int32_t[]){ 97, 98, 99, 39 }, 4);
    assert_right(&c, 3);
    destroy(&c);
}

/* One sequence on four CTAs, which meet in any order: the same bits, and counters back at 0. The
 * first row sees keys of the first CTA alone, so that the last two meet with nothing. */
static void test_shared(void **state)
{
    const struct shape s = { PKV_F16, PKV_BF16, PKV_BF16, 1,     64, 16,    10,
                             16,      1,        { 990 },  { 2 }, 4,  false, false };
    struct call c;
    (void)state;
    build(&c, &s);
    c.batch.q_pos = upload(&c, (const int32_t[]){ 20, 989 }, 2);
    c.batch.q_detached = 1;
    cuda_schedule(0);
    assert_right(&c, 1);
    const struct pkv__counters {
        uint32_t words[16 + 4096];
    } *head = c.workspace;
    unsigned char *first = malloc(out_bytes(&c));
    memcpy(first, c.out.data, out_bytes(&c));
    for (int i = 1; i < DEVICE_N_SCHEDULES; i++) {
        cuda_schedule(i);
        assert_device_ok(run(&c));
        if (memcmp(first, c.out.data, out_bytes(&c)) != 0) fail_msg("schedule %d: other bits", i);
        for (int w = 1; w < 16 + 4096; w++) assert_int_equal(head->words[w], 0);
    }
    /* Neither a raw workspace nor invariant mode shares: the same bits as on one multiprocessor. */
    c.opts.invariant = 1;
    assert_right(&c, 1);
    memcpy(first, c.out.data, out_bytes(&c));
    c.opts.invariant = 0;
    device_fill(c.workspace, 0xff, c.workspace_bytes);
    assert_right(&c, 1);
    assert_memory_equal(first, c.out.data, out_bytes(&c));
    free(first);
    destroy(&c);
}

/* Shapes that have nothing else about them. */
static void test_shapes(void **state)
{
    static const struct shape shapes[] = {
        { PKV_E4M3, PKV_BF16, PKV_BF16, 4, 128, 64, 16, 64, 2, { 130, 33 }, { 1, 3 }, 2, true, 0 },
        /* Parts that fill no step of 16 columns, and dims that fill no tile. */
        { PKV_I8, PKV_F16, PKV_F16, 3, 24, 8, 5, 5, 1, { 45 }, { 2 }, 2, false, false },
        { PKV_E5M2, PKV_F16, PKV_BF16, 8, 40, 120, 3, 16, 1, { 37 }, { 1 }, 1, false, false },
        { PKV_U4, PKV_F16, PKV_F16, 2, 48, 40, 7, 3, 1, { 50 }, { 1 }, 2, false, false },
        { PKV_F16, PKV_F16, PKV_BF16, 5, 8, 24, 3, 7, 1, { 33 }, { 2 }, 1, false, false },
        /* Rows that stand in front of all keys, a sequence without keys, one without rows. */
        { PKV_F16, PKV_F16, PKV_F16, 1, 64, 16, 3, 4, 4, { 2, 0, 9, 6 }, { 5, 2, 0, 1 }, 2, 0, 0 },
        { PKV_F16, PKV_F16, PKV_F16, 1, 64, 16, 2, 16, 1, { 60 }, { 1 }, 2, false, true },
        /* 12 of 36 places for each CTA: the second span begins with keys of the second sequence. */
        { PKV_F16, PKV_F16, PKV_F16, 1, 8, 8, 1, 16, 2, { 128, 768 }, { 1, 1 }, 3, false, false },
    };
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        struct call c;
        build(&c, &shapes[i]);
        cuda_schedule(0);
        assert_right(&c, 1);
        destroy(&c);
    }
}

/* NaN in the last key, which the last row alone sees: no other row gets any of it. Then infinity,
 * a NaN in q, which stays with its head, one as the scale of the last key; and an infinity whose
 * scale is negative, under a soft cap: minus infinity in its dim, whatever the weight is. */
static void test_not_finite(void **state)
{
    struct shape s = { PKV_F16, PKV_F16, PKV_F16, 1,     64, 16,    2,
                       16,      1,       { 20 },  { 3 }, 1,  false, false };
    (void)state;
    for (int i = 0; i < 5; i++) {
        struct call c;
        if (i >= 3) s.latent = i == 3 ? PKV_I8 : PKV_E5M2;
        build(&c, &s);
        const int64_t at = c.table[1] * c.k.block_stride + 3 * c.k.token_stride + 5;
        if (i < 2) oracle_store(PKV_F16, c.k.data, at, i == 0 ? (double)NAN : (double)INFINITY);
        else if (i == 2) oracle_store(PKV_F16, c.q.data, 5 * 64, (double)NAN); /* row 2, head 1 */
        const int64_t scale_at = c.table[1] * c.k.scales.block_stride + 3;
        if (i == 3) c.k.scales.data[scale_at] = NAN;
        if (i == 4) {
            oracle_store(PKV_E5M2, c.k.data, at, (double)INFINITY);
            c.k.scales.data[scale_at] *= -1;
            c.opts.softcap = 4;
        }
        assert_device_ok(run(&c));
        for (int32_t h = 0; h < 2; h++)
            for (int32_t d = 0; d < 64; d++) {
                const bool hit = i != 2 || h == 1;
                const double o = oracle_load(PKV_F16, c.out.data, (4 + h) * 64 + d);
                if (i < 4) assert_int_equal(isnan(o), hit);
                else assert_true(d == 5 ? o == -(double)INFINITY : isfinite(o));
                for (int32_t row = 0; row < 2; row++)
                    assert_true(isfinite(oracle_load(PKV_F16, c.out.data, (row * 2 + h) * 64 + d)));
            }
        /* The rows in front: as without that key. */
        c.s.kv_len[0] = 19;
        c.s.q_len[0] = 2;
        assert_sequence(&c, 0, 1);
        destroy(&c);
    }
}

/* A wrong id in one sequence: reported, and the other one is right. */
static void test_bad_table(void **state)
{
    const struct shape s = { PKV_I8, PKV_F16, PKV_F16,    2,        32, 16,    4,
                             16,     2,       { 40, 40 }, { 1, 1 }, 2,  false, false };
    struct call c;
    (void)state;
    build(&c, &s);
    memset(c.v.data, 0, 16 * 16 * 2); /* the null block, which is read instead */
    memset(c.k.scales.data, 0, 16 * 2 * sizeof(float));
    c.table[1] = 1000;
    assert_device_ok(run(&c));
    assert_int_equal(c.bad[0], PKV_BAD_RANGE);
    assert_int_equal(c.bad[1], 0);
    assert_int_equal(c.bad[2], 1);
    assert_int_equal(c.bad[3], 1000);
    assert_sequence(&c, 1, 1);
    destroy(&c);
}

static void test_refusals(void **state)
{
    static const struct {
        pkv_dtype latent, rope, q;
        int32_t parts, part_dim;
        const char *why;
    } wrong[] = {
        { PKV_F16, PKV_F16, PKV_F32, 1, 64, "queries are f16 or bf16" },
        { PKV_F16, PKV_F32, PKV_F16, 1, 64, "rope is f16 or bf16" },
        { PKV_BF16, PKV_F16, PKV_F16, 1, 64, "queries over bf16 are bf16" },
        { PKV_F16, PKV_BF16, PKV_F16, 1, 64, "queries over bf16 are bf16" },
        { PKV_U4, PKV_F16, PKV_F16, 1, 64, "zero points are not supported" },
        { PKV_I8, PKV_F16, PKV_F16, 9, 16, "up to 8 parts" },
        { PKV_I8, PKV_F16, PKV_F16, 7, 72, "exceed 512" },
        { PKV_F16, PKV_F16, PKV_F16, 1, 64, "exceed 2^31 - 1" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct call c;
        struct shape s = { PKV_F16, PKV_F16, PKV_F16, 1, 64, 16, 2, 16, 1, { 4 }, { 1 }, 1, 0, 0 };
        const pkv_dtype q = wrong[i].q, rope = wrong[i].rope;
        s.latent = wrong[i].latent;
        if (rope != PKV_F32) s.rope = rope;
        if (q != PKV_F32) s.q = q;
        s.parts = wrong[i].parts;
        s.part_dim = wrong[i].part_dim;
        build(&c, &s);
        c.v.dtype = rope;
        if (q == PKV_F32) {
            c.q.dtype = c.qr.dtype = c.out.dtype = q;
            char *const data = take(&c, 4096);
            c.q.data = data, c.qr.data = data + 1024, c.out.data = data + 2048;
        }
        if (strstr(wrong[i].why, "zero points")) c.k.zeros = c.k.scales;
        if (strstr(wrong[i].why, "2^31")) c.q.n_rows = c.qr.n_rows = c.out.n_rows = 1 << 30;
        assert_int_equal(pkv_attn_mla_run(c.be, &c.q, &c.qr, &c.k, &c.v, &c.batch, &c.opts,
                                          c.workspace, c.workspace_bytes, NULL, &c.out, &c.lse),
                         PKV_E_UNSUPPORTED);
        if (!strstr(c.log.text, wrong[i].why)) fail_msg("case %zu: \"%s\"", i, c.log.text);
        destroy(&c);
    }
}

/* Keys that end at 2^31 - 1, all of them one row; only those in the window are looked at. */
static void test_last_keys(void **state)
{
    static const struct shape shape = { PKV_F16, PKV_F16, PKV_F16, 1,     64, 32,    3,
                                        64,      1,       { 1 },   { 1 }, 2,  false, false };
    (void)state;
    for (int has_table = 0; has_table < 2; has_table++) {
        struct call c;
        build(&c, &shape);
        c.k.block_tokens = c.v.block_tokens = INT32_MAX;
        c.k.token_stride = c.v.token_stride = 0;
        c.opts.window_left = 40;
        c.batch.kv_len = upload(&c, &(const int32_t){ INT32_MAX }, 1);
        if (!has_table) { /* its block becomes block 0 */
            c.k.data = (char *)c.k.data + c.table[0] * c.k.block_stride * 2;
            c.v.data = (char *)c.v.data + c.table[0] * c.v.block_stride * 2;
            c.k.n_blocks = c.v.n_blocks = 1;
            c.batch.table = NULL;
        }
        assert_device_ok(run(&c));
        assert_int_equal(c.bad[0], 0);
        for (int32_t i = 0; i < 3 * 64; i++) {
            const double got = oracle_load(PKV_F16, c.out.data, i), want = c.latent[0][i % 64];
            assert_true(fabs(got - want) <= 0x1p-10 * fabs(want));
        }
        destroy(&c);
    }
}

/* More sequences than a block of threads cuts at a time, each a row over the same block of keys.
 * Then the one that the second cut begins with asks for rows of others, too: it gets none, and
 * neither does the one in front of it, which would end before it begins. */
static void test_many_sequences(void **state)
{
    enum { N = 300, SECOND = 256 };
    static const struct shape s = { PKV_F16, PKV_F16, PKV_F16, 1,     8, 8,     1,
                                    64,      1,       { 40 },  { N }, 3, false, false };
    struct call c;
    int32_t kv_len[N], table[N], rows[N + 1] = { 0 };
    (void)state;
    build(&c, &s);
    for (int32_t i = 0; i < N; i++) {
        kv_len[i] = 40 - i % 37;
        table[i] = c.table[0];
        rows[i + 1] = i + 1 == SECOND ? 5 : i + 1;
    }
    c.batch.n_seqs = N;
    c.batch.kv_len = upload(&c, kv_len, N);
    c.batch.table = upload(&c, table, N);
    c.s.q_len[0] = 1;
    for (int damaged = 0; damaged < 2; damaged++) {
        c.batch.q_indptr = damaged ? upload(&c, rows, N + 1) : NULL;
        assert_device_ok(run(&c));
        assert_int_equal(c.bad[0], damaged ? PKV_BAD_Q_INDPTR : 0);
        for (int32_t i = 0; i < N; i++) {
            c.row0[0] = i;
            c.s.kv_len[0] = kv_len[i];
            if (damaged && (i == SECOND - 1 || i == SECOND)) assert_true(isnan(c.lse.data[i]));
            else assert_sequence(&c, 0, 1);
        }
    }
    destroy(&c);
}

/* Every logit is -inf, from an infinity of V: as if no key were visible. */
static void test_no_weight(void **state)
{
    static const struct shape s = { PKV_F16, PKV_F16, PKV_F16, 1,     64, 16,    2,
                                    64,      1,       { 40 },  { 1 }, 2,  false, false };
    struct call c;
    (void)state;
    build(&c, &s);
    for (int32_t i = 0; i < 2 * 64; i++) oracle_store(PKV_F16, c.q.data, i, 1);
    for (int32_t j = 0; j < 40; j++)
        oracle_store(PKV_F16, c.k.data,
                     c.table[0] * c.k.block_stride + j * c.k.token_stride + j % 64,
                     -(double)INFINITY);
    assert_device_ok(run(&c));
    for (int32_t i = 0; i < 2 * 64; i++) assert_true(oracle_load(PKV_F16, c.out.data, i) == 0);
    for (int32_t h = 0; h < 2; h++) assert_true(isinf(c.lse.data[h]) && c.lse.data[h] < 0);
    destroy(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_heads),          cmocka_unit_test(test_options),
        cmocka_unit_test(test_shared),         cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_not_finite),     cmocka_unit_test(test_bad_table),
        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_last_keys),
        cmocka_unit_test(test_many_sequences), cmocka_unit_test(test_no_weight),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
