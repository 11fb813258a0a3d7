/* pkv_states_merge against the formula; empty states, which hold NaN, in every place. */
#include "check_device.h"
#include "kv_fixture.h"
#include "oracle/oracle_attention.h"
#include "oracle/oracle_numbers.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STATES = 9, N_MEM = 2 * MAX_STATES + 2 };

struct merge_setup {
    pkv_tensor3 o[MAX_STATES], out;
    pkv_lse lse[MAX_STATES], out_lse;
    struct hostile mem[N_MEM];
    int n_mem;
    int32_t n;
    int64_t n_rows;
    int32_t n_heads, dim;
    bool base2;
    double *o_want[MAX_STATES], *lse_want[MAX_STATES]; /* copies: out may lie on o[0] */
};

static void *take(struct merge_setup *s, int64_t elems, int32_t elem)
{
    s->mem[s->n_mem] = hostile_create((size_t)(elems * elem), 0xff);
    return s->mem[s->n_mem++].data;
}

static pkv_tensor3 place_tensor(struct check *c, struct merge_setup *s, pkv_dtype dtype)
{
    const int64_t step = s->dim + (rng_chance(&c->rng, 50) ? 16 : 0);
    pkv_tensor3 t = { NULL, dtype, s->n_heads, s->dim, s->n_rows, s->n_heads * step, step };
    if (rng_chance(&c->rng, 30)) {
        t.row_stride = step;
        t.head_stride = s->n_rows * step;
    }
    t.data = take(s, (s->n_rows - 1) * t.row_stride + (s->n_heads - 1) * t.head_stride + s->dim,
                  oracle_bytes(dtype));
    return t;
}

static pkv_lse place_lse(struct check *c, struct merge_setup *s)
{
    const int64_t step = rng_chance(&c->rng, 50) ? 3 : 1;
    pkv_lse l = { NULL, s->n_heads * step, step, s->base2 };
    l.data = take(s, (s->n_rows - 1) * l.row_stride + (s->n_heads - 1) * step + 1, 4);
    return l;
}

/* A state that is empty at random places, or everywhere. */
static void draw_state(struct check *c, struct merge_setup *s, int32_t i, pkv_dtype dtype,
                       int32_t percent_empty, bool far)
{
    struct rng *r = &c->rng;
    s->o[i] = place_tensor(c, s, dtype);
    s->lse[i] = place_lse(c, s);
    s->o_want[i] = malloc((size_t)(s->n_rows * s->n_heads * s->dim) * sizeof(double));
    s->lse_want[i] = malloc((size_t)(s->n_rows * s->n_heads) * sizeof(double));
    for (int64_t row = 0; row < s->n_rows; row++)
        for (int32_t h = 0; h < s->n_heads; h++) {
            const bool empty = rng_chance(r, percent_empty);
            const float lse = empty ? -INFINITY : (far ? 200.f : 3.f) * rng_normal(r);
            s->lse[i].data[row * s->lse[i].row_stride + h * s->lse[i].head_stride] = lse;
            s->lse_want[i][row * s->n_heads + h] = (double)lse;
            for (int32_t d = 0; d < s->dim; d++) {
                const int64_t at = row * s->o[i].row_stride + h * s->o[i].head_stride + d;
                const double x = empty ? (double)NAN : (double)rng_normal(r);
                oracle_store(dtype, s->o[i].data, at, x);
                s->o_want[i][(row * s->n_heads + h) * s->dim + d] =
                    oracle_load(dtype, s->o[i].data, at);
            }
        }
}

static void judge_lse(struct check *c, const struct merge_setup *s, int64_t row, int32_t h,
                      const struct oracle_merged *want)
{
    if (!s->out_lse.data) return;
    const double got =
        (double)s->out_lse.data[row * s->out_lse.row_stride + h * s->out_lse.head_stride];
    /* One subtraction, a sum of n terms, one logarithm, one addition. */
    const double bound = (4 + s->n) * 0x1p-23 * (1 + fabs(want->lse));
    CHECK(c, want->empty ? got == want->lse : fabs(got - want->lse) <= bound,
          "lse of row %lld head %d: %.9g, want %.9g", (long long)row, h, got, want->lse);
}

