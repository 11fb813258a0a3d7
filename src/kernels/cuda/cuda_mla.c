/* Latent attention on the device. */
#include "kernels/cuda/cuda_internal.h"

pkv_status pkv__cuda_mla_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t latent_dim,
                                   int32_t rope_dim, size_t *bytes)
{
    (void)be, (void)n_q_heads, (void)latent_dim, (void)rope_dim;
    *bytes = sizeof(struct pkv__cuda_head);
    return PKV_OK;
}

pkv_status pkv__cuda_mla(pkv_backend *be, const struct pkv__mla_call *c, void *workspace,
                         size_t bytes, void *stream)
{
    (void)c, (void)workspace, (void)bytes, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "latent attention: no kernel");
}
