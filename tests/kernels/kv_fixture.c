/* Stores, rows and backends for the cases of kv_write and kv_gather. */
#include "kv_fixture.h"
#include "check_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct twin twin_create(struct rng *r, size_t bytes)
{
    struct twin t = { hostile_create(bytes, 0), hostile_create(bytes, 0) };
    for (size_t i = 0; i < bytes; i++) t.mem.data[i] = (unsigned char)rng_next(r);
    memcpy(t.want.data, t.mem.data, bytes);
    return t;
}

void twin_destroy(struct twin *t)
{
    hostile_destroy(&t->mem);
    hostile_destroy(&t->want);
}

unsigned char *twin_want(const struct twin *t, const void *at)
{
    return t->want.data + ((const unsigned char *)at - t->mem.data);
}

/* ------------------------------------------------------------------ stores */

static int64_t round_up(int64_t x, int64_t unit)
{
    return (x + unit - 1) / unit * unit;
}

/* Elements from row to row: 16 bytes or a multiple. */
static int64_t row_elems(pkv_dtype dtype, int32_t dim)
{
    return round_up(dim, dtype == PKV_U4 ? 32 : dtype >= PKV_E4M3 ? 16 : 8);
}

/* K and V in one pool, as a pkv_store lays them out: the second of two layers. */
static void place_canonical(struct check *c, struct kv_stores *s)
{
    pkv_kv_view *k = &s->views[0];
    const pkv_dtype dtype = k->dtype;
    const int64_t row = row_elems(dtype, k->dim), bt = k->block_tokens;
    const int64_t n_rows = (int64_t)2 * 2 * k->n_heads * bt; /* layers, K and V */
    const int64_t codes = oracle_span(dtype, n_rows * row);
    const int64_t n_scales = dtype == PKV_U4                              ? 2 * n_rows
                             : oracle_is_code(dtype) && dtype != PKV_E5M2 ? n_rows
                                                                          : 0;
    const int64_t block_bytes = round_up(codes + 4 * n_scales, 512);
    s->twins[0] = twin_create(&c->rng, (size_t)(block_bytes * k->n_blocks));
    k->token_stride = row;
    k->head_stride = 2 * bt * row;
    k->block_stride = block_bytes * 8 / oracle_span(dtype, 8);
    for (int i = 0; i < 2; i++) {
        pkv_kv_view *v = &s->views[i];
        const int64_t first_row = (int64_t)2 * k->n_heads * bt + i * bt;
        if (i == 1) *v = *k;
        v->data = s->twins[0].mem.data + oracle_span(dtype, first_row * row);
        s->scales[i] = SCALES_ABSENT;
        if (n_scales == 0) continue;
        float *scales = (float *)(void *)(s->twins[0].mem.data + codes) + first_row;
        v->scales = (pkv_scales){ scales, block_bytes / 4, 1, 2 * bt };
        if (dtype == PKV_U4) v->zeros = (pkv_scales){ scales + n_rows, block_bytes / 4, 1, 2 * bt };
        s->scales[i] = SCALES_TOKEN_HEAD;
    }
}

/* Codes in a pool of their own, block-token-head or block-head-token. */
static void place_codes(struct check *c, struct kv_stores *s, int which)
{
    pkv_kv_view *v = &s->views[which];
    const int64_t row =
        row_elems(v->dtype, v->dim) + (rng_chance(&c->rng, 40) ? row_elems(v->dtype, 32) : 0);
    if (rng_chance(&c->rng, 50)) {
        v->head_stride = row;
        v->token_stride = v->n_heads * row;
        v->block_stride = v->block_tokens * v->token_stride;
    } else {
        v->token_stride = row;
        v->head_stride = v->block_tokens * row;
        v->block_stride = v->n_heads * v->head_stride;
    }
    const int64_t last = (int64_t)v->n_blocks * v->n_heads * v->block_tokens - 1;
    const int64_t elems = last * row + row_elems(v->dtype, v->dim);
    s->twins[which] = twin_create(&c->rng, (size_t)oracle_span(v->dtype, elems));
    v->data = s->twins[which].mem.data;
}

