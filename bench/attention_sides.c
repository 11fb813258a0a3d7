/* What the sides of an attention case do when they are timed. */
#include "attention_parts.h"

/* The next layer, as an engine walks through them. */
static int32_t turn_layer(struct attn_side *s)
{
    const int32_t layer = s->next_layer;
    s->next_layer = layer + 1 == s->place->problem->shape.n_layers ? 0 : layer + 1;
    return layer;
}

void attn_set_batch(struct attn_side *s)
{
    const struct attn_shape *shape = &s->place->problem->shape;
    const struct layout_table *table = &s->place->memory.table;
    s->batch = (pkv_attn_batch)PKV_ATTN_BATCH_INIT;
    s->batch.n_seqs = shape->n_seqs;
    s->batch.table = table->ids;
    s->batch.table_stride = table->stride;
    s->batch.kv_len = shape->kv_len;
    s->batch.q_indptr = shape->n_rows == shape->n_seqs ? NULL : shape->q_indptr;
}

pkv_status attn_run_layer(struct attn_side *s, int32_t layer)
{
    struct attn_case *a = s->owner;
    struct attn_problem *p = s->place->problem;
    const struct attn_memory *m = &s->place->memory;
    return pkv_attn_run(s->backend, &p->q, &m->k[layer], &m->v[layer], &s->batch, &s->opts,
                        a->workspace, a->workspace_bytes, NULL, &p->out, NULL);
}

void attn_call_run(void *ctx)
{
    struct attn_side *s = ctx;
    const pkv_status status = attn_run_layer(s, turn_layer(s));
    if (s->status == PKV_OK) s->status = status;
}

void attn_call_slowly(void *ctx)
{
    struct attn_side *s = ctx;
    const struct bench_clock clock = s->owner->run->clock;
    const uint64_t start = clock.now_ns(clock.ctx);
    attn_call_run(ctx);
    const uint64_t end = clock.now_ns(clock.ctx);
    while (clock.now_ns(clock.ctx) < end + (end - start) / 5) {}
}

/* ---------------------------------------------------------------- the load-only twin */

/* Where a thread of the twin is: one block of one head of one sequence. */
struct cursor {
    int32_t seq, head, entry;
};

struct twin_work {
    struct attn_side *side;
    int32_t layer;
};

static int32_t n_entries(const struct attn_place *p, int32_t seq)
{
    const int32_t n = p->problem->shape.kv_len[seq], block_tokens = p->memory.block_tokens;
    return (n + block_tokens - 1) / block_tokens;
}

/* Piece number `i` in the order in which attention reads: sequence, head, block. */
static struct cursor cursor_at(const struct attn_place *p, int64_t i)
{
    struct cursor at = { 0, 0, 0 };
    const int32_t h_kv = p->problem->shape.h_kv;
    while (i >= (int64_t)n_entries(p, at.seq) * h_kv) i -= (int64_t)n_entries(p, at.seq++) * h_kv;
    at.head = (int32_t)(i / n_entries(p, at.seq));
    at.entry = (int32_t)(i % n_entries(p, at.seq));
    return at;
}

static struct cursor cursor_next(const struct attn_place *p, struct cursor at)
{
    if (++at.entry < n_entries(p, at.seq)) return at;
    at.entry = 0;
    if (++at.head < p->problem->shape.h_kv) return at;
    at.head = 0;
    at.seq++;
    return at;
}

static const char *piece(const struct attn_place *p, const pkv_kv_view *view, struct cursor at,
                         size_t *bytes)
{
    const struct layout_table *table = &p->memory.table;
    const int32_t block_tokens = p->memory.block_tokens;
    const int32_t left = p->problem->shape.kv_len[at.seq] - at.entry * block_tokens;
    const int64_t n = left < block_tokens ? left : block_tokens;
    const int64_t id = table->ids[at.seq * table->stride + at.entry];
    const int64_t offset = id * view->block_stride + at.head * view->head_stride;
    const int64_t bits = pkv_dtype_bits(view->dtype);
    *bytes = (size_t)(n * view->token_stride * bits / 8);
    return (const char *)view->data + offset * bits / 8;
}

