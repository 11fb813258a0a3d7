/* The list of items, cut into pieces of about equal cost. */
#ifndef PKV_ATTN_PIECES_H
#define PKV_ATTN_PIECES_H

#include "kernels/attn_items.h"

enum {
    /* Pieces are taken as tasks come free: four for each, so that a thread that is held up costs
     * the others a quarter of its share at most. */
    PKV__PIECES_PER_TASK = 4,
    /* Items for each task, at least, if the heads suffice: borders lie between items, so that a
     * share is wrong by up to one of 32. */
    PKV__ITEMS_PER_TASK = 32
};

struct pkv__attn_piece {
    struct pkv__attn_mark first; /* its first item */
    int64_t n_items;
    bool cut;    /* the first item belongs to a span that an earlier piece begins */
    bool opens;  /* cut, and no piece before it is cut within that span */
    size_t slot; /* if cut: where its states go, in floats; if it opens, the state of what lies
                    before goes right before that */
};

/* Cut the list of the walk into pieces[0 .. n), n <= n_tasks * PKV__PIECES_PER_TASK, and set its
 * head_groups. Spans are cut as long as `slots_floats` has room for their states. Returns n, >= 1;
 * 1 without looking at a single item if n_tasks is 1. */
int32_t pkv__attn_cut_pieces(struct pkv__attn_walk *w, int32_t n_tasks, size_t slots_floats,
                             struct pkv__attn_piece *pieces);

#endif
