/* The driver of attention: how the work is cut, and that no way of cutting it changes a bit. */
#include "case_random.h"
#include "kernels/attn_fold.h"
#include "kernels/attn_pieces.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_SEQS = 300,
    MAX_ROWS = 700,
    DIM = 8,
    V_DIM = 16,
    BT = 32,
    N_BLOCKS = 40,
    MAX_IDS = 12000,
    MASK_WORDS = 2
};

/* A batch over a few blocks that its sequences share: long sequences cost no memory. */
struct problem {
    int32_t n_kv_heads, group, n_seqs, n_rows;
    int32_t kv_len[MAX_SEQS], q_indptr[MAX_SEQS + 1], pos0[MAX_SEQS];
    int32_t table[MAX_IDS], table_indptr[MAX_SEQS + 1], q_pos[MAX_ROWS];
    uint32_t mask[MAX_ROWS][MASK_WORDS];
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_lse lse;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    float sink[64], alibi[64];
    uint32_t bad[4];
    float *memory; /* q, k, v, out, lse */
};

static void *exact(size_t bytes) /* so that tools see the byte behind it */
{
    void *p = aligned_alloc(64, bytes);
    assert_non_null(p);
    return p;
}

static void draw_numbers(struct problem *p, struct rng *r)
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

static void set_shape(struct problem *p, int32_t n_kv_heads, int32_t group)
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

/* One more sequence; false if it does not fit the arrays. */
static bool add_sequence(struct problem *p, struct rng *r, int32_t q_len, int32_t kv_len)
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

static void finish_batch(struct problem *p)
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
                p->q_pos[i] = p->kv_len[b] + rng_int(r, -4, 2);
    }
    if (rng_chance(r, 25)) {
        p->opts.mask = &p->mask[0][0];
        p->opts.mask_stride = MASK_WORDS;
        for (int i = 0; i < MAX_ROWS * MASK_WORDS; i++)
            p->mask[i / MASK_WORDS][i % MASK_WORDS] = (uint32_t)rng_next(r);
    }
}

/* Decode, verify, prefill and rows without keys, in one batch. */
static void draw_problem(struct problem *p, struct rng *r)
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

/* ------------------------------------------------------------------ a chunk kernel, naive */

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

static void naive_state(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                        int32_t head, float *o, float *m, float *l)
{
    *m = -INFINITY, *l = 0.f;
    for (int32_t d = 0; d < c->v->dim; d++) o[d] = 0.f;
    for (int pass = 0; pass < 2; pass++)
        for (int32_t j = u->key_lo; j < u->key_hi; j++) {
            if (!pkv__visible_bits(c, u, i, j, 1)) continue;
            const float z = naive_logit(c, u, i, j, head);
            if (pass == 0) {
                *m = z > *m ? z : *m;
                continue;
            }
            const float *v = kv_row(c, u, c->v, j, head / c->group);
            const float w = expf(z - *m);
            *l += w;
            for (int32_t d = 0; d < c->v->dim; d++) o[d] += w * v[d];
        }
}

/* All of the scratch is used: nobody else may count on a byte of it. */
static void naive_chunk(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                        void *scratch)
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

/* ------------------------------------------------------------------ threads of the test */

/* Tasks in random order, one half of them on another thread. */
struct shuffle {
    struct rng rng;
    int32_t order[64];
    int32_t n;
    atomic_int next;
    void (*task)(void *task_ctx, int32_t i);
    void *task_ctx;
};

static void *run_shuffled(void *ctx)
{
    struct shuffle *s = ctx;
    for (;;) {
        const int32_t i = atomic_fetch_add(&s->next, 1);
        if (i >= s->n) return NULL;
        s->task(s->task_ctx, s->order[i]);
    }
}

static void shuffled_for(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                         void *task_ctx)
{
    struct shuffle *s = ctx;
    pthread_t other;
    rng_permutation(&s->rng, s->order, n_tasks);
    s->n = n_tasks;
    s->task = task;
    s->task_ctx = task_ctx;
    atomic_store(&s->next, 0);
    const bool started =
        rng_chance(&s->rng, 50) && pthread_create(&other, NULL, run_shuffled, s) == 0;
    run_shuffled(s);
    if (started) pthread_join(other, NULL);
}

