/* States of chunks of keys: fold them into one, and turn the result into rows. */
#ifndef PKV_ATTN_FOLD_H
#define PKV_ATTN_FOLD_H

#include "kernels/kernels_internal.h"

/* Floats of the states of `n` rows and heads, a multiple of 16 so that they can lie one behind the
 * other; and where the parts lie in them. */
static inline size_t pkv__state_floats(int32_t n, int32_t v_dim)
{
    return pkv__align_up((size_t)n * ((size_t)v_dim + 2), 16);
}
static inline struct pkv__attn_state pkv__state_at(float *floats, int32_t n, int32_t v_dim)
{
    float *m = floats + (size_t)n * (size_t)v_dim;
    return (struct pkv__attn_state){ floats, m, m + n };
}

/* What states [lo, hi) of `into` and of `chunk`, which follows it in the order of keys, are
 * together. Without a visible key (l = 0) a state adds nothing, whatever else it holds. */
void pkv__state_fold(const struct pkv__attn_state *into, const struct pkv__attn_state *chunk,
                     int32_t lo, int32_t hi, int32_t v_dim);

/* Write the rows of out and lse that belong to states [lo, hi) of the unit. The state is used up.
 */
void pkv__state_finish(const struct pkv__cpu_kernels *k, const struct pkv__attn_call *c,
                       const struct pkv__attn_unit *u, const struct pkv__attn_state *s, int32_t lo,
                       int32_t hi);

#endif
