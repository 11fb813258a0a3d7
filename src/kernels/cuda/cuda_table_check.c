/* Verdicts on tables on the device. */
#include "kernels/cuda/cuda_internal.h"
#include "kernels/cuda/table_check.h"

enum { CTAS_PER_SM = 2 }; /* it waits for memory, but there is little to read */

pkv_status pkv__cuda_table_check(pkv_backend *be, const pkv_attn_batch *batch,
                                 const pkv_attn_opts *opts, int64_t n_rows, int32_t n_blocks,
                                 int32_t block_tokens, uint32_t *bad, void *stream)
{
    const pkv_attn_opts none = PKV_ATTN_OPTS_INIT;
    struct pkv__cuda_check c = { .bad = bad, .all_keys = !opts };
    if (batch->n_seqs == 0) return PKV_OK;
    c.attn.batch = *batch;
    c.attn.opts = opts ? *opts : none;
    c.attn.q.n_rows = n_rows;
    c.attn.k.n_blocks = n_blocks;
    c.attn.k.block_tokens = block_tokens;
    return pkv__cuda_status(
        be, pkv__table_check_launch(&c, (int64_t)pkv__cuda_of(be)->n_sms * CTAS_PER_SM, stream),
        "table_check");
}
