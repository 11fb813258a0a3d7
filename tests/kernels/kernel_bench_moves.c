/* kv_write, kv_gather, whole blocks and merge, against a loop that copies: bytes read and written
 * per nanosecond of both. */
#include "kernel_bench.h"
#include "kernel_twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS = 8, HEADS_Q = 32, DIM = 128, BLOCK = 16, TOKENS = 16384, N_STATES = 8, ROWS = 512 };
enum { N_BLOCKS = 1 + TOKENS / BLOCK };

/* A pool of one layer in the canonical layout, slots in random order. */
struct moves {
    const struct bench *b;
    unsigned char *pool[PKV_DTYPE_COUNT];
    pkv_kv_shape shape[PKV_DTYPE_COUNT];
    size_t block_bytes[PKV_DTYPE_COUNT];
    int64_t *slots;
    int32_t *pos;
    float *rope, *norm;
    void *rows[2], *q, *flat;
    struct twin_copy copy;
};

static pkv_kv_view view_of(const struct moves *m, pkv_dtype dtype, int which)
{
    const int64_t row = DIM, bits = pkv_dtype_bits(dtype),
                  codes = 2 * HEADS * BLOCK * row * bits / 8;
    const int64_t bytes = (int64_t)m->block_bytes[dtype];
    pkv_kv_view v = { m->pool[dtype] + which * BLOCK * row * bits / 8,
                      dtype,
                      N_BLOCKS,
                      BLOCK,
                      HEADS,
                      DIM,
                      bytes * 8 / bits,
                      row,
                      2 * BLOCK * row,
                      { NULL, 0, 0, 0 },
                      { NULL, 0, 0, 0 } };
    float *scales = (float *)(void *)(m->pool[dtype] + codes) + which * BLOCK;
    if (dtype == PKV_E4M3 || dtype >= PKV_I8)
        v.scales = (pkv_scales){ scales, bytes / 4, 1, 2 * BLOCK };
    if (dtype == PKV_U4)
        v.zeros = (pkv_scales){ scales + 2 * HEADS * BLOCK, bytes / 4, 1, 2 * BLOCK };
    return v;
}

static size_t row_bytes(void)
{
    return (size_t)TOKENS * HEADS * DIM * 2;
}

static void prepare(struct moves *m)
{
    struct rng r = { 3 };
    int32_t *order = bench_room(TOKENS * sizeof(int32_t));
    double inv_freq[DIM / 2];
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) {
        m->shape[t] = (pkv_kv_shape){ 1, HEADS, DIM, BLOCK, (pkv_dtype)t };
        bench_must(pkv_kv_block_bytes(&m->shape[t], &m->block_bytes[t]));
        m->pool[t] = bench_room(N_BLOCKS * m->block_bytes[t]);
        memset(m->pool[t], 0, N_BLOCKS * m->block_bytes[t]);
    }
    m->slots = bench_room(TOKENS * sizeof(int64_t));
    m->pos = bench_room(TOKENS * sizeof(int32_t));
    m->rope = bench_room((size_t)TOKENS * DIM * sizeof(float));
    m->norm = bench_room(DIM * sizeof(float));
    m->q = bench_room((size_t)TOKENS * HEADS_Q * DIM * 2);
    m->flat = bench_room(2 * row_bytes());
    memset(m->flat, 0, 2 * row_bytes());
    rng_permutation(&r, order, TOKENS / BLOCK);
    for (int32_t t = 0; t < TOKENS; t++) {
        m->slots[t] = (int64_t)(1 + order[t / BLOCK]) * BLOCK + t % BLOCK;
        m->pos[t] = t;
    }
    free(order);
    for (int i = 0; i < DIM / 2; i++) inv_freq[i] = 1.0 / (1 + i);
    for (int i = 0; i < DIM; i++) m->norm[i] = 1.f;
    bench_must(pkv_rope_fill(m->rope, 0, TOKENS, inv_freq, DIM, 1));
    for (int i = 0; i < 2; i++) {
        m->rows[i] = bench_room(row_bytes());
        bench_fill(&r, m->rows[i], row_bytes(), PKV_F16);
    }
    bench_fill(&r, m->q, (size_t)TOKENS * HEADS_Q * DIM * 2, PKV_F16);
    m->copy = (struct twin_copy){ m->flat, m->rows[0], row_bytes(), m->b->options->threads };
}

