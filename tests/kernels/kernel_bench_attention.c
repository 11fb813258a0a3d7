/* Decode and prefill. Decode reads one pool of keys and values, through a table of blocks in random
 * order and as if it were contiguous; the load-only twin reads the same pieces. */
#include "kernel_bench.h"
#include "kernel_twin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADS_Q = 32, HEADS_KV = 8, DIM = 128, BLOCK = 16, KV_LEN = 4096 };
enum { BLOCKS_PER_SEQ = KV_LEN / BLOCK, PREFILL = 2048, PREFILL_Q = 8, PREFILL_KV = 2 };

static int64_t row_bytes(pkv_dtype dtype)
{
    return DIM * pkv_dtype_bits(dtype) / 8;
}

static int64_t floats_per_row(pkv_dtype dtype)
{
    return dtype == PKV_U4 ? 2 : dtype == PKV_E4M3 || dtype == PKV_I8 ? 1 : 0;
}

/* Bytes of one block, or of one sequence: codes [head][K,V][token], then scales, then zeros. */
static int64_t unit_bytes(pkv_dtype dtype, int64_t tokens, int32_t n_heads)
{
    return 2 * n_heads * tokens * (row_bytes(dtype) + 4 * floats_per_row(dtype));
}

static pkv_kv_view view_of(unsigned char *pool, pkv_dtype dtype, int64_t n_units, int64_t tokens,
                           int32_t n_heads, int which)
{
    const int64_t bytes = unit_bytes(dtype, tokens, n_heads), row = DIM;
    const int64_t codes = 2 * n_heads * tokens * row_bytes(dtype);
    pkv_kv_view v = { pool + which * tokens * row_bytes(dtype),
                      dtype,
                      (int32_t)n_units,
                      (int32_t)tokens,
                      n_heads,
                      DIM,
                      bytes * 8 / pkv_dtype_bits(dtype),
                      row,
                      2 * tokens * row,
                      { NULL, 0, 0, 0 },
                      { NULL, 0, 0, 0 } };
    if (floats_per_row(dtype) == 0) return v;
    float *scales = (float *)(void *)(pool + codes) + which * tokens;
    v.scales = (pkv_scales){ scales, bytes / 4, 1, 2 * tokens };
    if (dtype == PKV_U4)
        v.zeros = (pkv_scales){ scales + 2 * n_heads * tokens, bytes / 4, 1, 2 * tokens };
    return v;
}

/* One call of attention; everything it needs. */
struct call {
    pkv_backend *be;
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    void *workspace;
    size_t workspace_bytes;
};

static void attend(void *ctx)
{
    struct call *c = ctx;
    bench_must(pkv_attn_run(c->be, &c->q, &c->k, &c->v, &c->batch, &c->opts, c->workspace,
                            c->workspace_bytes, NULL, &c->out, NULL));
}

static const char *name_of(const struct call *c, int32_t q_len)
{
    return pkv_attn_kernel_name(c->be, &c->q, &c->k, &c->v, &c->batch, &c->opts, q_len);
}

/* Calls of one dtype and what they share. */
struct decode {
    const struct bench *b;
    pkv_dtype dtype;
    unsigned char *pool;
    size_t pool_bytes; /* of all sequences */
    int32_t n_seqs;
    int32_t *table, *kv_len;
    void *q, *out, *workspace;
    size_t workspace_bytes;
    struct call calls[BENCH_MAX_RUNS];
    int n_calls;
    struct twin_piece *pieces[2]; /* paged, contiguous */
    struct twin_load load[2];
    struct twin_read read;
};

static void add_piece(struct twin_load *l, struct twin_piece *pieces, const void *at, int64_t bytes)
{
    pieces[l->n_pieces++] = (struct twin_piece){ at, (uint32_t)bytes };
}

/* Bytes from what the twin reads to what it fetches: as decode kernels, and best for it. Of 2 to 48
 * KiB, 8 lost at most 3 % to another in any type (Zen 5, one thread, 256 MiB). */
enum { AHEAD = 8192 };

/* What a decode kernel reads, in its order. Through the table: two blocks at a time, all heads of
 * them; contiguous: head by head, 1024 tokens at a time. Rows of 16 tokens are one piece; scales,
 * with 8 and 4 bits, lie between. */
