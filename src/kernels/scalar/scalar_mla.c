/* The definition of latent attention: attention with one kv head, whose key of token j is the
 * latent c_j with the rotary part r_j behind it, and whose value is c_j alone.
 *
 *   latent   | part 0 | part 1 | ...     n_heads parts of dim, each with a scale of its own
 *   key      | c = all parts as values           | r |
 *   value    | c                                 |
 *
 * Since a row has several scales, it is turned into values, once for all query heads. */
#include "kernels/mla_units.h"
#include "kernels/scalar/scalar_state.h"

static int32_t latent_dim(const struct pkv__mla_call *c)
{
    return c->attn.k->n_heads * c->attn.k->dim;
}

/* One row of a view as values: scale * (code - zero). */
static void load_values(float *dst, const pkv_kv_view *view, int32_t block, int32_t token,
                        int32_t head)
{
    const float scale = pkv__scale_at(&view->scales, 1.f, block, token, head);
    const float zero = pkv__scale_at(&view->zeros, 0.f, block, token, head);
    pkv__scalar_load_codes(dst, pkv__view_row(view, block, token, head), view->dtype, view->dim);
    if (view->dtype <= PKV_BF16) return;
    for (int32_t d = 0; d < view->dim; d++) dst[d] = scale * (dst[d] - zero);
}

static void load_key(float *key, const struct pkv__mla_call *c, int32_t block, int32_t token)
{
    const pkv_kv_view *latent = c->attn.k;
    for (int32_t part = 0; part < latent->n_heads; part++)
        load_values(key + part * latent->dim, latent, block, token, part);
    load_values(key + latent_dim(c), c->rope, block, token, 0);
}

static void add_key(const struct pkv__mla_call *c, int32_t head, const float *key, int64_t ahead,
                    struct pkv__scalar_head *s)
{
    const int32_t v_dim = latent_dim(c), k_dim = v_dim + c->rope->dim;
    const float z = pkv__scalar_logit(&c->attn, head, pkv__scalar_dot(s->q, key, k_dim), ahead);
    if (z == -INFINITY) return;
    const float p = pkv__scalar_join(s, z, v_dim);
    for (int32_t d = 0; d < v_dim; d++) s->o[d] += p * key[d];
}

static void attend_row(const struct pkv__mla_call *c, const struct pkv__attn_unit *u, int32_t i,
                       struct pkv__scalar_head *heads)
{
    const struct pkv__attn_call *a = &c->attn;
    const int32_t v_dim = latent_dim(c), bt = a->k->block_tokens;
    const int64_t row = (int64_t)u->row0 + i;
    const struct pkv__key_range range = pkv__visible_hull(a, u, i);
    float key[PKV__MAX_LATENT + PKV__MAX_ROPE];
    int32_t entry = -1, block = u->seq; /* contiguous: sequence b is block b */
    for (int32_t h = 0; h < a->group; h++) {
        pkv__load_floats(heads[h].q, pkv__tensor_row(a->q, row, h), a->q->dtype, v_dim);
        pkv__load_floats(heads[h].q + v_dim, pkv__tensor_row(c->q_rope, row, h), c->q_rope->dtype,
                         c->rope->dim);
        pkv__scalar_begin(a, h, &heads[h], v_dim);
    }
    for (int32_t j = range.lo; j < range.hi; j++) {
        if (!pkv__visible_bits(a, u, i, j, 1)) continue;
        if (u->ids && j / bt != entry) {
            entry = j / bt;
            block = pkv__checked_id(a, u, entry, a->k->n_blocks);
        }
        load_key(key, c, block, j % bt);
        for (int32_t h = 0; h < a->group; h++)
            add_key(c, h, key, pkv__key_ahead(a, u, i, j), &heads[h]);
    }
    for (int32_t h = 0; h < a->group; h++) pkv__scalar_finish(a, row, h, &heads[h], v_dim);
}

void pkv__scalar_mla(const struct pkv__mla_call *c, const struct pkv__attn_unit *u, void *scratch)
{
    const int32_t v_dim = latent_dim(c);
    struct pkv__scalar_head *heads =
        pkv__scalar_place(scratch, c->attn.group, v_dim + c->rope->dim, v_dim);
    for (int32_t i = u->row_lo; i < u->row_hi; i++) attend_row(c, u, i, heads);
}