static void judge(struct check *c, const struct merge_setup *s)
{
    for (int64_t row = 0; row < s->n_rows; row++)
        for (int32_t h = 0; h < s->n_heads; h++) {
            double o[MAX_STATES], lse[MAX_STATES];
            struct oracle_merged want = { 0 };
            for (int32_t d = 0; d < s->dim; d++) {
                for (int32_t i = 0; i < s->n; i++) {
                    lse[i] = s->lse_want[i][row * s->n_heads + h];
                    o[i] = s->o_want[i][(row * s->n_heads + h) * s->dim + d];
                }
                want = oracle_merge(o, lse, s->n, s->base2);
                const double got =
                    oracle_load(s->out.dtype, s->out.data,
                                row * s->out.row_stride + h * s->out.head_stride + d);
                const double bound = 4 * s->n * 0x1p-24 * want.o_abs +
                                     oracle_unit_roundoff(s->out.dtype) * fabs(want.o) +
                                     oracle_smallest(s->out.dtype);
                const double err = fabs(got - want.o);
                CHECK(c, want.empty ? got == 0 && !signbit(got) : err <= bound,
                      "row %lld head %d dim %d: %.9g, want %.9g, off %.3g, bound %.3g",
                      (long long)row, h, d, got, want.o, err, bound);
                if (want.empty || s->out.dtype != PKV_F32 || c->failed) continue;
                const double rounding = oracle_unit_roundoff(s->out.dtype) * fabs(want.o);
                c->ratio = fmax(c->ratio, (err - rounding) / (4 * s->n * 0x1p-24 * want.o_abs));
            }
            judge_lse(c, s, row, h, &want);
        }
}

static void release(struct check *c, struct merge_setup *s)
{
    for (int i = 0; i < s->n_mem; i++) {
        CHECK(c, hostile_intact(&s->mem[i]), "something was written in front of a buffer");
        hostile_destroy(&s->mem[i]);
    }
    for (int32_t i = 0; i < s->n; i++) {
        free(s->o_want[i]);
        free(s->lse_want[i]);
    }
}

static struct merge_setup draw(struct check *c)
{
    return (struct merge_setup){ .n = rng_int(&c->rng, 1, MAX_STATES),
                                 .n_rows = rng_int(&c->rng, 1, 5),
                                 .n_heads = rng_int(&c->rng, 1, 6),
                                 .dim = 8 * rng_int(&c->rng, 1, 32),
                                 .base2 = rng_chance(&c->rng, 30) };
}

/* Result in its own place, of any type, or on the first state. */
static void merges(struct check *c)
{
    struct merge_setup s = draw(c);
    const int32_t percent = rng_chance(&c->rng, 50) ? 0 : rng_int(&c->rng, 10, 90);
    const bool far = rng_chance(&c->rng, 30), in_place = rng_chance(&c->rng, 40);
    for (int32_t i = 0; i < s.n; i++) draw_state(c, &s, i, c->dtype, percent, far);
    if (in_place) {
        s.out = s.o[0];
        s.out_lse = s.lse[0];
    } else {
        s.out = place_tensor(c, &s, (pkv_dtype)rng_int(&c->rng, PKV_F32, PKV_BF16));
        if (rng_chance(&c->rng, 80)) s.out_lse = place_lse(c, &s);
    }
    snprintf(c->shape, sizeof(c->shape),
             "%d states, %lld rows, %d heads, dim %d, %d %% empty%s%s%s", s.n, (long long)s.n_rows,
             s.n_heads, s.dim, percent, s.base2 ? ", base 2" : "", in_place ? ", in place" : "",
             far ? ", lse far apart" : "");
    const pkv_status status =
        check_supported(c, pkv_states_merge(c->be, s.o, s.lse, s.n, NULL, &s.out,
                                            s.out_lse.data ? &s.out_lse : NULL));
    CHECK(c, status == PKV_OK, "status %s", pkv_status_name(status));
    judge(c, &s);
    release(c, &s);
}

/* KT2: none, one, several, all of four states empty, in every order: seeds 0 .. 15 are the sets. */
static void empties(struct check *c)
{
    struct merge_setup s = draw(c);
    s.n = 4;
    for (int32_t i = 0; i < s.n; i++)
        draw_state(c, &s, i, c->dtype, c->seed >> i & 1 ? 100 : 0, false);
    s.out = place_tensor(c, &s, c->dtype);
    s.out_lse = place_lse(c, &s);
    snprintf(c->shape, sizeof(c->shape), "4 states, empty: %d%d%d%d", (int)(c->seed & 1),
             (int)(c->seed >> 1 & 1), (int)(c->seed >> 2 & 1), (int)(c->seed >> 3 & 1));
    const pkv_status status =
        check_supported(c, pkv_states_merge(c->be, s.o, s.lse, s.n, NULL, &s.out, &s.out_lse));
    CHECK(c, status == PKV_OK, "status %s", pkv_status_name(status));
    judge(c, &s);
    release(c, &s);
}

