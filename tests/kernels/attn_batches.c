#include "attn_batches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

void *exact(size_t bytes)
{
    void *p = aligned_alloc(64, bytes);
    assert_non_null(p);
    return p;
}

void draw_numbers(struct problem *p, struct rng *r)
{
    const int64_t n_q = p->n_rows * (int64_t)p->q.n_heads;
    const int64_t sizes[] = { n_q * DIM, (int64_t)N_BLOCKS * BT * p->n_kv_heads * DIM,
                              (int64_t)N_BLOCKS * BT * p->n_kv_heads * V_DIM, n_q * V_DIM, n_q };
    int64_t total = 0;
    for (int i = 0; i < 5; i++) total += sizes[i];
    p->memory = exact(pkv__align_up((size_t)total * sizeof(float), 64));
    float *at = p->memory;
    p->q.data = at, at += sizes[0];
    p->k.data = at, at += sizes[1];
    p->v.data = at, at += sizes[2];
    for (float *x = p->memory; x < at; x++) *x = rng_normal(r);
    p->out.data = at, at += sizes[3];
    p->lse.data = at;
}

void set_shape(struct problem *p, int32_t n_kv_heads, int32_t group)
{
    const int32_t heads = n_kv_heads * group;
    memset(p, 0, sizeof *p);
    p->n_kv_heads = n_kv_heads;
    p->group = group;
    p->q = (pkv_tensor3){ NULL, PKV_F32, heads, DIM, 0, (int64_t)heads * DIM, DIM };
    p->out = (pkv_tensor3){ NULL, PKV_F32, heads, V_DIM, 0, (int64_t)heads * V_DIM, V_DIM };
    p->lse = (pkv_lse){ NULL, heads, 1, 0 };
    p->k = (pkv_kv_view){ .dtype = PKV_F32,
                          .n_blocks = N_BLOCKS,
                          .block_tokens = BT,
                          .n_heads = n_kv_heads,
                          .dim = DIM,
                          .block_stride = (int64_t)BT * n_kv_heads * DIM,
                          .token_stride = (int64_t)n_kv_heads * DIM,
                          .head_stride = DIM };
    p->v = p->k;
    p->v.dim = V_DIM;
    p->v.block_stride *= V_DIM / DIM;
    p->v.token_stride *= V_DIM / DIM;
    p->v.head_stride = V_DIM;
    p->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    p->opts = (pkv_attn_opts)PKV_ATTN_OPTS_INIT;
}

bool add_sequence(struct problem *p, struct rng *r, int32_t q_len, int32_t kv_len)
{
    const int32_t b = p->n_seqs, ids = pkv__ceil_div_i32(kv_len, BT);
    const int32_t first = p->table_indptr[b];
    if (b == MAX_SEQS || p->n_rows + q_len > MAX_ROWS || first + ids > MAX_IDS) return false;
    for (int32_t i = 0; i < ids; i++) p->table[first + i] = rng_int(r, 1, N_BLOCKS - 1);
    p->table_indptr[b + 1] = first + ids;
    p->kv_len[b] = kv_len;
    p->n_rows += q_len;
    p->q_indptr[b + 1] = p->n_rows;
    p->n_seqs++;
    return true;
}

void finish_batch(struct problem *p)
{
    p->q.n_rows = p->out.n_rows = p->n_rows;
    p->batch.n_seqs = p->n_seqs;
    p->batch.table = p->table;
    p->batch.table_indptr = p->table_indptr;
    p->batch.table_stride = p->table_indptr[p->n_seqs];
    p->batch.kv_len = p->kv_len;
    p->batch.q_indptr = p->q_indptr;
    p->opts.bad = p->bad;
}

static void draw_options(struct problem *p, struct rng *r)
{
    p->opts.causal = rng_chance(r, 70);
    if (rng_chance(r, 30)) p->opts.window_left = rng_int(r, 0, 3000);
    if (rng_chance(r, 20)) p->opts.window_right = rng_int(r, 0, 5);
    for (int h = 0; h < 64; h++) p->sink[h] = rng_normal(r), p->alibi[h] = 0.01f * rng_normal(r);
    if (rng_chance(r, 30)) p->opts.sink = p->sink;
    if (rng_chance(r, 30)) p->opts.alibi = p->alibi;
    if (rng_chance(r, 25)) {
        p->batch.q_pos = p->q_pos;
        for (int32_t b = 0; b < p->n_seqs; b++)
            for (int32_t i = p->q_indptr[b]; i < p->q_indptr[b + 1]; i++)
                p->q_pos[i] = rng_chance(r, 50) ? p->kv_len[b] + rng_int(r, -4, 2)
                                                : rng_int(r, 0, p->kv_len[b]);
    }
    if (rng_chance(r, 25)) {
        p->opts.mask = &p->mask[0][0];
        p->opts.mask_stride = MASK_WORDS;
        for (int i = 0; i < MAX_ROWS * MASK_WORDS; i++)
            p->mask[i / MASK_WORDS][i % MASK_WORDS] = (uint32_t)rng_next(r);
    }
}

