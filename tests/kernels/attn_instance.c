/* Laying out attention problems in hostile memory, and running them. */
#include "attn_instance.h"
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
        .fill = 0xff,
    };
}

static struct hostile *take(struct attn_instance *inst, size_t bytes, unsigned char fill)
{
    struct hostile *m = &inst->mem[inst->n_mem++];
    *m = hostile_create(bytes, fill);
    return m;
}

static int32_t *take_ints(struct attn_instance *inst, int64_t n)
{
    return (int32_t *)(void *)take(inst, (size_t)n * sizeof(int32_t), 0xff)->data;
}

/* Strides of K or V in elements; returns elements per block. */
static int64_t set_strides(pkv_kv_view *v, const struct attn_layout *l)
{
    const int64_t dim = v->dim, bt = v->block_tokens, heads = v->n_heads, pad = l->padded ? 16 : 0;
    switch (l->order) {
    case ORDER_NHD: /* [block][token][head][dim] */
        v->head_stride = dim + pad;
        v->token_stride = heads * v->head_stride;
        v->block_stride = bt * v->token_stride;
        break;
    case ORDER_CANONICAL: /* [block][head][K,V][token][dim] when dims agree; see place_kv */
        v->token_stride = dim;
        v->head_stride = 2 * bt * dim;
        v->block_stride = heads * v->head_stride;
        break;
    default: /* [block][head][token][dim], with other layers in between if layered */
        v->token_stride = dim + pad;
        v->head_stride = bt * v->token_stride;
        v->block_stride = heads * v->head_stride * (l->order == ORDER_LAYERED ? 3 : 1);
    }
    return v->block_stride;
}

static int64_t extent(const pkv_kv_view *v)
{
    return (v->n_blocks - 1) * v->block_stride + (v->block_tokens - 1) * v->token_stride +
           (v->n_heads - 1) * v->head_stride + v->dim;
}

/* K and V side by side in one pool, or each in its own memory. */
static void place_kv(struct attn_instance *inst)
{
    struct attn_layout l = inst->layout, v_layout = inst->layout;
    pkv_kv_view *k = &inst->k, *v = &inst->v;
    const int64_t elem = oracle_bytes(k->dtype);
    if (l.order == ORDER_CANONICAL && k->dim != v->dim) l.order = ORDER_HND;
    v_layout.order = l.order == ORDER_CANONICAL ? l.order : l.v_order;
    v_layout.padded = l.padded != (l.v_order == ORDER_NHD); /* often other strides, too */
    set_strides(k, &l);
    set_strides(v, &v_layout);
    if (l.order == ORDER_CANONICAL) {
        const int64_t v_first = (int64_t)k->block_tokens * k->dim;
        unsigned char *pool = take(inst, (size_t)((v_first + extent(v)) * elem), l.fill)->data;
        k->data = pool;
        v->data = pool + v_first * elem;
        return;
    }
    k->data = take(inst, (size_t)(extent(k) * elem), l.fill)->data;
    v->data = take(inst, (size_t)(extent(v) * elem), l.fill)->data;
}

static int32_t blocks_of(const struct attn_problem *p, int32_t b)
{
    return (p->kv_len[b] + p->block_tokens - 1) / p->block_tokens;
}

/* Blocks of each sequence: shared ones from the earlier sequence, the rest drawn from a shuffle of
 * the pool. Without a table, sequence b is block b, and nothing is shared. */
static void choose_blocks(struct check *c, struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    int32_t total = 0, next = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) total += blocks_of(p, b);
    const int32_t n_pool = total + inst->layout.extra_blocks;
    int32_t *shuffle = malloc(((size_t)n_pool + 1) * sizeof(int32_t));
    rng_permutation(&c->rng, shuffle, n_pool);
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t n = blocks_of(p, b), from = p->shared_with[b];
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

static void put_row(const pkv_kv_view *v, int32_t block, int32_t token, int32_t head,
                    const float *src)
{
    const int64_t at = block * v->block_stride + token * v->token_stride + head * v->head_stride;
    for (int32_t d = 0; d < v->dim; d++) oracle_store(v->dtype, v->data, at + d, (double)src[d]);
}

static bool seen_by_any(const struct attn_problem *p, const struct oracle_seq *s, int32_t j)
{
    for (int32_t i = 0; i < s->q_len; i++)
        if (oracle_sees(s, i, j)) return true;
    (void)p;
    return false;
}

