/* An attention problem as bytes: blocks somewhere in a pool, tables, strides, padding, guards.
 * Whatever the kernels may not read is hostile: NaN or infinity in K, V and q, INT_MIN in tables,
 * no access behind each array. One problem has many instances, all with the same result. */
#ifndef PKV_ATTN_INSTANCE_H
#define PKV_ATTN_INSTANCE_H

#include "attn_problem.h"
#include "hostile_memory.h"

enum attn_table { TABLE_DENSE, TABLE_CSR, TABLE_NONE, TABLE_N }; /* NONE: the contiguous entry */
enum attn_order { ORDER_CANONICAL, ORDER_NHD, ORDER_HND, ORDER_LAYERED, ORDER_N };

struct attn_layout {
    enum attn_table table;
    enum attn_order order, v_order; /* K and V need not agree; canonical holds both in one pool */
    int32_t extra_blocks, extra_ids, pad_rows; /* blocks and ids nobody needs; rows of nobody */
    bool transposed;                           /* q, out, lse as [head][row] */
    bool padded;                               /* more between rows than needed */
    bool open; /* K and V of unseen keys may be read: a damaged table brings them in sight */
    bool raw_workspace; /* of a device: never initialised, so that sequences are not shared out */
    bool full_scales;   /* a scale per block, token and head, whatever they depend on */
    unsigned char fill;
};

struct attn_instance {
    const struct attn_problem *problem;
    struct attn_layout layout;
    struct hostile mem[24];
    int n_mem;
    int32_t *block_ids[ATTN_MAX_SEQS]; /* [blocks of the sequence]; owned */
    pkv_tensor3 q, q_rope, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse;
    int32_t *table, *table_indptr, *kv_len, *q_indptr; /* what batch points to, to be damaged */
    void *workspace;
    size_t workspace_bytes;
    uint32_t *bad; /* [4] */
};

struct attn_layout attn_draw_layout(struct check *c);
/* Build with `layout`; which physical blocks are used is drawn from c->rng. Unlocked. */
void attn_build(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
                struct attn_instance *inst);
void attn_destroy(struct attn_instance *inst);
/* Is what `bad` names really wrong, in a way that bad[0] tells of? */
bool attn_offends(const struct attn_instance *inst);

/* Memory of the instance, full of `fill`; `bytes` is rounded up to 16. Exactly n floats. */
void *attn_take(struct attn_instance *inst, int64_t bytes, unsigned char fill);
float *attn_take_floats(struct attn_instance *inst, int64_t n);
/* Memory and strides of K, V and their numbers; dims, n_blocks and block_tokens are set. */
void attn_place_kv(struct attn_instance *inst);
/* Write the keys that some row sees, and nothing else: also their scales and zero points. `used[e]`
 * says which entries of the table matter. */
void attn_write_keys(struct attn_instance *inst, int32_t b, bool *used);
/* One row of K or V; `src` NULL: all zero. */
void attn_put_row(const pkv_kv_view *v, int32_t block, int32_t token, int32_t head,
                  const float *src);
/* Block 0 all zero, as a store has it. */
void attn_zero_null_block(struct attn_instance *inst);
int32_t attn_blocks_of(const struct attn_problem *p, int32_t b);

/* Who takes each sequence; fails if a kernel of the level asked for exists and is not chosen.
 * Counts what is covered. */
void attn_routes(struct check *c, const struct attn_instance *inst, struct attn_route *routes);
/* Fresh outputs, run, check guards and gaps, collect. The status is returned and not judged; what a
 * device has no kernel for ends the run. */
pkv_status attn_call(struct check *c, struct attn_instance *inst, struct attn_result *result);
/* All of it, expecting PKV_OK, with a layout of its own: build, run, judge, destroy. */
void attn_try(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
              struct attn_result *result);

#endif
