/* oneDNN's matmul through its C interface of version 2 (version 3 has no *_desc_init).
 *
 *   x [m][k] f32 -> src [m][k] bf16       f32 times bf16 it does not have
 *   W [n][k] bf16 as {k, n} of strides {1, k}, no copy
 *   y [m][n] f32, added to with a post-operation
 *
 * A number of rows that is open until the product runs would be slow, and one primitive for every
 * number too many: rows go in pieces of powers of two, for which primitives are kept. */
#include "model/gemm_dnnl.h"

#include "common/number_format.h"

#include <oneapi/dnnl/dnnl.h>

#include <omp.h>

#define MAX_PIECE 512
#define MAX_KEPT 96 /* six shapes of W, six numbers of rows, some added */

typedef struct kept {
    int32_t m, n, k;
    bool add;
    dnnl_primitive_t primitive;
    dnnl_memory_t src, weights, dst;
} kept;

struct pkv__dnnl {
    int32_t max_m, max_k, n_kept, n_threads;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    kept kept[MAX_KEPT];
    pkv_allocator alloc;
    size_t bytes;
    uint16_t src[]; /* [max_m][max_k] */
};

static void drop(kept *e)
{
    if (e->primitive) dnnl_primitive_destroy(e->primitive);
    if (e->src) dnnl_memory_destroy(e->src);
    if (e->weights) dnnl_memory_destroy(e->weights);
    if (e->dst) dnnl_memory_destroy(e->dst);
}

static bool make_primitive(const struct pkv__dnnl *d, kept *e, const dnnl_memory_desc_t *src,
                           const dnnl_memory_desc_t *weights, const dnnl_memory_desc_t *dst)
{
    dnnl_matmul_desc_t matmul;
    dnnl_primitive_desc_t desc = NULL;
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    bool ok = dnnl_matmul_desc_init(&matmul, src, weights, NULL, dst) == dnnl_success &&
              dnnl_primitive_attr_create(&attr) == dnnl_success &&
              dnnl_post_ops_create(&ops) == dnnl_success &&
              (!e->add || dnnl_post_ops_append_sum(ops, 1.f) == dnnl_success) &&
              dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success &&
              dnnl_primitive_desc_create(&desc, &matmul, attr, d->engine, NULL) == dnnl_success;
    ok = ok && dnnl_primitive_create(&e->primitive, desc) == dnnl_success;
    if (desc) dnnl_primitive_desc_destroy(desc);
    if (ops) dnnl_post_ops_destroy(ops);
    if (attr) dnnl_primitive_attr_destroy(attr);
    return ok;
}

static bool make(const struct pkv__dnnl *d, kept *e)
{
    const dnnl_dims_t src_dims = { e->m, e->k }, w_dims = { e->k, e->n }, dst_dims = { e->m, e->n };
    const dnnl_dims_t w_strides = { 1, e->k };
    dnnl_memory_desc_t src, weights, dst;
    return dnnl_memory_desc_init_by_tag(&src, 2, src_dims, dnnl_bf16, dnnl_ab) == dnnl_success &&
           dnnl_memory_desc_init_by_strides(&weights, 2, w_dims, dnnl_bf16, w_strides) ==
               dnnl_success &&
           dnnl_memory_desc_init_by_tag(&dst, 2, dst_dims, dnnl_f32, dnnl_ab) == dnnl_success &&
           make_primitive(d, e, &src, &weights, &dst) &&
           dnnl_memory_create(&e->src, &src, d->engine, DNNL_MEMORY_NONE) == dnnl_success &&
           dnnl_memory_create(&e->weights, &weights, d->engine, DNNL_MEMORY_NONE) == dnnl_success &&
           dnnl_memory_create(&e->dst, &dst, d->engine, DNNL_MEMORY_NONE) == dnnl_success;
}

static kept *find(struct pkv__dnnl *d, int32_t m, int32_t n, int32_t k, bool add)
{
    for (int32_t i = 0; i < d->n_kept; i++) {
        kept *e = &d->kept[i];
        if (e->m == m && e->n == n && e->k == k && e->add == add) return e;
    }
    if (d->n_kept == MAX_KEPT) return NULL;
    kept *e = &d->kept[d->n_kept];
    *e = (kept){ m, n, k, add, NULL, NULL, NULL, NULL };
    if (make(d, e)) {
        d->n_kept++;
        return e;
    }
    drop(e);
    return NULL;
}

