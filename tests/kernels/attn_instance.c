/* Laying out attention problems in hostile memory, and running them. */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attn_layout attn_draw_layout(struct check *c)
{
    struct rng *r = &c->rng;
    return (struct attn_layout){
        .table = (enum attn_table)rng_int(r, 0, TABLE_N - 1),
        .order = (enum attn_order)rng_int(r, 0, ORDER_N - 1),
        .v_order = (enum attn_order)rng_int(r, ORDER_NHD, ORDER_N - 1),
        .extra_blocks = rng_int(r, 0, 5),
        .extra_ids = rng_int(r, 0, 3),
        .pad_rows = rng_chance(r, 30) ? rng_int(r, 1, 3) : 0,
        .transposed = rng_chance(r, 40),
        .padded = rng_chance(r, 50),
        .full_scales = rng_chance(r, 40),
        .fill = 0xff,
    };
}

void *attn_take(struct attn_instance *inst, int64_t bytes, unsigned char fill)
{
    struct hostile *m = &inst->mem[inst->n_mem++];
    *m = hostile_create(((size_t)bytes + 15) / 16 * 16, fill);
    return m->data;
}

static void *take_words(struct attn_instance *inst, int64_t n)
{
    struct hostile *m = &inst->mem[inst->n_mem++];
    *m = hostile_create((size_t)n * sizeof(int32_t), 0xff);
    return m->data;
}

float *attn_take_floats(struct attn_instance *inst, int64_t n)
{
    return take_words(inst, n);
}

int32_t attn_blocks_of(const struct attn_problem *p, int32_t b)
{
    return (p->kv_len[b] + p->block_tokens - 1) / p->block_tokens;
}

/* Blocks of each sequence: shared ones from the earlier sequence, the rest drawn from a shuffle of
 * the pool. Without a table, sequence b is block b, and nothing is shared. */
static void choose_blocks(struct check *c, struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    int32_t total = 0, next = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) total += attn_blocks_of(p, b);
    const int32_t n_pool = total + inst->layout.extra_blocks;
    int32_t *shuffle = malloc(((size_t)n_pool + 1) * sizeof(int32_t));
    rng_permutation(&c->rng, shuffle, n_pool);
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t n = attn_blocks_of(p, b), from = p->shared_with[b];
        inst->block_ids[b] = malloc(((size_t)n + 1) * sizeof(int32_t));
        for (int32_t e = 0; e < n; e++)
            inst->block_ids[b][e] = from >= 0 && e < p->shared_blocks[b] ? inst->block_ids[from][e]
                                                                         : 1 + shuffle[next++];
    }
    free(shuffle);
    inst->k.n_blocks = inst->v.n_blocks = 1 + n_pool;
    if (inst->layout.table != TABLE_NONE) return;
    int32_t longest = 1;
    for (int32_t b = 0; b < p->n_seqs; b++)
        if (p->kv_len[b] > longest) longest = p->kv_len[b];
    inst->k.n_blocks = inst->v.n_blocks = p->n_seqs + inst->layout.extra_blocks;
    inst->k.block_tokens = inst->v.block_tokens = longest + inst->layout.extra_ids;
}

/* Ids of entries that nobody may use. */
static int32_t poison_id(int32_t e)
{
    static const int32_t ids[] = { INT_MIN, INT_MAX, -1, 1 << 30 };
    return ids[e % 4];
}

static void write_blocks_and_table(struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    int32_t longest = 0, total = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t n = attn_blocks_of(p, b);
        if (n > longest) longest = n;
        total += n + inst->layout.extra_ids;
    }
    const bool csr = inst->layout.table == TABLE_CSR, dense = inst->layout.table == TABLE_DENSE;
    const int64_t stride = csr ? total : longest + inst->layout.extra_ids;
    int32_t *ids = csr     ? take_words(inst, total)
                   : dense ? take_words(inst, p->n_seqs * stride)
                           : NULL;
    int32_t *indptr = csr ? take_words(inst, p->n_seqs + 1) : NULL, at = 0;
    bool *used = malloc((size_t)longest + 1);
    inst->table = ids;
    inst->table_indptr = indptr;
    inst->batch.table = ids;
    inst->batch.table_indptr = indptr;
    inst->batch.table_stride = ids ? stride : 0;
    if (csr) indptr[0] = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int64_t n = csr ? attn_blocks_of(p, b) + inst->layout.extra_ids : stride;
        attn_write_keys(inst, b, used);
        for (int32_t e = 0; e < n && ids; e++) {
            const bool live = e < attn_blocks_of(p, b) && used[e];
            ids[(csr ? at : b * stride) + e] = live ? inst->block_ids[b][e] : poison_id(e);
        }
        at += (int32_t)n;
        if (csr) indptr[b + 1] = at;
    }
    free(used);
}

