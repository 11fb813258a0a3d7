/* Problems of attention for directed tests. */
#include "cuda_problem.h"
#include "kernels/cuda/cuda_internal.h"
#include "oracle/oracle_numbers.h"

#include <math.h>

/* ------------------------------------------------------------------ numbers */

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

/* In [-1, 1), of a place in a tensor. */
static double number(int32_t what, int32_t id, int32_t row, int32_t head, int32_t d)
{
    const uint64_t place = ((uint64_t)(uint32_t)id << 32 | (uint32_t)row) * 4099 +
                           (uint64_t)(head * 512 + d) * UINT64_C(0x9e3779b97f4a7c15) +
                           (uint64_t)what;
    return (double)(mixed(mixed(place) + (uint64_t)d) >> 11) * 0x1p-52 - 1;
}

/* A code, or a number that the type holds. */
static double stored(pkv_dtype dtype, double x)
{
    if (dtype == PKV_U4) return floor(8 * x + 8);
    if (dtype == PKV_I8) return nearbyint(100 * x);
    if (dtype >= PKV_E4M3) return nearbyint(4 * x);
    return oracle_round(dtype, x);
}

/* ------------------------------------------------------------------ memory */

void *cuda_take(struct cuda_problem *p, size_t bytes)
{
    void *data = device_alloc(bytes ? bytes : 1);
    assert_non_null(data);
    assert_true(p->n_memory < 24);
    return p->memory[p->n_memory++] = data;
}

void cuda_free(struct cuda_problem *p)
{
    for (int i = 0; i < p->n_memory; i++) device_free(p->memory[i]);
    device_free(p->workspace);
    free(p->row0);
    *p = (struct cuda_problem){ .n_memory = 0 };
}

static int32_t blocks_of(const struct cuda_problem *p, int32_t kv_len)
{
    return (kv_len + p->shape.block_tokens - 1) / p->shape.block_tokens;
}

static pkv_tensor3 place_rows(struct cuda_problem *p, cuda_layout layout)
{
    const struct cuda_shape *s = &p->shape;
    const int64_t step = s->dim + (layout & 1 ? 8 : 0);
    pkv_tensor3 t = {
        NULL, s->q_dtype, s->n_q_heads, s->dim, p->n_rows, s->n_q_heads * step, step
    };
    if (layout & 2) {
        t.row_stride = step;
        t.head_stride = (p->n_rows + 1) * step;
    }
    const int64_t last = (p->n_rows - 1) * t.row_stride + (s->n_q_heads - 1) * t.head_stride;
    t.data = cuda_take(p, p->n_rows > 0 ? (size_t)(last + s->dim) * 2 : 16);
    return t;
}

static pkv_kv_view place_store(struct cuda_problem *p, int32_t n_blocks, cuda_layout layout)
{
    const struct cuda_shape *s = &p->shape;
    const int64_t unit = s->kv_dtype == PKV_U4 ? 32 : s->kv_dtype >= PKV_E4M3 ? 16 : 8;
    const int64_t row = (s->dim + unit - 1) / unit * unit + (layout & 4 ? 32 : 0);
    pkv_kv_view v = { NULL, s->kv_dtype, n_blocks, s->block_tokens,   s->n_kv_heads,    s->dim,
                      0,    0,           0,        { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 } };
    v.token_stride = layout & 8 ? s->n_kv_heads * row : row;
    v.head_stride = layout & 8 ? row : s->block_tokens * row;
    v.block_stride = (int64_t)s->n_kv_heads * s->block_tokens * row;
    v.data = cuda_take(p, (size_t)oracle_span(s->kv_dtype, n_blocks * v.block_stride));
    if (s->kv_dtype < PKV_E4M3) return v;
    const int64_t bt = s->block_tokens, nh = s->n_kv_heads;
    v.scales =
        layout & 16 ? (pkv_scales){ NULL, bt * nh, nh, 1 } : (pkv_scales){ NULL, bt * nh, 1, bt };
    v.zeros = v.scales;
    v.scales.data = cuda_take(p, (size_t)(n_blocks * bt * nh) * sizeof(float));
    v.zeros.data =
        s->kv_dtype == PKV_U4 ? cuda_take(p, (size_t)(n_blocks * bt * nh) * sizeof(float)) : NULL;
    return v;
}

