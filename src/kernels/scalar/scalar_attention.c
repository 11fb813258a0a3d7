/* The definition of attention: one pass of online softmax in float32, written to be read.
 *
 * For each kv head and query row, the visible keys are walked in ascending order. Each key's K and
 * V codes are turned into float once and offered to all query heads of the group (scalar_state.h).
 * With value = scale * (code - zero), scales meet scores and weights, not every element:
 *
 *     z = scale * sK * (<q, codes of K> - zK * sum of q)
 *     o = sum of e^(z - m) sV * codes of V  -  shift,   shift = sum of e^(z - m) sV zV
 *
 * Blocks are looked up once per row and only if the row sees a key in them. Levels must agree with
 * this file within docs/numerics.md, and exactly in which keys are seen. */
#include "kernels/scalar/scalar_state.h"

/* One key as the group sees it: codes, and what to do to scores and weights. */
struct key {
    const float *k, *v; /* [k dim], [v dim] codes */
    float k_scale, k_zero, v_scale, v_zero;
    int64_t ahead; /* position minus the row's */
};

/* The logit of a key for query head `head`. */
static float logit(const struct pkv__attn_call *c, int32_t head, const struct key *key,
                   const struct pkv__scalar_head *s)
{
    float z = pkv__scalar_dot(s->q, key->k, c->k->dim);
    if (c->k->zeros.data) z -= key->k_zero * s->q_sum;
    return pkv__scalar_logit(c, head, key->k_scale * z, key->ahead);
}

static void add_key(const struct pkv__attn_call *c, int32_t head, const struct key *key,
                    struct pkv__scalar_head *s)
{
    const float z = logit(c, head, key, s);
    if (z == -INFINITY) return; /* weight zero; also keeps m - z from being inf - inf */
    const float weight = pkv__scalar_join(s, z, c->v->dim) * key->v_scale;
    if (c->v->zeros.data) s->shift += weight * key->v_zero;
    for (int32_t d = 0; d < c->v->dim; d++) s->o[d] += weight * key->v[d];
}

/* The keys in [lo, hi) of one block, whose first key is j0, that row i sees. */
static void add_block(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                      int32_t kv_head, int32_t i, int32_t j0, struct pkv__key_range keys,
                      struct pkv__scalar_head *heads)
{
    float k[PKV__MAX_DIM], v[PKV__MAX_DIM];
    int32_t block = u->ids ? -1 : u->seq; /* contiguous: sequence b is block b */
    for (int32_t j = keys.lo; j < keys.hi; j++) {
        const int32_t token = j - j0;
        if (!pkv__visible_bits(c, u, i, j, 1)) continue;
        if (block < 0) block = pkv__checked_id(c, u, j0 / c->k->block_tokens, c->k->n_blocks);
        pkv__scalar_load_codes(k, pkv__view_row(c->k, block, token, kv_head), c->k->dtype,
                               c->k->dim);
        pkv__scalar_load_codes(v, pkv__view_row(c->v, block, token, kv_head), c->v->dtype,
                               c->v->dim);
        const struct key key = {
            .k = k,
            .v = v,
            .k_scale = pkv__scale_at(&c->k->scales, 1.f, block, token, kv_head),
            .k_zero = pkv__scale_at(&c->k->zeros, 0.f, block, token, kv_head),
            .v_scale = pkv__scale_at(&c->v->scales, 1.f, block, token, kv_head),
            .v_zero = pkv__scale_at(&c->v->zeros, 0.f, block, token, kv_head),
            .ahead = pkv__key_ahead(c, u, i, j),
        };
        for (int32_t r = 0; r < c->group; r++) add_key(c, kv_head * c->group + r, &key, &heads[r]);
    }
}

static void attend_row(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                       int32_t kv_head, int32_t i, struct pkv__scalar_head *heads)
{
    const int32_t bt = c->k->block_tokens, head0 = kv_head * c->group;
    const int64_t row = (int64_t)u->row0 + i;
    const struct pkv__key_range range = pkv__visible_hull(c, u, i);
    for (int32_t r = 0; r < c->group; r++) {
        pkv__load_floats(heads[r].q, pkv__tensor_row(c->q, row, head0 + r), c->q->dtype, c->k->dim);
        heads[r].q_sum = c->k->zeros.data ? pkv__scalar_sum(heads[r].q, c->k->dim) : 0.f;
        pkv__scalar_begin(c, head0 + r, &heads[r], c->v->dim);
    }
    for (int32_t j = range.lo; j < range.hi;) {
        const int32_t j0 = j / bt * bt;
        const int32_t end = range.hi - j0 > bt ? j0 + bt : range.hi;
        add_block(c, u, kv_head, i, j0, (struct pkv__key_range){ j, end }, heads);
        j = end;
    }
    for (int32_t r = 0; r < c->group; r++)
        pkv__scalar_finish(c, row, head0 + r, &heads[r], c->v->dim);
}

void pkv__scalar_attention(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                           void *scratch)
{
    struct pkv__scalar_head *heads = pkv__scalar_place(scratch, c->group, c->k->dim, c->v->dim);
    for (int32_t h = u->kv_head; h < u->kv_head + u->n_kv_heads; h++)
        for (int32_t i = u->row_lo; i < u->row_hi; i++) attend_row(c, u, h, i, heads);
}