/* A tensor [n_rows][n_heads][dim], plain or [head][row][dim], with gaps if padded. */
static pkv_tensor3 place_tensor(struct attn_instance *inst, pkv_dtype dtype, int64_t n_rows,
                                int32_t n_heads, int32_t dim)
{
    const int64_t step = dim + (inst->layout.padded ? 24 : 0), elem = oracle_bytes(dtype);
    pkv_tensor3 t = { NULL, dtype, n_heads, dim, n_rows, n_heads * step, step };
    if (inst->layout.transposed) {
        t.row_stride = step;
        t.head_stride = (n_rows > 0 ? n_rows : 1) * step;
    }
    const int64_t elems =
        n_rows > 0 ? (n_rows - 1) * t.row_stride + (n_heads - 1) * t.head_stride + dim : 0;
    t.data = attn_take(inst, elems * elem, 0xff);
    return t;
}

static pkv_tensor3 place_queries(struct attn_instance *inst, const float *src, int64_t n_rows,
                                 int32_t before, int32_t dim)
{
    const struct attn_problem *p = inst->problem;
    const pkv_tensor3 t = place_tensor(inst, p->q_dtype, n_rows, p->n_q_heads, dim);
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < p->n_q_heads; h++)
            for (int32_t d = 0; d < dim; d++)
                oracle_store(p->q_dtype, t.data,
                             (before + i) * t.row_stride + h * t.head_stride + d,
                             (double)src[((int64_t)i * p->n_q_heads + h) * dim + d]);
    return t;
}

/* KT25: a row of the last sequence with rows has ceil(q_len / 32) words, and nothing lies behind.
 */
static void place_mask(struct attn_instance *inst, int32_t before)
{
    const struct attn_problem *p = inst->problem;
    if (!p->mask) return;
    const int64_t stride = p->mask_words + (inst->layout.padded ? 3 : 0);
    int32_t b = p->n_seqs - 1;
    while (b > 0 && p->q_len[b] == 0) b--;
    const int64_t n =
        p->n_rows > 0 ? (before + p->n_rows - 1) * stride + (p->q_len[b] + 31) / 32 : 0;
    uint32_t *mask = take_words(inst, n);
    for (int64_t at = before * stride; at < n; at++) {
        const int64_t row = at / stride - before, word = at % stride;
        if (word < p->mask_words) mask[at] = p->mask[row * p->mask_words + word];
    }
    inst->opts.mask = mask;
    inst->opts.mask_stride = stride;
}

static void place_rows(struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    const bool pads = p->with_q_indptr && inst->layout.pad_rows > 0;
    const int32_t before = pads ? 1 : 0, after = inst->layout.pad_rows - before;
    const int64_t n_rows = before + p->n_rows + (after > 0 ? after : 0);
    inst->q = place_queries(inst, p->q, n_rows, before, attn_q_dim(p));
    if (p->is_mla) inst->q_rope = place_queries(inst, p->q_rope, n_rows, before, p->v_dim);
    inst->out = place_tensor(inst, p->q_dtype, n_rows, p->n_q_heads, attn_o_dim(p));
    if (p->with_q_indptr) {
        inst->q_indptr = take_words(inst, p->n_seqs + 1);
        for (int32_t b = 0; b < p->n_seqs; b++) inst->q_indptr[b] = before + p->row0[b];
        inst->q_indptr[p->n_seqs] = before + p->n_rows;
        inst->batch.q_indptr = inst->q_indptr;
    }
    if (p->q_pos) {
        int32_t *q_pos = take_words(inst, n_rows);
        memcpy(q_pos + before, p->q_pos, (size_t)p->n_rows * sizeof(int32_t));
        inst->batch.q_pos = q_pos;
    }
    place_mask(inst, before);
    inst->batch.q_detached = p->q_detached;
    if (!p->with_lse) return;
    const int64_t step = inst->layout.padded ? 3 : 1;
    inst->lse = (pkv_lse){ NULL, p->n_q_heads * step, step, p->base2 };
    if (inst->layout.transposed) {
        inst->lse.row_stride = step;
        inst->lse.head_stride = (n_rows > 0 ? n_rows : 1) * step;
    }
    inst->lse.data =
        take_words(inst, n_rows > 0 ? (n_rows - 1) * inst->lse.row_stride +
                                          (p->n_q_heads - 1) * inst->lse.head_stride + 1
                                    : 0);
}

