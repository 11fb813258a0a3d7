/* The scalar level: fills every slot, so that levels above may leave any slot alone. */
#include "common/number_format.h"
#include "kernels/kernels_internal.h"

#include <string.h>

static void copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

#define ROW_FUNCTIONS(name, dtype)                                                                 \
    static void load_##name(float *dst, const void *src, int32_t n)                                \
    {                                                                                              \
        pkv__load_floats(dst, src, dtype, n);                                                      \
    }                                                                                              \
    static void store_##name(void *dst, const float *src, int32_t n)                               \
    {                                                                                              \
        pkv__store_floats(dst, dtype, src, n);                                                     \
    }
ROW_FUNCTIONS(f32, PKV_F32)
ROW_FUNCTIONS(f16, PKV_F16)
ROW_FUNCTIONS(bf16, PKV_BF16)

void pkv__init_scalar(struct pkv__cpu_kernels *k)
{
    const struct pkv__attn_kernel whole = {
        { pkv__scalar_attention, pkv__scalar_attention }, PKV_ISA_SCALAR, PKV__WHOLE, 0
    };
    memset(k, 0, sizeof *k);
    for (int t = PKV_F32; t <= PKV_BF16; t++) k->attn_short[t] = k->attn_rows[t] = whole;
    k->load_row[PKV_F32] = load_f32, k->store_row[PKV_F32] = store_f32;
    k->load_row[PKV_F16] = load_f16, k->store_row[PKV_F16] = store_f16;
    k->load_row[PKV_BF16] = load_bf16, k->store_row[PKV_BF16] = store_bf16;
    k->row_isa = PKV_ISA_SCALAR;
    k->copy = copy;
    k->copy_isa = PKV_ISA_SCALAR;
}
