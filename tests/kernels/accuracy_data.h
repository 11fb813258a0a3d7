/* Keys, values and queries for the table of quantisation errors: distributions that are hard on one
 * granularity of scales or another, and the layers of a dump. */
#ifndef PKV_ACCURACY_DATA_H
#define PKV_ACCURACY_DATA_H

#include "kv_dump.h"

struct accuracy_set {
    const char *name;
    int32_t n_tokens, n_q_heads, n_kv_heads, dim;
    float *k, *v, *q; /* [n_tokens][heads][dim]; owned */
};

enum accuracy_kind {
    DATA_NORMAL,
    DATA_OUTLIER_CHANNELS, /* two dims of K thirty times as large, one of V ten times */
    DATA_OUTLIER_TOKENS,   /* the first token and every 64th, fifty times */
    DATA_CONSTANT_ROWS,    /* every row one number, and a little noise */
    DATA_WIDE_TOKENS,      /* token by token another power of two, 2^-10 .. 2^10 */
    DATA_TINY,             /* 1e-20 */
    DATA_HEAVY_TAILS,      /* Student's t with two degrees of freedom */
    DATA_N_KINDS
};
struct accuracy_set accuracy_make(enum accuracy_kind kind);
struct accuracy_set accuracy_layer(const struct kv_dump *dump, int32_t layer);
void accuracy_free(struct accuracy_set *set);

#endif
