/* One pass over a flat ragged batch.
 *
 *   x = embedding rows                                    [n_tokens][hidden]
 *   per layer  h = norm x;  q, k, v = h W;  q, k turned, k and v into their slots (one kernel)
 *              h = attention of q through the block tables;  x += h W_o
 *              h = norm x;  gate, up = h W;  gate = silu(gate) up;  x += gate W_down
 *   h = norm of the rows whose logits are wanted;  logits = h W_head
 *
 * Exact: a row has the same bits in every batch and however its sequence is cut into passes. The
 * products promise it (gemm.h). Attention promises it among calls of short sequences and among
 * calls of long ones, whose kernels add in different orders (docs/numerics.md, "Same bits"); so all
 * calls here are short: a sequence of more rows goes through in pieces.
 *
 * Fast: the batch goes to attention whole, and products of many rows in an order of their own. */
#include "model/forward.h"

#include "common/clock.h"
#include "common/threads.h"
#include "model/gemm_dnnl.h"
#include "model/model_ops.h"
#include "pagedkv/attention.h"
#include "pagedkv/moves.h"

#include <string.h>

/* Rows times query heads per kv head that attention takes as short; docs/numerics.md. */
#define SHORT_STATES 32
#define PART_ALIGN ((size_t)64)
/* Floats below which rows are done on the calling thread: some microseconds. */
#define ALONE 8192

struct pkv__forward {
    pkv__forward_config cfg;
    const pkv__weights *w;
    pkv__gemm_fast_ops ops;
    struct pkv__dnnl *dnnl;                /* NULL: none */
    int32_t q_width, kv_width, piece_rows; /* piece_rows: of a sequence, in one call of attention */
    float *x, *h;                          /* h: at least as wide as hidden and q */
    float *q, *k, *v;
    float *gate, *up;
    float *rope; /* [max_positions][rotary_dim] */
    void *workspace;
    size_t workspace_bytes;
    pkv__forward_times times;
    size_t bytes; /* of this allocation, handle included */
};

/* ---------------------------------------------------------------- making one */

/* Parts of the one allocation: where they begin, and whether the sum still fits. */
typedef struct plan {
    size_t used;
    bool fits;
} plan;

static size_t part(plan *p, size_t rows, size_t row_bytes)
{
    size_t n = 0;
    const size_t at = p->used;
    p->fits = p->fits && pkv__mul_size(rows, row_bytes, &n) && n <= SIZE_MAX / 2 - p->used;
    if (p->fits) p->used += pkv__align_up(n, PART_ALIGN);
    return at;
}

static float *place_floats(plan *p, uint8_t *base, int32_t rows, int32_t width)
{
    const size_t at = part(p, (size_t)rows, (size_t)width * sizeof(float));
    return base ? (float *)(void *)(base + at) : NULL;
}

/* With base NULL only the size counts. */
static plan place(pkv__forward *f, uint8_t *base)
{
    const pkv__model_config *c = &f->w->config;
    const int32_t n = f->cfg.max_batch_tokens;
    plan p = { 0, true };
    part(&p, 1, sizeof(*f));
    f->x = place_floats(&p, base, n, c->hidden);
    f->h = place_floats(&p, base, pkv__max_i32(n, f->cfg.max_logit_rows),
                        pkv__max_i32(c->hidden, f->q_width));
    f->q = place_floats(&p, base, n, f->q_width);
    f->k = place_floats(&p, base, n, f->kv_width);
    f->v = place_floats(&p, base, n, f->kv_width);
    f->gate = place_floats(&p, base, n, c->ffn);
    f->up = place_floats(&p, base, n, c->ffn);
    f->rope = place_floats(&p, base, f->cfg.max_positions, c->rope.rotary_dim);
    const size_t at = part(&p, 1, f->workspace_bytes);
    f->workspace = base ? base + at : NULL;
    return p;
}

static pkv_status check_config(const pkv__forward_config *cfg)
{
    if (!cfg->weights || !cfg->backend)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "a pass needs weights and a backend");
    if (cfg->max_batch_tokens < 1 || cfg->max_logit_rows < 1 || cfg->max_positions < 1)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG,
                           "a pass of %d tokens, %d rows of logits and %d positions: from 1 on",
                           cfg->max_batch_tokens, cfg->max_logit_rows, cfg->max_positions);
    pkv__gemm_fast_ops ops;
    if (!pkv__gemm_find_fast(cfg->isa, &ops))
        return pkv__refuse(&cfg->log, PKV_E_UNSUPPORTED, "level %s is not on this machine",
                           pkv_isa_name(cfg->isa));
    return PKV_OK;
}