/* Scales in an array of their own, with gaps; `kind` says which strides are 0. */
static pkv_scales place_scales(struct check *c, struct twin *twin, const pkv_kv_view *v,
                               enum kv_scales kind)
{
    const int64_t gap = rng_chance(&c->rng, 50) ? 1 : 3, bt = v->block_tokens, nh = v->n_heads;
    pkv_scales s = { NULL, 0, 0, 0 };
    int64_t n = 1;
    if (kind == SCALES_ABSENT) return s;
    if (kind == SCALES_HEAD) s.head_stride = gap, n = nh;
    if (kind == SCALES_BLOCK_HEAD) s = (pkv_scales){ NULL, nh * gap, 0, gap }, n = nh * v->n_blocks;
    if (kind == SCALES_TOKEN) s = (pkv_scales){ NULL, bt * gap, gap, 0 }, n = bt * v->n_blocks;
    if (kind == SCALES_TOKEN_HEAD) {
        const int64_t nb = v->n_blocks;
        const pkv_scales orders[] = { { NULL, bt * nh * gap, gap, bt * gap },
                                      { NULL, bt * nh * gap, nh * gap, gap },
                                      { NULL, gap, nb * nh * gap, nb * gap } };
        n = bt * nh * nb;
        s = orders[rng_int(&c->rng, 0, 2)];
    }
    *twin = twin_create(&c->rng, (size_t)((n - 1) * gap + 1) * sizeof(float));
    s.data = (float *)(void *)twin->mem.data;
    return s;
}

/* Inputs have to be numbers. Where they are computed, nothing may depend on what was there. */
static void fill_scales(struct check *c, const struct twin *twin, bool zero_points)
{
    for (size_t i = 0; i + sizeof(float) <= twin->mem.bytes; i += sizeof(float)) {
        const float x = zero_points
                            ? (float)rng_int(&c->rng, -2, 17) + 0.25f * rng_signed(&c->rng)
                            : ldexpf(1.f + 0.5f * rng_signed(&c->rng), rng_int(&c->rng, -8, 4));
        memcpy(twin->mem.data + i, &x, sizeof(x));
        memcpy(twin->want.data + i, &x, sizeof(x));
    }
}

static void place_apart(struct check *c, struct kv_stores *s, int which)
{
    pkv_kv_view *v = &s->views[which];
    struct twin *scales = &s->twins[2 + 2 * which], *zeros = scales + 1;
    place_codes(c, s, which);
    s->scales[which] = SCALES_ABSENT;
    if (!oracle_is_code(v->dtype)) return;
    enum kv_scales kind = (enum kv_scales)rng_int(&c->rng, 0, SCALES_N - 1);
    s->scales[which] = kind;
    v->scales = place_scales(c, scales, v, kind);
    if (scales->mem.data && (kind < SCALES_TOKEN || v->dtype == PKV_E5M2))
        fill_scales(c, scales, false);
    if (v->dtype != PKV_U4) return;
    /* Zero points are given or computed together with the scales; given ones as they like. */
    if (kind < SCALES_TOKEN) kind = (enum kv_scales)rng_int(&c->rng, 0, SCALES_BLOCK_HEAD);
    v->zeros = place_scales(c, zeros, v, kind);
    if (zeros->mem.data && kind < SCALES_TOKEN) fill_scales(c, zeros, true);
}

/* Blocks for a little more than 512 KiB of K and V; of 64 KiB, which is many CTAs, on a device. */
static void enlarge(struct check *c, pkv_kv_view *k)
{
    struct rng *r = &c->rng;
    const int64_t least = check_on_device(c) ? 66 << 10 : 520 << 10;
    k->n_heads = rng_int(r, 6, 9);
    k->dim = 8 * rng_int(r, 20, 32);
    k->block_tokens = rng_int(r, 10, 33);
    const int64_t block = oracle_span(k->dtype, (int64_t)2 * k->n_heads * k->dim) * k->block_tokens;
    k->n_blocks = 2 + (int32_t)(least / block);
}

