/* Moves of KV bytes beside a copy loop (C8): copying, gathering and scattering blocks, writing new
 * rows into their slots, gathering rows, merging states.
 *
 *   pool   a store of 64 KiB blocks (one layer, 8 heads, dim 128, f16), used in random order
 *   flat   as many bytes in one piece: where rows come from and gathered bytes go
 *
 * Every call uses the next stretch of both, so that nothing is in the caches. Bytes count once. */
#include "bench_case.h"

#include "half_floats.h"

#include "pagedkv/attention.h"
#include "pagedkv/moves.h"
#include "pagedkv/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define H_KV 8
#define DIM 128
#define BLOCK_TOKENS 16
#define ROW_BYTES ((size_t)H_KV * DIM * 2) /* K or V of one token, f16 */
#define N_STATES 4
#define COPY_SHARE 0.8

struct move_sizes {
    int32_t n_blocks; /* of a call */
    int32_t n_tokens; /* written in a call, as a prefill; and rows gathered */
    int32_t n_appended;
    int32_t n_rows; /* merged */
};
static const struct move_sizes usual = { 256, 2048, 256, 256 }, tiny = { 4, 40, 8, 4 };

struct moves {
    struct bench_run *run;
    struct move_sizes size;
    bool small;
    pkv_backend *backend;
    struct bench_team *team;
    struct bench_region pool, flat;
    pkv_store *store, *int8;
    pkv_kv_view k, v, k8, v8;
    size_t block_bytes;
    int32_t n_blocks; /* of both stores */
    int32_t *order;   /* [n_blocks - 1] ids from 1, a permutation */
    int64_t *slots;   /* [max(n_tokens, n_appended)] */
    pkv_block_copy *copies;
    float *states, *lse, *merged; /* [N_STATES][n_rows][32][DIM], [N_STATES][n_rows][32] */
    int64_t turn;                 /* calls so far, of any side: the next stretch */
    pkv_status status;
    /* Of the last call, for the check. */
    const int32_t *ids;
    char *flat_at;
};

static void note_status(struct moves *m, pkv_status status)
{
    if (m->status == PKV_OK) m->status = status;
}

/* The next n ids of the permutation. */
static const int32_t *next_ids(struct moves *m, int32_t n)
{
    const int64_t stretches = (m->n_blocks - 1) / n;
    m->ids = m->order + m->turn % stretches * n;
    return m->ids;
}

/* The next `bytes` of the flat region. */
static char *next_flat(struct moves *m, size_t bytes)
{
    const size_t stretches = m->flat.bytes / bytes;
    m->flat_at = (char *)m->flat.base + (size_t)m->turn++ % stretches * bytes;
    return m->flat_at;
}

/* ---------------------------------------------------------------- what is timed */

struct copy_work {
    char *dst;
    const char *src;
    int64_t bytes;
};

static void copy_part(void *ctx, int32_t i, int32_t n)
{
    const struct copy_work *w = ctx;
    int64_t from, to;
    bench_team_part(w->bytes, 4096, i, n, &from, &to);
    memcpy(w->dst + from, w->src + from, (size_t)(to - from));
}

static void call_copy_loop(void *ctx)
{
    struct moves *m = ctx;
    const int64_t bytes = (int64_t)m->size.n_blocks * (int64_t)m->block_bytes;
    const int64_t stretches = (m->n_blocks - 1) / m->size.n_blocks;
    const char *src = (const char *)m->pool.base + m->turn % stretches * bytes;
    struct copy_work w = { next_flat(m, (size_t)bytes), src, bytes };
    bench_team_run(m->team, copy_part, &w);
}

static void call_blocks_copy(void *ctx)
{
    struct moves *m = ctx;
    const int32_t n = m->size.n_blocks;
    const int32_t *ids = next_ids(m, 2 * n);
    m->turn++;
    for (int32_t i = 0; i < n; i++)
        m->copies[i] = (pkv_block_copy){ ids[i], ids[n + i], BLOCK_TOKENS, 0 };
    note_status(m, pkv_blocks_copy(m->backend, m->pool.base, m->block_bytes, m->n_blocks, m->copies,
                                   n, NULL, 0, NULL));
}

