/* kv_write: what its check and its work share. */
#ifndef PKV_KV_WRITE_H
#define PKV_KV_WRITE_H

#include "kernels/kernels_internal.h"
#include "pagedkv/moves.h"

/* Does a write compute the scales of this store (and zero points), rather than read them? */
static inline bool pkv__scales_computed(const pkv_kv_view *view)
{
    const bool has = view->dtype == PKV_E4M3 || view->dtype == PKV_I8 || view->dtype == PKV_U4;
    return has && view->scales.data && view->scales.token_stride != 0;
}

/* Everything that is refused before the first byte is written. */
pkv_status pkv__check_kv_write(const pkv_logger *log, const pkv_kv_write_args *a);

#endif
