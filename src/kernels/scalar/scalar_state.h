/* Online softmax of one (row, query head), key by key: what attention and latent attention share.
 *
 *   scratch   heads [group]   q [group][k dim]   o [group][v dim] */
#ifndef PKV_SCALAR_STATE_H
#define PKV_SCALAR_STATE_H

#include "kernels/scalar/scalar_rows.h"

/* After some keys: m their largest logit (the sink's, too), l the sum of e^(z - m), and o and shift
 * what the definition of attention says. */
struct pkv__scalar_head {
    float *q, *o;
    float m, l;
    float q_sum, shift; /* 0 without zero points */
};

static inline size_t pkv__scalar_scratch_bytes(int32_t group, int32_t k_dim, int32_t v_dim)
{
    const size_t floats = (size_t)k_dim + (size_t)v_dim;
    return (size_t)group * (sizeof(struct pkv__scalar_head) + floats * sizeof(float));
}

static inline struct pkv__scalar_head *pkv__scalar_place(void *scratch, int32_t group,
                                                         int32_t k_dim, int32_t v_dim)
{
    struct pkv__scalar_head *heads = scratch;
    float *q = (float *)(void *)(heads + group), *o = q + (size_t)group * (size_t)k_dim;
    for (int32_t r = 0; r < group; r++) {
        heads[r].q = q + (size_t)r * (size_t)k_dim;
        heads[r].o = o + (size_t)r * (size_t)v_dim;
    }
    return heads;
}

/* A sink is a logit without a value: the row starts as if it had seen that key. -inf is none. */
static inline void pkv__scalar_begin(const struct pkv__attn_call *c, int32_t head,
                                     struct pkv__scalar_head *s, int32_t v_dim)
{
    s->m = c->opts->sink ? c->opts->sink[head] : -INFINITY;
    s->l = s->m == -INFINITY ? 0.f : 1.f;
    s->shift = 0.f;
    for (int32_t d = 0; d < v_dim; d++) s->o[d] = 0.f;
}

/* From <q, k> to the logit. */
static inline float pkv__scalar_logit(const struct pkv__attn_call *c, int32_t head, float dot,
                                      int64_t ahead)
{
    float z = c->scale * dot;
    if (c->opts->softcap > 0.f) z = c->opts->softcap * tanhf(z / c->opts->softcap);
    if (c->opts->alibi) z += c->opts->alibi[head] * (float)ahead;
    return z;
}

/* Count a key of logit z > -inf, or NaN, in; its weight e^(z - m). */
static inline float pkv__scalar_join(struct pkv__scalar_head *s, float z, int32_t v_dim)
{
    if (z > s->m) {
        const float shrink = expf(s->m - z); /* 0 for the first key */
        s->m = z;
        s->l *= shrink;
        s->shift *= shrink;
        for (int32_t d = 0; d < v_dim; d++) s->o[d] *= shrink;
    }
    const float p = expf(z - s->m);
    s->l += p;
    return p;
}

/* Write out and lse. l is zero exactly if no key had weight: it counts at least 1 from the key that
 * set m. */
static inline void pkv__scalar_finish(const struct pkv__attn_call *c, int64_t row, int32_t head,
                                      struct pkv__scalar_head *s, int32_t v_dim)
{
    const bool empty = s->l == 0.f;
    for (int32_t d = 0; d < v_dim; d++) s->o[d] = empty ? 0.f : (s->o[d] - s->shift) / s->l;
    pkv__store_floats(pkv__tensor_row(c->out, row, head), c->out->dtype, s->o, v_dim);
    if (!c->lse) return;
    float lse = empty ? -INFINITY : s->m + logf(s->l);
    if (c->lse->base2) lse *= PKV__LOG2E;
    c->lse->data[row * c->lse->row_stride + head * c->lse->head_stride] = lse;
}

#endif