static uint64_t sum_floats(const struct attn_case *a, const struct attn_place *p,
                           const pkv_scales *s, struct cursor at, size_t n)
{
    const struct layout_table *table = &p->memory.table;
    if (!s->data) return 0;
    const int64_t id = table->ids[at.seq * table->stride + at.entry];
    const float *first = s->data + id * s->block_stride + at.head * s->head_stride;
    return a->loops.sum[BANDWIDTH_PLAIN](first, n * sizeof(float) / 8 * 8);
}

/* K and V of a block, while the next block is fetched; then its scales. */
static void twin_part(void *ctx, int32_t i, int32_t n)
{
    const struct twin_work *w = ctx;
    const struct attn_place *p = w->side->place;
    const struct attn_case *a = w->side->owner;
    const pkv_kv_view *k = &p->memory.k[w->layer], *v = &p->memory.v[w->layer];
    const int64_t n_pieces = p->memory.table.n_used * p->problem->shape.h_kv;
    int64_t from, to;
    uint64_t total = 0;
    bench_team_part(n_pieces, 1, i, n, &from, &to);
    if (from == to) return;
    struct cursor at = cursor_at(p, from);
    for (; from < to; from++) {
        const struct cursor next = from + 1 < to ? cursor_next(p, at) : at;
        size_t bytes, next_bytes;
        const char *k_next = piece(p, k, next, &next_bytes), *v_next = piece(p, v, next, &bytes);
        const char *k_at = piece(p, k, at, &bytes), *v_at = piece(p, v, at, &bytes);
        const size_t tokens = bytes * 8 / (size_t)(k->token_stride * pkv_dtype_bits(k->dtype));
        /* A last block may be shorter: fetching beyond it does no harm. */
        total += a->loops.sum_ahead(k_at, bytes, k_next) + a->loops.sum_ahead(v_at, bytes, v_next);
        total +=
            sum_floats(a, p, &k->scales, at, tokens) + sum_floats(a, p, &v->scales, at, tokens);
        total += sum_floats(a, p, &k->zeros, at, tokens) + sum_floats(a, p, &v->zeros, at, tokens);
        at = next;
    }
    __atomic_fetch_add(&a->run->sink, total, __ATOMIC_RELAXED);
}

void attn_call_twin(void *ctx)
{
    struct attn_side *s = ctx;
    struct twin_work w = { s, turn_layer(s) };
    bench_team_run(s->team, twin_part, &w);
}

/* ---------------------------------------------------------------- yardsticks */

static void read_part(void *ctx, int32_t i, int32_t n)
{
    const struct attn_side *s = ctx;
    const struct attn_case *a = s->owner;
    const char *base = s->place->memory.region.base;
    int64_t from, to;
    bench_team_part(s->place->problem->needed, 4096, i, n, &from, &to);
    const uint64_t sum =
        a->loops.sum[a->read_way](base + s->read_at + from, (size_t)(to - from) / 16 * 16);
    __atomic_fetch_add(&a->run->sink, sum, __ATOMIC_RELAXED);
}

void attn_call_read_loop(void *ctx)
{
    struct attn_side *s = ctx;
    const size_t bytes = (size_t)s->place->problem->needed;
    bench_team_run(s->team, read_part, s);
    s->read_at += bytes / 4096 * 4096;
    if (s->read_at + bytes > s->place->memory.region.bytes) s->read_at = 0;
}

/* Some milliseconds: waking the threads must not count. */
#define ARITHMETIC_ROUNDS 4000000

static void arithmetic_part(void *ctx, int32_t i, int32_t n)
{
    const struct attn_side *s = ctx;
    (void)i;
    (void)n;
    s->loop.run(ARITHMETIC_ROUNDS);
}

void attn_call_arithmetic(void *ctx)
{
    struct attn_side *s = ctx;
    bench_team_run(s->team, arithmetic_part, s);
}

void attn_call_gemm(void *ctx)
{
    const struct attn_side *s = ctx;
    peer_gemm_run(s->gemm);
}

double attn_arithmetic_flops(const struct attn_side *s)
{
    return (double)ARITHMETIC_ROUNDS * s->loop.flops * s->family->threads;
}