/* Write the keys that some row sees, and nothing else. `used[e]` says which entries matter. */
static void write_keys(struct attn_instance *inst, int32_t b, bool *used)
{
    const struct attn_problem *p = inst->problem;
    const struct oracle_seq s = attn_oracle(p, b);
    const int32_t bt = p->block_tokens;
    memset(used, 0, (size_t)blocks_of(p, b));
    for (int32_t j = 0; j < p->kv_len[b]; j++) {
        if (!seen_by_any(p, &s, j)) continue;
        const bool paged = inst->layout.table != TABLE_NONE;
        const int32_t block = paged ? inst->block_ids[b][j / bt] : b, token = paged ? j % bt : j;
        used[j / bt] = true;
        for (int32_t g = 0; g < p->n_kv_heads; g++) {
            const int64_t row = (int64_t)j * p->n_kv_heads + g;
            put_row(&inst->k, block, token, g, p->k[b] + row * p->k_dim);
            put_row(&inst->v, block, token, g, p->v[b] + row * p->v_dim);
        }
    }
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
        const int32_t n = blocks_of(p, b);
        if (n > longest) longest = n;
        total += n + inst->layout.extra_ids;
    }
    const bool csr = inst->layout.table == TABLE_CSR, dense = inst->layout.table == TABLE_DENSE;
    const int64_t stride = csr ? total : longest + inst->layout.extra_ids;
    int32_t *ids = csr     ? take_ints(inst, total)
                   : dense ? take_ints(inst, p->n_seqs * stride)
                           : NULL;
    int32_t *indptr = csr ? take_ints(inst, p->n_seqs + 1) : NULL, at = 0;
    bool *used = malloc((size_t)longest + 1);
    inst->table = ids;
    inst->table_indptr = indptr;
    inst->batch.table = ids;
    inst->batch.table_indptr = indptr;
    inst->batch.table_stride = ids ? stride : 0;
    if (csr) indptr[0] = 0;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int64_t n = csr ? blocks_of(p, b) + inst->layout.extra_ids : stride;
        write_keys(inst, b, used);
        for (int32_t e = 0; e < n && ids; e++) {
            const bool live = e < blocks_of(p, b) && used[e];
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
    t.data = take(inst, (size_t)(elems * elem), 0xff)->data;
    return t;
}

static void place_rows(struct attn_instance *inst)
{
    const struct attn_problem *p = inst->problem;
    const bool pads = p->with_q_indptr && inst->layout.pad_rows > 0;
    const int32_t before = pads ? 1 : 0, after = inst->layout.pad_rows - before;
    const int64_t n_rows = before + p->n_rows + (after > 0 ? after : 0);
    inst->q = place_tensor(inst, p->q_dtype, n_rows, p->n_q_heads, p->k_dim);
    inst->out = place_tensor(inst, p->q_dtype, n_rows, p->n_q_heads, p->v_dim);
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < p->n_q_heads; h++)
            for (int32_t d = 0; d < p->k_dim; d++)
                oracle_store(p->q_dtype, inst->q.data,
                             (before + i) * inst->q.row_stride + h * inst->q.head_stride + d,
                             (double)p->q[((int64_t)i * p->n_q_heads + h) * p->k_dim + d]);
    if (p->with_q_indptr) {
        inst->q_indptr = take_ints(inst, p->n_seqs + 1);
        for (int32_t b = 0; b < p->n_seqs; b++) inst->q_indptr[b] = before + p->row0[b];
        inst->q_indptr[p->n_seqs] = before + p->n_rows;
        inst->batch.q_indptr = inst->q_indptr;
    }
    if (p->q_pos) {
        int32_t *q_pos = take_ints(inst, n_rows);
        memcpy(q_pos + before, p->q_pos, (size_t)p->n_rows * sizeof(int32_t));
        inst->batch.q_pos = q_pos;
    }
    if (!p->with_lse) return;
    const int64_t step = inst->layout.padded ? 3 : 1;
    inst->lse = (pkv_lse){ NULL, p->n_q_heads * step, step, p->base2 };
    if (inst->layout.transposed) {
        inst->lse.row_stride = step;
        inst->lse.head_stride = (n_rows > 0 ? n_rows : 1) * step;
    }
    inst->lse.data = (float *)(void *)take_ints(
        inst, n_rows > 0 ? (n_rows - 1) * inst->lse.row_stride +
                               (p->n_q_heads - 1) * inst->lse.head_stride + 1
                         : 0);
}

