/* Batches of check_gpu. */
#include "check_gpu_batch.h"

#include "attn_problem.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t blocks_of(const struct gpu_shape *s, int32_t kv_len)
{
    return (kv_len + s->block_tokens - 1) / s->block_tokens;
}

/* Each sequence in one piece, [head][K,V][token][dim]: longer than blocks of a store may be. */
static bool lay_out_pieces(struct gpu_batch *b)
{
    const struct gpu_shape *s = &b->shape;
    const int32_t tokens = (b->max_kv_len + 15) / 16 * 16;
    const int64_t piece = (int64_t)tokens * s->dim;
    b->k = (pkv_kv_view){ .data = b->g->pool,
                          .dtype = s->kv_dtype,
                          .n_blocks = s->n_seqs,
                          .block_tokens = tokens,
                          .n_heads = s->n_kv_heads,
                          .dim = s->dim,
                          .block_stride = 2 * piece * s->n_kv_heads,
                          .token_stride = s->dim,
                          .head_stride = 2 * piece };
    b->v = b->k;
    b->v.data = (uint16_t *)b->k.data + piece;
    b->n_blocks = s->n_seqs;
    return (size_t)b->k.block_stride * 2 * (size_t)s->n_seqs <= b->g->pool_bytes;
}

static bool make_store(struct gpu_batch *b, struct gpu_result *r)
{
    const struct gpu_shape *s = &b->shape;
    if (!s->block_tokens) return lay_out_pieces(b);
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    pkv_store_info_t info = PKV_STORE_INFO_INIT;
    cfg.shape = (pkv_kv_shape){ 1, s->n_kv_heads, s->dim, s->block_tokens, s->kv_dtype };
    cfg.n_blocks = 2;
    cfg.memory = b->g->pool;
    cfg.memory_bytes = b->g->pool_bytes;
    cfg.on_device = true;
    if (!gpu_took(b->g, r, pkv_store_create(&cfg, &b->store))) return false;
    if (!gpu_took(b->g, r, pkv_store_info(b->store, &info))) return false;
    b->block_bytes = info.block_bytes;
    const size_t n = b->g->pool_bytes / b->block_bytes;
    b->n_blocks = cfg.n_blocks = n > INT32_MAX ? INT32_MAX : (int32_t)n;
    pkv_store_destroy(b->store);
    b->store = NULL;
    return gpu_took(b->g, r, pkv_store_create(&cfg, &b->store)) &&
           gpu_took(b->g, r, pkv_store_views(b->store, 0, &b->k, &b->v));
}

/* The blocks of a table follow each other in random order; those of the next table are others. */
static bool make_tables(struct gpu_batch *b, struct gpu_result *r)
{
    struct gpu_shape *s = &b->shape;
    int64_t needed = 0;
    if (!s->block_tokens) return true;
    for (int32_t i = 0; i < s->n_seqs; i++) needed += blocks_of(s, s->kv_len[i]);
    if (needed >= b->n_blocks) {
        gpu_note(r, "needs %lld blocks, there are %d", (long long)needed, b->n_blocks);
        return false;
    }
    if (needed * s->n_tables >= b->n_blocks) s->n_tables = (int32_t)((b->n_blocks - 1) / needed);
    b->row_ids = blocks_of(s, b->max_kv_len);
    const size_t n_ids = (size_t)s->n_tables * (size_t)s->n_seqs * (size_t)b->row_ids;
    b->ids = calloc(n_ids, sizeof(*b->ids));
    int32_t *order = malloc((size_t)(needed * s->n_tables) * sizeof(*order));
    if (!b->ids || !order) exit(2);
    struct rng rng = { b->g->seed };
    rng_permutation(&rng, order, (int32_t)(needed * s->n_tables));
    int64_t next = 0;
    for (int32_t t = 0; t < s->n_tables; t++)
        for (int32_t i = 0; i < s->n_seqs; i++)
            for (int32_t j = 0; j < blocks_of(s, s->kv_len[i]); j++)
                b->ids[((int64_t)t * s->n_seqs + i) * b->row_ids + j] = 1 + order[next++];
    free(order);
    b->dev_table = gpu_alloc(n_ids * sizeof(*b->ids));
    if (b->dev_table) gpu_upload(b->dev_table, b->ids, n_ids * sizeof(*b->ids));
    b->batch.table = b->dev_table;
    b->batch.table_stride = b->row_ids;
    return b->dev_table != NULL;
}

