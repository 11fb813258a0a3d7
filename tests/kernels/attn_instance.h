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
    unsigned char fill;
};

struct attn_instance {
    const struct attn_problem *problem;
    struct attn_layout layout;
    struct hostile mem[16];
    int n_mem;
    int32_t *block_ids[ATTN_MAX_SEQS]; /* [blocks of the sequence]; owned */
    pkv_tensor3 q, out;
    pkv_kv_view k, v;
    pkv_attn_batch batch;
    pkv_attn_opts opts;
    pkv_lse lse;
    int32_t *table, *table_indptr, *kv_len, *q_indptr; /* what batch points to, to be damaged */
    void *workspace;
    size_t workspace_bytes;
    uint32_t bad[4];
};

struct attn_layout attn_draw_layout(struct check *c);
/* Build with `layout`; which physical blocks are used is drawn from c->rng. Unlocked. */
void attn_build(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
                struct attn_instance *inst);
void attn_destroy(struct attn_instance *inst);

/* Which sequences vector decode kernels take; fails if the level asked for is not the one chosen.
 */
void attn_levels(struct check *c, const struct attn_instance *inst, bool *decode);
/* Fresh outputs, run, check guards and gaps, collect. The status is returned and not judged. */
pkv_status attn_call(struct check *c, struct attn_instance *inst, struct attn_result *result);
/* All of it, expecting PKV_OK, with a layout of its own: build, run, judge, destroy. */
void attn_try(struct check *c, const struct attn_problem *p, const struct attn_layout *layout,
              struct attn_result *result);

#endif
