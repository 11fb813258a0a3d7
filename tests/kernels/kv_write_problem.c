/* Drawing a problem of kv_write. */
#include "kv_write_problem.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 64 };

bool write_slot_exists(const struct write_problem *p, int32_t t)
{
    const pkv_kv_view *k = &p->stores.views[K];
    const int64_t slot = p->args.slots[t];
    return slot >= k->block_tokens && slot < (int64_t)k->n_blocks * k->block_tokens;
}

bool write_position_fits(const struct write_problem *p, int32_t t)
{
    return !p->args.rope || (p->args.pos[t] >= 0 && p->args.pos[t] < p->args.n_rope_pos);
}

/* Slots in random order or one after the other, no slot twice; some skipped, some beyond the store
 * or in block 0. */
static void draw_slots(struct check *c, struct write_problem *p, bool large)
{
    struct rng *r = &c->rng;
    const pkv_kv_view *k = &p->stores.views[K];
    const int32_t bt = k->block_tokens, n = (k->n_blocks - 1) * bt;
    const bool hostile = rng_chance(r, 30), in_order = rng_chance(r, 40);
    const int64_t beyond[] = { 0, bt - 1, (int64_t)bt + n, INT64_MAX, (INT64_C(1) << 32) + bt };
    int32_t *order = malloc((size_t)n * sizeof(*order));
    rng_permutation(r, order, n);
    p->n_tokens = large ? n : rng_int(r, 0, n < MAX_TOKENS ? n : MAX_TOKENS);
    p->slot_mem = hostile_create((size_t)p->n_tokens * sizeof(int64_t), 0);
    int64_t *slots = (int64_t *)(void *)p->slot_mem.data;
    for (int32_t t = 0; t < p->n_tokens; t++) {
        slots[t] = bt + (in_order ? t : order[t]);
        if (rng_chance(r, 15)) slots[t] = rng_chance(r, 50) ? -1 : INT64_MIN;
        if (hostile && rng_chance(r, 15)) slots[t] = beyond[rng_int(r, 0, 4)];
    }
    free(order);
    hostile_lock(&p->slot_mem);
    p->args.slots = slots;
}

static const float *draw_weights(struct check *c, struct hostile *mem, int32_t dim)
{
    *mem = hostile_create((size_t)dim * sizeof(float), 0);
    float *w = (float *)(void *)mem->data;
    for (int32_t d = 0; d < dim; d++) w[d] = rng_chance(&c->rng, 5) ? 0.f : 2 * rng_normal(&c->rng);
    hostile_lock(mem);
    return w;
}

/* A table as pkv_rope_fill makes it, or of any numbers: nothing says that they lie on a circle. */
static void draw_rope(struct check *c, struct write_problem *p)
{
    struct rng *r = &c->rng;
    const int32_t rot = 2 * rng_int(r, 1, p->stores.views[K].dim / 2);
    const bool circle = rng_chance(r, 70);
    const int32_t n_pos = p->args.n_rope_pos = rng_int(r, 1, 40);
    p->rope_mem = hostile_create((size_t)(n_pos * rot) * sizeof(float), 0);
    float *table = (float *)(void *)p->rope_mem.data;
    for (int32_t i = 0; i < n_pos; i++)
        for (int32_t d = 0; d < rot / 2; d++) {
            const double angle = i * pow(10000, -2.0 * d / rot);
            table[i * rot + d] = circle ? (float)cos(angle) : rng_normal(r);
            table[i * rot + rot / 2 + d] = circle ? (float)sin(angle) : rng_normal(r);
        }
    hostile_lock(&p->rope_mem);
    p->args.rope = table;
    p->args.rot_dim = rot;
    p->args.rope_interleaved = rng_chance(r, 50);
    const bool hostile = rng_chance(r, 30);
    p->pos_mem = hostile_create((size_t)p->n_tokens * sizeof(int32_t), 0);
    int32_t *pos = (int32_t *)(void *)p->pos_mem.data;
    for (int32_t t = 0; t < p->n_tokens; t++) {
        const int32_t wrong[] = { -1, INT_MIN, n_pos, INT_MAX };
        pos[t] = rng_int(r, 0, n_pos - 1);
        if (hostile && write_slot_exists(p, t) && rng_chance(r, 15))
            pos[t] = wrong[rng_int(r, 0, 3)];
    }
    hostile_lock(&p->pos_mem);
    p->args.pos = pos;
}

