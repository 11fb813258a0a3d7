#include "visible_twin.h"

#include "kernels/kernels_internal.h"

static struct pkv__attn_unit unit_of(const struct visible_twin *t)
{
    return (struct pkv__attn_unit){
        .row0 = t->row0, .q_len = t->q_len, .kv_len = t->kv_len, .pos0 = t->pos0
    };
}

uint64_t visible_twin_bits(const struct visible_twin *t, int32_t i, int32_t j, int32_t n)
{
    const struct pkv__attn_call c = { .batch = t->batch, .opts = t->opts };
    const struct pkv__attn_unit u = unit_of(t);
    return pkv__visible_bits(&c, &u, i, j, n);
}

int64_t visible_twin_ahead(const struct visible_twin *t, int32_t i, int32_t j)
{
    const struct pkv__attn_call c = { .batch = t->batch, .opts = t->opts };
    const struct pkv__attn_unit u = unit_of(t);
    return pkv__key_ahead(&c, &u, i, j);
}

void visible_twin_hull(const struct visible_twin *t, int32_t lo, int32_t hi, int32_t hull[2])
{
    const struct pkv__attn_call c = { .batch = t->batch, .opts = t->opts };
    const struct pkv__attn_unit u = unit_of(t);
    const struct pkv__key_range range = pkv__hull_of_rows(&c, &u, lo, hi);
    hull[0] = range.lo;
    hull[1] = range.hi;
}
