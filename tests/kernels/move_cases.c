/* pkv_blocks_copy, zero, gather and scatter: the whole pool against an image; refusals move
 * nothing.
 */
#include "check_device.h"
#include "kv_fixture.h"
#include "pagedkv/moves.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BLOCKS = 150 };

struct pool {
    struct twin twin;
    unsigned char *data, *want;
    size_t block_bytes;
    int32_t n_blocks;
};

static struct pool make_pool(struct check *c, size_t block_bytes, int32_t n_blocks)
{
    struct pool p = { .block_bytes = block_bytes, .n_blocks = n_blocks };
    p.twin = twin_create(&c->rng, block_bytes * (size_t)n_blocks);
    p.data = p.twin.mem.data;
    p.want = p.twin.want.data;
    return p;
}

static struct pool draw_pool(struct check *c)
{
    static const size_t sizes[] = { 1, 7, 64, 512, 513, 4096 };
    static const size_t large[] = { 65536, 65537, 70001, 131072 + 64 + 16 };
    /* Sizes from which work is shared among threads, and copies take another way. */
    if (rng_chance(&c->rng, 6))
        return make_pool(c, large[rng_int(&c->rng, 0, 3)], rng_int(&c->rng, 2, 12));
    return make_pool(c, sizes[rng_int(&c->rng, 0, 5)], rng_int(&c->rng, 2, MAX_BLOCKS));
}

static void finish(struct check *c, struct pool *p)
{
    for (size_t i = 0; i < p->twin.mem.bytes; i++)
        if (p->data[i] != p->want[i]) {
            check_fail(c, "byte %zu of block %zu is %02x, want %02x", i % p->block_bytes,
                       i / p->block_bytes, p->data[i], p->want[i]);
            break;
        }
    CHECK(c, hostile_intact(&p->twin.mem), "something was written in front of the pool");
    twin_destroy(&p->twin);
}