/* A scalar backend whose kernel for short sequences is the naive one. */
static pkv_backend *backend(int32_t n_tasks, struct shuffle *shuffle)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.max_isa = PKV_ISA_SCALAR;
    cfg.n_threads = n_tasks;
    if (shuffle) cfg.parallel_for = shuffled_for;
    cfg.parallel_ctx = shuffle;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &be), PKV_OK);
    be->kernels.attn_short[PKV_F32] = (struct pkv__attn_kernel){ .fn = { naive_chunk, naive_chunk },
                                                                 .isa = PKV_ISA_SCALAR,
                                                                 .kind = PKV__CHUNK };
    return be;
}

/* out and lse of a run, the workspace of the least size or more; to be freed. */
static float *run(struct problem *p, pkv_backend *be, size_t more, pkv_status want)
{
    const size_t n = (size_t)p->n_rows * (size_t)p->q.n_heads * (V_DIM + 1);
    size_t bytes = 0;
    assert_int_equal(pkv_attn_workspace(be, p->q.n_heads, p->n_kv_heads, DIM, V_DIM, &bytes),
                     PKV_OK);
    void *workspace = exact(bytes + more);
    memset(workspace, 0xff, bytes + more);
    memset(p->out.data, 0xee, n * sizeof(float));
    memset(p->bad, 0, sizeof p->bad);
    assert_int_equal(pkv_attn_run(be, &p->q, &p->k, &p->v, &p->batch, &p->opts, workspace,
                                  bytes + more, &p->out, &p->lse),
                     want);
    free(workspace);
    float *result = exact(pkv__align_up(n * sizeof(float) + 64, 64));
    memcpy(result, p->out.data, n * sizeof(float));
    return result;
}

static size_t n_results(const struct problem *p)
{
    return (size_t)p->n_rows * (size_t)p->q.n_heads * (V_DIM + 1);
}

static void check_near(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(a[i] == b[i] || fabsf(a[i] - b[i]) <= 1e-4f * (1.f + fabsf(b[i])))) {
            fprintf(stderr, "element %zu: %g instead of %g\n", i, (double)a[i], (double)b[i]);
            fail();
        }
}

/* ------------------------------------------------------------------ bits */

static void any_number_of_tasks(void **state)
{
    static const int32_t n_tasks[] = { 2, 3, 5, 8 };
    static struct problem p;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *scalar = NULL, *one = backend(1, NULL);
    (void)state;
    cfg.max_isa = PKV_ISA_SCALAR;
    assert_int_equal(pkv_backend_create_cpu(&cfg, &scalar), PKV_OK);
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct rng r = { seed };
        draw_problem(&p, &r);
        const size_t bytes = n_results(&p) * sizeof(float);
        float *whole = run(&p, scalar, 0, PKV_OK), *want = run(&p, one, 0, PKV_OK);
        check_near(want, whole, n_results(&p));
        for (size_t t = 0; t < PKV_ARRAY_LEN(n_tasks); t++) {
            struct shuffle shuffle = { .rng = { seed + t } };
            pkv_backend *be = backend(n_tasks[t], rng_chance(&r, 70) ? &shuffle : NULL);
            float *got =
                run(&p, be, rng_chance(&r, 50) ? 64 * (size_t)rng_int(&r, 1, 999) : 0, PKV_OK);
            if (memcmp(got, want, bytes) != 0) {
                fprintf(stderr, "seed %d, %d tasks\n", (int)seed, n_tasks[t]);
                fail();
            }
            free(got);
            pkv_backend_destroy(be);
        }
        free(whole), free(want), free(p.memory);
    }
    pkv_backend_destroy(one);
    pkv_backend_destroy(scalar);
}

/* More chunks than there are slots for: one head of 300 thousand keys, on five threads. */
static void more_chunks_than_slots(void **state)
{
    static struct problem p;
    struct rng r = { 7 };
    struct shuffle shuffle = { .rng = { 8 } };
    pkv_backend *one = backend(1, NULL), *five = backend(5, &shuffle);
    (void)state;
    set_shape(&p, 1, 1);
    assert_true(add_sequence(&p, &r, 1, 300000));
    assert_true(add_sequence(&p, &r, 1, 70000));
    finish_batch(&p);
    draw_numbers(&p, &r);
    float *want = run(&p, one, 0, PKV_OK), *got = run(&p, five, 0, PKV_OK);
    assert_memory_equal(got, want, n_results(&p) * sizeof(float));
    free(want), free(got), free(p.memory);
    pkv_backend_destroy(one);
    pkv_backend_destroy(five);
}

