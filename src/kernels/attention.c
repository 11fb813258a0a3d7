/* The public entry of attention: validate once, resolve defaults, cut the call into units (one
 * sequence, one kv head or all), and give each to a kernel.
 *
 * Lengths and tables are data from outside. Here every sequence gets the part of its row of ids and
 * of its rows of q that really exists; kernels then check single ids as they use them. */
#include "common/number_format.h"
#include "kernels/kernels_internal.h"

size_t pkv__attn_workspace_bytes(int32_t n_q_heads, int32_t dim)
{
    /* Per query head q and o in float, and the numbers of a running softmax, which vector levels
     * keep once per lane, rounded up to whole cache lines. */
    enum { STATE_FLOATS = 64 };
    const size_t floats = (size_t)n_q_heads * (2 * (size_t)dim + STATE_FLOATS);
    return pkv__align_up(floats * sizeof(float), PKV_CACHE_LINE);
}

pkv_status pkv_attn_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                              int32_t k_dim, int32_t v_dim, size_t *workspace_bytes)
{
    if (!be || !workspace_bytes) return PKV_E_INVALID_ARG;
    if (n_q_heads < 1 || n_q_heads > PKV__MAX_HEADS || n_kv_heads < 1 ||
        n_q_heads % n_kv_heads != 0 || k_dim < 1 || v_dim < 1)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                           "workspace: %d and %d heads, dims %d and %d", n_q_heads, n_kv_heads,
                           k_dim, v_dim);
    if (k_dim % 8 != 0 || k_dim > PKV__MAX_DIM || v_dim % 8 != 0 || v_dim > PKV__MAX_DIM)
        return pkv__refuse(&be->log, PKV_E_UNSUPPORTED,
                           "workspace: dims %d and %d are not multiples of 8 up to %d", k_dim,
                           v_dim, PKV__MAX_DIM);
    *workspace_bytes = pkv__attn_workspace_bytes(n_q_heads, pkv__max_i32(k_dim, v_dim));
    return PKV_OK;
}

static pkv_status check_outputs(const pkv_logger *log, const pkv_tensor3 *q, const pkv_kv_view *k,
                                const pkv_kv_view *v, const pkv_tensor3 *out, const pkv_lse *lse)
{
    pkv_status status = pkv__check_tensor(log, "out", out);
    if (status == PKV_OK && lse) status = pkv__check_lse(log, lse, q->n_rows, q->n_heads);
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
    if (status != PKV_OK) return status;
    if (!workspace || (uintptr_t)workspace % PKV_CACHE_LINE != 0 || bytes < need)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                           "workspace: %zu bytes, 64-byte aligned, are needed; %zu given", need,
                           bytes);
    return PKV_OK;
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

static void note(const struct pkv__attn_call *c, uint32_t bit, int32_t seq, int32_t idx,
                 int32_t value)
{
    if (c->bad[0] == 0) {
        c->bad[1] = (uint32_t)seq;
        c->bad[2] = (uint32_t)idx;
        c->bad[3] = (uint32_t)value;
    }
    c->bad[0] |= bit;
}

/* Rows of q. `*next_row` is the first row that no earlier sequence has: were a sequence to start
 * below it, it would overwrite rows of a sequence that is right. */
static void cut_rows(const struct pkv__attn_call *c, struct pkv__attn_unit *u, int32_t *next_row)
{
    const int32_t *indptr = c->batch->q_indptr;
    u->row0 = indptr ? indptr[u->seq] : u->seq;
    u->q_len = 1;
    if (!indptr) return;
    const int32_t end = indptr[u->seq + 1];
    if (u->row0 < *next_row || end < u->row0 || end > c->q->n_rows) {
        note(c, PKV_BAD_Q_INDPTR, u->seq, u->seq + 1, end);
        u->row0 = 0;
        u->q_len = 0;
        return;
    }
    u->q_len = end - u->row0;
    *next_row = end;
}

/* Number of ids in the sequence's row of the table, and where the row starts. */
static int64_t cut_ids(const struct pkv__attn_call *c, struct pkv__attn_unit *u)
{
    const pkv_attn_batch *b = c->batch;
    if (!b->table_indptr) {
        u->ids = b->table + u->seq * b->table_stride;
        return b->table_stride;
    }
    const int64_t start = b->table_indptr[u->seq];
    int64_t end = b->table_indptr[u->seq + 1];
    u->ids = b->table;
    if (end > b->table_stride) end = b->table_stride;
    if (start < 0 || end <= start) return 0;
    u->ids += start;
    return end - start;
}

/* Keys that exist. */
static void cut_keys(const struct pkv__attn_call *c, struct pkv__attn_unit *u)
{
    const int32_t asked = c->batch->kv_len[u->seq], bt = c->k->block_tokens;
    u->ids = NULL;
    u->kv_len = pkv__max_i32(asked, 0);
    if (asked < 0) note(c, PKV_BAD_LENGTH, u->seq, u->seq, asked);
    if (!c->batch->table) {
        if (u->kv_len <= bt) return;
        note(c, PKV_BAD_LENGTH, u->seq, u->seq, asked);
        u->kv_len = bt;
        return;
    }
    const int64_t n_ids = cut_ids(c, u);
    if (n_ids >= pkv__ceil_div_i32(u->kv_len, bt)) return;
    note(c, PKV_BAD_SHORT_ROW, u->seq, (int32_t)n_ids, asked);
    u->kv_len = (int32_t)(n_ids * bt); /* less than kv_len, so it fits */
}

static void run_sequences(const pkv_backend *be, const struct pkv__attn_call *c, void *workspace)
{
    int32_t next_row = 0;
    for (int32_t b = 0; b < c->batch->n_seqs; b++) {
        struct pkv__attn_unit u = { .seq = b };
        cut_rows(c, &u, &next_row);
        cut_keys(c, &u);
        u.pos0 = c->batch->kv_pos0 ? c->batch->kv_pos0[b] : 0;
        if (u.q_len == 0) continue;
        bool decode;
        const pkv__attn_fn attend = pkv__attn_choose(&be->kernels, c, u.q_len, NULL, &decode);
        u.n_kv_heads = decode ? c->k->n_heads : 1;
        for (u.kv_head = 0; u.kv_head < c->k->n_heads; u.kv_head += u.n_kv_heads)
            attend(c, &u, workspace);
    }
}

pkv_status pkv_attn_run(pkv_backend *be, const pkv_tensor3 *q, const pkv_kv_view *k,
                        const pkv_kv_view *v, const pkv_attn_batch *batch,
                        const pkv_attn_opts *opts, void *workspace, size_t workspace_bytes,
                        pkv_tensor3 *out, pkv_lse *lse)
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
    run_sequences(be, &call, workspace);
    pkv__report_bad(opts->bad, bad);
    if (bad[0] == 0) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                       "bad table: bits %#x; first in sequence %u, index %u, value %d",
                       (unsigned)bad[0], (unsigned)bad[1], (unsigned)bad[2], (int)bad[3]);
}

const char *pkv_attn_kernel_name(const pkv_backend *be, const pkv_tensor3 *q, const pkv_kv_view *k,
                                 const pkv_kv_view *v, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int32_t q_len)
{
    if (!be || q_len < 0 || pkv__check_attn_inputs(&be->log, q, k, v, batch, opts) != PKV_OK)
        return NULL;
    struct pkv__attn_call call = { .q = q };
    pkv_isa isa;
    bool decode;
    resolve(&call, q, k, v, batch, opts);
    pkv__attn_choose(&be->kernels, &call, q_len, &isa, &decode);
    return pkv__attn_name(k->dtype, isa, decode);
}
