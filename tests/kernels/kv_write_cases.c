/* pkv_kv_write: the whole store, byte by byte, against an image made by the definition. */
#include "check_kernels.h"
#include "hostile_memory.h"
#include "oracle/oracle_numbers.h"
#include "pagedkv/moves.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_TOKENS = 64 };

struct write_setup {
    pkv_tensor3 rows[2]; /* K and V */
    pkv_kv_view views[2];
    struct hostile row_mem[2], store_mem, image, slot_mem;
    int64_t *slots;
    int32_t n_tokens, n_views, n_bad, first_bad;
};

static double draw_value(struct rng *r)
{
    static const double cruel[] = {
        0.0, -0.0, 65504, 65520, 1e30, -3e38, 6e-8, 3e-8, 1e-40, 2.98e-8
    };
    if (rng_chance(r, 15)) return cruel[rng_int(r, 0, 9)];
    if (rng_chance(r, 5)) return rng_chance(r, 50) ? (double)INFINITY : (double)NAN;
    return (double)rng_normal(r) * exp2(rng_int(r, -30, 18));
}

static void draw_rows(struct check *c, struct write_setup *s, int which)
{
    struct rng *r = &c->rng;
    const pkv_kv_view *view = &s->views[which];
    const pkv_dtype dtype = (pkv_dtype)rng_int(r, PKV_F32, PKV_BF16);
    const int64_t step = view->dim + (rng_chance(r, 50) ? 24 : 0);
    pkv_tensor3 *t = &s->rows[which];
    *t = (pkv_tensor3){ NULL, dtype, view->n_heads, view->dim, s->n_tokens, view->n_heads * step,
                        step };
    const int64_t elems =
        s->n_tokens > 0 ? (s->n_tokens - 1) * t->row_stride + (t->n_heads - 1) * step + view->dim
                        : 0;
    s->row_mem[which] = hostile_create((size_t)(elems * oracle_bytes(dtype)), 0xff);
    t->data = s->row_mem[which].data;
    for (int32_t i = 0; i < s->n_tokens; i++)
        for (int32_t h = 0; h < t->n_heads; h++)
            for (int32_t d = 0; d < t->dim; d++)
                oracle_store(dtype, t->data, i * t->row_stride + h * step + d, draw_value(r));
    hostile_lock(&s->row_mem[which]);
}