void kv_draw_stores(struct check *c, struct kv_stores *s, pkv_dtype dtype, bool large)
{
    struct rng *r = &c->rng;
    *s = (struct kv_stores){ .n_views = large || rng_chance(r, 80) ? 2 : 1 };
    pkv_kv_view k = { .dtype = dtype,
                      .n_blocks = rng_int(r, 2, 9),
                      .block_tokens = rng_int(r, 1, 20),
                      .n_heads = rng_int(r, 1, 4),
                      .dim = 8 * rng_int(r, 1, 32) };
    if (large) enlarge(c, &k);
    s->views[0] = s->views[1] = k;
    if (rng_chance(r, 40)) {
        place_canonical(c, s);
        return;
    }
    if (!large && rng_chance(r, 30)) s->views[1].dim = 8 * rng_int(r, 1, 32);
    if (rng_chance(r, 10)) s->views[1].dtype = (pkv_dtype)rng_int(r, 0, PKV_DTYPE_COUNT - 1);
    place_apart(c, s, 0);
    place_apart(c, s, 1);
}

const struct twin *kv_twin_of(const struct kv_stores *s, const void *at)
{
    const unsigned char *p = at;
    for (int i = 0; i < 6; i++)
        if (p >= s->twins[i].mem.data && p < s->twins[i].mem.data + s->twins[i].mem.bytes)
            return &s->twins[i];
    return NULL;
}

static void give(struct check *c, struct kv_stores *s, float *at, bool zero_point)
{
    static const float cruel[] = { 0.f, -1.f, 3e38f, 1e-40f, INFINITY, NAN };
    float x = zero_point ? (float)rng_int(&c->rng, -2, 17) + 0.25f * rng_signed(&c->rng)
                         : ldexpf(1.f + 0.5f * rng_signed(&c->rng), rng_int(&c->rng, -8, 4));
    if (rng_chance(&c->rng, 5)) x = cruel[rng_int(&c->rng, 0, 5)];
    if (!at) return;
    *at = x;
    memcpy(twin_want(kv_twin_of(s, at), at), &x, sizeof(x));
}

void kv_give_scales(struct check *c, struct kv_stores *s)
{
    for (int i = 0; i < 2; i++) {
        const pkv_kv_view *v = &s->views[i];
        for (int64_t slot = 0; slot < (int64_t)v->n_blocks * v->block_tokens; slot++)
            for (int32_t h = 0; h < v->n_heads; h++) {
                give(c, s, kv_scale(&v->scales, v, slot, h), false);
                give(c, s, kv_scale(&v->zeros, v, slot, h), true);
            }
    }
}

void kv_destroy_stores(struct kv_stores *s)
{
    for (int i = 0; i < 6; i++) twin_destroy(&s->twins[i]);
}

void kv_compare_stores(struct check *c, const struct kv_stores *s)
{
    static const char *const names[] = { "codes",      "codes of V",  "scales of K",
                                         "zeros of K", "scales of V", "zeros of V" };
    for (int i = 0; i < 6; i++) {
        const struct twin *t = &s->twins[i];
        for (size_t at = 0; at < t->mem.bytes; at++)
            if (t->mem.data[at] != t->want.data[at]) {
                check_fail(c, "%s: byte %zu of %zu is %02x, want %02x", names[i], at, t->mem.bytes,
                           t->mem.data[at], t->want.data[at]);
                return;
            }
        CHECK(c, hostile_intact(&t->mem), "something was written in front of the %s", names[i]);
    }
}

int64_t kv_row_at(const pkv_kv_view *v, int64_t slot, int32_t head)
{
    return slot / v->block_tokens * v->block_stride + slot % v->block_tokens * v->token_stride +
           head * v->head_stride;
}

unsigned char *kv_row(const pkv_kv_view *v, int64_t slot, int32_t head)
{
    return (unsigned char *)v->data + oracle_span(v->dtype, kv_row_at(v, slot, head));
}

