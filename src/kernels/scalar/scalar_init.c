/* The scalar level: fills every slot, so that levels above may leave any slot alone. */
#include "kernels/kernels_internal.h"

#include <string.h>

static void copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

void pkv__init_scalar(struct pkv__cpu_kernels *k)
{
    for (int t = PKV_F32; t <= PKV_BF16; t++) {
        for (int place = 0; place < PKV__N_PLACES; place++) {
            k->attn_rows[t][place] = pkv__scalar_attention;
            k->attn_decode[t][place] = pkv__scalar_attention;
        }
        k->attn_rows_isa[t] = PKV_ISA_SCALAR;
        k->attn_decode_isa[t] = PKV_ISA_SCALAR;
    }
    k->copy = copy;
}