pkv_status pkv__dnnl_create(int32_t max_m, int32_t max_k, bool alone, const pkv_allocator *alloc,
                            struct pkv__dnnl **out)
{
    const int32_t rows = pkv__min_i32(max_m, MAX_PIECE);
    const size_t bytes = sizeof(struct pkv__dnnl) + (size_t)rows * (size_t)max_k * 2;
    struct pkv__dnnl *d = pkv__alloc(alloc, bytes, 64);
    if (!d) return PKV_E_NO_MEMORY;
    *d = (struct pkv__dnnl){ .max_m = rows, .max_k = max_k, .alloc = *alloc, .bytes = bytes };
    d->n_threads = alone ? 1 : omp_get_max_threads();
    if (dnnl_engine_create(&d->engine, dnnl_cpu, 0) == dnnl_success &&
        dnnl_stream_create(&d->stream, d->engine, dnnl_stream_default_flags) == dnnl_success &&
        find(d, PKV__DNNL_LEAST_M, 64, 64, false)) {
        *out = d;
        return PKV_OK;
    }
    pkv__dnnl_destroy(d);
    return PKV_E_UNSUPPORTED;
}

void pkv__dnnl_destroy(struct pkv__dnnl *d)
{
    if (!d) return;
    for (int32_t i = 0; i < d->n_kept; i++) drop(&d->kept[i]);
    if (d->stream) dnnl_stream_destroy(d->stream);
    if (d->engine) dnnl_engine_destroy(d->engine);
    const pkv_allocator alloc = d->alloc;
    pkv__free(&alloc, d, d->bytes);
}

/* The largest power of two of rows that is wanted and has room. */
static int32_t next_piece(const struct pkv__dnnl *d, int32_t left)
{
    int32_t piece = PKV__DNNL_LEAST_M;
    while (2 * piece <= left && 2 * piece <= d->max_m) piece *= 2;
    return piece;
}

static bool run_piece(struct pkv__dnnl *d, kept *e, const float *x, int64_t ldx, const void *w,
                      float *y)
{
    for (int32_t i = 0; i < e->m; i++)
        for (int32_t p = 0; p < e->k; p++)
            d->src[(int64_t)i * e->k + p] = pkv__f32_to_bf16(x[i * ldx + p]);
    union {
        const void *in;
        void *data;
    } weights = { w }; /* oneDNN takes no const, and only reads */
    if (dnnl_memory_set_data_handle(e->src, d->src) != dnnl_success ||
        dnnl_memory_set_data_handle(e->weights, weights.data) != dnnl_success ||
        dnnl_memory_set_data_handle(e->dst, y) != dnnl_success)
        return false;
    const dnnl_exec_arg_t args[] = { { DNNL_ARG_SRC, e->src },
                                     { DNNL_ARG_WEIGHTS, e->weights },
                                     { DNNL_ARG_DST, e->dst } };
    omp_set_num_threads(d->n_threads);
    return dnnl_primitive_execute(e->primitive, d->stream, (int)PKV_ARRAY_LEN(args), args) ==
               dnnl_success &&
           dnnl_stream_wait(d->stream) == dnnl_success;
}

int32_t pkv__dnnl_gemm(struct pkv__dnnl *d, int32_t m, const float *x, int64_t ldx,
                       const pkv__matrix *w, float *y, int64_t ldy, bool add)
{
    int32_t done = 0;
    if (w->dtype != PKV_BF16 || ldy != w->n || w->k > d->max_k || d->max_m < PKV__DNNL_LEAST_M)
        return 0;
    while (m - done >= PKV__DNNL_LEAST_M) {
        kept *e = find(d, next_piece(d, m - done), w->n, w->k, add);
        if (!e || !run_piece(d, e, x + done * ldx, ldx, w->data, y + done * ldy)) break;
        done += e->m;
    }
    return done;
}
