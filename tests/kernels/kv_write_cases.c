/* pkv_kv_write: every byte of the stores, of their scales and of q_out against an image made by the
 * definition. */
#include "check_device.h"
#include "coverage.h"
#include "kv_write_problem.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The regions that a call writes, and back to what they were. */
enum { N_REGIONS = 7 };
static struct hostile *region(struct write_problem *p, int i)
{
    return i < 6 ? &p->stores.twins[i].mem : &p->q_out_mem.mem;
}

static void save(struct write_problem *p, unsigned char *copies[N_REGIONS])
{
    for (int i = 0; i < N_REGIONS; i++) {
        copies[i] = malloc(region(p, i)->bytes + 1);
        if (region(p, i)->data) memcpy(copies[i], region(p, i)->data, region(p, i)->bytes);
    }
}

/* Other levels and other numbers of tasks leave the same bits, NaN included; but for a NaN that
 * went through a sum of norm or rotation, whose bits are the compiler's choice at another level. */
static void again_elsewhere(struct check *c, struct write_problem *p, bool refused,
                            unsigned char *before[N_REGIONS])
{
    pkv_status want;
    unsigned char *first[N_REGIONS];
    save(p, first);
    for (int way = 0; way < KV_N_WAYS; way++) {
        pkv_backend *be = kv_elsewhere(c, way);
        for (int i = 0; i < N_REGIONS; i++)
            if (region(p, i)->data) memcpy(region(p, i)->data, before[i], region(p, i)->bytes);
        struct hostile report = hostile_create(4 * sizeof(uint32_t), 0);
        pkv_kv_write_args args = p->args;
        args.bad = (uint32_t *)(void *)report.data;
        const pkv_status status = pkv_kv_write(be, &args, NULL);
        if (way == KV_SCALAR) want = refused ? PKV_E_INVALID_ARG : PKV_OK;
        else want = check_want(c, refused);
        CHECK(c, status == want, "another status %s", kv_way_name(way));
        write_judge_report(c, p, args.bad, kv_way_name(way));
        hostile_destroy(&report);
        if (way == KV_SCALAR && (p->after[K] || p->after[Q])) {
            write_image(c, p);
            write_compare(c, p);
        } else {
            for (int i = 0; i < N_REGIONS; i++)
                CHECK(c,
                      !first[i] || !region(p, i)->data ||
                          memcmp(region(p, i)->data, first[i], region(p, i)->bytes) == 0,
                      "other bits in region %d %s", i, kv_way_name(way));
        }
        pkv_backend_destroy(be);
    }
    for (int i = 0; i < N_REGIONS; i++) free(first[i]);
}

static void count_features(struct check *c, const struct write_problem *p)
{
    static const char *const scales[] = { "absent",     "tensor", "head",
                                          "block-head", "token",  "token-head" };
    const pkv_dtype t = c->dtype;
    if (p->n_valid == 0) return;
    cover("kv_write", c->isa, t, pkv_dtype_name(p->rows[K].t.dtype));
    if (p->args.k_norm) cover("kv_write", c->isa, t, "k-norm");
    if (p->args.q_norm) cover("kv_write", c->isa, t, "q-norm");
    if (p->args.rope)
        cover("kv_write", c->isa, t, p->args.rope_interleaved ? "rope-2d" : "rope-half");
    if (p->with_q) cover("kv_write", c->isa, t, p->in_place ? "q-in-place" : "q-apart");
    if (p->args.n_valid) cover("kv_write", c->isa, t, "n-valid");
    if (p->want_bad[0] & PKV_BAD_SLOT) cover("kv_write", c->isa, t, "bad-slot");
    if (p->want_bad[0] & PKV_BAD_POSITION) cover("kv_write", c->isa, t, "bad-position");
    if (p->want_bad[0] & PKV_BAD_NAN_CODE) cover("kv_write", c->isa, t, "nan-code");
    if (oracle_is_code(t)) cover("kv_write", c->isa, t, scales[p->stores.scales[K]]);
}

/* What a full run has to have met. */
static void expect_features(void)
{
    static const char *const everywhere[] = { "f32",     "f16",     "bf16",      "k-norm",
                                              "q-norm",  "rope-2d", "rope-half", "q-in-place",
                                              "q-apart", "n-valid", "bad-slot",  "bad-position" };
    static const char *const scaled[] = { "absent",     "tensor", "head",
                                          "block-head", "token",  "token-head" };
    for (size_t i = 0; i < sizeof(everywhere) / sizeof(everywhere[0]); i++)
        cover_expect("kv_write", everywhere[i], PKV_F32, PKV_U4);
    for (size_t i = 0; i < sizeof(scaled) / sizeof(scaled[0]); i++)
        cover_expect("kv_write", scaled[i], PKV_E4M3, PKV_U4);
    cover_expect("kv_write", "nan-code", PKV_I8, PKV_U4);
}

