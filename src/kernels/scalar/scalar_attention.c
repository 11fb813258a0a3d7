/* The definition of attention: one pass of online softmax in float32, written to be read.
 *
 * For each query row, the visible keys are walked in ascending order. Each key's K and V are turned
 * into float once and offered to all query heads of the group, which keep a running maximum m, the
 * sum l of e^(z - m), and the weighted sum o of values (Milakov and Gimelshein, arXiv 1805.02867):
 *
 *   workspace   q [group][k dim]   o [group][v dim]   m [group]   l [group]      all float
 *
 * Blocks are looked up once per row and only if the row sees a key in them. Levels must agree with
 * this file within docs/numerics.md, and exactly in which keys are seen. */
#include "common/number_format.h"
#include "kernels/kernels_internal.h"

enum { LANES = 8 }; /* every dim is a multiple: partial sums let compilers use vectors */

struct row_state {
    float *q, *o, *m, *l;
};

static struct row_state place_state(const struct pkv__attn_call *c, void *workspace)
{
    struct row_state s;
    s.q = (float *)workspace;
    s.o = s.q + (size_t)c->group * (size_t)c->k->dim;
    s.m = s.o + (size_t)c->group * (size_t)c->v->dim;
    s.l = s.m + c->group;
    return s;
}

static const void *tensor_row(const pkv_tensor3 *t, int64_t row, int32_t head)
{
    const int64_t at = row * t->row_stride + head * t->head_stride;
    return (const char *)t->data + at * pkv__elem_bytes(t->dtype);
}

static const void *kv_row(const pkv_kv_view *view, int32_t block, int32_t token, int32_t head)
{
    const int64_t at =
        block * view->block_stride + token * view->token_stride + head * view->head_stride;
    return (const char *)view->data + at * pkv__elem_bytes(view->dtype);
}

static float dot(const float *a, const float *b, int32_t n)
{
    float part[LANES] = { 0.f };
    for (int32_t d = 0; d < n; d += LANES)
        for (int32_t e = 0; e < LANES; e++) part[e] += a[d + e] * b[d + e];
    return ((part[0] + part[4]) + (part[2] + part[6])) +
           ((part[1] + part[5]) + (part[3] + part[7]));
}

/* A sink is a logit without a value: the row starts as if it had seen that key. */
static void begin_row(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                      struct row_state *s)
{
    for (int32_t r = 0; r < c->group; r++) {
        const int32_t head = u->kv_head * c->group + r;
        const float sink = c->opts->sink ? c->opts->sink[head] : -INFINITY;
        pkv__load_floats(s->q + r * c->k->dim, tensor_row(c->q, u->row0 + i, head), c->q->dtype,
                         c->k->dim);
        s->m[r] = sink;
        s->l[r] = sink > -INFINITY ? 1.f : 0.f;
    }
    for (int32_t d = 0; d < c->group * c->v->dim; d++) s->o[d] = 0.f;
}

/* One key for head r of the group. `ahead` is the key's position minus the row's. */
static void add_key(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t r,
                    int64_t ahead, const float *k, const float *v, struct row_state *s)
{
    const int32_t n = c->v->dim;
    float *o = s->o + r * n;
    float z = c->scale * dot(s->q + r * c->k->dim, k, c->k->dim);
    if (c->opts->softcap > 0.f) z = c->opts->softcap * tanhf(z / c->opts->softcap);
    if (c->opts->alibi) z += c->opts->alibi[u->kv_head * c->group + r] * (float)ahead;
    if (z == -INFINITY) return; /* weight zero; also keeps m - z from being inf - inf */
    if (z > s->m[r]) {
        const float shrink = expf(s->m[r] - z); /* 0 for the first key */
        s->m[r] = z;
        s->l[r] *= shrink;
        for (int32_t d = 0; d < n; d++) o[d] *= shrink;
    }
    const float p = expf(z - s->m[r]);
    s->l[r] += p;
    for (int32_t d = 0; d < n; d++) o[d] += p * v[d];
}

