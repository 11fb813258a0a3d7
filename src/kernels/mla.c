/* The public entry of latent attention: validate once, resolve defaults, choose the units. */
#include "kernels/attn_cut.h"
#include "kernels/mla_units.h"
#include "kernels/scalar/scalar_state.h"
#include "kernels/vector/mla_tile.h"

static pkv_status check_dims(const pkv_logger *log, int64_t latent_dim, int64_t rope_dim)
{
    if (latent_dim < 1 || rope_dim < 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "mla: dims %lld and %lld", (long long)latent_dim,
                           (long long)rope_dim);
    if (latent_dim % 8 != 0 || latent_dim > PKV__MAX_LATENT)
        return pkv__refuse(log, PKV_E_UNSUPPORTED,
                           "mla: latent of %lld elements, not a multiple of 8 up to %d",
                           (long long)latent_dim, PKV__MAX_LATENT);
    if (rope_dim % 8 != 0 || rope_dim > PKV__MAX_ROPE)
        return pkv__refuse(log, PKV_E_UNSUPPORTED,
                           "mla: rope of %lld elements, not a multiple of 8 up to %d",
                           (long long)rope_dim, PKV__MAX_ROPE);
    return PKV_OK;
}

size_t pkv__mla_scratch_bytes(int32_t n_q_heads, int32_t latent_dim, int32_t rope_dim)
{
    const size_t scalar = pkv__scalar_scratch_bytes(n_q_heads, latent_dim + rope_dim, latent_dim);
    const size_t tile = pkv__mla_tile_scratch_bytes(latent_dim, rope_dim);
    return pkv__align_up(scalar > tile ? scalar : tile, PKV_CACHE_LINE);
}

static pkv_status work_bytes(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                             int32_t rope_dim, size_t *bytes)
{
    if (be->device) return be->device->mla_workspace(be, n_q_heads, latent_dim, rope_dim, bytes);
    *bytes = pkv__mla_work_bytes(be, n_q_heads, latent_dim, rope_dim);
    return PKV_OK;
}

pkv_status pkv_attn_mla_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                                  int32_t rope_dim, size_t *workspace_bytes)
{
    if (!be || !workspace_bytes) return PKV_E_INVALID_ARG;
    if (n_q_heads < 1 || n_q_heads > PKV__MAX_HEADS)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG, "mla workspace: %d heads", n_q_heads);
    const pkv_status status = check_dims(&be->log, latent_dim, rope_dim);
    if (status != PKV_OK) return status;
    return work_bytes(be, n_q_heads, latent_dim, rope_dim, workspace_bytes);
}

static pkv_status check_views(const pkv_logger *log, const pkv_kv_view *latent,
                              const pkv_kv_view *rope)
{
    pkv_status status = pkv__check_view(log, "latent", latent, PKV__MAX_LATENT);
    if (status == PKV_OK) status = pkv__check_view(log, "rope", rope, PKV__MAX_ROPE);
    if (status == PKV_OK)
        status = check_dims(log, (int64_t)latent->n_heads * latent->dim, rope->dim);
    if (status != PKV_OK) return status;
    if (rope->n_heads != 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "rope: %d heads, not one", rope->n_heads);
    if (latent->n_blocks != rope->n_blocks || latent->block_tokens != rope->block_tokens)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "latent and rope disagree in blocks or tokens");
    return PKV_OK;
}

static pkv_status check_queries(const pkv_logger *log, const pkv_tensor3 *q_latent,
                                const pkv_tensor3 *q_rope, const pkv_kv_view *latent,
                                const pkv_kv_view *rope)
{
    pkv_status status = pkv__check_tensor(log, "q_latent", q_latent, PKV__MAX_LATENT);
    if (status == PKV_OK) status = pkv__check_tensor(log, "q_rope", q_rope, PKV__MAX_ROPE);
    if (status != PKV_OK) return status;
    if (q_latent->dtype != q_rope->dtype || q_latent->n_rows != q_rope->n_rows ||
        q_latent->n_heads != q_rope->n_heads)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "q_latent and q_rope disagree in dtype, rows or heads");
    if (q_latent->n_rows > INT32_MAX)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "q_latent: more than 2^31 - 1 rows");
    if (q_latent->dim != latent->n_heads * latent->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "q_latent has dim %d, latent has %d",
                           q_latent->dim, latent->n_heads * latent->dim);
    if (q_rope->dim != rope->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "q_rope has dim %d, rope has %d", q_rope->dim,
                           rope->dim);
    return PKV_OK;
}

static pkv_status check_outputs(const pkv_logger *log, const struct pkv__mla_call *c,
                                const pkv_tensor3 *out, const pkv_lse *lse)
{
    const pkv_tensor3 *q = c->attn.q;
    pkv_status status = pkv__check_output(log, "out", out, PKV__MAX_LATENT);
    if (status == PKV_OK && lse) status = pkv__check_lse_output(log, lse, q->n_rows, q->n_heads);
    if (status != PKV_OK) return status;
    if (out->dtype != q->dtype || out->n_rows != q->n_rows || out->n_heads != q->n_heads ||
        out->dim != q->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "out must have dtype and shape of q_latent");
    if (out->data && (out->data == q->data || out->data == c->q_rope->data ||
                      out->data == c->attn.k->data || out->data == c->rope->data))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "out overlaps an input");
    return PKV_OK;
}