static void call_gather(void *ctx)
{
    struct moves *m = ctx;
    const int32_t n = m->size.n_blocks, *ids = next_ids(m, n);
    char *dst = next_flat(m, (size_t)n * m->block_bytes);
    note_status(m, pkv_blocks_gather(m->backend, m->pool.base, m->block_bytes, m->n_blocks, ids, n,
                                     dst, NULL));
}

static void call_scatter(void *ctx)
{
    struct moves *m = ctx;
    const int32_t n = m->size.n_blocks, *ids = next_ids(m, n);
    const char *src = next_flat(m, (size_t)n * m->block_bytes);
    note_status(m, pkv_blocks_scatter(m->backend, src, ids, n, m->pool.base, m->block_bytes,
                                      m->n_blocks, NULL));
}

static pkv_tensor3 rows_at(char *data, int32_t n)
{
    return (pkv_tensor3){ data, PKV_F16, H_KV, DIM, n, H_KV * DIM, DIM };
}

/* K and V of n tokens from the flat region into their slots. */
static void write_rows(struct moves *m, int32_t n, pkv_kv_view *k_view, pkv_kv_view *v_view)
{
    char *flat = next_flat(m, 2 * (size_t)n * ROW_BYTES);
    const pkv_tensor3 k = rows_at(flat, n), v = rows_at(flat + (size_t)n * ROW_BYTES, n);
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    args.k = &k;
    args.v = &v;
    args.slots = m->slots;
    args.k_view = k_view;
    args.v_view = v_view;
    note_status(m, pkv_kv_write(m->backend, &args, NULL));
}

/* Slots of n tokens that follow each other, in random blocks. */
static void prefill_slots(struct moves *m, int32_t n)
{
    const int32_t needed = (n + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
    const int32_t *ids = next_ids(m, needed);
    for (int32_t i = 0; i < n; i++)
        m->slots[i] = (int64_t)ids[i / BLOCK_TOKENS] * BLOCK_TOKENS + i % BLOCK_TOKENS;
}

static void call_write(void *ctx)
{
    struct moves *m = ctx;
    prefill_slots(m, m->size.n_tokens);
    write_rows(m, m->size.n_tokens, &m->k, &m->v);
}

static void call_write_int8(void *ctx)
{
    struct moves *m = ctx;
    prefill_slots(m, m->size.n_tokens);
    write_rows(m, m->size.n_tokens, &m->k8, &m->v8);
}

/* One token in each of many sequences. */
static void call_append(void *ctx)
{
    struct moves *m = ctx;
    const int32_t n = m->size.n_appended, *ids = next_ids(m, n);
    for (int32_t i = 0; i < n; i++)
        m->slots[i] = (int64_t)ids[i] * BLOCK_TOKENS + (i * 7 + m->turn) % BLOCK_TOKENS;
    write_rows(m, n, &m->k, &m->v);
}

static void call_kv_gather(void *ctx)
{
    struct moves *m = ctx;
    const int32_t n = m->size.n_tokens;
    prefill_slots(m, n);
    pkv_tensor3 out = rows_at(next_flat(m, (size_t)n * ROW_BYTES), n);
    note_status(m, pkv_kv_gather(m->backend, &m->k, m->slots, &out, NULL, NULL));
}

static void call_merge(void *ctx)
{
    struct moves *m = ctx;
    const int32_t h = 32;
    const int64_t n = (int64_t)m->size.n_rows * h;
    pkv_tensor3 o[N_STATES], out = { m->merged, PKV_F32, h, DIM, m->size.n_rows, h * DIM, DIM };
    pkv_lse lse[N_STATES];
    for (int s = 0; s < N_STATES; s++) {
        o[s] = out;
        o[s].data = m->states + s * n * DIM;
        lse[s] = (pkv_lse){ m->lse + s * n, h, 1, 0 };
    }
    note_status(m, pkv_states_merge(m->backend, o, lse, N_STATES, NULL, &out, NULL));
}

/* ---------------------------------------------------------------- correctness */

static const char *block_at(const struct moves *m, int32_t id)
{
    return (const char *)m->pool.base + (size_t)id * m->block_bytes;
}

static bool right_blocks(const struct moves *m, void (*call)(void *))
{
    const int32_t n = m->size.n_blocks;
    for (int32_t i = 0; i < n; i++) {
        const char *here = block_at(m, m->ids[i]);
        const char *there = call == call_blocks_copy ? block_at(m, m->ids[n + i])
                                                     : m->flat_at + (size_t)i * m->block_bytes;
        if (memcmp(here, there, m->block_bytes) != 0) return false;
    }
    return true;
}

static const char *slot_row(const pkv_kv_view *view, int64_t slot, int32_t head)
{
    const int64_t at = slot / BLOCK_TOKENS * view->block_stride + head * view->head_stride +
                       slot % BLOCK_TOKENS * view->token_stride;
    return (const char *)view->data + at * pkv_dtype_bits(view->dtype) / 8;
}

/* Rows of K in their slots are those of the flat region, bit by bit. */
static bool right_rows(const struct moves *m, const pkv_kv_view *view, const char *flat, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t h = 0; h < H_KV; h++)
            if (memcmp(slot_row(view, m->slots[i], h), flat + (size_t)(i * H_KV + h) * DIM * 2,
                       DIM * 2) != 0)
                return false;
    return true;
}

