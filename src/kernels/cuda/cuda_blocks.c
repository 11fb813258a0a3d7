/* Moves of blocks on the device. */
#include "kernels/cuda/cuda_internal.h"

pkv_status pkv__cuda_blocks_copy(pkv_backend *be, void *pool, size_t block_bytes,
                                 const pkv_block_copy *copies, int32_t n,
                                 const pkv_kv_shape *shapes, void *stream)
{
    (void)pool, (void)block_bytes, (void)copies, (void)n, (void)shapes, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}

pkv_status pkv__cuda_blocks_zero(pkv_backend *be, void *pool, size_t block_bytes,
                                 const int32_t *ids, int32_t n, void *stream)
{
    (void)pool, (void)block_bytes, (void)ids, (void)n, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}

pkv_status pkv__cuda_blocks_fill(pkv_backend *be, void *pool, size_t block_bytes, int32_t first,
                                 int32_t n, uint8_t byte, void *stream)
{
    (void)pool, (void)block_bytes, (void)first, (void)n, (void)byte, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}

pkv_status pkv__cuda_blocks_gather(pkv_backend *be, const void *pool, size_t block_bytes,
                                   const int32_t *ids, int32_t n, void *dst, void *stream)
{
    (void)pool, (void)block_bytes, (void)ids, (void)n, (void)dst, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}

pkv_status pkv__cuda_blocks_scatter(pkv_backend *be, const void *src, const int32_t *ids, int32_t n,
                                    void *pool, size_t block_bytes, void *stream)
{
    (void)src, (void)ids, (void)n, (void)pool, (void)block_bytes, (void)stream;
    return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "no kernel");
}
