/* What KV takes and what fits. */
#include "pagedkv/kv_size.h"
#include "common/common.h"

int64_t pkv_kv_request_blocks(int32_t n_prompt, int32_t max_new, int32_t n_samples,
                              int32_t block_tokens)
{
    if (n_prompt < 1 || max_new < 1 || n_samples < 1 || block_tokens < 1) return 0;
    const int64_t longest = (int64_t)n_prompt + max_new - 1;
    const int64_t shared = n_prompt / block_tokens;
    const int64_t each = (longest + block_tokens - 1) / block_tokens;
    return shared + n_samples * (each - shared);
}
