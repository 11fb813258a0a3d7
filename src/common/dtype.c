/* Element types: names and widths. */
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