static bool make_rows(struct gpu_batch *b)
{
    const struct gpu_shape *s = &b->shape;
    const int64_t n_rows = (int64_t)s->n_seqs * s->q_len, row = (int64_t)s->n_q_heads * s->dim;
    const size_t n = (size_t)(n_rows * row), n_lse = (size_t)(n_rows * s->n_q_heads);
    struct rng rng = { b->g->seed + 1 };
    b->out_bytes = n * 2;
    b->lse_bytes = n_lse * sizeof(float);
    b->host_q = malloc(n * 2);
    if (!b->host_q) exit(2);
    for (size_t i = 0; i < n; i++)
        oracle_store(s->q_dtype, b->host_q, (int64_t)i, (double)rng_normal(&rng));
    b->q = b->out = (pkv_tensor3){ NULL, s->q_dtype, s->n_q_heads, s->dim, n_rows, row, s->dim };
    b->q.data = gpu_alloc(n * 2);
    b->out.data = gpu_alloc(n * 2);
    b->lse = (pkv_lse){ gpu_alloc(b->lse_bytes), s->n_q_heads, 1, 0 };
    if (!b->q.data || !b->out.data || !b->lse.data) return false;
    gpu_upload(b->q.data, b->host_q, n * 2);
    gpu_fill(b->out.data, 0xff, n * 2);
    gpu_fill(b->lse.data, 0xff, b->lse_bytes);
    return true;
}

static bool make_arrays(struct gpu_batch *b)
{
    const struct gpu_shape *s = &b->shape;
    const size_t n = (size_t)s->n_seqs;
    int32_t *indptr = malloc((n + 1) * sizeof(*indptr));
    if (!indptr) exit(2);
    for (int32_t i = 0; i <= s->n_seqs; i++) indptr[i] = i * s->q_len;
    b->dev_kv_len = gpu_alloc(n * sizeof(int32_t));
    b->dev_indptr = gpu_alloc((n + 1) * sizeof(int32_t));
    if (b->dev_kv_len && b->dev_indptr) {
        gpu_upload(b->dev_kv_len, b->kv_len, n * sizeof(int32_t));
        gpu_upload(b->dev_indptr, indptr, (n + 1) * sizeof(int32_t));
    }
    free(indptr);
    b->batch.n_seqs = s->n_seqs;
    b->batch.kv_len = b->dev_kv_len;
    b->batch.q_indptr = b->dev_indptr;
    b->batch.max_q_len = s->q_len;
    return b->dev_kv_len && b->dev_indptr;
}

static bool make_workspace(struct gpu_batch *b, struct gpu_result *r)
{
    const struct gpu_shape *s = &b->shape;
    pkv_status status =
        s->invariant
            ? pkv_attn_workspace_invariant(b->g->be, s->n_q_heads, s->n_kv_heads, s->dim, s->dim,
                                           s->n_seqs, b->n_keys, 0, &b->workspace_bytes)
            : pkv_attn_workspace(b->g->be, s->n_q_heads, s->n_kv_heads, s->dim, s->dim,
                                 &b->workspace_bytes);
    if (!gpu_took(b->g, r, status)) return false;
    b->workspace = gpu_alloc(b->workspace_bytes);
    if (!b->workspace) return false;
    status = pkv_workspace_init(b->g->be, b->workspace, b->workspace_bytes, gpu_stream());
    return gpu_took(b->g, r, status);
}