/* K and V in one store, in one of two orders. */
static void draw_store(struct check *c, struct write_setup *s)
{
    struct rng *r = &c->rng;
    const int32_t elem = oracle_bytes(c->dtype), dim = 8 * rng_int(r, 1, 32);
    pkv_kv_view k = {
        NULL, c->dtype, rng_int(r, 2, 9),  rng_int(r, 1, 20), rng_int(r, 1, 4), dim, 0,
        0,    0,        { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    if (rng_chance(r, 50)) { /* [block][head][K,V][token][dim] */
        k.token_stride = dim;
        k.head_stride = (int64_t)2 * k.block_tokens * dim;
        k.block_stride = k.n_heads * k.head_stride;
    } else { /* [block][token][K,V][head][dim] */
        k.head_stride = dim;
        k.token_stride = (int64_t)2 * k.n_heads * dim;
        k.block_stride = k.block_tokens * k.token_stride;
    }
    const int64_t v_first =
        k.head_stride == dim ? (int64_t)k.n_heads * dim : (int64_t)k.block_tokens * dim;
    const size_t bytes = (size_t)(k.n_blocks * k.block_stride * elem);
    s->store_mem = hostile_create(bytes, 0);
    s->image = hostile_create(bytes, 0);
    for (size_t i = 0; i < bytes; i++) s->store_mem.data[i] = (unsigned char)rng_next(r);
    memcpy(s->image.data, s->store_mem.data, bytes);
    s->views[0] = s->views[1] = k;
    s->views[0].data = s->store_mem.data;
    s->views[1].data = s->store_mem.data + v_first * elem;
}

/* Slots in random order, no slot twice; some skipped, some beyond the store or in block 0. */
static void draw_slots(struct check *c, struct write_setup *s)
{
    struct rng *r = &c->rng;
    const int32_t bt = s->views[0].block_tokens, n = (s->views[0].n_blocks - 1) * bt;
    const bool hostile = rng_chance(r, 40);
    const int64_t beyond[] = { 0, bt - 1, (int64_t)bt + n, INT64_MAX, (INT64_C(1) << 32) + bt };
    int32_t order[9 * 20];
    rng_permutation(r, order, n);
    s->n_tokens = rng_int(r, 0, n < MAX_TOKENS ? n : MAX_TOKENS);
    s->slot_mem = hostile_create((size_t)s->n_tokens * sizeof(int64_t), 0);
    s->slots = (int64_t *)(void *)s->slot_mem.data;
    s->first_bad = -1;
    for (int32_t t = 0; t < s->n_tokens; t++) {
        s->slots[t] = bt + order[t];
        if (rng_chance(r, 15)) s->slots[t] = rng_chance(r, 50) ? -1 : INT64_MIN;
        if (!hostile || rng_chance(r, 85)) continue;
        s->slots[t] = beyond[rng_int(r, 0, 4)];
        if (s->n_bad++ == 0) s->first_bad = t;
    }
    hostile_lock(&s->slot_mem);
}

/* The definition, on the image. Equal types pass bits, NaN payloads included; otherwise a NaN is a
 * NaN, whichever: those elements are copied from the store once it is seen that they are. */
static void write_image(struct check *c, struct write_setup *s)
{
    const int64_t bt = s->views[0].block_tokens, end = s->views[0].n_blocks * bt;
    for (int32_t t = 0; t < s->n_tokens; t++) {
        const int64_t slot = s->slots[t];
        if (slot < bt || slot >= end) continue;
        for (int i = 0; i < s->n_views; i++) {
            const pkv_kv_view *v = &s->views[i];
            const pkv_tensor3 *src = &s->rows[i];
            const int64_t shift = (unsigned char *)v->data - s->store_mem.data;
            for (int32_t h = 0; h < v->n_heads; h++)
                for (int32_t d = 0; d < v->dim; d++) {
                    const int64_t from = t * src->row_stride + h * src->head_stride + d;
                    const int64_t at = slot / bt * v->block_stride + slot % bt * v->token_stride +
                                       h * v->head_stride + d;
                    const double x = oracle_load(src->dtype, src->data, from);
                    const int32_t elem = oracle_bytes(v->dtype);
                    unsigned char *to = s->image.data + shift + at * elem;
                    if (src->dtype == v->dtype)
                        memcpy(to, (char *)src->data + from * elem, (size_t)elem);
                    else if (!isnan(x)) oracle_store(v->dtype, to, 0, x);
                    else if (isnan(oracle_load(v->dtype, v->data, at)))
                        memcpy(to, (char *)v->data + at * elem, (size_t)elem);
                    else
                        check_fail(c, "a NaN of token %d became %g", t,
                                   oracle_load(v->dtype, v->data, at));
                }
        }
    }
}

static void compare(struct check *c, const struct write_setup *s)
{
    for (size_t i = 0; i < s->image.bytes; i++)
        if (s->image.data[i] != s->store_mem.data[i]) {
            check_fail(c, "store differs from the definition at byte %zu (element %zu)", i,
                       i / (size_t)oracle_bytes(c->dtype));
            return;
        }
    CHECK(c, hostile_intact(&s->store_mem), "something was written in front of the store");
}

static void scatter(struct check *c)
{
    struct write_setup s = { .n_views = rng_chance(&c->rng, 80) ? 2 : 1 };
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    uint32_t bad[4] = { 0, 9, 9, 9 };
    draw_store(c, &s);
    draw_slots(c, &s);
    for (int i = 0; i < s.n_views; i++) draw_rows(c, &s, i);
    snprintf(c->shape, sizeof(c->shape),
             "%d tokens, block %d, %d blocks, heads %d dim %d, from %s, "
             "%d bad slots",
             s.n_tokens, s.views[0].block_tokens, s.views[0].n_blocks, s.views[0].n_heads,
             s.views[0].dim, pkv_dtype_name(s.rows[0].dtype), s.n_bad);
    args.k = &s.rows[0];
    args.v = s.n_views == 2 ? &s.rows[1] : NULL;
    args.k_view = &s.views[0];
    args.v_view = s.n_views == 2 ? &s.views[1] : NULL;
    args.slots = s.slots;
    args.bad = rng_chance(&c->rng, 80) ? bad : NULL;
    const pkv_status status = pkv_kv_write(c->be, &args);
    CHECK(c, status == (s.n_bad ? PKV_E_INVALID_ARG : PKV_OK), "status %s with %d bad slots",
          pkv_status_name(status), s.n_bad);
    if (args.bad)
        CHECK(c,
              s.n_bad ? bad[0] == PKV_BAD_SLOT && bad[2] == (uint32_t)s.first_bad &&
                            bad[3] == (s.slots[s.first_bad] < UINT32_MAX
                                           ? (uint32_t)s.slots[s.first_bad]
                                           : UINT32_MAX)
                      : bad[0] == 0 && bad[1] == 9,
              "report %#x %u %u %u, first bad token is %d", (unsigned)bad[0], (unsigned)bad[1],
              (unsigned)bad[2], (unsigned)bad[3], s.first_bad);
    write_image(c, &s);
    compare(c, &s);
    for (int i = 0; i < s.n_views; i++) hostile_destroy(&s.row_mem[i]);
    hostile_destroy(&s.store_mem);
    hostile_destroy(&s.image);
    hostile_destroy(&s.slot_mem);
}

/* KT7: a slot whose element offset lies beyond 2^32. */
static void far_slot(struct check *c)
{
    const int64_t stride = (INT64_C(1) << 31) + 64;
    const int32_t elem = oracle_bytes(c->dtype);
    const size_t bytes = (size_t)((2 * stride + 2 * 8) * elem);
    unsigned char *data = sparse_create(bytes);
    _Alignas(16) float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    pkv_tensor3 k = { x, PKV_F32, 1, 8, 1, 8, 8 };
    pkv_kv_view view = {
        data, c->dtype, 3, 2, 1, 8, stride, 8, 8, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    const int64_t slot = 2 * 2 + 1;
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    if (!data) {
        check_skip(c, "the system gives no address space of %zu bytes", bytes);
        return;
    }
    args.k = &k;
    args.k_view = &view;
    args.slots = &slot;
    CHECK(c, pkv_kv_write(c->be, &args) == PKV_OK, "refused");
    for (int d = 0; d < 8; d++)
        CHECK(c, oracle_load(c->dtype, data, 2 * stride + 8 + d) == d + 1, "dim %d is not there",
              d);
    sparse_destroy(data, bytes);
}

const struct check_case kv_write_cases[] = {
    { "kv_write", "scatter", scatter, 150, 40, true },
    { "kv_write", "far_slot", far_slot, 1, 1, true },
    { NULL, NULL, NULL, 0, 0, false },
};