static void draw_q(struct check *c, struct write_problem *p)
{
    struct rng *r = &c->rng;
    const int32_t heads = rng_int(r, 1, 9), dim = p->stores.views[K].dim;
    kv_draw_rows(c, &p->rows[Q], (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16), p->n_tokens, heads, dim,
                 p->moderate);
    const pkv_tensor3 *q = &p->rows[Q].t;
    p->in_place = rng_chance(r, 40);
    p->q_out = *q;
    if (!p->in_place) {
        const int64_t step = dim + (rng_chance(r, 50) ? 8 : 0);
        const pkv_dtype dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
        p->q_out = (pkv_tensor3){ NULL, dtype, heads, dim, p->n_tokens, heads * step, step };
        if (rng_chance(r, 30)) {
            p->q_out.row_stride = step;
            p->q_out.head_stride = p->n_tokens * step;
        }
    }
    const int64_t elems = p->n_tokens > 0 ? (p->n_tokens - 1) * p->q_out.row_stride +
                                                (heads - 1) * p->q_out.head_stride + dim
                                          : 0;
    p->q_out_mem = twin_create(r, (size_t)oracle_span(p->q_out.dtype, elems));
    p->q_out.data = p->q_out_mem.mem.data;
    if (p->in_place) { /* q lies where q_out does; the rows keep a copy of what came */
        memcpy(p->q_out_mem.mem.data, q->data, p->q_out_mem.mem.bytes);
        memcpy(p->q_out_mem.want.data, q->data, p->q_out_mem.mem.bytes);
    }
}

static void draw_options(struct check *c, struct write_problem *p)
{
    struct rng *r = &c->rng;
    const pkv_kv_view *k = &p->stores.views[K];
    const bool norm = rng_chance(r, 35);
    p->moderate = norm;
    p->with_q = rng_chance(r, 60);
    if (norm) {
        p->args.norm_eps = rng_chance(r, 30) ? 0.f : rng_chance(r, 50) ? 1e-5f : 3.f;
        if (rng_chance(r, 70) || !p->with_q)
            p->args.k_norm = draw_weights(c, &p->norm_mem[K], k->dim);
        if (p->with_q && (!p->args.k_norm || rng_chance(r, 70)))
            p->args.q_norm = draw_weights(c, &p->norm_mem[Q], k->dim);
    }
    if (rng_chance(r, 50)) draw_rope(c, p);
    p->n_valid = p->n_tokens;
    if (!rng_chance(r, 30)) return;
    p->n_valid_arg = rng_chance(r, 30) ? (rng_chance(r, 50) ? INT_MIN : INT_MAX)
                                       : rng_int(r, -2, p->n_tokens + 2);
    p->n_valid = p->n_valid_arg < 0             ? 0
                 : p->n_valid_arg > p->n_tokens ? p->n_tokens
                                                : p->n_valid_arg;
    p->args.n_valid = &p->n_valid_arg;
}

void write_draw(struct check *c, struct write_problem *p, bool large)
{
    struct rng *r = &c->rng;
    *p = (struct write_problem){ .args = PKV_KV_WRITE_ARGS_INIT };
    kv_draw_stores(c, &p->stores, c->dtype, large);
    draw_slots(c, p, large);
    p->offends = calloc((size_t)p->n_tokens + 1, sizeof(bool));
    draw_options(c, p);
    for (int i = 0; i < p->stores.n_views; i++) {
        kv_draw_rows(c, &p->rows[i], (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16), p->n_tokens,
                     p->stores.views[i].n_heads, p->stores.views[i].dim, i == K && p->moderate);
        hostile_lock(&p->rows[i].mem);
    }
    if (p->with_q) draw_q(c, p);
    p->q_in = p->in_place ? p->q_out : p->rows[Q].t;
    if (p->with_q) {
        p->args.q = &p->q_in;
        p->args.q_out = &p->q_out;
    }
    p->args.k = &p->rows[K].t;
    p->args.k_view = &p->stores.views[K];
    p->args.v = p->stores.n_views == 2 ? &p->rows[V].t : NULL;
    p->args.v_view = p->stores.n_views == 2 ? &p->stores.views[V] : NULL;
    snprintf(c->shape, sizeof(c->shape),
             "%d tokens (%d valid), block %d, %d blocks, heads %d dim %d/%d, from %s to %s/%s, "
             "scales %d/%d%s%s%s%s%s",
             p->n_tokens, p->n_valid, p->stores.views[K].block_tokens, p->stores.views[K].n_blocks,
             p->stores.views[K].n_heads, p->stores.views[K].dim, p->stores.views[V].dim,
             pkv_dtype_name(p->rows[K].t.dtype), pkv_dtype_name(p->stores.views[K].dtype),
             pkv_dtype_name(p->stores.views[V].dtype), (int)p->stores.scales[K],
             (int)p->stores.scales[V], p->args.k_norm ? ", k norm" : "",
             p->args.q_norm ? ", q norm" : "", p->args.rope ? ", rope" : "", p->with_q ? ", q" : "",
             p->in_place ? " in place" : "");
}

void write_destroy(struct write_problem *p)
{
    kv_destroy_stores(&p->stores);
    for (int i = 0; i < 3; i++) {
        hostile_destroy(&p->rows[i].mem);
        hostile_destroy(&p->norm_mem[i]);
        free(p->after[i]);
    }
    free(p->offends);
    twin_destroy(&p->q_out_mem);
    hostile_destroy(&p->slot_mem);
    hostile_destroy(&p->pos_mem);
    hostile_destroy(&p->rope_mem);
}