static void count(struct gpu_batch *b)
{
    const struct gpu_shape *s = &b->shape;
    double row = (double)s->dim * pkv_dtype_bits(s->kv_dtype) / 8;
    if (s->kv_dtype == PKV_E4M3 || s->kv_dtype == PKV_I8) row += 4;
    if (s->kv_dtype == PKV_U4) row += 8;
    for (int32_t i = 0; i < s->n_seqs; i++) {
        b->n_keys += s->kv_len[i];
        if (s->kv_len[i] > b->max_kv_len) b->max_kv_len = s->kv_len[i];
    }
    b->kv_bytes = 2 * row * s->n_kv_heads * (double)b->n_keys;
}

bool gpu_batch_make(struct gpu *g, struct gpu_result *r, const struct gpu_shape *shape,
                    struct gpu_batch *b)
{
    *b = (struct gpu_batch){ .g = g, .shape = *shape };
    b->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    b->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
    b->opts.invariant = shape->invariant;
    count(b);
    const size_t len_bytes = (size_t)shape->n_seqs * sizeof(int32_t);
    b->kv_len = malloc(len_bytes);
    if (!b->kv_len) exit(2);
    memcpy(b->kv_len, shape->kv_len, len_bytes);
    b->shape.kv_len = b->kv_len;
    r->verdict = GPU_SKIPPED;
    if (b->kv_bytes > (double)g->pool_bytes) {
        gpu_note(r, "needs %.1f GB of K and V", b->kv_bytes * 1e-9);
        return false;
    }
    if (make_store(b, r) && make_workspace(b, r) && make_tables(b, r) && make_rows(b) &&
        make_arrays(b)) {
        r->verdict = GPU_OK;
        return true;
    }
    if (!r->note[0]) gpu_note(r, "no memory on the device");
    return false;
}

void gpu_batch_free(struct gpu_batch *b)
{
    void *const device[] = { b->dev_table, b->dev_kv_len, b->dev_indptr, b->workspace,
                             b->q.data,    b->out.data,   b->lse.data };
    for (size_t i = 0; i < sizeof(device) / sizeof(device[0]); i++) gpu_free(device[i]);
    pkv_store_destroy(b->store);
    free(b->kv_len);
    free(b->ids);
    free(b->host_q);
}

pkv_status gpu_batch_run(void *ctx)
{
    struct gpu_batch *b = ctx;
    pkv_status status = PKV_OK;
    const int64_t table = (int64_t)b->shape.n_seqs * b->row_ids;
    for (int32_t t = 0; t < b->shape.n_tables && status == PKV_OK; t++) {
        pkv_attn_batch batch = b->batch;
        if (batch.table) batch.table += t * table;
        status = pkv_attn_run(b->g->be, &b->q, &b->k, &b->v, &batch, &b->opts, b->workspace,
                              b->workspace_bytes, gpu_stream(), &b->out, &b->lse);
    }
    return status;
}

/* Rows of one head of K or V of a sequence as the last table has them, [kv_len][dim]. */
static float *fetch_rows(const struct gpu_batch *b, const pkv_kv_view *v, int32_t seq, int32_t head)
{
    const int32_t n = b->kv_len[seq], dim = v->dim;
    const int32_t *ids =
        b->ids ? b->ids + ((int64_t)(b->shape.n_tables - 1) * b->shape.n_seqs + seq) * b->row_ids
               : NULL;
    float *rows = malloc((size_t)n * (size_t)dim * sizeof(float) + 1);
    uint16_t *host = malloc((size_t)v->block_tokens * (size_t)v->token_stride * 2);
    if (!rows || !host) exit(2);
    for (int32_t j = 0; j < n; j += v->block_tokens) {
        const int32_t block = ids ? ids[j / v->block_tokens] : seq;
        const int32_t left = n - j < v->block_tokens ? n - j : v->block_tokens;
        const int64_t at = block * v->block_stride + head * v->head_stride;
        gpu_download(host, (const uint16_t *)v->data + at,
                     ((size_t)(left - 1) * (size_t)v->token_stride + (size_t)dim) * 2);
        for (int32_t t = 0; t < left; t++)
            for (int32_t d = 0; d < dim; d++)
                rows[(int64_t)(j + t) * dim + d] =
                    (float)oracle_load(v->dtype, host, t * v->token_stride + d);
    }
    free(host);
    return rows;
}

