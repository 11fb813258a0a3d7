/* What kv_write should leave behind, by the definition. */
#include "check_device.h"
#include "kv_write_problem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Row t of `which` in double, with its error bound. */
static void expected_row(const struct write_problem *p, int which, int32_t t, int32_t h,
                         struct oracle_written *row)
{
    const float *weights = which == K ? p->args.k_norm : p->args.q_norm;
    *row = (struct oracle_written){ .dim = p->rows[which].t.dim };
    for (int32_t d = 0; d < row->dim; d++) row->x[d] = kv_row_value(&p->rows[which].t, t, h, d);
    if (weights) oracle_norm(row, weights, (double)p->args.norm_eps);
    if (p->args.rope)
        oracle_rotate(row, p->args.rope + (int64_t)p->args.pos[t] * p->args.rot_dim,
                      p->args.rot_dim, p->args.rope_interleaved);
}

static void judge_row(struct check *c, const struct write_problem *p, int which, int32_t t,
                      int32_t h, const float *got)
{
    struct oracle_written want;
    expected_row(p, which, t, h, &want);
    for (int32_t d = 0; d < want.dim; d++) {
        /* Infinities and what overflows on the way: only that the bits are the same everywhere. */
        if (isinf(want.x[d]) || fabs(want.x[d]) > 1e37 || want.err[d] > 1e30) continue;
        const double off = fabs((double)got[d] - want.x[d]);
        CHECK(c, isnan(want.x[d]) ? !isfinite(got[d]) : off <= want.err[d],
              "%s of token %d head %d dim %d: %.9g, want %.9g, off %.3g, bound %.3g",
              which == K ? "k" : "q", t, h, d, (double)got[d], want.x[d], off, want.err[d]);
        if (want.err[d] > 1e-30 && !c->failed) c->ratio = fmax(c->ratio, off / want.err[d]);
    }
}

/* The rows after norm and rotation in float32: from a plain store of the scalar level, whose bits
 * every level has to share. Tokens with a wrong position are skipped there, too. */
static void make_after(struct check *c, struct write_problem *p, int which)
{
    const pkv_tensor3 *src = &p->rows[which].t;
    const int64_t n = (int64_t)p->n_tokens * src->n_heads * src->dim, row = n / (p->n_tokens + !n);
    float *x = malloc((size_t)(n + 1) * sizeof(*x));
    float *data = aligned_alloc(16, (size_t)((p->n_tokens + 1) * row + 16) * sizeof(*data));
    int64_t *slots = malloc((size_t)(p->n_tokens + 1) * sizeof(*slots));
    pkv_backend *be = kv_backend(c, PKV_ISA_SCALAR, 1);
    pkv_kv_view view = {
        data,     PKV_F32,           p->n_tokens + 1,  1, src->n_heads, src->dim, row, row,
        src->dim, { NULL, 0, 0, 0 }, { NULL, 0, 0, 0 }
    };
    pkv_kv_write_args args = p->args;
    for (int32_t t = 0; t < p->n_tokens; t++) slots[t] = 1 + t;
    args.k = src;
    args.k_view = &view;
    args.v = args.q = NULL;
    args.v_view = NULL;
    args.q_out = NULL;
    args.slots = slots;
    args.k_norm = which == K ? p->args.k_norm : p->args.q_norm;
    args.q_norm = NULL;
    args.n_valid = NULL;
    args.bad = NULL;
    const pkv_status status = p->n_tokens > 0 ? pkv_kv_write(be, &args, NULL) : PKV_OK;
    CHECK(c, status == PKV_OK || status == PKV_E_INVALID_ARG, "plain store: %s",
          pkv_status_name(status));
    memcpy(x, data + row, (size_t)n * sizeof(*x));
    for (int32_t t = 0; t < p->n_tokens; t++)
        for (int32_t h = 0; h < src->n_heads && write_position_fits(p, t); h++)
            judge_row(c, p, which, t, h, x + ((int64_t)t * src->n_heads + h) * src->dim);
    p->after[which] = x;
    pkv_backend_destroy(be);
    free(data);
    free(slots);
}

/* ------------------------------------------------------------------ the image */

