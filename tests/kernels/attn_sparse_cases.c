/* KT7, KT8: offsets beyond 2^31 and 2^32 elements, on address space without memory behind it. One
 * stride at a time is huge; a product of id and stride that wraps reads zeros, or nothing at all.
 */
#include "attn_instance.h"
#include "oracle/oracle_numbers.h"

#include <stdlib.h>
#include <string.h>

enum { N_KEYS = 6, DIM = 16, HEADS = 2, ROWS = 3 };

struct sparse {
    pkv_kv_view k, v;
    pkv_tensor3 q, out;
    pkv_lse lse;
    void *mem[5];
    size_t bytes[5];
    int n_mem;
};

static void *take(struct sparse *s, int64_t elems, int32_t elem)
{
    const size_t bytes = (size_t)elems * (size_t)elem;
    void *data = sparse_create(bytes);
    s->mem[s->n_mem] = data;
    s->bytes[s->n_mem++] = bytes;
    return data;
}

/* `huge` is the element stride that one of the dims gets; block ids go up to 2. */
static bool place(struct sparse *s, const struct attn_problem *p, int which, int64_t huge)
{
    const int32_t elem = oracle_bytes(p->kv_dtype), q_elem = oracle_bytes(p->q_dtype);
    const int64_t unit = (int64_t)N_KEYS * HEADS * DIM;
    s->k = (pkv_kv_view){ NULL,
                          p->kv_dtype,
                          3,
                          2,
                          HEADS,
                          DIM,
                          unit,
                          HEADS * DIM,
                          DIM,
                          { NULL, 0, 0, 0 },
                          { NULL, 0, 0, 0 } };
    if (which == 0) s->k.block_stride = huge;
    if (which == 1) s->k.token_stride = huge;
    if (which == 2) s->k.head_stride = huge;
    if (which == 5) { /* many blocks of a usual size */
        s->k.n_blocks = (int32_t)(huge / unit) + 1;
        s->k.block_stride = unit;
    }
    s->v = s->k;
    const int64_t kv_elems =
        (s->k.n_blocks - 1) * s->k.block_stride + s->k.token_stride + s->k.head_stride + DIM;
    const int64_t row = which == 3 ? huge : HEADS * DIM, head = which == 4 ? huge : DIM;
    s->q = (pkv_tensor3){ NULL, p->q_dtype, HEADS, DIM, ROWS, row, head };
    s->out = s->q;
    s->lse = (pkv_lse){ NULL, which == 3 ? huge : HEADS, which == 4 ? huge : 1, 0 };
    const int64_t q_elems = (ROWS - 1) * row + (HEADS - 1) * head + DIM;
    s->k.data = take(s, kv_elems, elem);
    s->v.data = take(s, kv_elems, elem);
    s->q.data = take(s, q_elems, q_elem);
    s->out.data = take(s, q_elems, q_elem);
    s->lse.data = take(s, q_elems, (int32_t)sizeof(float));
    for (int i = 0; i < s->n_mem; i++)
        if (!s->mem[i]) return false;
    return true;
}

static void write_inputs(const struct sparse *s, const struct attn_problem *p, const int32_t *ids)
{
    for (int32_t j = 0; j < N_KEYS; j++)
        for (int32_t h = 0; h < HEADS; h++)
            for (int32_t d = 0; d < DIM; d++) {
                const int64_t at = ids[j / 2] * s->k.block_stride + j % 2 * s->k.token_stride +
                                   h * s->k.head_stride + d;
                const int32_t from = (j * HEADS + h) * DIM + d;
                oracle_store(p->kv_dtype, s->k.data, at, (double)p->k[0][from]);
                oracle_store(p->kv_dtype, s->v.data, at, (double)p->v[0][from]);
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
    const int32_t indptr[2] = { 0, p->q_len[0] };
    uint32_t bad[4] = { 0 };
    struct attn_result r = { 0 };
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    size_t bytes = 0;
    pkv_status status = pkv_attn_workspace(c->be, HEADS, HEADS, DIM, DIM, &bytes);
    struct hostile work = hostile_create(bytes, 0xff);
    batch.n_seqs = 1;
    batch.table = ids;
    batch.table_stride = N_KEYS / 2;
    batch.kv_len = p->kv_len;
    batch.q_indptr = indptr;
    opts.bad = bad;
    const char *name = pkv_attn_kernel_name(c->be, &s->q, &s->k, &s->v, &batch, &opts, p->q_len[0]);
    const bool decode[1] = { name && strncmp(name, "attention_short", 15) == 0 &&
                             !strstr(name, "_scalar") };
    if (status == PKV_OK)
        status = pkv_attn_run(c->be, &s->q, &s->k, &s->v, &batch, &opts, work.data, bytes, &s->out,
                              &s->lse);
    CHECK(c, status == PKV_OK || bad[0] == PKV_BAD_NULL_BLOCK, "status %s, bad %#x",
          pkv_status_name(status), (unsigned)bad[0]);
    collect(s, p, &r);
    attn_judge(c, p, &r, decode);
    attn_result_free(&r);
    hostile_destroy(&work);
}

static void far_offsets(struct check *c)
{
    struct attn_problem p = attn_usual(c);
    struct sparse s = { .n_mem = 0 };
    const int which = (int)(c->seed % 6);
    /* In elements: just above 2^31 once, above 2^32 with id or row 2; ids from 2^32 on if many. */
    const int64_t huge = (c->seed / 6 % 2 ? (INT64_C(1) << 32) : (INT64_C(1) << 31)) + 64;
    p.n_q_heads = p.n_kv_heads = HEADS;
    p.k_dim = p.v_dim = DIM;
    p.kv_len[0] = N_KEYS;
    p.block_tokens = 2;
    p.q_len[0] = rng_chance(&c->rng, 50) && which < 3 ? 1 : ROWS;
    attn_fill(c, &p);
    if (place(&s, &p, which, huge)) {
        int32_t ids[N_KEYS / 2] = { 2, 0, 1 }; /* the null block is as good as any other here */
        if (which == 5) ids[0] = s.k.n_blocks - 1, ids[2] = s.k.n_blocks - 2;
        write_inputs(&s, &p, ids);
        run(c, &p, &s, ids);
    } else {
        check_skip(c, "the system gives no address space of this size");
    }
    for (int i = 0; i < s.n_mem; i++) sparse_destroy(s.mem[i], s.bytes[i]);
    attn_free(&p);
}

const struct check_case attn_sparse_cases[] = {
    { "attention", "far_offsets", far_offsets, 12, 12, true },
    { NULL, NULL, NULL, 0, 0, false },
};