static void make_pieces(struct decode *d, bool paged)
{
    const int64_t row = row_bytes(d->dtype), n_floats = floats_per_row(d->dtype);
    const int64_t most = (int64_t)d->n_seqs * BLOCKS_PER_SEQ * HEADS_KV * 2 * (1 + n_floats);
    const int32_t step = paged ? 2 : 1024 / BLOCK; /* blocks that a head is read through */
    struct twin_load *l = &d->load[!paged];
    struct twin_piece *p = d->pieces[!paged] = malloc((size_t)most * sizeof(*p));
    const pkv_kv_view view =
        view_of(d->pool, d->dtype, d->n_seqs, paged ? BLOCK : KV_LEN, HEADS_KV, 0);
    const int64_t tokens = view.block_tokens, unit = unit_bytes(d->dtype, tokens, HEADS_KV);
    *l = (struct twin_load){ .pieces = p,
                             .ahead = (int32_t)(AHEAD / (BLOCK * row) * (1 + n_floats)),
                             .threads = d->b->options->threads };
    for (int64_t s = 0; s < d->n_seqs; s++)
        for (int32_t first = 0; first < BLOCKS_PER_SEQ; first += step)
            for (int32_t h = 0; h < HEADS_KV; h++)
                for (int which = 0; which < 2; which++)
                    for (int32_t i = first; i < first + step; i++) {
                        const int64_t block = paged ? d->table[s * BLOCKS_PER_SEQ + i] : s;
                        const int64_t token = paged ? 0 : (int64_t)i * BLOCK;
                        const unsigned char *at = d->pool + block * unit;
                        const int64_t at_row = (2 * h + which) * tokens + token;
                        const int64_t codes = 2 * HEADS_KV * tokens * row;
                        add_piece(l, p, at + at_row * row, BLOCK * row);
                        for (int64_t f = 0; f < n_floats; f++)
                            add_piece(l, p, at + codes + (f * 2 * HEADS_KV * tokens + at_row) * 4,
                                      BLOCK * 4);
                    }
}

/* Scales and zero points have to be numbers. */
static void fill_scales(struct decode *d)
{
    for (int contiguous = 0; contiguous < 2; contiguous++) {
        const int64_t tokens = contiguous ? KV_LEN : BLOCK;
        const int64_t unit = unit_bytes(d->dtype, tokens, HEADS_KV);
        const int64_t codes = 2 * HEADS_KV * tokens * row_bytes(d->dtype);
        const size_t n = (size_t)(unit - codes) / 4;
        for (int64_t at = 0; at + unit <= (int64_t)d->pool_bytes + (contiguous ? 0 : unit);
             at += unit) {
            float *scales = (float *)(void *)(d->pool + at + codes);
            for (size_t i = 0; i < n; i++) scales[i] = 0.01f;
        }
    }
}

static void prepare(struct decode *d)
{
    struct rng r = { 1 };
    const int64_t per_seq = unit_bytes(d->dtype, KV_LEN, HEADS_KV);
    const int64_t n = (d->b->options->mib << 20) / per_seq;
    d->n_seqs = n < 1 ? 1 : (int32_t)n;
    const size_t null_block = (size_t)unit_bytes(d->dtype, BLOCK, HEADS_KV);
    d->pool_bytes = (size_t)(d->n_seqs * per_seq);
    d->pool = bench_room(d->pool_bytes + null_block);
    d->q = bench_room((size_t)d->n_seqs * HEADS_Q * DIM * 2);
    d->out = bench_room((size_t)d->n_seqs * HEADS_Q * DIM * 2);
    d->table = bench_room((size_t)d->n_seqs * BLOCKS_PER_SEQ * sizeof(int32_t));
    d->kv_len = bench_room((size_t)d->n_seqs * sizeof(int32_t));
    bench_fill(&r, d->pool, d->pool_bytes + null_block, d->dtype);
    if (floats_per_row(d->dtype)) fill_scales(d);
    bench_fill(&r, d->q, (size_t)d->n_seqs * HEADS_Q * DIM * 2, PKV_F16);
    rng_permutation(&r, d->table, d->n_seqs * BLOCKS_PER_SEQ);
    for (int32_t i = 0; i < d->n_seqs * BLOCKS_PER_SEQ; i++) d->table[i]++;
    for (int32_t s = 0; s < d->n_seqs; s++) d->kv_len[s] = KV_LEN;
    bench_must(pkv_attn_workspace(d->b->be[d->b->n_levels - 1], HEADS_Q, HEADS_KV, DIM, DIM,
                                  &d->workspace_bytes));
    d->workspace = bench_room(d->workspace_bytes);
    d->read = (struct twin_read){ d->pool, d->pool_bytes, d->b->options->threads };
    make_pieces(d, true);
    make_pieces(d, false);
}