/* A row as float32, on its way into the store. */
static void final_row(const struct write_problem *p, int which, int32_t t, int32_t h, float *x)
{
    const pkv_tensor3 *src = &p->rows[which].t;
    for (int32_t d = 0; d < src->dim; d++)
        x[d] = p->after[which] ? p->after[which][((int64_t)t * src->n_heads + h) * src->dim + d]
                               : (float)kv_row_value(src, t, h, d);
}

/* A row of f32, f16 or bf16. Bits pass where nothing happens to them; else a NaN is a NaN,
 * whichever, and taken over once it is seen to be one. */
static void image_floats(struct check *c, const struct write_problem *p, int which, int32_t t,
                         int32_t h, pkv_dtype dtype, unsigned char *want, const void *got)
{
    float x[256];
    const pkv_tensor3 *src = &p->rows[which].t;
    const size_t elem = (size_t)oracle_bytes(dtype);
    final_row(p, which, t, h, x);
    if (!p->after[which] && dtype == src->dtype) {
        memcpy(want, kv_tensor_row(src, t, h), (size_t)src->dim * elem);
        return;
    }
    for (int32_t d = 0; d < src->dim; d++) {
        if (!isnan(x[d])) oracle_store(dtype, want, d, (double)x[d]);
        else if (isnan(oracle_load(dtype, got, d)))
            memcpy(want + (size_t)d * elem, (const char *)got + (size_t)d * elem, elem);
        else
            check_fail(c, "a NaN of token %d head %d dim %d became %g", t, h, d,
                       oracle_load(dtype, got, d));
    }
}

/* What the codes stand for is near the numbers. Numbers beyond the codes of a given scale are not.
 */
static void judge_code(struct check *c, pkv_dtype dtype, unsigned code, float x,
                       struct oracle_scale s, bool computed)
{
    const double top = oracle_code_largest(dtype), y = (double)x / (double)s.scale;
    const double low = dtype == PKV_U4 ? 0 : -top, at = y + (double)s.zero;
    if (!isfinite(x) || (!computed && (at > top || at < low))) return;
    const double off = fabs((double)x - oracle_code_meaning(dtype, code, s));
    const double bound = oracle_code_bound(dtype, x, s);
    CHECK(c, off <= bound, "%.9g by scale %.9g and zero %.9g is code %u: off %.3g, bound %.3g",
          (double)x, (double)s.scale, (double)s.zero, code, off, bound);
}

/* A float that may be a zero of either sign. */
static void image_float(const struct kv_stores *s, const float *at, float value)
{
    if (value == 0.f && *at == 0.f) value = *at;
    memcpy(twin_want(kv_twin_of(s, at), at), &value, sizeof(value));
}

/* Scale and zero point of one row: given, or computed over the row or over all heads. */
static struct oracle_scale image_scale(const struct write_problem *p, int which, int32_t t,
                                       int32_t h)
{
    const pkv_kv_view *v = &p->stores.views[which];
    float *scale = kv_scale(&v->scales, v, p->args.slots[t], h);
    float *zero = kv_scale(&v->zeros, v, p->args.slots[t], h);
    struct oracle_extremes e = { 0 };
    float x[256];
    if (p->stores.scales[which] < SCALES_TOKEN || v->dtype == PKV_E5M2)
        return (struct oracle_scale){ scale ? *scale : 1.f, zero ? *zero : 0.f };
    const bool one = p->stores.scales[which] == SCALES_TOKEN_HEAD;
    for (int32_t i = one ? h : 0; i < (one ? h + 1 : v->n_heads); i++) {
        final_row(p, which, t, i, x);
        oracle_extremes_add(&e, x, v->dim);
    }
    const struct oracle_scale s = oracle_scale_of(v->dtype, &e);
    image_float(&p->stores, scale, s.scale);
    if (v->dtype == PKV_U4) image_float(&p->stores, zero, s.zero);
    return s;
}

static void note_bad(struct write_problem *p, uint32_t bit, int32_t t)
{
    const int64_t slot = p->args.slots[t];
    if (!p->want_bad[0]) {
        p->want_bad[2] = (uint32_t)t;
        p->want_bad[3] = slot > UINT32_MAX ? UINT32_MAX : (uint32_t)slot;
    }
    p->want_bad[0] |= bit;
    p->offends[t] = true;
}