/* One state that counts passes through unchanged, bit by bit. */
static void lone(struct check *c)
{
    struct merge_setup s = draw(c);
    const int32_t full = rng_int(&c->rng, 0, s.n - 1);
    for (int32_t i = 0; i < s.n; i++) draw_state(c, &s, i, c->dtype, i == full ? 0 : 100, false);
    s.out = place_tensor(c, &s, c->dtype);
    s.out_lse = place_lse(c, &s);
    const pkv_status status =
        check_supported(c, pkv_states_merge(c->be, s.o, s.lse, s.n, NULL, &s.out, &s.out_lse));
    CHECK(c, status == PKV_OK, "status %s", pkv_status_name(status));
    for (int64_t row = 0; row < s.n_rows; row++)
        for (int32_t h = 0; h < s.n_heads; h++) {
            for (int32_t d = 0; d < s.dim; d++)
                CHECK(c,
                      oracle_load(c->dtype, s.out.data,
                                  row * s.out.row_stride + h * s.out.head_stride + d) ==
                          s.o_want[full][(row * s.n_heads + h) * s.dim + d],
                      "row %lld head %d dim %d changed", (long long)row, h, d);
            CHECK(c,
                  (double)s.out_lse.data[row * s.out_lse.row_stride + h * s.out_lse.head_stride] ==
                      s.lse_want[full][row * s.n_heads + h],
                  "lse of row %lld head %d changed", (long long)row, h);
        }
    release(c, &s);
}

/* Work enough to be shared: no number of tasks changes a bit. */
static void tasks(struct check *c)
{
    struct merge_setup s = { .n = 3, .n_rows = 40, .n_heads = rng_int(&c->rng, 4, 9), .dim = 128 };
    for (int32_t i = 0; i < s.n; i++) draw_state(c, &s, i, c->dtype, 10, false);
    s.out = place_tensor(c, &s, c->dtype);
    s.out_lse = place_lse(c, &s);
    struct hostile *o = &s.mem[s.n_mem - 2], *lse = &s.mem[s.n_mem - 1];
    const pkv_status status =
        check_supported(c, pkv_states_merge(c->be, s.o, s.lse, s.n, NULL, &s.out, &s.out_lse));
    CHECK(c, status == PKV_OK, "status %s", pkv_status_name(status));
    judge(c, &s);
    unsigned char *first = malloc(o->bytes + lse->bytes);
    memcpy(first, o->data, o->bytes);
    memcpy(first + o->bytes, lse->data, lse->bytes);
    for (int way = KV_TASKS; way < KV_N_WAYS; way++) {
        pkv_backend *be = kv_elsewhere(c, way);
        memset(o->data, 0xff, o->bytes);
        memset(lse->data, 0xff, lse->bytes);
        CHECK(c, pkv_states_merge(be, s.o, s.lse, s.n, NULL, &s.out, &s.out_lse) == PKV_OK,
              "refused %s", kv_way_name(way));
        CHECK(c,
              memcmp(first, o->data, o->bytes) == 0 &&
                  memcmp(first + o->bytes, lse->data, lse->bytes) == 0,
              "other bits %s", kv_way_name(way));
        pkv_backend_destroy(be);
    }
    free(first);
    release(c, &s);
}

/* KT8: states whose rows lie more than 2^31 elements apart. */
static void far_rows(struct check *c)
{
    const int64_t stride = (INT64_C(1) << 31) + 8;
    const size_t bytes = (size_t)oracle_span(c->dtype, stride + 8);
    unsigned char *rows[3];
    float lse[2] = { 0.f, 1.f };
    bool all = true;
    for (int i = 0; i < 3; i++) all &= (rows[i] = sparse_create(bytes)) != NULL;
    if (!all) {
        check_skip(c, "the system gives no address space of %zu bytes", 3 * bytes);
    } else {
        pkv_tensor3 o[2], out;
        const pkv_lse l = { lse, 1, 1, 0 }, lses[2] = { l, l };
        for (int i = 0; i < 2; i++) {
            o[i] = (pkv_tensor3){ rows[i], c->dtype, 1, 8, 2, stride, 8 };
            oracle_store(c->dtype, rows[i], stride + 7, 4);
        }
        out = o[0];
        out.data = rows[2];
        hostile_lend(lse, sizeof(lse));
        const pkv_status status =
            check_supported(c, pkv_states_merge(c->be, o, lses, 2, NULL, &out, NULL));
        CHECK(c, status == PKV_OK, "status %s", pkv_status_name(status));
        hostile_unlend(lse);
        const double got = oracle_load(c->dtype, rows[2], stride + 7);
        CHECK(c, got == 4, "the far row is %g", got);
    }
    for (int i = 0; i < 3; i++) sparse_destroy(rows[i], bytes);
}

const struct check_case merge_cases[] = {
    { "states_merge", "merges", merges, 150, 40, TYPED_FLOATS },
    { "states_merge", "empties", empties, 16, 16, TYPED_FLOATS },
    { "states_merge", "lone", lone, 20, 6, TYPED_FLOATS },
    { "states_merge", "tasks", tasks, 6, 2, TYPED_FLOATS },
    { "states_merge", "far_rows", far_rows, 1, 1, TYPED_FLOATS },
    { NULL, NULL, NULL, 0, 0, UNTYPED },
};
