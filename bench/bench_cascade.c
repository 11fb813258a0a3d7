/* A prefix that all sequences share: attended once for all of them and merged with their own keys
 * (cascade), against plain attention of each over prefix and own keys.
 *
 *   plain     row b: [prefix blocks][own blocks of b]
 *   cascade   1. all rows as one sequence over the prefix blocks, q_detached, not causal
 *             2. each row over its own blocks, which begin behind the prefix
 *             3. merge of the two states
 *
 * Bytes are the distinct ones: prefix once, own keys once. */
#include "attention_lists.h"

#include "attention_reference.h"
#include "bandwidth.h"
#include "half_floats.h"

#include "pagedkv/attention.h"
#include "pagedkv/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define H_Q 32
#define H_KV 8
#define DIM 128
#define BLOCK_TOKENS 16

struct cascade {
    struct bench_run *run;
    bool small;
    int32_t n_seqs, prefix, own; /* tokens, multiples of BLOCK_TOKENS */
    int32_t n_layers, layer;
    pkv_backend *backend;
    struct bench_team *team;
    struct bandwidth_loops loops;
    struct bench_region pool;
    pkv_store *store;
    pkv_kv_view k, v; /* of the layer in turn */
    int32_t *ids;     /* [n_seqs][prefix + own blocks] */
    int32_t *own_ids; /* [n_seqs][own blocks] */
    int32_t *kv_len, *own_len, *pos0, *q_pos, q_indptr[2];
    uint16_t *q, *out[3]; /* [n_seqs][H_Q][DIM]: the result, prefix, own keys */
    float *lse[2];        /* [n_seqs][H_Q] */
    void *workspace;
    size_t workspace_bytes, read_at;
    pkv_status status;
};

static int32_t table_stride(const struct cascade *c)
{
    return (c->prefix + c->own) / BLOCK_TOKENS;
}

static int64_t distinct_bytes(const struct cascade *c)
{
    return ((int64_t)c->prefix + (int64_t)c->n_seqs * c->own) * H_KV * DIM * 2 * 2;
}

static void take_layer(struct cascade *c, int32_t layer)
{
    c->layer = layer;
    const pkv_status status = pkv_store_views(c->store, layer, &c->k, &c->v);
    if (c->status == PKV_OK) c->status = status;
}

static pkv_tensor3 rows(const struct cascade *c, uint16_t *data)
{
    return (pkv_tensor3){ data, PKV_F16, H_Q, DIM, c->n_seqs, H_Q * DIM, DIM };
}

static void attend(struct cascade *c, const pkv_attn_batch *batch, bool causal, uint16_t *out_data,
                   float *lse_data)
{
    const pkv_tensor3 q = rows(c, c->q);
    pkv_tensor3 out = rows(c, out_data);
    pkv_lse lse = { lse_data, H_Q, 1, 0 };
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    opts.causal = causal;
    const pkv_status status = pkv_attn_run(c->backend, &q, &c->k, &c->v, batch, &opts, c->workspace,
                                           c->workspace_bytes, NULL, &out, lse_data ? &lse : NULL);
    if (c->status == PKV_OK) c->status = status;
}

static void run_plain(struct cascade *c)
{
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    batch.n_seqs = c->n_seqs;
    batch.table = c->ids;
    batch.table_stride = table_stride(c);
    batch.kv_len = c->kv_len;
    attend(c, &batch, true, c->out[0], NULL);
}

static void run_cascade(struct cascade *c)
{
    pkv_attn_batch shared = PKV_ATTN_BATCH_INIT, own = PKV_ATTN_BATCH_INIT;
    shared.n_seqs = 1;
    shared.table = c->ids;
    shared.table_stride = table_stride(c);
    shared.kv_len = &c->prefix;
    shared.q_indptr = c->q_indptr;
    shared.q_pos = c->q_pos;
    shared.q_detached = 1;
    attend(c, &shared, false, c->out[1], c->lse[0]);
    own.n_seqs = c->n_seqs;
    own.table = c->own_ids;
    own.table_stride = c->own / BLOCK_TOKENS;
    own.kv_len = c->own_len;
    own.kv_pos0 = c->pos0;
    attend(c, &own, true, c->out[2], c->lse[1]);
    const pkv_tensor3 o[2] = { rows(c, c->out[1]), rows(c, c->out[2]) };
    const pkv_lse lse[2] = { { c->lse[0], H_Q, 1, 0 }, { c->lse[1], H_Q, 1, 0 } };
    pkv_tensor3 out = rows(c, c->out[0]);
    const pkv_status status = pkv_states_merge(c->backend, o, lse, 2, NULL, &out, NULL);
    if (c->status == PKV_OK) c->status = status;
}

