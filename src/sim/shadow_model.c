/* The counter model that checks the paged policy: no ids, no lists, just how many blocks there
 * must be. It knows nothing of the block manager. */
#include "sim/sim_internal.h"

pkv_status pkv__sim_shadow_init(pkv__sim_shadow *shadow, int64_t usable_blocks,
                                int32_t block_tokens, int64_t n, const pkv_allocator *alloc)
{
    *shadow = (pkv__sim_shadow){
        .block_tokens = block_tokens, .n_free = usable_blocks, .n = n, .alloc = *alloc
    };
    shadow->blocks = pkv__alloc(alloc, (size_t)n * sizeof(int32_t), _Alignof(int32_t));
    if (!shadow->blocks) return PKV_E_NO_MEMORY;
    for (int64_t r = 0; r < n; r++) shadow->blocks[r] = 0;
    return PKV_OK;
}

void pkv__sim_shadow_deinit(pkv__sim_shadow *shadow)
{
    pkv__free(&shadow->alloc, shadow->blocks, (size_t)shadow->n * sizeof(int32_t));
    *shadow = (pkv__sim_shadow){ 0 };
}

void pkv__sim_shadow_set(pkv__sim_shadow *shadow, int64_t r, int32_t n_tokens)
{
    const int32_t n_blocks = pkv__ceil_div_i32(n_tokens, shadow->block_tokens);
    const int32_t more = n_blocks - shadow->blocks[r];
    shadow->blocks[r] = n_blocks;
    shadow->n_free -= more;
    shadow->n_used += more;
}