static void release(struct decode *d)
{
    free(d->pool);
    free(d->q);
    free(d->out);
    free(d->table);
    free(d->kv_len);
    free(d->workspace);
    free(d->pieces[0]);
    free(d->pieces[1]);
}

static struct call *make_call(struct decode *d, int level, bool paged)
{
    struct call *c = &d->calls[d->n_calls++];
    const int64_t tokens = paged ? BLOCK : KV_LEN;
    /* Block 0 is the null block: the pool has one more than the table names. */
    const int64_t n_units = paged ? 1 + (int64_t)d->n_seqs * BLOCKS_PER_SEQ : d->n_seqs;
    *c = (struct call){ .be = d->b->be[level],
                        .batch = PKV_ATTN_BATCH_INIT,
                        .opts = PKV_ATTN_OPTS_INIT,
                        .workspace = d->workspace,
                        .workspace_bytes = d->workspace_bytes };
    c->q = (pkv_tensor3){ d->q, PKV_F16, HEADS_Q, DIM, d->n_seqs, HEADS_Q * DIM, DIM };
    c->out = c->q;
    c->out.data = d->out;
    c->k = view_of(d->pool, d->dtype, n_units, tokens, HEADS_KV, 0);
    c->v = view_of(d->pool, d->dtype, n_units, tokens, HEADS_KV, 1);
    c->batch.n_seqs = d->n_seqs;
    c->batch.kv_len = d->kv_len;
    if (paged) {
        c->batch.table = d->table;
        c->batch.table_stride = BLOCKS_PER_SEQ;
    }
    return c;
}

/* A level that has no kernel of its own takes the one below: not measured twice. */
static bool seen(const struct decode *d, const char *name)
{
    for (int i = 0; i < d->n_calls - 1; i++)
        if (strcmp(name_of(&d->calls[i], 1), name) == 0) return true;
    return false;
}

static void add_decode(struct decode *d, struct bench_set *set, int level, bool int8_qk, int read,
                       const int twins[2])
{
    for (int contiguous = 0; contiguous < 2; contiguous++) {
        struct call *c = make_call(d, level, !contiguous);
        c->opts.int8_qk = int8_qk;
        const bool again = !contiguous && seen(d, name_of(c, 1));
        double bytes = (double)d->pool_bytes;
        if (again) {
            d->n_calls--;
            return;
        }
        if (d->b->isa[level] == PKV_ISA_SCALAR) { /* one sequence is enough */
            c->batch.n_seqs = 1;
            c->q.n_rows = c->out.n_rows = 1;
            bytes /= d->n_seqs;
        }
        bench_add(set, name_of(c, 1), contiguous ? "contiguous" : "paged", bytes, attend, c, read,
                  twins[contiguous]);
    }
}

static void decode_dtype(const struct bench *b, pkv_dtype dtype)
{
    static struct decode d;
    static struct bench_set set;
    char name[48];
    d = (struct decode){ .b = b, .dtype = dtype };
    set = (struct bench_set){ .seconds = 3 };
    prepare(&d);
    snprintf(name, sizeof(name), "read loop (%s)", pkv_dtype_name(dtype));
    const int read = bench_add(&set, name, "-", (double)d.pool_bytes, twin_read, &d.read, -1, -1);
    int twins[2];
    for (int i = 0; i < 2; i++)
        twins[i] = bench_add(&set, "loads alone", i ? "contiguous" : "paged", (double)d.pool_bytes,
                             twin_load, &d.load[i], read, -1);
    for (int level = 0; level < b->n_levels; level++)
        add_decode(&d, &set, level, false, read, twins);
    for (int level = 0; level < b->n_levels && dtype == PKV_I8; level++)
        add_decode(&d, &set, level, true, read, twins);
    bench_measure(&set, b->options->threads, "GB/s", "of read", "of loads");
    release(&d);
}

/* ------------------------------------------------------------------ prefill */

struct prefill {
    unsigned char *pool[PKV_DTYPE_COUNT];
    void *q, *out, *workspace;
    size_t workspace_bytes;
    int32_t table[PREFILL / BLOCK], kv_len, q_indptr[2];
    struct call calls[BENCH_MAX_RUNS];
    int n_calls;
    struct twin_peak peak;
};