static const float *place_floats(struct attn_instance *inst, const float *src, int32_t n)
{
    float *data = attn_take_floats(inst, n);
    memcpy(data, src, (size_t)n * sizeof(float));
    return data;
}

static pkv_status workspace_invariant(const struct check *c, const struct attn_problem *p,
                                      size_t *bytes)
{
    int64_t max_keys = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) max_keys += p->kv_len[b];
    return pkv_attn_workspace_invariant(c->be, p->n_q_heads, p->n_kv_heads, p->k_dim, p->v_dim,
                                        p->n_seqs, max_keys, p->opts.invariant_chunk, bytes);
}

void attn_build(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
                struct attn_instance *inst)
{
    *inst = (struct attn_instance){
        .problem = p, .layout = *layout, .opts = p->opts, .batch = PKV_ATTN_BATCH_INIT
    };
    inst->k = (pkv_kv_view){ .dtype = p->kv_dtype,
                             .block_tokens = p->block_tokens,
                             .n_heads = p->n_kv_heads,
                             .dim = p->k_dim };
    inst->v = inst->k;
    inst->v.dim = p->v_dim;
    inst->v.dtype = attn_v_dtype(p);
    inst->v.n_heads = attn_v_heads(p);
    choose_blocks(c, inst);
    attn_place_kv(inst);
    write_blocks_and_table(inst);
    place_rows(inst);
    inst->batch.n_seqs = p->n_seqs;
    inst->kv_len = take_words(inst, p->n_seqs);
    memcpy(inst->kv_len, p->kv_len, (size_t)p->n_seqs * sizeof(int32_t));
    inst->batch.kv_len = inst->kv_len;
    if (p->with_pos0) {
        int32_t *pos0 = take_words(inst, p->n_seqs);
        memcpy(pos0, p->pos0, (size_t)p->n_seqs * sizeof(int32_t));
        inst->batch.kv_pos0 = pos0;
    }
    if (p->opts.alibi) inst->opts.alibi = place_floats(inst, p->alibi, p->n_q_heads);
    if (p->opts.sink) inst->opts.sink = place_floats(inst, p->sink, p->n_q_heads);
    inst->opts.bad = inst->bad = attn_take(inst, 4 * sizeof(uint32_t), 0);
    const pkv_status status = p->is_mla ? pkv_attn_mla_workspace(c->be, p->n_q_heads, attn_q_dim(p),
                                                                 p->v_dim, &inst->workspace_bytes)
                              : p->opts.invariant
                                  ? workspace_invariant(c, p, &inst->workspace_bytes)
                                  : pkv_attn_workspace(c->be, p->n_q_heads, p->n_kv_heads, p->k_dim,
                                                       p->v_dim, &inst->workspace_bytes);
    check_supported(c, status);
    CHECK(c, status == PKV_OK && inst->workspace_bytes % 64 == 0, "workspace: status %s, %zu bytes",
          pkv_status_name(status), inst->workspace_bytes);
    inst->workspace = attn_take(inst, (int64_t)inst->workspace_bytes, 0xff);
}

void attn_destroy(struct attn_instance *inst)
{
    for (int i = 0; i < inst->n_mem; i++) hostile_destroy(&inst->mem[i]);
    for (int32_t b = 0; b < inst->problem->n_seqs; b++) free(inst->block_ids[b]);
}

static struct hostile *memory_at(struct attn_instance *inst, const void *data)
{
    for (int i = 0; i < inst->n_mem; i++)
        if (inst->mem[i].data == data) return &inst->mem[i];
    return NULL;
}