/* What is bad is reported alike, whoever meets it first: the lowest sequence, the lowest index. */
static void one_report(void **state)
{
    static struct problem p;
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct rng r = { seed };
        struct shuffle shuffle = { .rng = { seed } };
        pkv_backend *be = backend(rng_int(&r, 1, 8), &shuffle);
        set_shape(&p, 3, 2);
        for (int i = 0; i < 12; i++) assert_true(add_sequence(&p, &r, 1, rng_int(&r, 2100, 4000)));
        finish_batch(&p);
        draw_numbers(&p, &r);
        p.table[p.table_indptr[7] + 60] = 0;
        p.table[p.table_indptr[4] + 64] = -5;
        p.table[p.table_indptr[4] + 9] = N_BLOCKS;
        p.kv_len[9] = -1;
        float *got = run(&p, be, 0, PKV_E_INVALID_ARG);
        assert_int_equal(p.bad[0], PKV_BAD_RANGE | PKV_BAD_NULL_BLOCK | PKV_BAD_LENGTH);
        assert_int_equal(p.bad[1], 4);
        assert_int_equal(p.bad[2], 9);
        assert_int_equal(p.bad[3], N_BLOCKS);
        free(got), free(p.memory);
        pkv_backend_destroy(be);
    }
}

/* ------------------------------------------------------------------ the list and its pieces */

static struct pkv__attn_walk walk_of(struct problem *p, struct pkv__attn_call *c,
                                     const pkv_backend *be)
{
    *c = (struct pkv__attn_call){ .q = &p->q,
                                  .k = &p->k,
                                  .v = &p->v,
                                  .batch = &p->batch,
                                  .opts = &p->opts,
                                  .out = &p->out,
                                  .group = p->group,
                                  .bad = p->bad };
    return (struct pkv__attn_walk){ .call = c, .kernels = &be->kernels };
}

/* How often each (row, kv head, chunk) is met; whole kernels meet all chunks of their rows. */
enum { MARK_CHUNKS = 64 };
static uint8_t marks[MAX_ROWS][8][MARK_CHUNKS];

static void mark_item(const struct pkv__attn_walk *w)
{
    const struct pkv__attn_unit *u = &w->unit;
    const int32_t lo = u->key_lo / PKV__CHUNK_TOKENS;
    const int32_t hi = pkv__ceil_div_i32(u->key_hi, PKV__CHUNK_TOKENS);
    assert_true(u->row_lo < u->row_hi && u->row_hi <= u->q_len && hi <= MARK_CHUNKS);
    assert_true(pkv__attn_walk_states(w) <=
                    pkv__attn_unit_states(w->call->q->n_heads, w->call->k->n_heads) ||
                !pkv__attn_walk_folds(w));
    for (int32_t i = u->row_lo; i < u->row_hi; i++)
        for (int32_t h = 0; h < u->n_kv_heads; h++)
            for (int32_t c = lo; c < hi; c++) marks[u->row0 + i][u->kv_head + h][c]++;
}

static bool chunk_visible(const struct pkv__attn_walk *w, int32_t row_lo, int32_t c)
{
    const int32_t first = c * PKV__CHUNK_TOKENS;
    for (int32_t i = row_lo; i < w->unit.q_len; i++)
        for (int32_t j = first; j < first + PKV__CHUNK_TOKENS && j < w->unit.kv_len; j++)
            if (pkv__visible_bits(w->call, &w->unit, i, j, 1)) return true;
    return false;
}

/* Once each, where a row of the sequence sees a key of the chunk; not at all, or once, elsewhere.
 */