static void write_and_judge(struct check *c, bool large)
{
    struct write_problem p;
    unsigned char *before[N_REGIONS];
    struct hostile report = hostile_create(4 * sizeof(uint32_t), 0);
    uint32_t *bad = (uint32_t *)(void *)report.data;
    bad[1] = bad[2] = bad[3] = 9;
    expect_features();
    write_draw(c, &p, large);
    write_after(c, &p);
    const bool sticky = rng_chance(&c->rng, 10), again = large || rng_chance(&c->rng, 25);
    if (sticky) bad[0] = PKV_BAD_MASK;
    p.args.bad = rng_chance(&c->rng, 85) ? bad : NULL;
    save(&p, before);
    hostile_lend(&p.n_valid_arg, sizeof(p.n_valid_arg));
    const pkv_status status = check_supported(c, pkv_kv_write(c->be, &p.args, NULL));
    write_image(c, &p);
    const bool refused = p.want_bad[0] & (PKV_BAD_SLOT | PKV_BAD_POSITION);
    CHECK(c, status == check_want(c, refused), "status %s, report wanted %#x",
          pkv_status_name(status), (unsigned)p.want_bad[0]);
    if (p.args.bad && sticky)
        CHECK(c, bad[0] == (p.want_bad[0] | PKV_BAD_MASK), "report %#x, wanted %#x and %#x",
              (unsigned)bad[0], (unsigned)p.want_bad[0], PKV_BAD_MASK);
    if (p.args.bad && !sticky && p.want_bad[0]) write_judge_report(c, &p, bad, "as asked");
    if (p.args.bad && !sticky && !p.want_bad[0])
        CHECK(c, bad[0] == 0 && bad[1] == 9 && bad[2] == 9 && bad[3] == 9,
              "report %#x %u %u %u, though nothing is wrong", (unsigned)bad[0], (unsigned)bad[1],
              (unsigned)bad[2], (unsigned)bad[3]);
    write_compare(c, &p);
    if (again && !c->failed) again_elsewhere(c, &p, refused, before);
    if (!c->failed) count_features(c, &p);
    for (int i = 0; i < N_REGIONS; i++) free(before[i]);
    hostile_unlend(&p.n_valid_arg);
    hostile_destroy(&report);
    write_destroy(&p);
}

/* Everything at random. */
static void scatter(struct check *c)
{
    write_and_judge(c, false);
}

static void large(struct check *c)
{
    write_and_judge(c, true);
}

