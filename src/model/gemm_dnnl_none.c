/* A build without oneDNN. */
#include "model/gemm_dnnl.h"

pkv_status pkv__dnnl_create(int32_t max_m, int32_t max_k, bool alone, const pkv_allocator *alloc,
                            struct pkv__dnnl **out)
{
    (void)max_m, (void)max_k, (void)alone, (void)alloc, (void)out;
    return PKV_E_UNSUPPORTED;
}

void pkv__dnnl_destroy(struct pkv__dnnl *d)
{
    (void)d;
}

int32_t pkv__dnnl_gemm(struct pkv__dnnl *d, int32_t m, const float *x, int64_t ldx,
                       const pkv__matrix *w, float *y, int64_t ldy, bool add)
{
    (void)d, (void)m, (void)x, (void)ldx, (void)w, (void)y, (void)ldy, (void)add;
    return 0;
}
