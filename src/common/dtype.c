/* Element types: names, widths, and the bytes of one block. */
#include "common/common.h"

#include <string.h>

static const struct {
    const char *name;
    int32_t bits;
} dtype_table[PKV_DTYPE_COUNT] = {
    [PKV_F32] = { "f32", 32 },  [PKV_F16] = { "f16", 16 },  [PKV_BF16] = { "bf16", 16 },
    [PKV_E4M3] = { "e4m3", 8 }, [PKV_E5M2] = { "e5m2", 8 }, [PKV_I8] = { "int8", 8 },
    [PKV_U4] = { "int4", 4 },
};

static bool dtype_known(pkv_dtype dtype)
{
    return (unsigned)dtype < PKV_DTYPE_COUNT;
}

int32_t pkv_dtype_bits(pkv_dtype dtype)
{
    return dtype_known(dtype) ? dtype_table[dtype].bits : 0;
}

const char *pkv_dtype_name(pkv_dtype dtype)
{
    return dtype_known(dtype) ? dtype_table[dtype].name : "?";
}

pkv_status pkv_dtype_from_name(const char *name, pkv_dtype *out)
{
    if (!name || !out) return PKV_E_INVALID_ARG;
    for (int i = 0; i < PKV_DTYPE_COUNT; i++) {
        if (strcmp(name, dtype_table[i].name) != 0) continue;
        *out = (pkv_dtype)i;
        return PKV_OK;
    }
    return PKV_E_INVALID_ARG;
}

pkv_status pkv_kv_block_bytes(const pkv_kv_shape *shape, size_t *block_bytes)
{
    enum { BLOCK_ALIGN = 512 }; /* every piece of every block starts on a sector and on a line */
    size_t bytes = 2;           /* K and V */
    if (!shape || !block_bytes || !dtype_known(shape->dtype)) return PKV_E_INVALID_ARG;
    if (shape->n_layers < 1 || shape->n_kv_heads < 1 || shape->block_tokens < 1 ||
        shape->block_tokens > 2048 || shape->head_dim < 8 || shape->head_dim > 256 ||
        shape->head_dim % 8 != 0)
        return PKV_E_INVALID_ARG;
    if (shape->dtype > PKV_BF16) return PKV_E_UNSUPPORTED;
    if (!pkv__mul_size(bytes, (size_t)shape->n_layers, &bytes) ||
        !pkv__mul_size(bytes, (size_t)shape->n_kv_heads, &bytes) ||
        !pkv__mul_size(bytes, (size_t)shape->block_tokens, &bytes) ||
        !pkv__mul_size(bytes, (size_t)(shape->head_dim * (pkv_dtype_bits(shape->dtype) / 8)),
                       &bytes) ||
        bytes > SIZE_MAX - BLOCK_ALIGN)
        return PKV_E_INVALID_ARG;
    *block_bytes = pkv__align_up(bytes, BLOCK_ALIGN);
    return PKV_OK;
}