static void release(struct moves *m)
{
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) free(m->pool[t]);
    free(m->slots);
    free(m->pos);
    free(m->rope);
    free(m->norm);
    free(m->rows[0]);
    free(m->rows[1]);
    free(m->q);
    free(m->flat);
}

struct move_call {
    const struct moves *m;
    pkv_backend *be;
    pkv_dtype dtype;
    bool partial;
    pkv_tensor3 rows[2], q, out;
    pkv_kv_view views[2];
    pkv_kv_write_args args;
    const pkv_block_copy *copies;
    const int32_t *ids;
    int32_t n;
    pkv_tensor3 states[N_STATES];
    pkv_lse lse[N_STATES];
};

static pkv_tensor3 rows_of(void *data, pkv_dtype dtype, int32_t n_heads, int64_t n_rows)
{
    return (pkv_tensor3){ data, dtype, n_heads, DIM, n_rows, (int64_t)n_heads * DIM, DIM };
}

static int add_copy(struct bench_set *set, struct moves *m)
{
    return bench_add(set, "copy loop", "-", 2.0 * (double)m->copy.bytes, twin_copy, &m->copy, -1,
                     -1);
}

/* What the level writes this operation with: the same kernel is not measured twice. */
static bool own_kernel(const struct bench *b, int level, pkv_op op, pkv_dtype dtype, char *name,
                       size_t name_bytes)
{
    pkv_kernel_desc desc = { .struct_size = sizeof(desc) };
    for (int32_t i = 0; pkv_kernel_info(b->be[level], i, &desc) == PKV_OK; i++) {
        if (desc.op != op || (desc.dtype != dtype && op != PKV_OP_BLOCKS_COPY)) continue;
        snprintf(name, name_bytes, "%s", desc.name);
        return desc.isa == b->isa[level] || b->n_levels == 1;
    }
    snprintf(name, name_bytes, "%s, %s", pkv_dtype_name(dtype), pkv_isa_name(b->isa[level]));
    return true;
}

static void write_rows(void *ctx)
{
    const struct move_call *c = ctx;
    bench_must(pkv_kv_write(c->be, &c->args, NULL));
}

static void prepare_write(struct moves *m, struct move_call *c, int level, pkv_dtype dtype,
                          bool full)
{
    *c = (struct move_call){ .m = m, .be = m->b->be[level], .args = PKV_KV_WRITE_ARGS_INIT };
    for (int i = 0; i < 2; i++) {
        c->rows[i] = rows_of(m->rows[i], PKV_F16, HEADS, TOKENS);
        c->views[i] = view_of(m, dtype, i);
    }
    c->q = rows_of(m->q, PKV_F16, HEADS_Q, TOKENS);
    c->args.k = &c->rows[0];
    c->args.v = &c->rows[1];
    c->args.k_view = &c->views[0];
    c->args.v_view = &c->views[1];
    c->args.slots = m->slots;
    if (!full) return;
    c->args.q = c->args.q_out = &c->q;
    c->args.q_norm = c->args.k_norm = m->norm;
    c->args.norm_eps = 1e-5f;
    c->args.rope = m->rope;
    c->args.pos = m->pos;
    c->args.n_rope_pos = TOKENS;
    c->args.rot_dim = DIM;
}

