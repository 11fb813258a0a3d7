/* Where the row of a tensor or a view starts. */
#ifndef PKV_ROW_PLACES_H
#define PKV_ROW_PLACES_H

#include "common/number_format.h"
#include "pagedkv/views.h"

static inline void *pkv__tensor_row(const pkv_tensor3 *t, int64_t row, int32_t head)
{
    const int64_t at = row * t->row_stride + head * t->head_stride;
    return (char *)t->data + at * pkv__elem_bytes(t->dtype);
}

static inline void *pkv__view_row(const pkv_kv_view *view, int64_t block, int64_t token,
                                  int64_t head)
{
    const int64_t at =
        block * view->block_stride + token * view->token_stride + head * view->head_stride;
    return (char *)view->data + pkv__elem_offset(view->dtype, at);
}

#endif