float *kv_scale(const pkv_scales *s, const pkv_kv_view *v, int64_t slot, int32_t head)
{
    if (!s->data) return NULL;
    return s->data + slot / v->block_tokens * s->block_stride +
           slot % v->block_tokens * s->token_stride + head * s->head_stride;
}

/* ------------------------------------------------------------------ rows */

enum row_kind {
    ROW_NORMAL,
    ROW_CONSTANT,
    ROW_TIES, /* quotients of I8 exactly between two codes */
    ROW_MODERATE_N,
    ROW_ZERO = ROW_MODERATE_N,
    ROW_CRUEL,
    ROW_TINY,       /* below the normal range */
    ROW_NEIGHBOURS, /* float32 numbers next to each other */
    ROW_WIDE,
    ROW_NOT_FINITE,
    ROW_N
};

static double cruel_value(struct rng *r)
{
    static const double cruel[] = {
        0.0, -0.0, 65504, 65520, 1e30, -3e38, 6e-8, 3e-8, 1e-40, 2.98e-8
    };
    if (rng_chance(r, 15)) return cruel[rng_int(r, 0, 9)];
    if (rng_chance(r, 5)) return rng_chance(r, 50) ? (double)INFINITY : (double)NAN;
    return (double)rng_normal(r) * exp2(rng_int(r, -30, 18));
}

static double row_value(struct rng *r, enum row_kind kind, double base, int exponent)
{
    switch (kind) {
    case ROW_NORMAL:
        return ldexp((double)rng_normal(r), exponent);
    case ROW_CONSTANT:
        return base;
    case ROW_TIES:
        return ldexp(rng_chance(r, 20) ? 127 : rng_int(r, -254, 254) / 2.0, exponent);
    case ROW_ZERO:
        return rng_chance(r, 50) ? 0.0 : -0.0;
    case ROW_TINY:
        return (double)rng_signed(r) * 0x1p-130;
    case ROW_NEIGHBOURS: { /* below a power of two: divided by 15, two are often one float */
        const float first = (float)(1.75 + ldexp(fabs(base), -exponent) / 8);
        return copysign(
            ldexp((double)first + rng_int(r, 0, exponent % 2 ? 1 : 3) * 0x1p-23, exponent), base);
    }
    case ROW_WIDE:
        return (double)rng_signed(r) * exp2(rng_int(r, -120, 120));
    case ROW_NOT_FINITE:
        return rng_chance(r, 50)   ? (double)NAN
               : rng_chance(r, 50) ? (double)INFINITY
                                   : -(double)INFINITY;
    default:
        return cruel_value(r);
    }
}

/* Any NaN, signalling ones included. */
static void store_nan(struct rng *r, pkv_dtype dtype, void *row, int32_t d)
{
    static const uint32_t exponent[] = { 0x7f800000u, 0x7c00u, 0x7f80u };
    static const uint32_t below[] = { 0x007fffffu, 0x03ffu, 0x007fu };
    const uint32_t payload = ((uint32_t)rng_next(r) & below[dtype]) | 1u;
    const uint32_t sign = dtype == PKV_F32 ? 1u << 31 : 1u << 15;
    const uint32_t bits = exponent[dtype] | payload | (rng_chance(r, 50) ? sign : 0u);
    const size_t elem = (size_t)oracle_bytes(dtype);
    memcpy((char *)row + (size_t)d * elem, &bits, elem); /* little endian */
}

static void draw_row(struct rng *r, const pkv_tensor3 *t, int64_t row, int32_t head, bool moderate)
{
    const enum row_kind kind =
        (enum row_kind)rng_int(r, 0, moderate ? ROW_MODERATE_N - 1 : ROW_N - 1);
    const int exponent = rng_int(r, -20, 12);
    const double base =
        ldexp(1.5 + 0.5 * (double)rng_signed(r), exponent) * (rng_chance(r, 50) ? -1 : 1);
    const int32_t odd = rng_chance(r, 15) ? rng_int(r, 0, t->dim - 1) : -1;
    for (int32_t d = 0; d < t->dim; d++) {
        double x = row_value(r, kind, base, exponent);
        if (d == odd && !moderate) x = row_value(r, ROW_NOT_FINITE, base, exponent);
        if (isnan(x)) store_nan(r, t->dtype, kv_tensor_row(t, row, head), d);
        else oracle_store(t->dtype, kv_tensor_row(t, row, head), d, x);
    }
}