/* Half a step of the scale, and the rounding of x / s. */
static bool right_codes(const struct moves *m, const pkv_kv_view *view, const char *flat, int32_t n)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t h = 0; h < H_KV; h++) {
            const pkv_scales *s = &view->scales;
            const double scale =
                s->data[m->slots[i] / BLOCK_TOKENS * s->block_stride + h * s->head_stride +
                        m->slots[i] % BLOCK_TOKENS * s->token_stride];
            const void *codes = slot_row(view, m->slots[i], h);
            for (int32_t d = 0; d < DIM; d++) {
                const double x = number_get(flat, PKV_F16, (int64_t)(i * H_KV + h) * DIM + d);
                const double got = scale * number_get(codes, PKV_I8, d);
                if (!(fabs(x - got) <= scale / 2 + 0x1p-22 * fabs(x))) return false;
            }
        }
    return true;
}

/* Merged by the formula, in double; the bound is that of docs/numerics.md. */
static bool right_merge(const struct moves *m)
{
    const int64_t n = (int64_t)m->size.n_rows * 32;
    for (int64_t r = 0; r < n; r += 37)
        for (int32_t d = 0; d < DIM; d++) {
            double top = -INFINITY, sum = 0, total = 0, largest = 0;
            for (int s = 0; s < N_STATES; s++) top = fmax(top, m->lse[s * n + r]);
            for (int s = 0; s < N_STATES; s++) {
                const double w = exp(m->lse[s * n + r] - top), o = m->states[(s * n + r) * DIM + d];
                sum += w * o;
                total += w;
                largest = fmax(largest, fabs(o));
            }
            const double bound = (4 * N_STATES + 1) * 0x1p-24 * largest;
            if (!(fabs(m->merged[r * DIM + d] - sum / total) <= bound)) return false;
        }
    return true;
}

static bool is_right(const struct moves *m, void (*call)(void *))
{
    const int32_t n = m->size.n_tokens;
    if (call == call_blocks_copy || call == call_gather || call == call_scatter)
        return right_blocks(m, call);
    if (call == call_write || call == call_kv_gather) return right_rows(m, &m->k, m->flat_at, n);
    if (call == call_append) return right_rows(m, &m->k, m->flat_at, m->size.n_appended);
    if (call == call_write_int8) return right_codes(m, &m->k8, m->flat_at, n);
    return call != call_merge || right_merge(m);
}

/* Numbers everywhere: what was gathered or copied before holds no NaN for the int8 codes. */
static void fill(struct moves *m)
{
    struct bench_rng rng = { m->run->options->seed };
    uint16_t numbers[4096];
    struct bench_region *regions[] = { &m->pool, &m->flat };
    for (int i = 0; i < BENCH_LEN(numbers); i++)
        numbers[i] = half_from_float((float)(4 * bench_rng_unit(&rng) - 2));
    for (int r = 0; r < 2; r++)
        for (size_t at = 0; at + sizeof(numbers) <= regions[r]->bytes; at += sizeof(numbers)) {
            numbers[at / sizeof(numbers) % 4096] ^= (uint16_t)(1u << r); /* no two pieces alike */
            memcpy((char *)regions[r]->base + at, numbers, sizeof(numbers));
        }
}