static const float *place_floats(struct attn_instance *inst, const float *src, int32_t n)
{
    float *data = (float *)(void *)take(inst, (size_t)n * sizeof(float), 0xff)->data;
    memcpy(data, src, (size_t)n * sizeof(float));
    return data;
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
    choose_blocks(c, inst);
    place_kv(inst);
    write_blocks_and_table(inst);
    place_rows(inst);
    inst->batch.n_seqs = p->n_seqs;
    inst->kv_len = take_ints(inst, p->n_seqs);
    memcpy(inst->kv_len, p->kv_len, (size_t)p->n_seqs * sizeof(int32_t));
    inst->batch.kv_len = inst->kv_len;
    if (p->with_pos0) {
        int32_t *pos0 = take_ints(inst, p->n_seqs);
        memcpy(pos0, p->pos0, (size_t)p->n_seqs * sizeof(int32_t));
        inst->batch.kv_pos0 = pos0;
    }
    if (p->opts.alibi) inst->opts.alibi = place_floats(inst, p->alibi, p->n_q_heads);
    if (p->opts.sink) inst->opts.sink = place_floats(inst, p->sink, p->n_q_heads);
    inst->opts.bad = inst->bad;
    const pkv_status status = pkv_attn_workspace(c->be, p->n_q_heads, p->n_kv_heads, p->k_dim,
                                                 p->v_dim, &inst->workspace_bytes);
    CHECK(c, status == PKV_OK && inst->workspace_bytes % 64 == 0, "workspace: status %s, %zu bytes",
          pkv_status_name(status), inst->workspace_bytes);
    inst->workspace = take(inst, inst->workspace_bytes, 0xff)->data;
}

void attn_destroy(struct attn_instance *inst)
{
    for (int i = 0; i < inst->n_mem; i++) hostile_destroy(&inst->mem[i]);
    for (int32_t b = 0; b < inst->problem->n_seqs; b++) free(inst->block_ids[b]);
}

/* Which sequences go through vector kernels for few rows. */
void attn_levels(struct check *c, const struct attn_instance *inst, bool *decode)
{
    const struct attn_problem *p = inst->problem;
    for (int32_t b = 0; b < p->n_seqs; b++) {
        char want[64];
        const char *name = pkv_attn_kernel_name(c->be, &inst->q, &inst->k, &inst->v, &inst->batch,
                                                &inst->opts, p->q_len[b]);
        snprintf(want, sizeof(want), "attention_short_%s_%s", pkv_dtype_name(p->kv_dtype),
                 pkv_isa_name(c->isa));
        CHECK(c, name != NULL, "no kernel takes sequence %d", b);
        if (!name) return;
        CHECK(c, c->isa > PKV_ISA_SCALAR || strstr(name, "_scalar"), "scalar level runs %s", name);
        decode[b] = strncmp(name, "attention_short", 15) == 0 && !strstr(name, "_scalar");
        if (strcmp(name, want) == 0) c->n_level_units++;
    }
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
    const size_t elem = (size_t)oracle_bytes(p->q_dtype), row_bytes = (size_t)p->v_dim * elem;
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
        else hostile_lock(m);
    }
    const pkv_status status = pkv_attn_run(c->be, &inst->q, &inst->k, &inst->v, &inst->batch,
                                           &inst->opts, inst->workspace, inst->workspace_bytes,
                                           &inst->out, inst->problem->with_lse ? &inst->lse : NULL);
    for (int i = 0; i < inst->n_mem; i++)
        CHECK(c, hostile_intact(&inst->mem[i]), "something was written in front of a buffer");
    collect(c, inst, result);
    return status;
}

void attn_try(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
              struct attn_result *result)
{
    struct attn_instance inst;
    bool decode[ATTN_MAX_SEQS];
    attn_build(c, p, layout, &inst);
    attn_levels(c, &inst, decode);
    const pkv_status status = attn_call(c, &inst, result);
    CHECK(c, status == PKV_OK && inst.bad[0] == 0, "status %s, bad %#x", pkv_status_name(status),
          (unsigned)inst.bad[0]);
    attn_judge(c, p, result, decode);
    attn_destroy(&inst);
}