/* l is zero exactly if no key had weight: it counts at least 1 from the key that set m. */
static void finish_row(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i,
                       struct row_state *s)
{
    for (int32_t r = 0; r < c->group; r++) {
        const int32_t head = u->kv_head * c->group + r, n = c->v->dim;
        const int64_t row = u->row0 + i;
        float *o = s->o + r * n;
        const bool empty = s->l[r] == 0.f;
        for (int32_t d = 0; d < n; d++) o[d] = empty ? 0.f : o[d] / s->l[r];
        const int64_t at = row * c->out->row_stride + head * c->out->head_stride;
        pkv__store_floats((char *)c->out->data + at * pkv__elem_bytes(c->out->dtype), c->out->dtype,
                          o, n);
        if (!c->lse) continue;
        float lse = empty ? -INFINITY : s->m[r] + logf(s->l[r]);
        if (c->lse->base2) lse *= PKV__LOG2E;
        c->lse->data[row * c->lse->row_stride + head * c->lse->head_stride] = lse;
    }
}

/* Position of row i, and of key j as row positions order it, relative to the sequence's key 0. */
static int64_t row_pos(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t i)
{
    if (c->batch->q_pos) return (int64_t)c->batch->q_pos[u->row0 + i] - u->pos0;
    return (int64_t)u->kv_len - u->q_len + i;
}

static int64_t key_pos(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int32_t j)
{
    const int64_t i = (int64_t)j - ((int64_t)u->kv_len - u->q_len); /* the row that wrote key j */
    if (c->batch->q_pos && i >= 0) return (int64_t)c->batch->q_pos[u->row0 + i] - u->pos0;
    return j;
}

static bool sees(const pkv_attn_opts *o, int64_t ahead)
{
    return (!o->causal || ahead <= 0) && (o->window_left < 0 || -ahead <= o->window_left) &&
           (o->window_right < 0 || ahead <= o->window_right);
}

/* The keys in [lo, hi) of one block, whose first key is j0. */
static void add_block(const struct pkv__attn_call *c, const struct pkv__attn_unit *u, int64_t at,
                      int32_t j0, struct pkv__key_range keys, struct row_state *s)
{
    float k[PKV__MAX_DIM], v[PKV__MAX_DIM];
    int32_t block = u->ids ? -1 : u->seq; /* contiguous: sequence b is block b */
    for (int32_t j = keys.lo; j < keys.hi; j++) {
        const int64_t ahead = key_pos(c, u, j) - at;
        if (!sees(c->opts, ahead)) continue;
        if (block < 0) block = pkv__checked_id(c, u, j0 / c->k->block_tokens, c->k->n_blocks);
        pkv__load_floats(k, kv_row(c->k, block, j - j0, u->kv_head), c->k->dtype, c->k->dim);
        pkv__load_floats(v, kv_row(c->v, block, j - j0, u->kv_head), c->v->dtype, c->v->dim);
        for (int32_t r = 0; r < c->group; r++) add_key(c, u, r, ahead, k, v, s);
    }
}

void pkv__scalar_attention(const struct pkv__attn_call *c, const struct pkv__attn_unit *u,
                           void *workspace)
{
    struct row_state s = place_state(c, workspace);
    const int32_t bt = c->k->block_tokens;
    for (int32_t i = u->row_lo; i < u->row_hi; i++) {
        /* Given positions need not be in order, so that visibility is asked key by key. */
        const struct pkv__key_range all = { 0, u->kv_len };
        const struct pkv__key_range range = c->batch->q_pos ? all : pkv__visible_keys(c, u, i);
        const int64_t at = row_pos(c, u, i);
        begin_row(c, u, i, &s);
        for (int32_t j = range.lo; j < range.hi;) {
            const int32_t j0 = j / bt * bt;
            const int32_t end = range.hi - j0 > bt ? j0 + bt : range.hi;
            add_block(c, u, at, j0, (struct pkv__key_range){ j, end }, &s);
            j = end;
        }
        finish_row(c, u, i, &s);
    }
}