static bool moves_check(struct bench_case *c, struct bench_run *run, int32_t side, bool timed,
                        struct bench_correct *out, struct bench_error *err)
{
    struct moves *m = c->ctx;
    (void)run;
    (void)err;
    if (c->sides[side].yardstick) {
        out->ok = true;
        return true;
    }
    out->checked = true;
    m->status = PKV_OK;
    c->sides[side].call(m);
    out->ok = m->status == PKV_OK && is_right(m, c->sides[side].call);
    if (!out->ok)
        snprintf(out->text, sizeof(out->text), "%s timing: %s", timed ? "after" : "before",
                 m->status == PKV_OK ? "other bytes than expected" : pkv_status_name(m->status));
    return true;
}

/* ---------------------------------------------------------------- setup */

static bool make_store(struct moves *m, pkv_dtype dtype, int32_t n_blocks, pkv_store **store,
                       pkv_kv_view *k, pkv_kv_view *v, struct bench_error *err)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    cfg.shape = (pkv_kv_shape){ 1, H_KV, DIM, BLOCK_TOKENS, dtype };
    cfg.n_blocks = n_blocks;
    cfg.huge_pages = m->run->options->huge_pages;
    if (dtype == PKV_F16) {
        cfg.memory = m->pool.base;
        cfg.memory_bytes = m->pool.bytes;
    }
    const pkv_status status = pkv_store_create(&cfg, store);
    if (status != PKV_OK)
        return bench_fail(err, BENCH_SKIP, "no store of %s: %s", pkv_dtype_name(dtype),
                          pkv_status_name(status));
    return pkv_store_views(*store, 0, k, v) == PKV_OK;
}

static bool make_lists(struct moves *m, struct bench_error *err)
{
    struct bench_rng rng = { m->run->options->seed ^ 0x6d6f766573u };
    const int64_t n_states = (int64_t)N_STATES * m->size.n_rows * 32;
    const int32_t n = m->size.n_tokens > m->size.n_appended ? m->size.n_tokens : m->size.n_appended;
    m->order = bench_calloc((size_t)m->n_blocks, sizeof(*m->order), err);
    m->slots = bench_calloc((size_t)n, sizeof(*m->slots), err);
    m->copies = bench_calloc((size_t)m->size.n_blocks, sizeof(*m->copies), err);
    m->states = aligned_alloc(64, (size_t)n_states * DIM * sizeof(float));
    m->lse = bench_calloc((size_t)n_states, sizeof(float), err);
    m->merged = aligned_alloc(64, (size_t)n_states / N_STATES * DIM * sizeof(float));
    if (!m->order || !m->slots || !m->copies || !m->states || !m->lse || !m->merged)
        return bench_fail(err, BENCH_USAGE, "no memory for lists");
    for (int32_t i = 0; i < m->n_blocks - 1; i++) m->order[i] = i + 1;
    bench_shuffle(&rng, m->order, m->n_blocks - 1);
    for (int64_t i = 0; i < n_states * DIM; i++)
        m->states[i] = (float)(2 * bench_rng_unit(&rng) - 1);
    for (int64_t i = 0; i < n_states; i++) m->lse[i] = (float)(8 * bench_rng_unit(&rng));
    return true;
}

static void moves_teardown(struct bench_case *c)
{
    struct moves *m = c->ctx;
    pkv_store_destroy(m->store);
    pkv_store_destroy(m->int8);
    bench_region_unmap(&m->pool);
    bench_region_unmap(&m->flat);
    free(m->order);
    free(m->slots);
    free(m->copies);
    free(m->states);
    free(m->lse);
    free(m->merged);
    const bool small = m->small;
    memset(m, 0, sizeof(*m));
    m->small = small;
}

/* Bytes of one call of a side. */
static int64_t bytes_of(const struct moves *m, const struct bench_side *s)
{
    const int64_t rows = (int64_t)ROW_BYTES;
    if (s->call == call_write || s->call == call_write_int8) return 2 * rows * m->size.n_tokens;
    if (s->call == call_append) return 2 * rows * m->size.n_appended;
    if (s->call == call_kv_gather) return rows * m->size.n_tokens;
    if (s->call == call_merge) return (int64_t)N_STATES * m->size.n_rows * 32 * DIM * 4;
    return (int64_t)m->size.n_blocks * (int64_t)m->block_bytes;
}

