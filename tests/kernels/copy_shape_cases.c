/* pkv_blocks_copy with shapes: the first tokens of every layer and head, with their scales and zero
 * points, and not one byte of the others. */
#include "check_device.h"
#include "kv_fixture.h"
#include "pagedkv/moves.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MAX_GROUPS = 3, MAX_BLOCKS = 24 };

struct shaped_pool {
    struct twin pool;
    pkv_kv_shape shapes[MAX_GROUPS];
    int32_t n_shapes, n_blocks;
    size_t block_bytes;
};

static int64_t round_up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

static int64_t row_bytes(const pkv_kv_shape *s)
{
    const int64_t bytes = oracle_span(s->dtype, s->head_dim);
    return oracle_is_code(s->dtype) ? round_up(bytes, 16) : bytes;
}

/* Rows of K or V of one head: what is contiguous in a block. */
static int64_t n_pieces(const pkv_kv_shape *s)
{
    return (int64_t)s->n_layers * s->n_kv_heads * 2;
}

static bool has_scales(const pkv_kv_shape *s)
{
    return oracle_is_code(s->dtype) && s->dtype != PKV_E5M2;
}

static int64_t shape_bytes(const pkv_kv_shape *s)
{
    const int64_t rows = n_pieces(s) * s->block_tokens;
    const int64_t floats = has_scales(s) ? (s->dtype == PKV_U4 ? 2 : 1) : 0;
    return round_up(rows * row_bytes(s) + rows * 4 * floats, 512);
}

static void draw_pool(struct check *c, struct shaped_pool *p)
{
    struct rng *r = &c->rng;
    *p = (struct shaped_pool){ .n_shapes = rng_int(r, 1, MAX_GROUPS),
                               .n_blocks = rng_int(r, 3, MAX_BLOCKS) };
    for (int32_t i = 0; i < p->n_shapes; i++) {
        pkv_kv_shape *s = &p->shapes[i];
        size_t bytes = 0;
        *s = (pkv_kv_shape){ rng_int(r, 1, 3), rng_int(r, 1, 3), 8 * rng_int(r, 1, 12),
                             rng_int(r, 1, 20), i == 0 ? c->dtype : (pkv_dtype)rng_int(r, 0, 6) };
        CHECK(c, pkv_kv_block_bytes(s, &bytes) == PKV_OK && bytes == (size_t)shape_bytes(s),
              "pkv_kv_block_bytes says %zu, want %lld", bytes, (long long)shape_bytes(s));
        if (bytes > p->block_bytes) p->block_bytes = bytes;
    }
    if (rng_chance(r, 30)) p->block_bytes += 512;
    p->pool = twin_create(r, p->block_bytes * (size_t)p->n_blocks);
}

/* Bytes [at, at + n) of a block; `free`: where source and destination are both right. */
static void image_bytes(struct shaped_pool *p, const pkv_block_copy *copy, int64_t at, int64_t n,
                        bool free)
{
    const size_t dst = (size_t)copy->dst * p->block_bytes + (size_t)at;
    const size_t src = (size_t)copy->src * p->block_bytes + (size_t)at;
    for (size_t i = 0; i < (size_t)n; i++)
        if (!free || p->pool.mem.data[dst + i] == p->pool.want.data[src + i])
            p->pool.want.data[dst + i] = p->pool.want.data[src + i];
}

