/* Rows into the store and out of it on the device. */
#include "kernels/cuda/cuda_rows.h"
#include "kernels/cuda/cuda_internal.h"
#include "kernels/kv_write.h"

/* Lanes that share a row, as an exponent: 8 elements each. */
static int32_t lane_bits_of(int32_t dim)
{
    int32_t bits = 0;
    while (8 << bits < dim) bits++;
    return bits;
}

/* Steps of a warp through the heads of a token, as many at once as it has lanes for. */
static int32_t steps_of(int32_t n_heads, int32_t lane_bits)
{
    const int32_t at_once = 32 >> lane_bits;
    return (n_heads + at_once - 1) / at_once;
}

static void fill_set(struct pkv__cuda_row_set *s, const pkv_tensor3 *from, const pkv_kv_view *to)
{
    s->from = *from;
    s->to = *to;
    s->lane_bits = lane_bits_of(from->dim);
    s->computed = pkv__scales_computed(to);
    s->per_token = s->computed && to->scales.head_stride == 0;
    s->n_units = s->per_token ? 1 : steps_of(from->n_heads, s->lane_bits);
}

/* Rows of queries: block t of one token is row t. */
static pkv_kv_view view_of_rows(const pkv_tensor3 *t)
{
    return (pkv_kv_view){ t->data,
                          t->dtype,
                          1,
                          1,
                          t->n_heads,
                          t->dim,
                          t->row_stride,
                          0,
                          t->head_stride,
                          { NULL, 0, 0, 0 },
                          { NULL, 0, 0, 0 } };
}

static void fill_write(struct pkv__cuda_kv_write *w, const pkv_kv_write_args *a)
{
    struct pkv__cuda_row_set *k = &w->sets[PKV__CUDA_SET_K], *q = &w->sets[PKV__CUDA_SET_Q];
    w->n_tokens = a->k->n_rows;
    w->slots = a->slots;
    w->n_valid = a->n_valid;
    w->pos = a->pos;
    w->rope = a->rope;
    w->bad = a->bad;
    w->n_rope_pos = a->n_rope_pos;
    w->rot_dim = a->rot_dim;
    w->norm_eps = a->norm_eps;
    w->interleaved = a->rope_interleaved;
    w->with_q = a->q != NULL;
    fill_set(k, a->k, a->k_view);
    k->norm = a->k_norm;
    k->turned = a->rope != NULL;
    if (a->v) fill_set(&w->sets[PKV__CUDA_SET_V], a->v, a->v_view);
    /* Queries that stay where and as they are, do. */
    if (!a->q || (a->q->data == a->q_out->data && !a->q_norm && !a->rope)) return;
    const pkv_kv_view rows = view_of_rows(a->q_out);
    fill_set(q, a->q, &rows);
    q->norm = a->q_norm;
    q->turned = a->rope != NULL;
}

/* Never more CTAs than there is work for, nor than the device holds at once. */
static pkv_status launch(const pkv_backend *be, int32_t variant, const void *params,
                         int64_t n_units_per_row, int64_t n_rows, void *stream)
{
    const struct pkv__cuda_variant *v = &pkv__cuda_variants[variant];
    const int64_t n_warps = v->n_threads / 32, most = pkv__cuda_grid(pkv__cuda_of(be), variant);
    if (n_rows == 0) return PKV_OK;
    const int64_t rows_enough = most * n_warps;
    const int64_t n_units = n_units_per_row * (n_rows < rows_enough ? n_rows : rows_enough);
    const int64_t n_ctas = (n_units + n_warps - 1) / n_warps;
    return pkv__cuda_status(be, v->launch(params, n_ctas < most ? n_ctas : most, stream), v->name);
}

pkv_status pkv__cuda_kv_write(pkv_backend *be, const pkv_kv_write_args *args, void *stream)
{
    const int32_t variant =
        pkv__cuda_variant_of(pkv__cuda_of(be), PKV_OP_KV_WRITE, args->k_view->dtype);
    if (variant < 0)
        return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "kv_write: no kernel for stores of %s",
                           pkv_dtype_name(args->k_view->dtype));
    struct pkv__cuda_kv_write w = { 0 };
    fill_write(&w, args);
    int64_t n_units = 0;
    for (int32_t i = 0; i < PKV__CUDA_N_SETS; i++) n_units += w.sets[i].n_units;
    return launch(be, variant, &w, n_units, w.n_tokens, stream);
}

pkv_status pkv__cuda_kv_gather(pkv_backend *be, const pkv_kv_view *view, const int64_t *slots,
                               const pkv_tensor3 *out, uint32_t *bad, void *stream)
{
    const int32_t variant = pkv__cuda_variant_of(pkv__cuda_of(be), PKV_OP_KV_GATHER, view->dtype);
    if (variant < 0)
        return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "kv_gather: no kernel for stores of %s",
                           pkv_dtype_name(view->dtype));
    const int32_t lane_bits = lane_bits_of(view->dim);
    const struct pkv__cuda_kv_gather g = {
        .view = *view,
        .slots = slots,
        .out = *out,
        .bad = bad,
        .n_units = steps_of(view->n_heads, lane_bits),
        .lane_bits = lane_bits,
    };
    return launch(be, variant, &g, g.n_units, out->n_rows, stream);
}
