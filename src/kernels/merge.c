/* Merge of partial results over disjoint key sets (arXiv 2501.01005, section 2.2).
 *
 * One (row, head) at a time: every lse and every o of it is read before anything of it is stored,
 * so that the result may take the place of the first state. */
#include "kernels/move_tasks.h"
#include "kernels/row_places.h"

struct merge {
    const pkv_backend *be;
    const pkv_tensor3 *o; /* [n_states] */
    const pkv_lse *lse;   /* [n_states] */
    int32_t n_states, n_tasks;
    const pkv_tensor3 *out;
    const pkv_lse *out_lse; /* NULL: not wanted */
};

static pkv_status check_states(const pkv_logger *log, const pkv_tensor3 *o, const pkv_lse *lse,
                               int32_t n_states)
{
    for (int32_t s = 0; s < n_states; s++) {
        pkv_status status = pkv__check_tensor(log, "state", &o[s], PKV__MAX_DIM);
        if (status != PKV_OK) return status;
        if (o[s].dtype != o[0].dtype || o[s].n_rows != o[0].n_rows ||
            o[s].n_heads != o[0].n_heads || o[s].dim != o[0].dim)
            return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: state %d has another shape", s);
        if (!lse[s].data && o[s].n_rows > 0)
            return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: state %d has no lse", s);
        status = pkv__check_lse(log, &lse[s], o[s].n_rows, o[s].n_heads);
        if (status != PKV_OK) return status;
        if (lse[s].base2 != lse[0].base2)
            return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: state %d has another base", s);
    }
    return PKV_OK;
}

static bool same_place(const pkv_tensor3 *a, const pkv_tensor3 *b)
{
    return a->dtype == b->dtype && a->row_stride == b->row_stride &&
           a->head_stride == b->head_stride;
}

/* `out` may lie on o[0] only element by element, and on no other state. */
static pkv_status check_result(const pkv_logger *log, const pkv_tensor3 *o, const pkv_lse *lse,
                               int32_t n_states, const pkv_tensor3 *out, const pkv_lse *out_lse)
{
    const pkv_status status = pkv__check_output(log, "out", out, PKV__MAX_DIM);
    if (status != PKV_OK) return status;
    if (out->n_rows != o[0].n_rows || out->n_heads != o[0].n_heads || out->dim != o[0].dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: out has another shape than the states");
    for (int32_t s = 0; s < n_states && out->data; s++)
        if (out->data == o[s].data && (s > 0 || !same_place(out, &o[0])))
            return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: out overlaps state %d", s);
    if (!out_lse) return PKV_OK;
    if (out_lse->base2 != lse[0].base2)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: out_lse has another base");
    for (int32_t s = 0; s < n_states; s++)
        if (out_lse->data == lse[s].data && (s > 0 || out_lse->row_stride != lse[0].row_stride ||
                                             out_lse->head_stride != lse[0].head_stride))
            return pkv__refuse(log, PKV_E_INVALID_ARG, "merge: out_lse overlaps lse %d", s);
    return pkv__check_lse_output(log, out_lse, out->n_rows, out->n_heads);
}

static float lse_at(const pkv_lse *lse, int64_t row, int32_t head)
{
    return lse->data[row * lse->row_stride + head * lse->head_stride];
}

static void merge_row(const struct merge *g, int64_t row, int32_t head)
{
    const struct pkv__cpu_kernels *k = &g->be->kernels;
    const pkv_tensor3 *out = g->out;
    float sum[PKV__MAX_DIM] = { 0.f }, x[PKV__MAX_DIM], m = -INFINITY, l = 0.f;
    const bool base2 = g->lse[0].base2;
    for (int32_t s = 0; s < g->n_states; s++) {
        const float z = lse_at(&g->lse[s], row, head);
        if (!(z <= m)) m = z; /* a NaN gets through, and stays */
        if (isnan(m)) break;
    }
    for (int32_t s = 0; s < g->n_states && m != -INFINITY; s++) {
        const float z = lse_at(&g->lse[s], row, head);
        if (z == -INFINITY) continue; /* an empty state: its o may be anything */
        const float w = base2 ? exp2f(z - m) : expf(z - m);
        const void *stored = pkv__tensor_row(&g->o[s], row, head);
        const float *o = stored;
        if (g->o[s].dtype != PKV_F32) {
            k->load_row[g->o[s].dtype](x, stored, out->dim);
            o = x;
        }
        l += w;
        for (int32_t d = 0; d < out->dim; d++) sum[d] += w * o[d];
    }
    for (int32_t d = 0; d < out->dim && m != -INFINITY; d++) sum[d] /= l;
    k->store_row[out->dtype](pkv__tensor_row(out, row, head), sum, out->dim);
    if (!g->out_lse) return;
    const float result = m == -INFINITY ? m : m + (base2 ? log2f(l) : logf(l));
    g->out_lse->data[row * g->out_lse->row_stride + head * g->out_lse->head_stride] = result;
}

static void merge_share(void *ctx, int32_t task)
{
    const struct merge *g = ctx;
    const struct pkv__share rows = pkv__move_share(g->out->n_rows, g->n_tasks, task);
    for (int64_t row = rows.lo; row < rows.hi; row++)
        for (int32_t head = 0; head < g->out->n_heads; head++) merge_row(g, row, head);
}

pkv_status pkv_states_merge(pkv_backend *be, const pkv_tensor3 *o, const pkv_lse *lse,
                            int32_t n_states, void *stream, pkv_tensor3 *out, pkv_lse *out_lse)
{
    if (!be) return PKV_E_INVALID_ARG;
    if (!o || !lse || n_states < 1)
        return pkv__refuse(&be->log, PKV_E_INVALID_ARG, "merge: no states");
    if (out_lse && !out_lse->data) out_lse = NULL;
    pkv_status status = check_states(&be->log, o, lse, n_states);
    if (status == PKV_OK) status = check_result(&be->log, o, lse, n_states, out, out_lse);
    if (status != PKV_OK) return status;
    if (be->device) return be->device->states_merge(be, o, lse, n_states, stream, out, out_lse);
    struct merge g = {
        .be = be, .o = o, .lse = lse, .n_states = n_states, .out = out, .out_lse = out_lse
    };
    const size_t values = (size_t)out->n_rows * (size_t)out->n_heads * (size_t)out->dim;
    g.n_tasks = pkv__move_tasks(be, values * ((size_t)n_states + 1) * sizeof(float));
    pkv__parallel(be->threads, g.n_tasks, merge_share, &g);
    return PKV_OK;
}