static void image_copy(struct shaped_pool *p, const pkv_block_copy *copy)
{
    const pkv_kv_shape *s = &p->shapes[copy->group];
    const int64_t row = row_bytes(s), used = oracle_span(s->dtype, s->head_dim);
    const int64_t bt = s->block_tokens, pieces = n_pieces(s);
    if (copy->n_tokens == bt) {
        image_bytes(p, copy, 0, (int64_t)p->block_bytes, false);
        return;
    }
    for (int64_t piece = 0; piece < pieces; piece++) {
        for (int32_t t = 0; t < copy->n_tokens; t++) {
            image_bytes(p, copy, (piece * bt + t) * row, used, false);
            image_bytes(p, copy, (piece * bt + t) * row + used, row - used, true);
        }
        const int64_t scales = pieces * bt * row + piece * bt * 4;
        if (has_scales(s)) image_bytes(p, copy, scales, copy->n_tokens * 4, false);
        if (s->dtype == PKV_U4)
            image_bytes(p, copy, scales + pieces * bt * 4, copy->n_tokens * 4, false);
    }
}

/* One thing wrong: a group, a number of tokens, or a block too small for the group's shape. */
static size_t spoil(struct check *c, const struct shaped_pool *p, pkv_block_copy *copy)
{
    const int32_t groups[] = { -1, INT_MIN, p->n_shapes, INT_MAX };
    const int32_t tokens[] = { -1, INT_MIN, p->shapes[copy->group].block_tokens + 1, INT_MAX };
    switch (rng_int(&c->rng, 0, 2)) {
    case 0:
        copy->group = groups[rng_int(&c->rng, 0, 3)];
        return p->block_bytes;
    case 1:
        copy->n_tokens = tokens[rng_int(&c->rng, 0, 3)];
        return p->block_bytes;
    default:
        return (size_t)shape_bytes(&p->shapes[copy->group]) - 16;
    }
}

static void partial(struct check *c)
{
    struct shaped_pool p;
    pkv_block_copy list[MAX_BLOCKS];
    int32_t order[MAX_BLOCKS];
    draw_pool(c, &p);
    const int32_t n_ids = p.n_blocks - 1, n = rng_int(&c->rng, 1, n_ids - 1);
    const bool wrong = rng_chance(&c->rng, 25), split = rng_chance(&c->rng, 30);
    rng_permutation(&c->rng, order, n_ids);
    for (int32_t i = 0; i < n; i++) {
        const int32_t group = rng_int(&c->rng, 0, p.n_shapes - 1);
        const int32_t bt = p.shapes[group].block_tokens;
        list[i] = (pkv_block_copy){ 1 + order[rng_int(&c->rng, n, n_ids - 1)], 1 + order[i],
                                    rng_chance(&c->rng, 20) ? bt : rng_int(&c->rng, 0, bt), group };
    }
    const size_t bytes = wrong ? spoil(c, &p, &list[rng_int(&c->rng, 0, n - 1)]) : p.block_bytes;
    snprintf(c->shape, sizeof(c->shape), "%d copies, %d blocks of %zu bytes, %d shapes%s", n,
             p.n_blocks, p.block_bytes, p.n_shapes, wrong ? ", one thing wrong" : "");
    pkv_backend *be = split ? kv_backend(c, c->isa, 3) : c->be;
    const pkv_status status = pkv_blocks_copy(be, p.pool.mem.data, bytes, p.n_blocks, list, n,
                                              p.shapes, p.n_shapes, NULL);
    check_supported(c, status);
    CHECK(c, status == (wrong ? PKV_E_INVALID_ARG : PKV_OK), "status %s", pkv_status_name(status));
    for (int32_t i = 0; i < n && !wrong; i++) image_copy(&p, &list[i]);
    for (size_t i = 0; i < p.pool.mem.bytes; i++)
        if (p.pool.mem.data[i] != p.pool.want.data[i]) {
            check_fail(c, "byte %zu of block %zu is %02x, want %02x", i % p.block_bytes,
                       i / p.block_bytes, p.pool.mem.data[i], p.pool.want.data[i]);
            break;
        }
    CHECK(c, hostile_intact(&p.pool.mem), "something was written in front of the pool");
    twin_destroy(&p.pool);
    if (split) pkv_backend_destroy(be);
}

const struct check_case copy_shape_cases[] = {
    { "blocks_copy", "partial", partial, 60, 20, TYPED_STORES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
