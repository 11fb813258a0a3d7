/* KT7, KT8: offsets beyond 2^31 and 2^32 elements, on address space without memory behind it. One
 * stride at a time is huge; a product of id and stride that wraps reads zeros, or nothing at all.
 */
#include "attn_instance.h"
#include "check_device.h"
#include "oracle/oracle_numbers.h"

#include <stdlib.h>
#include <string.h>

enum { N_IDS = 3, DIM = 16, ROW = 32, HEADS = 2, ROWS = 33 }; /* ROW: int4 is aligned to 32 codes */

struct sparse {
    pkv_kv_view k, v;
    pkv_tensor3 q, out;
    pkv_lse lse;
    void *mem[9];
    size_t bytes[9];
    int n_mem;
};

static void *take(struct sparse *s, pkv_dtype dtype, int64_t elems)
{
    const size_t bytes = (size_t)oracle_span(dtype, elems);
    void *data = sparse_create(bytes);
    s->mem[s->n_mem] = data;
    s->bytes[s->n_mem++] = bytes;
    return data;
}

enum far { BLOCK, TOKEN, HEAD, Q_ROW, Q_HEAD, MANY_BLOCKS, SCALE_BLOCK, SCALE_TOKEN, SCALE_HEAD };

static void place_numbers(struct sparse *s, pkv_scales *n, enum far which, int64_t huge)
{
    *n = (pkv_scales){ NULL, s->k.block_tokens * HEADS, HEADS, 1 };
    if (which == SCALE_BLOCK) n->block_stride = huge;
    if (which == SCALE_TOKEN) n->token_stride = huge;
    if (which == SCALE_HEAD) n->head_stride = huge;
    n->data = take(s, PKV_F32,
                   (s->k.n_blocks - 1) * n->block_stride +
                       (s->k.block_tokens - 1) * n->token_stride + n->head_stride + 1);
}

/* `huge` is the element stride that one of the dims gets; block ids go up to 2. */
static bool place(struct sparse *s, const struct attn_problem *p, enum far which, int64_t huge)
{
    const int64_t unit = (int64_t)p->block_tokens * HEADS * ROW;
    s->k = (pkv_kv_view){ .dtype = p->kv_dtype,
                          .n_blocks = 3,
                          .block_tokens = p->block_tokens,
                          .n_heads = HEADS,
                          .dim = DIM,
                          .block_stride = which == BLOCK ? huge : unit,
                          .token_stride = which == TOKEN ? huge : HEADS * ROW,
                          .head_stride = which == HEAD ? huge : ROW };
    if (which == MANY_BLOCKS) s->k.n_blocks = (int32_t)(huge / unit) + 1;
    s->v = s->k;
    const int64_t kv_elems = (s->k.n_blocks - 1) * s->k.block_stride +
                             (s->k.block_tokens - 1) * s->k.token_stride + s->k.head_stride + DIM;
    const int64_t row = which == Q_ROW ? huge : HEADS * DIM, head = which == Q_HEAD ? huge : DIM;
    s->q = (pkv_tensor3){ NULL, p->q_dtype, HEADS, DIM, p->q_len[0], row, head };
    s->out = s->q;
    s->lse = (pkv_lse){ NULL, which == Q_ROW ? huge : HEADS, which == Q_HEAD ? huge : 1, 0 };
    const int64_t q_elems = (p->q_len[0] - 1) * row + (HEADS - 1) * head + DIM;
    s->k.data = take(s, p->kv_dtype, kv_elems);
    s->v.data = take(s, p->kv_dtype, kv_elems);
    s->q.data = take(s, p->q_dtype, q_elems);
    s->out.data = take(s, p->q_dtype, q_elems);
    s->lse.data = take(s, PKV_F32, q_elems);
    if (attn_is_codes(p->kv_dtype)) {
        place_numbers(s, &s->k.scales, which, huge);
        place_numbers(s, &s->v.scales, which, huge);
    }
    if (p->kv_dtype == PKV_U4) {
        place_numbers(s, &s->k.zeros, which, huge);
        place_numbers(s, &s->v.zeros, which, huge);
    }
    for (int i = 0; i < s->n_mem; i++)
        if (!s->mem[i]) return false;
    return true;
}

static void put(const pkv_kv_view *v, int32_t block, int32_t j, int32_t h, const float *codes,
                const float *scale, const float *zero)
{
    const pkv_scales *s = &v->scales, *z = &v->zeros;
    const int64_t row = (int64_t)j * HEADS + h;
    const int32_t token = j % v->block_tokens;
    attn_put_row(v, block, token, h, codes + row * DIM);
    if (s->data)
        s->data[block * s->block_stride + token * s->token_stride + h * s->head_stride] =
            scale[row];
    if (z->data)
        z->data[block * z->block_stride + token * z->token_stride + h * z->head_stride] = zero[row];
}

static void write_inputs(const struct sparse *s, const struct attn_problem *p, const int32_t *ids)
{
    for (int32_t j = 0; j < p->kv_len[0]; j++)
        for (int32_t h = 0; h < HEADS; h++) {
            put(&s->k, ids[j / p->block_tokens], j, h, p->k[0], p->k_scale.of[0], p->k_zero.of[0]);
            put(&s->v, ids[j / p->block_tokens], j, h, p->v[0], p->v_scale.of[0], p->v_zero.of[0]);
        }
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < HEADS; h++)
            for (int32_t d = 0; d < DIM; d++)
                oracle_store(p->q_dtype, s->q.data, i * s->q.row_stride + h * s->q.head_stride + d,
                             (double)p->q[(i * HEADS + h) * DIM + d]);
}