static void call_plain(void *ctx)
{
    struct cascade *c = ctx;
    take_layer(c, (c->layer + 1) % c->n_layers);
    run_plain(c);
}

static void call_cascade(void *ctx)
{
    struct cascade *c = ctx;
    take_layer(c, (c->layer + 1) % c->n_layers);
    run_cascade(c);
}

static void read_part(void *ctx, int32_t i, int32_t n)
{
    const struct cascade *c = ctx;
    int64_t from, to;
    bench_team_part(distinct_bytes(c), 4096, i, n, &from, &to);
    const uint64_t sum = c->loops.sum[c->run->report.machine.read_way](
        (const char *)c->pool.base + c->read_at + from, (size_t)(to - from));
    __atomic_fetch_add(&c->run->sink, sum, __ATOMIC_RELAXED);
}

static void call_read_loop(void *ctx)
{
    struct cascade *c = ctx;
    const size_t bytes = (size_t)distinct_bytes(c);
    bench_team_run(c->team, read_part, c);
    c->read_at += bytes;
    if (c->read_at + bytes > c->pool.bytes) c->read_at = 0;
}

/* ---------------------------------------------------------------- correctness */

/* Keys of one sequence and head as the reference wants them. */
static void load_keys(const struct cascade *c, int32_t seq, int32_t head, double *k, double *v)
{
    for (int32_t t = 0; t < c->prefix + c->own; t++) {
        const int64_t id = c->ids[seq * table_stride(c) + t / BLOCK_TOKENS];
        const int64_t k_at =
            id * c->k.block_stride + head * c->k.head_stride + t % BLOCK_TOKENS * c->k.token_stride;
        const int64_t v_at =
            id * c->v.block_stride + head * c->v.head_stride + t % BLOCK_TOKENS * c->v.token_stride;
        for (int32_t d = 0; d < DIM; d++) {
            k[t * DIM + d] = number_get(c->k.data, PKV_F16, k_at + d);
            v[t * DIM + d] = number_get(c->v.data, PKV_F16, v_at + d);
        }
    }
}

/* The bound of attention, and for the cascade that of partial results rounded to f16 and merged. */
static void compare(const struct cascade *c, int32_t seq, int32_t head,
                    const struct attention_row *row, bool merged, struct bench_correct *out)
{
    const struct attention_rounding exact = { false, 0 };
    for (int32_t d = 0; d < DIM; d++) {
        const double got = number_get(c->out[0], PKV_F16, (int64_t)(seq * H_Q + head) * DIM + d);
        double bound = attention_bound(row, d, c->prefix + c->own, DIM, PKV_F16, &exact);
        if (merged) bound += (0x1p-11 + 4 * 2 * 0x1p-24) * row->vmax[d];
        const double error = fabs(got - row->out[d]);
        out->max_abs = fmax(out->max_abs, error);
        out->bound_used = fmax(out->bound_used, error / bound);
        if (error <= bound || !out->ok) continue;
        out->ok = false;
        snprintf(out->text, sizeof(out->text),
                 "sequence %d head %d dim %d is %.9g, should be %.9g +- %.2g", seq, head, d, got,
                 row->out[d], bound);
    }
}

/* One head of the first and of the last sequence. */
static bool check_sequences(struct cascade *c, bool merged, struct bench_correct *out,
                            struct bench_error *err)
{
    const size_t n = (size_t)(c->prefix + c->own);
    double *numbers = bench_calloc(n * (4 * DIM + 1) + 3 * DIM, sizeof(double), err);
    if (!numbers) return false;
    double *k = numbers, *v = k + n * DIM, *k_size = v + n * DIM, *v_size = k_size + n * DIM;
    struct attention_row row = { .scores = v_size + n * DIM };
    row.out = row.scores + n;
    row.vbar = row.out + DIM;
    row.vmax = row.vbar + DIM;
    for (int i = 0; i < 2; i++) {
        const int32_t seq = i ? c->n_seqs - 1 : 0, head = i ? H_Q - 1 : 5;
        const struct attention_keys keys = { k, k_size, v, v_size, (int64_t)n, DIM, DIM };
        float q[DIM];
        for (int32_t d = 0; d < DIM; d++)
            q[d] = number_get(c->q, PKV_F16, (int64_t)(seq * H_Q + head) * DIM + d);
        load_keys(c, seq, head / (H_Q / H_KV), k, v);
        for (size_t e = 0; e < n * DIM; e++) k_size[e] = fabs(k[e]), v_size[e] = fabs(v[e]);
        attention_reference(q, &keys, 1 / sqrt((double)DIM), &row);
        compare(c, seq, head, &row, merged, out);
    }
    free(numbers);
    return true;
}

