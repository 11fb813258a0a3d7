/* Scatter new K and V rows into their slots. The definition; also the only version. */
#include "common/number_format.h"
#include "kernels/kernels_internal.h"
#include "pagedkv/moves.h"

#include <string.h>

static pkv_status check_source(const pkv_logger *log, const char *name, const pkv_tensor3 *src,
                               const pkv_kv_view *view)
{
    pkv_status status = pkv__check_tensor(log, name, src);
    if (status == PKV_OK) status = pkv__check_view(log, name, view);
    if (status != PKV_OK) return status;
    if (src->n_heads != view->n_heads || src->dim != view->dim)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "%s: rows and store disagree in heads or dim",
                           name);
    return PKV_OK;
}

static pkv_status check_args(const pkv_logger *log, const pkv_kv_write_args *a)
{
    if (!a) return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: null");
    if (a->struct_size != sizeof(*a))
        return pkv__refuse(log, PKV_E_ABI, "kv_write: struct_size %u", (unsigned)a->struct_size);
    pkv_status status = check_source(log, "k", a->k, a->k_view);
    if (status != PKV_OK) return status;
    if (a->k->n_rows > 0 && !a->slots)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: no slots");
    if (!a->v) return PKV_OK;
    status = check_source(log, "v", a->v, a->v_view);
    if (status != PKV_OK) return status;
    if (a->v->n_rows != a->k->n_rows)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: k and v differ in rows");
    if (a->v_view->n_blocks != a->k_view->n_blocks ||
        a->v_view->block_tokens != a->k_view->block_tokens)
        return pkv__refuse(log, PKV_E_INVALID_ARG, "kv_write: the stores of k and v disagree");
    return PKV_OK;
}

/* All heads of one token. Bits pass unchanged where the types are equal, NaN included. */
static void write_token(const pkv_tensor3 *src, int64_t row, const pkv_kv_view *view, int64_t slot)
{
    const int64_t block = slot / view->block_tokens, token = slot % view->block_tokens;
    const int32_t from = pkv__elem_bytes(src->dtype), to = pkv__elem_bytes(view->dtype);
    for (int32_t h = 0; h < src->n_heads; h++) {
        float x[PKV__MAX_DIM];
        const char *in =
            (const char *)src->data + (row * src->row_stride + h * src->head_stride) * from;
        char *out =
            (char *)view->data +
            (block * view->block_stride + token * view->token_stride + h * view->head_stride) * to;
        if (src->dtype == view->dtype) {
            memcpy(out, in, (size_t)src->dim * (size_t)to);
            continue;
        }
        pkv__load_floats(x, in, src->dtype, src->dim);
        pkv__store_floats(out, view->dtype, x, src->dim);
    }
}

/* For the report: what is too large for a word must not look like a small number. */
static uint32_t word(int64_t x)
{
    return x > UINT32_MAX ? UINT32_MAX : (uint32_t)x;
}

pkv_status pkv_kv_write(pkv_backend *be, const pkv_kv_write_args *args)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = check_args(&be->log, args);
    if (status != PKV_OK) return status;

    const int64_t bt = args->k_view->block_tokens, end = args->k_view->n_blocks * bt;
    uint32_t bad[4] = { 0, 0, 0, 0 };
    for (int64_t t = 0; t < args->k->n_rows; t++) {
        const int64_t slot = args->slots[t];
        if (slot < 0) continue;
        if (slot < bt || slot >= end) { /* the null block stays zero */
            if (!bad[0]) bad[2] = word(t), bad[3] = word(slot);
            bad[0] = PKV_BAD_SLOT;
            continue;
        }
        write_token(args->k, t, args->k_view, slot);
        if (args->v) write_token(args->v, t, args->v_view, slot);
    }
    pkv__report_bad(args->bad, bad);
    if (!bad[0]) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                       "kv_write: slot of token %u is in the null block or beyond the store",
                       (unsigned)bad[2]);
}
