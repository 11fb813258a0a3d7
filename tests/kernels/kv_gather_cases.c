/* pkv_kv_gather: rows out of stores of every type and layout, all of `out` against an image. */
#include "check_device.h"
#include "coverage.h"
#include "kv_fixture.h"
#include "pagedkv/moves.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ROWS = 80 };

struct gather_problem {
    struct kv_stores stores;
    const pkv_kv_view *view;
    struct twin out_mem;
    pkv_tensor3 out;
    struct hostile slot_mem;
    const int64_t *slots;
    int32_t n_rows;
    uint32_t want_bad[4];
};

/* Any slot, any number of times, often the one behind the last; the null block's
 * too; some skipped, some beyond the store. */
static void draw_slots(struct check *c, struct gather_problem *p, bool large)
{
    struct rng *r = &c->rng;
    const int64_t n = (int64_t)p->view->n_blocks * p->view->block_tokens;
    const int64_t beyond[] = { n, INT64_MAX, (INT64_C(1) << 32) + 1 };
    const bool hostile = rng_chance(r, 30);
    const int32_t follow =
        rng_chance(r, 30) ? 0 : rng_int(r, 50, 100); /* percent: the slot behind */
    p->n_rows = large ? 2 * (int32_t)n : rng_int(r, 0, MAX_ROWS);
    p->slot_mem = hostile_create((size_t)p->n_rows * sizeof(int64_t), 0);
    int64_t *slots = (int64_t *)(void *)p->slot_mem.data;
    for (int32_t i = 0; i < p->n_rows; i++) {
        slots[i] = rng_int(r, 0, (int32_t)n - 1);
        if (i > 0 && slots[i - 1] >= 0 && slots[i - 1] < n - 1 && rng_chance(r, follow))
            slots[i] = slots[i - 1] + 1;
        if (rng_chance(r, 10)) slots[i] = rng_chance(r, 50) ? -1 : INT64_MIN;
        if (!hostile || rng_chance(r, 85)) continue;
        slots[i] = beyond[rng_int(r, 0, 2)];
        if (p->want_bad[0]) continue;
        p->want_bad[0] = PKV_BAD_SLOT;
        p->want_bad[2] = (uint32_t)i;
        p->want_bad[3] = slots[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)slots[i];
    }
    hostile_lock(&p->slot_mem);
    p->slots = slots;
}

static void draw_out(struct check *c, struct gather_problem *p)
{
    const pkv_kv_view *v = p->view;
    const int64_t step = v->dim + (rng_chance(&c->rng, 50) ? 8 : 0);
    const pkv_dtype dtype = (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16);
    pkv_tensor3 *t = &p->out;
    *t = (pkv_tensor3){ NULL, dtype, v->n_heads, v->dim, p->n_rows, v->n_heads * step, step };
    if (rng_chance(&c->rng, 30)) {
        t->row_stride = step;
        t->head_stride = p->n_rows * step;
    }
    const int64_t elems =
        p->n_rows > 0 ? (p->n_rows - 1) * t->row_stride + (v->n_heads - 1) * t->head_stride + v->dim
                      : 0;
    p->out_mem = twin_create(&c->rng, (size_t)oracle_span(dtype, elems));
    t->data = p->out_mem.mem.data;
}

static void image_row(struct check *c, struct gather_problem *p, int32_t i, int32_t h)
{
    const pkv_kv_view *v = p->view;
    const unsigned char *row = kv_row(v, p->slots[i], h);
    const float *scale = kv_scale(&v->scales, v, p->slots[i], h);
    const float *zero = kv_scale(&v->zeros, v, p->slots[i], h);
    const unsigned char *got = kv_tensor_row(&p->out, i, h);
    unsigned char *want = twin_want(&p->out_mem, got);
    const size_t elem = (size_t)oracle_bytes(p->out.dtype);
    if (v->dtype == p->out.dtype) {
        memcpy(want, row, (size_t)v->dim * elem);
        return;
    }
    for (int32_t d = 0; d < v->dim; d++) {
        float x = (float)oracle_load(v->dtype, row, d);
        if (oracle_is_code(v->dtype)) x = (scale ? *scale : 1.f) * (x - (zero ? *zero : 0.f));
        if (!isnan(x)) oracle_store(p->out.dtype, want, d, (double)x);
        else if (isnan(oracle_load(p->out.dtype, got, d)))
            memcpy(want + (size_t)d * elem, got + (size_t)d * elem, elem);
        else
            check_fail(c, "a NaN of row %d head %d dim %d became %g", i, h, d,
                       oracle_load(p->out.dtype, got, d));
    }
}