static bool cascade_check(struct bench_case *b, struct bench_run *run, int32_t side, bool timed,
                          struct bench_correct *out, struct bench_error *err)
{
    struct cascade *c = b->ctx;
    (void)run;
    if (b->sides[side].yardstick) {
        out->ok = true;
        return true;
    }
    const bool merged = b->sides[side].call == call_cascade;
    out->checked = out->ok = out->has_errors = true;
    if (!timed) c->status = PKV_OK;
    take_layer(c, c->n_layers - 1);
    if (merged) run_cascade(c);
    else run_plain(c);
    if (c->status == PKV_OK) return check_sequences(c, merged, out, err);
    out->ok = false;
    snprintf(out->text, sizeof(out->text), "%s", pkv_status_name(c->status));
    return true;
}

/* ---------------------------------------------------------------- setup */

static void fill(struct cascade *c)
{
    struct bench_rng rng = { c->run->options->seed ^ 0x63617363u };
    uint16_t numbers[8191]; /* a prime: blocks begin at different places of it */
    uint16_t *pool = c->pool.base;
    for (int i = 0; i < BENCH_LEN(numbers); i++) {
        double sum = -6;
        for (int k = 0; k < 12; k++) sum += bench_rng_unit(&rng);
        numbers[i] = half_from_float((float)sum);
    }
    for (size_t i = 0; i < c->pool.bytes / 2; i += BENCH_LEN(numbers)) {
        const size_t left = c->pool.bytes / 2 - i;
        memcpy(pool + i, numbers,
               2 * (left < BENCH_LEN(numbers) ? left : (size_t)BENCH_LEN(numbers)));
    }
    for (int32_t i = 0; i < c->n_seqs * H_Q * DIM; i++)
        c->q[i] = numbers[bench_rng_below(&rng, BENCH_LEN(numbers))];
}

static void fill_tables(struct cascade *c)
{
    const int32_t shared = c->prefix / BLOCK_TOKENS, own = c->own / BLOCK_TOKENS;
    const int32_t n = shared + c->n_seqs * own;
    struct bench_rng rng = { c->run->options->seed };
    int32_t *order = c->own_ids; /* long enough for a while */
    for (int32_t i = 0; i < n; i++) order[i] = i + 1;
    bench_shuffle(&rng, order, n);
    for (int32_t b = 0; b < c->n_seqs; b++) {
        int32_t *row = c->ids + b * (shared + own);
        memcpy(row, order, (size_t)shared * sizeof(*row));
        memcpy(row + shared, order + shared + b * own, (size_t)own * sizeof(*row));
        c->kv_len[b] = c->prefix + c->own;
        c->own_len[b] = c->own;
        c->pos0[b] = c->prefix;
        c->q_pos[b] = c->prefix + c->own - 1;
    }
    for (int32_t b = 0; b < c->n_seqs; b++)
        memcpy(c->own_ids + b * own, c->ids + b * (shared + own) + shared,
               (size_t)own * sizeof(*c->ids));
    c->q_indptr[0] = 0;
    c->q_indptr[1] = c->n_seqs;
}

static bool make_arrays(struct cascade *c, struct bench_error *err)
{
    const size_t n = (size_t)c->n_seqs, elems = n * H_Q * DIM;
    const size_t n_blocks = (size_t)(c->prefix + c->n_seqs * c->own) / BLOCK_TOKENS;
    int32_t **ints[] = { &c->kv_len, &c->own_len, &c->pos0, &c->q_pos };
    uint16_t **halves[] = { &c->q, &c->out[0], &c->out[1], &c->out[2] };
    bool ok = true;
    for (int i = 0; i < 4; i++) {
        *ints[i] = bench_calloc(n, sizeof(int32_t), err);
        *halves[i] = aligned_alloc(64, elems * sizeof(uint16_t));
        ok = ok && *ints[i] && *halves[i];
    }
    for (int i = 0; i < 2; i++) {
        c->lse[i] = bench_calloc(n * H_Q, sizeof(float), err);
        ok = ok && c->lse[i];
    }
    c->ids = bench_calloc(n * (size_t)table_stride(c), sizeof(int32_t), err);
    c->own_ids = bench_calloc(n_blocks, sizeof(int32_t), err);
    return (ok && c->ids && c->own_ids) || bench_fail(err, BENCH_USAGE, "no memory for tables");
}

