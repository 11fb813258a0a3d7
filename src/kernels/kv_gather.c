/* Rows out of a store, as values: the reverse of kv_write. */
#include "common/number_format.h"
#include "kernels/move_tasks.h"
#include "pagedkv/moves.h"

struct gather {
    const pkv_backend *be;
    const pkv_kv_view *view;
    const int64_t *slots;
    const pkv_tensor3 *out;
    int32_t n_tasks;
    uint32_t bad[PKV__MOVE_TASKS_MAX][4];
};

/* One head of one slot. Equal types pass bits. */
static void gather_row(const struct gather *g, int64_t block, int64_t offset, int32_t head,
                       char *out)
{
    const struct pkv__cpu_kernels *k = &g->be->kernels;
    const pkv_kv_view *v = g->view;
    const pkv_dtype from = v->dtype, to = g->out->dtype;
    const int64_t at = block * v->block_stride + offset * v->token_stride + head * v->head_stride;
    const char *in = (const char *)v->data + pkv__elem_offset(from, at);
    float x[PKV__MAX_DIM];
    if (from == to) {
        k->copy(out, in, (size_t)v->dim * (size_t)pkv__elem_bytes(to));
        return;
    }
    if (from <= PKV_BF16) k->load_row[from](x, in, v->dim);
    else
        k->dequantize_row[from - PKV_E4M3](x, in, v->dim,
                                           pkv__scale_at(&v->scales, 1.f, block, offset, head),
                                           pkv__scale_at(&v->zeros, 0.f, block, offset, head));
    k->store_row[to](out, x, v->dim);
}

static void gather_share(void *ctx, int32_t task)
{
    struct gather *g = ctx;
    const pkv_tensor3 *out = g->out;
    const int64_t bt = g->view->block_tokens, end = g->view->n_blocks * bt;
    const int64_t elem = pkv__elem_bytes(out->dtype);
    const struct pkv__share rows = pkv__move_share(out->n_rows, g->n_tasks, task);
    uint32_t *bad = g->bad[task];
    for (int64_t i = rows.lo; i < rows.hi; i++) {
        const int64_t slot = g->slots[i];
        if (slot < 0) continue;
        if (slot >= end) {
            if (!bad[0]) {
                bad[2] = i > UINT32_MAX ? UINT32_MAX : (uint32_t)i;
                bad[3] = slot > UINT32_MAX ? UINT32_MAX : (uint32_t)slot;
            }
            bad[0] = PKV_BAD_SLOT;
            continue;
        }
        char *to = (char *)out->data + i * out->row_stride * elem;
        for (int32_t h = 0; h < out->n_heads; h++, to += out->head_stride * elem)
            gather_row(g, slot / bt, slot % bt, h, to);
    }
}

static pkv_status check_args(const pkv_logger *log, const pkv_kv_view *view, const int64_t *slots,
                             const pkv_tensor3 *out)
{
    pkv_status status = pkv__check_view(log, "kv_gather", view);
    if (status == PKV_OK) status = pkv__check_tensor(log, "out", out, PKV__MAX_DIM);
    if (status != PKV_OK) return status;
    if (out->n_heads != view->n_heads || out->dim != view->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "kv_gather: out and store disagree in heads or dim");
    if (out->n_rows > 0 && !slots)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_gather: no slots");
    if (out->n_rows > 0 && out->data == view->data)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_gather: out overlaps the store");
    return PKV_OK;
}

pkv_status pkv_kv_gather(pkv_backend *be, const pkv_kv_view *view, const int64_t *slots,
                         pkv_tensor3 *out, uint32_t *bad)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = check_args(&be->log, view, slots, out);
    if (status != PKV_OK) return status;

    struct gather g = { .be = be, .view = view, .slots = slots, .out = out };
    g.n_tasks =
        pkv__move_tasks(be, (size_t)out->n_rows * (size_t)out->n_heads * (size_t)out->dim * 4);
    pkv__parallel(be->threads, g.n_tasks, gather_share, &g);

    uint32_t found[4] = { 0, 0, 0, 0 };
    for (int32_t t = 0; t < g.n_tasks; t++) pkv__merge_bad(found, g.bad[t]);
    pkv__report_bad(bad, found);
    if (!found[0]) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_INVALID_ARG, "kv_gather: slot of row %u is beyond the store",
                       (unsigned)found[2]);
}