pkv_status pkv__forward_create(const pkv__forward_config *cfg, pkv__forward **out)
{
    pkv_status status = check_config(cfg);
    if (status != PKV_OK) return status;
    const pkv__model_config *c = &cfg->weights->config;
    pkv__forward f = { .cfg = *cfg, .w = cfg->weights };
    pkv__gemm_find_fast(cfg->isa, &f.ops);
    f.q_width = c->n_heads * c->head_dim;
    f.kv_width = c->n_kv_heads * c->head_dim;
    f.piece_rows = pkv__max_i32(1, SHORT_STATES / (c->n_heads / c->n_kv_heads));
    status = pkv_attn_workspace(cfg->backend, c->n_heads, c->n_kv_heads, c->head_dim, c->head_dim,
                                &f.workspace_bytes);
    if (status != PKV_OK)
        return pkv__refuse(&cfg->log, status, "attention has no kernel for %d/%d heads of %d",
                           c->n_heads, c->n_kv_heads, c->head_dim);
    const plan p = place(&f, NULL);
    uint8_t *base = p.fits ? pkv__alloc(&cfg->alloc, p.used, PART_ALIGN) : NULL;
    if (!base)
        return pkv__refuse(&cfg->log, PKV_E_NO_MEMORY, "no memory for a pass of %d tokens",
                           cfg->max_batch_tokens);
    f.bytes = p.used;
    place(&f, base);
    status = pkv_rope_fill(f.rope, 0, cfg->max_positions, f.w->inv_freq, c->rope.rotary_dim,
                           f.w->rope_amplitude);
    if (status != PKV_OK) {
        pkv__free(&cfg->alloc, base, f.bytes);
        return pkv__refuse(&cfg->log, status, "no rotary table of %d dims", c->rope.rotary_dim);
    }
    if (cfg->fast && f.w->embedding.dtype == PKV_BF16) {
        const int32_t widest =
            pkv__max_i32(pkv__max_i32(c->hidden, c->ffn), pkv__max_i32(f.q_width, f.kv_width));
        status = pkv__dnnl_create(pkv__max_i32(cfg->max_batch_tokens, cfg->max_logit_rows), widest,
                                  !cfg->threads, &cfg->alloc, &f.dnnl);
        if (status == PKV_E_NO_MEMORY) {
            pkv__free(&cfg->alloc, base, f.bytes);
            return pkv__refuse(&cfg->log, status, "no memory for oneDNN's side of a pass");
        }
    }
    memcpy(base, &f, sizeof(f));
    *out = (pkv__forward *)(void *)base;
    return PKV_OK;
}

void pkv__forward_destroy(pkv__forward *fwd)
{
    if (!fwd) return;
    pkv__dnnl_destroy(fwd->dnnl);
    const pkv_allocator alloc = fwd->cfg.alloc;
    pkv__free(&alloc, fwd, fwd->bytes);
}

static double now_s(void)
{
    return 1e-9 * (double)pkv__clock_ns();
}

void pkv__forward_get_times(const pkv__forward *fwd, pkv__forward_times *out)
{
    *out = fwd->times;
}

/* ---------------------------------------------------------------- checks of a batch */

static pkv_status check_tokens(const pkv__forward *f, const pkv__batch *b)
{
    for (int32_t t = 0; t < b->n_tokens; t++) {
        if (b->tokens[t] < 0 || b->tokens[t] >= f->w->config.vocab)
            return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                               "token %d of the batch is outside the vocabulary of %d", t,
                               f->w->config.vocab);
        if (b->positions[t] < 0 || b->positions[t] >= f->cfg.max_positions)
            return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                               "token %d of the batch is at position %d, outside the table of %d",
                               t, b->positions[t], f->cfg.max_positions);
    }
    for (int32_t r = 0; r < b->n_logit_rows; r++)
        if (b->logit_rows[r] < 0 || b->logit_rows[r] >= b->n_tokens)
            return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                               "logits of token %d are wanted, of %d tokens", b->logit_rows[r],
                               b->n_tokens);
    return PKV_OK;
}

static pkv_status check_sequences(const pkv__forward *f, const pkv__batch *b)
{
    int32_t row = 0;
    bool good = b->n_seqs == 0 || b->q_indptr[0] == 0;
    for (int32_t s = 0; s < b->n_seqs && good; s++) {
        const int32_t next = b->q_indptr[s + 1];
        if (next >= row && next <= b->n_tokens && b->kv_len[s] < next - row)
            return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                               "sequence %d has %d keys and %d new tokens", s, b->kv_len[s],
                               next - row);
        good = next >= row;
        row = next;
    }
    if (!good || row != b->n_tokens)
        return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                           "q_indptr does not rise from 0 to %d tokens", b->n_tokens);
    return PKV_OK;
}