static void bench_write(struct moves *m)
{
    static struct move_call calls[BENCH_MAX_RUNS];
    static struct bench_set set;
    int n = 0;
    set = (struct bench_set){ .seconds = 4 };
    const int copy = add_copy(&set, m);
    for (int t = 0; t < PKV_DTYPE_COUNT; t++)
        for (int level = 0; level < m->b->n_levels; level++) {
            char name[48];
            if (!own_kernel(m->b, level, PKV_OP_KV_WRITE, (pkv_dtype)t, name, sizeof(name)))
                continue;
            if (set.n_runs == BENCH_MAX_RUNS - 2) continue;
            prepare_write(m, &calls[n], level, (pkv_dtype)t, false);
            const double bytes =
                2.0 * (double)row_bytes() + (double)TOKENS / BLOCK * (double)m->block_bytes[t];
            bench_add(&set, name, "plain", bytes, write_rows, &calls[n++], copy, -1);
        }
    char name[48];
    const int best = m->b->n_levels - 1;
    own_kernel(m->b, best, PKV_OP_KV_WRITE, PKV_F16, name, sizeof(name));
    prepare_write(m, &calls[n], best, PKV_F16, true);
    bench_add(&set, name, "norm rope q",
              4.0 * (double)row_bytes() + 2.0 * (double)TOKENS * HEADS_Q * DIM * 2, write_rows,
              &calls[n++], copy, -1);
    printf(
        "\nkv_write: %d tokens, heads %d, dim %d, from f16, slots block by block at random; with "
        "norm, rope and q: %d query heads in place\n",
        TOKENS, HEADS, DIM, HEADS_Q);
    bench_measure(&set, m->b->options->threads, "GB/s", "of copy", "-");
}

static void gather_rows(void *ctx)
{
    struct move_call *c = ctx;
    bench_must(pkv_kv_gather(c->be, &c->views[0], c->m->slots, &c->out, NULL, NULL));
}

static void bench_gather(struct moves *m)
{
    static struct move_call calls[BENCH_MAX_RUNS];
    static struct bench_set set;
    int n = 0;
    set = (struct bench_set){ .seconds = 3 };
    const int copy = add_copy(&set, m);
    for (int t = 0; t < PKV_DTYPE_COUNT; t++)
        for (int level = 0; level < m->b->n_levels; level++) {
            struct move_call *c = &calls[n];
            char name[48];
            if (!own_kernel(m->b, level, PKV_OP_KV_GATHER, (pkv_dtype)t, name, sizeof(name)))
                continue;
            if (set.n_runs == BENCH_MAX_RUNS) continue;
            *c = (struct move_call){ .m = m, .be = m->b->be[level] };
            c->views[0] = view_of(m, (pkv_dtype)t, 0);
            c->out = rows_of(m->flat, PKV_F16, HEADS, TOKENS);
            bench_add(&set, name, "to f16",
                      (double)row_bytes() + (double)TOKENS / BLOCK * (double)m->block_bytes[t] / 2,
                      gather_rows, c, copy, -1);
            n++;
        }
    printf("\nkv_gather: K of %d tokens, heads %d, dim %d, slots block by block at random\n",
           TOKENS, HEADS, DIM);
    bench_measure(&set, m->b->options->threads, "GB/s", "of copy", "-");
}

static void copy_blocks(void *ctx)
{
    const struct move_call *c = ctx;
    const struct moves *m = c->m;
    bench_must(pkv_blocks_copy(c->be, m->pool[c->dtype], m->block_bytes[c->dtype], N_BLOCKS,
                               c->copies, c->n, c->partial ? &m->shape[c->dtype] : NULL, c->partial,
                               NULL));
}

static void fetch_blocks(void *ctx)
{
    const struct move_call *c = ctx;
    const struct moves *m = c->m;
    bench_must(pkv_blocks_gather(c->be, m->pool[c->dtype], m->block_bytes[c->dtype], N_BLOCKS,
                                 c->ids, c->n, m->flat, NULL));
}

/* Half of the blocks into the other half, in random order. */
static void bench_blocks(struct moves *m, bool gather)
{
    enum { HALF = TOKENS / BLOCK / 2 };
    static struct move_call calls[BENCH_MAX_RUNS];
    static struct bench_set set;
    static pkv_block_copy copies[2][HALF];
    static int32_t ids[2 * HALF];
    struct rng r = { 4 };
    int n = 0;
    set = (struct bench_set){ .seconds = 2 };
    const int copy = add_copy(&set, m);
    rng_permutation(&r, ids, 2 * HALF);
    for (int i = 0; i < 2 * HALF; i++) ids[i]++;
    for (int i = 0; i < HALF; i++)
        for (int part = 0; part < 2; part++)
            copies[part][i] =
                (pkv_block_copy){ ids[i], ids[HALF + i], part ? BLOCK / 2 : BLOCK, 0 };
    for (int level = 0; level < m->b->n_levels; level++)
        for (int part = 0; part < (gather ? 1 : 2); part++) {
            struct move_call *c = &calls[n];
            char name[48];
            if (!own_kernel(m->b, level, PKV_OP_BLOCKS_COPY, PKV_I8, name, sizeof(name))) continue;
            *c = (struct move_call){ .m = m, .be = m->b->be[level], .dtype = PKV_F16 };
            c->partial = part;
            c->copies = copies[part];
            c->ids = ids;
            c->n = HALF;
            bench_add(&set, name,
                      gather ? "gather"
                      : part ? "half blocks"
                             : "whole",
                      (part ? 1.0 : 2.0) * HALF * (double)m->block_bytes[PKV_F16],
                      gather ? fetch_blocks : copy_blocks, c, copy, -1);
            n++;
        }
    printf("\n%s: %d blocks of %zu bytes at random\n", gather ? "blocks_gather" : "blocks_copy",
           HALF, m->block_bytes[PKV_F16]);
    bench_measure(&set, m->b->options->threads, "GB/s", "of copy", "-");
}