static void check_marks(struct pkv__attn_walk *w)
{
    int32_t seq = -1;
    for (pkv__attn_walk_to(w, (struct pkv__attn_mark){ 0 }); !pkv__attn_walk_done(w);
         pkv__attn_walk_next(w)) {
        const struct pkv__attn_unit *u = &w->unit;
        if (u->seq == seq) continue;
        seq = u->seq;
        for (int32_t c = 0; c * PKV__CHUNK_TOKENS < u->kv_len; c++) {
            const bool seen = chunk_visible(w, 0, c);
            for (int32_t i = 0; i < u->q_len; i++)
                for (int32_t h = 0; h < w->call->k->n_heads; h++)
                    assert_true(marks[u->row0 + i][h][c] == 1 ||
                                (marks[u->row0 + i][h][c] == 0 && !seen));
        }
    }
}

/* Slots of states do not overlap and lie inside the area. */
static void take_slot(uint8_t *taken, size_t slots, size_t first, size_t floats)
{
    assert_true(first % 16 == 0 && floats % 16 == 0 && first + floats <= slots);
    for (size_t i = first / 16; i < (first + floats) / 16; i++) {
        assert_int_equal(taken[i], 0);
        taken[i] = 1;
    }
}

static void walk_piece(struct pkv__attn_walk *w, const struct pkv__attn_piece *piece,
                       uint8_t *taken, size_t slots)
{
    bool in_cut_span = piece->cut;
    size_t slot = piece->slot;
    pkv__attn_walk_to(w, piece->first);
    for (int64_t i = 0; i < piece->n_items; i++) {
        const size_t floats = pkv__state_floats(pkv__attn_walk_states(w), V_DIM);
        assert_false(pkv__attn_walk_done(w));
        if (i == 0 && piece->opens) take_slot(taken, slots, slot - floats, floats);
        if (i > 0 && w->at.part == 0) in_cut_span = false;
        if (in_cut_span) take_slot(taken, slots, slot, floats), slot += floats;
        mark_item(w);
        pkv__attn_walk_next(w);
    }
}

static void every_item_once(void **state)
{
    static struct problem p;
    static struct pkv__attn_piece pieces[64 * PKV__PIECES_PER_TASK];
    static uint8_t taken[1 << 16];
    pkv_backend *be = backend(1, NULL);
    (void)state;
    int n_cut = 0, n_moved = 0;
    for (uint64_t seed = 1; seed <= 80; seed++) {
        struct rng r = { seed };
        struct pkv__attn_call call;
        draw_problem(&p, &r);
        const size_t slots =
            rng_chance(&r, 30) ? 16 * (size_t)rng_int(&r, 0, 300) : 16 * sizeof taken;
        const int32_t n_tasks = rng_int(&r, 2, 64);
        struct pkv__attn_walk w = walk_of(&p, &call, be);
        memset(marks, 0, sizeof marks);
        memset(taken, 0, sizeof taken);
        const int32_t n = pkv__attn_cut_pieces(&w, n_tasks, slots, pieces);
        assert_true(n >= 1 && n <= n_tasks * PKV__PIECES_PER_TASK);
        for (int32_t i = 0; i < n; i++) {
            if (i == 0 && pieces[0].n_items == INT64_MAX) continue; /* nothing to do */
            walk_piece(&w, &pieces[i], taken, slots);
            n_cut += pieces[i].opens;
            n_moved += pieces[i].cut && !pieces[i].opens;
        }
        check_marks(&w);
        free(p.memory);
    }
    assert_true(n_cut > 20 && n_moved > 20); /* the test met what it is for */
    pkv_backend_destroy(be);
}

/* Cost of the tasks if each takes the next piece when it has done one: the longest. */
static double makespan(struct pkv__attn_walk *w, const struct pkv__attn_piece *pieces, int32_t n,
                       int32_t n_tasks, double *total)
{
    double busy[64] = { 0 };
    *total = 0;
    for (int32_t i = 0; i < n; i++) {
        int32_t first = 0;
        double cost = 0;
        pkv__attn_walk_to(w, pieces[i].first);
        for (int64_t k = 0; k < pieces[i].n_items; k++, pkv__attn_walk_next(w))
            cost += (double)pkv__attn_walk_cost(w);
        for (int32_t t = 1; t < n_tasks; t++)
            if (busy[t] < busy[first]) first = t;
        busy[first] += cost;
        *total += cost;
    }
    double longest = 0;
    for (int32_t t = 0; t < n_tasks; t++) longest = busy[t] > longest ? busy[t] : longest;
    return longest;
}

