/* Rows into the store and out of it on the device. */
#include "kernels/cuda/cuda_internal.h"

pkv_status pkv__cuda_kv_write(pkv_backend *be, const pkv_kv_write_args *args, void *stream)
{
    (void)args, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}

pkv_status pkv__cuda_kv_gather(pkv_backend *be, const pkv_kv_view *view, const int64_t *slots,
                               const pkv_tensor3 *out, uint32_t *bad, void *stream)
{
    (void)view, (void)slots, (void)out, (void)bad, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}