static pkv_status check_batch(const pkv__forward *f, const pkv__batch *b)
{
    if (b->n_tokens < 0 || b->n_tokens > f->cfg.max_batch_tokens || b->n_seqs < 0)
        return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                           "%d tokens in a pass that is sized for %d", b->n_tokens,
                           f->cfg.max_batch_tokens);
    if (b->n_logit_rows < 0 || b->n_logit_rows > f->cfg.max_logit_rows)
        return pkv__refuse(&f->cfg.log, PKV_E_INVALID_ARG,
                           "%d rows of logits in a pass that is sized for %d", b->n_logit_rows,
                           f->cfg.max_logit_rows);
    const pkv_status status = check_sequences(f, b);
    return status == PKV_OK ? check_tokens(f, b) : status;
}

/* ---------------------------------------------------------------- rows */

typedef struct row_job {
    const pkv__forward *f;
    const int32_t *rows; /* of x; NULL: row i */
    const float *norm;
} row_job;

static void for_rows(const pkv__forward *f, int32_t n, int32_t width,
                     void (*fn)(void *ctx, int32_t i), row_job job)
{
    const bool alone = n == 1 || (int64_t)n * width < ALONE;
    pkv__parallel(alone ? NULL : f->cfg.threads, n, fn, &job);
}

static void norm_row(void *ctx, int32_t i)
{
    const row_job *j = ctx;
    const pkv__model_config *c = &j->f->w->config;
    const int64_t from = j->rows ? j->rows[i] : i;
    pkv__rms_norm_row(j->f->x + from * c->hidden, j->norm, c->hidden, (float)c->norm_eps,
                      j->f->h + (int64_t)i * c->hidden);
}

static void swiglu_row(void *ctx, int32_t i)
{
    const row_job *j = ctx;
    const int32_t n = j->f->w->config.ffn;
    pkv__swiglu_row(j->f->gate + (int64_t)i * n, j->f->up + (int64_t)i * n, n);
}

static void product(pkv__forward *f, int32_t m, const float *x, const pkv__matrix *w, float *y,
                    bool add)
{
    const double start_s = now_s();
    if (f->dnnl) {
        const int32_t done = pkv__dnnl_gemm(f->dnnl, m, x, w->k, w, y, w->n, add);
        m -= done;
        x += (int64_t)done * w->k;
        y += (int64_t)done * w->n;
    }
    if (f->cfg.fast) pkv__gemm_fast(&f->ops, f->cfg.threads, m, x, w->k, w, y, w->n, add);
    else pkv__gemm(f->ops.exact, f->cfg.threads, m, x, w->k, w, y, w->n, add);
    f->times.products_s += now_s() - start_s;
}

/* ---------------------------------------------------------------- attention */

static pkv_tensor3 rows_of(float *data, int32_t n_heads, int32_t dim, int32_t n_rows)
{
    return (pkv_tensor3){
        data, PKV_F32, n_heads, dim, n_rows, (int64_t)n_heads * dim, dim,
    };
}

static pkv_status say_bad(const pkv__forward *f, pkv_status status, const char *what,
                          const uint32_t bad[4])
{
    if (status == PKV_OK) return status;
    return pkv__refuse(&f->cfg.log, status,
                       "%s refused the batch (bits %#x, sequence %u, index %u, value %u)", what,
                       bad[0], bad[1], bad[2], bad[3]);
}

static pkv_status write_kv(const pkv__forward *f, const pkv__batch *b, pkv_kv_view *k_view,
                           pkv_kv_view *v_view)
{
    const pkv__model_config *c = &f->w->config;
    uint32_t bad[4] = { 0 };
    pkv_tensor3 q = rows_of(f->q, c->n_heads, c->head_dim, b->n_tokens);
    const pkv_tensor3 k = rows_of(f->k, c->n_kv_heads, c->head_dim, b->n_tokens);
    const pkv_tensor3 v = rows_of(f->v, c->n_kv_heads, c->head_dim, b->n_tokens);
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    args.k = &k;
    args.v = &v;
    args.slots = b->slots;
    args.k_view = k_view;
    args.v_view = v_view;
    args.bad = bad;
    args.q = &q;
    args.q_out = &q;
    args.rope = f->rope;
    args.pos = b->positions;
    args.n_rope_pos = f->cfg.max_positions;
    args.rot_dim = c->rope.rotary_dim;
    return say_bad(f, pkv_kv_write(f->cfg.backend, &args, NULL), "kv_write", bad);
}

typedef struct attn_call {
    const pkv__forward *f;
    const pkv__batch *b;
    const pkv_kv_view *k, *v;
} attn_call;