static void compare(struct gpu_result *r, const struct oracle_seq *s, const struct oracle_row *want,
                    const struct oracle_path *path, const uint16_t *out)
{
    for (int32_t d = 0; d < s->v.dim; d++) {
        const double got = oracle_load(path->out, out, d);
        const double bound = oracle_bound_o(s, want, path, d);
        if (fabs(got - want->o[d]) <= bound) continue;
        r->verdict = GPU_WRONG;
        gpu_note(r, "dim %d: %.6g, want %.6g, bound %.3g", d, got, want->o[d], bound);
        return;
    }
}

void gpu_batch_verify(struct gpu_batch *b, struct gpu_result *r, int32_t seq, int32_t row,
                      int32_t head)
{
    const struct gpu_shape *s = &b->shape;
    if (r->verdict == GPU_WRONG || (s->kv_dtype != PKV_F16 && s->kv_dtype != PKV_BF16)) return;
    const int32_t dim = s->dim, kv_head = head / (s->n_q_heads / s->n_kv_heads);
    const int64_t at = (((int64_t)seq * s->q_len + row) * s->n_q_heads + head) * dim;
    float q[ORACLE_MAX_DIM];
    uint16_t out[ORACLE_MAX_DIM];
    struct oracle_row want;
    for (int32_t d = 0; d < dim; d++) q[d] = (float)oracle_load(s->q_dtype, b->host_q, at + d);
    gpu_download(out, (const uint16_t *)b->out.data + at, (size_t)dim * 2);
    float *k = fetch_rows(b, &b->k, seq, kv_head), *v = fetch_rows(b, &b->v, seq, kv_head);
    /* the row alone: its keys are those up to its own */
    const int32_t n = b->kv_len[seq] - s->q_len + row + 1;
    const struct oracle_seq one = { .q_len = 1,
                                    .kv_len = n,
                                    .n_q_heads = 1,
                                    .n_kv_heads = 1,
                                    .q = q,
                                    .k = { .codes = k, .dim = dim },
                                    .v = { .codes = v, .dim = dim },
                                    .window_left = -1,
                                    .window_right = -1,
                                    .causal = true };
    const struct attn_problem p = { .kv_dtype = s->kv_dtype, .q_dtype = s->q_dtype };
    const struct attn_route route = { PKV_ISA_CUDA, s->q_len == 1, false };
    double *scratch = malloc((size_t)(n > 0 ? n : 1) * sizeof(double));
    if (!scratch) exit(2);
    oracle_attention(&one, 0, 0, scratch, &want);
    const struct oracle_path path = attn_path(&p, &route, want.n_visible, b->kv_len[seq]);
    compare(r, &one, &want, &path, out);
    free(scratch);
    free(k);
    free(v);
}

void gpu_batch_finite(struct gpu_batch *b, struct gpu_result *r)
{
    uint16_t *out = malloc(b->out_bytes + 1);
    const uint16_t exponent = b->shape.q_dtype == PKV_F16 ? 0x7c00 : 0x7f80;
    if (!out) exit(2);
    gpu_download(out, b->out.data, b->out_bytes);
    for (size_t i = 0; i < b->out_bytes / 2; i++) {
        if ((out[i] & exponent) != exponent) continue;
        r->verdict = GPU_WRONG;
        gpu_note(r, "element %zu of the output is no number: %#x", i, (unsigned)out[i]);
        break;
    }
    free(out);
}
