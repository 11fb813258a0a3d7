/* Queries of an item: from q to shared memory in the type of the products, and on to fragments. */
#ifndef PKV_ATTN_DECODE_QUERIES_CUH
#define PKV_ATTN_DECODE_QUERIES_CUH

#include "kernels/cuda/attn_decode_shape.cuh"

/* One query by one warp, lane i elements 8 i .. 8 i + 7; zeros where there is none. */
template <class Shape>
PKV_DEV void pkv__stage_query(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                              pkv__column &column, unsigned char *to)
{
    using Product = typename Shape::Product;
    const int32_t piece = pkv_lane();
    const bool here = column.row >= 0 && piece * 8 < a.q.dim;
    uint4 bits = make_uint4(0, 0, 0, 0);
    if (here) {
        const int64_t at = (int64_t)(item.cut.row0 + column.row) * a.q.row_stride +
                           column.head * a.q.head_stride + piece * 8;
        bits = pkv_ldv_const<uint4>(static_cast<const uint16_t *>(a.q.data) + at);
    }
    int32_t shift = 0;
    if (PKV_P_BITS<Product> != 0 && a.q.dtype == PKV_BF16) {
        shift = pkv__half_shift(pkv_warp_max(pkv__largest_of(bits)));
        bits = pkv__halves_of(bits, pkv__pow2(shift));
    }
    if (piece * 8 < Shape::D) pkv_stv(to + piece * 16, bits);
    float sum = 0;
    if constexpr (Shape::Store::IS_CODES) {
        float x[8];
        pkv__unpack8<Product>(x, bits);
        PKV_UNROLL
        for (int32_t i = 0; i < 8; i++) sum += x[i];
        sum = pkv_warp_sum(sum);
    }
    if (piece > 0) return;
    column.factor = a.scale * pkv__pow2(-shift) * Shape::Store::unit();
    column.query_sum = sum;
}

/* What thread `c` finds out about column c. */
template <class Shape>
PKV_DEV void pkv__describe_column(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                                  int32_t c, pkv__column &column)
{
    column.row = -1;
    column.head = 0;
    column.slope = 0;
    if (c >= item.n_columns) return;
    const int64_t at = item.column0 + c;
    column.row = (int32_t)(at / a.group);
    column.head = item.kv_head * a.group + (int32_t)(at % a.group);
    if (a.opts.alibi) column.slope = a.opts.alibi[column.head];
}

/* All threads; ends with a barrier. */
template <class Shape>
PKV_DEV void pkv__stage_queries(const struct pkv__cuda_attn &a, const pkv__decode_item &item,
                                unsigned char *shared)
{
    pkv__column *columns = reinterpret_cast<pkv__column *>(shared + Shape::COLUMNS_AT);
    if (pkv_thread() < Shape::COLUMNS)
        pkv__describe_column<Shape>(a, item, pkv_thread(), columns[pkv_thread()]);
    pkv_syncthreads();
    for (int32_t c = pkv_warp(); c < Shape::COLUMNS; c += Shape::WARPS)
        pkv__stage_query<Shape>(a, item, columns[c],
                                shared + Shape::QUERIES_AT + c * Shape::Q_PITCH * 2);
    pkv_syncthreads();
}

/* Fragment f of the products along dims, B operand of columns 8 n ..: by the type of K, which has
 * its own order of dims. */
template <class Shape>
PKV_DEV void pkv__load_queries(uint32_t (&q)[Shape::NT][Shape::N_FRAGS][2],
                               const unsigned char *shared)
{
    using Store = typename Shape::Store;
    const int32_t g = pkv_lane() / 4, t = pkv_lane() % 4;
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        const unsigned char *query = shared + Shape::QUERIES_AT + (8 * n + g) * Shape::Q_PITCH * 2;
        PKV_UNROLL
        for (int32_t f = 0; f < Shape::N_FRAGS; f++) {
            const int32_t step = f / Store::N_FRAGS * Store::STEP_DIMS, frag = f % Store::N_FRAGS;
            PKV_UNROLL
            for (int32_t b = 0; b < 2; b++) {
                const int32_t lo = step + Store::k_dim(frag, 2 * t + 8 * b);
                const int32_t hi = step + Store::k_dim(frag, 2 * t + 8 * b + 1);
                q[n][f][b] = Store::BITS > 4
                                 ? pkv_ldv<uint32_t>(query + 2 * lo)
                                 : pkv_ldv<uint16_t>(query + 2 * lo) |
                                       (uint32_t)pkv_ldv<uint16_t>(query + 2 * hi) << 16;
            }
        }
    }
}

/* A lane's columns, 8 n + 2 t + e. Where logits are products times a positive number, the state has
 * the products until the end. Codes have scales in between. */
template <class Shape> struct pkv__lane_columns {
    float factor[Shape::NT][2];    /* from products to the state's logits */
    float by[Shape::NT][2];        /* from these to exponents of two */
    float query_sum[Shape::NT][2]; /* read for types with zero points alone */
};
/* Of scales far from 1 a logit may be out of range where its product is not, or the other way
 * round. */
template <class Shape> PKV_DEV bool pkv__keeps_products(const struct pkv__cuda_attn &a)
{
    return !Shape::Store::IS_CODES && !a.opts.alibi && !(a.opts.softcap > 0) &&
           a.scale > 0x1p-64f && a.scale < 0x1p64f;
}
/* Exponents of products: not by 0, where a difference of -inf would become NaN. */
template <class Shape>
PKV_DEV void pkv__load_columns(pkv__lane_columns<Shape> &to, const struct pkv__cuda_attn &a,
                               const unsigned char *shared)
{
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    const bool products = pkv__keeps_products<Shape>(a);
    PKV_UNROLL
    for (int32_t n = 0; n < Shape::NT; n++) {
        PKV_UNROLL
        for (int32_t e = 0; e < 2; e++) {
            const pkv__column &c = columns[8 * n + pkv_lane() % 4 * 2 + e];
            to.factor[n][e] = products ? 1 : c.factor;
            to.by[n][e] = products ? fminf(fmaxf(c.factor * PKV_LOG2E, 0x1p-149f), -PKV__NO_LOGIT)
                                   : PKV_LOG2E;
            to.query_sum[n][e] = c.query_sum;
        }
    }
}
/* At the end: the state's maxima become logits. */
template <class Shape>
PKV_DEV void pkv__to_logits(pkv__decode_state<Shape> &state, const struct pkv__cuda_attn &a,
                            const unsigned char *shared)
{
    const pkv__column *columns = reinterpret_cast<const pkv__column *>(shared + Shape::COLUMNS_AT);
    if (!pkv__keeps_products<Shape>(a)) return;
    PKV_UNROLL
    for (int32_t i = 0; i < 2 * Shape::NT; i++)
        state.m[i / 2][i % 2] *= columns[8 * (i / 2) + pkv_lane() % 4 * 2 + i % 2].factor;
}

#endif