void *kv_tensor_row(const pkv_tensor3 *t, int64_t row, int32_t head)
{
    return (char *)t->data +
           (row * t->row_stride + head * t->head_stride) * oracle_span(t->dtype, 1);
}

/* The oracle knows one NaN; its sign is kept here, as codes have it. */
double kv_row_value(const pkv_tensor3 *t, int64_t row, int32_t head, int32_t d)
{
    const unsigned char *last = (const unsigned char *)kv_tensor_row(t, row, head) +
                                oracle_span(t->dtype, d + 1) - 1; /* little endian: the sign */
    const double x = oracle_load(t->dtype, kv_tensor_row(t, row, head), d);
    return isnan(x) ? copysign(x, *last & 0x80 ? -1 : 1) : x;
}

void kv_draw_rows(struct check *c, struct kv_rows *rows, pkv_dtype dtype, int32_t n_tokens,
                  int32_t n_heads, int32_t dim, bool moderate)
{
    const int64_t step = dim + (rng_chance(&c->rng, 50) ? 24 : 0);
    pkv_tensor3 *t = &rows->t;
    *t = (pkv_tensor3){ NULL, dtype, n_heads, dim, n_tokens, n_heads * step, step };
    const int64_t elems =
        n_tokens > 0 ? (n_tokens - 1) * t->row_stride + (n_heads - 1) * step + dim : 0;
    rows->mem = hostile_create((size_t)oracle_span(dtype, elems), 0xff);
    t->data = rows->mem.data;
    for (int32_t i = 0; i < n_tokens; i++)
        for (int32_t h = 0; h < n_heads; h++) draw_row(&c->rng, t, i, h, moderate);
}

/* ------------------------------------------------------------------ backends */

/* Any order is allowed; this one is not what a pool of threads does. */
static void last_first(void *ctx, int32_t n_tasks, void (*task)(void *task_ctx, int32_t i),
                       void *task_ctx)
{
    (void)ctx;
    for (int32_t i = n_tasks - 1; i >= 0; i--) task(task_ctx, i);
}

static pkv_backend *make_backend(struct check *c, pkv_isa isa, int32_t n, pkv_parallel_for run)
{
    pkv_cpu_config cfg = PKV_CPU_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.max_isa = isa;
    cfg.n_threads = n;
    cfg.parallel_for = run;
    if (pkv_backend_create_cpu(&cfg, &be) != PKV_OK)
        check_fail(c, "no backend at level %s with %d tasks", pkv_isa_name(isa), n);
    return be;
}

/* Fewer multiprocessors, and another order of their work. */
static pkv_backend *make_device(struct check *c, int32_t n_sms)
{
    pkv_cuda_config cfg = PKV_CUDA_CONFIG_INIT;
    pkv_backend *be = NULL;
    cfg.max_sms = n_sms;
    if (pkv_backend_create_cuda(&cfg, &be) != PKV_OK) check_fail(c, "no second backend");
    check_schedule(c);
    return be;
}

pkv_backend *kv_backend(struct check *c, pkv_isa isa, int32_t n_tasks)
{
    if (isa == PKV_ISA_CUDA) return make_device(c, n_tasks);
    return make_backend(c, isa, n_tasks, n_tasks > 1 ? last_first : NULL);
}

pkv_backend *kv_elsewhere(struct check *c, int way)
{
    if (way == KV_SCALAR) return make_backend(c, PKV_ISA_SCALAR, 1, NULL);
    if (way == KV_TASKS || check_on_device(c))
        return kv_backend(c, c->isa, way == KV_TASKS ? 5 : 1);
    return make_backend(c, c->isa, 3, NULL);
}

const char *kv_way_name(int way)
{
    static const char *const names[] = { "at the scalar level", "in 5 tasks", "on 3 threads" };
    return names[way];
}
