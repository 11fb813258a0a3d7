/* pkv_blocks_copy and pkv_blocks_zero: the whole pool against an image; refusals move nothing. */
#include "check_kernels.h"
#include "hostile_memory.h"
#include "pagedkv/moves.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pool {
    struct hostile mem, image;
    size_t block_bytes;
    int32_t n_blocks;
};

static struct pool draw_pool(struct check *c)
{
    static const size_t sizes[] = { 1, 7, 64, 512, 513, 4096 };
    struct pool p = { .block_bytes = sizes[rng_int(&c->rng, 0, 5)],
                      .n_blocks = rng_int(&c->rng, 2, 150) };
    const size_t bytes = p.block_bytes * (size_t)p.n_blocks;
    p.mem = hostile_create(bytes, 0);
    p.image = hostile_create(bytes, 0);
    for (size_t i = 0; i < bytes; i++) p.mem.data[i] = (unsigned char)rng_next(&c->rng);
    memcpy(p.image.data, p.mem.data, bytes);
    return p;
}

static void finish(struct check *c, struct pool *p)
{
    CHECK(c, memcmp(p->mem.data, p->image.data, p->mem.bytes) == 0,
          "the pool differs from the definition");
    CHECK(c, hostile_intact(&p->mem), "something was written in front of the pool");
    hostile_destroy(&p->mem);
    hostile_destroy(&p->image);
}

/* The first n of a shuffle are written, from any of the others: no block is both. */
static int32_t draw_copies(struct check *c, const struct pool *p, pkv_block_copy *copies)
{
    int32_t order[150];
    const int32_t n_ids = p->n_blocks - 1, n = n_ids < 2 ? 0 : rng_int(&c->rng, 0, n_ids - 1);
    rng_permutation(&c->rng, order, n_ids);
    for (int32_t i = 0; i < n; i++)
        copies[i] = (pkv_block_copy){ 1 + order[rng_int(&c->rng, n, n_ids - 1)], 1 + order[i],
                                      rng_int(&c->rng, 0, 99), rng_int(&c->rng, 0, 9) };
    return n;
}

/* One thing wrong with the list. */
static void spoil(struct check *c, const struct pool *p, pkv_block_copy *copies, int32_t n)
{
    const int32_t ids[] = { 0, -1, p->n_blocks, INT_MIN, INT_MAX };
    const int32_t i = rng_int(&c->rng, 0, n - 1), j = rng_int(&c->rng, 0, n - 1);
    switch (rng_int(&c->rng, 0, 4)) {
    case 0:
        copies[i].src = ids[rng_int(&c->rng, 0, 4)];
        break;
    case 1:
        copies[i].dst = ids[rng_int(&c->rng, 0, 4)];
        break;
    case 2:
        copies[i].src = copies[j].dst; /* also the block itself, when i is j */
        break;
    case 3:
        copies[i].dst = copies[j].src;
        break;
    default:
        if (i == j) copies[i].src = copies[i].dst;
        else copies[i].dst = copies[j].dst;
    }
}

static void copies(struct check *c)
{
    struct pool p = draw_pool(c);
    pkv_block_copy list[150];
    const int32_t n = draw_copies(c, &p, list);
    const bool wrong = n > 0 && rng_chance(&c->rng, 50);
    if (wrong) spoil(c, &p, list, n);
    snprintf(c->shape, sizeof(c->shape), "%d copies, %d blocks of %zu bytes%s", n, p.n_blocks,
             p.block_bytes, wrong ? ", one wrong" : "");
    for (int32_t i = 0; i < n && !wrong; i++)
        memcpy(p.image.data + (size_t)list[i].dst * p.block_bytes,
               p.image.data + (size_t)list[i].src * p.block_bytes, p.block_bytes);
    const pkv_status status =
        pkv_blocks_copy(c->be, p.mem.data, p.block_bytes, p.n_blocks, n ? list : NULL, n, NULL, 0);
    CHECK(c, status == (wrong ? PKV_E_INVALID_ARG : PKV_OK), "status %s", pkv_status_name(status));
    finish(c, &p);
}

static void zeroing(struct check *c)
{
    struct pool p = draw_pool(c);
    int32_t ids[150];
    const int32_t n = p.n_blocks - 1;
    const bool wrong = rng_chance(&c->rng, 30);
    rng_permutation(&c->rng, ids, n);
    const int32_t n_zero = rng_int(&c->rng, wrong ? 1 : 0, n);
    for (int32_t i = 0; i < n_zero; i++) ids[i]++;
    if (wrong)
        ids[rng_int(&c->rng, 0, n_zero - 1)] =
            (int32_t[]){ 0, -1, p.n_blocks, INT_MIN }[rng_int(&c->rng, 0, 3)];
    snprintf(c->shape, sizeof(c->shape), "%d of %d blocks of %zu bytes%s", n_zero, p.n_blocks,
             p.block_bytes, wrong ? ", one wrong" : "");
    for (int32_t i = 0; i < n_zero && !wrong; i++)
        memset(p.image.data + (size_t)ids[i] * p.block_bytes, 0, p.block_bytes);
    const pkv_status status =
        pkv_blocks_zero(c->be, p.mem.data, p.block_bytes, p.n_blocks, ids, n_zero);
    CHECK(c, status == (wrong ? PKV_E_INVALID_ARG : PKV_OK), "status %s", pkv_status_name(status));
    finish(c, &p);
}

/* KT7: blocks whose byte offset lies beyond 2^32. */
static void far_blocks(struct check *c)
{
    const size_t block = (size_t)1 << 21, n_blocks = 2100;
    unsigned char *data = sparse_create(block * n_blocks);
    if (!data) {
        check_skip(c, "the system gives no address space of %zu bytes", block * n_blocks);
        return;
    }
    const pkv_block_copy list[2] = { { 2099, 2098, 0, 0 }, { 1, 2, 0, 0 } };
    data[2099 * block] = 11;
    data[block] = 22;
    data[2097 * block + 5] = 33;
    CHECK(c, pkv_blocks_copy(c->be, data, block, (int32_t)n_blocks, list, 2, NULL, 0) == PKV_OK,
          "refused");
    CHECK(c, data[2098 * block] == 11 && data[2 * block] == 22, "a far block was not copied");
    CHECK(c,
          pkv_blocks_zero(c->be, data, block, (int32_t)n_blocks, (int32_t[]){ 2097 }, 1) == PKV_OK,
          "refused");
    CHECK(c, data[2097 * block + 5] == 0, "a far block was not zeroed");
    sparse_destroy(data, block * n_blocks);
}

const struct check_case move_cases[] = {
    { "blocks_copy", "copies", copies, 400, 100, false },
    { "blocks_copy", "far", far_blocks, 1, 1, false },
    { "blocks_zero", "zeroing", zeroing, 100, 40, false },
    { NULL, NULL, NULL, 0, 0, false },
};