static void collect(const struct sparse *s, const struct attn_problem *p, struct attn_result *r)
{
    r->o = malloc((size_t)(ROWS * HEADS * DIM) * sizeof(float));
    r->lse = malloc((size_t)(ROWS * HEADS) * sizeof(float));
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < HEADS; h++) {
            const int64_t at = i * s->out.row_stride + h * s->out.head_stride;
            for (int32_t d = 0; d < DIM; d++)
                oracle_store(p->q_dtype, r->o, (i * HEADS + h) * DIM + d,
                             oracle_load(p->q_dtype, s->out.data, at + d));
            r->lse[i * HEADS + h] = s->lse.data[i * s->lse.row_stride + h * s->lse.head_stride];
        }
}

static void run(struct check *c, struct attn_problem *p, struct sparse *s, const int32_t *ids)
{
    struct hostile arrays = hostile_create((4 + 2 + 1 + N_IDS + 2) * sizeof(int32_t), 0);
    uint32_t *bad = (uint32_t *)(void *)arrays.data;
    int32_t *indptr = (int32_t *)(void *)(bad + 4), *kv_len = indptr + 2, *table = kv_len + 1;
    struct attn_result r = { 0 };
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    size_t bytes = 0;
    pkv_status status = pkv_attn_workspace(c->be, HEADS, HEADS, DIM, DIM, &bytes);
    struct hostile work = hostile_create(bytes, 0xff);
    batch.n_seqs = 1;
    indptr[1] = p->q_len[0];
    kv_len[0] = p->kv_len[0];
    memcpy(table, ids, N_IDS * sizeof(int32_t));
    batch.table = table;
    batch.table_stride = N_IDS;
    batch.kv_len = kv_len;
    batch.q_indptr = indptr;
    opts.bad = bad;
    if (status == PKV_OK) status = pkv_workspace_init(c->be, work.data, bytes, NULL);
    const char *name = pkv_attn_kernel_name(c->be, &s->q, &s->k, &s->v, &batch, &opts, p->q_len[0]);
    const struct attn_route route = { c->isa, name && strstr(name, "_short_"), false };
    check_supported(c, status);
    if (status == PKV_OK)
        status = pkv_attn_run(c->be, &s->q, &s->k, &s->v, &batch, &opts, work.data, bytes, NULL,
                              &s->out, &s->lse);
    check_supported(c, status);
    CHECK(c, status == PKV_OK || bad[0] == PKV_BAD_NULL_BLOCK, "status %s, bad %#x",
          pkv_status_name(status), (unsigned)bad[0]);
    collect(s, p, &r);
    attn_judge(c, p, &r, &route);
    attn_result_free(&r);
    hostile_destroy(&work);
    hostile_destroy(&arrays);
}

static void far_offset(struct check *c, int64_t number, int32_t block_tokens)
{
    struct attn_problem p = attn_usual(c);
    struct sparse s = { .n_mem = 0 };
    const int n_kinds = attn_is_codes(c->dtype) ? 9 : 6;
    const enum far which = (enum far)(number % n_kinds);
    /* In elements: just above 2^31 once, above 2^32 with id or row 2; ids from 2^32 on if many. */
    const int64_t huge = (number / n_kinds % 2 ? (INT64_C(1) << 32) : (INT64_C(1) << 31)) + 64;
    p.n_q_heads = p.n_kv_heads = HEADS;
    p.k_dim = p.v_dim = DIM;
    p.block_tokens = block_tokens;
    p.kv_len[0] = N_IDS * block_tokens;
    p.q_len[0] = (const int32_t[]){ 1, 3, ROWS }[rng_int(&c->rng, which == Q_ROW, 2)];
    attn_fill(c, &p);
    if (place(&s, &p, which, huge)) {
        int32_t ids[N_IDS] = { 2, 0, 1 }; /* the null block is as good as any other here */
        if (which == MANY_BLOCKS) ids[0] = s.k.n_blocks - 1, ids[2] = s.k.n_blocks - 2;
        write_inputs(&s, &p, ids);
        run(c, &p, &s, ids);
    } else {
        check_skip(c, "the system gives no address space of this size");
    }
    for (int i = 0; i < s.n_mem; i++) sparse_destroy(s.mem[i], s.bytes[i]);
    attn_free(&p);
}

/* A device has a fourth of the seeds, and all the kinds of strides in them. Blocks of few tokens
 * are read token by token, those of 32 in tiles of 16. */
static void far_offsets(struct check *c)
{
    const int64_t n = check_on_device(c) ? 4 : 1;
    for (int64_t i = 0; i < n && !c->failed && !c->skip[0]; i++) {
        far_offset(c, c->seed * n + i, 2);
        far_offset(c, c->seed * n + i, 32);
    }
}

const struct check_case attn_sparse_cases[] = {
    { "attention", "far_offsets", far_offsets, 18, 18, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