static void check_makespan(struct problem *p, const pkv_backend *be, int32_t n_tasks,
                           const char *what)
{
    static struct pkv__attn_piece pieces[64 * PKV__PIECES_PER_TASK];
    struct pkv__attn_call call;
    struct pkv__attn_walk w = walk_of(p, &call, be);
    double total;
    const size_t slots = 256 * pkv__state_floats(p->q.n_heads, V_DIM);
    const int32_t n = pkv__attn_cut_pieces(&w, n_tasks, slots, pieces);
    const double longest = makespan(&w, pieces, n, n_tasks, &total);
    if (longest <= 1.1 * total / n_tasks) return;
    fprintf(stderr, "%s: %d sequences, %d tasks: %.3f of the ideal\n", what, p->n_seqs, n_tasks,
            longest * n_tasks / total);
    fail();
}

/* KT23: no batch size leaves threads idle. */
static void equal_shares(void **state)
{
    static const int32_t n_tasks[] = { 2, 3, 8, 16 };
    static struct problem p;
    pkv_backend *be = backend(1, NULL);
    struct rng r = { 3 };
    (void)state;
    be->kernels.attn_rows[PKV_F32].unit_queries = 192;
    for (int32_t n_seqs = 1; n_seqs <= 300; n_seqs++)
        for (size_t t = 0; t < PKV_ARRAY_LEN(n_tasks); t++) {
            const int32_t tasks = n_tasks[t];
            /* Work for everyone, as far as the unit of 1024 keys and a head allows. */
            const int32_t least = PKV__CHUNK_TOKENS * 3 * tasks / pkv__min_i32(n_seqs, 2 * tasks);
            set_shape(&p, 8, 4);
            for (int32_t b = 0; b < n_seqs; b++)
                if (!add_sequence(&p, &r, 1, pkv__min_i32(least, MAX_IDS / n_seqs * BT))) break;
            finish_batch(&p);
            check_makespan(&p, be, tasks, "decode");
            set_shape(&p, 8, 4);
            while (p.n_seqs < n_seqs)
                if (!add_sequence(&p, &r, rng_chance(&r, 3) ? rng_int(&r, 9, 60) : 1,
                                  rng_int(&r, 1, MAX_IDS / n_seqs * BT)))
                    break;
            finish_batch(&p);
            if (n_seqs >= tasks) check_makespan(&p, be, tasks, "mixed");
        }
    pkv_backend_destroy(be);
}

/* ------------------------------------------------------------------ fold and finish */

static void fold_by_hand(void **state)
{
    (void)state;
    float a[64] = { 0 }, b[64] = { 0 };
    const struct pkv__attn_state x = pkv__state_at(a, 1, 8), y = pkv__state_at(b, 1, 8);
    *x.m = -INFINITY; /* nothing yet: the other is copied, bits and all */
    *y.m = 2.f, *y.l = 3.f, y.o[0] = 0.1f, y.o[7] = -5.f;
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(*x.m == 2.f && *x.l == 3.f && x.o[0] == 0.1f && x.o[7] == -5.f);
    *y.l = 0.f, *y.m = 1e30f, y.o[0] = NAN; /* nothing more, whatever else it says */
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(*x.m == 2.f && *x.l == 3.f && x.o[0] == 0.1f);
    *y.l = 2.f, *y.m = 2.f + logf(4.f), y.o[0] = 1.f, y.o[7] = 0.f; /* weights 1/4 and 1 */
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(fabsf(*x.l - 2.75f) < 1e-6f && fabsf(x.o[0] - 1.025f) < 1e-6f);
    assert_true(fabsf(x.o[7] + 1.25f) < 1e-6f && *x.m == 2.f + logf(4.f));
    *y.l = NAN, *y.m = -INFINITY; /* a NaN stays */
    pkv__state_fold(&x, &y, 0, 1, 8);
    assert_true(isnan(*x.l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fold_by_hand),           cmocka_unit_test(every_item_once),
        cmocka_unit_test(equal_shares),           cmocka_unit_test(any_number_of_tasks),
        cmocka_unit_test(more_chunks_than_slots), cmocka_unit_test(one_report),
    };
    return cmocka_run_group_tests_name("attn_work", tests, NULL, NULL);
}
