/* What passes from the host to the kernel that checks tables. Included by C and by .cu files. */
#ifndef PKV_TABLE_CHECK_H
#define PKV_TABLE_CHECK_H

#include "kernels/cuda/cuda_launch.h"

#ifdef __cplusplus
extern "C" {
#endif

struct pkv__cuda_check {
    struct pkv__cuda_attn attn; /* batch, opts, n_rows of q, n_blocks and block_tokens of k */
    uint32_t *bad;
    uint8_t all_keys; /* every key counts as visible, rows or not */
};

int pkv__table_check_prepare(struct pkv__kernel_cost *cost);
int pkv__table_check_launch(const struct pkv__cuda_check *check, int64_t n_ctas, void *stream);

#ifdef __cplusplus
}
#endif
#endif
