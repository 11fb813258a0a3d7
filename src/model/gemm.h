/* Matrix products of the model: y = x W^T, W as files store it, [out, in] row-major.
 *
 * Fixed order of additions, the same at every level: output element (m, n) is 16 partial sums,
 * partial sum j over the k with k % 16 = j in ascending order, each step one fused multiply-add in
 * float32, starting from 0; then s[j] += s[j + 8] for j < 8, s[j] += s[j + 4] for j < 4,
 * s[0] += s[2], s[1] += s[3], s[0] + s[1]. The order depends on K alone, not on M, on threads or
 * on tiles: a row has the same bits alone and in any batch, and scalar, AVX2, AVX-512 and NEON
 * agree bit for bit. bf16 weights are widened, which is exact, and then follow the same order. */
#ifndef PKV_MODEL_GEMM_H
#define PKV_MODEL_GEMM_H

#include "common/common.h"
#include "pagedkv/backend.h"

struct pkv__threads;

/* W: [n][k] elements of `dtype` (PKV_F32 or PKV_BF16), row r at data + r * k elements; aligned to
 * one element, fastest at 64 bytes; k is any number >= 1. Read only. */
typedef struct pkv__matrix {
    const void *data;
    pkv_dtype dtype;
    int32_t n, k;
} pkv__matrix;

/* One level's kernels: rows [0, m) of x and rows [n0, n1) of W, y[i * ldy + r] for r in n0 .. n1-1.
 * With `add` the product is added to what y holds, in float32, once. */
typedef struct pkv__gemm_ops {
    const char *name; /* "scalar", "avx2", ... */
    void (*f32)(int32_t m, int32_t n0, int32_t n1, int32_t k, const float *x, int64_t ldx,
                const float *w, float *y, int64_t ldy, bool add);
    void (*bf16)(int32_t m, int32_t n0, int32_t n1, int32_t k, const float *x, int64_t ldx,
                 const uint16_t *w, float *y, int64_t ldy, bool add);
} pkv__gemm_ops;

/* Kernels for many rows of x in an order of their own: as fast as they go, outside the promise
 * above. They take rows of x and rows of W in multiples of `rows` and `cols`, and k in multiples of
 * `k_step`; from `least_m` rows of x on they are faster than the others. */
typedef struct pkv__gemm_packed {
    void (*run)(int32_t m, int32_t n0, int32_t n1, int32_t k, const float *x, int64_t ldx,
                const void *w, float *y, int64_t ldy, bool add); /* NULL: there is none */
    int32_t rows, cols, k_step, least_m;
} pkv__gemm_packed;

typedef struct pkv__gemm_fast_ops {
    const pkv__gemm_ops *exact; /* for what the others do not take */
    pkv__gemm_packed f32, bf16;
} pkv__gemm_fast_ops;

/* The kernels of a level: PKV_ISA_BEST or one that pkv_isa_check accepts (avx512bf16 and amx have
 * those of avx512: the promise above leaves them nothing else). NULL: not on this machine. */
const pkv__gemm_ops *pkv__gemm_find(pkv_isa isa);

/* y[m][n] = x[m][k] W^T (+ y with `add`), cut over rows of W (and of x when m is large) among the
 * threads; NULL: the calling thread. Nothing is allocated. x and y do not overlap. */
void pkv__gemm(const pkv__gemm_ops *ops, struct pkv__threads *threads, int32_t m, const float *x,
               int64_t ldx, const pkv__matrix *w, float *y, int64_t ldy, bool add);

/* The same with other bits, faster for many rows of x. Products of bf16 weights may round x to
 * bf16. A row's bits depend on m. */
bool pkv__gemm_find_fast(pkv_isa isa, pkv__gemm_fast_ops *out); /* false: not on this machine */
void pkv__gemm_fast(const pkv__gemm_fast_ops *ops, struct pkv__threads *threads, int32_t m,
                    const float *x, int64_t ldx, const pkv__matrix *w, float *y, int64_t ldy,
                    bool add);

#endif
