/* Which placement, and what both of them share. */
#include "common/kv_layout.h"
#include "model/placement_internal.h"

enum { ARRAY_ALIGN = 64 }; /* no array begins inside another's cache line */

void *pkv__place_take(pkv__place_memory *m, size_t n, size_t element_bytes)
{
    void *at = m->base ? m->base + m->used : NULL;
    m->used += pkv__align_up(n * element_bytes, ARRAY_ALIGN);
    return at;
}

size_t pkv__place_token_bytes(const pkv_kv_shape *shape)
{
    struct pkv__kv_layout l;
    if (pkv__kv_layout(shape, &l) != PKV_OK) return 0;
    const size_t floats = (size_t)(l.scales_at > 0) + (size_t)(l.zeros_at > 0);
    return l.n_pieces * (l.row_bytes + floats * sizeof(float));
}

void pkv__place_numbers_init(pkv__place_numbers *numbers, int32_t n)
{
    numbers->n_free = n;
    for (int32_t i = 0; i < n; i++) numbers->free[i] = n - 1 - i; /* 0 goes first */
}

pkv_status pkv__place_pool(const pkv__placement_config *cfg, size_t *block_bytes, int32_t *n_blocks)
{
    const pkv_kv_shape *s = &cfg->shape;
    const pkv_status status = pkv_kv_block_bytes(s, block_bytes);
    if (status != PKV_OK)
        return pkv__refuse(&cfg->log, status,
                           "placement: no block of %d layers x %d kv heads x dim %d x %d tokens, "
                           "dtype %d",
                           s->n_layers, s->n_kv_heads, s->head_dim, s->block_tokens, (int)s->dtype);
    const size_t fit = cfg->kv_bytes / *block_bytes;
    *n_blocks = cfg->n_blocks > 0 ? cfg->n_blocks : (int32_t)(fit < INT32_MAX ? fit : INT32_MAX);
    if (*n_blocks >= 2) return PKV_OK;
    return pkv__refuse(&cfg->log, PKV_E_NEVER,
                       "placement: the pool has room for %d blocks of %zu bytes; kv_bytes of at "
                       "least %zu hold two (block 0 is the null block)",
                       *n_blocks, *block_bytes, 2 * *block_bytes);
}

static pkv_status check_config(const pkv__placement_config *cfg)
{
    if (!cfg->backend) return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "placement: no backend");
    if (cfg->max_seqs < 1)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "placement: max_seqs is %d, at least 1",
                           cfg->max_seqs);
    if (cfg->max_context < 1)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "placement: max_context is %d, at least 1",
                           cfg->max_context);
    if (cfg->n_blocks < 0)
        return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "placement: n_blocks is %d",
                           cfg->n_blocks);
    return PKV_OK;
}

pkv_status pkv__placement_create(const pkv__placement_config *cfg, pkv__placement **out)
{
    const pkv_status status = check_config(cfg);
    if (status != PKV_OK) return status;
    switch (cfg->kind) {
    case PKV_PLACE_PAGED:
        return pkv__placement_paged(cfg, out);
    case PKV_PLACE_MAX:
    case PKV_PLACE_REQUEST:
    case PKV_PLACE_POW2:
        return pkv__placement_regions(cfg, out);
    }
    return pkv__refuse(&cfg->log, PKV_E_INVALID_ARG, "placement: there is no kind %d",
                       (int)cfg->kind);
}