static bool make_store(struct cascade *c, struct bench_error *err)
{
    pkv_store_config cfg = PKV_STORE_CONFIG_INIT;
    size_t block_bytes = 0;
    cfg.shape = (pkv_kv_shape){ c->n_layers, H_KV, DIM, BLOCK_TOKENS, PKV_F16 };
    cfg.n_blocks = (c->prefix + c->n_seqs * c->own) / BLOCK_TOKENS + 1;
    if (pkv_kv_block_bytes(&cfg.shape, &block_bytes) != PKV_OK ||
        !bench_region_map(&c->pool, block_bytes * (size_t)cfg.n_blocks, c->run->options->huge_pages,
                          err))
        return false;
    cfg.memory = c->pool.base;
    cfg.memory_bytes = c->pool.bytes;
    if (pkv_store_create(&cfg, &c->store) == PKV_OK) return true;
    return bench_fail(err, BENCH_USAGE, "no store for the cascade");
}

static void cascade_teardown(struct bench_case *b)
{
    struct cascade *c = b->ctx;
    const bool small = c->small;
    pkv_store_destroy(c->store);
    bench_region_unmap(&c->pool);
    free(c->ids);
    free(c->own_ids);
    free(c->kv_len);
    free(c->own_len);
    free(c->pos0);
    free(c->q_pos);
    free(c->q);
    for (int i = 0; i < 3; i++) free(c->out[i]);
    for (int i = 0; i < 2; i++) free(c->lse[i]);
    free(c->workspace);
    memset(c, 0, sizeof(*c));
    c->small = small;
}

static bool cascade_setup(struct bench_case *b, struct bench_run *run, struct bench_error *err)
{
    struct cascade *c = b->ctx;
    const int64_t beyond_cache = 4 * run->report.machine.llc_bytes;
    c->run = run;
    c->n_seqs = c->small ? 3 : 32;
    c->prefix = c->small ? 64 : 8192;
    c->own = c->small ? 32 : 256;
    c->n_layers = c->small ? 2 : (int32_t)((beyond_cache - 1) / distinct_bytes(c) + 1);
    bandwidth_kernels(run->options->isa, &c->loops);
    c->backend = bench_engines_backend(&run->engines, run->options->isa, run->threads, err);
    c->team = bench_engines_team(&run->engines, run->threads, err);
    if (!c->backend || !c->team) return false;
    if ((int64_t)run->max_memory < distinct_bytes(c) * c->n_layers)
        return bench_fail(err, BENCH_SKIP, "needs more than --max-memory (%zu MiB)",
                          run->max_memory >> 20);
    bool ok = pkv_attn_workspace(c->backend, H_Q, H_KV, DIM, DIM, &c->workspace_bytes) == PKV_OK;
    if (ok) c->workspace = aligned_alloc(64, (c->workspace_bytes + 63) / 64 * 64);
    ok = ok && c->workspace && make_arrays(c, err) && make_store(c, err);
    if (!ok) {
        cascade_teardown(b);
        return bench_fail(err, BENCH_USAGE, "no memory for the cascade");
    }
    fill(c);
    fill_tables(c);
    for (int32_t i = 0; i < b->n_sides; i++) {
        b->sides[i].bytes_needed = b->sides[i].bytes_distinct = distinct_bytes(c);
        b->sides[i].in_cache = distinct_bytes(c) * c->n_layers < beyond_cache;
    }
    return true;
}

/* ---------------------------------------------------------------- definition */

static struct bench_side *add_side(struct bench_case *b, int32_t threads, const char *id,
                                   const char *label, void (*call)(void *))
{
    struct bench_side *s = bench_case_call_side(b, threads, id, label, call);
    bench_side_param(s, "heads", "%d/%d", H_Q, H_KV);
    bench_side_param(s, "head_dim", "%d", DIM);
    bench_side_param(s, "kv_dtype", "f16");
    return s;
}

bool attention_list_cascade(const struct bench_options *o, struct case_list *list,
                            struct bench_error *err)
{
    const int32_t threads = bench_threads(o, machine_cpus());
    struct bench_case *b = case_list_add(list, err);
    struct cascade *c = bench_calloc(1, sizeof(*c), err);
    if (!b || !c) {
        free(c);
        return false;
    }
    b->ctx = c;
    c->small = o->profile == PROFILE_CI;
    b->group = GROUP_KERNEL;
    b->setup = cascade_setup;
    b->check = cascade_check;
    b->teardown = cascade_teardown;
    attention_sampler(o, b);
    snprintf(b->id, sizeof(b->id), "kernel/%s/32x8/d128/f16",
             c->small ? "shared-prefix-64/3q1s96" : "shared-prefix-8k/32q1s8448");
    snprintf(b->versus, sizeof(b->versus), "plain");
    add_side(b, threads, "plain", "each sequence over all its keys", call_plain)->baseline = true;
    add_side(b, threads, "cascade", "prefix once, own keys, merge", call_cascade);
    struct bench_side *yard = add_side(b, threads, "read-loop", "read loop", call_read_loop);
    yard->yardstick = yard->no_ratio = true;
    return true;
}
