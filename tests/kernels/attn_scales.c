/* Scales and zero points of attention problems. */
#include "attn_problem.h"

#include <math.h>
#include <stdlib.h>

void attn_set_scales(struct attn_problem *p, enum attn_per scales, enum attn_per zeros,
                     enum attn_scale_values values)
{
    const pkv_dtype v_dtype = attn_v_dtype(p);
    p->k_scale.per = attn_is_codes(p->kv_dtype) ? scales : PER_NONE;
    p->v_scale.per = attn_is_codes(v_dtype) ? scales : PER_NONE;
    p->k_zero.per = p->kv_dtype == PKV_U4 ? zeros : PER_NONE;
    p->v_zero.per = v_dtype == PKV_U4 ? zeros : PER_NONE;
    p->scale_values = values;
}

void attn_draw_scales(struct check *c, struct attn_problem *p)
{
    struct rng *r = &c->rng;
    struct attn_numbers *all[] = { &p->k_scale, &p->v_scale, &p->k_zero, &p->v_zero };
    const enum attn_per per = (enum attn_per)rng_int(r, 0, PER_N - 1);
    const bool alike = rng_chance(r, 60);
    for (int i = 0; i < 4; i++) {
        all[i]->per = alike ? per : (enum attn_per)rng_int(r, 0, PER_N - 1);
        const pkv_dtype dtype = i % 2 ? attn_v_dtype(p) : p->kv_dtype;
        if (!attn_is_codes(dtype) || (i >= 2 && dtype != PKV_U4)) all[i]->per = PER_NONE;
    }
    p->scale_values = rng_chance(r, 85)   ? SCALE_USUAL
                      : rng_chance(r, 50) ? SCALE_TINY
                                          : SCALE_EXACT;
}

/* The next prime number; after 251 from 2 again. */
static float next_prime(int32_t *last)
{
    for (*last = *last < 251 ? *last + 1 : 2;; ++*last) {
        bool prime = true;
        for (int32_t d = 2; d * d <= *last; d++) prime = prime && *last % d != 0;
        if (prime) return (float)*last;
    }
}

/* int8 and int4 have codes of a unit of 1 / 40 and 1 / 4, and int4 a middle of 7.5. */
static float draw_number(struct rng *r, const struct attn_problem *p, pkv_dtype dtype, bool zero,
                         int32_t *prime)
{
    const float unit = dtype == PKV_I8 ? 0.025f : dtype == PKV_U4 ? 0.25f : 1.f;
    const float sign = rng_chance(r, 12) ? -1.f : 1.f, x = rng_signed(r);
    switch (p->scale_values) {
    case SCALE_EXACT:
        return zero ? (float)rng_int(r, -4, 15) : sign * ldexpf(1.f, rng_int(r, -4, 2));
    case SCALE_PRIME:
        return next_prime(prime);
    case SCALE_TINY:
        return zero ? 7.5f + 4.f * x : sign * ldexpf(1.5f + 0.5f * x, rng_int(r, -110, -60));
    default:
        return zero ? 7.5f + 4.f * x : sign * unit * exp2f(x);
    }
}

/* Does key j start another number for a head? */
static bool changes(enum attn_per per, const struct attn_problem *p, int32_t j, int32_t head)
{
    if (per == PER_BLOCK) return j % p->block_tokens == 0 && head == 0;
    if (per == PER_TOKEN) return head == 0;
    return per == PER_TOKEN_HEAD;
}

static void fill_numbers(struct rng *r, const struct attn_problem *p, struct attn_numbers *n,
                         int32_t *prime)
{
    const bool of_v = n == &p->v_scale || n == &p->v_zero;
    const bool zero = n == &p->k_zero || n == &p->v_zero;
    const pkv_dtype dtype = of_v ? attn_v_dtype(p) : p->kv_dtype;
    const int32_t heads = of_v ? attn_v_heads(p) : p->n_kv_heads;
    const bool by_head = n->per == PER_HEAD || n->per == PER_TOKEN_HEAD;
    float now[ATTN_MAX_HEADS]; /* one for all heads: now[0] */
    if (n->per == PER_NONE) return;
    for (int32_t h = 0; h < heads; h++) now[h] = draw_number(r, p, dtype, zero, prime);
    for (int32_t b = 0; b < p->n_seqs; b++) {
        const int32_t from = p->shared_with[b];
        const int32_t shared = from < 0 ? 0 : p->shared_blocks[b] * p->block_tokens;
        n->of[b] = malloc((size_t)p->kv_len[b] * (size_t)heads * sizeof(float) + 1);
        if (!n->of[b]) exit(2);
        for (int32_t j = 0; j < p->kv_len[b]; j++)
            for (int32_t h = 0; h < heads; h++) {
                float *x = now + (by_head ? h : 0);
                if (changes(n->per, p, j, h)) *x = draw_number(r, p, dtype, zero, prime);
                n->of[b][j * heads + h] = j < shared ? n->of[from][j * heads + h] : *x;
            }
    }
}

void attn_fill_scales(struct check *c, struct attn_problem *p)
{
    int32_t prime = 1;
    fill_numbers(&c->rng, p, &p->k_scale, &prime);
    fill_numbers(&c->rng, p, &p->v_scale, &prime);
    fill_numbers(&c->rng, p, &p->k_zero, &prime);
    fill_numbers(&c->rng, p, &p->v_zero, &prime);
}