/* Sequences [seq, seq + n) of the batch; q_indptr and kv_len are theirs. */
static pkv_status attend(const attn_call *a, int32_t seq, int32_t n, const int32_t *q_indptr,
                         const int32_t *kv_len)
{
    const pkv__model_config *c = &a->f->w->config;
    uint32_t bad[4] = { 0 };
    const pkv_tensor3 q = rows_of(a->f->q, c->n_heads, c->head_dim, a->b->n_tokens);
    pkv_tensor3 out = rows_of(a->f->h, c->n_heads, c->head_dim, a->b->n_tokens);
    pkv_attn_batch batch = PKV_ATTN_BATCH_INIT;
    pkv_attn_opts opts = PKV_ATTN_OPTS_INIT;
    batch.n_seqs = n;
    batch.table = a->b->block_tables + seq * a->b->table_stride;
    batch.table_stride = a->b->table_stride;
    batch.kv_len = kv_len;
    batch.q_indptr = q_indptr;
    opts.bad = bad;
    const pkv_status status =
        pkv_attn_run(a->f->cfg.backend, &q, a->k, a->v, &batch, &opts, a->f->workspace,
                     a->f->workspace_bytes, NULL, &out, NULL);
    return say_bad(a->f, status, "attention", bad);
}

/* A sequence of many rows: each piece sees the keys up to its last row, as in a pass of its own. */
static pkv_status attend_in_pieces(const attn_call *a, int32_t seq)
{
    const int32_t first = a->b->q_indptr[seq], end = a->b->q_indptr[seq + 1];
    pkv_status status = PKV_OK;
    for (int32_t row = first; row < end && status == PKV_OK;) {
        const int32_t next = pkv__min_i32(end, row + a->f->piece_rows);
        const int32_t q_indptr[2] = { row, next }, kv_len = a->b->kv_len[seq] - (end - next);
        status = attend(a, seq, 1, q_indptr, &kv_len);
        row = next;
    }
    return status;
}

/* Runs of short sequences in one call each, long ones between them in pieces. */
static pkv_status attend_all(const attn_call *a)
{
    const pkv__batch *b = a->b;
    pkv_status status = PKV_OK;
    if (a->f->cfg.fast) return attend(a, 0, b->n_seqs, b->q_indptr, b->kv_len);
    for (int32_t s = 0; s < b->n_seqs && status == PKV_OK;) {
        int32_t end = s;
        while (end < b->n_seqs && b->q_indptr[end + 1] - b->q_indptr[end] <= a->f->piece_rows)
            end++;
        if (end > s) status = attend(a, s, end - s, b->q_indptr + s, b->kv_len + s);
        else status = attend_in_pieces(a, end++);
        s = end;
    }
    return status;
}

/* ---------------------------------------------------------------- the pass */

static pkv_status run_layer(pkv__forward *f, const pkv__batch *b, const pkv__layer_weights *w,
                            pkv_kv_view *k_view, pkv_kv_view *v_view)
{
    const int32_t n = b->n_tokens;
    const pkv__model_config *c = &f->w->config;
    const attn_call a = { f, b, k_view, v_view };
    for_rows(f, n, c->hidden, norm_row, (row_job){ f, NULL, w->attn_norm });
    product(f, n, f->h, &w->q, f->q, false);
    product(f, n, f->h, &w->k, f->k, false);
    product(f, n, f->h, &w->v, f->v, false);
    const double start_s = now_s();
    pkv_status status = write_kv(f, b, k_view, v_view);
    if (status == PKV_OK) status = attend_all(&a);
    f->times.attention_s += now_s() - start_s;
    if (status != PKV_OK) return status;
    product(f, n, f->h, &w->o, f->x, true);
    for_rows(f, n, c->hidden, norm_row, (row_job){ f, NULL, w->ffn_norm });
    product(f, n, f->h, &w->gate, f->gate, false);
    product(f, n, f->h, &w->up, f->up, false);
    for_rows(f, n, c->ffn, swiglu_row, (row_job){ f, NULL, NULL });
    product(f, n, f->gate, &w->down, f->x, true);
    return PKV_OK;
}

pkv_status pkv__forward_run(pkv__forward *fwd, const pkv__batch *batch, pkv_kv_view *k_views,
                            pkv_kv_view *v_views, float *logits)
{
    const pkv__model_config *c = &fwd->w->config;
    pkv_status status = check_batch(fwd, batch);
    if (status != PKV_OK || batch->n_tokens == 0) return status;
    for (int32_t t = 0; t < batch->n_tokens; t++)
        pkv__embed_row(&fwd->w->embedding, batch->tokens[t], fwd->x + (int64_t)t * c->hidden);
    for (int32_t k = 0; k < c->n_layers && status == PKV_OK; k++)
        status = run_layer(fwd, batch, &fwd->w->layers[k], &k_views[k], &v_views[k]);
    if (status != PKV_OK) return status;
    for_rows(fwd, batch->n_logit_rows, c->hidden, norm_row,
             (row_job){ fwd, batch->logit_rows, fwd->w->out_norm });
    product(fwd, batch->n_logit_rows, fwd->h, &fwd->w->head, logits, false);
    return PKV_OK;
}
