/* The work of one call of attention as a list of items, in an order that depends on the batch
 * alone.
 *
 *   sequence 0            sequence 1 ...
 *   heads 0-3  heads 4-7                            spans: what one run of states belongs to
 *   c0 c1 c2   c0 c1 c2                             items: here chunks of keys
 *
 * An item is what a kernel is called for once. In a span of a chunk kernel the items are chunks of
 * keys, whose states are folded into one; in a span of a whole kernel they are tiles of rows, each
 * finished in itself. The list is never stored: a walk makes the items one after the other, and may
 * start at any place that an earlier walk has noted. */
#ifndef PKV_ATTN_ITEMS_H
#define PKV_ATTN_ITEMS_H

#include "kernels/kernels_internal.h"

/* A place in the list. */
struct pkv__attn_mark {
    int32_t seq;      /* n_seqs: behind the last item */
    int32_t next_row; /* rows below it belong to earlier sequences */
    int32_t kv_head;  /* first one of the span */
    int32_t part;     /* item of the span */
};

/* How fine the items are; changes no bit of a result. */
struct pkv__attn_grain {
    int32_t head_groups; /* spans that the heads of a sequence are cut into, where that can be */
    uint64_t tile_cost;  /* tiles that cost more get fewer rows, down to a limit; 0: no limit */
};

struct pkv__attn_walk {
    /* Of the whole list. */
    const struct pkv__attn_call *call;
    const struct pkv__cpu_kernels *kernels;
    const struct pkv__attn_kernel *only; /* of every sequence; NULL: pkv__attn_choose */
    struct pkv__attn_grain grain;
    /* Of the current sequence. */
    const struct pkv__attn_kernel *kernel;
    struct pkv__key_range hull; /* no row of the sequence sees a key outside */
    int32_t span_heads, n_parts, part_rows;
    int32_t after; /* next_row of the sequence behind it */
    /* The current item. */
    struct pkv__attn_mark at;
    struct pkv__attn_unit unit; /* all but its state */
};

/* States (rows x query heads) of a unit of a chunk kernel, at most. */
int32_t pkv__attn_unit_states(int32_t n_q_heads, int32_t n_kv_heads);

/* Start at a place; at {0} for the first item. */
void pkv__attn_walk_to(struct pkv__attn_walk *w, struct pkv__attn_mark at);
void pkv__attn_walk_next(struct pkv__attn_walk *w);
static inline bool pkv__attn_walk_done(const struct pkv__attn_walk *w)
{
    return w->at.seq >= w->call->batch->n_seqs;
}

/* Do the items of this span fold into one state? */
static inline bool pkv__attn_walk_folds(const struct pkv__attn_walk *w)
{
    return w->kernel->kind == PKV__CHUNK;
}
static inline int32_t pkv__attn_walk_states(const struct pkv__attn_walk *w)
{
    return (w->unit.row_hi - w->unit.row_lo) * w->unit.n_kv_heads * w->call->group;
}
/* Time of the item, in no unit: what matters are ratios. */
uint64_t pkv__attn_walk_cost(const struct pkv__attn_walk *w);

#endif
