/* Merging states on the device: one launch, the states in its parameters. */
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/states_merge.h"

/* No more CTAs than there are warps' worth of (row, head). */
static int64_t grid_of(const struct pkv__cuda *cuda, int32_t variant,
                       const struct pkv__cuda_merge *m)
{
    const int64_t warps = PKV__STATES_MERGE_THREADS / 32;
    const int64_t needed = (m->n_rows * m->n_heads + warps - 1) / warps;
    const int64_t most = pkv__cuda_grid(cuda, variant);
    return needed < most ? needed : most;
}

pkv_status pkv__cuda_states_merge(pkv_backend *be, const pkv_tensor3 *o, const pkv_lse *lse,
                                  int32_t n_states, void *stream, const pkv_tensor3 *out,
                                  const pkv_lse *out_lse)
{
    const struct pkv__cuda *cuda = pkv__cuda_of(be);
    const int32_t variant = pkv__cuda_variant_of(cuda, PKV_OP_STATES_MERGE, o[0].dtype);
    if (variant < 0)
        return pkv__refuse(&be->log, PKV_E_UNSUPPORTED, "merge: no kernel for states of %s",
                           pkv_dtype_name(o[0].dtype));
    if (n_states > PKV__CUDA_MAX_STATES)
        return pkv__refuse(&be->log, PKV_E_UNSUPPORTED,
                           "merge: %d states, the kernels take up to %d", n_states,
                           PKV__CUDA_MAX_STATES);
    if (out->n_rows == 0) return PKV_OK;
    struct pkv__cuda_merge m = { .out = out->data,
                                 .row_stride = out->row_stride,
                                 .head_stride = out->head_stride,
                                 .n_rows = out->n_rows,
                                 .n_heads = out->n_heads,
                                 .dim = out->dim,
                                 .out_dtype = (int32_t)out->dtype,
                                 .n_states = n_states,
                                 .base2 = lse[0].base2 };
    if (out_lse) {
        m.out_lse = out_lse->data;
        m.lse_row_stride = out_lse->row_stride;
        m.lse_head_stride = out_lse->head_stride;
    }
    for (int32_t s = 0; s < n_states; s++)
        m.states[s] = (struct pkv__cuda_state){ .o = o[s].data,
                                                .lse = lse[s].data,
                                                .row_stride = o[s].row_stride,
                                                .head_stride = o[s].head_stride,
                                                .lse_row_stride = lse[s].row_stride,
                                                .lse_head_stride = lse[s].head_stride };
    return pkv__cuda_status(
        be, pkv__cuda_variants[variant].launch(&m, grid_of(cuda, variant, &m), stream), "merge");
}
