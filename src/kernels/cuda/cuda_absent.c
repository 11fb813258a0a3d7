/* The CUDA backend of a build without CUDA. */
#include "kernels/kernels_internal.h"

pkv_status pkv_backend_create_cuda(const pkv_cuda_config *cfg, pkv_backend **out)
{
    if (!cfg || !out) return PKV_E_INVALID_ARG;
    if (cfg->struct_size != sizeof(*cfg)) return PKV_E_ABI;
    return pkv__refuse(&cfg->log, PKV_E_UNSUPPORTED,
                       "backend: this library was built without CUDA (meson option cuda)");
}