static void put_key(const pkv_kv_view *v, int32_t what, int32_t id, int32_t j, int32_t block)
{
    const int32_t token = j % v->block_tokens;
    const double unit = v->dtype == PKV_U4 ? 0.125 : v->dtype == PKV_I8 ? 0.01 : 0.25;
    for (int32_t g = 0; g < v->n_heads; g++) {
        const int64_t at = block * v->block_stride + token * v->token_stride + g * v->head_stride;
        for (int32_t d = 0; d < v->dim; d++)
            oracle_store(v->dtype, v->data, at + d, stored(v->dtype, number(what, id, j, g, d)));
        const pkv_scales *s = &v->scales, *z = &v->zeros;
        const int64_t n = block * s->block_stride + token * s->token_stride + g * s->head_stride;
        if (s->data) s->data[n] = (float)(unit * (1.5 + number(what + 2, id, j, g, 0)));
        if (z->data) z->data[n] = (float)(8 + number(what + 4, id, j, g, 0));
    }
}

/* A permutation of the blocks: i * odd + offset modulo a power of two, skipping what is none. */
static int32_t next_block(uint32_t *at, int32_t n_blocks, cuda_layout layout)
{
    uint32_t size = 1, block;
    while (size < (uint32_t)n_blocks) size *= 2;
    do block = (*at)++ * (layout * 2 + 1) + layout;
    while (block % size < 1 || block % size >= (uint32_t)n_blocks);
    return (int32_t)(block % size);
}

static void place_keys(struct cuda_problem *p, const struct cuda_seq *seqs, cuda_layout layout)
{
    int32_t total = 0, longest = 1, at_csr = 0;
    uint32_t at = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t n = blocks_of(p, seqs[b].kv_len);
        total += n;
        if (n > longest) longest = n;
    }
    const int32_t n_blocks = total + 1 + (int32_t)(layout % 7), slack = (int32_t)(layout % 3);
    const bool csr = layout & 32;
    p->k = place_store(p, n_blocks, layout);
    p->v = place_store(p, n_blocks, layout / 3);
    p->batch.table_stride = csr ? total : longest + slack;
    const int64_t n_ids = csr ? total : p->n_seqs * p->batch.table_stride;
    p->batch.table = p->table = cuda_take(p, (size_t)n_ids * sizeof(int32_t));
    if (csr) p->table_indptr = cuda_take(p, (size_t)(p->n_seqs + 1) * sizeof(int32_t));
    p->batch.table_indptr = p->table_indptr;
    for (int64_t i = 0; i < n_ids; i++) p->table[i] = INT32_MIN;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        int32_t *ids = p->table + (csr ? at_csr : b * p->batch.table_stride);
        if (csr) p->table_indptr[b] = at_csr;
        at_csr += blocks_of(p, seqs[b].kv_len);
        for (int32_t j = 0; j < seqs[b].kv_len; j++) {
            if (j % p->shape.block_tokens == 0)
                ids[j / p->shape.block_tokens] = next_block(&at, n_blocks, layout);
            put_key(&p->k, 0, seqs[b].id, j, ids[j / p->shape.block_tokens]);
            put_key(&p->v, 1, seqs[b].id, j, ids[j / p->shape.block_tokens]);
        }
    }
    if (csr) p->table_indptr[p->n_seqs] = at_csr;
}