static bool moves_setup(struct bench_case *c, struct bench_run *run, struct bench_error *err)
{
    struct moves *m = c->ctx;
    const size_t wanted =
        run->options->profile == PROFILE_FULL ? (size_t)768 << 20 : (size_t)256 << 20;
    m->run = run;
    m->size = m->small ? tiny : usual;
    m->block_bytes = ROW_BYTES * 2 * BLOCK_TOKENS;
    size_t bytes = m->small ? (size_t)8 << 20 : wanted;
    while (2 * bytes > run->max_memory && bytes > (size_t)64 << 20) bytes /= 2;
    m->n_blocks = (int32_t)(bytes / m->block_bytes);
    m->backend = bench_engines_backend(&run->engines, run->options->isa, run->threads, err);
    m->team = bench_engines_team(&run->engines, run->threads, err);
    const bool ok =
        m->backend && m->team && bench_region_map(&m->pool, bytes, run->options->huge_pages, err) &&
        bench_region_map(&m->flat, bytes, run->options->huge_pages, err) &&
        make_store(m, PKV_F16, m->n_blocks, &m->store, &m->k, &m->v, err) &&
        make_store(m, PKV_I8, m->n_blocks, &m->int8, &m->k8, &m->v8, err) && make_lists(m, err);
    if (!ok) {
        moves_teardown(c);
        return false;
    }
    fill(m);
    for (int32_t i = 0; i < c->n_sides; i++) {
        struct bench_side *s = &c->sides[i];
        s->bytes_needed = s->bytes_distinct = bytes_of(m, s);
        s->in_cache = (int64_t)bytes < 4 * run->report.machine.llc_bytes;
    }
    return true;
}

/* ---------------------------------------------------------------- definition */

static void add_side(struct bench_case *c, const struct bench_options *o, const char *id,
                     const char *label, void (*call)(void *), bool has_goal)
{
    const int32_t threads = bench_threads(o, machine_cpus());
    struct bench_side *s = bench_case_call_side(c, threads, id, label, call);
    s->yardstick = call == call_copy_loop;
    s->no_ratio = true;
    if (has_goal && o->profile != PROFILE_CI) bench_side_goal(s, GOAL_SHARE, COPY_SHARE, "C8");
}

bool case_list_moves(const struct bench_options *o, struct case_list *list, struct bench_error *err)
{
    struct bench_case *c = case_list_add(list, err);
    struct moves *m = bench_calloc(1, sizeof(*m), err);
    if (!c || !m) {
        free(m);
        return false;
    }
    c->ctx = m;
    m->small = o->profile == PROFILE_CI;
    c->group = GROUP_MOVES;
    c->setup = moves_setup;
    c->check = moves_check;
    c->teardown = moves_teardown;
    c->sampler = (struct sampler_opts)SAMPLER_OPTS_INIT;
    c->sampler.n_samples = o->repeats ? o->repeats : o->profile == PROFILE_CI ? 5 : 20;
    c->sampler.warmup_ns = o->profile == PROFILE_CI ? 1000000 : 20000000;
    if (o->max_time_s > 0) c->sampler.max_time_ns = (uint64_t)(o->max_time_s * 1e9);
    snprintf(c->id, sizeof(c->id), "moves/8kv/d128/f16");
    add_side(c, o, "copy-loop", "copy loop", call_copy_loop, false);
    add_side(c, o, "blocks-copy", "blocks_copy, 256 blocks of 64 KiB", call_blocks_copy, true);
    add_side(c, o, "blocks-gather", "blocks_gather, 256 blocks", call_gather, true);
    add_side(c, o, "blocks-scatter", "blocks_scatter, 256 blocks", call_scatter, true);
    add_side(c, o, "kv-write", "kv_write, 2k tokens", call_write, true);
    add_side(c, o, "kv-gather", "kv_gather, 2k rows", call_kv_gather, true);
    add_side(c, o, "kv-append", "kv_write, 256 sequences x 1 token", call_append, false);
    add_side(c, o, "kv-write-int8", "kv_write, 2k tokens to int8", call_write_int8, false);
    add_side(c, o, "merge", "states_merge, 4 states of 256 rows", call_merge, false);
    return true;
}