static void compare(struct check *c, const struct gather_problem *p)
{
    const struct twin *t = &p->out_mem;
    for (size_t i = 0; i < t->mem.bytes; i++)
        if (t->mem.data[i] != t->want.data[i]) {
            check_fail(c, "out: byte %zu of %zu is %02x, want %02x", i, t->mem.bytes,
                       t->mem.data[i], t->want.data[i]);
            break;
        }
    CHECK(c, hostile_intact(&t->mem), "something was written in front of out");
    kv_compare_stores(c, &p->stores);
}

/* The image of all rows, then the comparison with what is there. */
static void judge_rows(struct check *c, struct gather_problem *p)
{
    const int64_t end = (int64_t)p->view->n_blocks * p->view->block_tokens;
    for (int32_t i = 0; i < p->n_rows; i++)
        for (int32_t h = 0; h < p->view->n_heads; h++)
            if (p->slots[i] >= 0 && p->slots[i] < end) image_row(c, p, i, h);
    compare(c, p);
}

/* Of a device any slot beyond the store. */
static void judge_report(struct check *c, const struct gather_problem *p, const uint32_t *bad,
                         const char *what)
{
    const uint32_t *want = p->want_bad;
    bool right = memcmp(bad, want, 4 * sizeof(*bad)) == 0;
    if (!right && check_on_device(c) && want[0] && bad[0] == want[0] && bad[1] == 0 &&
        bad[2] < (uint32_t)p->n_rows) {
        const int64_t slot = p->slots[bad[2]];
        right = slot >= (int64_t)p->view->n_blocks * p->view->block_tokens &&
                bad[3] == (slot > UINT32_MAX ? UINT32_MAX : (uint32_t)slot);
    }
    CHECK(c, right, "report %#x %u %u %u, want %#x 0 %u %u, %s", (unsigned)bad[0], (unsigned)bad[1],
          (unsigned)bad[2], (unsigned)bad[3], (unsigned)want[0], (unsigned)want[2],
          (unsigned)want[3], what);
}

/* Other levels and numbers of tasks leave the same bits; of a NaN scale times a NaN code, which of
 * the two comes out is the compiler's, so that another level is judged by the image. */
static void again_elsewhere(struct check *c, struct gather_problem *p, const unsigned char *before)
{
    unsigned char *first = malloc(p->out_mem.mem.bytes + 1);
    memcpy(first, p->out_mem.mem.data, p->out_mem.mem.bytes);
    for (int way = 0; way < KV_N_WAYS; way++) {
        pkv_backend *be = kv_elsewhere(c, way);
        memcpy(p->out_mem.mem.data, before, p->out_mem.mem.bytes);
        struct hostile report = hostile_create(4 * sizeof(uint32_t), 0);
        uint32_t *bad = (uint32_t *)(void *)report.data;
        const pkv_status status = pkv_kv_gather(be, p->view, p->slots, &p->out, bad, NULL);
        const pkv_status scalar = p->want_bad[0] ? PKV_E_INVALID_ARG : PKV_OK;
        CHECK(c, status == (way == KV_SCALAR ? scalar : check_want(c, p->want_bad[0])), "again: %s",
              pkv_status_name(status));
        judge_report(c, p, bad, kv_way_name(way));
        hostile_destroy(&report);
        if (way == KV_SCALAR && oracle_is_code(p->view->dtype)) judge_rows(c, p);
        else
            CHECK(c, memcmp(p->out_mem.mem.data, first, p->out_mem.mem.bytes) == 0, "other bits %s",
                  kv_way_name(way));
        pkv_backend_destroy(be);
    }
    free(first);
}

static void gather_and_judge(struct check *c, bool large)
{
    struct gather_problem p = { 0 };
    struct hostile mem = hostile_create(4 * sizeof(uint32_t), 0);
    uint32_t *bad = (uint32_t *)(void *)mem.data;
    bad[1] = 9;
    kv_draw_stores(c, &p.stores, c->dtype, large);
    kv_give_scales(c, &p.stores);
    p.view = &p.stores.views[0];
    draw_slots(c, &p, large);
    draw_out(c, &p);
    snprintf(c->shape, sizeof(c->shape),
             "%d rows, block %d, %d blocks, heads %d dim %d, from %s scales %d to %s", p.n_rows,
             p.view->block_tokens, p.view->n_blocks, p.view->n_heads, p.view->dim,
             pkv_dtype_name(p.view->dtype), (int)p.stores.scales[0], pkv_dtype_name(p.out.dtype));
    unsigned char *before = malloc(p.out_mem.mem.bytes + 1);
    memcpy(before, p.out_mem.mem.data, p.out_mem.mem.bytes);
    const bool report = rng_chance(&c->rng, 80);
    const pkv_status status = check_supported(
        c, pkv_kv_gather(c->be, p.view, p.slots, &p.out, report ? bad : NULL, NULL));
    CHECK(c, status == check_want(c, p.want_bad[0]), "status %s", pkv_status_name(status));
    if (report && p.want_bad[0]) judge_report(c, &p, bad, "as asked");
    CHECK(c, p.want_bad[0] || (bad[0] == 0 && bad[1] == 9), "a report, though nothing is wrong");
    judge_rows(c, &p);
    if (!c->failed && (large || rng_chance(&c->rng, 25))) again_elsewhere(c, &p, before);
    if (!c->failed && p.n_rows > 0)
        cover("kv_gather", c->isa, c->dtype, pkv_dtype_name(p.out.dtype));
    free(before);
    hostile_destroy(&mem);
    kv_destroy_stores(&p.stores);
    twin_destroy(&p.out_mem);
    hostile_destroy(&p.slot_mem);
}

