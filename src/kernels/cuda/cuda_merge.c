/* Merging states on the device. */
#include "kernels/cuda/cuda_internal.h"

pkv_status pkv__cuda_states_merge(pkv_backend *be, const pkv_tensor3 *o, const pkv_lse *lse,
                                  int32_t n_states, void *stream, const pkv_tensor3 *out,
                                  const pkv_lse *out_lse)
{
    (void)o, (void)lse, (void)n_states, (void)stream, (void)out, (void)out_lse;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}
