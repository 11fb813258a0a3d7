/* Scatter new K and V rows into their slots, and ready the queries.
 *
 *   row of k, v or q -> float -> norm -> rotate -> codes     per head; float lies on the stack
 *
 * A long prompt writes more than the caches hold, and stores past them: without reading the lines
 * first, which a plain store does, a third of the traffic is saved.
 *
 * Tokens are shared among tasks in ascending ranges. Every token is written by one task and by the
 * same steps, so that their number changes no bit. */
#include "kernels/kv_write.h"
#include "kernels/move_tasks.h"
#include "kernels/row_places.h"

struct write {
    const pkv_backend *be;
    const pkv_kv_write_args *a;
    int64_t n_tokens;
    bool past_caches;
    int32_t n_tasks;
    uint32_t bad[PKV__MOVE_TASKS_MAX][4];
};

/* What happens to the rows of one tensor between load and store. */
struct steps {
    const float *norm; /* [dim] or NULL */
    float eps;
    const float *turn; /* row of the rotary table, or NULL */
    int32_t half;      /* pairs */
    bool neighbours;   /* pairs (2d, 2d + 1) */
    bool past_caches;  /* how the row is stored */
};

static bool none(const struct steps *s)
{
    return !s->norm && !s->turn;
}

static void make_row(const struct pkv__cpu_kernels *k, const pkv_tensor3 *src, int64_t token,
                     int32_t head, const struct steps *s, float *x)
{
    k->load_row[src->dtype](x, pkv__tensor_row(src, token, head), src->dim);
    if (s->norm) k->norm_row(x, s->norm, src->dim, s->eps);
    if (s->turn && s->neighbours) k->rotate_neighbours(x, s->turn, s->half);
    if (s->turn && !s->neighbours) k->rotate_halves(x, s->turn, s->half);
}

/* Rows of floats or codes pass through here on their way past the caches. */
struct staged {
    _Alignas(PKV_CACHE_LINE) char bytes[PKV__MAX_DIM * sizeof(float)];
};

static void put(const struct pkv__cpu_kernels *k, const struct steps *s, void *out, const void *in,
                size_t bytes)
{
    if (s->past_caches) k->stream(out, in, bytes);
    else k->copy(out, in, bytes);
}

/* All heads of a token to rows of f32, f16 or bf16, `head_bytes` apart. */
static void write_floats(const struct pkv__cpu_kernels *k, const pkv_tensor3 *src, int64_t token,
                         const struct steps *s, pkv_dtype to, char *out, int64_t head_bytes)
{
    const size_t bytes = (size_t)src->dim * (size_t)pkv__elem_bytes(to);
    _Alignas(PKV_CACHE_LINE) float x[PKV__MAX_DIM];
    struct staged staged;
    for (int32_t h = 0; h < src->n_heads; h++, out += head_bytes) {
        if (none(s) && src->dtype == to) { /* bits pass, NaN included */
            const void *in = pkv__tensor_row(src, token, h);
            if (in != out) put(k, s, out, in, bytes);
            continue;
        }
        make_row(k, src, token, h, s, x);
        k->store_row[to](s->past_caches ? staged.bytes : out, x, src->dim);
        if (s->past_caches) k->stream(out, staged.bytes, bytes);
    }
}

struct extremes {
    float lo, hi;
};

static float larger(float a, float b)
{
    return a > b ? a : b;
}

/* Scale and zero point for values between the extremes; without a finite value these are 0. */
static void choose_scale(pkv_dtype dtype, struct extremes e, float *s, float *z)
{
    const float least = 0x1p-126f;
    if (e.lo > e.hi) e.lo = e.hi = 0.f;
    *z = 0.f;
    if (dtype == PKV_U4) {
        const float hi = e.hi / 15.f, lo = e.lo / 15.f;
        *s = hi == lo ? 1.f : larger(hi - lo, least);
        *z = -e.lo / *s;
        return;
    }
    const float amax = larger(-e.lo, e.hi);
    *s = amax == 0.f ? 1.f : larger(amax / (dtype == PKV_I8 ? 127.f : 448.f), least);
}

/* Where a token goes. */
struct place {
    int64_t block, offset;
};

/* One scale for all heads of a token: their extremes first, which costs a second look at the rows.
 */
static struct extremes token_extremes(const struct pkv__cpu_kernels *k, const pkv_tensor3 *src,
                                      int64_t token, const struct steps *s)
{
    struct extremes e = { INFINITY, -INFINITY };
    _Alignas(PKV_CACHE_LINE) float x[PKV__MAX_DIM];
    for (int32_t h = 0; h < src->n_heads; h++) {
        make_row(k, src, token, h, s, x);
        k->extremes_row(x, src->dim, &e.lo, &e.hi);
    }
    return e;
}

