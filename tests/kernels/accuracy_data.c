/* Distributions of keys and values. */
#include "accuracy_data.h"
#include "case_random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 512, Q_HEADS = 8, KV_HEADS = 4, DIM = 64 };

static float *room(int64_t n)
{
    float *p = malloc((size_t)n * sizeof(*p));
    if (!p) {
        fprintf(stderr, "accuracy: no memory\n");
        exit(2);
    }
    return p;
}

/* What is different about one number: `row` is drawn once per token and head. */
static double draw(struct rng *r, enum accuracy_kind kind, bool of_k, int32_t t, int32_t d,
                   double row)
{
    const double x = (double)rng_normal(r);
    switch (kind) {
    case DATA_OUTLIER_CHANNELS:
        if (of_k) return d == 5 || d == 41 ? 30 * x : x;
        return d == 7 ? 10 * x : x;
    case DATA_OUTLIER_TOKENS:
        return t % 64 == 0 ? 50 * x : x;
    case DATA_CONSTANT_ROWS:
        return row + 1e-3 * x;
    case DATA_WIDE_TOKENS:
        return x * exp2((t * 8) % 21 - 10);
    case DATA_TINY:
        return x * 1e-20;
    case DATA_HEAVY_TAILS: /* normal over the root of an exponential of mean 1 */
        return x / sqrt(-log(0.5 + 0.5 * (double)rng_signed(r) + 0x1p-25));
    default:
        return x;
    }
}

static float *fill(struct rng *r, enum accuracy_kind kind, bool of_k)
{
    float *rows = room((int64_t)TOKENS * KV_HEADS * DIM), *p = rows;
    for (int32_t t = 0; t < TOKENS; t++)
        for (int32_t h = 0; h < KV_HEADS; h++) {
            const double row = (double)rng_normal(r);
            for (int32_t d = 0; d < DIM; d++) *p++ = (float)draw(r, kind, of_k, t, d, row);
        }
    return rows;
}

struct accuracy_set accuracy_make(enum accuracy_kind kind)
{
    static const char *const names[] = { "normal",        "outlier channels", "outlier tokens",
                                         "constant rows", "wide tokens",      "tiny",
                                         "heavy tails" };
    struct rng r = { 1000 + (uint64_t)kind };
    struct accuracy_set s = { names[kind], TOKENS, Q_HEADS, KV_HEADS, DIM, NULL, NULL, NULL };
    s.k = fill(&r, kind, true);
    s.v = fill(&r, kind, false);
    s.q = room((int64_t)TOKENS * Q_HEADS * DIM);
    for (int64_t i = 0; i < (int64_t)TOKENS * Q_HEADS * DIM; i++) s.q[i] = rng_normal(&r);
    return s;
}

static float *copy_of(const float *from, int64_t n)
{
    float *to = room(n);
    memcpy(to, from, (size_t)n * sizeof(*to));
    return to;
}

struct accuracy_set accuracy_layer(const struct kv_dump *d, int32_t layer)
{
    const int64_t kv = (int64_t)d->n_tokens * d->n_kv_heads * d->dim;
    return (struct accuracy_set){ "dump",
                                  d->n_tokens,
                                  d->n_q_heads,
                                  d->n_kv_heads,
                                  d->dim,
                                  copy_of(kv_dump_k(d, layer), kv),
                                  copy_of(kv_dump_v(d, layer), kv),
                                  copy_of(kv_dump_q(d, layer),
                                          (int64_t)d->n_tokens * d->n_q_heads * d->dim) };
}

void accuracy_free(struct accuracy_set *s)
{
    free(s->k);
    free(s->v);
    free(s->q);
    *s = (struct accuracy_set){ 0 };
}