void draw_problem(struct problem *p, struct rng *r)
{
    set_shape(p, rng_int(r, 1, 5), rng_int(r, 1, 6));
    const int32_t n = rng_int(r, 0, 6), longest = rng_chance(r, 20) ? 40000 : 6000;
    for (int32_t b = 0; b < n; b++) {
        const int32_t kind = rng_int(r, 0, 9);
        const int32_t q_len = kind < 5 ? 1 : kind < 8 ? rng_int(r, 0, 6) : rng_int(r, 0, 60);
        const int32_t most = q_len > 6 ? 1500 : longest;
        if (!add_sequence(p, r, q_len, kind == 4 ? 0 : rng_int(r, 0, most))) break;
    }
    finish_batch(p);
    draw_options(p, r);
    draw_numbers(p, r);
}

static const float *kv_row(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                           const pkv_kv_view *view, int32_t j, int32_t head)
{
    const int64_t block =
        u->ids ? pkv__checked_id(c, u, j / view->block_tokens, view->n_blocks) : u->seq;
    return (const float *)view->data + block * view->block_stride +
           j % view->block_tokens * view->token_stride + head * view->head_stride;
}

static float naive_logit(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                         int32_t j, int32_t head)
{
    const float *q =
        (const float *)c->q->data + (u->row0 + i) * c->q->row_stride + head * c->q->head_stride;
    const float *k = kv_row(c, u, c->k, j, head / c->group);
    float z = 0.f;
    for (int32_t d = 0; d < c->k->dim; d++) z += q[d] * k[d];
    z *= c->scale;
    if (c->opts->alibi) z += c->opts->alibi[head] * (float)pkv__key_ahead(c, u, i, j);
    return z;
}

/* z[j - key_lo] of every key of the chunk, -inf where the row does not see it; returns the largest.
 */
static float naive_logits(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                          int32_t head, float *z)
{
    float m = -INFINITY;
    for (int32_t j = u->key_lo; j < u->key_hi; j += 64) {
        const int32_t n = pkv__min_i32(64, u->key_hi - j);
        const uint64_t bits = pkv__visible_bits(c, u, i, j, n);
        for (int32_t b = 0; b < n; b++) {
            const bool seen = bits >> b & 1;
            float *at = &z[j - u->key_lo + b];
            *at = seen ? naive_logit(c, u, i, j + b, head) : -INFINITY;
            if (*at > m) m = *at;
        }
    }
    return m;
}

static void naive_state(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                        int32_t head, float *o, float *m, float *l)
{
    float z[PKV__CHUNK_TOKENS];
    *m = naive_logits(c, u, i, head, z);
    *l = 0.f;
    for (int32_t d = 0; d < c->v->dim; d++) o[d] = 0.f;
    for (int32_t j = u->key_lo; j < u->key_hi; j++) {
        if (z[j - u->key_lo] == -INFINITY) continue;
        const float *v = kv_row(c, u, c->v, j, head / c->group);
        const float w = expf(z[j - u->key_lo] - *m);
        *l += w;
        for (int32_t d = 0; d < c->v->dim; d++) o[d] += w * v[d];
    }
}

/* All of the scratch is used: nobody else may count on a byte of it. */
void naive_chunk(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, void *scratch)
{
    const int32_t heads = u->n_kv_heads * c->group, v_dim = c->v->dim;
    memset(scratch, 0xff,
           pkv__attn_scratch_bytes(c->q->n_heads, c->k->n_heads, c->k->dim, c->v->dim));
    PKV_ASSERT(u->key_lo < u->key_hi && u->key_lo % PKV__CHUNK_TOKENS == 0);
    for (int32_t i = u->row_lo; i < u->row_hi; i++)
        for (int32_t h = 0; h < heads; h++) {
            const size_t s = (size_t)(i - u->row_lo) * (size_t)heads + (size_t)h;
            naive_state(c, u, i, u->kv_head * c->group + h, u->state.o + s * (size_t)v_dim,
                        &u->state.m[s], &u->state.l[s]);
        }
}

pkv_backend *naive_backend(int32_t n_tasks, pkv_parallel_for parallel_for, void *parallel_ctx)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.max_isa = PKV_ISA_SCALAR;
    cfg.n_threads = n_tasks;
    cfg.parallel_for = parallel_for;
    cfg.parallel_ctx = parallel_ctx;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    be->kernels.attn_short[PKV_F32] = (struct pkv__attn_kernel){ .fn = { naive_chunk, naive_chunk },
                                                                 .isa = PKV_ISA_SCALAR,
                                                                 .kind = PKV__CHUNK };
    return be;
}