/* All heads of a token to codes. Whether a NaN was met that the code cannot hold. */
static bool write_codes(const struct pkv__cpu_kernels *k, const pkv_tensor3 *src, int64_t token,
                        const struct steps *s, const pkv_kv_view *view, struct place to)
{
    const bool computed = pkv__scales_computed(view), per_head = view->scales.head_stride != 0;
    const size_t bytes = (size_t)(src->dim * pkv__elem_bits(view->dtype) / 8);
    _Alignas(PKV_CACHE_LINE) float x[PKV__MAX_DIM];
    float scale = 1.f, zero = 0.f;
    struct staged staged;
    bool nan = false;
    if (computed && !per_head)
        choose_scale(view->dtype, token_extremes(k, src, token, s), &scale, &zero);
    for (int32_t h = 0; h < src->n_heads; h++) {
        make_row(k, src, token, h, s, x);
        if (computed && per_head) {
            struct extremes e = { INFINITY, -INFINITY };
            k->extremes_row(x, src->dim, &e.lo, &e.hi);
            choose_scale(view->dtype, e, &scale, &zero);
        }
        if (computed) {
            *pkv__scale_place(&view->scales, to.block, to.offset, h) = scale;
            if (view->dtype == PKV_U4)
                *pkv__scale_place(&view->zeros, to.block, to.offset, h) = zero;
        } else {
            scale = pkv__scale_at(&view->scales, 1.f, to.block, to.offset, h);
            zero = pkv__scale_at(&view->zeros, 0.f, to.block, to.offset, h);
        }
        void *out = pkv__view_row(view, to.block, to.offset, h);
        nan |= k->quantize_row[view->dtype - PKV_E4M3](s->past_caches ? staged.bytes : out, x,
                                                       src->dim, scale, zero);
        if (s->past_caches) k->stream(out, staged.bytes, bytes);
    }
    return nan;
}

static bool write_slot(const struct pkv__cpu_kernels *k, const pkv_tensor3 *src, int64_t token,
                       const struct steps *s, const pkv_kv_view *view, struct place to)
{
    if (view->dtype > PKV_BF16) return write_codes(k, src, token, s, view, to);
    write_floats(k, src, token, s, view->dtype, pkv__view_row(view, to.block, to.offset, 0),
                 view->head_stride * pkv__elem_bytes(view->dtype));
    return false;
}

static void write_token(const struct write *w, int64_t token, uint32_t bad[4])
{
    const pkv_kv_write_args *a = w->a;
    const struct pkv__cpu_kernels *k = &w->be->kernels;
    const int64_t bt = a->k_view->block_tokens, end = a->k_view->n_blocks * bt;
    const int64_t slot = a->slots[token];
    struct steps s = { .eps = a->norm_eps,
                       .half = a->rot_dim / 2,
                       .neighbours = a->rope_interleaved };
    if (slot < 0 && !a->q) return;
    if (a->rope) {
        const int32_t pos = a->pos[token];
        if ((uint32_t)pos >= (uint32_t)a->n_rope_pos) {
            pkv__note_slot(bad, PKV_BAD_POSITION, token, slot);
            return;
        }
        s.turn = a->rope + (int64_t)pos * a->rot_dim;
    }
    if (a->q) {
        s.norm = a->q_norm;
        write_floats(k, a->q, token, &s, a->q_out->dtype, pkv__tensor_row(a->q_out, token, 0),
                     a->q_out->head_stride * pkv__elem_bytes(a->q_out->dtype));
    }
    if (slot < 0) return;
    if (slot < bt || slot >= end) { /* the null block stays zero */
        pkv__note_slot(bad, PKV_BAD_SLOT, token, slot);
        return;
    }
    const struct place to = { slot / bt, slot % bt };
    s.norm = a->k_norm;
    s.past_caches = w->past_caches;
    bool nan = write_slot(k, a->k, token, &s, a->k_view, to);
    const struct steps as_it_is = { .past_caches = w->past_caches };
    if (a->v) nan |= write_slot(k, a->v, token, &as_it_is, a->v_view, to);
    if (nan) pkv__note_slot(bad, PKV_BAD_NAN_CODE, token, slot);
}

static void write_share(void *ctx, int32_t task)
{
    struct write *w = ctx;
    const struct pkv__share tokens = pkv__move_share(w->n_tokens, w->n_tasks, task);
    for (int64_t t = tokens.lo; t < tokens.hi; t++) write_token(w, t, w->bad[task]);
    if (w->past_caches) w->be->kernels.stream_end();
}

static size_t row_elems(const pkv_tensor3 *t)
{
    return t ? (size_t)t->n_heads * (size_t)t->dim : 0;
}

static int64_t valid_tokens(const pkv_kv_write_args *a)
{
    if (!a->n_valid || *a->n_valid >= a->k->n_rows) return a->k->n_rows;
    return pkv__max_i32(*a->n_valid, 0);
}

pkv_status pkv_kv_write(pkv_backend *be, const pkv_kv_write_args *args, void *stream)
{
    if (!be) return PKV_E_INVALID_ARG;
    const pkv_status status = pkv__check_kv_write(&be->log, args);
    if (status != PKV_OK) return status;

    if (be->device) return be->device->kv_write(be, args, stream);
    struct write w = { .be = be, .a = args, .n_tokens = valid_tokens(args) };
    const size_t n_kv = (size_t)w.n_tokens * (row_elems(args->k) + row_elems(args->v));
    const size_t n_q = (size_t)w.n_tokens * row_elems(args->q);
    w.n_tasks = pkv__move_tasks(be, (n_kv + n_q) * sizeof(float)); /* read and written, roughly */
    w.past_caches = pkv__past_caches(n_kv * (size_t)pkv__elem_bits(args->k_view->dtype) / 8);
    pkv__parallel(be->threads, w.n_tasks, write_share, &w);

    uint32_t bad[4] = { 0, 0, 0, 0 };
    for (int32_t t = 0; t < w.n_tasks; t++) pkv__merge_bad(bad, w.bad[t]);
    pkv__report_bad(args->bad, bad);
    if (!(bad[0] & ~PKV_BAD_NAN_CODE)) return PKV_OK;
    return pkv__refuse(&be->log, PKV_E_INVALID_ARG,
                       "kv_write: bits %#x; first token %u, slot %u: slots are of blocks 1 to %d, "
                       "positions below %d",
                       (unsigned)bad[0], (unsigned)bad[2], (unsigned)bad[3],
                       args->k_view->n_blocks - 1, args->n_rope_pos);
}