static void image_codes(struct check *c, struct write_problem *p, int which, int32_t t, int32_t h,
                        unsigned char *want, const void *got)
{
    const pkv_kv_view *v = &p->stores.views[which];
    const struct oracle_scale s = image_scale(p, which, t, h);
    const bool computed = p->stores.scales[which] >= SCALES_TOKEN && v->dtype != PKV_E5M2;
    float x[256];
    final_row(p, which, t, h, x);
    for (int32_t d = 0; d < v->dim; d++) {
        unsigned code = oracle_quantized(v->dtype, x[d], s);
        judge_code(c, v->dtype, code, x[d], s, computed);
        if (isnan(x[d]) && (v->dtype == PKV_I8 || v->dtype == PKV_U4))
            note_bad(p, PKV_BAD_NAN_CODE, t);
        /* The sign of a NaN that arithmetic made or passed on is nobody's promise. */
        if (isnan(x[d]) && p->after[which] && v->dtype < PKV_I8)
            code = (code & 0x7fu) | (oracle_code_at(v->dtype, got, d) & 0x80u);
        oracle_put_code(v->dtype, want, d, code);
    }
}

static void image_token(struct check *c, struct write_problem *p, int32_t t)
{
    const int64_t slot = p->args.slots[t];
    const bool exists = write_slot_exists(p, t);
    if (!write_position_fits(p, t)) {
        note_bad(p, PKV_BAD_POSITION, t);
        return;
    }
    if (slot >= 0 && !exists) note_bad(p, PKV_BAD_SLOT, t);
    for (int i = 0; i < p->stores.n_views && exists; i++) {
        const pkv_kv_view *v = &p->stores.views[i];
        for (int32_t h = 0; h < v->n_heads; h++) {
            const unsigned char *got = kv_row(v, slot, h);
            unsigned char *want = twin_want(kv_twin_of(&p->stores, got), got);
            if (oracle_is_code(v->dtype)) image_codes(c, p, i, t, h, want, got);
            else image_floats(c, p, i, t, h, v->dtype, want, got);
        }
    }
    for (int32_t h = 0; p->with_q && h < p->q_out.n_heads; h++) {
        const void *got = kv_tensor_row(&p->q_out, t, h);
        image_floats(c, p, Q, t, h, p->q_out.dtype, twin_want(&p->q_out_mem, got), got);
    }
}

void write_after(struct check *c, struct write_problem *p)
{
    if (p->args.k_norm || p->args.rope) make_after(c, p, K);
    if (p->with_q && (p->args.q_norm || p->args.rope)) make_after(c, p, Q);
}

void write_image(struct check *c, struct write_problem *p)
{
    for (int32_t t = 0; t < p->n_valid; t++) image_token(c, p, t);
}

void write_compare(struct check *c, struct write_problem *p)
{
    const struct hostile *got = &p->q_out_mem.mem, *want = &p->q_out_mem.want;
    kv_compare_stores(c, &p->stores);
    for (size_t i = 0; i < got->bytes; i++)
        if (got->data[i] != want->data[i]) {
            check_fail(c, "q_out: byte %zu of %zu is %02x, want %02x", i, got->bytes, got->data[i],
                       want->data[i]);
            break;
        }
    CHECK(c, hostile_intact(got), "something was written in front of q_out");
}

void write_judge_report(struct check *c, const struct write_problem *p, const uint32_t *bad,
                        const char *what)
{
    const uint32_t *want = p->want_bad;
    bool right = memcmp(bad, want, 4 * sizeof(*bad)) == 0;
    if (!right && check_on_device(c) && bad[0] == want[0] && bad[0] != 0 && bad[1] == 0 &&
        bad[2] < (uint32_t)p->n_tokens) {
        const int64_t slot = p->args.slots[bad[2]];
        right = p->offends[bad[2]] && bad[3] == (slot > UINT32_MAX ? UINT32_MAX : (uint32_t)slot);
    }
    CHECK(c, right, "report %#x %u %u %u, want %#x 0 %u %u, %s", (unsigned)bad[0], (unsigned)bad[1],
          (unsigned)bad[2], (unsigned)bad[3], (unsigned)want[0], (unsigned)want[2],
          (unsigned)want[3], what);
}