static void gathers(struct check *c)
{
    gather_and_judge(c, false);
}

static void large(struct check *c)
{
    gather_and_judge(c, true);
}

/* KT7: a slot whose element offset lies beyond 2^32, its scale beyond 2^31. */
static void far_slot(struct check *c)
{
    const int64_t stride = (INT64_C(1) << 31) + 64, scale_stride = (INT64_C(1) << 30) + 3;
    const size_t bytes = (size_t)oracle_span(c->dtype, 2 * stride + 2 * 32);
    const size_t scale_bytes = (size_t)(2 * scale_stride + 2) * sizeof(float);
    unsigned char *data = sparse_create(bytes);
    float *scales = sparse_create(scale_bytes);
    _Alignas(16) float x[8];
    pkv_tensor3 out = { x, PKV_F32, 1, 8, 1, 8, 8 };
    pkv_kv_view view = {
        data, c->dtype, 3, 2, 1, 8, stride, 32, 32, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    int64_t slot = 2 * 2 + 1;
    if (!data || !scales) {
        check_skip(c, "the system gives no address space of %zu bytes", bytes + scale_bytes);
    } else {
        for (int d = 0; d < 8; d++) oracle_store(c->dtype, data, 2 * stride + 32 + d, d + 1);
        scales[2 * scale_stride + 1] = 4.f;
        if (oracle_is_code(c->dtype)) view.scales = (pkv_scales){ scales, scale_stride, 1, 1 };
        hostile_lend(&slot, sizeof(slot));
        hostile_lend(x, sizeof(x));
        CHECK(c, check_supported(c, pkv_kv_gather(c->be, &view, &slot, &out, NULL, NULL)) == PKV_OK,
              "refused");
        hostile_unlend(&slot);
        hostile_unlend(x);
        const float scale = view.scales.data ? 4.f : 1.f;
        for (int d = 0; d < 8; d++)
            CHECK(c, x[d] == scale * (float)(d + 1), "dim %d is %g", d, (double)x[d]);
    }
    sparse_destroy(data, bytes);
    sparse_destroy(scales, scale_bytes);
}

/* KT8: a row of `out` whose element offset lies beyond 2^31. */
static void far_out(struct check *c)
{
    const int64_t stride = (INT64_C(1) << 31) + 8;
    int64_t slots[2] = { 1, 0 };
    const size_t bytes = (size_t)oracle_span(PKV_F32, stride + 8);
    float *rows = sparse_create(bytes);
    _Alignas(16) float store[2][8] = { { 7, 7, 7, 7, 7, 7, 7, 7 }, { 0 } };
    const pkv_kv_view view = {
        store, PKV_F32, 2, 1, 1, 8, 8, 8, 8, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    pkv_tensor3 out = { rows, PKV_F32, 1, 8, 2, stride, 8 };
    if (!rows) {
        check_skip(c, "the system gives no address space of %zu bytes", bytes);
        return;
    }
    hostile_lend(store, sizeof(store));
    hostile_lend(slots, sizeof(slots));
    CHECK(c, check_supported(c, pkv_kv_gather(c->be, &view, slots, &out, NULL, NULL)) == PKV_OK,
          "refused");
    hostile_unlend(store);
    hostile_unlend(slots);
    CHECK(c, rows[0] == 0.f && rows[stride + 7] == 7.f, "the far row is %g",
          (double)rows[stride + 7]);
    sparse_destroy(rows, bytes);
}

const struct check_case kv_gather_cases[] = {
    { "kv_gather", "gathers", gathers, 100, 40, TYPED_STORES },
    { "kv_gather", "large", large, 4, 1, TYPED_STORES },
    { "kv_gather", "far_slot", far_slot, 1, 1, TYPED_STORES },
    { "kv_gather", "far_out", far_out, 1, 1, UNTYPED },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
