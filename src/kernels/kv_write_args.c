/* What kv_write refuses. */
#include "kernels/kv_write.h"

static pkv_status check_source(const pkv_logger *log, const char *name, const pkv_tensor3 *src,
                               const pkv_kv_view *view)
{
    pkv_status status = pkv__check_tensor(log, name, src, PKV__MAX_DIM);
    if (status == PKV_OK) status = pkv__check_view(log, name, view, PKV__MAX_DIM);
    if (status != PKV_OK) return status;
    if (src->n_heads != view->n_heads || src->dim != view->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: rows and store disagree in heads or dim",
                           name);
    const int64_t counts[3] = { view->n_blocks, view->block_tokens, view->n_heads };
    const int64_t strides[3] = { view->block_stride, view->token_stride, view->head_stride };
    if (!pkv__places_differ(counts, strides, view->dim))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: rows of the store overlap", name);
    return PKV_OK;
}

/* Do the numbers of different tokens, and of their heads, have different places? A head stride of 0
 * is one number per token. */
static bool scales_differ(const pkv_scales *s, const pkv_kv_view *view)
{
    const int64_t counts[3] = { view->n_blocks, view->block_tokens,
                                s->head_stride ? view->n_heads : 1 };
    const int64_t strides[3] = { s->block_stride, s->token_stride, s->head_stride };
    return pkv__places_differ(counts, strides, 1);
}

static pkv_status check_scales(const pkv_logger *log, const char *name, const pkv_kv_view *view)
{
    const pkv_scales *s = &view->scales, *z = &view->zeros;
    const bool computed = pkv__scales_computed(view);
    if (view->dtype == PKV_U4) {
        const bool zeros_computed = z->data && z->token_stride != 0;
        if (computed != zeros_computed)
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "%s: scales and zero points are not both given, or both computed",
                               name);
        if (computed && ((s->head_stride == 0) != (z->head_stride == 0) || s->data == z->data))
            return pkv__refuse(log, PKV_E_INVALID_ARG,
                               "%s: scales and zero points for unlike heads, or in one place",
                               name);
        if (computed && !scales_differ(z, view))
            return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: zero points of tokens overlap", name);
    }
    if (computed && !scales_differ(s, view))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: scales of tokens overlap", name);
    return PKV_OK;
}

static pkv_status check_kv(const pkv_logger *log, const pkv_kv_write_args *a)
{
    pkv_status status = check_source(log, "k", a->k, a->k_view);
    if (status == PKV_OK) status = check_scales(log, "k", a->k_view);
    if (status != PKV_OK) return status;
    if (a->k->n_rows > 0 && !a->slots)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: no slots");
    if (!a->v) return PKV_OK;
    status = check_source(log, "v", a->v, a->v_view);
    if (status == PKV_OK) status = check_scales(log, "v", a->v_view);
    if (status != PKV_OK) return status;
    if (a->v->n_rows != a->k->n_rows)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: k and v differ in rows");
    if (a->v_view->n_blocks != a->k_view->n_blocks ||
        a->v_view->block_tokens != a->k_view->block_tokens)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: the stores of k and v disagree");
    if (pkv__scales_computed(a->k_view) && pkv__scales_computed(a->v_view) &&
        a->k_view->scales.data == a->v_view->scales.data)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: scales of k and v in one place");
    return PKV_OK;
}

static pkv_status check_q(const pkv_logger *log, const pkv_kv_write_args *a)
{
    const pkv_tensor3 *q = a->q, *out = a->q_out;
    if (!q && !out) return PKV_OK;
    pkv_status status = pkv__check_tensor(log, "q", q, PKV__MAX_DIM);
    if (status == PKV_OK) status = pkv__check_output(log, "q_out", out, PKV__MAX_DIM);
    if (status != PKV_OK) return status;
    if (q->n_rows != a->k->n_rows || q->dim != a->k->dim || out->n_rows != q->n_rows ||
        out->n_heads != q->n_heads || out->dim != q->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: k, q and q_out differ in shape");
    if (!out->data) return PKV_OK; /* no rows */
    if (out->data == q->data && (out->dtype != q->dtype || out->row_stride != q->row_stride ||
                                 out->head_stride != q->head_stride))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: q_out overlaps q, but is not q");
    if (out->data == a->k->data || out->data == a->k_view->data ||
        (a->v && (out->data == a->v->data || out->data == a->v_view->data)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: q_out overlaps k or v");
    return PKV_OK;
}

static bool aligned(const void *p, size_t align)
{
    return (uintptr_t)p % align == 0;
}

static pkv_status check_arrays(const pkv_logger *log, const pkv_kv_write_args *a)
{
    if (!aligned(a->slots, sizeof(*a->slots)) || !aligned(a->pos, sizeof(*a->pos)) ||
        !aligned(a->n_valid, sizeof(*a->n_valid)) || !aligned(a->bad, sizeof(*a->bad)))
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "kv_write: alignment of slots, pos, n_valid or bad");
    if (!aligned(a->q_norm, sizeof(float)) || !aligned(a->k_norm, sizeof(float)) ||
        !aligned(a->rope, sizeof(float)))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: norm weights or rope not aligned");
    return PKV_OK;
}

static pkv_status check_norm_and_rope(const pkv_logger *log, const pkv_kv_write_args *a)
{
    if (!(a->norm_eps >= 0.f) || !isfinite(a->norm_eps))
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: norm_eps is not 0 or more");
    if (a->rope_interleaved > 1)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: rope_interleaved is neither 0 nor 1");
    for (size_t i = 0; i < sizeof(a->reserved); i++)
        if (a->reserved[i])
            return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: reserved bytes are not 0");
    if (!a->rope) return PKV_OK;
    if (!a->pos && a->k->n_rows > 0)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: rope without pos");
    if (a->n_rope_pos < 0 || a->rot_dim < 2 || a->rot_dim % 2 != 0 || a->rot_dim > a->k->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG,
                           "kv_write: %d positions of rot_dim %d, dim of k is %d", a->n_rope_pos,
                           a->rot_dim, a->k->dim);
    return PKV_OK;
}

pkv_status pkv__check_kv_write(const pkv_logger *log, const pkv_kv_write_args *a)
{
    if (!a) return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: null");
    if (a->struct_size != sizeof(*a))
        return pkv__refuse(log, PKV_E_ABI, "kv_write: struct_size %u", (unsigned)a->struct_size);
    pkv_status status = check_kv(log, a);
    if (status == PKV_OK) status = check_q(log, a);
    if (status == PKV_OK) status = check_arrays(log, a);
    if (status == PKV_OK) status = check_norm_and_rope(log, a);
    return status;
}
