/* Rows out of a store, as values: the reverse of kv_write. */
#include "kernels/move_tasks.h"
#include "kernels/row_places.h"
#include "pagedkv/moves.h"

struct gather {
    const pkv_backend *be;
    const pkv_kv_view *view;
    const int64_t *slots;
    const pkv_tensor3 *out;
    bool past_caches;
    int32_t n_tasks;
    uint32_t bad[PKV__MOVE_TASKS_MAX][4];
};

/* Where a slot is, and how its codes read. */
struct place {
    int64_t block, offset;
};

static const char *row_at(const pkv_kv_view *v, struct place p, int32_t head)
{
    return pkv__view_row(v, p.block, p.offset, head);
}

/* A row of another type: to float, and from there. */
static void convert_row(const struct gather *g, struct place p, int32_t head, const char *in,
                        char *out)
{
    const struct pkv__cpu_kernels *k = &g->be->kernels;
    const pkv_kv_view *v = g->view;
    _Alignas(PKV_CACHE_LINE) char staged[PKV__MAX_DIM * sizeof(float)];
    _Alignas(PKV_CACHE_LINE) float x[PKV__MAX_DIM];
    if (v->dtype <= PKV_BF16) k->load_row[v->dtype](x, in, v->dim);
    else
        k->dequantize_row[v->dtype - PKV_E4M3](
            x, in, v->dim, pkv__scale_at(&v->scales, 1.f, p.block, p.offset, head),
            pkv__scale_at(&v->zeros, 0.f, p.block, p.offset, head));
    k->store_row[g->out->dtype](g->past_caches ? staged : out, x, v->dim);
    if (g->past_caches)
        k->stream(out, staged, (size_t)v->dim * (size_t)pkv__elem_bytes(g->out->dtype));
}

/* How many of the rows [i, end) lie one behind the other in one block. */
static int64_t run_length(const struct gather *g, int64_t i, int64_t end)
{
    const int64_t bt = g->view->block_tokens, left = bt - g->slots[i] % bt;
    int64_t n = 1;
    while (i + n < end && n < left && g->slots[i + n] == g->slots[i] + n) n++;
    return n;
}

/* One head of a run. `ahead`: what is read after it, and is fetched meanwhile. */
static void gather_head(const struct gather *g, struct place p, int32_t head, int64_t n, char *to,
                        const char *ahead)
{
    const struct pkv__cpu_kernels *k = &g->be->kernels;
    const pkv_kv_view *v = g->view;
    const int64_t in_step = pkv__elem_offset(v->dtype, v->token_stride);
    const int64_t out_step = g->out->row_stride * pkv__elem_bytes(g->out->dtype);
    const int64_t in_bytes = pkv__elem_offset(v->dtype, v->dim);
    void (*const pass)(void *, const void *, size_t) = g->past_caches ? k->stream : k->copy;
    const bool equal = v->dtype == g->out->dtype;
    const char *in = row_at(v, p, head);
    for (int64_t r = 0; r < n; r++, p.offset++) {
        for (int64_t i = 0; i < in_bytes; i += PKV_CACHE_LINE) PKV_PREFETCH(ahead + i);
        if (equal) pass(to, in, (size_t)in_bytes); /* bits pass, NaN included */
        else convert_row(g, p, head, in, to);
        to += out_step, in += in_step, ahead += in_step;
    }
}

/* A run head by head: in most stores the rows of one head follow each other. `next`: the slot that
 * is read after the run; what lies behind it may be fetched, but is nothing that is read. */
static void gather_run(const struct gather *g, int64_t i, int64_t n, int64_t next)
{
    const pkv_tensor3 *out = g->out;
    const int64_t bt = g->view->block_tokens;
    const struct place p = { g->slots[i] / bt, g->slots[i] % bt };
    const struct place then = { next / bt, next % bt };
    for (int32_t h = 0; h < out->n_heads; h++) {
        char *to = pkv__tensor_row(out, i, h);
        const char *ahead =
            h + 1 < out->n_heads ? row_at(g->view, p, h + 1) : row_at(g->view, then, 0);
        gather_head(g, p, h, n, to, ahead);
    }
}

static void gather_share(void *ctx, int32_t task)
{
    struct gather *g = ctx;
    const int64_t end = (int64_t)g->view->n_blocks * g->view->block_tokens;
    const struct pkv__share rows = pkv__move_share(g->out->n_rows, g->n_tasks, task);
    uint32_t *bad = g->bad[task];
    for (int64_t i = rows.lo, n = 1; i < rows.hi; i += n, n = 1) {
        const int64_t slot = g->slots[i];
        if (slot < 0) continue;
        if (slot < end) {
            n = run_length(g, i, rows.hi);
            const int64_t next = i + n < rows.hi ? g->slots[i + n] : slot;
            gather_run(g, i, n, next >= 0 && next < end ? next : slot);
            continue;
        }
        pkv__note_slot(bad, PKV_BAD_SLOT, i, slot);
    }
    if (g->past_caches) g->be->kernels.stream_end();
}

static pkv_status check_args(const pkv_logger *log, const pkv_kv_view *view, const int64_t *slots,
                             const pkv_tensor3 *out, const uint32_t *bad)
{
    pkv_status status = pkv__check_view(log, "kv_gather", view, PKV__MAX_DIM);
    if (status == PKV_OK) status = pkv__check_output(log, "out", out, PKV__MAX_DIM);
    if (status != PKV_OK) return status;
    if (out->n_heads != view->n_heads || out->dim != view->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "kv_gather: out and store disagree in heads or dim");
    if (out->n_rows > 0 && !slots)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_gather: no slots");
    if ((uintptr_t)slots % sizeof(*slots) != 0 || (uintptr_t)bad % sizeof(*bad) != 0)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_gather: alignment of slots or bad");
    if (out->n_rows > 0 && out->data == view->data)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_gather: out overlaps the store");
    return PKV_OK;
}

pkv_status pkv_kv_gather(pkv_backend *be, const pkv_kv_view *view, const int64_t *slots,
                         pkv_tensor3 *out, uint32_t *bad, void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = check_args(&be->log, view, slots, out, bad);
    if (status != PKV_OK) return status;

    if (be->device) return be->device->kv_gather(be, view, slots, out, bad, stream);
    struct gather g = { .be = be, .view = view, .slots = slots, .out = out };
    const size_t n = (size_t)out->n_rows * (size_t)out->n_heads * (size_t)out->dim;
    g.n_tasks = pkv__move_tasks(be, n * sizeof(float)); /* read and written, roughly */
    g.past_caches = pkv__past_caches(n * (size_t)pkv__elem_bytes(out->dtype));
    pkv__parallel(be->threads, g.n_tasks, gather_share, &g);

    uint32_t found[4] = { 0, 0, 0, 0 };
    for (int32_t t = 0; t < g.n_tasks; t++) pkv__merge_bad(found, g.bad[t]);
    pkv__report_bad(bad, found);
    if (!found[0]) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_INVALID_ARG, "kv_gather: slot of row %u is beyond the store",
                       (unsigned)found[2]);
}
