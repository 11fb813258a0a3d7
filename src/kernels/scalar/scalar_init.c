/* The scalar level: fills every slot, so that levels above may leave any slot alone. */
#include "kernels/scalar/scalar_rows.h"

#include <string.h>

static void copy(void *dst, const void *src, size_t bytes)
{
    memcpy(dst, src, bytes);
}

static void stream_end(void) {}

void pkv__init_scalar(struct pkv__cpu_kernels *k)
{
    const struct pkv__attn_kernel attention = {
        .fn = { [PKV__PAGED] = pkv__scalar_attention, [PKV__CONTIGUOUS] = pkv__scalar_attention },
        .isa = PKV_ISA_SCALAR,
        .kind = PKV__WHOLE,
    };
    memset(k, 0, sizeof *k);
    for (int t = 0; t < PKV_DTYPE_COUNT; t++) {
        k->attn_short[t] = attention;
        k->attn_rows[t] = attention;
    }
    k->attn_short_int8_qk.isa = PKV_ISA_SCALAR; /* no function: exact is always allowed */
    for (int place = 0; place < PKV__N_PLACES; place++) k->mla[place] = pkv__scalar_mla;
    k->mla_isa = PKV_ISA_SCALAR;
    pkv__scalar_row_slots(k);
    k->copy = k->stream = copy;
    k->stream_end = stream_end;
    k->copy_isa = PKV_ISA_SCALAR;
}