void cuda_build(struct cuda_problem *p, const struct cuda_shape *shape, const struct cuda_seq *seqs,
                int32_t n, cuda_layout layout)
{
    *p = (struct cuda_problem){
        .shape = *shape, .n_seqs = n, .batch = PKV_ATTN_BATCH_INIT, .opts = PKV_ATTN_OPTS_INIT
    };
    p->row0 = malloc((size_t)(n + 1) * sizeof(int32_t));
    p->kv_len = cuda_take(p, (size_t)n * sizeof(int32_t));
    p->q_indptr = cuda_take(p, (size_t)(n + 1) * sizeof(int32_t));
    for (int32_t b = 0; b <= n; b++) {
        p->row0[b] = p->q_indptr[b] = p->n_rows;
        if (b == n) break;
        p->kv_len[b] = seqs[b].kv_len;
        p->n_rows += seqs[b].q_len;
    }
    place_keys(p, seqs, layout);
    p->q = place_rows(p, layout);
    p->out = place_rows(p, layout / 5);
    for (int32_t b = 0; b < n; b++)
        for (int32_t i = 0; i < seqs[b].q_len * shape->n_q_heads; i++)
            for (int32_t d = 0; d < shape->dim; d++) {
                const int32_t row = i / shape->n_q_heads, h = i % shape->n_q_heads;
                oracle_store(shape->q_dtype, p->q.data,
                             (p->row0[b] + row) * p->q.row_stride + h * p->q.head_stride + d,
                             2 * number(9, seqs[b].id, row, h, d));
            }
    p->lse = (pkv_lse){ NULL, shape->n_q_heads, 1, 0 };
    p->lse.data = cuda_take(p, (size_t)(p->n_rows * shape->n_q_heads) * sizeof(float));
    p->bad = cuda_take(p, 4 * sizeof(uint32_t));
    memset(p->bad, 0, 4 * sizeof(uint32_t));
    p->opts.bad = p->bad;
    p->batch.n_seqs = n;
    p->batch.kv_len = p->kv_len;
    p->batch.q_indptr = p->q_indptr;
}

/* ------------------------------------------------------------------ runs */

void cuda_make_workspace(pkv_backend *be, struct cuda_problem *p)
{
    const struct cuda_shape *s = &p->shape;
    int64_t max_keys = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) max_keys += p->kv_len[b];
    const pkv_status status = p->opts.invariant
                                  ? pkv_attn_workspace_invariant(
                                        be, s->n_q_heads, s->n_kv_heads, s->dim, s->dim, p->n_seqs,
                                        max_keys, p->opts.invariant_chunk, &p->workspace_bytes)
                                  : pkv_attn_workspace(be, s->n_q_heads, s->n_kv_heads, s->dim,
                                                       s->dim, &p->workspace_bytes);
    assert_int_equal(status, PKV_OK);
    device_free(p->workspace);
    p->workspace = device_alloc(p->workspace_bytes);
    assert_int_equal(pkv_workspace_init(be, p->workspace, p->workspace_bytes, NULL), PKV_OK);
}

void cuda_run(pkv_backend *be, struct cuda_problem *p)
{
    if (!p->workspace) cuda_make_workspace(be, p);
    const pkv_status status =
        pkv_attn_run(be, &p->q, &p->k, &p->v, &p->batch, &p->opts, p->workspace, p->workspace_bytes,
                     NULL, &p->out, &p->lse);
    if (status != PKV_OK) fail_msg("%s: %s", pkv_status_name(status), device_last_error());
    if (p->bad[0] != 0) fail_msg("bad %#x", (unsigned)p->bad[0]);
}

static unsigned char *at_row(const struct cuda_problem *p, int32_t row, int32_t h)
{
    return (unsigned char *)p->out.data + (row * p->out.row_stride + h * p->out.head_stride) * 2;
}

struct cuda_rows cuda_collect(const struct cuda_problem *p)
{
    const int32_t heads = p->shape.n_q_heads;
    const size_t head_bytes = (size_t)p->shape.dim * 2;
    struct cuda_rows r = { .o_row = (size_t)heads * head_bytes,
                           .lse_row = (size_t)heads * sizeof(float),
                           .n_rows = p->n_rows };
    r.o = malloc(r.o_row * (size_t)p->n_rows + 1);
    r.lse = malloc(r.lse_row * (size_t)p->n_rows + 1);
    memcpy(r.lse, p->lse.data, r.lse_row * (size_t)p->n_rows);
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < heads; h++)
            memcpy(r.o + (size_t)(i * heads + h) * head_bytes, at_row(p, i, h), head_bytes);
    return r;
}