static pkv_status check_workspace(const pkv_backend *be, const struct pkv__mla_call *c,
                                  const void *workspace, size_t bytes)
{
    size_t need;
    const pkv_status status =
        work_bytes(be, c->attn.q->n_heads, c->attn.q->dim, c->rope->dim, &need);
    if (status != PKV_OK) return status;
    return pkv__check_workspace(&be->log, workspace, bytes, need);
}

/* Query heads of a unit: all of them, which read a key together, unless there are too few rows to
 * keep all tasks at work. Vector kernels take queries 48 (avx512) or 24 (avx2) at a time, and a
 * pass over 48 heads is still bound by arithmetic: 48 * 1088 products for 576 elements. */
static int32_t unit_heads(const pkv_backend *be, int32_t n_heads, int64_t n_rows)
{
    enum { PANEL = 48, UNITS_PER_TASK = 4 };
    const int64_t wanted = (int64_t)be->n_tasks * UNITS_PER_TASK; /* units, of all rows */
    if (be->n_tasks == 1 || n_rows >= wanted || n_rows == 0) return n_heads;
    const int32_t n_panels = pkv__ceil_div_i32(n_heads, PANEL);
    const int32_t per_unit = pkv__max_i32(1, (int32_t)(n_panels * n_rows / wanted));
    return pkv__min_i32(n_heads, per_unit * PANEL);
}

static pkv_tensor3 some_heads(const pkv_tensor3 *t, int32_t first, int32_t n)
{
    pkv_tensor3 part = *t;
    const int64_t at = first * t->head_stride * (pkv_dtype_bits(t->dtype) / 8);
    if (t->data) part.data = (char *)t->data + at;
    part.n_heads = n;
    return part;
}

void pkv__mla_unit(pkv__mla_fn fn, const struct pkv__mla_call *c, const struct pkv__attn_call *list,
                   const struct pkv__attn_unit *unit, void *scratch)
{
    const int32_t first = unit->kv_head * list->group;
    const int32_t n = pkv__min_i32(list->group, c->attn.q->n_heads - first);
    const pkv_tensor3 q = some_heads(c->attn.q, first, n), q_rope = some_heads(c->q_rope, first, n);
    pkv_tensor3 out = some_heads(c->attn.out, first, n);
    pkv_attn_opts opts = *c->attn.opts;
    struct pkv__attn_unit u = *unit;
    struct pkv__mla_call part = *c;
    pkv_lse lse;
    if (opts.alibi) opts.alibi += first;
    if (opts.sink) opts.sink += first;
    u.kv_head = 0;
    part.attn.q = &q;
    part.attn.out = &out;
    part.attn.opts = &opts;
    part.attn.group = n;
    part.attn.bad = list->bad;
    part.q_rope = &q_rope;
    if (c->attn.lse) {
        lse = *c->attn.lse;
        lse.data += first * lse.head_stride;
        part.attn.lse = &lse;
    }
    fn(&part, &u, scratch);
}

pkv_status pkv_attn_mla_run(pkv_backend *be, const pkv_tensor3 *q_latent, const pkv_tensor3 *q_rope,
                            const pkv_kv_view *latent, const pkv_kv_view *rope,
                            const pkv_attn_batch *batch, const pkv_attn_opts *opts, void *workspace,
                            size_t workspace_bytes, void *stream, pkv_tensor3 *out, pkv_lse *lse)
{
    if (!be) return PKV_E_INVALID_ARG;
    if (lse && !lse->data) lse = NULL;
    uint32_t bad[4] = { 0, 0, 0, 0 };
    struct pkv__mla_call c = {
        .attn = { .q = q_latent,
                  .k = latent,
                  .v = latent,
                  .batch = batch,
                  .opts = opts,
                  .out = out,
                  .lse = lse,
                  .bad = bad },
        .q_rope = q_rope,
        .rope = rope,
    };
    pkv_status status = check_views(&be->log, latent, rope);
    if (status == PKV_OK) status = check_queries(&be->log, q_latent, q_rope, latent, rope);
    if (status == PKV_OK)
        status = pkv__check_batch_opts(&be->log, batch, opts, q_latent->n_rows, latent->n_blocks);
    if (status == PKV_OK) status = check_outputs(&be->log, &c, out, lse);
    if (status == PKV_OK) status = check_workspace(be, &c, workspace, workspace_bytes);
    if (status != PKV_OK) return status;

    c.attn.scale =
        opts->scale != 0.f ? opts->scale : 1.f / sqrtf((float)(q_latent->dim + rope->dim));
    c.attn.group = q_latent->n_heads;
    if (be->device) return be->device->mla(be, &c, workspace, workspace_bytes, stream);
    struct pkv__attn_call units = c.attn;
    pkv_kv_view groups = *latent; /* as many "kv heads" as there are groups of query heads */
    units.group = unit_heads(be, q_latent->n_heads, q_latent->n_rows);
    groups.n_heads = pkv__ceil_div_i32(q_latent->n_heads, units.group);
    units.k = units.v = &groups;
    pkv__mla_work(be, &c, &units, workspace);
    return pkv__verdict(&be->log, opts->bad, bad);
}