/* The first n of a shuffle are written, from any of the others: no block is both. */
static int32_t draw_copies(struct check *c, const struct pool *p, pkv_block_copy *copies)
{
    int32_t order[MAX_BLOCKS];
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

/* The level as it is, or in three tasks. */
static pkv_backend *draw_backend(struct check *c)
{
    return rng_chance(&c->rng, 30) ? kv_backend(c, c->isa, 3) : c->be;
}

static void release_backend(const struct check *c, pkv_backend *be)
{
    if (be != c->be) pkv_backend_destroy(be);
}

static void copies(struct check *c)
{
    struct pool p = draw_pool(c);
    pkv_backend *be = draw_backend(c);
    pkv_block_copy list[MAX_BLOCKS];
    const int32_t n = draw_copies(c, &p, list);
    const bool wrong = n > 0 && rng_chance(&c->rng, 50);
    if (wrong) spoil(c, &p, list, n);
    snprintf(c->shape, sizeof(c->shape), "%d copies, %d blocks of %zu bytes%s", n, p.n_blocks,
             p.block_bytes, wrong ? ", one wrong" : "");
    for (int32_t i = 0; i < n && !wrong; i++)
        memcpy(p.want + (size_t)list[i].dst * p.block_bytes,
               p.want + (size_t)list[i].src * p.block_bytes, p.block_bytes);
    const pkv_status status =
        pkv_blocks_copy(be, p.data, p.block_bytes, p.n_blocks, n ? list : NULL, n, NULL, 0, NULL);
    check_supported(c, status);
    CHECK(c, status == (wrong ? PKV_E_INVALID_ARG : PKV_OK), "status %s", pkv_status_name(status));
    finish(c, &p);
    release_backend(c, be);
}

static void zeroing(struct check *c)
{
    struct pool p = draw_pool(c);
    pkv_backend *be = draw_backend(c);
    int32_t ids[MAX_BLOCKS];
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
        memset(p.want + (size_t)ids[i] * p.block_bytes, 0, p.block_bytes);
    const pkv_status status =
        pkv_blocks_zero(be, p.data, p.block_bytes, p.n_blocks, ids, n_zero, NULL);
    check_supported(c, status);
    CHECK(c, status == (wrong ? PKV_E_INVALID_ARG : PKV_OK), "status %s", pkv_status_name(status));
    finish(c, &p);
    release_backend(c, be);
}

/* ids[i] <-> place i of a buffer. Gathers repeat ids and take the null block; scatters do not. */
static void swaps(struct check *c)
{
    struct pool p = draw_pool(c);
    pkv_backend *be = draw_backend(c);
    const bool out = rng_chance(&c->rng, 50), wrong = rng_chance(&c->rng, 30);
    const int32_t n_ids = p.n_blocks - 1, n = rng_int(&c->rng, wrong ? 1 : 0, n_ids);
    const int32_t bad_ids[] = { -1, INT_MIN, INT_MAX, p.n_blocks, 0 };
    int32_t ids[MAX_BLOCKS];
    struct twin flat = twin_create(&c->rng, (size_t)n * p.block_bytes);
    rng_permutation(&c->rng, ids, n_ids);
    for (int32_t i = 0; i < n; i++) ids[i] = out ? rng_int(&c->rng, 0, n_ids) : ids[i] + 1;
    if (wrong) ids[rng_int(&c->rng, 0, n - 1)] = bad_ids[rng_int(&c->rng, 0, out ? 3 : 4)];
    if (wrong && !out && n >= 2 && rng_chance(&c->rng, 40)) ids[0] = ids[n - 1];
    for (int32_t i = 0; i < n && !wrong; i++) {
        unsigned char *block = p.want + (size_t)ids[i] * p.block_bytes;
        unsigned char *place = flat.want.data + (size_t)i * p.block_bytes;
        memcpy(out ? place : block, out ? block : place, p.block_bytes);
    }
    snprintf(c->shape, sizeof(c->shape), "%s %d of %d blocks of %zu bytes%s",
             out ? "gather" : "scatter", n, p.n_blocks, p.block_bytes, wrong ? ", one wrong" : "");
    const pkv_status status =
        out ? pkv_blocks_gather(be, p.data, p.block_bytes, p.n_blocks, ids, n, flat.mem.data, NULL)
            : pkv_blocks_scatter(be, flat.mem.data, ids, n, p.data, p.block_bytes, p.n_blocks,
                                 NULL);
    check_supported(c, status);
    CHECK(c, status == (wrong ? PKV_E_INVALID_ARG : PKV_OK), "status %s", pkv_status_name(status));
    CHECK(c,
          memcmp(flat.mem.data, flat.want.data, flat.mem.bytes) == 0 && hostile_intact(&flat.mem),
          "the buffer differs from the definition");
    twin_destroy(&flat);
    finish(c, &p);
    release_backend(c, be);
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
    const pkv_status copied = check_supported(
        c, pkv_blocks_copy(c->be, data, block, (int32_t)n_blocks, list, 2, NULL, 0, NULL));
    CHECK(c, copied == PKV_OK, "status %s", pkv_status_name(copied));
    CHECK(c, data[2098 * block] == 11 && data[2 * block] == 22, "a far block was not copied");
    CHECK(c,
          pkv_blocks_zero(c->be, data, block, (int32_t)n_blocks, (int32_t[]){ 2097 }, 1, NULL) ==
              PKV_OK,
          "refused");
    CHECK(c, data[2097 * block + 5] == 0, "a far block was not zeroed");
    unsigned char *flat = malloc(block);
    hostile_lend(flat, block);
    const int32_t from = 2098, to = 2096;
    CHECK(
        c,
        pkv_blocks_gather(c->be, data, block, (int32_t)n_blocks, &from, 1, flat, NULL) == PKV_OK &&
            pkv_blocks_scatter(c->be, flat, &to, 1, data, block, (int32_t)n_blocks, NULL) == PKV_OK,
        "refused");
    CHECK(c, flat[0] == 11 && data[2096 * block] == 11, "a far block was not fetched or put back");
    hostile_unlend(flat);
    free(flat);
    sparse_destroy(data, block * n_blocks);
}

static void *no_memory(void *ctx, size_t bytes, size_t align)
{
    bool *refuses = ctx;
    return *refuses ? NULL : aligned_alloc(align < 64 ? 64 : align, (bytes + 63) / 64 * 64);
}

static void give_back(void *ctx, void *ptr, size_t bytes)
{
    (void)ctx, (void)bytes;
    free(ptr);
}

/* More than 32 blocks are compared in memory of the backend's allocator; without it, nothing moves.
 */
static void out_of_memory(struct check *c)
{
    enum { N = 33 };
    if (check_on_device(c)) check_stop(c, "the check is the host's; another level has it");
    bool refuses = false;
    pkv_backend *be = NULL;
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    struct pool p = make_pool(c, 64, 2 * N + 1);
    struct twin flat = twin_create(&c->rng, N * p.block_bytes);
    pkv_block_copy list[N];
    int32_t ids[N];
    cfg.max_isa = c->isa;
    cfg.alloc = (pkv_allocator){ no_memory, give_back, &refuses };
    CHECK(c, pkv_backend_create_cpu(&cfg, &be) == PKV_OK, "no backend");
    for (int32_t i = 0; i < N && be; i++) {
        ids[i] = 1 + i;
        list[i] = (pkv_block_copy){ 1 + N + i, 1 + i, 0, 0 };
    }
    refuses = true;
    for (int32_t n = N - 1; n <= N && be; n++) {
        const pkv_status want = n > 32 ? PKV_E_NO_MEMORY : PKV_OK;
        for (int32_t i = 0; i < n && n <= 32; i++)
            memcpy(p.want + (size_t)ids[i] * 64, flat.mem.data + (size_t)i * 64, 64);
        const pkv_status copy = pkv_blocks_copy(be, p.data, 64, p.n_blocks, list, n, NULL, 0, NULL);
        const pkv_status scatter =
            pkv_blocks_scatter(be, flat.mem.data, ids, n, p.data, 64, p.n_blocks, NULL);
        CHECK(c, copy == want && scatter == want, "%d blocks: %s and %s", n, pkv_status_name(copy),
              pkv_status_name(scatter));
    }
    refuses = false;
    pkv_backend_destroy(be);
    twin_destroy(&flat);
    finish(c, &p);
}

const struct check_case move_cases[] = {
    { "blocks_copy", "copies", copies, 400, 100, UNTYPED },
    { "blocks_copy", "far", far_blocks, 1, 1, UNTYPED },
    { "blocks_copy", "out_of_memory", out_of_memory, 1, 1, UNTYPED },
    { "blocks_zero", "zeroing", zeroing, 100, 40, UNTYPED },
    { "blocks_gather", "swaps", swaps, 200, 60, UNTYPED },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