void cuda_clear(struct cuda_problem *p)
{
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < p->shape.n_q_heads; h++)
            memset(at_row(p, i, h), 0xff, (size_t)p->shape.dim * 2);
    memset(p->lse.data, 0xff, (size_t)(p->n_rows * p->shape.n_q_heads) * sizeof(float));
}

struct cuda_rows cuda_result(pkv_backend *be, struct cuda_problem *p)
{
    cuda_clear(p);
    cuda_run(be, p);
    return cuda_collect(p);
}

void cuda_rows_free(struct cuda_rows *r)
{
    free(r->o);
    free(r->lse);
}

void cuda_assert_same(const struct cuda_rows *a, int32_t at, const struct cuda_rows *b, int32_t bt,
                      int32_t n, const char *what)
{
    for (int32_t i = 0; i < n; i++) {
        if (memcmp(a->o + (size_t)(at + i) * a->o_row, b->o + (size_t)(bt + i) * b->o_row,
                   a->o_row))
            fail_msg("%s: other bits in out, row %d of one and %d of the other", what, at + i,
                     bt + i);
        if (memcmp(a->lse + (size_t)(at + i) * a->lse_row, b->lse + (size_t)(bt + i) * b->lse_row,
                   a->lse_row))
            fail_msg("%s: other bits in lse, row %d of one and %d of the other", what, at + i,
                     bt + i);
    }
}

static void assert_near(double got, double want, double bound, const char *what, int32_t i)
{
    const bool near = fabs(got - want) <= bound || got == want;
    if (!near) fail_msg("%s %d: %g, of the CPU %g", what, i, got, want);
}

void cuda_assert_right(const struct cuda_problem *p, const struct cuda_rows *r)
{
    struct cuda_problem host = *p;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    size_t bytes = 0;
    const int32_t heads = p->shape.n_q_heads, dim = p->shape.dim;
    const size_t n = (size_t)(p->n_rows * heads);
    cfg.max_isa = PKV_ISA_SCALAR;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    assert_int_equal(pkv_attn_workspace(be, heads, p->shape.n_kv_heads, dim, dim, &bytes), PKV_OK);
    host.workspace = aligned_alloc(64, bytes);
    host.out.row_stride = heads * dim;
    host.out.head_stride = dim;
    host.out.data = aligned_alloc(16, (n * (size_t)dim * 2 + 15) / 16 * 16 + 16);
    host.lse.data = malloc(n * sizeof(float) + 1);
    assert_int_equal(pkv_attn_run(be, &host.q, &host.k, &host.v, &host.batch, &host.opts,
                                  host.workspace, bytes, NULL, &host.out, &host.lse),
                     PKV_OK);
    for (size_t i = 0; i < n; i++) {
        float lse;
        memcpy(&lse, r->lse + i * sizeof lse, sizeof lse);
        const double want = (double)host.lse.data[i];
        /* One key more or less among hundreds has to show. */
        assert_near((double)lse, want, 1e-3 + 1e-4 * fabs(want), "lse", (int32_t)i);
        for (int32_t d = 0; d < dim; d++) {
            const int64_t at = (int64_t)i * dim + d;
            const double o = oracle_load(p->shape.q_dtype, host.out.data, at);
            assert_near(oracle_load(p->shape.q_dtype, r->o, at), o, 0.02 + 0.01 * fabs(o), "out",
                        (int32_t)i);
        }
    }
    free(host.workspace);
    free(host.out.data);
    free(host.lse.data);
    pkv_backend_destroy(be);
}

void cuda_run_right(pkv_backend *be, struct cuda_problem *p)
{
    struct cuda_rows r = cuda_result(be, p);
    cuda_assert_right(p, &r);
    cuda_rows_free(&r);
}