static void merge_states(void *ctx)
{
    struct move_call *c = ctx;
    bench_must(pkv_states_merge(c->be, c->states, c->lse, N_STATES, NULL, &c->out, NULL));
}

static void bench_merge(struct moves *m)
{
    static struct move_call calls[BENCH_MAX_RUNS];
    static struct bench_set set;
    const size_t state = (size_t)ROWS * HEADS_Q * DIM;
    struct rng r = { 5 };
    int n = 0;
    float *o[N_STATES], *lse = bench_room((size_t)N_STATES * ROWS * HEADS_Q * sizeof(float));
    set = (struct bench_set){ .seconds = 2 };
    const int copy = add_copy(&set, m);
    for (int i = 0; i < N_STATES * ROWS * HEADS_Q; i++) lse[i] = rng_normal(&r);
    for (int i = 0; i < N_STATES; i++) {
        o[i] = bench_room(state * sizeof(float));
        bench_fill(&r, o[i], state * sizeof(float), PKV_F16);
    }
    for (int t = PKV_F32; t <= PKV_BF16; t++)
        for (int level = 0; level < m->b->n_levels; level++) {
            struct move_call *c = &calls[n];
            char name[48];
            const double bytes = (double)state * pkv_dtype_bits((pkv_dtype)t) / 8;
            if (!own_kernel(m->b, level, PKV_OP_STATES_MERGE, (pkv_dtype)t, name, sizeof(name)))
                continue;
            *c = (struct move_call){ .m = m, .be = m->b->be[level] };
            for (int i = 0; i < N_STATES; i++) {
                c->states[i] = rows_of(o[i], (pkv_dtype)t, HEADS_Q, ROWS);
                c->lse[i] = (pkv_lse){ lse + (int64_t)i * ROWS * HEADS_Q, HEADS_Q, 1, 0 };
            }
            c->out = rows_of(m->flat, (pkv_dtype)t, HEADS_Q, ROWS);
            bench_add(&set, name, "-", (N_STATES + 1) * bytes, merge_states, c, copy, -1);
            n++;
        }
    printf("\nstates_merge: %d states of %d rows, %d heads, dim %d\n", N_STATES, ROWS, HEADS_Q,
           DIM);
    bench_measure(&set, m->b->options->threads, "GB/s", "of copy", "-");
    for (int i = 0; i < N_STATES; i++) free(o[i]);
    free(lse);
}

void bench_moves(const struct bench *b)
{
    static struct moves m;
    static const char *const ops[] = { "kv_write", "kv_gather", "blocks_copy", "blocks_gather",
                                       "states_merge" };
    bool any = false;
    for (size_t i = 0; i < sizeof(ops) / sizeof(ops[0]); i++) any |= bench_wanted(b, ops[i]);
    if (!any) return;
    m.b = b;
    prepare(&m);
    if (bench_wanted(b, "kv_write")) bench_write(&m);
    if (bench_wanted(b, "kv_gather")) bench_gather(&m);
    if (bench_wanted(b, "blocks_copy")) bench_blocks(&m, false);
    if (bench_wanted(b, "blocks_gather")) bench_blocks(&m, true);
    if (bench_wanted(b, "states_merge")) bench_merge(&m);
    release(&m);
}
