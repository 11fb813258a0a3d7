/* Attention on the device. */
#include "kernels/cuda/cuda_internal.h"

pkv_status pkv__cuda_attn_workspace(const pkv_backend *be, int32_t n_q_heads, int32_t n_kv_heads,
                                    int32_t k_dim, int32_t v_dim, int32_t max_seqs,
                                    int64_t max_keys, int32_t chunk, size_t *bytes)
{
    (void)be, (void)n_q_heads, (void)n_kv_heads, (void)k_dim, (void)v_dim, (void)max_seqs;
    (void)max_keys, (void)chunk;
    *bytes = sizeof(struct pkv__cuda_head);
    return PKV_OK;
}

pkv_status pkv__cuda_workspace_init(pkv_backend *be, void *workspace, size_t bytes, void *stream)
{
    static const struct pkv__cuda_head zero = { .magic = PKV__CUDA_WORKSPACE_MAGIC };
    (void)bytes;
    return pkv__cuda_status(be, pkv__device_copy(workspace, &zero, sizeof(zero), stream),
                            "workspace_init");
}

pkv_status pkv__cuda_attn(pkv_backend *be, const struct pkv__attn_call *c, void *workspace,
                          size_t bytes, void *stream)
{
    (void)c, (void)workspace, (void)bytes, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "attention: no kernel");
}

const char *pkv__cuda_attn_name(const pkv_backend *be, const struct pkv__attn_call *c,
                                int32_t q_len)
{
    (void)be, (void)c, (void)q_len;
    return NULL;
}