/* Row `i` of the problem in rows of the tensors. */
static int64_t row_in_tensor(const struct attn_instance *inst, int32_t i)
{
    const struct attn_problem *p = inst->problem;
    return i + (p->with_q_indptr && inst->layout.pad_rows > 0 ? 1 : 0);
}

static bool all_ff(const unsigned char *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != 0xff) return false;
    return true;
}

/* Copy the results out and paint their places over: what is left must be untouched. */
static void collect(struct check *c, struct attn_instance *inst, struct attn_result *r)
{
    const struct attn_problem *p = inst->problem;
    const size_t elem = (size_t)oracle_bytes(p->q_dtype), row_bytes = (size_t)attn_o_dim(p) * elem;
    const size_t n = (size_t)p->n_rows * (size_t)p->n_q_heads;
    *r = (struct attn_result){ .o_bytes = n * row_bytes, .lse_bytes = n * sizeof(float) };
    r->o = malloc(r->o_bytes + 1);
    r->lse = p->with_lse ? malloc(r->lse_bytes + 1) : NULL;
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < p->n_q_heads; h++) {
            const int64_t row = row_in_tensor(inst, i), to = (int64_t)i * p->n_q_heads + h;
            char *o = (char *)inst->out.data +
                      (size_t)(row * inst->out.row_stride + h * inst->out.head_stride) * elem;
            memcpy((char *)r->o + (size_t)to * row_bytes, o, row_bytes);
            memset(o, 0xff, row_bytes);
            if (!p->with_lse) continue;
            float *lse = inst->lse.data + row * inst->lse.row_stride + h * inst->lse.head_stride;
            r->lse[to] = *lse;
            memset(lse, 0xff, sizeof(*lse));
        }
    const struct hostile *out = memory_at(inst, inst->out.data);
    CHECK(c, all_ff(out->data, out->bytes), "something was written between the rows of out");
    if (!p->with_lse) return;
    const struct hostile *lse = memory_at(inst, inst->lse.data);
    CHECK(c, all_ff(lse->data, lse->bytes), "something was written between the rows of lse");
}

pkv_status attn_call(struct check *c, struct attn_instance *inst, struct attn_result *result)
{
    for (int i = 0; i < inst->n_mem; i++) {
        struct hostile *m = &inst->mem[i];
        const bool writable = m->data == inst->out.data || m->data == inst->workspace ||
                              m->data == (void *)inst->lse.data;
        if (writable) memset(m->data, 0xff, m->bytes);
        else if (m->data != (void *)inst->bad) hostile_lock(m);
    }
    if (check_on_device(c) && !inst->layout.raw_workspace) {
        const pkv_status made =
            pkv_workspace_init(c->be, inst->workspace, inst->workspace_bytes, NULL);
        CHECK(c, made == PKV_OK, "workspace_init: %s", pkv_status_name(made));
    }
    check_schedule(c);
    pkv_lse *lse = inst->problem->with_lse ? &inst->lse : NULL;
    const pkv_status status =
        inst->problem->is_mla
            ? pkv_attn_mla_run(c->be, &inst->q, &inst->q_rope, &inst->k, &inst->v, &inst->batch,
                               &inst->opts, inst->workspace, inst->workspace_bytes, NULL,
                               &inst->out, lse)
            : pkv_attn_run(c->be, &inst->q, &inst->k, &inst->v, &inst->batch, &inst->opts,
                           inst->workspace, inst->workspace_bytes, NULL, &inst->out, lse);
    check_supported(c, status);
    for (int i = 0; i < inst->n_mem; i++)
        CHECK(c, hostile_intact(&inst->mem[i]), "something was written in front of a buffer");
    collect(c, inst, result);
    return status;
}

void attn_try(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
              struct attn_result *result)
{
    struct attn_instance inst;
    struct attn_route routes[ATTN_MAX_SEQS];
    attn_build(c, p, layout, &inst);
    attn_routes(c, &inst, routes);
    const pkv_status status = attn_call(c, &inst, result);
    CHECK(c, status == PKV_OK && inst.bad[0] == 0, "status %s, bad %#x", pkv_status_name(status),
          (unsigned)inst.bad[0]);
    attn_judge(c, p, result, routes);
    attn_destroy(&inst);
}
