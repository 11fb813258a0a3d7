/* Verdicts on tables on the device. */
#include "kernels/cuda/cuda_internal.h"

pkv_status pkv__cuda_table_check(pkv_backend *be, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks,
                                 int32_t block_tokens, uint32_t *bad, void *stream)
{
    (void)batch, (void)opts, (void)n_rows, (void)n_blocks, (void)block_tokens, (void)bad,
        (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}
