/* The public entry of attention: validate once, resolve defaults. attn_work.c does the rest. */
#include "kernels/kernels_internal.h"
#include "kernels/scalar/scalar_state.h"
#include "kernels/vector/decode_scratch.h"
#include "kernels/vector/tile.h"

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

size_t pkv__attn_scratch_bytes(int32_t n_q_heads, int32_t n_kv_heads, int32_t k_dim, int32_t v_dim)
{
    const size_t scalar = pkv__scalar_scratch_bytes(n_q_heads / n_kv_heads, k_dim, v_dim);
    const size_t decode = pkv__decode_scratch_bytes(n_q_heads, n_kv_heads, k_dim);
    const size_t tile = pkv__tile_scratch_bytes(k_dim, v_dim);
    return pkv__align_up(larger(scalar, larger(decode, tile)), PKV_CACHE_LINE);
}

static pkv_status workspace_for(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                                int32_t k_dim, int32_t v_dim, int32_t max_seqs, int64_t max_keys,
                                int32_t chunk, size_t *workspace_bytes)
{
    if (n_q_heads < 1 || n_q_heads > PKV__MAX_HEADS || n_kv_heads < 1 ||
        n_q_heads % n_kv_heads != 0 || k_dim < 1 || v_dim < 1)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                           "workspace: %d and %d heads, dims %d and %d", n_q_heads, n_kv_heads,
                           k_dim, v_dim);
    if (k_dim % 8 != 0 || k_dim > PKV__MAX_DIM || v_dim % 8 != 0 || v_dim > PKV__MAX_DIM)
        return pkv__refuse(&be->log, PKV_E_UNSUPPORTED,
                           "workspace: dims %d and %d are not multiples of 8 up to %d", k_dim,
                           v_dim, PKV__MAX_DIM);
    if (be->device)
        return be->device->attn_workspace(be, n_q_heads, n_kv_heads, k_dim, v_dim, max_seqs,
                                          max_keys, chunk, workspace_bytes);
    *workspace_bytes = pkv__attn_work_bytes(be, n_q_heads, n_kv_heads, k_dim, v_dim);
    return PKV_OK;
}

pkv_status pkv_attn_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                              int32_t k_dim, int32_t v_dim, size_t *workspace_bytes)
{
    if (!be || !workspace_bytes) return PKV_E_INVALID_ARG;
    return workspace_for(be, n_q_heads, n_kv_heads, k_dim, v_dim, 0, 0, 0, workspace_bytes);
}

pkv_status pkv_attn_workspace_invariant(const pkv_backend *be, int32_t n_q_heads,
                                        int32_t n_kv_heads, int32_t k_dim, int32_t v_dim,
                                        int32_t max_seqs, int64_t max_keys, int32_t chunk,
                                        size_t *workspace_bytes)
{
    if (!be || !workspace_bytes) return PKV_E_INVALID_ARG;
    if (max_seqs < 0 || max_keys < 0 || !pkv__invariant_chunk_valid(chunk))
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                           "workspace: %d sequences of %lld keys, chunks of %d", max_seqs,
                           (long long)max_keys, chunk);
    return workspace_for(be, n_q_heads, n_kv_heads, k_dim, v_dim, max_seqs, max_keys,
                         pkv__invariant_chunk(chunk), workspace_bytes);
}

pkv_status pkv_workspace_init(pkv_backend *be, void *workspace, size_t workspace_bytes,
                              void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__check_workspace(&be->log, workspace, workspace_bytes, 1);
    if (status != PKV_OK || !be->device) return status;
    return be->device->workspace_init(be, workspace, workspace_bytes, stream);
}

static pkv_status check_outputs(const pkv_logger *log, const pkv_tensor3 *q, const pkv_kv_view *k,
                                const pkv_kv_view *v, const pkv_tensor3 *out, const pkv_lse *lse)
{
    pkv_status status = pkv__check_output(log, "out", out, PKV__MAX_DIM);
    if (status == PKV_OK && lse) status = pkv__check_lse_output(log, lse, q->n_rows, q->n_heads);
    if (status != PKV_OK) return status;
    if (out->dtype != q->dtype || out->n_rows != q->n_rows || out->n_heads != q->n_heads ||
        out->dim != v->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "out must have dtype, rows and heads of q and the dim of v");
    if (out->data && (out->data == q->data || out->data == k->data || out->data == v->data))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "out overlaps an input");
    return PKV_OK;
}

static pkv_status check_workspace(const pkv_backend *be, const pkv_tensor3 *q, const pkv_kv_view *k,
                                  const pkv_kv_view *v, const void *workspace, size_t bytes)
{
    size_t need;
    const pkv_status status = pkv_attn_workspace(be, q->n_heads, k->n_heads, k->dim, v->dim, &need);
    if (status != PKV_OK) return status; /* what chunks of invariant mode need, the device asks */
    return pkv__check_workspace(&be->log, workspace, bytes, need);
}

static void resolve(struct pkv__attn_call *c, const pkv_tensor3 *q, const pkv_kv_view *k,
                    const pkv_kv_view *v, const pkv_attn_batch *batch, const pkv_attn_opts *opts)
{
    c->q = q;
    c->k = k;
    c->v = v;
    c->batch = batch;
    c->opts = opts;
    c->scale = opts->scale != 0.f ? opts->scale : 1.f / sqrtf((float)k->dim);
    c->group = q->n_heads / k->n_heads;
}

pkv_status pkv_attn_run(pkv_backend *be, const pkv_tensor3 *q, const pkv_kv_view *k,
                        const pkv_kv_view *v, const pkv_attn_batch *batch,
                        const pkv_attn_opts *opts, void *workspace, size_t workspace_bytes,
                        void *stream, pkv_tensor3 *out, pkv_lse *lse)
{
    if (!be) return PKV_E_INVALID_ARG;
    if (lse && !lse->data) lse = NULL;
    pkv_status status = pkv__check_attn_inputs(&be->log, q, k, v, batch, opts);
    if (status == PKV_OK) status = check_outputs(&be->log, q, k, v, out, lse);
    if (status == PKV_OK) status = check_workspace(be, q, k, v, workspace, workspace_bytes);
    if (status != PKV_OK) return status;

    uint32_t bad[4] = { 0, 0, 0, 0 };
    struct pkv__attn_call call = { .out = out, .lse = lse, .bad = bad };
    resolve(&call, q, k, v, batch, opts);
    if (be->device) return be->device->attn(be, &call, workspace, workspace_bytes, stream);
    pkv__attn_work(be, &call, workspace);
    return pkv__verdict(&be->log, opts->bad, bad);
}

const char *pkv_attn_kernel_name(const pkv_backend *be, const pkv_tensor3 *q, const pkv_kv_view *k,
                                 const pkv_kv_view *v, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int32_t q_len)
{
    if (!be || q_len < 0 || pkv__check_attn_inputs(&be->log, q, k, v, batch, opts) != PKV_OK)
        return NULL;
    struct pkv__attn_call call = { .q = q };
    bool is_short;
    resolve(&call, q, k, v, batch, opts);
    if (be->device) return be->device->attn_name(be, &call, q_len);
    const struct pkv__attn_kernel *kernel = pkv__attn_choose(&be->kernels, &call, q_len, &is_short);
    return pkv__attn_name(k->dtype, kernel->isa, is_short,
                          kernel == &be->kernels.attn_short_int8_qk);
}