/* KT7: a slot whose element offset lies beyond 2^32, its scale beyond 2^31. */
static void far_slot(struct check *c)
{
    const int64_t stride = (INT64_C(1) << 31) + 64, scale_stride = (INT64_C(1) << 30) + 3;
    const size_t bytes = (size_t)oracle_span(c->dtype, 2 * stride + 2 * 32);
    const size_t scale_bytes = (size_t)(2 * scale_stride + 2) * sizeof(float);
    unsigned char *data = sparse_create(bytes);
    float *scales = sparse_create(scale_bytes), *zeros = sparse_create(scale_bytes);
    _Alignas(16) float x[8] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    pkv_tensor3 k = { x, PKV_F32, 1, 8, 1, 8, 8 };
    pkv_kv_view view = {
        data, c->dtype, 3, 2, 1, 8, stride, 32, 32, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    int64_t slot = 2 * 2 + 1;
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    if (!data || !scales || !zeros) {
        check_skip(c, "the system gives no address space of %zu bytes", bytes + 2 * scale_bytes);
    } else {
        if (oracle_is_code(c->dtype)) view.scales = (pkv_scales){ scales, scale_stride, 1, 1 };
        if (c->dtype == PKV_U4) view.zeros = (pkv_scales){ zeros, scale_stride, 1, 1 };
        if (c->dtype == PKV_E5M2) scales[2 * scale_stride + 1] = 1.f;
        args.k = &k;
        args.k_view = &view;
        args.slots = &slot;
        hostile_lend(x, sizeof(x));
        hostile_lend(&slot, sizeof(slot));
        CHECK(c, check_supported(c, pkv_kv_write(c->be, &args, NULL)) == PKV_OK, "refused");
        hostile_unlend(x);
        hostile_unlend(&slot);
        const struct oracle_scale s = { view.scales.data ? scales[2 * scale_stride + 1] : 1.f,
                                        zeros[2 * scale_stride + 1] };
        for (int d = 0; d < 8; d++) {
            const double code = oracle_load(c->dtype, data, 2 * stride + 32 + d);
            const double got = (double)s.scale * (code - (double)s.zero);
            const double bound = view.scales.data ? oracle_code_bound(c->dtype, x[d], s) : 0;
            CHECK(c, fabs(got - (double)x[d]) <= bound, "dim %d is not there: %g", d, got);
        }
    }
    sparse_destroy(data, bytes);
    sparse_destroy(scales, scale_bytes);
    sparse_destroy(zeros, scale_bytes);
}

/* KT8: rows whose element offset lies beyond 2^31, of k, q and q_out. */
static void far_rows(struct check *c)
{
    const int64_t stride = (INT64_C(1) << 31) + 8;
    const size_t bytes = (size_t)oracle_span(PKV_F32, stride + 8);
    float *k_rows = sparse_create(bytes), *q_rows = sparse_create(bytes),
          *out = sparse_create(bytes);
    _Alignas(16) float store[3][8] = { { 0 } };
    int64_t slots[2] = { 1, 2 };
    if (!k_rows || !q_rows || !out) {
        check_skip(c, "the system gives no address space of %zu bytes", 3 * bytes);
    } else {
        pkv_tensor3 k = { k_rows, PKV_F32, 1, 8, 2, stride, 8 }, q = k, q_out = k;
        pkv_kv_view view = {
            store, PKV_F32, 3, 1, 1, 8, 8, 8, 8, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
        };
        pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
        q.data = q_rows;
        q_out.data = out;
        k_rows[stride + 7] = 3.f;
        q_rows[stride + 7] = 5.f;
        args.k = &k;
        args.k_view = &view;
        args.slots = slots;
        args.q = &q;
        args.q_out = &q_out;
        hostile_lend(store, sizeof(store));
        hostile_lend(slots, sizeof(slots));
        CHECK(c, check_supported(c, pkv_kv_write(c->be, &args, NULL)) == PKV_OK, "refused");
        hostile_unlend(store);
        hostile_unlend(slots);
        CHECK(c, store[2][7] == 3.f && out[stride + 7] == 5.f, "the far row is %g and %g",
              (double)store[2][7], (double)out[stride + 7]);
    }
    sparse_destroy(k_rows, bytes);
    sparse_destroy(q_rows, bytes);
    sparse_destroy(out, bytes);
}

/* Two tokens that would compute one scale, and scales that are computed beside zero points that are
 * not: refused, and nothing is written. */
static void aliases(struct check *c)
{
    _Alignas(16) float x[4 * 2 * 32] = { 0 };
    _Alignas(16) unsigned char data[3 * 4 * 2 * 32], was[sizeof(data)];
    float scales[64], scales_were[64];
    const int64_t slots[4] = { 4, 5, 8, 9 };
    const pkv_tensor3 k = { x, PKV_F32, 2, 32, 4, 64, 32 };
    pkv_kv_view view = {
        data, c->dtype, 3, 4, 2, 32, 256, 32, 128, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    pkv_kv_write_args args = PKV_KV_WRITE_ARGS_INIT;
    static const int64_t strides[][3] = {
        { 0, 1, 4 },              /* blocks share */
        { 8, 1, 1 },              /* heads share with tokens */
        { 3, 1, 0 },              /* blocks overlap */
        { 0, 1, 0 }, { 8, 1, 4 }, /* all is well, but zero points are given (int4) */
    };
    const int64_t *s = strides[c->seed % 5];
    if (c->dtype == PKV_E5M2 || (c->seed % 5 == 4 && c->dtype != PKV_U4)) return; /* taken */
    for (size_t i = 0; i < sizeof(x) / sizeof(x[0]); i++) x[i] = rng_normal(&c->rng);
    memset(data, 0x33, sizeof(data));
    memset(scales, 0x33, sizeof(scales));
    memcpy(was, data, sizeof(data));
    memcpy(scales_were, scales, sizeof(scales));
    view.scales = (pkv_scales){ scales, s[0], s[1], s[2] };
    if (c->dtype == PKV_U4) view.zeros = (pkv_scales){ scales + 32, s[0], s[1], s[2] };
    if (c->seed % 5 == 4) view.zeros = (pkv_scales){ scales + 32, 0, 0, 0 };
    args.k = &k;
    args.k_view = &view;
    args.slots = slots;
    snprintf(c->shape, sizeof(c->shape), "strides of scales %d %d %d", (int)s[0], (int)s[1],
             (int)s[2]);
    const pkv_status status = pkv_kv_write(c->be, &args, NULL);
    CHECK(c, status == PKV_E_INVALID_ARG, "status %s", pkv_status_name(status));
    CHECK(c,
          memcmp(data, was, sizeof(data)) == 0 && memcmp(scales, scales_were, sizeof(scales)) == 0,
          "a refused call wrote");
}

const struct check_case kv_write_cases[] = {
    { "kv_write", "scatter", scatter, 150, 40, TYPED_STORES },
    { "kv_write", "large", large, 2, 1, TYPED_STORES },
    { "kv_write", "far_slot", far_slot, 1, 1, TYPED_STORES },
    { "kv_write", "far_rows", far_rows, 1, 1, UNTYPED },
    { "kv_write", "aliases", aliases, 5, 5, TYPED_CODES },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
