/* What the cases of kv_write and kv_gather share: stores of every type and layout in hostile memory
 * with an image beside them, rows of tokens with cruel values, and backends to compare bits with.
 */
#ifndef PKV_KV_FIXTURE_H
#define PKV_KV_FIXTURE_H

#include "check_kernels.h"
#include "hostile_memory.h"
#include "oracle/oracle_formats.h"
#include "oracle/oracle_kv_write.h"
#include "oracle/oracle_numbers.h"

/* Memory and what it should hold in the end. */
struct twin {
    struct hostile mem, want;
};
/* Filled with random bytes, both alike. */
struct twin twin_create(struct rng *r, size_t bytes);
void twin_destroy(struct twin *t);
/* The place in the image of an address in the memory. */
unsigned char *twin_want(const struct twin *t, const void *at);

/* How often scales come: the strides of a view of scales that are 0. */
enum kv_scales {
    SCALES_ABSENT,
    SCALES_TENSOR,     /* one */
    SCALES_HEAD,       /* per head */
    SCALES_BLOCK_HEAD, /* per block and head */
    SCALES_TOKEN,      /* per token; here and below kv_write computes them */
    SCALES_TOKEN_HEAD, /* per token and head */
    SCALES_N
};

/* A store of K and V. Regions: 0 and 1 codes of K and V (1 unused if one pool holds both), 2 + 2 i
 * and 3 + 2 i scales and zero points of view i where they lie apart. */
struct kv_stores {
    pkv_kv_view views[2]; /* K and V */
    struct twin twins[6];
    enum kv_scales scales[2];
    int n_views;
};
/* Dims, heads, blocks, layout and scales at random; `dtype` of K and mostly of V. Given scales and
 * zero points are small powers of two times something near 1. `large`: rows of more than 512 KiB,
 * from where moves are shared among tasks and stored past the caches. */
void kv_draw_stores(struct check *c, struct kv_stores *s, pkv_dtype dtype, bool large);
void kv_destroy_stores(struct kv_stores *s);
/* Numbers in every scale and zero point, cruel ones included, as if all were given. */
void kv_give_scales(struct check *c, struct kv_stores *s);
/* The region that an address lies in. */
const struct twin *kv_twin_of(const struct kv_stores *s, const void *at);
/* Memory and image agree everywhere, and nobody wrote in front. */
void kv_compare_stores(struct check *c, const struct kv_stores *s);

/* The place of a row of codes in a view: its index in elements, and its address. */
int64_t kv_row_at(const pkv_kv_view *v, int64_t slot, int32_t head);
unsigned char *kv_row(const pkv_kv_view *v, int64_t slot, int32_t head);
/* Address of a scale or zero point; NULL if absent. */
float *kv_scale(const pkv_scales *s, const pkv_kv_view *v, int64_t slot, int32_t head);

/* Rows [n_tokens][n_heads][dim], padded at random, the rest 0xff; not locked. `moderate`: finite,
 * far from the ends of the range, as a norm needs them. */
struct kv_rows {
    pkv_tensor3 t;
    struct hostile mem;
};
void kv_draw_rows(struct check *c, struct kv_rows *rows, pkv_dtype dtype, int32_t n_tokens,
                  int32_t n_heads, int32_t dim, bool moderate);
double kv_row_value(const pkv_tensor3 *t, int64_t row, int32_t head, int32_t d);
void *kv_tensor_row(const pkv_tensor3 *t, int64_t row, int32_t head);

/* A backend of the level, whose `n_tasks` tasks run one by one, the last first; 1: no threads. */
/* Of a device: on so many multiprocessors at most, and the launches in another order. */
pkv_backend *kv_backend(struct check *c, pkv_isa isa, int32_t n_tasks);
/* Other ways that have to leave the same bits: the scalar level, five tasks, three real threads. */
enum { KV_SCALAR, KV_TASKS, KV_THREADS, KV_N_WAYS };
pkv_backend *kv_elsewhere(struct check *c, int way);
const char *kv_way_name(int way);

#endif