static void add_prefill(const struct bench *b, struct prefill *p, struct bench_set *set,
                        pkv_dtype dtype, int level, int peak)
{
    struct call *c = &p->calls[p->n_calls];
    const int64_t n_blocks = PREFILL / BLOCK;
    *c = (struct call){ .be = b->be[level],
                        .batch = PKV_ATTN_BATCH_INIT,
                        .opts = PKV_ATTN_OPTS_INIT,
                        .workspace = p->workspace,
                        .workspace_bytes = p->workspace_bytes };
    c->q = (pkv_tensor3){
        p->q,      dtype == PKV_F32 ? PKV_F32 : dtype == PKV_BF16 ? PKV_BF16 : PKV_F16,
        PREFILL_Q, DIM,
        PREFILL,   PREFILL_Q * DIM,
        DIM
    };
    c->out = c->q;
    c->out.data = p->out;
    c->k = view_of(p->pool[dtype], dtype, n_blocks + 1, BLOCK, PREFILL_KV, 0);
    c->v = view_of(p->pool[dtype], dtype, n_blocks + 1, BLOCK, PREFILL_KV, 1);
    c->batch.n_seqs = 1;
    c->batch.table = p->table;
    c->batch.table_stride = n_blocks;
    c->batch.kv_len = &p->kv_len;
    c->batch.q_indptr = p->q_indptr;
    const char *name = name_of(c, PREFILL);
    for (int i = 0; i < p->n_calls; i++)
        if (strcmp(name_of(&p->calls[i], PREFILL), name) == 0) return;
    p->n_calls++;
    const double keys = 0.5 * PREFILL * (PREFILL + 1.0);
    bench_add(set, name, "causal", 4.0 * DIM * PREFILL_Q * keys, attend, c, peak, -1);
}

static void prefill(const struct bench *b)
{
    static struct prefill p;
    static struct bench_set set;
    struct rng r = { 2 };
    set = (struct bench_set){ .seconds = 7 };
    p.kv_len = p.q_indptr[1] = PREFILL;
    rng_permutation(&r, p.table, PREFILL / BLOCK);
    for (int i = 0; i < PREFILL / BLOCK; i++) p.table[i]++;
    p.q = bench_room((size_t)PREFILL * PREFILL_Q * DIM * 4);
    p.out = bench_room((size_t)PREFILL * PREFILL_Q * DIM * 4);
    bench_fill(&r, p.q, (size_t)PREFILL * PREFILL_Q * DIM * 4, PKV_F16);
    bench_must(pkv_attn_workspace(b->be[b->n_levels - 1], PREFILL_Q, PREFILL_KV, DIM, DIM,
                                  &p.workspace_bytes));
    p.workspace = bench_room(p.workspace_bytes);
    p.peak = (struct twin_peak){ 20000000, twin_lanes(), b->options->threads };
    int peak = -1;
    if (twin_lanes() > 4)
        peak = bench_add(&set, "multiply-adds, float32", "-", twin_peak_flops(&p.peak), twin_peak,
                         &p.peak, -1, -1);
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) {
        const int64_t unit = unit_bytes((pkv_dtype)t, BLOCK, PREFILL_KV);
        const int64_t codes = 2 * PREFILL_KV * BLOCK * row_bytes((pkv_dtype)t);
        p.pool[t] = bench_room((size_t)(unit * (PREFILL / BLOCK + 1)));
        bench_fill(&r, p.pool[t], (size_t)(unit * (PREFILL / BLOCK + 1)), (pkv_dtype)t);
        for (int64_t i = 0; i <= PREFILL / BLOCK; i++)
            for (int64_t f = 0; f < (unit - codes) / 4; f++)
                ((float *)(void *)(p.pool[t] + i * unit + codes))[f] = 0.01f;
        for (int level = 0; level < b->n_levels; level++)
            if (b->isa[level] != PKV_ISA_SCALAR || b->n_levels == 1)
                add_prefill(b, &p, &set, (pkv_dtype)t, level, peak);
    }
    printf("\nprefill: %d rows of one sequence, heads %d/%d, dim %d, block %d\n", PREFILL,
           PREFILL_Q, PREFILL_KV, DIM, BLOCK);
    bench_measure(&set, b->options->threads, "GFLOP/s", "of peak", "-");
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) free(p.pool[t]);
    free(p.q);
    free(p.out);
    free(p.workspace);
}

void bench_attention(const struct bench *b)
{
    if (bench_wanted(b, "decode")) {
        printf("\ndecode: sequences of %d keys, %lld MiB of keys and values, heads %d/%d, dim %d, "
               "blocks of %d in random order, f16 queries\n",
               KV_LEN, (long long)b->options->mib, HEADS_Q, HEADS_KV, DIM, BLOCK);
        for (int t = 0; t < PKV_DTYPE_COUNT; t++) decode_dtype(b, (pkv_dtype)t);
    }
    if (bench_wanted(b, "prefill")) prefill(b);
}
